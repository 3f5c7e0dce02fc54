#include "query/console/sampler.h"

#include <stdio.h>
#include <string.h>

#include "unit/base/check.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

static const od_metric duration = {
    .kind = OD_METRIC_HISTOGRAM, .name = "rpc.server.duration", .prometheus_name = "d", .unit = "ms", .help = "h"};
static const od_metric in_flight = {
    .kind = OD_METRIC_GAUGE, .name = "openduck.executions.in_flight", .prometheus_name = "f", .unit = "1", .help = "h"};

typedef struct {
    od_metrics *metrics;
    sampler *s;
    int64_t now_ns;
} fixture;

static void make(fixture *f)
{
    f->now_ns = SECOND;
    assert_int_equal(od_metrics_create(&f->metrics, NULL), OD_OK);
    assert_int_equal(sampler_create(f->metrics, &f->s, NULL), OD_OK);
}

static void unmake(fixture *f)
{
    sampler_free(f->s);
    od_metrics_free(f->metrics);
}

static od_histogram *calls(const fixture *f, const char *service, const char *method, const char *outcome)
{
    const od_label labels[] = {{"rpc_service", service}, {"rpc_method", method}, {"outcome", outcome}};

    return od_metrics_histogram(f->metrics, &duration, labels, 3);
}

static void step(fixture *f)
{
    sampler_take(f->s, f->now_ns, f->now_ns / MS);
    f->now_ns += SAMPLER_STEP_MS * MS;
}

static const char *written(const fixture *f, uint64_t since, od_buf *out)
{
    out->len = 0;
    assert_int_equal(sampler_write(f->s, since, out, NULL), OD_OK);
    return od_buf_cstr(out);
}

static void test_rows_tell_rates_and_latencies(void **state)
{
    fixture f;
    od_buf out = {0};

    (void)state;
    make(&f);
    od_gauge_add(od_metrics_gauge(f.metrics, &in_flight, NULL, 0), 3);
    od_histogram_observe_ns(calls(&f, "openduck.v1.ExecutionService", "Execute", "success"), MS); /* long ago */
    od_histogram_observe_ns(calls(&f, "grpc.health.v1.Health", "Watch", "success"), 50 * SECOND);
    step(&f);
    for (int i = 0; i < 10; i++)
        od_histogram_observe_ns(calls(&f, "openduck.v1.ExecutionService", "Execute", "success"), 3 * MS);
    for (int i = 0; i < 10; i++)
        od_histogram_observe_ns(calls(&f, "openduck.v1.ExecutionService", "Execute", "error"), 3 * MS);
    od_histogram_observe_ns(calls(&f, "openduck.v1.ExecutionService", "Execute", "cancelled"), 299 * SECOND);
    step(&f);
    step(&f);
    assert_string_equal(written(&f, 0, &out),
                        "{\"step_ms\":2000,\"window_ms\":10000,\"kept\":300,\"next\":3,\"methods\":[\"Execute\"],"
                        "\"first\":0,\"rows\":["
                        "[1000,3,null,[null,null,null,null,null]],"
                        "[3000,3,null,[10.5,5,3.75,4.875,4.975]]," /* evenly in 2.5 to 5 ms */
                        "[5000,3,null,[5.25,2.5,3.75,4.875,4.975]]]}");
    assert_non_null(strstr(written(&f, 2, &out), "\"next\":3,\"methods\":[\"Execute\"],\"first\":2,\"rows\":[[5000,"));
    assert_non_null(strstr(written(&f, 3, &out), "\"rows\":[]"));
    assert_non_null(strstr(written(&f, 4, &out), "\"first\":0,\"rows\":[[1000,")); /* of another server */
    /* What is over drops out of the window. */
    for (int i = 0; i < SAMPLER_WINDOW; i++)
        step(&f);
    assert_non_null(strstr(written(&f, 7, &out), "[15000,3,null,[0,0,null,null,null]]"));
    od_buf_release(&out);
    unmake(&f);
}

static void test_the_ring_and_the_methods_are_bounded(void **state)
{
    fixture f;
    od_buf out = {0};
    char name[40];

    (void)state;
    make(&f);
    for (int i = 0; i < SAMPLER_METHODS + 5; i++) {
        snprintf(name, sizeof name, "Method%d", i);
        od_histogram_observe_ns(calls(&f, "openduck.v1.X", name, "success"), 400 * SECOND);
    }
    for (int i = 0; i < SAMPLER_ROWS + 10; i++)
        step(&f);
    assert_non_null(strstr(written(&f, 0, &out), "\"Method11\"],\"first\":10,\"rows\":[[21000,"));
    assert_null(strstr(od_buf_cstr(&out), "Method12"));
    od_buf_release(&out);
    unmake(&f);
}

static void test_what_takes_longer_than_all_bounds_counts_as_the_last(void **state)
{
    fixture f;
    od_buf out = {0};

    (void)state;
    make(&f);
    calls(&f, "openduck.v1.X", "Y", "success");
    step(&f);
    od_histogram_observe_ns(calls(&f, "openduck.v1.X", "Y", "success"), 4000 * SECOND);
    step(&f);
    assert_non_null(strstr(written(&f, 1, &out), "[0.5,0,3e+05,3e+05,3e+05]"));
    od_buf_release(&out);
    unmake(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_tell_rates_and_latencies),
                                       cmocka_unit_test(test_the_ring_and_the_methods_are_bounded),
                                       cmocka_unit_test(test_what_takes_longer_than_all_bounds_counts_as_the_last)};

    return check_run("sampler", tests, argc, argv);
}
