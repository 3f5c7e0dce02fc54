/* The console's listener, spoken to by what is no browser. */
#include "query/console.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/base/check.h"
#include "unit/http/dial.h"

#define HOST "Host: localhost\r\n"
#define ORIGIN HOST "Origin: http://localhost\r\n"
#define END "Connection: close\r\n\r\n"

typedef struct {
    od_metrics *metrics;
    od_gateway *gateway;
    od_console *console;
} house;

static void house_start(house *h, const char *token)
{
    const od_secret secret = {(char *)(uintptr_t)token, token ? strlen(token) : 0};
    od_gateway_options gateway = {.token = &secret, .probe_ms = -1, .version = "1"};
    od_console_options console = {.listen = "127.0.0.1:0"};

    assert_int_equal(od_metrics_create(&h->metrics, NULL), OD_OK);
    gateway.metrics = h->metrics;
    assert_int_equal(od_gateway_create(&gateway, &h->gateway, NULL), OD_OK);
    console.gateway = h->gateway;
    console.metrics = h->metrics;
    assert_int_equal(od_console_start(&console, &h->console, NULL), OD_OK);
}

static void house_stop(house *h)
{
    od_console_free(h->console);
    od_gateway_free(h->gateway);
    od_metrics_free(h->metrics);
}

/* Sends all of REQUEST, and gives all of the answer. */
static const char *ask(const house *h, const char *request)
{
    static char got[64 << 10];
    int fd = dial_port(od_console_port(h->console));
    size_t len = 0;

    dial_send(fd, request, strlen(request));
    for (;;) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        ssize_t n = poll(&item, 1, 20000) > 0 ? recv(fd, got + len, sizeof got - 1 - len, 0) : 0;

        if (n <= 0)
            break;
        len += (size_t)n;
    }
    got[len] = '\0';
    close(fd);
    return got;
}

static void check(const house *h, const char *request, const char *answer)
{
    const char *got = ask(h, request);

    if (!strstr(got, answer))
        fail_msg("%s gives %.2000s", request, got);
}

/* Requests and what the answer has, of a console whose token is "sesame". */
static void check_all(const char *const (*cases)[2], size_t count)
{
    house h;

    house_start(&h, "sesame");
    for (size_t i = 0; i < count; i++)
        check(&h, cases[i][0], cases[i][1]);
    house_stop(&h);
}

static void test_bad_requests_are_refused(void **state)
{
    static const char *const cases[][2] = {
        {"GET / HTTP/1.1\r\n" END, "HTTP/1.1 400 "},
        {"GET / HTTP/1.1\r\nHost: evil.example\r\n" END, "HTTP/1.1 421 "},
        {"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n" END, "HTTP/1.1 421 "},
        {"GET /console.html HTTP/1.1\r\n" HOST END, "HTTP/1.1 404 "},
        {"GET /../etc/passwd HTTP/1.1\r\n" HOST END, "HTTP/1.1 404 "},
        {"GET /api/status/ HTTP/1.1\r\n" HOST END, "HTTP/1.1 404 "},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n" END, "HTTP/1.1 405 "},
        {"GET /login?token=sesame HTTP/1.1\r\n" ORIGIN END, "HTTP/1.1 405 "},
        {"GET /api/cancel?execution=x HTTP/1.1\r\n" ORIGIN END, "HTTP/1.1 405 "},
        {"OPTIONS /login HTTP/1.1\r\n" HOST "Origin: http://evil.example\r\n" END, "HTTP/1.1 405 "},
        {"POST /login HTTP/1.1\r\n" ORIGIN "Content-Length: 12353\r\n" END, "HTTP/1.1 413 "},
        {"POST /login HTTP/1.1\r\n" ORIGIN "Content-Length: 99999999999999999999\r\n" END, "HTTP/1.1 4"},
        {"POST /login HTTP/1.1\r\n" ORIGIN "Transfer-Encoding: chunked\r\n" END "0\r\n\r\n", "HTTP/1.1 501 "},
        {"POST /login HTTP/1.1\r\n" ORIGIN END, "HTTP/1.1 401 "},
        {"POST /login HTTP/1.1\r\n" ORIGIN "Content-Length: 15\r\n" END "token=sesame%00", "HTTP/1.1 401 "},
        {"POST /login HTTP/1.1\r\n" ORIGIN "Content-Length: 12\r\n" END "token=Sesame", "HTTP/1.1 401 "},
        {"POST /login HTTP/1.1\r\n" HOST "Content-Length: 12\r\n" END "token=sesame", "HTTP/1.1 403 "},
        {"POST /login HTTP/1.0\r\nOrigin: http://\r\nContent-Length: 12\r\n\r\ntoken=sesame", "HTTP/1.1 403 "},
        {"GET /api/status HTTP/1.1\r\n" HOST "Cookie: openduck_console_=\r\n" END, "HTTP/1.1 401 "},
        {"GET /api/status HTTP/1.1\r\n" HOST "Authorization: Bearer \r\n" END, "HTTP/1.1 401 "},
        {"GET /api/status HTTP/1.1\r\n" HOST "Authorization: Bearer sesame\xff\r\n" END, "HTTP/1.1 401 "},
        {"GET /api/status HTTP/1.1\r\n" HOST "Authorization: Basic sesame\r\n" END, "HTTP/1.1 401 "},
    };

    (void)state;
    check_all(cases, COUNT(cases));
}

