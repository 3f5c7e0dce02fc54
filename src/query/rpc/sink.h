/* query/rpc/sink.h: bytes on their way to a socket: small ones copied, bodies of messages borrowed. */
#ifndef OD_QUERY_RPC_SINK_H
#define OD_QUERY_RPC_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"

enum { OD_SINK_BYTES = 64 << 10, OD_SINK_PIECES = 32 };

typedef ssize_t (*od_sink_write)(void *owner, const struct iovec *iov, int count);

/* Zero-initialise. Whatever it has taken goes out whole and in order. */
typedef struct {
    uint8_t *bytes; /* OD_SINK_BYTES, made at first use */
    size_t used;
    struct {
        const uint8_t *at;
        size_t len;
        od_msg *owner; /* NULL: lies in bytes */
    } pieces[OD_SINK_PIECES];
    unsigned first, count;
    size_t pending;
    bool blocked; /* the socket took no more */
} od_sink;

void od_sink_release(od_sink *sink);
/* Room for COPIED more bytes and PIECES more pieces? */
bool od_sink_has_room(const od_sink *sink, size_t copied, unsigned pieces);
size_t od_sink_room(const od_sink *sink); /* for copied bytes */
/* Both need room. false when memory is out. */
bool od_sink_copy(od_sink *sink, const void *data, size_t len);
void od_sink_borrow(od_sink *sink, od_msg *msg, size_t offset, size_t len);
/* Writes until empty or blocked. 0, or errno. */
int od_sink_flush(od_sink *sink, od_sink_write write, void *owner);

#endif
