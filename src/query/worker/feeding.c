/* IngestData with a statement: payloads go into the engine's feed as they come, while a thread runs the statement that reads them. */
#include <string.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/uuid.h"
#include "query/worker/worker_internal.h"
#include "base/banned.h"

typedef struct {
    od_worker *worker;
    od_rpc_call *call;
    atomic_uint refs; /* the call's, and the task's */
    od_feed *feed;
    od_rights *rights; /* NULL: all */
    od_wtxn *wtxn;     /* NULL: a transaction of its own */
    atomic_bool answered;
    int64_t start_ns;
    char id[OD_EXECUTION_ID_SIZE];
} feeding;

static void unref(feeding *f)
{
    if (atomic_fetch_sub(&f->refs, 1) != 1)
        return;
    od_feed_free(f->feed);
    od_wtxn_leave(f->wtxn);
    od_rpc_call_unref(f->call);
    od_rights_unref(f->rights);
    od_free(f);
}

/* ---- the task ---- */

static void log_end(const feeding *f, od_code code, uint64_t rows)
{
    char id[2 * OD_EXECUTION_ID_SIZE];
    if (!od_log_enabled(OD_LOG_DEBUG, "worker"))
        return;
    od_log(OD_LOG_DEBUG, "worker", "execution ended", "exec=%s token=%s ms=%lld rows=%llu code=%s",
           od_log_quote(f->id, id, sizeof id), od_rights_name(f->rights),
           (long long)((od_clock_ns() - f->start_ns) / 1000000), (unsigned long long)rows, od_code_name(code));
}

static void run(void *arg)
{
    feeding *f = arg;
    od_write_reply reply = {0};
    od_code rc = od_feed_run(f->feed, &reply.rows, &reply.catalog_version, &reply.error);
    reply.failed = rc != OD_OK;
    if (rc == OD_E_FATAL)
        od_worker_lose(f->worker, &reply.error);
    if (rc != OD_OK)
        (void)atomic_fetch_add(rc == OD_E_CANCELLED ? &f->worker->cancelled : &f->worker->errors, 1);
    /* Before the client knows the end: what it sends next finds the transaction idle. */
    od_wtxn_leave(f->wtxn);
    f->wtxn = NULL;
    memcpy(reply.execution_id, f->id, sizeof f->id);
    atomic_store(&f->answered, true);
    (void)atomic_fetch_sub(&f->worker->in_flight, 1);
    log_end(f, rc, reply.rows);
    od_wtxn_reply(f->worker, f->call, f->rights, OD_REPLY_INGEST, &reply);
    unref(f);
}

/* ---- events ---- */

/* On any thread. */
static void has_room(void *arg)
{
    const feeding *f = arg;
    od_rpc_call_next(f->call);
}

static od_code push(feeding *f, od_msg *msg, bool *room, od_error *err)
{
    od_ingest_chunk chunk;
    od_code rc = od_ingest_chunk_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &chunk, err);
    if (rc != OD_OK)
        return rc;
    if (od_rights_withdrawn(f->rights)) {
        od_ingest_chunk_release(&chunk);
        return od_fail(err, OD_E_UNAUTHENTICATED, "%s", OD_WORKER_WITHDRAWN);
    }
    rc = chunk.is_metadata ? od_fail(err, OD_E_PROTOCOL, "only the first chunk may be metadata")
                           : od_feed_push(f->feed, msg, chunk.payload, room, err);
    od_ingest_chunk_release(&chunk);
    return rc;
}

static void on_message(void *user, od_rpc_call *call, od_msg *msg)
{
    feeding *f = user;
    bool room = true;
    od_error err;
    if (push(f, msg, &room, &err) != OD_OK)
        od_feed_fail(f->feed, &err);
    else if (room)
        od_rpc_call_next(call);
    od_msg_unref(msg);
}

static void on_half_close(void *user, od_rpc_call *call)
{
    (void)call;
    od_feed_end(((feeding *)user)->feed);
}

static void on_gone(void *user, od_rpc_call *call, const od_error *why)
{
    feeding *f = user;
    od_error err;
    (void)call;
    (void)why;
    (void)od_fail(&err, OD_E_CANCELLED, "the client went away");
    if (!atomic_load(&f->answered))
        od_feed_fail(f->feed, &err);
    unref(f);
}

static const od_rpc_events events = {.on_message = on_message, .on_half_close = on_half_close, .on_gone = on_gone};

/* ---- beginning ---- */

static od_code open_feed(feeding *f, const od_ingest_metadata *m, od_error *err)
{
    od_staging_column *columns = od_calloc(m->column_count + 1, sizeof *columns);
    od_code rc = OD_OK;
    if (columns == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < m->column_count; i++)
        columns[i] = (od_staging_column){m->columns[i].name, m->columns[i].sql_type};
    if (m->execution_id.len > 0 && m->execution_id.len < sizeof f->id)
        memcpy(f->id, m->execution_id.data, m->execution_id.len);
    else
        od_uuid_format(od_uuid_random(), f->id);
    if (m->transaction_id.len > 0)
        rc = od_wtxn_use(f->worker, m->transaction_id, f->rights, &f->wtxn, err);
    od_feed_request request = {.database = m->database,
                               .txn = f->wtxn != NULL ? od_wtxn_txn(f->wtxn) : NULL,
                               .rights = f->rights,
                               .table = m->staging_table,
                               .columns = columns,
                               .column_count = m->column_count,
                               .format = m->format,
                               .statement = m->statement,
                               .expected_catalog_version = m->expected_catalog_version,
                               .idle_ns = f->worker->timeout_ns,
                               .room = has_room,
                               .room_arg = f};
    if (rc == OD_OK)
        rc = od_feed_open(f->worker->engine, &request, &f->feed, err);
    od_free(columns);
    return rc;
}

static void refuse(const feeding *f, const od_error *why)
{
    od_write_reply reply = {.failed = true, .error = *why};
    od_wtxn_reply(f->worker, f->call, f->rights, OD_REPLY_INGEST, &reply);
}

void od_feeding_open(od_worker *worker, od_rpc_call *call, const od_ingest_metadata *metadata, od_rights *rights)
{
    static const od_rpc_events none = {0};
    od_error err;
    feeding *f = od_calloc(1, sizeof *f);
    od_rpc_call_bind(call, &none, NULL);
    if (f == NULL) {
        od_rpc_call_finish(call, OD_GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    f->worker = worker;
    f->call = od_rpc_call_ref(call);
    f->rights = od_rights_ref(rights);
    f->start_ns = od_clock_ns();
    atomic_init(&f->refs, 2);
    atomic_init(&f->answered, false);
    od_code rc = open_feed(f, metadata, &err);
    if (rc == OD_OK) {
        od_rpc_call_bind(call, &events, f);
        (void)atomic_fetch_add(&worker->in_flight, 1);
        (void)atomic_fetch_add(&worker->total, 1);
        rc = od_pool_submit(worker->pool, run, f, &err);
        if (rc == OD_OK) {
            od_rpc_call_next(call);
            return;
        }
        (void)atomic_fetch_sub(&worker->in_flight, 1);
        od_rpc_call_bind(call, &none, NULL);
    }
    refuse(f, &err);
    unref(f);
    unref(f);
}
