/* From an execution's chunks to payloads. */
#include <string.h>

#include "arrow/ipc_read.h"
#include "arrow/schema.h"
#include "base/alloc.h"
#include "base/deadline.h"
#include "query/engine/execution_internal.h"
#include "base/banned.h"

/* A payload of more than one row stays below it: clients of the earlier protocol take messages of 4 MiB. */
#define MANY_ROWS_LIMIT (((size_t)4 << 20) - 1024)
/* Rows are not held back longer than this for a fuller payload. */
#define HOLD_MS 100

/* ---- columns ---- */

typedef struct {
    const char **names;
    duckdb_logical_type *types;
    size_t count;
    bool own_names; /* of a prepared statement */
} columns;

static void release_columns(columns *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->own_names)
            duckdb_free((void *)(uintptr_t)list->names[i]);
        duckdb_destroy_logical_type(&list->types[i]);
    }
    od_free(list->names);
    od_free(list->types);
    *list = (columns){0};
}

static od_code make_columns(columns *list, size_t count, od_error *err)
{
    list->names = od_calloc(count > 0 ? count : 1, sizeof *list->names);
    list->types = od_calloc(count > 0 ? count : 1, sizeof *list->types);
    if (list->names == NULL || list->types == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    list->count = count;
    return OD_OK;
}

static od_code result_columns(duckdb_result *result, columns *list, od_error *err)
{
    od_code rc = make_columns(list, duckdb_column_count(result), err);
    for (size_t i = 0; i < list->count && rc == OD_OK; i++) {
        list->names[i] = duckdb_column_name(result, i);
        list->types[i] = duckdb_column_logical_type(result, i);
        if (list->names[i] == NULL || list->types[i] == NULL)
            rc = od_fail(err, OD_E_INTERNAL, "the database does not tell column %zu", i);
    }
    return rc;
}

static od_code prepared_columns(duckdb_prepared_statement prepared, columns *list, od_error *err)
{
    od_code rc = make_columns(list, duckdb_prepared_statement_column_count(prepared), err);
    list->own_names = true;
    for (size_t i = 0; i < list->count && rc == OD_OK; i++) {
        list->names[i] = duckdb_prepared_statement_column_name(prepared, i);
        list->types[i] = duckdb_prepared_statement_column_logical_type(prepared, i);
        if (list->names[i] == NULL || list->types[i] == NULL)
            rc = od_fail(err, OD_E_INTERNAL, "the database does not tell column %zu", i);
        else if (duckdb_get_type_id(list->types[i]) == DUCKDB_TYPE_INVALID)
            rc = od_fail(err, OD_E_INVALID, "column %zu: its type is that of a parameter, of which no value is given",
                         i + 1);
    }
    return rc;
}

/* ---- the two encoders behind one face ---- */

static od_code open_encoder(od_execution *execution, const columns *list, od_error *err)
{
    od_output *output = &execution->output;
    if (execution->format == OD_FORMAT_NATIVE) {
        od_native *idle = execution->kept != NULL ? execution->kept->native : NULL;
        if (idle != NULL) {
            execution->kept->native = NULL;
            if (od_native_fits(idle, list->names, list->types, list->count)) {
                output->native = idle;
                return OD_OK;
            }
            od_native_free(idle);
        }
        return od_native_create(list->names, list->types, list->count, &output->native, err);
    }
    duckdb_arrow_options options = NULL;
    duckdb_connection_get_arrow_options(execution->lease->connection, &options);
    if (options == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    return od_plain_create(options, list->names, list->types, list->count, &output->plain, err);
}

/* Makes OUT a chunk of its own of rows [FIRST, FIRST + COUNT) of CHUNK. */
static od_code slice_chunk(duckdb_data_chunk chunk, idx_t first, idx_t count, duckdb_data_chunk *out, od_error *err)
{
    idx_t n = duckdb_data_chunk_get_column_count(chunk);
    *out = NULL;
    duckdb_logical_type *types = od_calloc(n > 0 ? n : 1, sizeof *types);
    duckdb_selection_vector sel = duckdb_create_selection_vector(count);
    if (types != NULL && sel != NULL) {
        sel_t *rows = duckdb_selection_vector_get_data_ptr(sel);
        for (idx_t i = 0; i < count; i++)
            rows[i] = (sel_t)(first + i);
        for (idx_t i = 0; i < n; i++)
            types[i] = duckdb_vector_get_column_type(duckdb_data_chunk_get_vector(chunk, i));
        *out = duckdb_create_data_chunk(types, n);
    }
    if (*out != NULL) {
        for (idx_t i = 0; i < n; i++)
            duckdb_vector_copy_sel(duckdb_data_chunk_get_vector(chunk, i), duckdb_data_chunk_get_vector(*out, i), sel,
                                   count, 0, 0);
        duckdb_data_chunk_set_size(*out, count);
    }
    for (idx_t i = 0; i < n && types != NULL; i++)
        duckdb_destroy_logical_type(&types[i]);
    od_free(types);
    if (sel != NULL)
        duckdb_destroy_selection_vector(sel);
    return *out != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
}

static od_code encoder_add(od_output *output, duckdb_data_chunk chunk, idx_t first, idx_t count, od_error *err)
{
    duckdb_data_chunk part;
    if (output->native != NULL)
        return od_native_add(output->native, chunk, first, count, err);
    if (first == 0 && count == duckdb_data_chunk_get_size(chunk))
        return od_plain_add(output->plain, chunk, err);
    od_code rc = slice_chunk(chunk, first, count, &part, err);
    if (rc == OD_OK)
        rc = od_plain_add(output->plain, part, err);
    duckdb_destroy_data_chunk(&part);
    return rc;
}

static void encoder_drop(od_output *output)
{
    if (output->native != NULL)
        od_native_drop(output->native);
    else
        od_plain_drop(output->plain);
}

static size_t encoder_size(const od_output *output)
{
    return output->native != NULL ? od_native_size(output->native) : od_plain_pending(output->plain);
}

static od_code encoder_write(od_output *output, od_msg **out, od_error *err)
{
    return output->native != NULL ? od_native_write(output->native, out, err) : od_plain_flush(output->plain, out, err);
}

/* ---- filling a payload ---- */

static od_code too_large(const od_execution *execution, const od_output *output, size_t size, od_error *err)
{
    const char *column = output->native != NULL ? od_native_widest(output->native) : NULL;
    return od_fail(err, OD_E_TOO_LARGE, "a row of %zu bytes is above the limit of %zu%s%s%s", size,
                   execution->engine->max_payload, column != NULL ? ": most of it is in column '" : "",
                   column != NULL ? column : "", column != NULL ? "'" : "");
}

/* How many of LEFT rows are worth trying, by the size of those before; 0: none beside what is pending. */
static idx_t guess_rows(const od_output *output, idx_t left, size_t limit)
{
    size_t used = output->pending_rows > 0 ? encoder_size(output) : 0;
    size_t room = limit > used ? limit - used : 0;
    if (output->row_bytes == 0 || left <= room / output->row_bytes)
        return left;
    if (output->pending_rows > 0)
        return 0;
    idx_t fit = limit / output->row_bytes;
    return fit > 0 ? fit : 1;
}

/* Adds as many of the current chunk's rows as fit; *full if the payload should go out now. */
static od_code add_rows(od_execution *execution, od_output *output, bool *full, od_error *err)
{
    size_t limit = execution->engine->max_payload < MANY_ROWS_LIMIT ? execution->engine->max_payload : MANY_ROWS_LIMIT;
    duckdb_data_chunk chunk = execution->current->chunk;
    idx_t left = duckdb_data_chunk_get_size(chunk) - execution->current_row;
    idx_t n = guess_rows(output, left, limit);
    *full = n < left;
    while (n > 0) {
        size_t before = output->pending_rows > 0 ? encoder_size(output) : 0;
        od_code rc = encoder_add(output, chunk, execution->current_row, n, err);
        if (rc != OD_OK)
            return rc;
        size_t size = encoder_size(output);
        output->row_bytes = (size - before) / n + 1;
        if (size <= limit || (n == 1 && before == 0)) {
            if (size > execution->engine->max_payload)
                return too_large(execution, output, size, err);
            break;
        }
        encoder_drop(output);
        *full = true;
        if (before > 0)
            return OD_OK;
        idx_t fit = limit / output->row_bytes;
        n = fit < n / 2 ? fit : n / 2;
        n = n > 0 ? n : 1;
    }
    execution->current_row += n;
    output->pending_rows += n;
    return OD_OK;
}

void od_rows_chunk_unref(od_rows_chunk *rows)
{
    if (rows == NULL || atomic_fetch_sub(&rows->refs, 1) != 1)
        return;
    duckdb_destroy_data_chunk(&rows->chunk);
    od_free(rows);
}

/* OUTPUT refers to the current chunk until it is written: it is held. */
static od_code hold_current(const od_execution *execution, od_output *output, od_error *err)
{
    od_rows_chunk *current = execution->current;
    if (output->native == NULL || (output->held_count > 0 && output->held[output->held_count - 1] == current))
        return OD_OK;
    if (output->held_count == output->held_cap) {
        size_t cap = output->held_cap > 0 ? output->held_cap * 2 : 16;
        od_rows_chunk **grown = od_realloc((void *)output->held, cap * sizeof *grown);
        if (grown == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
        output->held = grown;
        output->held_cap = cap;
    }
    (void)atomic_fetch_add(&current->refs, 1);
    output->held[output->held_count++] = current;
    return OD_OK;
}

static void release_held(od_output *output)
{
    while (output->held_count > 0)
        od_rows_chunk_unref(output->held[--output->held_count]);
}

static void drop_current(od_execution *execution)
{
    od_rows_chunk_unref(execution->current);
    execution->current = NULL;
}

static od_code gather_rows(od_execution *execution, od_output *output, od_error *err)
{
    size_t chunks = 0;
    int64_t until = od_clock_ns() + (int64_t)HOLD_MS * 1000000;
    bool full = false;
    while (!full) {
        od_code rc = OD_OK;
        if (execution->current == NULL) {
            execution->current_row = 0;
            if (!execution->drained)
                rc = od_output_fetch(execution, &execution->current, err);
            if (rc != OD_OK || execution->current == NULL)
                return rc;
        }
        rc = hold_current(execution, output, err);
        if (rc == OD_OK)
            rc = add_rows(execution, output, &full, err);
        if (rc != OD_OK)
            return rc;
        if (execution->current_row == duckdb_data_chunk_get_size(execution->current->chunk))
            drop_current(execution);
        if (++chunks >= execution->next_chunks || encoder_size(output) >= execution->engine->batch_bytes ||
            od_clock_ns() > until)
            full = true;
    }
    return OD_OK;
}

od_code od_output_open(od_execution *execution, od_error *err)
{
    columns list = {0};
    od_code rc = result_columns(&execution->result, &list, err);
    if (rc == OD_OK)
        rc = open_encoder(execution, &list, err);
    release_columns(&list);
    /* What is not a SELECT is done by now: its few rows go out at once, and it ends. */
    if (execution->last_effect != OD_EFFECT_READS)
        execution->next_chunks = 64;
    return rc;
}

od_code od_output_follow(od_execution *execution, od_output *out, od_error *err)
{
    columns list = {0};
    od_code rc = result_columns(&execution->result, &list, err);
    if (rc == OD_OK)
        rc = od_native_create(list.names, list.types, list.count, &out->native, err);
    release_columns(&list);
    return rc;
}

od_code od_output_gather(od_execution *execution, od_output *out, bool *any, od_error *err)
{
    *any = false;
    od_code rc = gather_rows(execution, out, err);
    if (rc != OD_OK || (out->pending_rows == 0 && execution->payloads > 0))
        return rc;
    *any = true;
    execution->payloads++;
    if (execution->next_chunks < SIZE_MAX / 4)
        execution->next_chunks *= 4;
    return OD_OK;
}

od_code od_output_write(od_output *out, od_msg **payload, od_error *err)
{
    od_code rc = encoder_write(out, payload, err);
    release_held(out);
    out->pending_rows = 0;
    return rc;
}

void od_output_release(od_output *out)
{
    release_held(out);
    od_free((void *)out->held);
    od_native_free(out->native);
    od_plain_free(out->plain);
    *out = (od_output){0};
}

void od_output_close(od_execution *execution)
{
    od_output *output = &execution->output;
    drop_current(execution);
    release_held(output);
    if (output->native != NULL && execution->kept != NULL && execution->kept->native == NULL) {
        od_native_reset(output->native);
        execution->kept->native = output->native;
        output->native = NULL;
    }
    od_output_release(output);
}

/* ---- describing ---- */

static od_code describe_field(od_execution *execution, duckdb_logical_type type, const char *name,
                              struct ArrowSchema *field, od_error *err)
{
    od_buf text = {0}, fields = {0};
    struct ArrowSchema native = {0};
    od_code rc;
    OD_TRY(od_sql_type_append(&text, type, &execution->engine->keywords, err));
    OD_TRY(od_schema_set_metadata(field, "openduck:sql_type", od_slice_of(text.data, text.len), err));
    if (execution->format != OD_FORMAT_NATIVE && od_native_field(name, name, type, &fields, &native, NULL) == OD_OK) {
        od_slice signature = od_schema_metadata(&native, "openduck:type");
        OD_TRY(od_schema_set_metadata(field, "openduck:type", signature, err));
    }
out:
    od_schema_release(&native);
    od_buf_release(&text);
    od_buf_release(&fields);
    return rc;
}

od_code od_output_describe(od_execution *execution, od_msg **out, od_error *err)
{
    columns list = {0};
    struct ArrowSchema schema = {0};
    od_ipc_writer *writer = NULL;
    od_code rc = prepared_columns(execution->prepared, &list, err);
    if (rc == OD_OK)
        rc = open_encoder(execution, &list, err);
    if (rc == OD_OK)
        rc = od_schema_copy(execution->output.native != NULL ? od_native_schema(execution->output.native)
                                                             : od_plain_schema(execution->output.plain),
                            &schema, err);
    for (size_t i = 0; i < list.count && rc == OD_OK; i++)
        rc = describe_field(execution, list.types[i], list.names[i], schema.children[i], err);
    if (rc == OD_OK)
        rc = od_ipc_writer_create(&schema, &writer, err);
    if (rc == OD_OK)
        rc = od_ipc_writer_empty(writer, out, err);
    od_ipc_writer_free(writer);
    od_schema_release(&schema);
    release_columns(&list);
    return rc;
}
