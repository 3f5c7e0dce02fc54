/* One run, from its request to its last chunk, on a thread of the pool. */
#include <string.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/log.h"
#include "query/worker/worker_internal.h"
#include "base/banned.h"

/* How long a thread waits for a slow reader before it looks whether the run was stopped. */
#define SEND_SLICE_MS 50

/* How long a run waits for a snapshot that cannot be opened beside those that are in use. */
#define SNAPSHOT_WAIT_MS 5000

typedef struct {
    od_worker_run *run;
    od_execute_request request;
    od_wtxn *wtxn;         /* that it runs in; NULL: none */
    od_snapshot *snapshot; /* that it reads; NULL: the tip */
    uint64_t payloads;
    uint64_t total_payloads; /* on all streams, if it can be followed; else 0 */
    uint64_t catalog_version;
} job;

/* ---- text ---- */

/* How many bytes follow the first one, C, of a character; -1 if none starts so. */
static int bytes_after(uint8_t c)
{
    if (c < 0x80)
        return 0;
    if (c >= 0xc2 && c < 0xe0)
        return 1;
    if ((c & 0xf0) == 0xe0)
        return 2;
    return c >= 0xf0 && c < 0xf5 ? 3 : -1;
}

/* Overlong forms, surrogates, and what lies above U+10FFFF, by the first two bytes. */
static bool forbidden(uint8_t first, uint8_t second)
{
    return (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) || (first == 0xf0 && second < 0x90) ||
           (first == 0xf4 && second >= 0x90);
}

static const uint8_t *skip_ascii(const uint8_t *p, const uint8_t *end)
{
    uint64_t word;
    while (end - p >= 8 && (memcpy(&word, p, 8), (word & 0x8080808080808080U) == 0))
        p += 8;
    return p;
}

static bool is_utf8(od_slice text)
{
    const uint8_t *p = text.data, *end = p + text.len;
    while ((p = skip_ascii(p, end)) < end) {
        int more = bytes_after(*p);
        if (more < 0 || end - p <= more || (more > 0 && forbidden(p[0], p[1])))
            return false;
        for (int i = 1; i <= more; i++)
            if ((p[i] & 0xc0) != 0x80)
                return false;
        p += more + 1;
    }
    return true;
}

/* ---- being stopped ---- */

od_code od_run_stopped(od_worker_run *run, od_error *err)
{
    (void)pthread_mutex_lock(&run->lock);
    od_code code = run->stop;
    char reason[sizeof run->reason];
    memcpy(reason, run->reason, sizeof reason);
    (void)pthread_mutex_unlock(&run->lock);
    if (code == OD_OK)
        return OD_OK;
    if (code != OD_E_CANCELLED)
        return od_fail(err, code, "%s", reason);
    /* The text that clients of the earlier protocol know. */
    return reason[0] != '\0' ? od_fail(err, code, "execution cancelled: %s (%s)", run->id, reason)
                             : od_fail(err, code, "execution cancelled: %s", run->id);
}

static void stop_execution(const od_worker_run *run)
{
    if (run->abandoned)
        od_execution_abandon(run->execution);
    else
        od_execution_interrupt(run->execution);
}

/* From here on a stop reaches EXECUTION (NULL: none any more). */
static void publish(od_worker_run *run, od_execution *execution)
{
    (void)pthread_mutex_lock(&run->lock);
    run->execution = execution;
    if (execution != NULL && run->stop != OD_OK)
        stop_execution(run);
    (void)pthread_mutex_unlock(&run->lock);
}

static void busy(od_worker_run *run, bool yes)
{
    atomic_store_explicit(&run->busy_since_ns, yes ? od_clock_ns() : 0, memory_order_relaxed);
}

void od_run_heard(od_worker_run *run)
{
    int64_t since = atomic_load_explicit(&run->busy_since_ns, memory_order_relaxed);
    /* If it has begun or ended a wait of its own meanwhile, that counts. */
    if (since != 0)
        (void)atomic_compare_exchange_strong(&run->busy_since_ns, &since, od_clock_ns());
}

/* ---- sending ---- */

