#include "query/execution_stats.h"

#include "base/banned.h"

static const od_metric in_flight = {.kind = OD_METRIC_GAUGE,
                                    .name = "openduck.executions.in_flight",
                                    .prometheus_name = "openduck_executions_in_flight",
                                    .unit = "{execution}",
                                    .help = "Executions that run"};
static const od_metric max_in_flight = {.kind = OD_METRIC_GAUGE,
                                        .name = "openduck.executions.in_flight.limit",
                                        .prometheus_name = "openduck_executions_in_flight_limit",
                                        .unit = "{execution}",
                                        .help = "Executions that may run at once"};
static const od_metric queued = {.kind = OD_METRIC_GAUGE,
                                 .name = "openduck.executions.queued",
                                 .prometheus_name = "openduck_executions_queued",
                                 .unit = "{execution}",
                                 .help = "Executions that wait for their turn"};
static const od_metric max_queued = {.kind = OD_METRIC_GAUGE,
                                     .name = "openduck.executions.queued.limit",
                                     .prometheus_name = "openduck_executions_queued_limit",
                                     .unit = "{execution}",
                                     .help = "Executions that may wait; further ones are refused"};
static const od_metric total = {.kind = OD_METRIC_COUNTER,
                                .name = "openduck.executions",
                                .prometheus_name = "openduck_executions_total",
                                .unit = "{execution}",
                                .help = "Executions that were taken in"};
static const od_metric errors = {.kind = OD_METRIC_COUNTER,
                                 .name = "openduck.executions.errors",
                                 .prometheus_name = "openduck_execution_errors_total",
                                 .unit = "{execution}",
                                 .help = "Executions that ended with an error"};
static const od_metric cancelled = {.kind = OD_METRIC_COUNTER,
                                    .name = "openduck.executions.cancellations",
                                    .prometheus_name = "openduck_execution_cancellations_total",
                                    .unit = "{execution}",
                                    .help = "Executions that were cancelled, or whose client went away"};
static const od_metric transactions = {.kind = OD_METRIC_GAUGE,
                                       .name = "openduck.transactions.open",
                                       .prometheus_name = "openduck_transactions_open",
                                       .unit = "{transaction}",
                                       .help = "Open transactions"};

od_code od_execution_stats_watch(od_metrics *metrics, const od_execution_stats *stats, void *arg, od_error *err)
{
    const struct {
        const od_metric *metric;
        double (*read)(void *arg);
    } all[] = {
        {&in_flight, stats->in_flight}, {&max_in_flight, stats->max_in_flight},
        {&queued, stats->queued},       {&max_queued, stats->max_queued},
        {&total, stats->total},         {&errors, stats->errors},
        {&cancelled, stats->cancelled}, {&transactions, stats->transactions},
    };
    od_code rc = OD_OK;

    for (size_t i = 0; i < sizeof all / sizeof *all && rc == OD_OK; i++)
        rc = od_metrics_watch(metrics, all[i].metric, NULL, 0, all[i].read, arg, err);
    return rc;
}
