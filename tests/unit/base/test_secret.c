#include "base/secret.h"

#include <string.h>

#include "base/alloc.h"
#include "unit/base/check.h"

static void test_secret_is_copied_and_replaced(void **state)
{
    char token[] = "hunter2";
    od_secret secret = {0};

    (void)state;
    assert_int_equal(od_secret_set(&secret, od_slice_str(token), NULL), OD_OK);
    token[0] = 'x';
    assert_string_equal(secret.value, "hunter2");
    assert_int_equal(secret.len, 7);
    assert_int_equal(od_secret_set(&secret, od_slice_of("abcdef", 3), NULL), OD_OK);
    assert_string_equal(secret.value, "abc");
    od_secret_release(&secret);
    od_secret_release(&secret);
    od_secret_release(NULL);
    assert_null(secret.value);
}

static void test_set_may_take_the_secret_s_own_bytes(void **state)
{
    od_secret secret = {0};

    (void)state;
    assert_int_equal(od_secret_set(&secret, od_slice_str("abcdef"), NULL), OD_OK);
    assert_int_equal(od_secret_set(&secret, od_slice_of(secret.value + 1, 2), NULL), OD_OK);
    assert_string_equal(secret.value, "bc");
    od_secret_release(&secret);
}

static void test_equal_compares_values(void **state)
{
    static const struct {
        const char *expected;
        const char *given;
        bool equal;
    } cases[] = {
        {"abc", "abc", true}, {"abc", "abd", false}, {"abc", "abcd", false}, {"abc", "ab", false},
        {"abc", "", false},   {"", "", true},        {"", "a", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_secret secret = {0};

        assert_int_equal(od_secret_set(&secret, od_slice_str(cases[i].expected), NULL), OD_OK);
        assert_int_equal(od_secret_equal(&secret, od_slice_str(cases[i].given)), cases[i].equal);
        od_secret_release(&secret);
    }
}

static void test_no_secret_equals_nothing(void **state)
{
    const od_secret none = {0};

    (void)state;
    assert_false(od_secret_equal(&none, od_slice_str("")));
    assert_false(od_secret_equal(&none, od_slice_str("a")));
}

static void test_shown_text_never_is_the_value(void **state)
{
    od_secret secret = {0};

    (void)state;
    assert_string_equal(od_secret_shown(&secret), "");
    assert_string_equal(od_secret_shown(NULL), "");
    assert_int_equal(od_secret_set(&secret, od_slice_str("s"), NULL), OD_OK);
    assert_string_equal(od_secret_shown(&secret), "***");
    od_secret_release(&secret);
}

static void test_bad_values_keep_the_old_one_and_are_not_quoted(void **state)
{
    od_secret secret = {0};
    od_error err = {0};

    (void)state;
    assert_int_equal(od_secret_set(&secret, od_slice_str("old"), NULL), OD_OK);
    assert_int_equal(od_secret_set(&secret, od_slice_of("ne\0w", 4), &err), OD_E_INVALID);
    assert_null(strstr(err.message, "ne"));
    od_alloc_fail_after(0);
    assert_int_equal(od_secret_set(&secret, od_slice_str("new"), &err), OD_E_NO_MEMORY);
    od_alloc_fail_after(-1);
    assert_string_equal(secret.value, "old");
    od_secret_release(&secret);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secret_is_copied_and_replaced),
        cmocka_unit_test(test_set_may_take_the_secret_s_own_bytes),
        cmocka_unit_test(test_equal_compares_values),
        cmocka_unit_test(test_no_secret_equals_nothing),
        cmocka_unit_test(test_shown_text_never_is_the_value),
        cmocka_unit_test(test_bad_values_keep_the_old_one_and_are_not_quoted),
    };

    return check_run("base.secret", tests, argc, argv);
}
