/* Listens, hands connections to the loops, drains. */
#include "query/rpc/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "query/rpc/socket.h"
#include "base/banned.h"

enum {
    DEFAULT_THREADS = 2,
    MAX_THREADS = 64,
    DEFAULT_CONNECT_MS = 5000,
    DEFAULT_STALL_MS = 300000,
    DEFAULT_PING_MS = 60000,
    DEFAULT_CONNECTIONS = 4096,
    DEFAULT_SEND_QUEUE = 2 << 20,
    ACCEPTS_A_ROUND = 64
};

static void set_defaults(od_rpc_server_options *o)
{
    if (o->threads == 0)
        o->threads = DEFAULT_THREADS;
    if (o->threads > MAX_THREADS)
        o->threads = MAX_THREADS;
    if (o->max_message == 0)
        o->max_message = OD_RPC_MAX_MESSAGE;
    if (o->max_message > UINT32_MAX)
        o->max_message = UINT32_MAX;
    if (o->stream_window == 0)
        o->stream_window = OD_H2_RELAY_WINDOW;
    if (o->stream_window > INT32_MAX)
        o->stream_window = INT32_MAX;
    if (o->send_queue == 0)
        o->send_queue = DEFAULT_SEND_QUEUE;
    if (o->max_streams == 0)
        o->max_streams = OD_H2_MAX_STREAMS;
    if (o->max_connections == 0)
        o->max_connections = DEFAULT_CONNECTIONS;
    if (o->connect_timeout_ms <= 0)
        o->connect_timeout_ms = DEFAULT_CONNECT_MS;
    if (o->ping_after_ms <= 0)
        o->ping_after_ms = DEFAULT_PING_MS;
    if (o->stall_timeout_ms <= 0)
        o->stall_timeout_ms = DEFAULT_STALL_MS;
}

static od_rpc_server *create(const od_rpc_server_options *options)
{
    od_rpc_server *server = od_calloc(1, sizeof *server);

    if (!server)
        return NULL;
    server->options = *options;
    (void)od_tls_ref(server->options.tls);
    (void)od_tls_ref(server->options.peer_tls);
    set_defaults(&server->options);
    server->listener = (od_listener){OD_SOURCE_LISTENER, -1, false};
    pthread_mutex_init(&server->lock, NULL);
    od_cond_init(&server->idle);
    server->methods = od_calloc(options->method_count, sizeof *server->methods);
    server->meters = od_calloc(options->method_count + 1, sizeof *server->meters);
    server->loops = od_calloc(server->options.threads, sizeof *server->loops);
    if (!server->methods || !server->meters || !server->loops) {
        od_rpc_server_free(server);
        return NULL;
    }
    if (options->method_count > 0)
        memcpy(server->methods, options->methods, options->method_count * sizeof *server->methods);
    server->options.methods = server->methods;
    for (size_t i = 0; i <= options->method_count; i++)
        od_meter_make(options->metrics, i < options->method_count ? server->methods[i].path : NULL, &server->meters[i]);
    server->options.listen = NULL;
    return server;
}

static double open_connections(void *arg)
{
    return atomic_load(&((od_rpc_server *)arg)->conn_count);
}

static od_code watch_connections(od_rpc_server *server, od_error *err)
{
    static const od_metric open = {.kind = OD_METRIC_GAUGE,
                                   .name = "openduck.rpc.server.connections",
                                   .prometheus_name = "openduck_rpc_server_connections",
                                   .unit = "{connection}",
                                   .help = "Open connections of clients"};
    static const od_metric accepted = {.kind = OD_METRIC_COUNTER,
                                       .name = "openduck.rpc.server.connections.accepted",
                                       .prometheus_name = "openduck_rpc_server_connections_accepted_total",
                                       .unit = "{connection}",
                                       .help = "Connections of clients that were accepted"};

    server->accepted = od_metrics_counter(server->options.metrics, &accepted, NULL, 0);
    return od_metrics_watch(server->options.metrics, &open, NULL, 0, open_connections, server, err);
}

static bool watch_listener(od_rpc_server *server, int operation, bool on)
{
    struct epoll_event event = {.events = on ? EPOLLIN : 0u, .data.ptr = &server->listener};

    return epoll_ctl(server->loops[0].epoll_fd, operation, server->listener.fd, &event) == 0;
}

