#include "telemetry/otlp.h"

#include <math.h>
#include <string.h>

#include "base/pb.h"
#include "base/banned.h"

enum { CUMULATIVE = 2 };

/* Fields of opentelemetry.proto.*, by message. */
enum {
    REQUEST_RESOURCE_METRICS = 1,
    RESOURCE_METRICS_RESOURCE = 1,
    RESOURCE_METRICS_SCOPE_METRICS = 2,
    RESOURCE_ATTRIBUTES = 1,
    SCOPE_METRICS_SCOPE = 1,
    SCOPE_METRICS_METRICS = 2,
    SCOPE_NAME = 1,
    METRIC_NAME = 1,
    METRIC_DESCRIPTION = 2,
    METRIC_UNIT = 3,
    METRIC_GAUGE = 5,
    METRIC_SUM = 7,
    METRIC_HISTOGRAM = 9,
    DATA_POINTS = 1, /* of Gauge, Sum, Histogram */
    DATA_TEMPORALITY = 2,
    SUM_MONOTONIC = 3,
    POINT_START = 2, /* of both kinds of point */
    POINT_TIME = 3,
    NUMBER_AS_DOUBLE = 4,
    NUMBER_AS_INT = 6,
    NUMBER_ATTRIBUTES = 7,
    HISTOGRAM_COUNT = 4,
    HISTOGRAM_SUM = 5,
    HISTOGRAM_BUCKETS = 6,
    HISTOGRAM_BOUNDS = 7,
    HISTOGRAM_ATTRIBUTES = 9,
    KEY_VALUE_KEY = 1,
    KEY_VALUE_VALUE = 2,
    ANY_STRING = 1
};

/* A message is made from the inside out: each holds what is put into it when it is whole. */
typedef struct {
    const od_metric *metric; /* whose points are in POINTS; NULL: none yet */
    uint64_t start_ns, now_ns;
    od_buf point, points, data, whole, scope;
} encoder;

/* ---- fields ---- */

static od_code put_bytes(od_buf *out, uint32_t field, od_slice bytes, od_error *err)
{
    od_code rc = od_buf_reserve(out, PB_FIELD_MAX + bytes.len, err);

    if (rc == OD_OK)
        out->len = (size_t)(pb_put_bytes_always(out->data + out->len, field, bytes) - out->data);
    return rc;
}

static od_code put_buf(od_buf *out, uint32_t field, const od_buf *content, od_error *err)
{
    return put_bytes(out, field, od_slice_of(content->data, content->len), err);
}

static od_code put_number(od_buf *out, uint32_t field, uint64_t value, od_error *err)
{
    od_code rc = od_buf_reserve(out, PB_FIELD_MAX, err);

    if (rc == OD_OK)
        out->len = (size_t)(pb_put_number(out->data + out->len, field, value) - out->data);
    return rc;
}

static od_code put_64(od_buf *out, uint64_t value, od_error *err)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    return od_buf_append(out, bytes, sizeof bytes, err);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static od_code put_fixed(od_buf *out, uint32_t field, uint64_t value, od_error *err)
{
    od_code rc = od_buf_reserve(out, PB_FIELD_MAX, err);

    if (rc == OD_OK)
        out->len = (size_t)(pb_put_varint(out->data + out->len, (uint64_t)field << 3 | PB_FIXED64) - out->data);
    return rc == OD_OK ? put_64(out, value, err) : rc;
}

/* KEY's underscores become dots if DOTS. */
static od_code put_attribute(od_buf *out, uint32_t field, const char *key, const char *value, bool dots, od_error *err)
{
    od_buf pair = {0}, any = {0};
    od_code rc;

    OD_TRY(put_bytes(&pair, KEY_VALUE_KEY, od_slice_str(key), err));
    for (size_t i = 0; dots && i < pair.len; i++) {
        if (pair.data[i] == '_')
            pair.data[i] = '.';
    }
    OD_TRY(put_bytes(&any, ANY_STRING, od_slice_str(value), err));
    OD_TRY(put_buf(&pair, KEY_VALUE_VALUE, &any, err));
    OD_TRY(put_buf(out, field, &pair, err));

out:
    od_buf_release(&pair);
    od_buf_release(&any);
    return rc;
}

/* ---- points ---- */

static od_code put_labels(od_buf *out, uint32_t field, const od_sample *s, od_error *err)
{
    od_code rc = OD_OK;

    for (size_t i = 0; i < s->label_count && rc == OD_OK; i++)
        rc = put_attribute(out, field, s->labels[i].key, s->labels[i].value, true, err);
    return rc;
}

static od_code put_number_point(od_buf *out, const od_sample *s, od_error *err)
{
    od_code rc;

    if (s->metric->fraction)
        OD_TRY(put_fixed(out, NUMBER_AS_DOUBLE, bits_of(s->value), err));
    else
        OD_TRY(put_fixed(out, NUMBER_AS_INT, (uint64_t)llround(s->value), err));
    OD_TRY(put_labels(out, NUMBER_ATTRIBUTES, s, err));

out:
    return rc;
}

