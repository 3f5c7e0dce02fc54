#include "base/json.h"

#include <string.h>

#include "unit/base/check.h"

static void test_texts_are_escaped_and_made_utf8(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        const char *json;
    } cases[] = {
        {"", 0, "\"\""},
        {"plain", 5, "\"plain\""},
        {"a\"b\\c\n\r\t", 8, "\"a\\\"b\\\\c\\n\\r\\t\""},
        {"\0\x1f\x7f", 3, "\"\\u0000\\u001f\\u007f\""},
        {"\xc3\xbc\xf0\x9f\xa6\x86", 6, "\"\xc3\xbc\xf0\x9f\xa6\x86\""},
        {"a\xff"
         "b\xc3",
         4,
         "\"a\xEF\xBF\xBD"
         "b\xEF\xBF\xBD\""},
        {"\xed\xa0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""}, /* a surrogate */
        {"</script>", 9, "\"</script>\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_buf out = {0};
        od_json json = {.out = &out};

        od_json_text(&json, od_slice_of(cases[i].text, cases[i].len));
        assert_int_equal(json.rc, OD_OK);
        assert_string_equal(od_buf_cstr(&out), cases[i].json);
        od_buf_release(&out);
    }
}

static void test_parts_follow_each_other(void **state)
{
    od_buf out = {0};
    od_json json = {.out = &out};

    (void)state;
    od_json_put(&json, "{");
    od_json_field(&json, "a", "x\"y");
    od_json_put(&json, ",\"n\":%d,", 7);
    od_json_field(&json, "none", NULL);
    od_json_put(&json, "}");
    assert_int_equal(json.rc, OD_OK);
    assert_string_equal(od_buf_cstr(&out), "{\"a\":\"x\\\"y\",\"n\":7,\"none\":\"\"}");
    od_buf_release(&out);
}

static void test_the_first_failure_sticks(void **state)
{
    od_buf out = {0};
    od_json json = {.out = &out, .rc = OD_E_NO_MEMORY};

    (void)state;
    od_json_put(&json, "{");
    od_json_field(&json, "a", "b");
    assert_int_equal(json.rc, OD_E_NO_MEMORY);
    assert_int_equal(out.len, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts_are_escaped_and_made_utf8),
                                       cmocka_unit_test(test_parts_follow_each_other),
                                       cmocka_unit_test(test_the_first_failure_sticks)};

    return check_run("json", tests, argc, argv);
}
