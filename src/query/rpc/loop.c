/* The loop: waits for sockets, timers and other threads, and lets connections work. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "query/rpc/server.h"
#include "base/banned.h"

enum { MAX_EVENTS = 64 };
static const int64_t TICK_NS = 1000000000;

od_code od_loop_init(od_loop *loop, od_rpc_server *server, od_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = loop};

    memset(loop, 0, sizeof *loop);
    loop->source = OD_SOURCE_WAKE;
    loop->server = server;
    loop->ready_last = &loop->ready;
    pthread_mutex_init(&loop->lock, NULL);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->input = od_alloc(OD_H2_INPUT_SIZE);
    if (!loop->input)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a server loop");
    if (loop->wake_fd < 0 || loop->epoll_fd < 0 || epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) != 0)
        return od_fail_errno(err, OD_E_UNAVAILABLE, errno, "cannot start a server loop");
    return OD_OK;
}

void od_loop_release(od_loop *loop)
{
    if (!loop->server)
        return;
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    od_timers_release(&loop->timers);
    od_free(loop->input);
    pthread_mutex_destroy(&loop->lock);
    loop->server = NULL;
}

bool od_loop_is_current(const od_loop *loop)
{
    return loop->started && pthread_equal(loop->thread, pthread_self());
}

void od_loop_wake(od_loop *loop)
{
    uint64_t one = 1;
    ssize_t n = write(loop->wake_fd, &one, sizeof one);

    (void)n; /* only fails when the counter is full, and then the loop wakes anyway */
}

void od_loop_ready(od_loop *loop, od_conn *conn)
{
    if (conn->is_ready)
        return;
    conn->is_ready = true;
    conn->next_ready = NULL;
    *loop->ready_last = od_conn_ref(conn);
    loop->ready_last = &conn->next_ready;
}

void od_loop_post(od_loop *loop, od_conn *conn)
{
    bool wake = false;

    pthread_mutex_lock(&loop->lock);
    if (!conn->posted) {
        conn->posted = true;
        conn->next_posted = loop->posted;
        loop->posted = od_conn_ref(conn);
        wake = !loop->woken;
        loop->woken = true;
    }
    pthread_mutex_unlock(&loop->lock);
    if (wake)
        od_loop_wake(loop);
}

bool od_loop_watch(od_loop *loop, od_conn *conn, bool output, bool first)
{
    struct epoll_event event = {.events = EPOLLIN | (output ? EPOLLOUT : 0u), .data.ptr = conn};

    if (!first && output == conn->watching_out)
        return true;
    conn->watching_out = output;
    return epoll_ctl(loop->epoll_fd, first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, conn->fd, &event) == 0;
}

