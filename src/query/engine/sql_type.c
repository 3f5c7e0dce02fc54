/* The text of a type, as DuckDB's LogicalType::ToString writes it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ident.h"
#include "query/engine/engine_internal.h"
#include "base/banned.h"

/* ---- keywords ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

od_code od_keywords_load(od_keywords *keywords, duckdb_connection connection, od_error *err)
{
    duckdb_result result;
    od_code rc = OD_OK;
    if (duckdb_query(connection, "SELECT keyword_name FROM duckdb_keywords()", &result) == DuckDBError) {
        rc = od_duck_fail(err, duckdb_result_error(&result));
        duckdb_destroy_result(&result);
        return rc;
    }
    duckdb_data_chunk chunk;
    while (rc == OD_OK && (chunk = duckdb_fetch_chunk(result)) != NULL) {
        idx_t n = duckdb_data_chunk_get_size(chunk);
        duckdb_string_t *text = duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 0));
        char **grown = od_realloc(keywords->words, (keywords->count + n + 1) * sizeof *grown);
        if (grown != NULL)
            keywords->words = grown;
        for (idx_t i = 0; i < n && grown != NULL; i++) {
            grown[keywords->count] = od_strndup(duckdb_string_t_data(&text[i]), duckdb_string_t_length(text[i]));
            if (grown[keywords->count] == NULL)
                grown = NULL;
            else
                keywords->count++;
        }
        if (grown == NULL)
            rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
        duckdb_destroy_data_chunk(&chunk);
    }
    duckdb_destroy_result(&result);
    if (rc == OD_OK && keywords->count > 0)
        qsort(keywords->words, keywords->count, sizeof *keywords->words, by_text);
    return rc;
}

void od_keywords_release(od_keywords *keywords)
{
    for (size_t i = 0; i < keywords->count; i++)
        od_free(keywords->words[i]);
    od_free(keywords->words);
    *keywords = (od_keywords){0};
}

/* ---- parts ---- */

