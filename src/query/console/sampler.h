/* How it went in the last minutes: a ring of what the metrics said, a row every two seconds. */
#ifndef OD_QUERY_CONSOLE_SAMPLER_H
#define OD_QUERY_CONSOLE_SAMPLER_H

#include "base/buf.h"
#include "telemetry/metrics.h"

enum {
    SAMPLER_STEP_MS = 2000,
    SAMPLER_ROWS = 300,   /* ten minutes */
    SAMPLER_WINDOW = 5,   /* steps that a row's rates and latencies are of */
    SAMPLER_METHODS = 12, /* further ones are left out */
};

typedef struct sampler sampler;

/* METRICS is borrowed, and not read after sampler_free. */
OD_MUST_CHECK od_code sampler_create(od_metrics *metrics, sampler **out, od_error *err);
/* Takes a row every step, on a thread of its own. */
OD_MUST_CHECK od_code sampler_start(sampler *s, od_error *err);
void sampler_free(sampler *s); /* NULL allowed */

/* One row, taken at NOW_NS of the monotonic clock, which is UNIX_MS. One thread at a time. */
void sampler_take(sampler *s, int64_t now_ns, int64_t unix_ms);
/* The rows after the first SINCE as JSON: {"step_ms", "window_ms", "kept", "next": SINCE of the next call, "methods": [name],
 * "rows": [[unix_ms, in flight, queued, [calls a second, errors a second, p50, p95, p99 in ms; each for one method]]]}. What is not known is
 * null. Thread: any. */
OD_MUST_CHECK od_code sampler_write(sampler *s, uint64_t since, od_buf *out, od_error *err);

#endif
