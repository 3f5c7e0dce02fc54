/* query/rpc.h: gRPC over HTTP/2: bytes with a deadline.
 *
 * Knows messages only as bytes. Two ways in: a blocking client that polls in its caller's thread (od_call), and
 * event-driven calls on the loops of a server (od_rpc_call), both server-side and, for relays, client-side.
 * "http://" is plain text (h2c with prior knowledge), "https://" TLS, and neither ever turns into the other.
 * gRPC's rules: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
 *
 * Limits: a message of more than max_message bytes (default 64 MiB) is OD_E_TOO_LARGE on the side that sees it first,
 * and ends its call only, not its connection. */
#ifndef OD_QUERY_RPC_H
#define OD_QUERY_RPC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/deadline.h"
#include "base/error.h"
#include "telemetry/metrics.h"

#define OD_RPC_MAX_MESSAGE ((size_t)64 << 20)

/* gRPC status numbers that callers name. */
enum {
    OD_GRPC_OK = 0,
    OD_GRPC_CANCELLED = 1,
    OD_GRPC_INVALID_ARGUMENT = 3,
    OD_GRPC_DEADLINE_EXCEEDED = 4,
    OD_GRPC_NOT_FOUND = 5,
    OD_GRPC_ALREADY_EXISTS = 6,
    OD_GRPC_RESOURCE_EXHAUSTED = 8,
    OD_GRPC_FAILED_PRECONDITION = 9,
    OD_GRPC_OUT_OF_RANGE = 11,
    OD_GRPC_UNIMPLEMENTED = 12,
    OD_GRPC_INTERNAL = 13,
    OD_GRPC_UNAVAILABLE = 14,
    OD_GRPC_UNAUTHENTICATED = 16
};

/* One message to send: HEAD, then LEN bytes of BODY from OFFSET, then TAIL. HEAD and TAIL are copied; BODY (may be NULL)
 * is referenced until it has gone out, never copied. */
typedef struct {
    uint8_t head[64];
    size_t head_len;
    od_msg *body;
    size_t offset, len;
    uint8_t tail[32];
    size_t tail_len;
} od_rpc_out;

/* ---- endpoints -------------------------------------------------------------------------------------------------- */

/* "http://HOST:PORT", "HOST:PORT", "[::1]:7878", "http://HOST" (port 7878); "https://..." for TLS. */
typedef struct {
    char host[256]; /* without brackets */
    uint16_t port;
    bool tls;
    char authority[280]; /* for :authority and messages: "host:port", IPv6 in brackets */
} od_endpoint;

/* OD_E_INVALID names what is wrong. User info in the URL is refused without echoing it. */
OD_MUST_CHECK od_code od_endpoint_parse(od_slice text, od_endpoint *out, od_error *err);

/* ---- TLS ---------------------------------------------------------------------------------------------------------- */

/* Certificates and whom to trust, for any number of connections. Counted; any thread. */
typedef struct od_tls od_tls;

/* Paths of PEM files; NULL or empty: none. */
typedef struct {
    const char *cert; /* our certificate, then those between it and its CA */
    const char *key;  /* of the certificate, not encrypted */
    const char
        *ca; /* client: CAs of servers; none: the system's. Server: CAs of clients; none: clients show no certificate */
} od_tls_files;

/* Reads FILES (copied). Of a server: CERT and KEY are needed, and with CA a client that shows no certificate of it is refused. Of a
 * client (NULL: no files): a server is accepted if its certificate is of a CA, is valid now, and is for the endpoint's host; CERT is shown
 * to a server that asks.
 *   OD_E_INVALID  a file cannot be used; says which, and nothing of what is in it */
OD_MUST_CHECK od_code od_tls_create_server(const od_tls_files *files, od_tls **out, od_error *err);
OD_MUST_CHECK od_code od_tls_create_client(const od_tls_files *files, od_tls **out, od_error *err);
/* Reads the files again, for connections to come. On failure nothing has changed. */
OD_MUST_CHECK od_code od_tls_reload(od_tls *tls, od_error *err);
od_tls *od_tls_ref(od_tls *tls); /* NULL allowed */
void od_tls_unref(od_tls *tls);  /* NULL allowed */

/* ---- blocking client --------------------------------------------------------------------------------------------- */

typedef struct od_channel od_channel;
typedef struct od_call od_call;

/* Metadata of a call: a name in lower case, and a value of printable ASCII. */
typedef struct {
    const char *name, *value;
} od_rpc_header;

enum { OD_RPC_MAX_HEADERS = 64 };

