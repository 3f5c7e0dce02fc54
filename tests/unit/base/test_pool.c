#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "unit/base/check.h"

/* A gate that tasks wait at, and a count of those that came. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    int waiting;
    int done;
} gate;

#define GATE_CLOSED                                                            \
    {                                                                          \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
    }

static void pass_gate(void *arg)
{
    gate *g = arg;

    pthread_mutex_lock(&g->lock);
    g->waiting++;
    pthread_cond_broadcast(&g->changed);
    while (!g->open)
        pthread_cond_wait(&g->changed, &g->lock);
    g->waiting--;
    g->done++;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void open_gate(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void await_waiting(gate *g, int count)
{
    pthread_mutex_lock(&g->lock);
    while (g->waiting < count)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static od_pool *make_pool(unsigned max_threads, size_t max_queued, int64_t idle_ms)
{
    od_pool_options options = {
        .name = "test", .max_threads = max_threads, .max_queued = max_queued, .idle_ms = idle_ms};
    od_pool *pool;

    assert_int_equal(od_pool_create(&options, &pool, NULL), OD_OK);
    return pool;
}

static void await_threads(od_pool *pool, unsigned threads)
{
    while (od_pool_read_stats(pool).threads != threads)
        sched_yield();
}

static void await_idle(od_pool *pool)
{
    while (od_pool_read_stats(pool).busy != 0)
        sched_yield();
}

static void count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void test_options_out_of_range_are_refused(void **state)
{
    static const od_pool_options bad[] = {
        {.name = "x", .max_threads = 0},
        {.name = "x", .max_threads = OD_POOL_MAX_THREADS + 1},
        {.name = "x", .max_threads = 1, .max_queued = OD_POOL_MAX_QUEUED + 1},
        {.name = "x", .max_threads = 1, .idle_ms = -1},
    };
    od_error err = {0};
    od_pool *pool = (od_pool *)&err;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(od_pool_create(&bad[i], &pool, &err), OD_E_INVALID);
        assert_null(pool);
    }
    od_pool_free(NULL);
}

static void test_create_survives_every_failed_allocation(void **state)
{
    od_pool_options options = {.name = "a name that is too long", .max_threads = 1, .max_queued = 1};
    od_pool *pool;
    od_code rc;
    long n = 0;

    (void)state;
    do {
        od_alloc_fail_after(n++);
        rc = od_pool_create(&options, &pool, NULL);
        od_alloc_fail_after(-1);
        assert_true(rc == OD_OK || (rc == OD_E_NO_MEMORY && !pool));
    } while (rc != OD_OK);
    assert_int_equal(n, 3);
    od_pool_free(pool);
}

static void test_every_task_runs_once(void **state)
{
    static const unsigned sizes[] = {1, 2, 7};

    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        od_pool *pool = make_pool(sizes[i], 1000, 0);
        atomic_int counter = 0;

        for (int k = 0; k < 1000; k++)
            assert_int_equal(od_pool_submit(pool, count, &counter, NULL), OD_OK);
        assert_int_equal(od_pool_drain(pool, OD_DEADLINE_NEVER, NULL), OD_OK);
        assert_int_equal(atomic_load(&counter), 1000);
        assert_true(od_pool_read_stats(pool).threads <= sizes[i]);
        od_pool_free(pool);
    }
}

static void test_threads_start_when_all_are_busy(void **state)
{
    od_pool *pool = make_pool(3, 10, 0);
    gate g = GATE_CLOSED;

    (void)state;
    assert_int_equal(od_pool_read_stats(pool).threads, 0);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(od_pool_submit(pool, pass_gate, &g, NULL), OD_OK);
        await_waiting(&g, i);
        assert_int_equal(od_pool_read_stats(pool).threads, (unsigned)i);
        assert_int_equal(od_pool_read_stats(pool).busy, (unsigned)i);
    }
    assert_int_equal(od_pool_submit(pool, pass_gate, &g, NULL), OD_OK);
    assert_int_equal(od_pool_read_stats(pool).threads, 3);
    assert_int_equal(od_pool_read_stats(pool).queued, 1);
    open_gate(&g);
    od_pool_free(pool);
    assert_int_equal(g.done, 4);
}

static void test_idle_threads_are_used_again(void **state)
{
    od_pool *pool = make_pool(8, 8, 60000);
    atomic_int counter = 0;

    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(od_pool_submit(pool, count, &counter, NULL), OD_OK);
        await_idle(pool);
    }
    assert_int_equal(od_pool_read_stats(pool).threads, 1);
    od_pool_free(pool);
    assert_int_equal(atomic_load(&counter), 50);
}

static void test_full_queue_refuses_and_says_so(void **state)
{
    static const size_t bounds[] = {0, 1, 5};

    (void)state;
    for (size_t i = 0; i < COUNT(bounds); i++) {
        od_pool *pool = make_pool(1, bounds[i], 0);
        gate g = GATE_CLOSED;
        od_error err = {0};

        for (size_t k = 0; k <= bounds[i]; k++)
            assert_int_equal(od_pool_submit(pool, pass_gate, &g, &err), OD_OK);
        assert_int_equal(od_pool_submit(pool, pass_gate, &g, &err), OD_E_BUSY);
        assert_non_null(strstr(err.message, "'test'"));
        assert_true(err.retriable);
        open_gate(&g);
        od_pool_free(pool);
        assert_int_equal(g.done, (int)bounds[i] + 1);
    }
}

typedef struct {
    int order[100];
    int next;
} sequence;

static sequence seen;

static void note(void *arg)
{
    seen.order[seen.next++] = (int)(intptr_t)arg;
}

static void test_queue_is_first_in_first_out(void **state)
{
    od_pool *pool = make_pool(1, 7, 0);

    (void)state;
    seen.next = 0;
    for (int round = 0; round < 5; round++) {
        gate g = GATE_CLOSED;

        assert_int_equal(od_pool_submit(pool, pass_gate, &g, NULL), OD_OK);
        for (int i = 0; i < 7; i++)
            assert_int_equal(od_pool_submit(pool, note, (void *)(intptr_t)(round * 7 + i), NULL), OD_OK);
        open_gate(&g);
        await_idle(pool);
    }
    od_pool_free(pool);
    assert_int_equal(seen.next, 35);
    for (int i = 0; i < 35; i++)
        assert_int_equal(seen.order[i], i);
}

static void test_idle_threads_end(void **state)
{
    od_pool *pool = make_pool(4, 4, 20);
    gate g = GATE_CLOSED;
    atomic_int counter = 0;

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(od_pool_submit(pool, pass_gate, &g, NULL), OD_OK);
    await_waiting(&g, 4);
    open_gate(&g);
    await_threads(pool, 0);
    /* And it works on afterwards. */
    assert_int_equal(od_pool_submit(pool, count, &counter, NULL), OD_OK);
    await_threads(pool, 0);
    assert_int_equal(atomic_load(&counter), 1);
    od_pool_free(pool);
}

