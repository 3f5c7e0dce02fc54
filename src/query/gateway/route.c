#include "query/gateway/route.h"

#include <strings.h>

#include "base/banned.h"

enum { KEY_DATABASE, KEY_HEALTHY, KEY_FREE, KEY_TIERS, KEY_SIZE = KEY_TIERS + ROUTE_TIERS_MAX };

static const route_tier usual_tiers[] = {{.by = ROUTE_BY_TABLES}, {.by = ROUTE_BY_CONTEXT}};

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

static int64_t tier_rank(const route_worker *worker, const route_wish *wish, const route_tier *tier)
{
    switch (tier->by) {
    case ROUTE_BY_TABLES:
        return worker->tables;
    case ROUTE_BY_CONTEXT:
        return wish->compute_context.len > 0 &&
               od_slice_equal(od_slice_str(worker->compute_context), wish->compute_context);
    case ROUTE_BY_PROVIDER:
        return worker->ranks[tier->provider];
    }
    return 0;
}

static bool barred(const route_worker *worker, const route_wish *wish)
{
    for (size_t i = 0; wish->tiers && i < wish->tier_count; i++) {
        if (wish->tiers[i].by == ROUTE_BY_PROVIDER && worker->ranks[wish->tiers[i].provider] < 0)
            return true;
    }
    return false;
}

/* How good WORKER is for WISH: the larger of two at the first place where they differ. */
static void make_key(const route_worker *worker, const route_wish *wish, int64_t key[KEY_SIZE])
{
    const route_tier *tiers = wish->tiers ? wish->tiers : usual_tiers;
    size_t count = wish->tiers ? wish->tier_count : sizeof usual_tiers / sizeof *usual_tiers;

    key[KEY_DATABASE] = affinity_of(worker, wish->database);
    key[KEY_HEALTHY] = worker->healthy;
    /* Of one that is down it is not known what it runs. */
    key[KEY_FREE] = !worker->full || !worker->healthy;
    for (size_t i = 0; i < ROUTE_TIERS_MAX; i++)
        key[KEY_TIERS + i] = i < count ? tier_rank(worker, wish, &tiers[i]) : 0;
}

static int compare(const int64_t a[], const int64_t b[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    }
    return 0;
}

int route_pick(const route_worker *workers, size_t count, const route_wish *wish)
{
    int64_t best[KEY_SIZE], key[KEY_SIZE];
    int at = -1, order;
    bool serves = false, allowed = false;

    for (size_t i = 0; i < count; i++) {
        if (affinity_of(&workers[i], wish->database) == SERVES_OTHERS)
            continue;
        serves = true;
        if (barred(&workers[i], wish))
            continue;
        allowed = true;
        if (workers[i].tried)
            continue;
        make_key(&workers[i], wish, key);
        order = at < 0 ? 1 : compare(key, best, KEY_SIZE);
        if (order > 0 || (order == 0 && workers[i].picked < workers[at].picked)) {
            at = (int)i;
            memcpy(best, key, sizeof best);
        }
    }
    if (at < 0)
        return count == 0 ? ROUTE_NO_WORKER : !serves ? ROUTE_NO_DATABASE : !allowed ? ROUTE_BARRED : ROUTE_ALL_TRIED;
    return best[KEY_FREE] || wish->insist ? at : ROUTE_ALL_FULL;
}

bool route_is_open(const route_worker *workers, size_t count, const route_wish *wish)
{
    int64_t best[KEY_SIZE] = {0}, key[KEY_SIZE];
    size_t equals = 0;

    for (size_t i = 0; i < count; i++) {
        int order;

        if (workers[i].tried || affinity_of(&workers[i], wish->database) == SERVES_OTHERS)
            continue;
        make_key(&workers[i], wish, key);
        order = equals == 0 ? 1 : compare(key, best, KEY_TIERS);
        if (order > 0)
            memcpy(best, key, sizeof best);
        equals = order > 0 ? 1 : equals + (order == 0);
    }
    return equals > 1;
}
