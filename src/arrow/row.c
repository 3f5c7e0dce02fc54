#include "arrow/row.h"

#include <string.h>

#include <nanoarrow/nanoarrow.h>

#include "arrow/row_internal.h"
#include "arrow/schema.h"
#include "base/alloc.h"
#include "base/banned.h"

typedef struct {
    struct ArrowSchema schema;
    struct ArrowArray array;
} row_column;

struct od_row {
    od_buf columns; /* row_column */
    struct ArrowSchema top;
    ArrowErrorCode failed;
};

static void clear(od_row *row)
{
    row_column *columns = (row_column *)(void *)row->columns.data;
    for (size_t i = 0; i < row->columns.len / sizeof *columns; i++) {
        if (columns[i].schema.release != NULL)
            ArrowSchemaRelease(&columns[i].schema);
        if (columns[i].array.release != NULL)
            ArrowArrayRelease(&columns[i].array);
    }
    row->columns.len = 0;
    if (row->top.release != NULL)
        ArrowSchemaRelease(&row->top);
    ArrowSchemaInit(&row->top);
    row->failed = ArrowSchemaSetFormat(&row->top, "+s");
}

od_code od_row_create(od_row **out, od_error *err)
{
    *out = od_calloc(1, sizeof **out);
    if (*out == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    clear(*out);
    return OD_OK;
}

void od_row_free(od_row *row)
{
    if (row == NULL)
        return;
    clear(row);
    ArrowSchemaRelease(&row->top);
    od_buf_release(&row->columns);
    od_free(row);
}

/* A new column without a type; NULL after a failure. */
static row_column *begin(od_row *row, const char *name, od_row_null null)
{
    row_column column = {0};
    if (row->failed != NANOARROW_OK)
        return NULL;
    ArrowSchemaInit(&column.schema);
    row->failed = ArrowSchemaSetName(&column.schema, name);
    if (row->failed == NANOARROW_OK && od_buf_append(&row->columns, &column, sizeof column, NULL) != OD_OK)
        row->failed = ENOMEM;
    if (row->failed != NANOARROW_OK) {
        ArrowSchemaRelease(&column.schema);
        return NULL;
    }
    row_column *made = (row_column *)(void *)(row->columns.data + row->columns.len) - 1;
    if (null == OD_ROW_NOT_NULL)
        made->schema.flags &= ~ARROW_FLAG_NULLABLE;
    return made;
}

/* Types COLUMN by FORMAT (a list's item by ITEM) and starts its array. */
static ArrowErrorCode start(row_column *column, const char *format, const char *item)
{
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetFormat(&column->schema, format));
    if (item != NULL) {
        NANOARROW_RETURN_NOT_OK(ArrowSchemaAllocateChildren(&column->schema, 1));
        ArrowSchemaInit(column->schema.children[0]);
        NANOARROW_RETURN_NOT_OK(ArrowSchemaSetFormat(column->schema.children[0], item));
        NANOARROW_RETURN_NOT_OK(ArrowSchemaSetName(column->schema.children[0], "item"));
    }
    NANOARROW_RETURN_NOT_OK(ArrowArrayInitFromSchema(&column->array, &column->schema, NULL));
    return ArrowArrayStartAppending(&column->array);
}

static struct ArrowBufferView view_of(od_slice value)
{
    return (struct ArrowBufferView){{value.data}, (int64_t)value.len};
}

static ArrowErrorCode append_bytes(struct ArrowArray *array, od_slice value)
{
    return value.data != NULL ? ArrowArrayAppendBytes(array, view_of(value)) : ArrowArrayAppendNull(array, 1);
}

static void end(od_row *row, row_column *column)
{
    if (row->failed == NANOARROW_OK)
        row->failed = ArrowArrayFinishBuildingDefault(&column->array, NULL);
}

static void put_bytes(od_row *row, const char *name, od_row_null null, const char *format, od_slice value)
{
    row_column *column = begin(row, name, null);
    if (column == NULL)
        return;
    row->failed = start(column, format, NULL);
    if (row->failed == NANOARROW_OK)
        row->failed = append_bytes(&column->array, value);
    end(row, column);
}

void od_row_text(od_row *row, const char *name, od_row_null null, od_slice value)
{
    put_bytes(row, name, null, "u", value);
}

void od_row_binary(od_row *row, const char *name, od_row_null null, od_slice value)
{
    put_bytes(row, name, null, "z", value);
}

void od_row_large_binary(od_row *row, const char *name, od_row_null null, od_slice value)
{
    put_bytes(row, name, null, "Z", value);
}

