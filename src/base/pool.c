#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"

#include "base/banned.h"

enum { NAME_SIZE = 16 };

typedef struct {
    od_pool_fn fn;
    void *arg;
} pool_task;

/* A thread. While it is idle it is in the pool's list, and whoever takes it out there gives it a task. */
typedef struct pool_thread {
    struct od_pool *pool;
    pthread_t handle;
    pthread_cond_t wake;
    pool_task task; /* what to do next; fn is NULL for nothing */
    struct pool_thread *newer;
    struct pool_thread *older;
    bool idle; /* in the list of idle threads */
} pool_thread;

struct od_pool {
    char name[NAME_SIZE];
    unsigned max_threads;
    size_t max_queued;
    int64_t idle_ns;

    pthread_mutex_t lock; /* guards all that follows, and the pool_threads */
    pthread_cond_t quiet; /* threads ended, or nothing is left to do */
    bool draining;
    bool stopping;
    unsigned threads;
    unsigned busy;       /* threads that have a task; 0 only when the queue is empty */
    pool_thread *newest; /* idle threads, the newest first */
    pool_thread *ended;  /* the last thread that ended, to be joined by the next that ends, or by od_pool_free */
    pool_task *queue;    /* a ring of max_queued */
    size_t queue_first;
    size_t queued;
};

static void idle_add(od_pool *pool, pool_thread *thread)
{
    thread->idle = true;
    thread->newer = NULL;
    thread->older = pool->newest;
    if (pool->newest)
        pool->newest->newer = thread;
    pool->newest = thread;
}

static void idle_remove(od_pool *pool, pool_thread *thread)
{
    thread->idle = false;
    if (thread->newer)
        thread->newer->older = thread->older;
    else
        pool->newest = thread->older;
    if (thread->older)
        thread->older->newer = thread->newer;
}

static void queue_push(od_pool *pool, pool_task task)
{
    pool->queue[(pool->queue_first + pool->queued) % pool->max_queued] = task;
    pool->queued++;
}

static pool_task queue_pop(od_pool *pool)
{
    pool_task task = {0};

    if (pool->queued == 0)
        return task;
    task = pool->queue[pool->queue_first];
    pool->queue_first = (pool->queue_first + 1) % pool->max_queued;
    pool->queued--;
    return task;
}

/* Waits in the idle list for a task. false: idle for too long, or the pool stops. */
static bool wait_for_task(od_pool *pool, pool_thread *self)
{
    od_deadline deadline = {od_clock_ns() + pool->idle_ns};

    idle_add(pool, self);
    while (self->idle && !pool->stopping) {
        if (!od_cond_wait(&self->wake, &pool->lock, deadline))
            break;
    }
    if (!self->idle)
        return true;
    idle_remove(pool, self);
    return false;
}

static void thread_free(pool_thread *thread)
{
    pthread_cond_destroy(&thread->wake);
    od_free(thread);
}

static void join_ended(pool_thread *thread)
{
    if (!thread)
        return;
    pthread_join(thread->handle, NULL);
    thread_free(thread);
}

static void *thread_main(void *arg)
{
    pool_thread *self = arg;
    od_pool *pool = self->pool;
    pool_thread *before;

    self->handle = pthread_self();
    pthread_setname_np(self->handle, pool->name);
    pthread_mutex_lock(&pool->lock);
    do {
        while (self->task.fn) {
            pool_task task = self->task;

            pthread_mutex_unlock(&pool->lock);
            task.fn(task.arg);
            pthread_mutex_lock(&pool->lock);
            self->task = queue_pop(pool);
        }
        pool->busy--;
        if (pool->busy == 0)
            pthread_cond_broadcast(&pool->quiet);
    } while (wait_for_task(pool, self));

    /* Whoever ends joins the one that ended before: at most one thread waits to be joined, and joining it means that
     * all are gone. */
    before = pool->ended;
    pool->ended = self;
    pool->threads--;
    if (pool->threads == 0)
        pthread_cond_broadcast(&pool->quiet);
    pthread_mutex_unlock(&pool->lock);
    join_ended(before);
    return NULL;
}

static int create_thread(pool_thread *thread)
{
    pthread_t handle; /* not thread->handle: the thread may be over, and freed, when pthread_create writes this */

    return od_thread_create(&handle, thread_main, thread);
}

/* Starts a thread whose first task is TASK. The caller counted it in threads and busy; nothing is locked. */
static int start_thread(od_pool *pool, pool_task task)
{
    pool_thread *thread = od_calloc(1, sizeof *thread);
    int errnum;

    if (!thread)
        return ENOMEM;
    thread->pool = pool;
    thread->task = task;
    od_cond_init(&thread->wake);
    errnum = create_thread(thread);
    if (errnum != 0)
        thread_free(thread);
    return errnum;
}

