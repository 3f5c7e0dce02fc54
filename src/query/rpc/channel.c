/* The pool of a blocking client's connections. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "query/rpc/client.h"
#include "query/rpc/socket.h"
#include "base/banned.h"

/* options.tls is the channel's own reference, NULL for a plain endpoint. */
enum { DEFAULT_CONNECT_MS = 5000, DEFAULT_MAX_IDLE = 8, USER_TIMEOUT_MS = 30000, STALE_READS = 64 };

struct od_channel {
    atomic_uint refs;
    od_channel_options options;
    atomic_int pid;       /* whose pool it is; 0 while a forked child takes it over */
    pthread_mutex_t lock; /* idle, idle_count; held for a few instructions */
    od_client_conn *idle;
    size_t idle_count;
};

od_code od_channel_create(const od_channel_options *options, od_channel **out, od_error *err)
{
    od_channel *channel = od_calloc(1, sizeof *channel);

    *out = NULL;
    if (!channel)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a channel");
    channel->options = *options;
    channel->options.tls = options->endpoint.tls ? od_tls_ref(options->tls) : NULL;
    if (options->endpoint.tls && !options->tls) {
        od_code rc = od_tls_create_client(NULL, &channel->options.tls, err);

        if (rc != OD_OK) {
            od_free(channel);
            return rc;
        }
    }
    if (channel->options.connect_timeout_ms <= 0)
        channel->options.connect_timeout_ms = DEFAULT_CONNECT_MS;
    if (channel->options.max_message == 0)
        channel->options.max_message = OD_RPC_MAX_MESSAGE;
    if (channel->options.max_message > UINT32_MAX)
        channel->options.max_message = UINT32_MAX;
    if (channel->options.max_idle == 0)
        channel->options.max_idle = DEFAULT_MAX_IDLE;
    atomic_init(&channel->refs, 1);
    atomic_init(&channel->pid, getpid());
    pthread_mutex_init(&channel->lock, NULL);
    *out = channel;
    return OD_OK;
}

od_channel *od_channel_ref(od_channel *channel)
{
    atomic_fetch_add_explicit(&channel->refs, 1, memory_order_relaxed);
    return channel;
}

static void free_list(od_client_conn *conn)
{
    while (conn) {
        od_client_conn *next = conn->next;
        od_client_conn_free(conn);
        conn = next;
    }
}

/* In a forked child: the parent's connections are closed here, and live on there. The lock may have been held by a thread
 * that the child does not have; what it guards is then left alone for ever, a few descriptors. */
static void take_over(od_channel *channel)
{
    int me = getpid(), owner = atomic_load(&channel->pid);
    od_client_conn *idle = NULL;

    while (owner != me) {
        if (owner == 0 || !atomic_compare_exchange_strong(&channel->pid, &owner, 0)) {
            owner = atomic_load(&channel->pid);
            continue;
        }
        if (pthread_mutex_trylock(&channel->lock) == 0) {
            idle = channel->idle;
            pthread_mutex_unlock(&channel->lock);
        } else {
            pthread_mutex_init(&channel->lock, NULL);
        }
        channel->idle = NULL;
        channel->idle_count = 0;
        atomic_store(&channel->pid, me);
        owner = me;
    }
    free_list(idle);
}

void od_channel_unref(od_channel *channel)
{
    if (!channel || atomic_fetch_sub_explicit(&channel->refs, 1, memory_order_acq_rel) != 1)
        return;
    take_over(channel);
    free_list(channel->idle);
    pthread_mutex_destroy(&channel->lock);
    od_tls_unref(channel->options.tls);
    od_free(channel);
}

const od_endpoint *od_channel_endpoint(const od_channel *channel)
{
    return &channel->options.endpoint;
}

size_t od_channel_max_message(const od_channel *channel)
{
    return channel->options.max_message;
}

const od_rpc_header *od_channel_headers(const od_channel *channel, size_t *count)
{
    *count = channel->options.header_count;
    return channel->options.headers;
}

/* ---- one connection ---- */

