/* A connection on a loop: bytes in, events out, bytes out. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "query/rpc/server.h"
#include "query/rpc/socket.h"
#include "base/banned.h"

enum {
    READS_A_ROUND = 4, /* so that one fast peer does not keep others waiting */
    USER_TIMEOUT_MORE_MS = 30000
};
static const int64_t REFUSED_LOG_NS = 1000000000;

od_conn *od_conn_create(od_loop *loop, bool outgoing, bool tls)
{
    const od_rpc_server_options *o = &loop->server->options;
    const od_h2_options options = {
        .server = !outgoing,
        .tls = tls,
        .stream_window = outgoing ? (int32_t)o->stream_window : OD_H2_SERVER_WINDOW,
        .max_streams = o->max_streams,
        .max_message = o->max_message,
    };
    od_conn *conn = od_calloc(1, sizeof *conn);

    if (!conn)
        return NULL;
    if (od_h2_create(&options, tls ? &OD_SERVER_TLS_HOOKS : &OD_SERVER_HOOKS, conn, &conn->h2, NULL) != OD_OK) {
        od_free(conn);
        return NULL;
    }
    conn->source = OD_SOURCE_CONN;
    atomic_init(&conn->refs, 1);
    conn->loop = loop;
    conn->outgoing = outgoing;
    conn->fd = -1;
    conn->events_last = &conn->events;
    conn->last_input_ns = od_clock_ns();
    pthread_mutex_init(&conn->lock, NULL);
    return conn;
}

od_conn *od_conn_ref(od_conn *conn)
{
    atomic_fetch_add_explicit(&conn->refs, 1, memory_order_relaxed);
    return conn;
}

void od_conn_unref(od_conn *conn)
{
    if (!conn || atomic_fetch_sub_explicit(&conn->refs, 1, memory_order_acq_rel) != 1)
        return;
    od_h2_free(conn->h2);
    od_tls_conn_free(conn->tls);
    if (conn->fd >= 0)
        close(conn->fd);
    if (conn->addresses)
        freeaddrinfo(conn->addresses);
    pthread_mutex_destroy(&conn->lock);
    od_free(conn);
}

/* An accepted connection with its socket; NULL if memory is out, and the socket is closed. */
static od_conn *make_accepted(od_loop *loop, int fd)
{
    const od_rpc_server_options *o = &loop->server->options;
    od_conn *conn = od_conn_create(loop, false, o->tls != NULL);

    if (!conn) {
        close(fd);
        return NULL;
    }
    conn->fd = fd;
    if (o->tls) {
        conn->shaking = true;
        conn->connect_by_ns = od_clock_ns() + o->connect_timeout_ms * 1000000;
        if (od_tls_conn_create(o->tls, fd, NULL, &conn->tls, NULL) != OD_OK) {
            od_conn_unref(conn);
            return NULL;
        }
    }
    return conn;
}

/* Under the lock: begins to listen to an accepted connection; one with TLS waits for the client to begin. */
static void begin_accepted(od_conn *conn)
{
    bool ok = conn->shaking || od_h2_flush(conn->h2);

    if (!ok || !od_loop_watch(conn->loop, conn, od_h2_blocked(conn->h2), true))
        od_conn_lose(conn, OD_E_CONNECTION_LOST, od_h2_why(conn->h2));
    /* A loop that waits has to know of the time that the handshake may take. */
    if (conn->lost || conn->shaking)
        od_loop_post(conn->loop, conn);
}

void od_conn_accept(od_loop *loop, int fd)
{
    od_conn *conn = make_accepted(loop, fd);

    if (!conn)
        return;
    od_socket_peer_name(fd, conn->peer, sizeof conn->peer);
    /* A peer that pauses closes its TCP window, and for the kernel that counts as unanswered; so this limit, which is for hosts
     * that are gone, comes after that of a stalled call. */
    od_socket_tune(fd, loop->server->options.stall_timeout_ms + USER_TIMEOUT_MORE_MS);
    atomic_fetch_add(&loop->server->conn_count, 1);
    od_conn_ref(conn);
    if (!od_loop_add_conn(loop, conn)) {
        atomic_fetch_sub(&loop->server->conn_count, 1);
        od_conn_unref(conn);
        od_conn_unref(conn);
        return;
    }
    pthread_mutex_lock(&conn->lock);
    /* The loop may have ended it meanwhile, for it is shutting down. */
    if (!conn->dead)
        begin_accepted(conn);
    pthread_mutex_unlock(&conn->lock);
    od_conn_unref(conn);
}

void od_conn_list_event(od_conn *conn, od_rpc_call *call)
{
    if (call->listed || call->gone)
        return;
    call->listed = true;
    call->next_event = NULL;
    *conn->events_last = call;
    conn->events_last = &call->next_event;
}

static od_rpc_call *next_listed(od_conn *conn)
{
    od_rpc_call *call = conn->events;

    if (!call)
        return NULL;
    conn->events = call->next_event;
    if (!conn->events)
        conn->events_last = &conn->events;
    call->listed = false;
    return call;
}

