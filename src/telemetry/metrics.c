#include "telemetry/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/banned.h"

/* Cells of an instrument: threads are spread over them, so that few meet on one cache line. */
enum { CELLS = 8, CACHE_LINE = 64 };

#define MS_NS UINT64_C(1000000)
#define S_NS UINT64_C(1000000000)

const uint64_t od_metric_bounds_ns[OD_METRIC_BOUNDS] = {
    MS_NS / 2,   MS_NS, MS_NS * 5 / 2, MS_NS * 5, MS_NS * 10, MS_NS * 25, MS_NS * 50, MS_NS * 100, MS_NS * 250,
    MS_NS * 500, S_NS,  S_NS * 5 / 2,  S_NS * 5,  S_NS * 10,  S_NS * 30,  S_NS * 60,  S_NS * 300,
};

struct od_counter {
    struct {
        _Atomic uint64_t value;
        char pad[CACHE_LINE - sizeof(_Atomic uint64_t)];
    } cells[CELLS];
};

struct od_gauge {
    _Atomic int64_t value;
};

struct od_histogram {
    struct {
        _Atomic uint64_t buckets[OD_METRIC_BOUNDS + 1];
        _Atomic uint64_t sum_ns;
        char pad[CACHE_LINE];
    } cells[CELLS];
};

typedef struct series {
    _Atomic(struct series *) next;
    od_label labels[OD_METRIC_LABELS]; /* owned texts */
    size_t label_count;
    /* one of these */
    double (*read)(void *arg);
    void *arg;
    od_counter *counter;
    od_gauge *gauge;
    od_histogram *histogram;
} series;

typedef struct family {
    _Atomic(struct family *) next;
    const od_metric *metric;
    _Atomic(series *) first;
} family;

/* Lists only grow, at their ends, under the lock; readers follow them without it. */
struct od_metrics {
    pthread_mutex_t lock;
    _Atomic(family *) first;
};

/* ---- hot ---- */

static unsigned cell(void)
{
    static atomic_uint next;
    static _Thread_local unsigned mine; /* from 1 */

    if (mine == 0)
        mine = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % CELLS + 1;
    return mine - 1;
}

void od_counter_add(od_counter *counter, uint64_t n)
{
    if (counter)
        atomic_fetch_add_explicit(&counter->cells[cell()].value, n, memory_order_relaxed);
}

void od_gauge_add(od_gauge *gauge, int64_t change)
{
    if (gauge)
        atomic_fetch_add_explicit(&gauge->value, change, memory_order_relaxed);
}

void od_histogram_observe_ns(od_histogram *histogram, int64_t ns)
{
    uint64_t value = ns > 0 ? (uint64_t)ns : 0;
    unsigned at = 0, own;

    if (!histogram)
        return;
    while (at < OD_METRIC_BOUNDS && value > od_metric_bounds_ns[at])
        at++;
    own = cell();
    atomic_fetch_add_explicit(&histogram->cells[own].sum_ns, value, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->cells[own].buckets[at], 1, memory_order_relaxed);
}

/* ---- making ---- */

od_code od_metrics_create(od_metrics **out, od_error *err)
{
    *out = od_calloc(1, sizeof **out);
    if (!*out)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for metrics");
    pthread_mutex_init(&(*out)->lock, NULL);
    return OD_OK;
}

static void series_free(series *s)
{
    for (size_t i = 0; i < s->label_count; i++) {
        od_free((char *)(uintptr_t)s->labels[i].key);
        od_free((char *)(uintptr_t)s->labels[i].value);
    }
    od_free(s->counter);
    od_free(s->gauge);
    od_free(s->histogram);
    od_free(s);
}

void od_metrics_free(od_metrics *metrics)
{
    family *next_family;
    series *next;

    if (!metrics)
        return;
    for (family *f = atomic_load(&metrics->first); f; f = next_family) {
        next_family = atomic_load(&f->next);
        for (series *s = atomic_load(&f->first); s; s = next) {
            next = atomic_load(&s->next);
            series_free(s);
        }
        od_free(f);
    }
    pthread_mutex_destroy(&metrics->lock);
    od_free(metrics);
}

/* Under the lock. NULL: out of memory. */
static family *get_family(od_metrics *metrics, const od_metric *metric)
{
    _Atomic(family *) *at = &metrics->first;
    family *f;

    for (; (f = atomic_load(at)) != NULL; at = &f->next) {
        if (f->metric == metric)
            return f;
    }
    f = od_calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->metric = metric;
    atomic_store_explicit(at, f, memory_order_release);
    return f;
}

static bool same_labels(const series *s, const od_label *labels, size_t count)
{
    if (s->label_count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(s->labels[i].key, labels[i].key) != 0 || strcmp(s->labels[i].value, labels[i].value) != 0)
            return false;
    }
    return true;
}

static bool make_instrument(series *s, const od_metric *metric)
{
    switch (metric->kind) {
    case OD_METRIC_COUNTER:
        s->counter = od_calloc(1, sizeof *s->counter);
        return s->counter != NULL;
    case OD_METRIC_GAUGE:
        s->gauge = od_calloc(1, sizeof *s->gauge);
        return s->gauge != NULL;
    case OD_METRIC_HISTOGRAM:
        s->histogram = od_calloc(1, sizeof *s->histogram);
        return s->histogram != NULL;
    }
    return false;
}

