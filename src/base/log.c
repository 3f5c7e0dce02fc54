#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"

#include "base/banned.h"

enum { MAX_COMPONENTS = 32, COMPONENT_SIZE = 32, LINE_SIZE = 4096 };

typedef struct {
    char name[COMPONENT_SIZE];
    od_log_level level;
} component_level;

typedef struct {
    od_log_level fallback; /* of components that are not listed */
    od_log_level highest;
    int count;
    component_level components[MAX_COMPONENTS];
} log_levels;

/* lock guards levels, sink and sink_arg. It is held for reading while the sink runs, so that od_log_set_sink returns
 * only when nobody uses the old sink any more; a sink may log, because a reader may read again. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static log_levels levels = {.fallback = OD_LOG_INFO, .highest = OD_LOG_INFO};
static od_log_sink sink;
static void *sink_arg;
/* A copy of levels.highest: lines that nobody wants cost one load. */
static atomic_int highest = OD_LOG_INFO;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static bool level_parse(od_slice text, od_log_level *out)
{
    for (int i = OD_LOG_ERROR; i <= OD_LOG_DEBUG; i++) {
        if (od_slice_equal(text, od_slice_str(level_names[i]))) {
            *out = (od_log_level)i;
            return true;
        }
    }
    return false;
}

static bool component_valid(od_slice name)
{
    if (name.len == 0 || name.len >= COMPONENT_SIZE)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.'))
            return false;
    }
    return true;
}

static component_level *find_component(log_levels *in, od_slice name)
{
    for (int i = 0; i < in->count; i++) {
        if (od_slice_equal(name, od_slice_str(in->components[i].name)))
            return &in->components[i];
    }
    return NULL;
}

static od_slice trim(od_slice text)
{
    while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text.data++;
        text.len--;
    }
    while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* One part of the specification: "info" or "rpc=debug". */
static od_code add_part(log_levels *to, od_slice part, od_error *err)
{
    const uint8_t *equals = part.len ? memchr(part.data, '=', part.len) : NULL;
    od_slice value = part;
    od_slice name;
    component_level *component;
    od_log_level level;

    if (equals)
        value = trim(od_slice_of(equals + 1, part.len - (size_t)(equals + 1 - part.data)));
    if (!level_parse(value, &level))
        return od_fail(err, OD_E_INVALID, "'%.*s' is not a log level; allowed are error, warn, info and debug",
                       (int)(value.len > 64 ? 64 : value.len), value.len ? (const char *)value.data : "");
    if (!equals) {
        to->fallback = level;
        return OD_OK;
    }
    name = trim(od_slice_of(part.data, (size_t)(equals - part.data)));
    if (!component_valid(name))
        return od_fail(err, OD_E_INVALID, "'%.*s' is not the name of a log component",
                       (int)(name.len > 64 ? 64 : name.len), (const char *)name.data);
    component = find_component(to, name);
    if (!component) {
        if (to->count == MAX_COMPONENTS)
            return od_fail(err, OD_E_INVALID, "more than %d log components", MAX_COMPONENTS);
        component = &to->components[to->count++];
        memcpy(component->name, name.data, name.len);
    }
    component->level = level;
    return OD_OK;
}

od_code od_log_configure(const char *spec, od_error *err)
{
    log_levels next = {.fallback = OD_LOG_INFO};
    od_slice rest = od_slice_str(spec);
    bool more = true;

    while (more) {
        const uint8_t *comma = rest.len ? memchr(rest.data, ',', rest.len) : NULL;
        size_t len = comma ? (size_t)(comma - rest.data) : rest.len;
        od_code rc = add_part(&next, trim(od_slice_of(rest.data, len)), err);

        if (rc != OD_OK)
            return rc;
        more = comma != NULL;
        if (more)
            rest = od_slice_of(comma + 1, rest.len - len - 1);
    }
    next.highest = next.fallback;
    for (int i = 0; i < next.count; i++) {
        if (next.components[i].level > next.highest)
            next.highest = next.components[i].level;
    }
    pthread_rwlock_wrlock(&lock);
    levels = next;
    atomic_store_explicit(&highest, (int)next.highest, memory_order_relaxed);
    pthread_rwlock_unlock(&lock);
    return OD_OK;
}

void od_log_set_sink(od_log_sink new_sink, void *arg)
{
    pthread_rwlock_wrlock(&lock);
    sink = new_sink;
    sink_arg = new_sink ? arg : NULL;
    pthread_rwlock_unlock(&lock);
}

