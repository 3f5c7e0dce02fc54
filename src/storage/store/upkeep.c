#include "storage/store/merge.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#include "base/banned.h"

static const char *reason_of(od_layer_state state)
{
    switch (state) {
    case OD_LAYER_NEW:
        return "its writer never used it";
    case OD_LAYER_DEAD:
        return "an earlier collection did not finish with it";
    default:
        return "no snapshot, database or reader needs it";
    }
}

static uint64_t bytes_of(const od_layered_store *store, const char *path)
{
    uint64_t size = 0;
    void *file = NULL;

    if (store->io->open(store->io->ctx, path, OD_IO_READ, &file) != 0)
        return 0;
    (void)store->io->size(file, &size);
    store->io->close(file);
    return size;
}

/* What may be far away of a layer. *gone is false if this store does not know that place: whoever does removes it. */
static od_code remove_far(const od_layered_store *store, const od_layer_row *row, bool *gone, od_error *err)
{
    char *path;
    char *index;
    od_code rc;

    *gone = store->tier != NULL;
    if (store->tier == NULL)
        return OD_OK;
    path = od_layer_path(store, row->id);
    index = od_index_path(store, row->id, row->length);
    if (path == NULL || index == NULL)
        rc = od_fail(err, OD_E_NO_MEMORY, "no memory to remove a layer");
    else
        rc = od_tier_remove(store->tier, path, err);
    if (rc == OD_OK)
        rc = od_tier_remove(store->tier, index, err);
    od_free(path);
    od_free(index);
    return rc;
}

/* The layer is dead in the metadata. Its files go first, here and far away, then its row: a crash between them leaves a row for the next
 * time. */
static od_code bury(const od_layered_store *store, const od_layer_row *row, od_error *err)
{
    const od_io *io = store->io;
    int why = io->point(io->ctx, "gc.marked");

    if (why == 0)
        why = od_layer_remove(store, row);
    if (why == 0 && row->sent) {
        bool gone = false;
        od_code rc = remove_far(store, row, &gone, err);

        if (rc != OD_OK || !gone)
            return rc;
    }
    if (why == 0)
        why = io->point(io->ctx, "gc.removed");
    if (why != 0)
        return od_fail_errno(err, OD_E_IO, why, "cannot remove a layer from '%s'", store->directory);
    return od_meta_bury(store->meta, row->id, err);
}

od_code od_run_retire(od_layered_store *store, const od_layer_row *run, size_t count, od_error *err)
{
    od_layer_rows rows;
    od_code rc = od_meta_doom(store->meta, run, count, true, &rows, err);

    if (rc != OD_OK)
        return rc;
    for (size_t i = 0; rc == OD_OK && i < rows.count; i++)
        rc = bury(store, &rows.rows[i], err);
    od_layer_rows_release(&rows);
    return rc;
}

od_code od_layered_gc(void *arg, bool dry_run, od_garbage_fn fn, void *fn_arg, uint64_t *bytes, od_error *err)
{
    od_layered_store *store = arg;
    od_layer_rows rows;
    bool stop = false;
    od_code rc = od_meta_doom(store->meta, NULL, 0, !dry_run, &rows, err);

    if (rc != OD_OK)
        return rc;
    for (size_t i = 0; rc == OD_OK && !stop && i < rows.count; i++) {
        char id[OD_UUID_TEXT_SIZE];
        char *path = od_layer_path(store, rows.rows[i].id);
        od_storage_garbage garbage = {.layer = id, .reason = reason_of(rows.rows[i].state)};

        if (path == NULL) {
            rc = od_fail(err, OD_E_NO_MEMORY, "no memory to remove a layer");
            break;
        }
        od_uuid_format(rows.rows[i].id, id);
        garbage.bytes = bytes_of(store, path);
        stop = fn != NULL && fn(fn_arg, &garbage) != 0;
        if (!stop)
            *bytes += garbage.bytes;
        if (!stop && !dry_run)
            rc = bury(store, &rows.rows[i], err);
        od_free(path);
    }
    od_layer_rows_release(&rows);
    return rc;
}

od_code od_layer_check(od_layered_store *store, const od_layer_row *row, od_open_layer *layer, od_error *err)
{
    od_footer footer = {0};
    uint64_t records = 0;
    od_scan scan;
    od_code rc;

    OD_TRY(od_layer_footer(store, row, layer, &footer, &records, err));
    OD_TRY(od_segment_scan(store->io, layer->file, &layer->segment, records, NULL, NULL, &scan, err));
    if (scan.end != records)
        rc = od_segment_corrupt(&layer->segment, scan.end, "a record is not whole", err);
    else if (memcmp(scan.hash, footer.hash, sizeof scan.hash) != 0 ||
             memcmp(scan.hash, row->hash, sizeof scan.hash) != 0)
        rc = od_segment_corrupt(&layer->segment, records, "the content hash is another", err);

out:
    od_footer_release(&footer);
    return rc;
}

static od_code check_layer(od_layered_store *store, const od_layer_row *row, uint64_t *bytes, od_error *err)
{
    od_open_layer *layer = NULL;
    od_scan scan = {0};
    od_code rc = od_layer_open(store, row, OD_IO_READ, &layer, err);

    if (rc != OD_OK)
        return rc;
    *bytes = row->length;
    if (row->state != OD_LAYER_ACTIVE) {
        rc = od_layer_check(store, row, layer, err);
    } else {
        rc = od_segment_recover(store->io, layer->file, &layer->segment, NULL, NULL, &scan, err);
        *bytes = scan.synced;
    }
    od_layer_close(store, layer);
    return rc;
}

/* Whether somebody collected it meanwhile. */
static bool gone(const od_layered_store *store, const od_layer_row *row)
{
    od_layer_row now;
    od_code rc = od_meta_layer_get(store->meta, row->id, &now, NULL);

    return rc == OD_E_NOT_FOUND || (rc == OD_OK && now.state == OD_LAYER_DEAD);
}

od_code od_layered_verify(void *arg, od_check_fn fn, void *fn_arg, od_error *err)
{
    od_layered_store *store = arg;
    od_layer_rows rows;
    bool stop = false;
    od_code worst = OD_OK;
    od_code rc = od_meta_layers(store->meta, &rows, err);

    if (rc != OD_OK)
        return rc;
    for (size_t i = 0; !stop && i < rows.count; i++) {
        char id[OD_UUID_TEXT_SIZE];
        od_error why = {0};
        od_storage_check check = {.layer = id};

        od_uuid_format(rows.rows[i].id, id);
        rc = check_layer(store, &rows.rows[i], &check.bytes, &why);
        if (rc != OD_OK && gone(store, &rows.rows[i]))
            continue;
        if (rc != OD_OK)
            check.problem = why.message;
        if (rc != OD_OK && worst == OD_OK)
            worst = od_fail(err, rc, "%s", why.message);
        stop = fn != NULL && fn(fn_arg, &check) != 0;
    }
    od_layer_rows_release(&rows);
    return worst;
}
