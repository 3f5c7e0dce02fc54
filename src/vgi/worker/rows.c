/* Rows of functions: out of them, into them, and kept for their end. */
#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "base/uuid.h"
#include "vgi/worker/call.h"
#include "vgi/worker/filter.h"
#include "vgi/worker/share.h"

#include "base/banned.h"

const od_ipc_pair vgiw_more_pair = {{(const uint8_t *)"vgi.status", 10}, {(const uint8_t *)"HAVE_MORE_OUTPUT", 16}};

/* What the rows of a function are in. */
typedef enum {
    GIVING,  /* `next` is asked */
    TAKING,  /* `put` is */
    KEEPING, /* of a function that keeps all rows: by calls of their own */
    EMPTY    /* there are none: the scan's other streams have them, or a call of its own */
} stage;

struct vgiw_rows {
    vgiw_kept kept; /* while it waits for its end */
    stage stage;
    vgiw_bound bound;
    int64_t *columns; /* NULL: all */
    size_t column_count;
    struct ArrowSchema schema;
    vgiw_filters *filters;
    od_uuid execution;
    vgiw_share *share; /* NULL: it has one stream */
    void *state;
    void (*close)(void *state); /* NULL: it is not open */
    bool again;                 /* there is more of the batch that went in last */
    bool over;
};

/* ---- what an init asks for ---- */

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
    const od_vgiw_function *f = &rows->bound.function->call;
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_vgiw_scan scan = {.call = &rows->bound.call,
                         .shared = vgiw_share_of(rows->share),
                         .schema = &rows->schema,
                         .columns = rows->columns,
                         .column_count = rows->columns != NULL ? rows->column_count : 0,
                         .values = vgiw_filters_values(rows->filters)};
    od_code rc;

    scan.filters = vgiw_filters_all(rows->filters, &scan.filter_count);
    rc = vgiw_failed(err, f->open(f->arg, &scan, &rows->state, &why), &why);
    if (rc == OD_OK)
        rows->close = f->close;
    return rc;
}

static bool is_shared(const od_vgiw_function *f)
{
    return f->streams > 1 || f->share != NULL;
}

/* The first stream of a scan, or another one. */
static od_code join(const vgiw_call *call, vgiw_rows *rows, od_slice execution, od_error *err)
{
    const od_vgiw_function *f = &rows->bound.function->call;
    od_vgiw_error why = {.code = OD_VGIW_OK};
    void *shared = NULL;
    od_code rc;

    if (execution.len > 0 && !is_shared(f))
        return od_fail(err, OD_E_INVALID, "the rows of a scan come in one stream");
    if (execution.len > 0) {
        rows->share = vgiw_share_join(call->worker->shares, execution);
        rows->stage = rows->share != NULL ? GIVING : EMPTY;
        return OD_OK;
    }
    if (!is_shared(f))
        return OD_OK;
    if (f->share != NULL)
        OD_TRY(vgiw_failed(err, f->share(f->arg, &rows->bound.call, &shared, &why), &why));
    OD_TRY(vgiw_share_begin(call->worker->shares, rows->execution, shared, f->unshare, &rows->share, err));
out:
    return rc;
}

/* ---- what is kept ---- */

static od_code set_key(vgiw_rows *rows, od_slice execution, od_slice part, od_error *err)
{
    if (execution.len + part.len > VGIW_KEY)
        return od_fail(err, OD_E_INVALID, "an execution_id or a substream_id is too long");
    if (execution.len > 0)
        memcpy(rows->kept.key, execution.data, execution.len);
    if (part.len > 0)
        memcpy(rows->kept.key + execution.len, part.data, part.len);
    rows->kept.key_len = execution.len + part.len;
    return OD_OK;
}

void vgiw_rows_drop(vgiw_kept *kept)
{
    vgiw_rows_close((vgiw_rows *)kept);
}

static od_code keep(const od_vgiw *worker, vgiw_rows *rows, od_error *err)
{
    od_code rc = vgiw_shelf_enter(worker->kept, &rows->kept, err);

    if (rc == OD_OK)
        vgiw_shelf_give_back(worker->kept, &rows->kept);
    return rc;
}

