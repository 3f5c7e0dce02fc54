/* Who wants to know that a connection is closed. */
#include "base/alloc.h"
#include "query/rpc/server.h"
#include "base/banned.h"

struct od_rpc_watch {
    atomic_uint refs; /* the owner's, and the list's while it is linked or being told */
    od_conn *conn;
    od_rpc_watch *prev, *next; /* conn->watches, under its lock */
    bool linked;
    void (*closed)(void *arg);
    void *arg;
};

static void unref(od_rpc_watch *watch)
{
    if (atomic_fetch_sub_explicit(&watch->refs, 1, memory_order_acq_rel) != 1)
        return;
    od_conn_unref(watch->conn);
    od_free(watch);
}

/* Under the lock. */
static void unlink_watch(od_rpc_watch *watch)
{
    if (watch->prev)
        watch->prev->next = watch->next;
    else
        watch->conn->watches = watch->next;
    if (watch->next)
        watch->next->prev = watch->prev;
    watch->linked = false;
}

od_code od_rpc_call_watch(od_rpc_call *call, void (*closed)(void *arg), void *arg, od_rpc_watch **out, od_error *err)
{
    od_conn *conn = call->conn;
    od_rpc_watch *watch = od_calloc(1, sizeof *watch);
    bool dead;

    *out = NULL;
    if (!watch)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    watch->conn = od_conn_ref(conn);
    watch->closed = closed;
    watch->arg = arg;
    atomic_init(&watch->refs, 2);
    pthread_mutex_lock(&conn->lock);
    dead = conn->dead || conn->lost;
    if (!dead) {
        *out = watch; /* before CLOSED can be called */
        watch->linked = true;
        watch->next = conn->watches;
        if (watch->next)
            watch->next->prev = watch;
        conn->watches = watch;
    }
    pthread_mutex_unlock(&conn->lock);
    if (dead) {
        unref(watch);
        unref(watch);
        return od_fail(err, OD_E_CONNECTION_LOST, "the connection from '%s' is closed", call->conn->peer);
    }
    return OD_OK;
}

bool od_rpc_watch_free(od_rpc_watch *watch)
{
    bool linked;

    if (!watch)
        return true;
    pthread_mutex_lock(&watch->conn->lock);
    linked = watch->linked;
    if (linked)
        unlink_watch(watch);
    pthread_mutex_unlock(&watch->conn->lock);
    if (linked)
        unref(watch);
    unref(watch);
    return linked;
}

void od_conn_tell_watches(od_conn *conn)
{
    for (;;) {
        od_rpc_watch *watch;

        pthread_mutex_lock(&conn->lock);
        watch = conn->watches;
        if (watch)
            unlink_watch(watch);
        pthread_mutex_unlock(&conn->lock);
        if (!watch)
            return;
        watch->closed(watch->arg);
        unref(watch);
    }
}
