/* Aggregate functions: calls about groups, whose state the worker keeps. */
#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/client/aggregate_internal.h"
#include "vgi/client/bound.h"
#include "vgi/client/scan_internal.h"

#include "base/banned.h"

/* ---- the start ---- */

static od_code make_bind(od_vgi_aggregate *a, const od_vgi_bind *bind, od_row **out, od_error *err)
{
    const od_vgi_dialect *dialect = a->execution.dialect;
    od_vgi_bind_parts parts = {0};
    od_code rc;

    OD_TRY(od_row_create(out, err));
    OD_TRY(od_vgi_bind_parts_make(&parts, bind, err));
    od_row_text(*out, "function_name", OD_ROW_NOT_NULL, od_slice_str(bind->function));
    od_vgi_bind_parts_put(&parts, dialect, *out);
    od_row_binary(*out, "attach_opaque_data", OD_ROW_NULLABLE, od_vgi_bytes_of(&a->execution.attach));
    od_vgi_put_schema(dialect, *out, "schema_path", "schema_name", bind->schema, OD_ROW_NULLABLE);
out:
    od_vgi_bind_parts_release(&parts);
    return rc;
}

static od_code read_bound(od_vgi_aggregate *a, od_slice bytes, od_error *err)
{
    od_record *record = NULL;
    od_slice schema, id;
    od_code rc;

    OD_TRY(od_vgi_record_one(bytes, &record, err));
    OD_TRY(od_cell_bytes(od_vgi_cell(record, "output_schema"), &schema, err));
    OD_TRY(od_cell_bytes(od_vgi_cell(record, "execution_id"), &id, err));
    OD_TRY(od_record_schema_only(schema, &a->schema, err));
    if (a->schema.n_children != 1)
        OD_TRY(
            od_fail(err, OD_E_PROTOCOL, "the function gives %lld columns, not one", (long long)a->schema.n_children));
    if (id.len == 0)
        OD_TRY(od_fail(err, OD_E_PROTOCOL, "the answer has no execution_id"));
    OD_TRY(od_buf_append(&a->schema_bytes, schema.data, schema.len, err));
    OD_TRY(od_buf_append(&a->execution.id, id.data, id.len, err));
out:
    od_record_free(record);
    return rc;
}

