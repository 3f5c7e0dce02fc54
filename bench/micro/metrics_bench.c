/* What counting costs: nanoseconds for one addition to a counter and one observation of a histogram, by 1, 2 and 8 threads. */
#include <pthread.h>
#include <stdio.h>

#include "base/deadline.h"
#include "telemetry/metrics.h"

enum { ROUNDS = 5000000, MOST = 8 };

static const od_metric counted = {OD_METRIC_COUNTER, "b.c", "b_c_total", "1", "Count", false};
static const od_metric measured = {OD_METRIC_HISTOGRAM, "b.h", "b_h_seconds", "s", "Time", false};

static od_counter *counter;
static od_histogram *histogram;

static void *count(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++)
        od_counter_add(counter, 1);
    return NULL;
}

static void *observe(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++)
        od_histogram_observe_ns(histogram, (int64_t)i * 100);
    return NULL;
}

static double ns_each(void *(*work)(void *arg), int threads)
{
    pthread_t ids[MOST];
    int64_t start = od_clock_ns();

    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, work, NULL) != 0)
            return -1;
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return (double)(od_clock_ns() - start) / ROUNDS / threads;
}

int main(void)
{
    static const int threads[] = {1, 2, MOST};
    od_metrics *metrics;

    if (od_metrics_create(&metrics, NULL) != OD_OK)
        return 1;
    counter = od_metrics_counter(metrics, &counted, NULL, 0);
    histogram = od_metrics_histogram(metrics, &measured, NULL, 0);
    for (int i = 0; i < 3; i++)
        printf("%d threads: counter %.1f ns, histogram %.1f ns\n", threads[i], ns_each(count, threads[i]),
               ns_each(observe, threads[i]));
    od_metrics_free(metrics);
    return 0;
}
