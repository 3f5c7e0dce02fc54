/* query/rpc/client.h: what the blocking client's files share: connections of a channel. */
#ifndef OD_QUERY_RPC_CLIENT_H
#define OD_QUERY_RPC_CLIENT_H

#include <sys/types.h>

#include "query/rpc/h2.h"
#include "query/rpc/tls.h"

/* A connection, idle in its channel's pool or lent to one running call. */
typedef struct od_client_conn {
    struct od_client_conn *next;
    int fd;
    od_tls_conn *tls; /* NULL: plain */
    int wake;         /* eventfd, for od_call_cancel */
    pid_t pid;        /* who made it; after a fork the child only closes its copy */
    od_h2 *h2;
    uint8_t *input;
    bool reused; /* has served a call before */
    bool ended;  /* the peer has closed it in order; a reset is no such end */
    /* Where the hooks of its only stream go. */
    bool closed;
} od_client_conn;

/* An idle connection that is alive, or a new one. */
OD_MUST_CHECK od_code od_channel_take(od_channel *channel, bool only_new, od_deadline deadline, od_interrupt interrupt,
                                      od_client_conn **out, od_error *err);
/* Gives it back, to be kept or closed. */
void od_channel_give(od_channel *channel, od_client_conn *conn);
void od_client_conn_free(od_client_conn *conn);
/* Reads what an idle connection's socket has; false: it is dead. */
bool od_client_conn_alive(od_client_conn *conn);
size_t od_channel_max_message(const od_channel *channel);
const od_rpc_header *od_channel_headers(const od_channel *channel, size_t *count);

typedef enum { OD_READ_SOME, OD_READ_NOTHING, OD_READ_LOST } od_read_result;
/* Reads what the socket has, once. */
od_read_result od_client_conn_read(od_client_conn *conn);

#endif
