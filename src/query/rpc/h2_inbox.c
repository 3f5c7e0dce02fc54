/* Received bytes to messages. Nothing is trusted: a length is checked against the limit, and memory follows the bytes. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "query/rpc/h2_internal.h"
#include "base/banned.h"

enum {
    EAGER_SIZE = 4 << 20, /* up to here a message's memory is taken at once */
    MAX_WAITING = 256 /* whole messages that wait; what follows stays unparsed, so tiny ones cannot cost much memory */
};

void od_h2_inbox_release(od_h2_inbox *in)
{
    for (; in->count > 0; in->count--, in->first++)
        od_msg_unref(in->ring[in->first % in->cap].msg);
    od_free(in->ring);
    od_msg_unref(in->msg);
    od_buf_release(&in->backlog);
    *in = (od_h2_inbox){.wanted = in->wanted};
}

bool od_h2_inbox_partial(const od_h2_inbox *in)
{
    return in->prefix_len > 0 || in->backlog.len > 0;
}

bool od_h2_has_message(const od_h2_stream *stream)
{
    return stream->in.count > 0;
}

static void give_window(od_h2_stream *stream, size_t bytes)
{
    if (stream->h2 && bytes > 0)
        (void)nghttp2_session_consume_stream(stream->h2->session, stream->id, bytes);
}

static bool push(od_h2_inbox *in, od_msg *msg)
{
    if (in->count == in->cap) {
        size_t cap = in->cap ? 2 * in->cap : 4;
        od_h2_received_msg *ring = od_calloc(cap, sizeof *ring);
        if (!ring)
            return false;
        for (size_t i = 0; i < in->count; i++)
            ring[i] = in->ring[(in->first + i) % in->cap];
        od_free(in->ring);
        in->ring = ring;
        in->cap = cap;
        in->first = 0;
    }
    in->ring[(in->first + in->count) % in->cap] = (od_h2_received_msg){msg, in->held};
    in->count++;
    in->held = 0;
    return true;
}

/* What the peer did wrong: ends the stream on both sides. */
static void refuse(od_h2_stream *stream, int status, od_code code, const char *text)
{
    if (!stream->h2) { /* closed already, and found in what was left to parse */
        od_free(stream->end.text);
        stream->end.set = false;
        stream->end.at_once = true;
        od_h2_set_end(stream, code, status, text);
        od_h2_inbox_release(&stream->in);
    } else if (stream->server) {
        od_h2_finish_now(stream, status, code, text);
    } else {
        od_h2_reset(stream, NGHTTP2_CANCEL, code, text);
    }
}

/* The five bytes before a message are whole. false: the stream has been ended. */
static bool begin_message(od_h2_stream *stream)
{
    od_h2_inbox *in = &stream->in;
    char text[160];
    size_t first;

    in->len = (size_t)in->prefix[1] << 24 | (size_t)in->prefix[2] << 16 | (size_t)in->prefix[3] << 8 | in->prefix[4];
    in->got = 0;
    if (in->prefix[0] != 0) {
        refuse(stream, stream->server ? OD_GRPC_UNIMPLEMENTED : OD_GRPC_INTERNAL,
               stream->server ? OD_E_NOT_IMPLEMENTED : OD_E_PROTOCOL, "compressed messages are not supported");
        return false;
    }
    if (in->len > stream->max_message) {
        snprintf(text, sizeof text, "a message of %zu bytes is above the limit of %zu bytes", in->len,
                 stream->max_message);
        refuse(stream, OD_GRPC_RESOURCE_EXHAUSTED, OD_E_TOO_LARGE, text);
        return false;
    }
    first = in->len < EAGER_SIZE ? in->len : EAGER_SIZE;
    if (od_msg_create(first, stream->skew, &in->msg, NULL) != OD_OK) {
        refuse(stream, OD_GRPC_RESOURCE_EXHAUSTED, OD_E_NO_MEMORY, "out of memory for a message");
        return false;
    }
    return true;
}

/* Makes room for more of the message being filled. */
static bool grow(od_h2_stream *stream)
{
    od_h2_inbox *in = &stream->in;
    size_t size = in->len / 2 < in->got ? in->len : 2 * in->got;
    od_msg *more;

    if (od_msg_create(size, stream->skew, &more, NULL) != OD_OK)
        return false;
    memcpy(od_msg_data(more), od_msg_data(in->msg), in->got);
    od_msg_unref(in->msg);
    in->msg = more;
    return true;
}

static bool end_message(od_h2_stream *stream)
{
    od_h2_inbox *in = &stream->in;

    if (!push(in, in->msg)) {
        refuse(stream, OD_GRPC_RESOURCE_EXHAUSTED, OD_E_NO_MEMORY, "out of memory for a message");
        return false;
    }
    in->msg = NULL;
    in->prefix_len = 0;
    return true;
}

