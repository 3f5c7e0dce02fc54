/* What nghttp2 tells about received frames. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "query/rpc/h2_internal.h"
#include "base/banned.h"

static od_h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *user)
{
    od_h2 *h2 = user;

    (void)session;
    /* A padded frame is not read straight into its message. */
    bool plain = head->type == NGHTTP2_DATA && !(head->flags & NGHTTP2_FLAG_PADDED);
    h2->frame_left = plain ? head->length : 0;
    h2->frame_stream = head->stream_id;
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t len,
                         void *user)
{
    od_h2 *h2 = user;
    od_h2_stream *stream = stream_of(session, id);

    (void)flags;
    h2->frame_left -= len < h2->frame_left ? len : h2->frame_left;
    if (nghttp2_session_consume_connection(session, len) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (stream && !stream->refused)
        od_h2_on_data(stream, bytes, len);
    else
        (void)nghttp2_session_consume_stream(session, id, len);
    return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    od_h2 *h2 = user;
    od_h2_stream *stream;

    if (!h2->options.server || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    stream = h2->hooks->open(h2->owner);
    if (!stream)
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM) == 0
                   ? 0
                   : NGHTTP2_ERR_CALLBACK_FAILURE;
    od_h2_link(h2, stream, frame->hd.stream_id);
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream) == 0
               ? 0
               : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static bool is(od_slice text, const char *what)
{
    return text.len == strlen(what) && memcmp(text.data, what, text.len) == 0;
}

/* "application/grpc", alone or before '+' or ';'. */
static bool grpc_type(od_slice value)
{
    static const char TYPE[] = "application/grpc";
    size_t len = sizeof TYPE - 1;

    return value.len >= len && memcmp(value.data, TYPE, len) == 0 &&
           (value.len == len || value.data[len] == '+' || value.data[len] == ';');
}

static int small_number(od_slice value)
{
    int n = 0;

    if (value.len == 0 || value.len > 3)
        return -1;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            return -1;
        n = n * 10 + (value.data[i] - '0');
    }
    return n;
}

static void request_header(od_h2_stream *stream, od_slice name, od_slice value)
{
    if (is(name, ":path")) {
        stream->bad_path = value.len >= sizeof stream->path;
        snprintf(stream->path, sizeof stream->path, "%.*s", (int)(stream->bad_path ? 0 : value.len),
                 (const char *)value.data);
    } else if (is(name, ":method")) {
        stream->is_post = is(value, "POST");
    } else if (is(name, "content-type")) {
        stream->is_grpc = grpc_type(value);
    } else if (is(name, "grpc-timeout")) {
        stream->bad_timeout = !od_grpc_timeout_parse(value, &stream->timeout_ns);
    }
}

