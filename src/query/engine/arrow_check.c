/* What DuckDB made of foreign Arrow arrays: it takes their values as they are, and its functions trust them. */
#include "query/engine/arrow_read.h"
#include "query/engine/native_read.h"
#include "base/banned.h"

typedef struct {
    duckdb_vector vector;
    duckdb_type type;
    idx_t count;
    const uint64_t *validity; /* NULL: all are valid */
} column;

static bool valid_row(const column *c, idx_t row)
{
    return c->validity == NULL || (c->validity[row / 64] >> (row % 64) & 1);
}

static od_code check_texts(const column *c, od_text check, od_error *err)
{
    duckdb_string_t *values = duckdb_vector_get_data(c->vector);
    od_code rc = OD_OK;
    for (idx_t i = 0; i < c->count && rc == OD_OK; i++)
        if (valid_row(c, i))
            rc = od_text_check((uint8_t)check, (const uint8_t *)duckdb_string_t_data(&values[i]),
                               duckdb_string_t_length(values[i]), err);
    return rc;
}

static od_code check_times(const column *c, od_time kind, od_error *err)
{
    const uint64_t *values = duckdb_vector_get_data(c->vector);
    for (idx_t i = 0; i < c->count; i++)
        if (valid_row(c, i) && !od_time_valid(kind, values[i]))
            return od_fail(err, OD_E_CORRUPT, "the rows are damaged: a time is outside of its day");
    return OD_OK;
}

/* NOLINTBEGIN(misc-no-recursion): as deep as the type, which the Arrow reader bounds */
static od_code check_vector(duckdb_vector vector, idx_t count, od_error *err);

static od_code check_children(const column *c, idx_t children, od_error *err)
{
    od_code rc = OD_OK;
    for (idx_t i = 0; i < children && rc == OD_OK; i++)
        rc = check_vector(duckdb_struct_vector_get_child(c->vector, i), c->count, err);
    return rc;
}

static od_code check_column(const column *c, duckdb_logical_type type, od_error *err)
{
    switch (c->type) {
    case DUCKDB_TYPE_VARCHAR:
        return check_texts(c, OD_TEXT_UTF8, err);
    case DUCKDB_TYPE_BIT:
        return check_texts(c, OD_TEXT_BIT, err);
    case DUCKDB_TYPE_BIGNUM:
        return check_texts(c, OD_TEXT_BIGNUM, err);
    case DUCKDB_TYPE_TIME:
        return check_times(c, OD_TIME_US, err);
    case DUCKDB_TYPE_TIME_NS:
        return check_times(c, OD_TIME_NS, err);
    case DUCKDB_TYPE_TIME_TZ:
        return check_times(c, OD_TIME_TZ, err);
    case DUCKDB_TYPE_LIST:
    case DUCKDB_TYPE_MAP:
        return check_vector(duckdb_list_vector_get_child(c->vector), duckdb_list_vector_get_size(c->vector), err);
    case DUCKDB_TYPE_ARRAY:
        return check_vector(duckdb_array_vector_get_child(c->vector), c->count * duckdb_array_type_array_size(type),
                            err);
    case DUCKDB_TYPE_STRUCT:
        return check_children(c, duckdb_struct_type_child_count(type), err);
    case DUCKDB_TYPE_UNION: /* its tag is the first */
        return check_children(c, duckdb_union_type_member_count(type) + 1, err);
    default:
        return OD_OK;
    }
}

static od_code check_vector(duckdb_vector vector, idx_t count, od_error *err)
{
    duckdb_logical_type type = duckdb_vector_get_column_type(vector);
    column c = {vector, duckdb_get_type_id(type), count, duckdb_vector_get_validity(vector)};
    od_code rc = check_column(&c, type, err);
    duckdb_destroy_logical_type(&type);
    return rc;
}
/* NOLINTEND(misc-no-recursion) */

od_code od_arrow_chunk_check(const od_engine_host *host, duckdb_data_chunk chunk, od_error *err)
{
    od_code rc = OD_OK;
    if (host == NULL)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "Arrow rows are not taken by this build");
    for (idx_t i = 0; i < duckdb_data_chunk_get_column_count(chunk) && rc == OD_OK; i++) {
        duckdb_vector vector = duckdb_data_chunk_get_vector(chunk, i);
        if (!host->flatten(vector, duckdb_data_chunk_get_size(chunk)))
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
        rc = check_vector(vector, duckdb_data_chunk_get_size(chunk), err);
    }
    return rc;
}
