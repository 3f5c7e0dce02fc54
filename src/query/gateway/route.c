#include "query/gateway/route.h"

#include <strings.h>

#include "base/banned.h"

/* DuckDB's database names are equal without regard to case. */
static bool same_name(const char *name, od_slice wanted)
{
    return strlen(name) == wanted.len && strncasecmp(name, (const char *)wanted.data, wanted.len) == 0;
}

typedef enum { SERVES_OTHERS, SERVES_ANY, SERVES_IT } affinity;

static affinity affinity_of(const route_worker *worker, od_slice database)
{
    if (worker->database_count == 0)
        return SERVES_ANY;
    if (database.len == 0)
        return SERVES_IT;
    for (size_t i = 0; i < worker->database_count; i++) {
        if (same_name(worker->databases[i], database))
            return SERVES_IT;
    }
    return SERVES_OTHERS;
}

/* How good WORKER is for WISH: the tiers in their order. 0: not at all. */
static unsigned score(const route_worker *worker, const route_wish *wish)
{
    affinity a = affinity_of(worker, wish->database);
    bool context =
        wish->compute_context.len > 0 && od_slice_equal(od_slice_str(worker->compute_context), wish->compute_context);

    if (a == SERVES_OTHERS)
        return 0;
    return 1 + (a == SERVES_IT ? 16U : 0) + (worker->healthy ? 8U : 0) + (context ? 4U : 0) + (worker->full ? 0 : 2U);
}

int route_pick(const route_worker *workers, size_t count, const route_wish *wish, uint64_t turn)
{
    bool serves = false;
    unsigned best = 0;
    uint64_t equals = 0;

    if (count == 0)
        return ROUTE_NO_WORKER;
    for (size_t i = 0; i < count; i++) {
        unsigned points = score(&workers[i], wish);

        serves = serves || points > 0;
        if (workers[i].tried || points == 0 || points < best)
            continue;
        equals = points > best ? 1 : equals + 1;
        best = points;
    }
    if (best == 0)
        return serves ? ROUTE_ALL_TRIED : ROUTE_NO_DATABASE;
    turn %= equals;
    for (size_t i = 0; i < count; i++) {
        if (!workers[i].tried && score(&workers[i], wish) == best && turn-- == 0)
            return (int)i;
    }
    return ROUTE_ALL_TRIED;
}
