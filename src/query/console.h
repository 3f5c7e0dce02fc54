/* query/console.h: a page for whoever runs a gateway: workers, running executions with a button to cancel them, rates and latencies,
 * what failed last.
 *
 * One HTTP listener of its own, on one thread. Nothing of the page comes from elsewhere, and nothing of it runs but its own script
 * (Content-Security-Policy). A browser signs in with a token of an administrator, and is given a session: a random name
 * in a cookie that scripts cannot read, which ends after 15 minutes without a request, after 12 hours, when the token is withdrawn, or
 * with the process. Programs send "Authorization: Bearer TOKEN" instead. If the gateway needs no token, whoever reaches the address may
 * sign in, which loopback alone allows. What changes something needs a request of the page itself: its Origin, and a value that
 * only the page can read. A Host that is no address and no name of this host's own is refused.
 *
 *   GET /api/session, /api/status, /api/series?since=N, /api/failures    POST /login, /logout, /api/cancel
 *
 * docs/console.md says what they answer. */
#ifndef OD_QUERY_CONSOLE_H
#define OD_QUERY_CONSOLE_H

#include "http/server.h"
#include "query/gateway.h"

typedef struct {
    const char *listen;  /* "HOST:PORT"; borrowed */
    od_gateway *gateway; /* borrowed, as METRICS is: until od_console_free. Its tokens are the console's */
    od_metrics *metrics;
    const od_http_cover *cover; /* borrowed; NULL: clear text */
} od_console_options;

typedef struct od_console od_console;

/* The errors of od_listen_check and od_http_server_start. */
OD_MUST_CHECK od_code od_console_start(const od_console_options *options, od_console **out, od_error *err);
uint16_t od_console_port(const od_console *console);
/* From here on neither gateway nor metrics are read. NULL allowed. */
void od_console_free(od_console *console);

#endif
