#include "http/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/banned.h"

/* Splits "HOST:PORT" or "[V6]:PORT". */
static bool split(const char *address, char *host, size_t size, const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t len;

    if (!colon || colon == address || !colon[1])
        return false;
    *port = colon + 1;
    len = (size_t)(colon - address);
    if (address[0] == '[' && colon[-1] == ']') {
        address++;
        len -= 2;
    }
    if (len == 0 || len >= size)
        return false;
    memcpy(host, address, len);
    host[len] = '\0';
    return true;
}

/* 0 or errno. */
static int listen_on(const struct addrinfo *a, int *fd)
{
    int one = 1, errnum;

    *fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return errno;
    (void)setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(*fd, a->ai_addr, a->ai_addrlen) == 0 && listen(*fd, SOMAXCONN) == 0)
        return 0;
    errnum = errno;
    close(*fd);
    *fd = -1;
    return errnum;
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {0};
    socklen_t len = sizeof at;

    if (getsockname(fd, &at.any, &len) != 0)
        return 0;
    return ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

od_code od_http_listen(const char *address, int *fd, uint16_t *port, od_error *err)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *list = NULL;
    int errnum = EADDRNOTAVAIL, rc;
    const char *service;
    char host[256];

    *fd = -1;
    if (!split(address, host, sizeof host, &service))
        return od_fail(err, OD_E_INVALID, "'%s' is no address to listen on: HOST:PORT is", address);
    rc = getaddrinfo(host, service, &hints, &list);
    if (rc != 0)
        return od_fail(err, OD_E_UNAVAILABLE, "cannot listen on '%s': %s", address,
                       rc == EAI_SYSTEM ? strerrordesc_np(errno) : gai_strerror(rc));
    for (const struct addrinfo *a = list; a && *fd < 0; a = a->ai_next)
        errnum = listen_on(a, fd);
    freeaddrinfo(list);
    if (*fd < 0)
        return od_fail_errno(err, OD_E_UNAVAILABLE, errnum, "cannot listen on '%s'", address);
    *port = port_of(*fd);
    return OD_OK;
}
