#include "query/engine/parameters.h"

#include <string.h>
#include <strings.h>

#include "arrow/ipc_read.h"
#include "base/alloc.h"
#include "query/engine/arrow_read.h"
#include "query/engine/native_read.h"
#include "base/banned.h"

struct od_parameters {
    const od_engine_host *host;
    size_t count;
    char **names;
    duckdb_value *values;
};

/* What is read, and what it is read with. */
typedef struct {
    const od_engine_host *host;
    duckdb_connection connection;
    od_msg *payload; /* aligned */
    od_ipc_reader *reader;
    const struct ArrowSchema *schema;
    duckdb_logical_type *types; /* NATIVE */
    od_parameters *out;
} source;

/* ---- types ---- */

static od_code find_type(const source *from, const struct ArrowSchema *field, duckdb_logical_type *out, od_error *err)
{
    od_slice whole = od_schema_metadata(field, "openduck:sql_type");
    if (whole.len == 0 || od_slice_equal(whole, od_schema_metadata(field, "openduck:type")))
        if (od_native_type(field, out, whole.len == 0 ? err : NULL) == OD_OK || whole.len == 0)
            return *out != NULL ? OD_OK : OD_E_INVALID;
    od_code rc = od_types_parse(from->connection, &whole, 1, out, err);
    if (rc != OD_OK)
        od_error_prefix(err, "parameter '%s'", field->name);
    return rc;
}

/* ---- values ---- */

