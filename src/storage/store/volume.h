/* A database in layers, opened to write or to read.
 *
 * Locks, in this order: SYNCING (a sync or a seal at a time), APPEND (the end of the active segment; held across the write of a
 * record, since a log has one end), LOCK (files and layers; never held across I/O). The store's lock comes before a volume's LOCK; its FILES is
 * last. */
#ifndef OD_STORAGE_STORE_VOLUME_H
#define OD_STORAGE_STORE_VOLUME_H

#include <pthread.h>

#include "storage/store/backend.h"
#include "storage/store/files.h"
#include "storage/tier.h"

/* A layer that volumes are made of. Its file is open while somebody holds it, and then until too many others are. */
typedef struct od_open_layer {
    od_segment segment;
    void *file;       /* NULL: closed for now. This and the rest are under the store's FILES */
    unsigned volumes; /* that are made of it */
    unsigned holds;   /* it is freed when nobody holds it and no volume is made of it */
    bool idle;        /* open, and nobody holds it: it is in the store's list */
    struct od_open_layer *before;
    struct od_open_layer *behind;
} od_open_layer;

typedef struct od_layered_volume od_layered_volume;

typedef struct {
    char *directory;
    const od_io *io; /* the tier's, if there is one */
    od_tier *tier;   /* NULL: all layers are in the directory */
    uint64_t keep_bytes;
    od_meta *meta;
    int64_t lease_ms;
    bool heartbeat;
    unsigned max_open_files;
    void (*observe)(void *arg, const od_storage_event *event); /* NULL: nobody */
    void *observe_arg;

    pthread_mutex_t files; /* of layers: a leaf, taken under any other lock */
    unsigned open_files;
    od_open_layer *idle_first; /* the longest idle */
    od_open_layer *idle_last;

    pthread_mutex_t lock; /* the rest */
    pthread_cond_t wake;
    pthread_t thread;
    bool started;
    pthread_t merger;
    bool merger_started;
    bool merge_wanted;
    pthread_t sender;
    bool sender_started;
    bool send_wanted;
    char send_error[OD_ERROR_MESSAGE_SIZE]; /* empty: the last time went well */
    bool stopping;
    od_layered_volume *volumes;
} od_layered_store;

struct od_layered_volume {
    od_layered_store *store;
    od_layered_volume *next; /* under the store's lock */
    bool writable;
    bool ready;     /* under the store's lock: it is loaded */
    od_lease lease; /* of a writer */
    od_uuid pin;    /* of a reader; all zero: none */

    pthread_rwlock_t lock;
    od_files files;
    od_open_layer **layers; /* the extents' numbers; NULL: its bytes are in another one by now */
    size_t layer_count;
    size_t layer_cap;

