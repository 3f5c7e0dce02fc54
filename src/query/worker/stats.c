/* The metrics of a worker that has a listener of its own. */
#include "query/execution_stats.h"
#include "query/worker/worker_internal.h"
#include "base/banned.h"

static double in_flight(void *arg)
{
    const od_worker *worker = arg;
    return od_worker_in_flight(worker);
}

static double max_in_flight(void *arg)
{
    const od_worker *worker = arg;
    return worker->max_concurrency;
}

static double queued(void *arg)
{
    const od_worker *worker = arg;
    return (double)od_pool_read_stats(worker->pool).queued;
}

static double max_queued(void *arg)
{
    (void)arg;
    return OD_WORKER_MAX_WAITING;
}

static double total(void *arg)
{
    return (double)atomic_load(&((od_worker *)arg)->total);
}

static double errors(void *arg)
{
    return (double)atomic_load(&((od_worker *)arg)->errors);
}

static double cancelled(void *arg)
{
    return (double)atomic_load(&((od_worker *)arg)->cancelled);
}

static double transactions(void *arg)
{
    return od_worker_transactions(arg);
}

od_code od_worker_watch(od_worker *worker, od_metrics *metrics, od_error *err)
{
    static const od_execution_stats stats = {.in_flight = in_flight,
                                             .max_in_flight = max_in_flight,
                                             .queued = queued,
                                             .max_queued = max_queued,
                                             .total = total,
                                             .errors = errors,
                                             .cancelled = cancelled,
                                             .transactions = transactions};
    return od_execution_stats_watch(metrics, &stats, worker, err);
}
