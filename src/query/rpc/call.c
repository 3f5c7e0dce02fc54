/* The blocking call: polls in its caller's thread. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "query/rpc/client.h"
#include "query/rpc/socket.h"
#include "base/banned.h"

enum {
    INTERRUPT_MS = 50,
    REPLAY_LIMIT = 1 << 20 /* a request above this is not kept for a second try */
};

/* A message kept for a second try. */
typedef struct replay {
    struct replay *next;
    od_rpc_out out;
    bool last;
} replay;

struct od_pin {
    od_channel *channel;
    od_client_conn *conn; /* NULL while a call has it, and after it was lost */
};

struct od_call {
    od_h2_stream stream;
    od_channel *channel;
    od_pin *pin; /* whose connection it uses; NULL: the pool's */
    od_client_conn *conn;
    int wake; /* the connection's eventfd, on loan: it stays when the connection is replaced */
    atomic_bool cancelled;
    od_deadline deadline;
    od_interrupt interrupt;
    unsigned skew;
    char *path;
    bool may_replay;
    bool written; /* all of a message, or more */
    replay *sent, **sent_last;
    size_t sent_bytes;
    int64_t acked;     /* of the connection, when the call began */
    uint64_t received; /* of the connection, when the call began */
};

/* ---- a second try ---- */

static void drop_replay(od_call *call)
{
    while (call->sent) {
        replay *r = call->sent;
        call->sent = r->next;
        od_msg_unref(r->out.body);
        od_free(r);
    }
    call->sent_last = &call->sent;
    call->may_replay = false;
}

static void keep_for_replay(od_call *call, const od_rpc_out *message, bool last)
{
    replay *r;

    if (!call->may_replay)
        return;
    call->sent_bytes += message->len + sizeof *r;
    r = call->sent_bytes <= REPLAY_LIMIT ? od_alloc(sizeof *r) : NULL;
    if (!r) {
        drop_replay(call);
        return;
    }
    *r = (replay){NULL, *message, last};
    if (r->out.len == 0)
        r->out.body = NULL;
    if (r->out.body)
        od_msg_ref(r->out.body);
    *call->sent_last = r;
    call->sent_last = &r->next;
}

/* ---- opening ---- */

static od_code start(od_call *call, od_error *err)
{
    const od_endpoint *endpoint = od_channel_endpoint(call->channel);
    int64_t left = -1;

    od_h2_stream_init(&call->stream, call->skew, od_channel_max_message(call->channel));
    call->stream.headers = od_channel_headers(call->channel, &call->stream.header_count);
    if (call->deadline.at_ns != OD_DEADLINE_NEVER.at_ns) {
        left = call->deadline.at_ns - od_clock_ns();
        if (left <= 0)
            return od_fail(err, OD_E_TIMEOUT, "timed out: the deadline of the call to '%s' has passed",
                           endpoint->authority);
    }
    call->received = od_h2_total_received(call->conn->h2);
    if (call->conn->reused && !call->pin)
        call->acked = od_socket_acked(call->conn->fd);
    call->may_replay = call->conn->reused && !call->pin && call->acked >= 0;
    return od_h2_request(call->conn->h2, &call->stream, call->path, endpoint->authority, left, err);
}

static od_code create(od_channel *channel, const char *path, od_deadline grpc_deadline, unsigned skew,
                      od_interrupt interrupt, od_call **out, od_error *err)
{
    od_call *call = od_calloc(1, sizeof *call);
    od_code rc = OD_OK;

    *out = NULL;
    if (!call)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a call");
    call->channel = od_channel_ref(channel);
    call->deadline = grpc_deadline;
    call->skew = skew;
    call->interrupt = interrupt;
    call->wake = -1;
    call->sent_last = &call->sent;
    call->path = od_strdup(path);
    od_h2_stream_init(&call->stream, skew, 0);
    if (!call->path)
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory for a call");
    else if (od_deadline_passed(grpc_deadline))
        rc = od_fail(err, OD_E_TIMEOUT, "timed out: the deadline of the call to '%s' has passed",
                     od_channel_endpoint(channel)->authority);
    if (rc != OD_OK) {
        od_call_free(call);
        return rc;
    }
    *out = call;
    return OD_OK;
}

