/* Open transactions: begun, used and ended by single calls, and rolled back when their owner is gone. */
#include <string.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/uuid.h"
#include "query/worker/worker_internal.h"
#include "base/banned.h"

struct od_wtxn {
    atomic_uint refs; /* the list's, the watch's, and that of each user */
    od_worker *worker;
    od_txn *txn;
    od_rpc_watch *watch;
    od_rights *rights; /* of who began it; NULL: all */
    char id[OD_UUID_TEXT_SIZE];
    /* under the worker's lock */
    od_wtxn *next, **prev;
    bool listed; /* it has not begun to end */
    bool closed; /* its connection is gone */
    unsigned users;
    int64_t used_ns;
};

static void unref(od_wtxn *w)
{
    if (atomic_fetch_sub(&w->refs, 1) != 1)
        return;
    od_txn_unref(w->txn);
    od_rights_unref(w->rights);
    od_free(w);
}

/* ---- the list ---- */

/* Under the lock: whoever takes it out ends it. */
static void unlist(od_wtxn *w, const char *why)
{
    od_worker *worker = w->worker;
    od_tomb *tomb = &worker->tombs[worker->next_tomb++ % OD_WORKER_TOMBS];
    *w->prev = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    w->listed = false;
    worker->txn_count--;
    memcpy(tomb->id, w->id, sizeof w->id);
    (void)snprintf(tomb->why, sizeof tomb->why, "%s", why);
}

static od_wtxn *find_locked(od_worker *worker, od_slice id)
{
    od_wtxn *w = worker->txns;
    while (w != NULL && !od_slice_equal(od_slice_str(w->id), id))
        w = w->next;
    return w;
}

/* Under the lock. */
static od_code not_there(const od_worker *worker, od_slice id, od_error *err)
{
    int shown = (int)(id.len < 64 ? id.len : 64);
    const char *text = id.len > 0 ? (const char *)id.data : "";
    for (size_t i = 0; i < OD_WORKER_TOMBS; i++)
        if (id.len > 0 && od_slice_equal(od_slice_str(worker->tombs[i].id), id))
            return od_fail(err, OD_E_NO_TRANSACTION, "transaction '%.*s' is over: %s", shown, text,
                           worker->tombs[i].why);
    return od_fail(err, OD_E_NO_TRANSACTION, "transaction '%.*s' is not known here", shown, text);
}

/* Under the lock: of one that RIGHTS may go on with. */
static od_code find_own(od_worker *worker, od_slice id, const od_rights *rights, od_wtxn **out, od_error *err)
{
    *out = find_locked(worker, id);
    if (*out == NULL)
        return not_there(worker, id, err);
    od_code rc = od_rights_check_transaction(rights, (*out)->rights, err);
    if (rc != OD_OK)
        *out = NULL;
    return rc;
}

