/* http/client.h: one HTTP/1.1 POST. */
#ifndef OD_HTTP_CLIENT_H
#define OD_HTTP_CLIENT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/deadline.h"
#include "http/cover.h"

typedef struct {
    const char *host; /* a name or an address, IPv6 without brackets */
    uint16_t port;
    const char *path;
    od_slice head; /* further header lines, each with its CRLF */
    od_slice body;
    const od_http_cover *cover; /* borrowed; a client's; NULL: clear text */
    od_deadline deadline;
    /* Asked about every 50 ms while it blocks; true ends it with OD_E_CANCELLED. May be NULL. */
    bool (*stop)(void *arg);
    void *stop_arg;
} od_http_post;

/* On a connection of its own; the answer's body is not read. *status: the answer's, 200 to 599.
 *   OD_E_UNAVAILABLE  cannot connect, or the cover says no     OD_E_TIMEOUT, OD_E_CANCELLED     OD_E_CONNECTION_LOST, OD_E_PROTOCOL */
OD_MUST_CHECK od_code od_http_send_post(const od_http_post *post, int *status, od_error *err);

#endif
