/* query/rpc/tls.h: TLS on one connection, over a socket that never blocks. The one place that knows OpenSSL.
 *
 * The owner keeps the socket, waits for it, and moves bytes: plain ones on its side, records on the socket's. HTTP/2 (ALPN "h2")
 * is required on both sides, but for what od_tls_conn_create_http1 is for. Nothing is locked: the owner lets one thread in at a time. */
#ifndef OD_QUERY_RPC_TLS_H
#define OD_QUERY_RPC_TLS_H

#include <sys/types.h>
#include <sys/uio.h>

#include "query/rpc.h"

typedef struct od_tls_conn od_tls_conn;

typedef enum { OD_TLS_DONE, OD_TLS_AGAIN, OD_TLS_FAILED } od_tls_step;

/* What is spoken in it, in the form of ALPN. */
extern const unsigned char od_tls_alpn_h2[3], od_tls_alpn_http1[9];

/* For the connected socket FD, which stays the caller's and is closed after od_tls_conn_free. HOST (a client's, without brackets):
 * whose certificate the server has to show, a name or an address; NULL for a server. */
OD_MUST_CHECK od_code od_tls_conn_create(od_tls *tls, int fd, const char *host, od_tls_conn **out, od_error *err);
/* Of HTTP/1.1: a peer that agrees on nothing by ALPN may speak it, too. */
OD_MUST_CHECK od_code od_tls_conn_create_http1(od_tls *tls, int fd, const char *host, od_tls_conn **out, od_error *err);
/* Writes nothing. NULL allowed. */
void od_tls_conn_free(od_tls_conn *conn);
/* Tells the peer that no more bytes follow, if the socket takes that at once. NULL allowed. */
void od_tls_conn_bye(od_tls_conn *conn);

/* Goes on with the handshake as far as it can. OD_TLS_AGAIN: to be called again when the socket is readable, or
 * od_tls_conn_unsent and it is writable. OD_TLS_DONE: bytes of the peer may have come already, so od_tls_conn_read is next. */
od_tls_step od_tls_conn_handshake(od_tls_conn *conn);
bool od_tls_conn_unsent(const od_tls_conn *conn); /* records wait for the socket */

/* As readv. FRESH: asks the socket, once; else takes only what an earlier call has brought. Whoever has called it with FRESH has to
 * call it until EAGAIN, for the socket tells nothing of bytes that were read off it. 0 also at an end without a close_notify: HTTP/2
 * has ends of its own. EPROTO: see od_tls_conn_why. */
ssize_t od_tls_conn_read(od_tls_conn *conn, const struct iovec *iov, int count, bool fresh);
/* After a read gave 0: whether the socket is at its end too. A close_notify alone ends one direction. */
bool od_tls_conn_closed(od_tls_conn *conn);
/* As writev; what is taken may still have to be pushed. */
ssize_t od_tls_conn_write(od_tls_conn *conn, const struct iovec *iov, int count);
/* Sends what was taken. 0, EAGAIN, or why it cannot be. */
int od_tls_conn_push(od_tls_conn *conn);

/* What ended the handshake, or reading: "the server's certificate is refused: certificate has expired". Names no secret. */
const char *od_tls_conn_why(const od_tls_conn *conn);

#endif