static bool plain_identifier(const char *name, const od_keywords *keywords)
{
    if (name[0] >= '0' && name[0] <= '9')
        return false;
    for (const char *p = name; *p != '\0'; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_'))
            return false;
    char lower[64];
    size_t len = strlen(name);
    if (len >= sizeof lower)
        return true; /* longer than any keyword */
    for (size_t i = 0; i <= len; i++)
        lower[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    char *key = lower;
    return bsearch(&key, keywords->words, keywords->count, sizeof *keywords->words, by_text) == NULL;
}

static od_code append_name(od_buf *out, char *name, const od_keywords *keywords, od_error *err)
{
    od_code rc = name == NULL                       ? od_fail(err, OD_E_NO_MEMORY, "out of memory")
                 : plain_identifier(name, keywords) ? od_buf_append(out, name, strlen(name), err)
                                                    : od_quote_ident(out, od_slice_str(name), err);
    duckdb_free(name);
    return rc;
}

static od_code append_literal(od_buf *out, char *text, od_error *err)
{
    od_code rc =
        text == NULL ? od_fail(err, OD_E_NO_MEMORY, "out of memory") : od_quote_literal(out, od_slice_str(text), err);
    duckdb_free(text);
    return rc;
}

/* NOLINTBEGIN(misc-no-recursion): as deep as the type */
/* Appends CHILD, which is taken. */
static od_code append_child(od_buf *out, duckdb_logical_type child, const od_keywords *keywords, od_error *err)
{
    if (child == NULL)
        return od_fail(err, OD_E_INTERNAL, "a type without its child");
    od_code rc = od_sql_type_append(out, child, keywords, err);
    duckdb_destroy_logical_type(&child);
    return rc;
}

static od_code append_enum(od_buf *out, duckdb_logical_type type, od_error *err)
{
    od_code rc = od_buf_printf(out, err, "ENUM(");
    uint32_t n = duckdb_enum_dictionary_size(type);
    for (uint32_t i = 0; i < n && rc == OD_OK; i++) {
        if (i > 0)
            rc = od_buf_append(out, ", ", 2, err);
        if (rc == OD_OK)
            rc = append_literal(out, duckdb_enum_dictionary_value(type, i), err);
    }
    return rc == OD_OK ? od_buf_append(out, ")", 1, err) : rc;
}

/* A struct's fields, or a union's members. */
static od_code append_fields(od_buf *out, duckdb_logical_type type, bool members, const od_keywords *keywords,
                             od_error *err)
{
    od_code rc = od_buf_printf(out, err, members ? "UNION(" : "STRUCT(");
    idx_t n = members ? duckdb_union_type_member_count(type) : duckdb_struct_type_child_count(type);
    bool unnamed = false;
    for (idx_t i = 0; i < n && rc == OD_OK; i++) {
        char *name = members ? duckdb_union_type_member_name(type, i) : duckdb_struct_type_child_name(type, i);
        if (i == 0)
            unnamed = !members && name != NULL && name[0] == '\0';
        else
            rc = od_buf_append(out, ", ", 2, err);
        if (unnamed || rc != OD_OK) {
            duckdb_free(name);
        } else {
            rc = append_name(out, name, keywords, err);
            if (rc == OD_OK)
                rc = od_buf_append(out, " ", 1, err);
        }
        if (rc == OD_OK)
            rc = append_child(out,
                              members ? duckdb_union_type_member_type(type, i) : duckdb_struct_type_child_type(type, i),
                              keywords, err);
    }
    return rc == OD_OK ? od_buf_append(out, ")", 1, err) : rc;
}

static od_code append_map(od_buf *out, duckdb_logical_type type, const od_keywords *keywords, od_error *err)
{
    od_code rc;
    OD_TRY(od_buf_printf(out, err, "MAP("));
    OD_TRY(append_child(out, duckdb_map_type_key_type(type), keywords, err));
    OD_TRY(od_buf_append(out, ", ", 2, err));
    OD_TRY(append_child(out, duckdb_map_type_value_type(type), keywords, err));
    OD_TRY(od_buf_append(out, ")", 1, err));
out:
    return rc;
}

static od_code append_list(od_buf *out, duckdb_logical_type type, const od_keywords *keywords, od_error *err)
{
    bool array = duckdb_get_type_id(type) == DUCKDB_TYPE_ARRAY;
    od_code rc = append_child(out, array ? duckdb_array_type_child_type(type) : duckdb_list_type_child_type(type),
                              keywords, err);
    if (rc != OD_OK)
        return rc;
    if (!array)
        return od_buf_append(out, "[]", 2, err);
    return od_buf_printf(out, err, "[%llu]", (unsigned long long)duckdb_array_type_array_size(type));
}
/* NOLINTEND(misc-no-recursion) */

static od_code append_geometry(od_buf *out, duckdb_logical_type type, od_error *err)
{
    char *crs = duckdb_geometry_type_get_crs(type);
    od_code rc = od_buf_printf(out, err, "GEOMETRY");
    if (crs == NULL || rc != OD_OK) {
        duckdb_free(crs);
        return rc;
    }
    rc = od_buf_append(out, "(", 1, err);
    if (rc == OD_OK)
        rc = append_literal(out, crs, err);
    else
        duckdb_free(crs);
    return rc == OD_OK ? od_buf_append(out, ")", 1, err) : rc;
}

static const char *simple_name(duckdb_type id)
{
    switch (id) {
    case DUCKDB_TYPE_BOOLEAN:
        return "BOOLEAN";
    case DUCKDB_TYPE_TINYINT:
        return "TINYINT";
    case DUCKDB_TYPE_SMALLINT:
        return "SMALLINT";
    case DUCKDB_TYPE_INTEGER:
        return "INTEGER";
    case DUCKDB_TYPE_BIGINT:
        return "BIGINT";
    case DUCKDB_TYPE_UTINYINT:
        return "UTINYINT";
    case DUCKDB_TYPE_USMALLINT:
        return "USMALLINT";
    case DUCKDB_TYPE_UINTEGER:
        return "UINTEGER";
    case DUCKDB_TYPE_UBIGINT:
        return "UBIGINT";
    case DUCKDB_TYPE_FLOAT:
        return "FLOAT";
    case DUCKDB_TYPE_DOUBLE:
        return "DOUBLE";
    case DUCKDB_TYPE_HUGEINT:
        return "HUGEINT";
    case DUCKDB_TYPE_UHUGEINT:
        return "UHUGEINT";
    case DUCKDB_TYPE_DATE:
        return "DATE";
    case DUCKDB_TYPE_TIME:
        return "TIME";
    case DUCKDB_TYPE_TIME_NS:
        return "TIME_NS";
    case DUCKDB_TYPE_TIME_TZ:
        return "TIME WITH TIME ZONE";
    case DUCKDB_TYPE_TIMESTAMP:
        return "TIMESTAMP";
    case DUCKDB_TYPE_TIMESTAMP_S:
        return "TIMESTAMP_S";
    case DUCKDB_TYPE_TIMESTAMP_MS:
        return "TIMESTAMP_MS";
    case DUCKDB_TYPE_TIMESTAMP_NS:
        return "TIMESTAMP_NS";
    case DUCKDB_TYPE_TIMESTAMP_TZ:
        return "TIMESTAMP WITH TIME ZONE";
    case DUCKDB_TYPE_INTERVAL:
        return "INTERVAL";
    case DUCKDB_TYPE_VARCHAR:
        return "VARCHAR";
    case DUCKDB_TYPE_BLOB:
        return "BLOB";
    case DUCKDB_TYPE_BIT:
        return "BIT";
    case DUCKDB_TYPE_UUID:
        return "UUID";
    case DUCKDB_TYPE_BIGNUM:
        return "BIGNUM";
    case DUCKDB_TYPE_VARIANT:
        return "VARIANT";
    case DUCKDB_TYPE_SQLNULL:
        return "\"NULL\"";
    case DUCKDB_TYPE_STRING_LITERAL:
        return "STRING_LITERAL";
    case DUCKDB_TYPE_INTEGER_LITERAL:
        return "INTEGER_LITERAL";
    case DUCKDB_TYPE_ANY:
        return "ANY";
    default:
        return NULL;
    }
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the type */
od_code od_sql_type_append(od_buf *out, duckdb_logical_type type, const od_keywords *keywords, od_error *err)
{
    char *alias = duckdb_logical_type_get_alias(type);
    if (alias != NULL) {
        od_code rc = od_buf_append(out, alias, strlen(alias), err);
        duckdb_free(alias);
        return rc;
    }
    duckdb_type id = duckdb_get_type_id(type);
    switch (id) {
    case DUCKDB_TYPE_DECIMAL:
        return od_buf_printf(out, err, "DECIMAL(%d,%d)", duckdb_decimal_width(type), duckdb_decimal_scale(type));
    case DUCKDB_TYPE_ENUM:
        return append_enum(out, type, err);
    case DUCKDB_TYPE_LIST:
    case DUCKDB_TYPE_ARRAY:
        return append_list(out, type, keywords, err);
    case DUCKDB_TYPE_STRUCT:
        return append_fields(out, type, false, keywords, err);
    case DUCKDB_TYPE_UNION:
        return append_fields(out, type, true, keywords, err);
    case DUCKDB_TYPE_MAP:
        return append_map(out, type, keywords, err);
    case DUCKDB_TYPE_GEOMETRY:
        return append_geometry(out, type, err);
    default: {
        const char *name = simple_name(id);
        return name != NULL ? od_buf_append(out, name, strlen(name), err)
                            : od_fail(err, OD_E_NOT_IMPLEMENTED, "type %d of the database has no name here", (int)id);
    }
    }
}