void od_client_conn_free(od_client_conn *conn)
{
    if (!conn)
        return;
    od_h2_free(conn->h2);
    if (conn->pid == getpid())
        od_tls_conn_bye(conn->tls);
    od_tls_conn_free(conn->tls);
    if (conn->fd >= 0)
        close(conn->fd);
    if (conn->wake >= 0)
        close(conn->wake);
    od_free(conn->input);
    od_free(conn);
}

static ssize_t conn_write(void *owner, const struct iovec *iov, int count)
{
    od_client_conn *conn = owner;
    return od_socket_write(conn->fd, iov, count);
}

/* The call asks its stream, so nothing needs to be told. */
static void ignore(void *owner, od_h2_stream *stream)
{
    (void)owner, (void)stream;
}

static ssize_t tls_write(void *owner, const struct iovec *iov, int count)
{
    return od_tls_conn_write(((od_client_conn *)owner)->tls, iov, count);
}

static int tls_push(void *owner)
{
    return od_tls_conn_push(((od_client_conn *)owner)->tls);
}

static const od_h2_hooks HOOKS = {.received = ignore, .drained = ignore, .closed = ignore, .write = conn_write};
static const od_h2_hooks TLS_HOOKS = {
    .received = ignore, .drained = ignore, .closed = ignore, .write = tls_write, .push = tls_push};

static od_code cannot_connect(const od_endpoint *endpoint, const char *why, od_error *err)
{
    return od_fail(err, OD_E_UNAVAILABLE, "cannot connect to '%s': %s", endpoint->authority, why);
}

/* The TLS handshake of a connection whose socket is connected. */
static od_code shake_hands(od_channel *channel, od_client_conn *conn, od_deadline deadline, od_interrupt interrupt,
                           od_error *err)
{
    const od_endpoint *endpoint = &channel->options.endpoint;
    od_tls_step step;
    od_code rc;

    OD_TRY(od_tls_conn_create(channel->options.tls, conn->fd, endpoint->host, &conn->tls, err));
    while ((step = od_tls_conn_handshake(conn->tls)) == OD_TLS_AGAIN) {
        short events = (short)(od_tls_conn_unsent(conn->tls) ? POLLIN | POLLOUT : POLLIN);
        int errnum = od_socket_wait(conn->fd, events, deadline, interrupt);

        if (errnum == ECANCELED)
            return od_fail(err, OD_E_CANCELLED, "connecting to '%s' was cancelled", endpoint->authority);
        if (errnum == ETIMEDOUT)
            return cannot_connect(endpoint, "the TLS handshake timed out", err);
        if (errnum != 0)
            return od_socket_connect_failed(endpoint, errnum, err);
    }
    /* The server's first bytes may have come with its last of the handshake, and the socket does not tell of them again. */
    if (step == OD_TLS_FAILED || od_client_conn_read(conn) == OD_READ_LOST)
        return cannot_connect(endpoint, od_tls_conn_why(conn->tls), err);

out:
    return rc;
}

static od_code make_conn(od_channel *channel, od_deadline connect, od_interrupt interrupt, od_client_conn **out,
                         od_error *err)
{
    const od_h2_options options = {
        .tls = channel->options.tls != NULL,
        .stream_window = OD_H2_CLIENT_WINDOW,
        .max_streams = 0,
        .max_message = channel->options.max_message,
    };
    od_client_conn *conn = od_calloc(1, sizeof *conn);
    od_code rc;

    *out = NULL;
    if (!conn)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a connection");
    conn->fd = conn->wake = -1;
    conn->pid = getpid();
    conn->input = od_alloc(OD_H2_INPUT_SIZE);
    if (!conn->input) {
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory for a connection");
        goto out;
    }
    conn->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (conn->wake < 0) {
        rc = od_fail_errno(err, OD_E_UNAVAILABLE, errno, "cannot connect to '%s'", channel->options.endpoint.authority);
        goto out;
    }
    OD_TRY(od_h2_create(&options, options.tls ? &TLS_HOOKS : &HOOKS, conn, &conn->h2, err));
    OD_TRY(od_socket_connect(&channel->options.endpoint, connect, interrupt, &conn->fd, err));
    od_socket_tune(conn->fd, USER_TIMEOUT_MS);
    if (options.tls)
        OD_TRY(shake_hands(channel, conn, connect, interrupt, err));
    *out = conn;
    conn = NULL;

out:
    od_client_conn_free(conn);
    return rc;
}

