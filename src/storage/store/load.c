#include "storage/store/volume.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#include "base/banned.h"

/* Where records are replayed to. */
typedef struct {
    od_layered_volume *volume;
    const od_segment *segment;
    uint32_t layer;
} replay;

static od_code apply(void *arg, uint64_t position, const od_record *record, const void *payload, od_error *err)
{
    const replay *r = arg;
    od_error why = {0};
    od_code rc = od_files_apply(&r->volume->files, r->layer, position, record, payload, &why);

    if (rc == OD_E_INVALID)
        return od_segment_corrupt(r->segment, position, why.message, err);
    return rc == OD_OK ? rc : od_fail(err, rc, "%s", why.message);
}

od_code od_volume_reserve(od_layered_volume *volume, od_error *err)
{
    if (volume->layer_count == volume->layer_cap) {
        size_t cap = volume->layer_cap * 2 + 8;
        od_open_layer **grown = od_realloc(volume->layers, cap * sizeof(od_open_layer *));

        if (grown == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "no memory for a layer");
        volume->layers = grown;
        volume->layer_cap = cap;
    }
    return OD_OK;
}

void od_volume_push(od_layered_volume *volume, od_open_layer *layer)
{
    volume->layers[volume->layer_count++] = layer;
}

/* What the footer of a layer says, which is in its file or beside it. */
static od_code load_indexed(od_layered_volume *volume, const od_layer_row *row, od_open_layer *layer, uint32_t number,
                            od_error *err)
{
    od_footer footer = {0};
    od_error why = {0};
    uint64_t records = 0;
    od_code rc = od_layer_footer(volume->store, row, layer, &footer, &records, err);

    if (rc != OD_OK)
        return rc;
    rc = od_files_merge(&volume->files, number, &footer, records, &why);
    if (rc == OD_E_INVALID)
        rc = od_segment_corrupt(&layer->segment, records, why.message, err);
    else if (rc != OD_OK)
        rc = od_fail(err, rc, "%s", why.message);
    od_footer_release(&footer);
    return rc;
}

/* Exactly the records up to LIMIT, which are not settled. */
static od_code load_log(od_layered_volume *volume, const od_open_layer *layer, uint32_t number, uint64_t limit,
                        od_scan *scan, od_error *err)
{
    replay to = {.volume = volume, .segment = &layer->segment, .layer = number};
    od_code rc = od_segment_scan(volume->store->io, layer->file, &layer->segment, limit, apply, &to, scan, err);

    if (rc == OD_OK && scan->end != limit)
        rc = od_segment_corrupt(&layer->segment, scan->end, "a record is not whole", err);
    return rc;
}

/* The index spares reading the log; the log does without it. A writer writes it anew then. */
static od_code load_frozen(od_layered_volume *volume, const od_layer_row *row, od_open_layer *layer, uint32_t number,
                           od_error *err)
{
    od_footer footer = {0};
    od_scan scan;
    uint64_t records;
    od_code rc = od_layer_footer(volume->store, row, layer, &footer, &records, NULL);

    od_footer_release(&footer);
    if (rc == OD_OK)
        return load_indexed(volume, row, layer, number, err);
    rc = load_log(volume, layer, number, row->length, &scan, err);
    if (rc == OD_OK && volume->writable && od_files_footer(&volume->files, &footer, NULL) == OD_OK) {
        footer.sequence = scan.sequence;
        memcpy(footer.hash, scan.hash, sizeof footer.hash);
        (void)!od_index_write(volume->store, &layer->segment, row->length, &footer, NULL);
        od_footer_release(&footer);
    }
    od_files_settle(&volume->files);
    return rc;
}

/* What a living writer has synced. */
static od_code load_active(od_layered_volume *volume, const od_open_layer *layer, uint32_t number, od_error *err)
{
    od_scan scan;
    od_code rc = od_segment_recover(volume->store->io, layer->file, &layer->segment, NULL, NULL, &scan, err);

    if (rc == OD_OK)
        rc = load_log(volume, layer, number, scan.synced, &scan, err);
    od_files_settle(&volume->files);
    return rc;
}

static od_code load_as(od_layered_volume *volume, const od_layer_row *row, od_open_layer *layer, uint32_t number,
                       od_error *err)
{
    switch (row->state) {
    case OD_LAYER_SEALED:
        return load_indexed(volume, row, layer, number, err);
    case OD_LAYER_FROZEN:
        return load_frozen(volume, row, layer, number, err);
    case OD_LAYER_ACTIVE:
        return load_active(volume, layer, number, err);
    default:
        return od_segment_corrupt(&layer->segment, 0, "the metadata say that nobody needs it", err);
    }
}

