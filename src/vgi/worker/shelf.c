#include "vgi/worker/shelf.h"

#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"

#include "base/banned.h"

enum { MAX = 256, IDLE_MS = 600000, SHORT_MS = 30000 };

struct vgiw_shelf {
    void (*free_kept)(vgiw_kept *);
    pthread_mutex_t lock; /* of the list, and of `used` and `since_ns` of what is in it */
    pthread_cond_t unused;
    vgiw_kept *list;
    size_t count;
};

od_code vgiw_shelf_create(void (*free_kept)(vgiw_kept *), vgiw_shelf **out, od_error *err)
{
    vgiw_shelf *shelf = od_calloc(1, sizeof *shelf);

    *out = shelf;
    if (shelf == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    shelf->free_kept = free_kept;
    pthread_mutex_init(&shelf->lock, NULL);
    od_cond_init(&shelf->unused);
    return OD_OK;
}

static void free_all(const vgiw_shelf *shelf, vgiw_kept *list)
{
    while (list != NULL) {
        vgiw_kept *next = list->next;

        shelf->free_kept(list);
        list = next;
    }
}

void vgiw_shelf_free(vgiw_shelf *shelf)
{
    if (shelf == NULL)
        return;
    free_all(shelf, shelf->list);
    pthread_cond_destroy(&shelf->unused);
    pthread_mutex_destroy(&shelf->lock);
    od_free(shelf);
}

/* Takes those that nobody asked for since OLDEST, and DONE ones, out of the list, as a list of their own. */
static vgiw_kept *cut(vgiw_shelf *shelf, int64_t oldest, bool done)
{
    vgiw_kept *out = NULL;

    for (vgiw_kept **at = &shelf->list; *at != NULL;) {
        vgiw_kept *kept = *at;

        if (kept->used || (kept->since_ns > oldest && !(done && kept->done))) {
            at = &kept->next;
            continue;
        }
        *at = kept->next;
        shelf->count--;
        kept->next = out;
        out = kept;
    }
    return out;
}

od_code vgiw_shelf_enter(vgiw_shelf *shelf, vgiw_kept *kept, od_error *err)
{
    int64_t now = od_clock_ns();
    vgiw_kept *old, *crowd = NULL;
    bool room;

    pthread_mutex_lock(&shelf->lock);
    old = cut(shelf, now - IDLE_MS * INT64_C(1000000), false);
    if (shelf->count >= MAX)
        crowd = cut(shelf, now - SHORT_MS * INT64_C(1000000), true);
    room = shelf->count < MAX;
    if (room) {
        kept->used = true;
        kept->next = shelf->list;
        shelf->list = kept;
        shelf->count++;
    }
    pthread_mutex_unlock(&shelf->lock);
    free_all(shelf, old);
    free_all(shelf, crowd);
    return room ? OD_OK : od_fail(err, OD_E_BUSY, "%d scans are under way", MAX);
}

vgiw_kept *vgiw_shelf_find(vgiw_shelf *shelf, od_slice key)
{
    vgiw_kept *kept;

    pthread_mutex_lock(&shelf->lock);
    for (;;) {
        for (kept = shelf->list; kept != NULL; kept = kept->next)
            if (od_slice_equal(key, od_slice_of(kept->key, kept->key_len)))
                break;
        if (kept == NULL || !kept->used)
            break;
        (void)od_cond_wait(&shelf->unused, &shelf->lock, OD_DEADLINE_NEVER);
    }
    if (kept != NULL)
        kept->used = true;
    pthread_mutex_unlock(&shelf->lock);
    return kept;
}

void vgiw_shelf_give_back(vgiw_shelf *shelf, vgiw_kept *kept)
{
    pthread_mutex_lock(&shelf->lock);
    kept->used = false;
    kept->since_ns = od_clock_ns();
    pthread_cond_broadcast(&shelf->unused);
    pthread_mutex_unlock(&shelf->lock);
}

void vgiw_shelf_take(vgiw_shelf *shelf, vgiw_kept *kept)
{
    vgiw_kept **at = &shelf->list;

    pthread_mutex_lock(&shelf->lock);
    while (*at != kept)
        at = &(*at)->next;
    *at = kept->next;
    shelf->count--;
    pthread_cond_broadcast(&shelf->unused);
    pthread_mutex_unlock(&shelf->lock);
}
