/* What moves over the bridges of a fragment, all at the same time. */
#include <string.h>
#include <strings.h>

#include "arrow/ipc_read.h"
#include "base/alloc.h"
#include "base/ident.h"
#include "query/gateway/hybrid/run_internal.h"
#include "base/banned.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as the plan, which ext/server/outline.cpp and HINT_DEEPEST bound */

/* A catalog may change between the question for the columns and the query. */
enum { ATTEMPTS = 4 };

/* ---- columns ---- */

typedef struct {
    od_wire_column *list;
    size_t count;
    char **texts; /* a name, then a type, for each */
} columns;

static void columns_release(columns *c)
{
    for (size_t i = 0; c->texts && i < 2 * c->count; i++)
        od_free(c->texts[i]);
    od_free((void *)c->texts);
    od_free(c->list);
    *c = (columns){0};
}

static bool is_taken(const columns *c, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(c->texts[2 * i], name) == 0)
            return true;
    }
    return false;
}

/* NAME, or NAME_1, NAME_2, ... as DuckDB calls columns of a subquery that would have one name. */
static od_code take_name(columns *c, size_t i, const char *name, od_error *err)
{
    size_t size = strlen(name) + 24;
    char *own = od_alloc(size);

    if (!own)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a bridge");
    snprintf(own, size, "%s", name);
    for (unsigned n = 1; is_taken(c, i, own); n++)
        snprintf(own, size, "%s_%u", name, n);
    c->texts[2 * i] = own;
    return OD_OK;
}

static od_code take_column(columns *c, size_t i, const struct ArrowSchema *field, od_error *err)
{
    od_slice type = od_schema_metadata(field, "openduck:sql_type");
    od_code rc;

    if (type.len == 0)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "the server does not tell the type of column '%s'", field->name);
    /* A column of NULLs alone has a type that no table can have. */
    if (od_slice_equal(type, od_slice_str("\"NULL\"")))
        type = od_slice_str("INTEGER");
    rc = take_name(c, i, field->name ? field->name : "", err);
    if (rc != OD_OK)
        return rc;
    c->texts[2 * i + 1] = od_strndup((const char *)type.data, type.len);
    if (!c->texts[2 * i + 1])
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a bridge");
    c->list[i] = (od_wire_column){od_slice_str(c->texts[2 * i]), od_slice_str(c->texts[2 * i + 1])};
    return OD_OK;
}

static od_code read_columns(od_slice payload, columns *out, od_error *err)
{
    const struct ArrowSchema *schema;
    od_ipc_reader *reader = NULL;
    od_code rc;

    OD_TRY(od_ipc_reader_create(&reader, err));
    OD_TRY(od_ipc_reader_start(reader, payload, NULL, err));
    schema = od_ipc_reader_schema(reader);
    if (schema->n_children == 0 || schema->n_children > OD_INGEST_MAX_COLUMNS) {
        rc = od_fail(err, OD_E_INVALID, "a fragment gives between 1 and %d columns", OD_INGEST_MAX_COLUMNS);
        goto out;
    }
    out->count = (size_t)schema->n_children;
    out->list = od_calloc(out->count, sizeof *out->list);
    out->texts = od_calloc(2 * out->count, sizeof *out->texts);
    if (!out->list || !out->texts)
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory for a bridge");
    for (size_t i = 0; i < out->count && rc == OD_OK; i++)
        rc = take_column(out, i, schema->children[i], err);

out:
    od_ipc_reader_free(reader);
    return rc;
}

/* ---- one bridge ---- */

typedef struct {
    hybrid_run *run;
    plan_node *bridge;
    site *above;
    struct moving *moving;
    site below;
    od_buf sql;
    char id[OD_EXECUTION_ID_SIZE];
    columns columns;
    source source;
    od_msg *owner; /* of PAYLOAD, the first one; NULL: none has come */
    od_slice payload;
} move;

static bool no_rows_wanted(const hybrid_run *run)
{
    return run->flow->asked.describe_only;
}

