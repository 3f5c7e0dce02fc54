#include "telemetry/metrics.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "telemetry/process.h"
#include "telemetry/prometheus.h"
#include "unit/base/check.h"

static const od_metric queries = {OD_METRIC_COUNTER, "t.queries", "t_queries_total", "{query}", "Queries", false};
static const od_metric open = {OD_METRIC_GAUGE, "t.open", "t_open", "{thing}", "Open \"things\"\nnow", false};
static const od_metric duration = {OD_METRIC_HISTOGRAM, "t.duration", "t_duration_seconds", "s", "Time", false};

static od_metrics *make(void)
{
    od_metrics *metrics;

    assert_int_equal(od_metrics_create(&metrics, NULL), OD_OK);
    return metrics;
}

typedef struct {
    double values[16];
    uint64_t counts[16], sums[16], buckets[OD_METRIC_BOUNDS + 1];
    size_t count;
} seen;

static od_code take(void *arg, const od_sample *sample, od_error *err)
{
    seen *s = arg;

    (void)err;
    s->values[s->count] = sample->value;
    s->counts[s->count] = sample->count;
    s->sums[s->count++] = sample->sum_ns;
    memcpy(s->buckets, sample->buckets, sizeof s->buckets);
    return OD_OK;
}

static seen read_all(od_metrics *metrics)
{
    seen s = {.count = 0};

    assert_int_equal(od_metrics_read(metrics, take, &s, NULL), OD_OK);
    return s;
}

static void test_without_metrics_nothing_happens(void **state)
{
    (void)state;
    od_counter_add(od_metrics_counter(NULL, &queries, NULL, 0), 1);
    od_gauge_add(od_metrics_gauge(NULL, &open, NULL, 0), 1);
    od_histogram_observe_ns(od_metrics_histogram(NULL, &duration, NULL, 0), 1);
    assert_int_equal(read_all(NULL).count, 0);
    od_metrics_free(NULL);
}

static void test_same_labels_are_the_same_series(void **state)
{
    od_metrics *metrics = make();
    od_label a = {"k", "a"}, b = {"k", "b"};
    od_counter *first = od_metrics_counter(metrics, &queries, &a, 1);

    (void)state;
    assert_ptr_equal(od_metrics_counter(metrics, &queries, &a, 1), first);
    assert_ptr_not_equal(od_metrics_counter(metrics, &queries, &b, 1), first);
    od_counter_add(first, 3);
    assert_int_equal(read_all(metrics).count, 2);
    assert_true(read_all(metrics).values[0] == 3 && read_all(metrics).values[1] == 0);
    od_metrics_free(metrics);
}

static double seven(void *arg)
{
    return *(double *)arg;
}

static void test_what_is_watched_is_asked(void **state)
{
    od_metrics *metrics = make();
    double value = 7;

    (void)state;
    assert_int_equal(od_metrics_watch(metrics, &open, NULL, 0, seven, &value, NULL), OD_OK);
    assert_int_equal(od_metrics_watch(metrics, &open, NULL, 0, seven, &value, NULL), OD_E_EXISTS);
    assert_true(read_all(metrics).values[0] == 7);
    value = 8;
    assert_true(read_all(metrics).values[0] == 8);
    od_metrics_free(metrics);
}

static void test_durations_fall_into_their_buckets(void **state)
{
    od_metrics *metrics = make();
    od_histogram *h = od_metrics_histogram(metrics, &duration, NULL, 0);
    seen s;

    (void)state;
    for (int i = 0; i < OD_METRIC_BOUNDS; i++) /* a bound belongs to its own bucket */
        od_histogram_observe_ns(h, (int64_t)od_metric_bounds_ns[i]);
    od_histogram_observe_ns(h, INT64_C(1000000000000));
    od_histogram_observe_ns(h, -5);
    s = read_all(metrics);
    assert_int_equal(s.counts[0], OD_METRIC_BOUNDS + 2);
    assert_int_equal(s.buckets[0], 2);
    for (int i = 1; i <= OD_METRIC_BOUNDS; i++)
        assert_int_equal(s.buckets[i], 1);
    od_metrics_free(metrics);
}

enum { THREADS = 8, ROUNDS = 20000 };

typedef struct {
    od_counter *counter;
    od_gauge *gauge;
    od_histogram *histogram;
} instruments;

static void *hammer(void *arg)
{
    const instruments *in = arg;

    for (int i = 0; i < ROUNDS; i++) {
        od_counter_add(in->counter, 2);
        od_gauge_add(in->gauge, 1);
        od_histogram_observe_ns(in->histogram, 1000);
        od_gauge_add(in->gauge, -1);
    }
    return NULL;
}

