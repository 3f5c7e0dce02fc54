#include "query/rpc/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h> /* its tcp_info has tcpi_bytes_acked; <netinet/tcp.h> and it exclude each other */
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/banned.h"

enum { INTERRUPT_MS = 50, KEEPALIVE_IDLE_S = 60, KEEPALIVE_INTERVAL_S = 15, KEEPALIVE_PROBES = 4 };

od_code od_socket_resolve(const od_endpoint *endpoint, bool numeric_only, struct addrinfo **out, od_error *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];
    int rc;

    *out = NULL;
    if (numeric_only)
        hints.ai_flags |= AI_NUMERICHOST;
    snprintf(port, sizeof port, "%u", endpoint->port);
    rc = getaddrinfo(endpoint->host, port, &hints, out);
    if (rc == 0)
        return OD_OK;
    *out = NULL;
    if (numeric_only)
        return od_fail(err, OD_E_INVALID, "'%s' is not an address", endpoint->host);
    if (rc == EAI_SYSTEM)
        return od_fail_errno(err, OD_E_UNAVAILABLE, errno, "cannot resolve '%s'", endpoint->authority);
    return od_fail(err, OD_E_UNAVAILABLE, "cannot resolve '%s': %s", endpoint->authority, gai_strerror(rc));
}

int od_socket_connect_start(const struct addrinfo *address, int *fd)
{
    int errnum;

    *fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return errno;
    if (connect(*fd, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS || errno == EINTR)
        return 0;
    errnum = errno;
    close(*fd);
    *fd = -1;
    return errnum;
}

int od_socket_connect_result(int fd)
{
    int errnum = 0;
    socklen_t len = sizeof errnum;

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &len) == 0 ? errnum : errno;
}

od_code od_socket_connect_failed(const od_endpoint *endpoint, int errnum, od_error *err)
{
    if (errnum == ETIMEDOUT)
        return od_fail(err, OD_E_UNAVAILABLE, "cannot connect to '%s': timed out", endpoint->authority);
    return od_fail_errno(err, OD_E_UNAVAILABLE, errnum, "cannot connect to '%s'", endpoint->authority);
}

int od_socket_wait(int fd, short events, od_deadline deadline, od_interrupt interrupt)
{
    for (;;) {
        struct pollfd item = {.fd = fd, .events = events};
        int wait = od_deadline_poll_ms(deadline), rc;

        if (interrupt.check && (wait < 0 || wait > INTERRUPT_MS))
            wait = INTERRUPT_MS;
        rc = poll(&item, 1, wait);
        if (rc > 0)
            return 0;
        if (rc < 0 && errno != EINTR)
            return errno;
        if (interrupt.check && interrupt.check(interrupt.arg))
            return ECANCELED;
        if (od_deadline_passed(deadline))
            return ETIMEDOUT;
    }
}

/* The time for one address: half of what is left if there are more. */
static od_deadline share(od_deadline deadline, bool more)
{
    int64_t now = od_clock_ns();

    if (!more || deadline.at_ns == OD_DEADLINE_NEVER.at_ns || deadline.at_ns <= now)
        return deadline;
    return (od_deadline){now + (deadline.at_ns - now) / 2};
}

od_code od_socket_connect(const od_endpoint *endpoint, od_deadline deadline, od_interrupt interrupt, int *fd,
                          od_error *err)
{
    struct addrinfo *list;
    int errnum = EADDRNOTAVAIL;
    od_code rc;

    *fd = -1;
    rc = od_socket_resolve(endpoint, true, &list, NULL);
    if (rc != OD_OK)
        rc = od_socket_resolve(endpoint, false, &list, err);
    if (rc != OD_OK)
        return rc;
    for (struct addrinfo *a = list; a; a = a->ai_next) {
        errnum = od_socket_connect_start(a, fd);
        if (errnum == 0)
            errnum = od_socket_wait(*fd, POLLOUT, share(deadline, a->ai_next != NULL), interrupt);
        if (errnum == 0)
            errnum = od_socket_connect_result(*fd);
        if (errnum == 0 || errnum == ECANCELED)
            break;
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
    }
    freeaddrinfo(list);
    if (errnum == 0)
        return OD_OK;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    if (errnum == ECANCELED)
        return od_fail(err, OD_E_CANCELLED, "connecting to '%s' was cancelled", endpoint->authority);
    return od_socket_connect_failed(endpoint, errnum, err);
}

static int listen_on(const struct addrinfo *address, int *fd)
{
    int one = 1, errnum;

    *fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return errno;
    (void)setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(*fd, address->ai_addr, address->ai_addrlen) == 0 && listen(*fd, SOMAXCONN) == 0)
        return 0;
    errnum = errno;
    close(*fd);
    *fd = -1;
    return errnum;
}

static uint16_t local_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {0};
    socklen_t len = sizeof address;

    if (getsockname(fd, &address.any, &len) != 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

od_code od_socket_listen(const od_endpoint *endpoint, int *fd, uint16_t *port, od_error *err)
{
    struct addrinfo *list;
    int errnum = EADDRNOTAVAIL;
    od_code rc;

    *fd = -1;
    rc = od_socket_resolve(endpoint, false, &list, err);
    if (rc != OD_OK) {
        od_error_prefix(err, "cannot listen");
        return rc;
    }
    /* IPv4 first: of a name with both kinds of address, 127.0.0.1 is the one that people type. */
    for (int pass = 0; pass < 2; pass++)
        for (struct addrinfo *a = list; a && *fd < 0; a = a->ai_next)
            if ((a->ai_family == AF_INET) == (pass == 0))
                errnum = listen_on(a, fd);
    freeaddrinfo(list);
    if (*fd < 0)
        return od_fail_errno(err, OD_E_UNAVAILABLE, errnum, "cannot listen on '%s'", endpoint->authority);
    *port = local_port(*fd);
    return OD_OK;
}

void od_socket_tune(int fd, int64_t user_timeout_ms)
{
    int one = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S, probes = KEEPALIVE_PROBES;
    unsigned user = user_timeout_ms > 0x7fffffff ? 0x7fffffff : (unsigned)user_timeout_ms;

    /* Each is an improvement only; a socket without it still works. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user, sizeof user);
}

void od_socket_peer_name(int fd, char *out, size_t size)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    char host[INET6_ADDRSTRLEN] = "", port[8] = "";

    if (getpeername(fd, (struct sockaddr *)&address, &len) != 0 ||
        getnameinfo((struct sockaddr *)&address, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        snprintf(out, size, "unknown");
    else
        snprintf(out, size, address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

ssize_t od_socket_write(int fd, const struct iovec *iov, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count};
    ssize_t n;

    do
        n = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

int64_t od_socket_acked(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
        len < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked)
        return -1;
    return (int64_t)info.tcpi_bytes_acked;
}