static od_code append_name(od_buf *sql, const char *name, const char *dot, od_error *err)
{
    od_code rc = OD_OK;

    if (!name[0])
        return OD_OK;
    OD_TRY(od_quote_ident(sql, od_slice_str(name), err));
    OD_TRY(od_buf_printf(sql, err, "%s", dot));
out:
    return rc;
}

static od_code write_sql(move *m, od_error *err)
{
    const plan_node *child = m->bridge->children[0];
    od_code rc;

    if (child->kind == PLAN_FRAGMENT)
        return move_inputs(m->run, child, &m->below, &m->sql, err);
    OD_TRY(od_buf_printf(&m->sql, err, "FROM "));
    OD_TRY(append_name(&m->sql, child->catalog, ".", err));
    OD_TRY(append_name(&m->sql, child->schema, ".", err));
    OD_TRY(append_name(&m->sql, child->name, "", err));
out:
    return rc;
}

static od_code describe(move *m, uint64_t *version, od_error *err)
{
    const site_query query = {.sql = od_slice_of(m->sql.data, m->sql.len),
                              .format = OD_FORMAT_NATIVE,
                              .describe_only = true,
                              .execution_id = m->id};
    od_msg *owner = NULL, *end = NULL;
    source s = {0};
    od_slice payload;
    od_code rc;

    columns_release(&m->columns);
    OD_TRY(source_open(&m->below, &query, &s, err));
    OD_TRY(source_next(&s, &owner, &payload, err));
    if (!owner) {
        rc = od_fail(err, OD_E_PROTOCOL, "the description of a fragment is missing");
        goto out;
    }
    OD_TRY(read_columns(payload, &m->columns, err));
    *version = source_catalog_version(&s);
    OD_TRY(source_next(&s, &end, &payload, err));

out:
    od_msg_unref(end);
    od_msg_unref(owner);
    source_close(&s);
    return rc;
}

/* Asks for the columns and begins the query, whose first payload tells that they are still the same. */
static od_code begin(move *m, od_error *err)
{
    od_code rc = OD_E_STALE_CATALOG;

    for (int i = 0; i < ATTEMPTS && rc == OD_E_STALE_CATALOG; i++) {
        site_query query = {.format = OD_FORMAT_NATIVE, .execution_id = m->id};

        rc = describe(m, &query.expected_catalog_version, err);
        if (rc != OD_OK || no_rows_wanted(m->run))
            return rc;
        query.sql = od_slice_of(m->sql.data, m->sql.len);
        source_close(&m->source);
        rc = source_open(&m->below, &query, &m->source, err);
        if (rc == OD_OK)
            rc = source_next(&m->source, &m->owner, &m->payload, err);
    }
    return rc;
}

static od_code fill(move *m, sink *into, od_error *err)
{
    od_code rc = OD_OK;

    while (rc == OD_OK && m->owner) {
        rc = run_check(m->run, err);
        run_heard(m->run, false);
        if (rc == OD_OK)
            rc = sink_push(into, m->owner, m->payload, err);
        od_msg_unref(m->owner);
        m->owner = NULL;
        if (rc == OD_OK)
            rc = source_next(&m->source, &m->owner, &m->payload, err);
    }
    return rc;
}

static od_code move_rows(move *m, od_error *err)
{
    const plan_node *child = m->bridge->children[0];
    od_buf name = {0};
    sink into = {0};
    od_code rc;

    snprintf(m->id, sizeof m->id, "%.100s/%u", m->run->flow->id, m->bridge->number);
    OD_TRY(site_open(m->run, child->where, child, has_bridges(child), &m->below, err));
    OD_TRY(write_sql(m, err));
    OD_TRY(begin(m, err));
    OD_TRY(plan_bridge_name(m->bridge, m->run->prefix, &name, err));
    OD_TRY(sink_open(m->above, od_slice_of(name.data, name.len), m->columns.list, m->columns.count, &into, err));
    OD_TRY(fill(m, &into, err));
    OD_TRY(sink_finish(&into, err));
    rc = site_commit(&m->below, err);

out:
    sink_close(&into);
    od_buf_release(&name);
    return rc;
}