static od_code take_values(const source *from, duckdb_data_chunk chunk, od_error *err)
{
    for (size_t i = 0; i < from->out->count; i++) {
        from->out->values[i] = from->host->value_of(duckdb_data_chunk_get_vector(chunk, i), 0);
        if (from->out->values[i] == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    return OD_OK;
}

static od_code one_row(int64_t rows, od_error *err)
{
    return rows == 1 ? OD_OK : od_fail(err, OD_E_INVALID, "parameters have to be one row, not %lld", (long long)rows);
}

static od_code read_native(const source *from, od_error *err)
{
    od_native_reader *native = NULL;
    duckdb_data_chunk chunk = NULL;
    const od_batch *batch;
    od_code rc = OD_OK;
    size_t n = from->out->count;
    for (size_t i = 0; i < n; i++)
        OD_TRY(find_type(from, from->schema->children[i], &from->types[i], err));
    OD_TRY(od_native_reader_create((const char *const *)from->out->names, from->types, n, &native, err));
    OD_TRY(od_native_reader_check(native, from->schema, err));
    OD_TRY(od_ipc_reader_next(from->reader, &batch, err));
    OD_TRY(one_row(batch != NULL ? batch->rows : 0, err));
    chunk = duckdb_create_data_chunk(from->types, n);
    if (chunk == NULL) {
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
        goto out;
    }
    OD_TRY(od_native_reader_fill(native, from->schema, batch, 0, 1, chunk, err));
    OD_TRY(take_values(from, chunk, err));
    OD_TRY(od_ipc_reader_next(from->reader, &batch, err));
    rc = batch == NULL ? OD_OK : one_row(1 + batch->rows, err);
out:
    if (chunk != NULL)
        duckdb_destroy_data_chunk(&chunk);
    od_native_reader_free(native);
    return rc;
}

static od_code read_plain(const source *from, od_error *err)
{
    duckdb_arrow_converted_schema types = NULL;
    duckdb_data_chunk chunk = NULL;
    struct ArrowArray array = {0}, more = {0};
    od_arrow_part part = {0};
    od_code rc;
    OD_TRY(od_arrow_types(from->connection, from->schema, &types, err));
    OD_TRY(od_ipc_reader_next_array(from->reader, from->payload, &array, err));
    OD_TRY(one_row(array.release != NULL ? array.length : 0, err));
    OD_TRY(od_arrow_part_make(&array, 0, 1, &part, err));
    OD_TRY(od_arrow_part_chunk(&part, from->host, from->connection, types, &chunk, err));
    OD_TRY(take_values(from, chunk, err));
    OD_TRY(od_ipc_reader_next_array(from->reader, from->payload, &more, err));
    rc = more.release == NULL ? OD_OK : one_row(1 + more.length, err);
out:
    if (chunk != NULL)
        duckdb_destroy_data_chunk(&chunk);
    od_arrow_part_release(&part);
    if (array.release != NULL)
        array.release(&array);
    if (more.release != NULL)
        more.release(&more);
    if (types != NULL)
        duckdb_destroy_arrow_converted_schema(&types);
    return rc;
}

/* ---- reading ---- */

static bool is_native(const struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++)
        if (od_schema_metadata(schema->children[i], "openduck:type").len == 0)
            return false;
    return true;
}

static od_code take_names(source *from, od_error *err)
{
    size_t n = (size_t)from->schema->n_children;
    from->out->names = od_calloc(n + 1, sizeof *from->out->names);
    from->out->values = od_calloc(n + 1, sizeof(duckdb_value));
    from->types = od_calloc(n + 1, sizeof(duckdb_logical_type));
    if (from->out->names == NULL || from->out->values == NULL || from->types == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    from->out->count = n;
    for (size_t i = 0; i < n; i++) {
        const char *name = from->schema->children[i]->name;
        from->out->names[i] = od_strdup(name != NULL ? name : "");
        if (from->out->names[i] == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    return OD_OK;
}

static od_code open_source(source *from, od_slice payload, od_error *err)
{
    od_code rc;
    from->out = od_calloc(1, sizeof *from->out);
    if (from->out == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    from->out->host = from->host;
    OD_TRY(od_msg_create(payload.len, 0, &from->payload, err));
    memcpy(od_msg_data(from->payload), payload.data, payload.len);
    OD_TRY(od_ipc_reader_create(&from->reader, err));
    OD_TRY(od_ipc_reader_start(from->reader, od_slice_of(od_msg_data(from->payload), payload.len), NULL, err));
    from->schema = od_ipc_reader_schema(from->reader);
    rc = take_names(from, err);
out:
    return rc;
}

od_code od_parameters_read(const od_engine_host *host, duckdb_connection connection, od_slice payload,
                           od_parameters **out, od_error *err)
{
    source from = {.host = host, .connection = connection};
    od_code rc;
    *out = NULL;
    if (host == NULL)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "parameters are not taken by this build");
    rc = open_source(&from, payload, err);
    if (rc == OD_OK)
        rc = is_native(from.schema) ? read_native(&from, err) : read_plain(&from, err);
    if (rc != OD_OK)
        od_error_prefix(err, "the parameters cannot be read");
    for (size_t i = 0; from.types != NULL && i < from.out->count; i++)
        if (from.types[i] != NULL)
            duckdb_destroy_logical_type(&from.types[i]);
    od_free(from.types);
    od_ipc_reader_free(from.reader);
    od_msg_unref(from.payload);
    if (rc == OD_OK)
        *out = from.out;
    else
        od_parameters_free(from.out);
    return rc;
}

void od_parameters_free(od_parameters *parameters)
{
    if (parameters == NULL)
        return;
    for (size_t i = 0; i < parameters->count; i++) {
        od_free(parameters->names[i]);
        if (parameters->values[i] != NULL)
            duckdb_destroy_value(&parameters->values[i]);
    }
    od_free(parameters->names);
    od_free(parameters->values);
    od_free(parameters);
}

/* ---- binding ---- */

static void add_name(char *list, size_t size, const char *name)
{
    size_t used = strlen(list);
    (void)snprintf(list + used, size - used, "%s%s", used > 0 ? ", " : "", name);
}

static bool has(const od_parameters *parameters, const char *name)
{
    for (size_t i = 0; i < parameters->count; i++)
        if (strcasecmp(parameters->names[i], name) == 0)
            return true;
    return false;
}

/* DuckDB's own words, which its C API says only when a statement is run. */
static od_code check_names(const od_parameters *parameters, duckdb_prepared_statement statement, od_error *err)
{
    char missing[300] = "", excess[300] = "";
    for (idx_t i = 1; i <= duckdb_nparams(statement); i++) {
        const char *name = duckdb_parameter_name(statement, i);
        if (name != NULL && !has(parameters, name))
            add_name(missing, sizeof missing, name);
        duckdb_free((void *)(uintptr_t)name);
    }
    for (size_t i = 0; i < parameters->count; i++) {
        idx_t ignored;
        if (duckdb_bind_parameter_index(statement, &ignored, parameters->names[i]) == DuckDBError)
            add_name(excess, sizeof excess, parameters->names[i]);
    }
    if (missing[0] != '\0')
        return od_fail(err, OD_E_INVALID,
                       "Values were not provided for the following prepared statement parameters: %s", missing);
    if (excess[0] != '\0')
        return od_fail(err, OD_E_INVALID, "Parameter argument/count mismatch, identifiers of the excess parameters: %s",
                       excess);
    return OD_OK;
}

od_code od_parameters_bind(const od_parameters *parameters, duckdb_prepared_statement statement, bool repeats,
                           od_error *err)
{
    od_code rc;
    (void)duckdb_clear_bindings(statement);
    if (parameters == NULL)
        return OD_OK;
    OD_TRY(check_names(parameters, statement, err));
    for (size_t i = 0; i < parameters->count; i++) {
        idx_t index;
        if (duckdb_bind_parameter_index(statement, &index, parameters->names[i]) == DuckDBError ||
            duckdb_bind_value(statement, index, parameters->values[i]) == DuckDBError)
            return od_duck_fail(err, duckdb_prepare_error(statement));
    }
    if (repeats)
        parameters->host->rebind(statement);
out:
    return rc;
}

od_code od_parameters_describe(const od_parameters *parameters, duckdb_connection connection,
                               duckdb_prepared_statement statement, od_error *err)
{
    char why[sizeof err->message];
    od_code rc = od_parameters_bind(parameters, statement, false, err);
    if (rc != OD_OK || parameters->host->describe(connection, statement, why, sizeof why))
        return rc;
    return od_duck_fail(err, why);
}
