/* Client-side calls on a server's loop: a kept connection for each endpoint, made in the background. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "query/rpc/server.h"
#include "query/rpc/socket.h"
#include "base/banned.h"

enum { USER_TIMEOUT_MS = 30000 };

/* ---- connecting: under the connection's lock ---- */

static void fail(od_conn *conn, int errnum)
{
    od_error err = {0};

    od_socket_connect_failed(&conn->endpoint, errnum, &err);
    od_conn_lose(conn, err.code, err.message);
}

/* Begins with the next address there is. */
static void connect_next(od_conn *conn)
{
    while (conn->next_address) {
        const struct addrinfo *address = conn->next_address;
        int fd;

        conn->next_address = address->ai_next;
        conn->connect_errno = od_socket_connect_start(address, &fd);
        if (conn->connect_errno != 0)
            continue;
        conn->fd = fd;
        conn->connecting = true;
        if (od_loop_watch(conn->loop, conn, true, true))
            return;
        conn->connect_errno = errno;
        close(fd);
        conn->fd = -1;
    }
    conn->connecting = false;
    fail(conn, conn->connect_errno);
}

static void begin_tls(od_conn *conn)
{
    od_tls *tls = conn->loop->server->options.peer_tls;
    od_error err = {0};

    conn->shaking = true;
    if (od_tls_conn_create(tls, conn->fd, conn->endpoint.host, &conn->tls, &err) != OD_OK)
        od_conn_lose(conn, err.code, err.message);
    else
        od_conn_shake(conn);
}

void od_conn_connect_step(od_conn *conn)
{
    int errnum = od_socket_connect_result(conn->fd);

    if (errnum == 0) {
        conn->connecting = false;
        conn->last_input_ns = od_clock_ns();
        od_socket_tune(conn->fd, USER_TIMEOUT_MS);
        if (conn->endpoint.tls)
            begin_tls(conn);
        return;
    }
    conn->connect_errno = errnum;
    od_loop_unwatch(conn->loop, conn);
    close(conn->fd);
    conn->fd = -1;
    connect_next(conn);
}

static void resolved(od_conn *conn, struct addrinfo *list)
{
    conn->addresses = conn->next_address = list;
    conn->connect_errno = EADDRNOTAVAIL;
    connect_next(conn);
}

/* Name servers take their time, so a name is looked up on a thread of its own. */
static void *resolve(void *arg)
{
    od_conn *conn = arg;
    struct addrinfo *list;
    od_error err = {0};
    od_code rc = od_socket_resolve(&conn->endpoint, false, &list, &err);

    pthread_mutex_lock(&conn->lock);
    if (conn->dead || conn->lost) {
        if (list)
            freeaddrinfo(list);
    } else {
        conn->resolving = false;
        if (rc == OD_OK)
            resolved(conn, list);
        else
            od_conn_lose(conn, rc, err.message);
        od_loop_post(conn->loop, conn);
    }
    pthread_mutex_unlock(&conn->lock);
    od_conn_unref(conn);
    return NULL;
}

static void begin(od_conn *conn)
{
    struct addrinfo *list;
    pthread_attr_t attr;
    pthread_t thread;

    if (od_socket_resolve(&conn->endpoint, true, &list, NULL) == OD_OK) {
        resolved(conn, list);
        return;
    }
    conn->resolving = true;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, resolve, od_conn_ref(conn)) != 0) {
        od_conn_unref(conn);
        conn->resolving = false;
        fail(conn, EAGAIN);
    }
    pthread_attr_destroy(&attr);
}

/* A new connection, in the loop's list; the list's reference is the only one that stays. */
static od_code make_conn(od_loop *loop, const od_endpoint *endpoint, od_conn **out, od_error *err)
{
    od_conn *conn;

    if (endpoint->tls && !loop->server->options.peer_tls)
        return od_fail(err, OD_E_INVALID, "no TLS is set up for calls to '%s'", endpoint->authority);
    conn = od_conn_create(loop, true, endpoint->tls);
    if (!conn)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a connection to '%s'", endpoint->authority);
    conn->endpoint = *endpoint;
    snprintf(conn->peer, sizeof conn->peer, "%s", endpoint->authority);
    conn->connect_by_ns = od_clock_ns() + loop->server->options.connect_timeout_ms * 1000000;
    *out = od_conn_ref(conn);
    if (!od_loop_add_conn(loop, conn)) {
        od_conn_unref(conn);
        od_conn_unref(conn);
        *out = NULL;
        return od_fail(err, OD_E_CANCELLED, "the server is shutting down");
    }
    pthread_mutex_lock(&conn->lock);
    begin(conn);
    pthread_mutex_unlock(&conn->lock);
    return OD_OK;
}