/* CALL has its connection. It is freed on failure. */
static od_code begin(od_call *call, od_call **out, od_error *err)
{
    od_code rc;

    call->wake = call->conn->wake;
    call->conn->wake = -1;
    rc = start(call, err);
    if (rc != OD_OK) {
        od_call_free(call);
        return rc;
    }
    *out = call;
    return OD_OK;
}

od_code od_call_open(od_channel *channel, const char *path, od_deadline grpc_deadline, unsigned skew,
                     od_interrupt interrupt, od_call **out, od_error *err)
{
    od_call *call;
    od_code rc;

    *out = NULL;
    rc = create(channel, path, grpc_deadline, skew, interrupt, &call, err);
    if (rc != OD_OK)
        return rc;
    rc = od_channel_take(channel, false, grpc_deadline, interrupt, &call->conn, err);
    if (rc == OD_E_UNAVAILABLE && od_deadline_passed(grpc_deadline)) {
        rc = od_fail(err, OD_E_TIMEOUT, "timed out: the deadline of the call to '%s' passed while connecting",
                     od_channel_endpoint(channel)->authority);
    }
    if (rc != OD_OK) {
        od_call_free(call);
        return rc;
    }
    return begin(call, out, err);
}

/* The peer did nothing of the call: its kernel has acknowledged no byte of it, and either not all was written, or the peer
 * had closed the connection in order. Of what was written a reset tells nothing: a kernel acknowledges late, and a peer
 * that is killed in between may have read it. */
static bool untouched(od_call *call)
{
    if ((call->written && !call->conn->ended) || !call->may_replay || call->stream.bytes_received > 0 ||
        call->stream.http_status >= 0)
        return false;
    if (od_h2_total_received(call->conn->h2) != call->received)
        return false;
    return od_socket_acked(call->conn->fd) == call->acked;
}

/* Puts a new connection in the place of a dead one, and sends again what was sent. */
static od_code try_again(od_call *call, od_error *err)
{
    od_client_conn *dead = call->conn;
    od_code rc;

    od_h2_stream_release(&call->stream);
    call->conn = NULL;
    od_client_conn_free(dead);
    rc = od_channel_take(call->channel, true, call->deadline, call->interrupt, &call->conn, err);
    if (rc == OD_OK)
        rc = start(call, err);
    for (replay *r = call->sent; r && rc == OD_OK; r = r->next)
        rc = od_h2_send(&call->stream, &r->out, r->last, err);
    drop_replay(call);
    if (rc == OD_OK)
        (void)od_h2_flush(call->conn->h2); /* if that fails, so does the next read */
    return rc;
}

/* The connection is broken: a second try, or the end of the stream. */
static od_code lost(od_call *call, od_error *err)
{
    const char *authority = od_channel_endpoint(call->channel)->authority;
    char text[480];

    if (call->stream.h2 && untouched(call))
        return try_again(call, err);
    snprintf(text, sizeof text, "lost the connection to '%s': %s", authority, od_h2_why(call->conn->h2));
    od_h2_abandon(call->conn->h2, OD_E_CONNECTION_LOST, text);
    return OD_OK;
}

/* ---- waiting ---- */

static od_code fail_deadline(od_call *call, od_error *err)
{
    const char *authority = od_channel_endpoint(call->channel)->authority;

    if (call->stream.h2)
        od_h2_reset(&call->stream, NGHTTP2_CANCEL, OD_E_TIMEOUT, "timed out: the deadline of the call has passed");
    if (call->conn)
        (void)od_h2_flush(call->conn->h2);
    return od_fail(err, OD_E_TIMEOUT, "timed out: the deadline of the call to '%s' has passed", authority);
}

static od_code fail_cancelled(od_error *err)
{
    return od_fail(err, OD_E_CANCELLED, "the call was cancelled");
}

/* OD_OK while the call may go on waiting. */
static od_code check_wait(od_call *call, od_deadline wait, od_error *err)
{
    if (atomic_load(&call->cancelled) || (call->interrupt.check && call->interrupt.check(call->interrupt.arg)))
        return fail_cancelled(err);
    if (od_deadline_passed(call->deadline))
        return fail_deadline(call, err);
    if (od_deadline_passed(wait))
        return od_fail(err, OD_E_TIMEOUT, "timed out: no answer from '%s'",
                       od_channel_endpoint(call->channel)->authority);
    return OD_OK;
}

