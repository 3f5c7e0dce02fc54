#include "storage/store/volume.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/deadline.h"

#include "base/banned.h"

static od_code at_point(const od_layered_volume *volume, const char *name, od_error *err)
{
    const od_io *io = volume->store->io;
    int why = io->point(io->ctx, name);

    return why == 0 ? OD_OK : od_fail_errno(err, OD_E_IO, why, "stopped at '%s'", name);
}

/* The active layer is LAYER now, which is empty. */
static void begin_layer(od_layered_volume *volume, od_open_layer *layer)
{
    pthread_rwlock_wrlock(&volume->lock);
    od_files_settle(&volume->files);
    od_volume_push(volume, layer);
    pthread_rwlock_unlock(&volume->lock);
    od_layer_let_go(volume->store, volume->active);
    volume->active = layer;
    volume->end = OD_SEGMENT_HEADER_SIZE;
    volume->durable = OD_SEGMENT_HEADER_SIZE;
    volume->sequence = 0;
    volume->doubtful = false;
    volume->shaky = false;
    od_segment_hash_begin(&layer->segment, volume->hash);
}

/* A change that failed may have been made all the same, if its commit failed. *made: so it is. */
static od_code look_back(od_layered_volume *volume, od_uuid layer, bool *made)
{
    od_layer_row row;
    od_code rc = od_meta_layer_get(volume->store->meta, layer, &row, NULL);

    *made = rc == OD_OK && row.state == OD_LAYER_ACTIVE;
    if (rc != OD_OK)
        volume->broken = true;
    return rc;
}

od_code od_volume_advance(od_layered_volume *volume, od_uuid parent, const od_layer_row *old, const od_uuid *snapshot,
                          od_error *err)
{
    od_layered_store *store = volume->store;
    od_segment segment = {
        .volume = volume->lease.database, .layer = od_uuid_random(), .parent = parent, .epoch = volume->lease.epoch};
    od_open_layer *layer = NULL;
    bool made = false;
    od_code rc;

    if (getrandom(&segment.salt, sizeof segment.salt, 0) != (ssize_t)sizeof segment.salt)
        return od_fail_errno(err, OD_E_IO, errno, "no random number");
    pthread_rwlock_wrlock(&volume->lock);
    rc = od_volume_reserve(volume, err);
    pthread_rwlock_unlock(&volume->lock);
    if (rc != OD_OK)
        return rc;
    OD_TRY(at_point(volume, "advance.begin", err));
    OD_TRY(od_meta_layer_add(store->meta, &volume->lease, segment.layer, parent, err));
    OD_TRY(at_point(volume, "advance.noted", err));
    OD_TRY(od_layer_make(store, &segment, &layer, err));
    OD_TRY(at_point(volume, "advance.made", err));
    rc = od_meta_advance(store->meta, &volume->lease, segment.layer, old, snapshot, err);
    if (rc != OD_OK && look_back(volume, segment.layer, &made) == OD_OK && made)
        rc = OD_OK;
    if (rc != OD_OK)
        goto out;
    begin_layer(volume, layer);
    layer = NULL;

out:
    od_layer_close(store, layer);
    /* What it left is garbage in any case; on a full disk it must not pile up while the writer lives. */
    if (rc != OD_OK && !volume->broken && at_point(volume, "advance.failed", NULL) == OD_OK &&
        od_meta_layer_forget(store->meta, segment.layer, NULL) == OD_OK &&
        od_layer_remove(store, &(od_layer_row){.id = segment.layer}) == 0)
        (void)!od_meta_bury(store->meta, segment.layer, NULL);
    return rc;
}

od_code od_volume_footer(od_layered_volume *volume, od_footer *out, od_error *err)
{
    od_code rc;

    pthread_rwlock_rdlock(&volume->lock);
    rc = od_files_footer(&volume->files, out, err);
    pthread_rwlock_unlock(&volume->lock);
    if (rc != OD_OK)
        return rc;
    out->sequence = volume->sequence;
    memcpy(out->hash, volume->hash, sizeof out->hash);
    return OD_OK;
}

