/* Rows over HTTP: each answer has a batch, and a cursor for the next request if there is more. */
#include <string.h>

#include "vgi/client/scan_internal.h"

#include "base/banned.h"

od_code od_vgi_scan_http_start(od_vgi_scan *scan, od_msg *request, od_error *err)
{
    const od_vgi_wait wait = {OD_DEADLINE_NEVER, scan->interrupt};
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

/* Asks for more from where the answer that was read ends. */
static od_code go_on(od_vgi_scan *scan, od_error *err)
{
    od_buf cursor = {0}, call = {0};
    od_row *row = NULL;
    od_msg *request = NULL;
    od_code rc;

    swap(&cursor, &scan->stream.cursor);
    swap(&call, &scan->stream.call);
    od_vgi_stream_release(&scan->stream);
    od_fetched_release(&scan->answer);
    OD_TRY(od_vgi_stream_init(&scan->stream, scan->vgi, &scan->source, err));
    const od_ipc_pair pairs[] = {
        {od_slice_str("vgi_rpc.stream_state#b64"), od_slice_of(cursor.data, cursor.len)},
        {od_slice_str("vgi_rpc.call_state#b64"), od_slice_of(call.data, call.len)},
    };
    OD_TRY(od_row_create(&row, err));
    OD_TRY(od_row_finish(row, pairs, call.len > 0 ? 2 : 1, &request, err));
    OD_TRY(od_vgi_post(scan->vgi, scan->dialect, "init/exchange", od_vgi_msg_bytes(request), scan->interrupt,
                       &scan->answer, err));
    scan->source.memory = od_slice_of(scan->answer.body.data, scan->answer.body.len);
    scan->checked = false;
    swap(&call, &scan->stream.call);
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
    const od_vgi_wait wait = {OD_DEADLINE_NEVER, scan->interrupt};
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