static ArrowErrorCode fill_dictionary(row_column *column, const char *index, const char *format, od_slice value)
{
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetFormat(&column->schema, index));
    NANOARROW_RETURN_NOT_OK(ArrowSchemaAllocateDictionary(&column->schema));
    ArrowSchemaInit(column->schema.dictionary);
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetFormat(column->schema.dictionary, format));
    NANOARROW_RETURN_NOT_OK(ArrowArrayInitFromSchema(&column->array, &column->schema, NULL));
    NANOARROW_RETURN_NOT_OK(ArrowArrayStartAppending(&column->array));
    if (value.data == NULL)
        return ArrowArrayAppendNull(&column->array, 1);
    NANOARROW_RETURN_NOT_OK(ArrowArrayAppendBytes(column->array.dictionary, view_of(value)));
    return ArrowArrayAppendInt(&column->array, 0);
}

static void put_dictionary(od_row *row, const char *name, od_row_null null, const char *index, const char *format,
                           od_slice value)
{
    row_column *column = begin(row, name, null);
    if (column == NULL)
        return;
    row->failed = fill_dictionary(column, index, format, value);
    end(row, column);
}

void od_row_symbol(od_row *row, const char *name, od_row_null null, od_slice value)
{
    put_dictionary(row, name, null, "s", "u", value);
}

void od_row_shared_binary(od_row *row, const char *name, od_row_null null, od_slice value)
{
    put_dictionary(row, name, null, "i", "z", value);
}

void od_row_bool(od_row *row, const char *name, bool value)
{
    row_column *column = begin(row, name, OD_ROW_NOT_NULL);
    if (column == NULL)
        return;
    row->failed = start(column, "b", NULL);
    if (row->failed == NANOARROW_OK)
        row->failed = ArrowArrayAppendInt(&column->array, value);
    end(row, column);
}

void od_row_int64(od_row *row, const char *name, od_row_null null, const int64_t *value)
{
    row_column *column = begin(row, name, null);
    if (column == NULL)
        return;
    row->failed = start(column, "l", NULL);
    if (row->failed == NANOARROW_OK)
        row->failed =
            value != NULL ? ArrowArrayAppendInt(&column->array, *value) : ArrowArrayAppendNull(&column->array, 1);
    end(row, column);
}

void od_row_int32(od_row *row, const char *name, od_row_null null, int32_t value)
{
    row_column *column = begin(row, name, null);
    if (column == NULL)
        return;
    row->failed = start(column, "i", NULL);
    if (row->failed == NANOARROW_OK)
        row->failed = ArrowArrayAppendInt(&column->array, value);
    end(row, column);
}

static void put_list(od_row *row, const char *name, od_row_null null, const char *item, const od_slice *bytes,
                     const int64_t *numbers, size_t count)
{
    row_column *column = begin(row, name, null);
    if (column == NULL)
        return;
    row->failed = start(column, "+l", item);
    for (size_t i = 0; i < count && row->failed == NANOARROW_OK; i++) {
        if (bytes != NULL)
            row->failed = append_bytes(column->array.children[0], bytes[i]);
        else if (numbers != NULL)
            row->failed = ArrowArrayAppendInt(column->array.children[0], numbers[i]);
    }
    if (row->failed == NANOARROW_OK)
        row->failed = bytes != NULL || numbers != NULL ? ArrowArrayFinishElement(&column->array)
                                                       : ArrowArrayAppendNull(&column->array, 1);
    end(row, column);
}

void od_row_text_list(od_row *row, const char *name, od_row_null null, const od_slice *items, size_t count)
{
    put_list(row, name, null, "u", items, NULL, count);
}

void od_row_binary_list(od_row *row, const char *name, od_row_null null, const od_slice *items, size_t count)
{
    put_list(row, name, null, "z", items, NULL, count);
}

void od_row_int64_list(od_row *row, const char *name, od_row_null null, const int64_t *items, size_t count)
{
    put_list(row, name, null, "l", NULL, items, count);
}

void od_row_int32_list(od_row *row, const char *name, od_row_null null, const int32_t *items, size_t count)
{
    row_column *column = begin(row, name, null);
    if (column == NULL)
        return;
    row->failed = start(column, "+l", "i");
    for (size_t i = 0; i < count && row->failed == NANOARROW_OK; i++)
        row->failed = ArrowArrayAppendInt(column->array.children[0], items[i]);
    if (row->failed == NANOARROW_OK)
        row->failed = ArrowArrayFinishElement(&column->array);
    end(row, column);
}

