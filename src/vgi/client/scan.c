/* Rows over a session: init, its header, then a tick for each batch. */
#include <string.h>

#include "arrow/schema.h"
#include "base/alloc.h"
#include "vgi/client/filter.h"
#include "vgi/client/scan_internal.h"

#include "base/banned.h"

/* How long a scan that is given up may take to hand its session back. */
enum { CANCEL_MS = 2000, AHEAD_MAX = 16 };
/* Of batches that come fast some are let come together: to be woken for each, and each of its pieces, costs more than to read it. No more of
 * them than half of what the worker can make meanwhile, for which it has wishes and room in its socket: it would wait for us, and its
 * pace seem slower than it is. Nor for more than a part of the time that the scan has taken so far. */
enum { PACE_BATCHES = 8, GATHER_BATCHES = 6, GATHER_BYTES = 96 << 10, GATHER_MAX_NS = 2000000, GATHER_PART = 8 };

/* ---- ticks ---- */

static void keep_nothing(struct ArrowArray *array)
{
    array->release = NULL;
}

static od_code write_msg(od_vgi_scan *scan, od_msg *msg, const od_vgi_wait *wait, od_error *err)
{
    od_code rc = od_vgi_link_write(scan->session->link, od_vgi_msg_bytes(msg), wait, err);
    od_msg_unref(msg);
    return rc;
}

static od_code add_tick(od_vgi_scan *scan, bool cancel, od_error *err)
{
    static const void *no_buffers[1];
    const od_ipc_pair pair = {od_slice_str("vgi_rpc.cancel"), od_slice_str("1")};
    struct ArrowArray nothing = {.n_buffers = 1, .buffers = no_buffers, .release = keep_nothing};

    return od_ipc_writer_add_with(scan->ticks, &nothing, &pair, cancel ? 1 : 0, err);
}

/* PARTS beside the schema, which goes first. */
static od_code send_input(od_vgi_scan *scan, unsigned parts, const od_vgi_wait *wait, od_error *err)
{
    od_msg *msg;
    od_code rc = od_ipc_writer_flush_part(scan->ticks, parts | (scan->input_begun ? 0 : OD_IPC_PART_SCHEMA), &msg, err);

    scan->input_begun = true;
    return rc == OD_OK ? write_msg(scan, msg, wait, err) : rc;
}

od_code od_vgi_scan_send(od_vgi_scan *scan, const od_vgi_wait *wait, od_error *err)
{
    return send_input(scan, 0, wait, err);
}

/* As many wishes as are sent at once; each is the same bytes, which need not be made again for each batch. */
static od_code make_wishes(od_vgi_scan *scan, od_error *err)
{
    od_code rc = OD_OK;

    for (size_t i = 0; i < AHEAD_MAX; i++)
        OD_TRY(add_tick(scan, false, err));
    OD_TRY(od_ipc_writer_flush_part(scan->ticks, 0, &scan->wishes, err));
out:
    return rc;
}

/* Wishes for batches, so that the worker makes the next ones while one is used: one ahead at first, some once the scan goes on. */
static od_code wish(od_vgi_scan *scan, const od_vgi_wait *wait, od_error *err)
{
    size_t ahead = 1 + scan->batches / 4;
    od_code rc = OD_OK;

    if (ahead > AHEAD_MAX)
        ahead = AHEAD_MAX;
    if (scan->pending > ahead / 2)
        return OD_OK;
    if (!scan->input_begun)
        OD_TRY(send_input(scan, 0, wait, err));
    if (scan->wishes == NULL)
        OD_TRY(make_wishes(scan, err));
    od_slice all = od_vgi_msg_bytes(scan->wishes);
    OD_TRY(od_vgi_link_write(scan->session->link, od_slice_of(all.data, all.len / AHEAD_MAX * (ahead - scan->pending)),
                             wait, err));
    scan->pending = ahead;
out:
    return rc;
}

static od_code end_input(od_vgi_scan *scan, const od_vgi_wait *wait, od_error *err)
{
    return send_input(scan, OD_IPC_PART_END, wait, err);
}

/* ---- the start ---- */

