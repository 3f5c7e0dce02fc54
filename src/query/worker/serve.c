/* The worker's own service. */
#include <string.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/uuid.h"
#include "query/worker/worker_internal.h"
#include "base/banned.h"

/* One call; all its events come on one thread. */
typedef struct {
    od_worker *worker;
    od_worker_run *run; /* ExecuteFragment, once it runs */
    od_rights *rights;  /* its caller's; NULL: all */
    bool asked;         /* its request has come */
} served;

static void refuse(od_rpc_call *call, const od_error *why)
{
    od_rpc_call_fail(call, od_code_grpc_status(why->code), why->code, why->message);
}

/* False if the call is refused. */
static bool token_passes(served *s, od_rpc_call *call, od_slice given, od_slice database)
{
    od_error err;
    od_code rc = od_tokens_find(s->worker->tokens, given, &s->rights, &err);
    if (rc == OD_OK && database.data != NULL)
        rc = od_rights_check_database(s->rights, database, &err);
    if (rc != OD_OK)
        refuse(call, &err);
    return rc == OD_OK;
}

static void free_served(served *s)
{
    od_worker_run_unref(s->run);
    od_rights_unref(s->rights);
    od_free(s);
}

/* MSG is taken. */
static void reply(od_rpc_call *call, od_msg *msg)
{
    od_rpc_out out;
    od_error err;
    od_rpc_out_whole(msg, &out);
    if (od_rpc_call_reply(call, &out, OD_GRPC_OK, NULL, &err) != OD_OK)
        refuse(call, &err);
    od_msg_unref(msg);
}

/* DATABASE as one that has to be checked, also if it is empty. */
static od_slice named(od_slice database)
{
    return od_slice_of(database.len > 0 ? (const void *)database.data : "", database.len);
}

/* ---- ExecuteFragment ---- */

/* An execution that is over, or not known, has nothing left to give. */
static void handle_follow(served *s, od_rpc_call *call, od_msg *msg, od_slice follows)
{
    od_error err;
    od_rpc_out out;
    od_worker_run *leader = od_run_find(s->worker, follows);
    od_code rc;
    if (leader != NULL) {
        rc = od_worker_follow_start(s->worker, call, msg, leader, s->rights, NULL, NULL, &s->run, &err);
    } else {
        od_chunk_finished(0, 0, &out);
        rc = od_rpc_call_reply(call, &out, OD_GRPC_OK, NULL, &err);
    }
    if (rc != OD_OK)
        refuse(call, &err);
    od_worker_run_unref(leader);
}

static void handle_execute(served *s, od_rpc_call *call, od_msg *msg)
{
    od_execute_request request;
    od_error err;
    char id[OD_EXECUTION_ID_SIZE];
    if (od_execute_request_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &request, &err) != OD_OK) {
        od_rpc_call_finish(call, OD_GRPC_INVALID_ARGUMENT, err.message);
        return;
    }
    if (!token_passes(s, call, request.access_token, named(request.database)))
        return;
    if (request.follows.len > 0) {
        handle_follow(s, call, msg, request.follows);
        return;
    }
    od_slice given = request.execution_id;
    if (given.len >= sizeof id || (given.len > 0 && memchr(given.data, '\0', given.len) != NULL)) {
        od_rpc_call_finish(call, OD_GRPC_INVALID_ARGUMENT, "execution_id is above 127 bytes or holds a NUL");
        return;
    }
    if (given.len == 0) {
        od_uuid_format(od_uuid_random(), id);
    } else {
        memcpy(id, given.data, given.len);
        id[given.len] = '\0';
    }
    if (od_run_create(s->worker, call, msg, id, true, s->rights, NULL, NULL, &s->run, &err) != OD_OK)
        refuse(call, &err);
}

/* ---- CancelExecution ---- */

static void handle_cancel(served *s, od_rpc_call *call, od_msg *msg)
{
    od_cancel_request request;
    od_msg *answer;
    od_error err;
    if (od_cancel_request_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &request, &err) != OD_OK) {
        od_rpc_call_finish(call, OD_GRPC_INVALID_ARGUMENT, err.message);
        return;
    }
    if (!token_passes(s, call, request.access_token, (od_slice){0}))
        return;
    od_worker_run *run = od_run_find(s->worker, request.execution_id);
    od_code rc = run != NULL ? od_rights_check_owner(s->rights, run->rights, "cancel executions", &err) : OD_OK;
    if (run != NULL && rc == OD_OK)
        od_worker_run_cancel(run, OD_E_CANCELLED, NULL);
    if (rc == OD_OK && od_cancel_reply_encode(run != NULL, &answer, &err) == OD_OK)
        reply(call, answer);
    else
        refuse(call, &err);
    od_worker_run_unref(run);
}

/* ---- the instance ---- */

void od_worker_lose(od_worker *worker, const od_error *why)
{
    if (!atomic_exchange(&worker->lost, true) && worker->on_fatal != NULL)
        worker->on_fatal(worker->on_fatal_arg, why->message);
}

