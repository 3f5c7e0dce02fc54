/* query/worker.h: runs fragments on an engine and streams their results.
 *
 * Serves ExecutionService on a listener of its own (od_worker_methods), or lends its hands to a gateway in the same process
 * (od_worker_run_start), with no hop between. */
#ifndef OD_QUERY_WORKER_H
#define OD_QUERY_WORKER_H

#include "base/secret.h"
#include "query/engine.h"
#include "query/rights.h"
#include "query/rpc.h"

typedef struct {
    od_engine *engine;        /* borrowed */
    od_tokens *tokens;        /* who may do what; borrowed; NULL: made of TOKEN */
    const od_secret *token;   /* copied; NULL or empty: dev mode, every token passes */
    unsigned max_concurrency; /* executions at once; further ones wait; 0: 64 */
    int64_t
        execute_timeout_ms; /* longest time that DuckDB may take for the next payload; 0: 300,000; negative: no limit */
    const char *version;    /* for status; borrowed; NULL: "" */
    /* DuckDB has given its instance up, or a database (OD_E_FATAL): no statement will run in it any more. Told once, on a run's thread; may be NULL. */
    void (*on_fatal)(void *arg, const char *why);
    void *on_fatal_arg;
    unsigned max_transactions; /* open at once; 0: 256 */
    int64_t
        transaction_idle_ms; /* one that nothing runs in for so long is rolled back; 0: 300,000; negative: no limit */
} od_worker_options;

typedef struct od_worker od_worker;
typedef struct od_worker_run od_worker_run; /* counted */

OD_MUST_CHECK od_code od_worker_create(const od_worker_options *options, od_worker **out, od_error *err);
void od_worker_free(od_worker *worker); /* waits for its runs; cancel them first */

/* Has FN told of calls that begin, fill or end a transaction and fail; what becomes of a run, on_done tells. Before any call. On any
 * thread; not when the client is gone. */
typedef void (*od_worker_failed)(void *arg, const od_rpc_call *call, const od_rights *rights, const od_error *why);
void od_worker_watch_failures(od_worker *worker, od_worker_failed fn, void *arg);

/* How a run ended. */
typedef struct {
    const od_error *error; /* NULL: it ended well */
    uint64_t bytes;
    uint64_t rows_payloads;
} od_worker_outcome;
/* What becomes of a run, each told once, on the thread that ran it. */
typedef struct {
    /* Its end is sent next: once the client knows of that, it may use the id again, and expects to be counted. ERROR as in the outcome. */
    void (*on_over)(void *arg, const od_error *error);
    void (*on_done)(void *arg,
                    const od_worker_outcome *outcome); /* its last byte is queued, its connection given back */
} od_worker_run_events;

/* Runs REQUEST (a whole ExecuteFragmentRequest message, referenced) and streams chunks and status into CALL, whatever happens;
 * then on_done. EVENTS lives as long as the worker. The token has been checked by the caller. RIGHTS (referenced) are its caller's. EXECUTION_ID is what errors name. Does not block: the work is done on a
 * thread of the worker's pool. */
OD_MUST_CHECK od_code od_worker_run_start(od_worker *worker, od_rpc_call *call, od_msg *request,
                                          const char *execution_id, od_rights *rights,
                                          const od_worker_run_events *events, void *arg, od_worker_run **out,
                                          od_error *err);
/* Runs REQUEST, which follows the execution of LEADER: a further stream of its result, with what LEADER's own stream does not get; empty
 * if there is nothing left, or it cannot be followed. It is no execution: LEADER is counted and listed, stopped and timed out alone, and
 * fails for both. Does not block, and takes no thread that executions could wait for.
 *   OD_E_PERMISSION   LEADER is another token's     OD_E_BUSY   as many streams as may be are open */
OD_MUST_CHECK od_code od_worker_follow_start(od_worker *worker, od_rpc_call *call, od_msg *request,
                                             od_worker_run *leader, od_rights *rights,
                                             const od_worker_run_events *events, void *arg, od_worker_run **out,
                                             od_error *err);
/* Any thread: DuckDB's work stops; the stream ends with an error chunk of CODE (OD_E_CANCELLED, OD_E_TIMEOUT) if its call is
 * still there. */
void od_worker_run_cancel(od_worker_run *run, od_code code, const char *reason);
/* True once its client can know that it ended. */
bool od_worker_run_over(const od_worker_run *run);
/* As _cancel, for one that nobody reads any more; od_execution_abandon. */
void od_worker_run_abandon(od_worker_run *run, const char *reason);
/* Sent so far, messages as on the wire, on all its streams. Any thread. */
uint64_t od_worker_run_bytes(const od_worker_run *run);
void od_worker_run_unref(od_worker_run *run);

/* Takes over CALL, of BeginTransaction, CommitTransaction, RollbackTransaction or IngestData, whose first message MSG (referenced) has
 * come and whose token has RIGHTS (referenced): its events are the worker's from here on. On CALL's loop. A transaction belongs to the
 * connection on which it was begun: when that is closed, it is rolled back. */
void od_worker_take(od_worker *worker, od_rpc_call *call, od_msg *msg, od_rights *rights);

/* A transaction that is open at the worker, for a gateway in its process that runs something in it itself. */
typedef struct od_wtxn od_wtxn;

/* That of ID, in use until od_wtxn_leave. OD_E_NO_TRANSACTION says how it ended; OD_E_PERMISSION: RIGHTS are of another token than
 * began it. Any thread. */
OD_MUST_CHECK od_code od_wtxn_use(od_worker *worker, od_slice id, const od_rights *rights, od_wtxn **out,
                                  od_error *err);
void od_wtxn_leave(od_wtxn *wtxn);        /* NULL allowed */
od_txn *od_wtxn_txn(const od_wtxn *wtxn); /* borrowed */

/* Any thread: ends what runs, and rolls back what is open, for tokens whose rights were withdrawn. */
void od_worker_withdraw(od_worker *worker);

/* Has METRICS tell of its executions; before it is served. For a worker without a gateway in its process, which tells of them itself. */
OD_MUST_CHECK od_code od_worker_watch(od_worker *worker, od_metrics *metrics, od_error *err);

unsigned od_worker_transactions(od_worker *worker); /* open ones */
unsigned od_worker_in_flight(const od_worker *worker);
bool od_worker_is_lost(const od_worker *worker); /* on_fatal has been or is being told */

/* The worker's own service: ExecuteFragment, CancelExecution, Status and, for the RPCs that a worker does not offer,
 * UNIMPLEMENTED. SERVICE of the server that gets them is the od_worker. */
const od_rpc_method *od_worker_methods(size_t *count);

#endif
