#include "storage/store/volume.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/thread.h"

#include "base/banned.h"

#define PAUSE_MIN_MS 200 /* after a failure; twice as long after each further one */
#define PAUSE_MAX_MS 60000

/* ---- One layer ---- */

typedef struct {
    od_layered_store *store;
    od_uuid pin;
    bool by_thread; /* which ends when the store is closed */
} turn;

static bool stopping(od_layered_store *store)
{
    bool stop;

    pthread_mutex_lock(&store->lock);
    stop = store->stopping;
    pthread_mutex_unlock(&store->lock);
    return stop;
}

/* Between pieces: the layer must not become garbage meanwhile. */
static od_code alive(void *arg, od_error *err)
{
    const turn *t = arg;

    if (t->by_thread && stopping(t->store))
        return od_fail(err, OD_E_CANCELLED, "the store is being closed");
    return od_meta_pin_renew(t->store->meta, t->pin, t->store->lease_ms, err);
}

/* Nothing damaged is sent. */
static od_code check(od_layered_store *store, const od_layer_row *row, od_error *err)
{
    od_open_layer *layer = NULL;
    od_code rc = od_layer_open(store, row, OD_IO_READ, &layer, err);

    if (rc != OD_OK)
        return rc;
    rc = od_layer_check(store, row, layer, err);
    od_layer_close(store, layer);
    return rc;
}

static od_code file_size(const od_layered_store *store, const char *path, uint64_t *size, od_error *err)
{
    void *file = NULL;
    int why = store->io->open(store->io->ctx, path, OD_IO_READ, &file);

    if (why == 0)
        why = store->io->size(file, size);
    store->io->close(file);
    return why == 0 ? OD_OK : od_io_fail(store->io, err, why, "cannot open '%s'", path);
}

static od_code send_files(turn *t, const od_layer_row *row, od_error *err)
{
    od_layered_store *store = t->store;
    char *path = od_layer_path(store, row->id);
    char *index = od_index_path(store, row->id, row->length);
    uint64_t size = 0;
    od_code rc = path != NULL && index != NULL ? check(store, row, err)
                                               : od_fail(err, OD_E_NO_MEMORY, "no memory to send a layer");

    if (rc == OD_OK)
        rc = od_tier_send(store->tier, path, row->length, alive, t, err);
    if (rc == OD_OK && row->state == OD_LAYER_FROZEN) {
        rc = file_size(store, index, &size, err);
        if (rc == OD_OK)
            rc = od_tier_send(store->tier, index, size, alive, t, err);
    }
    od_free(path);
    od_free(index);
    return rc;
}

static od_code at_point(const od_layered_store *store, const char *name, od_error *err)
{
    int why = store->io->point(store->io->ctx, name);

    return why == 0 ? OD_OK : od_fail_errno(err, OD_E_IO, why, "stopped at '%s'", name);
}

/* Noted first, sent then, and counted last: whatever ends it in between, a collection finds what is far away. */
static od_code send_layer(turn *t, const od_layer_row *row, od_error *err)
{
    od_layered_store *store = t->store;
    char id[OD_UUID_TEXT_SIZE];
    char uri[OD_ERROR_MESSAGE_SIZE];
    od_code rc;

    od_uuid_format(row->id, id);
    snprintf(uri, sizeof uri, "%s/%s.seg", od_tier_url(store->tier), id);
    rc = od_meta_far_begin(store->meta, row->id, uri, store->lease_ms, &t->pin, err);
    if (rc != OD_OK)
        return rc;
    OD_TRY(at_point(store, "tier.noted", err));
    OD_TRY(send_files(t, row, err));
    OD_TRY(at_point(store, "tier.sent", err));
    return od_meta_far_end(store->meta, t->pin, row->id, err);

out:
    (void)!od_meta_unpin(store->meta, t->pin, NULL);
    od_error_prefix(err, "layer '%s'", id);
    return rc;
}

/* ---- All of them ---- */

static bool is_near(const od_layered_store *store, const od_layer_row *row)
{
    char *path = od_layer_path(store, row->id);
    bool near = path != NULL && od_tier_is_near(store->tier, path);

    od_free(path);
    return near;
}

/* Of what is far the oldest goes from the directory, if its copy is really there. */
static od_code let_go(od_layered_store *store, const od_layer_rows *rows, od_error *err)
{
    uint64_t kept = 0;
    od_code rc = OD_OK;

    for (size_t i = rows->count; rc == OD_OK && store->keep_bytes > 0 && i-- > 0;) {
        const od_layer_row *row = &rows->rows[i];
        char *path;

        if (!row->far || !is_near(store, row))
            continue;
        kept += row->length;
        if (kept <= store->keep_bytes)
            continue;
        path = od_layer_path(store, row->id);
        rc = path != NULL ? od_tier_check(store->tier, path, row->length, err)
                          : od_fail(err, OD_E_NO_MEMORY, "no memory for a layer");
        if (rc == OD_OK) {
            int why = od_layer_remove(store, row);

            if (why != 0)
                rc = od_fail_errno(err, OD_E_IO, why, "cannot remove '%s'", path);
        }
        od_free(path);
    }
    return rc;
}

