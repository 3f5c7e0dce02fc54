#include "query/gateway/hybrid/run.h"

#include <string.h>

#include "base/alloc.h"
#include "base/ident.h"
#include "base/utf8.h"
#include "base/uuid.h"
#include "query/gateway/hybrid/bridges.h"
#include "query/gateway/hybrid/hint.h"
#include "query/gateway/hybrid/placement.h"
#include "query/gateway/hybrid/run_internal.h"
#include "base/banned.h"

/* How long a thread waits for a slow reader before it looks whether the run was stopped. */
enum { SEND_SLICE_MS = 50, FRAGMENT_THREADS = 1024 };

/* ---- the room for it ---- */

od_code hybrid_create(od_engine *engine, od_tls *tls, unsigned statements, hybrid **out, od_error *err)
{
    /* Every flow that hybrid_start takes has a slot, and so a thread; those of slots that are added later may wait for one. */
    const od_pool_options for_statements = {
        .name = "hybrid", .max_threads = statements, .max_queued = OD_POOL_MAX_QUEUED};
    const od_pool_options for_fragments = {.name = "fragment", .max_threads = FRAGMENT_THREADS};
    hybrid *h = od_calloc(1, sizeof *h);
    od_code rc;

    *out = NULL;
    if (!h)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for hybrid statements");
    h->engine = engine;
    h->tls = od_tls_ref(tls);
    OD_TRY(od_pool_create(&for_statements, &h->statements, err));
    OD_TRY(od_pool_create(&for_fragments, &h->fragments, err));
    *out = h;
    h = NULL;

out:
    hybrid_free(h);
    return rc;
}

void hybrid_free(hybrid *h)
{
    if (!h)
        return;
    od_pool_free(h->statements);
    od_pool_free(h->fragments);
    od_tls_unref(h->tls);
    od_free(h);
}

/* ---- stopping ---- */

od_code run_check(const hybrid_run *run, od_error *err)
{
    return atomic_load(&run->stopped) ? od_fail(err, OD_E_CANCELLED, "the execution was cancelled") : OD_OK;
}

static bool is_stopped(void *arg)
{
    return atomic_load(&((hybrid_run *)arg)->stopped);
}

od_interrupt run_interrupt(hybrid_run *run)
{
    return (od_interrupt){is_stopped, run};
}

void run_heard(const hybrid_run *run, bool waits)
{
    atomic_store_explicit(&run->flow->heard_ns, waits ? 0 : od_clock_ns(), memory_order_relaxed);
}

void hybrid_stop(hybrid_run *run)
{
    pthread_mutex_lock(&run->lock);
    atomic_store(&run->stopped, true);
    for (source *s = run->sources; s; s = s->next)
        od_execution_interrupt(s->execution);
    pthread_mutex_unlock(&run->lock);
}

void hybrid_run_free(hybrid_run *run)
{
    if (!run)
        return;
    plan_release(&run->plan);
    pthread_mutex_destroy(&run->lock);
    od_free(run);
}

/* ---- to the client ---- */

static od_code send_payload(hybrid_run *run, od_msg *owner, od_slice payload, od_error *err)
{
    flow *f = run->flow;
    od_rpc_out out;
    od_code rc =
        od_chunk_batch(owner, (size_t)(payload.data - od_msg_data(owner)), payload.len, &(od_chunk_told){0}, &out, err);

    if (rc != OD_OK)
        return rc;
    run_heard(run, true);
    do {
        rc = run_check(run, err);
        if (rc == OD_OK)
            rc = od_rpc_call_send_wait(f->call, &out, od_deadline_in_ms(SEND_SLICE_MS), err);
        else
            return rc;
    } while (rc == OD_E_TIMEOUT);
    run_heard(run, false);
    if (rc == OD_OK)
        atomic_fetch_add(&f->bytes, out.head_len + out.len + out.tail_len);
    return rc;
}

static od_code stream(hybrid_run *run, site *at, const site_query *query, od_error *err)
{
    source from = {0};
    od_msg *owner = NULL;
    od_slice payload;
    od_code rc;

    OD_TRY(source_open(at, query, &from, err));
    OD_TRY(source_next(&from, &owner, &payload, err));
    while (owner) {
        rc = send_payload(run, owner, payload, err);
        od_msg_unref(owner);
        owner = NULL;
        if (rc == OD_OK)
            rc = source_next(&from, &owner, &payload, err);
        if (rc != OD_OK)
            break;
    }
out:
    source_close(&from);
    return rc;
}

/* ---- the statement ---- */

static od_code check_request(const od_execute_request *asked, od_error *err)
{
    if (asked->snapshot_id.data)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "openduck_run cannot be used on a snapshot");
    return OD_OK;
}

