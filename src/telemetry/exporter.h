/* telemetry/exporter.h: sends metrics to a collector, every so often, on a thread of its own.
 *
 * What is measured never waits for it. A collector that cannot be reached is logged once, and once more when it is back; as all
 * numbers are cumulative, the next export holds what the last one did. */
#ifndef OD_TELEMETRY_EXPORTER_H
#define OD_TELEMETRY_EXPORTER_H

#include "telemetry/otlp.h"

typedef struct {
    /* Sends BODY within TIMEOUT_MS, or until STOP(STOP_ARG), which is asked every now and then, is true. */
    od_code (*send)(void *arg, od_slice body, int64_t timeout_ms, bool (*stop)(void *arg), void *stop_arg,
                    od_error *err);
    void *arg;
} od_exporter_sender;

typedef struct od_exporter od_exporter;

/* METRICS and CONFIG are borrowed. */
OD_MUST_CHECK od_code od_exporter_start(od_metrics *metrics, const od_otlp_config *config, od_exporter_sender sender,
                                        od_exporter **out, od_error *err);
/* Sends a last time, for three seconds at most, and joins the thread. NULL allowed. */
void od_exporter_stop(od_exporter *exporter);

#endif