static od_code pick_schema(od_vgi_scan *scan, const od_vgi_scan_options *options, od_error *err)
{
    const struct ArrowSchema *all = &scan->bound->schema;
    od_code rc;

    if (options == NULL || options->columns == NULL)
        return od_schema_copy(all, &scan->schema, err);
    if (options->column_count == 0)
        return od_fail(err, OD_E_INVALID, "a scan of no column");
    for (size_t i = 0; i < options->column_count; i++) {
        if (options->columns[i] < 0 || options->columns[i] >= all->n_children)
            return od_fail(err, OD_E_INVALID, "a scan of column %lld of %lld", (long long)options->columns[i],
                           (long long)all->n_children);
        for (size_t k = 0; k < i; k++)
            if (options->columns[k] == options->columns[i])
                return od_fail(err, OD_E_INVALID, "a scan of column %lld twice", (long long)options->columns[i]);
    }
    OD_TRY(od_schema_make(&scan->schema, "", "+s", (int64_t)options->column_count, err));
    for (size_t i = 0; i < options->column_count; i++)
        OD_TRY(od_schema_copy(all->children[options->columns[i]], scan->schema.children[i], err));
    OD_TRY(od_buf_append(&scan->columns, options->columns, options->column_count * sizeof(int64_t), err));
out:
    return rc;
}

od_slice od_vgi_bytes_of(const od_buf *buf)
{
    return buf->len > 0 ? od_slice_of(buf->data, buf->len) : (od_slice){NULL, 0};
}

/* FIRST: the stream whose rows this one shares; NULL: it is the first itself. */
static od_code make_init(const od_vgi_scan *scan, const od_vgi_scan *first, od_msg **out, od_error *err)
{
    const od_vgi_dialect *dialect = scan->dialect;
    const od_vgi_bound *bound = scan->bound;
    od_row *row = NULL, *inner = NULL;
    od_code rc;

    *out = NULL;
    OD_TRY(od_row_create(&row, err));
    OD_TRY(od_row_create(&inner, err));
    od_row_binary(inner, "bind_call", OD_ROW_NOT_NULL, od_vgi_msg_bytes(bound->request));
    od_row_binary(inner, "output_schema", OD_ROW_NOT_NULL, od_vgi_bytes_of(&bound->schema_bytes));
    od_vgi_put_bytes(dialect, inner, "bind_opaque_data", od_vgi_bytes_of(&bound->opaque));
    od_row_int64_list(inner, "projection_ids", OD_ROW_NULLABLE, (const int64_t *)(const void *)scan->columns.data,
                      scan->columns.len / sizeof(int64_t));
    if (dialect->nulls || scan->filters != NULL)
        od_row_large_binary(inner, "pushdown_filters", dialect->nulls ? OD_ROW_NULLABLE : OD_ROW_NOT_NULL,
                            od_vgi_msg_bytes(scan->filters));
    if (dialect->expressions && scan->row_limit > 0)
        od_row_int64(inner, "row_limit", OD_ROW_NULLABLE, &scan->row_limit);
    if (scan->phase != NULL) {
        od_row_text(inner, "phase", OD_ROW_NULLABLE, od_slice_str(scan->phase));
        if (!od_vgi_scan_is_buffered(scan))
            od_row_binary(inner, "substream_id", OD_ROW_NULLABLE,
                          od_slice_of(&scan->substream, sizeof scan->substream));
        else if (scan->kept.len > 0)
            od_row_binary(inner, "finalize_state_id", OD_ROW_NULLABLE, od_vgi_bytes_of(&scan->kept));
    }
    if (first != NULL) {
        od_row_binary(inner, "execution_id", OD_ROW_NULLABLE, od_vgi_bytes_of(&first->execution));
        od_vgi_put_bytes(dialect, inner, "init_opaque_data", od_vgi_bytes_of(&first->init_opaque));
    }
    OD_TRY(od_vgi_put_request(row, inner, err));
    OD_TRY(od_vgi_request_make(dialect, "init", row, out, err));
out:
    od_row_free(row);
    od_row_free(inner);
    return rc;
}

