/* The workers that a gateway knows: those it was started with, and those that register. */
#ifndef OD_QUERY_GATEWAY_REGISTRY_H
#define OD_QUERY_GATEWAY_REGISTRY_H

#include <stdatomic.h>

#include "query/gateway/route.h"
#include "query/wire.h"

enum { REGISTRY_MAX = 1024 };
#define REGISTRY_EVICT_NS (90 * INT64_C(1000000000))

/* One worker; counted. What it declared never changes: a worker that registers anew with something else is a new one. */
typedef struct worker_entry {
    atomic_size_t refs;
    bool fixed; /* from the static list: never evicted */
    char *id;
    od_endpoint endpoint;
    char **databases;
    size_t database_count;
    char *compute_context;
    uint32_t max_concurrency;
    _Atomic int64_t seen_ns;
    atomic_uint in_flight;
    _Atomic int64_t down_until_ns; /* not healthy before */
    atomic_uint failures;          /* connects in a row that failed */
    atomic_bool silent;            /* a fixed one: the last probe had no answer */
} worker_entry;

void worker_entry_unref(worker_entry *worker);
bool worker_entry_healthy(const worker_entry *worker, int64_t now_ns);
/* A connect failed: it is left out for a second, then two, up to thirty. */
void worker_entry_failed(worker_entry *worker, int64_t now_ns);
void worker_entry_answered(worker_entry *worker);

typedef struct registry registry;

OD_MUST_CHECK od_code registry_create(const od_endpoint *fixed, size_t count, registry **out, od_error *err);
void registry_free(registry *r);

/* OD_E_INVALID: endpoint missing, not parsed, or one that cannot be dialled; OD_E_BUSY: REGISTRY_MAX are known. An empty id
 * stands for the endpoint. */
OD_MUST_CHECK od_code registry_register(registry *r, const od_registration *registration, int64_t now_ns,
                                        od_error *err);
/* False: not known, it shall register. */
bool registry_heartbeat(registry *r, const char *worker_id, int64_t now_ns);
/* A worker is stopping: forgets it. False: not known. */
bool registry_leave(registry *r, const char *worker_id);
/* What was learned of the fixed worker at ENDPOINT; FOUND NULL: it does not take executions, for the reason WHY. */
void registry_probed(registry *r, const od_endpoint *endpoint, const od_registration *found, const char *why,
                     int64_t now_ns);
/* Forgets those not heard of for REGISTRY_EVICT_NS. Returns how many. */
unsigned registry_evict(registry *r, int64_t now_ns);
size_t registry_count(registry *r);

/* Chooses by route_pick among all but TRIED; the caller unrefs *out. Fails with OD_E_PRECONDITION (no worker), OD_E_NOT_FOUND
 * (no worker of the database) or OD_E_UNAVAILABLE (all tried). */
OD_MUST_CHECK od_code registry_pick(registry *r, const route_wish *wish, worker_entry *const *tried, size_t tried_count,
                                    int64_t now_ns, worker_entry **out, od_error *err);
/* A copy of the list, entries referenced; free with registry_list_free. */
worker_entry **registry_list(registry *r, size_t *count);
void registry_list_free(worker_entry **list, size_t count);

#endif
