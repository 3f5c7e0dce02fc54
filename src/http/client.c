#include "http/client.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/banned.h"

enum { STEP_MS = 50, STATUS_LINE = 12 }; /* "HTTP/1.1 200" */

typedef struct {
    const od_http_post *post;
    int fd;
    void *cover; /* NULL: clear text */
} conn;

/* Waits until FD is ready for EVENTS. */
static od_code wait_for(const od_http_post *post, int fd, short events, od_error *err)
{
    for (;;) {
        struct pollfd item = {.fd = fd, .events = events};
        int wait = od_deadline_poll_ms(post->deadline);

        if (wait < 0 || wait > STEP_MS)
            wait = STEP_MS;
        if (poll(&item, 1, wait) > 0)
            return OD_OK;
        if (post->stop && post->stop(post->stop_arg))
            return od_fail(err, OD_E_CANCELLED, "the request was given up");
        if (od_deadline_passed(post->deadline))
            return od_fail(err, OD_E_TIMEOUT, "timed out: no answer from '%s:%u'", post->host, (unsigned)post->port);
    }
}

static od_code connect_to(const od_http_post *post, const struct addrinfo *a, int *fd, od_error *err)
{
    int errnum = 0;
    socklen_t len = sizeof errnum;
    od_code rc;

    *fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return od_fail_errno(err, OD_E_UNAVAILABLE, errno, "cannot connect to '%s:%u'", post->host,
                             (unsigned)post->port);
    if (connect(*fd, a->ai_addr, a->ai_addrlen) == 0)
        return OD_OK;
    if (errno == EINPROGRESS) {
        rc = wait_for(post, *fd, POLLOUT, err);
        if (rc != OD_OK)
            return rc;
        if (getsockopt(*fd, SOL_SOCKET, SO_ERROR, &errnum, &len) != 0)
            errnum = errno;
    } else {
        errnum = errno;
    }
    if (errnum == 0)
        return OD_OK;
    return od_fail_errno(err, OD_E_UNAVAILABLE, errnum, "cannot connect to '%s:%u'", post->host, (unsigned)post->port);
}

/* To the first address that answers. */
static od_code dial(const od_http_post *post, int *fd, od_error *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list;
    char port[8];
    od_code rc = OD_E_UNAVAILABLE;
    int failed;

    *fd = -1;
    snprintf(port, sizeof port, "%u", (unsigned)post->port);
    failed = getaddrinfo(post->host, port, &hints, &list);
    if (failed != 0)
        return od_fail(err, OD_E_UNAVAILABLE, "cannot resolve '%s': %s", post->host, gai_strerror(failed));
    for (const struct addrinfo *a = list; a && rc == OD_E_UNAVAILABLE; a = a->ai_next) {
        if (*fd >= 0)
            close(*fd);
        rc = connect_to(post, a, fd, err);
    }
    freeaddrinfo(list);
    return rc;
}

static od_code lost(const conn *c, od_error *err)
{
    const od_http_post *post = c->post;

    if (c->cover)
        return od_fail(err, OD_E_UNAVAILABLE, "cannot connect to '%s:%u': %s", post->host, (unsigned)post->port,
                       post->cover->why(c->cover));
    return od_fail(err, OD_E_CONNECTION_LOST, "lost the connection to '%s:%u'", post->host, (unsigned)post->port);
}

/* What comes of ERRNUM: the socket is waited for, or it is over. */
static od_code go_on(const conn *c, int errnum, short events, od_error *err)
{
    if (errnum == EINTR)
        return OD_OK;
    if (errnum != EAGAIN && errnum != EWOULDBLOCK)
        return lost(c, err);
    if (c->cover && c->post->cover->unsent(c->cover))
        events |= POLLOUT;
    return wait_for(c->post, c->fd, events, err);
}

static od_code put_cover(conn *c, od_error *err)
{
    const od_http_cover *cover = c->post->cover;
    od_code rc = OD_OK;
    int errnum;

    if (!cover)
        return OD_OK;
    c->cover = cover->open(cover->arg, c->fd);
    if (!c->cover)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a connection");
    while (rc == OD_OK && (errnum = cover->shake(c->cover)) != 0)
        rc = go_on(c, errnum, POLLIN, err);
    return rc;
}

static od_code flush(const conn *c, od_error *err)
{
    od_code rc = OD_OK;
    int errnum;

    while (rc == OD_OK && c->cover && (errnum = c->post->cover->flush(c->cover)) != 0)
        rc = go_on(c, errnum, POLLOUT, err);
    return rc;
}

static od_code send_all(const conn *c, od_slice bytes, od_error *err)
{
    od_code rc = OD_OK;

    while (bytes.len > 0 && rc == OD_OK) {
        ssize_t n = c->cover ? c->post->cover->write(c->cover, bytes.data, bytes.len)
                             : send(c->fd, bytes.data, bytes.len, MSG_NOSIGNAL);

        if (n > 0)
            bytes = od_slice_of(bytes.data + n, bytes.len - (size_t)n);
        else
            rc = go_on(c, errno, POLLOUT, err);
    }
    return rc;
}

static od_code read_status(const conn *c, int *status, od_error *err)
{
    const od_http_post *post = c->post;
    char line[STATUS_LINE + 1] = "";
    od_code rc = OD_OK;
    size_t len = 0;

    while (len < STATUS_LINE && rc == OD_OK) {
        ssize_t n = c->cover ? post->cover->read(c->cover, line + len, STATUS_LINE - len)
                             : recv(c->fd, line + len, STATUS_LINE - len, 0);

        if (n > 0)
            len += (size_t)n;
        else
            rc = n == 0 ? lost(c, err) : go_on(c, errno, POLLIN, err);
    }
    for (int i = 9; i < STATUS_LINE && rc == OD_OK; i++) {
        if (memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' || line[i] < '0' || line[i] > '9')
            return od_fail(err, OD_E_PROTOCOL, "'%s:%u' does not speak HTTP/1.1", post->host, (unsigned)post->port);
        *status = *status * 10 + (line[i] - '0');
    }
    return rc;
}

od_code od_http_send_post(const od_http_post *post, int *status, od_error *err)
{
    bool six = strchr(post->host, ':') != NULL;
    conn c = {.post = post, .fd = -1};
    od_buf head = {0};
    od_code rc;

    *status = 0;
    OD_TRY(od_buf_printf(&head, err,
                         "POST %s HTTP/1.1\r\nHost: %s%s%s:%u\r\nContent-Length: %zu\r\nConnection: close\r\n",
                         post->path, six ? "[" : "", post->host, six ? "]" : "", (unsigned)post->port, post->body.len));
    OD_TRY(od_buf_append(&head, post->head.data, post->head.len, err));
    OD_TRY(od_buf_append(&head, "\r\n", 2, err));
    OD_TRY(dial(post, &c.fd, err));
    OD_TRY(put_cover(&c, err));
    OD_TRY(send_all(&c, od_slice_of(head.data, head.len), err));
    OD_TRY(send_all(&c, post->body, err));
    OD_TRY(flush(&c, err));
    OD_TRY(read_status(&c, status, err));

out:
    if (c.cover)
        post->cover->close(c.cover);
    if (c.fd >= 0)
        close(c.fd);
    od_buf_release(&head);
    return rc;
}