static od_code read_header_row(od_vgi_scan *scan, const od_record *record, od_error *err)
{
    od_slice execution, opaque;
    od_code rc;

    if (od_record_rows(record) != 1)
        return od_fail(err, OD_E_PROTOCOL, "the header of a scan has %lld rows", (long long)od_record_rows(record));
    OD_TRY(od_cell_bytes(od_vgi_cell(record, "execution_id"), &execution, err));
    OD_TRY(od_cell_bytes(od_vgi_cell(record, "opaque_data"), &opaque, err));
    OD_TRY(od_cell_int(od_vgi_cell(record, "max_workers"), &scan->max_workers, err));
    OD_TRY(od_buf_append(&scan->execution, execution.data, execution.len, err));
    OD_TRY(od_buf_append(&scan->init_opaque, opaque.data, opaque.len, err));
out:
    return rc;
}

/* The header stream, to its end; *FAILED: the worker said no, and its session goes on. */
od_code od_vgi_scan_read_header(od_vgi_scan *scan, const od_vgi_wait *wait, bool *failed, od_error *err)
{
    od_vgi_stream header;
    od_record *record = NULL;
    struct ArrowArray array = {0};
    od_code rc;

    *failed = false;
    OD_TRY(od_vgi_stream_init(&header, scan->vgi, &scan->source, err));
    OD_TRY(od_vgi_stream_next(&header, wait, &array, err));
    if (array.release != NULL) {
        OD_TRY(od_record_wrap(od_ipc_reader_schema(header.reader), &array, &record, err));
        OD_TRY(read_header_row(scan, record, err));
    }
    rc = od_vgi_stream_finish(&header, wait, err);
    *failed = header.ended && header.failed;
    if (rc == OD_OK && record == NULL)
        rc = od_fail(err, OD_E_PROTOCOL, "the header of a scan is missing");
out:
    od_record_free(record);
    od_vgi_stream_release(&header);
    return rc;
}

od_code od_vgi_scan_start(od_vgi_scan *scan, const od_vgi_scan *first, od_error *err)
{
    od_vgi_wait wait = od_vgi_session_wait(scan->vgi, NULL, scan->interrupt);
    od_msg *request = NULL;
    bool failed = false;
    od_code rc;

    scan->input_begun = false;
    OD_TRY(make_init(scan, first, &request, err));
    if (scan->vgi->fetcher != NULL) {
        OD_TRY(od_vgi_scan_http_start(scan, request, err));
        goto out;
    }
    OD_TRY(od_vgi_session_take(scan->vgi, &wait, &scan->session, err));
    scan->broken = true;
    scan->source.link = scan->session->link;
    wait = od_vgi_session_wait(scan->vgi, scan->session, scan->interrupt);
    OD_TRY(od_vgi_link_write(scan->session->link, od_vgi_msg_bytes(request), &wait, err));
    rc = od_vgi_scan_read_header(scan, &wait, &failed, err);
    /* The worker may then wait for the input all the same. */
    if (failed && (!scan->dialect->reads_after_failure || end_input(scan, &wait, NULL) == OD_OK))
        scan->broken = false;
    if (rc != OD_OK)
        goto out;
    if (!scan->takes_rows)
        OD_TRY(wish(scan, &wait, err));
    scan->broken = false;
out:
    od_msg_unref(request);
    return rc;
}

