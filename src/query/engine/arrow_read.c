#include "query/engine/arrow_read.h"

#include "arrow/schema.h"
#include "base/alloc.h"
#include "query/engine/engine_internal.h"
#include "base/banned.h"

static od_code converted(duckdb_error_data error, od_error *err)
{
    od_code rc = OD_OK;
    if (error != NULL && duckdb_error_data_has_error(error))
        rc = od_duck_fail(err, duckdb_error_data_message(error));
    duckdb_destroy_error_data(&error);
    return rc;
}

od_code od_arrow_types(duckdb_connection connection, const struct ArrowSchema *schema,
                       duckdb_arrow_converted_schema *out, od_error *err)
{
    struct ArrowSchema copy = {0};
    *out = NULL;
    od_code rc = od_schema_copy(schema, &copy, err);
    if (rc == OD_OK)
        rc = converted(duckdb_schema_from_arrow(connection, &copy, out), err);
    od_schema_release(&copy);
    return rc;
}

/* DuckDB gives the whole array to the first column, and lets it go when that is converted if its values were copied: so what is given
 * to DuckDB owns nothing, and lives until the chunk is gone. */
static void release_part(struct ArrowArray *array)
{
    array->release = NULL;
}

od_code od_arrow_part_make(const struct ArrowArray *whole, int64_t first, int64_t count, od_arrow_part *out,
                           od_error *err)
{
    size_t n = (size_t)whole->n_children;
    struct ArrowArray *parts = od_calloc(n + 1, sizeof *parts);
    struct ArrowArray **children = od_calloc(n + 1, sizeof *children);
    *out = (od_arrow_part){.array = {.children = children, .private_data = parts}};
    if (parts == NULL || children == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        parts[i] = *whole->children[i];
        parts[i].offset += first;
        parts[i].length = count;
        /* Of dictionaries DuckDB looks for NULLs only where it is told of some. */
        parts[i].null_count = parts[i].null_count == 0 ? 0 : count;
        parts[i].release = release_part;
        children[i] = &parts[i];
    }
    out->array = *whole;
    out->array.length = count;
    out->array.children = children;
    out->array.private_data = parts;
    out->array.release = release_part;
    return OD_OK;
}

void od_arrow_part_release(od_arrow_part *part)
{
    od_free(part->array.children);
    od_free(part->array.private_data);
    part->array = (struct ArrowArray){0};
}

od_code od_arrow_part_chunk(const od_arrow_part *part, const od_engine_host *host, duckdb_connection connection,
                            duckdb_arrow_converted_schema types, duckdb_data_chunk *out, od_error *err)
{
    struct ArrowArray given = part->array;
    *out = NULL;
    od_code rc = converted(duckdb_data_chunk_from_arrow(connection, &given, types, out), err);
    if (rc == OD_OK)
        rc = od_arrow_chunk_check(host, *out, err);
    if (rc != OD_OK && *out != NULL)
        duckdb_destroy_data_chunk(out);
    return rc;
}
