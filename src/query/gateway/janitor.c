/* A thread for what no event tells: waits that take too long, workers that are silent. */
#include "query/gateway/flow.h"

#include <time.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/banned.h"

#define IDLE_NS INT64_C(1000000000)

static void expire_waiting(od_gateway *g, int64_t now_ns, int64_t *next_ns)
{
    ticket *next;
    char text[200];

    for (ticket *t = admit_expire(g->admit, now_ns, next_ns); t; t = next) {
        flow *f = t->owner;

        next = t->next;
        t->next = NULL;
        if (od_deadline_passed(od_rpc_call_deadline(f->call))) {
            flow_refuse(f, OD_E_TIMEOUT, "timed out: the deadline passed while the execution waited for its turn");
        } else {
            snprintf(text, sizeof text,
                     "timed out: no slot came free within %lld ms; %u executions run at once (OPENDUCK_MAX_IN_FLIGHT)",
                     (long long)atomic_load(&g->queue_timeout_ms), admit_count(g->admit).max_in_flight);
            flow_refuse(f, OD_E_BUSY, text);
        }
        od_counter_add(g->stats.refused_late, 1);
        flow_close_end(f);
    }
}

static void end_if_silent(flow *f, int64_t now_ns)
{
    int64_t heard = atomic_load(&f->heard_ns), limit = f->gateway->execute_timeout_ms;
    char text[400];

    /* What a follower waits for its leader does too. */
    if (heard == 0 || flow_is_follower(f) || limit < 0 || atomic_load(&f->paused) || now_ns - heard < limit * 1000000)
        return;
    pthread_mutex_lock(&f->lock);
    if (f->worker)
        snprintf(text, sizeof text, "timed out: no answer from worker '%s' within %lld ms (OPENDUCK_EXECUTE_TIMEOUT)",
                 f->worker->endpoint.authority, (long long)limit);
    else
        snprintf(text, sizeof text,
                 "timed out: no part of the statement gave rows within %lld ms (OPENDUCK_EXECUTE_TIMEOUT)",
                 (long long)limit);
    pthread_mutex_unlock(&f->lock);
    flow_end(f, OD_E_TIMEOUT, text);
}

static void check_running(od_gateway *g, int64_t now_ns)
{
    size_t count;
    flow **list = flow_map_list(g, &count);

    for (size_t i = 0; i < count; i++) {
        end_if_silent(list[i], now_ns);
        flow_unref(list[i]);
    }
    od_free((void *)list);
}

static void wait_until(od_gateway *g, int64_t at_ns)
{
    const struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000), .tv_nsec = (long)(at_ns % 1000000000)};

    pthread_mutex_lock(&g->janitor_lock);
    if (!g->janitor_stop && !g->janitor_nudged)
        pthread_cond_timedwait(&g->janitor_wake, &g->janitor_lock, &at);
    g->janitor_nudged = false;
    pthread_mutex_unlock(&g->janitor_lock);
}

/* After a storm the C library would keep what it took. Once nothing runs, it is given back. */
static void give_back(od_gateway *g, uint64_t *seen, bool *given)
{
    uint64_t total = atomic_load(&g->total);
    bool quiet = atomic_load(&g->live) == 0 && total == *seen;

    if (quiet && !*given)
        od_alloc_trim();
    *given = quiet;
    *seen = total;
}

static bool stopping(od_gateway *g)
{
    bool stop;

    pthread_mutex_lock(&g->janitor_lock);
    stop = g->janitor_stop;
    pthread_mutex_unlock(&g->janitor_lock);
    return stop;
}

static void *janitor_main(void *arg)
{
    od_gateway *g = arg;
    int64_t now_ns, next_ns, checked_ns = 0;
    uint64_t seen = 0;
    bool given = true; /* nothing has run yet */
    /* A silent worker is noticed within a tenth of the limit. */
    int64_t step_ns =
        g->execute_timeout_ms > 0 && g->execute_timeout_ms < 10000 ? g->execute_timeout_ms * 100000 : IDLE_NS;

    while (!stopping(g)) {
        now_ns = od_clock_ns();
        expire_waiting(g, now_ns, &next_ns);
        flow_expire_parked(g, now_ns, &next_ns);
        if (now_ns - checked_ns >= step_ns) {
            checked_ns = now_ns;
            check_running(g, now_ns);
            pins_expire(g->pins, now_ns);
            od_counter_add(g->stats.evicted, registry_evict(g->registry, now_ns));
            flow_unpark(g); /* one that was down may be back */
            give_back(g, &seen, &given);
        }
        wait_until(g, next_ns < now_ns + step_ns ? next_ns : now_ns + step_ns);
    }
    return NULL;
}

od_code janitor_start(od_gateway *gateway, od_error *err)
{
    int rc;

    pthread_mutex_init(&gateway->janitor_lock, NULL);
    od_cond_init(&gateway->janitor_wake);
    rc = od_thread_create(&gateway->janitor, janitor_main, gateway);
    if (rc != 0)
        return od_fail_errno(err, OD_E_IO, rc, "cannot start a thread");
    gateway->janitor_started = true;
    return OD_OK;
}

void janitor_nudge(od_gateway *gateway)
{
    pthread_mutex_lock(&gateway->janitor_lock);
    gateway->janitor_nudged = true;
    pthread_cond_signal(&gateway->janitor_wake);
    pthread_mutex_unlock(&gateway->janitor_lock);
}

void janitor_stop(od_gateway *gateway)
{
    if (!gateway->janitor_started)
        return;
    pthread_mutex_lock(&gateway->janitor_lock);
    gateway->janitor_stop = true;
    pthread_cond_signal(&gateway->janitor_wake);
    pthread_mutex_unlock(&gateway->janitor_lock);
    pthread_join(gateway->janitor, NULL);
    gateway->janitor_started = false;
}
