/* query/tls_stream.h: TLS for something else than gRPC: HTTP/1.1, on a socket that never blocks.
 *
 * One thread at a time uses a stream. The handshake is part of reading, which therefore comes first; or it is done by itself. */
#ifndef OD_QUERY_TLS_STREAM_H
#define OD_QUERY_TLS_STREAM_H

#include <sys/types.h>

#include "query/rpc.h"

typedef struct od_tls_stream od_tls_stream;

/* For the connected socket FD, which stays the caller's and is closed after od_tls_stream_close. TLS: a server's. OD_E_NO_MEMORY */
OD_MUST_CHECK od_code od_tls_stream_accept(od_tls *tls, int fd, od_tls_stream **out, od_error *err);
/* TLS: a client's, and HOST whom the certificate of the server has to be for, a name or an address. OD_E_NO_MEMORY */
OD_MUST_CHECK od_code od_tls_stream_connect(od_tls *tls, int fd, const char *host, od_tls_stream **out, od_error *err);
/* Goes on with the handshake. 0, EAGAIN as of reading, or EPROTO. */
int od_tls_stream_shake(od_tls_stream *stream);
/* What ended the handshake, or reading; names no secret. */
const char *od_tls_stream_why(const od_tls_stream *stream);
/* Tells the peer that no more bytes follow, if the socket takes that at once. NULL allowed. */
void od_tls_stream_close(od_tls_stream *stream);

/* As recv and send. EAGAIN: the socket has to become readable or, while od_tls_stream_unsent, writable. Reading has to go on until EAGAIN,
 * for the socket tells nothing of bytes that were taken off it already. EPROTO: the peer does not speak TLS as it must. */
ssize_t od_tls_stream_read(od_tls_stream *stream, void *to, size_t len);
ssize_t od_tls_stream_write(od_tls_stream *stream, const void *from, size_t len);
/* Sends what was taken. 0, EAGAIN, or why it cannot be. */
int od_tls_stream_flush(od_tls_stream *stream);
bool od_tls_stream_unsent(const od_tls_stream *stream);

#endif
