/* The NATIVE format's schema of a DuckDB type. */
#include <stdlib.h>
#include <string.h>

#include "arrow/ipc_read.h"
#include "arrow/schema.h"
#include "base/alloc.h"
#include "query/engine/native_internal.h"
#include "base/banned.h"

static od_code field_of(const char *name, const char *path, duckdb_logical_type type, unsigned depth, od_buf *fields,
                        struct ArrowSchema *out, od_error *err);

#define MAX_DEPTH 100

typedef struct {
    duckdb_type id;
    const char *format;
    const char *signature;
    od_field_kind kind;
    uint32_t width;
} simple_type;

static const simple_type simple_types[] = {
    {DUCKDB_TYPE_BOOLEAN, "c", "BOOLEAN", OD_FIELD_FIXED, 1},
    {DUCKDB_TYPE_TINYINT, "c", "TINYINT", OD_FIELD_FIXED, 1},
    {DUCKDB_TYPE_SMALLINT, "s", "SMALLINT", OD_FIELD_FIXED, 2},
    {DUCKDB_TYPE_INTEGER, "i", "INTEGER", OD_FIELD_FIXED, 4},
    {DUCKDB_TYPE_BIGINT, "l", "BIGINT", OD_FIELD_FIXED, 8},
    {DUCKDB_TYPE_UTINYINT, "C", "UTINYINT", OD_FIELD_FIXED, 1},
    {DUCKDB_TYPE_USMALLINT, "S", "USMALLINT", OD_FIELD_FIXED, 2},
    {DUCKDB_TYPE_UINTEGER, "I", "UINTEGER", OD_FIELD_FIXED, 4},
    {DUCKDB_TYPE_UBIGINT, "L", "UBIGINT", OD_FIELD_FIXED, 8},
    {DUCKDB_TYPE_FLOAT, "f", "FLOAT", OD_FIELD_FIXED, 4},
    {DUCKDB_TYPE_DOUBLE, "g", "DOUBLE", OD_FIELD_FIXED, 8},
    {DUCKDB_TYPE_HUGEINT, "w:16", "HUGEINT", OD_FIELD_FIXED, 16},
    {DUCKDB_TYPE_UHUGEINT, "w:16", "UHUGEINT", OD_FIELD_FIXED, 16},
    {DUCKDB_TYPE_DATE, "tdD", "DATE", OD_FIELD_FIXED, 4},
    {DUCKDB_TYPE_TIME, "ttu", "TIME", OD_FIELD_FIXED, 8},
    {DUCKDB_TYPE_TIME_NS, "ttn", "TIME_NS", OD_FIELD_FIXED, 8},
    {DUCKDB_TYPE_TIME_TZ, "L", "TIME WITH TIME ZONE", OD_FIELD_FIXED, 8},
    {DUCKDB_TYPE_TIMESTAMP_S, "tss:", "TIMESTAMP_S", OD_FIELD_FIXED, 8},
    {DUCKDB_TYPE_TIMESTAMP_MS, "tsm:", "TIMESTAMP_MS", OD_FIELD_FIXED, 8},
    {DUCKDB_TYPE_TIMESTAMP, "tsu:", "TIMESTAMP", OD_FIELD_FIXED, 8},
    {DUCKDB_TYPE_TIMESTAMP_NS, "tsn:", "TIMESTAMP_NS", OD_FIELD_FIXED, 8},
    {DUCKDB_TYPE_TIMESTAMP_TZ, "tsu:UTC", "TIMESTAMP WITH TIME ZONE", OD_FIELD_FIXED, 8},
    {DUCKDB_TYPE_INTERVAL, "w:16", "INTERVAL", OD_FIELD_FIXED, 16},
    {DUCKDB_TYPE_UUID, "w:16", "UUID", OD_FIELD_FIXED, 16},
    {DUCKDB_TYPE_VARCHAR, "u", "VARCHAR", OD_FIELD_TEXT, 1},
    {DUCKDB_TYPE_BLOB, "z", "BLOB", OD_FIELD_TEXT, 1},
    {DUCKDB_TYPE_BIT, "z", "BIT", OD_FIELD_TEXT, 1},
    {DUCKDB_TYPE_BIGNUM, "z", "BIGNUM", OD_FIELD_TEXT, 1},
    {DUCKDB_TYPE_GEOMETRY, "z", "GEOMETRY", OD_FIELD_TEXT, 1},
    {DUCKDB_TYPE_SQLNULL, "i", "NULL", OD_FIELD_NULL, 4},
};

/* ---- one field ---- */

