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

static od_code cancelled(od_error *err)
{
    return od_fail(err, OD_E_CANCELLED, "the execution was cancelled");
}

/* Names that are like a wrong one may be of a database that is not the token's to see. */
static void drop_suggestions(const od_execution *execution, od_error *err)
{
    if (err == NULL || execution->lease == NULL || od_rights_every_database(execution->lease->rights))
        return;
    char *hint = strstr(err->message, "Did you mean");
    while (hint != NULL && hint > err->message && strchr(" \n", hint[-1]) != NULL)
        hint--;
    if (hint != NULL)
        *hint = '\0';
}

/* An error of DuckDB, or the interrupt that caused it. */
static od_code failed(const od_execution *execution, const char *text, od_error *err)
{
    if (atomic_load(&execution->interrupted))
        return cancelled(err);
    od_code code = od_duck_fail(err, text);
    drop_suggestions(execution, err);
    return code;
}

/* ---- preparing ---- */

/* Prepares the INDEXth of the extracted statements. */
static od_code prepare(od_execution *execution, idx_t index, duckdb_prepared_statement *out, od_error *err)
{
    od_code rc = OD_OK;
    *out = NULL;
    if (duckdb_prepare_extracted_statement(execution->lease->connection, execution->extracted, index, out) ==
        DuckDBError)
        rc = failed(execution, *out != NULL ? duckdb_prepare_error(*out) : NULL, err);
    if (rc == OD_OK && execution->txn != NULL &&
        duckdb_prepared_statement_type(*out) == DUCKDB_STATEMENT_TYPE_TRANSACTION)
        rc = od_fail(err, OD_E_INVALID,
                     "a transaction is ended by CommitTransaction or RollbackTransaction, not by SQL");
    if (rc != OD_OK)
        duckdb_destroy_prepare(out);
    return rc;
}

static od_code extract(od_execution *execution, od_error *err)
{
    duckdb_connection connection = execution->lease->connection;
    execution->statement_count = duckdb_extract_statements(connection, execution->sql, &execution->extracted);
    if (execution->statement_count > 0)
        return OD_OK;
    const char *why = execution->extracted != NULL ? duckdb_extract_statements_error(execution->extracted) : NULL;
    return why != NULL ? od_duck_fail(err, why) : od_fail(err, OD_E_INVALID, "the text holds no statement");
}

static od_code check_several(const od_execution *execution, od_error *err)
{
    if (execution->counts)
        return od_fail(err, OD_E_INVALID, "arriving rows can be read by a single statement, not by %llu",
                       (unsigned long long)execution->statement_count);
    if (execution->describe_only)
        return od_fail(err, OD_E_INVALID, "only a single statement can be described, not %llu",
                       (unsigned long long)execution->statement_count);
    if (execution->parameters != NULL)
        return od_fail(err, OD_E_INVALID, "parameters can be given to a single statement, not to %llu",
                       (unsigned long long)execution->statement_count);
    return OD_OK;
}

/* Columns of a statement with parameters are those of its last values: a description is of a fresh one. */
static bool describes_parameters(const od_execution *execution, duckdb_prepared_statement prepared)
{
    return execution->describe_only && duckdb_nparams(prepared) > 0;
}

/* What changes rows or makes a table, and gives how many: one column, as DuckDB calls it. */
static od_code check_counts(const od_execution *execution, duckdb_prepared_statement prepared, od_error *err)
{
    const char *name = duckdb_prepared_statement_column_count(prepared) == 1
                           ? duckdb_prepared_statement_column_name(prepared, 0)
                           : NULL;
    bool counts = name != NULL && strcmp(name, "Count") == 0 &&
                  od_effect_of(duckdb_prepared_statement_type(prepared), execution->sql) != OD_EFFECT_READS;
    duckdb_free((void *)(uintptr_t)name);
    return counts ? OD_OK
                  : od_fail(err, OD_E_NOT_IMPLEMENTED,
                            "only a statement that changes rows, without RETURNING, can read arriving rows");
}

static bool is_kept(const od_execution *execution, duckdb_prepared_statement prepared)
{
    return execution->txn == NULL && execution->lease->rights == NULL &&
           duckdb_prepared_statement_type(prepared) == DUCKDB_STATEMENT_TYPE_SELECT &&
           execution->sql_len <= OD_ENGINE_STATEMENT_TEXT && !describes_parameters(execution, prepared);
}

