/* The way of metrics to an OpenTelemetry collector, as the variables of OpenTelemetry say. */
#ifndef OD_CLI_OTLP_H
#define OD_CLI_OTLP_H

#include "telemetry/exporter.h"

typedef struct otlp otlp;

/* Begins to export METRICS. *out is NULL if the environment does not ask for it, or asks for what is not possible, which is
 * logged: what watches a server does not keep it from serving. */
OD_MUST_CHECK od_code otlp_start(od_metrics *metrics, otlp **out, od_error *err);
/* Exports a last time. NULL allowed. */
void otlp_stop(otlp *o);

#endif
