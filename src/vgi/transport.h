/* vgi/transport.h: bytes to and from a VGI worker: a process of ours, or a socket.
 *
 * A link is one session: requests and answers strictly one after another. Every call that may block has a deadline and asks about
 * every 50 ms whether it is to stop. One thread at a time. */
#ifndef OD_VGI_TRANSPORT_H
#define OD_VGI_TRANSPORT_H

#include "base/buf.h"
#include "base/deadline.h"

/* Whether the one who waits gave up; STOPPED may be NULL. */
typedef struct {
    bool (*stopped)(void *arg);
    void *arg;
} od_vgi_interrupt;

typedef struct {
    od_deadline deadline;
    od_vgi_interrupt interrupt;
    int64_t gather_ns; /* where no byte is there to read: how long to let some gather before waiting for the first */
} od_vgi_wait;

typedef enum { OD_VGI_SUBPROCESS, OD_VGI_UNIX, OD_VGI_TCP, OD_VGI_HTTP } od_vgi_scheme;

/* Where a worker is. */
typedef struct {
    od_vgi_scheme scheme;
    char *target;  /* a command, a path, a host, or an URL without a trailing slash */
    uint16_t port; /* of TCP */
} od_vgi_location;

/* OD_E_INVALID: empty, a scheme that is not read (launch:, oci:, docker:, worker:), no port. */
OD_MUST_CHECK od_code od_vgi_location_parse(const char *text, od_vgi_location *out, od_error *err);
void od_vgi_location_release(od_vgi_location *location);

typedef struct od_vgi_link od_vgi_link;

/* Starts the process or connects. A process is `/bin/sh -c COMMAND` in a session of its own; it ends, at the latest some seconds after
 * this process did, however that ended.
 *   OD_E_UNAVAILABLE, OD_E_TIMEOUT, OD_E_CANCELLED */
OD_MUST_CHECK od_code od_vgi_link_open(const od_vgi_location *location, const od_vgi_wait *wait, od_vgi_link **out,
                                       od_error *err);
/* Exactly LEN bytes. OD_E_CONNECTION_LOST: the worker ended; the message says how, with the end of what it wrote to stderr. */
OD_MUST_CHECK od_code od_vgi_link_read(od_vgi_link *link, void *to, size_t len, const od_vgi_wait *wait, od_error *err);
/* Reads the next BODY bytes without a copy, if they lie aligned to 8 and whole behind the HEAD bytes that were read last: *message is both,
 * valid while *owner is, which the caller has to give back. False: read them otherwise. */
bool od_vgi_link_lend(od_vgi_link *link, size_t head, size_t body, od_slice *message, od_msg **owner);
/* How many bytes can be read without a wait: all of them, or at least ENOUGH. */
size_t od_vgi_link_available(const od_vgi_link *link, size_t enough);
OD_MUST_CHECK od_code od_vgi_link_write(od_vgi_link *link, od_slice bytes, const od_vgi_wait *wait, od_error *err);
/* Whether an idle link can be used again: the peer has neither ended nor sent anything. */
bool od_vgi_link_usable(od_vgi_link *link);
/* The end of what the worker wrote to stderr, cut to SIZE, always terminated. */
void od_vgi_link_stderr(od_vgi_link *link, char *out, size_t size);
int64_t od_vgi_link_pid(const od_vgi_link *link); /* -1: a socket */
/* Ends the session: a process sees the end of its stdin, after 2 s SIGTERM, after 2 s more SIGKILL. Does not wait. */
void od_vgi_link_end(od_vgi_link *link);
/* Whether an ended link's process is gone; then only free is left. Waits up to MS (0: not at all). */
bool od_vgi_link_gone(od_vgi_link *link, int64_t ms);
/* Ends it if it has not been, kills what is not gone, and frees. NULL allowed. */
void od_vgi_link_free(od_vgi_link *link);

#endif
