#include "query/console/sampler.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/json.h"
#include "base/thread.h"
#include "base/banned.h"

enum { NAME_SIZE = 40, HELD = SAMPLER_WINDOW + 1 };

/* Sums since the start, of one method. */
typedef struct {
    uint64_t buckets[OD_METRIC_BOUNDS + 1]; /* of calls that were not cancelled */
    uint64_t calls, errors;
} sums;

/* Of one method in one row; NAN: not known. */
typedef struct {
    float calls, errors; /* a second */
    float p50, p95, p99; /* milliseconds */
} figures;

typedef struct {
    int64_t unix_ms;
    float in_flight, queued;
    figures methods[SAMPLER_METHODS];
} row;

struct sampler {
    od_metrics *metrics;
    pthread_t thread;
    bool started, stop;
    pthread_cond_t wake;
    /* the taker's own */
    sums held[HELD][SAMPLER_METHODS];
    int64_t held_ns[HELD];
    /* under the lock */
    pthread_mutex_t lock;
    char names[SAMPLER_METHODS][NAME_SIZE];
    size_t name_count;
    row rows[SAMPLER_ROWS];
    uint64_t taken;
};

/* ---- reading the metrics ---- */

typedef struct {
    sampler *s;
    sums *into; /* SAMPLER_METHODS */
    row *row;
} reader;

static const char *label(const od_sample *sample, const char *key)
{
    for (size_t i = 0; i < sample->label_count; i++) {
        if (strcmp(sample->labels[i].key, key) == 0)
            return sample->labels[i].value;
    }
    return "";
}

/* Where the method NAME has its place; SAMPLER_METHODS: it has none. */
static size_t place_of(sampler *s, const char *name)
{
    size_t at = 0;

    pthread_mutex_lock(&s->lock);
    while (at < s->name_count && strcmp(s->names[at], name) != 0)
        at++;
    if (at == s->name_count && at < SAMPLER_METHODS)
        snprintf(s->names[s->name_count++], NAME_SIZE, "%s", name);
    pthread_mutex_unlock(&s->lock);
    return at;
}

/* How long a call takes that its client cancels says nothing of the server. */
static void read_calls(const reader *r, const od_sample *sample)
{
    const char *outcome = label(sample, "outcome");
    size_t at = place_of(r->s, label(sample, "rpc_method"));
    sums *into;

    if (at >= SAMPLER_METHODS)
        return;
    into = &r->into[at];
    into->calls += sample->count;
    if (strcmp(outcome, "error") == 0)
        into->errors += sample->count;
    for (size_t i = 0; i <= OD_METRIC_BOUNDS && strcmp(outcome, "cancelled") != 0; i++)
        into->buckets[i] += sample->buckets[i];
}

static od_code read_sample(void *arg, const od_sample *sample, od_error *err)
{
    static const char service[] = "openduck.v1.";
    const reader *r = arg;

    (void)err;
    if (strcmp(sample->metric->name, "rpc.server.duration") == 0 &&
        strncmp(label(sample, "rpc_service"), service, sizeof service - 1) == 0)
        read_calls(r, sample);
    else if (strcmp(sample->metric->name, "openduck.executions.in_flight") == 0)
        r->row->in_flight = (float)sample->value;
    else if (strcmp(sample->metric->name, "openduck.executions.queued") == 0)
        r->row->queued = (float)sample->value;
    return OD_OK;
}

/* ---- a row ---- */

/* Below what the fraction Q of N calls stayed, in ms: as if those of a bucket were spread evenly over it. */
static float quantile(const uint64_t *buckets, uint64_t n, double q)
{
    double wanted = q * (double)n, before = 0;

    for (size_t i = 0; i < OD_METRIC_BOUNDS && n > 0; i++) {
        double low = i > 0 ? (double)od_metric_bounds_ns[i - 1] : 0, high = (double)od_metric_bounds_ns[i];

        if (buckets[i] > 0 && before + (double)buckets[i] >= wanted)
            return (float)((low + (high - low) * (wanted - before) / (double)buckets[i]) / 1e6);
        before += (double)buckets[i];
    }
    return n > 0 ? (float)((double)od_metric_bounds_ns[OD_METRIC_BOUNDS - 1] / 1e6) : NAN;
}

static figures compare(const sums *now, const sums *then, double seconds)
{
    uint64_t buckets[OD_METRIC_BOUNDS + 1], n = 0;

    for (size_t i = 0; i <= OD_METRIC_BOUNDS; i++) {
        buckets[i] = now->buckets[i] - then->buckets[i];
        n += buckets[i];
    }
    return (figures){.calls = (float)((double)(now->calls - then->calls) / seconds),
                     .errors = (float)((double)(now->errors - then->errors) / seconds),
                     .p50 = quantile(buckets, n, 0.50),
                     .p95 = quantile(buckets, n, 0.95),
                     .p99 = quantile(buckets, n, 0.99)};
}