static od_code load_row(od_layered_volume *volume, const od_layer_row *row, od_error *err)
{
    od_open_layer *layer = NULL;
    uint32_t number = (uint32_t)volume->layer_count;
    od_code rc = od_volume_reserve(volume, err);

    if (rc == OD_OK)
        rc = od_layer_open(volume->store, row, OD_IO_READ, &layer, err);
    if (rc != OD_OK)
        return rc;
    od_volume_push(volume, layer);
    rc = load_as(volume, row, layer, number, err);
    od_layer_let_go(volume->store, layer);
    return rc;
}

od_code od_volume_load_reader(od_layered_volume *volume, od_uuid layer, od_error *err)
{
    static const od_uuid none;
    od_layer_rows rows = {0};
    od_code rc = OD_OK;

    if (memcmp(&layer, &none, sizeof none) == 0)
        return OD_OK;
    rc = od_meta_chain(volume->store->meta, layer, &rows, err);
    for (size_t i = 0; rc == OD_OK && i < rows.count; i++)
        rc = load_row(volume, &rows.rows[i], err);
    od_layer_rows_release(&rows);
    return rc;
}

/* The layer of a writer that is gone, the last of the volume then: what is whole of it. It is on stable storage afterwards. *out is held. */
static od_code recover(od_layered_volume *volume, const od_layer_row *row, od_io_mode mode, od_open_layer **out,
                       od_scan *scan, od_error *err)
{
    const od_io *io = volume->store->io;
    od_open_layer *layer = NULL;
    replay to = {.volume = volume, .layer = (uint32_t)volume->layer_count};
    od_code rc = od_volume_reserve(volume, err);
    int why = 0;

    if (rc == OD_OK)
        rc = od_layer_open(volume->store, row, mode, &layer, err);
    if (rc != OD_OK)
        return rc;
    od_volume_push(volume, layer);
    to.segment = &layer->segment;
    rc = od_segment_recover(io, layer->file, &layer->segment, apply, &to, scan, err);
    if (rc == OD_OK && mode == OD_IO_WRITE)
        why = io->truncate(layer->file, scan->end);
    if (rc == OD_OK && why == 0)
        why = io->sync(layer->file);
    if (why != 0)
        rc = od_fail_errno(err, OD_E_IO, why, "cannot sync what the last writer left");
    if (rc == OD_OK)
        *out = layer;
    else
        od_layer_let_go(volume->store, layer);
    return rc;
}

static void take_scan(od_layered_volume *volume, const od_scan *scan)
{
    volume->end = scan->end;
    volume->durable = scan->end;
    volume->sequence = scan->sequence;
    memcpy(volume->hash, scan->hash, sizeof volume->hash);
}

/* The writer before gave the layer back: it is written on. */
static od_code go_on(od_layered_volume *volume, const od_layer_row *row, od_error *err)
{
    od_scan scan;
    od_code rc = recover(volume, row, OD_IO_WRITE, &volume->active, &scan, err);

    if (rc == OD_OK)
        take_scan(volume, &scan);
    return rc;
}

/* The writer before may only be asleep, and still append to its file: that ends here, at what is whole of it now. */
static od_code take_over(od_layered_volume *volume, const od_layer_row *row, od_error *err)
{
    od_open_layer *layer = NULL;
    od_scan scan;
    od_code rc = recover(volume, row, OD_IO_READ, &layer, &scan, err);

    if (rc != OD_OK)
        return rc;
    take_scan(volume, &scan);
    if (scan.sequence == 0) /* nothing in it: garbage, and not a link of the chain */
        rc = od_volume_advance(volume, row->parent, NULL, NULL, err);
    else
        rc = od_volume_freeze(volume, layer, scan.end, err);
    od_layer_let_go(volume->store, layer);
    return rc;
}

static od_code load_tip(od_layered_volume *volume, const od_layer_row *tip, od_error *err)
{
    od_code rc;

    if (tip->state == OD_LAYER_ACTIVE)
        return volume->lease.released ? go_on(volume, tip, err) : take_over(volume, tip, err);
    rc = load_row(volume, tip, err);
    return rc != OD_OK ? rc : od_volume_advance(volume, tip->id, NULL, NULL, err);
}

od_code od_volume_load_writer(od_layered_volume *volume, od_error *err)
{
    static const od_uuid none;
    od_layer_rows rows = {0};
    od_code rc;

    if (memcmp(&volume->lease.tip, &none, sizeof none) == 0)
        return od_volume_advance(volume, none, NULL, NULL, err);
    rc = od_meta_chain(volume->store->meta, volume->lease.tip, &rows, err);
    for (size_t i = 0; rc == OD_OK && i + 1 < rows.count; i++)
        rc = load_row(volume, &rows.rows[i], err);
    if (rc == OD_OK)
        rc = load_tip(volume, &rows.rows[rows.count - 1], err);
    od_layer_rows_release(&rows);
    return rc;
}
