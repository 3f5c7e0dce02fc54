/* Decides where the fragments run that nobody has said it of, by the tables that they read. */
#ifndef OD_QUERY_GATEWAY_HYBRID_PLACEMENT_H
#define OD_QUERY_GATEWAY_HYBRID_PLACEMENT_H

#include "query/gateway/hybrid/plan.h"

/* Who knows the tables. Each fills the facts of its side for SCANS. */
typedef struct {
    void *arg;
    od_code (*look_local)(void *arg, plan_node *const *scans, size_t count, od_error *err);
    od_code (*look_remote)(void *arg, plan_node *const *scans, size_t count, od_error *err);
} placement_catalog;

/* Gives every node a place. The statement itself is AUTO. A fragment that is AUTO runs where its tables are: LOCAL if all are, also if
 * there are remote ones of the same names; REMOTE if none is local. Where both are read it runs where a table is that it writes, else
 * where the larger part of the data is, and the other tables become scans at the other place. Without tables a query runs where all
 * that it reads runs, and anything else, or what reads from both, is LOCAL.
 *   OD_E_NOT_IMPLEMENTED   a table that cannot be bridged is at the other place */
OD_MUST_CHECK od_code resolve_auto(plan *p, const placement_catalog *catalog, od_error *err);

#endif
