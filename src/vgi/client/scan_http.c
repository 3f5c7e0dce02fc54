/* Rows over HTTP: each answer has a batch, and a cursor for the next request if there is more. */
#include <string.h>

#include "vgi/client/scan_internal.h"

#include "base/banned.h"

od_code od_vgi_scan_http_start(od_vgi_scan *scan, od_msg *request, od_error *err)
{
    const od_vgi_wait wait = {.deadline = OD_DEADLINE_NEVER, .interrupt = scan->interrupt};
    bool failed;
    od_code rc;

    OD_TRY(od_vgi_post(scan->vgi, scan->dialect, "init/init", od_vgi_msg_bytes(request), scan->interrupt, &scan->answer,
                       err));
    scan->source.memory = od_slice_of(scan->answer.body.data, scan->answer.body.len);
    OD_TRY(od_vgi_scan_read_header(scan, &wait, &failed, err));
out:
    return rc;
}

static void swap(od_buf *a, od_buf *b)
{
    od_buf kept = *a;

    *a = *b;
    *b = kept;
}

/* Posts REQUEST as what follows the answer that was read; CALL, its call state, stays. */
static od_code post(od_vgi_scan *scan, od_msg *request, od_buf *call, od_error *err)
{
    od_code rc;

    od_vgi_stream_release(&scan->stream);
    od_fetched_release(&scan->answer);
    OD_TRY(od_vgi_stream_init(&scan->stream, scan->vgi, &scan->source, err));
    OD_TRY(od_vgi_post(scan->vgi, scan->dialect, "init/exchange", od_vgi_msg_bytes(request), scan->interrupt,
                       &scan->answer, err));
    scan->source.memory = od_slice_of(scan->answer.body.data, scan->answer.body.len);
    scan->checked = false;
    swap(call, &scan->stream.call);
out:
    return rc;
}

enum { MAX_PAIRS = 3 };

/* Where the answer that was read ends, as the next request says it; CURSOR and CALL are moved there. */
static size_t place(od_vgi_scan *scan, od_buf *cursor, od_buf *call, od_ipc_pair *pairs)
{
    swap(cursor, &scan->stream.cursor);
    swap(call, &scan->stream.call);
    pairs[0] = (od_ipc_pair){od_slice_str("vgi_rpc.stream_state#b64"), od_slice_of(cursor->data, cursor->len)};
    pairs[1] = (od_ipc_pair){od_slice_str("vgi_rpc.call_state#b64"), od_slice_of(call->data, call->len)};
    return call->len > 0 ? 2 : 1;
}

/* Asks for more from where the answer that was read ends. */
static od_code go_on(od_vgi_scan *scan, od_error *err)
{
    od_ipc_pair pairs[MAX_PAIRS];
    od_buf cursor = {0}, call = {0};
    size_t n = place(scan, &cursor, &call, pairs);
    od_row *row = NULL;
    od_msg *request = NULL;
    od_code rc;

    OD_TRY(od_row_create(&row, err));
    OD_TRY(od_row_finish(row, pairs, n, &request, err));
    OD_TRY(post(scan, request, &call, err));
out:
    od_row_free(row);
    od_msg_unref(request);
    od_buf_release(&cursor);
    od_buf_release(&call);
    return rc;
}

/* An answer was read to its end mark. */
static od_code end_answer(od_vgi_scan *scan, od_error *err)
{
    od_code rc = od_vgi_source_end(&scan->source, err);

    if (rc == OD_OK && scan->stream.failed) {
        if (err != NULL)
            *err = scan->stream.fault;
        rc = scan->stream.fault.code;
    }
    scan->over = rc != OD_OK || scan->stream.cursor.len == 0;
    return rc;
}

od_code od_vgi_scan_http_next(od_vgi_scan *scan, struct ArrowArray *out, od_error *err)
{
    const od_vgi_wait wait = {.deadline = OD_DEADLINE_NEVER, .interrupt = scan->interrupt};
    od_code rc = OD_OK;

    while (!scan->over && out->release == NULL) {
        if (scan->stream.ended)
            OD_TRY(go_on(scan, err));
        OD_TRY(od_vgi_stream_next(&scan->stream, &wait, out, err));
        OD_TRY(od_vgi_scan_check_schema(scan, err));
        if (scan->stream.ended)
            OD_TRY(end_answer(scan, err));
    }
out:
    if (rc != OD_OK) {
        scan->over = true;
        if (out->release != NULL)
            out->release(out);
        od_error_prefix(err, "vgi scan");
    }
    return rc;
}

od_code od_vgi_scan_http_put(od_vgi_scan *scan, struct ArrowArray *rows, const od_ipc_pair *status,
                             struct ArrowArray *out, od_error *err)
{
    const od_vgi_wait wait = {.deadline = OD_DEADLINE_NEVER, .interrupt = scan->interrupt};
    od_ipc_pair pairs[MAX_PAIRS];
    od_buf cursor = {0}, call = {0};
    od_msg *request = NULL;
    size_t n;
    od_code rc = OD_OK;

    if (!scan->stream.ended) /* of the init: where the first request goes on */
        OD_TRY(od_vgi_stream_finish(&scan->stream, &wait, err));
    n = place(scan, &cursor, &call, pairs);
    if (status != NULL)
        pairs[n++] = *status;
    OD_TRY(od_ipc_writer_add_with(scan->ticks, rows, pairs, n, err));
    OD_TRY(od_ipc_writer_flush(scan->ticks, &request, err));
    OD_TRY(post(scan, request, &call, err));
    OD_TRY(od_vgi_stream_next(&scan->stream, &wait, out, err));
    OD_TRY(od_vgi_scan_check_schema(scan, err));
    if (out->release == NULL)
        OD_TRY(end_answer(scan, err));
    if (scan->over)
        rc = od_fail(err, OD_E_PROTOCOL, "the worker ends before the rows that it is given do");
out:
    if (rows->release != NULL)
        rows->release(rows);
    od_msg_unref(request);
    od_buf_release(&cursor);
    od_buf_release(&call);
    return rc;
}
