#include "query/engine.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "query/engine/engine_internal.h"
#include "query/engine/parameters.h"
#include "query/engine/txn_internal.h"
#include "base/banned.h"

/* ---- ending ---- */

static void close_result(od_execution *execution)
{
    od_division_end(execution->division);
    bool unread = !execution->drained && (execution->pending != NULL || execution->has_result);
    od_output_close(execution);
    /* DuckDB's threads may still be at work for it: the connection's next statement would wait for them. */
    if (unread)
        duckdb_interrupt(execution->lease->connection);
    /* DuckDB's threads begin with a statement before it is fetched from. */
    if (execution->started && !execution->refused && execution->pending != NULL && execution->effect != OD_EFFECT_READS)
        execution->torn = true;
    if (execution->pending != NULL)
        duckdb_destroy_pending(&execution->pending);
    if (execution->has_result)
        duckdb_destroy_result(&execution->result);
    execution->has_result = false;
    /* What it has changed so far must not be committed: an error aborts the transaction. */
    if (execution->torn && execution->txn != NULL)
        od_duck_try(execution->lease->connection, "SELECT error('the statement was cancelled')");
    execution->torn = false;
    duckdb_destroy_prepare(&execution->owned);
    if (execution->extracted != NULL)
        duckdb_destroy_extracted(&execution->extracted);
    execution->extracted = NULL;
    execution->prepared = NULL;
    if (unread && execution->txn == NULL)
        od_statements_end_unread(execution->lease->connection);
    od_effect_end(execution);
}

/* ---- the door ---- */

