#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "vgi/transport/link_internal.h"

#include "base/banned.h"

enum { STEP_MS = 50, GONE_STEP_MS = 5, KILL_WAIT_MS = 6000, TAIL_SHOWN = 600, LAST_WORDS_MS = 2000, HEAD_BYTES = 1024 };

od_code od_vgi_link_open(const od_vgi_location *location, const od_vgi_wait *wait, od_vgi_link **out, od_error *err)
{
    od_vgi_link *link = od_calloc(1, sizeof *link);
    od_code rc;

    *out = NULL;
    if (link == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    link->in = link->out = link->log = link->life = -1;
    link->pid = -1;
    switch (location->scheme) {
    case OD_VGI_SUBPROCESS:
        rc = od_vgi_spawn(location->target, link, err);
        break;
    case OD_VGI_UNIX:
        rc = od_vgi_dial_unix(location->target, link, err);
        break;
    case OD_VGI_TCP:
        rc = od_vgi_dial_tcp(location->target, location->port, wait, link, err);
        break;
    default:
        rc = od_fail(err, OD_E_INTERNAL, "a location without sessions");
        break;
    }
    if (rc != OD_OK) {
        od_vgi_link_free(link);
        return rc;
    }
    *out = link;
    return OD_OK;
}

/* ---- stderr ---- */

void od_vgi_link_drain(od_vgi_link *link)
{
    char chunk[OD_VGI_TAIL];

    while (link->log >= 0) {
        ssize_t n = read(link->log, chunk, sizeof chunk);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            close(link->log);
            link->log = -1;
            return;
        }
        size_t len = (size_t)n, keep = OD_VGI_TAIL - len < link->tail_len ? OD_VGI_TAIL - len : link->tail_len;
        memmove(link->tail, link->tail + link->tail_len - keep, keep);
        memcpy(link->tail + keep, chunk, len);
        link->tail_len = keep + len;
    }
}

void od_vgi_link_stderr(od_vgi_link *link, char *out, size_t size)
{
    od_vgi_link_drain(link);
    size_t len = link->tail_len;
    while (len > 0 && (link->tail[len - 1] == '\n' || link->tail[len - 1] == ' '))
        len--;
    size_t from = len > size - 1 ? len - (size - 1) : 0;
    for (size_t i = from; i < len; i++) {
        unsigned char c = (unsigned char)link->tail[i];

        if (c < ' ' && c != '\n')
            out[i - from] = ' ';
        else
            out[i - from] = link->tail[i];
    }
    out[len - from] = '\0';
}

/* ---- waiting ---- */

static od_code give_up(const od_vgi_link *link, const od_vgi_wait *wait, od_error *err)
{
    if (wait->interrupt.stopped != NULL && wait->interrupt.stopped(wait->interrupt.arg))
        return od_fail(err, OD_E_CANCELLED, "the call to %s was given up", link->shown);
    if (od_deadline_passed(wait->deadline))
        return od_fail(err, OD_E_TIMEOUT, "timed out: %s does not go on", link->shown);
    return OD_OK;
}

od_code od_vgi_link_wait(od_vgi_link *link, int fd, short events, const od_vgi_wait *wait, od_error *err)
{
    for (;;) {
        struct pollfd items[2] = {{.fd = fd, .events = events}, {.fd = link->log, .events = POLLIN}};
        int ms = od_deadline_poll_ms(wait->deadline);

        if (wait->interrupt.stopped != NULL && (ms < 0 || ms > STEP_MS))
            ms = STEP_MS;
        if (poll(items, 2, ms) > 0) {
            if (items[1].revents != 0)
                od_vgi_link_drain(link);
            if (items[0].revents != 0)
                return OD_OK;
        }
        od_code rc = give_up(link, wait, err);
        if (rc != OD_OK)
            return rc;
    }
}

/* ---- the end of a process ---- */

