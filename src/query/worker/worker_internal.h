/* query/worker, inside: the worker and one run, between running it (run.c), watching it (worker.c) and its service (serve.c). */
#ifndef OD_QUERY_WORKER_INTERNAL_H
#define OD_QUERY_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/pool.h"
#include "query/wire.h"
#include "query/worker.h"

#define OD_WORKER_MAX_WAITING 4096 /* runs that may wait for a thread */

#define OD_WORKER_WITHDRAWN "the access token was withdrawn"

#define OD_WORKER_TOMBS 128 /* transactions whose end is remembered */

typedef struct {
    char id[OD_EXECUTION_ID_SIZE];
    char why[200];
} od_tomb;

struct od_worker {
    od_engine *engine;
    const char *version;
    od_tokens *tokens, *own_tokens; /* OWN_TOKENS: those that were made here */
    od_pool *pool;
    od_pool *
        follow_pool; /* further streams of results: they must not keep threads from executions, which they may wait for */
    od_pool *txn_pool; /* begins and ends transactions, so that these need not wait for what runs */
    unsigned max_transactions;
    int64_t idle_ns; /* 0: no limit */
    unsigned max_concurrency;
    int64_t timeout_ns; /* 0: none */
    int64_t start_ns;
    void (*on_fatal)(void *arg, const char *why);
    void *on_fatal_arg;
    od_worker_failed on_failure; /* NULL: nobody asks */
    void *on_failure_arg;
    atomic_bool lost;      /* DuckDB's instance is of no more use */
    atomic_uint in_flight; /* runs started and not done */
    _Atomic uint64_t total, errors, cancelled;

    pthread_mutex_t lock; /* what follows */
    od_wtxn *txns;
    unsigned txn_count; /* in the list, or about to be */
    od_tomb *tombs;
    size_t next_tomb;
    pthread_cond_t changed;
    od_worker_run *runs; /* all that are in flight */
    int64_t watch_until; /* when the watch looks again */
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
    od_worker_run *leader;              /* whose result it is a further stream of; NULL: it is an execution */
    od_follower *follower;              /* with a LEADER that can be followed; its thread's */
    od_rights *rights;                  /* its caller's; NULL: all */
    const od_worker_run_events *events; /* NULL: nobody asks */
    void *events_arg;
    atomic_uint refs;
    int64_t start_ns;
    _Atomic uint64_t bytes;
    _Atomic int64_t busy_since_ns; /* since when DuckDB works on the next payload; 0: it does not */

    od_worker_run *next, **prev; /* worker->runs, under its lock */

    pthread_mutex_t lock; /* execution, stop, abandoned, reason */
    od_execution *execution;
    od_code stop;   /* OD_OK: go on */
    bool abandoned; /* stopped because nobody reads it */
    char reason[200];
};

/* Creates a run, enters it and hands it to the pool. UNIQUE: OD_E_EXISTS if a run of this id is in flight. */
OD_MUST_CHECK od_code od_run_create(od_worker *worker, od_rpc_call *call, od_msg *request, const char *execution_id,
                                    bool unique, od_rights *rights, const od_worker_run_events *events, void *arg,
                                    od_worker_run **out, od_error *err);
/* The run of this id with a reference, or NULL. */
od_worker_run *od_run_find(od_worker *worker, od_slice execution_id);
/* OD_E_CANCELLED and the like once it shall stop. */
OD_MUST_CHECK od_code od_run_stopped(od_worker_run *run, od_error *err);
/* Sends OUT as soon as there is room, unless RUN, or LEADER (NULL: none), whose bytes they are too, is stopped before. */
OD_MUST_CHECK od_code od_run_send(od_worker_run *run, od_worker_run *leader, const od_rpc_out *out, od_error *err);
/* DuckDB has given rows to somebody who reads its result: it makes progress. */
void od_run_heard(od_worker_run *run);
/* follow.c: RUN, which has a leader. */
OD_MUST_CHECK od_code od_follow_open(od_worker_run *run, od_error *err);
void od_follow_main(void *arg);
/* txn.c. Under the worker's lock: rolls back those that are idle for too long; *next_ns: when the next one may be (INT64_MAX: none). */
void od_wtxn_expire(od_worker *worker, int64_t now_ns, int64_t *next_ns);
void od_wtxn_withdraw(od_worker *worker); /* under the worker's lock: rolls back those whose rights were */
void od_wtxn_end_all(od_worker *worker);  /* when nothing runs any more */
/* Begins or ends one, by CALL's path. */
void od_wtxn_call(od_worker *worker, od_rpc_call *call, od_msg *msg, od_rights *rights);
/* CALL ends with REPLY. */
void od_wtxn_reply(od_worker *worker, od_rpc_call *call, const od_rights *rights, od_reply_kind kind,
                   const od_write_reply *reply);

/* ingest.c */
void od_intake_open(od_worker *worker, od_rpc_call *call, od_msg *msg, od_rights *rights);
/* feeding.c: one with a statement, whose METADATA has come. */
void od_feeding_open(od_worker *worker, od_rpc_call *call, const od_ingest_metadata *metadata, od_rights *rights);

void od_run_main(void *arg);                                 /* the run */
void od_worker_lose(od_worker *worker, const od_error *why); /* a run ended with OD_E_FATAL */
void od_run_leave(od_worker_run *run);                       /* out of worker->runs */

#endif
