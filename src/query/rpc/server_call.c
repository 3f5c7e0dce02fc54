/* Calls on a server's loops: what other threads do to them, and what they tell. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "query/rpc/server.h"
#include "query/rpc/socket.h"
#include "base/banned.h"

static od_rpc_call *call_of(od_h2_stream *stream)
{
    return (od_rpc_call *)stream; /* its first member */
}

od_rpc_call *od_rpc_call_create(od_conn *conn, bool server_side)
{
    od_rpc_call *call = od_calloc(1, sizeof *call);

    if (!call)
        return NULL;
    od_h2_stream_init(&call->stream, 0, conn->loop->server->options.max_message);
    atomic_init(&call->refs, 1);
    call->conn = od_conn_ref(conn);
    call->server_side = server_side;
    call->deadline = OD_DEADLINE_NEVER;
    call->start_ns = od_clock_ns();
    od_cond_init(&call->changed);
    call->next_call = conn->calls;
    if (conn->calls)
        conn->calls->prev_call = call;
    conn->calls = call;
    return call;
}

od_rpc_call *od_rpc_call_ref(od_rpc_call *call)
{
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
    return call;
}

void od_rpc_call_unref(od_rpc_call *call)
{
    if (!call || atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) != 1)
        return;
    /* The stream is closed: an open one has the loop's reference. */
    od_h2_stream_release(&call->stream);
    pthread_cond_destroy(&call->changed);
    od_conn_unref(call->conn);
    od_free(call);
}

static void lock(od_rpc_call *call)
{
    pthread_mutex_lock(&call->conn->lock);
}

static void unlock(od_rpc_call *call)
{
    pthread_mutex_unlock(&call->conn->lock);
}

/* ---- hooks: under the lock ---- */

static od_h2_stream *on_open(void *owner)
{
    od_conn *conn = owner;
    od_rpc_call *call;

    if (atomic_load(&conn->loop->server->draining))
        return NULL;
    call = od_rpc_call_create(conn, true);
    if (!call)
        return NULL;
    od_server_count_call(conn->loop->server, 1);
    return &call->stream;
}

static const od_rpc_method *find_method(const od_rpc_server *server, const char *path)
{
    for (size_t i = 0; i < server->options.method_count; i++)
        if (strcmp(server->methods[i].path, path) == 0)
            return &server->methods[i];
    return NULL;
}

static const od_meter *meter_of(const od_rpc_server *server, const od_rpc_method *method)
{
    return &server->meters[method ? (size_t)(method - server->methods) : server->options.method_count];
}

static void on_request(void *owner, od_h2_stream *stream)
{
    od_conn *conn = owner;
    od_rpc_call *call = call_of(stream);
    char text[OD_H2_MAX_PATH + 40];

    call->method = find_method(conn->loop->server, stream->path);
    call->meter = meter_of(conn->loop->server, call->method);
    od_gauge_add(call->meter->active, 1);
    if (!call->method) {
        stream->refused = true;
        snprintf(text, sizeof text, "unknown method '%s'", stream->path);
        od_h2_finish(stream, OD_GRPC_UNIMPLEMENTED, text);
        return;
    }
    stream->skew = call->method->skew;
    if (stream->timeout_ns >= 0) {
        int64_t now = od_clock_ns();
        call->deadline.at_ns = stream->timeout_ns < INT64_MAX - now ? now + stream->timeout_ns : INT64_MAX;
        od_loop_set_timer(conn->loop, call, call->deadline);
    }
    od_conn_list_event(conn, call);
}

static void on_received(void *owner, od_h2_stream *stream)
{
    od_conn_list_event(owner, call_of(stream));
}

static size_t queue_limit(const od_rpc_call *call)
{
    return call->conn->loop->server->options.send_queue;
}

