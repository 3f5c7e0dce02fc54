/* Rows that come in: a temporary table on a transaction's connection, and an appender. */
#include <string.h>

#include "arrow/ipc_read.h"
#include "base/alloc.h"
#include "base/ident.h"
#include "query/engine/arrow_read.h"
#include "query/engine/native_read.h"
#include "query/engine/txn_internal.h"
#include "base/banned.h"

struct od_staging {
    od_txn *txn;
    od_format format;
    char *table;
    size_t column_count;
    char **names;
    duckdb_logical_type *types;
    duckdb_appender appender;
    duckdb_data_chunk chunk; /* NATIVE */
    od_native_reader *native;
    duckdb_arrow_converted_schema arrow; /* PLAIN, LOSSLESS: of the payload's schema */
    od_ipc_reader *reader;
    bool created, finished, failed;
    atomic_bool stopped;
    uint64_t rows;
};

/* ---- the table ---- */

static od_code check_name(od_slice name, const char *what, od_error *err)
{
    if (name.len == 0 || memchr(name.data, '\0', name.len) != NULL)
        return od_fail(err, OD_E_INVALID, "%s is empty or holds a NUL", what);
    return OD_OK;
}

static od_code create_sql(const od_staging_request *request, od_buf *sql, od_error *err)
{
    od_code rc;
    OD_TRY(od_buf_printf(sql, err, "CREATE TEMPORARY TABLE temp.main."));
    OD_TRY(od_quote_ident(sql, request->table, err));
    for (size_t i = 0; i < request->column_count; i++) {
        const od_staging_column *column = &request->columns[i];
        OD_TRY(check_name(column->name, "a column's name", err));
        OD_TRY(check_name(column->sql_type, "a column's type", err));
        OD_TRY(od_buf_printf(sql, err, i == 0 ? "(" : ", "));
        OD_TRY(od_quote_ident(sql, column->name, err));
        OD_TRY(od_buf_printf(sql, err, " "));
        OD_TRY(od_buf_append(sql, column->sql_type.data, column->sql_type.len, err));
    }
    OD_TRY(od_buf_printf(sql, err, ")"));
    OD_TRY(od_buf_append(sql, "", 1, err));
out:
    return rc;
}

/* A type is text: what makes more than a CREATE of it is refused. */
static od_code run_create(duckdb_connection connection, const char *sql, od_error *err)
{
    duckdb_extracted_statements statements = NULL;
    duckdb_prepared_statement prepared = NULL;
    duckdb_result result = {0};
    od_code rc = OD_OK;
    idx_t count = duckdb_extract_statements(connection, sql, &statements);
    if (count == 0) {
        rc = od_duck_fail(err, duckdb_extract_statements_error(statements));
    } else if (count > 1) {
        rc = od_fail(err, OD_E_INVALID, "a column's type is more than a type");
    } else if (duckdb_prepare_extracted_statement(connection, statements, 0, &prepared) == DuckDBError) {
        rc = od_duck_fail(err, duckdb_prepare_error(prepared));
    } else {
        if (duckdb_execute_prepared(prepared, &result) == DuckDBError)
            rc = od_duck_fail(err, duckdb_result_error(&result));
        duckdb_destroy_result(&result);
    }
    duckdb_destroy_prepare(&prepared);
    duckdb_destroy_extracted(&statements);
    return rc;
}

static od_code appender_failed(od_staging *ingest, od_error *err)
{
    const char *why = duckdb_appender_error(ingest->appender);
    return atomic_load(&ingest->stopped) ? od_fail(err, OD_E_CANCELLED, "the ingest was cancelled")
                                         : od_duck_fail(err, why);
}

