/* query/rpc/h2.h: one HTTP/2 connection that carries gRPC messages, without its socket.
 *
 * The owner brings bytes in (od_h2_received) and takes bytes out (hooks->write); everything here works on memory and never
 * blocks. Nothing is locked: the owner lets one thread in at a time. Hooks are called from inside od_h2_* functions; they may
 * call any of them but od_h2_received, od_h2_flush and od_h2_free.
 *
 * Receiving is by pull: a message is waited for with od_h2_want and taken with od_h2_take. The window of a stream is given
 * back for the bytes of wanted messages only; the window of the connection at once, so that no slow stream stalls others. */
#ifndef OD_QUERY_RPC_H2_H
#define OD_QUERY_RPC_H2_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "query/rpc.h"
#include "query/rpc/grpc.h"

enum {
    OD_H2_CONNECTION_WINDOW = 16 << 20,
    OD_H2_CLIENT_WINDOW = 4 << 20,
    OD_H2_SERVER_WINDOW = 1 << 20,
    OD_H2_RELAY_WINDOW = 1 << 20,
    OD_H2_MAX_FRAME = 1 << 20,
    OD_H2_MAX_STREAMS = 256,
    OD_H2_MAX_HEADERS = 16 << 10, /* of a header list, as SETTINGS_MAX_HEADER_LIST_SIZE counts it */
    OD_H2_MAX_PATH = 256,
    OD_H2_INPUT_SIZE = 256 << 10, /* the owner's receive buffer */
    OD_H2_RESET_BURST = 10000,    /* resets by a client, which may be a relay of many, before it is limited to ... */
    OD_H2_RESET_RATE = 5000,      /* ... so many a second; above that its connection ends */
    OD_H2_STRAY_BURST =
        100000, /* frames of streams that this side has ended, which are on their way still: a window's ... */
    OD_H2_STRAY_RATE = 50000 /* ... for each */
};

typedef struct od_h2 od_h2;
typedef struct od_h2_stream od_h2_stream;
typedef struct od_h2_item od_h2_item;

typedef struct {
    /* Server: a request begins. Gives a stream made by od_h2_stream_init, or NULL to refuse it. */
    od_h2_stream *(*open)(void *owner);
    /* Server: the request's head is whole and valid. */
    void (*request)(void *owner, od_h2_stream *stream);
    /* A wanted message has come, or the peer has sent its last. */
    void (*received)(void *owner, od_h2_stream *stream);
    /* Queued bytes have gone out. */
    void (*drained)(void *owner, od_h2_stream *stream);
    /* The last of every stream, however it ended: see stream->end. stream->h2 is NULL from here on. */
    void (*closed)(void *owner, od_h2_stream *stream);
    /* As writev. EAGAIN stops output until od_h2_writable. */
    ssize_t (*write)(void *owner, const struct iovec *iov, int count);
    /* Sends what write took and kept. 0, EAGAIN (as of write), or an errno. NULL: write keeps nothing. */
    int (*push)(void *owner);
} od_h2_hooks;

typedef struct {
    bool server, tls;
    int32_t stream_window;
    unsigned max_streams;
    size_t max_message;
} od_h2_options;

/* How a stream ended. */
typedef struct {
    bool set;
    bool at_once; /* not a clean end: messages that came before are of no use */
    od_code code; /* OD_OK: clean */
    int status;   /* gRPC status, sent or received */
    char *text;   /* owned; NULL: none, or memory was out */
} od_h2_end;

/* A message whose bytes still hold back some of the stream's window. */
typedef struct {
    od_msg *msg;
    size_t held;
} od_h2_received_msg;

typedef struct {
    uint8_t prefix[5];
    size_t prefix_len;
    od_msg *msg; /* being filled; its length is what is allocated so far */
    size_t len, got;
    size_t held; /* bytes of the message being filled whose window is held back */
    od_h2_received_msg *ring;
    size_t first, count, cap;
    od_buf backlog; /* unparsed bytes, from backlog_at, that came while the ring was full */
    size_t backlog_at;
    unsigned wanted;
} od_h2_inbox;

