#include "query/attach_uri.h"

#include <string.h>

#include "base/alloc.h"
#include "unit/base/check.h"

static od_code parse(const char *text, od_attach_uri *uri, od_error *err)
{
    memset(err, 0, sizeof(*err));
    return od_attach_uri_parse(od_slice_str(text), uri, err);
}

static void test_a_name_alone_is_the_database(void **state)
{
    static const char *const cases[][2] = {
        {"mydb", "mydb"},
        {"", ""},
        {"mydb?", "mydb"},
        {"my%20db", "my db"},
        {"100%25", "100%"},
        {"a+b", "a+b"},
        {"%E6%97%A5", "\xE6\x97\xA5"},
        {"\xE6\x97\xA5", "\xE6\x97\xA5"},
        {"a%3Fb", "a?b"},
        {"a=b&c", "a=b&c"},
    };
    od_attach_uri uri;
    od_error err;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(parse(cases[i][0], &uri, &err), OD_OK);
        assert_string_equal(uri.database, cases[i][1]);
        assert_null(uri.endpoint);
        assert_null(uri.secret);
        assert_false(uri.has_token);
        od_attach_uri_release(&uri);
    }
}

static void test_parameters_are_decoded(void **state)
{
    od_attach_uri uri;
    od_error err;

    (void)state;
    assert_int_equal(
        parse("db?endpoint=http%3A%2F%2F%5B%3A%3A1%5D%3A7878&TOKEN=a%26b%3Dc%25&secret=my%20one", &uri, &err), OD_OK);
    assert_string_equal(uri.endpoint, "http://[::1]:7878");
    assert_string_equal(uri.token.value, "a&b=c%");
    assert_true(uri.has_token);
    assert_string_equal(uri.secret, "my one");
    od_attach_uri_release(&uri);

    assert_int_equal(parse("db?Snapshot=0d0b%2D1", &uri, &err), OD_OK);
    assert_string_equal(uri.snapshot, "0d0b-1");
    assert_null(uri.endpoint);
    od_attach_uri_release(&uri);
    assert_int_equal(parse("db?snapshot=a&snapshot=b", &uri, &err), OD_E_INVALID);

    assert_int_equal(parse("db?endpoint=[::1]:7878&token=x=y?z/+", &uri, &err), OD_OK);
    assert_string_equal(uri.endpoint, "[::1]:7878");
    assert_string_equal(uri.token.value, "x=y?z/+");
    od_attach_uri_release(&uri);
    od_attach_uri_release(&uri);
}

static void test_an_empty_token_is_not_no_token(void **state)
{
    od_attach_uri uri;
    od_error err;

    (void)state;
    assert_int_equal(parse("db?token=", &uri, &err), OD_OK);
    assert_true(uri.has_token);
    assert_string_equal(od_secret_shown(&uri.token), "");
    od_attach_uri_release(&uri);
}

static void test_what_is_not_understood_is_refused(void **state)
{
    static const char *const cases[][2] = {
        {"db?endpont=x", "unknown parameter 'endpont'"},
        {"db?token=a&token=b", "'token' is given twice"},
        {"db?token=&Token=b", "'token' is given twice"},
        {"db?endpoint=a&endpoint=a", "'endpoint' is given twice"},
        {"db?secret=a&secret=a", "'secret' is given twice"},
        {"db?token=%", "the value of 'token' has a bad percent escape"},
        {"db?token=%4", "bad percent escape"},
        {"db?token=%4G", "bad percent escape"},
        {"db?endpoint=%zz", "the value of 'endpoint' has a bad percent escape"},
        {"d%b", "the database name has a bad percent escape"},
        {"db?token=%00", "control character"},
        {"db%0A", "control character"},
        {"db?endpoint=%FF", "not valid UTF-8"},
        {"%C0%80", "not valid UTF-8"},
        {"%ED%A0%80", "not valid UTF-8"},
        {"%E6%97", "not valid UTF-8"},
        {"db?token", "lacks '='"},
        {"db?&", "lacks '='"},
        {"db?token=a&", "missing after the last '&'"},
        {"db?token=a&&secret=b", "lacks '='"},
        {"db?=a", "no known name"},
        {"db??token=a", "no known name"},
    };
    od_attach_uri uri;
    od_error err;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(parse(cases[i][0], &uri, &err), OD_E_INVALID);
        assert_non_null(strstr(err.message, cases[i][1]));
        assert_null(uri.database);
    }
}

static void test_errors_repeat_no_value(void **state)
{
    static const char *const cases[] = {
        "db?token=hunter2%",
        "db?token=hunter2&token=hunter2",
        "db?token=hunter2%00",
        "db?token=a&hunter2=x",
        "db?token=a&hunter2",
        "db?token=hunter2%FF",
        "db?token=a&hunter2hunterhunterhunterhunterhunter=x",
    };
    od_attach_uri uri;
    od_error err;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(parse(cases[i], &uri, &err), OD_E_INVALID);
        assert_null(strstr(err.message, "hunter"));
    }
}

static void test_too_long_a_text_is_refused(void **state)
{
    static char text[OD_ATTACH_URI_MAX + 1];
    od_attach_uri uri;

    (void)state;
    memset(text, 'a', sizeof(text));
    assert_int_equal(od_attach_uri_parse(od_slice_of(text, sizeof(text)), &uri, NULL), OD_E_TOO_LARGE);
    assert_int_equal(od_attach_uri_parse(od_slice_of(text, sizeof(text) - 1), &uri, NULL), OD_OK);
    od_attach_uri_release(&uri);
}

static void test_memory_that_runs_out_leaves_nothing_behind(void **state)
{
    od_attach_uri uri;
    od_error err;
    od_code rc = OD_E_NO_MEMORY;

    (void)state;
    for (long n = 0; rc != OD_OK; n++) {
        assert_true(n < 20);
        od_alloc_fail_after(n);
        rc = parse("db?endpoint=x&token=y&secret=z", &uri, &err);
        od_alloc_fail_after(-1);
        assert_true(rc == OD_OK || rc == OD_E_NO_MEMORY);
    }
    od_attach_uri_release(&uri);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_alone_is_the_database),
        cmocka_unit_test(test_parameters_are_decoded),
        cmocka_unit_test(test_an_empty_token_is_not_no_token),
        cmocka_unit_test(test_what_is_not_understood_is_refused),
        cmocka_unit_test(test_errors_repeat_no_value),
        cmocka_unit_test(test_too_long_a_text_is_refused),
        cmocka_unit_test(test_memory_that_runs_out_leaves_nothing_behind),
    };

    return check_run("query.client.attach_uri", tests, argc, argv);
}
