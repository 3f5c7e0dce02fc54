#include "base/json_read.h"

#include <string.h>

#include "base/alloc.h"
#include "unit/base/check.h"

static const od_json_limits enough = {8, 100};

static od_code read_text(const char *text, od_json_limits limits, od_json_doc **doc)
{
    /* Of its own size, so that a sanitizer sees what is read behind it. */
    size_t len = strlen(text);
    char *copy = od_alloc(len);
    od_code rc;

    memcpy(copy, text, len);
    rc = od_json_read(od_slice_of(copy, len), limits, doc, NULL);
    od_free(copy);
    return rc;
}

static void test_values_are_read(void **state)
{
    od_json_doc *doc;
    const od_json_node *root, *list, *item;

    (void)state;
    assert_int_equal(read_text(" {\"a\" : [1, -2.5e3, true, null, \"x\\n\\u00fc\\ud83e\\udd86\"],\"b\":{},\"c\":-0 } ",
                               enough, &doc),
                     OD_OK);
    root = od_json_root(doc);
    assert_int_equal(root->kind, OD_JSON_OBJECT);
    assert_int_equal(root->count, 3);
    list = od_json_get(root, "a");
    assert_int_equal(list->count, 5);
    item = list->first;
    assert_true(item->kind == OD_JSON_NUMBER && item->whole && item->value == 1);
    item = item->next;
    assert_true(item->kind == OD_JSON_NUMBER && !item->whole);
    assert_true(od_slice_equal(item->text, od_slice_str("-2.5e3")));
    item = item->next;
    assert_true(item->kind == OD_JSON_BOOL && item->yes);
    item = item->next;
    assert_int_equal(item->kind, OD_JSON_NULL);
    assert_true(od_json_is(item->next, "x\n\xc3\xbc\xf0\x9f\xa6\x86"));
    assert_null(item->next->next);
    assert_int_equal(od_json_get(root, "b")->count, 0);
    assert_int_equal(od_json_get(root, "c")->value, 0);
    assert_null(od_json_get(root, "d"));
    assert_null(od_json_get(list, "a"));
    assert_null(od_json_get(NULL, "a"));
    assert_false(od_json_is(NULL, "a"));
    od_json_doc_free(doc);
}

static void test_numbers_are_whole_while_they_fit(void **state)
{
    static const struct {
        const char *text;
        bool whole;
        int64_t value;
    } cases[] = {{"9223372036854775807", true, INT64_MAX},
                 {"-9223372036854775808", true, INT64_MIN},
                 {"9223372036854775808", false, 0},
                 {"99999999999999999999999999999999", false, 0},
                 {"1.0", false, 0},
                 {"1E2", false, 0}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_json_doc *doc;

        assert_int_equal(read_text(cases[i].text, enough, &doc), OD_OK);
        assert_int_equal(od_json_root(doc)->whole, cases[i].whole);
        if (cases[i].whole)
            assert_true(od_json_root(doc)->value == cases[i].value);
        od_json_doc_free(doc);
    }
}

static void test_what_is_no_json_is_refused(void **state)
{
    static const char *const cases[] = {
        "",
        " ",
        "{",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":1,\"a\":2}",
        "01",
        "-",
        "1.",
        "1e",
        ".5",
        "+1",
        "tru",
        "nul",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\n\"",
        "\"\xff\"",
        "1 2",
        "[1]]",
        "NaN",
        "[\"\\u00",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_json_doc *doc;

        assert_int_equal(read_text(cases[i], enough, &doc), OD_E_CORRUPT);
        assert_null(doc);
    }
}

static void test_depth_and_size_are_bounded(void **state)
{
    od_json_doc *doc;

    (void)state;
    assert_int_equal(read_text("[[1]]", (od_json_limits){2, 10}, &doc), OD_OK);
    od_json_doc_free(doc);
    assert_int_equal(read_text("[[[1]]]", (od_json_limits){2, 10}, &doc), OD_E_CORRUPT);
    assert_int_equal(read_text("[1,2]", (od_json_limits){2, 3}, &doc), OD_OK);
    od_json_doc_free(doc);
    assert_int_equal(read_text("[1,2,3]", (od_json_limits){2, 3}, &doc), OD_E_CORRUPT);
}

static void test_every_failed_allocation_is_told(void **state)
{
    bool whole = false;

    (void)state;
    for (long n = 0; !whole; n++) {
        od_json_doc *doc;
        od_code rc;

        od_alloc_fail_after(n);
        rc = od_json_read(od_slice_str("[{\"a\":[1,2]}]"), enough, &doc, NULL);
        od_alloc_fail_after(-1);
        assert_true(rc == OD_OK || rc == OD_E_NO_MEMORY);
        whole = rc == OD_OK;
        od_json_doc_free(doc);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_read), cmocka_unit_test(test_numbers_are_whole_while_they_fit),
        cmocka_unit_test(test_what_is_no_json_is_refused), cmocka_unit_test(test_depth_and_size_are_bounded),
        cmocka_unit_test(test_every_failed_allocation_is_told)};

    return check_run("json_read", tests, argc, argv);
}
