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

static od_code lost(const od_http_post *post, od_error *err)
{
    return od_fail(err, OD_E_CONNECTION_LOST, "lost the connection to '%s:%u'", post->host, (unsigned)post->port);
}

static od_code send_all(const od_http_post *post, int fd, od_slice bytes, od_error *err)
{
    while (bytes.len > 0) {
        ssize_t n = send(fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        od_code rc;

        if (n > 0) {
            bytes = od_slice_of(bytes.data + n, bytes.len - (size_t)n);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            rc = wait_for(post, fd, POLLOUT, err);
            if (rc != OD_OK)
                return rc;
        } else if (errno != EINTR) {
            return lost(post, err);
        }
    }
    return OD_OK;
}

static od_code read_status(const od_http_post *post, int fd, int *status, od_error *err)
{
    char line[STATUS_LINE + 1] = "";
    size_t len = 0;

    while (len < STATUS_LINE) {
        ssize_t n = recv(fd, line + len, STATUS_LINE - len, 0);
        od_code rc;

        if (n > 0) {
            len += (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            rc = wait_for(post, fd, POLLIN, err);
            if (rc != OD_OK)
                return rc;
        } else if (n == 0 || errno != EINTR) {
            return lost(post, err);
        }
    }
    for (int i = 9; i < STATUS_LINE; i++) {
        if (memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' || line[i] < '0' || line[i] > '9')
            return od_fail(err, OD_E_PROTOCOL, "'%s:%u' does not speak HTTP/1.1", post->host, (unsigned)post->port);
        *status = *status * 10 + (line[i] - '0');
    }
    return OD_OK;
}

od_code od_http_send_post(const od_http_post *post, int *status, od_error *err)
{
    bool six = strchr(post->host, ':') != NULL;
    od_buf head = {0};
    od_code rc;
    int fd = -1;

    *status = 0;
    OD_TRY(od_buf_printf(&head, err,
                         "POST %s HTTP/1.1\r\nHost: %s%s%s:%u\r\nContent-Length: %zu\r\nConnection: close\r\n",
                         post->path, six ? "[" : "", post->host, six ? "]" : "", (unsigned)post->port, post->body.len));
    OD_TRY(od_buf_append(&head, post->head.data, post->head.len, err));
    OD_TRY(od_buf_append(&head, "\r\n", 2, err));
    OD_TRY(dial(post, &fd, err));
    OD_TRY(send_all(post, fd, od_slice_of(head.data, head.len), err));
    OD_TRY(send_all(post, fd, post->body, err));
    OD_TRY(read_status(post, fd, status, err));

out:
    if (fd >= 0)
        close(fd);
    od_buf_release(&head);
    return rc;
}
