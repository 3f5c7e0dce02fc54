/* The calls that failed last, for whoever asks what went wrong. */
#ifndef OD_QUERY_GATEWAY_FAILURES_H
#define OD_QUERY_GATEWAY_FAILURES_H

#include <pthread.h>

#include "query/gateway.h"

/* Embedded, zeroed but for its lock. */
typedef struct {
    pthread_mutex_t lock; /* what follows */
    od_gateway_failure ring[OD_GATEWAY_FAILURES];
    size_t at, count; /* where the next one goes; how many there are */
} failures;

/* CALL, of somebody with RIGHTS, has failed. WHY's message is kept as far as its first line: a database's own text goes on with the
 * statement. */
void failures_add(failures *f, const od_rpc_call *call, const od_rights *rights, const char *execution_id,
                  od_slice database, const od_error *why);

#endif