typedef struct {
    od_endpoint endpoint;
    const od_rpc_header *headers; /* sent with every call; borrowed; at most OD_RPC_MAX_HEADERS */
    size_t header_count;
    int64_t connect_timeout_ms; /* with the TLS handshake; 0: 5000 */
    size_t max_message;         /* 0: OD_RPC_MAX_MESSAGE */
    size_t max_idle;            /* idle connections kept; 0: 8 */
    od_tls *tls;                /* a client's, for https:// (referenced); NULL: one that trusts the system's CAs */
} od_channel_options;

/* A pool of connections to one endpoint; one running call has one connection to itself. No thread, no global; after a
 * fork the child drops the parent's connections. Makes no connection yet. Thread: any, also several at once. */
OD_MUST_CHECK od_code od_channel_create(const od_channel_options *options, od_channel **out, od_error *err);
od_channel *od_channel_ref(od_channel *channel);
void od_channel_unref(od_channel *channel); /* NULL allowed */
const od_endpoint *od_channel_endpoint(const od_channel *channel);
/* Whether the peer has closed the connection that has lain idle last, which is dropped then. Does not block. */
bool od_channel_hung_up(od_channel *channel);

/* Asked about every 50 ms while a call blocks; true ends the wait with OD_E_CANCELLED. May be NULL. Called with no lock held. */
typedef struct {
    bool (*check)(void *arg);
    void *arg;
} od_interrupt;

/* Opens a call of PATH ("/openduck.v1.ExecutionService/ExecuteFragment"); connects if no idle connection is at hand. An idle
 * connection that turns out to be dead before any response byte is replaced by a new one, once, unseen by the caller.
 * GRPC_DEADLINE travels as grpc-timeout unless it is OD_DEADLINE_NEVER, and is kept locally too.
 *   OD_E_UNAVAILABLE   cannot connect (names the endpoint)       OD_E_TIMEOUT, OD_E_CANCELLED
 * SKEW: how received messages are aligned, see od_msg_create. On failure *out is NULL. */
OD_MUST_CHECK od_code od_call_open(od_channel *channel, const char *path, od_deadline grpc_deadline, unsigned skew,
                                   od_interrupt interrupt, od_call **out, od_error *err);
/* Sends one message; LAST half-closes. Blocks on flow control until WAIT: after OD_E_TIMEOUT what is left of the message goes out with
 * the next call of this family. */
OD_MUST_CHECK od_code od_call_send(od_call *call, const od_rpc_out *message, bool last, od_deadline wait,
                                   od_error *err);
/* Blocks until what was queued is written, as od_call_send. */
OD_MUST_CHECK od_code od_call_flush(od_call *call, od_deadline wait, od_error *err);
/* No more messages follow. Blocks until that and what was queued is written, as od_call_send. */
OD_MUST_CHECK od_code od_call_half_close(od_call *call, od_deadline wait, od_error *err);
/* Receives the next message into *msg (the caller unrefs), or NULL when the stream ended with status OK. Any other status
 * is the returned code with the peer's text: the code that a peer of ours tells, else that of od_code_from_grpc_status. OD_E_TIMEOUT when WAIT passes (the call
 * stays open and the receive may be repeated); OD_E_CONNECTION_LOST; OD_E_PROTOCOL; OD_E_TOO_LARGE. */
OD_MUST_CHECK od_code od_call_recv(od_call *call, od_msg **msg, od_deadline wait, od_error *err);
/* True if a whole message (or the end) is already here, so that od_call_recv would not block. Reads what the socket has. */
bool od_call_ready(od_call *call);
/* From any thread: ends a blocked od_call_recv/send with OD_E_CANCELLED and resets the stream when the call is freed. */
void od_call_cancel(od_call *call);
uint64_t od_call_bytes_received(const od_call *call);
/* Ends the call: an unfinished one is reset (RST_STREAM CANCEL, written before this returns). NULL allowed. Apart from
 * od_call_cancel, one thread at a time may use a call. */
void od_call_free(od_call *call);

/* One connection kept out of the pool: the server sees it close when its owner is gone. */
typedef struct od_pin od_pin;

/* Ends a call that has ended well and keeps its connection. NULL if the connection cannot serve another call, or memory is out. */
od_pin *od_call_free_pin(od_call *call);
/* As od_call_open, on the pin's connection and no other: OD_E_CONNECTION_LOST if that is dead. One call at a time. */
OD_MUST_CHECK od_code od_pin_call(od_pin *pin, const char *path, od_deadline grpc_deadline, od_interrupt interrupt,
                                  od_call **out, od_error *err);
