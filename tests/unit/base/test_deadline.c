#include "base/deadline.h"

#include <limits.h>

#include "unit/base/check.h"

static void test_never_does_not_pass(void **state)
{
    (void)state;
    assert_false(od_deadline_passed(OD_DEADLINE_NEVER));
    assert_int_equal(od_deadline_poll_ms(OD_DEADLINE_NEVER), -1);
    assert_true(od_deadline_in_ms(-1).at_ns == INT64_MAX);
    assert_true(od_deadline_in_ms(INT64_MAX).at_ns == INT64_MAX);
    assert_true(od_deadline_in_ms(INT64_MAX / 1000000).at_ns == INT64_MAX);
}

static void test_past_has_nothing_left(void **state)
{
    (void)state;
    assert_true(od_deadline_passed(od_deadline_in_ms(0)));
    assert_int_equal(od_deadline_poll_ms(od_deadline_in_ms(0)), 0);
    assert_int_equal(od_deadline_poll_ms((od_deadline){0}), 0);
    assert_int_equal(od_deadline_poll_ms((od_deadline){INT64_MIN}), 0);
}

static void test_what_is_left_is_rounded_up(void **state)
{
    int left = od_deadline_poll_ms((od_deadline){od_clock_ns() + 60000000001});

    (void)state;
    assert_true(left > 59000 && left <= 60001);
    assert_int_equal(od_deadline_poll_ms(od_deadline_in_ms(INT64_MAX / 2000000)), INT_MAX);
    /* Never 0 before it has passed: poll() must not spin. */
    for (int i = 0; i < 1000; i++) {
        od_deadline soon = {od_clock_ns() + 20000};
        int ms = od_deadline_poll_ms(soon);

        assert_true(ms == 1 || (ms == 0 && od_deadline_passed(soon)));
    }
}

static void test_min_is_the_earlier(void **state)
{
    od_deadline soon = {5};
    od_deadline late = {9};

    (void)state;
    assert_true(od_deadline_min(soon, late).at_ns == 5);
    assert_true(od_deadline_min(late, soon).at_ns == 5);
    assert_true(od_deadline_min(OD_DEADLINE_NEVER, late).at_ns == 9);
}

static void test_clocks_advance(void **state)
{
    int64_t first = od_clock_ns();

    (void)state;
    while (od_clock_ns() == first)
        ;
    assert_true(od_clock_ns() > first);
    assert_true(od_wall_us() > INT64_C(1500000000000000));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_does_not_pass),
        cmocka_unit_test(test_past_has_nothing_left),
        cmocka_unit_test(test_what_is_left_is_rounded_up),
        cmocka_unit_test(test_min_is_the_earlier),
        cmocka_unit_test(test_clocks_advance),
    };

    return check_run("base.deadline", tests, argc, argv);
}
