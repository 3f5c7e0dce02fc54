#include "telemetry/exporter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/banned.h"

enum { LAST_MS = 3000 };

struct od_exporter {
    od_metrics *metrics;
    const od_otlp_config *config;
    od_exporter_sender sender;
    uint64_t start_ns; /* since 1970 */
    bool failed;       /* the last export; the thread's own */
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock; /* for the wait alone */
    pthread_cond_t wake;
};

static uint64_t wall_ns(void)
{
    return (uint64_t)od_wall_us() * 1000;
}

static bool stopped(void *arg)
{
    return atomic_load(&((od_exporter *)arg)->stop);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void note(od_exporter *e, od_code rc, const od_error *err)
{
    char why[600];

    if (rc != OD_OK && !e->failed)
        od_log(OD_LOG_WARN, "otlp", "metrics cannot be exported; trying on", "host=%s port=%u why=%s", e->config->host,
               (unsigned)e->config->port, od_log_quote(err->message, why, sizeof why));
    else if (rc == OD_OK && e->failed)
        od_log(OD_LOG_INFO, "otlp", "metrics are exported again", "host=%s port=%u", e->config->host,
               (unsigned)e->config->port);
    e->failed = rc != OD_OK;
}

/* LAST: it is not given up for the stop, but is shorter. */
static void export(od_exporter *e, bool last)
{
    int64_t timeout_ms = last && e->config->timeout_ms > LAST_MS ? LAST_MS : e->config->timeout_ms;
    od_buf body = {0};
    od_error err;
    od_code rc = od_otlp_encode(e->metrics, e->config, e->start_ns, wall_ns(), &body, &err);

    if (rc == OD_OK)
        rc = e->sender.send(e->sender.arg, od_slice_of(body.data, body.len), timeout_ms, last ? never : stopped, e,
                            &err);
    od_buf_release(&body);
    if (rc == OD_OK || last || !stopped(e)) /* one that was given up for the last one tells nothing */
        note(e, rc, &err);
}

static void *run(void *arg)
{
    od_exporter *e = arg;

    while (!stopped(e)) {
        od_deadline until = od_deadline_in_ms(e->config->interval_ms);
        const struct timespec at = {.tv_sec = (time_t)(until.at_ns / 1000000000),
                                    .tv_nsec = (long)(until.at_ns % 1000000000)};

        pthread_mutex_lock(&e->lock);
        while (!stopped(e) && !od_deadline_passed(until))
            pthread_cond_timedwait(&e->wake, &e->lock, &at);
        pthread_mutex_unlock(&e->lock);
        if (!stopped(e))
            export(e, false);
    }
    export(e, true);
    return NULL;
}

static void release(od_exporter *e)
{
    pthread_cond_destroy(&e->wake);
    pthread_mutex_destroy(&e->lock);
    od_free(e);
}

od_code od_exporter_start(od_metrics *metrics, const od_otlp_config *config, od_exporter_sender sender,
                          od_exporter **out, od_error *err)
{
    od_exporter *e = od_calloc(1, sizeof *e);
    int rc;

    *out = NULL;
    if (!e)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a thread");
    e->metrics = metrics;
    e->config = config;
    e->sender = sender;
    e->start_ns = wall_ns();
    pthread_mutex_init(&e->lock, NULL);
    od_cond_init(&e->wake);
    rc = od_thread_create(&e->thread, run, e);
    if (rc != 0) {
        release(e);
        return od_fail_errno(err, OD_E_IO, rc, "cannot start a thread");
    }
    *out = e;
    return OD_OK;
}

void od_exporter_stop(od_exporter *exporter)
{
    if (!exporter)
        return;
    pthread_mutex_lock(&exporter->lock);
    atomic_store(&exporter->stop, true);
    pthread_cond_signal(&exporter->wake);
    pthread_mutex_unlock(&exporter->lock);
    pthread_join(exporter->thread, NULL);
    release(exporter);
}
