/* telemetry/metrics.h: counters, gauges and histograms, cheap to change and safe to read at any time.
 *
 * A metric is described by a constant od_metric; each set of labels makes one series of it. Instruments are made once, at
 * start, and live as long as their od_metrics. Changing one takes a relaxed atomic addition to a cell that the thread shares
 * with few others, no lock. Every function takes NULL for an instrument or an od_metrics, and does nothing then, so that what
 * is measured need not ask whether it is.
 *
 * A name has two forms: OpenTelemetry's ("rpc.server.duration"), and Prometheus' ("openduck_rpc_server_duration_seconds"). */
#ifndef OD_TELEMETRY_METRICS_H
#define OD_TELEMETRY_METRICS_H

#include <stdint.h>

#include "base/error.h"

enum { OD_METRIC_LABELS = 4, OD_METRIC_BOUNDS = 17 };

typedef enum {
    OD_METRIC_COUNTER, /* only grows */
    OD_METRIC_GAUGE,
    OD_METRIC_HISTOGRAM /* of durations, with the bounds of od_metric_bounds_ns */
} od_metric_kind;

typedef struct {
    od_metric_kind kind;
    const char *name;            /* OpenTelemetry's */
    const char *prometheus_name; /* a counter's ends in _total */
    const char *unit;            /* UCUM: "By", "{execution}"; of a histogram "s" or "ms" */
    const char *help;            /* one line, without a full stop */
    bool fraction;               /* values that are read by od_metrics_watch need not be whole */
} od_metric;

/* Keys are Prometheus' ("rpc_method"); OpenTelemetry's have dots for the underscores. */
typedef struct {
    const char *key, *value;
} od_label;

/* The upper bounds of all buckets but the last, which has none: 0.5 ms to 5 minutes. */
extern const uint64_t od_metric_bounds_ns[OD_METRIC_BOUNDS];

typedef struct od_metrics od_metrics;
typedef struct od_counter od_counter;
typedef struct od_gauge od_gauge;
typedef struct od_histogram od_histogram;

OD_MUST_CHECK od_code od_metrics_create(od_metrics **out, od_error *err);
void od_metrics_free(od_metrics *metrics); /* NULL allowed */

/* Each makes a series of METRIC (borrowed, constant), or gives the one of the same LABELS (copied) that is there already. NULL
 * when memory is out, or METRICS is NULL. Thread: any. */
od_counter *od_metrics_counter(od_metrics *metrics, const od_metric *metric, const od_label *labels, size_t count);
od_gauge *od_metrics_gauge(od_metrics *metrics, const od_metric *metric, const od_label *labels, size_t count);
od_histogram *od_metrics_histogram(od_metrics *metrics, const od_metric *metric, const od_label *labels, size_t count);
/* A counter or gauge that is known elsewhere: READ(ARG) is asked for it, on a thread that reads, with no lock held. METRICS is
 * not read any more once ARG is gone. Labels that are there already are OD_E_EXISTS. */
OD_MUST_CHECK od_code od_metrics_watch(od_metrics *metrics, const od_metric *metric, const od_label *labels,
                                       size_t count, double (*read)(void *arg), void *arg, od_error *err);

void od_counter_add(od_counter *counter, uint64_t n);
void od_gauge_add(od_gauge *gauge, int64_t change);
void od_histogram_observe_ns(od_histogram *histogram, int64_t ns); /* a negative one counts as 0 */

/* One series as it is now. */
typedef struct {
    const od_metric *metric;
    const od_label *labels;
    size_t label_count;
    bool first;                             /* of its metric; all of one metric follow each other */
    double value;                           /* of a counter or gauge */
    uint64_t buckets[OD_METRIC_BOUNDS + 1]; /* of a histogram; not cumulative */
    uint64_t count, sum_ns;
} od_sample;

/* Shows every series to FN; what FN returns other than OD_OK ends it and is returned. A count is always the sum of its
 * buckets, and no number of a counter or histogram is ever less than in an earlier reading. Thread: any. */
OD_MUST_CHECK od_code od_metrics_read(od_metrics *metrics,
                                      od_code (*fn)(void *arg, const od_sample *sample, od_error *err), void *arg,
                                      od_error *err);

#endif
