/* Runs a statement with openduck_run in it: its fragments at their places, in parallel, and the statement on top.
 *
 * A bridge is a temporary table of the engine above it, which DuckDB spills when memory is short; it goes with the transaction that
 * the fragment above runs in. A fragment starts when all that it reads is there; what it reads is moved at the same time. */
#ifndef OD_QUERY_GATEWAY_HYBRID_RUN_H
#define OD_QUERY_GATEWAY_HYBRID_RUN_H

#include "query/engine.h"

struct flow;
typedef struct hybrid hybrid;
typedef struct hybrid_run hybrid_run;

/* LOCAL is ENGINE (borrowed). TLS (referenced; NULL: as a channel's) is for workers at https://. STATEMENTS: that may run at once. */
OD_MUST_CHECK od_code hybrid_create(od_engine *engine, od_tls *tls, unsigned statements, hybrid **out, od_error *err);
void hybrid_free(hybrid *h); /* waits for what runs. NULL allowed */

/* Whether F's statement may be one for hybrid_start: whether it mentions openduck_run. */
bool hybrid_wants(const struct flow *f);
/* Takes F over, whose worker end is closed when it is done. Does not block. What turns out to have no openduck_run goes to
 * flow_start_routed. */
void hybrid_start(struct flow *f);
/* Any thread: ends what runs for it. */
void hybrid_stop(hybrid_run *run);
void hybrid_run_free(hybrid_run *run); /* NULL allowed */

#endif
