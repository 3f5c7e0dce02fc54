/* telemetry/otlp.h: metrics as OpenTelemetry's collectors take them: an ExportMetricsServiceRequest of
 * opentelemetry.proto.collector.metrics.v1, cumulative since the start. */
#ifndef OD_TELEMETRY_OTLP_H
#define OD_TELEMETRY_OTLP_H

#include "base/buf.h"
#include "telemetry/metrics.h"
#include "telemetry/otlp_config.h"

/* Where a request goes by gRPC. */
#define OD_OTLP_PATH "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

/* Appends the request to OUT. START_NS and NOW_NS: of the counting and of this reading, in nanoseconds since 1970. */
OD_MUST_CHECK od_code od_otlp_encode(od_metrics *metrics, const od_otlp_config *config, uint64_t start_ns,
                                     uint64_t now_ns, od_buf *out, od_error *err);

#endif