static void on_drained(void *owner, od_h2_stream *stream)
{
    od_rpc_call *call = call_of(stream);

    call->progress_ns = od_clock_ns();
    if (stream->queued > queue_limit(call) / 2)
        return;
    if (call->waiters > 0)
        pthread_cond_broadcast(&call->changed);
    if (call->was_full) {
        call->was_full = false;
        call->tell_writable = true;
        od_conn_list_event(owner, call);
    }
}

static void on_closed(void *owner, od_h2_stream *stream)
{
    od_rpc_call *call = call_of(stream);

    call->closed = true;
    pthread_cond_broadcast(&call->changed);
    od_conn_list_event(owner, call);
}

static ssize_t on_write(void *owner, const struct iovec *iov, int count)
{
    return od_socket_write(((od_conn *)owner)->fd, iov, count);
}

static ssize_t on_tls_write(void *owner, const struct iovec *iov, int count)
{
    return od_tls_conn_write(((od_conn *)owner)->tls, iov, count);
}

static int on_tls_push(void *owner)
{
    return od_tls_conn_push(((od_conn *)owner)->tls);
}

const od_h2_hooks OD_SERVER_HOOKS = {
    .open = on_open,
    .request = on_request,
    .received = on_received,
    .drained = on_drained,
    .closed = on_closed,
    .write = on_write,
};

const od_h2_hooks OD_SERVER_TLS_HOOKS = {
    .open = on_open,
    .request = on_request,
    .received = on_received,
    .drained = on_drained,
    .closed = on_closed,
    .write = on_tls_write,
    .push = on_tls_push,
};

/* ---- events ---- */

bool od_rpc_call_pick(od_rpc_call *call, od_tell *tell)
{
    od_h2_stream *stream = &call->stream;

    *tell = (od_tell){0};
    if (call->gone)
        return false;
    if (call->closed && (stream->end.at_once || (!od_h2_has_message(stream) && !call->tell_writable))) {
        call->gone = true;
        tell->kind = OD_TELL_GONE;
    } else if (call->method && !call->opened) {
        call->opened = true;
        tell->kind = OD_TELL_OPEN;
    } else if ((tell->msg = od_h2_take(stream)) != NULL) {
        tell->kind = OD_TELL_MESSAGE;
        if (call->meter)
            od_counter_add(call->meter->received, od_msg_len(tell->msg));
    } else if (call->server_side && call->opened && stream->peer_ended && !call->half_closed &&
               !od_h2_has_message(stream)) {
        call->half_closed = true;
        tell->kind = OD_TELL_HALF_CLOSE;
    } else if (call->tell_writable) {
        call->tell_writable = false;
        tell->kind = OD_TELL_WRITABLE;
    } else {
        return false;
    }
    return true;
}

void od_rpc_call_cut(od_rpc_call *call)
{
    if (!call->closed || call->gone)
        return;
    call->stream.end.at_once = true;
    od_conn_list_event(call->conn, call);
}

static void unlink_call(od_rpc_call *call)
{
    lock(call);
    if (call->prev_call)
        call->prev_call->next_call = call->next_call;
    else
        call->conn->calls = call->next_call;
    if (call->next_call)
        call->next_call->prev_call = call->prev_call;
    unlock(call);
}

static od_call_outcome outcome_of(od_rpc_call *call)
{
    const od_h2_end *end = &call->stream.end;
    od_code marked = atomic_load(&call->marked);

    if (marked != OD_OK)
        return marked == OD_E_CANCELLED ? OD_CALL_CANCELLED : OD_CALL_ERROR;
    if (end->code == OD_E_CANCELLED || end->code == OD_E_CONNECTION_LOST)
        return OD_CALL_CANCELLED;
    return end->code == OD_OK && end->status == OD_GRPC_OK ? OD_CALL_SUCCESS : OD_CALL_ERROR;
}

static void measure(od_rpc_call *call)
{
    if (!call->meter)
        return;
    od_gauge_add(call->meter->active, -1);
    od_histogram_observe_ns(call->meter->durations[outcome_of(call)], od_clock_ns() - call->start_ns);
}

