/* Types from their SQL. */
#include <string.h>

#include "query/engine/engine_internal.h"
#include "base/banned.h"

static od_code type_sql(const od_slice *texts, size_t count, od_buf *sql, od_error *err)
{
    od_code rc;
    OD_TRY(od_buf_printf(sql, err, "SELECT "));
    for (size_t i = 0; i < count; i++) {
        if (texts[i].len == 0 || memchr(texts[i].data, '\0', texts[i].len) != NULL)
            return od_fail(err, OD_E_INVALID, "a type is empty or holds a NUL");
        OD_TRY(od_buf_printf(sql, err, i == 0 ? "NULL::" : ", NULL::"));
        OD_TRY(od_buf_append(sql, texts[i].data, texts[i].len, err));
    }
    rc = od_buf_append(sql, "", 1, err);
out:
    return rc;
}

/* It is prepared, never run: a text that is more than a type makes another number of columns or statements. */
static od_code prepare(duckdb_connection connection, const char *sql, size_t count, duckdb_prepared_statement *out,
                       od_error *err)
{
    duckdb_extracted_statements statements = NULL;
    od_code rc = OD_OK;
    idx_t found = duckdb_extract_statements(connection, sql, &statements);
    if (found == 0)
        rc = od_duck_fail(err, duckdb_extract_statements_error(statements));
    else if (found == 1 && duckdb_prepare_extracted_statement(connection, statements, 0, out) == DuckDBError)
        rc = od_duck_fail(err, *out != NULL ? duckdb_prepare_error(*out) : NULL);
    else if (found > 1 || duckdb_prepared_statement_column_count(*out) != count)
        rc = od_fail(err, OD_E_INVALID, "a column's type is more than a type");
    if (statements != NULL)
        duckdb_destroy_extracted(&statements);
    return rc;
}

od_code od_types_parse(duckdb_connection connection, const od_slice *texts, size_t count, duckdb_logical_type *types,
                       od_error *err)
{
    od_buf sql = {0};
    duckdb_prepared_statement prepared = NULL;
    od_code rc;
    OD_TRY(type_sql(texts, count, &sql, err));
    OD_TRY(prepare(connection, (const char *)sql.data, count, &prepared, err));
    for (size_t i = 0; i < count && rc == OD_OK; i++) {
        types[i] = duckdb_prepared_statement_column_logical_type(prepared, i);
        if (types[i] == NULL)
            rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
out:
    if (prepared != NULL)
        duckdb_destroy_prepare(&prepared);
    od_buf_release(&sql);
    return rc;
}
