/* What a gateway tells of itself: to GetStatus, and to pages of its own process. */
#include "query/gateway/flow.h"

#include "base/alloc.h"
#include "base/banned.h"

/* What a status borrows from while it is encoded. */
typedef struct {
    flow **flows;
    worker_entry **workers;
    size_t flow_count, worker_count;
    od_status_running *running;
    od_status_worker *rows;
    struct {
        char database[64];
        char sql[OD_STATUS_SQL + 1];
    } * texts;
    const char **names;
} status_parts;

/* More statements than this are listed without their SQL, so that a status stays small enough to be read. */
enum { SQL_SHOWN = 512 };

static void status_parts_release(status_parts *p)
{
    for (size_t i = 0; i < p->flow_count; i++)
        flow_unref(p->flows[i]);
    od_free((void *)p->flows);
    registry_list_free(p->workers, p->worker_count);
    od_free(p->running);
    od_free(p->rows);
    od_free(p->texts);
    od_free((void *)p->names);
}

static void fill_running(status_parts *p, int64_t now_ns)
{
    for (size_t i = 0; i < p->flow_count; i++) {
        flow *f = p->flows[i];
        size_t len = f->asked.database.len < sizeof p->texts[i].database ? f->asked.database.len : 0;
        const worker_entry *worker;
        bool waiting;

        if (len > 0)
            memcpy(p->texts[i].database, f->asked.database.data, len);
        p->texts[i].database[len] = '\0';
        if (i < SQL_SHOWN)
            od_status_sql(f->asked.plan, p->texts[i].sql);
        pthread_mutex_lock(&f->lock);
        waiting = !f->run && !f->upstream && !f->hybrid;
        worker = waiting ? NULL : f->worker; /* lives as long as the flow */
        pthread_mutex_unlock(&f->lock);
        p->running[i] = (od_status_running){
            .execution_id = f->id,
            .database = p->texts[i].database,
            .elapsed_ms = (uint64_t)((now_ns - f->start_ns) / 1000000),
            .bytes_sent = flow_bytes(f),
            .sql = p->texts[i].sql,
            .waiting = waiting,
            .worker = worker ? worker->endpoint.authority : "",
            .client = od_rpc_call_peer(f->call),
            .user = od_rights_name(f->rights),
        };
    }
}

static void fill_workers(status_parts *p, int64_t now_ns)
{
    for (size_t i = 0; i < p->worker_count; i++) {
        worker_entry *w = p->workers[i];

        p->rows[i] = (od_status_worker){
            .worker_id = w->id,
            .endpoint = w->endpoint.authority,
            .healthy = worker_entry_healthy(w, now_ns),
            .in_flight = atomic_load(&w->in_flight),
            .databases = (const char *const *)w->databases,
            .database_count = w->database_count,
            .max_concurrency = w->max_concurrency,
            .known_seconds = (uint64_t)((now_ns - w->since_ns) / 1000000000),
        };
    }
}

/* Leaves those out that RIGHTS may not see, what others run; and further streams of what is listed already. */
static void keep_own(status_parts *p, const od_rights *rights)
{
    size_t kept = 0;

    for (size_t i = 0; i < p->flow_count; i++) {
        if (!flow_is_follower(p->flows[i]) &&
            (od_rights_admin(rights) || od_rights_same_bearer(rights, p->flows[i]->rights)))
            p->flows[kept++] = p->flows[i];
        else
            flow_unref(p->flows[i]);
    }
    p->flow_count = kept;
}

/* Names of databases that RIGHTS has, which p->names has room for. */
static size_t fill_names(status_parts *p, const od_engine *engine, const od_rights *rights)
{
    size_t count = engine ? od_engine_database_count(engine) : 0, kept = 0;

    for (size_t i = 0; i < count; i++) {
        p->names[kept] = od_engine_database_name(engine, i);
        kept += od_rights_admin(rights) || od_rights_database(rights, od_slice_str(p->names[kept]));
    }
    return kept;
}

/* What RIGHTS may see. Where the workers are is for administrators. */
static od_code status_parts_fill(od_gateway *g, const od_rights *rights, status_parts *p, size_t *names, od_error *err)
{
    size_t databases = g->engine ? od_engine_database_count(g->engine) : 0;
    int64_t now_ns = od_clock_ns();

    p->flows = flow_map_list(g, &p->flow_count);
    if (p->flows)
        keep_own(p, rights);
    if (od_rights_admin(rights))
        p->workers = registry_list(g->registry, &p->worker_count);
    p->running = od_calloc(p->flow_count + 1, sizeof *p->running);
    p->texts = od_calloc(p->flow_count + 1, sizeof *p->texts);
    p->rows = od_calloc(p->worker_count + 1, sizeof *p->rows);
    p->names = od_calloc(databases + 1, sizeof *p->names);
    if (!p->flows || (!p->workers && od_rights_admin(rights)) || !p->running || !p->texts || !p->rows || !p->names)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a status");
    *names = fill_names(p, g->engine, rights);
    fill_running(p, now_ns);
    fill_workers(p, now_ns);
    return OD_OK;
}

od_code od_gateway_status(od_gateway *g, const od_rights *rights,
                          od_code (*fn)(void *arg, const od_status *status, od_error *err), void *arg, od_error *err)
{
    admit_counts counts = admit_count(g->admit);
    status_parts parts = {0};
    od_status status;
    size_t names = 0;
    od_code rc;

    OD_TRY(status_parts_fill(g, rights, &parts, &names, err));
    status = (od_status){
        .version = g->version,
        .duckdb_version = g->engine ? od_engine_version() : "",
        .role = g->worker ? "serve" : "gateway",
        .uptime_seconds = (uint64_t)((od_clock_ns() - g->start_ns) / 1000000000),
        .in_flight = counts.in_flight,
        .max_in_flight = counts.max_in_flight,
        .queued = counts.queued,
        .max_queued = counts.max_queued,
        .transactions = od_gateway_transactions(g) + (g->worker ? od_worker_transactions(g->worker) : 0),
        .executions_total = atomic_load(&g->total),
        .errors_total = atomic_load(&g->errors),
        .cancelled_total = atomic_load(&g->cancelled),
        .databases = (const char *const *)parts.names,
        .database_count = names,
        .workers = parts.rows,
        .worker_count = parts.worker_count,
        .draining = atomic_load(&g->draining) || (g->worker && od_worker_is_lost(g->worker)),
        .running = parts.running,
        .running_count = parts.flow_count,
    };
    rc = fn(arg, &status, err);

out:
    status_parts_release(&parts);
    return rc;
}