static od_code create(od_engine *engine, const od_execution_request *request, od_execution **out, od_error *err)
{
    od_execution *execution = od_calloc(1, sizeof *execution);
    if (execution == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    execution->engine = engine;
    execution->format = request->format;
    execution->describe_only = request->describe_only;
    execution->counts = request->counts;
    execution->expected_catalog_version = request->expected_catalog_version;
    execution->catalog_version = request->txn != NULL ? od_txn_catalog_version(request->txn)
                                                      : od_engine_catalog_version(engine, request->database);
    execution->next_chunks = 1;
    atomic_init(&execution->interrupted, false);
    atomic_init(&execution->changes, false);
    execution->sql_len = request->sql.len;
    execution->sql = od_strndup((const char *)request->sql.data, request->sql.len);
    if (execution->sql == NULL) {
        od_free(execution);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    *out = execution;
    return OD_OK;
}

od_lease_pool *od_engine_pool(od_engine *engine, od_slice database, od_error *err)
{
    if (database.len == 0)
        return &engine->pools[0];
    for (size_t i = 0; i < engine->database_count; i++)
        if (od_slice_equal(od_slice_str(engine->names[i]), database))
            return &engine->pools[i];
    (void)od_fail(err, OD_E_NOT_FOUND, "database '%.*s' is not served here",
                  (int)(database.len < 200 ? database.len : 200), (const char *)database.data);
    return NULL;
}

od_code od_engine_check_rights(const od_rights *rights, od_slice database, od_error *err)
{
    return database.len > 0 ? od_rights_check_database(rights, database, err) : OD_OK;
}

typedef struct {
    const od_execution *execution;
    od_code code;
    od_error *err;
} name_check;

/* A name of a table, as it is written: CATALOG, or else SCHEMA, may be that of a database. */
static void check_name(void *arg, const char *catalog, const char *schema, const char *name)
{
    name_check *check = arg;
    const od_engine *engine = check->execution->engine;
    const char *first = catalog[0] != '\0' ? catalog : schema;
    (void)name;
    for (size_t i = 0; check->code == OD_OK && i < engine->database_count; i++)
        if (strcasecmp(engine->names[i], first) == 0)
            check->code =
                od_rights_check_database(check->execution->lease->rights, od_slice_str(engine->names[i]), check->err);
}

/* Names of other databases are refused before DuckDB looks at what they have: its errors would tell of that. */
static od_code check_names(const od_execution *execution, od_error *err)
{
    name_check check = {.execution = execution, .err = err};
    bool only_reads;
    if (od_rights_every_database(execution->lease->rights))
        return OD_OK;
    (void)execution->engine->host->read_statement(execution->sql, execution->sql_len, check_name, &check, &only_reads);
    return check.code;
}

/* Prepares, and starts what is not only described; has its connection. */
static od_code begin(od_execution *execution, od_slice parameters, od_error *err)
{
    od_code rc;
    OD_TRY(od_statements_check_stale(execution, err));
    OD_TRY(check_names(execution, err));
    if (parameters.len > 0)
        OD_TRY(od_parameters_read(execution->engine->host, execution->lease->connection, parameters,
                                  &execution->parameters, err));
    OD_TRY(od_statements_prepare(execution, err));
    if (execution->describe_only)
        OD_TRY(od_statements_describe(execution, err));
    else if (execution->prepared != NULL)
        OD_TRY(od_statements_start(execution, err));
out:
    return rc;
}

static od_code begin_in_txn(od_execution *execution, const od_execution_request *request, od_error *err)
{
    od_txn *txn = execution->txn;
    od_slice database = request->database;
    od_code rc = od_txn_enter(txn, &execution->interrupted, NULL, err);
    if (rc != OD_OK)
        return rc;
    if (database.len > 0 && !od_slice_equal(database, od_slice_str(txn->lease->pool->database)))
        rc = od_fail(err, OD_E_INVALID, "the transaction is one of database '%s', not of '%.*s'",
                     txn->lease->pool->database, (int)(database.len < 200 ? database.len : 200),
                     (const char *)database.data);
    execution->lease = txn->lease;
    if (rc == OD_OK)
        rc = begin(execution, request->parameters, err);
    if (rc == OD_OK)
        txn->streaming = execution;
    else
        close_result(execution);
    od_txn_leave(txn);
    return rc;
}

/* Rows that something was changed for are few, and a plain payload is not made without its connection. */
static bool may_divide(const od_execution *execution)
{
    return execution->format == OD_FORMAT_NATIVE && !execution->describe_only && execution->prepared != NULL &&
           execution->last_effect == OD_EFFECT_READS;
}

od_code od_execution_start(od_engine *engine, const od_execution_request *request, od_execution **out, od_error *err)
{
    od_code rc;
    od_execution *execution = NULL;
    *out = NULL;
    od_lease_pool *pool = od_engine_pool(engine, request->database, err);
    if (pool == NULL)
        return OD_E_NOT_FOUND;
    if (request->sql.len > 0 && memchr(request->sql.data, '\0', request->sql.len) != NULL)
        return od_fail(err, OD_E_PARSER, "the SQL text holds a NUL byte");
    if (request->txn == NULL)
        OD_TRY(od_engine_check_rights(request->rights, request->database, err));
    OD_TRY(create(engine, request, &execution, err));
    if (request->txn != NULL) {
        execution->txn = od_txn_ref(request->txn);
        OD_TRY(begin_in_txn(execution, request, err));
    } else {
        OD_TRY(od_lease_take(pool, &execution->lease, err));
        od_lake_look(engine, execution->lease);
        execution->catalog_version = od_pool_catalog_version(engine, pool);
        OD_TRY(od_lease_limit(execution->lease, request->rights, err));
        OD_TRY(begin(execution, request->parameters, err));
        if (request->divides && may_divide(execution))
            OD_TRY(od_division_create(execution, &execution->division, err));
    }
    *out = execution;
    execution = NULL;
out:
    od_execution_end(execution);
    return rc;
}

uint64_t od_execution_catalog_version(const od_execution *execution)
{
    return execution->catalog_version;
}

/* Helps DuckDB's threads until the result begins. duckdb_execute_pending would do so too, but spins while they have all the
 * tasks: here the processor is given to them, for a moment at first and then for longer. */
static od_code work_until_ready(od_execution *execution, od_error *err)
{
    unsigned idle = 0;
    while (!atomic_load_explicit(&execution->interrupted, memory_order_relaxed)) {
        switch (duckdb_pending_execute_task(execution->pending)) {
        case DUCKDB_PENDING_RESULT_NOT_READY:
            idle = 0;
            break;
        case DUCKDB_PENDING_NO_TASKS_AVAILABLE:
            if (++idle < 64)
                (void)sched_yield();
            else
                (void)nanosleep(&(struct timespec){.tv_nsec = idle < 128 ? 20000 : 200000}, NULL);
            break;
        case DUCKDB_PENDING_ERROR:
            execution->refused = true;
            return od_statements_failed(execution, duckdb_pending_error(execution->pending), err);
        default:
            return OD_OK;
        }
    }
    execution->torn = execution->effect != OD_EFFECT_READS;
    return od_statements_cancelled(err);
}

/* Waits until the result begins. */
static od_code open_result(od_execution *execution, od_error *err)
{
    od_code rc = OD_OK;
    if (!execution->started)
        rc = od_statements_run_leading(execution, err);
    if (rc == OD_OK)
        rc = work_until_ready(execution, err);
    if (rc != OD_OK)
        return rc;
    duckdb_state state = duckdb_execute_pending(execution->pending, &execution->result);
    execution->has_result = true;
    duckdb_destroy_pending(&execution->pending);
    if (state == DuckDBError)
        return od_statements_failed(execution, duckdb_result_error(&execution->result), err);
    return od_output_open(execution, err);
}

/* A kept statement reads the same data as in its last run (od_lease_find). If that ended at once after its first payload, this
 * one will too: looking for the end before the payload goes out lets both go in one piece, and delays no row. */
static od_code look_ahead(od_execution *execution, od_error *err)
{
    if (execution->drained || execution->current != NULL || execution->kept == NULL || !execution->kept->brief)
        return OD_OK;
    execution->current_row = 0;
    od_code rc = od_output_fetch(execution, &execution->current, err);
    execution->kept->brief = execution->drained;
    return rc;
}

/* Remembers whether the end came at once after the first payload. */
static void note_end(od_execution *execution)
{
    if (execution->kept != NULL)
        execution->kept->brief = execution->payloads == 1 && od_clock_ns() - execution->payload_ns < OD_ENGINE_BRIEF_NS;
}

/* Takes the rows of the next payload, or *out as a whole where there are none to take. *any: there are some, to be written. *last: no rows
 * are left behind. */
static od_code take_rows(od_execution *execution, bool *any, bool *last, od_msg **out, od_error *err)
{
    *any = false;
    od_code rc = od_division_check(execution->division, err);
    if (rc == OD_OK && atomic_load(&execution->interrupted))
        rc = od_statements_cancelled(err);
    else if (rc == OD_OK && execution->describe_only)
        rc = od_output_describe(execution, out, err);
    else if (rc == OD_OK && !execution->has_result)
        rc = open_result(execution, err);
    if (rc == OD_OK && !execution->describe_only)
        rc = od_output_gather(execution, &execution->output, any, err);
    if (rc == OD_OK && *any) {
        execution->place = execution->payloads;
        execution->payload_ns = od_clock_ns();
        rc = look_ahead(execution, err);
    } else if (rc == OD_OK && !execution->describe_only) {
        note_end(execution);
    }
    *last = execution->describe_only || execution->drained || !*any;
    return rc;
}

/* The next payload, from DuckDB. */
static od_code compute(od_execution *execution, od_msg **out, od_error *err)
{
    bool any, last;
    *out = NULL;
    if (execution->done)
        return OD_OK;
    od_division_enter(execution->division);
    od_code rc = take_rows(execution, &any, &last, out, err);
    od_division_leave(execution->division);
    if (rc == OD_OK && any)
        rc = od_output_write(&execution->output, out, err);
    if (rc == OD_OK && last) {
        od_division_end(execution->division);
        rc = od_division_check(execution->division, err);
    }
    if (rc != OD_OK) {
        od_msg_unref(*out);
        *out = NULL;
    }
    if (rc != OD_OK || last) {
        execution->done = true;
        execution->whole = rc == OD_OK;
        close_result(execution);
        if (execution->txn != NULL && execution->txn->streaming == execution)
            execution->txn->streaming = NULL;
    }
    return rc;
}

static od_code late(const od_execution *execution, od_error *err)
{
    if (execution->late_code != OD_OK && err != NULL)
        *err = execution->late;
    return execution->late_code;
}

od_code od_execution_set_aside(od_execution *execution, const atomic_bool *stopped, od_error *err)
{
    od_error why = {0};
    od_code rc = OD_OK;
    if (execution->spool == NULL)
        rc = od_spool_create(execution->engine->spool_dir, OD_SPOOL_MEMORY, &execution->spool, err);
    if (rc != OD_OK)
        return rc;
    while (!execution->done) {
        od_msg *msg;
        if (stopped != NULL && atomic_load(stopped))
            return od_statements_cancelled(err);
        rc = compute(execution, &msg, &why);
        if (rc == OD_OK && msg != NULL) {
            rc = od_spool_put(execution->spool, msg, &why);
            if (rc != OD_OK) {
                execution->done = true;
                close_result(execution);
                execution->txn->streaming = NULL;
            }
        }
    }
    /* What failed is its reader's to know. */
    execution->late_code = rc;
    execution->late = why;
    atomic_store(&execution->set_aside, true);
    return OD_OK;
}

void od_execution_cut(od_execution *execution, const char *why)
{
    execution->done = true;
    close_result(execution);
    execution->txn->streaming = NULL;
    execution->late_code = od_fail(&execution->late, OD_E_NO_TRANSACTION, "the transaction is over: %s", why);
    atomic_store(&execution->set_aside, true);
}

static od_code take_late(od_execution *execution, od_msg **out, od_error *err)
{
    od_code rc = execution->spool != NULL ? od_spool_take(execution->spool, out, err) : OD_OK;
    return rc == OD_OK && *out == NULL ? late(execution, err) : rc;
}

static od_code compute_last(od_execution *execution, od_msg **out, od_error *err)
{
    od_code rc = compute(execution, out, err);
    execution->gave_last = execution->done;
    return rc;
}

static od_code next_in_txn(od_execution *execution, od_msg **out, od_error *err)
{
    if (atomic_load(&execution->set_aside))
        return atomic_load(&execution->interrupted) ? od_statements_cancelled(err) : take_late(execution, out, err);
    od_code rc = od_txn_enter(execution->txn, &execution->interrupted, execution, err);
    if (rc == OD_E_NO_TRANSACTION && atomic_load(&execution->set_aside))
        return take_late(execution, out, err);
    if (rc != OD_OK)
        return rc;
    if (execution->spool != NULL)
        rc = od_spool_take(execution->spool, out, err);
    if (rc == OD_OK && *out == NULL)
        rc = execution->done ? late(execution, err) : compute_last(execution, out, err);
    od_txn_leave(execution->txn);
    return rc;
}

od_code od_execution_next(od_execution *execution, od_msg **out, od_error *err)
{
    *out = NULL;
    return execution->txn != NULL ? next_in_txn(execution, out, err) : compute(execution, out, err);
}

/* Of a result that fails while its reader is slow, DuckDB may tell only that its own threads were interrupted by the failure.
 * Nobody asked for that, so it must not look as if the user had. */
static od_code fetch_failed(const char *why, od_error *err)
{
    od_code rc = od_duck_fail(err, why);
    if (rc != OD_E_CANCELLED)
        return rc;
    return od_fail(err, OD_E_UNKNOWN,
                   "the query failed while its rows were on their way, and DuckDB does not tell why");
}

static od_code keep_chunk(duckdb_data_chunk chunk, od_rows_chunk **out, od_error *err)
{
    od_rows_chunk *rows = od_calloc(1, sizeof *rows);
    if (rows == NULL) {
        duckdb_destroy_data_chunk(&chunk);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    atomic_init(&rows->refs, 1);
    rows->chunk = chunk;
    *out = rows;
    return OD_OK;
}

od_code od_output_fetch(od_execution *execution, od_rows_chunk **out, od_error *err)
{
    *out = NULL;
    for (;;) {
        if (atomic_load(&execution->interrupted))
            return od_statements_cancelled(err);
        duckdb_data_chunk chunk = duckdb_fetch_chunk(execution->result);
        if (chunk == NULL) {
            const char *why = duckdb_result_error(&execution->result);
            execution->drained = true;
            if (atomic_load(&execution->interrupted))
                return od_statements_cancelled(err);
            return why != NULL && why[0] != '\0' ? fetch_failed(why, err) : OD_OK;
        }
        if (duckdb_data_chunk_get_size(chunk) > 0)
            return keep_chunk(chunk, out, err);
        duckdb_destroy_data_chunk(&chunk);
    }
}

uint64_t od_execution_place(const od_execution *execution)
{
    return execution->division != NULL ? execution->place : 0;
}

uint64_t od_execution_payloads(const od_execution *execution)
{
    return execution->division != NULL && execution->whole ? execution->payloads : 0;
}

bool od_execution_done(const od_execution *execution)
{
    /* In a transaction others may bring it to its end, and leave payloads for its reader. */
    return execution->txn != NULL ? execution->gave_last : execution->done;
}

void od_execution_interrupt(od_execution *execution)
{
    od_settle_begin(&execution->engine->settle, &execution->interrupted);
    if (execution->txn != NULL)
        od_txn_nudge(execution->txn, &execution->interrupted, true);
    else
        duckdb_interrupt(execution->lease->connection);
}

void od_execution_abandon(od_execution *execution)
{
    if (execution->txn == NULL || atomic_load(&execution->changes)) {
        od_execution_interrupt(execution);
        return;
    }
    od_settle_begin(&execution->engine->settle, &execution->interrupted);
    od_txn_nudge(execution->txn, &execution->interrupted, false);
}

/* Its result is closed in a turn, if that has not been done. */
static void leave_txn(od_execution *execution)
{
    od_txn *txn = execution->txn;
    if (od_txn_enter_last(txn)) {
        if (txn->streaming == execution) {
            close_result(execution);
            txn->streaming = NULL;
        }
        od_txn_leave(txn);
    }
}

void od_execution_end(od_execution *execution)
{
    if (execution == NULL)
        return;
    /* A follower may be waiting for DuckDB's next rows. In a transaction, where others may end it, there is none. */
    if (od_division_is_followed(execution->division) && !execution->done)
        od_execution_interrupt(execution);
    if (execution->txn != NULL) {
        leave_txn(execution);
        od_spool_free(execution->spool);
        od_txn_unref(execution->txn);
    } else if (execution->lease != NULL) {
        close_result(execution);
        od_lease_give(execution->lease);
    }
    od_settle_end(&execution->engine->settle, &execution->interrupted);
    od_division_unref(execution->division);
    od_parameters_free(execution->parameters);
    od_free(execution->sql);
    od_free(execution);
}