/* Waits for the socket once, and reads or lets write. */
static od_code step(od_call *call, od_deadline wait, od_error *err)
{
    struct pollfd items[2] = {{.fd = call->conn->fd, .events = POLLIN}, {.fd = call->wake, .events = POLLIN}};
    int ms = od_deadline_poll_ms(od_deadline_min(wait, call->deadline)), n;

    if (od_h2_blocked(call->conn->h2))
        items[0].events |= POLLOUT;
    if (call->interrupt.check && (ms < 0 || ms > INTERRUPT_MS))
        ms = INTERRUPT_MS;
    n = poll(items, 2, ms);
    if (n < 0 && errno != EINTR)
        return od_fail_errno(err, OD_E_INTERNAL, errno, "cannot wait for '%s'",
                             od_channel_endpoint(call->channel)->authority);
    if (n <= 0 || items[1].revents)
        return check_wait(call, wait, err);
    if (items[0].revents & POLLOUT)
        od_h2_writable(call->conn->h2);
    if (items[0].revents & ~POLLOUT && od_client_conn_read(call->conn) == OD_READ_LOST)
        return lost(call, err);
    return OD_OK;
}

static od_code flush(od_call *call, od_error *err)
{
    if (od_h2_flush(call->conn->h2))
        return OD_OK;
    if (call->written) /* the reset that was just reported will look like an end */
        call->may_replay = false;
    /* What the peer said before it closed is still to be read, and tells more than the failed write. */
    while (call->stream.h2 && od_client_conn_read(call->conn) == OD_READ_SOME)
        ;
    return lost(call, err);
}

/* The end of the stream as the caller sees it. */
static od_code ended(od_call *call, od_error *err)
{
    const od_h2_end *end = &call->stream.end;
    od_code code = end->code;

    if (code == OD_OK)
        return OD_OK;
    return od_fail(err, code, "%s", end->text && end->text[0] ? end->text : od_code_text(code));
}

/* ---- the public part ---- */

static od_code begin_use(od_call *call, od_error *err)
{
    if (atomic_load(&call->cancelled))
        return fail_cancelled(err);
    if (!call->conn)
        return od_fail(err, OD_E_CONNECTION_LOST, "the call has no connection");
    if (call->conn->pid != getpid())
        return od_fail(err, OD_E_PRECONDITION, "the call was made by another process");
    return OD_OK;
}

/* Until what is queued is written, and the connection's bytes too. */
static od_code write_out(od_call *call, od_deadline wait, od_error *err)
{
    od_code rc;

    OD_TRY(flush(call, err));
    while (call->conn && call->stream.h2 && (call->stream.queued > 0 || od_h2_unsent(call->conn->h2))) {
        OD_TRY(step(call, wait, err));
        OD_TRY(flush(call, err));
    }
    call->written = true;
    if (!call->stream.h2 && call->stream.end.at_once)
        rc = ended(call, err);

out:
    return rc;
}

od_code od_call_send(od_call *call, const od_rpc_out *message, bool last, od_deadline wait, od_error *err)
{
    od_code rc;

    OD_TRY(begin_use(call, err));
    if (!call->stream.h2)
        return ended(call, err);
    if (call->stream.peer_ended)
        return OD_OK;
    OD_TRY(od_h2_send(&call->stream, message, last, err));
    keep_for_replay(call, message, last);
    rc = write_out(call, wait, err);

out:
    return rc;
}

od_code od_call_flush(od_call *call, od_deadline wait, od_error *err)
{
    od_code rc;

    OD_TRY(begin_use(call, err));
    if (!call->stream.h2)
        return ended(call, err);
    rc = call->stream.peer_ended ? OD_OK : write_out(call, wait, err);

out:
    return rc;
}

od_code od_call_half_close(od_call *call, od_deadline wait, od_error *err)
{
    od_code rc;

    OD_TRY(begin_use(call, err));
    if (!call->stream.h2)
        return ended(call, err);
    if (call->stream.peer_ended)
        return OD_OK;
    drop_replay(call);
    od_h2_half_close(&call->stream);
    rc = write_out(call, wait, err);

out:
    return rc;
}

