/* http/server.h: a small HTTP/1.1 server for pages about a process: metrics, status.
 *
 * One thread serves all connections; a handler runs on it and must not block. Everything is bounded: 64 connections, 8 KiB for a
 * request's head, max_body for its body, 10 seconds for a request to come whole and for a response to be taken, 30 seconds
 * between two requests of a connection. When all connections are in use, a new one takes the place of the one that has waited
 * longest without a whole request, so that silent clients keep nobody out.
 *
 * With a token, every route but open ones needs "Authorization: Bearer TOKEN", compared in constant time. Without one, requests
 * need a Host that is an address, "localhost" or what is listened on: a page of another site that had its name point to this host cannot
 * read here. A server whose handlers check a credential of their own leaves the token out, and has that guard all the same. */
#ifndef OD_HTTP_SERVER_H
#define OD_HTTP_SERVER_H

#include <sys/types.h>

#include "base/secret.h"
#include "http/cover.h"
#include "http/parse.h"

enum { OD_HTTP_GET = 1 << 0, OD_HTTP_POST = 1 << 1 }; /* HEAD goes wherever GET does */

typedef struct {
    const od_http_head *head;
    unsigned method; /* OD_HTTP_GET, OD_HTTP_POST */
    od_slice body;
} od_http_request;

/* What a handler fills; 200 and no body at first. */
typedef struct {
    int status;
    const char *content_type; /* constant; NULL: text/plain */
    od_buf headers;           /* further lines, each with its CRLF; the server releases it */
    od_buf body;              /* the server releases it */
} od_http_response;

typedef struct {
    const char *path; /* "/metrics", exactly */
    unsigned methods;
    bool open; /* needs no token */
    void (*handle)(void *arg, const od_http_request *request, od_http_response *response);
    void *arg;
} od_http_route;

typedef struct {
    const char *listen;          /* "HOST:PORT", "[::1]:PORT"; port 0 picks a free one */
    const od_secret *token;      /* borrowed; NULL or empty: none is needed */
    const od_http_route *routes; /* borrowed */
    size_t route_count;
    const od_http_cover *cover; /* borrowed; NULL: clear text */
    size_t max_body;            /* of a request; 0: it may have none */
    int64_t request_timeout_ms; /* 0: 10,000 */
    int64_t idle_timeout_ms;    /* 0: 30,000 */
} od_http_server_options;

typedef struct od_http_server od_http_server;

/* Binds, listens, starts the thread. OD_E_INVALID: no address; OD_E_UNAVAILABLE: "cannot listen on 'HOST:PORT': ...". */
OD_MUST_CHECK od_code od_http_server_start(const od_http_server_options *options, od_http_server **out, od_error *err);
uint16_t od_http_server_port(const od_http_server *server);
/* Closes all connections and joins the thread: no handler runs afterwards. NULL allowed. */
void od_http_server_free(od_http_server *server);

#endif
