#include "query/rpc/h2.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "query/rpc/h2_internal.h"
#include "base/banned.h"

static nghttp2_option *make_options(const od_h2_options *options)
{
    nghttp2_option *made;

    if (nghttp2_option_new(&made) != 0)
        return NULL;
    nghttp2_option_set_no_auto_window_update(made, 1);
    nghttp2_option_set_no_closed_streams(made, 1);
    nghttp2_option_set_peer_max_concurrent_streams(made, OD_H2_MAX_STREAMS);
    nghttp2_option_set_glitch_rate_limit(made, OD_H2_STRAY_BURST, OD_H2_STRAY_RATE);
    if (options->server)
        nghttp2_option_set_stream_reset_rate_limit(made, OD_H2_RESET_BURST, OD_H2_RESET_RATE);
    return made;
}

static void *mem_alloc(size_t size, void *user)
{
    (void)user;
    return od_alloc(size);
}

static void mem_free(void *ptr, void *user)
{
    (void)user;
    od_free(ptr);
}

static void *mem_calloc(size_t n, size_t size, void *user)
{
    (void)user;
    return od_calloc(n, size);
}

static void *mem_realloc(void *ptr, size_t size, void *user)
{
    (void)user;
    return od_realloc(ptr, size);
}

/* 0 or an nghttp2 error. */
static int make_session(od_h2 *h2)
{
    nghttp2_mem mem = {NULL, mem_alloc, mem_free, mem_calloc, mem_realloc}; /* copied by nghttp2 */
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = make_options(&h2->options);
    int rc = option ? nghttp2_session_callbacks_new(&callbacks) : NGHTTP2_ERR_NOMEM;

    if (rc == 0) {
        od_h2_recv_callbacks(callbacks);
        od_h2_send_callbacks(callbacks);
        rc = h2->options.server ? nghttp2_session_server_new3(&h2->session, callbacks, h2, option, &mem)
                                : nghttp2_session_client_new3(&h2->session, callbacks, h2, option, &mem);
    }
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return rc;
}

static int submit_settings(od_h2 *h2)
{
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)h2->options.stream_window},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, OD_H2_MAX_FRAME},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, OD_H2_MAX_HEADERS},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, h2->options.max_streams},
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
    };
    /* A server must not send ENABLE_PUSH, and a client takes no streams. */
    size_t count = h2->options.server ? 4 : 5;
    int rc;

    if (!h2->options.server)
        entries[3] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0};
    rc = nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, entries, count);
    if (rc != 0)
        return rc;
    return nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, OD_H2_CONNECTION_WINDOW);
}

od_code od_h2_create(const od_h2_options *options, const od_h2_hooks *hooks, void *owner, od_h2 **out, od_error *err)
{
    od_h2 *h2 = od_calloc(1, sizeof *h2);

    *out = NULL;
    if (!h2)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a connection");
    h2->hooks = hooks;
    h2->owner = owner;
    h2->options = *options;
    if (make_session(h2) != 0 || submit_settings(h2) != 0) {
        od_h2_free(h2);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a connection");
    }
    *out = h2;
    return OD_OK;
}

void od_h2_free(od_h2 *h2)
{
    if (!h2)
        return;
    nghttp2_session_del(h2->session);
    od_sink_release(&h2->sink);
    od_free(h2);
}

bool od_h2_break(od_h2 *h2, const char *why)
{
    if (!h2->broken)
        snprintf(h2->why, sizeof h2->why, "%s", why);
    h2->broken = true;
    return false;
}

const char *od_h2_why(const od_h2 *h2)
{
    return h2->why[0] ? h2->why : "closed by the peer";
}

int od_h2_read_plan(od_h2 *h2, uint8_t *input, struct iovec iov[2])
{
    /* Below this the second buffer and the longer path cost more than the copy. */
    enum { WORTH_IT = 32 << 10, HEAD_ROOM = 16 << 10 };
    od_h2_stream *stream = NULL;
    uint8_t *at = NULL;
    size_t room = 0;

    if (h2->frame_left >= WORTH_IT)
        stream = nghttp2_session_get_stream_user_data(h2->session, h2->frame_stream);
    if (stream)
        room = od_h2_inbox_room(stream, &at);
    if (room > h2->frame_left)
        room = h2->frame_left;
    if (room < WORTH_IT) {
        iov[0] = (struct iovec){input, OD_H2_INPUT_SIZE};
        return 1;
    }
    iov[0] = (struct iovec){at, room};
    iov[1] = (struct iovec){input, HEAD_ROOM};
    return 2;
}

/* An alert, which a frame cannot look like: it would be longer than any that is allowed. */
static bool is_tls(const uint8_t *bytes, size_t len)
{
    return len >= 2 && bytes[0] == 0x15 && bytes[1] == 0x03;
}

bool od_h2_feed(od_h2 *h2, const uint8_t *bytes, size_t len)
{
    nghttp2_ssize n;

    if (h2->broken)
        return false;
    if (h2->total_received == 0 && !h2->options.server && is_tls(bytes, len))
        return od_h2_break(h2, "the server speaks TLS: the endpoint has to be https://");
    h2->total_received += len;
    n = nghttp2_session_mem_recv2(h2->session, bytes, len);
    if (n < 0)
        return od_h2_break(h2, n == NGHTTP2_ERR_BAD_CLIENT_MAGIC ? "the peer does not speak HTTP/2"
                                                                 : nghttp2_strerror((int)n));
    return true;
}