/* Makes OUT, signs it and appends its entry; *index is the entry's place, whose `next` the caller sets after the children. */
static od_code begin(const char *name, const simple_type *as, uint32_t child_count, od_buf *fields,
                     struct ArrowSchema *out, size_t *index, od_error *err)
{
    od_field field = {as->kind, as->width, child_count, 0};
    *index = fields->len / sizeof field;
    od_code rc = od_schema_make(out, name, as->format, child_count, err);
    if (rc == OD_OK)
        rc = od_schema_set_metadata(out, "openduck:type", od_slice_str(as->signature), err);
    if (rc == OD_OK)
        rc = od_buf_append(fields, &field, sizeof field, err);
    return rc;
}

static void finish(od_buf *fields, size_t index)
{
    od_field *all = (od_field *)(void *)fields->data;
    all[index].next = (uint32_t)(fields->len / sizeof *all);
}

static od_code leaf(const char *name, const simple_type *as, od_buf *fields, struct ArrowSchema *out, od_error *err)
{
    size_t index;
    od_code rc = begin(name, as, 0, fields, out, &index, err);
    if (rc == OD_OK)
        finish(fields, index);
    return rc;
}

static od_code decimal(const char *name, duckdb_logical_type type, od_buf *fields, struct ArrowSchema *out,
                       od_error *err)
{
    char signature[32];
    (void)snprintf(signature, sizeof signature, "DECIMAL(%d,%d)", duckdb_decimal_width(type),
                   duckdb_decimal_scale(type));
    simple_type as = {DUCKDB_TYPE_DECIMAL, "w:16", signature, OD_FIELD_FIXED, 16};
    switch (duckdb_decimal_internal_type(type)) {
    case DUCKDB_TYPE_SMALLINT:
        as.format = "s", as.width = 2;
        break;
    case DUCKDB_TYPE_INTEGER:
        as.format = "i", as.width = 4;
        break;
    case DUCKDB_TYPE_BIGINT:
        as.format = "l", as.width = 8;
        break;
    default:
        break;
    }
    return leaf(name, &as, fields, out, err);
}