static void count_bytes(od_worker_run *run, const od_rpc_out *out)
{
    atomic_fetch_add_explicit(&run->bytes, out->head_len + out->len + out->tail_len, memory_order_relaxed);
}

od_code od_run_send(od_worker_run *run, od_worker_run *leader, const od_rpc_out *out, od_error *err)
{
    od_code rc;
    do {
        rc = od_run_stopped(run, err);
        if (rc == OD_OK && leader != NULL)
            rc = od_run_stopped(leader, err);
        if (rc != OD_OK)
            return rc;
        rc = od_rpc_call_send_wait(run->call, out, od_deadline_in_ms(SEND_SLICE_MS), err);
    } while (rc == OD_E_TIMEOUT);
    if (rc == OD_OK)
        count_bytes(run, out);
    if (rc == OD_OK && leader != NULL)
        count_bytes(leader, out);
    return rc;
}

/* The LAST one goes out with the end of the stream. */
static od_code send_payload(job *j, od_msg *payload, uint64_t place, bool last, od_error *err)
{
    od_worker_run *run = j->run;
    od_rpc_out out;
    const od_chunk_told told = {.catalog_version = j->payloads == 0 ? j->catalog_version : 0, .place = place};
    od_code rc = od_chunk_batch(payload, 0, od_msg_len(payload), &told, &out, err);
    if (rc == OD_OK && !last)
        rc = od_run_send(run, NULL, &out, err);
    else if (rc == OD_OK)
        rc = od_run_stopped(run, err);
    if (rc == OD_OK && last) {
        rc = od_rpc_call_hold(run->call, &out, err);
        if (rc == OD_OK)
            count_bytes(run, &out);
    }
    j->payloads += rc == OD_OK;
    return rc;
}

/* Ends the stream: an error chunk if there is one, the finished chunk, status OK. */
static void send_end(job *j, const od_error *why)
{
    od_worker_run *run = j->run;
    od_rpc_out out;
    od_code rc = OD_OK;
    if (why != NULL) {
        od_msg *msg;
        od_rpc_call_mark(run->call, why->code);
        rc = od_chunk_error(why, run->id, j->catalog_version, &msg, NULL);
        if (rc == OD_OK) {
            od_rpc_out_whole(msg, &out);
            rc = od_rpc_call_send(run->call, &out, NULL);
            count_bytes(run, &out);
            od_msg_unref(msg);
        }
    }
    if (rc == OD_OK) {
        od_chunk_finished(j->catalog_version, why == NULL ? j->total_payloads : 0, &out);
        rc = od_rpc_call_reply(run->call, &out, OD_GRPC_OK, NULL, NULL);
    }
    if (rc != OD_OK) /* the peer is gone, or memory is out */
        od_rpc_call_finish(run->call, why != NULL ? od_code_grpc_status(why->code) : OD_GRPC_INTERNAL,
                           why != NULL ? why->message : "the end of the stream cannot be sent");
}

/* ---- running ---- */

static od_code check(const job *j, od_error *err)
{
    /* It may have been withdrawn just before this run could be found (od_worker_withdraw). */
    if (od_rights_withdrawn(j->run->rights))
        return od_fail(err, OD_E_UNAUTHENTICATED, "%s", OD_WORKER_WITHDRAWN);
    if (j->request.snapshot_id.data != NULL && j->request.transaction_id.len > 0)
        return od_fail(err, OD_E_INVALID, "a transaction is one of the database as it is now, not of a snapshot");
    return OD_OK;
}

/* ---- snapshots ---- */

/* Waits while all that may be open are in use, but not forever: a client may read two streams in turn, and wait for this one while it
 * keeps the other. */
static od_code take_snapshot(job *j, od_error *err)
{
    od_deadline end = od_deadline_in_ms(SNAPSHOT_WAIT_MS);
    od_code rc;
    do {
        od_deadline slice = od_deadline_min(end, od_deadline_in_ms(SEND_SLICE_MS));
        rc = od_snapshot_take(j->run->worker->engine, j->request.database, j->request.snapshot_id, slice, &j->snapshot,
                              err);
    } while (rc == OD_E_BUSY && !od_deadline_passed(end) && od_run_stopped(j->run, NULL) == OD_OK);
    return rc;
}

