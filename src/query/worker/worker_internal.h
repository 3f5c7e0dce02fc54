/* query/worker, inside: the worker and one run, between running it (run.c), watching it (worker.c) and its service (serve.c). */
#ifndef OD_QUERY_WORKER_INTERNAL_H
#define OD_QUERY_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/pool.h"
#include "query/wire.h"
#include "query/worker.h"

#define OD_WORKER_MAX_WAITING 4096 /* runs that may wait for a thread */

struct od_worker {
    od_engine *engine;
    const char *version;
    const od_secret *token;
    od_pool *pool;
    unsigned max_concurrency;
    int64_t timeout_ns; /* 0: none */
    int64_t start_ns;
    void (*on_fatal)(void *arg, const char *why);
    void *on_fatal_arg;
    atomic_bool lost;      /* DuckDB's instance is of no more use */
    atomic_uint in_flight; /* runs started and not done */
    _Atomic uint64_t total, errors, cancelled;

    pthread_mutex_t lock; /* runs, stopping */
    pthread_cond_t changed;
    od_worker_run *runs; /* all that are in flight */
    bool stopping;
    bool watch_sleeps; /* the watch waits for a run */
    pthread_t watch;
    bool watching;
};

struct od_worker_run {
    od_worker *worker;
    od_rpc_call *call;
    od_msg *request;
    char id[OD_EXECUTION_ID_SIZE];
    od_worker_done done;
    void *done_arg;
    atomic_uint refs;
    int64_t start_ns;
    _Atomic uint64_t bytes;
    _Atomic int64_t busy_since_ns; /* since when DuckDB works on the next payload; 0: it does not */

    od_worker_run *next, **prev; /* worker->runs, under its lock */

    pthread_mutex_t lock; /* execution, stop, reason */
    od_execution *execution;
    od_code stop; /* OD_OK: go on */
    char reason[200];
};

/* Creates a run, enters it and hands it to the pool. UNIQUE: OD_E_EXISTS if a run of this id is in flight. */
OD_MUST_CHECK od_code od_run_create(od_worker *worker, od_rpc_call *call, od_msg *request, const char *execution_id,
                                    bool unique, od_worker_done done, void *arg, od_worker_run **out, od_error *err);
/* The run of this id with a reference, or NULL. */
od_worker_run *od_run_find(od_worker *worker, od_slice execution_id);
void od_run_main(void *arg);                                 /* the run */
void od_worker_lose(od_worker *worker, const od_error *why); /* a run ended with OD_E_FATAL */
void od_run_leave(od_worker_run *run);                       /* out of worker->runs */

#endif