static od_code enumeration(const char *name, duckdb_logical_type type, od_buf *fields, struct ArrowSchema *out,
                           od_error *err)
{
    uint64_t hash = 0xcbf29ce484222325U; /* FNV-1a */
    uint32_t n = duckdb_enum_dictionary_size(type);
    for (uint32_t i = 0; i < n; i++) {
        char *value = duckdb_enum_dictionary_value(type, i);
        if (value == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
        const char *p = value;
        do {
            hash = (hash ^ (uint8_t)*p) * 0x100000001b3U;
        } while (*p++ != '\0');
        duckdb_free(value);
    }
    char signature[64];
    (void)snprintf(signature, sizeof signature, "ENUM(%u,%016llx)", n, (unsigned long long)hash);
    simple_type as = {DUCKDB_TYPE_ENUM, "I", signature, OD_FIELD_FIXED, 4};
    switch (duckdb_enum_internal_type(type)) {
    case DUCKDB_TYPE_UTINYINT:
        as.format = "C", as.width = 1;
        break;
    case DUCKDB_TYPE_USMALLINT:
        as.format = "S", as.width = 2;
        break;
    default:
        break;
    }
    return leaf(name, &as, fields, out, err);
}

/* ---- nested ones ---- */

/* NOLINTBEGIN(misc-no-recursion): at most MAX_DEPTH deep */
/* A field whose only child is CHILD (taken), called CHILD_NAME. */
static od_code with_child(const char *name, const char *path, const simple_type *as, duckdb_logical_type child,
                          const char *child_name, unsigned depth, od_buf *fields, struct ArrowSchema *out,
                          od_error *err)
{
    size_t index;
    od_code rc = child != NULL ? begin(name, as, 1, fields, out, &index, err)
                               : od_fail(err, OD_E_INTERNAL, "a type without its child");
    if (rc == OD_OK)
        rc = field_of(child_name, path, child, depth + 1, fields, out->children[0], err);
    if (rc == OD_OK)
        finish(fields, index);
    duckdb_destroy_logical_type(&child);
    return rc;
}

static od_code array(const char *name, const char *path, duckdb_logical_type type, unsigned depth, od_buf *fields,
                     struct ArrowSchema *out, od_error *err)
{
    char format[32], signature[32];
    idx_t n = duckdb_array_type_array_size(type);
    (void)snprintf(format, sizeof format, "+w:%llu", (unsigned long long)n);
    (void)snprintf(signature, sizeof signature, "ARRAY(%llu)", (unsigned long long)n);
    simple_type as = {DUCKDB_TYPE_ARRAY, format, signature, OD_FIELD_ARRAY, (uint32_t)n};
    return with_child(name, path, &as, duckdb_array_type_child_type(type), "l", depth, fields, out, err);
}

/* STRUCT, UNION and VARIANT are DuckDB's physical structs. */
static od_code record(const char *name, const char *path, duckdb_logical_type type, const char *signature,
                      unsigned depth, od_buf *fields, struct ArrowSchema *out, od_error *err)
{
    simple_type as = {DUCKDB_TYPE_STRUCT, "+s", signature, OD_FIELD_STRUCT, 0};
    size_t index;
    idx_t n = duckdb_struct_type_child_count(type);
    od_code rc = begin(name, &as, (uint32_t)n, fields, out, &index, err);
    for (idx_t i = 0; i < n && rc == OD_OK; i++) {
        char *child_name = duckdb_struct_type_child_name(type, i);
        duckdb_logical_type child = duckdb_struct_type_child_type(type, i);
        rc = child_name != NULL && child != NULL
                 ? field_of(child_name, path, child, depth + 1, fields, out->children[i], err)
                 : od_fail(err, OD_E_NO_MEMORY, "out of memory");
        duckdb_free(child_name);
        duckdb_destroy_logical_type(&child);
    }
    if (rc == OD_OK)
        finish(fields, index);
    return rc;
}

static od_code map(const char *name, const char *path, duckdb_logical_type type, unsigned depth, od_buf *fields,
                   struct ArrowSchema *out, od_error *err)
{
    static const simple_type as = {DUCKDB_TYPE_MAP, "+l", "MAP", OD_FIELD_LIST, 0};
    return with_child(name, path, &as, duckdb_list_type_child_type(type), "l", depth, fields, out, err);
}

static od_code list(const char *name, const char *path, duckdb_logical_type type, unsigned depth, od_buf *fields,
                    struct ArrowSchema *out, od_error *err)
{
    static const simple_type as = {DUCKDB_TYPE_LIST, "+l", "LIST", OD_FIELD_LIST, 0};
    return with_child(name, path, &as, duckdb_list_type_child_type(type), "l", depth, fields, out, err);
}

static od_code field_of(const char *name, const char *path, duckdb_logical_type type, unsigned depth, od_buf *fields,
                        struct ArrowSchema *out, od_error *err)
{
    duckdb_type id = duckdb_get_type_id(type);
    if (depth > MAX_DEPTH)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "column '%s' nests deeper than %d types", path, MAX_DEPTH);
    for (size_t i = 0; i < sizeof simple_types / sizeof simple_types[0]; i++)
        if (simple_types[i].id == id)
            return leaf(name, &simple_types[i], fields, out, err);
    switch (id) {
    case DUCKDB_TYPE_DECIMAL:
        return decimal(name, type, fields, out, err);
    case DUCKDB_TYPE_ENUM:
        return enumeration(name, type, fields, out, err);
    case DUCKDB_TYPE_LIST:
        return list(name, path, type, depth, fields, out, err);
    case DUCKDB_TYPE_MAP:
        return map(name, path, type, depth, fields, out, err);
    case DUCKDB_TYPE_ARRAY:
        return array(name, path, type, depth, fields, out, err);
    case DUCKDB_TYPE_STRUCT:
        return record(name, path, type, "STRUCT", depth, fields, out, err);
    case DUCKDB_TYPE_UNION:
        return record(name, path, type, "UNION", depth, fields, out, err);
    case DUCKDB_TYPE_VARIANT:
        return record(name, path, type, "VARIANT", depth, fields, out, err);
    default:
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "column '%s' is of a type that is not sent (number %d)", path,
                       (int)id);
    }
}
/* NOLINTEND(misc-no-recursion) */

od_code od_native_field(const char *name, const char *path, duckdb_logical_type type, od_buf *fields,
                        struct ArrowSchema *out, od_error *err)
{
    return field_of(name, path, type, 0, fields, out, err);
}

/* ---- from a signature ---- */

static od_code wrong(const char *path, od_slice signature, od_error *err)
{
    return od_fail(err, OD_E_INVALID, "column '%s': '%.*s' does not tell a whole type (openduck:sql_type would)", path,
                   (int)(signature.len < 64 ? signature.len : 64),
                   signature.len > 0 ? (const char *)signature.data : "");
}

