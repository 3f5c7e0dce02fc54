/* Puts a bridge wherever the place changes between a node and one below it. */
#ifndef OD_QUERY_GATEWAY_HYBRID_BRIDGES_H
#define OD_QUERY_GATEWAY_HYBRID_BRIDGES_H

#include "query/gateway/hybrid/plan.h"

/* Every node has its place already. Bridges are numbered from 1. */
OD_MUST_CHECK od_code insert_bridges(plan *p, od_error *err);

#endif
