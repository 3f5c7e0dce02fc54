#include "query/gateway/pin.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/banned.h"

enum { ROLLBACK_MS = 30000, IDLE_MORE_MS = 2000 };

struct pins {
    unsigned limit;
    int64_t idle_ns;      /* 0: no limit */
    pthread_mutex_t lock; /* what follows, and the lists' parts of pins */
    pin *first;
    unsigned count; /* in the list, or reserved */
};

od_code pins_create(unsigned limit, int64_t idle_ms, pins **out, od_error *err)
{
    pins *p = od_calloc(1, sizeof *p);

    *out = p;
    if (!p)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    p->limit = limit;
    /* The worker comes first: it knows better whether something runs, and says why. */
    p->idle_ns = idle_ms > 0 ? (idle_ms + IDLE_MORE_MS) * 1000000 : 0;
    pthread_mutex_init(&p->lock, NULL);
    return OD_OK;
}

unsigned pins_count(pins *p)
{
    unsigned count;

    pthread_mutex_lock(&p->lock);
    count = p->count;
    pthread_mutex_unlock(&p->lock);
    return count;
}

static void unref(pin *n)
{
    if (atomic_fetch_sub(&n->refs, 1) != 1)
        return;
    worker_entry_unref(n->worker);
    od_rpc_call_unref(n->anchor);
    od_msg_unref(n->rollback);
    od_rights_unref(n->rights);
    od_free(n);
}

/* Under the lock. */
static void unlist(pin *n)
{
    *n->prev = n->next;
    if (n->next)
        n->next->prev = n->prev;
    n->listed = false;
    n->owner->count--;
}

static bool take_out(pin *n)
{
    bool mine;

    pthread_mutex_lock(&n->owner->lock);
    mine = n->listed;
    if (mine)
        unlist(n);
    pthread_mutex_unlock(&n->owner->lock);
    return mine;
}

/* It is out of the list: gives back the list's reference, and the watch's unless that is being told. */
static void let_go(pin *n)
{
    if (od_rpc_watch_free(n->watch))
        unref(n);
    unref(n);
}

void pins_free(pins *p)
{
    if (!p)
        return;
    while (p->first) {
        pin *n = p->first;
        unlist(n);
        let_go(n);
    }
    pthread_mutex_destroy(&p->lock);
    od_free(p);
}

/* ---- rolling back ---- */

static void rollback_message(void *user, od_rpc_call *call, od_msg *msg)
{
    (void)user;
    od_msg_unref(msg);
    od_rpc_call_next(call);
}

static void rollback_gone(void *user, od_rpc_call *call, const od_error *why)
{
    pin *n = user;

    (void)call;
    /* Where the connection is lost, the worker sees that too, and rolls back itself. */
    if (why && why->code != OD_E_CONNECTION_LOST && why->code != OD_E_CANCELLED)
        od_log(OD_LOG_WARN, "gateway", "worker was not told to roll back", "worker=%s", n->worker->endpoint.authority);
    unref(n);
}

static const od_rpc_events rollback_events = {.on_message = rollback_message, .on_gone = rollback_gone};

static void roll_back(pin *n)
{
    od_rpc_call *call = NULL;
    od_rpc_out out;

    atomic_fetch_add(&n->refs, 1);
    if (od_rpc_call_open_after(n->anchor, &n->worker->endpoint, OD_PATH_ROLLBACK, od_deadline_in_ms(ROLLBACK_MS),
                               &rollback_events, n, &call, NULL) != OD_OK) {
        unref(n);
        return;
    }
    od_rpc_out_whole(n->rollback, &out);
    if (od_rpc_call_send_last(call, &out, NULL) == OD_OK)
        od_rpc_call_next(call);
    od_rpc_call_unref(call);
}

static void connection_closed(void *arg)
{
    pin *n = arg;
    bool mine;

    pthread_mutex_lock(&n->owner->lock);
    n->closed = true;
    mine = n->listed;
    if (mine)
        unlist(n);
    pthread_mutex_unlock(&n->owner->lock);
    if (mine) {
        roll_back(n);
        let_go(n);
    }
    unref(n); /* the watch's */
}

/* Whether N is idle for too long, at NOW_NS; 0: whether its rights were withdrawn. */
static bool is_due(const pins *p, const pin *n, int64_t now_ns)
{
    if (now_ns == 0)
        return od_rights_withdrawn(n->rights);
    return p->idle_ns > 0 && n->users == 0 && now_ns - n->used_ns > p->idle_ns;
}

