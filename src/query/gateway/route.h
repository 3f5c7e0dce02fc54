/* Which worker an execution goes to: a pure function of what is known. */
#ifndef OD_QUERY_GATEWAY_ROUTE_H
#define OD_QUERY_GATEWAY_ROUTE_H

#include "base/buf.h"

enum { ROUTE_PROVIDERS_MAX = 8, ROUTE_TIERS_MAX = ROUTE_PROVIDERS_MAX + 2 };

typedef struct {
    const char *const *databases; /* none: not known, so it may serve any */
    size_t database_count;
    const char *compute_context;    /* "": none */
    unsigned tables;                /* how many of the statement's tables it answers for */
    int ranks[ROUTE_PROVIDERS_MAX]; /* what each provider thinks of it; below 0: not this one */
    bool healthy;
    bool full;       /* it runs as many executions as it said it can */
    bool tried;      /* by this execution, in vain */
    uint64_t picked; /* when it had its last turn; 0: never */
} route_worker;

typedef enum { ROUTE_BY_TABLES, ROUTE_BY_CONTEXT, ROUTE_BY_PROVIDER } route_by;

typedef struct {
    route_by by;
    size_t provider; /* which one, of ROUTE_BY_PROVIDER */
} route_tier;

typedef struct {
    od_slice database; /* empty: any */
    od_slice compute_context;
    const route_tier *tiers; /* NULL: tables, then compute context */
    size_t tier_count;
    bool insist; /* goes to a full worker rather than to none */
} route_wish;

enum {
    ROUTE_NO_WORKER = -1,   /* none is known */
    ROUTE_NO_DATABASE = -2, /* none serves the database */
    ROUTE_ALL_TRIED = -3,
    ROUTE_ALL_FULL = -4, /* those that it would go to run as many as they can */
    ROUTE_BARRED = -5    /* a provider lets it go to none */
};

/* The index of the worker, or one of the above. Those that declared the database come first; else those that declared
 * none; one that declared others only is never picked. Among them: healthy before unhealthy, then free before full, then by
 * the tiers in their order; equals in turn, the one first whose last turn is longest ago. */
int route_pick(const route_worker *workers, size_t count, const route_wish *wish);

/* Whether the tables of the statement, or a provider's ranks, could change what route_pick answers: two or more would be
 * equal without tiers. */
bool route_is_open(const route_worker *workers, size_t count, const route_wish *wish);

#endif
