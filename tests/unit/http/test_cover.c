/* A server whose connections go through something: here a cipher that is none, and that keeps bytes back as TLS does. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "http/server.h"
#include "unit/base/check.h"
#include "unit/http/dial.h"

enum { KEY = 0x5A, IN_STEP = 7, OUT_STEP = 50, ROOM = 200 };

typedef struct {
    int fd;
    uint8_t in[4096], out[ROOM];
    size_t in_at, in_len, out_len;
} cipher;

/* The server's thread writes the first two; they are read once it has ended. */
static struct {
    int opened, closed;
    atomic_bool refuse;
} seen;

static void *cipher_open(void *arg, int fd)
{
    cipher *c = od_calloc(1, sizeof *c);

    assert_string_equal(arg, "key");
    seen.opened++;
    if (seen.refuse || !c) {
        od_free(c);
        return NULL;
    }
    c->fd = fd;
    return c;
}

/* Takes all that the socket has, and gives a few bytes of it. */
static ssize_t cipher_read(void *conn, void *to, size_t len)
{
    cipher *c = conn;
    uint8_t *out = to;
    size_t n = 0;

    if (c->in_at == c->in_len) {
        ssize_t got = recv(c->fd, c->in, sizeof c->in, 0);

        if (got <= 0)
            return got;
        c->in_at = 0;
        c->in_len = (size_t)got;
    }
    for (; n < len && n < IN_STEP && c->in_at < c->in_len; n++)
        out[n] = c->in[c->in_at++] ^ KEY;
    return (ssize_t)n;
}

static int cipher_flush(void *conn)
{
    cipher *c = conn;
    size_t part = c->out_len < OUT_STEP ? c->out_len : OUT_STEP;
    ssize_t n = part > 0 ? send(c->fd, c->out, part, MSG_NOSIGNAL) : 0;

    if (n < 0)
        return errno;
    c->out_len -= (size_t)n;
    memmove(c->out, c->out + n, c->out_len);
    return c->out_len > 0 ? EAGAIN : 0;
}

static ssize_t cipher_write(void *conn, const void *from, size_t len)
{
    cipher *c = conn;
    const uint8_t *in = from;
    size_t n = 0;

    if (c->out_len == ROOM && cipher_flush(c) == EAGAIN && c->out_len == ROOM) {
        errno = EAGAIN;
        return -1;
    }
    for (; n < len && c->out_len < ROOM; n++)
        c->out[c->out_len++] = in[n] ^ KEY;
    return (ssize_t)n;
}

static bool cipher_unsent(void *conn)
{
    return ((cipher *)conn)->out_len > 0;
}

static void cipher_close(void *conn)
{
    seen.closed++;
    od_free(conn);
}

static char key[] = "key";
static const od_http_cover cover = {.arg = key,
                                    .open = cipher_open,
                                    .read = cipher_read,
                                    .write = cipher_write,
                                    .flush = cipher_flush,
                                    .unsent = cipher_unsent,
                                    .close = cipher_close};

static void say(void *arg, const od_http_request *request, od_http_response *response)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        assert_int_equal(od_buf_printf(&response->body, NULL, "[%.*s]", (int)request->body.len, request->body.data),
                         OD_OK);
}

static const od_http_route routes[] = {{"/say", OD_HTTP_GET | OD_HTTP_POST, true, say, NULL}};

static od_http_server *start(void)
{
    const od_http_server_options options = {
        .listen = "127.0.0.1:0", .routes = routes, .route_count = 1, .max_body = 1000, .cover = &cover};
    od_http_server *server;

    seen.opened = seen.closed = 0;
    assert_int_equal(od_http_server_start(&options, &server, NULL), OD_OK);
    return server;
}

static int dial(const od_http_server *server)
{
    return dial_port(od_http_server_port(server));
}

static void send_text(int fd, const char *text)
{
    for (size_t i = 0, len = strlen(text); i < len;) {
        uint8_t part[256];
        size_t n = 0;

        for (; n < sizeof part && i < len; n++)
            part[n] = (uint8_t)text[i++] ^ KEY;
        dial_send(fd, part, n);
    }
}

/* All until the end of the connection, as text. */
static void read_all(int fd, char *out, size_t size)
{
    size_t len = 0;

    for (;;) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        ssize_t n;

        assert_int_equal(poll(&item, 1, 20000), 1);
        n = recv(fd, out + len, size - 1 - len, 0);
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            out[len + (size_t)i] ^= KEY;
        len += (size_t)n;
    }
    out[len] = '\0';
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;

    for (; (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

static void test_requests_that_come_at_once_are_all_answered(void **state)
{
    od_http_server *server = start();
    static char got[16384];
    int fd = dial(server);

    (void)state;
    send_text(fd, "POST /say HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"
                  "GET /say HTTP/1.1\r\nHost: localhost\r\n\r\n"
                  "POST /say HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlast");
    read_all(fd, got, sizeof got);
    assert_int_equal(count(got, "HTTP/1.1 200 OK\r\n"), 3);
    assert_int_equal(count(got, "[abc]"), 100);
    assert_int_equal(count(got, "[]"), 100);
    assert_int_equal(count(got, "[last]"), 100);
    close(fd);
    od_http_server_free(server);
    assert_int_equal(seen.opened, 1);
    assert_int_equal(seen.closed, 1);
}

static void test_nothing_is_said_to_who_does_not_know_the_cipher(void **state)
{
    static const char plain[] = "GET /say HTTP/1.1\r\nHost: localhost\r\n\r\n";
    od_http_server *server = start();
    static char got[4096];
    int fd = dial(server);

    (void)state;
    dial_send(fd, plain, sizeof plain - 1);
    shutdown(fd, SHUT_WR);
    read_all(fd, got, sizeof got);
    assert_null(strstr(got, "200 OK"));
    close(fd);
    od_http_server_free(server);
    assert_int_equal(seen.closed, 1);
}

static void test_a_connection_that_cannot_be_covered_ends(void **state)
{
    od_http_server *server = start();
    static char got[64];
    int fd;

    (void)state;
    seen.refuse = true;
    fd = dial(server);
    read_all(fd, got, sizeof got);
    assert_string_equal(got, "");
    seen.refuse = false;
    close(fd);
    fd = dial(server);
    send_text(fd, "GET /say HTTP/1.0\r\n\r\n");
    read_all(fd, got, sizeof got);
    assert_memory_equal(got, "HTTP/1.1 200 OK", 15);
    close(fd);
    od_http_server_free(server);
    assert_int_equal(seen.opened, 2);
    assert_int_equal(seen.closed, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_requests_that_come_at_once_are_all_answered),
                                       cmocka_unit_test(test_nothing_is_said_to_who_does_not_know_the_cipher),
                                       cmocka_unit_test(test_a_connection_that_cannot_be_covered_ends)};

    return check_run("cover", tests, argc, argv);
}