bool od_worker_is_lost(const od_worker *worker)
{
    return atomic_load(&worker->lost);
}

/* ---- GetStatus ---- */

uint64_t od_worker_run_bytes(const od_worker_run *run)
{
    return atomic_load(&run->bytes);
}

enum { MAX_SHOWN = 256 };

typedef struct {
    od_status_running running[MAX_SHOWN];
    char ids[MAX_SHOWN][OD_EXECUTION_ID_SIZE];
    char databases[MAX_SHOWN][64];
    char sql[MAX_SHOWN][OD_STATUS_SQL + 1];
    size_t count;
} running_list;

/* What RUN was asked. */
static void read_asked(const od_worker_run *run, char *database, size_t size, char *sql)
{
    od_execute_request request = {0};
    od_error err;
    if (od_execute_request_decode(od_slice_of(od_msg_data(run->request), od_msg_len(run->request)), &request, &err) !=
        OD_OK)
        request = (od_execute_request){0};
    size_t len = request.database.len < size ? request.database.len : 0;
    if (len > 0)
        memcpy(database, request.database.data, len);
    database[len] = '\0';
    od_status_sql(request.plan, sql);
}

/* Copies what is in flight, so that the answer is made without the lock. */
static void list_running(od_worker *worker, const od_rights *rights, running_list *list)
{
    int64_t now = od_clock_ns();
    (void)pthread_mutex_lock(&worker->lock);
    for (od_worker_run *run = worker->runs; run != NULL && list->count < MAX_SHOWN; run = run->next) {
        if (run->leader != NULL || (!od_rights_admin(rights) && !od_rights_same_bearer(rights, run->rights)))
            continue;
        size_t i = list->count++;
        memcpy(list->ids[i], run->id, sizeof list->ids[i]);
        read_asked(run, list->databases[i], sizeof list->databases[i], list->sql[i]);
        list->running[i] = (od_status_running){.execution_id = list->ids[i],
                                               .database = list->databases[i],
                                               .sql = list->sql[i],
                                               .elapsed_ms = (uint64_t)((now - run->start_ns) / 1000000),
                                               .bytes_sent = od_worker_run_bytes(run)};
    }
    (void)pthread_mutex_unlock(&worker->lock);
}

/* RIGHTS: of who asks. */
static od_code make_status(od_worker *worker, const od_rights *rights, od_msg **out, od_error *err)
{
    size_t databases = od_engine_database_count(worker->engine), shown = 0;
    od_pool_stats pool = od_pool_read_stats(worker->pool);
    running_list *list = od_calloc(1, sizeof *list);
    const char **names = od_calloc(databases + 1, sizeof *names);
    od_code rc = list != NULL && names != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
    if (rc == OD_OK) {
        for (size_t i = 0; i < databases; i++) {
            names[shown] = od_engine_database_name(worker->engine, i);
            shown += od_rights_admin(rights) || od_rights_database(rights, od_slice_str(names[shown]));
        }
        list_running(worker, rights, list);
        od_status status = {
            .version = worker->version,
            .duckdb_version = od_engine_version(),
            .role = "worker",
            .uptime_seconds = (uint64_t)((od_clock_ns() - worker->start_ns) / 1000000000),
            .in_flight = od_worker_in_flight(worker),
            .max_in_flight = worker->max_concurrency,
            .queued = (uint32_t)pool.queued,
            .max_queued = OD_WORKER_MAX_WAITING,
            .transactions = od_worker_transactions(worker),
            .executions_total = atomic_load(&worker->total),
            .errors_total = atomic_load(&worker->errors),
            .cancelled_total = atomic_load(&worker->cancelled),
            .databases = names,
            .database_count = shown,
            .draining = od_worker_is_lost(worker),
            .running = list->running,
            .running_count = list->count,
        };
        rc = od_status_encode(&status, out, err);
    }
    od_free(list);
    od_free((void *)(uintptr_t)names);
    return rc;
}

static void handle_status(served *s, od_rpc_call *call, od_msg *msg)
{
    od_slice token;
    od_msg *answer;
    od_error err;
    if (od_status_request_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &token, &err) != OD_OK) {
        od_rpc_call_finish(call, OD_GRPC_INVALID_ARGUMENT, err.message);
        return;
    }
    if (!token_passes(s, call, token, (od_slice){0}))
        return;
    if (od_rights_check_status(s->rights, &err) == OD_OK && make_status(s->worker, s->rights, &answer, &err) == OD_OK)
        reply(call, answer);
    else
        refuse(call, &err);
}

/* ---- transactions, IngestData ---- */