/* The rows that are kept as ROWS' key says, to be given: in place of ROWS, if they are of the same function. */
static od_code find_kept(const vgiw_call *call, vgiw_rows **rows, od_error *err)
{
    vgiw_kept *kept = vgiw_shelf_find(call->worker->kept, od_slice_of((*rows)->kept.key, (*rows)->kept.key_len));
    vgiw_rows *found = (vgiw_rows *)kept;

    if (found != NULL && found->bound.function != (*rows)->bound.function) {
        vgiw_shelf_give_back(call->worker->kept, kept);
        found = NULL;
    }
    if (found == NULL)
        return od_fail(err, OD_E_NOT_FOUND, "there are no rows for the end, or not any more");
    vgiw_shelf_take(call->worker->kept, kept);
    vgiw_rows_close(*rows);
    found->stage = GIVING;
    found->over = found->bound.function->call.next == NULL;
    *rows = found;
    return OD_OK;
}

/* Starts to keep all rows: what the client reads is a stream without any. */
static od_code begin_keeping(const vgiw_call *call, vgiw_rows **rows, od_error *err)
{
    const od_slice execution = od_slice_of((*rows)->execution.bytes, sizeof(*rows)->execution);
    vgiw_rows *told = od_calloc(1, sizeof *told);
    od_code rc;

    if (told == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    told->stage = EMPTY;
    told->execution = (*rows)->execution;
    OD_TRY(od_schema_copy(&(*rows)->schema, &told->schema, err));
    (*rows)->stage = KEEPING;
    OD_TRY(start(*rows, err));
    OD_TRY(set_key(*rows, execution, (od_slice){NULL, 0}, err));
    OD_TRY(keep(call->worker, *rows, err));
    *rows = told;
    told = NULL;
out:
    vgiw_rows_close(told);
    return rc;
}

/* ---- the start ---- */

typedef struct {
    od_slice phase, execution, substream;
} init_ids;

static od_code read_ids(const od_record *inner, init_ids *out, od_error *err)
{
    od_code rc;

    OD_TRY(od_cell_bytes(od_record_cell(inner, "phase", 0), &out->phase, err));
    OD_TRY(od_cell_bytes(od_record_cell(inner, "execution_id", 0), &out->execution, err));
    OD_TRY(od_cell_bytes(od_record_cell(inner, "substream_id", 0), &out->substream, err));
out:
    return rc;
}

static bool is(od_slice text, const char *what)
{
    return od_slice_equal(text, od_slice_str(what));
}

/* What the phase makes of *ROWS, which is bound. */
static od_code begin(const vgiw_call *call, const init_ids *ids, vgiw_rows **rows, od_error *err)
{
    const od_vgiw_function *f = &(*rows)->bound.function->call;
    od_code rc = OD_OK;

    switch (f->kind) {
    case OD_VGIW_TABLE:
        OD_TRY(join(call, *rows, ids->execution, err));
        if ((*rows)->stage == GIVING)
            OD_TRY(start(*rows, err));
        break;
    case OD_VGIW_BUFFERED:
        OD_TRY(set_key(*rows, ids->execution, (od_slice){NULL, 0}, err));
        if (is(ids->phase, "TABLE_BUFFERING_FINALIZE"))
            return find_kept(call, rows, err);
        OD_TRY(begin_keeping(call, rows, err));
        break;
    case OD_VGIW_SCALAR:
    case OD_VGIW_ROWS:
    default:
        if (is(ids->phase, "FINALIZE") && f->next == NULL) {
            (*rows)->stage = EMPTY; /* some clients ask for an end that nobody promised */
            break;
        }
        if (is(ids->phase, "FINALIZE")) {
            OD_TRY(set_key(*rows, ids->execution, ids->substream, err));
            return find_kept(call, rows, err);
        }
        (*rows)->stage = TAKING;
        OD_TRY(set_key(*rows, od_slice_of((*rows)->execution.bytes, sizeof(*rows)->execution), ids->substream, err));
        OD_TRY(start(*rows, err));
        break;
    }
out:
    return rc;
}

od_code vgiw_rows_open(const vgiw_call *call, const od_record *request, vgiw_rows **out, od_error *err)
{
    od_record *inner = NULL, *bind = NULL;
    vgiw_rows *rows = od_calloc(1, sizeof *rows);
    init_ids ids;
    od_code rc;

    *out = NULL;
    if (rows == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    rows->execution = od_uuid_random();
    OD_TRY(vgiw_inner(request, "request", &inner, err));
    OD_TRY(vgiw_inner(inner, "bind_call", &bind, err));
    OD_TRY(read_ids(inner, &ids, err));
    OD_TRY(vgiw_bind(call, bind, &rows->bound, err));
    if (rows->bound.wants_secrets)
        OD_TRY(od_fail(err, OD_E_INVALID, "function '%s' has to be bound with secrets", rows->bound.function->name));
    OD_TRY(read_columns(rows, od_record_cell(inner, "projection_ids", 0), err));
    OD_TRY(read_filters(rows, inner, err));
    OD_TRY(begin(call, &ids, &rows, err));
    *out = rows;
    rows = NULL;
out:
    vgiw_rows_close(rows);
    od_record_free(bind);
    od_record_free(inner);
    return rc;
}

bool vgiw_asks_end(const od_record *request, od_uuid *execution)
{
    od_record *inner = NULL;
    init_ids ids = {.phase = {NULL, 0}};
    bool asks = vgiw_inner(request, "request", &inner, NULL) == OD_OK && read_ids(inner, &ids, NULL) == OD_OK &&
                is(ids.phase, "FINALIZE") && ids.execution.len == sizeof execution->bytes;

    if (asks)
        memcpy(execution->bytes, ids.execution.data, ids.execution.len);
    od_record_free(inner);
    return asks;
}

od_uuid vgiw_rows_execution(const vgiw_rows *rows)
{
    return rows->execution;
}

const struct ArrowSchema *vgiw_rows_schema(const vgiw_rows *rows)
{
    return &rows->schema;
}

/* ---- rows ---- */

bool vgiw_rows_take(const vgiw_rows *rows)
{
    return rows->stage == TAKING;
}

od_code vgiw_rows_check(const vgiw_rows *rows, const struct ArrowSchema *schema, od_error *err)
{
    return od_schema_same(schema, &rows->bound.input)
               ? OD_OK
               : od_fail(err, OD_E_INVALID, "function '%s' is given other columns than it was bound with",
                         rows->bound.function->name);
}

static od_code check_output(const vgiw_rows *rows, const struct ArrowArray *out, int64_t given, od_error *err)
{
    const vgiw_function *function = rows->bound.function;

    if (out->release == NULL)
        return od_fail(err, OD_E_INTERNAL, "function '%s' gives nothing for a batch", function->name);
    if (function->call.kind == OD_VGIW_SCALAR && out->length != given)
        return od_fail(err, OD_E_INTERNAL, "function '%s' gives %lld values for %lld", function->name,
                       (long long)out->length, (long long)given);
    return OD_OK;
}

od_code vgiw_rows_put(vgiw_rows *rows, struct ArrowArray *in, struct ArrowArray *out, bool *again, od_error *err)
{
    const od_vgiw_function *f = &rows->bound.function->call;
    struct ArrowArray nothing = {0};
    od_vgiw_error why = {.code = OD_VGIW_OK};
    int64_t given = in->length;
    int more = 0;
    od_code rc;

    *out = (struct ArrowArray){0};
    OD_TRY(vgiw_failed(err, f->put(rows->state, rows->again ? &nothing : in, out, &more, &why), &why));
    OD_TRY(check_output(rows, out, given, err));
    *again = rows->again = f->kind == OD_VGIW_ROWS && more != 0;
out:
    if (rc != OD_OK && out->release != NULL)
        out->release(out);
    rows->over = rc != OD_OK;
    return rc;
}

od_code vgiw_rows_next(vgiw_rows *rows, struct ArrowArray *out, od_error *err)
{
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_code rc;

    *out = (struct ArrowArray){0};
    if (!vgiw_rows_more(rows))
        return OD_OK;
    rc = vgiw_failed(err, rows->bound.function->call.next(rows->state, out, &why), &why);
    rows->over = rc != OD_OK || out->release == NULL;
    return rc;
}

bool vgiw_rows_more(const vgiw_rows *rows)
{
    return !rows->over && rows->stage != EMPTY;
}

void vgiw_rows_end(const od_vgiw *worker, vgiw_rows *rows)
{
    if (rows->stage != TAKING || rows->over || rows->bound.function->call.next == NULL ||
        keep(worker, rows, NULL) != OD_OK)
        vgiw_rows_close(rows);
}

void vgiw_rows_close(vgiw_rows *rows)
{
    if (rows == NULL)
        return;
    if (rows->close != NULL)
        rows->close(rows->state);
    vgiw_share_leave(rows->share);
    vgiw_filters_free(rows->filters);
    od_schema_release(&rows->schema);
    od_free(rows->columns);
    vgiw_bound_release(&rows->bound);
    od_free(rows);
}

od_code vgiw_header(const od_vgi_dialect *dialect, const vgiw_rows *rows, od_msg **out, od_error *err)
{
    const vgiw_function *function = rows->bound.function;
    const int64_t streams = function != NULL && function->call.streams > 1 ? function->call.streams : 1;
    od_row *row = NULL;
    od_code rc;

    *out = NULL;
    OD_TRY(od_row_create(&row, err));
    od_row_binary(row, "execution_id", OD_ROW_NOT_NULL, od_slice_of(&rows->execution, sizeof rows->execution));
    od_row_int64(row, "max_workers", OD_ROW_NOT_NULL, &streams);
    vgiw_complete(dialect, VGIW_INIT_RESPONSE, row);
    OD_TRY(od_row_finish(row, NULL, 0, out, err));
out:
    od_row_free(row);
    return rc;
}

/* ---- functions that keep all rows ---- */

/* What REQUEST names; used then. */
static od_code find_buffer(const vgiw_call *call, const od_record *request, vgiw_rows **out, od_error *err)
{
    od_slice execution;
    vgiw_kept *kept = NULL;
    od_code rc;

    *out = NULL;
    OD_TRY(od_cell_bytes(od_record_cell(request, "execution_id", 0), &execution, err));
    if (execution.len > 0)
        kept = vgiw_shelf_find(call->worker->kept, execution);
    *out = (vgiw_rows *)kept;
    if (kept != NULL && (*out)->stage != KEEPING) {
        vgiw_shelf_give_back(call->worker->kept, kept);
        kept = NULL;
        *out = NULL;
    }
    if (kept == NULL)
        rc = od_fail(err, OD_E_NOT_FOUND, "no such rows are kept, or not any more");
out:
    return rc;
}

static od_code put_batch(vgiw_rows *rows, od_slice bytes, od_error *err)
{
    od_vgiw_error why = {.code = OD_VGIW_OK};
    struct ArrowSchema schema = {0};
    struct ArrowArray array = {0};
    od_record *record = NULL;
    od_code rc;

    OD_TRY(od_record_of_payload(bytes, &record, err));
    od_record_take(record, &schema, &array);
    OD_TRY(vgiw_rows_check(rows, &schema, err));
    OD_TRY(vgiw_failed(err, rows->bound.function->call.put(rows->state, &array, NULL, NULL, &why), &why));
out:
    if (array.release != NULL)
        array.release(&array);
    od_schema_release(&schema);
    od_record_free(record);
    return rc;
}

od_code vgiw_buffer_put(const vgiw_call *call, const od_record *request, od_error *err)
{
    vgiw_rows *rows;
    od_slice batch;
    od_code rc;

    OD_TRY(od_cell_bytes(od_record_cell(request, "input_batch", 0), &batch, err));
    OD_TRY(find_buffer(call, request, &rows, err));
    rc = put_batch(rows, batch, err);
    vgiw_shelf_give_back(call->worker->kept, &rows->kept);
    /* All rows are in one place, so each batch is called the same. */
    od_row_binary(call->out, "state_id", OD_ROW_NOT_NULL, od_slice_str("rows"));
out:
    return rc;
}

od_code vgiw_buffer_combine(const vgiw_call *call, const od_record *request, od_error *err)
{
    const od_slice all = od_slice_str("rows");
    vgiw_rows *rows;
    od_code rc;

    OD_TRY(find_buffer(call, request, &rows, err));
    vgiw_shelf_give_back(call->worker->kept, &rows->kept);
    od_row_binary_list(call->out, "finalize_state_ids", OD_ROW_NOT_NULL, &all, 1);
out:
    return rc;
}

od_code vgiw_buffer_drop(const vgiw_call *call, const od_record *request, od_error *err)
{
    vgiw_rows *rows;

    if (find_buffer(call, request, &rows, err) != OD_OK)
        return OD_OK; /* their end was asked for, and given */
    vgiw_shelf_take(call->worker->kept, &rows->kept);
    vgiw_rows_close(rows);
    return OD_OK;
}
