#include "query/gateway/hybrid/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "base/ident.h"
#include "base/banned.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as the plan, which ext/server/outline.cpp and HINT_DEEPEST bound */

/* ---- nodes ---- */

plan_node *plan_node_create(plan_kind kind)
{
    plan_node *node = od_calloc(1, sizeof *node);

    if (node)
        node->kind = kind;
    return node;
}

void plan_node_free(plan_node *node)
{
    if (!node)
        return;
    for (size_t i = 0; i < node->child_count; i++)
        plan_node_free(node->children[i]);
    od_free((void *)node->children);
    od_free(node->label);
    od_free(node->catalog);
    od_free(node->schema);
    od_free(node->name);
    od_free(node->sql);
    od_free(node);
}

od_code plan_node_add(plan_node *parent, plan_node *child, od_error *err)
{
    size_t n = parent->child_count;

    if ((n & (n - 1)) == 0) { /* none, or a power of two: full */
        plan_node **more = od_realloc((void *)parent->children, (n ? 2 * n : 1) * sizeof *more);

        if (!more) {
            plan_node_free(child);
            return od_fail(err, OD_E_NO_MEMORY, "out of memory for a plan");
        }
        parent->children = more;
    }
    parent->children[parent->child_count++] = child;
    return OD_OK;
}

void plan_release(plan *p)
{
    plan_node_free(p->root);
    *p = (plan){0};
}

/* ---- EXPLAIN ---- */

const char *placement_text(placement where)
{
    return where == PLACE_LOCAL ? "LOCAL" : where == PLACE_REMOTE ? "REMOTE" : "AUTO";
}

static const char *direction(const plan_node *bridge)
{
    return bridge->where == PLACE_LOCAL ? "Bridge(R\u2192L)" : "Bridge(L\u2192R)";
}

static od_code explain(const plan_node *node, int depth, od_buf *out, od_error *err)
{
    od_code rc = OD_OK;

    if (node->kind != PLAN_FRAGMENT)
        OD_TRY(od_buf_printf(out, err, "%*s[%s] %s\n", 2 * depth++, "", placement_text(node->where),
                             node->kind == PLAN_BRIDGE ? direction(node) : node->label));
    for (size_t i = 0; i < node->child_count; i++)
        OD_TRY(explain(node->children[i], depth, out, err));
out:
    return rc;
}

od_code plan_explain(const plan *p, od_buf *out, od_error *err)
{
    return explain(p->root, 0, out, err);
}

/* ---- texts ---- */

/* What stands in the text of FRAGMENT: the bridges, and the fragments that run where it does, in the order of the tree. */
static od_code each_part(const plan_node *node, plan_visit do_node, void *arg, od_error *err)
{
    od_code rc = OD_OK;

    for (size_t i = 0; i < node->child_count; i++) {
        plan_node *child = node->children[i];

        if (child->kind == PLAN_BRIDGE || child->kind == PLAN_FRAGMENT)
            OD_TRY(do_node(arg, child, err));
        else
            OD_TRY(each_part(child, do_node, arg, err));
    }
out:
    return rc;
}

typedef struct {
    plan_visit do_node;
    void *arg;
} bridge_visit;

static od_code visit_bridge(void *arg, plan_node *node, od_error *err)
{
    const bridge_visit *visit = arg;

    return node->kind == PLAN_BRIDGE ? visit->do_node(visit->arg, node, err) : each_part(node, visit_bridge, arg, err);
}

od_code plan_each_bridge(const plan_node *fragment, plan_visit do_node, void *arg, od_error *err)
{
    bridge_visit visit = {do_node, arg};

    return each_part(fragment, visit_bridge, &visit, err);
}

od_code plan_bridge_name(const plan_node *bridge, const char *prefix, od_buf *out, od_error *err)
{
    return od_buf_printf(out, err, "%s_%u", prefix, bridge->number);
}

typedef struct {
    const plan_node **nodes;
    size_t count;
} parts;

static od_code collect_part(void *arg, plan_node *node, od_error *err)
{
    parts *p = arg;
    const plan_node **more = od_realloc((void *)p->nodes, (p->count + 1) * sizeof *more);

    if (!more)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a plan");
    p->nodes = more;
    p->nodes[p->count++] = node;
    return OD_OK;
}

/* A bridge stands where what is behind it stood. */
static const plan_node *in_text(const plan_node *part)
{
    return part->kind == PLAN_BRIDGE ? part->children[0] : part;
}

static int by_place(const void *a, const void *b)
{
    size_t left = in_text(*(plan_node *const *)a)->start, right = in_text(*(plan_node *const *)b)->start;

    return left < right ? -1 : left > right;
}

/* Without a name of its own a call is called as the function, and a table as itself. */
static od_code append_alias(const plan_node *node, od_buf *out, od_error *err)
{
    od_code rc = OD_OK;

    if (!node->aliased) {
        OD_TRY(od_buf_printf(out, err, " AS "));
        OD_TRY(od_quote_ident(out, od_slice_str(node->kind == PLAN_SCAN ? node->name : "openduck_run"), err));
    }
    OD_TRY(od_buf_printf(out, err, " "));
out:
    return rc;
}

static od_code append_part(const plan_node *part, const char *prefix, od_buf *out, od_error *err)
{
    const plan_node *node = in_text(part);
    od_buf name = {0};
    od_code rc;

    if (part->kind == PLAN_BRIDGE) {
        OD_TRY(plan_bridge_name(part, prefix, &name, err));
        OD_TRY(od_buf_printf(out, err, "temp.main."));
        OD_TRY(od_quote_ident(out, od_slice_of(name.data, name.len), err));
    } else if (node->whole) {
        return plan_text(node, prefix, out, err);
    } else {
        OD_TRY(od_buf_printf(out, err, "("));
        OD_TRY(plan_text(node, prefix, out, err));
        OD_TRY(od_buf_printf(out, err, "\n)")); /* the text may end in a comment */
    }
    OD_TRY(append_alias(node, out, err));
out:
    od_buf_release(&name);
    return rc;
}

od_code plan_text(const plan_node *fragment, const char *prefix, od_buf *out, od_error *err)
{
    parts p = {0};
    size_t at = 0;
    od_code rc;

    OD_TRY(each_part(fragment, collect_part, &p, err));
    if (p.count > 1)
        qsort((void *)p.nodes, p.count, sizeof *p.nodes, by_place);
    for (size_t i = 0; i < p.count; i++) {
        const plan_node *node = in_text(p.nodes[i]);

        OD_TRY(od_buf_append(out, fragment->sql + at, node->start - at, err));
        OD_TRY(append_part(p.nodes[i], prefix, out, err));
        at = node->start + node->len;
    }
    OD_TRY(od_buf_append(out, fragment->sql + at, fragment->sql_len - at, err));
out:
    od_free((void *)p.nodes);
    return rc;
}

/* NOLINTEND(misc-no-recursion) */
