/* IngestData: one chunk after another into a staging table; the next is asked for when the last one is in. */
#include <string.h>

#include "base/alloc.h"
#include "query/worker/worker_internal.h"
#include "base/banned.h"

typedef struct {
    od_worker *worker;
    od_rpc_call *call;
    atomic_uint refs; /* the call's, and that of a task */
    od_rights *rights;

    pthread_mutex_t lock; /* what follows */
    od_msg *pending;
    bool half_closed, gone, answered;
    bool working; /* a task is on its way or at work */
    od_staging *ingest;

    /* the task's */
    od_wtxn *wtxn;
    char id[OD_EXECUTION_ID_SIZE];
} intake;

static void unref(intake *in)
{
    if (atomic_fetch_sub(&in->refs, 1) != 1)
        return;
    od_staging_free(in->ingest);
    od_wtxn_leave(in->wtxn);
    od_msg_unref(in->pending);
    od_rpc_call_unref(in->call);
    od_rights_unref(in->rights);
    (void)pthread_mutex_destroy(&in->lock);
    od_free(in);
}

/* ---- one chunk ---- */

static void publish(intake *in, od_staging *ingest)
{
    (void)pthread_mutex_lock(&in->lock);
    in->ingest = ingest;
    if (ingest != NULL && in->gone)
        od_staging_interrupt(ingest);
    (void)pthread_mutex_unlock(&in->lock);
}

static od_code begin(intake *in, const od_ingest_metadata *m, od_error *err)
{
    od_staging_column *columns = od_calloc(m->column_count + 1, sizeof *columns);
    od_staging *ingest = NULL;
    od_code rc;
    if (columns == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < m->column_count; i++)
        columns[i] = (od_staging_column){m->columns[i].name, m->columns[i].sql_type};
    if (m->execution_id.len > 0 && m->execution_id.len < sizeof in->id)
        memcpy(in->id, m->execution_id.data, m->execution_id.len);
    if (m->transaction_id.len == 0) {
        rc = od_fail(err, OD_E_INVALID, "IngestData needs a transaction_id: its table lives in a transaction");
        goto out;
    }
    OD_TRY(od_wtxn_use(in->worker, m->transaction_id, in->rights, &in->wtxn, err));
    od_staging_request request = {od_wtxn_txn(in->wtxn), m->staging_table, columns, m->column_count, m->format};
    OD_TRY(od_staging_open(&request, &ingest, err));
    publish(in, ingest);
out:
    od_free(columns);
    return rc;
}

static od_code take(intake *in, od_msg *msg, od_error *err)
{
    od_ingest_chunk chunk;
    od_code rc = od_ingest_chunk_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &chunk, err);
    if (rc != OD_OK)
        return rc;
    if (in->ingest == NULL && !chunk.is_metadata)
        rc = od_fail(err, OD_E_PROTOCOL, "the first chunk has to be the metadata");
    else if (in->ingest != NULL && chunk.is_metadata)
        rc = od_fail(err, OD_E_PROTOCOL, "only the first chunk may be metadata");
    else if (chunk.is_metadata)
        rc = begin(in, &chunk.metadata, err);
    else
        rc = od_staging_append(in->ingest, msg, chunk.payload, err);
    od_ingest_chunk_release(&chunk);
    return rc;
}

/* ---- the task ---- */

/* Frees what it works with before the client knows the end: what it sends next finds the connection, or no table. */
static void answer(intake *in, od_write_reply *reply)
{
    od_staging *ingest = in->ingest;
    publish(in, NULL);
    od_staging_free(ingest);
    od_wtxn_leave(in->wtxn);
    in->wtxn = NULL;
    if (reply->failed && reply->error.code == OD_E_FATAL)
        od_worker_lose(in->worker, &reply->error);
    memcpy(reply->execution_id, in->id, sizeof in->id);
    (void)pthread_mutex_lock(&in->lock);
    in->answered = true;
    (void)pthread_mutex_unlock(&in->lock);
    od_wtxn_reply(in->worker, in->call, in->rights, OD_REPLY_INGEST, reply);
}