/* The table's own types. Asked of an appender, which is not used: an INSERT from appended rows takes a quarter of its time. */
static od_code ask_types(od_staging *ingest, od_error *err)
{
    size_t n = ingest->column_count;
    duckdb_appender table = NULL;
    od_code rc = OD_OK;
    if (duckdb_appender_create_ext(ingest->txn->lease->connection, "temp", "main", ingest->table, &table) ==
        DuckDBError)
        rc = od_duck_fail(err, duckdb_appender_error(table));
    else if (duckdb_appender_column_count(table) != n)
        rc = od_fail(err, OD_E_INVALID, "a column's type is more than a type");
    else if (ingest->format == OD_FORMAT_NATIVE)
        for (size_t i = 0; i < n; i++)
            ingest->types[i] = duckdb_appender_column_type(table, i);
    (void)duckdb_appender_destroy(&table);
    return rc;
}

/* Rows of ingest->types, which an INSERT makes the table's. */
static od_code open_appender(od_staging *ingest, od_error *err)
{
    od_buf sql = {0};
    od_code rc;
    OD_TRY(od_buf_printf(&sql, err, "INSERT INTO temp.main."));
    OD_TRY(od_quote_ident(&sql, od_slice_str(ingest->table), err));
    OD_TRY(od_buf_printf(&sql, err, " FROM openduck_rows"));
    OD_TRY(od_buf_append(&sql, "", 1, err));
    if (duckdb_appender_create_query(ingest->txn->lease->connection, (const char *)sql.data, ingest->column_count,
                                     ingest->types, "openduck_rows", NULL, &ingest->appender) == DuckDBError)
        rc = appender_failed(ingest, err);
out:
    od_buf_release(&sql);
    return rc;
}

static od_code open_native(od_staging *ingest, od_error *err)
{
    od_code rc = od_native_reader_create((const char *const *)ingest->names, ingest->types, ingest->column_count,
                                         &ingest->native, err);
    if (rc != OD_OK)
        return rc;
    ingest->chunk = duckdb_create_data_chunk(ingest->types, ingest->column_count);
    return ingest->chunk != NULL ? open_appender(ingest, err) : od_fail(err, OD_E_NO_MEMORY, "out of memory");
}

/* PLAIN, LOSSLESS: the types that Arrow's columns have here are known by the first CHUNK. */
static od_code open_plain(od_staging *ingest, duckdb_data_chunk chunk, od_error *err)
{
    for (size_t i = 0; i < ingest->column_count; i++)
        ingest->types[i] = duckdb_vector_get_column_type(duckdb_data_chunk_get_vector(chunk, i));
    return open_appender(ingest, err);
}

static od_code create_table(od_staging *ingest, const od_staging_request *request, od_error *err)
{
    od_buf sql = {0};
    od_code rc;
    OD_TRY(create_sql(request, &sql, err));
    rc = od_txn_enter(ingest->txn, &ingest->stopped, NULL, err);
    if (rc != OD_OK)
        goto out;
    ingest->txn->lease->soiled = true; /* the table stays with the connection */
    rc = run_create(ingest->txn->lease->connection, (const char *)sql.data, err);
    ingest->created = rc == OD_OK;
    if (rc == OD_OK)
        rc = ask_types(ingest, err);
    if (rc == OD_OK && ingest->format == OD_FORMAT_NATIVE)
        rc = open_native(ingest, err);
    od_txn_leave(ingest->txn);
out:
    od_buf_release(&sql);
    return rc;
}

