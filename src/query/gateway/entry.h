/* One worker that a gateway knows. */
#ifndef OD_QUERY_GATEWAY_ENTRY_H
#define OD_QUERY_GATEWAY_ENTRY_H

#include <stdatomic.h>

#include "query/client.h"
#include "query/gateway/tables.h"
#include "query/wire.h"

/* Counted. What it declared never changes: a worker that registers anew with something else is a new one. */
typedef struct worker_entry {
    atomic_size_t refs;
    bool fixed; /* from the static list: never evicted */
    int64_t since_ns;
    char *id;
    od_endpoint endpoint;
    char **databases;
    size_t database_count;
    char **table_names; /* as declared */
    size_t table_count;
    table_set *tables; /* NULL: it declared none */
    char *compute_context;
    uint32_t max_concurrency; /* 0: no limit */
    _Atomic int64_t seen_ns;
    atomic_uint in_flight;
    _Atomic int64_t down_until_ns; /* not healthy before */
    atomic_uint failures;          /* connects in a row that failed */
    atomic_bool silent;            /* the last probe had no answer */

    od_remote *remote; /* the prober's: made by the thread that is PROBING it */
    bool refused;      /* it has been logged that the token does not fit; as REMOTE */
    /* under the registry's lock */
    int64_t probe_due_ns;
    bool probing, asked;
} worker_entry;

/* An empty id stands for the endpoint. */
OD_MUST_CHECK od_code worker_entry_make(const od_registration *what, const od_endpoint *endpoint, bool fixed,
                                        int64_t now_ns, worker_entry **out, od_error *err);
worker_entry *worker_entry_ref(worker_entry *worker);
void worker_entry_unref(worker_entry *worker);
bool worker_entry_declares(const worker_entry *worker, const od_registration *what, const od_endpoint *endpoint);

bool worker_entry_healthy(const worker_entry *worker, int64_t now_ns);
/* A connect failed: it is left out for a second, then two, up to thirty. */
void worker_entry_failed(worker_entry *worker, int64_t now_ns);
void worker_entry_answered(worker_entry *worker);
/* What a probe found: WHY it is SILENT. */
void worker_entry_probed(worker_entry *worker, bool silent, const char *why);

/* Takes one of the executions that it runs at once; false: it runs as many as it said it can, unless INSIST. */
bool worker_entry_enter(worker_entry *worker, bool insist);
void worker_entry_leave(worker_entry *worker);
bool worker_entry_full(const worker_entry *worker);

#endif