void od_conn_lose(od_conn *conn, od_code code, const char *why)
{
    if (conn->lost)
        return;
    conn->lost = true;
    conn->lost_code = code;
    snprintf(conn->lost_why, sizeof conn->lost_why, "%s", why);
}

/* Under the lock. */
static void die(od_conn *conn, od_code code, const char *text)
{
    if (conn->dead)
        return;
    conn->dead = true;
    od_h2_abandon(conn->h2, code, text);
    od_loop_unwatch(conn->loop, conn);
    od_h2_free(conn->h2);
    conn->h2 = NULL;
    od_tls_conn_bye(conn->tls);
    od_tls_conn_free(conn->tls);
    conn->tls = NULL;
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    if (!conn->outgoing)
        atomic_fetch_sub(&conn->loop->server->conn_count, 1);
}

void od_conn_kill(od_conn *conn, od_code code, const char *text)
{
    pthread_mutex_lock(&conn->lock);
    die(conn, code, text);
    for (od_rpc_call *call = conn->calls; call; call = call->next_call)
        od_rpc_call_cut(call);
    pthread_mutex_unlock(&conn->lock);
}

/* Under the lock: writes what there is, and watches for room if the socket is full. */
static void write_out(od_conn *conn)
{
    if (conn->dead || conn->lost || conn->connecting || conn->resolving || conn->shaking)
        return;
    if (!od_h2_flush(conn->h2))
        od_conn_lose(conn, OD_E_CONNECTION_LOST, od_h2_why(conn->h2));
    else if (od_h2_finished(conn->h2))
        od_conn_lose(conn, OD_E_CONNECTION_LOST, "closed");
    else if (!od_loop_watch(conn->loop, conn, od_h2_blocked(conn->h2), false))
        od_conn_lose(conn, OD_E_CONNECTION_LOST, "cannot be watched");
}

/* The connection may be dead: what is left then is to tell events. */
void od_conn_touch(od_conn *conn)
{
    if (od_loop_is_current(conn->loop)) {
        od_loop_ready(conn->loop, conn);
        return;
    }
    write_out(conn);
    if (conn->events || conn->lost)
        od_loop_post(conn->loop, conn);
}

static const char *why_unread(const od_conn *conn, ssize_t n)
{
    if (conn->tls)
        return od_tls_conn_why(conn->tls);
    return n == 0 ? "closed by the peer" : strerrordesc_np(errno);
}

static void read_in(od_conn *conn)
{
    /* With TLS the socket is read once, and all that it brought is taken. */
    for (int i = 0; (i < READS_A_ROUND || conn->tls) && !conn->lost; i++) {
        struct iovec iov[2];
        int count = od_h2_read_plan(conn->h2, conn->loop->input, iov);
        size_t size = iov[0].iov_len + (count > 1 ? iov[1].iov_len : 0);
        ssize_t n = conn->tls ? od_tls_conn_read(conn->tls, iov, count, i == 0) : readv(conn->fd, iov, count);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            od_conn_lose(conn, OD_E_CONNECTION_LOST, why_unread(conn, n));
            return;
        }
        conn->last_input_ns = od_clock_ns();
        if (!od_h2_received(conn->h2, iov, count, (size_t)n))
            od_conn_lose(conn, OD_E_CONNECTION_LOST, od_h2_why(conn->h2));
        if ((size_t)n < size && !conn->tls)
            return;
    }
}

static void fail_handshake(od_conn *conn, const char *why)
{
    char text[OD_ERROR_MESSAGE_SIZE];

    if (!conn->outgoing) {
        od_conn_lose(conn, OD_E_CONNECTION_LOST, why);
        return;
    }
    snprintf(text, sizeof text, "cannot connect to '%s': %s", conn->endpoint.authority, why);
    od_conn_lose(conn, OD_E_UNAVAILABLE, text);
}

void od_conn_shake(od_conn *conn)
{
    od_tls_step step = od_tls_conn_handshake(conn->tls);

    if (step == OD_TLS_FAILED) {
        fail_handshake(conn, od_tls_conn_why(conn->tls));
        return;
    }
    if (!od_loop_watch(conn->loop, conn, od_tls_conn_unsent(conn->tls), false)) {
        od_conn_lose(conn, OD_E_CONNECTION_LOST, "cannot be watched");
        return;
    }
    if (step == OD_TLS_AGAIN)
        return;
    conn->shaking = false;
    conn->last_input_ns = od_clock_ns();
    read_in(conn); /* what came with the last of the handshake */
}

void od_conn_input(od_conn *conn, bool readable, bool writable)
{
    pthread_mutex_lock(&conn->lock);
    if (!conn->dead && !conn->lost) {
        if (conn->connecting) {
            if (writable)
                od_conn_connect_step(conn);
        } else if (conn->shaking) {
            od_conn_shake(conn);
        } else {
            if (writable)
                od_h2_writable(conn->h2);
            if (readable)
                read_in(conn);
        }
    }
    pthread_mutex_unlock(&conn->lock);
}

