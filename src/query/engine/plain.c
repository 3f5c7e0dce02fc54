/* Results in DuckDB's own Arrow export, packed into payloads of many batches. */
#include <string.h>

#include "arrow/ipc_write.h"
#include "arrow/schema.h"
#include "base/alloc.h"
#include "query/engine/engine_internal.h"
#include "base/banned.h"

struct od_plain {
    duckdb_arrow_options options;
    struct ArrowSchema schema;
    od_ipc_writer *writer;
};

/* ERROR is destroyed. */
static od_code converted(duckdb_error_data error, od_error *err)
{
    od_code rc = OD_OK;
    if (error != NULL && duckdb_error_data_has_error(error))
        rc = od_duck_fail(err, duckdb_error_data_message(error));
    duckdb_destroy_error_data(&error);
    return rc;
}

od_code od_plain_create(duckdb_arrow_options options, const char *const *names, duckdb_logical_type *types,
                        size_t count, od_plain **out, od_error *err)
{
    *out = NULL;
    od_plain *plain = od_calloc(1, sizeof *plain);
    if (plain == NULL) {
        duckdb_destroy_arrow_options(&options);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    plain->options = options;
    const char **labels = (const char **)(uintptr_t)names; /* the C API lacks a const */
    od_code rc = converted(duckdb_to_arrow_schema(options, types, labels, count, &plain->schema), err);
    if (rc == OD_OK)
        rc = od_ipc_writer_create(&plain->schema, &plain->writer, err);
    if (rc != OD_OK) {
        od_plain_free(plain);
        return rc;
    }
    *out = plain;
    return OD_OK;
}

void od_plain_free(od_plain *plain)
{
    if (plain == NULL)
        return;
    od_ipc_writer_free(plain->writer);
    od_schema_release(&plain->schema);
    duckdb_destroy_arrow_options(&plain->options);
    od_free(plain);
}

const struct ArrowSchema *od_plain_schema(const od_plain *plain)
{
    return &plain->schema;
}

od_code od_plain_add(od_plain *plain, duckdb_data_chunk chunk, od_error *err)
{
    struct ArrowArray array = {0};
    od_code rc = converted(duckdb_data_chunk_to_arrow(plain->options, chunk, &array), err);
    return rc == OD_OK ? od_ipc_writer_add(plain->writer, &array, err) : rc;
}

size_t od_plain_pending(const od_plain *plain)
{
    return od_ipc_writer_pending(plain->writer);
}

void od_plain_drop(od_plain *plain)
{
    od_ipc_writer_drop(plain->writer);
}

od_code od_plain_flush(od_plain *plain, od_msg **out, od_error *err)
{
    return od_ipc_writer_flush(plain->writer, out, err);
}
