/* The file of --tokens: sections of settings, one for each token. What it holds is never part of a message. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/option_text.h"
#include "base/utf8.h"
#include "query/rights/rights_internal.h"
#include "base/banned.h"

typedef struct {
    const char *path;
    int line;
    token_set *set;
    /* of the section that is being read */
    od_rights *rights; /* NULL: before the first one */
    int first_line;
    uint8_t digest[OD_SHA256_SIZE];
    bool has_secret, has_databases, has_mode, has_admin, has_worker;
} parser;

static od_code fault(const parser *p, int line, const char *what, od_error *err)
{
    return od_fail(err, OD_E_INVALID, "%s:%d: %s", p->path, line, what);
}

static od_slice trim(od_slice text)
{
    while (text.len > 0 && memchr(" \t\r", text.data[0], 3)) {
        text.data++;
        text.len--;
    }
    while (text.len > 0 && memchr(" \t\r", text.data[text.len - 1], 3))
        text.len--;
    return text;
}

static bool is(od_slice text, const char *word)
{
    return od_slice_equal(text, od_slice_str(word));
}

/* ---- sections ---- */

/* What is wrong with the section as a whole; NULL: nothing. */
static const char *unfinished(const parser *p, const token_entry **other)
{
    *other = NULL;
    if (!p->has_secret)
        return "the token has neither 'sha256' nor 'token'";
    *other = token_set_find(p->set, p->digest);
    if (*other && (*other)->line > 0)
        return "the token is the same as another one";
    if (*other)
        return "the token is the same as OPENDUCK_TOKEN or the worker token";
    if (!p->has_databases && !p->rights->admin && !p->rights->worker)
        return "the token has no right: neither 'databases' nor 'admin' nor 'worker'";
    return NULL;
}

static od_code end_section(parser *p, od_error *err)
{
    const token_entry *other;
    const char *why;
    od_rights *rights = p->rights;

    if (!rights)
        return OD_OK;
    why = unfinished(p, &other);
    if (why && other && other->line > 0)
        return od_fail(err, OD_E_INVALID, "%s:%d: %s, of line %d", p->path, p->first_line, why, other->line);
    if (why)
        return fault(p, p->first_line, why, err);
    p->rights = NULL;
    return token_set_add(p->set, p->digest, rights, p->first_line, err);
}

static od_code begin_section(parser *p, od_slice name, od_error *err)
{
    const token_entry *other;
    char text[RIGHTS_NAME + 1] = "";
    od_code rc = end_section(p, err);

    if (rc != OD_OK)
        return rc;
    if (!rights_is_name(name))
        return fault(p, p->line, "a name is of letters, digits, '.', '_' and '-', and of 64 bytes at most", err);
    memcpy(text, name.data, name.len);
    other = token_set_named(p->set, text);
    if (other)
        return od_fail(err, OD_E_INVALID, "%s:%d: '%s' is there for the second time; the first is in line %d", p->path,
                       p->line, text, other->line);
    if (p->set->count >= TOKENS_MOST)
        return fault(p, p->line, "there are more than 4096 tokens", err);
    *p = (parser){.path = p->path, .line = p->line, .set = p->set, .first_line = p->line};
    p->rights = rights_new(text);
    if (!p->rights)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for tokens");
    p->rights->writes = true;
    return OD_OK;
}

/* ---- settings ---- */

static od_code set_digest(parser *p, od_slice value, od_error *err)
{
    if (value.len != (size_t)2 * OD_SHA256_SIZE)
        return fault(p, p->line, "'sha256' is of 64 hexadecimal digits", err);
    for (size_t i = 0; i < OD_SHA256_SIZE; i++) {
        int high = od_hex_value(value.data[2 * i]), low = od_hex_value(value.data[2 * i + 1]);

        if (high < 0 || low < 0)
            return fault(p, p->line, "'sha256' is of 64 hexadecimal digits", err);
        p->digest[i] = (uint8_t)(high * 16 + low);
    }
    return OD_OK;
}

