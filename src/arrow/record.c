#include "arrow/record.h"

#include <string.h>

#include <nanoarrow/nanoarrow.h>

#include "arrow/ipc_read.h"
#include "base/alloc.h"
#include "base/banned.h"

struct od_record {
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct ArrowArrayView view;
};

/* ---- whole records ---- */

static od_code one_batch(od_ipc_reader *reader, od_msg *owner, od_record *record, od_error *err)
{
    struct ArrowArray more = {0};
    od_code rc = od_ipc_reader_next_array(reader, owner, &record->array, err);
    if (rc == OD_OK && record->array.release == NULL)
        return od_fail(err, OD_E_CORRUPT, "arrow record: it has no row");
    if (rc == OD_OK)
        rc = od_ipc_reader_next_array(reader, owner, &more, err);
    if (rc == OD_OK && more.release != NULL) {
        more.release(&more);
        return od_fail(err, OD_E_CORRUPT, "arrow record: it has more than one batch");
    }
    return rc;
}

static od_code look(od_record *record, od_error *err)
{
    struct ArrowError why = {{0}};
    ArrowErrorCode na = ArrowArrayViewInitFromSchema(&record->view, &record->schema, &why);
    if (na == NANOARROW_OK)
        na = ArrowArrayViewSetArray(&record->view, &record->array, &why);
    if (na == NANOARROW_OK)
        return OD_OK;
    return od_fail(err, na == ENOMEM ? OD_E_NO_MEMORY : OD_E_CORRUPT, "arrow record: %s", why.message);
}

