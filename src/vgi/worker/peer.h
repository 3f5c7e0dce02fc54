/* vgi/worker/peer.h: one client: its requests as Arrow IPC streams, and what is answered.
 *
 * Requests come from a descriptor or lie in memory; so do answers. One thread. */
#ifndef OD_VGI_WORKER_PEER_H
#define OD_VGI_WORKER_PEER_H

#include "arrow/ipc_read.h"
#include "arrow/record.h"
#include "vgi/wire.h"

/* No message of a client's has a larger body. */
#define VGIW_MAX_BODY ((size_t)64 << 20)

typedef struct {
    int in, out;      /* -1: the two below */
    od_slice request; /* what is left */
    od_buf *answer;
    od_ipc_reader *reader;
    od_buf head; /* of the message that is read */
    size_t ahead_at, ahead_len;
    uint8_t ahead[65536]; /* many small reads are one */
} vgiw_peer;

OD_MUST_CHECK od_code vgiw_peer_create(int in, int out, vgiw_peer **result, od_error *err);
void vgiw_peer_free(vgiw_peer *peer); /* NULL allowed; the descriptors stay open */

/* What a request's batch says beside its columns. */
typedef struct {
    od_buf method, version, protocol, state, call; /* empty: not told */
    bool has_request_version, has_protocol;
    bool request_version_known;
    bool cancel;
} vgiw_meta;

void vgiw_meta_release(vgiw_meta *meta);

/* One whole stream of one batch. *out NULL: the client has ended, between two requests.
 *   OD_E_CONNECTION_LOST  within one     OD_E_CORRUPT, OD_E_TOO_LARGE, OD_E_NOT_IMPLEMENTED  it cannot be read: the place is lost */
OD_MUST_CHECK od_code vgiw_peer_request(vgiw_peer *peer, vgiw_meta *meta, od_record **out, od_error *err);

/* Whether REQUEST has one row, or no column. OD_E_CORRUPT */
OD_MUST_CHECK od_code vgiw_check_request(const od_record *request, od_error *err);

/* The input of a scan: a stream of batches, without columns where no rows go in. */
OD_MUST_CHECK od_code vgiw_peer_begin_input(vgiw_peer *peer, od_error *err);
const struct ArrowSchema *vgiw_peer_input_schema(const vgiw_peer *peer); /* of the stream that was begun last */
/* The next batch, as ROWS, which are the caller's; NULL: they are passed over. *more false: the stream has ended. */
OD_MUST_CHECK od_code vgiw_peer_input(vgiw_peer *peer, struct ArrowArray *rows, bool *more, bool *cancel,
                                      od_error *err);

/* OD_E_IO, OD_E_CONNECTION_LOST */
OD_MUST_CHECK od_code vgiw_peer_write(vgiw_peer *peer, od_slice bytes, od_error *err);

#endif
