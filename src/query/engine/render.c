#include "query/render.h"

#include <duckdb.h>

#include "base/alloc.h"
#include "query/engine/engine_internal.h"
#include "base/banned.h"

struct od_render {
    duckdb_database instance;
    duckdb_connection connection;
    duckdb_prepared_statement prepared;
    duckdb_result result;
    bool running;
    duckdb_data_chunk chunk;
    size_t column_count;
    duckdb_string_t **values; /* of the chunk, one a column */
    uint64_t **validity;      /* NULL: no NULLs */
};

static od_code start(od_render *render, struct ArrowArrayStream *stream, od_render_style style, od_error *err)
{
    /* One thread, so that rows keep their order and the stream is read by the caller; a small buffer, so that the first
     * rows are shown before the last ones are there. */
    static const char *const settings[] = {"SET threads = 1", "SET streaming_buffer_size = '256KB'"};
    const char *sql = style == OD_RENDER_JSON ? "SELECT to_json(COLUMNS(*))::VARCHAR FROM shown"
                                              : "SELECT COLUMNS(*)::VARCHAR FROM shown";

    if (duckdb_open(NULL, &render->instance) != DuckDBSuccess ||
        duckdb_connect(render->instance, &render->connection) != DuckDBSuccess)
        return od_fail(err, OD_E_INTERNAL, "cannot open a DuckDB in memory");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        od_code rc = od_duck_run(render->connection, settings[i], err);

        if (rc != OD_OK)
            return rc;
    }
    if (duckdb_arrow_scan(render->connection, "shown", (duckdb_arrow_stream)stream) != DuckDBSuccess)
        return od_fail(err, OD_E_IO, "a result's schema cannot be read by DuckDB");
    if (duckdb_prepare(render->connection, sql, &render->prepared) != DuckDBSuccess)
        return od_duck_fail(err, duckdb_prepare_error(render->prepared));
    if (duckdb_execute_prepared_streaming(render->prepared, &render->result) != DuckDBSuccess) {
        od_code rc = od_duck_fail(err, duckdb_result_error(&render->result));

        duckdb_destroy_result(&render->result);
        return rc;
    }
    render->running = true;
    render->column_count = duckdb_column_count(&render->result);
    render->values = od_calloc(render->column_count, sizeof *render->values);
    render->validity = od_calloc(render->column_count, sizeof *render->validity);
    if (!render->values || !render->validity)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for %zu columns", render->column_count);
    return OD_OK;
}

od_code od_render_create(struct ArrowArrayStream *stream, od_render_style style, od_render **out, od_error *err)
{
    od_render *render = od_calloc(1, sizeof *render);
    od_code rc;

    *out = NULL;
    if (!render)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory to show a result");
    rc = start(render, stream, style, err);
    if (rc == OD_OK)
        *out = render;
    else
        od_render_free(render);
    return rc;
}

void od_render_free(od_render *render)
{
    if (!render)
        return;
    duckdb_destroy_data_chunk(&render->chunk);
    if (render->running)
        duckdb_destroy_result(&render->result);
    duckdb_destroy_prepare(&render->prepared);
    duckdb_disconnect(&render->connection);
    duckdb_close(&render->instance);
    od_free((void *)render->values);
    od_free((void *)render->validity);
    od_free(render);
}

od_code od_render_next(od_render *render, size_t *rows, od_error *err)
{
    const char *why;

    *rows = 0;
    do {
        duckdb_destroy_data_chunk(&render->chunk);
        render->chunk = duckdb_fetch_chunk(render->result);
        if (!render->chunk) {
            why = duckdb_result_error(&render->result);
            return why && why[0] ? od_duck_fail(err, why) : OD_OK;
        }
        *rows = duckdb_data_chunk_get_size(render->chunk);
    } while (*rows == 0);
    for (size_t i = 0; i < render->column_count; i++) {
        duckdb_vector vector = duckdb_data_chunk_get_vector(render->chunk, i);

        render->values[i] = duckdb_vector_get_data(vector);
        render->validity[i] = duckdb_vector_get_validity(vector);
    }
    return OD_OK;
}

bool od_render_value(const od_render *render, size_t row, size_t column, od_slice *text)
{
    const uint64_t *validity = render->validity[column];
    duckdb_string_t *value = &render->values[column][row];

    *text = (od_slice){0};
    if (validity && !(validity[row / 64] >> (row % 64) & 1U))
        return false;
    *text = od_slice_of(duckdb_string_t_data(value), duckdb_string_t_length(*value));
    return true;
}
