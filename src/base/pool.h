/* base/pool.h: threads for work that blocks, started when there is work and ended when there is none.
 *
 * A task goes to the thread that went idle last (its caches are warm), else to a new thread, else into a bounded
 * queue, first in first out. Threads are joined, never detached: after od_pool_free none of the pool's code runs, so a
 * shared library may be unloaded. They block all signals that a process can be sent. */
#ifndef OD_BASE_POOL_H
#define OD_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/deadline.h"
#include "base/error.h"

typedef struct od_pool od_pool;
typedef void (*od_pool_fn)(void *arg);

typedef struct {
    const char *name;     /* shown by top and gdb, cut to 15 bytes; copied */
    unsigned max_threads; /* 1 to OD_POOL_MAX_THREADS */
    size_t max_queued;    /* tasks that may wait while all threads are busy; up to OD_POOL_MAX_QUEUED, 0 allowed */
    int64_t idle_ms;      /* a thread ends after so long without work; 0: OD_POOL_IDLE_MS */
} od_pool_options;

#define OD_POOL_MAX_THREADS 65536
#define OD_POOL_MAX_QUEUED 1048576
#define OD_POOL_IDLE_MS 10000

typedef struct {
    unsigned threads; /* that live */
    unsigned busy;    /* that run a task */
    size_t queued;
} od_pool_stats;

/* Starts no thread yet. *out is NULL on failure; OD_E_INVALID: an option out of its range. */
OD_MUST_CHECK od_code od_pool_create(const od_pool_options *options, od_pool **out, od_error *err);

/* Has FN(ARG) run on a thread of the pool, once. Never waits for a task. On failure FN is not called:
 *   OD_E_BUSY           all threads work and the queue is full, or no thread can be started
 *   OD_E_NO_MEMORY      for a thread
 *   OD_E_PRECONDITION   the pool drains
 * Thread: any, tasks too. */
OD_MUST_CHECK od_code od_pool_submit(od_pool *pool, od_pool_fn fn, void *arg, od_error *err);

/* Refuses new tasks from now on, and waits until what was taken is done. OD_E_TIMEOUT: something still runs or waits;
 * call it again, or make the tasks end. Thread: any but the pool's own. */
OD_MUST_CHECK od_code od_pool_drain(od_pool *pool, od_deadline deadline, od_error *err);

od_pool_stats od_pool_read_stats(od_pool *pool);

/* Drains without a deadline, joins every thread. NULL allowed. Nobody else uses POOL any more; not from a task. */
void od_pool_free(od_pool *pool);

#endif
