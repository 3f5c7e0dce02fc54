#include <malloc.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "unit/base/check.h"

static void test_data_lie_skewed_past_an_alignment(void **state)
{
    static const size_t lengths[] = {0, 1, 63, 64, 1000};

    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        for (unsigned skew = 0; skew < 64; skew++) {
            od_msg *msg;

            assert_int_equal(od_msg_create(lengths[i], skew, &msg, NULL), OD_OK);
            assert_int_equal((uintptr_t)od_msg_data(msg) % 64, skew);
            assert_int_equal(od_msg_len(msg), lengths[i]);
            memset(od_msg_data(msg), 0xAB, lengths[i]);
            od_msg_unref(msg);
        }
    }
}

static void test_bad_sizes_are_refused(void **state)
{
    od_error err = {0};
    od_msg *msg = (od_msg *)&err;

    (void)state;
    assert_int_equal(od_msg_create(1, 64, &msg, &err), OD_E_INVALID);
    assert_null(msg);
    assert_int_equal(od_msg_create(SIZE_MAX, 0, &msg, &err), OD_E_TOO_LARGE);
    assert_int_equal(od_msg_create(SIZE_MAX / 2, 0, &msg, &err), OD_E_TOO_LARGE);
    assert_null(msg);
    od_alloc_fail_after(0);
    assert_int_equal(od_msg_create(1, 0, &msg, &err), OD_E_NO_MEMORY);
    od_alloc_fail_after(-1);
    assert_null(msg);
}

static void test_truncate_cuts(void **state)
{
    od_msg *msg;

    (void)state;
    assert_int_equal(od_msg_create(5, 3, &msg, NULL), OD_OK);
    memcpy(od_msg_data(msg), "hello", 5);
    od_msg_truncate(msg, 2);
    assert_int_equal(od_msg_len(msg), 2);
    assert_memory_equal(od_msg_data(msg), "he", 2);
    od_msg_unref(msg);
    od_msg_unref(NULL);
}

static void test_a_pool_uses_memory_again(void **state)
{
    enum { LARGE = 1 << 20 };
    od_msg_pool *pool;
    od_msg *first, *second, *third;

    (void)state;
    assert_int_equal(od_msg_pool_create(2 * LARGE, &pool, NULL), OD_OK);
    assert_int_equal(od_msg_pool_take(pool, LARGE, 3, &first, NULL), OD_OK);
    assert_int_equal((uintptr_t)od_msg_data(first) % 64, 3);
    uint8_t *where = od_msg_data(od_msg_ref(first));
    od_msg_unref(first);
    assert_int_equal(od_msg_pool_take(pool, LARGE, 3, &second, NULL), OD_OK);
    assert_ptr_not_equal(od_msg_data(second), where); /* it has an owner yet */
    od_msg_unref(first);
    assert_int_equal(od_msg_pool_take(pool, LARGE + 100, 3, &third, NULL), OD_OK);
    assert_ptr_equal(od_msg_data(third), where);
    assert_int_equal(od_msg_len(third), LARGE + 100);
    memset(od_msg_data(third), 1, LARGE + 100);
    od_msg_pool_free(pool);
    memset(od_msg_data(second), 1, LARGE); /* messages outlive it */
    od_msg_unref(second);
    od_msg_unref(third);
}

static void test_a_pool_keeps_no_more_than_it_may(void **state)
{
    enum { LARGE = 1 << 20, COUNT = 8 };
    od_msg_pool *pool;
    od_msg *messages[COUNT];

    (void)state;
    assert_int_equal(od_msg_pool_create(3 * LARGE, &pool, NULL), OD_OK);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(od_msg_pool_take(pool, LARGE, 0, &messages[i], NULL), OD_OK);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (int i = 0; i < COUNT; i++)
        od_msg_unref(messages[i]);
    size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    if (before > COUNT * (size_t)LARGE) /* else the allocator is a checker's, which does not say */
        assert_true(after + (COUNT - 3) * (size_t)LARGE <= before);
    od_msg_pool_free(pool);
    od_msg_pool_free(NULL);

    od_error err = {0};
    od_alloc_fail_after(0);
    assert_int_equal(od_msg_pool_create(1, &pool, &err), OD_E_NO_MEMORY);
    od_alloc_fail_after(-1);
    assert_null(pool);
}

enum { SHARERS = 4, ROUNDS = 2000 };

static void *share(void *arg)
{
    od_msg *msg = arg;
    unsigned sum = 0;

    for (int i = 0; i < ROUNDS; i++) {
        od_msg *mine = od_msg_ref(msg);

        sum += od_msg_data(mine)[0];
        od_msg_unref(mine);
    }
    od_msg_unref(msg);
    return (void *)(uintptr_t)sum;
}

static void test_last_of_many_threads_frees(void **state)
{
    pthread_t threads[SHARERS];
    od_msg *msg;

    (void)state;
    assert_int_equal(od_msg_create(64, 0, &msg, NULL), OD_OK);
    memset(od_msg_data(msg), 1, 64);
    for (int i = 0; i < SHARERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, share, od_msg_ref(msg)), 0);
    od_msg_unref(msg);
    for (int i = 0; i < SHARERS; i++) {
        void *sum;

        assert_int_equal(pthread_join(threads[i], &sum), 0);
        assert_int_equal((uintptr_t)sum, ROUNDS);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_lie_skewed_past_an_alignment),
        cmocka_unit_test(test_bad_sizes_are_refused),
        cmocka_unit_test(test_truncate_cuts),
        cmocka_unit_test(test_a_pool_uses_memory_again),
        cmocka_unit_test(test_a_pool_keeps_no_more_than_it_may),
        cmocka_unit_test(test_last_of_many_threads_frees),
    };

    return check_run("base.msg", tests, argc, argv);
}
