#include "base/ident.h"

#include "base/alloc.h"
#include "unit/base/check.h"

static void test_identifiers_are_quoted_always(void **state)
{
    static const char *const cases[][2] = {
        {"a", "\"a\""},           {"", "\"\""},
        {"select", "\"select\""}, {"a b", "\"a b\""},
        {"a\"b", "\"a\"\"b\""},   {"\"", "\"\"\"\""},
        {"a'b", "\"a'b\""},       {"\xC3\xA4", "\"\xC3\xA4\""},
        {"a\\b", "\"a\\b\""},     {"x\"; DROP TABLE t; --", "\"x\"\"; DROP TABLE t; --\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_buf out = {0};

        assert_int_equal(od_quote_ident(&out, od_slice_str(cases[i][0]), NULL), OD_OK);
        assert_string_equal(od_buf_cstr(&out), cases[i][1]);
        od_buf_release(&out);
    }
}

static void test_literals_double_their_quotes(void **state)
{
    static const char *const cases[][2] = {
        {"", "''"}, {"it's", "'it''s'"}, {"''", "''''''"}, {"\\'", "'\\'''"}, {"a\nb", "'a\nb'"}, {"a\"b", "'a\"b'"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_buf out = {0};

        assert_int_equal(od_quote_literal(&out, od_slice_str(cases[i][0]), NULL), OD_OK);
        assert_string_equal(od_buf_cstr(&out), cases[i][1]);
        od_buf_release(&out);
    }
}

static void test_quoting_appends_and_takes_only_its_slice(void **state)
{
    od_buf out = {0};

    (void)state;
    assert_int_equal(od_quote_ident(&out, od_slice_of("abcdef", 3), NULL), OD_OK);
    assert_int_equal(od_buf_append(&out, ".", 1, NULL), OD_OK);
    assert_int_equal(od_quote_literal(&out, od_slice_of("xyz", 1), NULL), OD_OK);
    assert_string_equal(od_buf_cstr(&out), "\"abc\".'x'");
    od_buf_release(&out);
}

static void test_nul_bytes_are_refused(void **state)
{
    od_buf out = {0};
    od_error err = {0};

    (void)state;
    assert_int_equal(od_quote_ident(&out, od_slice_of("a\0b", 3), &err), OD_E_INVALID);
    assert_string_equal(err.message, "an identifier holds a NUL byte at offset 1");
    assert_int_equal(od_quote_literal(&out, od_slice_of("\0", 1), &err), OD_E_INVALID);
    assert_int_equal(out.len, 0);
    od_buf_release(&out);
}

static void test_out_of_memory_leaves_the_buffer(void **state)
{
    char name[200];
    od_buf out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof name; i++)
        name[i] = '"';
    assert_int_equal(od_buf_append(&out, "x", 1, NULL), OD_OK);
    od_alloc_fail_after(0);
    assert_int_equal(od_quote_ident(&out, od_slice_of(name, sizeof name), NULL), OD_E_NO_MEMORY);
    od_alloc_fail_after(-1);
    assert_int_equal(out.len, 1);
    assert_int_equal(od_quote_ident(&out, od_slice_of(name, sizeof name), NULL), OD_OK);
    assert_int_equal(out.len, 1 + 2 + 2 * sizeof name);
    od_buf_release(&out);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identifiers_are_quoted_always),
        cmocka_unit_test(test_literals_double_their_quotes),
        cmocka_unit_test(test_quoting_appends_and_takes_only_its_slice),
        cmocka_unit_test(test_nul_bytes_are_refused),
        cmocka_unit_test(test_out_of_memory_leaves_the_buffer),
    };

    return check_run("base.ident", tests, argc, argv);
}
