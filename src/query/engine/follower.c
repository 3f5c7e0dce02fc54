/* Several readers of one result. Whoever has the division's lock takes the next payload's rows; encoding them, the longer part, needs
 * no lock. What goes wrong for a follower is told by the execution: its reader is who has to know. */
#include "base/alloc.h"
#include "base/thread.h"
#include "query/engine/execution_internal.h"
#include "base/banned.h"

struct od_follower {
    od_division *division;
    od_output output;
    bool open; /* the output is */
};

/* ---- what both sides share ---- */

od_code od_division_create(od_execution *execution, od_division **out, od_error *err)
{
    od_division *division = od_calloc(1, sizeof *division);
    *out = division;
    if (division == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    atomic_init(&division->refs, 1);
    (void)pthread_mutex_init(&division->lock, NULL);
    od_cond_init(&division->changed);
    division->execution = execution;
    return OD_OK;
}

void od_division_unref(od_division *division)
{
    if (division == NULL || atomic_fetch_sub(&division->refs, 1) != 1)
        return;
    (void)pthread_cond_destroy(&division->changed);
    (void)pthread_mutex_destroy(&division->lock);
    od_free(division);
}

void od_division_enter(od_division *division)
{
    if (division != NULL)
        (void)pthread_mutex_lock(&division->lock);
}

void od_division_leave(od_division *division)
{
    if (division != NULL)
        (void)pthread_mutex_unlock(&division->lock);
}

od_code od_division_check(const od_division *division, od_error *err)
{
    if (division == NULL || division->code == OD_OK)
        return OD_OK;
    if (err != NULL)
        *err = division->why;
    return division->code;
}

bool od_division_is_followed(const od_division *division)
{
    return division != NULL && atomic_load(&division->refs) > 1;
}

void od_division_end(od_division *division)
{
    if (division == NULL)
        return;
    (void)pthread_mutex_lock(&division->lock);
    division->execution = NULL;
    while (division->encoding > 0)
        (void)pthread_cond_wait(&division->changed, &division->lock);
    (void)pthread_mutex_unlock(&division->lock);
}

/* ---- a follower ---- */

od_code od_follower_open(od_execution *execution, od_follower **out, od_error *err)
{
    *out = NULL;
    if (execution->division == NULL)
        return OD_OK;
    od_follower *follower = od_calloc(1, sizeof *follower);
    if (follower == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    follower->division = execution->division;
    (void)atomic_fetch_add(&follower->division->refs, 1);
    *out = follower;
    return OD_OK;
}

void od_follower_free(od_follower *follower)
{
    if (follower == NULL)
        return;
    od_output_release(&follower->output);
    od_division_unref(follower->division);
    od_free(follower);
}

/* Takes rows; has the lock. *any: there were some, which are to be written. */
static od_code take_rows(od_follower *follower, bool *any, uint64_t *place, od_error *err)
{
    od_execution *execution = follower->division->execution;
    od_code rc = OD_OK;
    *any = false;
    if (!follower->open) {
        rc = od_output_follow(execution, &follower->output, err);
        follower->open = rc == OD_OK;
    }
    if (rc == OD_OK)
        rc = od_output_gather(execution, &follower->output, any, err);
    *place = execution->payloads;
    return rc;
}

od_msg *od_follower_next(od_follower *follower, uint64_t *place)
{
    od_division *division = follower->division;
    od_error why = {0};
    od_msg *payload = NULL;
    od_code rc = OD_OK;
    bool any = false;
    (void)pthread_mutex_lock(&division->lock);
    /* Before the first payload there is no result yet, or none that a reader has asked for. */
    if (division->execution != NULL && division->code == OD_OK && division->execution->payloads > 0)
        rc = take_rows(follower, &any, place, &why);
    if (any) {
        division->encoding++;
        (void)pthread_mutex_unlock(&division->lock);
        rc = od_output_write(&follower->output, &payload, &why);
        (void)pthread_mutex_lock(&division->lock);
        if (--division->encoding == 0)
            (void)pthread_cond_broadcast(&division->changed);
    }
    if (rc != OD_OK && division->code == OD_OK) {
        division->code = rc;
        division->why = why;
    }
    if (rc != OD_OK) {
        /* Nothing may refer to the result's chunks once it is closed. */
        od_output_release(&follower->output);
        follower->open = false;
    }
    (void)pthread_mutex_unlock(&division->lock);
    return payload;
}
