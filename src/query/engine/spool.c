/* Payloads that wait for their reader: in memory, and above a limit in a file without a name. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "query/engine/txn_internal.h"
#include "base/banned.h"

typedef struct item {
    struct item *next;
    od_msg *msg; /* NULL: it lies in the file */
    size_t len;
    off_t at;
} item;

struct od_spool {
    char *dir;
    size_t memory, used; /* the limit, and what is held */
    item *first, **last;
    int fd; /* -1: none yet */
    off_t end;
};

od_code od_spool_create(const char *dir, size_t memory, od_spool **out, od_error *err)
{
    od_spool *spool = od_calloc(1, sizeof *spool);
    *out = NULL;
    if (spool == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    spool->fd = -1;
    spool->memory = memory;
    spool->last = &spool->first;
    if (dir != NULL && (spool->dir = od_strdup(dir)) == NULL) {
        od_free(spool);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    *out = spool;
    return OD_OK;
}

static void pop(od_spool *spool)
{
    item *gone = spool->first;
    spool->first = gone->next;
    if (spool->first == NULL)
        spool->last = &spool->first;
    od_free(gone);
}

void od_spool_free(od_spool *spool)
{
    if (spool == NULL)
        return;
    while (spool->first != NULL) {
        od_msg_unref(spool->first->msg);
        pop(spool);
    }
    if (spool->fd >= 0)
        (void)close(spool->fd);
    od_free(spool->dir);
    od_free(spool);
}

static int nameless(const char *dir)
{
    char path[4096];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    if (snprintf(path, sizeof path, "%s/openduck-spool-XXXXXX", dir) >= (int)sizeof path)
        return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

static od_code open_file(od_spool *spool, od_error *err)
{
    const char *fallback = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): nothing sets the environment */
    if (spool->dir != NULL)
        spool->fd = nameless(spool->dir);
    if (spool->fd < 0)
        spool->fd = nameless(fallback != NULL && fallback[0] != '\0' ? fallback : "/tmp");
    if (spool->fd < 0)
        return od_fail_errno(err, OD_E_IO, errno, "cannot make a file for a result that is set aside");
    return OD_OK;
}

static od_code write_all(od_spool *spool, const uint8_t *data, size_t len, od_error *err)
{
    while (len > 0) {
        ssize_t n = pwrite(spool->fd, data, len, spool->end);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return od_fail_errno(err, OD_E_IO, n < 0 ? errno : ENOSPC, "cannot set a result aside");
        data += n;
        len -= (size_t)n;
        spool->end += n;
    }
    return OD_OK;
}

od_code od_spool_put(od_spool *spool, od_msg *msg, od_error *err)
{
    od_code rc = OD_OK;
    item *added = od_calloc(1, sizeof *added);
    if (added == NULL) {
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
        goto out;
    }
    added->len = od_msg_len(msg);
    if (added->len <= spool->memory - spool->used) {
        added->msg = msg;
        msg = NULL;
        spool->used += added->len;
    } else {
        if (spool->fd < 0)
            OD_TRY(open_file(spool, err));
        added->at = spool->end;
        OD_TRY(write_all(spool, od_msg_data(msg), added->len, err));
    }
    *spool->last = added;
    spool->last = &added->next;
    added = NULL;
out:
    od_free(added);
    od_msg_unref(msg);
    return rc;
}

static od_code read_all(od_spool *spool, const item *from, od_msg **out, od_error *err)
{
    size_t got = 0;
    od_code rc = od_msg_create(from->len, 0, out, err);
    while (rc == OD_OK && got < from->len) {
        ssize_t n = pread(spool->fd, od_msg_data(*out) + got, from->len - got, from->at + (off_t)got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            rc = od_fail_errno(err, OD_E_IO, n < 0 ? errno : EIO, "cannot read a result that was set aside");
        else
            got += (size_t)n;
    }
    if (rc != OD_OK) {
        od_msg_unref(*out);
        *out = NULL;
    }
    return rc;
}

od_code od_spool_take(od_spool *spool, od_msg **out, od_error *err)
{
    item *first = spool->first;
    *out = NULL;
    if (first == NULL)
        return OD_OK;
    if (first->msg != NULL) {
        *out = first->msg;
        spool->used -= first->len;
    } else {
        od_code rc = read_all(spool, first, out, err);
        if (rc != OD_OK)
            return rc;
    }
    pop(spool);
    return OD_OK;
}