bool od_log_enabled(od_log_level level, const char *comp)
{
    const component_level *component;
    od_log_level wanted;

    if ((int)level > atomic_load_explicit(&highest, memory_order_relaxed))
        return false;
    pthread_rwlock_rdlock(&lock);
    component = find_component(&levels, od_slice_str(comp));
    wanted = component ? component->level : levels.fallback;
    pthread_rwlock_unlock(&lock);
    return level <= wanted;
}

/* A line of fixed size; what does not fit is dropped. */
typedef struct {
    size_t len;
    char text[LINE_SIZE];
} log_line;

static void line_addv(log_line *line, const char *fmt, va_list args) OD_PRINTF(2, 0);
static void line_add(log_line *line, const char *fmt, ...) OD_PRINTF(2, 3);

static void line_addv(log_line *line, const char *fmt, va_list args)
{
    size_t room = sizeof line->text - line->len;
    int n = vsnprintf(line->text + line->len, room, fmt, args);

    if (n > 0)
        line->len += (size_t)n < room ? (size_t)n : room - 1;
}

static void line_add(log_line *line, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    line_addv(line, fmt, args);
    va_end(args);
}

/* A line stays one line: whoever can put a line break into a value must not be able to forge an entry. */
static void line_flatten(log_line *line, size_t from)
{
    for (size_t i = from; i < line->len; i++) {
        unsigned char c = (unsigned char)line->text[i];

        if (c < 0x20 || c == 0x7F)
            line->text[i] = ' ';
    }
}

static void add_time(log_line *line)
{
    struct timespec now;
    struct tm utc;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    line_add(line, "ts=%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
             utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000);
}

static void write_line(const char *text, size_t len)
{
    /* One write() for a whole line keeps lines of several threads and processes apart; only a pipe or terminal that
     * takes a part of it makes a second one necessary. */
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, text, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text += n;
        len -= (size_t)n;
    }
}

void od_log(od_log_level level, const char *comp, const char *msg, const char *fields, ...)
{
    char quoted[1024];
    log_line line = {.len = 0};
    size_t start;
    va_list args;
    int saved = errno;

    if (!od_log_enabled(level, comp))
        return;
    add_time(&line);
    line_add(&line, "level=%s comp=%s ", level_names[level], comp);
    start = line.len;
    line_add(&line, "msg=%s", od_log_quote(msg, quoted, sizeof quoted));
    if (fields[0]) {
        line_add(&line, " ");
        va_start(args, fields);
        line_addv(&line, fields, args);
        va_end(args);
    }
    line_flatten(&line, start);

    pthread_rwlock_rdlock(&lock);
    if (sink) {
        sink(sink_arg, level, comp, line.text + start);
    } else {
        /* The NUL's place takes the line feed. */
        line.text[line.len] = '\n';
        write_line(line.text, line.len + 1);
    }
    pthread_rwlock_unlock(&lock);
    errno = saved;
}

static bool needs_quotes(const char *value)
{
    if (!value[0])
        return true;
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;

        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7F)
            return true;
    }
    return false;
}

/* The length of C's escaped form, put into OUT (5 bytes). */
static int escape(unsigned char c, char *out)
{
    static const char from[] = "\"\\\n\r\t";
    static const char to[] = "\"\\nrt";
    const char *at = c ? strchr(from, c) : NULL;

    if (at)
        return snprintf(out, 5, "\\%c", to[at - from]);
    if (c < 0x20 || c == 0x7F)
        return snprintf(out, 5, "\\x%02x", (unsigned)c);
    return snprintf(out, 5, "%c", c);
}

/* Where a text of LEN bytes was cut, steps back over a broken UTF-8 sequence; NEXT is the first byte left out. */
static size_t whole_characters(const char *text, size_t len, char next)
{
    size_t at = len;

    if (((unsigned char)next & 0xC0U) != 0x80U)
        return len;
    while (at > 0 && len - at < 3) {
        at--;
        if (((unsigned char)text[at] & 0xC0U) == 0xC0U)
            return at;
    }
    return len;
}

const char *od_log_quote(const char *value, char *out, size_t size)
{
    size_t len = 1;
    char piece[5];

    if (size == 0)
        return "";
    if (!value)
        value = "";
    if (!needs_quotes(value)) {
        len = strlen(value);
        if (len >= size)
            len = whole_characters(value, size - 1, value[size - 1]);
        memcpy(out, value, len);
        out[len] = '\0';
        return out;
    }
    if (size < 3) {
        out[0] = '\0';
        return out;
    }
    out[0] = '"';
    for (; *value; value++) {
        size_t n = (size_t)escape((unsigned char)*value, piece);

        if (len + n > size - 2) {
            len = whole_characters(out, len, *value);
            break;
        }
        memcpy(out + len, piece, n);
        len += n;
    }
    out[len++] = '"';
    out[len] = '\0';
    return out;
}