/* Takes bytes of the prefix or the body; the number taken, or 0 if the stream has been ended. */
static size_t parse_some(od_h2_stream *stream, const uint8_t *bytes, size_t len)
{
    od_h2_inbox *in = &stream->in;
    size_t n;

    if (in->prefix_len < sizeof in->prefix) {
        n = sizeof in->prefix - in->prefix_len;
        n = n < len ? n : len;
        memcpy(in->prefix + in->prefix_len, bytes, n);
        in->prefix_len += n;
        in->held += n;
        if (in->prefix_len == sizeof in->prefix && (!begin_message(stream) || (in->len == 0 && !end_message(stream))))
            return 0;
        return n;
    }
    if (in->got == od_msg_len(in->msg) && !grow(stream)) {
        refuse(stream, OD_GRPC_RESOURCE_EXHAUSTED, OD_E_NO_MEMORY, "out of memory for a message");
        return 0;
    }
    n = od_msg_len(in->msg) - in->got;
    n = n < len ? n : len;
    /* Equal when the socket was read straight into the message. */
    if (od_msg_data(in->msg) + in->got != bytes)
        memcpy(od_msg_data(in->msg) + in->got, bytes, n);
    in->got += n;
    in->held += n;
    if (in->got == in->len && !end_message(stream))
        return 0;
    return n;
}

/* Parses until the ring is full; *used is how far it came. false: the stream has been ended. */
static bool parse(od_h2_stream *stream, const uint8_t *bytes, size_t len, size_t *used)
{
    *used = 0;
    while (*used < len && stream->in.count < MAX_WAITING) {
        size_t n = parse_some(stream, bytes + *used, len - *used);
        if (n == 0)
            return false;
        *used += n;
    }
    return true;
}

static void keep(od_h2_stream *stream, const uint8_t *bytes, size_t len)
{
    od_h2_inbox *in = &stream->in;

    if (len == 0)
        return;
    if (in->backlog_at > in->backlog.len / 2) {
        in->backlog.len -= in->backlog_at;
        memmove(in->backlog.data, in->backlog.data + in->backlog_at, in->backlog.len);
        in->backlog_at = 0;
    }
    if (od_buf_append(&in->backlog, bytes, len, NULL) != OD_OK)
        refuse(stream, OD_GRPC_RESOURCE_EXHAUSTED, OD_E_NO_MEMORY, "out of memory for a message");
}

/* Gives back the window of the message being filled, if somebody waits for it. */
static void settle(od_h2_stream *stream)
{
    od_h2_inbox *in = &stream->in;

    if (in->wanted <= in->count)
        return;
    give_window(stream, in->held);
    in->held = 0;
}

void od_h2_on_data(od_h2_stream *stream, const uint8_t *bytes, size_t len)
{
    od_h2_inbox *in = &stream->in;
    od_h2 *h2 = stream->h2;
    size_t used = 0;

    stream->bytes_received += len;
    if (in->backlog.len == 0 && !parse(stream, bytes, len, &used))
        return;
    keep(stream, bytes + used, len - used);
    if (!stream->h2)
        return;
    settle(stream);
    if (in->count > 0 && in->wanted > 0)
        h2->hooks->received(h2->owner, stream);
}

/* Parses what came while the ring was full; also after a clean end of the stream. */
static void parse_backlog(od_h2_stream *stream)
{
    od_h2_inbox *in = &stream->in;
    size_t used;

    if (!parse(stream, in->backlog.data + in->backlog_at, in->backlog.len - in->backlog_at, &used))
        return;
    in->backlog_at += used;
    if (in->backlog_at < in->backlog.len)
        return;
    od_buf_release(&in->backlog);
    in->backlog_at = 0;
    if (!stream->h2 && in->prefix_len > 0)
        refuse(stream, OD_GRPC_INTERNAL, OD_E_PROTOCOL, "the stream ended within a message");
}

void od_h2_want(od_h2_stream *stream)
{
    stream->in.wanted++;
    settle(stream);
}

od_msg *od_h2_take(od_h2_stream *stream)
{
    od_h2_inbox *in = &stream->in;
    od_h2_received_msg got;

    if (in->wanted == 0 || in->count == 0)
        return NULL;
    got = in->ring[in->first];
    in->first = (in->first + 1) % in->cap;
    in->count--;
    in->wanted--;
    give_window(stream, got.held);
    if (in->count == 0 && in->backlog.len > 0)
        parse_backlog(stream);
    settle(stream);
    return got.msg;
}

size_t od_h2_inbox_room(od_h2_stream *stream, uint8_t **at)
{
    od_h2_inbox *in = &stream->in;

    /* Of a message that was refused there is none, though its head was read. */
    if (in->prefix_len < sizeof in->prefix || !in->msg || in->backlog.len > 0 || in->count >= MAX_WAITING)
        return 0;
    if (in->got == od_msg_len(in->msg) && !grow(stream))
        return 0;
    *at = od_msg_data(in->msg) + in->got;
    return od_msg_len(in->msg) - in->got;
}