void od_loop_unwatch(od_loop *loop, od_conn *conn)
{
    /* Closing is not enough: a forked child may have a copy of the socket, and events of it would go on. */
    if (conn->fd >= 0)
        (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
}

bool od_loop_add_conn(od_loop *loop, od_conn *conn)
{
    bool added;

    pthread_mutex_lock(&loop->lock);
    added = !loop->stopping;
    if (added) {
        conn->prev = NULL;
        conn->next = loop->conns;
        if (loop->conns)
            loop->conns->prev = conn;
        loop->conns = conn;
        loop->conn_count++;
    }
    pthread_mutex_unlock(&loop->lock);
    return added;
}

void od_loop_remove_conn(od_loop *loop, od_conn *conn)
{
    pthread_mutex_lock(&loop->lock);
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        loop->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    loop->conn_count--;
    pthread_mutex_unlock(&loop->lock);
    od_conn_unref(conn);
}

/* ---- timers of calls ---- */

void od_loop_set_timer(od_loop *loop, od_rpc_call *call, od_deadline deadline)
{
    bool wake;

    if (deadline.at_ns == OD_DEADLINE_NEVER.at_ns)
        return;
    pthread_mutex_lock(&loop->lock);
    /* Without memory the deadline is not kept here; the peer has it too. */
    if (call->timer.place == 0 && od_timers_add(&loop->timers, &call->timer, deadline.at_ns))
        od_rpc_call_ref(call);
    wake = call->timer.place == 1 && !od_loop_is_current(loop);
    pthread_mutex_unlock(&loop->lock);
    if (wake)
        od_loop_wake(loop);
}

void od_loop_clear_timer(od_loop *loop, od_rpc_call *call)
{
    bool was_set;

    pthread_mutex_lock(&loop->lock);
    was_set = call->timer.place != 0;
    od_timers_remove(&loop->timers, &call->timer);
    pthread_mutex_unlock(&loop->lock);
    if (was_set)
        od_rpc_call_unref(call);
}

static void run_timers(od_loop *loop)
{
    for (;;) {
        od_timer *timer;
        od_rpc_call *call;

        pthread_mutex_lock(&loop->lock);
        timer = loop->timers.count ? od_timers_pop(&loop->timers, od_clock_ns()) : NULL;
        pthread_mutex_unlock(&loop->lock);
        if (!timer)
            return;
        call = (od_rpc_call *)((char *)timer - offsetof(od_rpc_call, timer));
        od_rpc_call_timeout(call);
        od_rpc_call_unref(call);
    }
}

/* ---- the round ---- */

/* References to all connections, in an array that the caller frees. */
static od_conn **all_conns(od_loop *loop, size_t *count)
{
    od_conn **all;

    pthread_mutex_lock(&loop->lock);
    *count = 0;
    all = od_calloc(loop->conn_count, sizeof(od_conn *));
    for (od_conn *c = all ? loop->conns : NULL; c; c = c->next)
        all[(*count)++] = od_conn_ref(c);
    pthread_mutex_unlock(&loop->lock);
    return all;
}

static void tick(od_loop *loop)
{
    int64_t now = od_clock_ns();
    size_t count;
    od_conn **all;

    if (now < loop->next_tick_ns)
        return;
    loop->next_tick_ns = now + TICK_NS;
    if (loop == loop->server->loops)
        od_server_tick(loop->server);
    all = all_conns(loop, &count);
    for (size_t i = 0; i < count; i++) {
        int64_t next;
        od_conn_tick(all[i], now);
        next = od_conn_next_tick(all[i], now);
        if (next < loop->next_tick_ns)
            loop->next_tick_ns = next;
        od_conn_unref(all[i]);
    }
    od_free(all);
}

static void take_posted(od_loop *loop)
{
    od_conn *conn, *next;

    pthread_mutex_lock(&loop->lock);
    for (conn = loop->posted; conn; conn = next) {
        /* Once `posted` is cleared and the lock is free, another thread may post it again and use the link. */
        next = conn->next_posted;
        conn->posted = false;
        od_loop_ready(loop, conn);
        od_conn_unref(conn); /* never the last: the ready list holds one */
    }
    loop->posted = NULL;
    loop->woken = false;
    pthread_mutex_unlock(&loop->lock);
}

static void work(od_loop *loop)
{
    while (loop->ready) {
        od_conn *conn = loop->ready;
        loop->ready = conn->next_ready;
        if (!loop->ready)
            loop->ready_last = &loop->ready;
        conn->is_ready = false;
        od_conn_work(conn);
        od_conn_unref(conn);
    }
}

static int wait_ms(od_loop *loop, int64_t now)
{
    int64_t at;

    pthread_mutex_lock(&loop->lock);
    at = od_timers_next(&loop->timers);
    if (loop->conn_count > 0 || loop == loop->server->loops)
        at = loop->next_tick_ns < at ? loop->next_tick_ns : at;
    pthread_mutex_unlock(&loop->lock);
    if (at == INT64_MAX)
        return -1;
    return at <= now ? 0 : od_deadline_poll_ms((od_deadline){at});
}

static void on_event(od_loop *loop, const struct epoll_event *event)
{
    uint64_t count;
    od_source source = *(const od_source *)event->data.ptr;

    if (source == OD_SOURCE_WAKE) {
        ssize_t n = read(loop->wake_fd, &count, sizeof count);
        (void)n; /* EAGAIN: already taken */
    } else if (source == OD_SOURCE_LISTENER) {
        od_server_accept(loop->server);
    } else {
        od_conn *conn = event->data.ptr;
        od_conn_input(conn, event->events & ~(uint32_t)EPOLLOUT, event->events & (EPOLLOUT | EPOLLERR | EPOLLHUP));
        od_loop_ready(loop, conn);
    }
}

static bool stopping(od_loop *loop)
{
    bool stop;

    pthread_mutex_lock(&loop->lock);
    stop = loop->stopping;
    pthread_mutex_unlock(&loop->lock);
    return stop;
}

/* Ends what is left; handlers may make work for others, so until nothing is. */
static void wind_up(od_loop *loop)
{
    for (;;) {
        od_conn *conn;
        pthread_mutex_lock(&loop->lock);
        conn = loop->conns ? od_conn_ref(loop->conns) : NULL;
        pthread_mutex_unlock(&loop->lock);
        if (!conn)
            break;
        od_conn_kill(conn, OD_E_CONNECTION_LOST, "the server is shutting down");
        od_loop_ready(loop, conn);
        od_conn_unref(conn);
        work(loop);
    }
    take_posted(loop);
    work(loop);
}

static void *run(void *arg)
{
    od_loop *loop = arg;
    struct epoll_event events[MAX_EVENTS];

    /* Waits until od_loop_start has set what a thread must find. */
    pthread_mutex_lock(&loop->lock);
    pthread_mutex_unlock(&loop->lock);
    while (!stopping(loop)) {
        int n = epoll_wait(loop->epoll_fd, events, MAX_EVENTS, wait_ms(loop, od_clock_ns()));
        for (int i = 0; i < n; i++)
            on_event(loop, &events[i]);
        take_posted(loop);
        run_timers(loop);
        tick(loop);
        work(loop);
    }
    wind_up(loop);
    return NULL;
}

od_code od_loop_start(od_loop *loop, od_error *err)
{
    int rc;

    /* The thread begins with this lock, so it sees what is set here. */
    pthread_mutex_lock(&loop->lock);
    rc = od_thread_create(&loop->thread, run, loop);
    loop->started = rc == 0;
    pthread_mutex_unlock(&loop->lock);
    return rc == 0 ? OD_OK : od_fail_errno(err, OD_E_UNAVAILABLE, rc, "cannot start a server loop");
}

void od_loop_stop(od_loop *loop)
{
    if (!loop->started)
        return;
    pthread_mutex_lock(&loop->lock);
    loop->stopping = true;
    pthread_mutex_unlock(&loop->lock);
    od_loop_wake(loop);
    pthread_join(loop->thread, NULL);
    loop->started = false;
}
