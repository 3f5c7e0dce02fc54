#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include "vgi/transport/link_internal.h"

#include "base/banned.h"

extern char **environ;

/* The worker runs beside a guard in one process group. The guard waits for the end of descriptor 3, whose other end this process
 * alone has: so the worker goes when we do, also when we are killed. It gives it time to end by itself, then to be terminated. */
static const char script[] =
    "(trap '' TERM INT HUP; exec </dev/null >/dev/null 2>&1; read -r _ <&3; exec 3<&-; sleep 2; "
    "kill -TERM 0; sleep 2; kill -KILL 0) & exec 3<&-; exec /bin/sh -c \"$0\"";

enum { PIPES = 4, FIRST_FREE = 10, PIPE_BYTES = 1 << 20 };

typedef struct {
    int theirs[PIPES]; /* the child's descriptor i */
    int ours[PIPES];
} pipes;

static void close_all(int *fds)
{
    for (int i = 0; i < PIPES; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Above what the child's own descriptors become, and closed by every exec. */
static int lift(int fd)
{
    int lifted = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE) : -1;

    if (fd >= 0)
        close(fd);
    return lifted;
}

static int open_pipes(pipes *p)
{
    for (int i = 0; i < PIPES; i++)
        p->theirs[i] = p->ours[i] = -1;
    for (int i = 0; i < PIPES; i++) {
        int ends[2];
        bool to_child = i == 0 || i == 3;

        if (pipe2(ends, O_CLOEXEC) != 0)
            return errno;
        p->theirs[i] = lift(ends[to_child ? 0 : 1]);
        p->ours[i] = lift(ends[to_child ? 1 : 0]);
        if (p->theirs[i] < 0 || p->ours[i] < 0)
            return errno;
    }
    return 0;
}

static int set_attributes(posix_spawnattr_t *attr)
{
    sigset_t none, all;
    int rc = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);

    sigemptyset(&none);
    sigfillset(&all);
    if (rc == 0)
        rc = posix_spawnattr_setsigmask(attr, &none);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(attr, &all);
    return rc;
}

static int set_files(posix_spawn_file_actions_t *actions, const pipes *p)
{
    int rc = 0;

    for (int i = 0; i < PIPES && rc == 0; i++)
        rc = posix_spawn_file_actions_adddup2(actions, p->theirs[i], i);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(actions, PIPES);
    return rc;
}

static int start(const char *command, const pipes *p, pid_t *pid)
{
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t)script,
                    (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc == 0) {
        rc = set_attributes(&attr);
        if (rc == 0)
            rc = set_files(&actions, p);
        if (rc == 0)
            rc = posix_spawn(pid, "/bin/sh", &actions, &attr, argv, environ);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

od_code od_vgi_spawn(const char *command, od_vgi_link *link, od_error *err)
{
    pipes p;
    int failed = open_pipes(&p);

    if (failed == 0)
        failed = start(command, &p, &link->pid);
    close_all(p.theirs);
    if (failed != 0) {
        close_all(p.ours);
        link->pid = -1;
        return od_fail_errno(err, OD_E_UNAVAILABLE, failed, "cannot start the worker");
    }
    link->out = p.ours[0];
    link->in = p.ours[1];
    link->log = p.ours[2];
    link->life = p.ours[3];
    for (int i = 0; i < 3; i++)
        (void)fcntl(p.ours[i], F_SETFL, O_NONBLOCK);
    (void)fcntl(link->in, F_SETPIPE_SZ, PIPE_BYTES);
    snprintf(link->shown, sizeof link->shown, "the worker process %d", (int)link->pid);
    return OD_OK;
}
