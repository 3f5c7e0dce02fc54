/* What a gateway counts. */
#ifndef OD_QUERY_GATEWAY_STATS_H
#define OD_QUERY_GATEWAY_STATS_H

#include "telemetry/metrics.h"

/* Without metrics all are NULL, and nothing is counted. */
typedef struct {
    od_histogram *queue_wait;
    od_counter *refused_full, *refused_late; /* no place in the queue; none that came free in time */
    od_counter *registered, *register_refused;
    od_counter *heartbeats, *heartbeats_unknown;
    od_counter *left, *evicted;
} gateway_stats;

#endif
