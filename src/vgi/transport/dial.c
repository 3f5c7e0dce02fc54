#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "vgi/transport/link_internal.h"

#include "base/banned.h"

od_code od_vgi_dial_unix(const char *path, od_vgi_link *link, od_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);

    if (len >= sizeof address.sun_path)
        return od_fail(err, OD_E_INVALID, "the socket's path has %zu bytes, at most %zu are allowed", len,
                       sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, len);
    link->in = link->out = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->in < 0 || connect(link->in, (const struct sockaddr *)&address, sizeof address) != 0)
        return od_fail_errno(err, OD_E_UNAVAILABLE, errno, "cannot connect to the worker at 'unix://%s'", path);
    snprintf(link->shown, sizeof link->shown, "the worker at 'unix://%.55s'", path);
    return OD_OK;
}

/* OD_E_UNAVAILABLE: another address may be tried. */
static od_code dial_address(const struct addrinfo *a, const od_vgi_wait *wait, od_vgi_link *link, od_error *err)
{
    int errnum = 0, one = 1;
    socklen_t len = sizeof errnum;

    link->in = link->out = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->in < 0)
        return od_fail_errno(err, OD_E_UNAVAILABLE, errno, "cannot connect to %s", link->shown);
    if (connect(link->in, a->ai_addr, a->ai_addrlen) != 0)
        errnum = errno;
    if (errnum == EINPROGRESS) {
        od_code rc = od_vgi_link_wait(link, link->in, POLLOUT, wait, err);

        if (rc != OD_OK)
            return rc;
        if (getsockopt(link->in, SOL_SOCKET, SO_ERROR, &errnum, &len) != 0)
            errnum = errno;
    }
    if (errnum != 0)
        return od_fail_errno(err, OD_E_UNAVAILABLE, errnum, "cannot connect to %s", link->shown);
    (void)setsockopt(link->in, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return OD_OK;
}

od_code od_vgi_dial_tcp(const char *host, uint16_t port, const od_vgi_wait *wait, od_vgi_link *link, od_error *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list;
    char text[8];
    od_code rc = OD_E_UNAVAILABLE;

    snprintf(link->shown, sizeof link->shown, "the worker at 'tcp://%.50s:%u'", host, (unsigned)port);
    snprintf(text, sizeof text, "%u", (unsigned)port);
    int failed = getaddrinfo(host, text, &hints, &list);
    if (failed != 0)
        return od_fail(err, OD_E_UNAVAILABLE, "cannot resolve '%s': %s", host, gai_strerror(failed));
    for (const struct addrinfo *a = list; a != NULL && rc == OD_E_UNAVAILABLE; a = a->ai_next) {
        if (link->in >= 0)
            close(link->in);
        rc = dial_address(a, wait, link, err);
    }
    freeaddrinfo(list);
    return rc;
}