static void test_work_that_meets_an_ending_thread_is_not_refused(void **state)
{
    od_pool *pool = make_pool(1, 0, 1);
    atomic_int counter = 0;

    (void)state;
    for (int i = 0; i < 200; i++) {
        int64_t until;

        assert_int_equal(od_pool_submit(pool, count, &counter, NULL), OD_OK);
        await_idle(pool);
        until = od_clock_ns() + 900000 + (i % 20) * 10000;
        while (od_clock_ns() < until)
            ;
    }
    assert_int_equal(od_pool_drain(pool, OD_DEADLINE_NEVER, NULL), OD_OK);
    assert_int_equal(atomic_load(&counter), 200);
    od_pool_free(pool);
}

static void test_drain_waits_until_its_deadline(void **state)
{
    od_pool *pool = make_pool(2, 4, 0);
    gate g = GATE_CLOSED;
    od_error err = {0};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(od_pool_submit(pool, pass_gate, &g, NULL), OD_OK);
    assert_int_equal(od_pool_drain(pool, od_deadline_in_ms(0), &err), OD_E_TIMEOUT);
    assert_string_equal(err.message, "2 tasks of 'test' still run and 1 wait");
    assert_int_equal(od_pool_drain(pool, od_deadline_in_ms(20), &err), OD_E_TIMEOUT);
    assert_int_equal(od_pool_submit(pool, pass_gate, &g, &err), OD_E_PRECONDITION);
    open_gate(&g);
    assert_int_equal(od_pool_drain(pool, OD_DEADLINE_NEVER, NULL), OD_OK);
    assert_int_equal(g.done, 3);
    assert_int_equal(od_pool_drain(pool, od_deadline_in_ms(0), NULL), OD_OK);
    od_pool_free(pool);
}

typedef struct {
    od_pool *pool;
    atomic_int *counter;
} resubmit;

static void submit_more(void *arg)
{
    resubmit *r = arg;

    for (int i = 0; i < 10; i++) {
        if (od_pool_submit(r->pool, count, r->counter, NULL) != OD_OK)
            return;
    }
}

static void test_tasks_may_submit_tasks(void **state)
{
    od_pool *pool = make_pool(2, 100, 0);
    atomic_int counter = 0;
    resubmit r = {pool, &counter};

    (void)state;
    assert_int_equal(od_pool_submit(pool, submit_more, &r, NULL), OD_OK);
    while (atomic_load(&counter) < 10)
        sched_yield();
    od_pool_free(pool);
}

