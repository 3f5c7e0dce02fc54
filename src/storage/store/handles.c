#include "storage/store/volume.h"

#include <errno.h>

#include "base/alloc.h"

#include "base/banned.h"

/* All counts and the list of the idle are under FILES. Nothing is opened or closed with it held. */

static void unlink_idle(od_layered_store *store, od_open_layer *layer)
{
    *(layer->before != NULL ? &layer->before->behind : &store->idle_first) = layer->behind;
    *(layer->behind != NULL ? &layer->behind->before : &store->idle_last) = layer->before;
    layer->before = layer->behind = NULL;
    layer->idle = false;
}

static void link_idle(od_layered_store *store, od_open_layer *layer)
{
    layer->before = store->idle_last;
    *(store->idle_last != NULL ? &store->idle_last->behind : &store->idle_first) = layer;
    store->idle_last = layer;
    layer->idle = true;
}

/* The file that has been idle for longest, if too many are open; it is the caller's to close. NULL: none. */
static void *take_surplus(od_layered_store *store)
{
    od_open_layer *oldest = store->idle_first;
    void *file;

    if (store->open_files <= store->max_open_files || oldest == NULL)
        return NULL;
    unlink_idle(store, oldest);
    file = oldest->file;
    oldest->file = NULL;
    store->open_files--;
    return file;
}

void od_layer_admit(od_layered_store *store, od_open_layer *layer)
{
    layer->volumes = 1;
    layer->holds = 1;
    pthread_mutex_lock(&store->files);
    store->open_files++;
    pthread_mutex_unlock(&store->files);
}

void od_layer_join(od_layered_store *store, od_open_layer *layer)
{
    pthread_mutex_lock(&store->files);
    layer->volumes++;
    pthread_mutex_unlock(&store->files);
}

void od_layer_hold(od_layered_store *store, od_open_layer *layer)
{
    pthread_mutex_lock(&store->files);
    layer->holds++;
    if (layer->idle)
        unlink_idle(store, layer);
    pthread_mutex_unlock(&store->files);
}

/* With FILES held, which it gives back: what is to be closed and freed after something ended. */
static void tidy(od_layered_store *store, od_open_layer *layer)
{
    bool over = layer->holds == 0 && layer->volumes == 0;
    void *file = NULL;

    if (over) {
        if (layer->idle)
            unlink_idle(store, layer);
        file = layer->file;
        store->open_files -= file != NULL;
    } else if (layer->holds == 0 && layer->file != NULL && !layer->idle) {
        link_idle(store, layer);
    }
    for (;;) {
        if (file == NULL)
            file = take_surplus(store);
        if (file == NULL)
            break;
        pthread_mutex_unlock(&store->files);
        store->io->close(file);
        file = NULL;
        pthread_mutex_lock(&store->files);
    }
    pthread_mutex_unlock(&store->files);
    if (over)
        od_free(layer);
}

void od_layer_let_go(od_layered_store *store, od_open_layer *layer)
{
    if (layer == NULL)
        return;
    pthread_mutex_lock(&store->files);
    layer->holds--;
    tidy(store, layer);
}

void od_layer_leave(od_layered_store *store, od_open_layer *layer)
{
    if (layer == NULL)
        return;
    pthread_mutex_lock(&store->files);
    layer->volumes--;
    tidy(store, layer);
}

od_code od_layer_file(od_layered_store *store, od_open_layer *layer, void **file, od_error *err)
{
    void *opened = NULL;
    char *path;
    int why;

    pthread_mutex_lock(&store->files);
    *file = layer->file;
    pthread_mutex_unlock(&store->files);
    if (*file != NULL)
        return OD_OK;
    path = od_layer_path(store, layer->segment.layer);
    if (path == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a layer");
    why = store->io->open(store->io->ctx, path, OD_IO_READ, &opened);
    if (why != 0) {
        od_code rc = why == ENOENT ? od_fail(err, OD_E_CORRUPT, "the file of a layer is missing: '%s'", path)
                                   : od_io_fail(store->io, err, why, "cannot open '%s'", path);
        od_free(path);
        return rc;
    }
    od_free(path);
    pthread_mutex_lock(&store->files);
    if (layer->file == NULL) {
        layer->file = opened;
        opened = NULL;
        store->open_files++;
    }
    *file = layer->file;
    pthread_mutex_unlock(&store->files);
    store->io->close(opened);
    return OD_OK;
}
