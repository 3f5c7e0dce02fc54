/* The statements of an execution: prepared, begun, and the leading ones of several run to their end. */
#include <string.h>

#include "query/engine/execution_internal.h"
#include "query/engine/parameters.h"
#include "query/engine/txn_internal.h"
#include "base/banned.h"

od_code od_statements_cancelled(od_error *err)
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

od_code od_statements_failed(const od_execution *execution, const char *text, od_error *err)
{
    if (atomic_load(&execution->interrupted))
        return od_statements_cancelled(err);
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
        rc = od_statements_failed(execution, *out != NULL ? duckdb_prepare_error(*out) : NULL, err);
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
od_code od_statements_prepare(od_execution *execution, od_error *err)
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

od_code od_statements_check_stale(const od_execution *execution, od_error *err)
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

od_code od_statements_describe(od_execution *execution, od_error *err)
{
    od_code rc;
    if (execution->parameters != NULL)
        OD_TRY(od_parameters_describe(execution->parameters, execution->lease->connection, execution->prepared, err));
    OD_TRY(set_arrow_options(execution, err));
    OD_TRY(od_statements_check_stale(execution, err));
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

od_code od_statements_start(od_execution *execution, od_error *err)
{
    od_code rc;
    OD_TRY(set_arrow_options(execution, err));
    OD_TRY(od_parameters_bind(execution->parameters, execution->prepared, parameters_repeat(execution), err));
    OD_TRY(od_statements_check_stale(execution, err));
    OD_TRY(
        od_effect_begin(execution, duckdb_prepared_statement_type(execution->prepared), execution->last_effect, err));
    duckdb_state state = duckdb_pending_prepared_streaming(execution->prepared, &execution->pending);
    if (state == DuckDBError)
        return od_statements_failed(execution, duckdb_pending_error(execution->pending), err);
    /* A reading statement may have been bound to a catalog that changed meanwhile. */
    if (execution->last_effect == OD_EFFECT_READS)
        OD_TRY(od_statements_check_stale(execution, err));
    execution->started = true;
out:
    return rc;
}

void od_statements_end_unread(duckdb_connection connection)
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
        rc = od_statements_failed(execution, why, err);
    duckdb_destroy_result(&result);
    duckdb_destroy_prepare(&prepared);
    if (rc != OD_OK && execution->txn == NULL)
        od_statements_end_unread(execution->lease->connection);
    od_effect_end(execution);
    /* What came before the interrupt must not stay without what was to come after it. */
    execution->torn = rc == OD_E_CANCELLED && atomic_load(&execution->changes);
    return rc;
}

od_code od_statements_run_leading(od_execution *execution, od_error *err)
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
    return od_statements_start(execution, err);
}
