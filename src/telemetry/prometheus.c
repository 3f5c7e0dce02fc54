#include "telemetry/prometheus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

typedef struct {
    od_buf *out;
    bool openmetrics;
} writer;

static const char *type_name(od_metric_kind kind)
{
    switch (kind) {
    case OD_METRIC_COUNTER:
        return "counter";
    case OD_METRIC_GAUGE:
        return "gauge";
    case OD_METRIC_HISTOGRAM:
        break;
    }
    return "histogram";
}

/* How much of the name is the metric's: OpenMetrics calls a counter without its _total. */
static int family_length(const writer *w, const od_metric *metric)
{
    static const char total[] = "_total";
    size_t len = strlen(metric->prometheus_name), tail = sizeof total - 1;

    if (w->openmetrics && metric->kind == OD_METRIC_COUNTER && len > tail &&
        strcmp(metric->prometheus_name + len - tail, total) == 0)
        len -= tail;
    return (int)len;
}

/* TEXT with what may not be bare in a value or a HELP line escaped. */
static od_code put_escaped(od_buf *out, const char *text, bool quotes, od_error *err)
{
    od_code rc = OD_OK;

    for (; *text && rc == OD_OK; text++) {
        if (*text == '\\')
            rc = od_buf_append(out, "\\\\", 2, err);
        else if (*text == '\n')
            rc = od_buf_append(out, "\\n", 2, err);
        else if (*text == '"' && quotes)
            rc = od_buf_append(out, "\\\"", 2, err);
        else
            rc = od_buf_append(out, text, 1, err);
    }
    return rc;
}

static od_code put_head(const writer *w, const od_metric *metric, od_error *err)
{
    int len = family_length(w, metric);
    od_code rc;

    OD_TRY(od_buf_printf(w->out, err, "# HELP %.*s ", len, metric->prometheus_name));
    OD_TRY(put_escaped(w->out, metric->help, w->openmetrics, err));
    OD_TRY(od_buf_printf(w->out, err, "\n# TYPE %.*s %s\n", len, metric->prometheus_name, type_name(metric->kind)));

out:
    return rc;
}

/* LE: the bound of a bucket; NULL: none. */
static od_code put_labels(const writer *w, const od_sample *s, const char *le, od_error *err)
{
    const char *before = "{";
    od_code rc = OD_OK;

    for (size_t i = 0; i < s->label_count; i++) {
        OD_TRY(od_buf_printf(w->out, err, "%s%s=\"", before, s->labels[i].key));
        OD_TRY(put_escaped(w->out, s->labels[i].value, true, err));
        OD_TRY(od_buf_append(w->out, "\"", 1, err));
        before = ",";
    }
    if (le) {
        OD_TRY(od_buf_printf(w->out, err, "%sle=\"%s\"", before, le));
        before = ",";
    }
    if (before[0] == ',')
        OD_TRY(od_buf_append(w->out, "}", 1, err));

out:
    return rc;
}

static od_code put_number(const writer *w, double value, od_error *err)
{
    if (isnan(value))
        return od_buf_printf(w->out, err, " NaN\n");
    if (isinf(value))
        return od_buf_printf(w->out, err, value > 0 ? " +Inf\n" : " -Inf\n");
    if (value == floor(value) && fabs(value) < 9e15)
        return od_buf_printf(w->out, err, " %.0f\n", value);
    return od_buf_printf(w->out, err, " %.15g\n", value);
}

static od_code put_line(const writer *w, const od_sample *s, const char *suffix, const char *le, double value,
                        od_error *err)
{
    od_code rc;

    OD_TRY(od_buf_printf(w->out, err, "%s%s", s->metric->prometheus_name, suffix));
    OD_TRY(put_labels(w, s, le, err));
    OD_TRY(put_number(w, value, err));

out:
    return rc;
}

static od_code put_histogram(const writer *w, const od_sample *s, od_error *err)
{
    uint64_t below = 0;
    char le[32];
    od_code rc;

    for (int i = 0; i < OD_METRIC_BOUNDS; i++) {
        double bound = (double)od_metric_bounds_ns[i] / 1e9;

        below += s->buckets[i];
        /* OpenMetrics wants bounds written as floats. */
        snprintf(le, sizeof le, bound == floor(bound) ? "%.1f" : "%.6g", bound);
        OD_TRY(put_line(w, s, "_bucket", le, (double)below, err));
    }
    OD_TRY(put_line(w, s, "_bucket", "+Inf", (double)s->count, err));
    OD_TRY(put_line(w, s, "_sum", NULL, (double)s->sum_ns / 1e9, err));
    OD_TRY(put_line(w, s, "_count", NULL, (double)s->count, err));

out:
    return rc;
}

static od_code put_sample(void *arg, const od_sample *s, od_error *err)
{
    const writer *w = arg;
    od_code rc = s->first ? put_head(w, s->metric, err) : OD_OK;

    if (rc != OD_OK)
        return rc;
    return s->metric->kind == OD_METRIC_HISTOGRAM ? put_histogram(w, s, err) : put_line(w, s, "", NULL, s->value, err);
}

od_code od_prometheus_write(od_metrics *metrics, bool openmetrics, od_buf *out, od_error *err)
{
    writer w = {out, openmetrics};
    od_code rc = od_metrics_read(metrics, put_sample, &w, err);

    if (rc == OD_OK && openmetrics)
        rc = od_buf_append(out, "# EOF\n", 6, err);
    return rc;
}
