#include "http/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/thread.h"
#include "http/answer.h"
#include "http/listen.h"
#include "base/banned.h"

enum { CONNECTIONS = 64, READ_SIZE = 16 << 10, DEFAULT_REQUEST_MS = 10000, DEFAULT_IDLE_MS = 30000, LINGER_MS = 1000 };

typedef enum {
    CONN_FREE,
    CONN_IDLE,    /* nothing of the next request has come */
    CONN_READING, /* a part of it has */
    CONN_WRITING,
    CONN_CLOSING /* all is sent; what still comes is dropped, so that the peer can read the end */
} conn_state;

typedef struct {
    conn_state state;
    int fd;
    void *cover; /* of the server's od_http_cover; NULL: clear text */
    bool more;   /* of the cover's bytes some may be here that the socket tells nothing of */
    od_buf in, out;
    size_t out_at;
    bool keep; /* after what is being written */
    od_deadline until;
    int64_t since_ns; /* in which it waits for a whole request */
} conn;

struct od_http_server {
    od_http_server_options options;
    int listener, wake;
    uint16_t port;
    pthread_t thread;
    bool started;
    conn conns[CONNECTIONS];
    uint8_t input[READ_SIZE];
};

static void uncover(const od_http_server *server, conn *c)
{
    if (c->cover)
        server->options.cover->close(c->cover);
    c->cover = NULL;
    c->more = false;
}

static void drop(const od_http_server *server, conn *c)
{
    uncover(server, c);
    close(c->fd);
    od_buf_release(&c->in);
    od_buf_release(&c->out);
    *c = (conn){.state = CONN_FREE, .fd = -1};
}

static void wait_for_request(const od_http_server *server, conn *c)
{
    c->state = c->in.len > 0 ? CONN_READING : CONN_IDLE;
    c->since_ns = od_clock_ns();
    c->until =
        od_deadline_in_ms(c->state == CONN_IDLE ? server->options.idle_timeout_ms : server->options.request_timeout_ms);
}

/* ---- writing ---- */

static void start_closing(const od_http_server *server, conn *c)
{
    uncover(server, c);
    od_buf_release(&c->in);
    od_buf_release(&c->out);
    (void)shutdown(c->fd, SHUT_WR);
    c->state = CONN_CLOSING;
    c->until = od_deadline_in_ms(LINGER_MS);
}

static ssize_t write_some(const od_http_server *server, conn *c)
{
    const uint8_t *from = c->out.data + c->out_at;
    size_t len = c->out.len - c->out_at;

    return c->cover ? server->options.cover->write(c->cover, from, len) : send(c->fd, from, len, MSG_NOSIGNAL);
}

/* Sends what is left. False: the connection is dropped, or not done. */
static bool write_out(const od_http_server *server, conn *c)
{
    int errnum;

    while (c->out_at < c->out.len) {
        ssize_t n = write_some(server, c);

        if (n > 0) {
            c->out_at += (size_t)n;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else {
            if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
                drop(server, c);
            return false;
        }
    }
    errnum = c->cover ? server->options.cover->flush(c->cover) : 0;
    if (errnum != 0) {
        if (errnum != EAGAIN)
            drop(server, c);
        return false;
    }
    c->out.len = c->out_at = 0;
    return true;
}

/* ---- requests ---- */

/* Answers the request at the start of what has come. False: it is not whole yet. */
static bool answer_one(const od_http_server *server, conn *c)
{
    od_slice bytes = od_slice_of(c->in.data, c->in.len);
    od_http_head head;
    int status = od_http_parse(bytes, server->options.max_body, &head);
    od_error err;
    od_code rc;

    if (status == 0 || (status == 200 && bytes.len - head.len < head.content_length))
        return false;
    c->keep = status == 200 && head.keep_alive;
    if (status != 200) {
        rc = od_http_refuse(status, &c->out, &err);
        c->in.len = 0;
    } else {
        size_t used = head.len + head.content_length;

        rc = od_http_answer(&server->options, &head, od_slice_of(bytes.data + head.len, head.content_length), c->keep,
                            &c->out, &err);
        c->in.len -= used;
        memmove(c->in.data, c->in.data + used, c->in.len);
    }
    if (rc != OD_OK) { /* memory is out */
        c->out.len = 0;
        c->keep = false;
    }
    c->state = CONN_WRITING;
    c->until = od_deadline_in_ms(server->options.request_timeout_ms);
    return true;
}

/* Answers and sends, as far as the peer lets it. */
static void go_on(const od_http_server *server, conn *c)
{
    while (c->state != CONN_FREE) {
        if (c->state == CONN_WRITING) {
            if (!write_out(server, c))
                return;
            if (!c->keep) {
                start_closing(server, c);
                return;
            }
            wait_for_request(server, c);
        }
        if (c->in.len == 0 || !answer_one(server, c))
            return;
    }
}

static ssize_t read_some(od_http_server *server, conn *c)
{
    ssize_t n = c->cover ? server->options.cover->read(c->cover, server->input, sizeof server->input)
                         : recv(c->fd, server->input, sizeof server->input, 0);

    c->more = c->cover && n > 0;
    return n;
}

static void read_in(od_http_server *server, conn *c)
{
    ssize_t n = read_some(server, c);
    od_error err;

    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n <= 0) {
        drop(server, c);
        return;
    }
    if (c->state == CONN_CLOSING)
        return;
    /* Never more than a request may be and one read: nothing is read while a response waits to be taken. */
    if (od_buf_append(&c->in, server->input, (size_t)n, &err) != OD_OK) {
        drop(server, c);
        return;
    }
    if (c->state == CONN_IDLE)
        wait_for_request(server, c);
    go_on(server, c);
}

