#include "query/gateway/stats.h"

#include "query/execution_stats.h"
#include "query/gateway/flow.h"
#include "base/banned.h"

static const od_metric queue_wait = {.kind = OD_METRIC_HISTOGRAM,
                                     .name = "openduck.execution.queue_wait",
                                     .prometheus_name = "openduck_execution_queue_wait_seconds",
                                     .unit = "s",
                                     .help = "Time from a request to its turn"};
static const od_metric refused = {.kind = OD_METRIC_COUNTER,
                                  .name = "openduck.executions.refused",
                                  .prometheus_name = "openduck_executions_refused_total",
                                  .unit = "{execution}",
                                  .help = "Executions that never got their turn"};
static const od_metric registrations = {.kind = OD_METRIC_COUNTER,
                                        .name = "openduck.worker.registrations",
                                        .prometheus_name = "openduck_worker_registrations_total",
                                        .unit = "{registration}",
                                        .help = "Registrations of workers"};
static const od_metric heartbeats = {.kind = OD_METRIC_COUNTER,
                                     .name = "openduck.worker.heartbeats",
                                     .prometheus_name = "openduck_worker_heartbeats_total",
                                     .unit = "{heartbeat}",
                                     .help = "Heartbeats, of known workers and of others, which have to register"};
static const od_metric departures = {.kind = OD_METRIC_COUNTER,
                                     .name = "openduck.worker.departures",
                                     .prometheus_name = "openduck_worker_departures_total",
                                     .unit = "{worker}",
                                     .help = "Workers that were forgotten: they left, or were not heard of any more"};
static const od_metric workers = {.kind = OD_METRIC_GAUGE,
                                  .name = "openduck.workers",
                                  .prometheus_name = "openduck_workers",
                                  .unit = "{worker}",
                                  .help = "Known workers, by whether they are given executions"};

/* ---- what is known anyway ---- */

static double in_flight(void *arg)
{
    return od_gateway_in_flight(arg);
}

static double max_in_flight(void *arg)
{
    const od_gateway *g = arg;

    return admit_count(g->admit).max_in_flight;
}

static double queued(void *arg)
{
    return od_gateway_queued(arg);
}

static double max_queued(void *arg)
{
    const od_gateway *g = arg;

    return admit_count(g->admit).max_queued;
}

static double total(void *arg)
{
    return (double)atomic_load(&((od_gateway *)arg)->total);
}

static double errors(void *arg)
{
    return (double)atomic_load(&((od_gateway *)arg)->errors);
}

static double cancelled(void *arg)
{
    return (double)atomic_load(&((od_gateway *)arg)->cancelled);
}

static double transactions(void *arg)
{
    const od_gateway *g = arg;

    return od_gateway_transactions(arg) + (g->worker ? od_worker_transactions(g->worker) : 0);
}

static double count_workers(const od_gateway *g, bool healthy)
{
    int64_t now = od_clock_ns();
    size_t count, found = 0;
    worker_entry **list = registry_list(g->registry, &count);

    for (size_t i = 0; i < count; i++)
        found += worker_entry_healthy(list[i], now) == healthy;
    registry_list_free(list, count);
    return (double)found;
}

static double healthy_workers(void *arg)
{
    return count_workers(arg, true);
}

static double unhealthy_workers(void *arg)
{
    return count_workers(arg, false);
}

/* ---- all of it ---- */

static od_counter *counter(od_metrics *metrics, const od_metric *metric, const char *key, const char *value)
{
    const od_label label = {key, value};

    return od_metrics_counter(metrics, metric, &label, 1);
}

/* A server that runs executions itself takes no registrations. */
static od_code watch_workers(od_gateway *g, od_metrics *metrics, od_error *err)
{
    static const od_label healthy = {"state", "healthy"}, unhealthy = {"state", "unhealthy"};
    gateway_stats *s = &g->stats;
    od_code rc;

    s->registered = counter(metrics, &registrations, "result", "accepted");
    s->register_refused = counter(metrics, &registrations, "result", "refused");
    s->heartbeats = counter(metrics, &heartbeats, "worker", "known");
    s->heartbeats_unknown = counter(metrics, &heartbeats, "worker", "unknown");
    s->left = counter(metrics, &departures, "reason", "left");
    s->evicted = counter(metrics, &departures, "reason", "silent");
    rc = od_metrics_watch(metrics, &workers, &healthy, 1, healthy_workers, g, err);
    return rc == OD_OK ? od_metrics_watch(metrics, &workers, &unhealthy, 1, unhealthy_workers, g, err) : rc;
}

od_code gateway_stats_init(od_gateway *gateway, od_metrics *metrics, od_error *err)
{
    static const od_execution_stats stats = {.in_flight = in_flight,
                                             .max_in_flight = max_in_flight,
                                             .queued = queued,
                                             .max_queued = max_queued,
                                             .total = total,
                                             .errors = errors,
                                             .cancelled = cancelled,
                                             .transactions = transactions};
    od_code rc = od_execution_stats_watch(metrics, &stats, gateway, err);

    gateway->stats.queue_wait = od_metrics_histogram(metrics, &queue_wait, NULL, 0);
    gateway->stats.refused_full = counter(metrics, &refused, "reason", "queue_full");
    gateway->stats.refused_late = counter(metrics, &refused, "reason", "queue_timeout");
    if (rc == OD_OK && !gateway->worker)
        rc = watch_workers(gateway, metrics, err);
    return rc;
}