/* The numbers of "NAME(n)" or "NAME(n,m)"; how many they are. */
static int numbers_of(od_slice signature, const char *name, unsigned *first, unsigned *second)
{
    char text[48];
    size_t skip = strlen(name);
    if (signature.len >= sizeof text || signature.len <= skip || memcmp(signature.data, name, skip) != 0)
        return 0;
    memcpy(text, signature.data, signature.len);
    text[signature.len] = '\0';
    char *at = text + skip, *end;
    if (*at++ != '(')
        return 0;
    unsigned long value = strtoul(at, &end, 10);
    if (end == at || value > UINT32_MAX)
        return 0;
    *first = (unsigned)value;
    if (*end == ')')
        return 1;
    at = end + 1;
    value = *end == ',' ? strtoul(at, &end, 10) : 0;
    *second = (unsigned)value;
    return end > at && *end == ')' && value <= UINT32_MAX ? 2 : 0;
}

static duckdb_logical_type leaf_of(od_slice signature)
{
    unsigned width, scale;
    for (size_t i = 0; i < sizeof simple_types / sizeof simple_types[0]; i++)
        if (od_slice_equal(signature, od_slice_str(simple_types[i].signature)))
            return duckdb_create_logical_type(simple_types[i].id);
    if (numbers_of(signature, "DECIMAL", &width, &scale) == 2 && width >= 1 && width <= 38 && scale <= width)
        return duckdb_create_decimal_type((uint8_t)width, (uint8_t)scale);
    return NULL;
}

/* NOLINTBEGIN(misc-no-recursion): as deep as the schema, which the reader bounds */
static od_code type_of(const struct ArrowSchema *field, const char *path, duckdb_logical_type *out, od_error *err);

/* The types of FIELD's children from FIRST on, into TYPES; how many there are is *made, also on failure. */
static od_code child_types(const struct ArrowSchema *field, const char *path, int64_t first, duckdb_logical_type *types,
                           const char **names, size_t *made, od_error *err)
{
    *made = 0;
    for (int64_t i = first; i < field->n_children; i++) {
        od_code rc = type_of(field->children[i], path, &types[*made], err);
        if (rc != OD_OK)
            return rc;
        names[(*made)++] = field->children[i]->name;
    }
    return OD_OK;
}

static duckdb_logical_type compose(od_slice signature, duckdb_logical_type *types, const char **names, size_t n)
{
    unsigned size, ignored;
    if (od_slice_equal(signature, od_slice_str("STRUCT")) && n > 0)
        return duckdb_create_struct_type(types, names, n);
    if (od_slice_equal(signature, od_slice_str("UNION")) && n > 0)
        return duckdb_create_union_type(types, names, n);
    if (od_slice_equal(signature, od_slice_str("LIST")) && n == 1)
        return duckdb_create_list_type(types[0]);
    if (od_slice_equal(signature, od_slice_str("MAP")) && n == 2)
        return duckdb_create_map_type(types[0], types[1]);
    if (numbers_of(signature, "ARRAY", &size, &ignored) == 1 && size > 0 && n == 1)
        return duckdb_create_array_type(types[0], size);
    return NULL;
}

static od_code type_of(const struct ArrowSchema *field, const char *path, duckdb_logical_type *out, od_error *err)
{
    od_slice signature = od_schema_metadata(field, "openduck:type");
    *out = leaf_of(signature);
    if (*out != NULL)
        return OD_OK;
    /* A MAP's two types are those of its struct; a UNION's first child is its tag. */
    bool map = od_slice_equal(signature, od_slice_str("MAP")) && field->n_children == 1;
    const struct ArrowSchema *parent = map ? field->children[0] : field;
    int64_t first = od_slice_equal(signature, od_slice_str("UNION")) ? 1 : 0;
    size_t n = (size_t)parent->n_children, made = 0;
    duckdb_logical_type *types = od_calloc(n + 1, sizeof(duckdb_logical_type));
    const char **names = od_calloc(n + 1, sizeof *names);
    od_code rc = types != NULL && names != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
    if (rc == OD_OK)
        rc = child_types(parent, path, first, types, names, &made, err);
    if (rc == OD_OK)
        *out = compose(signature, types, names, made);
    if (rc == OD_OK && *out == NULL)
        rc = wrong(path, signature, err);
    for (size_t i = 0; i < made; i++)
        duckdb_destroy_logical_type(&types[i]);
    od_free(types);
    od_free(names);
    return rc;
}
/* NOLINTEND(misc-no-recursion) */

od_code od_native_type(const struct ArrowSchema *field, duckdb_logical_type *out, od_error *err)
{
    return type_of(field, field->name, out, err);
}
