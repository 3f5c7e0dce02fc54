/* --storage: where databases are, and the mounts of openduck-fuse that some are read in. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/log.h"
#include "cli/daemon.h"
#include "base/banned.h"

#define SCHEME "openduck://"
#define MAIN_FILE "/database.duckdb"

/* How long a mount may take to begin, and to end: it writes what it holds. */
enum { BEGIN_MS = 30000, END_MS = 30000 };

/* Of one database; begun here if PID is not 0. */
typedef struct {
    char *file; /* of DuckDB */
    char *temp; /* what DuckDB spills goes there; not into the volume */
    char *point;
    pid_t pid;
    int out; /* its stdout, which ends when it does; -1: none */
} mount;

struct daemon_mounts {
    mount *list;
    size_t count;
};

static bool is_stored(const char *path)
{
    return strncmp(path, SCHEME, strlen(SCHEME)) == 0;
}

static bool in_memory(const char *path)
{
    return strcmp(path, ":memory:") == 0;
}

static od_code no_memory(od_error *err)
{
    return od_fail(err, OD_E_NO_MEMORY, "out of memory for a mount");
}

static char *join(const char *a, const char *b)
{
    size_t size = strlen(a) + strlen(b) + 1;
    char *text = od_alloc(size);

    if (text)
        snprintf(text, size, "%s%s", a, b);
    return text;
}

/* ---- a mount that is there ---- */

/* Whether a file on the device DEV is one of a mount of openduck-fuse: "36 35 0:48 / /mnt rw - fuse.openduck openduck rw". */
static bool is_openduck_device(dev_t dev)
{
    char line[4096], number[32];
    bool found = false;
    FILE *file = fopen("/proc/self/mountinfo", "re");

    snprintf(number, sizeof number, " %u:%u ", major(dev), minor(dev));
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, number) && strstr(line, " - fuse.openduck ");
    if (file)
        fclose(file);
    return found;
}

static od_code check_mounted(const od_engine_database *database, od_error *err)
{
    struct stat st;

    if (stat(database->path, &st) != 0)
        return od_fail_errno(err, OD_E_IO, errno, "database '%s': the mount '%s' is not there", database->name,
                             database->path);
    if (!S_ISDIR(st.st_mode) || !is_openduck_device(st.st_dev))
        return od_fail(err, OD_E_IO, "database '%s': '%s' is not mounted by openduck-fuse", database->name,
                       database->path);
    return OD_OK;
}

/* ---- a mount that is begun here ---- */

/* Percent-decodes LEN bytes of TEXT; NULL: a bad escape, or memory is out. */
static char *decode(const char *text, size_t len)
{
    char *out = od_alloc(len + 1), *to = out;

    for (size_t i = 0; out && i < len; i++) {
        int high, low;

        if (text[i] != '%') {
            *to++ = text[i];
            continue;
        }
        high = i + 2 < len ? od_hex_value((uint8_t)text[i + 1]) : -1;
        low = i + 2 < len ? od_hex_value((uint8_t)text[i + 2]) : -1;
        if (high < 0 || low < 0 || high + low == 0) {
            od_free(out);
            return NULL;
        }
        *to++ = (char)(high << 4 | low);
        i += 2;
    }
    if (out)
        *to = '\0';
    return out;
}

enum { MAX_ARGUMENTS = 12 };

/* The command line of openduck-fuse; what is OWNED is freed with od_free. */
typedef struct {
    char *argv[MAX_ARGUMENTS];
    size_t count;
    char *owned[MAX_ARGUMENTS];
    size_t owned_count;
} command;

static void add(command *c, const char *argument)
{
    c->argv[c->count++] = (char *)(uintptr_t)argument;
}

static void release(command *c)
{
    for (size_t i = 0; i < c->owned_count; i++)
        od_free(c->owned[i]);
}

static od_code add_decoded(command *c, const char *text, size_t len, od_error *err)
{
    char *value = decode(text, len);

    if (!value)
        return od_fail(err, OD_E_INVALID, "a bad percent escape; a plain '%%' is written '%%25'");
    c->owned[c->owned_count++] = value;
    add(c, value);
    return OD_OK;
}

