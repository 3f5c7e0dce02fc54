/* One execution on its way through the gateway, and the gateway itself, for the files of this room.
 *
 * A flow has two ends: the client's call, and the worker's work (from admission to the last word of the worker). When
 * both are closed, flow_leave takes it out of the map and gives its slot back; that happens nowhere else. */
#ifndef OD_QUERY_GATEWAY_FLOW_H
#define OD_QUERY_GATEWAY_FLOW_H

#include <pthread.h>
#include <stdatomic.h>

#include "query/gateway.h"
#include "query/gateway/admit.h"
#include "query/gateway/failures.h"
#include "query/gateway/hybrid/run.h"
#include "query/gateway/pin.h"
#include "query/gateway/probe.h"
#include "query/gateway/registry.h"
#include "query/gateway/stats.h"
#include "query/gateway/tiers.h"
#include "query/wire.h"

#define FLOW_WITHDRAWN "the access token was withdrawn"

enum { FLOW_BUCKETS = 1024, FLOW_TRIES = 8 };

typedef struct flow {
    od_gateway *gateway;
    atomic_uint refs;
    atomic_int ends;
    od_rpc_call *call;
    od_msg *request;
    od_execute_request asked; /* borrows REQUEST */
    od_rights *rights;        /* its caller's; NULL: all */
    char id[OD_EXECUTION_ID_SIZE];
    ticket ticket;
    struct flow *map_next;
    bool mapped;
    bool counted;                       /* in the gateway's LIVE */
    bool named;                         /* the request came without an id */
    struct flow *leader;                /* of a follower: referenced; its own threads' */
    pin *pin;                           /* of its transaction; NULL: none, or one of the worker in this process */
    reading reading;                    /* what its statement says, once it has been asked */
    struct flow *park_next, *park_prev; /* under the gateway's park_lock */
    bool parked;
    od_deadline park_until;

    int64_t start_ns;
    _Atomic int64_t
        heard_ns; /* when the remote worker, or a hybrid statement's parts, last gave something; 0: none is at work */
    atomic_uint_fast64_t bytes;
    atomic_bool answered;          /* an end of our own has been sent, or the worker's passed on: no other may follow */
    atomic_bool streamed;          /* the worker has sent something: no other worker may be tried */
    atomic_bool paused;            /* the client is behind: the worker waits */
    atomic_bool abandoned;         /* the client went away: its failure is nobody's */
    atomic_bool failed, cancelled; /* flow_count's */

    pthread_mutex_t lock; /* what follows */
    od_code stop;         /* it shall end: nothing more is started for it */
    od_rpc_call *upstream;
    od_worker_run *run;
    hybrid_run *hybrid; /* a statement with openduck_run, or one that may have it; lives as long as the flow */
    worker_entry *worker;
    unsigned attempt;
    worker_entry *tried[FLOW_TRIES];
    size_t tried_count;
} flow;

struct od_gateway {
    od_tokens *tokens, *own_tokens; /* OWN_TOKENS: those that were made here */
    od_secret token;                /* what workers are called with */
    _Atomic int64_t queue_timeout_ms;
    int64_t execute_timeout_ms, cancel_timeout_ms;
    od_worker *worker;
    od_engine *engine;
    const od_engine_host *host; /* reads statements; NULL: nobody does */
    const char *version;
    int64_t start_ns;
    admit *admit;
    hybrid *hybrid; /* NULL: openduck_run is not done here */
    registry *registry;
    tiers tiers;
    prober *prober; /* NULL: there is no fixed worker */
    pins *pins;
    atomic_bool draining;
    atomic_uint_fast64_t total, errors, cancelled;
    gateway_stats stats;
    failures failures;

    pthread_mutex_t layout_lock; /* what follows */
    const od_gateway_layout *layouts;
    size_t layout_count;

    pthread_mutex_t park_lock; /* the list of flows that wait for a worker's room */
    flow *park_first, *park_last;
    atomic_uint_fast64_t releases; /* how often a worker got room */
    atomic_uint parked;

    pthread_mutex_t map_lock; /* the map's chains; a flow in it has a closed end to come, so it lives */
    flow *map[FLOW_BUCKETS];
    size_t map_count;
    atomic_size_t live; /* accepted, and not yet gone with their slots */

    pthread_mutex_t janitor_lock; /* what follows */
    pthread_cond_t janitor_wake;
    bool janitor_stop, janitor_nudged;
    bool janitor_started;
    pthread_t janitor;
};

