#include "query/gateway/hybrid/run_internal.h"

#include "base/alloc.h"
#include "query/gateway/outward.h"
#include "base/banned.h"

/* ---- sites ---- */

static od_code connect_to(site *s, const worker_entry *worker, od_error *err)
{
    const od_execute_request *asked = &s->run->flow->asked;
    const od_gateway *g = s->run->flow->gateway;
    od_remote_options options = {.endpoint = worker->endpoint,
                                 .execute_timeout_ms = g->execute_timeout_ms,
                                 .cancel_timeout_ms = g->cancel_timeout_ms,
                                 .tls = od_tls_ref(g->hybrid->tls)};
    od_secret owned = {0};
    od_slice token;
    od_code rc = outward_token(g, s->run->flow->rights, asked->access_token, &owned, &token, err);

    options.database = od_strndup((const char *)asked->database.data, asked->database.len);
    if (rc == OD_OK)
        rc = options.database ? od_secret_set(&options.token, token, err)
                              : od_fail(err, OD_E_NO_MEMORY, "out of memory for a fragment");
    od_secret_release(&owned);
    if (rc == OD_OK)
        rc = od_remote_create(&options, &s->remote, err);
    od_remote_options_release(&options);
    return rc;
}

static void leave_worker(site *s)
{
    od_remote_txn_free(s->remote_txn);
    od_remote_unref(s->remote);
    s->remote_txn = NULL;
    s->remote = NULL;
}

/* Whether WORKER takes executions: the first that does is kept. Nothing has run there if it does not. */
static od_code try_worker(site *s, worker_entry *worker, bool transaction, od_error *err)
{
    enum { ANSWER_MS = 5000 };
    od_status status;
    od_code rc = connect_to(s, worker, err);

    if (rc != OD_OK)
        return rc;
    if (transaction)
        return od_remote_txn_begin(s->remote, run_interrupt(s->run), &s->remote_txn, err);
    rc = od_remote_status(s->remote, ANSWER_MS, run_interrupt(s->run), &status, err);
    if (rc == OD_OK)
        od_status_release(&status);
    /* One of another make may have no Status; what else is wrong is told by the query. */
    return rc == OD_E_UNAVAILABLE || rc == OD_E_CANCELLED ? rc : OD_OK;
}

/* The tables that NODE's text reads at its place, by which a worker is chosen. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as the plan, which ext/server/outline.cpp and HINT_DEEPEST bound */
static od_code collect_tables(const plan_node *node, od_slice database, table_refs *out, od_error *err)
{
    od_code rc = OD_OK;

    if (node->kind == PLAN_SCAN)
        return table_refs_add(out, node->catalog, node->schema, node->name, database, err);
    for (size_t i = 0; node->kind != PLAN_BRIDGE && i < node->child_count && rc == OD_OK; i++)
        rc = collect_tables(node->children[i], database, out, err);
    return rc;
}

static void leave_seat(const site *s, worker_entry *worker)
{
    worker_entry_leave(worker);
    flow_unpark(s->run->flow->gateway);
}

/* What WHAT says, as a whole statement would be read. NULL: nothing is known. */
static od_code read_what(const plan_node *what, const od_execute_request *asked, tiers_request *request, reading *read,
                         od_error *err)
{
    *request = (tiers_request){.sql = asked->plan,
                               .database = asked->database,
                               .compute_context = asked->compute_context,
                               .insist = true}; /* parts of a statement must not wait for each other's room */
    *read = (reading){.asked = true, .known = what != NULL};
    if (!what)
        return OD_OK;
    if (what->kind == PLAN_FRAGMENT)
        request->sql = od_slice_of(what->sql, what->sql_len);
    return collect_tables(what, asked->database, &read->tables, err);
}

