/* query/rpc/socket.h: TCP sockets: non-blocking, close-on-exec, never SIGPIPE. */
#ifndef OD_QUERY_RPC_SOCKET_H
#define OD_QUERY_RPC_SOCKET_H

#include <netdb.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "query/rpc.h"

/* As od_endpoint_parse, but port 0 is allowed. */
OD_MUST_CHECK od_code od_listen_parse(od_slice text, od_endpoint *out, od_error *err);

/* The addresses of ENDPOINT (freeaddrinfo). Blocks on name servers unless NUMERIC_ONLY, which gives OD_E_INVALID for names.
 *   OD_E_UNAVAILABLE  "cannot resolve 'host:port': ..." */
OD_MUST_CHECK od_code od_socket_resolve(const od_endpoint *endpoint, bool numeric_only, struct addrinfo **out,
                                        od_error *err);

/* Begins to connect to one address: *fd is writable once that ended, and od_socket_connect_result tells how. 0 or errno. */
int od_socket_connect_start(const struct addrinfo *address, int *fd);
int od_socket_connect_result(int fd);

/* Waits until FD has one of EVENTS (of poll). 0, ETIMEDOUT, ECANCELED after an interrupt, or an errno. */
int od_socket_wait(int fd, short events, od_deadline deadline, od_interrupt interrupt);

/* Resolves, and connects to the first address that answers before DEADLINE. INTERRUPT is asked every 50 ms.
 *   OD_E_UNAVAILABLE, OD_E_CANCELLED */
OD_MUST_CHECK od_code od_socket_connect(const od_endpoint *endpoint, od_deadline deadline, od_interrupt interrupt,
                                        int *fd, od_error *err);

/* OD_E_UNAVAILABLE "cannot listen on 'host:port': ..." for a connection that failed with ERRNUM. */
od_code od_socket_connect_failed(const od_endpoint *endpoint, int errnum, od_error *err);

OD_MUST_CHECK od_code od_socket_listen(const od_endpoint *endpoint, int *fd, uint16_t *port, od_error *err);

/* For a connected socket: TCP_NODELAY, keepalive probes, and the time after which unacknowledged bytes break it. */
void od_socket_tune(int fd, int64_t user_timeout_ms);

/* "127.0.0.1:54321" of the other end. */
void od_socket_peer_name(int fd, char *out, size_t size);

/* writev that never raises SIGPIPE. */
ssize_t od_socket_write(int fd, const struct iovec *iov, int count);

/* Bytes that the peer's kernel has acknowledged so far; -1 if unknown. */
int64_t od_socket_acked(int fd);

#endif
