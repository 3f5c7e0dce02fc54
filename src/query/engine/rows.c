/* What a statement's own rows are read from: a payload is checked and described when the statement is bound, and read, without a copy of
 * its strings, by any number of threads. */
#include "query/engine/rows.h"

#include <stdatomic.h>
#include <string.h>

#include "arrow/ipc_read.h"
#include "base/alloc.h"
#include "query/engine/engine_internal.h"
#include "query/engine/native_read.h"
#include "base/banned.h"

/* As DuckDB's own scans: what one thread reads at least. */
#define ROWS_PER_THREAD ((idx_t)122880)

typedef struct {
    od_msg *payload; /* aligned */
    od_ipc_reader *reader;
    const od_batch *batch; /* NULL: there are no rows */
    size_t column_count;
    const char **names;         /* of the reader's schema */
    duckdb_logical_type *types; /* NATIVE */
    od_native_reader *native;
} sent_rows;

static void free_rows(void *arg)
{
    sent_rows *rows = arg;
    od_native_reader_free(rows->native);
    for (size_t i = 0; rows->types != NULL && i < rows->column_count; i++)
        if (rows->types[i] != NULL)
            duckdb_destroy_logical_type(&rows->types[i]);
    od_free(rows->types);
    od_free(rows->names);
    od_ipc_reader_free(rows->reader);
    od_msg_unref(rows->payload);
    od_free(rows);
}

/* ---- the payload ---- */

static od_code read_schema(sent_rows *rows, od_error *err)
{
    const struct ArrowSchema *schema = od_ipc_reader_schema(rows->reader);
    size_t n = (size_t)schema->n_children;
    if (n == 0)
        return od_fail(err, OD_E_INVALID, "the rows have no columns");
    rows->column_count = n;
    rows->names = od_calloc(n, sizeof *rows->names);
    rows->types = od_calloc(n, sizeof(duckdb_logical_type));
    if (rows->names == NULL || rows->types == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        od_code rc = od_native_type(schema->children[i], &rows->types[i], err);
        if (rc != OD_OK)
            return rc;
        rows->names[i] = schema->children[i]->name != NULL ? schema->children[i]->name : "";
    }
    return OD_OK;
}

static od_code read_batch(sent_rows *rows, od_error *err)
{
    int64_t count;
    od_code rc;
    OD_TRY(od_native_reader_create(rows->names, rows->types, rows->column_count, &rows->native, err));
    OD_TRY(od_native_reader_check(rows->native, od_ipc_reader_schema(rows->reader), err));
    OD_TRY(od_ipc_reader_count(rows->reader, &count, err));
    OD_TRY(od_ipc_reader_next(rows->reader, &rows->batch, err));
    if (rows->batch != NULL && rows->batch->rows != count)
        rc = od_fail(err, OD_E_INVALID, "the rows are more than one batch");
out:
    return rc;
}

static od_code read_payload(sent_rows *rows, duckdb_blob blob, od_error *err)
{
    od_code rc;
    if (blob.size == 0)
        return od_fail(err, OD_E_INVALID, "there are no bytes");
    OD_TRY(od_msg_create(blob.size, 0, &rows->payload, err));
    memcpy(od_msg_data(rows->payload), blob.data, blob.size);
    OD_TRY(od_ipc_reader_create(&rows->reader, err));
    OD_TRY(od_ipc_reader_start(rows->reader, od_slice_of(od_msg_data(rows->payload), blob.size), NULL, err));
    OD_TRY(read_schema(rows, err));
    OD_TRY(read_batch(rows, err));
out:
    return rc;
}

/* ---- the table function ---- */

static void bind_failed(duckdb_bind_info info, od_error *err)
{
    od_error_prefix(err, "the rows of the statement cannot be read");
    duckdb_bind_set_error(info, err->message);
}

static void bind_rows(duckdb_bind_info info)
{
    od_error err = {0};
    duckdb_value value = duckdb_bind_get_parameter(info, 0);
    duckdb_blob blob = duckdb_is_null_value(value) ? (duckdb_blob){NULL, 0} : duckdb_get_blob(value);
    sent_rows *rows = od_calloc(1, sizeof *rows);
    od_code rc = rows != NULL ? read_payload(rows, blob, &err) : od_fail(&err, OD_E_NO_MEMORY, "out of memory");
    duckdb_free(blob.data);
    duckdb_destroy_value(&value);
    if (rc != OD_OK) {
        bind_failed(info, &err);
        if (rows != NULL)
            free_rows(rows);
        return;
    }
    for (size_t i = 0; i < rows->column_count; i++)
        duckdb_bind_add_result_column(info, rows->names[i], rows->types[i]);
    duckdb_bind_set_cardinality(info, rows->batch != NULL ? (idx_t)rows->batch->rows : 0, true);
    duckdb_bind_set_bind_data(info, rows, free_rows);
}

static void init_rows(duckdb_init_info info)
{
    const sent_rows *rows = duckdb_init_get_bind_data(info);
    _Atomic idx_t *next = od_calloc(1, sizeof *next);
    if (next == NULL) {
        duckdb_init_set_error(info, "out of memory");
        return;
    }
    duckdb_init_set_max_threads(info, 1 + (rows->batch != NULL ? (idx_t)rows->batch->rows : 0) / ROWS_PER_THREAD);
    duckdb_init_set_init_data(info, next, od_free);
}

static void give_rows(duckdb_function_info info, duckdb_data_chunk chunk)
{
    const sent_rows *rows = duckdb_function_get_bind_data(info);
    _Atomic idx_t *next = duckdb_function_get_init_data(info);
    od_error err = {0};
    idx_t count = rows->batch != NULL ? (idx_t)rows->batch->rows : 0;
    idx_t first = atomic_fetch_add(next, OD_ENGINE_ROWS);
    if (first >= count) {
        duckdb_data_chunk_set_size(chunk, 0);
        return;
    }
    idx_t n = count - first < OD_ENGINE_ROWS ? count - first : OD_ENGINE_ROWS;
    if (od_native_reader_fill(rows->native, od_ipc_reader_schema(rows->reader), rows->batch, first, n, chunk, &err) !=
        OD_OK)
        duckdb_function_set_error(info, err.message);
}

od_code od_rows_install(duckdb_connection connection, od_error *err)
{
    duckdb_table_function function = duckdb_create_table_function();
    duckdb_logical_type blob = duckdb_create_logical_type(DUCKDB_TYPE_BLOB);
    duckdb_table_function_set_name(function, "openduck_rows");
    duckdb_table_function_add_parameter(function, blob);
    duckdb_table_function_set_bind(function, bind_rows);
    duckdb_table_function_set_init(function, init_rows);
    duckdb_table_function_set_function(function, give_rows);
    duckdb_state state = duckdb_register_table_function(connection, function);
    duckdb_destroy_logical_type(&blob);
    duckdb_destroy_table_function(&function);
    return state == DuckDBSuccess ? OD_OK : od_fail(err, OD_E_INTERNAL, "openduck_rows cannot be registered");
}