/* Takes notice of the process's end, and ends its guard. */
static bool reap(od_vgi_link *link)
{
    siginfo_t info = {0};

    if (link->pid < 0)
        return true;
    int rc = waitid(P_PID, (id_t)link->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    if (rc == 0 && info.si_pid == 0)
        return false;
    /* While its leader is a zombie the group's number cannot be another's. */
    (void)kill(-link->pid, SIGKILL);
    if (rc != 0 || waitpid(link->pid, &link->status, 0) < 0)
        link->status = 0;
    link->pid = -1;
    return true;
}

bool od_vgi_link_gone(od_vgi_link *link, int64_t ms)
{
    od_deadline until = od_deadline_in_ms(ms);
    const struct timespec step = {.tv_nsec = GONE_STEP_MS * 1000000L};

    while (!reap(link)) {
        if (ms == 0 || od_deadline_passed(until))
            return false;
        od_vgi_link_drain(link); /* it may be stuck in a write */
        (void)nanosleep(&step, NULL);
    }
    return true;
}

/* The error of a link that broke. */
static od_code lost(od_vgi_link *link, od_error *err)
{
    char tail[TAIL_SHOWN] = "", how[64] = "";
    bool process = link->pid >= 0;

    if (process && od_vgi_link_gone(link, LAST_WORDS_MS)) {
        if (WIFSIGNALED(link->status))
            snprintf(how, sizeof how, ", killed by signal %d", WTERMSIG(link->status));
        else
            snprintf(how, sizeof how, ", exit code %d", WEXITSTATUS(link->status));
    }
    od_vgi_link_stderr(link, tail, sizeof tail);
    return od_fail(err, OD_E_CONNECTION_LOST, "%s ended before its answer was complete%s%s%s", link->shown, how,
                   tail[0] != '\0' ? "; its stderr ends with: " : "", tail);
}

/* ---- bytes ---- */

/* Memory for what is read ahead that nobody else has. */
static od_code renew_ahead(od_vgi_link *link, od_error *err)
{
    od_msg *fresh;
    od_code rc = OD_OK;

    if (link->ahead != NULL && !link->is_lent)
        return OD_OK;
    if (link->pool == NULL)
        OD_TRY(od_msg_pool_create(OD_VGI_AHEAD_KEPT, &link->pool, err));
    OD_TRY(od_msg_pool_take(link->pool, OD_VGI_AHEAD, 0, &fresh, err));
    od_msg_unref(link->ahead);
    link->ahead = fresh;
    link->is_lent = false;
out:
    return rc;
}

/* Waits until there is something: up to LEN bytes of it go to TO, *n of them, and what is there beyond to the bytes ahead. LEN 0: all of
 * it does. At least one byte comes. */
static od_code read_some(od_vgi_link *link, uint8_t *to, size_t len, const od_vgi_wait *wait, size_t *n, od_error *err)
{
    od_code rc = renew_ahead(link, err);

    if (rc != OD_OK)
        return rc;
    const struct iovec parts[2] = {{to, len}, {od_msg_data(link->ahead), OD_VGI_AHEAD}};
    const struct timespec gather = {.tv_nsec = wait->gather_ns};
    bool gathered = wait->gather_ns == 0;

    for (;;) {
        ssize_t got = readv(link->in, parts, 2);

        if (got > 0) {
            *n = (size_t)got < len ? (size_t)got : len;
            link->ahead_at = 0;
            link->ahead_len = (size_t)got - *n;
            return OD_OK;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return lost(link, err);
        if (errno == EAGAIN && !gathered) {
            gathered = true;
            (void)nanosleep(&gather, NULL);
        } else if (errno == EAGAIN) {
            rc = od_vgi_link_wait(link, link->in, POLLIN, wait, err);
            if (rc != OD_OK)
                return rc;
        }
    }
}

od_code od_vgi_link_read(od_vgi_link *link, void *to, size_t len, const od_vgi_wait *wait, od_error *err)
{
    uint8_t *at = to;

    while (len > 0) {
        size_t n = link->ahead_len < len ? link->ahead_len : len;

        if (n > 0) {
            memcpy(at, od_msg_data(link->ahead) + link->ahead_at, n);
            link->ahead_at += n;
            link->ahead_len -= n;
        } else {
            /* What follows a head can so be lent with it. */
            od_code rc = read_some(link, at, len < HEAD_BYTES ? 0 : len, wait, &n, err);

            if (rc != OD_OK)
                return rc;
        }
        at += n;
        len -= n;
    }
    return OD_OK;
}

bool od_vgi_link_lend(od_vgi_link *link, size_t head, size_t body, od_slice *message, od_msg **owner)
{
    if (link->ahead_len < body || link->ahead_len == 0 || link->ahead_at < head)
        return false;
    const uint8_t *at = od_msg_data(link->ahead) + link->ahead_at;

    if (((uintptr_t)at & 7) != 0)
        return false;
    *message = od_slice_of(at - head, head + body);
    *owner = od_msg_ref(link->ahead);
    link->is_lent = true;
    link->ahead_at += body;
    link->ahead_len -= body;
    return true;
}

size_t od_vgi_link_available(const od_vgi_link *link, size_t enough)
{
    int more = 0;

    if (link->ahead_len >= enough || link->in < 0 || ioctl(link->in, FIONREAD, &more) != 0 || more < 0)
        return link->ahead_len;
    return link->ahead_len + (size_t)more;
}

/* As write, without a SIGPIPE for the program that we are in. */
static ssize_t write_quietly(int fd, od_slice bytes)
{
    const struct timespec now = {0};
    sigset_t pipe, old, pending;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, &old);
    ssize_t n = write(fd, bytes.data, bytes.len);
    int saved = errno;
    if (n < 0 && saved == EPIPE && !sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = saved;
    return n;
}

od_code od_vgi_link_write(od_vgi_link *link, od_slice bytes, const od_vgi_wait *wait, od_error *err)
{
    while (bytes.len > 0) {
        ssize_t n = link->in == link->out ? send(link->out, bytes.data, bytes.len, MSG_NOSIGNAL)
                                          : write_quietly(link->out, bytes);

        if (n > 0) {
            bytes = od_slice_of(bytes.data + n, bytes.len - (size_t)n);
        } else if (errno != EAGAIN && errno != EINTR) {
            return lost(link, err);
        } else if (errno == EAGAIN) {
            od_code rc = od_vgi_link_wait(link, link->out, POLLOUT, wait, err);

            if (rc != OD_OK)
                return rc;
        }
    }
    return OD_OK;
}

bool od_vgi_link_usable(od_vgi_link *link)
{
    struct pollfd item = {.fd = link->in, .events = POLLIN};

    od_vgi_link_drain(link);
    return !link->ended && link->ahead_len == 0 && poll(&item, 1, 0) == 0;
}

int64_t od_vgi_link_pid(const od_vgi_link *link)
{
    return link->pid;
}

void od_vgi_link_end(od_vgi_link *link)
{
    if (link->ended)
        return;
    link->ended = true;
    if (link->out >= 0 && link->out != link->in)
        close(link->out);
    if (link->in >= 0)
        close(link->in);
    if (link->life >= 0)
        close(link->life);
    link->in = link->out = link->life = -1;
}

void od_vgi_link_free(od_vgi_link *link)
{
    if (link == NULL)
        return;
    od_vgi_link_end(link);
    if (!od_vgi_link_gone(link, KILL_WAIT_MS)) {
        (void)kill(-link->pid, SIGKILL);
        (void)waitpid(link->pid, &link->status, 0);
    }
    if (link->log >= 0)
        close(link->log);
    od_msg_unref(link->ahead);
    od_msg_pool_free(link->pool);
    od_free(link);
}