static void finish(intake *in)
{
    od_write_reply reply = {0};
    od_code rc = in->ingest != NULL ? od_staging_finish(in->ingest, &reply.rows, &reply.error)
                                    : od_fail(&reply.error, OD_E_PROTOCOL, "the metadata is missing");
    reply.failed = rc != OD_OK;
    answer(in, &reply);
}

typedef enum { REST, APPEND, FINISH, CLEAN } step;

static step next_step(intake *in, od_msg **msg)
{
    step what = REST;
    *msg = NULL;
    (void)pthread_mutex_lock(&in->lock);
    if (in->gone)
        what = in->answered ? REST : CLEAN;
    else if (in->answered)
        what = REST;
    else if (in->pending != NULL)
        what = APPEND;
    else if (in->half_closed)
        what = FINISH;
    if (what == APPEND) {
        *msg = in->pending;
        in->pending = NULL;
    }
    in->working = what != REST;
    (void)pthread_mutex_unlock(&in->lock);
    return what;
}

static void work(void *arg)
{
    intake *in = arg;
    od_write_reply reply = {0};
    od_msg *msg;
    step what;
    while ((what = next_step(in, &msg)) != REST) {
        if (what == APPEND) {
            od_code rc = take(in, msg, &reply.error);
            od_msg_unref(msg);
            reply.failed = rc != OD_OK;
            if (rc == OD_OK)
                od_rpc_call_next(in->call);
            else
                answer(in, &reply);
        } else if (what == FINISH) {
            finish(in);
        } else {
            (void)od_fail(&reply.error, OD_E_CANCELLED, "the client went away");
            reply.failed = true;
            answer(in, &reply);
        }
    }
    unref(in);
}

/* Something is to be done. */
static void kick(intake *in)
{
    od_error err;
    (void)pthread_mutex_lock(&in->lock);
    bool start = !in->working;
    in->working = true;
    (void)pthread_mutex_unlock(&in->lock);
    if (!start)
        return;
    (void)atomic_fetch_add(&in->refs, 1);
    if (od_pool_submit(in->worker->pool, work, in, &err) == OD_OK)
        return;
    (void)pthread_mutex_lock(&in->lock);
    in->answered = true;
    (void)pthread_mutex_unlock(&in->lock);
    od_rpc_call_finish(in->call, od_code_grpc_status(err.code), err.message);
    unref(in);
}

/* ---- events ---- */

static void on_message(void *user, od_rpc_call *call, od_msg *msg)
{
    intake *in = user;
    (void)call;
    (void)pthread_mutex_lock(&in->lock);
    in->pending = msg; /* one is asked for at a time */
    (void)pthread_mutex_unlock(&in->lock);
    kick(in);
}

static void on_half_close(void *user, od_rpc_call *call)
{
    intake *in = user;
    (void)call;
    (void)pthread_mutex_lock(&in->lock);
    in->half_closed = true;
    (void)pthread_mutex_unlock(&in->lock);
    kick(in);
}

static void on_gone(void *user, od_rpc_call *call, const od_error *why)
{
    intake *in = user;
    (void)call;
    (void)why;
    (void)pthread_mutex_lock(&in->lock);
    in->gone = true;
    bool clean = !in->answered;
    if (in->ingest != NULL)
        od_staging_interrupt(in->ingest);
    (void)pthread_mutex_unlock(&in->lock);
    if (clean)
        kick(in);
    unref(in);
}

static const od_rpc_events events = {.on_message = on_message, .on_half_close = on_half_close, .on_gone = on_gone};

void od_intake_open(od_worker *worker, od_rpc_call *call, od_msg *msg, od_rights *rights)
{
    static const od_rpc_events none = {0};
    intake *in = od_calloc(1, sizeof *in);
    if (in == NULL) {
        od_rpc_call_bind(call, &none, NULL);
        od_rpc_call_finish(call, OD_GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    in->worker = worker;
    in->call = od_rpc_call_ref(call);
    in->pending = od_msg_ref(msg);
    in->rights = od_rights_ref(rights);
    atomic_init(&in->refs, 1);
    (void)pthread_mutex_init(&in->lock, NULL);
    od_rpc_call_bind(call, &events, in);
    kick(in);
}
