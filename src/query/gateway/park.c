/* Executions that wait until one of the workers that they could go to has room. */
#include "query/gateway/flow.h"

#include "base/banned.h"

/* ---- the list; with the lock held ---- */

static void put_last(od_gateway *g, flow *f)
{
    f->park_next = NULL;
    f->park_prev = g->park_last;
    if (g->park_last)
        g->park_last->park_next = f;
    else
        g->park_first = f;
    g->park_last = f;
    f->parked = true;
    atomic_fetch_add(&g->parked, 1);
}

static void take_out(od_gateway *g, flow *f)
{
    if (f->park_prev)
        f->park_prev->park_next = f->park_next;
    else
        g->park_first = f->park_next;
    if (f->park_next)
        f->park_next->park_prev = f->park_prev;
    else
        g->park_last = f->park_prev;
    f->park_next = f->park_prev = NULL;
    f->parked = false;
    atomic_fetch_sub(&g->parked, 1);
}

/* ---- in and out ---- */

bool flow_withdraw(flow *f)
{
    od_gateway *g = f->gateway;
    bool was;

    pthread_mutex_lock(&g->park_lock);
    was = f->parked;
    if (was)
        take_out(g, f);
    pthread_mutex_unlock(&g->park_lock);
    return was;
}

/* Takes the whole list. */
static flow *take_all(od_gateway *g)
{
    flow *first;

    pthread_mutex_lock(&g->park_lock);
    first = g->park_first;
    for (flow *f = first; f; f = f->park_next)
        f->parked = false;
    g->park_first = g->park_last = NULL;
    atomic_store(&g->parked, 0);
    pthread_mutex_unlock(&g->park_lock);
    return first;
}

static void try_again(od_gateway *g)
{
    if (atomic_load(&g->parked) == 0)
        return;
    for (flow *f = take_all(g), *next; f; f = next) {
        next = f->park_next;
        f->park_next = f->park_prev = NULL;
        flow_restart(f);
    }
}

uint64_t flow_releases(od_gateway *gateway)
{
    return atomic_load(&gateway->releases);
}

void flow_park(flow *f, uint64_t releases)
{
    od_gateway *g = f->gateway;
    bool stopped;

    flow_ref(f); /* whoever takes it out may end it before this function does */
    if (f->park_until.at_ns == 0)
        f->park_until =
            od_deadline_min(od_deadline_in_ms(atomic_load(&g->queue_timeout_ms)), od_rpc_call_deadline(f->call));
    atomic_store(&f->heard_ns, 0);
    pthread_mutex_lock(&g->park_lock);
    put_last(g, f);
    pthread_mutex_unlock(&g->park_lock);
    /* flow_stop sets STOP, then withdraws: one of the two sees the other. */
    pthread_mutex_lock(&f->lock);
    stopped = f->stop != OD_OK;
    pthread_mutex_unlock(&f->lock);
    if (stopped && flow_withdraw(f))
        flow_close_end(f);
    else if (flow_releases(g) != releases)
        try_again(g);
    else
        janitor_nudge(g);
    flow_unref(f);
}

void flow_unpark(od_gateway *gateway)
{
    atomic_fetch_add(&gateway->releases, 1);
    try_again(gateway);
}

static flow *take_expired(od_gateway *g, int64_t now_ns, int64_t *next_ns)
{
    flow *expired = NULL;

    pthread_mutex_lock(&g->park_lock);
    for (flow *f = g->park_first; f && !expired; f = f->park_next) {
        if (f->park_until.at_ns <= now_ns)
            expired = f;
        else if (f->park_until.at_ns < *next_ns)
            *next_ns = f->park_until.at_ns;
    }
    if (expired)
        take_out(g, expired);
    pthread_mutex_unlock(&g->park_lock);
    return expired;
}

void flow_expire_parked(od_gateway *gateway, int64_t now_ns, int64_t *next_ns)
{
    for (flow *f = take_expired(gateway, now_ns, next_ns); f; f = take_expired(gateway, now_ns, next_ns)) {
        od_counter_add(gateway->stats.refused_late, 1);
        if (od_deadline_passed(od_rpc_call_deadline(f->call)))
            flow_refuse(f, OD_E_TIMEOUT, "timed out: the deadline passed while the execution waited for a worker");
        else
            flow_refuse(f, OD_E_BUSY, "timed out: all workers that could run it were full (OPENDUCK_QUEUE_TIMEOUT)");
        flow_close_end(f);
    }
}