/* flow.c */
od_code flow_create(od_gateway *gateway, od_rpc_call *call, flow **out, od_error *err);
flow *flow_ref(flow *f);
/* It is a further stream of an execution's result (follow.c), and no execution of its own. */
bool flow_is_follower(const flow *f);
void flow_unref(flow *f);
void flow_close_end(flow *f); /* takes the end's reference */
/* Ends the client's call, when nothing is at work for it: with a status, or with an error chunk and status OK. Only the first
 * end counts; false: it was not. */
bool flow_refuse(flow *f, od_code code, const char *text);
/* The same with a STATUS that CODE may not be the one of. */
bool flow_refuse_with(flow *f, int status, od_code code, const char *text);
bool flow_fail(flow *f, const od_error *why);
/* It has failed, or was CANCELLED: for the totals, once, and before its client is told. */
void flow_count(flow *f, bool cancelled);
/* It has failed with WHY, which somebody else tells its client: for the list of what went wrong. */
void flow_note(flow *f, const od_error *why);
/* Stops what is at work for it, and what would be started. ABANDONED: because the client is gone. */
void flow_stop(flow *f, od_code code, bool abandoned, const char *why);
/* Stops it and tells the client why. */
void flow_end(flow *f, od_code code, const char *why);
/* Sent to the client so far. */
uint64_t flow_bytes(flow *f);
/* Starts what admission lets in: all, or one. */
void flow_start_all(ticket *granted);
void flow_turn(flow *f);
/* Enters it in the map. OD_E_EXISTS: its id runs already. An id may be used again as soon as the client can know that it
 * ended: flow_forget comes before the end is sent. */
od_code flow_map_add(flow *f, od_error *err);
void flow_forget(flow *f);
flow *flow_map_find(od_gateway *gateway, const char *id); /* referenced; NULL: none */
/* All flows, referenced, and how many; od_free it after unref. NULL when memory is out. */
flow **flow_map_list(od_gateway *gateway, size_t *count);

/* pump.c: the way to a worker. Each closes the flow's worker end, now or when the worker is done. */
void flow_start(flow *f);
/* The same for a statement without openduck_run. */
void flow_start_routed(flow *f);
/* To WORKER (taken), and no other; once F may be let in. */
void flow_send_to(flow *f, worker_entry *worker);
/* The client has room again. */
void flow_resume(flow *f);
/* On a loop thread, from CALL: asks the worker of F to cancel it, then tells DONE. */
typedef void (*flow_cancel_done)(void *arg, bool acknowledged);
void flow_cancel_remote(flow *f, od_rpc_call *call, od_slice token, flow_cancel_done done, void *arg);

/* follow.c: F is a further stream of an execution's result: its worker end is opened, and with what its leader runs at. */
void flow_follow(flow *f);

/* pump.c: what runs in this process has ended, and its last byte is queued. */
extern const od_worker_run_events flow_local_events;
/* RUN, just started at this process's worker, is F's. Cancelled at once if F was stopped meanwhile. */
void flow_take_run(flow *f, od_worker_run *run);
/* Tells the client the end of a stream without more rows, unless it has its answer. */
void flow_end_empty(flow *f);

/* park.c: executions whose workers are full, in the order in which they came. Each has its worker end open. */
/* F waits until a worker has room. RELEASES: as flow_releases told before it was found that none has. */
void flow_park(flow *f, uint64_t releases);
uint64_t flow_releases(od_gateway *gateway);
/* Takes F out; false: it is not parked (any more). */
bool flow_withdraw(flow *f);
/* A worker's execution has ended, or a worker has come: those that wait try again. */
void flow_unpark(od_gateway *gateway);
/* Ends those that have waited too long. *next_ns: when the next one has, if that is sooner. */
void flow_expire_parked(od_gateway *gateway, int64_t now_ns, int64_t *next_ns);
/* pump.c: on its way again. */
void flow_restart(flow *f);

/* janitor.c: a thread for what no event tells: time. */
od_code janitor_start(od_gateway *gateway, od_error *err);
void janitor_stop(od_gateway *gateway);
void janitor_nudge(od_gateway *gateway); /* a flow began to wait */

/* control.c: the calls of one request and one reply. */
void control_open(void *service, od_rpc_call *call);

/* stats.c: before any of its threads starts. */
od_code gateway_stats_init(od_gateway *gateway, od_metrics *metrics, od_error *err);

/* hop.c: the calls that begin, end and fill transactions. */
void hop_open(void *service, od_rpc_call *call);

#endif
