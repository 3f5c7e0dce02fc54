#include "storage/store/volume.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#include "base/banned.h"

char *od_layer_path(const od_layered_store *store, od_uuid id)
{
    char text[OD_UUID_TEXT_SIZE];
    size_t size = strlen(store->directory) + sizeof "/layers/" + sizeof text + sizeof ".seg";
    char *path = od_alloc(size);

    od_uuid_format(id, text);
    if (path != NULL)
        snprintf(path, size, "%s/layers/%s.seg", store->directory, text);
    return path;
}

char *od_index_path(const od_layered_store *store, od_uuid id, uint64_t length)
{
    char text[OD_UUID_TEXT_SIZE];
    size_t size = strlen(store->directory) + sizeof "/layers/" + sizeof text + sizeof ".18446744073709551615.idx";
    char *path = od_alloc(size);

    od_uuid_format(id, text);
    if (path != NULL)
        snprintf(path, size, "%s/layers/%s.%llu.idx", store->directory, text, (unsigned long long)length);
    return path;
}

/* What may have become of the file of ROW at PATH, and what helps. */
static od_code missing(const od_layered_store *store, const od_layer_row *row, const char *path, od_error *err)
{
    const char *url = store->tier != NULL ? od_tier_url(store->tier) : NULL;

    if (url != NULL && row->far)
        return od_fail(err, OD_E_CORRUPT,
                       "the file of a layer is missing: '%s', and so is its copy in '%s': put one back from a backup",
                       path, url);
    if (url != NULL)
        return od_fail(
            err, OD_E_CORRUPT,
            "the file of a layer is missing: '%s', and no copy was sent to '%s': if another machine wrote it, "
            "seal the database there and send its layers (openduck snapshot seal, openduck storage tier); "
            "if it is lost, put it back from a backup",
            path, url);
    if (row->far)
        return od_fail(err, OD_E_CORRUPT,
                       "the file of a layer is missing: '%s'; it has a copy at a place that is not named here: "
                       "name it (blob_url)",
                       path);
    return od_fail(err, OD_E_CORRUPT,
                   "the file of a layer is missing: '%s': put it back from a backup; if another machine wrote it, name "
                   "a place for copies here and there (blob_url), and send its layers (openduck storage tier)",
                   path);
}

/* ROW is of a layer that was made before; NULL: it is made now. */
static od_code open_at(od_layered_store *store, od_uuid id, const od_layer_row *row, od_io_mode mode,
                       od_open_layer **out, od_error *err)
{
    char *path = od_layer_path(store, id);
    od_open_layer *layer = od_calloc(1, sizeof *layer);
    od_code rc = OD_OK;
    int why;

    if (path == NULL || layer == NULL) {
        rc = od_fail(err, OD_E_NO_MEMORY, "no memory for a layer");
        goto out;
    }
    why = store->io->open(store->io->ctx, path, mode, &layer->file);
    if (why == ENOENT && row != NULL)
        rc = missing(store, row, path, err);
    else if (why != 0)
        rc = od_io_fail(store->io, err, why, "cannot open '%s'", path);
    if (rc == OD_OK) {
        od_layer_admit(store, layer);
        *out = layer;
        layer = NULL;
    }

out:
    od_free(path);
    od_free(layer);
    return rc;
}

od_code od_layer_open(od_layered_store *store, const od_layer_row *row, od_io_mode mode, od_open_layer **out,
                      od_error *err)
{
    od_open_layer *layer = NULL;
    od_code rc = open_at(store, row->id, row, mode, &layer, err);

    if (rc == OD_OK)
        rc = od_segment_read(store->io, layer->file, &layer->segment, err);
    /* Its parent may be another by now, if layers were merged. */
    if (rc == OD_OK && (memcmp(&layer->segment.layer, &row->id, sizeof row->id) != 0 ||
                        memcmp(&layer->segment.volume, &row->database, sizeof row->database) != 0))
        rc = od_segment_corrupt(&layer->segment, 0, "it is another layer than the metadata say", err);
    if (rc != OD_OK) {
        if (rc == OD_E_CORRUPT && layer != NULL) {
            char text[OD_UUID_TEXT_SIZE];

            od_uuid_format(row->id, text);
            od_error_prefix(err, "layer '%s' at byte 0", text);
        }
        od_layer_close(store, layer);
        return rc;
    }
    *out = layer;
    return OD_OK;
}

od_code od_layer_make(od_layered_store *store, const od_segment *segment, od_open_layer **out, od_error *err)
{
    uint8_t header[OD_SEGMENT_HEADER_SIZE];
    char *path = od_layer_path(store, segment->layer);
    od_open_layer *layer = NULL;
    const od_io *io = store->io;
    od_code rc = path != NULL ? open_at(store, segment->layer, NULL, OD_IO_CREATE, &layer, err)
                              : od_fail(err, OD_E_NO_MEMORY, "no memory for a layer");
    int why;

    if (rc != OD_OK)
        goto out;
    layer->segment = *segment;
    od_segment_encode(segment, header);
    why = io->write(layer->file, 0, &(od_io_part){header, sizeof header}, 1);
    if (why == 0)
        why = io->sync(layer->file);
    *strrchr(path, '/') = '\0';
    if (why == 0)
        why = io->sync_dir(io->ctx, path);
    if (why != 0) {
        rc = od_fail_errno(err, OD_E_IO, why, "cannot make a layer in '%s'", path);
        goto out;
    }
    *out = layer;
    layer = NULL;

out:
    od_layer_close(store, layer);
    od_free(path);
    return rc;
}

