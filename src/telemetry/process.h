/* telemetry/process.h: what this process uses, under the names that every dashboard knows. */
#ifndef OD_TELEMETRY_PROCESS_H
#define OD_TELEMETRY_PROCESS_H

#include "telemetry/metrics.h"

/* Has METRICS tell CPU time, resident memory, open descriptors, threads and the start of this process. */
OD_MUST_CHECK od_code od_metrics_watch_process(od_metrics *metrics, od_error *err);

#endif
