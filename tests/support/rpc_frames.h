/* support/rpc_frames.h: HTTP/2 frames by hand, for peers that nobody would write on purpose. */
#ifndef OD_TESTS_RPC_FRAMES_H
#define OD_TESTS_RPC_FRAMES_H

#include "base/buf.h"

enum {
    FRAME_DATA = 0,
    FRAME_HEADERS = 1,
    FRAME_RST = 3,
    FRAME_SETTINGS = 4,
    FRAME_PING = 6,
    FRAME_GOAWAY = 7,
    FRAME_WINDOW = 8
};
enum { FLAG_END_STREAM = 1, FLAG_ACK = 1, FLAG_END_HEADERS = 4 };

void frames_raw(od_buf *out, const void *bytes, size_t len);
void frames_preface(od_buf *out); /* a client's magic and empty SETTINGS */
void frame_add(od_buf *out, uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t len);
/* NAME, VALUE, ..., NULL */
void frame_headers(od_buf *out, uint8_t flags, uint32_t stream, ...);
/* The head of a gRPC request, with the usual fields. */
void frame_request(od_buf *out, uint32_t stream, const char *path);
/* DATA with one gRPC message. */
void frame_message(od_buf *out, uint8_t flags, uint32_t stream, const char *text);
void frame_reset(od_buf *out, uint32_t stream, uint32_t code);

/* Is there a frame of TYPE with FLAGS set in BYTES? Its payload goes to *PAYLOAD (may be NULL). STREAM 0: any. */
bool frames_find(od_slice bytes, uint8_t type, uint8_t flags, uint32_t stream, od_slice *payload);
bool slice_contains(od_slice bytes, const char *text);

#endif
