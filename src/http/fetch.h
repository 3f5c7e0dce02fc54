/* http/fetch.h: requests of small answers to servers of others, by libcurl, which is loaded when it is first needed.
 *
 * A fetcher keeps its connections for the next request. Any number of threads may use one. */
#ifndef OD_HTTP_FETCH_H
#define OD_HTTP_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

typedef struct od_fetcher od_fetcher;

/* OD_E_NOT_IMPLEMENTED: this machine has no libcurl. */
OD_MUST_CHECK od_code od_fetcher_create(od_fetcher **out, od_error *err);
void od_fetcher_free(od_fetcher *fetcher); /* NULL allowed; no request is running */

#define OD_FETCH_HEADERS 6

typedef struct {
    const char *method;                    /* GET, HEAD, PUT, POST, DELETE */
    const char *url;                       /* http: or https:, encoded. No user in it */
    const char *headers[OD_FETCH_HEADERS]; /* "Name: value" */
    const char *range;                     /* "0-99"; NULL: none */
    od_slice body;                         /* of PUT and POST */
    const char *sign;                      /* as CURLOPT_AWS_SIGV4 takes it, or NULL */
    const char *credentials;               /* KEY:SECRET for it */
    int64_t timeout_ms;                    /* of all of it; the connection gets 5 s of it at most */
    size_t max_answer;                     /* bytes; more are an error. Counted after it was decoded */
    bool decode;                           /* an answer may come compressed, as libcurl can read it */
    bool (*stop)(void *arg);               /* asked often while it goes on; true ends it. May be NULL */
    void *stop_arg;
} od_fetch;

typedef struct {
    int status;
    od_buf body;
    int64_t length; /* that the answer announced, -1: none */
    char etag[80];
    char type[80]; /* of its content, "" if it says none */
} od_fetched;

/* Any answer is OD_OK; OUT is released with od_fetched_release. No error shows the credentials.
 *   OD_E_UNAVAILABLE   cannot connect    OD_E_TIMEOUT    OD_E_CONNECTION_LOST   it broke, or ended early
 *   OD_E_TOO_LARGE     the answer is larger than was allowed    OD_E_CANCELLED     it was stopped */
OD_MUST_CHECK od_code od_fetch_run(od_fetcher *fetcher, const od_fetch *fetch, od_fetched *out, od_error *err);
void od_fetched_release(od_fetched *fetched);

#endif