void sampler_take(sampler *s, int64_t now_ns, int64_t unix_ms)
{
    size_t at = s->taken % HELD, oldest = s->taken >= SAMPLER_WINDOW ? (s->taken + 1) % HELD : 0;
    row fresh = {.unix_ms = unix_ms, .in_flight = NAN, .queued = NAN};
    reader r = {s, s->held[at], &fresh};
    double seconds;
    od_error err;

    memset(s->held[at], 0, sizeof s->held[at]);
    s->held_ns[at] = now_ns;
    if (od_metrics_read(s->metrics, read_sample, &r, &err) != OD_OK)
        return;
    seconds = (double)(now_ns - s->held_ns[oldest]) / 1e9;
    for (size_t i = 0; i < SAMPLER_METHODS; i++)
        fresh.methods[i] =
            seconds > 0 ? compare(&s->held[at][i], &s->held[oldest][i], seconds) : (figures){NAN, NAN, NAN, NAN, NAN};
    pthread_mutex_lock(&s->lock);
    s->rows[s->taken++ % SAMPLER_ROWS] = fresh;
    pthread_mutex_unlock(&s->lock);
}

/* ---- JSON ---- */

static void put_number(od_json *json, const char *before, float value)
{
    if (isnan(value))
        od_json_put(json, "%snull", before);
    else
        od_json_put(json, "%s%.4g", before, (double)value);
}

static void put_row(od_json *json, const row *r, size_t methods)
{
    od_json_put(json, "[%" PRId64, r->unix_ms);
    put_number(json, ",", r->in_flight);
    put_number(json, ",", r->queued);
    for (size_t i = 0; i < methods; i++) {
        const figures *f = &r->methods[i];

        put_number(json, ",[", f->calls);
        put_number(json, ",", f->errors);
        put_number(json, ",", f->p50);
        put_number(json, ",", f->p95);
        put_number(json, ",", f->p99);
        od_json_put(json, "]");
    }
    od_json_put(json, "]");
}

od_code sampler_write(sampler *s, uint64_t since, od_buf *out, od_error *err)
{
    od_json json = {.out = out, .err = err};
    uint64_t first;

    pthread_mutex_lock(&s->lock);
    first = s->taken > SAMPLER_ROWS ? s->taken - SAMPLER_ROWS : 0;
    if (since > first && since <= s->taken) /* else it is of another server's life */
        first = since;
    od_json_put(&json, "{\"step_ms\":%d,\"window_ms\":%d,\"kept\":%d,\"next\":%" PRIu64 ",\"methods\":[",
                SAMPLER_STEP_MS, SAMPLER_STEP_MS * SAMPLER_WINDOW, SAMPLER_ROWS, s->taken);
    for (size_t i = 0; i < s->name_count; i++) {
        od_json_put(&json, i ? "," : "");
        od_json_text(&json, od_slice_str(s->names[i]));
    }
    od_json_put(&json, "],\"first\":%" PRIu64 ",\"rows\":[", first);
    for (uint64_t i = first; i < s->taken; i++) {
        od_json_put(&json, i > first ? "," : "");
        put_row(&json, &s->rows[i % SAMPLER_ROWS], s->name_count);
    }
    od_json_put(&json, "]}");
    pthread_mutex_unlock(&s->lock);
    return json.rc;
}

/* ---- the thread ---- */

static void *run(void *arg)
{
    sampler *s = arg;
    bool stop = false;

    while (!stop) {
        od_deadline until = od_deadline_in_ms(SAMPLER_STEP_MS);
        const struct timespec at = {.tv_sec = (time_t)(until.at_ns / 1000000000),
                                    .tv_nsec = (long)(until.at_ns % 1000000000)};

        sampler_take(s, od_clock_ns(), od_wall_us() / 1000);
        pthread_mutex_lock(&s->lock);
        while (!s->stop && !od_deadline_passed(until))
            pthread_cond_timedwait(&s->wake, &s->lock, &at);
        stop = s->stop;
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

od_code sampler_create(od_metrics *metrics, sampler **out, od_error *err)
{
    sampler *s = od_calloc(1, sizeof *s);

    *out = s;
    if (!s)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for samples");
    s->metrics = metrics;
    pthread_mutex_init(&s->lock, NULL);
    od_cond_init(&s->wake);
    return OD_OK;
}

od_code sampler_start(sampler *s, od_error *err)
{
    int errnum = od_thread_create(&s->thread, run, s);

    s->started = errnum == 0;
    return errnum == 0 ? OD_OK : od_fail_errno(err, OD_E_UNAVAILABLE, errnum, "cannot start a thread");
}

void sampler_free(sampler *s)
{
    if (!s)
        return;
    if (s->started) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_signal(&s->wake);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    od_free(s);
}
