#include "query/gateway/probe.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "query/client.h"
#include "base/banned.h"

enum { THREADS_MAX = 8, CONNECT_MS = 1000, ANSWER_MS = 5000, RETRY_MS = 1000 };

typedef struct {
    od_remote *remote;
    od_endpoint endpoint;
    bool refused; /* it has been logged that the token does not fit */
    od_deadline due;
} target;

/* Thread I asks targets I, I + THREAD_COUNT, ... of its own, so that one that hangs delays few. */
typedef struct {
    prober *prober;
    size_t first;
    pthread_t thread;
} asker;

struct prober {
    registry *registry;
    int64_t interval_ms;
    target *targets;
    size_t count;
    asker askers[THREADS_MAX];
    size_t thread_count;
    atomic_bool stop;

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    size_t first_rounds; /* threads that have asked all of theirs once */
};

static bool stopping(void *arg)
{
    return atomic_load(&((prober *)arg)->stop);
}

static void wait_for(prober *p, od_deadline until)
{
    const struct timespec at = {.tv_sec = (time_t)(until.at_ns / 1000000000),
                                .tv_nsec = (long)(until.at_ns % 1000000000)};

    pthread_cond_timedwait(&p->changed, &p->lock, &at);
}

/* ---- one question ---- */

/* What STATUS says of a worker, in the words of a registration. A gateway's databases are those of its workers, which change. */
static od_registration declared(const target *t, const od_status *status)
{
    bool worker = strcmp(status->role, "gateway") != 0;

    return (od_registration){
        .worker_id = t->endpoint.authority,
        .endpoint = t->endpoint.authority,
        .databases = status->databases,
        .database_count = worker ? status->database_count : 0,
        .compute_context = "",
        .max_concurrency = worker ? status->max_in_flight : 0,
    };
}

/* Whether CODE means that no query can get through. */
static bool is_down(od_code code)
{
    return code == OD_E_UNAVAILABLE || code == OD_E_CONNECTION_LOST || code == OD_E_TIMEOUT || code == OD_E_PROTOCOL;
}

/* Returns after how long T is to be asked again. */
static int64_t ask(prober *p, target *t)
{
    const od_status nothing = {.role = "worker"};
    od_registration found;
    od_status status;
    od_error err;
    od_code rc = od_remote_status(t->remote, ANSWER_MS, (od_interrupt){stopping, p}, &status, &err);
    bool up = rc == OD_OK ? !status.draining : !is_down(rc);

    if (stopping(p)) {
        od_status_release(&status);
        return 0;
    }
    if (rc == OD_E_UNAUTHENTICATED && !t->refused)
        od_log(OD_LOG_WARN, "gateway", "a worker has another token, so its databases are not known", "worker=%s",
               t->endpoint.authority);
    t->refused = rc == OD_E_UNAUTHENTICATED;
    /* A server that has no Status may serve anything. */
    found = declared(t, rc == OD_OK ? &status : &nothing);
    registry_probed(p->registry, &t->endpoint, up ? &found : NULL, rc == OD_OK ? "it is stopping" : err.message,
                    od_clock_ns());
    od_status_release(&status);
    return up || p->interval_ms < RETRY_MS ? p->interval_ms : RETRY_MS;
}

/* ---- threads ---- */

static od_deadline ask_those_due(asker *a)
{
    prober *p = a->prober;
    od_deadline next = OD_DEADLINE_NEVER;

    for (size_t i = a->first; i < p->count && !stopping(p); i += p->thread_count) {
        target *t = &p->targets[i];

        if (od_deadline_passed(t->due))
            t->due = od_deadline_in_ms(ask(p, t));
        next = od_deadline_min(next, t->due);
    }
    return next;
}

static void *asker_main(void *arg)
{
    asker *a = arg;
    prober *p = a->prober;
    od_deadline next = ask_those_due(a);

    pthread_mutex_lock(&p->lock);
    p->first_rounds++;
    pthread_cond_broadcast(&p->changed);
    while (!stopping(p)) {
        wait_for(p, next);
        if (stopping(p) || !od_deadline_passed(next))
            continue;
        pthread_mutex_unlock(&p->lock);
        next = ask_those_due(a);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void init_lock(prober *p)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &attr);
    pthread_condattr_destroy(&attr);
}

static od_code start_threads(prober *p, od_error *err)
{
    size_t count = p->count < THREADS_MAX ? p->count : THREADS_MAX, started;
    sigset_t all, old;
    int rc = 0;

    p->thread_count = count;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (started = 0; started < count && rc == 0; started += rc == 0) {
        p->askers[started] = (asker){.prober = p, .first = started};
        rc = pthread_create(&p->askers[started].thread, NULL, asker_main, &p->askers[started]);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        return OD_OK;
    /* The stride is COUNT for those that run already; they are only told to end. */
    atomic_store(&p->stop, true);
    for (size_t i = 0; i < started; i++)
        pthread_join(p->askers[i].thread, NULL);
    p->thread_count = 0;
    return od_fail_errno(err, OD_E_IO, rc, "cannot start a thread");
}

od_code prober_start(registry *r, const od_endpoint *workers, size_t count, const od_secret *token, int64_t interval_ms,
                     prober **out, od_error *err)
{
    od_remote_options options = {.connect_timeout_ms = CONNECT_MS, .token = *token};
    prober *p = od_calloc(1, sizeof *p);
    od_code rc;

    *out = NULL;
    if (!p)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a list of workers");
    init_lock(p);
    p->registry = r;
    p->interval_ms = interval_ms;
    p->targets = od_calloc(count + 1, sizeof *p->targets);
    if (!p->targets) {
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory for a list of workers");
        goto out;
    }
    for (; p->count < count; p->count++) {
        options.endpoint = workers[p->count];
        p->targets[p->count].endpoint = workers[p->count];
        OD_TRY(od_remote_create(&options, &p->targets[p->count].remote, err));
    }
    OD_TRY(start_threads(p, err));
    *out = p;
    p = NULL;

out:
    prober_stop(p);
    return rc;
}

void prober_wait(prober *p, od_deadline until)
{
    pthread_mutex_lock(&p->lock);
    while (p->first_rounds < p->thread_count && !od_deadline_passed(until))
        wait_for(p, until);
    pthread_mutex_unlock(&p->lock);
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
        pthread_join(p->askers[i].thread, NULL);
    for (size_t i = 0; i < p->count; i++)
        od_remote_unref(p->targets[i].remote);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    od_free(p->targets);
    od_free(p);
}
