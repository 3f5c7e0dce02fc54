/* The workers that a gateway knows: those it was started with, and those that register. */
#ifndef OD_QUERY_GATEWAY_REGISTRY_H
#define OD_QUERY_GATEWAY_REGISTRY_H

#include "query/gateway/entry.h"
#include "query/gateway/route.h"

enum { REGISTRY_MAX = 1024 };

typedef struct registry registry;

/* EVICT_MS: how long a worker that registered may be silent. */
OD_MUST_CHECK od_code registry_create(const od_endpoint *fixed, size_t count, int64_t evict_ms, registry **out,
                                      od_error *err);
void registry_free(registry *r);

/* ---- who is there ---- */

/* Whether REGISTRATION may be taken, and where its worker is. OD_E_INVALID: endpoint missing, not parsed, or one that cannot
 * be dialled; a text or list above its limit. */
OD_MUST_CHECK od_code registry_check(const od_registration *registration, od_endpoint *endpoint, od_error *err);
/* As registry_check, and takes it in, in place of what had its id or its endpoint. OD_E_BUSY: REGISTRY_MAX are known. An empty
 * id stands for the endpoint. */
OD_MUST_CHECK od_code registry_register(registry *r, const od_registration *registration, int64_t now_ns,
                                        od_error *err);
/* False: not known, it shall register. */
bool registry_heartbeat(registry *r, const char *worker_id, int64_t now_ns);
/* A worker is stopping: forgets it. False: not known. */
bool registry_leave(registry *r, const char *worker_id);
/* Forgets those not heard of for too long. Returns how many. */
unsigned registry_evict(registry *r, int64_t now_ns);
size_t registry_count(registry *r);
/* A copy of the list, entries referenced; free with registry_list_free. */
worker_entry **registry_list(registry *r, size_t *count);
void registry_list_free(worker_entry **list, size_t count);

/* ---- how they are ---- */

/* The worker that is to be probed next, referenced, if its time has come; no other caller gets it before
 * registry_probed. *next_ns: when to ask again. */
worker_entry *registry_due(registry *r, int64_t now_ns, int64_t *next_ns);
/* WORKER has been probed, and is to be again at DUE_NS. FOUND NULL: it does not take executions, for the reason WHY. Of a fixed
 * worker FOUND is what it serves from now on. */
void registry_probed(registry *r, worker_entry *worker, const od_registration *found, const char *why, int64_t now_ns,
                     int64_t due_ns);
/* Whether each fixed one has been probed. */
bool registry_all_asked(registry *r);

/* ---- choosing ---- */

typedef struct {
    route_wish route;
    const table_refs *tables; /* that the statement names; NULL: not known */
    /* Fills OUT with what each provider thinks of WORKER; NULL: there is none. Called with no lock held. */
    void (*rank)(void *arg, const worker_entry *worker, int *out);
    void *arg;
} registry_wish;

/* Chooses by route_pick among all but TRIED, and has *out entered (worker_entry_leave when it is done); the caller unrefs it.
 *   OD_E_PRECONDITION no worker   OD_E_NOT_FOUND none of the database   OD_E_PERMISSION a provider lets it go to none
 *   OD_E_UNAVAILABLE  all tried   OD_E_BUSY      those that it would go to are full */
OD_MUST_CHECK od_code registry_pick(registry *r, const registry_wish *wish, worker_entry *const *tried,
                                    size_t tried_count, int64_t now_ns, worker_entry **out, od_error *err);
/* Whether it takes the names of the statement's tables to choose: several workers would do, and one declared tables or
 * RANKED: a provider looks at them. */
bool registry_needs_tables(registry *r, const registry_wish *wish, worker_entry *const *tried, size_t tried_count,
                           bool ranked, int64_t now_ns);

#endif