od_code od_call_recv(od_call *call, od_msg **msg, od_deadline wait, od_error *err)
{
    od_code rc;

    *msg = NULL;
    OD_TRY(begin_use(call, err));
    if (call->stream.in.wanted == 0)
        od_h2_want(&call->stream);
    for (;;) {
        *msg = od_h2_take(&call->stream);
        if (*msg) {
            drop_replay(call);
            return OD_OK;
        }
        if (!call->stream.h2 && call->stream.refused && call->may_replay)
            OD_TRY(try_again(call, err));
        else if (!call->stream.h2)
            return ended(call, err);
        OD_TRY(flush(call, err));
        if (call->stream.h2)
            OD_TRY(step(call, wait, err));
        if (call->stream.in.wanted == 0)
            od_h2_want(&call->stream); /* the stream was replaced */
    }

out:
    return rc;
}

bool od_call_ready(od_call *call)
{
    if (!call->conn || call->conn->pid != getpid() || atomic_load(&call->cancelled))
        return true;
    while (call->stream.h2 && !od_h2_has_message(&call->stream)) {
        od_read_result result = od_client_conn_read(call->conn);
        if (result == OD_READ_LOST)
            return lost(call, NULL) != OD_OK || !call->stream.h2;
        if (result == OD_READ_NOTHING)
            break;
    }
    if (call->stream.h2)
        (void)flush(call, NULL);
    return !call->stream.h2 || od_h2_has_message(&call->stream);
}

void od_call_cancel(od_call *call)
{
    uint64_t one = 1;

    atomic_store(&call->cancelled, true);
    /* Cannot fail: the counter would have to overflow. */
    if (write(call->wake, &one, sizeof one) < 0)
        return;
}

uint64_t od_call_bytes_received(const od_call *call)
{
    return call->stream.bytes_received;
}

static void give_back(od_call *call)
{
    od_client_conn *conn = call->conn;
    uint64_t count;

    if (conn->pid != getpid()) {
        /* The parent's: nothing may be written to it. */
        od_h2_stream_release(&call->stream);
        od_client_conn_free(conn);
        return;
    }
    od_h2_stream_release(&call->stream);
    (void)od_h2_flush(conn->h2);
    if (atomic_load(&call->cancelled) && read(call->wake, &count, sizeof count) < 0) {
        od_client_conn_free(conn);
        return;
    }
    conn->wake = call->wake;
    call->wake = -1;
    if (call->pin)
        call->pin->conn = conn;
    else
        od_channel_give(call->channel, conn);
}

void od_call_free(od_call *call)
{
    if (!call)
        return;
    if (call->conn)
        give_back(call);
    else
        od_h2_stream_release(&call->stream);
    if (call->wake >= 0)
        close(call->wake);
    drop_replay(call);
    od_channel_unref(call->channel);
    od_free(call->path);
    od_free(call);
}

/* ---- a connection of one's own ---- */

od_pin *od_call_free_pin(od_call *call)
{
    od_pin *pin = call->conn && !call->stream.h2 ? od_calloc(1, sizeof *pin) : NULL;

    if (!pin) {
        od_call_free(call);
        return NULL;
    }
    pin->channel = od_channel_ref(call->channel);
    call->pin = pin;
    od_call_free(call);
    if (!pin->conn) {
        od_pin_free(pin, false);
        return NULL;
    }
    return pin;
}

od_code od_pin_call(od_pin *pin, const char *path, od_deadline grpc_deadline, od_interrupt interrupt, od_call **out,
                    od_error *err)
{
    const char *authority = od_channel_endpoint(pin->channel)->authority;
    od_call *call;
    od_code rc;

    *out = NULL;
    if (!pin->conn)
        return od_fail(err, OD_E_CONNECTION_LOST, "the connection to '%s' is lost", authority);
    if (pin->conn->pid != getpid())
        return od_fail(err, OD_E_PRECONDITION, "the connection to '%s' is another process's", authority);
    if (!od_client_conn_alive(pin->conn)) {
        od_client_conn_free(pin->conn);
        pin->conn = NULL;
        return od_fail(err, OD_E_CONNECTION_LOST, "the connection to '%s' is lost", authority);
    }
    rc = create(pin->channel, path, grpc_deadline, 0, interrupt, &call, err);
    if (rc != OD_OK)
        return rc;
    call->pin = pin;
    call->conn = pin->conn;
    pin->conn = NULL;
    return begin(call, out, err);
}

void od_pin_free(od_pin *pin, bool reuse)
{
    if (!pin)
        return;
    if (pin->conn && reuse && pin->conn->pid == getpid())
        od_channel_give(pin->channel, pin->conn);
    else
        od_client_conn_free(pin->conn);
    od_channel_unref(pin->channel);
    od_free(pin);
}
