/* What a request says of its sender, and what its body holds: read from bytes as they may come. */
#include "query/console/guard.h"

#include <stdio.h>
#include <string.h>

#include "query/console/form.h"
#include "unit/base/check.h"

static od_http_head head_of(const char *fields)
{
    static char text[2048];
    od_http_head head;

    snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s\r\n", fields);
    assert_int_equal(od_http_parse(od_slice_str(text), 0, &head), 200);
    return head;
}

static void test_the_cookie_is_the_one_of_this_port(void **state)
{
    static const struct {
        const char *fields, *value;
    } cases[] = {
        {"Host: h:80\r\nCookie: openduck_console_80=abc\r\n", "abc"},
        {"Host: h:80\r\nCookie: a=b; openduck_console_80=abc; c=d\r\n", "abc"},
        {"Host: [::1]:8080\r\nCookie: openduck_console_8080=abc\r\n", "abc"},
        {"Host: h\r\nCookie: openduck_console_=abc\r\n", "abc"},
        {"Host: h:80\r\nCookie: openduck_console_81=abc\r\n", ""},
        {"Host: h:80\r\nCookie: xopenduck_console_80=abc\r\n", ""},
        {"Host: h:80\r\nCookie: openduck_console_80=\r\n", ""},
        {"Host: h:80\r\nCookie: openduck_console_80\r\n", ""},
        {"Host: h:80\r\nCookie: ;;; ;\r\n", ""},
        {"Host: h:80\r\n", ""},
        {"Host: h:123456789012345678901234567890\r\nCookie: openduck_console_=abc\r\n", "abc"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_http_head head = head_of(cases[i].fields);
        od_slice got = guard_cookie(&head);

        if (!od_slice_equal(got, od_slice_str(cases[i].value)))
            fail_msg("case %zu gives '%.*s'", i, (int)got.len, (const char *)got.data);
    }
}

static void test_whoever_has_a_credential_is_a_bearer(void **state)
{
    static const struct {
        const char *fields, *token;
        bool given;
    } cases[] = {
        {"Host: h\r\nAuthorization: Bearer abc\r\n", "abc", true},
        {"Host: h\r\nAuthorization: bEARER a b\r\n", "a b", true},
        {"Host: h\r\nAuthorization: Basic abc\r\n", "", true},
        {"Host: h\r\nAuthorization: Bearer\r\n", "", true},
        {"Host: h\r\nAuthorization:\r\n", "", false},
        {"Host: h\r\n", "", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_http_head head = head_of(cases[i].fields);
        od_slice got;

        assert_int_equal(guard_authorization(&head, &got), cases[i].given);
        assert_true(od_slice_equal(got, od_slice_str(cases[i].token)));
    }
}

static void test_only_a_page_of_this_host_and_port_is_ours(void **state)
{
    static const struct {
        const char *fields;
        bool ours;
    } cases[] = {
        {"Host: h:80\r\nOrigin: http://h:80\r\n", true}, {"Host: h:80\r\nOrigin: https://h:80\r\n", true},
        {"Host: h\r\nOrigin: http://H\r\n", true},       {"Host: h:80\r\nOrigin: http://h:81\r\n", false},
        {"Host: h:80\r\nOrigin: http://h\r\n", false},   {"Host: h\r\nOrigin: http://h.evil\r\n", false},
        {"Host: h\r\nOrigin: http://evil-h\r\n", false}, {"Host: h\r\nOrigin: null\r\n", false},
        {"Host: h\r\nOrigin: ftp://h\r\n", false},       {"Host: h\r\n", false},
        {"Host:\r\nOrigin: http://\r\n", false},         {"Host: null\r\nOrigin: null\r\n", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_http_head head = head_of(cases[i].fields);

        if (guard_same_origin(&head) != cases[i].ours)
            fail_msg("case %zu: %s", i, cases[i].fields);
    }
}

static void test_values_of_a_form(void **state)
{
    static const struct {
        const char *body, *value; /* NULL: there is none */
    } cases[] = {
        {"token=abc", "abc"},
        {"a=b&token=abc&c=d", "abc"},
        {"token=a+b%26%3d%C3%bc", "a b&=\xc3\xbc"},
        {"token=", ""},
        {"token=a&token=b", "a"},
        {"xtoken=a", NULL},
        {"token", NULL},
        {"", NULL},
        {"&&&", NULL},
        {"token=%", NULL},
        {"token=%4", NULL},
        {"token=%g0", NULL},
        {"token=a%00b", NULL},
        {"token=12345678", NULL}, /* no room */
        {"token=1234567", "1234567"},
    };
    char out[8];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool found = form_value(od_slice_str(cases[i].body), "token", out, sizeof out);

        if (found != (cases[i].value != NULL) || (found && strcmp(out, cases[i].value) != 0))
            fail_msg("case %zu: %s", i, cases[i].body);
    }
    assert_false(form_value(od_slice_of("token=a\0b", 9), "token", out, sizeof out));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_cookie_is_the_one_of_this_port),
                                       cmocka_unit_test(test_whoever_has_a_credential_is_a_bearer),
                                       cmocka_unit_test(test_only_a_page_of_this_host_and_port_is_ours),
                                       cmocka_unit_test(test_values_of_a_form)};

    return check_run("guard", tests, argc, argv);
}
