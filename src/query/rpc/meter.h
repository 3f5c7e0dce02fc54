/* query/rpc/meter.h: what is counted of the calls of one method. */
#ifndef OD_QUERY_RPC_METER_H
#define OD_QUERY_RPC_METER_H

#include <stdint.h>

#include "telemetry/metrics.h"

typedef enum { OD_CALL_SUCCESS, OD_CALL_ERROR, OD_CALL_CANCELLED, OD_CALL_OUTCOMES } od_call_outcome;

/* Without metrics all are NULL, and nothing is counted. */
typedef struct {
    od_histogram *durations[OD_CALL_OUTCOMES];
    od_gauge *active;
    od_counter *received, *sent; /* bytes of messages */
} od_meter;

/* PATH: "/openduck.v1.ExecutionService/Heartbeat"; NULL: the calls of all paths that are unknown here. */
void od_meter_make(od_metrics *metrics, const char *path, od_meter *out);

#endif