static od_code set_secret(parser *p, bool hashed, od_slice value, od_error *err)
{
    if (p->has_secret)
        return fault(p, p->line, "a token has one 'sha256' or one 'token'", err);
    p->has_secret = true;
    if (hashed)
        return set_digest(p, value, err);
    if (value.len == 0)
        return fault(p, p->line, "'token' is empty", err);
    od_sha256_of(value, p->digest);
    return OD_OK;
}

static od_code set_databases(parser *p, od_slice list, od_error *err)
{
    if (p->has_databases)
        return fault(p, p->line, "'databases' is there for the second time", err);
    p->has_databases = true;
    for (bool more = true; more;) {
        const uint8_t *comma = list.len > 0 ? memchr(list.data, ',', list.len) : NULL;
        size_t len = comma ? (size_t)(comma - list.data) : list.len;
        od_slice name = trim(od_slice_of(list.data, len));
        od_code rc;

        if (name.len == 0)
            return fault(p, p->line, "'databases' has an empty name", err);
        if (memchr(name.data, '*', name.len - 1))
            return fault(p, p->line, "a '*' may only end a name of 'databases'", err);
        rc = rights_add_database(p->rights, name, err);
        if (rc == OD_E_INVALID)
            return fault(p, p->line, "'databases' has more than 1000 names", err);
        if (rc != OD_OK)
            return rc;
        more = comma != NULL;
        len += more;
        list = od_slice_of(list.data + len, list.len - len);
    }
    return OD_OK;
}

static od_code set_flag(parser *p, const char *name, bool *seen, od_slice value, bool *out, od_error *err)
{
    char text[8] = "";

    if (*seen)
        return od_fail(err, OD_E_INVALID, "%s:%d: '%s' is there for the second time", p->path, p->line, name);
    *seen = true;
    if (value.len < sizeof text)
        memcpy(text, value.data, value.len);
    if (!od_text_bool(text, out))
        return od_fail(err, OD_E_INVALID, "%s:%d: '%s' is true or false", p->path, p->line, name);
    return OD_OK;
}

static od_code take_setting(parser *p, od_slice name, od_slice value, od_error *err)
{
    bool read_only = false;
    od_code rc;

    if (!p->rights)
        return fault(p, p->line, "a setting comes after the '[NAME]' of its token", err);
    if (is(name, "sha256") || is(name, "token"))
        return set_secret(p, is(name, "sha256"), value, err);
    if (is(name, "databases"))
        return set_databases(p, value, err);
    if (is(name, "admin"))
        return set_flag(p, "admin", &p->has_admin, value, &p->rights->admin, err);
    if (is(name, "worker"))
        return set_flag(p, "worker", &p->has_worker, value, &p->rights->worker, err);
    if (!is(name, "read-only"))
        return fault(p, p->line, "settings are sha256, token, databases, read-only, admin and worker", err);
    rc = set_flag(p, "read-only", &p->has_mode, value, &read_only, err);
    p->rights->writes = !read_only;
    return rc;
}

static od_code take_line(parser *p, od_slice line, od_error *err)
{
    const uint8_t *equals;
    od_slice name, value;

    if (line.len > TOKENS_LINE)
        return fault(p, p->line, "the line is longer than 8192 bytes", err);
    if (line.len > 0 && memchr(line.data, 0, line.len))
        return fault(p, p->line, "the line holds a NUL byte", err);
    if (!od_utf8_valid(line))
        return fault(p, p->line, "the line is not UTF-8", err);
    line = trim(line);
    if (line.len == 0 || line.data[0] == '#')
        return OD_OK;
    if (line.data[0] == '[') {
        if (line.data[line.len - 1] != ']')
            return fault(p, p->line, "a section is '[NAME]'", err);
        return begin_section(p, trim(od_slice_of(line.data + 1, line.len - 2)), err);
    }
    equals = memchr(line.data, '=', line.len);
    if (!equals)
        return fault(p, p->line, "a line is '[NAME]' or 'setting = value'", err);
    name = trim(od_slice_of(line.data, (size_t)(equals - line.data)));
    value = trim(od_slice_of(equals + 1, line.len - (size_t)(equals + 1 - line.data)));
    if (value.len >= 2 && value.data[0] == '"' && value.data[value.len - 1] == '"')
        value = od_slice_of(value.data + 1, value.len - 2);
    return take_setting(p, name, value, err);
}

