/* A socket in the file system. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "vgi/worker/connections.h"

#include "base/banned.h"

static od_code make_address(const char *path, struct sockaddr_un *out, od_error *err)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (path == NULL || path[0] == '\0' || strlen(path) >= sizeof out->sun_path)
        return od_fail(err, OD_E_INVALID, "the path of a socket has 1 to %zu bytes", sizeof out->sun_path - 1);
    memcpy(out->sun_path, path, strlen(path) + 1);
    return OD_OK;
}

/* Whether a dead process has left the socket at ADDRESS. */
static bool is_left(const struct sockaddr_un *address)
{
    struct stat st;
    int fd, rc;

    if (lstat(address->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    rc = connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 ? errno : 0;
    close(fd);
    return rc == ECONNREFUSED;
}

static int bind_own(int fd, const struct sockaddr_un *address)
{
    int rc = bind(fd, (const struct sockaddr *)address, sizeof *address) != 0 ? errno : 0;

    /* Nobody can connect before it listens, so nobody does before this. */
    if (rc == 0 && chmod(address->sun_path, S_IRUSR | S_IWUSR) != 0)
        rc = errno;
    return rc;
}

static od_code listen_at(const struct sockaddr_un *address, int *out, od_error *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc;

    if (fd < 0)
        return od_fail_errno(err, OD_E_IO, errno, "cannot make a socket");
    rc = bind_own(fd, address);
    if (rc == EADDRINUSE && is_left(address) && unlink(address->sun_path) == 0)
        rc = bind_own(fd, address);
    if (rc == 0 && listen(fd, SOMAXCONN) != 0)
        rc = errno;
    if (rc != 0) {
        close(fd);
        return od_fail_errno(err, rc == EADDRINUSE ? OD_E_EXISTS : OD_E_UNAVAILABLE, rc, "cannot listen at '%s'",
                             address->sun_path);
    }
    *out = fd;
    return OD_OK;
}

static void serve(void *arg, int fd)
{
    (void)od_vgiw_serve(arg, fd, fd, NULL); /* a client that goes away in the middle is its own business */
}

static void tell_ready(const od_vgiw_listen *options, const char *path)
{
    char whole[PATH_MAX], location[PATH_MAX + 16];

    if (options == NULL || options->ready == NULL)
        return;
    snprintf(location, sizeof location, "unix://%s", realpath(path, whole) != NULL ? whole : path);
    options->ready(options->arg, location);
}

od_vgiw_code od_vgiw_serve_unix(od_vgiw *worker, const char *path, const od_vgiw_listen *options, od_vgiw_error *err)
{
    vgiw_connections connections = {
        .worker = worker, .max = options != NULL ? options->max_connections : 0, .serve = serve, .arg = worker};
    od_error why = {.code = OD_OK};
    struct sockaddr_un address;
    od_code rc;

    OD_TRY(make_address(path, &address, &why));
    OD_TRY(listen_at(&address, &connections.listener, &why));
    tell_ready(options, path);
    rc = vgiw_connections_run(&connections, &why);
    (void)unlink(path);
out:
    return rc == OD_OK ? OD_VGIW_OK : vgiw_fail(err, &why);
}
