#include "query/console/session.h"

#include <string.h>

#include "unit/base/check.h"

#define SECOND INT64_C(1000000000)

static sessions all;

static int setup(void **state)
{
    (void)state;
    sessions_release(&all);
    return 0;
}

static session *find(const char *id, int64_t now_ns)
{
    return sessions_find(&all, od_slice_str(id), now_ns);
}

static void begin(char id[SESSION_ID_SIZE], int64_t now_ns)
{
    assert_int_equal(sessions_begin(&all, NULL, now_ns, id, NULL), OD_OK);
    assert_int_equal(strlen(id), 64);
}

static void test_names_are_random_and_the_pages_value_is_another(void **state)
{
    char a[SESSION_ID_SIZE], b[SESSION_ID_SIZE];

    (void)state;
    begin(a, 0);
    begin(b, 0);
    assert_string_not_equal(a, b);
    assert_non_null(find(a, 0));
    assert_string_not_equal(find(a, 0)->csrf, a);
    assert_string_not_equal(find(a, 0)->csrf, find(b, 0)->csrf);
    assert_int_equal(strlen(find(a, 0)->csrf), 64);
}

static void test_nothing_but_the_whole_name_is_one(void **state)
{
    char id[SESSION_ID_SIZE], other[SESSION_ID_SIZE];

    (void)state;
    assert_null(find("", 0));
    begin(id, 0);
    memcpy(other, id, sizeof id);
    other[63] = other[63] == '0' ? '1' : '0';
    assert_null(find(other, 0));
    assert_null(find("", 0));
    assert_null(sessions_find(&all, od_slice_of(id, 63), 0));
    assert_non_null(find(id, 0));
    sessions_end(find(id, 0));
    assert_null(find(id, 0));
}

static void test_one_ends_when_it_is_not_used_and_when_it_is_old(void **state)
{
    char idle[SESSION_ID_SIZE], used[SESSION_ID_SIZE];

    (void)state;
    begin(idle, 0);
    begin(used, 0);
    for (int64_t s = 0; s < SESSION_LIFE_S; s += SESSION_IDLE_S - 1)
        assert_non_null(find(used, s * SECOND));
    assert_null(find(idle, SESSION_IDLE_S * SECOND));
    assert_null(find(used, SESSION_LIFE_S * SECOND));
}

static void test_one_too_many_takes_the_place_of_the_one_unused_for_longest(void **state)
{
    char ids[SESSIONS + 1][SESSION_ID_SIZE];

    (void)state;
    for (int i = 0; i < SESSIONS; i++)
        begin(ids[i], i);
    assert_non_null(find(ids[0], SESSIONS)); /* now the second one is */
    begin(ids[SESSIONS], SESSIONS + 1);
    assert_null(find(ids[1], SESSIONS + 2));
    for (int i = 0; i <= SESSIONS; i++)
        assert_true(i == 1 || find(ids[i], SESSIONS + 2));
    sessions_release(&all);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_names_are_random_and_the_pages_value_is_another, setup),
        cmocka_unit_test_setup(test_nothing_but_the_whole_name_is_one, setup),
        cmocka_unit_test_setup_teardown(test_one_ends_when_it_is_not_used_and_when_it_is_old, setup, setup),
        cmocka_unit_test_setup_teardown(test_one_too_many_takes_the_place_of_the_one_unused_for_longest, setup, setup)};

    return check_run("session", tests, argc, argv);
}