od_code od_rpc_server_start(const od_rpc_server_options *options, od_rpc_server **out, od_error *err)
{
    od_rpc_server *server = NULL;
    od_endpoint endpoint;
    od_code rc;

    *out = NULL;
    OD_TRY(od_listen_parse(od_slice_str(options->listen), &endpoint, err));
    server = create(options);
    if (!server) {
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory for a server");
        goto out;
    }
    OD_TRY(watch_connections(server, err));
    OD_TRY(od_socket_listen(&endpoint, &server->listener.fd, &server->port, err));
    for (unsigned i = 0; i < server->options.threads; i++) {
        server->loop_count = i + 1;
        OD_TRY(od_loop_init(&server->loops[i], server, err));
    }
    for (unsigned i = 0; i < server->loop_count; i++)
        OD_TRY(od_loop_start(&server->loops[i], err));
    /* Last, so that no connection is given to a loop that does not run yet. */
    if (!watch_listener(server, EPOLL_CTL_ADD, true)) {
        rc = od_fail_errno(err, OD_E_UNAVAILABLE, errno, "cannot listen on '%s'", endpoint.authority);
        goto out;
    }
    *out = server;
    server = NULL;

out:
    od_rpc_server_free(server);
    return rc;
}

uint16_t od_rpc_server_port(const od_rpc_server *server)
{
    return server->port;
}

void od_server_accept(od_rpc_server *server)
{
    for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
        int fd = accept4(server->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            /* Out of something: try again at the next tick instead of spinning. */
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                server->listener.paused = watch_listener(server, EPOLL_CTL_MOD, false);
            if (errno != EINTR && errno != ECONNABORTED)
                return;
            continue;
        }
        if (atomic_load(&server->draining) || atomic_load(&server->conn_count) >= server->options.max_connections) {
            close(fd);
            continue;
        }
        od_counter_add(server->accepted, 1);
        od_conn_accept(&server->loops[server->next_loop++ % server->loop_count], fd);
    }
}

void od_server_tick(od_rpc_server *server)
{
    if (server->listener.paused && watch_listener(server, EPOLL_CTL_MOD, true))
        server->listener.paused = false;
}

void od_server_count_call(od_rpc_server *server, int change)
{
    pthread_mutex_lock(&server->lock);
    server->calls = change > 0 ? server->calls + 1 : server->calls - 1;
    if (server->calls == 0)
        pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->lock);
}

unsigned od_rpc_server_calls(const od_rpc_server *server)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&server->lock;
    unsigned calls;

    pthread_mutex_lock(lock);
    calls = server->calls;
    pthread_mutex_unlock(lock);
    return calls;
}

static void say_goodbye(od_loop *loop)
{
    /* The connections may only be walked under the loop's lock, and only be locked without it. */
    od_conn **all;
    size_t count = 0;

    pthread_mutex_lock(&loop->lock);
    all = od_calloc(loop->conn_count, sizeof(od_conn *));
    for (od_conn *c = all ? loop->conns : NULL; c; c = c->next)
        if (!c->outgoing)
            all[count++] = od_conn_ref(c);
    pthread_mutex_unlock(&loop->lock);
    for (size_t i = 0; i < count; i++) {
        od_conn *conn = all[i];
        pthread_mutex_lock(&conn->lock);
        if (!conn->dead) {
            od_h2_goaway(conn->h2);
            od_conn_touch(conn);
        }
        pthread_mutex_unlock(&conn->lock);
        od_conn_unref(conn);
    }
    od_free(all);
}

bool od_rpc_server_drain(od_rpc_server *server, od_deadline deadline)
{
    bool none;

    if (!atomic_exchange(&server->draining, true)) {
        (void)watch_listener(server, EPOLL_CTL_DEL, false);
        (void)shutdown(server->listener.fd, SHUT_RDWR); /* new connections are refused from here on */
        for (unsigned i = 0; i < server->loop_count; i++)
            say_goodbye(&server->loops[i]);
    }
    pthread_mutex_lock(&server->lock);
    while (server->calls > 0 && !od_deadline_passed(deadline)) {
        (void)od_cond_wait(&server->idle, &server->lock, deadline);
    }
    none = server->calls == 0;
    pthread_mutex_unlock(&server->lock);
    return none;
}

void od_rpc_server_free(od_rpc_server *server)
{
    if (!server)
        return;
    for (unsigned i = 0; i < server->loop_count; i++)
        od_loop_stop(&server->loops[i]);
    for (unsigned i = 0; i < server->loop_count; i++)
        od_loop_release(&server->loops[i]);
    if (server->listener.fd >= 0)
        close(server->listener.fd);
    od_tls_unref(server->options.tls);
    od_tls_unref(server->options.peer_tls);
    pthread_cond_destroy(&server->idle);
    pthread_mutex_destroy(&server->lock);
    od_free(server->loops);
    od_free(server->methods);
    od_free(server->meters);
    od_free(server);
}
