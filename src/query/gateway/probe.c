#include "query/gateway/probe.h"

#include <pthread.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "query/client.h"
#include "base/banned.h"

enum { THREADS = 4, CONNECT_MS = 1000, ANSWER_MS = 5000, RETRY_MS = 1000 };
#define MS_NS INT64_C(1000000)

/* Any thread asks any worker whose time has come, so one that hangs delays few. */
struct prober {
    registry *registry;
    od_secret token;
    od_tls *tls;
    int64_t interval_ms;
    pthread_t threads[THREADS];
    size_t thread_count;
    atomic_bool stop;
    pthread_mutex_t lock; /* for the waits alone */
    pthread_cond_t changed;
};

static bool stopping(void *arg)
{
    return atomic_load(&((prober *)arg)->stop);
}

static void wait_for(prober *p, int64_t until_ns)
{
    const struct timespec at = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};

    pthread_mutex_lock(&p->lock);
    if (!stopping(p))
        pthread_cond_timedwait(&p->changed, &p->lock, &at);
    pthread_mutex_unlock(&p->lock);
}

/* ---- one question ---- */

/* What STATUS says of a worker, in the words of a registration. A gateway's databases are those of its workers, which change. */
static od_registration declared(const worker_entry *w, const od_status *status)
{
    bool worker = strcmp(status->role, "gateway") != 0;

    return (od_registration){
        .worker_id = w->endpoint.authority,
        .endpoint = w->endpoint.authority,
        .databases = status->databases,
        .database_count = worker ? status->database_count : 0,
        .compute_context = "",
        .max_concurrency = worker ? status->max_in_flight : 0,
    };
}

bool probe_is_up(od_code code, const od_status *status, const od_error *err, const char **why)
{
    *why = "";
    if (code == OD_OK) {
        *why = "it is stopping";
        return !status->draining;
    }
    *why = err->message;
    return code != OD_E_UNAVAILABLE && code != OD_E_CONNECTION_LOST && code != OD_E_TIMEOUT && code != OD_E_PROTOCOL;
}

static od_code ask(prober *p, worker_entry *w, od_status *status, od_error *err)
{
    od_remote_options options = {
        .endpoint = w->endpoint, .connect_timeout_ms = CONNECT_MS, .token = p->token, .tls = p->tls};
    od_code rc = OD_OK;

    *status = (od_status){0};
    if (!w->remote)
        rc = od_remote_create(&options, &w->remote, err);
    return rc == OD_OK ? od_remote_status(w->remote, ANSWER_MS, (od_interrupt){stopping, p}, status, err) : rc;
}

static void probe(prober *p, worker_entry *w)
{
    const od_status nothing = {.role = "worker"};
    od_registration found;
    od_status status;
    od_error err;
    const char *why;
    od_code rc = ask(p, w, &status, &err);
    bool up = probe_is_up(rc, &status, &err, &why);
    int64_t now_ns = od_clock_ns(), pause_ms = up || p->interval_ms < RETRY_MS ? p->interval_ms : RETRY_MS;

    if (!stopping(p)) {
        if (rc == OD_E_UNAUTHENTICATED && !w->refused)
            od_log(OD_LOG_WARN, "gateway", "a worker has another token, so its databases are not known", "worker=%s",
                   w->endpoint.authority);
        w->refused = rc == OD_E_UNAUTHENTICATED;
        /* A server that has no Status may serve anything. */
        found = declared(w, rc == OD_OK ? &status : &nothing);
        registry_probed(p->registry, w, up ? &found : NULL, why, now_ns, now_ns + pause_ms * MS_NS);
    }
    od_status_release(&status);
}

/* ---- threads ---- */

static void *prober_main(void *arg)
{
    prober *p = arg;
    int64_t next_ns, now_ns;
    worker_entry *w;

    while (!stopping(p)) {
        now_ns = od_clock_ns();
        w = registry_due(p->registry, now_ns, &next_ns);
        if (w) {
            probe(p, w);
            worker_entry_unref(w);
            pthread_mutex_lock(&p->lock);
            pthread_cond_broadcast(&p->changed);
            pthread_mutex_unlock(&p->lock);
            continue;
        }
        /* Whoever registers meanwhile is due within this. */
        if (next_ns > now_ns + p->interval_ms * MS_NS)
            next_ns = now_ns + p->interval_ms * MS_NS;
        wait_for(p, next_ns);
    }
    return NULL;
}

static void init_lock(prober *p)
{
    pthread_mutex_init(&p->lock, NULL);
    od_cond_init(&p->changed);
}

static od_code start_threads(prober *p, od_error *err)
{
    int rc = 0;

    while (p->thread_count < THREADS && rc == 0) {
        rc = od_thread_create(&p->threads[p->thread_count], prober_main, p);
        p->thread_count += rc == 0;
    }
    return rc == 0 ? OD_OK : od_fail_errno(err, OD_E_IO, rc, "cannot start a thread");
}

od_code prober_start(registry *r, const od_secret *token, od_tls *tls, int64_t interval_ms, prober **out, od_error *err)
{
    prober *p = od_calloc(1, sizeof *p);
    od_code rc;

    *out = NULL;
    if (!p)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for probes");
    init_lock(p);
    p->registry = r;
    p->tls = od_tls_ref(tls);
    p->interval_ms = interval_ms;
    OD_TRY(od_secret_set(&p->token, od_slice_of(token->value, token->len), err));
    OD_TRY(start_threads(p, err));
    *out = p;
    p = NULL;

out:
    prober_stop(p);
    return rc;
}

void prober_wait(prober *p, od_deadline until)
{
    while (!registry_all_asked(p->registry) && !od_deadline_passed(until)) {
        /* An answer may come between the question above and the wait. */
        od_deadline soon = od_deadline_min(until, od_deadline_in_ms(20));

        wait_for(p, soon.at_ns);
    }
}

void prober_stop(prober *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->thread_count; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    od_secret_release(&p->token);
    od_tls_unref(p->tls);
    od_free(p);
}