/* Reads the socket once, and takes all that it brought. */
static od_read_result read_tls(od_client_conn *conn)
{
    od_read_result result = OD_READ_NOTHING;

    for (bool fresh = true;; fresh = false) {
        struct iovec iov[2];
        int count = od_h2_read_plan(conn->h2, conn->input, iov);
        ssize_t n = od_tls_conn_read(conn->tls, iov, count, fresh);

        if (n < 0 && errno == EAGAIN)
            return result;
        if (n <= 0) {
            conn->ended = n == 0 && od_tls_conn_closed(conn->tls);
            (void)od_h2_break(conn->h2, od_tls_conn_why(conn->tls));
            return OD_READ_LOST;
        }
        if (!od_h2_received(conn->h2, iov, count, (size_t)n))
            return OD_READ_LOST;
        result = OD_READ_SOME;
    }
}

od_read_result od_client_conn_read(od_client_conn *conn)
{
    struct iovec iov[2];
    int count = od_h2_read_plan(conn->h2, conn->input, iov);
    ssize_t n;

    if (conn->tls)
        return read_tls(conn);
    do
        n = readv(conn->fd, iov, count);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        return od_h2_received(conn->h2, iov, count, (size_t)n) ? OD_READ_SOME : OD_READ_LOST;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return OD_READ_NOTHING;
    conn->ended = n == 0;
    return OD_READ_LOST;
}

/* Takes in what came while it lay idle: an end, a GOAWAY, the rest of a cancelled stream. */
bool od_client_conn_alive(od_client_conn *conn)
{
    for (int i = 0; i < STALE_READS; i++) {
        od_read_result result = od_client_conn_read(conn);
        if (result == OD_READ_LOST)
            return false;
        if (result == OD_READ_NOTHING)
            return od_h2_accepts(conn->h2);
    }
    return false;
}

static od_client_conn *pop_idle(od_channel *channel)
{
    od_client_conn *conn;

    pthread_mutex_lock(&channel->lock);
    conn = channel->idle;
    if (conn) {
        channel->idle = conn->next;
        channel->idle_count--;
    }
    pthread_mutex_unlock(&channel->lock);
    return conn;
}

od_code od_channel_take(od_channel *channel, bool only_new, od_deadline deadline, od_interrupt interrupt,
                        od_client_conn **out, od_error *err)
{
    od_deadline connect = od_deadline_min(deadline, od_deadline_in_ms(channel->options.connect_timeout_ms));
    od_client_conn *conn;

    take_over(channel);
    while (!only_new && (conn = pop_idle(channel)) != NULL) {
        conn->next = NULL;
        if (od_client_conn_alive(conn)) {
            conn->reused = true;
            *out = conn;
            return OD_OK;
        }
        od_client_conn_free(conn);
    }
    return make_conn(channel, connect, interrupt, out, err);
}

bool od_channel_hung_up(od_channel *channel)
{
    od_client_conn *conn;

    take_over(channel);
    conn = pop_idle(channel);
    if (!conn)
        return false;
    if (!od_client_conn_alive(conn)) {
        od_client_conn_free(conn);
        return true;
    }
    od_channel_give(channel, conn);
    return false;
}

void od_channel_give(od_channel *channel, od_client_conn *conn)
{
    bool keep = conn->pid == getpid() && !od_h2_unsent(conn->h2) && od_h2_accepts(conn->h2);

    if (keep) {
        take_over(channel);
        pthread_mutex_lock(&channel->lock);
        keep = channel->idle_count < channel->options.max_idle;
        if (keep) {
            conn->next = channel->idle;
            channel->idle = conn;
            channel->idle_count++;
        }
        pthread_mutex_unlock(&channel->lock);
    }
    if (!keep)
        od_client_conn_free(conn);
}