static void end_due(pins *p, int64_t now_ns)
{
    pin *due;

    do {
        due = NULL;
        pthread_mutex_lock(&p->lock);
        for (pin *n = p->first; n && !due; n = n->next)
            if (is_due(p, n, now_ns))
                due = n;
        if (due)
            unlist(due);
        pthread_mutex_unlock(&p->lock);
        if (due) {
            roll_back(due);
            let_go(due);
        }
    } while (due);
}

void pins_expire(pins *p, int64_t now_ns)
{
    end_due(p, now_ns);
}

void pins_withdraw(pins *p)
{
    end_due(p, 0);
}

/* ---- adding ---- */

od_code pins_reserve(pins *p, od_error *err)
{
    bool room;

    pthread_mutex_lock(&p->lock);
    room = p->count < p->limit;
    p->count += room;
    pthread_mutex_unlock(&p->lock);
    return room ? OD_OK
                : od_fail(err, OD_E_BUSY, "%u transactions are open, which is the limit (OPENDUCK_MAX_TRANSACTIONS)",
                          p->limit);
}

void pins_release(pins *p)
{
    pthread_mutex_lock(&p->lock);
    p->count--;
    pthread_mutex_unlock(&p->lock);
}

static od_code make_pin(pins *p, const pin_of *what, od_rpc_call *call, pin **out, od_error *err)
{
    const od_end_request end = {what->id, what->token};
    pin *n = od_calloc(1, sizeof *n);
    od_code rc;

    *out = n;
    if (!n)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    atomic_init(&n->refs, 1);
    n->owner = p;
    n->used_ns = od_clock_ns();
    memcpy(n->id, what->id.data, what->id.len);
    n->rights = od_rights_ref(what->rights);
    rc = od_end_request_encode(&end, &n->rollback, err);
    atomic_fetch_add(&what->worker->refs, 1);
    n->worker = what->worker;
    n->anchor = od_rpc_call_ref(call);
    return rc;
}

/* Its connection may be gone already. */
static bool list(pin *n)
{
    pins *p = n->owner;
    bool go;

    pthread_mutex_lock(&p->lock);
    go = !n->closed && !od_rights_withdrawn(n->rights);
    if (go) {
        n->next = p->first;
        n->prev = &p->first;
        if (n->next)
            n->next->prev = &n->next;
        p->first = n;
        n->listed = true;
    }
    pthread_mutex_unlock(&p->lock);
    return go;
}

od_code pins_add(pins *p, const pin_of *what, od_rpc_call *call, od_error *err)
{
    pin *n = NULL;
    od_code rc = make_pin(p, what, call, &n, err);

    if (rc == OD_OK) {
        atomic_fetch_add(&n->refs, 1); /* the watch's */
        rc = od_rpc_call_watch(call, connection_closed, n, &n->watch, err);
        if (rc != OD_OK)
            unref(n);
    }
    if (rc == OD_OK && list(n))
        return OD_OK;
    pins_release(p);
    if (rc == OD_OK) {
        rc = od_fail(err, OD_E_CONNECTION_LOST, "the client went away, or its token was withdrawn");
        roll_back(n);
        let_go(n);
    } else if (n) {
        if (n->rollback)
            roll_back(n);
        unref(n);
    }
    return rc;
}

/* ---- using ---- */

pin *pins_use(pins *p, od_slice id)
{
    pin *n;

    pthread_mutex_lock(&p->lock);
    for (n = p->first; n && !od_slice_equal(od_slice_str(n->id), id);)
        n = n->next;
    if (n) {
        n->users++;
        atomic_fetch_add(&n->refs, 1);
    }
    pthread_mutex_unlock(&p->lock);
    return n;
}

od_code pins_unknown(od_slice id, od_error *err)
{
    return od_fail(
        err, OD_E_NO_TRANSACTION,
        "transaction '%.*s' is not known here: it ended, was idle for too long, or its connection was closed",
        (int)(id.len < 64 ? id.len : 64), (const char *)id.data);
}

void pin_leave(pin *n)
{
    if (!n)
        return;
    pthread_mutex_lock(&n->owner->lock);
    n->users--;
    n->used_ns = od_clock_ns();
    pthread_mutex_unlock(&n->owner->lock);
    unref(n);
}

void pin_forget(pin *n)
{
    if (take_out(n))
        let_go(n);
}
