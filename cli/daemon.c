#include "cli/daemon.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cli/command.h"
#include "ext/server/host.h"
#include "query/gateway.h"
#include "base/banned.h"

enum { STEP_MS = 100, CANCEL_MS = 3000 };

/* Rows that come in, and DuckDB's buffers for them, are allocated and freed all the time. DuckDB itself gives memory back after a
 * statement that had much. */
enum { KEPT_MEMORY = 256 << 20 };

static void waited_for(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

void daemon_block_signals(void)
{
    sigset_t set;

    waited_for(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

od_code daemon_check(const od_options *options, od_option listen_option, od_error *err)
{
    /* With a file of tokens nobody comes in without one. */
    if (od_options_str(options, OD_OPT_TOKENS)[0])
        return OD_OK;
    return od_listen_check(od_options_str(options, listen_option), od_options_secret(options, OD_OPT_TOKEN), err);
}

/* ---- the engine ---- */

/* The name of a database file: what comes before its suffix, without the folder. */
static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');

    return od_strndup(base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

typedef struct {
    od_engine_database *list;
    size_t count;
    char **names; /* made for FILE arguments */
    size_t name_count;
} databases;

static void databases_release(databases *d)
{
    for (size_t i = 0; i < d->name_count; i++)
        od_free(d->names[i]);
    od_free((void *)d->names);
    od_free(d->list);
}

static od_code databases_fill(const od_options *options, databases *d, od_error *err)
{
    size_t pair_count, file_count;
    const od_option_pair *pairs = od_options_pairs(options, OD_OPT_DB, &pair_count);
    const char *const *files = od_options_args(options, &file_count);

    d->list = od_calloc(pair_count + file_count + 1, sizeof *d->list);
    d->names = od_calloc(file_count + 1, sizeof *d->names);
    if (!d->list || !d->names)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a list of databases");
    for (size_t i = 0; i < pair_count; i++)
        d->list[d->count++] = (od_engine_database){pairs[i].name, pairs[i].value};
    for (size_t i = 0; i < file_count; i++) {
        char *name = name_of(files[i]);

        if (!name)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory for a list of databases");
        d->names[d->name_count++] = name;
        d->list[d->count++] = (od_engine_database){name, files[i]};
    }
    return OD_OK;
}

od_code daemon_open_engine(const od_options *options, unsigned run_places, observe *observer, daemon_mounts **mounts,
                           od_engine **out, od_error *err)
{
    const char *memory_limit = od_options_str(options, OD_OPT_MEMORY_LIMIT);
    const char *extensions = mounts ? od_options_str(options, OD_OPT_EXTENSION_DIRECTORY) : "";
    od_engine_lake lake = {.metadata = ""};
    databases d = {0};
    od_engine_options engine;
    od_code rc;

    *out = NULL;
    if (mounts) {
        od_alloc_keep(KEPT_MEMORY);
        OD_TRY(daemon_lake(options, &lake, err));
    }
    OD_TRY(databases_fill(options, &d, err));
    if (mounts)
        OD_TRY(daemon_mounts_open(options, d.list, d.count, mounts, err));
    engine = (od_engine_options){
        .databases = d.list,
        .database_count = d.count,
        .lake = lake.metadata[0] ? &lake : NULL,
        .extensions = extensions[0] ? extensions : NULL,
        .read_only = od_options_bool(options, OD_OPT_READ_ONLY),
        .threads = (unsigned)od_options_int(options, OD_OPT_THREADS),
        .memory_limit = memory_limit[0] ? memory_limit : NULL,
        .external_access = od_options_bool(options, OD_OPT_EXTERNAL_ACCESS),
        .batch_bytes = od_options_size(options, OD_OPT_BATCH_BYTES),
        .host = od_server_host(),
        .metrics = observe_metrics(observer),
        .run_places = run_places,
    };
    if (mounts) {
        engine.temp_directory = daemon_mounts_temp(*mounts);
        engine.mounted = engine.temp_directory != NULL;
        engine.max_snapshots = (unsigned)od_options_int(options, OD_OPT_MAX_SNAPSHOTS);
        engine.snapshot_idle_ms = od_options_ms(options, OD_OPT_SNAPSHOT_IDLE_TIMEOUT);
    }
    OD_TRY(od_engine_open(&engine, out, err));

out:
    databases_release(&d);
    return rc;
}

/* ---- serving ---- */

void daemon_rpc_options(const od_options *options, od_option listen_option, const daemon_tls *tls,
                        od_rpc_server_options *out)
{
    /* A relay of many slow clients holds a queue and a window for each. */
    enum { SEND_QUEUE = 1 << 20 };

    *out = (od_rpc_server_options){
        .listen = od_options_str(options, listen_option),
        .max_message = od_options_size(options, OD_OPT_MAX_MESSAGE),
        .send_queue = SEND_QUEUE,
        .stall_timeout_ms = od_options_ms(options, OD_OPT_STALL_TIMEOUT),
        .tls = tls->server,
        .peer_tls = tls->client,
    };
}

void daemon_task_options(const od_options *options, od_option listen_option, const daemon_tls *tls, daemon_task *out)
{
    *out = (daemon_task){
        .tls = tls,
        .listen = od_options_str(options, listen_option),
        .open = od_options_secret(options, OD_OPT_TOKEN)->len == 0 && !od_options_str(options, OD_OPT_TOKENS)[0],
        .options = options,
    };
}

void daemon_url(const char *listen, uint16_t port, bool tls, char *out, size_t size)
{
    const char *colon = strrchr(listen, ':');

    snprintf(out, size, "http%s://%.*s:%u", tls ? "s" : "", (int)(colon ? colon - listen : 0), listen, (unsigned)port);
}

/* Waits up to MS for one of the signals; 0 if none came. MS < 0: without limit. */
static int wait_signal(int64_t ms)
{
    const struct timespec limit = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    sigset_t set;
    int got;

    waited_for(&set);
    got = ms < 0 ? sigwaitinfo(&set, NULL) : sigtimedwait(&set, NULL, &limit);
    return got > 0 ? got : 0;
}

static void cancel(const daemon_task *task, const char *why)
{
    od_log(OD_LOG_INFO, task->role, "cancelling", "why=%s calls=%u", why, od_rpc_server_calls(task->server));
    if (task->cancel)
        task->cancel(task->arg);
    (void)od_rpc_server_drain(task->server, od_deadline_in_ms(CANCEL_MS));
}

/* ---- the end of the instance ---- */

static atomic_bool instance_lost;

void daemon_fatal(void *unused, const char *why)
{
    char quoted[1200];

    (void)unused;
    od_log(OD_LOG_ERROR, "engine", "DuckDB has given up a database; serving ends", "why=%s",
           od_log_quote(why, quoted, sizeof quoted));
    atomic_store(&instance_lost, true);
    kill(getpid(), SIGTERM); /* daemon_run waits for it */
}

/* Nothing is closed: what was committed is in the files and their write-ahead logs, where the next start finds it, and what
 * this instance would still write cannot be trusted. */
static void exit_if_lost(const daemon_task *task)
{
    if (!atomic_load(&instance_lost))
        return;
    od_log(OD_LOG_ERROR, task->role, "ended; start it again", "pid=%d", (int)getpid());
    fflush(NULL);
    _exit(EXIT_FAILED);
}

/* ---- tokens ---- */

od_code daemon_tokens_open(const od_options *options, bool worker, bool delegated, od_tokens **out, od_error *err)
{
    const od_tokens_options wanted = {
        .token = od_options_secret(options, OD_OPT_TOKEN),
        .worker_token = worker ? od_options_secret(options, OD_OPT_WORKER_TOKEN) : NULL,
        .file = od_options_str(options, OD_OPT_TOKENS),
        .delegated = delegated,
    };
    od_code rc = od_tokens_create(&wanted, out, err);

    if (rc != OD_OK)
        od_error_prefix(err, "--tokens");
    return rc;
}

static void reload_tokens(const daemon_task *task)
{
    char why[1200];
    bool withdrawn;
    od_error err;

    if (od_tokens_reload(task->tokens, &withdrawn, &err) != OD_OK) {
        od_log(OD_LOG_WARN, task->role, "cannot read the tokens: those that were read before stay in force", "why=%s",
               od_log_quote(err.message, why, sizeof why));
        return;
    }
    od_log(OD_LOG_INFO, task->role, "tokens read", "count=%zu withdrawn=%s", od_tokens_count(task->tokens),
           withdrawn ? "some" : "none");
    if (withdrawn)
        task->withdraw(task->withdrawer);
}

/* Waits for a signal, and looks after the tokens' file meanwhile. */
static int wait_and_look(const daemon_task *task)
{
    enum { LOOK_MS = 1000 };
    int got;

    if (!od_tokens_has_file(task->tokens))
        return wait_signal(-1);
    while ((got = wait_signal(LOOK_MS)) == 0) {
        if (od_tokens_changed(task->tokens))
            reload_tokens(task);
    }
    return got;
}

/* ---- SIGHUP ---- */

/* Writes the names of options that differ in A and B, of the reloadable or of the other ones, into OUT: "log,grace". What the
 * command line says cannot differ, and is not compared: a token there has been overwritten. */
static const char *differing(const od_options *a, const od_options *b, bool reloadable, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (int i = 0; i < OD_OPT_COUNT; i++) {
        od_option id = (od_option)i;

        if (od_option_reloadable(id) != reloadable || strcmp(od_options_source(b, id), "the command line") == 0 ||
            od_options_same(a, b, id) || len >= size)
            continue;
        len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? "," : "", od_option_name(id));
    }
    return out;
}

static od_code take_options(const daemon_task *task, const od_options *fresh, od_error *err)
{
    od_error again;
    od_code rc = od_log_configure(od_options_str(fresh, OD_OPT_LOG), err);

    if (rc != OD_OK || !task->reload)
        return rc;
    rc = task->reload(task->arg, fresh, err);
    if (rc != OD_OK && od_log_configure(od_options_str(task->options, OD_OPT_LOG), &again) != OD_OK)
        od_error_prefix(err, "%s", again.message);
    return rc;
}

/* Puts what was read anew in force, or says in one line why not. *OWNED: the options of an earlier time, to be freed. */
static void reload(daemon_task *task, od_options **owned)
{
    od_options *fresh = NULL;
    char names[600], why[1200];
    od_error err;
    od_code rc = command_read_again(&fresh, &err);

    if (rc == OD_OK)
        rc = take_options(task, fresh, &err);
    if (rc == OD_OK)
        rc = daemon_tls_reload(task->tls, &err);
    if (rc != OD_OK) {
        od_log(OD_LOG_WARN, task->role, "cannot reload: the options stay as they were", "why=%s",
               od_log_quote(err.message, why, sizeof why));
        od_options_free(fresh);
        return;
    }
    od_log(OD_LOG_INFO, task->role, "reloaded", "changed=%s",
           differing(task->options, fresh, true, names, sizeof names));
    if (differing(task->options, fresh, false, names, sizeof names)[0])
        od_log(OD_LOG_WARN, task->role, "these options change at the next start only", "options=%s", names);
    task->options = fresh;
    od_options_free(*owned);
    *owned = fresh;
}

/* ---- the end ---- */

/* Lets what runs finish, until the grace is over or another signal comes. */
static void drain(const daemon_task *task, int got)
{
    int64_t grace_ms = od_options_ms(task->options, OD_OPT_GRACE);
    od_deadline grace = od_deadline_in_ms(grace_ms);
    bool lost = atomic_load(&instance_lost);

    od_log(OD_LOG_INFO, task->role, "draining", "signal=%s calls=%u grace_ms=%lld", sigabbrev_np(got),
           od_rpc_server_calls(task->server), (long long)grace_ms);
    observe_drain(task->observe);
    if (task->drain)
        task->drain(task->arg);
    if (lost) { /* what runs fails, or is about to */
        cancel(task, "fatal");
        return;
    }
    while (!od_rpc_server_drain(task->server, od_deadline_min(grace, od_deadline_in_ms(STEP_MS)))) {
        got = wait_signal(0);
        if (got == SIGTERM || got == SIGINT) {
            cancel(task, "signal");
            return;
        }
        if (od_deadline_passed(grace)) {
            cancel(task, "grace");
            return;
        }
    }
}

void daemon_run(daemon_task *task)
{
    od_options *owned = NULL;
    char url[400];
    int got;

    daemon_url(task->listen, od_rpc_server_port(task->server), task->tls->server != NULL, url, sizeof url);
    od_log(OD_LOG_INFO, task->role, "started", "version=%s duckdb=%s pid=%d", OD_VERSION, od_engine_version(),
           (int)getpid());
    if (task->open)
        od_log(OD_LOG_WARN, task->role, "no token is set: whoever reaches this address may run SQL", "url=%s", url);
    observe_log(task->observe);
    if (!task->tls->server && !od_listen_is_loopback(task->listen))
        od_log(OD_LOG_WARN, task->role, "token and data pass this address in clear text: --tls-cert encrypts them",
               "url=%s", url);
    od_log(OD_LOG_INFO, task->role, "ready", "url=%s", url);
    printf("ready %s\n", url);
    fflush(stdout);
    do {
        got = wait_and_look(task);
        if (got == SIGHUP) {
            reload(task, &owned);
            if (od_tokens_has_file(task->tokens))
                reload_tokens(task);
        }
    } while (got != SIGTERM && got != SIGINT);
    drain(task, got);
    observe_stop(task->observe);
    exit_if_lost(task);
    task->options = NULL;
    od_options_free(owned);
}