/* What DuckDB says of it does not tell why. */
static void explain_write(const job *j, od_error *why)
{
    if (strstr(why->message, "attached in read-only mode") != NULL)
        od_error_prefix(why, "snapshot '%.*s' does not change", (int)j->request.snapshot_id.len,
                        (const char *)j->request.snapshot_id.data);
}

/* RC is how it ended. DuckDB may have given up the snapshot's instance, but not the one that is served. */
static od_code leave_snapshot(job *j, od_code rc, od_error *why)
{
    if (j->snapshot == NULL)
        return rc;
    if (rc == OD_E_FATAL) {
        od_error fatal = *why;
        od_snapshot_spoil(j->snapshot);
        rc = od_fail(why, OD_E_IO, "%s", fatal.message);
    } else if (rc != OD_OK) {
        explain_write(j, why);
    }
    od_snapshot_give(j->snapshot);
    j->snapshot = NULL;
    return rc;
}

/* Its id may be used again as soon as the client knows that it ended, and is counted by then, so it goes before the end does. WHY: it
 * ended with an error. */
static void leave(od_worker_run *run, const od_error *why)
{
    od_worker *worker = run->worker;
    od_run_leave(run);
    if (why != NULL)
        (void)atomic_fetch_add(why->code == OD_E_CANCELLED ? &worker->cancelled : &worker->errors, 1);
    (void)atomic_fetch_sub(&worker->in_flight, 1);
    if (run->events != NULL)
        run->events->on_over(run->events_arg, why);
}

static void tell_done(od_worker_run *run, const od_worker_outcome *outcome)
{
    if (run->events != NULL)
        run->events->on_done(run->events_arg, outcome);
}

static od_code stream(job *j, od_execution *execution, od_error *err)
{
    od_worker_run *run = j->run;
    for (;;) {
        od_msg *payload;
        busy(run, true);
        od_code rc = od_execution_next(execution, &payload, err);
        busy(run, false);
        j->catalog_version = od_execution_catalog_version(execution);
        if (rc != OD_OK || payload == NULL)
            return rc;
        rc = send_payload(j, payload, od_execution_place(execution), od_execution_done(execution), err);
        od_msg_unref(payload);
        if (rc != OD_OK)
            return rc;
    }
}

/* That it runs on. */
static od_engine *engine_of(const job *j)
{
    return j->snapshot != NULL ? od_snapshot_engine(j->snapshot) : j->run->worker->engine;
}

static uint64_t current_version(const job *j)
{
    if (j->request.snapshot_id.data != NULL && j->snapshot == NULL)
        return 0;
    return j->wtxn != NULL ? od_txn_catalog_version(od_wtxn_txn(j->wtxn))
                           : od_engine_catalog_version(engine_of(j), j->request.database);
}

static od_code execute(job *j, od_error *err)
{
    od_worker_run *run = j->run;
    od_execution *execution;
    od_execution_request request = {.sql = j->request.plan,
                                    .database = j->request.database,
                                    .format = j->request.format,
                                    .describe_only = j->request.describe_only,
                                    .expected_catalog_version = j->request.expected_catalog_version,
                                    .parameters = j->request.parameters,
                                    .txn = j->wtxn != NULL ? od_wtxn_txn(j->wtxn) : NULL,
                                    .rights = run->rights,
                                    .divides = j->request.divides};
    busy(run, true);
    od_code rc = od_execution_start(engine_of(j), &request, &execution, err);
    busy(run, false);
    if (rc != OD_OK) {
        j->catalog_version = current_version(j);
        return rc;
    }
    publish(run, execution);
    rc = stream(j, execution, err);
    publish(run, NULL);
    j->total_payloads = od_execution_payloads(execution);
    /* Before the last chunk: the client's next query finds the connection free, and what it changed done. */
    od_execution_end(execution);
    return rc;
}

