/* vgi/worker/connections.h: connections to a socket that listens, each with a thread. */
#ifndef OD_VGI_WORKER_CONNECTIONS_H
#define OD_VGI_WORKER_CONNECTIONS_H

#include "vgi/worker/worker_internal.h"

typedef struct {
    const od_vgiw *worker;
    int listener;                     /* non-blocking; closed in the end */
    unsigned max;                     /* 0: 64 */
    void (*serve)(void *arg, int fd); /* until the connection ends; does not close it */
    void *arg;
} vgiw_connections;

/* Until the worker is stopped, and all of them have ended. */
OD_MUST_CHECK od_code vgiw_connections_run(const vgiw_connections *options, od_error *err);

#endif
