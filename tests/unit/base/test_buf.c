#include "base/buf.h"

#include <string.h>

#include "base/alloc.h"
#include "unit/base/check.h"

static void test_slices_compare_by_content(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        bool equal;
    } cases[] = {{"", "", true},    {NULL, "", true},   {"a", "a", true},
                 {"a", "b", false}, {"a", "ab", false}, {"", "a", false}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(od_slice_equal(od_slice_str(cases[i].a), od_slice_str(cases[i].b)), cases[i].equal);
    assert_false(od_slice_equal(od_slice_of("a\0b", 3), od_slice_of("a\0c", 3)));
    assert_int_equal(od_slice_str(NULL).len, 0);
}

static void test_append_and_printf_grow_the_buffer(void **state)
{
    od_buf buf = {0};
    od_error err = {0};

    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(od_buf_append(&buf, "ab", 2, &err), OD_OK);
        assert_int_equal(od_buf_printf(&buf, &err, "%d,", i % 10), OD_OK);
    }
    assert_int_equal(buf.len, 4000);
    assert_memory_equal(buf.data, "ab0,ab1,ab2,", 12);
    assert_memory_equal(buf.data + 3996, "ab9,", 4);
    assert_int_equal(err.code, OD_OK);
    od_buf_release(&buf);
    od_buf_release(&buf);
    od_buf_release(NULL);
    assert_null(buf.data);
}

static void test_append_of_nothing_allocates_nothing(void **state)
{
    od_buf buf = {0};

    (void)state;
    assert_int_equal(od_buf_append(&buf, NULL, 0, NULL), OD_OK);
    assert_int_equal(od_buf_reserve(&buf, 0, NULL), OD_OK);
    assert_null(buf.data);
}

static void test_cstr_terminates_without_counting(void **state)
{
    od_buf buf = {0};

    (void)state;
    assert_string_equal(od_buf_cstr(&buf), "");
    assert_int_equal(buf.len, 0);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(od_buf_append(&buf, "x", 1, NULL), OD_OK);
        assert_int_equal(strlen(od_buf_cstr(&buf)), buf.len);
    }
    od_buf_release(&buf);
}

static void test_reserve_refuses_sizes_that_overflow(void **state)
{
    od_buf buf = {0};
    od_error err = {0};

    (void)state;
    assert_int_equal(od_buf_append(&buf, "abc", 3, &err), OD_OK);
    assert_int_equal(od_buf_reserve(&buf, SIZE_MAX, &err), OD_E_TOO_LARGE);
    assert_int_equal(od_buf_reserve(&buf, SIZE_MAX - 3, &err), OD_E_TOO_LARGE);
    assert_int_equal(buf.len, 3);
    assert_string_equal(od_buf_cstr(&buf), "abc");
    od_buf_release(&buf);
}

static void test_failed_growth_keeps_the_content(void **state)
{
    char big[100] = {0};
    od_buf buf = {0};
    od_error err = {0};

    (void)state;
    assert_int_equal(od_buf_append(&buf, "abc", 3, &err), OD_OK);
    od_alloc_fail_after(0);
    assert_int_equal(od_buf_append(&buf, big, sizeof big, &err), OD_E_NO_MEMORY);
    od_alloc_fail_after(0);
    assert_int_equal(od_buf_printf(&buf, &err, "%100d", 1), OD_E_NO_MEMORY);
    od_alloc_fail_after(-1);
    assert_int_equal(err.code, OD_E_NO_MEMORY);
    assert_string_equal(od_buf_cstr(&buf), "abc");
    od_buf_release(&buf);
    od_alloc_fail_after(0);
    assert_null(od_buf_cstr(&buf));
    od_alloc_fail_after(-1);
}

static void test_hex_digits_of_either_case(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        const char *all = "0123456789abcdefABCDEF", *at = c != 0 ? strchr(all, c) : NULL;
        int want = at == NULL ? -1 : (int)(at - all) < 16 ? (int)(at - all) : (int)(at - all) - 6;
        assert_int_equal(od_hex_value((uint8_t)c), want);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_compare_by_content),
        cmocka_unit_test(test_hex_digits_of_either_case),
        cmocka_unit_test(test_append_and_printf_grow_the_buffer),
        cmocka_unit_test(test_append_of_nothing_allocates_nothing),
        cmocka_unit_test(test_cstr_terminates_without_counting),
        cmocka_unit_test(test_reserve_refuses_sizes_that_overflow),
        cmocka_unit_test(test_failed_growth_keeps_the_content),
    };

    return check_run("base.buf", tests, argc, argv);
}