static od_code copy_names(od_staging *ingest, const od_staging_request *request, od_error *err)
{
    ingest->names = od_calloc(request->column_count, sizeof *ingest->names);
    ingest->table = od_strndup((const char *)request->table.data, request->table.len);
    ingest->types = od_calloc(request->column_count, sizeof *ingest->types);
    if (ingest->names == NULL || ingest->table == NULL || ingest->types == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    ingest->column_count = request->column_count;
    for (size_t i = 0; i < request->column_count; i++) {
        const od_slice name = request->columns[i].name;
        ingest->names[i] = od_strndup(name.len > 0 ? (const char *)name.data : "", name.len);
        if (ingest->names[i] == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    return OD_OK;
}

od_code od_staging_open(const od_staging_request *request, od_staging **out, od_error *err)
{
    od_code rc;
    od_staging *ingest = NULL;
    *out = NULL;
    OD_TRY(check_name(request->table, "the staging table's name", err));
    if (request->column_count == 0)
        return od_fail(err, OD_E_INVALID, "a staging table without columns");
    ingest = od_calloc(1, sizeof *ingest);
    if (ingest == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    atomic_init(&ingest->stopped, false);
    ingest->txn = od_txn_ref(request->txn);
    ingest->format = request->format;
    OD_TRY(copy_names(ingest, request, err));
    OD_TRY(od_ipc_reader_create(&ingest->reader, err));
    OD_TRY(create_table(ingest, request, err));
    *out = ingest;
    ingest = NULL;
out:
    od_staging_free(ingest);
    return rc;
}

/* ---- NATIVE ---- */

static od_code append_native(od_staging *ingest, od_error *err)
{
    const od_batch *batch;
    od_code rc;
    OD_TRY(od_ipc_reader_next(ingest->reader, &batch, err));
    while (batch != NULL) {
        for (int64_t at = 0; at < batch->rows; at += OD_ENGINE_ROWS) {
            idx_t n = batch->rows - at < OD_ENGINE_ROWS ? (idx_t)(batch->rows - at) : OD_ENGINE_ROWS;
            duckdb_data_chunk_reset(ingest->chunk);
            OD_TRY(od_native_reader_fill(ingest->native, od_ipc_reader_schema(ingest->reader), batch, (idx_t)at, n,
                                         ingest->chunk, err));
            if (duckdb_append_data_chunk(ingest->appender, ingest->chunk) == DuckDBError)
                return appender_failed(ingest, err);
        }
        ingest->rows += (uint64_t)batch->rows;
        OD_TRY(od_ipc_reader_next(ingest->reader, &batch, err));
    }
out:
    return rc;
}

/* ---- PLAIN, LOSSLESS ---- */

static od_code append_part(od_staging *ingest, const od_arrow_part *part, od_error *err)
{
    duckdb_data_chunk chunk = NULL;
    od_code rc = od_arrow_part_chunk(part, ingest->txn->engine->host, ingest->txn->lease->connection, ingest->arrow,
                                     &chunk, err);
    if (rc == OD_OK && ingest->appender == NULL)
        rc = open_plain(ingest, chunk, err);
    if (rc == OD_OK && duckdb_append_data_chunk(ingest->appender, chunk) == DuckDBError)
        rc = appender_failed(ingest, err);
    if (chunk != NULL)
        duckdb_destroy_data_chunk(&chunk);
    return rc;
}

static od_code append_plain(od_staging *ingest, od_msg *owner, od_error *err)
{
    struct ArrowArray array = {0};
    od_code rc;
    OD_TRY(od_ipc_reader_next_array(ingest->reader, owner, &array, err));
    while (array.release != NULL) {
        for (int64_t at = 0; at < array.length && rc == OD_OK; at += OD_ENGINE_ROWS) {
            od_arrow_part part;
            int64_t n = array.length - at < OD_ENGINE_ROWS ? array.length - at : OD_ENGINE_ROWS;
            rc = od_arrow_part_make(&array, at, n, &part, err);
            if (rc == OD_OK)
                rc = append_part(ingest, &part, err);
            od_arrow_part_release(&part);
        }
        ingest->rows += (uint64_t)array.length;
        array.release(&array);
        array = (struct ArrowArray){0};
        if (rc == OD_OK)
            OD_TRY(od_ipc_reader_next_array(ingest->reader, owner, &array, err));
    }
out:
    return rc;
}

static od_code take_schema(od_staging *ingest, od_error *err)
{
    const struct ArrowSchema *schema = od_ipc_reader_schema(ingest->reader);
    if (ingest->format == OD_FORMAT_NATIVE)
        return od_native_reader_check(ingest->native, schema, err);
    if (schema->n_children != (int64_t)ingest->column_count)
        return od_fail(err, OD_E_INVALID, "%lld columns are sent, the table has %zu", (long long)schema->n_children,
                       ingest->column_count);
    if (ingest->arrow != NULL)
        return od_fail(err, OD_E_INVALID, "every payload has to have the first one's schema");
    return od_arrow_types(ingest->txn->lease->connection, schema, &ingest->arrow, err);
}

static od_code append(od_staging *ingest, od_msg *owner, od_slice payload, od_error *err)
{
    bool same = false;
    od_code rc;
    OD_TRY(od_ipc_reader_start(ingest->reader, payload, &same, err));
    if (!same)
        OD_TRY(take_schema(ingest, err));
    rc = ingest->format == OD_FORMAT_NATIVE ? append_native(ingest, err) : append_plain(ingest, owner, err);
out:
    return rc;
}

od_code od_staging_append(od_staging *ingest, od_msg *owner, od_slice payload, od_error *err)
{
    od_code rc = od_txn_enter(ingest->txn, &ingest->stopped, NULL, err);
    if (rc != OD_OK)
        return rc;
    rc = append(ingest, owner, payload, err);
    ingest->failed = ingest->failed || rc != OD_OK;
    od_txn_leave(ingest->txn);
    return rc;
}

od_code od_staging_finish(od_staging *ingest, uint64_t *rows, od_error *err)
{
    od_code rc = od_txn_enter(ingest->txn, &ingest->stopped, NULL, err);
    if (rc != OD_OK)
        return rc;
    if (ingest->appender != NULL && duckdb_appender_flush(ingest->appender) == DuckDBError)
        rc = appender_failed(ingest, err);
    ingest->finished = rc == OD_OK;
    *rows = ingest->rows;
    od_txn_leave(ingest->txn);
    return rc;
}

void od_staging_interrupt(od_staging *ingest)
{
    atomic_store(&ingest->stopped, true);
    od_txn_nudge(ingest->txn, &ingest->stopped, true);
}

/* In its turn. */
static void drop(od_staging *ingest)
{
    od_buf sql = {0};
    if (ingest->appender != NULL)
        (void)duckdb_appender_clear(ingest->appender);
    if (od_buf_printf(&sql, NULL, "DROP TABLE IF EXISTS temp.main.") == OD_OK &&
        od_quote_ident(&sql, od_slice_str(ingest->table), NULL) == OD_OK && od_buf_append(&sql, "", 1, NULL) == OD_OK)
        od_duck_try(ingest->txn->lease->connection, (const char *)sql.data);
    od_buf_release(&sql);
}

static void release_duck(od_staging *ingest)
{
    if (ingest->chunk != NULL)
        duckdb_destroy_data_chunk(&ingest->chunk);
    for (size_t i = 0; i < ingest->column_count && ingest->types != NULL; i++)
        if (ingest->types[i] != NULL)
            duckdb_destroy_logical_type(&ingest->types[i]);
    if (ingest->arrow != NULL)
        duckdb_destroy_arrow_converted_schema(&ingest->arrow);
    if (ingest->appender != NULL)
        (void)duckdb_appender_destroy(&ingest->appender);
}

void od_staging_free(od_staging *ingest)
{
    if (ingest == NULL)
        return;
    /* An appender flushes when it goes; without a transaction that would be one of its own. */
    bool turn = od_txn_enter(ingest->txn, NULL, NULL, NULL) == OD_OK;
    if (turn && ingest->created && !ingest->finished)
        drop(ingest);
    else if (!turn && ingest->appender != NULL)
        (void)duckdb_appender_clear(ingest->appender);
    release_duck(ingest);
    if (turn)
        od_txn_leave(ingest->txn);
    od_native_reader_free(ingest->native);
    od_ipc_reader_free(ingest->reader);
    for (size_t i = 0; i < ingest->column_count && ingest->names != NULL; i++)
        od_free(ingest->names[i]);
    od_free(ingest->names);
    od_free(ingest->table);
    od_free(ingest->types);
    od_txn_unref(ingest->txn);
    od_free(ingest);
}