static void tell_gone(od_rpc_call *call)
{
    const od_h2_end *end = &call->stream.end;
    od_loop *loop = call->conn->loop;
    od_error why = {0};

    if (call->events && call->events->on_gone) {
        if (end->code != OD_OK)
            od_fail(&why, end->code, "%s", end->text && end->text[0] ? end->text : od_code_text(end->code));
        call->events->on_gone(call->user, call, end->code == OD_OK ? NULL : &why);
    }
    unlink_call(call);
    od_loop_clear_timer(loop, call);
    measure(call);
    if (call->server_side)
        od_server_count_call(loop->server, -1);
    od_rpc_call_unref(call);
}

void od_rpc_call_run(od_rpc_call *call, const od_tell *tell)
{
    const od_rpc_events *events = call->events;

    switch (tell->kind) {
    case OD_TELL_OPEN:
        call->method->on_open(call->method->service ? call->method->service : call->conn->loop->server->options.service,
                              call);
        break;
    case OD_TELL_MESSAGE:
        if (events && events->on_message)
            events->on_message(call->user, call, tell->msg);
        else
            od_msg_unref(tell->msg);
        break;
    case OD_TELL_HALF_CLOSE:
        if (events && events->on_half_close)
            events->on_half_close(call->user, call);
        break;
    case OD_TELL_WRITABLE:
        if (events && events->on_writable)
            events->on_writable(call->user, call);
        break;
    case OD_TELL_GONE:
        tell_gone(call);
        break;
    }
}

void od_rpc_call_timeout(od_rpc_call *call)
{
    lock(call);
    if (call->stream.h2) {
        if (call->server_side)
            od_h2_finish_now(&call->stream, OD_GRPC_DEADLINE_EXCEEDED, OD_E_TIMEOUT,
                             "timed out: the deadline of the call has passed");
        else
            od_h2_reset(&call->stream, NGHTTP2_CANCEL, OD_E_TIMEOUT, "timed out: the deadline of the call has passed");
        od_conn_touch(call->conn);
    }
    unlock(call);
}

/* ---- the public part ---- */

void od_rpc_call_bind(od_rpc_call *call, const od_rpc_events *events, void *user)
{
    call->events = events;
    call->user = user;
}

void *od_rpc_call_user(od_rpc_call *call)
{
    return call->user;
}

const char *od_rpc_call_path(const od_rpc_call *call)
{
    return call->stream.path;
}

const char *od_rpc_call_peer(const od_rpc_call *call)
{
    return call->conn->peer;
}

od_deadline od_rpc_call_deadline(const od_rpc_call *call)
{
    return call->deadline;
}

void od_rpc_call_next(od_rpc_call *call)
{
    lock(call);
    if (!call->gone) {
        od_h2_want(&call->stream);
        if (call->closed || od_h2_has_message(&call->stream))
            od_conn_list_event(call->conn, call);
        od_conn_touch(call->conn);
    }
    unlock(call);
}

/* Under the lock. */
static od_code queue(od_rpc_call *call, const od_rpc_out *message, bool last, od_error *err)
{
    od_code rc;

    if (call->stream.queued == 0)
        call->progress_ns = od_clock_ns();
    rc = od_h2_send(&call->stream, message, last, err);
    if (rc == OD_OK && call->meter)
        od_counter_add(call->meter->sent, message->head_len + message->len + message->tail_len);
    return rc;
}

static od_code send_one(od_rpc_call *call, const od_rpc_out *message, bool last, od_error *err)
{
    od_code rc;

    lock(call);
    rc = queue(call, message, last, err);
    if (rc == OD_OK)
        od_conn_touch(call->conn);
    unlock(call);
    return rc;
}

od_code od_rpc_call_send(od_rpc_call *call, const od_rpc_out *message, od_error *err)
{
    return send_one(call, message, false, err);
}

