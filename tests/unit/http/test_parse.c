#include "http/parse.h"

#include <stdio.h>
#include <string.h>

#include "unit/base/check.h"

static int parse(const char *text, od_http_head *head)
{
    return od_http_parse(od_slice_str(text), 100, head);
}

static void test_a_request_is_read(void **state)
{
    od_http_head h;

    (void)state;
    assert_int_equal(parse("GET /a/b?x=1&y HTTP/1.1\r\nHost: h:1\r\nX-Y:\t v w \r\n\r\nrest", &h), 200);
    assert_true(od_slice_equal(h.method, od_slice_str("GET")));
    assert_true(od_slice_equal(h.path, od_slice_str("/a/b")));
    assert_true(od_slice_equal(h.query, od_slice_str("x=1&y")));
    assert_true(od_slice_equal(od_http_head_value(&h, "x-y"), od_slice_str("v w")));
    assert_int_equal(od_http_head_value(&h, "none").len, 0);
    assert_true(h.keep_alive);
    assert_int_equal(h.len, strlen("GET /a/b?x=1&y HTTP/1.1\r\nHost: h:1\r\nX-Y:\t v w \r\n\r\n"));
}

static void test_every_part_of_a_request_needs_more(void **state)
{
    static const char text[] = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n";
    od_http_head h;

    (void)state;
    for (size_t len = 0; len < sizeof text - 1; len++)
        assert_int_equal(od_http_parse(od_slice_of(text, len), 100, &h), 0);
    assert_int_equal(od_http_parse(od_slice_of(text, sizeof text - 1), 100, &h), 200);
    assert_int_equal(h.content_length, 3);
}

static void test_connection_is_kept_as_asked(void **state)
{
    od_http_head h;

    (void)state;
    assert_int_equal(parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", &h), 200);
    assert_false(h.keep_alive);
    assert_int_equal(parse("GET / HTTP/1.0\r\n\r\n", &h), 200);
    assert_false(h.keep_alive);
}

static void test_what_is_wrong_is_refused(void **state)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"\r\n", 400},
        {"GET\r\n", 400},
        {"GET /\r\n", 400},
        {"GET  / HTTP/1.1\r\n", 400},
        {"GET / HTTP/1.1 \r\n", 400},
        {"GET / HTTP/1.1\n", 400},
        {"GET / HTTP/1.1\rx", 400},
        {"GET x HTTP/1.1\r\n", 400},
        {"GET http://h/ HTTP/1.1\r\n", 400},
        {"GET /# HTTP/1.1\r\n", 400},
        {"GET /\x01 HTTP/1.1\r\n", 400},
        {"GET /\xc3\xa9 HTTP/1.1\r\n", 400},
        {"G\xffT / HTTP/1.1\r\n", 400},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\n", 505},
        {"GET / HTTP/1.2\r\n", 505},
        {"GET / http/1.1\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400}, /* no host */
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n folded: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n", 413},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", 417},
    };
    od_http_head h;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (parse(cases[i].text, &h) != cases[i].status)
            fail_msg("case %zu gives %d, not %d: %s", i, parse(cases[i].text, &h), cases[i].status, cases[i].text);
    }
}

static void test_a_nul_is_no_part_of_a_header(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n";
    od_http_head h;

    (void)state;
    assert_int_equal(od_http_parse(od_slice_of(text, sizeof text - 1), 0, &h), 400);
}

static void test_heads_are_bounded(void **state)
{
    char text[OD_HTTP_HEAD_MAX + 100];
    size_t len = (size_t)snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n");
    od_http_head h;

    (void)state;
    memset(text + len, 'x', sizeof text - len);
    assert_int_equal(od_http_parse(od_slice_of(text, sizeof text), 0, &h), 431);
    memset(text, 'G', sizeof text);
    assert_int_equal(od_http_parse(od_slice_of(text, sizeof text), 0, &h), 414);
    len = (size_t)snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < OD_HTTP_HEADERS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "a: b\r\n");
    assert_int_equal(od_http_parse(od_slice_of(text, len), 0, &h), 431);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_is_read),
        cmocka_unit_test(test_every_part_of_a_request_needs_more),
        cmocka_unit_test(test_connection_is_kept_as_asked),
        cmocka_unit_test(test_what_is_wrong_is_refused),
        cmocka_unit_test(test_a_nul_is_no_part_of_a_header),
        cmocka_unit_test(test_heads_are_bounded),
    };

    return check_run("http.parse", tests, argc, argv);
}
