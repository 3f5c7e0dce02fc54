#include "storage/store/merge.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/alloc.h"

#include "base/banned.h"

typedef struct {
    od_layered_store *store;
    const od_layer_row *run;
    size_t count;
    od_merge_fn fn;
    void *arg;
    uint64_t before;         /* bytes of the run's files */
    od_open_layer **sources; /* of the run */
    od_open_layer *made;
    od_files files; /* what the run holds together; an extent's layer is its number in it */
    od_footer index;
    uint8_t *buffer; /* a record's payload */
    uint64_t end;
    uint64_t sequence;
    uint8_t hash[OD_SEGMENT_HASH_SIZE];
    od_uuid pin;
    int64_t renewed_ms;
} merge;

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static od_code at_point(const merge *m, const char *name, od_error *err)
{
    const od_io *io = m->store->io;
    int why = io->point(io->ctx, name);

    return why == 0 ? OD_OK : od_fail_errno(err, OD_E_IO, why, "stopped at '%s'", name);
}

/* Tells how far it is, and keeps the pin. */
static od_code report(merge *m, bool done, od_error *err)
{
    char id[OD_UUID_TEXT_SIZE];
    od_storage_merge said = {
        .layer = id, .layers = m->count, .bytes_before = m->before, .bytes_after = m->end, .done = done};

    od_uuid_format(m->made->segment.layer, id);
    if (m->fn != NULL && m->fn(m->arg, &said) != 0 && !done)
        return od_fail(err, OD_E_CANCELLED, "the merge was stopped");
    if (!done && now_ms() - m->renewed_ms > m->store->lease_ms / 3) {
        m->renewed_ms = now_ms();
        return od_meta_pin_renew(m->store->meta, m->pin, m->store->lease_ms, err);
    }
    return OD_OK;
}

static od_code load_source(merge *m, size_t i, od_error *err)
{
    od_footer footer = {0};
    od_error why = {0};
    uint64_t records = 0;
    od_code rc = od_layer_open(m->store, &m->run[i], OD_IO_READ, &m->sources[i], err);

    if (rc != OD_OK)
        return rc;
    rc = od_layer_footer(m->store, &m->run[i], m->sources[i], &footer, &records, err);
    if (rc == OD_OK) {
        rc = od_files_merge(&m->files, (uint32_t)i, &footer, records, &why);
        if (rc == OD_E_INVALID)
            rc = od_segment_corrupt(&m->sources[i]->segment, records, why.message, err);
        else if (rc != OD_OK)
            rc = od_fail(err, rc, "%s", why.message);
    }
    od_footer_release(&footer);
    od_layer_let_go(m->store, m->sources[i]);
    return rc;
}

