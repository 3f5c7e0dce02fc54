#include "query/rpc/meter.h"

#include <stdio.h>
#include <string.h>

#include "base/banned.h"

static const od_metric duration = {.kind = OD_METRIC_HISTOGRAM,
                                   .name = "rpc.server.duration",
                                   .prometheus_name = "openduck_rpc_server_duration_seconds",
                                   .unit = "ms",
                                   .help = "Time from the first byte of a call to its end, by method and outcome"};
static const od_metric active = {.kind = OD_METRIC_GAUGE,
                                 .name = "openduck.rpc.server.active_calls",
                                 .prometheus_name = "openduck_rpc_server_active_calls",
                                 .unit = "{call}",
                                 .help = "Calls that are being served"};
static const od_metric received = {.kind = OD_METRIC_COUNTER,
                                   .name = "openduck.rpc.server.received",
                                   .prometheus_name = "openduck_rpc_server_received_bytes_total",
                                   .unit = "By",
                                   .help = "Bytes of the messages that clients have sent"};
static const od_metric sent = {.kind = OD_METRIC_COUNTER,
                               .name = "openduck.rpc.server.sent",
                               .prometheus_name = "openduck_rpc_server_sent_bytes_total",
                               .unit = "By",
                               .help = "Bytes of the messages that were queued for clients"};

void od_meter_make(od_metrics *metrics, const char *path, od_meter *out)
{
    static const char *const outcomes[OD_CALL_OUTCOMES] = {"success", "error", "cancelled"};
    const char *slash = path ? strrchr(path, '/') : NULL;
    char service[128] = "_OTHER"; /* what the conventions call an unknown one */
    od_label labels[] = {{"rpc_system", "grpc"}, {"rpc_service", service}, {"rpc_method", "_OTHER"}, {"outcome", ""}};

    if (slash && slash > path) {
        snprintf(service, sizeof service, "%.*s", (int)(slash - path - 1), path + 1);
        labels[2].value = slash + 1;
    }
    for (int i = 0; i < OD_CALL_OUTCOMES; i++) {
        labels[3].value = outcomes[i];
        out->durations[i] = od_metrics_histogram(metrics, &duration, labels, 4);
    }
    out->active = od_metrics_gauge(metrics, &active, labels, 3);
    out->received = od_metrics_counter(metrics, &received, labels, 3);
    out->sent = od_metrics_counter(metrics, &sent, labels, 3);
}
