/* A hybrid statement in a transaction that its client has begun. What runs where that is runs in it: at the worker that has it, or, if
 * that is in this process, everything. Beside a worker elsewhere this process only reads. */
#include "query/gateway/hybrid/run_internal.h"
#include "base/banned.h"

od_code inside_find(hybrid_run *run, od_error *err)
{
    flow *f = run->flow;
    od_slice id = f->asked.transaction_id;

    if (id.len == 0)
        return OD_OK;
    f->pin = pins_use(f->gateway->pins, id);
    if (f->pin)
        return od_rights_check_transaction(f->rights, f->pin->rights, err);
    return f->gateway->worker ? od_wtxn_use(f->gateway->worker, id, f->rights, &run->inside, err)
                              : pins_unknown(id, err);
}

void inside_leave(hybrid_run *run)
{
    od_wtxn_leave(run->inside);
    run->inside = NULL;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the plan, which ext/server/outline.cpp and HINT_DEEPEST bound */
static const plan_node *find_local_write(const plan_node *node)
{
    const plan_node *found = NULL;

    if (node->kind == PLAN_FRAGMENT && node->where == PLACE_LOCAL && !node->query)
        return node;
    for (size_t i = 0; i < node->child_count && !found; i++)
        found = find_local_write(node->children[i]);
    return found;
}

od_code inside_check(const hybrid_run *run, od_error *err)
{
    const flow *f = run->flow;
    const plan_node *write = f->pin && !run->plan.explain ? find_local_write(run->plan.root) : NULL;
    char name[64] = "the statement";

    if (!write)
        return OD_OK;
    if (write->number > 0)
        snprintf(name, sizeof name, "openduck_run('LOCAL') %u", write->number);
    return od_fail(
        err, OD_E_NOT_IMPLEMENTED,
        "%s would write at the gateway, and the transaction is one of worker '%s': LOCAL takes only queries in it",
        name, f->pin->worker->endpoint.authority);
}