static void take_ingest(od_worker *worker, od_rpc_call *call, od_msg *msg, od_rights *rights)
{
    od_ingest_chunk chunk;
    bool decoded = od_ingest_chunk_decode(od_slice_of(od_msg_data(msg), od_msg_len(msg)), &chunk, NULL) == OD_OK;
    if (decoded && chunk.is_metadata && chunk.metadata.statement.len > 0)
        od_feeding_open(worker, call, &chunk.metadata, rights);
    else
        od_intake_open(worker, call, msg, rights);
    od_ingest_chunk_release(&chunk);
}

void od_worker_take(od_worker *worker, od_rpc_call *call, od_msg *msg, od_rights *rights)
{
    if (strcmp(od_rpc_call_path(call), OD_PATH_INGEST) == 0)
        take_ingest(worker, call, msg, rights);
    else
        od_wtxn_call(worker, call, msg, rights);
}

static od_code write_token(const char *path, od_slice message, od_slice *token, od_slice *database, od_error *err)
{
    *database = (od_slice){0};
    od_begin_request begin = {0};
    od_end_request end = {0};
    od_ingest_chunk chunk = {0};
    od_code rc;
    if (strcmp(path, OD_PATH_BEGIN) == 0) {
        rc = od_begin_request_decode(message, &begin, err);
        *token = begin.access_token;
        *database = named(begin.database);
    } else if (strcmp(path, OD_PATH_INGEST) == 0) {
        rc = od_ingest_chunk_decode(message, &chunk, err);
        if (rc == OD_OK && !chunk.is_metadata)
            rc = od_fail(err, OD_E_PROTOCOL, "the first chunk has to be the metadata");
        *token = chunk.metadata.access_token;
        *database = named(chunk.metadata.database);
        od_ingest_chunk_release(&chunk);
    } else {
        rc = od_end_request_decode(message, &end, err);
        *token = end.access_token;
    }
    return rc;
}

/* CALL is no longer S's afterwards, unless it is finished. */
static void handle_write(served *s, od_rpc_call *call, od_msg *msg)
{
    od_slice token, database;
    od_error err;
    if (write_token(od_rpc_call_path(call), od_slice_of(od_msg_data(msg), od_msg_len(msg)), &token, &database, &err) !=
        OD_OK) {
        od_rpc_call_finish(call, OD_GRPC_INVALID_ARGUMENT, err.message);
        return;
    }
    if (!token_passes(s, call, token, database))
        return;
    od_worker_take(s->worker, call, msg, s->rights);
    free_served(s);
}

static bool is_write(const char *path)
{
    static const char *const paths[] = {OD_PATH_BEGIN, OD_PATH_COMMIT, OD_PATH_ROLLBACK, OD_PATH_INGEST};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (strcmp(path, paths[i]) == 0)
            return true;
    return false;
}

/* ---- events ---- */

static void on_message(void *user, od_rpc_call *call, od_msg *msg)
{
    served *s = user;
    const char *path = od_rpc_call_path(call);
    if (s->asked) { /* one was asked for */
        od_msg_unref(msg);
        return;
    }
    s->asked = true;
    if (is_write(path))
        handle_write(s, call, msg);
    else if (strcmp(path, OD_PATH_EXECUTE) == 0)
        handle_execute(s, call, msg);
    else if (strcmp(path, OD_PATH_CANCEL) == 0)
        handle_cancel(s, call, msg);
    else
        handle_status(s, call, msg);
    od_msg_unref(msg);
}

static void on_half_close(void *user, od_rpc_call *call)
{
    const served *s = user;
    if (!s->asked)
        od_rpc_call_finish(call, OD_GRPC_INVALID_ARGUMENT, "the request is missing");
}

static void on_gone(void *user, od_rpc_call *call, const od_error *why)
{
    served *s = user;
    (void)call;
    if (s->run != NULL && why != NULL)
        od_worker_run_abandon(s->run, "the client went away");
    free_served(s);
}

static const od_rpc_events events = {.on_message = on_message, .on_half_close = on_half_close, .on_gone = on_gone};

static void on_open(void *service, od_rpc_call *call)
{
    served *s = od_calloc(1, sizeof *s);
    if (s == NULL) {
        od_rpc_call_fail(call, OD_GRPC_RESOURCE_EXHAUSTED, OD_E_NO_MEMORY, "out of memory");
        return;
    }
    s->worker = service;
    od_rpc_call_bind(call, &events, s);
    od_rpc_call_next(call);
}

const od_rpc_method *od_worker_methods(size_t *count)
{
    static const od_rpc_method methods[] = {
        {.path = OD_PATH_EXECUTE, .on_open = on_open},
        {.path = OD_PATH_CANCEL, .on_open = on_open},
        {.path = OD_PATH_STATUS, .on_open = on_open},
        {.path = OD_PATH_BEGIN, .on_open = on_open},
        {.path = OD_PATH_COMMIT, .on_open = on_open},
        {.path = OD_PATH_ROLLBACK, .on_open = on_open},
        {.path = OD_PATH_INGEST, .on_open = on_open, .skew = OD_CHUNK_SKEW},
    };
    *count = sizeof methods / sizeof methods[0];
    return methods;
}