od_layer_row od_volume_row(const od_layered_volume *volume, const od_open_layer *layer, od_layer_state state,
                           uint64_t length, const od_footer *footer)
{
    od_layer_row row = {.id = layer->segment.layer,
                        .database = volume->lease.database,
                        .state = state,
                        .length = length,
                        .live = od_footer_live(footer)};

    memcpy(row.hash, footer->hash, sizeof row.hash);
    return row;
}

od_code od_volume_freeze(od_layered_volume *volume, const od_open_layer *layer, uint64_t length, od_error *err)
{
    od_layer_row frozen;
    od_footer footer = {0};
    od_code rc = od_volume_footer(volume, &footer, err);

    if (rc != OD_OK)
        return rc;
    frozen = od_volume_row(volume, layer, OD_LAYER_FROZEN, length, &footer);
    OD_TRY(od_index_write(volume->store, &layer->segment, length, &footer, err));
    OD_TRY(at_point(volume, "freeze.indexed", err));
    rc = od_volume_advance(volume, layer->segment.layer, &frozen, NULL, err);

out:
    od_footer_release(&footer);
    return rc;
}

/* Writes FOOTER behind the records. *length: of the file then. */
static od_code write_footer(od_layered_volume *volume, const od_footer *footer, uint64_t *length, od_error *err)
{
    const od_io *io = volume->store->io;
    const od_open_layer *layer = volume->active;
    od_buf bytes = {0};
    od_code rc;
    int why;

    OD_TRY(od_footer_encode(&layer->segment, volume->end, footer, &bytes, err));
    *length = volume->end + bytes.len;
    why = io->write(layer->file, volume->end, &(od_io_part){bytes.data, bytes.len}, 1);
    if (why == 0)
        why = io->truncate(layer->file, *length); /* what a failed write may have left behind it */
    if (why != 0) {
        rc = od_fail_errno(err, OD_E_IO, why, "cannot write the index of the layer");
        goto out;
    }
    OD_TRY(at_point(volume, "seal.indexed", err));
    why = io->sync(layer->file);
    if (why != 0) {
        volume->doubtful = true;
        rc = od_fail_errno(err, OD_E_IO, why, "cannot sync the layer");
    }

out:
    od_buf_release(&bytes);
    return rc;
}

/* With SYNCING and APPEND held. */
static od_code seal(od_layered_volume *volume, od_uuid *snapshot, od_error *err)
{
    od_open_layer *layer = volume->active;
    od_layer_row old;
    od_footer footer = {0};
    uint64_t end = volume->end;
    od_code rc = od_volume_rewrite(volume, err);

    if (rc != OD_OK)
        return rc;
    *snapshot = od_uuid_random();
    OD_TRY(at_point(volume, "seal.begin", err));
    OD_TRY(od_volume_footer(volume, &footer, err));
    old = od_volume_row(volume, layer, OD_LAYER_SEALED, 0, &footer);
    OD_TRY(write_footer(volume, &footer, &old.length, err));
    OD_TRY(at_point(volume, "seal.synced", err));
    rc = od_volume_advance(volume, old.id, &old, snapshot, err);

out:
    od_footer_release(&footer);
    if (rc == OD_OK) {
        rc = at_point(volume, "seal.done", err);
        if (rc != OD_OK)
            volume->broken = true;
    } else if (!volume->broken) {
        /* The log goes on where it was. That the index is cut off is tidiness: records are written over it. */
        (void)volume->store->io->truncate(layer->file, end);
    }
    return rc;
}

od_code od_layered_seal(void *arg, od_uuid *snapshot, od_error *err)
{
    od_layered_volume *volume = arg;
    int64_t start_ns = od_clock_ns();
    od_code rc;

    pthread_mutex_lock(&volume->syncing);
    pthread_mutex_lock(&volume->append);
    rc = od_volume_heal(volume, err);
    if (rc == OD_OK)
        rc = seal(volume, snapshot, err);
    pthread_mutex_unlock(&volume->append);
    pthread_mutex_unlock(&volume->syncing);
    od_store_told(volume->store, OD_STORAGE_WORK_SEAL, start_ns, rc);
    if (rc == OD_OK)
        od_store_compact_soon(volume->store);
    return rc;
}