static void response_header(od_h2_stream *stream, od_slice name, od_slice value)
{
    if (is(name, ":status")) {
        stream->http_status = small_number(value);
    } else if (is(name, "content-type")) {
        stream->is_grpc = grpc_type(value);
    } else if (is(name, "grpc-status")) {
        stream->grpc_status = small_number(value);
        if (stream->grpc_status < 0)
            stream->grpc_status = OD_GRPC_UNKNOWN;
    } else if (is(name, "grpc-message") && !stream->grpc_message) {
        size_t size = (value.len < OD_GRPC_MESSAGE_MAX ? value.len : OD_GRPC_MESSAGE_MAX) + 1;
        stream->grpc_message = od_alloc(size);
        if (stream->grpc_message)
            od_grpc_percent_decode(value, stream->grpc_message, size);
    } else if (is(name, "openduck-code")) {
        stream->told = od_code_named((const char *)value.data, value.len);
    }
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    od_h2 *h2 = user;
    od_h2_stream *stream = stream_of(session, frame->hd.stream_id);

    (void)flags;
    if (!stream)
        return 0;
    stream->header_bytes += name_len + value_len + 32; /* as RFC 9113, 6.5.2 counts */
    if (stream->header_bytes > OD_H2_MAX_HEADERS)
        return 0;
    if (h2->options.server && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        request_header(stream, od_slice_of(name, name_len), od_slice_of(value, value_len));
    else if (!h2->options.server)
        response_header(stream, od_slice_of(name, name_len), od_slice_of(value, value_len));
    return 0;
}

/* Not gRPC: answered in plain HTTP. */
static void answer_http(od_h2 *h2, od_h2_stream *stream, const char *status)
{
    nghttp2_nv head[] = {{(uint8_t *)":status", (uint8_t *)status, 7, 3, NGHTTP2_NV_FLAG_NONE}};

    stream->refused = stream->ending = stream->head_sent = true;
    od_h2_set_end(stream, OD_E_INVALID, OD_GRPC_INTERNAL, "not a gRPC request");
    if (nghttp2_submit_response2(h2->session, stream->id, head, 1, NULL) != 0)
        (void)od_h2_break(h2, "out of memory");
}

static void on_request(od_h2 *h2, od_h2_stream *stream)
{
    if (!stream->is_post) {
        answer_http(h2, stream, "405");
    } else if (!stream->is_grpc) {
        answer_http(h2, stream, "415");
    } else if (stream->header_bytes > OD_H2_MAX_HEADERS) {
        stream->refused = true;
        od_h2_finish(stream, OD_GRPC_RESOURCE_EXHAUSTED, "the request's headers are above the limit of 16384 bytes");
    } else if (stream->bad_timeout) {
        stream->refused = true;
        od_h2_finish(stream, OD_GRPC_INTERNAL, "malformed grpc-timeout");
    } else if (stream->bad_path) {
        stream->refused = true;
        od_h2_finish(stream, OD_GRPC_UNIMPLEMENTED, "unknown method");
    } else {
        h2->hooks->request(h2->owner, stream);
    }
}

static void on_end_stream(od_h2 *h2, od_h2_stream *stream)
{
    stream->peer_ended = true;
    if (h2->options.server) {
        if (stream->refused)
            return; /* its answer is on the way */
        if (od_h2_inbox_partial(&stream->in) && stream->in.backlog.len == 0)
            od_h2_finish_now(stream, OD_GRPC_INTERNAL, OD_E_PROTOCOL, "the request ended within a message");
        else
            h2->hooks->received(h2->owner, stream);
        return;
    }
    /* The answer is whole: whatever of the request has not gone out is of no use. A stream that is closed on both sides is
     * told by on_stream_close. */
    if (!stream->ending || stream->queued > 0) {
        stream->ending = true;
        od_h2_drop_queue(stream);
        (void)nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
    }
    h2->hooks->received(h2->owner, stream);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    od_h2 *h2 = user;
    od_h2_stream *stream;

    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK))
        h2->ping_pending = false;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        h2->draining = true;
    if (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    stream = stream_of(session, frame->hd.stream_id);
    if (stream && frame->hd.type == NGHTTP2_HEADERS && h2->options.server && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        on_request(h2, stream);
    /* Looked up again: the hooks may have ended it. */
    stream = stream_of(session, frame->hd.stream_id);
    if (stream && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        on_end_stream(h2, stream);
    return h2->broken ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* What the status and the messages of a client's stream amount to. */
static void client_end(od_h2_stream *stream, uint32_t error_code)
{
    char text[128];
    int status = stream->grpc_status;

    if (status == OD_GRPC_OK) {
        if (od_h2_inbox_partial(&stream->in) && stream->in.backlog.len == 0)
            od_h2_set_end(stream, OD_E_PROTOCOL, OD_GRPC_INTERNAL, "the stream ended within a message");
        else
            od_h2_set_end(stream, OD_OK, OD_GRPC_OK, NULL);
    } else if (status > 0) {
        bool fits = stream->told != OD_OK && od_code_grpc_status(stream->told) == status;

        od_h2_set_end(stream, fits ? stream->told : od_code_from_grpc_status(status), status, stream->grpc_message);
    } else if (error_code != NGHTTP2_NO_ERROR) {
        status = od_grpc_status_from_h2(error_code);
        snprintf(text, sizeof text, "the peer reset the stream: %s", nghttp2_http2_strerror(error_code));
        od_h2_set_end(stream, od_code_from_grpc_status(status), status, text);
        stream->end.at_once = true;
        stream->refused = error_code == NGHTTP2_REFUSED_STREAM;
    } else if (stream->http_status != 200 || !stream->is_grpc) {
        status = od_grpc_status_from_http(stream->http_status);
        snprintf(text, sizeof text, "the peer is not a gRPC server: HTTP status %d", stream->http_status);
        od_h2_set_end(stream, od_code_from_grpc_status(status), status, text);
    } else {
        od_h2_set_end(stream, OD_E_PROTOCOL, OD_GRPC_UNKNOWN, "the stream ended without a status");
    }
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *user)
{
    od_h2 *h2 = user;
    od_h2_stream *stream = stream_of(session, id);

    if (!stream)
        return 0;
    if (!h2->options.server) {
        client_end(stream, error_code);
    } else {
        if (stream->end_sent)
            od_h2_set_end(stream, OD_OK, stream->end_status, stream->end_text);
        else if (!stream->end.set)
            od_h2_set_end(stream, OD_E_CANCELLED, OD_GRPC_CANCELLED, "the peer cancelled the call");
        stream->end.at_once = true;
    }
    (void)nghttp2_session_set_stream_user_data(session, id, NULL);
    od_h2_detach(stream);
    return 0;
}

void od_h2_recv_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}