static void test_threads_lose_nothing_and_readers_see_no_fall(void **state)
{
    od_metrics *metrics = make();
    instruments in = {od_metrics_counter(metrics, &queries, NULL, 0), od_metrics_gauge(metrics, &open, NULL, 0),
                      od_metrics_histogram(metrics, &duration, NULL, 0)};
    pthread_t threads[THREADS];
    double last = 0;
    uint64_t last_count = 0;
    seen s;

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &in), 0);
    for (int i = 0; i < 200; i++) {
        s = read_all(metrics);
        assert_true(s.values[0] >= last && s.counts[2] >= last_count);
        last = s.values[0];
        last_count = s.counts[2];
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    s = read_all(metrics);
    assert_true(s.values[0] == 2.0 * THREADS * ROUNDS && s.values[1] == 0);
    assert_int_equal(s.counts[2], THREADS * ROUNDS);
    assert_int_equal(s.sums[2], (uint64_t)THREADS * ROUNDS * 1000);
    od_metrics_free(metrics);
}

static void check_text(od_metrics *metrics, bool openmetrics, const char *expected)
{
    od_buf out = {0};

    assert_int_equal(od_prometheus_write(metrics, openmetrics, &out, NULL), OD_OK);
    assert_non_null(strstr(od_buf_cstr(&out), expected));
    od_buf_release(&out);
}

static void test_prometheus_text(void **state)
{
    od_metrics *metrics = make();
    od_label odd = {"k", "a\"b\\c\nd"};

    (void)state;
    od_counter_add(od_metrics_counter(metrics, &queries, &odd, 1), 5);
    od_gauge_add(od_metrics_gauge(metrics, &open, NULL, 0), -3);
    od_histogram_observe_ns(od_metrics_histogram(metrics, &duration, &odd, 1), 1500000000);
    check_text(
        metrics, false,
        "# HELP t_queries_total Queries\n# TYPE t_queries_total counter\nt_queries_total{k=\"a\\\"b\\\\c\\nd\"} 5\n");
    check_text(metrics, true, "# HELP t_queries Queries\n# TYPE t_queries counter\nt_queries_total{");
    check_text(metrics, false, "# HELP t_open Open \"things\"\\nnow\n# TYPE t_open gauge\nt_open -3\n");
    check_text(metrics, true, "# HELP t_open Open \\\"things\\\"\\nnow\n");
    check_text(metrics, false, "t_duration_seconds_bucket{k=\"a\\\"b\\\\c\\nd\",le=\"1.0\"} 0\n");
    check_text(metrics, false, ",le=\"2.5\"} 1\n");
    check_text(metrics, false, ",le=\"+Inf\"} 1\nt_duration_seconds_sum{k=\"a\\\"b\\\\c\\nd\"} 1.5\n");
    check_text(metrics, true, "# EOF\n");
    od_metrics_free(metrics);
}

static void test_process_metrics_are_plausible(void **state)
{
    od_metrics *metrics = make();
    seen s;

    (void)state;
    assert_int_equal(od_metrics_watch_process(metrics, NULL), OD_OK);
    s = read_all(metrics);
    assert_int_equal(s.count, 5);
    assert_true(s.values[0] >= 0 && s.values[1] > 1e5 && s.values[2] >= 3 && s.values[3] >= 1 && s.values[4] > 1.7e9);
    od_metrics_free(metrics);
}

static void test_no_memory_is_survived(void **state)
{
    od_label label = {"k", "v"};

    (void)state;
    for (long n = 0; n < 8; n++) {
        od_metrics *metrics = make();
        od_buf out = {0};

        od_alloc_fail_after(n);
        od_counter_add(od_metrics_counter(metrics, &queries, &label, 1), 1);
        od_alloc_fail_after(-1);
        assert_int_equal(od_prometheus_write(metrics, false, &out, NULL), OD_OK);
        od_buf_release(&out);
        od_metrics_free(metrics);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_metrics_nothing_happens),
        cmocka_unit_test(test_same_labels_are_the_same_series),
        cmocka_unit_test(test_what_is_watched_is_asked),
        cmocka_unit_test(test_durations_fall_into_their_buckets),
        cmocka_unit_test(test_threads_lose_nothing_and_readers_see_no_fall),
        cmocka_unit_test(test_prometheus_text),
        cmocka_unit_test(test_process_metrics_are_plausible),
        cmocka_unit_test(test_no_memory_is_survived),
    };

    return check_run("telemetry.metrics", tests, argc, argv);
}
