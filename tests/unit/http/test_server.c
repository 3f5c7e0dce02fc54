#include "http/server.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/deadline.h"
#include "unit/base/check.h"
#include "unit/http/dial.h"

static void say(void *arg, const od_http_request *request, od_http_response *response)
{
    response->content_type = "text/x-test";
    assert_int_equal(
        od_buf_printf(&response->body, NULL, "%s:%.*s", (const char *)arg, (int)request->body.len, request->body.data),
        OD_OK);
}

static void more(void *arg, const od_http_request *request, od_http_response *response)
{
    (void)arg;
    (void)request;
    response->status = 202;
    assert_int_equal(od_buf_printf(&response->headers, NULL, "X-One: 1\r\nX-Two: 2\r\n"), OD_OK);
}

static void flood(void *arg, const od_http_request *request, od_http_response *response)
{
    static char bytes[1 << 20];

    (void)arg;
    (void)request;
    for (int i = 0; i < 16; i++)
        assert_int_equal(od_buf_append(&response->body, bytes, sizeof bytes, NULL), OD_OK);
}

static const od_http_route routes[] = {{"/get", OD_HTTP_GET, false, say, "g"},
                                       {"/post", OD_HTTP_POST, false, say, "p"},
                                       {"/open", OD_HTTP_GET | OD_HTTP_POST, true, say, "o"},
                                       {"/more", OD_HTTP_GET, false, more, NULL},
                                       {"/flood", OD_HTTP_GET, false, flood, NULL}};

static od_http_server *start(const od_secret *token, int64_t request_ms, int64_t idle_ms)
{
    const od_http_server_options options = {.listen = "127.0.0.1:0",
                                            .token = token,
                                            .routes = routes,
                                            .route_count = COUNT(routes),
                                            .max_body = 1000,
                                            .request_timeout_ms = request_ms,
                                            .idle_timeout_ms = idle_ms};
    od_http_server *server;

    assert_int_equal(od_http_server_start(&options, &server, NULL), OD_OK);
    return server;
}

static int dial(const od_http_server *server)
{
    return dial_port(od_http_server_port(server));
}

static void send_text(int fd, const char *text)
{
    dial_send(fd, text, strlen(text));
}

/* Reads until TEXT has come (false: the connection ended, or nothing comes). */
static bool read_until(int fd, char *got, size_t size, const char *text)
{
    size_t len = strlen(got);

    while (!strstr(got, text)) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        ssize_t n = poll(&item, 1, 20000) > 0 ? recv(fd, got + len, size - 1 - len, 0) : 0;

        if (n <= 0)
            return false;
        len += (size_t)n;
        got[len] = '\0';
    }
    return true;
}

static bool ends(int fd)
{
    char got[65536] = "";

    return !read_until(fd, got, sizeof got, "\x01never");
}

/* One request on a connection of its own; its answer's status. */
static int ask(const od_http_server *server, const char *request, char *got, size_t size)
{
    int fd = dial(server);

    got[0] = '\0';
    send_text(fd, request);
    assert_true(read_until(fd, got, size, "\r\n\r\n"));
    close(fd);
    return (got[9] - '0') * 100 + (got[10] - '0') * 10 + got[11] - '0';
}

