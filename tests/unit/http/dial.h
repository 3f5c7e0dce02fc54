/* A client of a server of this process, byte by byte. */
#ifndef OD_TESTS_UNIT_HTTP_DIAL_H
#define OD_TESTS_UNIT_HTTP_DIAL_H

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "unit/base/check.h"

/* The connected socket; the caller closes it. */
static inline int dial_port(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static inline void dial_send(int fd, const void *bytes, size_t len)
{
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

#endif
