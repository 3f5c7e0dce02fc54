/* http/listen.h: a listening TCP socket. */
#ifndef OD_HTTP_LISTEN_H
#define OD_HTTP_LISTEN_H

#include <stdint.h>

#include "base/error.h"

/* Non-blocking, close-on-exec. The errors of od_http_server_start. */
OD_MUST_CHECK od_code od_http_listen(const char *address, int *fd, uint16_t *port, od_error *err);

#endif
