/* From who is known to who is asked. */
#include <stdlib.h>

#include "base/alloc.h"
#include "query/gateway/roster.h"
#include "base/banned.h"

enum { FEW = 32, RACES = 8 };

/* As many as a roster has; those of a few workers need no memory. */
typedef struct {
    route_worker few[FEW];
    route_worker *list;
} route_workers;

static bool workers_make(route_workers *w, size_t count)
{
    w->list = count <= FEW ? w->few : od_calloc(count, sizeof *w->list);
    return w->list != NULL;
}

static void workers_release(route_workers *w)
{
    if (w->list != w->few)
        od_free(w->list);
}

static bool was_tried(const worker_entry *w, worker_entry *const *tried, size_t tried_count)
{
    for (size_t i = 0; i < tried_count; i++) {
        if (tried[i] == w)
            return true;
    }
    return false;
}

static void describe(const roster *now, const registry_wish *wish, worker_entry *const *tried, size_t tried_count,
                     int64_t now_ns, route_worker *out)
{
    for (size_t i = 0; i < now->count; i++) {
        const worker_entry *w = now->seats[i].worker;

        out[i] = (route_worker){
            .databases = (const char *const *)w->databases,
            .database_count = w->database_count,
            .compute_context = w->compute_context,
            .tables = table_set_count(w->tables, wish->tables),
            .healthy = worker_entry_healthy(w, now_ns),
            .full = worker_entry_full(w),
            .tried = now->seats[i].hidden || was_tried(w, tried, tried_count),
            .picked = atomic_load(&now->seats[i].picked),
        };
        if (wish->rank)
            wish->rank(wish->arg, w, out[i].ranks);
    }
}

static od_code no_worker(int verdict, const registry_wish *wish, od_error *err)
{
    int len = (int)wish->route.database.len;
    const char *database = (const char *)wish->route.database.data;

    switch (verdict) {
    case ROUTE_NO_WORKER:
        return od_fail(
            err, OD_E_PRECONDITION,
            "no workers available; start one with 'openduck worker --gateway URL', or name some with --workers");
    case ROUTE_NO_DATABASE:
        return od_fail(err, OD_E_NOT_FOUND, "no worker serves database '%.*s'", len, database);
    case ROUTE_BARRED:
        return od_fail(err, OD_E_PERMISSION, "the gateway's routing lets this statement go to no worker");
    case ROUTE_ALL_FULL:
        return od_fail(err, OD_E_BUSY, "the workers run as many executions as they can");
    default:
        return od_fail(err, OD_E_UNAVAILABLE, "no worker can be reached");
    }
}

/* Its index; a worker that filled up meanwhile is not entered. */
static int choose(const roster *now, const registry_wish *wish, worker_entry *const *tried, size_t tried_count,
                  int64_t now_ns, route_worker *scratch)
{
    int at = ROUTE_ALL_FULL;

    for (int race = 0; race < RACES; race++) {
        describe(now, wish, tried, tried_count, now_ns, scratch);
        at = route_pick(scratch, now->count, &wish->route);
        if (at < 0 || worker_entry_enter(now->seats[at].worker, wish->route.insist))
            return at;
    }
    return ROUTE_ALL_FULL;
}

od_code registry_pick(registry *r, const registry_wish *wish, worker_entry *const *tried, size_t tried_count,
                      int64_t now_ns, worker_entry **out, od_error *err)
{
    roster *now = registry_roster(r);
    route_workers scratch;
    od_code rc = OD_OK;
    int at;

    *out = NULL;
    if (!workers_make(&scratch, now->count)) {
        roster_unref(now);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a list of workers");
    }
    at = choose(now, wish, tried, tried_count, now_ns, scratch.list);
    if (at >= 0) {
        atomic_store(&now->seats[at].picked, registry_turn(r));
        *out = worker_entry_ref(now->seats[at].worker);
    } else {
        rc = no_worker(at, wish, err);
    }
    workers_release(&scratch);
    roster_unref(now);
    return rc;
}

bool registry_needs_tables(registry *r, const registry_wish *wish, worker_entry *const *tried, size_t tried_count,
                           bool ranked, int64_t now_ns)
{
    roster *now = registry_roster(r);
    registry_wish plain = *wish;
    route_workers scratch;
    bool needs = false;

    plain.rank = NULL;
    if ((now->tables || ranked) && now->count > 1 && workers_make(&scratch, now->count)) {
        describe(now, &plain, tried, tried_count, now_ns, scratch.list);
        needs = route_is_open(scratch.list, now->count, &plain.route);
        workers_release(&scratch);
    }
    roster_unref(now);
    return needs;
}
