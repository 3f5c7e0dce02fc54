#include "cli/announce.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/uuid.h"
#include "base/banned.h"

enum { LOOK_MS = 500, FIRST_PAUSE_MS = 500, LAST_PAUSE_MS = 30000, CALL_MS = 10000, LEAVE_MS = 1000 };

struct announce {
    od_remote *remote;
    const od_registration *registration;
    int64_t heartbeat_ms;
    pthread_t thread;
    atomic_bool registered, stop;
    pthread_mutex_t lock; /* for the wait alone */
    pthread_cond_t wake;
};

static bool stopped(void *arg)
{
    return atomic_load(&((announce *)arg)->stop);
}

static void pause_for(announce *a, int64_t ms)
{
    od_deadline until = od_deadline_in_ms(ms);
    const struct timespec at = {.tv_sec = (time_t)(until.at_ns / 1000000000),
                                .tv_nsec = (long)(until.at_ns % 1000000000)};

    pthread_mutex_lock(&a->lock);
    while (!stopped(a) && !od_deadline_passed(until))
        pthread_cond_timedwait(&a->wake, &a->lock, &at);
    pthread_mutex_unlock(&a->lock);
}

/* Between half of MS and MS, so that workers of a gateway that was away do not come all at once. */
static int64_t jittered(int64_t ms)
{
    return ms / 2 + od_uuid_random().bytes[0] * (ms / 2) / 255;
}

static bool try_register(announce *a, bool quiet)
{
    od_error err;
    bool accepted = false;
    od_code rc = od_remote_register(a->remote, a->registration, CALL_MS, (od_interrupt){stopped, a}, &accepted, &err);
    char why[600];

    if (rc == OD_OK && accepted) {
        atomic_store(&a->registered, true);
        od_log(OD_LOG_INFO, "worker", "registered", "gateway=%s", od_remote_authority(a->remote));
        return true;
    }
    if (!quiet && !stopped(a))
        od_log(OD_LOG_WARN, "worker", "cannot register", "gateway=%s why=%s", od_remote_authority(a->remote),
               od_log_quote(rc == OD_OK ? "refused" : err.message, why, sizeof why));
    return false;
}

/* Tries until it is registered, at growing intervals. */
static void register_until_done(announce *a)
{
    int64_t pause_ms = FIRST_PAUSE_MS;

    for (bool quiet = false; !stopped(a) && !try_register(a, quiet); quiet = true) {
        pause_for(a, jittered(pause_ms));
        pause_ms = pause_ms * 2 < LAST_PAUSE_MS ? pause_ms * 2 : LAST_PAUSE_MS;
    }
}

/* Until the next heartbeat is due, or the gateway has hung up. */
static void wait_for_heartbeat(announce *a)
{
    od_deadline due = od_deadline_in_ms(a->heartbeat_ms);

    while (!stopped(a) && !od_deadline_passed(due) && !od_remote_hung_up(a->remote)) {
        int64_t left_ms = (due.at_ns - od_clock_ns()) / 1000000 + 1;

        pause_for(a, left_ms < LOOK_MS ? left_ms : LOOK_MS);
    }
}

static void *announce_main(void *arg)
{
    announce *a = arg;

    register_until_done(a);
    while (!stopped(a)) {
        bool known = false;

        wait_for_heartbeat(a);
        if (stopped(a))
            break;
        if (od_remote_heartbeat(a->remote, a->registration->worker_id, CALL_MS, (od_interrupt){stopped, a}, &known,
                                NULL) != OD_OK ||
            !known)
            register_until_done(a);
    }
    return NULL;
}

od_code announce_start(od_remote *remote, const od_registration *registration, int64_t heartbeat_ms, announce **out,
                       od_error *err)
{
    announce *a = od_calloc(1, sizeof *a);
    pthread_condattr_t attr;
    int rc;

    *out = NULL;
    if (!a)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a thread");
    a->remote = remote;
    a->registration = registration;
    a->heartbeat_ms = heartbeat_ms;
    pthread_mutex_init(&a->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a->wake, &attr);
    pthread_condattr_destroy(&attr);
    rc = pthread_create(&a->thread, NULL, announce_main, a);
    if (rc != 0) {
        pthread_cond_destroy(&a->wake);
        pthread_mutex_destroy(&a->lock);
        od_free(a);
        return od_fail_errno(err, OD_E_IO, rc, "cannot start a thread");
    }
    *out = a;
    return OD_OK;
}

void announce_stop(announce *a)
{
    od_error err;

    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    atomic_store(&a->stop, true);
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    /* A gateway that is not told notices by itself, at the next execution that it would send. */
    if (atomic_load(&a->registered) && od_remote_leave(a->remote, a->registration->worker_id, LEAVE_MS, &err) != OD_OK)
        od_log(OD_LOG_INFO, "worker", "cannot tell the gateway of the stop", "gateway=%s",
               od_remote_authority(a->remote));
    pthread_cond_destroy(&a->wake);
    pthread_mutex_destroy(&a->lock);
    od_free(a);
}
