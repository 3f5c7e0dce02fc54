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

static od_code open_at(const od_layered_store *store, od_uuid id, od_io_mode mode, od_open_layer **out, od_error *err)
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
    if (why == ENOENT)
        rc = od_fail(err, OD_E_CORRUPT, "the file of a layer is missing: '%s'", path);
    else if (why != 0)
        rc = od_fail_errno(err, OD_E_IO, why, "cannot open '%s'", path);
    if (rc == OD_OK) {
        *out = layer;
        layer = NULL;
    }

out:
    od_free(path);
    od_free(layer);
    return rc;
}

od_code od_layer_open(const od_layered_store *store, const od_layer_row *row, od_io_mode mode, od_open_layer **out,
                      od_error *err)
{
    od_open_layer *layer = NULL;
    od_code rc = open_at(store, row->id, mode, &layer, err);

    if (rc == OD_OK)
        rc = od_segment_read(store->io, layer->file, &layer->segment, err);
    if (rc == OD_OK && (memcmp(&layer->segment.layer, &row->id, sizeof row->id) != 0 ||
                        memcmp(&layer->segment.parent, &row->parent, sizeof row->parent) != 0 ||
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

od_code od_layer_make(const od_layered_store *store, const od_segment *segment, od_open_layer **out, od_error *err)
{
    uint8_t header[OD_SEGMENT_HEADER_SIZE];
    char *path = od_layer_path(store, segment->layer);
    od_open_layer *layer = NULL;
    const od_io *io = store->io;
    od_code rc = path != NULL ? open_at(store, segment->layer, OD_IO_CREATE, &layer, err)
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

void od_layer_close(const od_layered_store *store, od_open_layer *layer)
{
    if (layer != NULL) {
        store->io->close(layer->file);
        od_free(layer);
    }
}