/* Embedded in what the owner keeps for a call. */
struct od_h2_stream {
    od_h2 *h2; /* NULL before it is opened and after it is closed */
    od_h2_stream *prev, *next;
    int32_t id;
    bool server;
    unsigned skew; /* of received messages */
    size_t max_message;
    const od_rpc_header *headers; /* client: sent with the request; borrowed until then */
    size_t header_count;
    /* What the peer's header lists said. */
    char path[OD_H2_MAX_PATH];
    int64_t timeout_ns;           /* -1: none */
    int http_status, grpc_status; /* -1: not told */
    char *grpc_message;
    od_code told; /* by the trailer openduck-code: server: to be; client: was; OD_OK: none */
    size_t header_bytes;
    bool is_post, is_grpc, bad_timeout, bad_path;
    bool refused; /* server: answered without its owner; client: the peer did nothing of it */
    /* receiving */
    od_h2_inbox in;
    bool peer_ended;
    uint64_t bytes_received;
    /* sending */
    od_h2_item *first, **last;
    size_t queued;
    bool deferred;  /* nghttp2 waits for od_h2_send */
    bool head_sent; /* server: the response's head is submitted */
    bool ending;    /* nothing may be queued any more */
    bool end_sent;  /* server: the trailers have gone out */
    int end_status;
    char *end_text;
    od_h2_end end;
};

struct od_h2_sink;

/* HOOKS is borrowed. */
OD_MUST_CHECK od_code od_h2_create(const od_h2_options *options, const od_h2_hooks *hooks, void *owner, od_h2 **out,
                                   od_error *err);
/* Drops everything without a hook or a byte written; streams must be closed or abandoned before. NULL allowed. */
void od_h2_free(od_h2 *h2);

/* Where to read to: one or two buffers, the first perhaps the body of a message, the last INPUT (OD_H2_INPUT_SIZE bytes).
 * Then od_h2_received with the same INPUT and the number of bytes read, before anything else is called. */
int od_h2_read_plan(od_h2 *h2, uint8_t *input, struct iovec iov[2]);
/* false: the connection is broken (od_h2_why). */
bool od_h2_received(od_h2 *h2, const struct iovec *iov, int count, size_t bytes);
bool od_h2_feed(od_h2 *h2, const uint8_t *bytes, size_t len);

/* Writes what there is until hooks->write says EAGAIN. false: broken. */
bool od_h2_flush(od_h2 *h2);
void od_h2_writable(od_h2 *h2);
bool od_h2_blocked(const od_h2 *h2); /* bytes wait for the socket */
bool od_h2_unsent(const od_h2 *h2);  /* frames have been made that are not wholly written and pushed */
bool od_h2_finished(od_h2 *h2);      /* nothing more will be read or written */
const char *od_h2_why(const od_h2 *h2);
/* For the owner, whose socket has failed. Gives false. */
bool od_h2_break(od_h2 *h2, const char *why);

/* Ends every stream with CODE and TEXT, each with its closed hook. Only od_h2_free may follow. */
void od_h2_abandon(od_h2 *h2, od_code code, const char *text);

od_h2_stream *od_h2_first_stream(const od_h2 *h2); /* of all open ones, by ->next */
size_t od_h2_stream_count(const od_h2 *h2);
uint64_t od_h2_total_received(const od_h2 *h2);
bool od_h2_accepts(od_h2 *h2);        /* client: the peer takes one more call now */
bool od_h2_draining(const od_h2 *h2); /* the peer has sent GOAWAY */
void od_h2_goaway(od_h2 *h2);         /* no new streams; running ones go on */
void od_h2_ping(od_h2 *h2);
bool od_h2_ping_pending(const od_h2 *h2);

void od_h2_stream_init(od_h2_stream *stream, unsigned skew, size_t max_message);
/* Frees what it holds; a stream that is still open is reset first. */
void od_h2_stream_release(od_h2_stream *stream);

/* Client: opens a call. TIMEOUT_NS < 0: none. */
OD_MUST_CHECK od_code od_h2_request(od_h2 *h2, od_h2_stream *stream, const char *path, const char *authority,
                                    int64_t timeout_ns, od_error *err);
/* Queues a message; LAST (client) ends the sending half. OD_E_TOO_LARGE, OD_E_NO_MEMORY; OD_E_CANCELLED when it has ended. */
OD_MUST_CHECK od_code od_h2_send(od_h2_stream *stream, const od_rpc_out *message, bool last, od_error *err);
/* Client: no more messages follow what is queued. Ignored after a last one. */
void od_h2_half_close(od_h2_stream *stream);
/* Server: STATUS and TEXT (may be NULL) follow what is queued. Ignored after the first. */
void od_h2_finish(od_h2_stream *stream, int status, const char *text);
/* Ends the stream at once: RST_STREAM(error_code), and stream->end as given unless it has one. */
void od_h2_reset(od_h2_stream *stream, uint32_t error_code, od_code code, const char *text);
/* Server: as od_h2_finish, without what is queued; a reset where the trailers could not follow at once. CODE is told. */
void od_h2_finish_now(od_h2_stream *stream, int status, od_code code, const char *text);

void od_h2_want(od_h2_stream *stream);
od_msg *od_h2_take(od_h2_stream *stream); /* NULL if no message is wanted and here */
bool od_h2_has_message(const od_h2_stream *stream);

#endif
