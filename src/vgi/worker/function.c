/* Functions, bound and scanned. */
#include <stdio.h>
#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "base/uuid.h"
#include "vgi/worker/call.h"
#include "vgi/worker/filter.h"

#include "base/banned.h"

/* ---- binds ---- */

void vgiw_bound_release(vgiw_bound *bound)
{
    if (bound->arguments.release != NULL)
        bound->arguments.release(&bound->arguments);
    od_schema_release(&bound->arguments_schema);
    od_schema_release(&bound->output);
    *bound = (vgiw_bound){0};
}

/* What a bind calls positional_N is arg_N to functions, and named_X is X. */
static od_code rename_argument(struct ArrowSchema *field, od_error *err)
{
    static const char positional[] = "positional_", named[] = "named_";
    char name[64];

    if (strncmp(field->name, named, strlen(named)) == 0) {
        char *copy = od_strdup(field->name + strlen(named));
        od_code rc = copy != NULL ? od_schema_rename(field, copy, err) : od_fail(err, OD_E_NO_MEMORY, "out of memory");

        od_free(copy);
        return rc;
    }
    if (strncmp(field->name, positional, strlen(positional)) != 0 || strlen(field->name) > 32)
        return od_fail(err, OD_E_INVALID, "an argument is neither positional nor named");
    snprintf(name, sizeof name, "arg_%s", field->name + strlen(positional));
    return od_schema_rename(field, name, err);
}

/* The one struct column of the batch in BYTES. */
static od_code take_arguments(od_slice bytes, vgiw_bound *bound, od_error *err)
{
    struct ArrowSchema schema = {0};
    struct ArrowArray array = {0};
    od_record *record = NULL;
    od_code rc;

    OD_TRY(od_record_of_payload(bytes, &record, err));
    if (od_record_rows(record) != 1 || od_record_schema(record)->n_children != 1 ||
        strcmp(od_record_schema(record)->children[0]->format, "+s") != 0)
        OD_TRY(od_fail(err, OD_E_CORRUPT, "the arguments of a function are not one struct"));
    od_record_take(record, &schema, &array);
    if (array.children[0]->null_count > 0 || array.children[0]->n_children == 0 || array.children[0]->offset != 0)
        goto out;
    OD_TRY(od_schema_copy(schema.children[0], &bound->arguments_schema, err));
    bound->arguments = *array.children[0];
    array.children[0]->release = NULL;
    for (int64_t i = 0; i < bound->arguments_schema.n_children; i++)
        OD_TRY(rename_argument(bound->arguments_schema.children[i], err));
    bound->values = (od_vgiw_values){&bound->arguments_schema, &bound->arguments};
out:
    if (array.release != NULL)
        array.release(&array);
    od_schema_release(&schema);
    od_record_free(record);
    return rc;
}

static od_code find_function(const vgiw_call *call, const od_record *request, const vgiw_function **out, od_error *err)
{
    od_buf schema_buf = {0}, name_buf = {0};
    const char *schema, *name;
    od_slice type;
    od_code rc;

    *out = NULL;
    OD_TRY(vgiw_schema_text(call, request, "schema_path", "schema_name", &schema_buf, &schema, err));
    OD_TRY(vgiw_text(request, "function_name", &name_buf, &name, err));
    OD_TRY(od_cell_bytes(od_record_cell(request, "function_type", 0), &type, err));
    if (name != NULL && od_slice_equal(type, od_slice_str("TABLE")))
        *out = vgiw_find_function(call->worker, schema, name);
    if (*out == NULL)
        rc = od_fail(err, OD_E_NOT_FOUND, "there is no table function '%s'", name != NULL ? name : "");
out:
    od_buf_release(&schema_buf);
    od_buf_release(&name_buf);
    return rc;
}

static od_code check_bound(const vgiw_bound *bound, od_error *err)
{
    const struct ArrowSchema *output = &bound->output;

    if (output->release != NULL && output->format != NULL && strcmp(output->format, "+s") == 0 &&
        output->n_children > 0)
        return OD_OK;
    return od_fail(err, OD_E_INTERNAL, "function '%s' tells no columns", bound->function->name);
}

od_code vgiw_bind(const vgiw_call *call, const od_record *request, vgiw_bound *out, od_error *err)
{
    const od_buf *ours = &call->worker->attach;
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_slice told, arguments, at;
    od_code rc;

    OD_TRY(od_cell_bytes(od_record_cell(request, "attach_opaque_data", 0), &told, err));
    if (told.len > 0 && !od_slice_equal(told, od_slice_of(ours->data, ours->len)))
        return od_fail(err, OD_E_INVALID, "attach_opaque_data not recognized");
    OD_TRY(od_cell_bytes(od_record_cell(request, "at_unit", 0), &at, err));
    if (at.len > 0)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "this catalog has no time travel");
    OD_TRY(find_function(call, request, &out->function, err));
    OD_TRY(od_cell_bytes(od_record_cell(request, "arguments", 0), &arguments, err));
    if (arguments.len > 0)
        OD_TRY(take_arguments(arguments, out, err));
    OD_TRY(vgiw_failed(err, out->function->call.bind(out->function->call.arg, &out->values, &out->output, &why), &why));
    OD_TRY(check_bound(out, err));
out:
    return rc;
}

/* ---- scans ---- */

struct vgiw_rows {
    vgiw_bound bound;
    int64_t *columns; /* NULL: all */
    size_t column_count;
    struct ArrowSchema schema;
    vgiw_filters *filters;
    void *state;
    void (*close)(void *state); /* NULL: it is not open */
    bool over;
};

