/* Which worker an execution goes to: a pure function of what is known. */
#ifndef OD_QUERY_GATEWAY_ROUTE_H
#define OD_QUERY_GATEWAY_ROUTE_H

#include "base/buf.h"

typedef struct {
    const char *const *databases; /* none: not known, so it may serve any */
    size_t database_count;
    const char *compute_context; /* "": none */
    bool healthy;
    bool full;  /* it runs as many executions as it said it can */
    bool tried; /* by this execution, in vain */
} route_worker;

typedef struct {
    od_slice database; /* empty: any */
    od_slice compute_context;
} route_wish;

enum {
    ROUTE_NO_WORKER = -1,   /* none is known */
    ROUTE_NO_DATABASE = -2, /* none serves the database */
    ROUTE_ALL_TRIED = -3
};

/* The index of the worker, or one of the above. Those that declared the database come first; else those that declared
 * none; one that declared others only is never picked. Among them: healthy before unhealthy, then of the wished compute
 * context before others, then free before full; equals in turn, where TURN grows by one for each execution. */
int route_pick(const route_worker *workers, size_t count, const route_wish *wish, uint64_t turn);

#endif
