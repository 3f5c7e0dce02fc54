#include "query/gateway/hybrid/bridges.h"

#include "base/banned.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as the plan, which ext/server/outline.cpp and HINT_DEEPEST bound */

static od_code insert_below(plan *p, plan_node *node, od_error *err)
{
    for (size_t i = 0; i < node->child_count; i++) {
        plan_node *child = node->children[i], *bridge;
        od_code rc;

        if (child->where != node->where) {
            bridge = plan_node_create(PLAN_BRIDGE);
            if (!bridge)
                return od_fail(err, OD_E_NO_MEMORY, "out of memory for a plan");
            bridge->where = node->where;
            bridge->number = ++p->bridge_count;
            node->children[i] = bridge;
            rc = plan_node_add(bridge, child, err);
            if (rc != OD_OK)
                return rc;
        }
        rc = insert_below(p, child, err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

od_code insert_bridges(plan *p, od_error *err)
{
    return insert_below(p, p->root, err);
}

/* NOLINTEND(misc-no-recursion) */