/* ---- connections ---- */

/* A place for a new connection, if need be that of the one that has waited longest. NULL: all are being answered. */
static conn *find_place(od_http_server *server)
{
    conn *oldest = NULL;

    for (size_t i = 0; i < CONNECTIONS; i++) {
        conn *c = &server->conns[i];

        if (c->state == CONN_FREE)
            return c;
        if (c->state != CONN_WRITING && (!oldest || c->since_ns < oldest->since_ns))
            oldest = c;
    }
    if (oldest)
        drop(server, oldest);
    return oldest;
}

static void accept_some(od_http_server *server)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        conn *c;

        if (fd < 0)
            return;
        c = find_place(server);
        if (!c) {
            close(fd);
            continue;
        }
        *c = (conn){.fd = fd};
        wait_for_request(server, c);
        if (server->options.cover) {
            c->cover = server->options.cover->open(server->options.cover->arg, fd);
            if (!c->cover)
                drop(server, c);
        }
    }
}

static short awaited(const od_http_server *server, const conn *c)
{
    if (c->state == CONN_WRITING)
        return POLLOUT;
    return c->cover && server->options.cover->unsent(c->cover) ? POLLIN | POLLOUT : POLLIN;
}

/* Fills ITEMS with what is waited for; *timeout: until when, at most. */
static nfds_t plan(od_http_server *server, struct pollfd *items, conn **of, int *timeout)
{
    od_deadline until = OD_DEADLINE_NEVER;
    bool at_once = false;
    nfds_t count = 2;

    items[0] = (struct pollfd){.fd = server->wake, .events = POLLIN};
    items[1] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    for (size_t i = 0; i < CONNECTIONS; i++) {
        conn *c = &server->conns[i];

        if (c->state == CONN_FREE)
            continue;
        items[count] = (struct pollfd){.fd = c->fd, .events = awaited(server, c)};
        of[count++] = c;
        until = od_deadline_min(until, c->until);
        at_once = at_once || (c->more && c->state != CONN_WRITING);
    }
    *timeout = at_once ? 0 : od_deadline_poll_ms(until);
    return count;
}

static void *serve(void *arg)
{
    od_http_server *server = arg;
    struct pollfd items[CONNECTIONS + 2];
    conn *of[CONNECTIONS + 2];
    int timeout;

    for (;;) {
        nfds_t count = plan(server, items, of, &timeout);

        if (poll(items, count, timeout) < 0 && errno != EINTR && errno != EAGAIN && errno != ENOMEM)
            return NULL;
        if (items[0].revents)
            return NULL;
        for (nfds_t i = 2; i < count; i++) {
            if (items[i].revents && of[i]->state == CONN_WRITING)
                go_on(server, of[i]);
            else if (items[i].revents || (of[i]->more && of[i]->state != CONN_WRITING))
                read_in(server, of[i]);
            if (of[i]->state != CONN_FREE && od_deadline_passed(of[i]->until))
                drop(server, of[i]);
        }
        if (items[1].revents)
            accept_some(server);
    }
}

/* ---- start, end ---- */

od_code od_http_server_start(const od_http_server_options *options, od_http_server **out, od_error *err)
{
    od_http_server *server = od_calloc(1, sizeof *server);
    od_code rc;
    int errnum;

    *out = NULL;
    if (!server)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a server");
    server->options = *options;
    if (server->options.request_timeout_ms <= 0)
        server->options.request_timeout_ms = DEFAULT_REQUEST_MS;
    if (server->options.idle_timeout_ms <= 0)
        server->options.idle_timeout_ms = DEFAULT_IDLE_MS;
    server->listener = -1;
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake < 0) {
        rc = od_fail_errno(err, OD_E_UNAVAILABLE, errno, "cannot start a server");
        goto out;
    }
    OD_TRY(od_http_listen(options->listen, &server->listener, &server->port, err));
    errnum = od_thread_create(&server->thread, serve, server);
    if (errnum != 0) {
        rc = od_fail_errno(err, OD_E_UNAVAILABLE, errnum, "cannot start a thread");
        goto out;
    }
    server->started = true;
    *out = server;
    server = NULL;

out:
    od_http_server_free(server);
    return rc;
}

uint16_t od_http_server_port(const od_http_server *server)
{
    return server->port;
}

void od_http_server_free(od_http_server *server)
{
    const uint64_t one = 1;

    if (!server)
        return;
    if (server->started) {
        ssize_t n = write(server->wake, &one, sizeof one);

        (void)n; /* cannot be full */
        pthread_join(server->thread, NULL);
    }
    for (size_t i = 0; i < CONNECTIONS; i++) {
        if (server->conns[i].state != CONN_FREE)
            drop(server, &server->conns[i]);
    }
    if (server->listener >= 0)
        close(server->listener);
    if (server->wake >= 0)
        close(server->wake);
    od_free(server);
}