/* Under the lock: makes an end of a connection that was lost. */
static void bury(od_conn *conn)
{
    char text[OD_ERROR_MESSAGE_SIZE + 400];

    if (conn->outgoing && conn->lost_code == OD_E_CONNECTION_LOST)
        snprintf(text, sizeof text, "lost the connection to '%s': %s", conn->endpoint.authority, conn->lost_why);
    else if (conn->outgoing)
        snprintf(text, sizeof text, "%s", conn->lost_why);
    else
        snprintf(text, sizeof text, "lost the connection from '%s': %s", conn->peer, conn->lost_why);
    die(conn, conn->lost_code, text);
}

/* The loop's thread, without the lock. Whoever scans ports must not fill the log. */
static void log_refused(od_conn *conn)
{
    od_loop *loop = conn->loop;
    int64_t now = od_clock_ns();
    char why[OD_ERROR_MESSAGE_SIZE];

    if (loop->refused_logged_ns != 0 && now - loop->refused_logged_ns < REFUSED_LOG_NS)
        return;
    loop->refused_logged_ns = now;
    od_log(OD_LOG_INFO, "rpc", "refused a connection", "peer=%s why=%s", conn->peer,
           od_log_quote(conn->lost_why, why, sizeof why));
}

void od_conn_work(od_conn *conn)
{
    bool over, refused, watched;

    pthread_mutex_lock(&conn->lock);
    for (;;) {
        od_rpc_call *call = next_listed(conn);
        od_tell tell;

        if (!call) {
            write_out(conn);
            if (conn->lost)
                bury(conn);
            if (!conn->events)
                break;
            continue;
        }
        if (!od_rpc_call_pick(call, &tell))
            continue;
        od_conn_list_event(conn, call); /* there may be more */
        od_rpc_call_ref(call);
        pthread_mutex_unlock(&conn->lock);
        od_rpc_call_run(call, &tell);
        od_rpc_call_unref(call);
        pthread_mutex_lock(&conn->lock);
    }
    over = conn->dead && !conn->calls && !conn->buried;
    refused = over && conn->shaking && !conn->outgoing && conn->lost;
    if (over)
        conn->buried = true;
    watched = conn->dead && conn->watches;
    pthread_mutex_unlock(&conn->lock);
    if (watched)
        od_conn_tell_watches(conn);
    if (refused)
        log_refused(conn);
    if (over)
        od_loop_remove_conn(conn->loop, conn);
}

/* ---- once a second ---- */

static void check_stalls(od_conn *conn, int64_t now)
{
    int64_t limit = conn->loop->server->options.stall_timeout_ms * 1000000;
    od_h2_stream *next;
    char text[120];

    snprintf(text, sizeof text, "timed out: the peer took no bytes for %lld seconds",
             (long long)(conn->loop->server->options.stall_timeout_ms / 1000));
    for (od_h2_stream *s = od_h2_first_stream(conn->h2); s; s = next) {
        od_rpc_call *call = (od_rpc_call *)s; /* its first member */
        next = s->next;
        if (s->queued > 0 && now - call->progress_ns > limit)
            od_h2_reset(s, NGHTTP2_CANCEL, OD_E_TIMEOUT, text);
    }
    if (!od_h2_blocked(conn->h2))
        conn->stalled_ns = 0;
    else if (conn->stalled_ns == 0)
        conn->stalled_ns = now;
    else if (now - conn->stalled_ns > limit)
        od_conn_lose(conn, OD_E_CONNECTION_LOST, text);
}

static void check_idle(od_conn *conn, int64_t now)
{
    int64_t limit = conn->loop->server->options.ping_after_ms * 1000000;

    /* A client that pauses in the middle of a call answers no pings, so only connections without calls are asked. */
    if (od_h2_stream_count(conn->h2) > 0 || conn->watches)
        return;
    if (!od_h2_ping_pending(conn->h2)) {
        if (now - conn->last_input_ns > limit) {
            od_h2_ping(conn->h2);
            conn->ping_ns = now;
        }
    } else if (now - conn->ping_ns > limit) {
        od_conn_lose(conn, OD_E_CONNECTION_LOST, "no answer to a ping");
    }
}

void od_conn_tick(od_conn *conn, int64_t now)
{
    pthread_mutex_lock(&conn->lock);
    if (!conn->dead && !conn->lost) {
        if (conn->connecting || conn->resolving) {
            od_error err = {0};
            if (now >= conn->connect_by_ns) {
                od_socket_connect_failed(&conn->endpoint, ETIMEDOUT, &err);
                od_conn_lose(conn, OD_E_UNAVAILABLE, err.message);
            }
        } else if (conn->shaking) {
            if (now >= conn->connect_by_ns)
                fail_handshake(conn, "the TLS handshake timed out");
        } else {
            check_stalls(conn, now);
            check_idle(conn, now);
        }
        od_loop_ready(conn->loop, conn);
    }
    pthread_mutex_unlock(&conn->lock);
}

int64_t od_conn_next_tick(od_conn *conn, int64_t now)
{
    int64_t next = INT64_MAX;

    pthread_mutex_lock(&conn->lock);
    if (!conn->dead && !conn->lost && (conn->connecting || conn->resolving || conn->shaking))
        next = conn->connect_by_ns > now ? conn->connect_by_ns : now;
    pthread_mutex_unlock(&conn->lock);
    return next;
}
