#include "query/engine/retype.h"

#include "base/deadline.h"
#include "base/thread.h"
#include "base/banned.h"

/* How long a change of type waits for others. */
#define WAIT_MS 3000
/* How often those who wait look whether they were stopped. */
#define LOOK_MS 50

void od_retype_init(od_retype *retype)
{
    (void)pthread_mutex_init(&retype->lock, NULL);
    od_cond_init(&retype->changed);
}

void od_retype_destroy(od_retype *retype)
{
    (void)pthread_cond_destroy(&retype->changed);
    (void)pthread_mutex_destroy(&retype->lock);
}

void od_retype_open(od_retype *retype, od_retype_user *user)
{
    (void)pthread_mutex_lock(&retype->lock);
    user->since = retype->changes;
    user->changing = false;
    user->previous = NULL;
    user->next = retype->open;
    if (user->next != NULL)
        user->next->previous = user;
    retype->open = user;
    (void)pthread_mutex_unlock(&retype->lock);
}

void od_retype_close(od_retype *retype, od_retype_user *user)
{
    (void)pthread_mutex_lock(&retype->lock);
    if (user->previous != NULL)
        user->previous->next = user->next;
    else
        retype->open = user->next;
    if (user->next != NULL)
        user->next->previous = user->previous;
    (void)pthread_cond_broadcast(&retype->changed);
    (void)pthread_mutex_unlock(&retype->lock);
}

/* With the lock held, for a moment. */
static void wait_a_moment(od_retype *retype)
{
    (void)od_cond_wait(&retype->changed, &retype->lock, od_deadline_in_ms(LOOK_MS));
}

void od_retype_change(od_retype *retype, od_retype_user *user, const atomic_bool *stopped)
{
    (void)pthread_mutex_lock(&retype->lock);
    /* The change of type waits for a user that has begun to change, which must get on then. */
    while (retype->under_way && !user->changing && !atomic_load(stopped))
        wait_a_moment(retype);
    user->changing = true;
    (void)pthread_mutex_unlock(&retype->lock);
}

void od_retype_changed(od_retype *retype, od_retype_user *user)
{
    (void)pthread_mutex_lock(&retype->lock);
    if (user->changing)
        retype->changes++;
    user->changing = false;
    (void)pthread_cond_broadcast(&retype->changed);
    (void)pthread_mutex_unlock(&retype->lock);
}

/* Whether DuckDB keeps anything beside the stored rows, or may do so soon, for others than USER. */
static bool others_hold(const od_retype *retype, const od_retype_user *user)
{
    for (const od_retype_user *other = retype->open; other != NULL; other = other->next)
        if (other != user && (other->changing || other->since != retype->changes))
            return true;
    return false;
}

od_code od_retype_begin(od_retype *retype, const od_retype_user *user, bool in_txn, const atomic_bool *stopped,
                        od_error *err)
{
    od_code rc = OD_OK;
    od_deadline deadline = od_deadline_in_ms(WAIT_MS);
    (void)pthread_mutex_lock(&retype->lock);
    while (retype->under_way && !atomic_load(stopped) && !od_deadline_passed(deadline))
        wait_a_moment(retype);
    bool mine = !retype->under_way;
    retype->under_way = true;
    while (mine && others_hold(retype, user) && !atomic_load(stopped) && !od_deadline_passed(deadline))
        wait_a_moment(retype);
    if (atomic_load(stopped))
        rc = od_fail(err, OD_E_CANCELLED, "the execution was cancelled");
    else if (!mine || others_hold(retype, user))
        rc = od_fail(err, OD_E_TRANSACTION,
                     "cannot change the type of a column now: another statement or transaction, which began before the "
                     "last change of rows, is still open, and DuckDB would lose that change");
    else if (in_txn && user->since != retype->changes)
        rc = od_fail(err, OD_E_TRANSACTION,
                     "cannot change the type of a column in a transaction that began before the last change of rows: "
                     "DuckDB would lose that change");
    if (rc != OD_OK && mine) {
        retype->under_way = false;
        (void)pthread_cond_broadcast(&retype->changed);
    }
    (void)pthread_mutex_unlock(&retype->lock);
    return rc;
}

void od_retype_end(od_retype *retype)
{
    (void)pthread_mutex_lock(&retype->lock);
    retype->under_way = false;
    (void)pthread_cond_broadcast(&retype->changed);
    (void)pthread_mutex_unlock(&retype->lock);
}