static od_code prepare(merge *m, od_error *err)
{
    size_t extents = 0;

    m->sources = od_calloc(m->count, sizeof(od_open_layer *));
    m->buffer = od_alloc(OD_RECORD_MAX);
    if (m->sources == NULL || m->buffer == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory to merge layers");
    for (size_t i = 0; i < m->count; i++) {
        od_code rc = load_source(m, i, err);

        if (rc != OD_OK)
            return rc;
        m->before += m->run[i].length;
    }
    for (size_t i = 0; i < m->files.count; i++)
        extents += m->files.list[i]->all.count;
    m->index.files = od_calloc(m->files.count, sizeof *m->index.files);
    m->index.extents = od_calloc(extents, sizeof *m->index.extents);
    if (m->index.files == NULL || m->index.extents == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory to merge layers");
    return OD_OK;
}

static od_code make_layer(merge *m, od_uuid id, od_error *err)
{
    od_segment segment = {.volume = m->run[m->count - 1].database, .layer = id, .parent = m->run[0].parent};
    od_code rc;

    if (getrandom(&segment.salt, sizeof segment.salt, 0) != (ssize_t)sizeof segment.salt)
        return od_fail_errno(err, OD_E_IO, errno, "no random number");
    rc = od_layer_make(m->store, &segment, &m->made, err);
    m->end = OD_SEGMENT_HEADER_SIZE;
    od_segment_hash_begin(&segment, m->hash);
    return rc;
}

/* The LENGTH bytes in the buffer are those at OFFSET of FILE. */
static od_code write_record(merge *m, uint64_t file, uint64_t offset, uint32_t length, od_error *err)
{
    uint8_t header[OD_RECORD_HEADER_SIZE];
    const od_io_part parts[] = {{header, sizeof header}, {m->buffer, length}};
    od_record record = {.sequence = ++m->sequence,
                        .file = file,
                        .offset = offset,
                        .durable = OD_SEGMENT_HEADER_SIZE,
                        .length = length,
                        .kind = OD_RECORD_DATA};
    int why;

    od_record_encode(&m->made->segment, m->end, &record, m->buffer, header);
    why = m->store->io->write(m->made->file, m->end, parts, 2);
    if (why != 0)
        return od_fail_errno(err, OD_E_IO, why, "cannot write merged layers");
    m->index.extents[m->index.extent_count++] =
        (od_footer_extent){.file = file, .offset = offset, .position = m->end, .length = length, .record = length};
    m->end += sizeof header + length;
    od_segment_hash_add(m->hash, header);
    return report(m, false, err);
}

static od_code read_extent(merge *m, uint64_t file_id, const od_extent *extent, uint8_t *out, od_error *err)
{
    const od_record_part part = {.position = extent->position,
                                 .file = file_id,
                                 .offset = extent->offset,
                                 .payload = extent->record,
                                 .skip = extent->skip,
                                 .length = extent->length};
    od_open_layer *from = m->sources[extent->layer];
    void *file = NULL;
    od_code rc;

    od_layer_hold(m->store, from);
    rc = od_layer_file(m->store, from, &file, err);
    if (rc == OD_OK)
        rc = od_record_read(m->store->io, file, &from->segment, &part, out, err);
    od_layer_let_go(m->store, from);
    return rc;
}

/* Extents that touch become one record, and none becomes two: whoever has the old layers open can go over to the new one. */
static od_code copy_file(merge *m, const od_logical_file *file, od_error *err)
{
    od_extent extent;
    uint64_t start = 0;
    uint32_t have = 0;
    od_code rc;

    for (uint64_t at = 0; od_extent_map_find(&file->all, at, &extent); at = extent.offset + extent.length) {
        if (have > 0 && (extent.offset != start + have || extent.length > OD_RECORD_MAX - have)) {
            OD_TRY(write_record(m, file->id, start, have, err));
            have = 0;
        }
        if (have == 0)
            start = extent.offset;
        OD_TRY(read_extent(m, file->id, &extent, m->buffer + have, err));
        have += extent.length;
    }
    rc = have > 0 ? write_record(m, file->id, start, have, err) : OD_OK;

out:
    return rc;
}

static od_code copy_all(merge *m, od_error *err)
{
    for (size_t i = 0; i < m->files.count; i++) {
        const od_logical_file *file = m->files.list[i];
        od_footer_file *to = &m->index.files[m->index.file_count++];
        od_code rc = copy_file(m, file, err);

        if (rc != OD_OK)
            return rc;
        *to = (od_footer_file){.id = file->id, .size = file->size, .floor = file->cut};
        memcpy(to->name, file->name, sizeof to->name);
    }
    m->index.next_file = od_files_next(&m->files);
    m->index.sequence = m->sequence;
    memcpy(m->index.hash, m->hash, sizeof m->index.hash);
    return OD_OK;
}

static od_code finish_file(merge *m, od_error *err)
{
    const od_io *io = m->store->io;
    od_buf bytes = {0};
    od_code rc;
    int why;

    OD_TRY(od_footer_encode(&m->made->segment, m->end, &m->index, &bytes, err));
    why = io->write(m->made->file, m->end, &(od_io_part){bytes.data, bytes.len}, 1);
    OD_TRY(at_point(m, "merge.written", err));
    if (why == 0)
        why = io->sync(m->made->file);
    if (why != 0)
        rc = od_fail_errno(err, OD_E_IO, why, "cannot write merged layers");
    else
        rc = at_point(m, "merge.synced", err);
    m->end += bytes.len;

out:
    od_buf_release(&bytes);
    return rc;
}

/* *unknown: it cannot be told whether it was done. */
static od_code commit(merge *m, bool *moved, bool *unknown, od_error *err)
{
    const od_segment *segment = &m->made->segment;
    od_layer_row row = {.id = segment->layer, .length = m->end, .live = od_footer_live(&m->index)};
    od_code rc;

    memcpy(row.hash, m->hash, sizeof row.hash);
    rc = od_meta_merge_end(m->store->meta, m->pin, m->run, m->count, &row, moved, err);
    if (rc == OD_OK || rc == OD_E_STALE_LEASE)
        return rc;
    /* A change that failed may have been made all the same, if its commit failed. */
    *unknown = od_meta_layer_get(m->store->meta, segment->layer, &row, NULL) != OD_OK;
    *moved = !*unknown && row.state == OD_LAYER_SEALED;
    return *moved ? OD_OK : rc;
}

static void clean_up(merge *m, od_uuid id)
{
    const od_layer_row row = {.id = id};

    if (at_point(m, "merge.failed", NULL) == OD_OK && od_meta_merge_cancel(m->store->meta, m->pin, id, NULL) == OD_OK &&
        od_layer_remove(m->store, &row) == 0)
        (void)!od_meta_bury(m->store->meta, id, NULL);
}

static void release(merge *m)
{
    od_layer_close(m->store, m->made);
    for (size_t i = 0; m->sources != NULL && i < m->count; i++)
        od_layer_leave(m->store, m->sources[i]);
    od_free(m->sources);
    od_free(m->buffer);
    od_files_release(&m->files);
    od_footer_release(&m->index);
}

od_code od_run_merge(od_layered_store *store, const od_layer_row *run, size_t count, od_merge_fn fn, void *arg,
                     bool *moved, od_error *err)
{
    merge m = {.store = store, .run = run, .count = count, .fn = fn, .arg = arg, .renewed_ms = now_ms()};
    od_uuid id = od_uuid_random();
    bool unknown = false;
    od_code rc = od_meta_merge_begin(store->meta, run, count, id, store->lease_ms, &m.pin, err);

    *moved = false;
    if (rc != OD_OK)
        return rc;
    OD_TRY(at_point(&m, "merge.noted", err));
    OD_TRY(prepare(&m, err));
    OD_TRY(make_layer(&m, id, err));
    OD_TRY(at_point(&m, "merge.made", err));
    OD_TRY(copy_all(&m, err));
    OD_TRY(finish_file(&m, err));
    OD_TRY(commit(&m, moved, &unknown, err));
    OD_TRY(at_point(&m, "merge.moved", err));
    od_store_adopt(store, run, count, m.made, &m.index);
    OD_TRY(od_run_retire(store, run, count, err));
    rc = report(&m, true, err);

out:
    if (rc != OD_OK && !*moved && !unknown)
        clean_up(&m, id);
    release(&m);
    return rc;
}