static void test_failed_thread_leaves_the_task_to_another(void **state)
{
    od_pool *pool = make_pool(4, 1, 60000);
    gate g = GATE_CLOSED;
    od_error err = {0};

    (void)state;
    /* Nobody is there to take it. */
    od_alloc_fail_after(0);
    assert_int_equal(od_pool_submit(pool, pass_gate, &g, &err), OD_E_NO_MEMORY);
    assert_int_equal(od_pool_read_stats(pool).threads, 0);
    assert_int_equal(od_pool_read_stats(pool).busy, 0);
    /* One works: the next waits for it, and the one after that finds no room. */
    assert_int_equal(od_pool_submit(pool, pass_gate, &g, &err), OD_OK);
    await_waiting(&g, 1);
    od_alloc_fail_after(0);
    assert_int_equal(od_pool_submit(pool, pass_gate, &g, &err), OD_OK);
    assert_int_equal(od_pool_read_stats(pool).queued, 1);
    od_alloc_fail_after(0);
    assert_int_equal(od_pool_submit(pool, pass_gate, &g, &err), OD_E_NO_MEMORY);
    od_alloc_fail_after(-1);
    open_gate(&g);
    od_pool_free(pool);
    assert_int_equal(g.done, 2);
}

typedef struct {
    sigset_t blocked;
    char name[32];
} thread_facts;

static void look_at_self(void *arg)
{
    thread_facts *facts = arg;

    pthread_sigmask(SIG_SETMASK, NULL, &facts->blocked);
    pthread_getname_np(pthread_self(), facts->name, sizeof facts->name);
}

static void test_threads_are_named_and_take_no_signals(void **state)
{
    od_pool_options options = {.name = "a-very-long-name-of-a-pool", .max_threads = 1};
    thread_facts facts = {.name = ""};
    sigset_t mine;
    od_pool *pool;

    (void)state;
    assert_int_equal(od_pool_create(&options, &pool, NULL), OD_OK);
    assert_int_equal(od_pool_submit(pool, look_at_self, &facts, NULL), OD_OK);
    od_pool_free(pool);
    assert_string_equal(facts.name, "a-very-long-nam");
    assert_true(sigismember(&facts.blocked, SIGTERM));
    assert_true(sigismember(&facts.blocked, SIGINT));
    assert_true(sigismember(&facts.blocked, SIGPIPE));
    assert_false(sigismember(&facts.blocked, SIGSEGV));
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    assert_false(sigismember(&mine, SIGTERM));
}

enum { SUBMITTERS = 4, EACH = 2000 };

typedef struct {
    od_pool *pool;
    atomic_int ran;
    atomic_int taken;
} storm;

static void *submit_storm(void *arg)
{
    storm *s = arg;

    for (int i = 0; i < EACH; i++) {
        if (od_pool_submit(s->pool, count, &s->ran, NULL) == OD_OK)
            atomic_fetch_add(&s->taken, 1);
        else
            sched_yield();
    }
    return NULL;
}

static void test_many_submitters_lose_nothing(void **state)
{
    pthread_t threads[SUBMITTERS];
    storm s = {.pool = make_pool(3, 16, 1)};

    (void)state;
    for (int i = 0; i < SUBMITTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_storm, &s), 0);
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(threads[i], NULL);
    od_pool_free(s.pool);
    assert_int_equal(atomic_load(&s.ran), atomic_load(&s.taken));
    assert_true(atomic_load(&s.taken) > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_out_of_range_are_refused),
        cmocka_unit_test(test_create_survives_every_failed_allocation),
        cmocka_unit_test(test_every_task_runs_once),
        cmocka_unit_test(test_threads_start_when_all_are_busy),
        cmocka_unit_test(test_idle_threads_are_used_again),
        cmocka_unit_test(test_full_queue_refuses_and_says_so),
        cmocka_unit_test(test_queue_is_first_in_first_out),
        cmocka_unit_test(test_idle_threads_end),
        cmocka_unit_test(test_work_that_meets_an_ending_thread_is_not_refused),
        cmocka_unit_test(test_drain_waits_until_its_deadline),
        cmocka_unit_test(test_tasks_may_submit_tasks),
        cmocka_unit_test(test_failed_thread_leaves_the_task_to_another),
        cmocka_unit_test(test_threads_are_named_and_take_no_signals),
        cmocka_unit_test(test_many_submitters_lose_nothing),
    };

    return check_run("base.pool", tests, argc, argv);
}
