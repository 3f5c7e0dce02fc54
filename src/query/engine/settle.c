#include "query/engine/settle.h"

#include "base/deadline.h"
#include "base/thread.h"
#include "base/banned.h"

/* Most operators of DuckDB look every few milliseconds whether they were interrupted; the rest must not hold others up for long. */
#define SETTLE_MS 10000

void od_settle_init(od_settle *settle)
{
    (void)pthread_mutex_init(&settle->lock, NULL);
    od_cond_init(&settle->changed);
    settle->stopping = 0;
}

void od_settle_destroy(od_settle *settle)
{
    (void)pthread_cond_destroy(&settle->changed);
    (void)pthread_mutex_destroy(&settle->lock);
}

static void add(od_settle *settle, int difference)
{
    (void)pthread_mutex_lock(&settle->lock);
    settle->stopping += difference;
    (void)pthread_cond_broadcast(&settle->changed);
    (void)pthread_mutex_unlock(&settle->lock);
}

void od_settle_begin(od_settle *settle, atomic_bool *stopped)
{
    if (!atomic_exchange(stopped, true))
        add(settle, 1);
}

void od_settle_end(od_settle *settle, const atomic_bool *stopped)
{
    if (atomic_load(stopped))
        add(settle, -1);
}

void od_settle_wait(od_settle *settle, const atomic_bool *stopped)
{
    od_deadline deadline = od_deadline_in_ms(SETTLE_MS);
    (void)pthread_mutex_lock(&settle->lock);
    while (settle->stopping > 0 && !atomic_load(stopped) && !od_deadline_passed(deadline))
        (void)od_cond_wait(&settle->changed, &settle->lock, deadline);
    (void)pthread_mutex_unlock(&settle->lock);
}
