/* query/federation.h: a say in which worker of a gateway runs a statement, for whoever runs the gateway.
 *
 * A provider ranks the workers for a statement. Its ranks are a tier of the gateway's routing, at a place of its own among
 * the built-in ones (od_gateway_options.tiers): a worker of a higher rank goes before one of a lower, if all tiers before
 * see no difference. The database comes before all tiers, and so do health and room: no rank sends a statement to a worker
 * that cannot serve its database, or lets a full one be filled further. A rank below 0 is a ban: never that worker. This is
 * routing, not a right: a transaction is ranked when it begins, without a statement, and all of it goes to its worker.
 *
 * od_routes is a provider made of rules: tables by name or prefix ("analytics.*") to workers. */
#ifndef OD_QUERY_FEDERATION_H
#define OD_QUERY_FEDERATION_H

#include "base/buf.h"
#include "base/error.h"

/* What a worker has declared, and what it does. Borrowed. */
typedef struct {
    const char *worker_id;
    const char *endpoint;         /* "HOST:PORT" */
    const char *const *databases; /* none: it has not told */
    size_t database_count;
    const char *const *tables;
    size_t table_count;
    const char *compute_context; /* "": none */
    uint32_t max_concurrency;    /* 0: no limit */
    uint32_t in_flight;
} od_federation_worker;

/* What is asked for. Borrowed. */
typedef struct {
    od_slice sql; /* empty for what begins a transaction */
    od_slice database, compute_context;
    bool read;          /* the statement's tables are known: its provider asked for that, and it could be parsed */
    const void *tables; /* for the functions below */
} od_federation_request;

/* The tables that the statement names, by DuckDB's parser; not those that its views read. */
size_t od_federation_table_count(const od_federation_request *request);
/* The longest name known of the Ith one, in lower case: "shop.main.sales". */
const char *od_federation_table(const od_federation_request *request, size_t i);
/* Whether PATTERN means the Ith one: a name with as many parts as matter ("sales", "main.sales"), or the beginning of names
 * ("analytics.*"). */
bool od_federation_table_is(const od_federation_request *request, size_t i, const char *pattern);

typedef enum {
    OD_TABLES_UNUSED,    /* the provider does not look at them */
    OD_TABLES_TO_PREFER, /* statements are read where several workers would do */
    OD_TABLES_ALWAYS     /* all statements are read, for one that bans by tables */
} od_federation_reads;

typedef struct {
    const char *name; /* its tier's: a word of its own, not "database", "tables" or "context" */
    od_federation_reads reads;
    /* How well WORKER suits REQUEST; below 0: never. Called for each worker, on any thread, several at once: it shall be
     * quick, and not call the gateway. */
    int (*rank)(void *arg, const od_federation_request *request, const od_federation_worker *worker);
    void *arg;
} od_federation_provider;

/* ---- rules ---- */

typedef struct od_routes od_routes;

/* Each rule is "PATTERN=TARGET|TARGET...": tables as above; a target is a worker_id, or "context:TEXT" for all workers of that
 * compute context. For each table the first rule with its name counts. OD_E_INVALID names a rule that cannot be read. */
OD_MUST_CHECK od_code od_routes_create(const char *const *rules, size_t count, od_routes **out, od_error *err);
void od_routes_free(od_routes *routes); /* NULL allowed */
/* The provider called "routes": how many of a statement's tables have WORKER as a target. Borrows ROUTES. */
od_federation_provider od_routes_provider(od_routes *routes);

#endif