od_code od_wtxn_use(od_worker *worker, od_slice id, const od_rights *rights, od_wtxn **out, od_error *err)
{
    od_wtxn *w;
    (void)pthread_mutex_lock(&worker->lock);
    od_code rc = find_own(worker, id, rights, &w, err);
    if (rc == OD_OK) {
        w->users++;
        (void)atomic_fetch_add(&w->refs, 1);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    *out = w;
    return rc;
}

void od_wtxn_leave(od_wtxn *wtxn)
{
    if (wtxn == NULL)
        return;
    (void)pthread_mutex_lock(&wtxn->worker->lock);
    wtxn->users--;
    wtxn->used_ns = od_clock_ns();
    (void)pthread_mutex_unlock(&wtxn->worker->lock);
    unref(wtxn);
}

od_txn *od_wtxn_txn(const od_wtxn *wtxn)
{
    return wtxn->txn;
}

unsigned od_worker_transactions(od_worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    unsigned count = worker->txn_count;
    (void)pthread_mutex_unlock(&worker->lock);
    return count;
}

/* ---- ending without being asked ---- */

/* It is out of the list: gives back the list's reference, and the watch's unless that is being told. */
static void let_go(od_wtxn *w)
{
    if (od_rpc_watch_free(w->watch))
        unref(w);
    unref(w);
}

static void abandon(void *arg)
{
    od_wtxn *w = arg;
    char why[1200];
    od_error err;
    if (od_txn_rollback(w->txn, "its owner is gone", &err) != OD_OK)
        od_log(OD_LOG_WARN, "worker", "cannot roll back", "id=%s why=%s", w->id,
               od_log_quote(err.message, why, sizeof why));
    let_go(w);
}

/* Out of the list already. */
static void abandon_soon(od_wtxn *w)
{
    if (od_pool_submit(w->worker->txn_pool, abandon, w, NULL) != OD_OK)
        abandon(w);
}

static void connection_closed(void *arg)
{
    od_wtxn *w = arg;
    (void)pthread_mutex_lock(&w->worker->lock);
    bool mine = w->listed;
    w->closed = true;
    if (mine)
        unlist(w, "the connection on which it was begun was closed, so it was rolled back");
    (void)pthread_mutex_unlock(&w->worker->lock);
    if (mine)
        abandon_soon(w);
    unref(w); /* the watch's */
}

void od_wtxn_expire(od_worker *worker, int64_t now_ns, int64_t *next_ns)
{
    od_wtxn *next;
    char why[120];
    *next_ns = INT64_MAX;
    if (worker->idle_ns == 0)
        return;
    (void)snprintf(why, sizeof why,
                   "nothing ran in it for %lld ms (OPENDUCK_TRANSACTION_IDLE_TIMEOUT), so it was rolled back",
                   (long long)(worker->idle_ns / 1000000));
    for (od_wtxn *w = worker->txns; w != NULL; w = next) {
        next = w->next;
        int64_t due = (w->users > 0 ? now_ns : w->used_ns) + worker->idle_ns;
        if (due > now_ns) {
            *next_ns = due < *next_ns ? due : *next_ns;
            continue;
        }
        unlist(w, why);
        if (od_pool_submit(worker->txn_pool, abandon, w, NULL) != OD_OK)
            od_log(OD_LOG_ERROR, "worker", "cannot roll back an idle transaction", "id=%s", w->id);
    }
}

void od_wtxn_withdraw(od_worker *worker)
{
    od_wtxn *next;
    for (od_wtxn *w = worker->txns; w != NULL; w = next) {
        next = w->next;
        if (!od_rights_withdrawn(w->rights))
            continue;
        unlist(w, OD_WORKER_WITHDRAWN ", so it was rolled back");
        if (od_pool_submit(worker->txn_pool, abandon, w, NULL) != OD_OK)
            od_log(OD_LOG_ERROR, "worker", "cannot roll back the transaction of a token", "id=%s", w->id);
    }
}

void od_wtxn_end_all(od_worker *worker)
{
    while (worker->txns != NULL) {
        od_wtxn *w = worker->txns;
        unlist(w, "the server stopped");
        abandon(w);
    }
}

/* ---- calls ---- */

typedef struct {
    od_worker *worker;
    od_rpc_call *call;
    od_msg *msg;
    od_rights *rights;
} job;

static void free_job(job *j)
{
    od_rpc_call_unref(j->call);
    od_msg_unref(j->msg);
    od_rights_unref(j->rights);
    od_free(j);
}

void od_wtxn_reply(od_worker *worker, od_rpc_call *call, const od_rights *rights, od_reply_kind kind,
                   const od_write_reply *reply)
{
    od_msg *msg = NULL;
    od_rpc_out out;
    od_error err;
    od_code rc = od_write_reply_encode(kind, reply, &msg, &err);
    if (reply->failed)
        od_rpc_call_mark(call, reply->error.code);
    if (reply->failed && worker->on_failure != NULL && !od_rpc_call_is_gone(call))
        worker->on_failure(worker->on_failure_arg, call, rights, &reply->error);
    if (rc == OD_OK) {
        od_rpc_out_whole(msg, &out);
        rc = od_rpc_call_reply(call, &out, OD_GRPC_OK, NULL, &err);
    }
    od_msg_unref(msg);
    if (rc != OD_OK)
        od_rpc_call_finish(call, od_code_grpc_status(rc), err.message);
}

static od_slice bytes_of(od_msg *msg)
{
    return od_slice_of(od_msg_data(msg), od_msg_len(msg));
}

/* One more of the bounded number; undone by unlist. */
static od_code count_in(od_worker *worker, od_error *err)
{
    (void)pthread_mutex_lock(&worker->lock);
    bool room = worker->txn_count < worker->max_transactions;
    worker->txn_count += room;
    (void)pthread_mutex_unlock(&worker->lock);
    return room ? OD_OK
                : od_fail(err, OD_E_BUSY, "%u transactions are open, which is the limit (OPENDUCK_MAX_TRANSACTIONS)",
                          worker->max_transactions);
}

static void count_out(od_worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    worker->txn_count--;
    (void)pthread_mutex_unlock(&worker->lock);
}

static od_code open_txn(job *j, od_slice database, od_wtxn **out, od_error *err)
{
    od_wtxn *w = od_calloc(1, sizeof *w);
    od_code rc;
    *out = w;
    if (w == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    atomic_init(&w->refs, 2);
    w->worker = j->worker;
    w->rights = od_rights_ref(j->rights);
    w->used_ns = od_clock_ns();
    od_uuid_format(od_uuid_random(), w->id);
    rc = od_txn_begin(j->worker->engine, database, w->rights, &w->txn, err);
    if (rc == OD_OK)
        rc = od_rpc_call_watch(j->call, connection_closed, w, &w->watch, err);
    if (rc != OD_OK) {
        unref(w);
        unref(w);
    }
    return rc;
}

/* Its connection may be gone already. */
static bool list(od_wtxn *w)
{
    od_worker *worker = w->worker;
    (void)pthread_mutex_lock(&worker->lock);
    bool go = !w->closed && !od_rights_withdrawn(w->rights);
    if (go) {
        w->next = worker->txns;
        w->prev = &worker->txns;
        if (w->next != NULL)
            w->next->prev = &w->next;
        worker->txns = w;
        w->listed = true;
        if (worker->idle_ns > 0 && w->used_ns + worker->idle_ns < worker->watch_until)
            (void)pthread_cond_signal(&worker->changed);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return go;
}

static void begin(job *j)
{
    od_begin_request request;
    od_write_reply reply = {0};
    od_wtxn *w = NULL;
    od_code rc = od_begin_request_decode(bytes_of(j->msg), &request, &reply.error);
    if (rc == OD_OK)
        rc = count_in(j->worker, &reply.error);
    if (rc == OD_OK) {
        rc = open_txn(j, request.database, &w, &reply.error);
        if (rc != OD_OK) {
            count_out(j->worker);
        } else if (!list(w)) {
            count_out(j->worker);
            abandon(w);
            w = NULL;
            rc = od_fail(&reply.error, OD_E_CANCELLED, "the client went away, or its token was withdrawn");
        }
    }
    reply.failed = rc != OD_OK;
    if (w != NULL && rc == OD_OK) {
        memcpy(reply.transaction_id, w->id, sizeof w->id);
        reply.catalog_version = od_txn_catalog_version(w->txn);
    }
    od_wtxn_reply(j->worker, j->call, j->rights, OD_REPLY_BEGIN, &reply);
}

/* Takes the transaction of ID out of the list. */
static od_code take(const job *j, od_slice id, const char *why, od_wtxn **out, od_error *err)
{
    od_worker *worker = j->worker;
    od_wtxn *w;
    (void)pthread_mutex_lock(&worker->lock);
    od_code rc = find_own(worker, id, j->rights, &w, err);
    if (rc == OD_OK)
        unlist(w, why);
    (void)pthread_mutex_unlock(&worker->lock);
    *out = w;
    return rc;
}

static void end(job *j, bool commit)
{
    od_end_request request;
    od_write_reply reply = {0};
    od_wtxn *w = NULL;
    od_code rc = od_end_request_decode(bytes_of(j->msg), &request, &reply.error);
    if (rc == OD_OK)
        rc = take(j, request.transaction_id, commit ? "it was committed, or could not be" : "it was rolled back", &w,
                  &reply.error);
    if (rc == OD_OK) {
        rc = commit ? od_txn_commit(w->txn, &reply.error) : od_txn_rollback(w->txn, "it was rolled back", &reply.error);
        reply.catalog_version = od_txn_catalog_version(w->txn);
        let_go(w);
    }
    if (rc == OD_E_FATAL)
        od_worker_lose(j->worker, &reply.error);
    reply.failed = rc != OD_OK;
    od_wtxn_reply(j->worker, j->call, j->rights, commit ? OD_REPLY_COMMIT : OD_REPLY_ROLLBACK, &reply);
}

static void run_job(void *arg)
{
    job *j = arg;
    const char *path = od_rpc_call_path(j->call);
    if (strcmp(path, OD_PATH_BEGIN) == 0)
        begin(j);
    else
        end(j, strcmp(path, OD_PATH_COMMIT) == 0);
    free_job(j);
}

void od_wtxn_call(od_worker *worker, od_rpc_call *call, od_msg *msg, od_rights *rights)
{
    static const od_rpc_events none = {0};
    od_error err;
    job *j = od_calloc(1, sizeof *j);
    od_rpc_call_bind(call, &none, NULL);
    if (j == NULL) {
        od_rpc_call_finish(call, OD_GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    *j = (job){worker, od_rpc_call_ref(call), od_msg_ref(msg), od_rights_ref(rights)};
    if (od_pool_submit(worker->txn_pool, run_job, j, &err) != OD_OK) {
        od_rpc_call_finish(call, od_code_grpc_status(err.code), err.message);
        free_job(j);
    }
}
