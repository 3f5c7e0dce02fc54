#include "query/gateway/hybrid/hint.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/banned.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as the plan, which ext/server/outline.cpp and HINT_DEEPEST bound */

static const char NAME[] = "openduck_run";

bool hint_may_be(od_slice sql)
{
    size_t len = sizeof NAME - 1;

    for (size_t i = 0; i + len <= sql.len; i++) {
        const char *at = (const char *)sql.data + i;

        if ((*at == 'o' || *at == 'O') && strncasecmp(at, NAME, len) == 0)
            return true;
    }
    return false;
}

/* ---- a text's nodes ---- */

/* The last node of each depth, while the nodes of a fragment's text come. */
typedef struct {
    plan *plan;
    plan_node *fragment;
    plan_node **path;
    size_t path_size;
    od_error *err;
    od_code rc;
} reading;

static char *copy(const char *text, size_t len, reading *r)
{
    char *out = od_strndup(text, len);

    if (!out)
        r->rc = od_fail(r->err, OD_E_NO_MEMORY, "out of memory for a plan");
    return out;
}

static bool begin(void *arg, const od_outline_root *root)
{
    reading *r = arg;
    plan_node *f = r->fragment;

    if (f == r->plan->root)
        r->plan->explain = root->explain;
    f->query = root->query && (f == r->plan->root || !root->explain);
    f->sql = copy(root->text, root->len, r);
    f->sql_len = root->len;
    return f->sql != NULL;
}

static od_code read_where(const char *text, placement *out, od_error *err)
{
    static const placement places[] = {PLACE_LOCAL, PLACE_REMOTE, PLACE_AUTO};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (strcasecmp(text, placement_text(places[i])) == 0) {
            *out = places[i];
            return OD_OK;
        }
    }
    return od_fail(err, OD_E_INVALID, "openduck_run runs a query 'LOCAL', 'REMOTE' or 'AUTO', not '%.40s'", text);
}

static void fill(reading *r, plan_node *node, const od_outline_node *from)
{
    node->start = from->start;
    node->len = from->len;
    node->aliased = from->aliased;
    node->fixed = from->fixed;
    node->whole = from->whole;
    if (from->kind == OD_OUTLINE_RUN) {
        node->number = r->plan->fragment_count++;
        node->sql = copy(from->sql, strlen(from->sql), r);
        node->sql_len = strlen(from->sql);
        if (r->rc == OD_OK)
            r->rc = read_where(from->where, &node->where, r->err);
        if (r->rc == OD_OK && r->plan->fragment_count > HINT_MOST)
            r->rc = od_fail(r->err, OD_E_INVALID, "more than %d calls of openduck_run in one statement", HINT_MOST - 1);
        return;
    }
    node->label = copy(from->label, strlen(from->label), r);
    if (from->kind == OD_OUTLINE_SCAN) {
        node->catalog = copy(from->catalog, strlen(from->catalog), r);
        node->schema = copy(from->schema, strlen(from->schema), r);
        node->name = copy(from->name, strlen(from->name), r);
    }
}

static bool keep_on_path(reading *r, unsigned depth, plan_node *node)
{
    if (depth >= r->path_size) {
        size_t size = 2 * (size_t)depth + 16;
        plan_node **path = od_realloc((void *)r->path, size * sizeof *path);

        if (!path) {
            r->rc = od_fail(r->err, OD_E_NO_MEMORY, "out of memory for a plan");
            return false;
        }
        r->path = path;
        r->path_size = size;
    }
    r->path[depth] = node;
    return true;
}

static bool take(void *arg, const od_outline_node *from)
{
    static const plan_kind kinds[] = {
        [OD_OUTLINE_OPERATOR] = PLAN_OPERATOR, [OD_OUTLINE_SCAN] = PLAN_SCAN, [OD_OUTLINE_RUN] = PLAN_FRAGMENT};
    reading *r = arg;
    plan_node *node = plan_node_create(kinds[from->kind]);
    plan_node *parent = from->depth == 0 ? r->fragment : r->path[from->depth - 1];

    if (!node) {
        r->rc = od_fail(r->err, OD_E_NO_MEMORY, "out of memory for a plan");
        return false;
    }
    fill(r, node, from);
    if (r->rc != OD_OK)
        plan_node_free(node);
    else
        r->rc = plan_node_add(parent, node, r->err);
    return r->rc == OD_OK && keep_on_path(r, from->depth, node);
}

/* ---- texts in texts ---- */

static od_code read_text(const od_engine *engine, plan *p, plan_node *fragment, unsigned depth, od_error *err);

static od_code read_below(const od_engine *engine, plan *p, plan_node *node, unsigned depth, od_error *err)
{
    for (size_t i = 0; i < node->child_count; i++) {
        plan_node *child = node->children[i];
        od_code rc = child->kind == PLAN_FRAGMENT ? read_text(engine, p, child, depth + 1, err)
                                                  : read_below(engine, p, child, depth, err);

        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

static od_code read_text(const od_engine *engine, plan *p, plan_node *fragment, unsigned depth, od_error *err)
{
    od_error own = {0}; /* of what stops the reading */
    reading r = {.plan = p, .fragment = fragment, .err = &own};
    const od_outline_sink sink = {&r, begin, take};
    char *given = NULL;
    od_code rc;

    if (depth > HINT_DEEPEST)
        return od_fail(err, OD_E_INVALID, "more than %d openduck_run in each other", HINT_DEEPEST);
    given = fragment->sql; /* begin replaces it */
    fragment->sql = NULL;
    rc = od_engine_outline(engine, od_slice_of(given, fragment->sql_len), &sink, err);
    if (r.rc != OD_OK) {
        rc = r.rc;
        if (err)
            *err = own;
    }
    if (rc == OD_OK && depth > 0 && !fragment->query && !fragment->whole)
        rc = od_fail(err, OD_E_INVALID, "only a query gives rows for FROM; other statements run by CALL openduck_run");
    if (rc != OD_OK && depth > 0)
        od_error_prefix(err, "openduck_run('%s') %u", placement_text(fragment->where), fragment->number);
    if (rc == OD_OK)
        rc = read_below(engine, p, fragment, depth, err);
    od_free((void *)r.path);
    od_free(given);
    return rc;
}

od_code hint_read(const od_engine *engine, od_slice sql, plan *out, od_error *err)
{
    plan_node *root;
    od_code rc;

    *out = (plan){0};
    if (sql.len > 0 && memchr(sql.data, 0, sql.len))
        return od_fail(err, OD_E_INVALID, "the statement holds a NUL");
    root = plan_node_create(PLAN_FRAGMENT);
    if (!root)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a plan");
    *out = (plan){.root = root, .fragment_count = 1};
    root->sql = od_strndup((const char *)sql.data, sql.len);
    root->sql_len = sql.len;
    rc = root->sql ? read_text(engine, out, root, 0, err) : od_fail(err, OD_E_NO_MEMORY, "out of memory for a plan");
    if (rc != OD_OK)
        plan_release(out);
    return rc;
}

/* NOLINTEND(misc-no-recursion) */
