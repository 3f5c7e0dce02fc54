/* Messages to frames, and frames to the socket. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "query/rpc/h2_internal.h"
#include "base/banned.h"

enum {
    COPY_BELOW = 4096,       /* a piece of a body below this is copied, above it is borrowed */
    MESSAGES_A_FRAME = 8,    /* keeps a frame's pieces within a sink */
    WRITE_ABOVE = 128 << 10, /* pending bytes at which the socket is asked before more frames are made */
    PREFIX = 5
};

struct od_h2_item {
    od_h2_item *next;
    uint8_t head[PREFIX + sizeof((od_rpc_out *)0)->head];
    size_t head_len;
    od_msg *body;
    size_t offset, body_len;
    uint8_t tail[sizeof((od_rpc_out *)0)->tail];
    size_t tail_len;
    size_t sent, total;
};

enum { MAX_COPIED = 9 + MESSAGES_A_FRAME * (sizeof(od_h2_item) + COPY_BELOW), MAX_PIECES = 2 * MESSAGES_A_FRAME + 1 };
_Static_assert((int)MAX_COPIED <= (int)OD_SINK_BYTES && (int)MAX_PIECES <= (int)OD_SINK_PIECES,
               "a frame fits an empty sink");

static bool flush_sink(od_h2 *h2)
{
    int errnum = od_sink_flush(&h2->sink, h2->hooks->write, h2->owner);

    if (errnum == 0 && h2->hooks->push && !h2->sink.blocked) {
        errnum = h2->hooks->push(h2->owner);
        h2->sink.blocked = errnum == EAGAIN;
        errnum = errnum == EAGAIN ? 0 : errnum;
    }
    return errnum == 0 || od_h2_break(h2, strerrordesc_np(errnum));
}

/* ---- the queue of a stream ---- */

static void free_item(od_h2_item *item)
{
    od_msg_unref(item->body);
    od_free(item);
}

void od_h2_drop_queue(od_h2_stream *stream)
{
    while (stream->first) {
        od_h2_item *item = stream->first;
        stream->first = item->next;
        free_item(item);
    }
    stream->last = &stream->first;
    stream->queued = 0;
}

static od_h2_item *make_item(const od_rpc_out *out)
{
    od_h2_item *item = od_alloc(sizeof *item);
    size_t len = out->head_len + out->len + out->tail_len;

    if (!item)
        return NULL;
    item->next = NULL;
    item->head[0] = 0;
    item->head[1] = (uint8_t)(len >> 24);
    item->head[2] = (uint8_t)(len >> 16);
    item->head[3] = (uint8_t)(len >> 8);
    item->head[4] = (uint8_t)len;
    memcpy(item->head + PREFIX, out->head, out->head_len);
    item->head_len = PREFIX + out->head_len;
    item->body = out->len > 0 ? od_msg_ref(out->body) : NULL;
    item->offset = out->offset;
    item->body_len = out->len;
    memcpy(item->tail, out->tail, out->tail_len);
    item->tail_len = out->tail_len;
    item->sent = 0;
    item->total = PREFIX + len;
    return item;
}

static void resume(od_h2_stream *stream)
{
    if (!stream->deferred)
        return;
    stream->deferred = false;
    (void)nghttp2_session_resume_data(stream->h2->session, stream->id);
}

/* ---- frames ---- */

/* Moves up to LEN bytes of ITEM to the sink, which has room. 0: out of memory. */
static size_t emit(od_sink *sink, od_h2_item *item, size_t len)
{
    size_t at = item->sent, n;
    bool ok = true;

    if (at < item->head_len) {
        n = item->head_len - at;
        n = n < len ? n : len;
        ok = od_sink_copy(sink, item->head + at, n);
    } else if (at < item->head_len + item->body_len) {
        at -= item->head_len;
        n = item->body_len - at;
        n = n < len ? n : len;
        if (n < COPY_BELOW)
            ok = od_sink_copy(sink, od_msg_data(item->body) + item->offset + at, n);
        else
            od_sink_borrow(sink, item->body, item->offset + at, n);
    } else {
        at -= item->head_len + item->body_len;
        n = item->tail_len - at;
        n = n < len ? n : len;
        ok = od_sink_copy(sink, item->tail + at, n);
    }
    item->sent += n;
    return ok ? n : 0;
}

