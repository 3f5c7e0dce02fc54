/* query/engine/settle.h: executions that were told to stop and have not ended yet.
 *
 * A client goes on as soon as it has cancelled; with a database of its own it would only once the statement is over. So what
 * DuckDB refuses beside another transaction (an index on what was updated meanwhile, a checkpoint) waits for those here. */
#ifndef OD_QUERY_ENGINE_SETTLE_H
#define OD_QUERY_ENGINE_SETTLE_H

#include <pthread.h>
#include <stdatomic.h>

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int stopping; /* how many */
} od_settle;

void od_settle_init(od_settle *settle);
void od_settle_destroy(od_settle *settle);
/* An execution is told to stop: sets STOPPED, which is its own. May be called again. */
void od_settle_begin(od_settle *settle, atomic_bool *stopped);
/* An execution has ended, told so or not; nobody else can reach STOPPED any more. */
void od_settle_end(od_settle *settle, const atomic_bool *stopped);
/* Returns when none is left, or the caller is STOPPED itself, at the latest after some seconds. */
void od_settle_wait(od_settle *settle, const atomic_bool *stopped);

#endif
