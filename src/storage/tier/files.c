/* The port that is shown. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "storage/tier/tier.h"

#include "base/banned.h"

#define CACHE_BYTES (64U << 20)

typedef struct {
    od_tier *tier;
    void *near;          /* of the port below; NULL: it is far */
    tier_origin *origin; /* then */
} tier_file;

const char *tier_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;

    return strlen(name) <= TIER_NAME_MAX ? name : NULL;
}

static int errno_of(od_code code)
{
    switch (code) {
    case OD_E_NOT_FOUND:
        return ENOENT;
    case OD_E_PERMISSION:
        return EACCES;
    case OD_E_TIMEOUT:
        return ETIMEDOUT;
    case OD_E_UNAVAILABLE:
        return EREMOTEIO;
    case OD_E_CONNECTION_LOST:
        return ECONNRESET;
    case OD_E_NO_MEMORY:
        return ENOMEM;
    default:
        return EIO;
    }
}

int tier_note(od_tier *tier, const od_error *err)
{
    int why = errno_of(err->code);

    pthread_mutex_lock(&tier->lock);
    tier->last_why = why;
    snprintf(tier->last_text, sizeof tier->last_text, "%s", err->message);
    pthread_mutex_unlock(&tier->lock);
    return why;
}

static void file_explain(void *ctx, int why, char *out, size_t size)
{
    od_tier *tier = ctx;

    out[0] = '\0';
    pthread_mutex_lock(&tier->lock);
    if (why == tier->last_why)
        snprintf(out, size, "%s", tier->last_text);
    pthread_mutex_unlock(&tier->lock);
}

static int file_open(void *ctx, const char *path, od_io_mode mode, void **file)
{
    od_tier *tier = ctx;
    const char *name = tier_name(path);
    tier_file *made = od_calloc(1, sizeof *made);
    int why;

    if (made == NULL)
        return ENOMEM;
    made->tier = tier;
    why = tier->below->open(tier->below->ctx, path, mode, &made->near);
    if (why == ENOENT && mode == OD_IO_READ && name != NULL)
        why = tier_origin_find(tier, name, &made->origin);
    if (why != 0) {
        od_free(made);
        return why;
    }
    *file = made;
    return 0;
}

static int file_read(void *file, uint64_t at, void *data, size_t len, size_t *got)
{
    const tier_file *f = file;

    if (f->near != NULL)
        return f->tier->below->read(f->near, at, data, len, got);
    return tier_origin_read(f->tier, f->origin, at, data, len, got);
}

static int file_write(void *file, uint64_t at, const od_io_part *parts, size_t n)
{
    const tier_file *f = file;

    return f->near != NULL ? f->tier->below->write(f->near, at, parts, n) : EBADF;
}

/* What is far away is on stable storage. */
static int file_sync(void *file)
{
    const tier_file *f = file;

    return f->near != NULL ? f->tier->below->sync(f->near) : 0;
}

static int file_truncate(void *file, uint64_t size)
{
    const tier_file *f = file;

    return f->near != NULL ? f->tier->below->truncate(f->near, size) : EBADF;
}

static int file_size(void *file, uint64_t *size)
{
    const tier_file *f = file;

    if (f->near != NULL)
        return f->tier->below->size(f->near, size);
    *size = f->origin->size;
    return 0;
}

static void file_close(void *file)
{
    tier_file *f = file;

    if (f == NULL)
        return;
    if (f->near != NULL)
        f->tier->below->close(f->near);
    od_free(f);
}

static void file_doubt(void *file)
{
    const tier_file *f = file;

    if (f->near == NULL)
        tier_origin_forget(f->tier, f->origin);
}

static int file_remove(void *ctx, const char *path)
{
    const od_io *below = ((od_tier *)ctx)->below;

    return below->remove(below->ctx, path);
}

static int file_sync_dir(void *ctx, const char *path)
{
    const od_io *below = ((od_tier *)ctx)->below;

    return below->sync_dir(below->ctx, path);
}

static int file_point(void *ctx, const char *name)
{
    const od_io *below = ((od_tier *)ctx)->below;

    return below->point(below->ctx, name);
}

od_code od_tier_create(const od_io *io, od_blob *blob, uint64_t cache_bytes, od_tier **out, od_error *err)
{
    od_tier *tier = od_calloc(1, sizeof *tier);
    od_code rc;

    if (tier == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for files that are far away");
    rc = tier_cache_create(cache_bytes > 0 ? cache_bytes : CACHE_BYTES, &tier->cache, err);
    if (rc != OD_OK) {
        od_free(tier);
        return rc;
    }
    tier->io = (od_io){.ctx = tier,
                       .open = file_open,
                       .read = file_read,
                       .write = file_write,
                       .sync = file_sync,
                       .truncate = file_truncate,
                       .size = file_size,
                       .close = file_close,
                       .remove = file_remove,
                       .sync_dir = file_sync_dir,
                       .point = file_point,
                       .doubt = file_doubt,
                       .explain = file_explain};
    tier->below = io;
    tier->blob = blob;
    pthread_mutex_init(&tier->lock, NULL);
    *out = tier;
    return OD_OK;
}

void od_tier_free(od_tier *tier)
{
    if (tier == NULL)
        return;
    while (tier->origins != NULL) {
        tier_origin *next = tier->origins->next;

        od_free(tier->origins);
        tier->origins = next;
    }
    tier_cache_free(tier->cache);
    od_blob_close(tier->blob);
    pthread_mutex_destroy(&tier->lock);
    od_free(tier);
}

const od_io *od_tier_io(const od_tier *tier)
{
    return &tier->io;
}

const char *od_tier_url(const od_tier *tier)
{
    return od_blob_url(tier->blob);
}

od_tier_counts od_tier_count(od_tier *tier)
{
    od_tier_counts counts;

    pthread_mutex_lock(&tier->lock);
    counts = (od_tier_counts){
        .fetches = tier->fetches, .fetched_bytes = tier->fetched_bytes, .cached_bytes = tier_cache_bytes(tier->cache)};
    pthread_mutex_unlock(&tier->lock);
    return counts;
}