static int send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t len,
                     nghttp2_data_source *source, void *user)
{
    od_h2 *h2 = user;
    od_h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    size_t left = len;

    (void)source;
    /* Ended since the frame was planned; nothing of it has gone out. */
    if (!stream || stream->queued < len)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (h2->sink.blocked)
        return NGHTTP2_ERR_WOULDBLOCK;
    if (!od_sink_has_room(&h2->sink, MAX_COPIED, MAX_PIECES)) {
        if (!flush_sink(h2))
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        if (h2->sink.pending > 0)
            return NGHTTP2_ERR_WOULDBLOCK;
    }
    if (!od_sink_copy(&h2->sink, head, 9))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    while (left > 0) {
        od_h2_item *item = stream->first;
        size_t n = item ? emit(&h2->sink, item, left) : 0;
        if (n == 0)
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        left -= n;
        if (item->sent < item->total)
            continue;
        stream->first = item->next;
        if (!stream->first)
            stream->last = &stream->first;
        free_item(item);
    }
    stream->queued -= len;
    if (h2->sink.pending >= WRITE_ABOVE && !flush_sink(h2))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    h2->hooks->drained(h2->owner, stream);
    return 0;
}

static nghttp2_ssize send_frame(nghttp2_session *session, const uint8_t *bytes, size_t len, int flags, void *user)
{
    od_h2 *h2 = user;
    size_t room;

    (void)session, (void)flags;
    if (h2->sink.blocked)
        return NGHTTP2_ERR_WOULDBLOCK;
    if (od_sink_room(&h2->sink) < len && !flush_sink(h2))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    room = od_sink_room(&h2->sink);
    if (room == 0)
        return NGHTTP2_ERR_WOULDBLOCK;
    if (room < len)
        len = room;
    return od_sink_copy(&h2->sink, bytes, len) ? (nghttp2_ssize)len : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static nghttp2_ssize frame_limit(nghttp2_session *session, uint8_t type, int32_t id, int32_t connection_window,
                                 int32_t stream_window, uint32_t peer_max, void *user)
{
    nghttp2_ssize n = OD_H2_MAX_FRAME;

    (void)session, (void)type, (void)id, (void)user;
    n = connection_window < n ? connection_window : n;
    n = stream_window < n ? stream_window : n;
    return (nghttp2_ssize)peer_max < n ? (nghttp2_ssize)peer_max : n;
}

static nghttp2_nv text_nv(const char *name, const char *value, size_t value_len, uint8_t flags)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), value_len, flags};
}

/* Fills up to three pairs; NUMBER and TEXT hold their values. CODE, if it is one of STATUS, tells apart what shares it. */
static size_t status_pairs(nghttp2_nv *pairs, int status, od_code code, const char *text, char number[4],
                           char coded[3 * OD_GRPC_MESSAGE_MAX])
{
    const char *name = od_code_name(code);
    size_t count = 0, len = 0;

    if (status < 0 || status > 999)
        status = OD_GRPC_UNKNOWN;
    if (status >= 100)
        number[len++] = (char)('0' + status / 100);
    if (status >= 10)
        number[len++] = (char)('0' + status / 10 % 10);
    number[len++] = (char)('0' + status % 10);
    pairs[count++] = text_nv("grpc-status", number, len, NGHTTP2_NV_FLAG_NONE);
    if (text && text[0])
        pairs[count++] = text_nv("grpc-message", coded, od_grpc_percent_encode(text, coded), NGHTTP2_NV_FLAG_NO_INDEX);
    if (code != OD_OK && od_code_grpc_status(code) == status)
        pairs[count++] = text_nv("openduck-code", name, strlen(name), NGHTTP2_NV_FLAG_NONE);
    return count;
}

static int submit_trailers(od_h2 *h2, od_h2_stream *stream)
{
    char number[4], coded[3 * OD_GRPC_MESSAGE_MAX];
    nghttp2_nv pairs[3];
    size_t count = status_pairs(pairs, stream->end_status, stream->told, stream->end_text, number, coded);

    return nghttp2_submit_trailer(h2->session, stream->id, pairs, count);
}

