#include <string.h>

#include "vgi/client/client_internal.h"

#include "base/banned.h"

od_code od_vgi_values_write(od_vgi_values *values, od_msg **out, od_error *err)
{
    *out = NULL;
    return values != NULL ? od_vgi_batch_write(&values->schema, &values->array, out, err) : OD_OK;
}

od_code od_vgi_request_make(const od_vgi_dialect *dialect, const char *method, od_row *row, od_msg **out, od_error *err)
{
    od_ipc_pair pairs[4] = {
        {od_slice_str("vgi_rpc.method"), od_slice_str(method)},
        {od_slice_str("vgi_rpc.request_version"), od_slice_str("1")},
        {od_slice_str("vgi_rpc.protocol_version"), od_slice_str(dialect->version)},
        {od_slice_str("vgi_rpc.protocol"), od_slice_str(dialect->protocol)},
    };

    return od_row_finish(row, pairs, dialect->protocol != NULL ? 4 : 3, out, err);
}

/* The one value of the answer's one column, if it has one. */
static od_code read_result(od_vgi_stream *stream, struct ArrowArray *array, od_buf *out, od_error *err)
{
    od_record *record = NULL;
    od_slice bytes;
    od_code rc;

    OD_TRY(od_record_wrap(od_ipc_reader_schema(stream->reader), array, &record, err));
    if (od_record_rows(record) > 1)
        OD_TRY(od_fail(err, OD_E_PROTOCOL, "the worker's answer has more than one row"));
    if (od_record_rows(record) == 1) {
        OD_TRY(od_cell_bytes(od_record_cell(record, "result", 0), &bytes, err));
        OD_TRY(od_buf_append(out, bytes.data, bytes.len, err));
    }
out:
    od_record_free(record);
    return rc;
}

static od_code read_answer(od_vgi *vgi, od_vgi_source *source, const od_vgi_wait *wait, od_buf *out, bool *clean,
                           od_error *err)
{
    struct ArrowArray array = {0};
    od_vgi_stream stream;
    od_code rc, told;

    OD_TRY(od_vgi_stream_init(&stream, vgi, source, err));
    OD_TRY(od_vgi_stream_next(&stream, wait, &array, err));
    if (array.release != NULL)
        OD_TRY(read_result(&stream, &array, out, err));
    told = od_vgi_stream_finish(&stream, wait, err);
    *clean = stream.ended;
    rc = told;
out:
    if (array.release != NULL)
        array.release(&array);
    od_vgi_stream_release(&stream);
    return rc;
}

static od_code call_session(od_vgi *vgi, od_vgi_interrupt interrupt, od_msg *request, od_buf *out, od_error *err)
{
    od_vgi_wait wait = od_vgi_session_wait(vgi, NULL, interrupt);
    od_vgi_session *session;
    bool clean = false;
    od_code rc = od_vgi_session_take(vgi, &wait, &session, err);

    if (rc != OD_OK)
        return rc;
    wait = od_vgi_session_wait(vgi, session, interrupt);
    od_vgi_source source = {.link = session->link};
    rc = od_vgi_link_write(session->link, od_slice_of(od_msg_data(request), od_msg_len(request)), &wait, err);
    if (rc == OD_OK)
        rc = read_answer(vgi, &source, &wait, out, &clean, err);
    od_vgi_session_give(vgi, session, clean);
    return rc;
}

static od_code call_http(od_vgi *vgi, const od_vgi_dialect *dialect, od_vgi_interrupt interrupt, const char *method,
                         od_msg *request, od_buf *out, od_error *err)
{
    const od_vgi_wait wait = {.deadline = OD_DEADLINE_NEVER, .interrupt = interrupt};
    od_fetched answer = {0};
    bool clean;
    od_code rc;

    OD_TRY(od_vgi_post(vgi, dialect, method, od_slice_of(od_msg_data(request), od_msg_len(request)), interrupt, &answer,
                       err));
    od_vgi_source source = {.memory = od_slice_of(answer.body.data, answer.body.len)};
    OD_TRY(read_answer(vgi, &source, &wait, out, &clean, err));
    OD_TRY(od_vgi_source_end(&source, err));
out:
    od_fetched_release(&answer);
    return rc;
}

od_code od_vgi_call_as(od_vgi *vgi, const od_vgi_dialect *dialect, od_vgi_interrupt interrupt, const char *method,
                       od_row *row, od_buf *out, od_error *err)
{
    od_msg *request;
    od_code rc = od_vgi_request_make(dialect, method, row, &request, err);

    if (rc != OD_OK)
        return rc;
    rc = vgi->fetcher != NULL ? call_http(vgi, dialect, interrupt, method, request, out, err)
                              : call_session(vgi, interrupt, request, out, err);
    od_msg_unref(request);
    return rc;
}

static od_code probe(od_vgi *vgi, od_vgi_interrupt interrupt, const od_vgi_dialect *dialect, od_error *err)
{
    od_row *row = NULL;
    od_buf ignored = {0};
    od_code rc = od_row_create(&row, err);

    if (rc == OD_OK)
        rc = od_vgi_call_as(vgi, dialect, interrupt, "catalog_catalogs", row, &ignored, err);
    od_row_free(row);
    od_buf_release(&ignored);
    return rc;
}

od_code od_vgi_dialect_of(od_vgi *vgi, od_vgi_interrupt interrupt, const od_vgi_dialect **out, od_error *err)
{
    od_code rc = OD_E_PROTOCOL;

    *out = atomic_load(&vgi->dialect);
    for (size_t i = 0; i < OD_VGI_DIALECTS && *out == NULL && rc == OD_E_PROTOCOL; i++) {
        rc = probe(vgi, interrupt, &od_vgi_dialects[i], err);
        /* A worker may refuse to list its catalogs in its own words: it has understood, then. */
        if (rc == OD_OK || rc == OD_E_UNKNOWN || rc == OD_E_NOT_IMPLEMENTED)
            *out = &od_vgi_dialects[i];
    }
    if (*out == NULL)
        return rc;
    atomic_store(&vgi->dialect, *out);
    return OD_OK;
}

od_code od_vgi_call(od_vgi *vgi, od_vgi_interrupt interrupt, const char *method, od_row *row, od_buf *out,
                    od_error *err)
{
    const od_vgi_dialect *dialect;
    od_code rc = od_vgi_dialect_of(vgi, interrupt, &dialect, err);

    if (rc == OD_OK)
        rc = od_vgi_call_as(vgi, dialect, interrupt, method, row, out, err);
    return rc;
}
