#include "storage/store/merge.h"

#include <string.h>

#include "base/alloc.h"
#include "base/deadline.h"

#include "base/banned.h"

#define ATTEMPTS 8 /* to merge what others change meanwhile */

static od_code database_id(od_layered_store *store, const char *name, od_uuid *out, od_error *err)
{
    od_database_row *rows = NULL;
    size_t count = 0;
    od_code rc = od_meta_databases(store->meta, name, &rows, &count, err);

    if (rc == OD_OK)
        *out = rows[0].id;
    od_free(rows);
    return rc;
}

static od_code next_run(od_layered_store *store, const od_uuid *database, bool whole, od_run *run, od_error *err)
{
    od_layer_rows rows = {0};
    od_code rc = od_meta_layers(store->meta, &rows, err);

    *run = (od_run){0};
    if (rc == OD_OK)
        rc = od_run_choose(&rows, database, whole, run, err);
    od_layer_rows_release(&rows);
    return rc;
}

/* OD_E_STALE_LEASE: others have changed the run meanwhile. */
static od_code merge_run(od_layered_store *store, const od_run *run, od_merge_fn fn, void *arg, od_error *err)
{
    int64_t start_ns = od_clock_ns();
    bool moved = false;
    od_code rc = od_run_merge(store, run->rows, run->count, fn, arg, &moved, err);

    if (rc != OD_E_STALE_LEASE)
        od_store_told(store, OD_STORAGE_WORK_MERGE, start_ns, rc);
    return rc;
}

od_code od_layered_compact(void *arg, const char *database, bool whole, od_merge_fn fn, void *fn_arg, od_error *err)
{
    od_layered_store *store = arg;
    od_uuid id;
    unsigned failed = 0;
    od_code rc = database != NULL ? database_id(store, database, &id, err) : OD_OK;

    while (rc == OD_OK) {
        od_run run;

        rc = next_run(store, database != NULL ? &id : NULL, whole, &run, err);
        if (rc != OD_OK || run.count == 0) {
            od_run_release(&run);
            break;
        }
        rc = merge_run(store, &run, fn, fn_arg, err);
        od_run_release(&run);
        if (rc == OD_E_STALE_LEASE && ++failed < ATTEMPTS)
            rc = OD_OK;
    }
    return rc == OD_E_CANCELLED ? OD_OK : rc;
}

/* What the newest state of a database is made of. */
static void measure(const od_layered_volume *volume, const od_layer_rows *chain, od_storage_status *out)
{
    out->layers = chain->count;
    for (size_t i = 0; i < volume->files.count; i++) {
        const od_logical_file *file = volume->files.list[i];
        od_extent extent;

        for (uint64_t at = 0; od_extent_map_find(&file->all, at, &extent); at = extent.offset + extent.length) {
            out->extents++;
            out->data_bytes += extent.length;
            out->read_bytes += OD_RECORD_HEADER_SIZE + (uint64_t)extent.record;
        }
    }
}

static od_code stored_bytes(od_layered_store *store, const od_layer_rows *chain, uint64_t *bytes, od_error *err)
{
    for (size_t i = 0; i < chain->count; i++) {
        od_open_layer *layer = NULL;
        uint64_t size = chain->rows[i].length;
        od_code rc = OD_OK;

        if (chain->rows[i].state == OD_LAYER_ACTIVE) {
            rc = od_layer_open(store, &chain->rows[i], OD_IO_READ, &layer, err);
            if (rc == OD_OK)
                (void)store->io->size(layer->file, &size);
            od_layer_close(store, layer);
        }
        if (rc != OD_OK)
            return rc;
        *bytes += size;
    }
    return OD_OK;
}

/* Layers among ROWS that pay to be merged now, of DATABASE. */
static od_code count_mergeable(const od_layer_rows *rows, od_uuid database, uint64_t *count, od_error *err)
{
    od_run run;
    od_code rc = od_run_choose(rows, &database, false, &run, err);

    if (rc == OD_OK)
        *count = run.count;
    od_run_release(&run);
    return rc;
}

/* The layers below it are pinned, whatever becomes of the tip. */
static od_uuid newest_of(const od_layered_volume *reader)
{
    return reader->layers[reader->layer_count - 1]->segment.layer;
}

static od_code status_of(od_layered_store *store, const od_database_row *database, const od_layer_rows *rows,
                         od_storage_status *out, od_error *err)
{
    static const od_uuid none;
    void *reader = NULL;
    od_layer_rows chain = {0};
    od_code rc;

    *out = (od_storage_status){
        .database = database->name, .has_writer = database->written, .snapshots = (uint64_t)database->snapshots};
    if (memcmp(&database->tip, &none, sizeof none) == 0)
        return OD_OK;
    rc = od_layered_backend.open(store, database->name, OD_VOLUME_READ, &reader, err);
    if (rc != OD_OK)
        return rc;
    if (((od_layered_volume *)reader)->layer_count == 0)
        goto out;
    OD_TRY(od_meta_chain(store->meta, newest_of(reader), &chain, err));
    measure(reader, &chain, out);
    OD_TRY(stored_bytes(store, &chain, &out->stored_bytes, err));
    rc = count_mergeable(rows, database->id, &out->mergeable, err);

out:
    od_layer_rows_release(&chain);
    (void)od_layered_backend.close(reader, NULL);
    return rc;
}

od_code od_layered_status(void *arg, const char *database, od_status_fn fn, void *fn_arg, od_error *err)
{
    od_layered_store *store = arg;
    od_database_row *databases = NULL;
    od_layer_rows rows = {0};
    size_t count = 0;
    od_code rc;

    OD_TRY(od_meta_databases(store->meta, database, &databases, &count, err));
    OD_TRY(od_meta_layers(store->meta, &rows, err));
    for (size_t i = 0; i < count; i++) {
        od_storage_status status;

        OD_TRY(status_of(store, &databases[i], &rows, &status, err));
        if (fn(fn_arg, &status) != 0)
            break;
    }

out:
    od_layer_rows_release(&rows);
    od_free(databases);
    return rc;
}
