#include "storage/io.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"

#include "base/banned.h"

typedef struct {
    int fd;
} posix_file;

static int posix_open(void *ctx, const char *path, od_io_mode mode, void **file)
{
    static const int flags[] = {O_RDONLY, O_RDWR, O_RDWR | O_CREAT | O_EXCL};
    posix_file *made = od_alloc(sizeof *made);

    (void)ctx;
    if (made == NULL)
        return ENOMEM;
    made->fd = open(path, flags[mode] | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (made->fd < 0) {
        int why = errno;

        od_free(made);
        return why;
    }
    *file = made;
    return 0;
}

static int posix_read(void *file, uint64_t at, void *data, size_t len, size_t *got)
{
    const posix_file *f = file;
    size_t have = 0;

    while (have < len) {
        ssize_t n = pread(f->fd, (uint8_t *)data + have, len - have, (off_t)(at + have));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    *got = have;
    return 0;
}

static int posix_write(void *file, uint64_t at, const od_io_part *parts, size_t n)
{
    const posix_file *f = file;
    struct iovec left[2];
    size_t first = 0;

    for (size_t i = 0; i < n; i++)
        left[i] = (struct iovec){.iov_base = (void *)(uintptr_t)parts[i].data, .iov_len = parts[i].len};
    for (;;) {
        ssize_t wrote;

        while (first < n && left[first].iov_len == 0)
            first++;
        if (first == n)
            return 0;
        wrote = pwritev(f->fd, left + first, (int)(n - first), (off_t)at);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return wrote < 0 ? errno : EIO;
        at += (uint64_t)wrote;
        for (size_t i = first; i < n && wrote > 0; i++) {
            size_t step = (size_t)wrote < left[i].iov_len ? (size_t)wrote : left[i].iov_len;

            left[i].iov_base = (uint8_t *)left[i].iov_base + step;
            left[i].iov_len -= step;
            wrote -= (ssize_t)step;
        }
    }
}

static int posix_sync(void *file)
{
    return fdatasync(((const posix_file *)file)->fd) == 0 ? 0 : errno;
}

static int posix_truncate(void *file, uint64_t size)
{
    return ftruncate(((const posix_file *)file)->fd, (off_t)size) == 0 ? 0 : errno;
}

static int posix_size(void *file, uint64_t *size)
{
    struct stat st;

    if (fstat(((const posix_file *)file)->fd, &st) != 0)
        return errno;
    *size = (uint64_t)st.st_size;
    return 0;
}

static void posix_close(void *file)
{
    if (file != NULL) {
        close(((posix_file *)file)->fd);
        od_free(file);
    }
}

static int posix_remove(void *ctx, const char *path)
{
    (void)ctx;
    return unlink(path) == 0 ? 0 : errno;
}

static int posix_sync_dir(void *ctx, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int why = 0;

    (void)ctx;
    if (fd < 0)
        return errno;
    if (fsync(fd) != 0)
        why = errno;
    close(fd);
    return why;
}

static int posix_point(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return 0;
}

const od_io *od_io_posix(void)
{
    static const od_io io = {
        .open = posix_open,
        .read = posix_read,
        .write = posix_write,
        .sync = posix_sync,
        .truncate = posix_truncate,
        .size = posix_size,
        .close = posix_close,
        .remove = posix_remove,
        .sync_dir = posix_sync_dir,
        .point = posix_point,
    };

    return &io;
}