/* Gives the connection to the pool (REUSE), or closes it. No call of it may be open. NULL allowed. */
void od_pin_free(od_pin *pin, bool reuse);

/* ---- server and relay --------------------------------------------------------------------------------------------- */

typedef struct od_rpc_server od_rpc_server;
typedef struct od_rpc_call od_rpc_call; /* counted; send, next, finish, cancel may be called from any thread */

/* What happens on a call, told on the loop thread that owns its connection, in order, with no lock held. A handler must not
 * block. Unset members are ignored. */
typedef struct {
    /* A message has come, asked for by od_rpc_call_next. The handler takes MSG. */
    void (*on_message)(void *user, od_rpc_call *call, od_msg *msg);
    /* The peer sends no more: server side after the last request message; client side is told by on_gone instead. */
    void (*on_half_close)(void *user, od_rpc_call *call);
    /* The queue of unsent bytes has fallen to half of its limit after od_rpc_call_room was false. */
    void (*on_writable)(void *user, od_rpc_call *call);
    /* The last event of every call. WHY is NULL after a clean end (server side: od_rpc_call_finish went out whole; client
     * side: status OK), else tells what ended it: OD_E_CANCELLED (peer reset it), OD_E_CONNECTION_LOST, OD_E_TIMEOUT (its
     * grpc-timeout), or on the client side the peer's status. The loop drops its reference after this. */
    void (*on_gone)(void *user, od_rpc_call *call, const od_error *why);
} od_rpc_events;

typedef struct {
    const char *path;
    /* A call of PATH has come. Sets user and events by od_rpc_call_bind, and asks for its request by od_rpc_call_next; or
     * finishes it at once. SERVICE is the server's. */
    void (*on_open)(void *service, od_rpc_call *call);
    unsigned skew; /* how received messages are aligned, see od_msg_create */
    void *service; /* of this method; NULL: the server's */
} od_rpc_method;

typedef struct {
    const char *listen;         /* "HOST:PORT"; port 0 picks a free one */
    unsigned threads;           /* loops; 0: 2 */
    size_t max_message;         /* 0: OD_RPC_MAX_MESSAGE */
    size_t stream_window;       /* receive window of a relayed (client-side) stream; 0: 1 MiB */
    size_t send_queue;          /* unsent bytes of a call at which od_rpc_call_room is false; 0: 2 MiB */
    unsigned max_streams;       /* concurrent streams a connection; 0: 256 */
    unsigned max_connections;   /* 0: 4096; further ones are closed at once */
    int64_t connect_timeout_ms; /* relayed calls, and the TLS handshake of who connects; 0: 5000 */
    int64_t stall_timeout_ms; /* a call whose peer takes no byte for so long, with bytes waiting, is reset; 0: 300000 */
    const od_rpc_method *methods;
    size_t method_count;
    void *service;
    od_metrics *metrics; /* of its calls and connections; borrowed; NULL: none */
    od_tls *tls;      /* a server's (referenced); NULL: plain text. What does not begin with a handshake is refused */
    od_tls *peer_tls; /* a client's (referenced), for relayed calls to https://; NULL: those fail */
    int64_t
        ping_after_ms; /* a connection without calls is asked after so long, and dropped after as long again; 0: 60000 */
} od_rpc_server_options;

/* Binds and listens (OD_E_UNAVAILABLE: "cannot listen on 'HOST:PORT': address already in use"), starts the loops. */
OD_MUST_CHECK od_code od_rpc_server_start(const od_rpc_server_options *options, od_rpc_server **out, od_error *err);
uint16_t od_rpc_server_port(const od_rpc_server *server);
/* Stops accepting, sends GOAWAY, waits until no call is left or the deadline passes. True when none is left. */
bool od_rpc_server_drain(od_rpc_server *server, od_deadline deadline);
/* Ends what is left (peers see the connection close), joins the loops. NULL allowed. */
void od_rpc_server_free(od_rpc_server *server);
unsigned od_rpc_server_calls(const od_rpc_server *server); /* open server-side calls */

od_rpc_call *od_rpc_call_ref(od_rpc_call *call);
void od_rpc_call_unref(od_rpc_call *call);
void od_rpc_call_bind(od_rpc_call *call, const od_rpc_events *events, void *user); /* EVENTS must outlive the call */
void *od_rpc_call_user(od_rpc_call *call);
const char *od_rpc_call_path(const od_rpc_call *call);
const char *od_rpc_call_peer(const od_rpc_call *call);     /* "127.0.0.1:54321" */
od_deadline od_rpc_call_deadline(const od_rpc_call *call); /* from grpc-timeout, else never */

