/* query/execution_stats.h: the metrics that whatever takes executions in has, gateway or worker. */
#ifndef OD_QUERY_EXECUTION_STATS_H
#define OD_QUERY_EXECUTION_STATS_H

#include "telemetry/metrics.h"

/* Each is asked with the same ARG, on any thread. */
typedef struct {
    double (*in_flight)(void *arg), (*max_in_flight)(void *arg);
    double (*queued)(void *arg), (*max_queued)(void *arg);
    double (*total)(void *arg), (*errors)(void *arg), (*cancelled)(void *arg);
    double (*transactions)(void *arg); /* open ones */
} od_execution_stats;

OD_MUST_CHECK od_code od_execution_stats_watch(od_metrics *metrics, const od_execution_stats *stats, void *arg,
                                               od_error *err);

#endif