static void name_failure(const plan_node *child, od_error *err)
{
    if (err->code == OD_E_CANCELLED)
        return;
    if (child->kind == PLAN_FRAGMENT)
        od_error_prefix(err, "openduck_run('%s') %u", placement_text(child->where), child->number);
    else
        od_error_prefix(err, "reading '%s' (%s)", child->name, placement_text(child->where));
}

/* The first failure ends all others. */
static void fail_run(hybrid_run *run, const od_error *err)
{
    pthread_mutex_lock(&run->lock);
    if (!run->failed)
        run->failure = *err;
    run->failed = true;
    pthread_mutex_unlock(&run->lock);
    hybrid_stop(run);
}

/* ---- all of a fragment's ---- */

typedef struct moving {
    move *moves;
    size_t count, next;

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    size_t left; /* that are not done */
    bool failed;
} moving;

static void move_main(void *arg)
{
    move *m = arg;
    moving *all = m->moving;
    od_error err = {0};
    od_code rc = move_rows(m, &err);

    od_msg_unref(m->owner);
    source_close(&m->source);
    site_close(&m->below);
    columns_release(&m->columns);
    od_buf_release(&m->sql);
    if (rc != OD_OK) {
        name_failure(m->bridge->children[0], &err);
        fail_run(m->run, &err);
    }
    pthread_mutex_lock(&all->lock);
    all->failed = all->failed || rc != OD_OK;
    all->left--;
    pthread_cond_signal(&all->changed);
    pthread_mutex_unlock(&all->lock);
}

static od_code count_bridge(void *arg, plan_node *bridge, od_error *err)
{
    (void)bridge;
    (void)err;
    ++*(size_t *)arg;
    return OD_OK;
}

static size_t bridges_of(const plan_node *fragment)
{
    size_t count = 0;

    /* Counting cannot fail. */
    return plan_each_bridge(fragment, count_bridge, &count, NULL) == OD_OK ? count : 0;
}

bool has_bridges(const plan_node *fragment)
{
    return bridges_of(fragment) > 0;
}

static od_code take_bridge(void *arg, plan_node *bridge, od_error *err)
{
    moving *all = arg;

    (void)err;
    all->moves[all->next++].bridge = bridge;
    return OD_OK;
}

/* A thread of its own for all but the last, as far as there are any: none of them waits for another one. */
static void start_all(hybrid_run *run, moving *all)
{
    for (size_t i = 0; i < all->count; i++) {
        move *m = &all->moves[i];

        if (i + 1 == all->count || od_pool_submit(run->flow->gateway->hybrid->fragments, move_main, m, NULL) != OD_OK)
            move_main(m);
    }
    pthread_mutex_lock(&all->lock);
    while (all->left > 0)
        pthread_cond_wait(&all->changed, &all->lock);
    pthread_mutex_unlock(&all->lock);
}

static od_code move_all(hybrid_run *run, const plan_node *fragment, site *at, od_error *err)
{
    moving all = {.count = bridges_of(fragment)};
    od_code rc;

    if (all.count == 0)
        return OD_OK;
    all.left = all.count;
    all.moves = od_calloc(all.count, sizeof *all.moves);
    if (!all.moves)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for bridges");
    for (size_t i = 0; i < all.count; i++)
        all.moves[i] = (move){.run = run, .above = at, .moving = &all};
    pthread_mutex_init(&all.lock, NULL);
    pthread_cond_init(&all.changed, NULL);
    rc = plan_each_bridge(fragment, take_bridge, &all, err);
    if (rc == OD_OK)
        start_all(run, &all);
    if (rc == OD_OK && all.failed)
        rc = od_fail(err, OD_E_CANCELLED, "another fragment failed");
    pthread_cond_destroy(&all.changed);
    pthread_mutex_destroy(&all.lock);
    od_free(all.moves);
    return rc;
}

od_code move_inputs(hybrid_run *run, const plan_node *fragment, site *at, od_buf *sql, od_error *err)
{
    od_code rc = move_all(run, fragment, at, err);

    return rc == OD_OK ? plan_text(fragment, run->prefix, sql, err) : rc;
}

/* NOLINTEND(misc-no-recursion) */
