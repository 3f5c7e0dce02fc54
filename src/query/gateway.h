/* query/gateway.h: takes executions in, bounds them, and passes each to a worker.
 *
 * An execution's life: token checked, id entered in the map of running executions, slot taken (or waited for), worker
 * chosen, chunks relayed as bytes, slot given back. Whatever ends it, the slot and the map's entry leave in one function.
 * A worker in the same process is served without a hop; remote ones over the loop that owns the client's connection, so no
 * thread is switched on the way of a chunk.
 *
 * Lifecycle: create; od_rpc_server_start with od_gateway_methods and the gateway as service; od_gateway_drain;
 * od_rpc_server_drain; od_rpc_server_free; od_worker_free of the local worker; od_gateway_free. */
#ifndef OD_QUERY_GATEWAY_H
#define OD_QUERY_GATEWAY_H

#include "base/secret.h"
#include "query/engine.h"
#include "query/federation.h"
#include "query/rights.h"
#include "query/rpc.h"
#include "query/wire.h"
#include "query/worker.h"

/* What clients of DATABASE are told of it if they ask: a DatabaseLayout, as od_layout_encode makes it. */
typedef struct {
    const char *database;
    od_slice layout;
} od_gateway_layout;

typedef struct {
    od_tokens *tokens;      /* who may do what; borrowed; NULL: made of the next two */
    const od_secret *token; /* also what workers are called with; copied; NULL or empty: dev mode, every token passes */
    const od_secret *register_token; /* what workers register with; copied; NULL or empty: TOKEN */
    unsigned max_in_flight;          /* executions that hold a slot; 0: 64 */
    int max_queued;                  /* that wait for one; 0: 256; negative: none */
    int64_t queue_timeout_ms;        /* longest wait for a slot; 0: 30,000; negative: none */
    int64_t execute_timeout_ms;      /* longest wait for a remote worker's next chunk; 0: 300,000; negative: no limit */
    int64_t cancel_timeout_ms;       /* for a remote worker to acknowledge a cancel; 0: 10,000 */
    od_worker *worker;               /* in this process; borrowed; NULL: none. If there is one, no other may register */
    od_engine *engine;               /* of WORKER; borrowed; NULL if WORKER is */
    od_engine *hybrid; /* runs what openduck_run calls LOCAL; borrowed, may be ENGINE; NULL: there is no openduck_run */
    const od_endpoint *workers; /* remote ones that are always known; copied */
    size_t worker_count;
    int64_t
        probe_ms; /* how often all are asked for their health, and those for their databases; 0: 5,000; negative: never */
    int64_t evict_ms; /* one that registered and is silent for so long is forgotten; 0: 90,000 */
    const od_engine_host
        *host; /* reads statements, for routing and for what may be tried again; borrowed; NULL: nobody does */
    /* What ranks workers besides the gateway itself, at most 8; borrowed. TIERS: the order of the routing tiers after the database,
     * by name ("tables", "context", a provider's); none: the providers, tables, context. A tier that is left out counts for nothing. */
    const od_federation_provider *providers;
    size_t provider_count;
    const char *const *tiers;
    size_t tier_count;
    const od_gateway_layout *layouts; /* of databases that have one; borrowed until others are taken */
    size_t layout_count;
    const char *version; /* for status; borrowed */
    od_metrics *metrics; /* filled with what it does; borrowed, not read once it is freed; NULL: none */
    od_tls *
        tls; /* for probes of, and hybrid statements at https:// workers; referenced; NULL: one that trusts the system's CAs */
    unsigned max_transactions; /* open at remote workers at once; 0: 256 */
    int64_t
        transaction_idle_ms; /* one that nothing passes for is forgotten and rolled back; 0: 300,000; negative: no limit */
} od_gateway_options;

typedef struct od_gateway od_gateway;

/* Blocks for the first answers of WORKERS, two seconds at most. */
OD_MUST_CHECK od_code od_gateway_create(const od_gateway_options *options, od_gateway **out, od_error *err);
/* Takes max_in_flight, max_queued, queue_timeout_ms and layouts of OPTIONS from now on; what waits keeps its own limit, and nothing
 * reads the layouts from before any more. On failure nothing has changed. */
OD_MUST_CHECK od_code od_gateway_reconfigure(od_gateway *gateway, const od_gateway_options *options, od_error *err);
/* After its server is freed and its worker has no run left. NULL allowed. */
void od_gateway_free(od_gateway *gateway);

/* The methods of both services; the server's SERVICE is the od_gateway. */
const od_rpc_method *od_gateway_methods(size_t *count);

/* What the bearer of TOKEN may do, with a reference; NULL: everything. For pages beside the RPCs: od_rights_admin tells who may see
 * and stop what others run. Any thread. OD_E_UNAUTHENTICATED */
OD_MUST_CHECK od_code od_gateway_rights(od_gateway *gateway, od_slice token, od_rights **out, od_error *err);

/* From now on new executions are refused with UNAVAILABLE; those that run or wait go on. */
void od_gateway_drain(od_gateway *gateway);
/* Ends what runs, and rolls back what is open, for tokens whose rights were withdrawn. */
void od_gateway_withdraw(od_gateway *gateway);
/* Ends every execution with an error of CODE. */
void od_gateway_cancel_all(od_gateway *gateway, od_code code, const char *why);

/* Executions that hold a slot, that wait for one, and that are known (running, waiting or ending). */
unsigned od_gateway_in_flight(od_gateway *gateway);
unsigned od_gateway_queued(od_gateway *gateway);
size_t od_gateway_executions(od_gateway *gateway);
unsigned od_gateway_transactions(od_gateway *gateway); /* pinned to remote workers */

/* ---- what a page of this process shows; any thread ---- */

/* Shows FN what GetStatus tells a bearer of RIGHTS, borrowed for the call, and returns what FN does. OD_E_NO_MEMORY */
OD_MUST_CHECK od_code od_gateway_status(od_gateway *gateway, const od_rights *rights,
                                        od_code (*fn)(void *arg, const od_status *status, od_error *err), void *arg,
                                        od_error *err);
/* Ends an execution with OD_E_CANCELLED, which tells its client WHY. False: none has this id. */
bool od_gateway_cancel(od_gateway *gateway, const char *execution_id, const char *why);

enum { OD_GATEWAY_FAILURES = 100 };

/* A call that failed, or an execution that was cancelled by somebody else than its client. All texts are UTF-8. */
typedef struct {
    int64_t unix_ms;
    char call[32];                           /* "ExecuteFragment", "CommitTransaction" */
    char execution_id[OD_EXECUTION_ID_SIZE]; /* "": it never got one, or is none */
    char database[64];
    char client[64];
    char user[64]; /* the name of its token, od_rights_name */
    od_code code;
    od_kind kind;
    char sqlstate[6];
    char message[400]; /* the first line of it */
} od_gateway_failure;

/* The last ones into OUT, the newest first. Returns how many. */
size_t od_gateway_failures(od_gateway *gateway, od_gateway_failure out[OD_GATEWAY_FAILURES]);

/* For any server: LISTEN ("HOST:PORT") on an address that is not loopback needs a token. OD_E_INVALID says so. */
OD_MUST_CHECK od_code od_listen_check(const char *listen, const od_secret *token, od_error *err);
bool od_listen_is_loopback(const char *listen);

#endif
