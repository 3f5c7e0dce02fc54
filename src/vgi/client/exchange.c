/* Rows into a function, and out of it. */
#include "arrow/schema.h"
#include "vgi/client/scan_internal.h"

#include "base/banned.h"

/* How long the end of what goes in may take. */
enum { END_MS = 2000 };

/* Asks for more of the rows that went in last: generation 1.3 wants them again, a later one no rows. */
static void make_again(const od_vgi_scan *scan, struct ArrowArray *rows)
{
    if (!scan->dialect->continues)
        return;
    rows->length = 0;
    for (int64_t i = 0; i < rows->n_children; i++) {
        rows->children[i]->length = 0;
        rows->children[i]->null_count = 0;
    }
}

static od_code put(od_vgi_scan *scan, struct ArrowArray *rows, const od_ipc_pair *status, struct ArrowArray *out,
                   od_error *err)
{
    const od_vgi_wait wait = od_vgi_session_wait(scan->vgi, NULL, scan->interrupt);
    od_code rc;

    OD_TRY(od_ipc_writer_add_with(scan->ticks, rows, status, status != NULL ? 1 : 0, err));
    OD_TRY(od_vgi_scan_send(scan, &wait, err));
    OD_TRY(od_vgi_stream_next(&scan->stream, &wait, out, err));
    OD_TRY(od_vgi_scan_check_schema(scan, err));
    if (out->release == NULL) {
        OD_TRY(od_vgi_scan_end(scan, &wait, err));
        rc = od_fail(err, OD_E_PROTOCOL, "the worker ends before the rows that it is given do");
    }
out:
    return rc;
}

od_code od_vgi_scan_put(od_vgi_scan *scan, struct ArrowArray *rows, bool again, struct ArrowArray *out, bool *more,
                        od_error *err)
{
    const od_ipc_pair go_on = {od_slice_str("vgi.status"), od_slice_str("CONTINUE")};
    const od_ipc_pair *status = again && scan->dialect->continues ? &go_on : NULL;
    od_code rc;

    *out = (struct ArrowArray){0};
    *more = false;
    if (!scan->takes_rows || scan->over) {
        if (rows->release != NULL)
            rows->release(rows);
        return od_fail(err, OD_E_PRECONDITION, "this scan takes no rows");
    }
    if (again)
        make_again(scan, rows);
    rc = scan->vgi->fetcher != NULL ? od_vgi_scan_http_put(scan, rows, status, out, err)
                                    : put(scan, rows, status, out, err);
    if (rc == OD_OK) {
        *more = od_slice_equal(od_ipc_reader_pair(scan->stream.reader, "vgi.status"), od_slice_str("HAVE_MORE_OUTPUT"));
        return OD_OK;
    }
    scan->broken = scan->broken || !scan->over;
    scan->over = true;
    if (out->release != NULL)
        out->release(out);
    od_error_prefix(err, "vgi scan");
    return rc;
}

static od_code end_rows(od_vgi_scan *scan, const od_vgi_wait *wait, od_error *err)
{
    struct ArrowArray array;
    od_error why = {.code = OD_OK};
    od_code rc;

    scan->over = true;
    OD_TRY(od_vgi_scan_end(scan, wait, &why));
    /* Without a row there is no output either. */
    while (!scan->stream.ended) {
        OD_TRY(od_vgi_stream_next(&scan->stream, wait, &array, &why));
        if (array.release != NULL)
            array.release(&array);
    }
    if (scan->stream.failed) {
        why = scan->stream.fault;
        rc = why.code;
        goto told;
    }
out:
    if (rc != OD_OK)
        scan->broken = true;
told:
    if (rc != OD_OK && err != NULL)
        *err = why;
    return rc;
}

od_code od_vgi_scan_end_rows(od_vgi_scan *scan, od_error *err)
{
    const od_vgi_wait wait = {.deadline = od_deadline_in_ms(END_MS)};

    return end_rows(scan, &wait, err);
}

od_code od_vgi_scan_finish(od_vgi_scan *scan, od_error *err)
{
    const od_vgi_wait wait = od_vgi_session_wait(scan->vgi, NULL, scan->interrupt);
    od_code rc;

    if (!scan->takes_rows || scan->over)
        return od_fail(err, OD_E_PRECONDITION, "this scan takes no rows");
    if (scan->session == NULL) {
        scan->over = true; /* over HTTP each answer was whole */
        return OD_OK;
    }
    rc = end_rows(scan, &wait, err);
    if (rc != OD_OK)
        od_error_prefix(err, "vgi scan");
    return rc;
}

od_code od_vgi_scan_finalize(od_vgi_scan *input, od_vgi_scan **out, od_error *err)
{
    od_vgi_scan *scan = NULL;
    od_code rc;

    *out = NULL;
    if (input->phase == NULL || input->over)
        return od_fail(err, OD_E_PRECONDITION, "this scan keeps nothing for the end");
    if (input->session != NULL) {
        OD_TRY(od_vgi_scan_end_rows(input, err));
        od_vgi_session_give(input->vgi, input->session, !input->broken);
        input->session = NULL;
    }
    input->over = true;
    OD_TRY(od_vgi_scan_create(input->vgi, input->bound, input->interrupt, NULL, &scan, err));
    OD_TRY(od_schema_copy(&input->schema, &scan->schema, err));
    OD_TRY(od_buf_append(&scan->columns, input->columns.data, input->columns.len, err));
    scan->phase = "FINALIZE";
    scan->substream = input->substream;
    OD_TRY(od_vgi_scan_start(scan, input, err));
    scan->over = false;
    *out = scan;
    scan = NULL;
out:
    if (rc != OD_OK)
        od_error_prefix(err, "vgi init");
    od_vgi_scan_close(scan);
    return rc;
}