/* Plans the next DATA frame: how many bytes of the queue it takes. */
static nghttp2_ssize plan_data(nghttp2_session *session, int32_t id, uint8_t *buf, size_t limit, uint32_t *flags,
                               nghttp2_data_source *source, void *user)
{
    od_h2 *h2 = user;
    od_h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    size_t n = 0;
    int messages = 0;

    (void)buf, (void)source;
    if (!stream)
        return NGHTTP2_ERR_DEFERRED;
    for (od_h2_item *i = stream->first; i && n < limit && messages < MESSAGES_A_FRAME; i = i->next, messages++) {
        size_t left = i->total - i->sent;
        n += left < limit - n ? left : limit - n;
    }
    if (n == 0 && !stream->ending) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (stream->ending && n == stream->queued) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (h2->options.server) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            if (submit_trailers(h2, stream) != 0)
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
    }
    return (nghttp2_ssize)n;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    od_h2 *h2 = user;
    od_h2_stream *stream;

    if (!h2->options.server || frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!stream)
        return 0;
    stream->end_sent = true;
    /* A client that still sends is told to stop; the answer is whole. */
    if (!stream->peer_ended)
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR) == 0
                   ? 0
                   : NGHTTP2_ERR_CALLBACK_FAILURE;
    return 0;
}

void od_h2_send_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_send_callback2(callbacks, send_frame);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
    nghttp2_session_callbacks_set_data_source_read_length_callback2(callbacks, frame_limit);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
}

/* ---- the owner's side ---- */

bool od_h2_flush(od_h2 *h2)
{
    int rc;

    if (h2->broken)
        return false;
    if (h2->sink.blocked)
        return true;
    if (!flush_sink(h2))
        return false;
    rc = nghttp2_session_send(h2->session);
    if (rc != 0)
        return od_h2_break(h2, nghttp2_strerror(rc));
    return flush_sink(h2);
}

void od_h2_writable(od_h2 *h2)
{
    h2->sink.blocked = false;
}

bool od_h2_blocked(const od_h2 *h2)
{
    return h2->sink.blocked;
}

bool od_h2_unsent(const od_h2 *h2)
{
    return h2->sink.pending > 0 || h2->sink.blocked;
}

od_code od_h2_request(od_h2 *h2, od_h2_stream *stream, const char *path, const char *authority, int64_t timeout_ns,
                      od_error *err)
{
    const char *scheme = h2->options.tls ? "https" : "http";
    char timeout[OD_GRPC_TIMEOUT_SIZE];
    nghttp2_nv pairs[9 + OD_RPC_MAX_HEADERS] = {
        text_nv(":method", "POST", 4, NGHTTP2_NV_FLAG_NONE),
        text_nv(":scheme", scheme, strlen(scheme), NGHTTP2_NV_FLAG_NONE),
        text_nv(":path", path, strlen(path), NGHTTP2_NV_FLAG_NONE),
        text_nv(":authority", authority, strlen(authority), NGHTTP2_NV_FLAG_NONE),
        text_nv("te", "trailers", 8, NGHTTP2_NV_FLAG_NONE),
        text_nv("content-type", "application/grpc", 16, NGHTTP2_NV_FLAG_NONE),
        text_nv("user-agent", "openduck", 8, NGHTTP2_NV_FLAG_NONE),
        text_nv("grpc-accept-encoding", "identity", 8, NGHTTP2_NV_FLAG_NONE),
    };
    size_t count = 8;
    nghttp2_data_provider2 provider = {.read_callback = plan_data};
    int32_t id;

    if (timeout_ns >= 0) {
        od_grpc_timeout_format(timeout_ns, timeout);
        pairs[count++] = text_nv("grpc-timeout", timeout, strlen(timeout), NGHTTP2_NV_FLAG_NO_INDEX);
    }
    for (size_t i = 0; i < stream->header_count && i < OD_RPC_MAX_HEADERS; i++) {
        const od_rpc_header *h = &stream->headers[i];
        /* It may be a secret: not kept in a compression table. */
        pairs[count++] = text_nv(h->name, h->value, strlen(h->value), NGHTTP2_NV_FLAG_NO_INDEX);
    }
    id = nghttp2_submit_request2(h2->session, NULL, pairs, count, &provider, stream);
    if (id == NGHTTP2_ERR_NOMEM)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a call");
    if (id < 0)
        return od_fail(err, OD_E_UNAVAILABLE, "the connection takes no more calls: %s", nghttp2_strerror(id));
    od_h2_link(h2, stream, id);
    return OD_OK;
}