od_code od_rpc_call_send_last(od_rpc_call *call, const od_rpc_out *message, od_error *err)
{
    return send_one(call, message, true, err);
}

od_code od_rpc_call_hold(od_rpc_call *call, const od_rpc_out *message, od_error *err)
{
    od_code rc;

    lock(call);
    rc = queue(call, message, false, err);
    unlock(call);
    return rc;
}

void od_rpc_call_half_close(od_rpc_call *call)
{
    lock(call);
    if (!call->server_side && call->stream.h2) {
        od_h2_half_close(&call->stream);
        od_conn_touch(call->conn);
    }
    unlock(call);
}

bool od_rpc_call_room(od_rpc_call *call)
{
    bool room;

    lock(call);
    room = !call->stream.h2 || call->stream.queued < queue_limit(call);
    if (!room)
        call->was_full = true;
    unlock(call);
    return room;
}

/* Under the lock: until there is room, the call ends (OD_OK both), or WAIT passes. */
static od_code wait_room(od_rpc_call *call, od_deadline wait, od_error *err)
{
    while (call->stream.h2 && call->stream.queued >= queue_limit(call)) {
        if (od_deadline_passed(wait))
            return od_fail(err, OD_E_TIMEOUT, "timed out: '%s' did not take the result", call->conn->peer);
        call->waiters++;
        (void)od_cond_wait(&call->changed, &call->conn->lock, wait);
        call->waiters--;
    }
    return OD_OK;
}

od_code od_rpc_call_send_wait(od_rpc_call *call, const od_rpc_out *message, od_deadline wait, od_error *err)
{
    od_code rc;

    lock(call);
    rc = wait_room(call, wait, err);
    if (rc == OD_OK)
        rc = queue(call, message, false, err);
    if (rc == OD_OK)
        od_conn_touch(call->conn);
    unlock(call);
    return rc;
}

void od_rpc_call_finish(od_rpc_call *call, int status, const char *message)
{
    od_rpc_call_fail(call, status, OD_OK, message);
}

void od_rpc_call_fail(od_rpc_call *call, int status, od_code code, const char *message)
{
    lock(call);
    if (call->server_side && call->stream.h2 && !call->stream.ending) {
        if (call->stream.queued == 0)
            call->progress_ns = od_clock_ns();
        call->stream.told = code;
        od_h2_finish(&call->stream, status, message);
        od_conn_touch(call->conn);
    }
    unlock(call);
}

void od_rpc_call_mark(od_rpc_call *call, od_code code)
{
    od_code none = OD_OK;

    (void)atomic_compare_exchange_strong(&call->marked, &none, code);
}

od_code od_rpc_call_reply(od_rpc_call *call, const od_rpc_out *message, int status, const char *text, od_error *err)
{
    od_code rc;

    lock(call);
    rc = queue(call, message, false, err);
    if (rc == OD_OK) {
        od_h2_finish(&call->stream, status, text);
        od_conn_touch(call->conn);
    }
    unlock(call);
    return rc;
}

void od_rpc_call_cancel(od_rpc_call *call)
{
    lock(call);
    if (call->stream.h2) {
        od_h2_reset(&call->stream, NGHTTP2_CANCEL, OD_E_CANCELLED, "the call was cancelled");
        od_conn_touch(call->conn);
    } else if (!call->gone) {
        /* Ended already, but messages wait that will not be asked for any more. */
        od_rpc_call_cut(call);
        od_conn_touch(call->conn);
    }
    unlock(call);
}

bool od_rpc_call_is_gone(od_rpc_call *call)
{
    bool gone;

    lock(call);
    gone = call->closed;
    unlock(call);
    return gone;
}

int od_rpc_call_status(const od_rpc_call *call, const char **message)
{
    const od_h2_end *end = &call->stream.end;

    if (message)
        *message = end->text ? end->text : "";
    return end->status;
}
