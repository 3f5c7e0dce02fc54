#include "base/alloc.h"

#include <string.h>

#include "unit/base/check.h"

static void test_size_zero_gives_unique_pointers(void **state)
{
    void *a = od_alloc(0);
    void *b = od_calloc(0, 8);

    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    od_free(a);
    od_free(b);
    od_free(NULL);
}

static void test_calloc_zeroes_and_refuses_overflow(void **state)
{
    static const char zero[40];
    volatile size_t half = SIZE_MAX / 2; /* volatile: the compiler sees the overflow otherwise */
    char *a = od_calloc(10, 4);

    (void)state;
    assert_memory_equal(a, zero, 40);
    od_free(a);
    assert_null(od_calloc(half, 3));
    assert_null(od_alloc(half + 2));
    assert_null(od_realloc(NULL, half + 2));
}

static void test_realloc_keeps_the_content(void **state)
{
    char *a = od_realloc(NULL, 3);

    (void)state;
    assert_non_null(a);
    memcpy(a, "ab", 3);
    a = od_realloc(a, 1000);
    assert_string_equal(a, "ab");
    od_free(a);
}

static void test_strdup_copies(void **state)
{
    char *copy = od_strdup("duck");

    (void)state;
    assert_string_equal(copy, "duck");
    od_free(copy);
    copy = od_strndup("duck", 2);
    assert_string_equal(copy, "du");
    od_free(copy);
    copy = od_strndup("duck", 99);
    assert_string_equal(copy, "duck");
    od_free(copy);
    assert_null(od_strdup(NULL));
    assert_null(od_strndup(NULL, 4));
    copy = od_strndup(NULL, 0);
    assert_string_equal(copy, "");
    od_free(copy);
}

static void test_size_sums_refuse_overflow(void **state)
{
    size_t out = 7;

    (void)state;
    assert_true(od_add_size(2, 3, &out));
    assert_int_equal(out, 5);
    assert_true(od_mul_size(2, 3, &out));
    assert_int_equal(out, 6);
    assert_false(od_add_size(SIZE_MAX, 1, &out));
    assert_false(od_mul_size(SIZE_MAX, 2, &out));
    assert_int_equal(out, 6);
    assert_true(od_add_size(SIZE_MAX, 0, &out));
    assert_true(out == SIZE_MAX);
}

static void test_the_nth_allocation_fails_once(void **state)
{
    void *kept[3];

    (void)state;
    od_alloc_fail_after(2);
    kept[0] = od_alloc(1);
    kept[1] = od_calloc(1, 1);
    assert_non_null(kept[0]);
    assert_non_null(kept[1]);
    assert_null(od_realloc(NULL, 1));
    kept[2] = od_alloc(1);
    assert_non_null(kept[2]);
    od_alloc_fail_after(0);
    assert_null(od_strdup("x"));
    od_alloc_fail_after(0);
    od_alloc_fail_after(-1);
    for (int i = 0; i < 3; i++) {
        void *more = od_realloc(kept[i], 10);

        assert_non_null(more);
        od_free(more);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_zero_gives_unique_pointers),
        cmocka_unit_test(test_calloc_zeroes_and_refuses_overflow),
        cmocka_unit_test(test_realloc_keeps_the_content),
        cmocka_unit_test(test_strdup_copies),
        cmocka_unit_test(test_size_sums_refuse_overflow),
        cmocka_unit_test(test_the_nth_allocation_fails_once),
    };

    return check_run("base.alloc", tests, argc, argv);
}