od_code token_file_parse(const char *path, od_slice text, token_set *set, od_error *err)
{
    parser p = {.path = path, .set = set};
    od_code rc = OD_OK;

    while (text.len > 0 && rc == OD_OK) {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        size_t len = end ? (size_t)(end - text.data) : text.len;

        p.line++;
        rc = take_line(&p, od_slice_of(text.data, len), err);
        len += end != NULL;
        text = od_slice_of(text.data + len, text.len - len);
    }
    if (rc == OD_OK)
        rc = end_section(&p, err);
    od_rights_unref(p.rights);
    explicit_bzero(p.digest, sizeof p.digest);
    return rc;
}

/* ---- the file itself ---- */

static token_file_mark mark_of(const struct stat *info)
{
    /* A change of rights or owner counts, so the time of the inode's change. */
    return (token_file_mark){.device = (int64_t)info->st_dev,
                             .inode = (int64_t)info->st_ino,
                             .size = (int64_t)info->st_size,
                             .changed_s = (int64_t)info->st_ctim.tv_sec,
                             .changed_ns = (int64_t)info->st_ctim.tv_nsec};
}

token_file_mark token_file_look(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? mark_of(&info) : (token_file_mark){0};
}

/* As ssh has it for keys: what others could read is no secret, and what they could write gives no rights. */
static od_code check_file(const char *path, const struct stat *info, od_error *err)
{
    if (!S_ISREG(info->st_mode))
        return od_fail(err, OD_E_INVALID, "'%s' is no file", path);
    if (info->st_uid != geteuid() && info->st_uid != 0)
        return od_fail(err, OD_E_INVALID, "the file '%s' belongs to another user than the server's", path);
    if ((info->st_mode & (S_IRWXO | S_IWGRP)) != 0)
        return od_fail(err, OD_E_INVALID,
                       "the file '%s' can be used by others (mode %04o): 'chmod 600' it, or 640 for a group", path,
                       (unsigned)(info->st_mode & 07777));
    if (info->st_size > TOKENS_FILE)
        return od_fail(err, OD_E_INVALID, "the file '%s' is larger than 1 MiB", path);
    return OD_OK;
}

static od_code read_all(int fd, const char *path, od_buf *out, od_error *err)
{
    ssize_t n;

    do {
        od_code rc = od_buf_reserve(out, 4096, err);

        if (rc != OD_OK)
            return rc;
        n = read(fd, out->data + out->len, 4096);
        if (n > 0)
            out->len += (size_t)n;
        if (out->len > TOKENS_FILE)
            return od_fail(err, OD_E_INVALID, "the file '%s' is larger than 1 MiB", path);
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n == 0 ? OD_OK : od_fail_errno(err, OD_E_IO, errno, "cannot read '%s'", path);
}

od_code token_file_read(const char *path, token_set *set, token_file_mark *mark, od_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    od_buf text = {0};
    struct stat info;
    od_code rc;

    *mark = (token_file_mark){0};
    if (fd < 0)
        return od_fail_errno(err, OD_E_IO, errno, "cannot open '%s'", path);
    rc = fstat(fd, &info) == 0 ? OD_OK : od_fail_errno(err, OD_E_IO, errno, "cannot look at '%s'", path);
    if (rc == OD_OK) {
        *mark = mark_of(&info);
        rc = check_file(path, &info, err);
    }
    /* So that growing moves no secret: there is one place to wipe. */
    if (rc == OD_OK)
        rc = od_buf_reserve(&text, (size_t)info.st_size + 8192, err);
    if (rc == OD_OK)
        rc = read_all(fd, path, &text, err);
    if (rc == OD_OK)
        rc = token_file_parse(path, od_slice_of(text.data, text.len), set, err);
    (void)close(fd);
    if (text.data)
        explicit_bzero(text.data, text.cap);
    od_buf_release(&text);
    return rc;
}