static void test_good_ones_are_answered(void **state)
{
    static const char *const cases[][2] = {
        {"GET / HTTP/1.1\r\n" HOST END, "<title>OpenDuck console</title>"},
        {"HEAD / HTTP/1.1\r\nHost: [::1]:80\r\n" END, "Content-Security-Policy: default-src 'none'; script-src 'self'"},
        {"GET /api/status HTTP/1.1\r\n" HOST "Authorization: Bearer sesame\r\n" END, "\"role\":\"gateway\""},
        {"GET /api/failures HTTP/1.1\r\n" HOST "Authorization: Bearer sesame\r\n" END, "{\"failures\":[]}"},
        {"GET /api/series?since=-1 HTTP/1.1\r\n" HOST "Authorization: Bearer sesame\r\n" END, "\"step_ms\":2000"},
        {"GET /api/series?since=99999999999999999999999 HTTP/1.1\r\n" HOST "Authorization: Bearer sesame\r\n" END,
         "HTTP/1.1 200 "},
        {"POST /login HTTP/1.1\r\n" ORIGIN "Content-Length: 12\r\n" END "token=sesame",
         "\r\nSet-Cookie: openduck_console_="},
        {"GET /api/session HTTP/1.1\r\n" HOST END, "{\"signed_in\":false,\"token_needed\":true,\"csrf\":\"\"}"},
    };

    (void)state;
    check_all(cases, COUNT(cases));
}

static void test_without_a_token_a_session_is_needed_all_the_same(void **state)
{
    char request[600], cookie[100];
    const char *got;
    house h;

    (void)state;
    house_start(&h, NULL);
    check(&h, "GET /api/session HTTP/1.1\r\n" HOST END, "\"token_needed\":false");
    check(&h, "GET /api/status HTTP/1.1\r\n" HOST END, "HTTP/1.1 401 ");
    check(&h, "POST /api/cancel HTTP/1.1\r\n" ORIGIN "Content-Length: 11\r\n" END "execution=x", "HTTP/1.1 401 ");
    got = strstr(ask(&h, "POST /login HTTP/1.1\r\n" ORIGIN "Content-Length: 0\r\n" END), "openduck_console_=");
    assert_non_null(got);
    snprintf(cookie, sizeof cookie, "%.*s", (int)strcspn(got, ";"), got);
    snprintf(request, sizeof request, "GET /api/status HTTP/1.1\r\n" HOST "Cookie: %s\r\n" END, cookie);
    check(&h, request, "HTTP/1.1 200 ");
    snprintf(request, sizeof request,
             "POST /api/cancel HTTP/1.1\r\n" ORIGIN "Cookie: %s\r\nContent-Length: 11\r\n" END "execution=x", cookie);
    check(&h, request, "HTTP/1.1 403 ");
    house_stop(&h);
}

static void test_where_it_may_listen(void **state)
{
    static const char *const refused[] = {"0.0.0.0:0", "[::]:0", "nothing", "", "127.0.0.1", ":80"};
    od_console_options options = {0};
    od_console *console;
    house h;

    (void)state;
    house_start(&h, NULL);
    options.gateway = h.gateway;
    options.metrics = h.metrics;
    for (size_t i = 0; i < COUNT(refused); i++) {
        options.listen = refused[i];
        assert_int_equal(od_console_start(&options, &console, NULL), OD_E_INVALID);
        assert_null(console);
    }
    house_stop(&h);
    house_start(&h, "sesame");
    options.gateway = h.gateway;
    options.metrics = h.metrics;
    options.listen = "0.0.0.0:0";
    assert_int_equal(od_console_start(&options, &console, NULL), OD_OK);
    od_console_free(console);
    house_stop(&h);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bad_requests_are_refused),
                                       cmocka_unit_test(test_good_ones_are_answered),
                                       cmocka_unit_test(test_without_a_token_a_session_is_needed_all_the_same),
                                       cmocka_unit_test(test_where_it_may_listen)};

    return check_run("console", tests, argc, argv);
}