od_code od_pool_create(const od_pool_options *options, od_pool **out, od_error *err)
{
    od_pool *pool;

    *out = NULL;
    if (options->max_threads < 1 || options->max_threads > OD_POOL_MAX_THREADS)
        return od_fail(err, OD_E_INVALID, "a pool of %u threads; allowed are 1 to %d", options->max_threads,
                       OD_POOL_MAX_THREADS);
    if (options->max_queued > OD_POOL_MAX_QUEUED)
        return od_fail(err, OD_E_INVALID, "a pool that queues %zu tasks; allowed are up to %d", options->max_queued,
                       OD_POOL_MAX_QUEUED);
    if (options->idle_ms < 0 || options->idle_ms > INT32_MAX)
        return od_fail(err, OD_E_INVALID, "a pool's idle time of %lld ms", (long long)options->idle_ms);
    pool = od_calloc(1, sizeof *pool);
    if (!pool)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a pool");
    pool->queue = od_calloc(options->max_queued, sizeof *pool->queue);
    if (!pool->queue) {
        od_free(pool);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a queue of %zu tasks", options->max_queued);
    }
    memcpy(pool->name, options->name, strnlen(options->name, NAME_SIZE - 1));
    pool->max_threads = options->max_threads;
    pool->max_queued = options->max_queued;
    pool->idle_ns = (options->idle_ms ? options->idle_ms : OD_POOL_IDLE_MS) * 1000000;
    pthread_mutex_init(&pool->lock, NULL);
    od_cond_init(&pool->quiet);
    *out = pool;
    return OD_OK;
}

/* Gives TASK to an idle thread, or lets it wait for a busy one. */
static bool place(od_pool *pool, pool_task task)
{
    pool_thread *thread = pool->newest;

    if (thread) {
        idle_remove(pool, thread);
        thread->task = task;
        pool->busy++;
        /* Under the lock: without it the thread could be over and freed by now. */
        pthread_cond_signal(&thread->wake);
        return true;
    }
    if (pool->threads < pool->max_threads || pool->queued == pool->max_queued)
        return false;
    queue_push(pool, task);
    return true;
}

/* No thread could be started for TASK, so it may wait for one that works. */
static od_code submit_without_thread(od_pool *pool, pool_task task, int errnum, od_error *err)
{
    bool placed;

    pthread_mutex_lock(&pool->lock);
    pool->threads--;
    pool->busy--;
    placed = place(pool, task);
    if (!placed && pool->busy > 0 && pool->queued < pool->max_queued) {
        queue_push(pool, task);
        placed = true;
    }
    if (pool->busy == 0)
        pthread_cond_broadcast(&pool->quiet);
    pthread_mutex_unlock(&pool->lock);
    if (placed)
        return OD_OK;
    return od_fail_errno(err, OD_E_BUSY, errnum, "cannot start a thread of '%s'", pool->name);
}

od_code od_pool_submit(od_pool *pool, od_pool_fn fn, void *arg, od_error *err)
{
    pool_task task = {fn, arg};
    bool start = false;
    od_code rc = OD_OK;
    int errnum;

    pthread_mutex_lock(&pool->lock);
    if (pool->draining) {
        rc = od_fail(err, OD_E_PRECONDITION, "the pool '%s' takes no work any more", pool->name);
    } else if (!place(pool, task)) {
        start = pool->threads < pool->max_threads;
        if (start) {
            pool->threads++;
            pool->busy++;
        } else {
            rc = od_fail(err, OD_E_BUSY, "all %u threads of '%s' work and %zu tasks wait", pool->max_threads,
                         pool->name, pool->queued);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    if (!start)
        return rc;
    errnum = start_thread(pool, task);
    return errnum == 0 ? OD_OK : submit_without_thread(pool, task, errnum, err);
}

/* Waits for the end of all tasks, or of all threads too. */
static bool wait_quiet(od_pool *pool, bool threads_too, od_deadline deadline)
{
    while (pool->busy > 0 || (threads_too && pool->threads > 0)) {
        if (!od_cond_wait(&pool->quiet, &pool->lock, deadline))
            return false;
    }
    return true;
}

od_code od_pool_drain(od_pool *pool, od_deadline deadline, od_error *err)
{
    od_code rc = OD_OK;

    pthread_mutex_lock(&pool->lock);
    pool->draining = true;
    if (!wait_quiet(pool, false, deadline))
        rc =
            od_fail(err, OD_E_TIMEOUT, "%u tasks of '%s' still run and %zu wait", pool->busy, pool->name, pool->queued);
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

od_pool_stats od_pool_read_stats(od_pool *pool)
{
    od_pool_stats stats;

    pthread_mutex_lock(&pool->lock);
    stats = (od_pool_stats){.threads = pool->threads, .busy = pool->busy, .queued = pool->queued};
    pthread_mutex_unlock(&pool->lock);
    return stats;
}

void od_pool_free(od_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->draining = true;
    wait_quiet(pool, false, OD_DEADLINE_NEVER);
    pool->stopping = true;
    for (pool_thread *thread = pool->newest; thread; thread = thread->older)
        pthread_cond_signal(&thread->wake);
    wait_quiet(pool, true, OD_DEADLINE_NEVER);
    pthread_mutex_unlock(&pool->lock);
    join_ended(pool->ended);
    pthread_cond_destroy(&pool->quiet);
    pthread_mutex_destroy(&pool->lock);
    od_free(pool->queue);
    od_free(pool);
}
