#include "vgi/worker/connections.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"

#include "base/banned.h"

enum { DEFAULT_MAX = 64 };

typedef struct connection {
    struct connection *next;
    struct acceptor *acceptor;
    pthread_t thread;
    int fd;
    atomic_bool over;
} connection;

typedef struct acceptor {
    const vgiw_connections *options;
    int ended[2]; /* a pipe: readable once one is over */
    connection *list;
    unsigned count;
} acceptor;

static void *run(void *arg)
{
    connection *c = arg;
    ssize_t ignored;

    c->acceptor->options->serve(c->acceptor->options->arg, c->fd);
    atomic_store(&c->over, true);
    ignored = write(c->acceptor->ended[1], "", 1);
    (void)ignored;
    return NULL;
}

static void finish(connection *c)
{
    pthread_join(c->thread, NULL);
    close(c->fd);
    od_free(c);
}

static void reap(acceptor *a)
{
    char waste[64];

    while (read(a->ended[0], waste, sizeof waste) > 0)
        ;
    for (connection **at = &a->list; *at != NULL;) {
        connection *c = *at;

        if (!atomic_load(&c->over)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        a->count--;
        finish(c);
    }
}

/* One that cannot be served is closed: the client is told by that. */
static void take(acceptor *a)
{
    connection *c = NULL;
    int fd = accept4(a->options->listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    c = od_calloc(1, sizeof *c);
    if (c != NULL) {
        c->acceptor = a;
        c->fd = fd;
        atomic_init(&c->over, false);
        if (od_thread_create(&c->thread, run, c) == 0) {
            c->next = a->list;
            a->list = c;
            a->count++;
            return;
        }
    }
    od_free(c);
    close(fd);
}

od_code vgiw_connections_run(const vgiw_connections *options, od_error *err)
{
    acceptor a = {.options = options, .ended = {-1, -1}};
    unsigned max = options->max > 0 ? options->max : DEFAULT_MAX;
    od_code rc = OD_OK;

    if (pipe2(a.ended, O_CLOEXEC | O_NONBLOCK) != 0)
        OD_TRY(od_fail_errno(err, OD_E_IO, errno, "cannot make a pipe"));
    for (;;) {
        struct pollfd fds[] = {{options->worker->stop[0], POLLIN, 0},
                               {a.ended[0], POLLIN, 0},
                               {a.count < max ? options->listener : -1, POLLIN, 0}};

        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            OD_TRY(od_fail_errno(err, OD_E_IO, errno, "cannot wait for clients"));
        if (fds[0].revents != 0)
            break;
        if (fds[1].revents != 0)
            reap(&a);
        if (fds[2].revents != 0)
            take(&a);
    }
out:
    close(options->listener);
    for (connection *c = a.list; c != NULL; c = c->next)
        (void)shutdown(c->fd, SHUT_RDWR);
    while (a.list != NULL) {
        connection *next = a.list->next;

        finish(a.list);
        a.list = next;
    }
    if (a.ended[0] >= 0) {
        close(a.ended[0]);
        close(a.ended[1]);
    }
    return rc;
}