/* Finds or makes the one statement's prepared form. */
static od_code prepare_single(od_execution *execution, od_error *err)
{
    od_code rc;
    od_slice sql = od_slice_of(execution->sql, execution->sql_len);
    uint64_t data_version = atomic_load(&execution->engine->data_version);
    /* A plan that was made from what a transaction sees, or by what others see, is of no use elsewhere; nor is one of other rights. */
    if (execution->txn == NULL && execution->lease->rights == NULL)
        execution->kept = od_lease_find(execution->lease, sql, data_version);
    if (execution->kept != NULL && describes_parameters(execution, execution->kept->prepared))
        execution->kept = NULL;
    if (execution->kept != NULL) {
        execution->prepared = execution->kept->prepared;
        execution->last_effect = OD_EFFECT_READS;
        return OD_OK;
    }
    OD_TRY(extract(execution, err));
    if (execution->statement_count > 1)
        return check_several(execution, err);
    duckdb_prepared_statement prepared;
    OD_TRY(prepare(execution, 0, &prepared, err));
    if (execution->counts) {
        rc = check_counts(execution, prepared, err);
        if (rc != OD_OK) {
            duckdb_destroy_prepare(&prepared);
            goto out;
        }
    }
    execution->last_effect = od_effect_of(duckdb_prepared_statement_type(prepared), execution->sql);
    if (is_kept(execution, prepared)) {
        execution->kept = od_lease_keep(execution->lease, sql, data_version, prepared);
        if (execution->kept == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    } else {
        execution->owned = prepared;
    }
    execution->prepared = prepared;
out:
    return rc;
}

/* ---- running ---- */

static od_code check_stale(const od_execution *execution, od_error *err)
{
    uint64_t expected = execution->expected_catalog_version;
    uint64_t current = execution->txn != NULL ? od_txn_catalog_version(execution->txn)
                                              : od_pool_catalog_version(execution->engine, execution->lease->pool);
    if (expected != 0 && expected != current)
        return od_fail(err, OD_E_STALE_CATALOG, "the catalog changed since the statement was bound");
    return OD_OK;
}

/* Arrow's options are read when a statement starts. */
static od_code set_arrow_options(od_execution *execution, od_error *err)
{
    od_lease *lease = execution->lease;
    od_code rc = OD_OK;
    bool lossless = execution->format == OD_FORMAT_LOSSLESS;
    if (execution->format == OD_FORMAT_NATIVE)
        return OD_OK;
    if (!lease->arrow_fixed && execution->engine->external_access) {
        /* Clients may have changed the instance's. */
        OD_TRY(od_duck_run(lease->connection, "SET SESSION produce_arrow_string_view = false", err));
        OD_TRY(od_duck_run(lease->connection, "SET SESSION arrow_output_list_view = false", err));
        OD_TRY(od_duck_run(lease->connection, "SET SESSION arrow_output_version = '1.0'", err));
        OD_TRY(od_duck_run(lease->connection, "SET SESSION arrow_large_buffer_size = false", err));
    }
    if (!lease->arrow_fixed || lease->lossless != lossless)
        OD_TRY(od_duck_run(lease->connection,
                           lossless ? "SET SESSION arrow_lossless_conversion = true"
                                    : "SET SESSION arrow_lossless_conversion = false",
                           err));
    lease->arrow_fixed = true;
    lease->lossless = lossless;
out:
    return rc;
}

/* Whether a parameter may be in the text more than once. */
static bool parameters_repeat(const od_execution *execution)
{
    size_t marks = 0;
    for (size_t i = 0; i < execution->sql_len; i++)
        marks += execution->sql[i] == '$' || execution->sql[i] == '?';
    return marks > duckdb_nparams(execution->prepared);
}

static od_code start_statement(od_execution *execution, od_error *err)
{
    od_code rc;
    OD_TRY(set_arrow_options(execution, err));
    OD_TRY(od_parameters_bind(execution->parameters, execution->prepared, parameters_repeat(execution), err));
    OD_TRY(check_stale(execution, err));
    OD_TRY(
        od_effect_begin(execution, duckdb_prepared_statement_type(execution->prepared), execution->last_effect, err));
    duckdb_state state = duckdb_pending_prepared_streaming(execution->prepared, &execution->pending);
    if (state == DuckDBError)
        return failed(execution, duckdb_pending_error(execution->pending), err);
    /* A reading statement may have been bound to a catalog that changed meanwhile. */
    if (execution->last_effect == OD_EFFECT_READS)
        OD_TRY(check_stale(execution, err));
    execution->started = true;
out:
    return rc;
}

/* DuckDB ends a statement that was not read to its end when its connection is used next, and keeps its transaction until then:
 * others would have to wait for an idle connection. */
static void end_unread(duckdb_connection connection)
{
    duckdb_prepared_statement none;
    (void)duckdb_prepare(connection, "", &none);
    duckdb_destroy_prepare(&none);
}

/* Runs a leading statement to its end, its rows unseen. */
static od_code run_through(od_execution *execution, idx_t index, od_error *err)
{
    duckdb_prepared_statement prepared;
    duckdb_result result;
    od_code rc = prepare(execution, index, &prepared, err);
    if (rc != OD_OK)
        return rc;
    duckdb_statement_type type = duckdb_prepared_statement_type(prepared);
    rc = od_effect_begin(execution, type, od_effect_of(type, execution->sql), err);
    if (rc != OD_OK) {
        duckdb_destroy_prepare(&prepared);
        return rc;
    }
    duckdb_state state = duckdb_execute_prepared_streaming(prepared, &result);
    duckdb_data_chunk chunk = NULL;
    while (state != DuckDBError && !atomic_load(&execution->interrupted) &&
           (chunk = duckdb_fetch_chunk(result)) != NULL)
        duckdb_destroy_data_chunk(&chunk);
    const char *why = duckdb_result_error(&result);
    if (state == DuckDBError || (why != NULL && why[0] != '\0') || atomic_load(&execution->interrupted))
        rc = failed(execution, why, err);
    duckdb_destroy_result(&result);
    duckdb_destroy_prepare(&prepared);
    if (rc != OD_OK && execution->txn == NULL)
        end_unread(execution->lease->connection);
    od_effect_end(execution);
    /* What came before the interrupt must not stay without what was to come after it. */
    execution->torn = rc == OD_E_CANCELLED && atomic_load(&execution->changes);
    return rc;
}

static od_code run_leading(od_execution *execution, od_error *err)
{
    od_code rc = OD_OK;
    idx_t last = execution->statement_count - 1;
    for (idx_t i = 0; i < last && rc == OD_OK; i++)
        rc = run_through(execution, i, err);
    if (rc == OD_OK)
        rc = prepare(execution, last, &execution->owned, err);
    if (rc != OD_OK)
        return rc;
    execution->prepared = execution->owned;
    execution->last_effect = od_effect_of(duckdb_prepared_statement_type(execution->owned), execution->sql);
    return start_statement(execution, err);
}

/* ---- ending ---- */

static void close_result(od_execution *execution)
{
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
        end_unread(execution->lease->connection);
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
    OD_TRY(check_stale(execution, err));
    OD_TRY(check_names(execution, err));
    if (parameters.len > 0)
        OD_TRY(od_parameters_read(execution->engine->host, execution->lease->connection, parameters,
                                  &execution->parameters, err));
    OD_TRY(prepare_single(execution, err));
    if (execution->describe_only) {
        if (execution->parameters != NULL)
            OD_TRY(
                od_parameters_describe(execution->parameters, execution->lease->connection, execution->prepared, err));
        OD_TRY(set_arrow_options(execution, err));
        OD_TRY(check_stale(execution, err));
    } else if (execution->prepared != NULL) {
        OD_TRY(start_statement(execution, err));
    }
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
            return failed(execution, duckdb_pending_error(execution->pending), err);
        default:
            return OD_OK;
        }
    }
    execution->torn = execution->effect != OD_EFFECT_READS;
    return cancelled(err);
}