static bool waits(const od_layer_row *row)
{
    return !row->far && (row->state == OD_LAYER_SEALED || row->state == OD_LAYER_FROZEN);
}

/* What others wrote and have not sent is theirs to send: it is not here. */
static od_code send_all(turn *t, od_layer_rows *rows, od_tiered_fn fn, void *arg, od_error *err)
{
    for (size_t i = 0; i < rows->count; i++) {
        od_layer_row *row = &rows->rows[i];
        char id[OD_UUID_TEXT_SIZE];
        od_storage_tiered tiered = {.layer = id, .bytes = row->length};
        od_code rc;

        if (!waits(row) || !is_near(t->store, row))
            continue;
        rc = send_layer(t, row, err);
        if (rc == OD_E_NOT_FOUND) /* merged, collected, or sent by somebody else meanwhile */
            continue;
        if (rc != OD_OK)
            return rc;
        row->far = true;
        od_uuid_format(row->id, id);
        if (fn != NULL && fn(arg, &tiered) != 0)
            break;
    }
    return OD_OK;
}

static od_code tier_all(od_layered_store *store, bool by_thread, od_tiered_fn fn, void *arg, od_error *err)
{
    turn t = {.store = store, .by_thread = by_thread};
    od_layer_rows rows = {0};
    od_code rc = od_meta_layers(store->meta, &rows, err);

    if (rc == OD_OK)
        rc = send_all(&t, &rows, fn, arg, err);
    if (rc == OD_OK)
        rc = let_go(store, &rows, err);
    od_layer_rows_release(&rows);
    return rc;
}

od_code od_layered_tier(void *store, od_tiered_fn fn, void *arg, od_error *err)
{
    return ((od_layered_store *)store)->tier == NULL ? od_no_tier(err) : tier_all(store, false, fn, arg, err);
}

od_code od_layered_tier_status(void *arg, od_storage_tier_status *out, od_error *err)
{
    od_layered_store *store = arg;
    od_layer_rows rows = {0};
    od_tier_counts counts;
    od_code rc;

    if (store->tier == NULL)
        return od_no_tier(err);
    rc = od_meta_layers(store->meta, &rows, err);
    if (rc != OD_OK)
        return rc;
    counts = od_tier_count(store->tier);
    *out = (od_storage_tier_status){
        .fetches = counts.fetches, .fetched_bytes = counts.fetched_bytes, .cached_bytes = counts.cached_bytes};
    for (size_t i = 0; i < rows.count; i++) {
        const od_layer_row *row = &rows.rows[i];
        uint64_t far = row->far ? 1 : 0;
        uint64_t near;

        if (row->state != OD_LAYER_SEALED && row->state != OD_LAYER_FROZEN)
            continue;
        near = is_near(store, row) ? 1 : 0;
        out->layers++;
        out->bytes += row->length;
        out->far_layers += far;
        out->far_bytes += far * row->length;
        out->near_layers += near;
        out->near_bytes += near * row->length;
    }
    od_layer_rows_release(&rows);
    pthread_mutex_lock(&store->lock);
    snprintf(out->last_error, sizeof out->last_error, "%s", store->send_error);
    pthread_mutex_unlock(&store->lock);
    return OD_OK;
}

/* ---- The thread ---- */

/* With LOCK held: until there is something to do, or PAUSE_MS have passed (0: for ever). */
static void rest(od_layered_store *store, int pause_ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += pause_ms / 1000;
    until.tv_nsec += (long)(pause_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (!store->stopping && !store->send_wanted) {
        if (pause_ms == 0)
            pthread_cond_wait(&store->wake, &store->lock);
        else if (pthread_cond_timedwait(&store->wake, &store->lock, &until) == ETIMEDOUT)
            break;
    }
}

/* After a failure no seal hurries it: it waits its time. */
static void *send_layers(void *arg)
{
    od_layered_store *store = arg;
    int pause = 0;

    pthread_mutex_lock(&store->lock);
    while (!store->stopping) {
        od_error err = {0};
        od_code rc;

        store->send_wanted = false;
        pthread_mutex_unlock(&store->lock);
        rc = tier_all(store, true, NULL, NULL, &err);
        pthread_mutex_lock(&store->lock);
        snprintf(store->send_error, sizeof store->send_error, "%s", rc == OD_OK ? "" : err.message);
        if (rc == OD_OK)
            pause = 0;
        else
            pause = pause == 0 ? PAUSE_MIN_MS : (pause * 2 < PAUSE_MAX_MS ? pause * 2 : PAUSE_MAX_MS);
        if (rc != OD_OK)
            store->send_wanted = false;
        rest(store, pause);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

od_code od_store_tier_start(od_layered_store *store, od_error *err)
{
    int why = od_thread_create(&store->sender, send_layers, store);

    store->sender_started = why == 0;
    return why == 0 ? OD_OK : od_fail_errno(err, OD_E_IO, why, "cannot start the thread that sends layers away");
}

void od_store_tier_soon(od_layered_store *store)
{
    pthread_mutex_lock(&store->lock);
    store->send_wanted = true;
    pthread_cond_broadcast(&store->wake);
    pthread_mutex_unlock(&store->lock);
}