static od_code add_parameters(command *c, const char *text, od_error *err)
{
    static const char *const known[][2] = {{"data_dir=", "--data-dir"}, {"blob_url=", "--blob-url"}};
    size_t given = 0;

    for (const char *at = text; *at; at += strcspn(at, "&"), at += *at == '&') {
        size_t i = 0, len = strcspn(at, "&"), skip;

        while (i < 2 && strncmp(at, known[i][0], strlen(known[i][0])) != 0)
            i++;
        if (i == 2 || given++ == 2)
            return od_fail(err, OD_E_INVALID, "a mount takes data_dir and blob_url, not '%.*s'", (int)strcspn(at, "=&"),
                           at);
        skip = strlen(known[i][0]);
        add(c, known[i][1]);
        od_code rc = add_decoded(c, at + skip, len - skip, err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

/* openduck://NAME?data_dir=DIR as words for openduck-fuse. */
static od_code make_command(const char *program, const char *path, const char *point, bool read_only, command *c,
                            od_error *err)
{
    const char *name = path + strlen(SCHEME);
    size_t len = strcspn(name, "?");
    od_code rc = OD_OK;

    add(c, program);
    if (read_only)
        add(c, "--read-only");
    if (name[len] == '?')
        rc = add_parameters(c, name + len + 1, err);
    add(c, "--");
    if (rc == OD_OK)
        rc = add_decoded(c, name, len, err);
    add(c, point);
    return rc;
}

/* Beside this program. */
static od_code find_program(char *out, size_t size, od_error *err)
{
    ssize_t len = readlink("/proc/self/exe", out, size - 1);
    char *slash = len > 0 ? (out[len] = '\0', strrchr(out, '/')) : NULL;

    if (!slash || (size_t)(slash - out) + sizeof "/openduck-fuse" > size)
        return od_fail(err, OD_E_IO, "cannot tell where openduck-fuse is");
    memcpy(slash, "/openduck-fuse", sizeof "/openduck-fuse");
    if (access(out, X_OK) != 0)
        return od_fail_errno(err, OD_E_IO, errno, "cannot start '%s'", out);
    return OD_OK;
}

/* In the child: nothing but system calls. It ends in order when this process is gone, and not by a Ctrl-C that is meant for it. */
__attribute__((noreturn)) static void become(char **argv, int out, pid_t parent)
{
    sigset_t none;

    sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && dup2(out, STDOUT_FILENO) >= 0)
        execv(argv[0], argv);
    _exit(127);
}

static od_code start(mount *m, char **argv, od_error *err)
{
    int pipe_ends[2];
    pid_t self = getpid();

    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
        return od_fail_errno(err, OD_E_IO, errno, "cannot start '%s'", argv[0]);
    m->pid = fork();
    if (m->pid == 0)
        become(argv, pipe_ends[1], self);
    close(pipe_ends[1]);
    m->out = pipe_ends[0];
    if (m->pid > 0)
        return OD_OK;
    m->pid = 0;
    return od_fail_errno(err, OD_E_IO, errno, "cannot start '%s'", argv[0]);
}

/* Reads what it says until UNTIL is in it, or its end (UNTIL NULL). False: it ended before, or took too long. */
static bool wait_for(const mount *m, const char *until, int64_t ms)
{
    od_deadline end = od_deadline_in_ms(ms);
    struct pollfd fd = {.fd = m->out, .events = POLLIN};
    char said[5000];
    size_t len = 0;

    for (;;) {
        int polled = poll(&fd, 1, od_deadline_poll_ms(end));
        ssize_t got = polled > 0 ? read(m->out, said + len, sizeof said - 1 - len) : -1;

        if (polled == 0 || (polled > 0 && got < 0 && errno != EINTR))
            return false;
        if (got == 0)
            return !until;
        if (got < 0)
            continue;
        len = until ? len + (size_t)got : 0;
        said[len] = '\0';
        if (until && strstr(said, until) && said[len - 1] == '\n')
            return true;
        if (len == sizeof said - 1)
            return false;
    }
}

static void end(mount *m)
{
    int status = 0;

    if (m->pid > 0) {
        kill(m->pid, SIGTERM);
        if (!wait_for(m, NULL, END_MS)) {
            od_log(OD_LOG_ERROR, "mount", "openduck-fuse does not end; it is killed", "pid=%d", (int)m->pid);
            kill(m->pid, SIGKILL);
        }
        (void)waitpid(m->pid, &status, 0);
        if (status != 0)
            od_log(OD_LOG_ERROR, "mount", "openduck-fuse has failed: what was not synced may be lost", "status=%d",
                   WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    }
    if (m->out >= 0)
        close(m->out);
    if (m->point)
        (void)rmdir(m->point);
    od_free(m->point);
    od_free(m->file);
    od_free(m->temp);
}

static od_code begin(const od_options *options, const od_engine_database *database, mount *m, od_error *err)
{
    const char *tmp = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): nothing sets the environment */
    char program[4096];
    command c = {0};
    od_code rc;

    OD_TRY(find_program(program, sizeof program, err));
    m->point = join(tmp && tmp[0] ? tmp : "/tmp", "/openduck-mount-XXXXXX");
    if (!m->point)
        return no_memory(err);
    if (!mkdtemp(m->point)) {
        rc = od_fail_errno(err, OD_E_IO, errno, "no folder '%s' can be made", m->point);
        od_free(m->point);
        m->point = NULL;
        goto out;
    }
    OD_TRY(make_command(program, database->path, m->point, od_options_bool(options, OD_OPT_READ_ONLY), &c, err));
    OD_TRY(start(m, c.argv, err));
    if (!wait_for(m, "ready ", BEGIN_MS))
        rc = od_fail(err, OD_E_IO, "openduck-fuse does not mount it; what it said stands above");
out:
    release(&c);
    if (rc != OD_OK)
        od_error_prefix(err, "database '%s' at '%s'", database->name, database->path);
    return rc;
}

/* ---- all of them ---- */

/* The file of DATABASE, from now on one of a mount. */
static od_code enter(const od_options *options, od_engine_database *database, mount *m, od_error *err)
{
    od_code rc = is_stored(database->path) ? begin(options, database, m, err) : check_mounted(database, err);

    if (rc != OD_OK)
        return rc;
    m->file = join(m->point ? m->point : database->path, MAIN_FILE);
    m->temp = m->file ? join(m->file, ".tmp") : NULL;
    if (!m->temp)
        return no_memory(err);
    database->path = m->file;
    return OD_OK;
}

static od_code check_kind(const od_options *options, const char *storage, const od_engine_database *database,
                          od_error *err)
{
    bool stored = is_stored(database->path);

    if (strcmp(storage, "direct") == 0 && stored)
        return od_options_reject(options, OD_OPT_STORAGE_MODE, "databases at openduck:// are not files", err);
    if (strcmp(storage, "in-process") == 0 && !stored && !in_memory(database->path))
        return od_options_reject(options, OD_OPT_STORAGE_MODE, "databases are at openduck://, or ':memory:'", err);
    return OD_OK;
}

od_code daemon_mounts_open(const od_options *options, od_engine_database *databases, size_t count, daemon_mounts **out,
                           od_error *err)
{
    const char *storage = od_options_str(options, OD_OPT_STORAGE_MODE);
    bool fuse = strcmp(storage, "fuse") == 0;
    daemon_mounts *mounts = od_calloc(1, sizeof *mounts);
    od_code rc = OD_OK;

    *out = mounts;
    if (mounts)
        mounts->list = od_calloc(count + 1, sizeof *mounts->list);
    if (!mounts || !mounts->list)
        return no_memory(err);
    for (size_t i = 0; i < count && rc == OD_OK; i++) {
        rc = check_kind(options, storage, &databases[i], err);
        if (rc == OD_OK && fuse && !in_memory(databases[i].path)) {
            mount *m = &mounts->list[mounts->count++];

            m->out = -1;
            rc = enter(options, &databases[i], m, err);
        }
    }
    return rc;
}

const char *daemon_mounts_temp(const daemon_mounts *mounts)
{
    return mounts->count > 0 ? mounts->list[0].temp : NULL;
}

void daemon_mounts_close(daemon_mounts *mounts)
{
    if (!mounts)
        return;
    for (size_t i = 0; i < mounts->count; i++)
        end(&mounts->list[i]);
    od_free(mounts->list);
    od_free(mounts);
}