static void test_routes_and_methods(void **state)
{
    static const struct {
        const char *request;
        int status;
        const char *text;
    } cases[] = {
        {"GET /get HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "Content-Type: text/x-test\r\nContent-Length: 2\r\n"},
        {"GET /get?x HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n", 200, ""},
        {"HEAD /get HTTP/1.1\r\nHost: [::1]\r\n\r\n", 200, "Content-Length: 2\r\n"},
        {"GET /get/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, ""},
        {"GET /../get HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, ""},
        {"POST /get HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "Allow: GET, HEAD\r\n"},
        {"DELETE /open HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "Allow: GET, HEAD, POST\r\n"},
        {"GET /get HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, ""},
        {"GET /get HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", 421, ""},
        {"GET /more HTTP/1.1\r\nHost: localhost\r\n\r\n", 202, "nosniff\r\nX-One: 1\r\nX-Two: 2\r\n\r\n"},
        {"garbage\r\n\r\n", 400, "Connection: close\r\n"},
    };
    od_http_server *server = start(NULL, 0, 0);
    char got[4096];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        int status = ask(server, cases[i].request, got, sizeof got);

        if (status != cases[i].status || !strstr(got, cases[i].text))
            fail_msg("case %zu gives %d: %s", i, status, got);
    }
    od_http_server_free(server);
}

static void test_requests_follow_each_other_on_one_connection(void **state)
{
    od_http_server *server = start(NULL, 0, 0);
    int fd = dial(server);
    char got[4096] = "";

    (void)state;
    /* Two at once, and a third in pieces. */
    send_text(fd, "POST /post HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabcGET /get HTTP/1.1\r\nHost: "
                  "localhost\r\n\r\nPOST /post HTTP/1.1\r\nHost: localhost\r\nContent-Le");
    assert_true(read_until(fd, got, sizeof got, "p:abc"));
    assert_true(read_until(fd, got, sizeof got, "g:"));
    send_text(fd, "ngth: 2\r\n\r\nx");
    send_text(fd, "y");
    assert_true(read_until(fd, got, sizeof got, "p:xy"));
    close(fd);
    od_http_server_free(server);
}

static void test_a_token_is_needed_where_there_is_one(void **state)
{
    od_secret token = {0};
    od_http_server *server;
    char got[4096];

    (void)state;
    assert_int_equal(od_secret_set(&token, od_slice_str("s3cret"), NULL), OD_OK);
    server = start(&token, 0, 0);
    assert_int_equal(ask(server, "GET /get HTTP/1.1\r\nHost: a.b\r\n\r\n", got, sizeof got), 401);
    assert_non_null(strstr(got, "WWW-Authenticate: Bearer"));
    assert_int_equal(
        ask(server, "GET /get HTTP/1.1\r\nHost: a.b\r\nAuthorization: Bearer s3cre\r\n\r\n", got, sizeof got), 401);
    assert_int_equal(
        ask(server, "GET /get HTTP/1.1\r\nHost: a.b\r\nAuthorization: Basic s3cret\r\n\r\n", got, sizeof got), 401);
    assert_int_equal(
        ask(server, "GET /get HTTP/1.1\r\nHost: a.b\r\nAuthorization: bearer s3cret\r\n\r\n", got, sizeof got), 200);
    assert_int_equal(ask(server, "GET /open HTTP/1.1\r\nHost: a.b\r\n\r\n", got, sizeof got), 200);
    od_http_server_free(server);
    od_secret_release(&token);
}

static void test_slow_and_silent_clients_are_dropped(void **state)
{
    od_http_server *server = start(NULL, 200, 200);
    int silent = dial(server), slow = dial(server);

    (void)state;
    send_text(slow, "GET /get HTTP/1.1\r\nHos");
    assert_true(ends(silent));
    assert_true(ends(slow));
    close(silent);
    close(slow);
    od_http_server_free(server);
}

static void test_a_client_that_takes_nothing_is_dropped(void **state)
{
    od_http_server *server = start(NULL, 200, 0);
    int fd = dial(server);
    int64_t start_ns = od_clock_ns();
    size_t total = 0;
    char got[65536];
    ssize_t n;

    (void)state;
    send_text(fd, "GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while (od_clock_ns() - start_ns < INT64_C(600000000))
        (void)poll(NULL, 0, 50);
    while ((n = recv(fd, got, sizeof got, 0)) > 0)
        total += (size_t)n;
    assert_true(total < (size_t)16 << 20);
    close(fd);
    od_http_server_free(server);
}

static void test_silent_clients_keep_nobody_out(void **state)
{
    od_http_server *server = start(NULL, 60000, 60000);
    int fds[200];
    char got[4096];

    (void)state;
    for (size_t i = 0; i < COUNT(fds); i++) {
        fds[i] = dial(server);
        send_text(fds[i], "GET /");
    }
    assert_int_equal(ask(server, "GET /get HTTP/1.1\r\nHost: localhost\r\n\r\n", got, sizeof got), 200);
    for (size_t i = 0; i < COUNT(fds); i++)
        close(fds[i]);
    od_http_server_free(server);
}

static void test_oversize_heads_get_an_answer(void **state)
{
    od_http_server *server = start(NULL, 0, 0);
    static char request[100000];
    char got[4096];
    int len = snprintf(request, sizeof request, "GET /get HTTP/1.1\r\nHost: localhost\r\nX: ");

    (void)state;
    memset(request + len, 'x', sizeof request - 1 - (size_t)len);
    assert_int_equal(ask(server, request, got, sizeof got), 431);
    od_http_server_free(server);
}

static void test_bad_addresses_are_refused(void **state)
{
    static const char *const bad[] = {"", "127.0.0.1", ":80", "127.0.0.1:", "127.0.0.1:http", "[]:80"};
    od_http_server *server;
    od_error err;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        od_http_server_options options = {.listen = bad[i]};

        assert_int_not_equal(od_http_server_start(&options, &server, &err), OD_OK);
        assert_null(server);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes_and_methods),
        cmocka_unit_test(test_requests_follow_each_other_on_one_connection),
        cmocka_unit_test(test_a_token_is_needed_where_there_is_one),
        cmocka_unit_test(test_slow_and_silent_clients_are_dropped),
        cmocka_unit_test(test_a_client_that_takes_nothing_is_dropped),
        cmocka_unit_test(test_silent_clients_keep_nobody_out),
        cmocka_unit_test(test_oversize_heads_get_an_answer),
        cmocka_unit_test(test_bad_addresses_are_refused),
    };

    return check_run("http.server", tests, argc, argv);
}
