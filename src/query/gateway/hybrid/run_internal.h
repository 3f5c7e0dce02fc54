/* One hybrid statement, for the files that run it. */
#ifndef OD_QUERY_GATEWAY_HYBRID_RUN_INTERNAL_H
#define OD_QUERY_GATEWAY_HYBRID_RUN_INTERNAL_H

#include "base/pool.h"
#include "query/client.h"
#include "query/gateway/flow.h"
#include "query/gateway/hybrid/plan.h"
#include "query/gateway/hybrid/run.h"
#include "query/worker.h"

struct hybrid {
    od_engine *engine;
    od_tls *tls;         /* to workers; NULL: as a channel's */
    od_pool *statements; /* a thread for each */
    od_pool *fragments;  /* what is moved beside what its thread moves itself; nothing waits in it */
};

typedef struct source source;

struct hybrid_run {
    flow *flow; /* which owns it */
    plan plan;
    od_wtxn
        *inside; /* the client's transaction, if it is one of the worker in this process; one elsewhere is FLOW's pin */
    char prefix[64]; /* of its tables' names */
    atomic_bool stopped;

    pthread_mutex_t lock; /* what follows */
    source *sources;      /* executions of this process, to be interrupted */
    od_error failure;     /* the first one */
    bool failed;
};

/* OD_E_CANCELLED once the run is to end. */
OD_MUST_CHECK od_code run_check(const hybrid_run *run, od_error *err);
od_interrupt run_interrupt(hybrid_run *run);
/* A part of it has given something, or begins or ends to WAIT for the client: time is counted anew. */
void run_heard(const hybrid_run *run, bool waits);

/* ---- inside.c: in a transaction that the client has begun ---- */

/* Finds the transaction of the request, if it has one, which is in use until inside_leave. OD_E_NO_TRANSACTION, OD_E_PERMISSION */
OD_MUST_CHECK od_code inside_find(hybrid_run *run, od_error *err);
void inside_leave(hybrid_run *run);
/* That nothing is written but where the transaction is: it could not be undone with it. For a plan with all its places. */
OD_MUST_CHECK od_code inside_check(const hybrid_run *run, od_error *err);

/* ---- site.c: where a fragment runs, in this process or at a worker ---- */

typedef struct {
    hybrid_run *run;
    od_engine *engine; /* in this process; else: */
    od_slice database;
    od_txn *txn; /* NULL: none */
    worker_entry *worker;
    od_remote *remote;
    od_remote_txn *remote_txn;
    bool joined; /* its transaction is the client's, and goes on */
} site;

/* For WHAT, a fragment or a scan (NULL: neither). With TRANSACTION what follows is of one transaction, which ends with the site. site_close
 * it, on failure too. */
OD_MUST_CHECK od_code site_open(hybrid_run *run, placement where, const plan_node *what, bool transaction, site *out,
                                od_error *err);
OD_MUST_CHECK od_code site_commit(site *s, od_error *err); /* but the client's transaction */
void site_close(site *s);                                  /* rolls back what is not committed */

typedef struct {
    od_slice sql;
    od_format format;
    bool describe_only;
    uint64_t expected_catalog_version;
    od_slice parameters;
    const char *execution_id;
} site_query;

/* What a site answers. One thread. */
struct source {
    site *site;
    od_execution *execution;
    od_result *result;
    source *next; /* run->sources */
};

OD_MUST_CHECK od_code source_open(site *s, const site_query *query, source *out, od_error *err);
/* *owner is NULL after the last payload. */
OD_MUST_CHECK od_code source_next(source *s, od_msg **owner, od_slice *payload, od_error *err);
uint64_t source_catalog_version(const source *s);
void source_close(source *s); /* also one that was not opened, zeroed */

/* A temporary table at a site with a transaction. One thread. */
typedef struct {
    od_staging *staging;
    od_ingest *ingest;
} sink;

OD_MUST_CHECK od_code sink_open(site *s, od_slice table, const od_wire_column *columns, size_t count, sink *out,
                                od_error *err);
OD_MUST_CHECK od_code sink_push(sink *s, od_msg *owner, od_slice payload, od_error *err);
OD_MUST_CHECK od_code sink_finish(sink *s, od_error *err);
void sink_close(sink *s);

/* ---- move.c ---- */

/* Brings all that FRAGMENT reads over its bridges to SITE, and writes its text as it runs there. */
OD_MUST_CHECK od_code move_inputs(hybrid_run *run, const plan_node *fragment, site *at, od_buf *sql, od_error *err);
bool has_bridges(const plan_node *fragment);

/* ---- facts.c ---- */

od_code facts_local(void *run, plan_node *const *scans, size_t count, od_error *err);
od_code facts_remote(void *run, plan_node *const *scans, size_t count, od_error *err);

#endif