static od_code read_columns(vgiw_rows *rows, od_cell list, od_error *err)
{
    const struct ArrowSchema *all = &rows->bound.output;
    int64_t n;
    od_code rc;

    OD_TRY(od_cell_count(list, &n, err));
    if (n == 0)
        return od_schema_copy(all, &rows->schema, err);
    if (!rows->bound.function->call.projection)
        return od_fail(err, OD_E_INVALID, "function '%s' gives all of its columns", rows->bound.function->name);
    if (n > all->n_children)
        return od_fail(err, OD_E_INVALID, "%lld columns are asked for: there are %lld", (long long)n,
                       (long long)all->n_children);
    rows->columns = od_calloc((size_t)n, sizeof *rows->columns);
    if (rows->columns == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    rows->column_count = (size_t)n;
    OD_TRY(od_schema_make(&rows->schema, "", "+s", n, err));
    for (int64_t i = 0; i < n; i++) {
        int64_t column;

        OD_TRY(od_cell_int(od_cell_item(list, i), &column, err));
        if (column < 0 || column >= all->n_children)
            OD_TRY(od_fail(err, OD_E_INVALID, "column %lld is asked for: there are %lld", (long long)column,
                           (long long)all->n_children));
        for (int64_t k = 0; k < i; k++)
            if (rows->columns[k] == column)
                OD_TRY(od_fail(err, OD_E_INVALID, "column %lld is asked for twice", (long long)column));
        rows->columns[i] = column;
        OD_TRY(od_schema_copy(all->children[column], rows->schema.children[i], err));
    }
out:
    return rc;
}

static od_code read_filters(vgiw_rows *rows, const od_record *request, od_error *err)
{
    vgiw_filter_request asked = {
        .columns = &rows->bound.output, .asked = rows->columns, .asked_count = rows->column_count};
    od_code rc = od_cell_bytes(od_record_cell(request, "pushdown_filters", 0), &asked.bytes, err);

    if (rc != OD_OK || asked.bytes.len == 0 || !rows->bound.function->call.filters)
        return rc;
    return vgiw_filters_read(&asked, &rows->filters, err);
}

static od_code start(vgiw_rows *rows, od_error *err)
{
    const od_vgiw_function *call = &rows->bound.function->call;
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_vgiw_scan scan = {.arguments = rows->bound.values,
                         .schema = &rows->schema,
                         .columns = rows->columns,
                         .column_count = rows->columns != NULL ? rows->column_count : 0,
                         .values = vgiw_filters_values(rows->filters)};
    od_code rc;

    scan.filters = vgiw_filters_all(rows->filters, &scan.filter_count);
    rc = vgiw_failed(err, call->open(call->arg, &scan, &rows->state, &why), &why);
    if (rc == OD_OK)
        rows->close = call->close;
    return rc;
}

od_code vgiw_rows_open(const vgiw_call *call, const od_record *request, vgiw_rows **out, od_error *err)
{
    od_record *inner = NULL, *bind = NULL;
    vgiw_rows *rows = od_calloc(1, sizeof *rows);
    od_slice execution;
    od_code rc = OD_OK;

    *out = NULL;
    if (rows == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    OD_TRY(vgiw_inner(request, "request", &inner, err));
    OD_TRY(vgiw_inner(inner, "bind_call", &bind, err));
    OD_TRY(od_cell_bytes(od_record_cell(inner, "execution_id", 0), &execution, err));
    if (execution.len > 0)
        OD_TRY(od_fail(err, OD_E_INVALID, "the rows of a scan come in one stream"));
    OD_TRY(vgiw_bind(call, bind, &rows->bound, err));
    OD_TRY(read_columns(rows, od_record_cell(inner, "projection_ids", 0), err));
    OD_TRY(read_filters(rows, inner, err));
    OD_TRY(start(rows, err));
    *out = rows;
    rows = NULL;
out:
    vgiw_rows_close(rows);
    od_record_free(bind);
    od_record_free(inner);
    return rc;
}

const struct ArrowSchema *vgiw_rows_schema(const vgiw_rows *rows)
{
    return &rows->schema;
}

od_code vgiw_rows_next(vgiw_rows *rows, struct ArrowArray *out, od_error *err)
{
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_code rc;

    *out = (struct ArrowArray){0};
    if (rows->over)
        return OD_OK;
    rc = vgiw_failed(err, rows->bound.function->call.next(rows->state, out, &why), &why);
    rows->over = rc != OD_OK || out->release == NULL;
    return rc;
}

bool vgiw_rows_more(const vgiw_rows *rows)
{
    return !rows->over;
}

void vgiw_rows_close(vgiw_rows *rows)
{
    if (rows == NULL)
        return;
    if (rows->close != NULL)
        rows->close(rows->state);
    vgiw_filters_free(rows->filters);
    od_schema_release(&rows->schema);
    od_free(rows->columns);
    vgiw_bound_release(&rows->bound);
    od_free(rows);
}

od_code vgiw_header(const od_vgi_dialect *dialect, od_msg **out, od_error *err)
{
    const int64_t one = 1;
    od_uuid id = od_uuid_random();
    od_row *row = NULL;
    od_code rc;

    *out = NULL;
    OD_TRY(od_row_create(&row, err));
    od_row_binary(row, "execution_id", OD_ROW_NOT_NULL, od_slice_of(&id, sizeof id));
    od_row_int64(row, "max_workers", OD_ROW_NOT_NULL, &one);
    vgiw_complete(dialect, VGIW_INIT_RESPONSE, row);
    OD_TRY(od_row_finish(row, NULL, 0, out, err));
out:
    od_row_free(row);
    return rc;
}
