/* query/rpc/h2_internal.h: what the files of h2 share. */
#ifndef OD_QUERY_RPC_H2_INTERNAL_H
#define OD_QUERY_RPC_H2_INTERNAL_H

#include "query/rpc/h2.h"
#include "query/rpc/sink.h"

struct od_h2 {
    nghttp2_session *session;
    const od_h2_hooks *hooks;
    void *owner;
    od_h2_options options;
    od_h2_stream *streams;
    size_t stream_count;
    uint64_t total_received;
    od_sink sink;
    /* The DATA frame being received: what is left of it, and whose it is. */
    size_t frame_left;
    int32_t frame_stream;
    bool ping_pending, draining;
    bool broken;
    char why[160];
};

void od_h2_link(od_h2 *h2, od_h2_stream *stream, int32_t id);
/* Takes the stream off the connection and calls the closed hook. */
void od_h2_detach(od_h2_stream *stream);
/* Sets stream->end if it is not set. */
void od_h2_set_end(od_h2_stream *stream, od_code code, int status, const char *text);

/* h2_inbox.c */
void od_h2_inbox_release(od_h2_inbox *in);
void od_h2_on_data(od_h2_stream *stream, const uint8_t *bytes, size_t len);
bool od_h2_inbox_partial(const od_h2_inbox *in);
/* The free part of the message being filled, if all of it is known to come from the current frame. */
size_t od_h2_inbox_room(od_h2_stream *stream, uint8_t **at);

/* h2_recv.c */
void od_h2_recv_callbacks(nghttp2_session_callbacks *callbacks);

/* h2_send.c */
void od_h2_send_callbacks(nghttp2_session_callbacks *callbacks);
void od_h2_drop_queue(od_h2_stream *stream);

#endif