static od_code execute_somewhere(job *j, od_error *err)
{
    od_code rc = od_run_stopped(j->run, err);
    if (rc == OD_OK)
        rc = check(j, err);
    if (rc == OD_OK && j->request.transaction_id.len > 0)
        rc = od_wtxn_use(j->run->worker, j->request.transaction_id, j->run->rights, &j->wtxn, err);
    if (rc == OD_OK && j->request.snapshot_id.data != NULL)
        rc = take_snapshot(j, err);
    j->catalog_version = current_version(j);
    if (rc == OD_OK)
        rc = execute(j, err);
    od_wtxn_leave(j->wtxn);
    j->wtxn = NULL;
    return leave_snapshot(j, rc, err);
}

static void log_end(const od_worker_run *run, od_code code)
{
    char id[2 * OD_EXECUTION_ID_SIZE];
    if (!od_log_enabled(OD_LOG_DEBUG, "worker"))
        return;
    od_log(OD_LOG_DEBUG, "worker", "execution ended", "exec=%s token=%s ms=%lld bytes=%llu code=%s",
           od_log_quote(run->id, id, sizeof id), od_rights_name(run->rights),
           (long long)((od_clock_ns() - run->start_ns) / 1000000), (unsigned long long)atomic_load(&run->bytes),
           od_code_name(code));
}

static void finish(job *j, od_code rc, od_error *why)
{
    od_worker_run *run = j->run;
    od_worker *worker = run->worker;
    /* Whatever DuckDB made of being interrupted: the reason is ours. */
    od_error stop;
    if (od_run_stopped(run, &stop) != OD_OK && rc != OD_OK) {
        *why = stop;
        rc = stop.code;
    }
    od_worker_outcome outcome = {.error = rc != OD_OK ? why : NULL, .rows_payloads = j->payloads};
    if (rc == OD_E_FATAL)
        od_worker_lose(worker, why);
    leave(run, outcome.error);
    send_end(j, outcome.error);
    outcome.bytes = atomic_load(&run->bytes);
    log_end(run, rc);
    tell_done(run, &outcome);
}

/* A request that cannot be read is an error of the call. */
static void refuse(job *j, const od_error *why)
{
    od_worker_run *run = j->run;
    leave(run, why);
    od_rpc_call_finish(run->call, OD_GRPC_INVALID_ARGUMENT, why->message);
    tell_done(run, &(od_worker_outcome){.error = why});
}

void od_run_main(void *arg)
{
    job j = {.run = arg};
    od_error err = {0};
    od_slice message = od_slice_of(od_msg_data(j.run->request), od_msg_len(j.run->request));
    od_code rc = od_execute_request_decode(message, &j.request, &err);
    if (rc == OD_OK && !is_utf8(j.request.plan))
        rc = od_fail(&err, OD_E_INVALID, "plan must be UTF-8 SQL for this worker build");
    if (rc != OD_OK)
        refuse(&j, &err);
    else
        finish(&j, execute_somewhere(&j, &err), &err);
    od_worker_run_unref(j.run);
}

static void stop_run(od_worker_run *run, od_code code, bool abandoned, const char *reason)
{
    (void)pthread_mutex_lock(&run->lock);
    if (run->stop == OD_OK) {
        run->stop = code;
        run->abandoned = abandoned;
        if (reason != NULL && strcmp(reason, od_code_text(code)) != 0)
            (void)snprintf(run->reason, sizeof run->reason, "%s", reason);
        else if (code != OD_E_CANCELLED)
            (void)snprintf(run->reason, sizeof run->reason, "%s", od_code_text(code));
        if (run->execution != NULL)
            stop_execution(run);
    } else if (run->abandoned && !abandoned) {
        run->abandoned = false;
        if (run->execution != NULL)
            stop_execution(run);
    }
    (void)pthread_mutex_unlock(&run->lock);
}

void od_worker_run_cancel(od_worker_run *run, od_code code, const char *reason)
{
    stop_run(run, code, false, reason);
}

void od_worker_run_abandon(od_worker_run *run, const char *reason)
{
    stop_run(run, OD_E_CANCELLED, true, reason);
}
