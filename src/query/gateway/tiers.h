/* The gateway's tiers, and its choice of a worker by them. */
#ifndef OD_QUERY_GATEWAY_TIERS_H
#define OD_QUERY_GATEWAY_TIERS_H

#include "query/federation.h"
#include "query/gateway/reading.h"
#include "query/gateway/registry.h"

typedef struct {
    od_federation_provider providers[ROUTE_PROVIDERS_MAX];
    size_t provider_count;
    route_tier order[ROUTE_TIERS_MAX];
    size_t count;
    od_federation_reads reads; /* the most that one of them in ORDER asks for */
} tiers;

/* NAMES (none: the providers in their order, then tables, then context) are of PROVIDERS, which are copied and their names and
 * ARGs borrowed, or built-in. OD_E_INVALID says which name is unknown, or comes twice. */
OD_MUST_CHECK od_code tiers_make(const od_federation_provider *providers, size_t provider_count,
                                 const char *const *names, size_t count, tiers *out, od_error *err);

typedef struct {
    od_slice sql, database, compute_context;
    bool insist; /* goes to a full worker rather than to none */
} tiers_request;

/* As registry_pick. READ is filled if the choice depends on it and HOST is not NULL. */
OD_MUST_CHECK od_code tiers_choose(const tiers *t, registry *r, const od_engine_host *host,
                                   const tiers_request *request, reading *read, worker_entry *const *tried,
                                   size_t tried_count, worker_entry **out, od_error *err);

#endif