static bool submit_head(od_h2_stream *stream)
{
    nghttp2_nv head[] = {
        text_nv(":status", "200", 3, NGHTTP2_NV_FLAG_NONE),
        text_nv("content-type", "application/grpc", 16, NGHTTP2_NV_FLAG_NONE),
        text_nv("grpc-accept-encoding", "identity", 8, NGHTTP2_NV_FLAG_NONE),
    };
    nghttp2_data_provider2 provider = {.read_callback = plan_data};

    stream->head_sent = true;
    return nghttp2_submit_response2(stream->h2->session, stream->id, head, sizeof head / sizeof *head, &provider) == 0;
}

static od_code check(const od_h2_stream *stream, const od_rpc_out *out, od_error *err)
{
    size_t size;

    if (!stream->h2 || stream->ending)
        return od_fail(err, OD_E_CANCELLED, "the call has ended");
    if (out->head_len > sizeof out->head || out->tail_len > sizeof out->tail)
        return od_fail(err, OD_E_INTERNAL, "a message's head or tail is too long");
    if (out->len > 0 &&
        (!out->body || out->offset > od_msg_len(out->body) || out->len > od_msg_len(out->body) - out->offset))
        return od_fail(err, OD_E_INTERNAL, "a message's body is not within its bytes");
    if (!od_add_size(out->len, out->head_len + out->tail_len, &size) || size > stream->max_message)
        return od_fail(err, OD_E_TOO_LARGE, "a message of %zu bytes is above the limit of %zu bytes", size,
                       stream->max_message);
    return OD_OK;
}

od_code od_h2_send(od_h2_stream *stream, const od_rpc_out *message, bool last, od_error *err)
{
    od_code rc = check(stream, message, err);
    od_h2_item *item;

    if (rc != OD_OK)
        return rc;
    item = make_item(message);
    if (!item || (stream->server && !stream->head_sent && !submit_head(stream))) {
        if (item)
            free_item(item);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a message");
    }
    *stream->last = item;
    stream->last = &item->next;
    stream->queued += item->total;
    stream->ending = last;
    resume(stream);
    return OD_OK;
}

void od_h2_half_close(od_h2_stream *stream)
{
    if (!stream->h2 || stream->ending)
        return;
    stream->ending = true;
    resume(stream);
}

void od_h2_finish(od_h2_stream *stream, int status, const char *text)
{
    char number[4], coded[3 * OD_GRPC_MESSAGE_MAX];
    nghttp2_nv pairs[5];
    size_t count;

    if (!stream->h2 || stream->ending)
        return;
    stream->ending = true;
    stream->end_status = status;
    stream->end_text = od_strdup(text);
    if (stream->head_sent) {
        resume(stream);
        return;
    }
    stream->head_sent = true;
    pairs[0] = text_nv(":status", "200", 3, NGHTTP2_NV_FLAG_NONE);
    pairs[1] = text_nv("content-type", "application/grpc", 16, NGHTTP2_NV_FLAG_NONE);
    count = 2 + status_pairs(pairs + 2, status, stream->told, text, number, coded);
    if (nghttp2_submit_response2(stream->h2->session, stream->id, pairs, count, NULL) != 0)
        (void)od_h2_break(stream->h2, "out of memory");
}

void od_h2_finish_now(od_h2_stream *stream, int status, od_code code, const char *text)
{
    bool partly = stream->first && stream->first->sent > 0;

    if (!stream->h2)
        return;
    /* Trailers wait behind DATA that the peer's window holds back, and cannot follow half a message. */
    if (partly || stream->ending ||
        (stream->head_sent && nghttp2_session_get_stream_remote_window_size(stream->h2->session, stream->id) <= 0)) {
        od_h2_reset(stream, NGHTTP2_CANCEL, code, text);
        return;
    }
    od_h2_drop_queue(stream);
    stream->refused = true;
    od_h2_set_end(stream, code, status, text);
    stream->told = code;
    od_h2_finish(stream, status, text);
}
