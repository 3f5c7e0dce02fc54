/* A database in layers, opened to write or to read.
 *
 * Locks, in this order: SYNCING (a sync or a seal at a time), APPEND (the end of the active segment; held across the write of a
 * record, since a log has one end), LOCK (files and layers; never held across I/O). */
#ifndef OD_STORAGE_STORE_VOLUME_H
#define OD_STORAGE_STORE_VOLUME_H

#include <pthread.h>

#include "storage/store/backend.h"
#include "storage/store/files.h"

/* The file of a layer, open for as long as the volume is. */
typedef struct {
    od_segment segment;
    void *file;
} od_open_layer;

typedef struct od_layered_volume od_layered_volume;

typedef struct {
    char *directory;
    const od_io *io;
    od_meta *meta;
    int64_t lease_ms;
    bool heartbeat;
    pthread_mutex_t lock; /* the rest */
    pthread_cond_t wake;
    pthread_t thread;
    bool started;
    bool stopping;
    od_layered_volume *volumes;
} od_layered_store;

struct od_layered_volume {
    od_layered_store *store;
    od_layered_volume *next; /* under the store's lock */
    bool writable;
    od_lease lease; /* of a writer */
    od_uuid pin;    /* of a reader; all zero: none */

    pthread_rwlock_t lock;
    od_files files;
    od_open_layer **layers; /* the extents' numbers; the last is a writer's active one */
    size_t layer_count;
    size_t layer_cap;

    pthread_mutex_t syncing;
    pthread_mutex_t append;
    uint64_t end; /* where the next record goes */
    uint64_t sequence;
    uint64_t durable; /* what a sync has acknowledged */
    uint8_t hash[OD_SEGMENT_HASH_SIZE];
    bool doubtful; /* a sync failed: what lies behind DURABLE has to be written once more */
    bool shaky;    /* a record may stand behind END that nobody was told of */
    bool broken;   /* nothing more is written */
};

/* ---- layered.c: the store, and the thread that renews its leases and pins ---- */

void od_layered_close_store(void *closed);
OD_MUST_CHECK od_code od_layered_snapshots(void *store, const char *database, od_snapshot_fn fn, void *arg,
                                           od_error *err);
OD_MUST_CHECK od_code od_layered_drop(void *store, od_uuid snapshot, od_error *err);
OD_MUST_CHECK od_code od_layered_clone(void *store, od_uuid snapshot, const char *database, od_error *err);
/* From now on, or not any more, the thread renews what VOLUME holds. */
OD_MUST_CHECK od_code od_store_enlist(od_layered_store *store, od_layered_volume *volume, od_error *err);
void od_store_delist(od_layered_store *store, const od_layered_volume *volume);

/* ---- layers.c: files of layers ---- */

/* DIRECTORY/layers/ID.seg; freed with od_free, NULL when memory is out. */
char *od_layer_path(const od_layered_store *store, od_uuid id);
OD_MUST_CHECK od_code od_layer_open(const od_layered_store *store, const od_layer_row *row, od_io_mode mode,
                                    od_open_layer **out, od_error *err);
/* Makes the file of a new layer, durably. */
OD_MUST_CHECK od_code od_layer_make(const od_layered_store *store, const od_segment *segment, od_open_layer **out,
                                    od_error *err);
void od_layer_close(const od_layered_store *store, od_open_layer *layer); /* NULL allowed */

/* ---- load.c: from metadata and segments to files and extents ---- */

/* Room for one layer more, so that od_volume_push cannot fail. */
OD_MUST_CHECK od_code od_volume_reserve(od_layered_volume *volume, od_error *err);
void od_volume_push(od_layered_volume *volume, od_open_layer *layer);
/* For a writer that has its lease: takes the tip over or goes on with it. */
OD_MUST_CHECK od_code od_volume_load_writer(od_layered_volume *volume, od_error *err);
OD_MUST_CHECK od_code od_volume_load_reader(od_layered_volume *volume, od_uuid layer, od_error *err);

/* ---- write.c: the end of the log ---- */

/* With APPEND held. */
OD_MUST_CHECK od_code od_volume_append(od_layered_volume *volume, od_record *record, const void *payload,
                                       od_error *err);
/* With SYNCING and APPEND held: writes what may be lost once more. */
OD_MUST_CHECK od_code od_volume_rewrite(od_layered_volume *volume, od_error *err);
OD_MUST_CHECK od_code od_layered_sync(void *volume, od_error *err);

/* ---- seal.c ---- */

/* A new layer above PARENT in metadata and directory; OLD and SNAPSHOT as in od_meta_advance. With SYNCING and APPEND held, or nobody
 * else in. */
OD_MUST_CHECK od_code od_volume_advance(od_layered_volume *volume, od_uuid parent, const od_layer_row *old,
                                        const od_uuid *snapshot, od_error *err);
OD_MUST_CHECK od_code od_layered_seal(void *volume, od_uuid *snapshot, od_error *err);

/* ---- upkeep.c ---- */

OD_MUST_CHECK od_code od_layered_gc(void *store, bool dry_run, od_garbage_fn fn, void *arg, uint64_t *bytes,
                                    od_error *err);
OD_MUST_CHECK od_code od_layered_verify(void *store, od_check_fn fn, void *arg, od_error *err);

#endif