bool od_h2_received(od_h2 *h2, const struct iovec *iov, int count, size_t bytes)
{
    od_h2_stream *stream = count > 1 ? nghttp2_session_get_stream_user_data(h2->session, h2->frame_stream) : NULL;
    /* What was read into a message must outlive the stream, which may end while nghttp2 reads it. */
    od_msg *hold = stream && stream->in.msg ? od_msg_ref(stream->in.msg) : NULL;
    bool ok = true;

    for (int i = 0; i < count && bytes > 0 && ok; i++) {
        size_t n = iov[i].iov_len < bytes ? iov[i].iov_len : bytes;
        ok = od_h2_feed(h2, iov[i].iov_base, n);
        bytes -= n;
    }
    od_msg_unref(hold);
    return ok;
}

bool od_h2_finished(od_h2 *h2)
{
    if (h2->broken)
        return true;
    return !od_h2_unsent(h2) && !nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session);
}

od_h2_stream *od_h2_first_stream(const od_h2 *h2)
{
    return h2->streams;
}

size_t od_h2_stream_count(const od_h2 *h2)
{
    return h2->stream_count;
}

uint64_t od_h2_total_received(const od_h2 *h2)
{
    return h2->total_received;
}

bool od_h2_draining(const od_h2 *h2)
{
    return h2->draining;
}

bool od_h2_accepts(od_h2 *h2)
{
    uint32_t limit = nghttp2_session_get_remote_settings(h2->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

    if (limit > OD_H2_MAX_STREAMS)
        limit = OD_H2_MAX_STREAMS;
    return !h2->broken && !h2->draining && h2->stream_count < limit &&
           nghttp2_session_check_request_allowed(h2->session);
}

void od_h2_goaway(od_h2 *h2)
{
    int32_t last = nghttp2_session_get_last_proc_stream_id(h2->session);

    if (nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0) != 0)
        (void)od_h2_break(h2, "out of memory");
}

void od_h2_ping(od_h2 *h2)
{
    if (!h2->ping_pending && nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL) == 0)
        h2->ping_pending = true;
}

bool od_h2_ping_pending(const od_h2 *h2)
{
    return h2->ping_pending;
}

/* ---- streams ---- */

void od_h2_stream_init(od_h2_stream *stream, unsigned skew, size_t max_message)
{
    memset(stream, 0, sizeof *stream);
    stream->skew = skew;
    stream->max_message = max_message;
    stream->timeout_ns = -1;
    stream->http_status = stream->grpc_status = -1;
    stream->last = &stream->first;
}

void od_h2_stream_release(od_h2_stream *stream)
{
    if (stream->h2)
        od_h2_reset(stream, NGHTTP2_CANCEL, OD_E_CANCELLED, "the call was dropped");
    od_h2_drop_queue(stream);
    od_h2_inbox_release(&stream->in);
    od_free(stream->grpc_message);
    od_free(stream->end_text);
    od_free(stream->end.text);
    stream->grpc_message = stream->end_text = stream->end.text = NULL;
}

void od_h2_link(od_h2 *h2, od_h2_stream *stream, int32_t id)
{
    stream->h2 = h2;
    stream->id = id;
    stream->server = h2->options.server;
    stream->prev = NULL;
    stream->next = h2->streams;
    if (h2->streams)
        h2->streams->prev = stream;
    h2->streams = stream;
    h2->stream_count++;
}

void od_h2_detach(od_h2_stream *stream)
{
    od_h2 *h2 = stream->h2;

    if (stream->prev)
        stream->prev->next = stream->next;
    else
        h2->streams = stream->next;
    if (stream->next)
        stream->next->prev = stream->prev;
    stream->prev = stream->next = NULL;
    stream->h2 = NULL;
    h2->stream_count--;
    od_h2_drop_queue(stream);
    if (stream->end.at_once)
        od_h2_inbox_release(&stream->in);
    h2->hooks->closed(h2->owner, stream);
}

void od_h2_set_end(od_h2_stream *stream, od_code code, int status, const char *text)
{
    if (stream->end.set)
        return;
    stream->end.set = true;
    stream->end.code = code;
    stream->end.status = status;
    stream->end.text = od_strdup(text);
}

void od_h2_reset(od_h2_stream *stream, uint32_t error_code, od_code code, const char *text)
{
    od_h2 *h2 = stream->h2;

    if (!h2)
        return;
    od_h2_set_end(stream, code, od_code_grpc_status(code), text);
    stream->end.at_once = true;
    /* The order matters: nghttp2 can tell a stream that waits for its turn by its user data only while it waits. */
    (void)nghttp2_session_set_stream_user_data(h2->session, stream->id, NULL);
    if (nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, error_code) != 0)
        (void)od_h2_break(h2, "out of memory");
    od_h2_detach(stream);
}

void od_h2_abandon(od_h2 *h2, od_code code, const char *text)
{
    (void)od_h2_break(h2, text);
    while (h2->streams) {
        od_h2_stream *stream = h2->streams;
        od_h2_set_end(stream, code, od_code_grpc_status(code), text);
        stream->end.at_once = true;
        (void)nghttp2_session_set_stream_user_data(h2->session, stream->id, NULL);
        od_h2_detach(stream);
    }
}
