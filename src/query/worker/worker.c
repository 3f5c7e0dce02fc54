#include "query/worker.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/thread.h"
#include "query/worker/worker_internal.h"
#include "base/banned.h"

enum { DEFAULT_CONCURRENCY = 64, DEFAULT_TIMEOUT_MS = 300000, DEFAULT_TRANSACTIONS = 256, DEFAULT_IDLE_MS = 300000 };
enum { TXN_THREADS = 16, TXN_WAITING = 1 << 20 };

/* The watch sleeps only after so many steps without a run: waking it for each small query costs more than the query. */
enum { IDLE_STEPS = 20 };

/* ---- the watch: stops runs in which DuckDB makes no progress ---- */

static void stop_overdue(od_worker *worker, int64_t now)
{
    char reason[120];
    (void)snprintf(reason, sizeof reason, "timed out: no result within %lld ms (OPENDUCK_EXECUTE_TIMEOUT)",
                   (long long)(worker->timeout_ns / 1000000));
    for (od_worker_run *run = worker->runs; run != NULL; run = run->next) {
        int64_t since = atomic_load_explicit(&run->busy_since_ns, memory_order_relaxed);
        if (since != 0 && now - since > worker->timeout_ns)
            od_worker_run_cancel(run, OD_E_TIMEOUT, reason);
    }
}

/* Under the lock. When the watch shall look again; INT64_MAX: when something changes. IDLE: steps without a run. */
static int64_t look(od_worker *worker, unsigned *idle)
{
    int64_t now = od_clock_ns(), next;
    od_wtxn_expire(worker, now, &next);
    if (worker->timeout_ns == 0)
        return next;
    /* A run is stopped within a tenth of its limit after it is due. */
    int64_t step = worker->timeout_ns / 10;
    step = step < 5000000 ? 5000000 : step > 1000000000 ? 1000000000 : step;
    *idle = worker->runs == NULL ? *idle + 1 : 0;
    stop_overdue(worker, now);
    worker->watch_sleeps = *idle > IDLE_STEPS;
    return worker->watch_sleeps || next < now + step ? next : now + step;
}