static series *make_series(const od_metric *metric, const od_label *labels, size_t count, double (*read)(void *arg),
                           void *arg)
{
    series *s = od_calloc(1, sizeof *s);
    bool made;

    if (!s)
        return NULL;
    s->read = read;
    s->arg = arg;
    made = read || make_instrument(s, metric);
    for (size_t i = 0; made && i < count; i++) {
        s->labels[i] = (od_label){od_strdup(labels[i].key), od_strdup(labels[i].value)};
        s->label_count = i + 1;
        made = s->labels[i].key && s->labels[i].value;
    }
    if (!made) {
        series_free(s);
        return NULL;
    }
    return s;
}

/* Finds or makes the series; *found tells which. */
static series *get_series(od_metrics *metrics, const od_metric *metric, const od_label *labels, size_t count,
                          double (*read)(void *arg), void *arg, bool *found)
{
    _Atomic(series *) *at;
    series *s = NULL;
    family *f;

    *found = false;
    if (!metrics || count > OD_METRIC_LABELS)
        return NULL;
    pthread_mutex_lock(&metrics->lock);
    f = get_family(metrics, metric);
    if (f) {
        for (at = &f->first; (s = atomic_load(at)) != NULL && !same_labels(s, labels, count);)
            at = &s->next;
        *found = s != NULL;
        if (!s && (s = make_series(metric, labels, count, read, arg)) != NULL)
            atomic_store_explicit(at, s, memory_order_release);
    }
    pthread_mutex_unlock(&metrics->lock);
    return s;
}

od_counter *od_metrics_counter(od_metrics *metrics, const od_metric *metric, const od_label *labels, size_t count)
{
    bool found;
    const series *s = get_series(metrics, metric, labels, count, NULL, NULL, &found);

    return s ? s->counter : NULL;
}

od_gauge *od_metrics_gauge(od_metrics *metrics, const od_metric *metric, const od_label *labels, size_t count)
{
    bool found;
    const series *s = get_series(metrics, metric, labels, count, NULL, NULL, &found);

    return s ? s->gauge : NULL;
}

od_histogram *od_metrics_histogram(od_metrics *metrics, const od_metric *metric, const od_label *labels, size_t count)
{
    bool found;
    const series *s = get_series(metrics, metric, labels, count, NULL, NULL, &found);

    return s ? s->histogram : NULL;
}

od_code od_metrics_watch(od_metrics *metrics, const od_metric *metric, const od_label *labels, size_t count,
                         double (*read)(void *arg), void *arg, od_error *err)
{
    const series *s;
    bool found;

    if (!metrics)
        return OD_OK;
    s = get_series(metrics, metric, labels, count, read, arg, &found);
    if (!s)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a metric");
    return found ? od_fail(err, OD_E_EXISTS, "metric '%s' is watched already", metric->name) : OD_OK;
}

/* ---- reading ---- */

static void read_series(const series *s, od_sample *out)
{
    out->value = 0;
    if (s->read) {
        out->value = s->read(s->arg);
    } else if (s->gauge) {
        out->value = (double)atomic_load_explicit(&s->gauge->value, memory_order_relaxed);
    } else if (s->counter) {
        uint64_t sum = 0;

        for (int i = 0; i < CELLS; i++)
            sum += atomic_load_explicit(&s->counter->cells[i].value, memory_order_relaxed);
        out->value = (double)sum;
    }
    memset(out->buckets, 0, sizeof out->buckets);
    out->count = out->sum_ns = 0;
    for (int i = 0; s->histogram && i < CELLS; i++) {
        for (int b = 0; b <= OD_METRIC_BOUNDS; b++) {
            uint64_t n = atomic_load_explicit(&s->histogram->cells[i].buckets[b], memory_order_relaxed);

            out->buckets[b] += n;
            out->count += n;
        }
        out->sum_ns += atomic_load_explicit(&s->histogram->cells[i].sum_ns, memory_order_relaxed);
    }
}

od_code od_metrics_read(od_metrics *metrics, od_code (*fn)(void *arg, const od_sample *sample, od_error *err),
                        void *arg, od_error *err)
{
    od_code rc = OD_OK;

    if (!metrics)
        return OD_OK;
    for (family *f = atomic_load_explicit(&metrics->first, memory_order_acquire); f && rc == OD_OK;
         f = atomic_load_explicit(&f->next, memory_order_acquire)) {
        od_sample sample = {.metric = f->metric, .first = true};

        for (const series *s = atomic_load_explicit(&f->first, memory_order_acquire); s && rc == OD_OK;
             s = atomic_load_explicit(&s->next, memory_order_acquire)) {
            sample.labels = s->labels;
            sample.label_count = s->label_count;
            read_series(s, &sample);
            rc = fn(arg, &sample, err);
            sample.first = false;
        }
    }
    return rc;
}
