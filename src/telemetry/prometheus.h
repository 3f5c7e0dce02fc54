/* telemetry/prometheus.h: metrics as Prometheus reads them. */
#ifndef OD_TELEMETRY_PROMETHEUS_H
#define OD_TELEMETRY_PROMETHEUS_H

#include "base/buf.h"
#include "telemetry/metrics.h"

/* The content types of the two forms. */
#define OD_PROMETHEUS_TEXT "text/plain; version=0.0.4; charset=utf-8"
#define OD_PROMETHEUS_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Appends the text format 0.0.4, or OPENMETRICS 1.0, of all series to OUT. */
OD_MUST_CHECK od_code od_prometheus_write(od_metrics *metrics, bool openmetrics, od_buf *out, od_error *err);

#endif
