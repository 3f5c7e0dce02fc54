#include "storage/store/volume.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#include "base/banned.h"

#define PIECES 16 /* extents that are looked up at once */

/* ---- Volumes: open and close ---- */

static void free_volume(od_layered_volume *volume)
{
    od_files_release(&volume->files);
    od_layer_let_go(volume->store, volume->active);
    for (size_t i = 0; i < volume->layer_count; i++)
        od_layer_leave(volume->store, volume->layers[i]);
    od_free(volume->layers);
    pthread_mutex_destroy(&volume->append);
    pthread_mutex_destroy(&volume->syncing);
    pthread_rwlock_destroy(&volume->lock);
    od_free(volume);
}

static od_code new_volume(od_layered_store *store, bool writable, od_layered_volume **out, od_error *err)
{
    od_layered_volume *volume = od_calloc(1, sizeof *volume);

    if (volume == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a volume");
    volume->store = store;
    volume->writable = writable;
    pthread_rwlock_init(&volume->lock, NULL);
    pthread_mutex_init(&volume->syncing, NULL);
    pthread_mutex_init(&volume->append, NULL);
    *out = volume;
    return OD_OK;
}

/* Not ALIVE: as if the process had died. */
static void give_back(od_layered_volume *volume, bool alive, bool in_order)
{
    static const od_uuid none;
    od_layered_store *store = volume->store;

    od_store_delist(store, volume);
    if (alive && volume->writable)
        (void)od_meta_release(store->meta, &volume->lease, in_order, NULL); /* if this fails it ends by itself */
    else if (alive && memcmp(&volume->pin, &none, sizeof none) != 0)
        (void)od_meta_unpin(store->meta, volume->pin, NULL);
    free_volume(volume);
}

static od_code open_writer(od_layered_store *store, const char *database, bool create, void **out, od_error *err)
{
    od_layered_volume *volume = NULL;
    od_code rc = new_volume(store, true, &volume, err);

    if (rc != OD_OK)
        return rc;
    rc = od_meta_acquire(store->meta, database, create, store->lease_ms, &volume->lease, err);
    if (rc != OD_OK) {
        free_volume(volume);
        return rc;
    }
    rc = od_store_enlist(store, volume, err);
    if (rc == OD_OK)
        rc = od_volume_load_writer(volume, err);
    if (rc != OD_OK) {
        const od_io *io = store->io;

        /* It wrote nothing of its own: all is as the one before left it. */
        give_back(volume, io->point(io->ctx, "close") == 0, volume->lease.released);
        return rc;
    }
    od_store_ready(store, volume);
    *out = volume;
    return OD_OK;
}

static od_code open_reader(od_layered_store *store, const char *database, const od_uuid *snapshot, void **out,
                           od_error *err)
{
    od_layered_volume *volume = NULL;
    od_uuid layer;
    od_code rc = new_volume(store, false, &volume, err);

    if (rc != OD_OK)
        return rc;
    if (snapshot != NULL)
        rc = od_meta_pin_snapshot(store->meta, *snapshot, store->lease_ms, &volume->pin, &layer, err);
    else
        rc = od_meta_pin_tip(store->meta, database, store->lease_ms, &volume->pin, &layer, err);
    if (rc != OD_OK) {
        free_volume(volume);
        return rc;
    }
    rc = od_store_enlist(store, volume, err);
    if (rc == OD_OK)
        rc = od_volume_load_reader(volume, layer, err);
    if (rc != OD_OK) {
        give_back(volume, true, false);
        return rc;
    }
    *out = volume;
    return OD_OK;
}

static od_code layered_open(void *store, const char *database, od_volume_mode mode, void **out, od_error *err)
{
    if (mode == OD_VOLUME_READ)
        return open_reader(store, database, NULL, out, err);
    return open_writer(store, database, mode == OD_VOLUME_CREATE, out, err);
}

static od_code layered_open_snapshot(void *store, od_uuid snapshot, void **out, od_error *err)
{
    return open_reader(store, NULL, &snapshot, out, err);
}

/* Where layers go far away another machine may open the database next: an empty layer that only this one has must not be in its way. */
static void retreat(const od_layered_volume *volume)
{
    const od_layered_store *store = volume->store;

    if (store->tier != NULL && volume->sequence == 0 && !volume->broken)
        (void)!od_meta_retreat(store->meta, &volume->lease, volume->active->segment.layer, NULL);
}

static od_code layered_close(void *arg, od_error *err)
{
    od_layered_volume *volume = arg;
    const od_io *io = volume->store->io;
    int why = io->point(io->ctx, "close");
    od_code rc = OD_OK;

    if (why != 0)
        rc = od_fail_errno(err, OD_E_IO, why, "stopped at 'close'");
    else if (volume->writable)
        rc = od_layered_sync(volume, err);
    if (rc == OD_OK && volume->writable)
        retreat(volume);
    give_back(volume, why == 0, true);
    return rc;
}

static bool layered_writable(const void *volume)
{
    return ((const od_layered_volume *)volume)->writable;
}

/* ---- Files ---- */

static od_code layered_create(void *arg, const char *name, uint64_t *file, od_error *err)
{
    od_layered_volume *volume = arg;
    od_record record = {.kind = OD_RECORD_CREATE, .length = (uint32_t)strlen(name)};
    od_code rc;

    rc = od_volume_enter(volume, err);
    if (rc == OD_OK && od_files_named(&volume->files, name) != NULL)
        rc = od_name_taken(name, err);
    record.file = od_files_next(&volume->files);
    if (rc == OD_OK)
        rc = od_volume_append(volume, &record, name, err);
    pthread_mutex_unlock(&volume->append);
    if (rc == OD_OK)
        *file = record.file;
    return rc;
}

static od_code layered_find(void *arg, const char *name, uint64_t *file, od_error *err)
{
    od_layered_volume *volume = arg;
    const od_logical_file *found;

    pthread_rwlock_rdlock(&volume->lock);
    found = od_files_named(&volume->files, name);
    if (found != NULL)
        *file = found->id;
    pthread_rwlock_unlock(&volume->lock);
    return found != NULL ? OD_OK : od_no_name(name, err);
}

/* A change of a file that is there. */
static od_code change(od_layered_volume *volume, od_record *record, const void *payload, od_error *err)
{
    od_code rc = od_volume_enter(volume, err);

    if (rc == OD_OK && od_files_get(&volume->files, record->file) == NULL)
        rc = od_no_file(record->file, err);
    if (rc == OD_OK)
        rc = od_volume_append(volume, record, payload, err);
    pthread_mutex_unlock(&volume->append);
    return rc;
}

static od_code layered_rename(void *volume, uint64_t file, const char *name, od_error *err)
{
    od_record record = {.kind = OD_RECORD_RENAME, .file = file, .length = (uint32_t)strlen(name)};

    return change(volume, &record, name, err);
}

static od_code layered_remove(void *volume, uint64_t file, od_error *err)
{
    od_record record = {.kind = OD_RECORD_REMOVE, .file = file};

    return change(volume, &record, NULL, err);
}

static od_code layered_truncate(void *volume, uint64_t file, uint64_t size, od_error *err)
{
    od_record record = {.kind = OD_RECORD_TRUNCATE, .file = file, .offset = size};

    return change(volume, &record, NULL, err);
}

static od_code layered_write(void *volume, uint64_t file, uint64_t offset, const void *data, size_t length,
                             od_error *err)
{
    const uint8_t *from = data;
    uint64_t size;
    od_code rc = length > 0 ? OD_OK : od_layered_backend.size(volume, file, &size, err);

    while (rc == OD_OK && length > 0) {
        uint32_t piece = length < OD_RECORD_MAX ? (uint32_t)length : OD_RECORD_MAX;
        od_record record = {.kind = OD_RECORD_DATA, .file = file, .offset = offset, .length = piece};

        rc = change(volume, &record, from, err);
        from += piece;
        offset += piece;
        length -= piece;
    }
    return rc;
}

static od_code layered_size(void *arg, uint64_t file, uint64_t *size, od_error *err)
{
    od_layered_volume *volume = arg;
    const od_logical_file *found;

    pthread_rwlock_rdlock(&volume->lock);
    found = od_files_get(&volume->files, file);
    if (found != NULL)
        *size = found->size;
    pthread_rwlock_unlock(&volume->lock);
    return found != NULL ? OD_OK : od_no_file(file, err);
}

/* What layered_list copies under the lock. */
typedef struct {
    uint64_t id;
    uint64_t size;
    char name[OD_FILE_NAME_MAX + 1];
} listed;

static od_code layered_list(void *arg, od_file_fn fn, void *fn_arg, od_error *err)
{
    od_layered_volume *volume = arg;
    listed *list;
    size_t count;

    pthread_rwlock_rdlock(&volume->lock);
    count = volume->files.count;
    list = od_calloc(count, sizeof *list);
    for (size_t i = 0; list != NULL && i < count; i++) {
        const od_logical_file *file = volume->files.list[i];

        list[i].id = file->id;
        list[i].size = file->size;
        memcpy(list[i].name, file->name, sizeof list[i].name);
    }
    pthread_rwlock_unlock(&volume->lock);
    if (list == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for the list of files");
    for (size_t i = 0; i < count; i++)
        if (fn(fn_arg, list[i].id, list[i].name, list[i].size) != 0)
            break;
    od_free(list);
    return OD_OK;
}

/* ---- Reading ---- */

typedef struct {
    od_open_layer *layer; /* held */
    od_extent extent;     /* cut to what is wanted */
} piece;

/* The next pieces of bytes AT to END of FILE, and where they stop being complete: *until. False: there is no such file. */
static bool look_up(od_layered_volume *volume, uint64_t file, uint64_t at, uint64_t end, piece *pieces, size_t *count,
                    uint64_t *until)
{
    const od_logical_file *found;

    *count = 0;
    *until = end;
    pthread_rwlock_rdlock(&volume->lock);
    found = od_files_get(&volume->files, file);
    while (found != NULL && at < end) {
        od_extent extent;
        uint64_t stop;

        if (!od_extent_map_find(&found->all, at, &extent) || extent.offset >= end)
            break;
        if (*count == PIECES) {
            *until = at;
            break;
        }
        stop = extent.offset + extent.length < end ? extent.offset + extent.length : end;
        if (extent.offset < at) {
            extent.skip += (uint32_t)(at - extent.offset);
            extent.offset = at;
        }
        extent.length = (uint32_t)(stop - extent.offset);
        od_layer_hold(volume->store, volume->layers[extent.layer]);
        pieces[(*count)++] = (piece){.layer = volume->layers[extent.layer], .extent = extent};
        at = stop;
    }
    pthread_rwlock_unlock(&volume->lock);
    return found != NULL;
}

/* Whether the layers of VOLUME are still kept for it. */
static bool kept(const od_layered_volume *volume)
{
    const od_layered_store *store = volume->store;

    if (volume->writable)
        return od_meta_fence(store->meta, &volume->lease, NULL) != OD_E_STALE_LEASE;
    return od_meta_pin_renew(store->meta, volume->pin, store->lease_ms, NULL) != OD_E_NOT_FOUND;
}

static od_code read_piece(const od_layered_volume *volume, const piece *wanted, uint64_t file_id, void *out,
                          od_error *err)
{
    const od_extent *extent = &wanted->extent;
    const od_record_part part = {.position = extent->position,
                                 .file = file_id,
                                 .offset = extent->offset,
                                 .payload = extent->record,
                                 .skip = extent->skip,
                                 .length = extent->length};
    void *file = NULL;
    od_code rc = od_layer_file(volume->store, wanted->layer, &file, err);

    if (rc == OD_E_CORRUPT && !kept(volume))
        return od_fail(err, OD_E_STALE_LEASE, "layers of this volume were removed, since its lease was over: reopen");
    return rc == OD_OK ? od_record_read(volume->store->io, file, &wanted->layer->segment, &part, out, err) : rc;
}

static od_code layered_read(void *arg, uint64_t file, uint64_t offset, void *out, size_t length, size_t *got,
                            od_error *err)
{
    od_layered_volume *volume = arg;
    uint64_t size = 0;
    uint64_t end;
    od_code rc = layered_size(volume, file, &size, err);

    if (rc != OD_OK)
        return rc;
    end = offset >= size ? offset : (length < size - offset ? offset + length : size);
    if (end > offset)
        memset(out, 0, (size_t)(end - offset));
    for (uint64_t at = offset; at < end;) {
        piece pieces[PIECES];
        size_t count;
        uint64_t until;

        if (!look_up(volume, file, at, end, pieces, &count, &until))
            return od_no_file(file, err);
        for (size_t i = 0; i < count; i++) {
            if (rc == OD_OK)
                rc = read_piece(volume, &pieces[i], file, (uint8_t *)out + (pieces[i].extent.offset - offset), err);
            od_layer_let_go(volume->store, pieces[i].layer);
        }
        if (rc != OD_OK)
            return rc;
        at = until;
    }
    *got = (size_t)(end - offset);
    return OD_OK;
}

const od_backend od_layered_backend = {
    .close_store = od_layered_close_store,
    .snapshots = od_layered_snapshots,
    .drop = od_layered_drop,
    .clone = od_layered_clone,
    .gc = od_layered_gc,
    .compact = od_layered_compact,
    .status = od_layered_status,
    .tier = od_layered_tier,
    .tier_status = od_layered_tier_status,
    .verify = od_layered_verify,
    .open = layered_open,
    .open_snapshot = layered_open_snapshot,
    .close = layered_close,
    .writable = layered_writable,
    .create = layered_create,
    .find = layered_find,
    .rename = layered_rename,
    .remove = layered_remove,
    .list = layered_list,
    .read = layered_read,
    .write = layered_write,
    .size = layered_size,
    .truncate = layered_truncate,
    .sync = od_layered_sync,
    .seal = od_layered_seal,
};