/* As TRIED, the workers that were tried in vain, *COUNT of them, grow. */
static od_code try_next(site *s, const tiers_request *request, reading *read, bool transaction, worker_entry **tried,
                        size_t *count, od_error *err)
{
    const od_gateway *g = s->run->flow->gateway;
    worker_entry *worker = NULL;
    od_error why;
    od_code rc = tiers_choose(&g->tiers, g->registry, g->host, request, read, tried, *count, &worker, &why);

    if (rc != OD_OK) {
        /* Why the last one failed says more than that there are no others. */
        if (*count > 0)
            return OD_E_UNAVAILABLE;
        if (err)
            *err = why;
        return rc;
    }
    rc = try_worker(s, worker, transaction, err);
    if (rc == OD_OK) {
        s->worker = worker;
        return OD_OK;
    }
    leave_worker(s);
    leave_seat(s, worker);
    tried[(*count)++] = worker;
    if (rc == OD_E_UNAVAILABLE)
        worker_entry_failed(worker, od_clock_ns());
    return rc;
}

static od_code open_remote(site *s, const plan_node *what, bool transaction, od_error *err)
{
    worker_entry *tried[FLOW_TRIES];
    tiers_request request;
    reading read;
    size_t count = 0, before;
    od_code rc = read_what(what, &s->run->flow->asked, &request, &read, err);

    if (rc == OD_OK) {
        do {
            before = count;
            rc = try_next(s, &request, &read, transaction, tried, &count, err);
        } while (rc == OD_E_UNAVAILABLE && count > before && count < FLOW_TRIES);
    }
    while (count > 0)
        worker_entry_unref(tried[--count]);
    reading_release(&read);
    return rc;
}

/* In the client's transaction, where that is. */
static od_code join(site *s, const pin *p, od_error *err)
{
    od_code rc;

    s->worker = worker_entry_ref(p->worker);
    s->joined = true;
    worker_entry_enter(s->worker, true);
    rc = connect_to(s, s->worker, err);
    return rc == OD_OK ? od_remote_txn_join(s->remote, od_slice_str(p->id), &s->remote_txn, err) : rc;
}

od_code site_open(hybrid_run *run, placement where, const plan_node *what, bool transaction, site *out, od_error *err)
{
    const od_gateway *g = run->flow->gateway;
    od_slice database = run->flow->asked.database;
    od_code rc = run_check(run, err);

    *out = (site){.run = run};
    if (rc != OD_OK)
        return rc;
    if (run->inside) {
        *out = (site){.run = run,
                      .engine = g->engine,
                      .database = database,
                      .txn = od_txn_ref(od_wtxn_txn(run->inside)),
                      .joined = true};
        return OD_OK;
    }
    if (where == PLACE_LOCAL) {
        out->engine = g->hybrid->engine;
        if (od_engine_has_database(out->engine, database))
            out->database = database;
    } else if (run->flow->pin) {
        return join(out, run->flow->pin, err);
    } else if (g->worker &&
               (database.len == 0 || od_engine_has_database(g->engine, database) || registry_count(g->registry) == 0)) {
        out->engine = g->engine;
        out->database = database;
    } else {
        return open_remote(out, what, transaction, err);
    }
    return transaction ? od_txn_begin(out->engine, out->database, run->flow->rights, &out->txn, err) : OD_OK;
}

od_code site_commit(site *s, od_error *err)
{
    if (s->joined)
        return OD_OK;
    if (s->txn)
        return od_txn_commit(s->txn, err);
    return s->remote_txn ? od_remote_txn_commit(s->remote_txn, run_interrupt(s->run), err) : OD_OK;
}

void site_close(site *s)
{
    od_txn_unref(s->txn);
    leave_worker(s);
    if (s->worker) {
        leave_seat(s, s->worker);
        worker_entry_unref(s->worker);
    }
    *s = (site){0};
}

/* ---- sources ---- */

static void enter(source *s)
{
    hybrid_run *run = s->site->run;

    pthread_mutex_lock(&run->lock);
    s->next = run->sources;
    run->sources = s;
    if (atomic_load(&run->stopped))
        od_execution_interrupt(s->execution);
    pthread_mutex_unlock(&run->lock);
}

