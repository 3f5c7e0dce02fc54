#include "support/lossy_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECTOR 512U

/* A file by its name. */
struct lossy_entry {
    char *path;
    bool named;    /* its name is on the disk */
    uint8_t *disk; /* what is */
    size_t disk_size;
    uint8_t *dirty; /* a byte for each sector that was written since the last sync */
    size_t dirty_cap;
};

typedef struct {
    lossy_io *io;
    lossy_entry *entry;
    void *real;
} lossy_file;

uint64_t lossy_random(uint64_t *dice)
{
    uint64_t x = *dice += 0x9E3779B97F4A7C15U;

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

/* With the lock. Counts a change; what is not 0 refuses it. *half: it is to be done in part. */
static int change(lossy_io *io, bool *half)
{
    *half = false;
    io->changes++;
    if (io->dead)
        return EIO;
    if (io->dies_in >= 0 && io->dies_in-- == 0) {
        io->dead = true;
        *half = true;
        return EIO;
    }
    return 0;
}

static lossy_entry *entry_of(lossy_io *io, const char *path)
{
    lossy_entry *made;

    for (int i = 0; i < io->count; i++)
        if (strcmp(io->entries[i]->path, path) == 0)
            return io->entries[i];
    if (io->count == LOSSY_FILES)
        abort();
    made = must(calloc(1, sizeof *made));
    made->path = must(strdup(path));
    io->entries[io->count++] = made;
    return made;
}

static void forget(lossy_io *io, const char *path)
{
    for (int i = 0; i < io->count; i++)
        if (strcmp(io->entries[i]->path, path) == 0) {
            lossy_entry *entry = io->entries[i];

            io->entries[i] = io->entries[--io->count];
            free(entry->path);
            free(entry->disk);
            free(entry->dirty);
            free(entry);
            return;
        }
}

static int lossy_open(void *ctx, const char *path, od_io_mode mode, void **file)
{
    lossy_io *io = ctx;
    lossy_file *made = must(calloc(1, sizeof *made));
    bool half;
    int why = 0;

    pthread_mutex_lock(&io->lock);
    if (mode == OD_IO_CREATE)
        why = change(io, &half);
    else if (io->dead)
        why = EIO;
    if (why == 0)
        why = od_io_posix()->open(NULL, path, mode, &made->real);
    if (why == 0) {
        made->io = io;
        made->entry = entry_of(io, path);
        if (++io->open_now > io->open_most)
            io->open_most = io->open_now;
    }
    pthread_mutex_unlock(&io->lock);
    if (why != 0)
        free(made);
    else
        *file = made;
    return why;
}

static int lossy_read(void *file, uint64_t at, void *data, size_t len, size_t *got)
{
    const lossy_file *f = file;
    int why = od_io_posix()->read(f->real, at, data, len, got);

    pthread_mutex_lock(&f->io->lock);
    f->io->bytes_read += why == 0 ? *got : 0;
    pthread_mutex_unlock(&f->io->lock);
    return why;
}

static void mark(lossy_entry *entry, uint64_t at, size_t len)
{
    size_t last = (size_t)((at + len) / SECTOR) + 1;

    if (last > entry->dirty_cap) {
        entry->dirty = must(realloc(entry->dirty, last));
        memset(entry->dirty + entry->dirty_cap, 0, last - entry->dirty_cap);
        entry->dirty_cap = last;
    }
    memset(entry->dirty + at / SECTOR, 1, last - (size_t)(at / SECTOR));
}

static int lossy_write(void *file, uint64_t at, const od_io_part *parts, size_t n)
{
    lossy_file *f = file;
    lossy_io *io = f->io;
    size_t len = parts[0].len + (n > 1 ? parts[1].len : 0);
    uint8_t *bytes = must(malloc(len + 1));
    void (*before)(void *arg) = io->before_write;
    bool half;
    int why;

    io->before_write = NULL;
    if (before != NULL)
        before(io->before_arg);
    memcpy(bytes, parts[0].data, parts[0].len);
    if (n > 1)
        memcpy(bytes + parts[0].len, parts[1].data, parts[1].len);
    pthread_mutex_lock(&io->lock);
    why = change(io, &half);
    if (why == 0 && io->write_fails_in >= 0 && io->write_fails_in-- == 0) {
        why = io->write_error;
        half = true;
    }
    if (half && !io->failed_write_is_whole)
        len /= 2;
    if (why == 0 || half) {
        (void)od_io_posix()->write(f->real, at, &(od_io_part){bytes, len}, 1);
        mark(f->entry, at, len);
    }
    pthread_mutex_unlock(&io->lock);
    free(bytes);
    return why;
}

static int lossy_sync(void *file)
{
    lossy_file *f = file;
    lossy_entry *entry = f->entry;
    lossy_io *io = f->io;
    uint64_t size = 0;
    bool half;
    int why;

    pthread_mutex_lock(&io->lock);
    why = change(io, &half);
    if (why == 0 && io->sync_fails_in >= 0 && io->sync_fails_in-- == 0)
        why = EIO;
    if (why == 0) {
        (void)od_io_posix()->size(f->real, &size);
        entry->disk = must(realloc(entry->disk, (size_t)size + SECTOR));
        if (size > entry->disk_size)
            memset(entry->disk + entry->disk_size, 0, (size_t)size - entry->disk_size);
        entry->disk_size = (size_t)size;
        for (size_t i = 0; i < entry->dirty_cap && i * SECTOR < size; i++)
            if (entry->dirty[i]) {
                size_t got;

                (void)od_io_posix()->read(f->real, i * SECTOR, entry->disk + i * SECTOR,
                                          size - i * SECTOR < SECTOR ? (size_t)size - i * SECTOR : SECTOR, &got);
            }
    }
    if (!io->dead && entry->dirty != NULL)
        memset(entry->dirty, 0, entry->dirty_cap);
    pthread_mutex_unlock(&io->lock);
    return why;
}

static int lossy_truncate(void *file, uint64_t size)
{
    lossy_file *f = file;
    bool half;
    int why;

    pthread_mutex_lock(&f->io->lock);
    why = change(f->io, &half);
    if (why == 0)
        why = od_io_posix()->truncate(f->real, size);
    pthread_mutex_unlock(&f->io->lock);
    return why;
}

static int lossy_size(void *file, uint64_t *size)
{
    return od_io_posix()->size(((lossy_file *)file)->real, size);
}

static void lossy_close(void *file)
{
    lossy_file *f = file;

    if (f != NULL) {
        pthread_mutex_lock(&f->io->lock);
        f->io->open_now--;
        pthread_mutex_unlock(&f->io->lock);
        od_io_posix()->close(f->real);
        free(f);
    }
}

static int lossy_remove(void *ctx, const char *path)
{
    lossy_io *io = ctx;
    bool half;
    int why;

    pthread_mutex_lock(&io->lock);
    why = change(io, &half);
    if (why == 0)
        why = od_io_posix()->remove(NULL, path);
    if (why == 0)
        forget(io, path);
    pthread_mutex_unlock(&io->lock);
    return why;
}

static int lossy_sync_dir(void *ctx, const char *path)
{
    lossy_io *io = ctx;
    bool half;
    int why;

    pthread_mutex_lock(&io->lock);
    why = change(io, &half);
    for (int i = 0; why == 0 && i < io->count; i++)
        if (strncmp(io->entries[i]->path, path, strlen(path)) == 0)
            io->entries[i]->named = true;
    pthread_mutex_unlock(&io->lock);
    return why;
}

static int lossy_point(void *ctx, const char *name)
{
    lossy_io *io = ctx;
    int why;

    pthread_mutex_lock(&io->lock);
    if (io->dies_at != NULL && strcmp(io->dies_at, name) == 0)
        io->dead = true;
    why = io->dead ? EIO : 0;
    pthread_mutex_unlock(&io->lock);
    return why;
}

void lossy_begin(lossy_io *io)
{
    memset(io, 0, sizeof *io);
    pthread_mutex_init(&io->lock, NULL);
    io->write_fails_in = io->sync_fails_in = io->dies_in = -1;
    io->io = (od_io){.ctx = io,
                     .open = lossy_open,
                     .read = lossy_read,
                     .write = lossy_write,
                     .sync = lossy_sync,
                     .truncate = lossy_truncate,
                     .size = lossy_size,
                     .close = lossy_close,
                     .remove = lossy_remove,
                     .sync_dir = lossy_sync_dir,
                     .point = lossy_point};
}

static void lose(lossy_entry *entry, uint64_t *dice)
{
    const od_io *posix = od_io_posix();
    void *real;
    uint64_t size = 0;
    uint64_t kept;

    if (!entry->named || posix->open(NULL, entry->path, OD_IO_WRITE, &real) != 0) {
        (void)unlink(entry->path);
        return;
    }
    (void)posix->size(real, &size);
    for (uint64_t at = 0; at < size; at += SECTOR) {
        uint8_t bytes[SECTOR] = {0};
        size_t len = size - at < SECTOR ? (size_t)(size - at) : SECTOR;

        if (lossy_random(dice) % 2 == 0)
            continue;
        if (at < entry->disk_size)
            memcpy(bytes, entry->disk + at, entry->disk_size - at < len ? entry->disk_size - (size_t)at : len);
        (void)posix->write(real, at, &(od_io_part){bytes, len}, 1);
    }
    kept = lossy_random(dice) % 2 == 0 ? size : entry->disk_size;
    if (kept < entry->disk_size) { /* a cut that did not last */
        (void)posix->write(real, kept, &(od_io_part){entry->disk + kept, entry->disk_size - (size_t)kept}, 1);
        kept = entry->disk_size;
    }
    (void)posix->truncate(real, kept);
    posix->close(real);
    /* What came back is on the disk. */
    entry->disk = must(realloc(entry->disk, (size_t)kept + SECTOR));
    entry->disk_size = (size_t)kept;
    if (posix->open(NULL, entry->path, OD_IO_READ, &real) == 0) {
        size_t got;

        (void)posix->read(real, 0, entry->disk, (size_t)kept, &got);
        posix->close(real);
    }
    if (entry->dirty != NULL)
        memset(entry->dirty, 0, entry->dirty_cap);
}

void lossy_crash(lossy_io *io, uint64_t *dice)
{
    for (int i = 0; i < io->count; i++)
        lose(io->entries[i], dice);
    io->dead = false;
    io->dies_at = NULL;
    io->write_fails_in = io->sync_fails_in = io->dies_in = -1;
}

void lossy_end(lossy_io *io)
{
    while (io->count > 0)
        forget(io, io->entries[0]->path);
    pthread_mutex_destroy(&io->lock);
}
