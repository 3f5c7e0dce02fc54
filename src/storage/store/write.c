#include "storage/store/volume.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#include "base/banned.h"

static od_code fail_broken(od_error *err)
{
    return od_fail(err, OD_E_FATAL, "an earlier failure left the end of the log unknown: reopen the database to write");
}

/* Whoever has taken over may count the record that failed: it is not written over. The layer ends before it, and another is begun. */
od_code od_volume_heal(od_layered_volume *volume, od_error *err)
{
    od_code rc;
    int why;

    if (!volume->shaky)
        return OD_OK;
    rc = od_volume_rewrite(volume, err);
    if (rc != OD_OK)
        return rc;
    why = volume->store->io->sync(volume->active->file);
    if (why != 0) {
        volume->doubtful = true;
        return od_fail_errno(err, OD_E_IO, why, "cannot sync the active layer");
    }
    if (volume->sequence == 0) { /* nothing in it: garbage, and not a link of the chain */
        od_layer_row row;

        rc = od_meta_layer_get(volume->store->meta, volume->active->segment.layer, &row, err);
        return rc == OD_OK ? od_volume_advance(volume, row.parent, NULL, NULL, err) : rc;
    }
    return od_volume_freeze(volume, volume->active, volume->end, err);
}

od_code od_volume_enter(od_layered_volume *volume, od_error *err)
{
    od_code rc;

    pthread_mutex_lock(&volume->append);
    if (!volume->shaky)
        return OD_OK;
    pthread_mutex_unlock(&volume->append);
    pthread_mutex_lock(&volume->syncing);
    pthread_mutex_lock(&volume->append);
    rc = od_volume_heal(volume, err);
    pthread_mutex_unlock(&volume->syncing);
    return rc;
}

od_code od_volume_append(od_layered_volume *volume, od_record *record, const void *payload, od_error *err)
{
    uint8_t header[OD_RECORD_HEADER_SIZE];
    od_io_part parts[] = {{header, sizeof header}, {payload, record->length}};
    od_open_layer *layer = volume->active;
    od_code rc;
    int why;

    if (volume->broken)
        return fail_broken(err);
    volume->shaky = true;
    record->sequence = volume->sequence + 1;
    record->durable = volume->durable;
    od_record_encode(&layer->segment, volume->end, record, payload, header);
    why = volume->store->io->write(layer->file, volume->end, parts, record->length > 0 ? 2 : 1);
    if (why != 0)
        return od_fail_errno(err, OD_E_IO, why, "cannot write to the active layer");

    pthread_rwlock_wrlock(&volume->lock);
    rc = od_files_apply(&volume->files, (uint32_t)(volume->layer_count - 1), volume->end, record, payload, err);
    pthread_rwlock_unlock(&volume->lock);
    if (rc != OD_OK)
        return rc;
    volume->end += sizeof header + record->length;
    volume->sequence++;
    volume->shaky = false;
    od_segment_hash_add(volume->hash, header);
    return OD_OK;
}

/* After a failed sync the kernel may hold pages for clean that never reached the disk. They are read back, checked and written once
 * more, so that the next sync is about them. */
od_code od_volume_rewrite(od_layered_volume *volume, od_error *err)
{
    const od_io *io = volume->store->io;
    od_open_layer *layer = volume->active;
    size_t size = OD_RECORD_HEADER_SIZE + (size_t)OD_RECORD_MAX;
    uint8_t *bytes;

    if (volume->broken)
        return fail_broken(err);
    if (!volume->doubtful)
        return OD_OK;
    bytes = od_alloc(size);
    if (bytes == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory to write records once more");
    for (uint64_t at = volume->durable; at < volume->end;) {
        od_record record = {0};
        size_t got = 0;
        size_t whole;
        int why = io->read(layer->file, at, bytes, size, &got);

        if (why == 0 && (got < OD_RECORD_HEADER_SIZE || !od_record_decode(&layer->segment, at, bytes, &record) ||
                         got < OD_RECORD_HEADER_SIZE + (size_t)record.length ||
                         !od_record_payload_ok(&layer->segment, at, &record, bytes + OD_RECORD_HEADER_SIZE))) {
            volume->broken = true;
            od_free(bytes);
            return od_segment_corrupt(&layer->segment, at, "a record was lost when a sync failed", err);
        }
        whole = OD_RECORD_HEADER_SIZE + (size_t)record.length;
        if (why == 0)
            why = io->write(layer->file, at, &(od_io_part){bytes, whole}, 1);
        if (why != 0) {
            od_free(bytes);
            return od_fail_errno(err, OD_E_IO, why, "cannot write records once more");
        }
        at += whole;
    }
    od_free(bytes);
    volume->doubtful = false;
    return OD_OK;
}

/* With SYNCING and APPEND held: a sync mark at the end of what is new. *end is where it ends. */
static od_code mark(od_layered_volume *volume, uint64_t *end, od_error *err)
{
    od_record record = {.kind = OD_RECORD_SYNC};
    od_code rc = od_volume_heal(volume, err);

    if (rc == OD_OK)
        rc = od_volume_rewrite(volume, err);
    if (rc == OD_OK && volume->end > volume->durable)
        rc = od_volume_append(volume, &record, NULL, err);
    *end = volume->end;
    return rc;
}

static od_code sync_to(od_layered_volume *volume, od_error *err)
{
    uint64_t end = 0;
    bool news;
    od_code rc;
    int why = 0;

    pthread_mutex_lock(&volume->append);
    rc = mark(volume, &end, err);
    news = end > volume->durable;
    pthread_mutex_unlock(&volume->append);
    if (rc != OD_OK)
        return rc;
    if (news)
        why = volume->store->io->sync(volume->active->file);
    if (why != 0) {
        pthread_mutex_lock(&volume->append);
        volume->doubtful = true;
        pthread_mutex_unlock(&volume->append);
        return od_fail_errno(err, OD_E_IO, why, "cannot sync the active layer");
    }
    /* The bytes are on stable storage before this look: whoever takes the lease after it finds them. */
    rc = od_meta_fence(volume->store->meta, &volume->lease, err);
    if (rc != OD_OK)
        return rc;
    pthread_mutex_lock(&volume->append);
    volume->durable = end;
    pthread_mutex_unlock(&volume->append);
    return OD_OK;
}

od_code od_layered_sync(void *arg, od_error *err)
{
    od_layered_volume *volume = arg;
    const od_open_layer *layer;
    uint64_t target;
    bool news;
    bool grouped;
    od_code rc = OD_OK;

    pthread_mutex_lock(&volume->append);
    layer = volume->active;
    target = volume->end;
    news = target > volume->durable;
    pthread_mutex_unlock(&volume->append);

    pthread_mutex_lock(&volume->syncing);
    /* Somebody else's sync or seal, which began after this call, may have done it. */
    pthread_mutex_lock(&volume->append);
    grouped = news && (volume->durable >= target || layer != volume->active);
    pthread_mutex_unlock(&volume->append);
    if (!grouped)
        rc = sync_to(volume, err);
    pthread_mutex_unlock(&volume->syncing);
    return rc;
}