void od_row_array(od_row *row, const char *name, const struct ArrowSchema *schema, struct ArrowArray *array)
{
    struct ArrowArray taken = *array;
    array->release = NULL;
    row_column *column = begin(row, name, OD_ROW_NULLABLE);
    if (column == NULL) {
        ArrowArrayRelease(&taken);
        return;
    }
    column->array = taken;
    ArrowSchemaRelease(&column->schema);
    row->failed = ArrowSchemaDeepCopy(schema, &column->schema);
    if (row->failed == NANOARROW_OK)
        row->failed = ArrowSchemaSetName(&column->schema, name);
    if (row->failed == NANOARROW_OK && taken.length != 1)
        row->failed = EINVAL;
}

/* Takes SCHEMA and, of what was appended, ARRAY; MADE: how that went. */
static void put_made(od_row *row, const char *name, od_row_null null, struct ArrowSchema *schema,
                     struct ArrowArray *array, ArrowErrorCode made)
{
    if (row->failed == NANOARROW_OK)
        row->failed = made;
    if (row->failed == NANOARROW_OK)
        row->failed = ArrowArrayFinishBuildingDefault(array, NULL);
    if (null == OD_ROW_NOT_NULL)
        schema->flags &= ~ARROW_FLAG_NULLABLE;
    if (row->failed == NANOARROW_OK)
        od_row_array(row, name, schema, array);
    if (array->release != NULL)
        ArrowArrayRelease(array);
    if (schema->release != NULL)
        ArrowSchemaRelease(schema);
}

/* SCHEMA of TYPE, and ARRAY, which is zero, ready for values of it. put_made takes both, on failure too. */
static ArrowErrorCode begin_value(const char *type, struct ArrowSchema *schema, struct ArrowArray *array)
{
    ArrowErrorCode rc = od_row_type_make(type, schema);

    if (rc == NANOARROW_OK)
        rc = ArrowArrayInitFromSchema(array, schema, NULL);
    if (rc == NANOARROW_OK)
        rc = ArrowArrayStartAppending(array);
    return rc;
}

/* TEXTS or NUMBERS; the other is NULL. */
static void put_lists(od_row *row, const char *name, const char *type, const od_slice *const *texts,
                      const int32_t *const *numbers, const size_t *counts, size_t count)
{
    struct ArrowSchema schema;
    struct ArrowArray array = {0};
    ArrowErrorCode rc = begin_value(type, &schema, &array);

    for (size_t i = 0; i < count && rc == NANOARROW_OK; i++) {
        struct ArrowArray *list = array.children[0];

        for (size_t k = 0; k < counts[i] && rc == NANOARROW_OK; k++)
            rc = texts != NULL ? append_bytes(list->children[0], texts[i][k])
                               : ArrowArrayAppendInt(list->children[0], numbers[i][k]);
        if (rc == NANOARROW_OK)
            rc = ArrowArrayFinishElement(list);
    }
    if (rc == NANOARROW_OK)
        rc = ArrowArrayFinishElement(&array);
    put_made(row, name, OD_ROW_NOT_NULL, &schema, &array, rc);
}

void od_row_text_lists(od_row *row, const char *name, const od_slice *const *lists, const size_t *counts, size_t count)
{
    put_lists(row, name, "[[u", lists, NULL, counts, count);
}

void od_row_int32_lists(od_row *row, const char *name, const int32_t *const *lists, const size_t *counts, size_t count)
{
    put_lists(row, name, "[[i", NULL, lists, counts, count);
}

void od_row_text_map(od_row *row, const char *name, od_row_null null, const od_ipc_pair *items, size_t count)
{
    struct ArrowSchema schema;
    struct ArrowArray array = {0};
    ArrowErrorCode rc = od_row_type_make("{!uu", &schema);

    if (rc == NANOARROW_OK)
        rc = ArrowArrayInitFromSchema(&array, &schema, NULL);
    if (rc == NANOARROW_OK)
        rc = ArrowArrayStartAppending(&array);
    for (size_t i = 0; i < count && rc == NANOARROW_OK; i++) {
        struct ArrowArray *entry = array.children[0];

        rc = append_bytes(entry->children[0], items[i].key);
        if (rc == NANOARROW_OK)
            rc = append_bytes(entry->children[1], items[i].value);
        if (rc == NANOARROW_OK)
            rc = ArrowArrayFinishElement(entry);
    }
    if (rc == NANOARROW_OK)
        rc = ArrowArrayFinishElement(&array);
    put_made(row, name, null, &schema, &array, rc);
}