static od_code make_plan(hybrid_run *run, od_error *err)
{
    const placement_catalog catalog = {run, facts_local, facts_remote};
    od_code rc;

    OD_TRY(check_request(&run->flow->asked, err));
    OD_TRY(inside_find(run, err));
    OD_TRY(resolve_auto(&run->plan, &catalog, err));
    OD_TRY(inside_check(run, err));
    OD_TRY(insert_bridges(&run->plan, err));
out:
    return rc;
}

/* The plan as DuckDB's EXPLAIN gives one. */
static od_code explain(hybrid_run *run, od_error *err)
{
    od_buf text = {0}, sql = {0};
    site_query query = {.format = run->flow->asked.format, .describe_only = run->flow->asked.describe_only};
    site at = {0};
    od_code rc;

    OD_TRY(plan_explain(&run->plan, &text, err));
    OD_TRY(od_buf_printf(&sql, err, "SELECT 'hybrid_plan' AS explain_key, "));
    OD_TRY(od_quote_literal(&sql, od_slice_of(text.data, text.len), err));
    OD_TRY(od_buf_printf(&sql, err, " AS explain_value"));
    query.sql = od_slice_of(sql.data, sql.len);
    OD_TRY(site_open(run, PLACE_LOCAL, NULL, false, &at, err));
    rc = stream(run, &at, &query, err);

out:
    site_close(&at);
    od_buf_release(&text);
    od_buf_release(&sql);
    return rc;
}

static od_code execute(hybrid_run *run, od_error *err)
{
    const od_execute_request *asked = &run->flow->asked;
    const plan_node *root = run->plan.root;
    site_query query = {.format = asked->format,
                        .describe_only = asked->describe_only,
                        .parameters = asked->parameters,
                        .execution_id = run->flow->id};
    od_buf sql = {0};
    site at = {0};
    od_code rc;

    OD_TRY(site_open(run, root->where, root, has_bridges(root), &at, err));
    OD_TRY(move_inputs(run, root, &at, &sql, err));
    query.sql = od_slice_of(sql.data, sql.len);
    OD_TRY(stream(run, &at, &query, err));
    if (!asked->describe_only)
        OD_TRY(site_commit(&at, err));

out:
    site_close(&at);
    od_buf_release(&sql);
    return rc;
}

/* The failure that ended the others, if that is why. */
static void find_cause(hybrid_run *run, od_error *err)
{
    pthread_mutex_lock(&run->lock);
    if (run->failed)
        *err = run->failure;
    pthread_mutex_unlock(&run->lock);
}

static void run_main(void *arg)
{
    flow *f = arg;
    hybrid_run *run = f->hybrid;
    od_error err = {0};
    od_code rc = OD_OK;

    if (!od_utf8_valid(f->asked.plan))
        rc = od_fail(&err, OD_E_INVALID, "plan must be UTF-8 SQL");
    if (rc == OD_OK)
        rc = hint_read(f->gateway->hybrid->engine, f->asked.plan, &run->plan, &err);
    if (rc == OD_OK && run->plan.fragment_count == 1) {
        flow_start_routed(f);
        return;
    }
    run_heard(run, false);
    if (rc == OD_OK)
        rc = make_plan(run, &err);
    if (rc == OD_OK)
        rc = run->plan.explain ? explain(run, &err) : execute(run, &err);
    run_heard(run, true);
    inside_leave(run); /* before the client knows the end: what it sends next finds the transaction idle */
    if (rc == OD_OK) {
        flow_end_empty(f);
    } else {
        find_cause(run, &err);
        flow_fail(f, &err);
    }
    flow_close_end(f);
}

bool hybrid_wants(const flow *f)
{
    return f->gateway->hybrid && hint_may_be(f->asked.plan);
}

void hybrid_start(flow *f)
{
    hybrid_run *run = od_calloc(1, sizeof *run);
    char id[40];
    od_error err;
    od_code rc, stop;

    if (!run) {
        od_fail(&err, OD_E_NO_MEMORY, "out of memory for a hybrid statement");
        goto fail;
    }
    run->flow = f;
    od_uuid_format(od_uuid_random(), id);
    snprintf(run->prefix, sizeof run->prefix, "openduck_bridge_%s", id);
    pthread_mutex_init(&run->lock, NULL);
    pthread_mutex_lock(&f->lock);
    f->hybrid = run;
    stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    if (stop != OD_OK)
        hybrid_stop(run);
    rc = od_pool_submit(f->gateway->hybrid->statements, run_main, f, &err);
    if (rc == OD_OK)
        return;

fail:
    flow_fail(f, &err);
    flow_close_end(f);
}
