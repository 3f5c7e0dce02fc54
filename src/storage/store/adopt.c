#include "storage/store/merge.h"

#include <string.h>

#include "base/alloc.h"

#include "base/banned.h"

#define NOWHERE SIZE_MAX

static size_t slot_of(const od_layered_volume *volume, od_uuid layer)
{
    for (size_t i = 0; i < volume->layer_count; i++)
        if (volume->layers[i] != NULL && memcmp(&volume->layers[i]->segment.layer, &layer, sizeof layer) == 0)
            return i;
    return NOWHERE;
}

/* Marks the numbers that RUN has in VOLUME. *top: that of its newest. False: VOLUME is not made of all of it. */
static bool find_run(const od_layered_volume *volume, const od_layer_row *run, size_t count, bool *of_run, size_t *top)
{
    for (size_t i = 0; i < count; i++) {
        *top = slot_of(volume, run[i].id);
        if (*top == NOWHERE)
            return false;
        of_run[*top] = true;
    }
    return true;
}

/* The extents of the run that lie where FROM does. False: one lies across its border. */
static bool change_extents(od_layered_volume *volume, const od_footer_extent *from, const bool *of_run, size_t top,
                           bool change)
{
    od_logical_file *file = od_files_get(&volume->files, from->file);
    uint64_t end = from->offset + from->length;
    uint64_t at = from->offset;

    while (file != NULL) {
        od_extent *extent = od_extent_map_at(&file->all, at);

        if (extent == NULL || extent->offset >= end)
            break;
        at = extent->offset + extent->length;
        if (!of_run[extent->layer])
            continue;
        if (extent->offset < from->offset || at > end)
            return false;
        if (change) {
            extent->position = from->position;
            extent->skip = (uint32_t)(extent->offset - from->offset);
            extent->record = from->record;
            extent->layer = (uint32_t)top;
        }
    }
    return true;
}

/* With VOLUME locked. */
static bool change_all(od_layered_volume *volume, const od_footer *index, const bool *of_run, size_t top, bool change)
{
    for (size_t i = 0; i < index->extent_count; i++)
        if (!change_extents(volume, &index->extents[i], of_run, top, change))
            return false;
    return true;
}

static bool adopt(od_layered_volume *volume, const od_layer_row *run, size_t count, od_open_layer *made,
                  const od_footer *index)
{
    od_layered_store *store = volume->store;
    od_open_layer **old;
    bool *of_run;
    size_t top = 0;
    bool done = false;

    pthread_rwlock_wrlock(&volume->lock);
    of_run = od_calloc(volume->layer_count, sizeof *of_run);
    old = od_calloc(count, sizeof(od_open_layer *));
    if (of_run != NULL && old != NULL && find_run(volume, run, count, of_run, &top) &&
        change_all(volume, index, of_run, top, false)) {
        (void)change_all(volume, index, of_run, top, true);
        for (size_t i = 0; i < count; i++) {
            size_t slot = slot_of(volume, run[i].id);

            old[i] = volume->layers[slot];
            volume->layers[slot] = NULL;
        }
        od_layer_join(store, made);
        volume->layers[top] = made;
        done = true;
    }
    pthread_rwlock_unlock(&volume->lock);
    for (size_t i = 0; done && i < count; i++)
        od_layer_leave(store, old[i]);
    od_free(of_run);
    od_free(old);
    return done;
}

void od_store_adopt(od_layered_store *store, const od_layer_row *run, size_t count, od_open_layer *made,
                    const od_footer *index)
{
    pthread_mutex_lock(&store->lock);
    for (od_layered_volume *volume = store->volumes; volume != NULL; volume = volume->next)
        /* If the pin cannot be changed, the old layers stay until the volume is closed. */
        if (volume->ready && volume->writable && adopt(volume, run, count, made, index))
            (void)!od_meta_pin_swap(store->meta, volume->lease.pin, run, count, made->segment.layer, NULL);
    pthread_mutex_unlock(&store->lock);
}