static bool goes_to(const od_conn *conn, const od_endpoint *endpoint)
{
    return conn->outgoing && conn->endpoint.tls == endpoint->tls &&
           strcmp(conn->endpoint.authority, endpoint->authority) == 0;
}

/* A reference to the loop's N-th connection to ENDPOINT. */
static od_conn *nth_conn(od_loop *loop, const od_endpoint *endpoint, unsigned n)
{
    od_conn *found = NULL;

    pthread_mutex_lock(&loop->lock);
    for (od_conn *c = loop->conns; c && !found; c = c->next)
        if (goes_to(c, endpoint) && n-- == 0)
            found = od_conn_ref(c);
    pthread_mutex_unlock(&loop->lock);
    return found;
}

/* Under the lock of CONN: opens a call on it. */
static od_code open_on(od_conn *conn, const char *path, od_deadline deadline, const od_rpc_events *events, void *user,
                       od_rpc_call **out, od_error *err)
{
    od_rpc_call *call = od_rpc_call_create(conn, false);
    int64_t left = -1;
    od_code rc;

    if (!call)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a call to '%s'", conn->endpoint.authority);
    call->events = events;
    call->user = user;
    call->deadline = deadline;
    snprintf(call->stream.path, sizeof call->stream.path, "%s", path);
    if (deadline.at_ns != OD_DEADLINE_NEVER.at_ns) {
        left = deadline.at_ns - od_clock_ns();
        left = left < 0 ? 0 : left;
    }
    rc = od_h2_request(conn->h2, &call->stream, path, conn->endpoint.authority, left, err);
    if (rc != OD_OK) {
        conn->calls = call->next_call;
        if (conn->calls)
            conn->calls->prev_call = NULL;
        od_rpc_call_unref(call);
        return rc;
    }
    od_loop_set_timer(conn->loop, call, deadline);
    *out = od_rpc_call_ref(call);
    od_conn_touch(conn);
    return OD_OK;
}

od_code od_rpc_call_open_after(od_rpc_call *like, const od_endpoint *endpoint, const char *path,
                               od_deadline grpc_deadline, const od_rpc_events *events, void *user, od_rpc_call **out,
                               od_error *err)
{
    od_loop *loop = like->conn->loop;
    od_conn *conn;
    bool usable = false;
    od_code rc = OD_OK;

    *out = NULL;
    for (unsigned n = 0; (conn = nth_conn(loop, endpoint, n)) != NULL; n++) {
        pthread_mutex_lock(&conn->lock);
        usable = !conn->dead && !conn->lost && od_h2_accepts(conn->h2);
        if (usable)
            break;
        pthread_mutex_unlock(&conn->lock);
        od_conn_unref(conn);
    }
    if (!conn) {
        rc = make_conn(loop, endpoint, &conn, err);
        if (rc != OD_OK)
            return rc;
        pthread_mutex_lock(&conn->lock);
    }
    rc = open_on(conn, path, grpc_deadline, events, user, out, err);
    pthread_mutex_unlock(&conn->lock);
    od_conn_unref(conn);
    return rc;
}

od_code od_rpc_call_open(od_rpc_call *like, const od_endpoint *endpoint, const char *path, od_deadline grpc_deadline,
                         const od_rpc_events *events, void *user, od_rpc_call **out, od_error *err)
{
    *out = NULL;
    if (od_rpc_call_is_gone(like))
        return od_fail(err, OD_E_CANCELLED, "the call has ended");
    return od_rpc_call_open_after(like, endpoint, path, grpc_deadline, events, user, out, err);
}