void od_layer_close(od_layered_store *store, od_open_layer *layer)
{
    od_layer_leave(store, layer);
    od_layer_let_go(store, layer);
}

/* PATH is freed. */
static int remove_file(const od_io *io, char *path)
{
    int why = path == NULL ? ENOMEM : io->remove(io->ctx, path);

    od_free(path);
    return why == ENOENT ? 0 : why;
}

int od_layer_remove(const od_layered_store *store, const od_layer_row *row)
{
    const od_io *io = store->io;
    char *path = od_layer_path(store, row->id);
    int why = path == NULL ? ENOMEM : remove_file(io, od_index_path(store, row->id, row->length));

    if (why == 0)
        why = io->remove(io->ctx, path);
    if (why == ENOENT)
        why = 0;
    if (why == 0) {
        *strrchr(path, '/') = '\0';
        why = io->sync_dir(io->ctx, path);
    }
    od_free(path);
    return why;
}

/* ---- Indexes: the footer of a layer that has none of its own, since another may still write to its file ---- */

static int write_index(const od_io *io, const char *path, const od_buf *bytes)
{
    void *file = NULL;
    int why = io->open(io->ctx, path, OD_IO_CREATE, &file);

    if (why == EEXIST) /* of somebody who did not come to its end */
        why = io->open(io->ctx, path, OD_IO_WRITE, &file);
    if (why == 0)
        why = io->write(file, 0, &(od_io_part){bytes->data, bytes->len}, 1);
    if (why == 0)
        why = io->truncate(file, bytes->len);
    if (why == 0)
        why = io->sync(file);
    io->close(file);
    return why;
}

od_code od_index_write(const od_layered_store *store, const od_segment *segment, uint64_t length,
                       const od_footer *footer, od_error *err)
{
    char *path = od_index_path(store, segment->layer, length);
    od_buf bytes = {0};
    od_code rc = path != NULL ? od_footer_encode(segment, length, footer, &bytes, err)
                              : od_fail(err, OD_E_NO_MEMORY, "no memory for the index of a layer");
    int why = 0;

    if (rc == OD_OK)
        why = write_index(store->io, path, &bytes);
    if (why != 0)
        rc = od_fail_errno(err, OD_E_IO, why, "cannot write '%s'", path);
    if (rc == OD_OK) {
        *strrchr(path, '/') = '\0';
        why = store->io->sync_dir(store->io->ctx, path);
    }
    if (rc == OD_OK && why != 0)
        rc = od_fail_errno(err, OD_E_IO, why, "cannot sync '%s'", path);
    od_free(path);
    od_buf_release(&bytes);
    return rc;
}

static od_code read_index(const od_layered_store *store, const od_layer_row *row, const od_segment *segment,
                          od_footer *out, uint64_t *records, od_error *err)
{
    char *path = od_index_path(store, row->id, row->length);
    const od_io *io = store->io;
    void *file = NULL;
    uint64_t size = 0;
    od_code rc = OD_OK;
    int why;

    if (path == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for the index of a layer");
    why = io->open(io->ctx, path, OD_IO_READ, &file);
    if (why == 0)
        why = io->size(file, &size);
    if (why == ENOENT)
        rc = od_segment_corrupt(segment, row->length, "its index is missing", err);
    else if (why != 0)
        rc = od_io_fail(io, err, why, "cannot read '%s'", path);
    else
        rc = od_footer_read(io, file, segment, row->length, row->length + size, out, records, err);
    if (rc == OD_OK && *records != row->length) {
        od_footer_release(out);
        rc = od_segment_corrupt(segment, row->length, "its index is of another length", err);
    }
    io->close(file);
    od_free(path);
    return rc;
}

od_code od_layer_footer(od_layered_store *store, const od_layer_row *row, od_open_layer *layer, od_footer *out,
                        uint64_t *records, od_error *err)
{
    void *file = NULL;
    od_code rc;

    if (row->state == OD_LAYER_FROZEN) {
        rc = read_index(store, row, &layer->segment, out, records, err);
    } else {
        rc = od_layer_file(store, layer, &file, err);
        if (rc == OD_OK)
            rc = od_footer_read(store->io, file, &layer->segment, 0, row->length, out, records, err);
    }
    if (rc == OD_OK && memcmp(out->hash, row->hash, sizeof out->hash) != 0) {
        od_footer_release(out);
        rc = od_segment_corrupt(&layer->segment, row->length, "its content is another than the metadata say", err);
    }
    return rc;
}