static od_code finish(od_record *record, const struct ArrowSchema *schema, od_error *err)
{
    for (int64_t i = 0; i < record->array.n_children; i++)
        if (record->array.children[i]->length != record->array.length)
            return od_fail(err, OD_E_CORRUPT, "arrow record: a column is not as long as its batch");
    if (ArrowSchemaDeepCopy(schema, &record->schema) != NANOARROW_OK) {
        record->schema.release = NULL;
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    return look(record, err);
}

static od_record *create(void)
{
    od_record *record = od_calloc(1, sizeof *record);
    if (record != NULL)
        ArrowArrayViewInitFromType(&record->view, NANOARROW_TYPE_UNINITIALIZED);
    return record;
}

od_code od_record_wrap(const struct ArrowSchema *schema, struct ArrowArray *array, od_record **out, od_error *err)
{
    struct ArrowArray taken;
    od_record *record = create();

    *out = NULL;
    ArrowArrayMove(array, &taken);
    if (record == NULL) {
        ArrowArrayRelease(&taken);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    ArrowArrayMove(&taken, &record->array);
    od_code rc = finish(record, schema, err);
    if (rc != OD_OK) {
        od_record_free(record);
        return rc;
    }
    *out = record;
    return OD_OK;
}

od_code od_record_of_payload(od_slice payload, od_record **out, od_error *err)
{
    od_ipc_reader *reader = NULL;
    od_msg *copy = NULL;
    od_record *record = create();
    od_code rc = OD_OK;

    *out = NULL;
    if (record == NULL)
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
    /* Its arrays may outlive what PAYLOAD lies in, and are aligned. */
    OD_TRY(od_msg_create(payload.len, 0, &copy, err));
    if (payload.len > 0)
        memcpy(od_msg_data(copy), payload.data, payload.len);
    OD_TRY(od_ipc_reader_create(&reader, err));
    OD_TRY(od_ipc_reader_start(reader, od_slice_of(od_msg_data(copy), payload.len), NULL, err));
    OD_TRY(one_batch(reader, copy, record, err));
    OD_TRY(finish(record, od_ipc_reader_schema(reader), err));
    *out = record;
    record = NULL;
out:
    od_record_free(record);
    od_ipc_reader_free(reader);
    od_msg_unref(copy);
    return rc;
}

void od_record_free(od_record *record)
{
    if (record == NULL)
        return;
    ArrowArrayViewReset(&record->view);
    if (record->array.release != NULL)
        ArrowArrayRelease(&record->array);
    if (record->schema.release != NULL)
        ArrowSchemaRelease(&record->schema);
    od_free(record);
}

int64_t od_record_rows(const od_record *record)
{
    return record->view.length;
}

const struct ArrowSchema *od_record_schema(const od_record *record)
{
    return &record->schema;
}

void od_record_take(od_record *record, struct ArrowSchema *schema, struct ArrowArray *array)
{
    ArrowSchemaMove(&record->schema, schema);
    ArrowArrayMove(&record->array, array);
}

od_code od_record_schema_only(od_slice payload, struct ArrowSchema *out, od_error *err)
{
    od_ipc_reader *reader = NULL;
    od_code rc;

    memset(out, 0, sizeof *out);
    OD_TRY(od_ipc_reader_create(&reader, err));
    OD_TRY(od_ipc_reader_start(reader, payload, NULL, err));
    if (ArrowSchemaDeepCopy(od_ipc_reader_schema(reader), out) != NANOARROW_OK) {
        out->release = NULL;
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
out:
    od_ipc_reader_free(reader);
    return rc;
}

/* ---- cells ---- */

static od_cell cell_of(const struct ArrowArrayView *view, const struct ArrowSchema *field, int64_t at)
{
    od_cell cell = {NULL, field, at};
    if (!ArrowArrayViewIsNull(view, at))
        cell.view = view;
    return cell;
}

static od_cell child_named(const struct ArrowArrayView *view, const struct ArrowSchema *field, const char *name,
                           int64_t at)
{
    for (int64_t i = 0; i < view->n_children && i < field->n_children; i++)
        if (field->children[i]->name != NULL && strcmp(field->children[i]->name, name) == 0)
            return cell_of(view->children[i], field->children[i], at);
    return (od_cell){0};
}

od_cell od_record_cell(const od_record *record, const char *name, int64_t row)
{
    return child_named(&record->view, &record->schema, name, row);
}

static od_code other_type(od_cell cell, const char *due, od_error *err)
{
    const struct ArrowSchema *field = cell.field;
    return od_fail(err, OD_E_CORRUPT, "arrow record: '%.60s' is not %s (format %.20s)",
                   field->name != NULL ? field->name : "", due, field->format);
}

od_code od_cell_bytes(od_cell cell, od_slice *out, od_error *err)
{
    const struct ArrowArrayView *view = cell.view;
    int64_t at = cell.at;

    *out = (od_slice){NULL, 0};
    if (view == NULL)
        return OD_OK;
    if (view->dictionary != NULL) {
        at = ArrowArrayViewGetIntUnsafe(view, at);
        view = view->dictionary;
        if (at < 0 || at >= view->length)
            return other_type(cell, "in its dictionary", err);
        if (ArrowArrayViewIsNull(view, at))
            return OD_OK;
    }
    switch (view->storage_type) {
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_BINARY:
    case NANOARROW_TYPE_LARGE_STRING:
    case NANOARROW_TYPE_LARGE_BINARY:
    case NANOARROW_TYPE_FIXED_SIZE_BINARY: {
        struct ArrowBufferView bytes = ArrowArrayViewGetBytesUnsafe(view, at);
        /* A present value has an address, also an empty one. */
        *out = od_slice_of(bytes.size_bytes > 0 ? bytes.data.as_uint8 : (const uint8_t *)"", (size_t)bytes.size_bytes);
        return OD_OK;
    }
    default:
        return other_type(cell, "text or bytes", err);
    }
}

od_code od_cell_int(od_cell cell, int64_t *out, od_error *err)
{
    const struct ArrowArrayView *view = cell.view;

    *out = 0;
    if (view == NULL)
        return OD_OK;
    switch (view->dictionary != NULL ? NANOARROW_TYPE_NA : view->storage_type) {
    case NANOARROW_TYPE_INT8:
    case NANOARROW_TYPE_INT16:
    case NANOARROW_TYPE_INT32:
    case NANOARROW_TYPE_INT64:
    case NANOARROW_TYPE_UINT8:
    case NANOARROW_TYPE_UINT16:
    case NANOARROW_TYPE_UINT32:
    case NANOARROW_TYPE_UINT64:
        *out = ArrowArrayViewGetIntUnsafe(view, cell.at);
        return OD_OK;
    default:
        return other_type(cell, "an integer", err);
    }
}

od_code od_cell_bool(od_cell cell, bool *out, od_error *err)
{
    const struct ArrowArrayView *view = cell.view;

    *out = false;
    if (view == NULL)
        return OD_OK;
    if (view->storage_type != NANOARROW_TYPE_BOOL)
        return other_type(cell, "a boolean", err);
    *out = ArrowArrayViewGetIntUnsafe(view, cell.at) != 0;
    return OD_OK;
}

static bool is_list(const struct ArrowArrayView *view)
{
    return view->storage_type == NANOARROW_TYPE_LIST || view->storage_type == NANOARROW_TYPE_LARGE_LIST ||
           view->storage_type == NANOARROW_TYPE_MAP;
}

od_code od_cell_count(od_cell cell, int64_t *out, od_error *err)
{
    const struct ArrowArrayView *view = cell.view;

    *out = 0;
    if (view == NULL)
        return OD_OK;
    if (!is_list(view))
        return other_type(cell, "a list", err);
    *out = ArrowArrayViewListChildOffset(view, cell.at + 1) - ArrowArrayViewListChildOffset(view, cell.at);
    return OD_OK;
}

od_cell od_cell_item(od_cell cell, int64_t i)
{
    const struct ArrowArrayView *view = cell.view;
    const struct ArrowSchema *field = cell.field;

    if (view == NULL || !is_list(view))
        return (od_cell){0};
    return cell_of(view->children[0], field->children[0], ArrowArrayViewListChildOffset(view, cell.at) + i);
}

od_cell od_cell_child(od_cell cell, const char *name)
{
    return cell.view == NULL ? (od_cell){0} : child_named(cell.view, cell.field, name, cell.at);
}

static od_cell child_at(od_cell cell, int64_t i)
{
    const struct ArrowArrayView *view = cell.view;
    const struct ArrowSchema *field = cell.field;

    if (view == NULL || view->n_children <= i)
        return (od_cell){0};
    return cell_of(view->children[i], field->children[i], cell.at);
}

od_cell od_cell_key(od_cell item)
{
    return child_at(item, 0);
}

od_cell od_cell_value(od_cell item)
{
    return child_at(item, 1);
}

od_cell od_cell_union(od_cell cell)
{
    const struct ArrowArrayView *view = cell.view;
    const struct ArrowSchema *field = cell.field;

    if (view == NULL ||
        (view->storage_type != NANOARROW_TYPE_SPARSE_UNION && view->storage_type != NANOARROW_TYPE_DENSE_UNION))
        return (od_cell){0};
    if (ArrowArrayViewUnionTypeId(view, cell.at) < 0)
        return (od_cell){0};
    int8_t i = ArrowArrayViewUnionChildIndex(view, cell.at);
    int64_t at = ArrowArrayViewUnionChildOffset(view, cell.at);
    if (i < 0 || i >= view->n_children || at < 0 || at >= view->children[i]->length)
        return (od_cell){0};
    return cell_of(view->children[i], field->children[i], at);
}

bool od_cell_double(od_cell cell, double *out, const char **format)
{
    const struct ArrowArrayView *view = cell.view;

    if (view == NULL || view->dictionary != NULL)
        return false;
    switch (view->storage_type) {
    case NANOARROW_TYPE_INT8:
    case NANOARROW_TYPE_INT16:
    case NANOARROW_TYPE_INT32:
    case NANOARROW_TYPE_INT64:
    case NANOARROW_TYPE_UINT8:
    case NANOARROW_TYPE_UINT16:
    case NANOARROW_TYPE_UINT32:
    case NANOARROW_TYPE_UINT64:
    case NANOARROW_TYPE_FLOAT:
    case NANOARROW_TYPE_DOUBLE:
        *out = ArrowArrayViewGetDoubleUnsafe(view, cell.at);
        *format = ((const struct ArrowSchema *)cell.field)->format;
        return true;
    default:
        return false;
    }
}