static void leave(source *s)
{
    hybrid_run *run = s->site->run;

    pthread_mutex_lock(&run->lock);
    for (source **at = &run->sources; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    pthread_mutex_unlock(&run->lock);
}

od_code source_open(site *s, const site_query *query, source *out, od_error *err)
{
    od_code rc;

    *out = (source){.site = s};
    if (s->engine) {
        const od_execution_request request = {.sql = query->sql,
                                              .database = s->database,
                                              .format = query->format,
                                              .describe_only = query->describe_only,
                                              .expected_catalog_version = query->expected_catalog_version,
                                              .txn = s->txn,
                                              .rights = s->run->flow->rights,
                                              .parameters = query->parameters};

        rc = od_execution_start(s->engine, &request, &out->execution, err);
        if (rc == OD_OK)
            enter(out);
    } else {
        const od_remote_query request = {.sql = query->sql,
                                         .format = query->format,
                                         .describe_only = query->describe_only,
                                         .expected_catalog_version = query->expected_catalog_version,
                                         .execution_id = query->execution_id,
                                         .interrupt = run_interrupt(s->run),
                                         .txn = s->remote_txn,
                                         .parameters = query->parameters};

        rc = od_remote_execute(s->remote, &request, &out->result, err);
    }
    return rc;
}

od_code source_next(source *s, od_msg **owner, od_slice *payload, od_error *err)
{
    od_code rc;

    if (s->result)
        return od_result_next(s->result, owner, payload, err);
    rc = od_execution_next(s->execution, owner, err);
    if (rc == OD_OK && *owner)
        *payload = od_slice_of(od_msg_data(*owner), od_msg_len(*owner));
    return rc;
}

uint64_t source_catalog_version(const source *s)
{
    return s->result ? od_result_catalog_version(s->result) : od_execution_catalog_version(s->execution);
}

void source_close(source *s)
{
    if (s->execution)
        leave(s);
    od_execution_end(s->execution);
    od_result_free(s->result);
    *s = (source){0};
}

/* ---- sinks ---- */

static od_code open_staging(site *s, od_slice table, const od_wire_column *columns, size_t count, sink *out,
                            od_error *err)
{
    od_staging_column *own = od_calloc(count + 1, sizeof *own);
    const od_staging_request request = {
        .txn = s->txn, .table = table, .columns = own, .column_count = count, .format = OD_FORMAT_NATIVE};
    od_code rc;

    if (!own)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a bridge");
    for (size_t i = 0; i < count; i++)
        own[i] = (od_staging_column){columns[i].name, columns[i].sql_type};
    rc = od_staging_open(&request, &out->staging, err);
    od_free(own);
    return rc;
}

od_code sink_open(site *s, od_slice table, const od_wire_column *columns, size_t count, sink *out, od_error *err)
{
    const od_ingest_options options = {.staging_table = table,
                                       .columns = columns,
                                       .column_count = count,
                                       .format = OD_FORMAT_NATIVE,
                                       .interrupt = run_interrupt(s->run)};

    *out = (sink){0};
    return s->engine ? open_staging(s, table, columns, count, out, err)
                     : od_ingest_open(s->remote, s->remote_txn, &options, &out->ingest, err);
}

od_code sink_push(sink *s, od_msg *owner, od_slice payload, od_error *err)
{
    return s->staging ? od_staging_append(s->staging, owner, payload, err) : od_ingest_send(s->ingest, owner, err);
}

od_code sink_finish(sink *s, od_error *err)
{
    uint64_t rows;

    return s->staging ? od_staging_finish(s->staging, &rows, err) : od_ingest_finish(s->ingest, &rows, err);
}

void sink_close(sink *s)
{
    od_staging_free(s->staging);
    od_ingest_free(s->ingest);
    *s = (sink){0};
}