/* The od_sample's nanoseconds in the metric's unit. */
static double duration_of(const od_metric *metric, uint64_t ns)
{
    return (double)ns / (strcmp(metric->unit, "ms") == 0 ? 1e6 : 1e9);
}

static od_code put_histogram_point(od_buf *out, const od_sample *s, od_error *err)
{
    od_buf packed = {0};
    od_code rc;

    OD_TRY(put_fixed(out, HISTOGRAM_COUNT, s->count, err));
    OD_TRY(put_fixed(out, HISTOGRAM_SUM, bits_of(duration_of(s->metric, s->sum_ns)), err));
    for (int i = 0; i <= OD_METRIC_BOUNDS; i++)
        OD_TRY(put_64(&packed, s->buckets[i], err));
    OD_TRY(put_buf(out, HISTOGRAM_BUCKETS, &packed, err));
    packed.len = 0;
    for (int i = 0; i < OD_METRIC_BOUNDS; i++)
        OD_TRY(put_64(&packed, bits_of(duration_of(s->metric, od_metric_bounds_ns[i])), err));
    OD_TRY(put_buf(out, HISTOGRAM_BOUNDS, &packed, err));
    OD_TRY(put_labels(out, HISTOGRAM_ATTRIBUTES, s, err));

out:
    od_buf_release(&packed);
    return rc;
}

/* ---- metrics ---- */

/* Puts the metric whose points have been gathered into the scope. */
static od_code close_metric(encoder *e, od_error *err)
{
    const od_metric *m = e->metric;
    uint32_t field;
    od_code rc;

    if (!m)
        return OD_OK;
    field = m->kind == OD_METRIC_GAUGE ? METRIC_GAUGE : m->kind == OD_METRIC_COUNTER ? METRIC_SUM : METRIC_HISTOGRAM;
    e->whole.len = 0;
    if (m->kind != OD_METRIC_GAUGE)
        OD_TRY(put_number(&e->points, DATA_TEMPORALITY, CUMULATIVE, err));
    if (m->kind == OD_METRIC_COUNTER)
        OD_TRY(put_number(&e->points, SUM_MONOTONIC, 1, err));
    OD_TRY(put_bytes(&e->whole, METRIC_NAME, od_slice_str(m->name), err));
    OD_TRY(put_bytes(&e->whole, METRIC_DESCRIPTION, od_slice_str(m->help), err));
    OD_TRY(put_bytes(&e->whole, METRIC_UNIT, od_slice_str(m->unit), err));
    OD_TRY(put_buf(&e->whole, field, &e->points, err));
    OD_TRY(put_buf(&e->scope, SCOPE_METRICS_METRICS, &e->whole, err));

out:
    e->points.len = 0;
    return rc;
}

static od_code put_sample(void *arg, const od_sample *s, od_error *err)
{
    encoder *e = arg;
    od_code rc;

    if (s->first) {
        OD_TRY(close_metric(e, err));
        e->metric = s->metric;
    }
    e->point.len = 0;
    if (s->metric->kind != OD_METRIC_GAUGE)
        OD_TRY(put_fixed(&e->point, POINT_START, e->start_ns, err));
    OD_TRY(put_fixed(&e->point, POINT_TIME, e->now_ns, err));
    if (s->metric->kind == OD_METRIC_HISTOGRAM)
        OD_TRY(put_histogram_point(&e->point, s, err));
    else
        OD_TRY(put_number_point(&e->point, s, err));
    OD_TRY(put_buf(&e->points, DATA_POINTS, &e->point, err));

out:
    return rc;
}

static od_code put_resource(encoder *e, const od_otlp_config *config, od_buf *out, od_error *err)
{
    od_code rc;

    e->data.len = 0;
    for (size_t i = 0; i < config->attribute_count; i++)
        OD_TRY(put_attribute(&e->data, RESOURCE_ATTRIBUTES, config->attributes[i].key, config->attributes[i].value,
                             false, err));
    OD_TRY(put_buf(out, RESOURCE_METRICS_RESOURCE, &e->data, err));

out:
    return rc;
}

od_code od_otlp_encode(od_metrics *metrics, const od_otlp_config *config, uint64_t start_ns, uint64_t now_ns,
                       od_buf *out, od_error *err)
{
    encoder e = {.start_ns = start_ns, .now_ns = now_ns};
    od_buf all = {0};
    od_code rc;

    OD_TRY(put_bytes(&e.data, SCOPE_NAME, od_slice_str("openduck"), err));
    OD_TRY(put_buf(&e.scope, SCOPE_METRICS_SCOPE, &e.data, err));
    OD_TRY(od_metrics_read(metrics, put_sample, &e, err));
    OD_TRY(close_metric(&e, err));
    OD_TRY(put_resource(&e, config, &all, err));
    OD_TRY(put_buf(&all, RESOURCE_METRICS_SCOPE_METRICS, &e.scope, err));
    OD_TRY(put_buf(out, REQUEST_RESOURCE_METRICS, &all, err));

out:
    od_buf_release(&e.point);
    od_buf_release(&e.points);
    od_buf_release(&e.data);
    od_buf_release(&e.whole);
    od_buf_release(&e.scope);
    od_buf_release(&all);
    return rc;
}
