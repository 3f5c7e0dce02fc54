#include "query/gateway/tiers.h"

#include "base/deadline.h"
#include "base/banned.h"

/* ---- which there are ---- */

static bool find(const tiers *t, const char *name, route_tier *out)
{
    if (strcmp(name, "tables") == 0) {
        *out = (route_tier){.by = ROUTE_BY_TABLES};
        return true;
    }
    if (strcmp(name, "context") == 0) {
        *out = (route_tier){.by = ROUTE_BY_CONTEXT};
        return true;
    }
    for (size_t i = 0; i < t->provider_count; i++) {
        if (strcmp(name, t->providers[i].name) == 0) {
            *out = (route_tier){ROUTE_BY_PROVIDER, i};
            return true;
        }
    }
    return false;
}

static od_code add(tiers *t, const char *name, od_error *err)
{
    route_tier tier;

    if (!find(t, name, &tier))
        return od_fail(err, OD_E_INVALID, "there is no tier '%s'", name);
    for (size_t i = 0; i < t->count; i++) {
        if (t->order[i].by == tier.by && t->order[i].provider == tier.provider)
            return od_fail(err, OD_E_INVALID, "tier '%s' comes twice", name);
    }
    t->order[t->count++] = tier;
    if (tier.by == ROUTE_BY_PROVIDER && t->providers[tier.provider].reads > t->reads)
        t->reads = t->providers[tier.provider].reads;
    return OD_OK;
}

static od_code add_usual(tiers *t, od_error *err)
{
    od_code rc = OD_OK;

    for (size_t i = 0; i < t->provider_count && rc == OD_OK; i++)
        rc = add(t, t->providers[i].name, err);
    if (rc == OD_OK)
        rc = add(t, "tables", err);
    return rc == OD_OK ? add(t, "context", err) : rc;
}

od_code tiers_make(const od_federation_provider *providers, size_t provider_count, const char *const *names,
                   size_t count, tiers *out, od_error *err)
{
    route_tier known;
    od_code rc = OD_OK;

    *out = (tiers){0};
    if (provider_count > ROUTE_PROVIDERS_MAX)
        return od_fail(err, OD_E_INVALID, "more than %d providers of tiers", ROUTE_PROVIDERS_MAX);
    for (size_t i = 0; i < provider_count; i++) {
        if (strcmp(providers[i].name, "database") == 0 || find(out, providers[i].name, &known))
            return od_fail(err, OD_E_INVALID, "a tier '%s' is there already", providers[i].name);
        out->providers[out->provider_count++] = providers[i];
    }
    if (count == 0)
        return add_usual(out, err);
    for (size_t i = 0; i < count && rc == OD_OK; i++) {
        /* It is always the first. */
        if (i > 0 || strcmp(names[i], "database") != 0)
            rc = add(out, names[i], err);
    }
    return rc;
}

/* ---- choosing ---- */

typedef struct {
    const tiers *tiers;
    od_federation_request request;
} ranking;

static void rank(void *arg, const worker_entry *w, int *out)
{
    const ranking *r = arg;
    const od_federation_worker worker = {
        .worker_id = w->id,
        .endpoint = w->endpoint.authority,
        .databases = (const char *const *)w->databases,
        .database_count = w->database_count,
        .tables = (const char *const *)w->table_names,
        .table_count = w->table_count,
        .compute_context = w->compute_context,
        .max_concurrency = w->max_concurrency,
        .in_flight = atomic_load(&w->in_flight),
    };

    for (size_t i = 0; i < r->tiers->count; i++) {
        const route_tier *tier = &r->tiers->order[i];

        if (tier->by == ROUTE_BY_PROVIDER)
            out[tier->provider] =
                r->tiers->providers[tier->provider].rank(r->tiers->providers[tier->provider].arg, &r->request, &worker);
    }
}

od_code tiers_choose(const tiers *t, registry *r, const od_engine_host *host, const tiers_request *request,
                     reading *read, worker_entry *const *tried, size_t tried_count, worker_entry **out, od_error *err)
{
    ranking ranks = {
        .tiers = t,
        .request = {.sql = request->sql, .database = request->database, .compute_context = request->compute_context}};
    registry_wish wish = {.route = {.database = request->database,
                                    .compute_context = request->compute_context,
                                    .tiers = t->order,
                                    .tier_count = t->count,
                                    .insist = request->insist}};
    int64_t now_ns = od_clock_ns();

    if (host && !read->asked && request->sql.len > 0 &&
        (t->reads == OD_TABLES_ALWAYS ||
         registry_needs_tables(r, &wish, tried, tried_count, t->reads == OD_TABLES_TO_PREFER, now_ns)))
        reading_take(read, host, request->sql, request->database);
    ranks.request.read = read->known;
    if (read->known)
        wish.tables = ranks.request.tables = &read->tables;
    if (t->provider_count > 0) {
        wish.rank = rank;
        wish.arg = &ranks;
    }
    return registry_pick(r, &wish, tried, tried_count, now_ns, out, err);
}
