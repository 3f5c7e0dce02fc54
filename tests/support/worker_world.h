/* A worker of ours (support/numbers_worker.h) that listens, and a client of ours that has attached it. */
#ifndef WORKER_WORLD_H
#define WORKER_WORLD_H

#include <pthread.h>

#include "support/numbers_worker.h"
#include "vgi/client.h"
#include "vgi/wire.h"

typedef struct {
    numbers_state state;
    od_vgiw *worker;
    bool http;
    char folder[64], path[96], location[320];
    pthread_mutex_t lock;
    pthread_cond_t ready;
    pthread_t thread;
    od_vgi *vgi;
    od_vgi_attached attached;
    od_vgi_context context;
} world;

/* A client that is attached, and speaks DIALECT. */
void world_begin(world *w, bool http, const od_vgi_dialect *dialect);
/* Nothing is open any more at the worker, which CHECKs that. */
void world_end(world *w);
/* CHECK over a socket and by HTTP, in each dialect. */
void world_each_way(void (*check)(world *w));

#endif