static void *watch(void *arg)
{
    od_worker *worker = arg;
    unsigned idle = 0;
    (void)pthread_mutex_lock(&worker->lock);
    while (!worker->stopping) {
        int64_t until = look(worker, &idle);
        struct timespec at = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
        worker->watch_until = until;
        if (until == INT64_MAX)
            (void)pthread_cond_wait(&worker->changed, &worker->lock);
        else
            (void)pthread_cond_timedwait(&worker->changed, &worker->lock, &at);
        worker->watch_sleeps = false;
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return NULL;
}

static od_code start_watch(od_worker *worker, od_error *err)
{
    int rc = pthread_create(&worker->watch, NULL, watch, worker);
    if (rc != 0)
        return od_fail_errno(err, OD_E_BUSY, rc, "cannot start a thread");
    worker->watching = true;
    return OD_OK;
}

/* ---- create, free ---- */

static void init_lock(od_worker *worker)
{
    (void)pthread_mutex_init(&worker->lock, NULL);
    od_cond_init(&worker->changed);
}

od_code od_worker_create(const od_worker_options *options, od_worker **out, od_error *err)
{
    od_code rc;
    *out = NULL;
    od_worker *worker = od_calloc(1, sizeof *worker);
    if (worker == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    init_lock(worker);
    worker->engine = options->engine;
    worker->on_fatal = options->on_fatal;
    worker->on_fatal_arg = options->on_fatal_arg;
    worker->version = options->version != NULL ? options->version : "";
    worker->max_concurrency = options->max_concurrency > 0 ? options->max_concurrency : DEFAULT_CONCURRENCY;
    int64_t timeout_ms = options->execute_timeout_ms != 0 ? options->execute_timeout_ms : DEFAULT_TIMEOUT_MS;
    worker->timeout_ns = timeout_ms > 0 ? timeout_ms * 1000000 : 0;
    worker->max_transactions = options->max_transactions > 0 ? options->max_transactions : DEFAULT_TRANSACTIONS;
    int64_t idle_ms = options->transaction_idle_ms != 0 ? options->transaction_idle_ms : DEFAULT_IDLE_MS;
    worker->idle_ns = idle_ms > 0 ? idle_ms * 1000000 : 0;
    worker->start_ns = od_clock_ns();
    od_pool_options pool = {
        .name = "od-sql", .max_threads = worker->max_concurrency, .max_queued = OD_WORKER_MAX_WAITING};
    od_pool_options streams = {.name = "od-follow", .max_threads = worker->max_concurrency};
    od_pool_options txns = {.name = "od-txn", .max_threads = TXN_THREADS, .max_queued = TXN_WAITING};
    const od_tokens_options own = {.token = options->token, .delegated = true};
    if (options->tokens == NULL)
        OD_TRY(od_tokens_create(&own, &worker->own_tokens, err));
    worker->tokens = options->tokens != NULL ? options->tokens : worker->own_tokens;
    OD_TRY(od_pool_create(&pool, &worker->pool, err));
    OD_TRY(od_pool_create(&streams, &worker->follow_pool, err));
    OD_TRY(od_pool_create(&txns, &worker->txn_pool, err));
    worker->tombs = od_calloc(OD_WORKER_TOMBS, sizeof *worker->tombs);
    if (worker->tombs == NULL) {
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
        goto out;
    }
    OD_TRY(start_watch(worker, err));
    *out = worker;
    worker = NULL;
out:
    od_worker_free(worker);
    return rc;
}

void od_worker_watch_failures(od_worker *worker, od_worker_failed fn, void *arg)
{
    worker->on_failure = fn;
    worker->on_failure_arg = arg;
}

void od_worker_free(od_worker *worker)
{
    if (worker == NULL)
        return;
    od_pool_free(worker->pool);
    od_pool_free(worker->follow_pool);
    (void)pthread_mutex_lock(&worker->lock);
    worker->stopping = true;
    (void)pthread_cond_signal(&worker->changed);
    (void)pthread_mutex_unlock(&worker->lock);
    if (worker->watching)
        (void)pthread_join(worker->watch, NULL);
    od_pool_free(worker->txn_pool);
    od_wtxn_end_all(worker);
    od_free(worker->tombs);
    od_tokens_free(worker->own_tokens);
    (void)pthread_cond_destroy(&worker->changed);
    (void)pthread_mutex_destroy(&worker->lock);
    od_free(worker);
}

unsigned od_worker_in_flight(const od_worker *worker)
{
    return atomic_load(&worker->in_flight);
}

/* ---- runs ---- */

static void ref_run(od_worker_run *run)
{
    (void)atomic_fetch_add(&run->refs, 1);
}

static void free_run(od_worker_run *run)
{
    od_follower_free(run->follower);
    od_msg_unref(run->request);
    od_rights_unref(run->rights);
    od_rpc_call_unref(run->call);
    (void)pthread_mutex_destroy(&run->lock);
    od_free(run);
}

void od_worker_run_unref(od_worker_run *run)
{
    while (run != NULL && atomic_fetch_sub(&run->refs, 1) == 1) {
        od_worker_run *leader = run->leader;
        free_run(run);
        run = leader;
    }
}

static od_worker_run *find_locked(od_worker *worker, od_slice id)
{
    od_worker_run *run = worker->runs;
    while (run != NULL && (run->leader != NULL || !od_slice_equal(od_slice_str(run->id), id)))
        run = run->next;
    return run;
}

od_worker_run *od_run_find(od_worker *worker, od_slice execution_id)
{
    (void)pthread_mutex_lock(&worker->lock);
    od_worker_run *run = find_locked(worker, execution_id);
    if (run != NULL)
        ref_run(run);
    (void)pthread_mutex_unlock(&worker->lock);
    return run;
}

static od_code enter(od_worker_run *run, bool unique, od_error *err)
{
    od_worker *worker = run->worker;
    (void)pthread_mutex_lock(&worker->lock);
    bool known = unique && find_locked(worker, od_slice_str(run->id)) != NULL;
    if (!known) {
        run->next = worker->runs;
        run->prev = &worker->runs;
        if (run->next != NULL)
            run->next->prev = &run->next;
        worker->runs = run;
        if (worker->watch_sleeps)
            (void)pthread_cond_signal(&worker->changed);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return known ? od_fail(err, OD_E_EXISTS, "execution '%s' is running already", run->id) : OD_OK;
}

void od_run_leave(od_worker_run *run)
{
    od_worker *worker = run->worker;
    (void)pthread_mutex_lock(&worker->lock);
    if (run->prev != NULL) {
        *run->prev = run->next;
        if (run->next != NULL)
            run->next->prev = run->prev;
        run->prev = NULL;
        run->next = NULL;
    }
    (void)pthread_mutex_unlock(&worker->lock);
}

static od_code make_run(od_worker *worker, od_rpc_call *call, od_msg *request, const char *execution_id,
                        od_rights *rights, const od_worker_run_events *events, void *arg, od_worker_run **out,
                        od_error *err)
{
    od_worker_run *run = od_calloc(1, sizeof *run);
    *out = run;
    if (run == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    run->worker = worker;
    run->call = od_rpc_call_ref(call);
    run->request = od_msg_ref(request);
    run->rights = od_rights_ref(rights);
    run->events = events;
    run->events_arg = arg;
    run->start_ns = od_clock_ns();
    (void)snprintf(run->id, sizeof run->id, "%s", execution_id);
    (void)pthread_mutex_init(&run->lock, NULL);
    atomic_init(&run->refs, 2); /* the caller's, and the task's */
    return OD_OK;
}

od_code od_run_create(od_worker *worker, od_rpc_call *call, od_msg *request, const char *execution_id, bool unique,
                      od_rights *rights, const od_worker_run_events *events, void *arg, od_worker_run **out,
                      od_error *err)
{
    od_worker_run *run;
    *out = NULL;
    od_code rc = make_run(worker, call, request, execution_id, rights, events, arg, &run, err);
    if (rc != OD_OK)
        return rc;
    rc = enter(run, unique, err);
    if (rc == OD_OK) {
        (void)atomic_fetch_add(&worker->in_flight, 1);
        (void)atomic_fetch_add(&worker->total, 1);
        rc = od_pool_submit(worker->pool, od_run_main, run, err);
        if (rc != OD_OK) {
            (void)atomic_fetch_sub(&worker->in_flight, 1);
            od_run_leave(run);
        }
    }
    if (rc != OD_OK) {
        od_worker_run_unref(run);
        od_worker_run_unref(run);
        return rc;
    }
    *out = run;
    return OD_OK;
}

od_code od_worker_follow_start(od_worker *worker, od_rpc_call *call, od_msg *request, od_worker_run *leader,
                               od_rights *rights, const od_worker_run_events *events, void *arg, od_worker_run **out,
                               od_error *err)
{
    od_worker_run *run;
    *out = NULL;
    od_code rc = od_rights_check_follower(rights, leader->rights, err);
    if (rc != OD_OK)
        return rc;
    rc = make_run(worker, call, request, leader->id, rights, events, arg, &run, err);
    if (rc != OD_OK)
        return rc;
    ref_run(leader);
    run->leader = leader;
    rc = od_follow_open(run, err);
    if (rc == OD_OK)
        rc = enter(run, false, err);
    if (rc == OD_OK)
        rc = od_pool_submit(worker->follow_pool, od_follow_main, run, err);
    if (rc != OD_OK) {
        od_run_leave(run);
        od_worker_run_unref(run);
        od_worker_run_unref(run);
        return rc;
    }
    *out = run;
    return OD_OK;
}

od_code od_worker_run_start(od_worker *worker, od_rpc_call *call, od_msg *request, const char *execution_id,
                            od_rights *rights, const od_worker_run_events *events, void *arg, od_worker_run **out,
                            od_error *err)
{
    return od_run_create(worker, call, request, execution_id, false, rights, events, arg, out, err);
}

/* ---- rights that were withdrawn ---- */

void od_worker_withdraw(od_worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    for (od_worker_run *run = worker->runs; run != NULL; run = run->next)
        if (od_rights_withdrawn(run->rights))
            od_worker_run_cancel(run, OD_E_UNAUTHENTICATED, OD_WORKER_WITHDRAWN);
    od_wtxn_withdraw(worker);
    (void)pthread_mutex_unlock(&worker->lock);
}