    pthread_mutex_t syncing;
    pthread_mutex_t append;
    od_open_layer *active; /* of a writer: held */
    uint64_t end;          /* where the next record goes */
    uint64_t sequence;
    uint64_t durable; /* what a sync has acknowledged */
    uint8_t hash[OD_SEGMENT_HASH_SIZE];
    bool doubtful; /* a sync failed: what lies behind DURABLE has to be written once more */
    bool shaky;    /* a record may stand behind END that nobody was told of: nothing is written there any more */
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
void od_store_ready(od_layered_store *store, od_layered_volume *volume); /* it is loaded */
/* Something was sealed: a thread of the store's merges what pays, unless the store has no such thread. */
void od_store_compact_soon(od_layered_store *store);
void od_store_delist(od_layered_store *store, const od_layered_volume *volume);
/* Whoever observes the store is told of WORK that began at START_NS of od_clock_ns and ended now, with RC. With no lock held. */
void od_store_told(const od_layered_store *store, od_storage_work work, int64_t start_ns, od_code rc);

/* ---- layers.c: files of layers ---- */

/* DIRECTORY/layers/ID.seg; freed with od_free, NULL when memory is out. */
char *od_layer_path(const od_layered_store *store, od_uuid id);
/* Of the index of a layer that is frozen at LENGTH: two writers who end a layer at different bytes do not meet in it. */
char *od_index_path(const od_layered_store *store, od_uuid id, uint64_t length);
/* *out is held, and counts as of a volume: the caller's to push and let go, or to close. */
OD_MUST_CHECK od_code od_layer_open(od_layered_store *store, const od_layer_row *row, od_io_mode mode,
                                    od_open_layer **out, od_error *err);
/* Makes the file of a new layer, durably; *out is as of od_layer_open. */
OD_MUST_CHECK od_code od_layer_make(od_layered_store *store, const od_segment *segment, od_open_layer **out,
                                    od_error *err);
void od_layer_close(od_layered_store *store, od_open_layer *layer); /* NULL allowed */
/* Removes the files of a layer, durably; gives an errno value. That they are gone already is none. */
int od_layer_remove(const od_layered_store *store, const od_layer_row *row);
/* What a layer that is sealed or frozen at row->length holds. *records: where its records end. */
OD_MUST_CHECK od_code od_layer_footer(od_layered_store *store, const od_layer_row *row, od_open_layer *layer,
                                      od_footer *out, uint64_t *records, od_error *err);
/* Writes, durably, the footer of a layer that is to be frozen at LENGTH to a file beside it. */
OD_MUST_CHECK od_code od_index_write(const od_layered_store *store, const od_segment *segment, uint64_t length,
                                     const od_footer *footer, od_error *err);

/* ---- handles.c: which of these files are open ---- */

void od_layer_admit(od_layered_store *store, od_open_layer *layer); /* a new one, whose file is open */
void od_layer_hold(od_layered_store *store, od_open_layer *layer);
void od_layer_let_go(od_layered_store *store, od_open_layer *layer); /* NULL allowed */
void od_layer_join(od_layered_store *store, od_open_layer *layer);   /* one volume more is made of it */
void od_layer_leave(od_layered_store *store, od_open_layer *layer);  /* one less; NULL allowed */
/* The file of a layer that is held, for as long as it is. */
OD_MUST_CHECK od_code od_layer_file(od_layered_store *store, od_open_layer *layer, void **file, od_error *err);

/* ---- load.c: from metadata and segments to files and extents ---- */

/* Room for one layer more, so that od_volume_push cannot fail. */
OD_MUST_CHECK od_code od_volume_reserve(od_layered_volume *volume, od_error *err);
void od_volume_push(od_layered_volume *volume, od_open_layer *layer);
/* For a writer that has its lease: takes the tip over or goes on with it. */
OD_MUST_CHECK od_code od_volume_load_writer(od_layered_volume *volume, od_error *err);
OD_MUST_CHECK od_code od_volume_load_reader(od_layered_volume *volume, od_uuid layer, od_error *err);

/* ---- write.c: the end of the log ---- */

/* Locks APPEND, at an end of the log that may be written to. It is locked whatever is returned. */
OD_MUST_CHECK od_code od_volume_enter(od_layered_volume *volume, od_error *err);
/* With APPEND held. */
OD_MUST_CHECK od_code od_volume_append(od_layered_volume *volume, od_record *record, const void *payload,
                                       od_error *err);
/* With SYNCING and APPEND held: after a record failed, makes an end of the log that may be written to. */
OD_MUST_CHECK od_code od_volume_heal(od_layered_volume *volume, od_error *err);
/* With SYNCING and APPEND held: writes what may be lost once more. */
OD_MUST_CHECK od_code od_volume_rewrite(od_layered_volume *volume, od_error *err);
OD_MUST_CHECK od_code od_layered_sync(void *volume, od_error *err);

/* ---- seal.c ---- */

/* The footer of the active layer; released with od_footer_release. With APPEND held, or nobody else in. */
OD_MUST_CHECK od_code od_volume_footer(od_layered_volume *volume, od_footer *out, od_error *err);
/* What the metadata are to say of LAYER. */
od_layer_row od_volume_row(const od_layered_volume *volume, const od_open_layer *layer, od_layer_state state,
                           uint64_t length, const od_footer *footer);
/* Freezes LAYER, which is on stable storage up to LENGTH, and goes on in a new one. With SYNCING and APPEND held, or nobody else in. */
OD_MUST_CHECK od_code od_volume_freeze(od_layered_volume *volume, const od_open_layer *layer, uint64_t length,
                                       od_error *err);
/* A new layer above PARENT in metadata and directory; OLD and SNAPSHOT as in od_meta_advance. With SYNCING and APPEND held, or nobody
 * else in. */
OD_MUST_CHECK od_code od_volume_advance(od_layered_volume *volume, od_uuid parent, const od_layer_row *old,
                                        const od_uuid *snapshot, od_error *err);
OD_MUST_CHECK od_code od_layered_seal(void *volume, od_uuid *snapshot, od_error *err);

/* ---- compact.c ---- */

OD_MUST_CHECK od_code od_layered_compact(void *store, const char *database, bool whole, od_merge_fn fn, void *arg,
                                         od_error *err);
OD_MUST_CHECK od_code od_layered_status(void *store, const char *database, od_status_fn fn, void *arg, od_error *err);

/* ---- tiering.c: sealed layers go far away ---- */

/* Starts the thread that sends what is sealed; it sends what was left before, too. */
OD_MUST_CHECK od_code od_store_tier_start(od_layered_store *store, od_error *err);
void od_store_tier_soon(od_layered_store *store); /* something was sealed. With the store's lock free */
OD_MUST_CHECK od_code od_layered_tier(void *store, od_tiered_fn fn, void *arg, od_error *err);
OD_MUST_CHECK od_code od_layered_tier_status(void *store, od_storage_tier_status *out, od_error *err);

/* ---- upkeep.c ---- */

/* Reads all of a layer that is held, and frozen or sealed. */
OD_MUST_CHECK od_code od_layer_check(od_layered_store *store, const od_layer_row *row, od_open_layer *layer,
                                     od_error *err);

OD_MUST_CHECK od_code od_layered_gc(void *store, bool dry_run, od_garbage_fn fn, void *arg, uint64_t *bytes,
                                    od_error *err);
OD_MUST_CHECK od_code od_layered_verify(void *store, od_check_fn fn, void *arg, od_error *err);

#endif
