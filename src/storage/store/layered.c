#include "storage/store/volume.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "base/deadline.h"
#include "base/thread.h"

#include "base/banned.h"

#define DEFAULT_LEASE_MS 30000
#define DEFAULT_OPEN_FILES 64

static void renew(od_layered_store *store, const od_layered_volume *volume)
{
    static const od_uuid none;

    /* A lease that is over shows at the next sync; a disturbed renewal is repeated. */
    if (volume->writable)
        (void)od_meta_renew(store->meta, &volume->lease, store->lease_ms, NULL);
    else if (memcmp(&volume->pin, &none, sizeof none) != 0)
        (void)od_meta_pin_renew(store->meta, volume->pin, store->lease_ms, NULL);
}

static void *beat(void *arg)
{
    od_layered_store *store = arg;

    pthread_mutex_lock(&store->lock);
    while (!store->stopping) {
        struct timespec until;
        int64_t pause = store->lease_ms / 3 > 0 ? store->lease_ms / 3 : 1;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += pause / 1000;
        until.tv_nsec += pause % 1000 * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        while (!store->stopping && pthread_cond_timedwait(&store->wake, &store->lock, &until) != ETIMEDOUT)
            ;
        for (const od_layered_volume *volume = store->volumes; !store->stopping && volume != NULL;
             volume = volume->next)
            renew(store, volume);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

od_code od_store_enlist(od_layered_store *store, od_layered_volume *volume, od_error *err)
{
    int why = 0;

    pthread_mutex_lock(&store->lock);
    if (store->heartbeat && !store->started) {
        why = od_thread_create(&store->thread, beat, store);
        store->started = why == 0;
    }
    if (why == 0) {
        volume->next = store->volumes;
        store->volumes = volume;
    }
    pthread_mutex_unlock(&store->lock);
    return why == 0 ? OD_OK : od_fail_errno(err, OD_E_IO, why, "cannot start the thread that renews leases");
}

void od_store_ready(od_layered_store *store, od_layered_volume *volume)
{
    pthread_mutex_lock(&store->lock);
    volume->ready = true;
    pthread_mutex_unlock(&store->lock);
}

static int stop_merging(void *arg, const od_storage_merge *merge)
{
    od_layered_store *store = arg;
    bool stop;

    (void)merge;
    pthread_mutex_lock(&store->lock);
    stop = store->stopping;
    pthread_mutex_unlock(&store->lock);
    return stop;
}

static void *merge_layers(void *arg)
{
    od_layered_store *store = arg;

    pthread_mutex_lock(&store->lock);
    for (;;) {
        while (!store->stopping && !store->merge_wanted)
            pthread_cond_wait(&store->wake, &store->lock);
        if (store->stopping)
            break;
        store->merge_wanted = false;
        pthread_mutex_unlock(&store->lock);
        /* What fails is tried again after the next seal, and od_store_compact tells why. */
        (void)!od_layered_compact(store, NULL, false, stop_merging, store, NULL);
        od_store_tier_soon(store);
        pthread_mutex_lock(&store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

void od_store_compact_soon(od_layered_store *store)
{
    pthread_mutex_lock(&store->lock);
    if (store->heartbeat && !store->merger_started)
        store->merger_started = od_thread_create(&store->merger, merge_layers, store) == 0;
    store->merge_wanted = true;
    store->send_wanted = store->send_wanted || !store->merger_started; /* else what is merged goes away at once */
    pthread_cond_broadcast(&store->wake);
    pthread_mutex_unlock(&store->lock);
}

void od_store_delist(od_layered_store *store, const od_layered_volume *volume)
{
    pthread_mutex_lock(&store->lock);
    for (od_layered_volume **at = &store->volumes; *at != NULL; at = &(*at)->next)
        if (*at == volume) {
            *at = volume->next;
            break;
        }
    pthread_mutex_unlock(&store->lock);
}

void od_store_told(const od_layered_store *store, od_storage_work work, int64_t start_ns, od_code rc)
{
    od_storage_event event = {.work = work, .failed = rc != OD_OK, .nanoseconds = (uint64_t)(od_clock_ns() - start_ns)};

    if (store->observe != NULL && rc != OD_E_CANCELLED)
        store->observe(store->observe_arg, &event);
}

void od_layered_close_store(void *closed)
{
    od_layered_store *store = closed;

    pthread_mutex_lock(&store->lock);
    store->stopping = true;
    pthread_cond_broadcast(&store->wake);
    pthread_mutex_unlock(&store->lock);
    if (store->started)
        pthread_join(store->thread, NULL);
    if (store->merger_started)
        pthread_join(store->merger, NULL);
    if (store->sender_started)
        pthread_join(store->sender, NULL);
    od_meta_close(store->meta);
    od_tier_free(store->tier);
    pthread_cond_destroy(&store->wake);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->files);
    od_free(store->directory);
    od_free(store);
}

static od_code prepare_directory(const od_layered_store *store, const od_store_ports *ports, od_meta **meta,
                                 od_error *err)
{
    size_t size = strlen(store->directory) + sizeof "/metadata.sqlite";
    char *path = od_alloc(size);
    od_code rc;
    int why = 0;

    if (path == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a store");
    snprintf(path, size, "%s/layers", store->directory);
    if (mkdir(path, 0700) == 0)
        why = store->io->sync_dir(store->io->ctx, store->directory);
    else if (errno != EEXIST)
        why = errno;
    if (why != 0) {
        rc = od_fail_errno(err, OD_E_IO, why, "cannot make '%s'", path);
    } else {
        snprintf(path, size, "%s/metadata.sqlite", store->directory);
        rc = od_meta_open(&(od_meta_place){.path = path,
                                           .postgres_url = ports->options.postgres_url,
                                           .postgres_schema = ports->options.postgres_schema,
                                           .clock = ports->clock,
                                           .clock_arg = ports->clock_arg},
                          meta, err);
    }
    od_free(path);
    return rc;
}

static od_code prepare_tier(od_layered_store *store, const od_storage_options *options, od_error *err)
{
    od_blob_place place = {.url = options->blob_url,
                           .endpoint = options->s3_endpoint,
                           .region = options->s3_region,
                           .key = options->s3_key,
                           .secret = options->s3_secret,
                           .session = options->s3_session,
                           .virtual_host = options->s3_virtual_host != 0,
                           .timeout_ms = options->s3_timeout_ms,
                           .part_bytes = options->s3_part_bytes};
    od_blob *blob = NULL;
    od_code rc;

    if (options->blob_url == NULL)
        return OD_OK;
    store->keep_bytes = options->keep_bytes;
    rc = od_blob_open(&place, &blob, err);
    if (rc != OD_OK)
        return rc;
    rc = od_tier_create(store->io, blob, options->cache_bytes, &store->tier, err);
    if (rc != OD_OK) {
        od_blob_close(blob);
        return rc;
    }
    store->io = od_tier_io(store->tier);
    return options->tier != 0 ? od_store_tier_start(store, err) : OD_OK;
}

od_code od_layered_store_open(const od_store_ports *ports, void **out, od_error *err)
{
    od_layered_store *store = od_calloc(1, sizeof *store);
    od_code rc;

    if (store == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a store");
    pthread_mutex_init(&store->lock, NULL);
    pthread_mutex_init(&store->files, NULL);
    od_cond_init(&store->wake);
    store->io = ports->io != NULL ? ports->io : od_io_posix();
    store->lease_ms = ports->options.lease_ms > 0 ? ports->options.lease_ms : DEFAULT_LEASE_MS;
    store->heartbeat = !ports->no_heartbeat;
    store->observe = ports->options.observe;
    store->observe_arg = ports->options.observe_arg;
    store->max_open_files = ports->max_open_files > 0 ? ports->max_open_files : DEFAULT_OPEN_FILES;
    store->directory = od_strdup(ports->options.directory);
    rc = store->directory == NULL ? od_fail(err, OD_E_NO_MEMORY, "no memory for a store")
                                  : prepare_directory(store, ports, &store->meta, err);
    if (rc == OD_OK)
        rc = prepare_tier(store, &ports->options, err);
    if (rc != OD_OK) {
        od_layered_close_store(store);
        return rc;
    }
    *out = store;
    return OD_OK;
}

od_code od_layered_snapshots(void *arg, const char *database, od_snapshot_fn fn, void *fn_arg, od_error *err)
{
    const od_layered_store *store = arg;
    od_snapshot_row *rows = NULL;
    size_t count = 0;
    od_code rc = od_meta_snapshots(store->meta, database, &rows, &count, err);

    for (size_t i = 0; rc == OD_OK && i < count; i++) {
        char id[OD_UUID_TEXT_SIZE];
        char layer[OD_UUID_TEXT_SIZE];
        od_storage_snapshot snapshot = {
            .id = id, .database = rows[i].database, .layer = layer, .created_ms = rows[i].created_ms};

        od_uuid_format(rows[i].id, id);
        od_uuid_format(rows[i].layer, layer);
        if (fn(fn_arg, &snapshot) != 0)
            break;
    }
    od_free(rows);
    return rc;
}

od_code od_layered_drop(void *store, od_uuid snapshot, od_error *err)
{
    return od_meta_snapshot_drop(((od_layered_store *)store)->meta, snapshot, err);
}

od_code od_layered_clone(void *store, od_uuid snapshot, const char *database, od_error *err)
{
    return od_meta_clone(((od_layered_store *)store)->meta, snapshot, database, err);
}