od_code od_vgi_aggregate_open(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bind *bind,
                              od_vgi_aggregate **out, od_error *err)
{
    od_vgi_aggregate *a = od_calloc(1, sizeof *a);
    od_row *request = NULL;
    od_buf answer = {0};
    od_code rc;

    *out = NULL;
    if (a == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    OD_TRY(od_vgi_execution_init(&a->execution, vgi, context, bind->function, bind->schema, err));
    OD_TRY(make_bind(a, bind, &request, err));
    OD_TRY(od_vgi_execution_ask(&a->execution, context->interrupt, "aggregate_bind", request, &answer, err));
    OD_TRY(read_bound(a, od_vgi_bytes_of(&answer), err));
    *out = a;
    a = NULL;
out:
    if (rc != OD_OK)
        od_error_prefix(err, "function '%s'", bind->function);
    od_row_free(request);
    od_buf_release(&answer);
    od_vgi_aggregate_close(a);
    return rc;
}

const struct ArrowSchema *od_vgi_aggregate_schema(const od_vgi_aggregate *aggregate)
{
    return &aggregate->schema;
}

/* ---- numbers as batches ---- */

enum { MAX_COLUMNS = 2 };

static void keep_nothing(struct ArrowArray *array)
{
    array->release = NULL;
}

/* COLUMNS of N numbers each, called NAMES. */
static od_code write_numbers(const int64_t *const *columns, const char *const *names, size_t count, size_t n,
                             od_msg **out, od_error *err)
{
    static const void *no_buffers[1];
    const void *buffers[MAX_COLUMNS][2];
    struct ArrowArray children[MAX_COLUMNS], *pointers[MAX_COLUMNS];
    struct ArrowArray batch = {.length = (int64_t)n, .n_buffers = 1, .buffers = no_buffers, .release = keep_nothing};
    struct ArrowSchema schema = {0};
    od_code rc;

    OD_TRY(od_schema_make(&schema, "", "+s", (int64_t)count, err));
    for (size_t i = 0; i < count; i++) {
        OD_TRY(od_schema_make(schema.children[i], names[i], "l", 0, err));
        schema.children[i]->flags = 0;
        buffers[i][0] = NULL;
        buffers[i][1] = columns[i];
        children[i] =
            (struct ArrowArray){.length = (int64_t)n, .n_buffers = 2, .buffers = buffers[i], .release = keep_nothing};
        pointers[i] = &children[i];
    }
    batch.n_children = (int64_t)count;
    batch.children = pointers;
    OD_TRY(od_vgi_batch_write(&schema, &batch, out, err));
out:
    od_schema_release(&schema);
    return rc;
}

static od_code write_groups(const int64_t *groups, size_t n, od_msg **out, od_error *err)
{
    const char *const name = "group_id";

    return write_numbers(&groups, &name, 1, n, out, err);
}

/* ---- calls ---- */

/* METHOD with a batch as its parameter NAME; the answer says nothing. */
static od_code tell(const od_vgi_aggregate *a, od_vgi_interrupt interrupt, const char *method, const char *name,
                    od_msg *batch, od_error *err)
{
    od_row *request = NULL;
    od_buf answer = {0};
    od_code rc;

    OD_TRY(od_vgi_execution_request(&a->execution, &request, err));
    od_row_binary(request, name, OD_ROW_NOT_NULL, od_vgi_msg_bytes(batch));
    OD_TRY(od_vgi_execution_ask(&a->execution, interrupt, method, request, &answer, err));
out:
    od_row_free(request);
    od_buf_release(&answer);
    return rc;
}

od_code od_vgi_aggregate_update(const od_vgi_aggregate *a, od_vgi_interrupt interrupt, const struct ArrowSchema *schema,
                                struct ArrowArray *rows, od_error *err)
{
    od_msg *batch = NULL;
    od_code rc;

    OD_TRY(od_vgi_batch_write(schema, rows, &batch, err));
    OD_TRY(tell(a, interrupt, "aggregate_update", "input_batch", batch, err));
out:
    if (rows->release != NULL)
        rows->release(rows);
    od_msg_unref(batch);
    return rc;
}

od_code od_vgi_aggregate_combine(const od_vgi_aggregate *a, od_vgi_interrupt interrupt, const int64_t *from,
                                 const int64_t *into, size_t n, od_error *err)
{
    const int64_t *const columns[] = {from, into};
    const char *const names[] = {"source_group_id", "target_group_id"};
    od_msg *batch = NULL;
    od_code rc;

    OD_TRY(write_numbers(columns, names, 2, n, &batch, err));
    OD_TRY(tell(a, interrupt, "aggregate_combine", "merge_batch", batch, err));
out:
    od_msg_unref(batch);
    return rc;
}

/* BYTES, a stream of N results, as OUT. */
static od_code read_results(const od_vgi_aggregate *a, od_slice bytes, size_t n, struct ArrowArray *out, od_error *err)
{
    struct ArrowSchema schema = {0};
    od_record *record = NULL;
    od_code rc;

    OD_TRY(od_record_of_payload(bytes, &record, err));
    if (od_record_rows(record) != (int64_t)n)
        OD_TRY(
            od_fail(err, OD_E_PROTOCOL, "the worker gives %lld results for %zu", (long long)od_record_rows(record), n));
    if (od_record_schema(record)->n_children != 1 ||
        !od_schema_same(od_record_schema(record)->children[0], a->schema.children[0]))
        OD_TRY(od_fail(err, OD_E_PROTOCOL, "the worker gives results of another type than it was bound with"));
    od_record_take(record, &schema, out);
out:
    od_schema_release(&schema);
    od_record_free(record);
    return rc;
}

od_code od_vgi_aggregate_results(const od_vgi_aggregate *a, od_vgi_interrupt interrupt, const char *method,
                                 od_row *request, size_t n, struct ArrowArray *out, od_error *err)
{
    od_record *record = NULL;
    od_buf answer = {0};
    od_slice bytes;
    od_code rc;

    *out = (struct ArrowArray){0};
    OD_TRY(od_vgi_execution_ask(&a->execution, interrupt, method, request, &answer, err));
    OD_TRY(od_vgi_record_one(od_vgi_bytes_of(&answer), &record, err));
    OD_TRY(od_cell_bytes(od_vgi_cell(record, "result_batch"), &bytes, err));
    rc = read_results(a, bytes, n, out, err);
    if (rc != OD_OK)
        od_error_prefix(err, "vgi %s", method);
out:
    od_record_free(record);
    od_buf_release(&answer);
    return rc;
}

od_code od_vgi_aggregate_finalize(const od_vgi_aggregate *a, od_vgi_interrupt interrupt, const int64_t *groups,
                                  size_t n, struct ArrowArray *out, od_error *err)
{
    od_row *request = NULL;
    od_msg *batch = NULL;
    od_code rc;

    *out = (struct ArrowArray){0};
    OD_TRY(write_groups(groups, n, &batch, err));
    OD_TRY(od_vgi_execution_request(&a->execution, &request, err));
    od_row_binary(request, "group_ids_batch", OD_ROW_NOT_NULL, od_vgi_msg_bytes(batch));
    od_row_binary(request, "output_schema", OD_ROW_NOT_NULL, od_vgi_bytes_of(&a->schema_bytes));
    OD_TRY(od_vgi_aggregate_results(a, interrupt, "aggregate_finalize", request, n, out, err));
out:
    od_row_free(request);
    od_msg_unref(batch);
    return rc;
}

/* ---- the end ---- */

/* The groups that are named count for nothing: all of them go. */
static void let_go(const od_vgi_aggregate *a)
{
    const int64_t none = 0;
    od_row *request = NULL;
    od_msg *batch = NULL;

    if (write_groups(&none, 1, &batch, NULL) == OD_OK &&
        od_vgi_execution_request(&a->execution, &request, NULL) == OD_OK) {
        od_row_binary(request, "group_ids_batch", OD_ROW_NOT_NULL, od_vgi_msg_bytes(batch));
        od_vgi_execution_let_go(&a->execution, "aggregate_destructor", request);
    }
    od_row_free(request);
    od_msg_unref(batch);
}

void od_vgi_aggregate_close(od_vgi_aggregate *a)
{
    if (a == NULL)
        return;
    if (a->execution.id.len > 0)
        let_go(a);
    od_vgi_execution_release(&a->execution);
    od_schema_release(&a->schema);
    od_buf_release(&a->schema_bytes);
    od_free(a);
}