void od_row_blank(od_row *row, const char *name, od_row_null null, const char *type)
{
    struct ArrowSchema schema;
    struct ArrowArray array = {0};
    ArrowErrorCode rc = begin_value(type, &schema, &array);

    /* An index of nothing has something to point to. */
    if (rc == NANOARROW_OK && null == OD_ROW_NOT_NULL && array.dictionary != NULL)
        rc = ArrowArrayAppendEmpty(array.dictionary, 1);
    if (rc == NANOARROW_OK)
        rc = null == OD_ROW_NOT_NULL ? ArrowArrayAppendEmpty(&array, 1) : ArrowArrayAppendNull(&array, 1);
    put_made(row, name, null, &schema, &array, rc);
}

bool od_row_has(const od_row *row, const char *name)
{
    const row_column *columns = (const row_column *)(const void *)row->columns.data;

    for (size_t i = 0; i < row->columns.len / sizeof *columns; i++)
        if (columns[i].schema.name != NULL && strcmp(columns[i].schema.name, name) == 0)
            return true;
    return false;
}

void od_row_empty_struct(od_row *row, const char *name)
{
    row_column *column = begin(row, name, OD_ROW_NULLABLE);
    if (column == NULL)
        return;
    row->failed = start(column, "+s", NULL);
    if (row->failed == NANOARROW_OK)
        row->failed = ArrowArrayFinishElement(&column->array);
    end(row, column);
}

void od_row_prepend_text(od_row *row, const char *name, od_slice value)
{
    row_column *columns, last;
    size_t n;

    od_row_text(row, name, OD_ROW_NOT_NULL, value);
    if (row->failed != NANOARROW_OK)
        return;
    columns = (row_column *)(void *)row->columns.data;
    n = row->columns.len / sizeof *columns;
    last = columns[n - 1];
    memmove(columns + 1, columns, (n - 1) * sizeof *columns);
    columns[0] = last;
}

void od_row_metadata(od_row *row, const char *column, const char *key, od_slice value)
{
    row_column *columns = (row_column *)(void *)row->columns.data;
    struct ArrowSchema *field = column == NULL ? &row->top : NULL;
    for (size_t i = 0; i < row->columns.len / sizeof *columns && field == NULL; i++)
        if (columns[i].schema.name != NULL && strcmp(columns[i].schema.name, column) == 0)
            field = &columns[i].schema;
    if (row->failed == NANOARROW_OK && (field == NULL || od_schema_set_metadata(field, key, value, NULL) != OD_OK))
        row->failed = field == NULL ? EINVAL : ENOMEM;
}

/* Moves the columns into one struct of one row. */
static ArrowErrorCode gather(od_row *row, struct ArrowArray *out)
{
    row_column *columns = (row_column *)(void *)row->columns.data;
    int64_t n = (int64_t)(row->columns.len / sizeof *columns);
    NANOARROW_RETURN_NOT_OK(ArrowSchemaAllocateChildren(&row->top, n));
    for (int64_t i = 0; i < n; i++)
        ArrowSchemaMove(&columns[i].schema, row->top.children[i]);
    NANOARROW_RETURN_NOT_OK(ArrowArrayInitFromType(out, NANOARROW_TYPE_STRUCT));
    NANOARROW_RETURN_NOT_OK(ArrowArrayAllocateChildren(out, n));
    for (int64_t i = 0; i < n; i++)
        ArrowArrayMove(&columns[i].array, out->children[i]);
    out->length = n > 0 ? 1 : 0;
    return NANOARROW_OK;
}

od_code od_row_finish(od_row *row, const od_ipc_pair *pairs, size_t pair_count, od_msg **out, od_error *err)
{
    struct ArrowArray array = {0};
    od_ipc_writer *writer = NULL;
    od_code rc;

    *out = NULL;
    if (row->failed == NANOARROW_OK)
        row->failed = gather(row, &array);
    if (row->failed != NANOARROW_OK) {
        rc = row->failed == ENOMEM ? od_fail(err, OD_E_NO_MEMORY, "out of memory")
                                   : od_fail(err, OD_E_INTERNAL, "arrow: a row cannot be made");
        goto out;
    }
    OD_TRY(od_ipc_writer_create(&row->top, &writer, err));
    OD_TRY(od_ipc_writer_add_with(writer, &array, pairs, pair_count, err));
    OD_TRY(od_ipc_writer_flush(writer, out, err));
out:
    od_ipc_writer_free(writer);
    if (array.release != NULL)
        ArrowArrayRelease(&array);
    clear(row);
    return rc;
}