od_code od_vgi_scan_create(od_vgi *vgi, const od_vgi_bound *bound, od_vgi_interrupt interrupt,
                           const struct ArrowSchema *input, od_vgi_scan **out, od_error *err)
{
    od_vgi_scan *scan = od_calloc(1, sizeof *scan);
    od_code rc;

    *out = NULL;
    if (scan == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    scan->vgi = od_vgi_ref(vgi);
    scan->bound = od_vgi_bound_ref((od_vgi_bound *)(uintptr_t)bound);
    scan->interrupt = interrupt;
    scan->over = true; /* nothing is to be cancelled yet */
    OD_TRY(od_vgi_stream_init(&scan->stream, vgi, &scan->source, err));
    scan->takes_rows = input != NULL;
    if (input != NULL)
        OD_TRY(od_schema_copy(input, &scan->input, err));
    else
        OD_TRY(od_schema_make(&scan->input, "", "+s", 0, err));
    OD_TRY(od_ipc_writer_create(&scan->input, &scan->ticks, err));
    OD_TRY(od_vgi_dialect_of(vgi, interrupt, &scan->dialect, err));
    *out = scan;
    scan = NULL;
out:
    od_vgi_scan_close(scan);
    return rc;
}

/* A worker may be without what it needs to read filters; it does without them, then. */
static od_code start_filtered(od_vgi_scan *scan, od_error *err)
{
    od_error why = {.code = OD_OK};
    od_code rc = od_vgi_scan_start(scan, NULL, &why);

    if (rc == OD_E_UNKNOWN && scan->filters != NULL && strstr(why.message, "FilterDeserializationError") != NULL) {
        od_vgi_session_give(scan->vgi, scan->session, !scan->broken);
        scan->session = NULL;
        od_msg_unref(scan->filters);
        scan->filters = NULL;
        scan->filter_count = 0;
        return od_vgi_scan_start(scan, NULL, err);
    }
    if (rc != OD_OK && err != NULL)
        *err = why;
    return rc;
}

od_code od_vgi_scan_open(od_vgi *vgi, const od_vgi_context *context, const od_vgi_bound *bound,
                         const od_vgi_scan_options *options, od_vgi_scan **out, od_error *err)
{
    od_vgi_scan *scan = NULL;
    od_code rc;

    *out = NULL;
    OD_TRY(od_vgi_scan_create(vgi, bound, context->interrupt, options != NULL ? options->input : NULL, &scan, err));
    OD_TRY(pick_schema(scan, options, err));
    if (options != NULL && options->streaming) {
        scan->phase = "INPUT";
        scan->substream = od_uuid_random();
    }
    scan->row_limit = options != NULL ? options->row_limit : 0;
    if (options != NULL)
        OD_TRY(od_vgi_filters_write(scan->dialect, &bound->schema, options->columns, options->column_count,
                                    options->filters, options->filter_count, &scan->filters, &scan->filter_count, err));
    OD_TRY(start_filtered(scan, err));
    scan->over = false;
    *out = scan;
    scan = NULL;
out:
    if (rc != OD_OK)
        od_error_prefix(err, "vgi init");
    od_vgi_scan_close(scan);
    return rc;
}

od_code od_vgi_scan_share(od_vgi_scan *first, od_vgi_scan **out, od_error *err)
{
    od_vgi_scan *scan = NULL;
    od_code rc;

    *out = NULL;
    if (first->max_workers <= 1)
        return od_fail(err, OD_E_PRECONDITION, "the rows of this scan come in one stream");
    OD_TRY(od_vgi_scan_create(first->vgi, first->bound, first->interrupt, NULL, &scan, err));
    OD_TRY(od_schema_copy(&first->schema, &scan->schema, err));
    OD_TRY(od_buf_append(&scan->columns, first->columns.data, first->columns.len, err));
    if (first->filters != NULL)
        scan->filters = od_msg_ref(first->filters);
    scan->filter_count = first->filter_count;
    scan->row_limit = first->row_limit;
    OD_TRY(od_vgi_scan_start(scan, first, err));
    scan->max_workers = 1;
    scan->over = false;
    *out = scan;
    scan = NULL;
out:
    if (rc != OD_OK)
        od_error_prefix(err, "vgi init");
    od_vgi_scan_close(scan);
    return rc;
}

const struct ArrowSchema *od_vgi_scan_schema(const od_vgi_scan *scan)
{
    return &scan->schema;
}

size_t od_vgi_scan_filter_count(const od_vgi_scan *scan)
{
    return scan->filter_count;
}

int64_t od_vgi_scan_max_workers(const od_vgi_scan *scan)
{
    return scan->max_workers;
}

/* ---- batches ---- */

od_code od_vgi_scan_check_schema(od_vgi_scan *scan, od_error *err)
{
    const struct ArrowSchema *told = od_ipc_reader_schema(scan->stream.reader);

    if (scan->checked || !scan->stream.begun || scan->stream.failed)
        return OD_OK;
    scan->checked = true;
    if (od_schema_same(told, &scan->schema))
        return OD_OK;
    return od_fail(err, OD_E_PROTOCOL, "the worker sends other columns than it was bound with");
}

/* The end of the output: the session is free once the input has ended too. */
od_code od_vgi_scan_end(od_vgi_scan *scan, const od_vgi_wait *wait, od_error *err)
{
    od_error why = {.code = OD_OK};

    scan->over = true;
    if (end_input(scan, wait, &why) != OD_OK)
        scan->broken = true;
    if (!scan->stream.failed)
        return OD_OK;
    if (err != NULL)
        *err = scan->stream.fault;
    return scan->stream.fault.code;
}

/* One more batch came. */
static void keep_pace(od_vgi_scan *scan)
{
    if (++scan->batches % PACE_BATCHES != 0)
        return;
    int64_t now = od_clock_ns(), count = GATHER_BYTES / (int64_t)(scan->stream.message_len + 1);

    if (scan->begun_ns == 0)
        scan->begun_ns = scan->paced_ns = now;
    if (count > GATHER_BATCHES)
        count = GATHER_BATCHES;
    int64_t pace = (now - scan->paced_ns) / PACE_BATCHES, most = (now - scan->begun_ns) / GATHER_PART;
    if (most > GATHER_MAX_NS)
        most = GATHER_MAX_NS;
    if (most > pace * count)
        most = pace * count;
    scan->gather_ns = most >= 2 * pace ? most : 0; /* else nothing comes together */
    scan->paced_ns = now;
}

bool od_vgi_scan_is_ready(const od_vgi_scan *scan)
{
    size_t wanted = scan->stream.message_len;

    if (scan->over || scan->stream.ended || wanted == 0)
        return false;
    return (scan->source.link != NULL ? od_vgi_link_available(scan->source.link, wanted) : scan->source.memory.len) >=
           wanted;
}

od_code od_vgi_scan_next(od_vgi_scan *scan, struct ArrowArray *out, od_error *err)
{
    od_vgi_wait wait = od_vgi_session_wait(scan->vgi, NULL, scan->interrupt);
    od_code rc = OD_OK;

    wait.gather_ns = scan->pending >= GATHER_BATCHES ? scan->gather_ns : 0;

    *out = (struct ArrowArray){0};
    if (scan->over)
        return OD_OK;
    if (scan->vgi->fetcher != NULL)
        return od_vgi_scan_http_next(scan, out, err);
    OD_TRY(od_vgi_stream_next(&scan->stream, &wait, out, err));
    OD_TRY(od_vgi_scan_check_schema(scan, err));
    if (out->release == NULL) {
        rc = od_vgi_scan_end(scan, &wait, err);
        if (rc != OD_OK)
            od_error_prefix(err, "vgi scan");
        return rc;
    }
    scan->pending -= scan->pending > 0;
    keep_pace(scan);
    OD_TRY(wish(scan, &wait, err));
out:
    if (rc != OD_OK) {
        scan->over = scan->broken = true;
        if (out->release != NULL)
            out->release(out);
        od_error_prefix(err, "vgi scan");
    }
    return rc;
}

/* Reads off what comes after a cancel. */
static od_code drain(od_vgi_scan *scan)
{
    const od_vgi_wait wait = {.deadline = od_deadline_in_ms(CANCEL_MS)};
    struct ArrowArray array;
    od_code rc = add_tick(scan, true, NULL);

    if (rc == OD_OK)
        rc = send_input(scan, 0, &wait, NULL);
    while (rc == OD_OK && !scan->stream.ended) {
        rc = od_vgi_stream_next(&scan->stream, &wait, &array, NULL);
        if (array.release != NULL)
            array.release(&array);
    }
    return rc == OD_OK ? end_input(scan, &wait, NULL) : rc;
}

void od_vgi_scan_close(od_vgi_scan *scan)
{
    if (scan == NULL)
        return;
    if (scan->session != NULL && !scan->over && !scan->broken &&
        (scan->takes_rows ? od_vgi_scan_end_rows(scan, NULL) : drain(scan)) != OD_OK)
        scan->broken = true;
    od_vgi_session_give(scan->vgi, scan->session, !scan->broken);
    od_vgi_stream_release(&scan->stream);
    od_fetched_release(&scan->answer);
    od_ipc_writer_free(scan->ticks);
    od_msg_unref(scan->wishes);
    od_schema_release(&scan->input);
    od_schema_release(&scan->schema);
    od_buf_release(&scan->columns);
    od_buf_release(&scan->kept);
    od_msg_unref(scan->filters);
    od_buf_release(&scan->execution);
    od_buf_release(&scan->init_opaque);
    od_vgi_bound_free(scan->bound);
    od_vgi_unref(scan->vgi);
    od_free(scan);
}