/* Waits until the result begins. */
static od_code open_result(od_execution *execution, od_error *err)
{
    od_code rc = OD_OK;
    if (!execution->started)
        rc = run_leading(execution, err);
    if (rc == OD_OK)
        rc = work_until_ready(execution, err);
    if (rc != OD_OK)
        return rc;
    duckdb_state state = duckdb_execute_pending(execution->pending, &execution->result);
    execution->has_result = true;
    duckdb_destroy_pending(&execution->pending);
    if (state == DuckDBError)
        return failed(execution, duckdb_result_error(&execution->result), err);
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

/* The next payload, from DuckDB. */
static od_code compute(od_execution *execution, od_msg **out, od_error *err)
{
    od_code rc = OD_OK;
    *out = NULL;
    if (execution->done)
        return OD_OK;
    if (atomic_load(&execution->interrupted))
        rc = cancelled(err);
    else if (execution->describe_only)
        rc = od_output_describe(execution, out, err);
    else if (!execution->has_result)
        rc = open_result(execution, err);
    if (rc == OD_OK && !execution->describe_only)
        rc = od_output_next(execution, out, err);
    if (rc == OD_OK && *out != NULL && !execution->describe_only) {
        execution->payloads++;
        execution->payload_ns = od_clock_ns();
        rc = look_ahead(execution, err);
        if (rc != OD_OK) {
            od_msg_unref(*out);
            *out = NULL;
        }
    } else if (rc == OD_OK && *out == NULL) {
        note_end(execution);
    }
    if (rc != OD_OK || *out == NULL || execution->describe_only || execution->drained) {
        execution->done = true;
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
            return cancelled(err);
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
        return atomic_load(&execution->interrupted) ? cancelled(err) : take_late(execution, out, err);
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

od_code od_output_fetch(od_execution *execution, duckdb_data_chunk *out, od_error *err)
{
    for (;;) {
        *out = NULL;
        if (atomic_load(&execution->interrupted))
            return cancelled(err);
        *out = duckdb_fetch_chunk(execution->result);
        if (*out == NULL) {
            const char *why = duckdb_result_error(&execution->result);
            execution->drained = true;
            if (atomic_load(&execution->interrupted))
                return cancelled(err);
            return why != NULL && why[0] != '\0' ? fetch_failed(why, err) : OD_OK;
        }
        if (duckdb_data_chunk_get_size(*out) > 0)
            return OD_OK;
        duckdb_destroy_data_chunk(out);
    }
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
    if (execution->txn != NULL) {
        leave_txn(execution);
        od_spool_free(execution->spool);
        od_txn_unref(execution->txn);
    } else if (execution->lease != NULL) {
        close_result(execution);
        od_lease_give(execution->lease);
    }
    od_settle_end(&execution->engine->settle, &execution->interrupted);
    od_parameters_free(execution->parameters);
    od_free(execution->sql);
    od_free(execution);
}
