/* Columns of the NATIVE format into DuckDB's vectors. What comes from a peer is checked before DuckDB, which trusts it, sees it. */
#include "query/engine/native_read.h"

#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "base/banned.h"

struct od_native_reader {
    struct ArrowSchema schema; /* as it has to be */
    od_buf fields_buf;
    const od_field *fields;
    size_t column_count;
    duckdb_logical_type *types; /* borrowed */
    bool *tagged;               /* by field: it is a UNION */
    bool *maps;                 /* by field: it is a MAP */
    uint32_t *enum_sizes;       /* by field; 0: no ENUM */
    uint8_t *checks;            /* by field: which check its values need */
};

/* Besides those of texts. */
enum { CHECK_BOOL = OD_TEXT_GEOMETRY + 1, CHECK_VARIANT, CHECK_TIME /* and od_time */ };

/* ---- create, free ---- */

static uint8_t check_of(od_slice signature)
{
    static const struct {
        const char *signature;
        uint8_t check;
    } known[] = {{"BOOLEAN", CHECK_BOOL},
                 {"VARCHAR", OD_TEXT_UTF8},
                 {"BIT", OD_TEXT_BIT},
                 {"BIGNUM", OD_TEXT_BIGNUM},
                 {"GEOMETRY", OD_TEXT_GEOMETRY},
                 {"VARIANT", CHECK_VARIANT},
                 {"TIME", CHECK_TIME + OD_TIME_US},
                 {"TIME_NS", CHECK_TIME + OD_TIME_NS},
                 {"TIME WITH TIME ZONE", CHECK_TIME + OD_TIME_TZ}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (od_slice_equal(signature, od_slice_str(known[i].signature)))
            return known[i].check;
    return OD_TEXT_ANY;
}

static uint32_t enum_size(od_slice signature)
{
    uint32_t n = 0;
    if (signature.len < 6 || memcmp(signature.data, "ENUM(", 5) != 0)
        return 0;
    for (size_t i = 5; i < signature.len && signature.data[i] >= '0' && signature.data[i] <= '9'; i++)
        n = n * 10 + (uint32_t)(signature.data[i] - '0');
    return n;
}

/* NOLINTBEGIN(misc-no-recursion): as deep as the type, which native_type.c bounds */
static void note_field(od_native_reader *reader, const struct ArrowSchema *field, size_t *index)
{
    size_t i = (*index)++;
    od_slice signature = od_schema_metadata(field, "openduck:type");
    reader->checks[i] = check_of(signature);
    reader->enum_sizes[i] = enum_size(signature);
    reader->tagged[i] = od_slice_equal(signature, od_slice_str("UNION"));
    reader->maps[i] = od_slice_equal(signature, od_slice_str("MAP"));
    for (int64_t k = 0; k < field->n_children; k++)
        note_field(reader, field->children[k], index);
}

od_code od_native_reader_create(const char *const *names, duckdb_logical_type *types, size_t count,
                                od_native_reader **out, od_error *err)
{
    size_t index = 0, n;
    od_code rc;
    *out = NULL;
    od_native_reader *reader = od_calloc(1, sizeof *reader);
    if (reader == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    reader->column_count = count;
    reader->types = types;
    OD_TRY(od_schema_make(&reader->schema, "", "+s", (int64_t)count, err));
    for (size_t i = 0; i < count; i++)
        OD_TRY(od_native_field(names[i], names[i], types[i], &reader->fields_buf, reader->schema.children[i], err));
    reader->fields = (const od_field *)(const void *)reader->fields_buf.data;
    n = reader->fields_buf.len / sizeof(od_field) + 1;
    reader->tagged = od_calloc(n, sizeof *reader->tagged);
    reader->maps = od_calloc(n, sizeof *reader->maps);
    reader->enum_sizes = od_calloc(n, sizeof *reader->enum_sizes);
    reader->checks = od_calloc(n, sizeof *reader->checks);
    if (reader->tagged == NULL || reader->maps == NULL || reader->enum_sizes == NULL || reader->checks == NULL) {
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < count; i++)
        note_field(reader, reader->schema.children[i], &index);
    *out = reader;
    reader = NULL;
out:
    od_native_reader_free(reader);
    return rc;
}

void od_native_reader_free(od_native_reader *reader)
{
    if (reader == NULL)
        return;
    od_schema_release(&reader->schema);
    od_buf_release(&reader->fields_buf);
    od_free(reader->tagged);
    od_free(reader->maps);
    od_free(reader->enum_sizes);
    od_free(reader->checks);
    od_free(reader);
}

/* ---- the schema ---- */

/* A column of a payload with dictionaries holds indices. */
static bool is_indexed(const struct ArrowSchema *given)
{
    return strcmp(given->format, "S") == 0;
}

/* The last column of SCHEMA has dictionaries, COUNT columns of the table come before it. */
static bool has_dictionaries(const struct ArrowSchema *schema, size_t count)
{
    if (schema->n_children != (int64_t)count + 1)
        return false;
    const struct ArrowSchema *last = schema->children[count];
    return last->name != NULL && strcmp(last->name, "openduck:dictionaries") == 0 && strcmp(last->format, "+l") == 0 &&
           last->n_children == 1 && strcmp(last->children[0]->format, "z") == 0;
}

/* MAY_INDEX: a text may be sent as indices, too. */
static od_code compare(const struct ArrowSchema *wanted, const struct ArrowSchema *given, bool may_index,
                       const char *path, od_error *err)
{
    od_slice want = od_schema_metadata(wanted, "openduck:type"), got = od_schema_metadata(given, "openduck:type");
    bool text = strcmp(wanted->format, "u") == 0 || strcmp(wanted->format, "z") == 0;
    bool indexed = may_index && text && is_indexed(given);
    if (given->dictionary != NULL || (strcmp(wanted->format, given->format) != 0 && !indexed) ||
        !od_slice_equal(want, got) || wanted->n_children != given->n_children)
        return od_fail(err, OD_E_INVALID, "column '%s' is sent as '%.*s' (%s), the table has '%.*s' (%s)", path,
                       (int)(got.len < 64 ? got.len : 64), got.len > 0 ? (const char *)got.data : "", given->format,
                       (int)want.len, want.len > 0 ? (const char *)want.data : "", wanted->format);
    for (int64_t i = 0; i < wanted->n_children; i++) {
        od_code rc = compare(wanted->children[i], given->children[i], false, path, err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

od_code od_native_reader_check(const od_native_reader *reader, const struct ArrowSchema *schema, od_error *err)
{
    bool dictionaries = has_dictionaries(schema, reader->column_count);
    if (schema->n_children != (int64_t)reader->column_count && !dictionaries)
        return od_fail(err, OD_E_INVALID, "%lld columns are sent, the table has %zu", (long long)schema->n_children,
                       reader->column_count);
    for (size_t i = 0; i < reader->column_count; i++) {
        const struct ArrowSchema *wanted = reader->schema.children[i];
        od_code rc = compare(wanted, schema->children[i], dictionaries, wanted->name, err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

/* ---- values ---- */

/* Where rows go: vector rows [at, at + count) get rows [first, first + count) of a column. PARENT (may be NULL): the validity of the
 * vector above, of whose each row WIDTH rows here are part: what is NULL there is NULL here. */
typedef struct {
    duckdb_vector vector;
    idx_t first, count;
    const uint64_t *parent;
    idx_t width;
} place;

static bool bit_of(const uint8_t *bits, idx_t i)
{
    return bits == NULL || (bits[i / 8] >> (i % 8) & 1);
}

static bool valid_row(const uint64_t *validity, idx_t row)
{
    return validity == NULL || (validity[row / 64] >> (row % 64) & 1);
}

/* Sets the vector's validity; *out is NULL if all are valid. */
static void fill_validity(const place *p, const od_column *column, const uint64_t **out)
{
    bool own = column->validity != NULL && column->null_count != 0;
    *out = NULL;
    if (!own && p->parent == NULL)
        return;
    duckdb_vector_ensure_validity_writable(p->vector);
    uint64_t *validity = duckdb_vector_get_validity(p->vector);
    bool any = false;
    for (idx_t i = 0; i < p->count; i++) {
        if ((own && !bit_of(column->validity, p->first + i)) || !valid_row(p->parent, i / p->width)) {
            validity[i / 64] &= ~((uint64_t)1 << (i % 64));
            any = true;
        }
    }
    if (any)
        *out = validity;
}

static od_code damaged(const char *what, od_error *err)
{
    return od_fail(err, OD_E_CORRUPT, "the rows are damaged: %s", what);
}

static od_code check_enum(const void *data, const place *p, const uint64_t *validity, uint32_t width, uint32_t size,
                          od_error *err)
{
    for (idx_t i = 0; i < p->count; i++) {
        uint32_t value = 0;
        memcpy(&value, (const uint8_t *)data + i * width, width); /* little-endian */
        if (value >= size && valid_row(validity, i))
            return damaged("an ENUM has an unknown value", err);
    }
    return OD_OK;
}

static od_code check_times(const void *data, const place *p, const uint64_t *validity, od_time kind, od_error *err)
{
    const uint64_t *values = data;
    for (idx_t i = 0; i < p->count; i++)
        if (!od_time_valid(kind, values[i]) && valid_row(validity, i))
            return damaged("a time is outside of its day", err);
    return OD_OK;
}

static od_code fill_fixed(const od_native_reader *reader, size_t index, const place *p, const od_column *column,
                          const uint64_t *validity, od_error *err)
{
    uint32_t width = reader->fields[index].width;
    uint8_t *to = duckdb_vector_get_data(p->vector);
    if (p->count == 0)
        return OD_OK;
    memcpy(to, column->data + p->first * width, p->count * width);
    if (reader->checks[index] == CHECK_BOOL)
        for (idx_t i = 0; i < p->count; i++)
            to[i] = to[i] != 0;
    if (reader->checks[index] >= CHECK_TIME)
        return check_times(to, p, validity, (od_time)(reader->checks[index] - CHECK_TIME), err);
    if (reader->enum_sizes[index] > 0)
        return check_enum(to, p, validity, width, reader->enum_sizes[index], err);
    return OD_OK;
}

static bool is_ascii(const uint8_t *data, size_t size)
{
    uint64_t any = 0, word;
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        memcpy(&word, data + i, 8);
        any |= word;
    }
    for (; i < size; i++)
        any |= data[i];
    return (any & 0x8080808080808080U) == 0;
}

/* VALUE stays where it is, in the payload: it is copied when the chunk is appended. */
static duckdb_string_t string_of(const uint8_t *value, uint32_t len)
{
    duckdb_string_t out = {0};
    if (len <= sizeof out.value.inlined.inlined) {
        out.value.inlined.length = len;
        memcpy(out.value.inlined.inlined, value, len);
    } else {
        out.value.pointer.length = len;
        memcpy(out.value.pointer.prefix, value, sizeof out.value.pointer.prefix);
        out.value.pointer.ptr = (char *)(uintptr_t)value;
    }
    return out;
}

static od_code fill_text(const od_native_reader *reader, size_t index, const place *p, const od_column *column,
                         const uint64_t *validity, od_error *err)
{
    const int32_t *offsets = (const int32_t *)(const void *)column->data + p->first;
    duckdb_string_t *to = duckdb_vector_get_data(p->vector);
    uint8_t check = reader->checks[index];
    if (p->count == 0)
        return OD_OK;
    if (check == OD_TEXT_UTF8 && column->bytes != NULL &&
        is_ascii(column->bytes + offsets[0], (size_t)(offsets[p->count] - offsets[0])))
        check = OD_TEXT_ANY;
    for (idx_t i = 0; i < p->count; i++) {
        const uint8_t *value = column->bytes != NULL ? column->bytes + offsets[i] : (const uint8_t *)"";
        uint32_t len = (uint32_t)(offsets[i + 1] - offsets[i]);
        if (!valid_row(validity, i)) {
            to[i] = (duckdb_string_t){0};
            continue;
        }
        if (check != OD_TEXT_ANY) {
            od_code rc = od_text_check(check, value, len, err);
            if (rc != OD_OK)
                return rc;
        }
        to[i] = string_of(value, len);
    }
    return OD_OK;
}

static od_code fill(const od_native_reader *reader, size_t index, const place *p, const od_column *column,
                    od_error *err);

static od_code fill_list(const od_native_reader *reader, size_t index, const place *p, const od_column *column,
                         od_error *err)
{
    const int32_t *offsets = (const int32_t *)(const void *)column->data + p->first;
    duckdb_list_entry *to = duckdb_vector_get_data(p->vector);
    idx_t start = p->count > 0 ? (idx_t)offsets[0] : 0, total = p->count > 0 ? (idx_t)offsets[p->count] - start : 0;
    for (idx_t i = 0; i < p->count; i++)
        to[i] = (duckdb_list_entry){(idx_t)offsets[i] - start, (idx_t)(offsets[i + 1] - offsets[i])};
    if (duckdb_list_vector_reserve(p->vector, total) == DuckDBError ||
        duckdb_list_vector_set_size(p->vector, total) == DuckDBError)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    place below = {duckdb_list_vector_get_child(p->vector), start, total, NULL, 1};
    od_code rc = fill(reader, index + 1, &below, &column->children[0], err);
    if (rc != OD_OK || !reader->maps[index])
        return rc;
    /* Below the map's struct: keys are never NULL. */
    const uint64_t *entries = duckdb_vector_get_validity(below.vector);
    const uint64_t *keys = duckdb_vector_get_validity(duckdb_struct_vector_get_child(below.vector, 0));
    for (idx_t i = 0; i < total; i++)
        if (!valid_row(keys, i) || !valid_row(entries, i))
            return damaged("a MAP has a key that is NULL", err);
    return OD_OK;
}

/* Of a UNION, the validity of the member that has TAG. */
static od_code member_mask(const place *p, const uint64_t *validity, uint8_t tag, uint64_t *mask)
{
    const uint8_t *tags = duckdb_vector_get_data(duckdb_struct_vector_get_child(p->vector, 0));
    memset(mask, 0, (p->count + 63) / 64 * sizeof *mask);
    for (idx_t i = 0; i < p->count; i++)
        if (valid_row(validity, i) && tags[i] == tag)
            mask[i / 64] |= (uint64_t)1 << (i % 64);
    return OD_OK;
}

static od_code check_tags(const place *p, const uint64_t *validity, uint32_t members, od_error *err)
{
    duckdb_vector vector = duckdb_struct_vector_get_child(p->vector, 0);
    const uint8_t *tags = duckdb_vector_get_data(vector);
    const uint64_t *valid = duckdb_vector_get_validity(vector);
    for (idx_t i = 0; i < p->count; i++)
        if (valid_row(validity, i) && (!valid_row(valid, i) || tags[i] >= members))
            return damaged("a UNION has an unknown tag", err);
    return OD_OK;
}

static od_code fill_struct(const od_native_reader *reader, size_t index, const place *p, const od_column *column,
                           const uint64_t *validity, od_error *err)
{
    uint32_t n = reader->fields[index].child_count;
    size_t child = index + 1;
    uint64_t *mask = NULL;
    od_code rc = OD_OK;
    if (reader->checks[index] == CHECK_VARIANT && !od_variants_valid(column, p->first, p->count, validity))
        return damaged("a VARIANT is not well formed", err);
    if (reader->tagged[index]) {
        mask = od_calloc(p->count / 64 + 1, sizeof *mask);
        if (mask == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    for (uint32_t k = 0; k < n && rc == OD_OK; k++) {
        place below = {duckdb_struct_vector_get_child(p->vector, k), p->first, p->count, validity, 1};
        if (mask != NULL && k > 0) {
            rc = member_mask(p, validity, (uint8_t)(k - 1), mask);
            below.parent = mask;
        }
        if (rc == OD_OK)
            rc = fill(reader, child, &below, &column->children[k], err);
        if (rc == OD_OK && mask != NULL && k == 0)
            rc = check_tags(p, validity, n - 1, err);
        child = reader->fields[child].next;
    }
    od_free(mask);
    return rc;
}

static od_code fill(const od_native_reader *reader, size_t index, const place *p, const od_column *column,
                    od_error *err)
{
    const od_field *field = &reader->fields[index];
    const uint64_t *validity;
    fill_validity(p, column, &validity);
    switch (field->kind) {
    case OD_FIELD_FIXED:
        return fill_fixed(reader, index, p, column, validity, err);
    case OD_FIELD_TEXT:
        return fill_text(reader, index, p, column, validity, err);
    case OD_FIELD_LIST:
        return fill_list(reader, index, p, column, err);
    case OD_FIELD_ARRAY: {
        place below = {duckdb_array_vector_get_child(p->vector), p->first * field->width, p->count * field->width,
                       validity, field->width};
        return fill(reader, index + 1, &below, &column->children[0], err);
    }
    case OD_FIELD_STRUCT:
        return fill_struct(reader, index, p, column, validity, err);
    default:
        return OD_OK;
    }
}
/* NOLINTEND(misc-no-recursion) */

/* ---- dictionaries ---- */

/* The values of the NUMBERth dictionary of LAST, checked as CHECK says; the caller frees *out. */
static od_code read_dictionary(const od_column *last, size_t number, uint8_t check, duckdb_string_t **out,
                               size_t *count, od_error *err)
{
    *out = NULL;
    if (number >= (size_t)last->length)
        return damaged("a dictionary is missing", err);
    const int32_t *lists = (const int32_t *)(const void *)last->data, *ends;
    const od_column *values = &last->children[0];
    ends = (const int32_t *)(const void *)values->data + lists[number];
    *count = (size_t)(lists[number + 1] - lists[number]);
    if (*count > UINT16_MAX + 1U)
        return damaged("a dictionary is larger than its indices can tell", err);
    duckdb_string_t *strings = od_calloc(*count + 1, sizeof *strings);
    if (strings == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < *count; i++) {
        const uint8_t *value = values->bytes != NULL ? values->bytes + ends[i] : (const uint8_t *)"";
        uint32_t len = (uint32_t)(ends[i + 1] - ends[i]);
        od_code rc = check != OD_TEXT_ANY ? od_text_check(check, value, len, err) : OD_OK;
        if (rc != OD_OK) {
            od_free(strings);
            return rc;
        }
        strings[i] = string_of(value, len);
    }
    *out = strings;
    return OD_OK;
}

/* NUMBER: which of the indexed columns this is. */
static od_code fill_indexed(const place *p, const od_column *column, const od_column *last, size_t number,
                            uint8_t check, od_error *err)
{
    const uint16_t *indices = (const uint16_t *)(const void *)column->data + p->first;
    duckdb_string_t *to = duckdb_vector_get_data(p->vector), *strings;
    const uint64_t *validity;
    size_t count = 0;
    if (p->count == 0)
        return OD_OK;
    od_code rc = read_dictionary(last, number, check, &strings, &count, err);
    if (rc != OD_OK)
        return rc;
    fill_validity(p, column, &validity);
    for (idx_t i = 0; i < p->count && rc == OD_OK; i++) {
        if (!valid_row(validity, i))
            to[i] = (duckdb_string_t){0};
        else if (indices[i] < count)
            to[i] = strings[indices[i]];
        else
            rc = damaged("an index is outside of its dictionary", err);
    }
    od_free(strings);
    return rc;
}

od_code od_native_reader_fill(const od_native_reader *reader, const struct ArrowSchema *schema, const od_batch *batch,
                              idx_t first, idx_t count, duckdb_data_chunk chunk, od_error *err)
{
    bool dictionaries = has_dictionaries(schema, reader->column_count);
    size_t index = 0, indexed = 0;
    for (size_t i = 0; i < reader->column_count; i++) {
        place p = {duckdb_data_chunk_get_vector(chunk, i), first, count, NULL, 1};
        const od_column *column = &batch->columns[i];
        bool text = reader->fields[index].kind == OD_FIELD_TEXT;
        od_code rc =
            dictionaries && text && is_indexed(schema->children[i])
                ? fill_indexed(&p, column, &batch->columns[reader->column_count], indexed++, reader->checks[index], err)
                : fill(reader, index, &p, column, err);
        if (rc != OD_OK)
            return rc;
        index = reader->fields[index].next;
    }
    duckdb_data_chunk_set_size(chunk, count);
    return OD_OK;
}
