#include "query/gateway/hybrid/placement.h"

#include "base/alloc.h"
#include "base/banned.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as the plan, which ext/server/outline.cpp and HINT_DEEPEST bound */

typedef struct {
    plan_node **nodes;
    size_t count;
} scan_list;

static od_code add_scan(scan_list *list, plan_node *scan, od_error *err)
{
    plan_node **more = od_realloc((void *)list->nodes, (list->count + 1) * sizeof *more);

    if (!more)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a plan");
    list->nodes = more;
    list->nodes[list->count++] = scan;
    return OD_OK;
}

/* The scans of a fragment's own text. */
static od_code collect(const plan_node *node, scan_list *list, od_error *err)
{
    for (size_t i = 0; i < node->child_count; i++) {
        plan_node *child = node->children[i];
        od_code rc = OD_OK;

        if (child->kind == PLAN_SCAN)
            rc = add_scan(list, child, err);
        else if (child->kind == PLAN_OPERATOR)
            rc = collect(child, list, err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

/* ---- one fragment ---- */

static placement place_of(const plan_node *scan)
{
    return scan->facts.local ? PLACE_LOCAL : PLACE_REMOTE;
}

static void count_places(const scan_list *list, size_t *local, size_t *remote)
{
    *local = *remote = 0;
    for (size_t i = 0; i < list->count; i++)
        ++*(place_of(list->nodes[i]) == PLACE_LOCAL ? local : remote);
}

/* Where both kinds are read. */
static od_code weigh(scan_list *list, const placement_catalog *catalog, placement *out, od_error *err)
{
    uint64_t local = 0, remote = 0;
    od_code rc = catalog->look_remote(catalog->arg, list->nodes, list->count, err);

    if (rc != OD_OK)
        return rc;
    *out = PLACE_AUTO;
    for (size_t i = 0; i < list->count; i++) {
        const plan_node *scan = list->nodes[i];

        if (place_of(scan) == PLACE_LOCAL)
            local += scan->facts.local_size;
        else
            remote += scan->facts.remote_size;
        if (!scan->fixed)
            continue;
        if (*out != PLACE_AUTO && *out != place_of(scan))
            return od_fail(err, OD_E_NOT_IMPLEMENTED,
                           "'%s' has to be read where it is, which is not where the "
                           "statement runs",
                           scan->name);
        *out = place_of(scan);
    }
    if (*out == PLACE_AUTO)
        *out = remote > local ? PLACE_REMOTE : PLACE_LOCAL;
    return OD_OK;
}

/* One that reads no table. */
static void follow(const plan_node *node, placement *common, bool *mixed)
{
    for (size_t i = 0; i < node->child_count; i++) {
        const plan_node *child = node->children[i];

        if (child->kind != PLAN_FRAGMENT) {
            follow(child, common, mixed);
            continue;
        }
        *mixed = *mixed || (*common != PLACE_AUTO && *common != child->where);
        *common = child->where;
    }
}

static placement without_tables(const plan_node *fragment)
{
    placement common = PLACE_AUTO;
    bool mixed = false;
    bool whole =
        fragment->child_count == 1 && fragment->children[0]->kind == PLAN_FRAGMENT && fragment->children[0]->whole;

    follow(fragment, &common, &mixed);
    return !mixed && (whole || (fragment->query && common != PLACE_AUTO)) ? common : PLACE_LOCAL;
}

static od_code choose(plan_node *fragment, scan_list *list, const placement_catalog *catalog, od_error *err)
{
    size_t local, remote;
    od_code rc;

    if (list->count == 0) {
        fragment->where = without_tables(fragment);
        return OD_OK;
    }
    rc = catalog->look_local(catalog->arg, list->nodes, list->count, err);
    if (rc != OD_OK)
        return rc;
    count_places(list, &local, &remote);
    if (local > 0 && remote > 0)
        return weigh(list, catalog, &fragment->where, err);
    fragment->where = remote == 0 ? PLACE_LOCAL : PLACE_REMOTE;
    return OD_OK;
}

/* ---- all ---- */

static od_code resolve(plan_node *fragment, const placement_catalog *catalog, od_error *err);

static od_code resolve_below(const plan_node *node, const placement_catalog *catalog, od_error *err)
{
    for (size_t i = 0; i < node->child_count; i++) {
        plan_node *child = node->children[i];
        od_code rc = child->kind == PLAN_FRAGMENT ? resolve(child, catalog, err) : resolve_below(child, catalog, err);

        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

/* Gives the place of their fragment to the nodes of its text, but for scans that have one. */
static void spread(plan_node *node, placement where)
{
    for (size_t i = 0; i < node->child_count; i++) {
        plan_node *child = node->children[i];

        if (child->kind == PLAN_FRAGMENT)
            continue;
        if (child->where == PLACE_AUTO)
            child->where = where;
        spread(child, where);
    }
}

static od_code resolve(plan_node *fragment, const placement_catalog *catalog, od_error *err)
{
    scan_list list = {0};
    od_code rc;

    OD_TRY(resolve_below(fragment, catalog, err));
    if (fragment->where == PLACE_AUTO) {
        OD_TRY(collect(fragment, &list, err));
        OD_TRY(choose(fragment, &list, catalog, err));
        for (size_t i = 0; i < list.count; i++)
            list.nodes[i]->where = place_of(list.nodes[i]);
    }
    spread(fragment, fragment->where);
out:
    od_free((void *)list.nodes);
    return rc;
}

od_code resolve_auto(plan *p, const placement_catalog *catalog, od_error *err)
{
    return resolve(p->root, catalog, err);
}

/* NOLINTEND(misc-no-recursion) */
