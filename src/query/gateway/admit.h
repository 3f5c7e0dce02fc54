/* Who may run now: slots, and a bounded queue before them.
 *
 * Executions of one statement share a slot, so that a statement cannot wait for itself. First come, first served. */
#ifndef OD_QUERY_GATEWAY_ADMIT_H
#define OD_QUERY_GATEWAY_ADMIT_H

#include "base/buf.h"
#include "base/deadline.h"

enum { ADMIT_GROUP_SIZE = 128, ADMIT_GROUP_MAX = 64 };

typedef struct admit admit;
typedef struct admit_group admit_group;

typedef enum { TICKET_OUT, TICKET_WAITING, TICKET_RUNNING } ticket_state;

/* Embedded in an execution, zeroed. All but OWNER is admit's. */
typedef struct ticket {
    void *owner;
    struct ticket *next, *prev;
    ticket_state state;
    admit_group *shared; /* whose slot it uses; NULL: one of its own */
    bool joined;         /* others of its statement ran already when it came in */
    od_deadline until;
    char group[ADMIT_GROUP_SIZE]; /* "": none */
} ticket;

typedef enum { ADMIT_RUN, ADMIT_WAIT, ADMIT_FULL } admit_verdict;

OD_MUST_CHECK od_code admit_create(unsigned max_in_flight, unsigned max_queued, admit **out, od_error *err);
void admit_free(admit *a);

/* Other limits from now on. What runs keeps its slot, what waits its place. *granted: those that may run, as by admit_leave. On
 * failure nothing has changed. */
OD_MUST_CHECK od_code admit_resize(admit *a, unsigned max_in_flight, unsigned max_queued, ticket **granted,
                                   od_error *err);

/* GROUP longer than ADMIT_GROUP_SIZE - 1 counts as none. UNTIL: how long it may wait. */
admit_verdict admit_enter(admit *a, ticket *t, od_slice group, od_deadline until);
/* Gives T's slot back if it runs, or takes it out of the queue. Returns those that may run from now on, linked by NEXT;
 * the caller starts them all, reading NEXT before it starts one. */
ticket *admit_leave(admit *a, ticket *t);
/* Takes T out of the queue. False if it does not wait (any more). */
bool admit_withdraw(admit *a, ticket *t);
/* Takes out those whose time is over at NOW_NS, linked by NEXT. *next_ns: when the next one's will be (INT64_MAX: none). */
ticket *admit_expire(admit *a, int64_t now_ns, int64_t *next_ns);

typedef struct {
    unsigned in_flight, queued; /* slots in use, tickets that wait */
    unsigned max_in_flight, max_queued;
} admit_counts;
admit_counts admit_count(admit *a);

#endif
