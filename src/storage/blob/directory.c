/* A directory, on a disk that several machines share, or on another one than the store's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "storage/blob/kinds.h"

#include "base/banned.h"

#define COPY_BYTES (1U << 20)
#define NAME_BYTES 300

typedef struct {
    int fd;
} directory;

od_code blob_directory_open(const char *path, void **out, od_error *err)
{
    directory *d = od_calloc(1, sizeof *d);

    if (d == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a directory");
    d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0) {
        int why = errno;

        od_free(d);
        return od_fail_errno(err, OD_E_IO, why, "cannot open the directory '%s'", path);
    }
    *out = d;
    return OD_OK;
}

static void directory_close(void *place)
{
    directory *d = place;

    close(d->fd);
    od_free(d);
}

static od_code fail(int why, od_error *err)
{
    if (why == ENOENT)
        return od_fail(err, OD_E_NOT_FOUND, "it is not there");
    return od_fail_errno(err, OD_E_IO, why, "the directory");
}

static od_code write_all(int fd, const uint8_t *data, size_t len, od_error *err)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(n < 0 ? errno : EIO, err);
        data += n;
        len -= (size_t)n;
    }
    return OD_OK;
}

static od_code copy(int fd, uint64_t size, od_blob_source source, void *arg, od_error *err)
{
    uint8_t *bytes = od_alloc(COPY_BYTES);
    od_code rc = bytes != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "no memory to copy");

    for (uint64_t at = 0; rc == OD_OK && at < size;) {
        size_t len = size - at < COPY_BYTES ? (size_t)(size - at) : COPY_BYTES;

        rc = source(arg, at, bytes, len, err);
        if (rc == OD_OK)
            rc = write_all(fd, bytes, len, err);
        at += len;
    }
    od_free(bytes);
    if (rc == OD_OK && fsync(fd) != 0)
        rc = fail(errno, err);
    return rc;
}

static od_code directory_put(void *place, const char *name, uint64_t size, od_blob_source source, void *arg,
                             od_error *err)
{
    const directory *d = place;
    char half[NAME_BYTES];
    od_code rc;
    int fd;

    snprintf(half, sizeof half, ".%s.%ld.part", name, (long)getpid());
    fd = openat(d->fd, half, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fail(errno, err);
    rc = copy(fd, size, source, arg, err);
    if (close(fd) != 0 && rc == OD_OK)
        rc = fail(errno, err);
    if (rc == OD_OK && renameat(d->fd, half, d->fd, name) != 0)
        rc = fail(errno, err);
    if (rc == OD_OK && fsync(d->fd) != 0)
        rc = fail(errno, err);
    if (rc != OD_OK)
        (void)unlinkat(d->fd, half, 0);
    return rc;
}

static od_code directory_read(void *place, const char *name, uint64_t at, void *out, size_t len, od_error *err)
{
    int fd = openat(((const directory *)place)->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    od_code rc = OD_OK;
    size_t have = 0;

    if (fd < 0)
        return fail(errno, err);
    while (rc == OD_OK && have < len) {
        ssize_t n = pread(fd, (uint8_t *)out + have, len - have, (off_t)(at + have));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            rc = n < 0 ? fail(errno, err)
                       : od_fail(err, OD_E_CORRUPT, "it ends at byte %llu", (unsigned long long)(at + have));
        else
            have += (size_t)n;
    }
    close(fd);
    return rc;
}

static od_code directory_size(void *place, const char *name, uint64_t *out, od_error *err)
{
    struct stat st;

    if (fstatat(((const directory *)place)->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return fail(errno, err);
    *out = (uint64_t)st.st_size;
    return OD_OK;
}

static od_code directory_remove(void *place, const char *name, od_error *err)
{
    const directory *d = place;

    if (unlinkat(d->fd, name, 0) != 0)
        return errno == ENOENT ? OD_OK : fail(errno, err);
    return fsync(d->fd) == 0 ? OD_OK : fail(errno, err);
}

const blob_kind blob_directory = {
    .put = directory_put,
    .read = directory_read,
    .size = directory_size,
    .remove = directory_remove,
    .close = directory_close,
};