/* Asks for one more message; the stream's receive window is given back only as messages are asked for. */
void od_rpc_call_next(od_rpc_call *call);
/* Queues one message (writing to the socket at once where possible, from the calling thread too). Never blocks. After the
 * call is gone: OD_E_CANCELLED. Callers that produce much ask od_rpc_call_room first. */
OD_MUST_CHECK od_code od_rpc_call_send(od_rpc_call *call, const od_rpc_out *message, od_error *err);
bool od_rpc_call_room(od_rpc_call *call);
/* As od_rpc_call_send, but first waits until there is room; for threads that are not loops. OD_E_TIMEOUT, OD_E_CANCELLED. */
OD_MUST_CHECK od_code od_rpc_call_send_wait(od_rpc_call *call, const od_rpc_out *message, od_deadline wait,
                                            od_error *err);
/* As od_rpc_call_send, but the message may wait for the next one, or the end, of this call, which must follow soon. */
OD_MUST_CHECK od_code od_rpc_call_hold(od_rpc_call *call, const od_rpc_out *message, od_error *err);
/* Server side: ends the stream with STATUS once all queued messages have gone out. MESSAGE may be NULL. Later ones are ignored. */
void od_rpc_call_finish(od_rpc_call *call, int status, const char *message);
/* As od_rpc_call_finish, and tells a peer of ours CODE if STATUS is its own: several codes share a status. */
void od_rpc_call_fail(od_rpc_call *call, int status, od_code code, const char *message);
/* What was or is being answered is an error of CODE, though the status is OK: for the metrics. The first counts. Any thread. */
void od_rpc_call_mark(od_rpc_call *call, od_code code);
/* od_rpc_call_send and od_rpc_call_finish in one: the peer gets message and status in one piece. On failure nothing is done. */
OD_MUST_CHECK od_code od_rpc_call_reply(od_rpc_call *call, const od_rpc_out *message, int status, const char *text,
                                        od_error *err);
/* Server side: resets the stream; client side: sends RST_STREAM(CANCEL). on_gone follows. */
void od_rpc_call_cancel(od_rpc_call *call);
bool od_rpc_call_is_gone(od_rpc_call *call);
/* The gRPC status and message by which a client-side call ended; valid in and after on_gone. */
int od_rpc_call_status(const od_rpc_call *call, const char **message);

/* Relay: opens a client-side call to ENDPOINT on the loop of LIKE (a server-side call), over a connection that the loop keeps
 * for that endpoint. Events come on the same loop. Connecting goes on in the background: a failure is told by on_gone
 * (OD_E_UNAVAILABLE). OD_E_INVALID: ENDPOINT is https:// and the server has no peer_tls. Half-closing is by LAST of od_rpc_call_send_last. */
OD_MUST_CHECK od_code od_rpc_call_open(od_rpc_call *like, const od_endpoint *endpoint, const char *path,
                                       od_deadline grpc_deadline, const od_rpc_events *events, void *user,
                                       od_rpc_call **out, od_error *err);
OD_MUST_CHECK od_code od_rpc_call_send_last(od_rpc_call *call, const od_rpc_out *message, od_error *err);
/* Client side: no more messages follow. */
void od_rpc_call_half_close(od_rpc_call *call);
/* As od_rpc_call_open, also after LIKE is gone: its loop lives as long as the server. */
OD_MUST_CHECK od_code od_rpc_call_open_after(od_rpc_call *like, const od_endpoint *endpoint, const char *path,
                                             od_deadline grpc_deadline, const od_rpc_events *events, void *user,
                                             od_rpc_call **out, od_error *err);

/* ---- the end of a connection ------------------------------------------------------------------------------------------ */

typedef struct od_rpc_watch od_rpc_watch;

/* Has CLOSED called, once and on the connection's loop, when CALL's connection is closed, which may be long after CALL is. While it is
 * watched, a connection without calls is not dropped for leaving a ping unanswered. *out is set before CLOSED can be called.
 *   OD_E_CONNECTION_LOST   it is closed already */
OD_MUST_CHECK od_code od_rpc_call_watch(od_rpc_call *call, void (*closed)(void *arg), void *arg, od_rpc_watch **out,
                                        od_error *err);
/* Any thread; also from CLOSED. True: CLOSED has not been called and will not be. NULL allowed (true). */
bool od_rpc_watch_free(od_rpc_watch *watch);

#endif
