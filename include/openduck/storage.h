/* openduck/storage.h: differential storage for databases, as plain C.
 *
 * A store is a place where databases live: a data directory, or memory. A volume is one database in it, opened to write (one at a time),
 * to read its last synced state, or to read a snapshot: a few logical files ("database.duckdb", "database.duckdb.wal"), each a space of
 * bytes. What is written is there after a crash once od_volume_sync has returned OK; od_volume_seal keeps the state as a snapshot
 * that never changes, and costs what was written since the last one.
 *
 * Every function returns a code; ERR, which may be NULL, is the caller's, and filled only on failure. Handles may be used by several
 * threads at once, except for closing. NULL where a handle, a name or a place for a result is needed gives OD_STORAGE_INVALID.
 * Offsets and sizes are bytes, times milliseconds, ids of layers and snapshots UUIDs as text. Results are set on success only. */
#ifndef OPENDUCK_STORAGE_H
#define OPENDUCK_STORAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* The numbers stay as they are; others may follow. */
typedef enum {
    OD_STORAGE_OK = 0,
    OD_STORAGE_INVALID = 1,     /* an argument makes no sense */
    OD_STORAGE_NOT_FOUND = 2,   /* no such database, snapshot or file */
    OD_STORAGE_EXISTS = 3,      /* the name is taken */
    OD_STORAGE_LEASED = 4,      /* another writer has the database; retry later */
    OD_STORAGE_STALE_LEASE = 5, /* this handle's lease is over: it can change nothing any more. Reopen */
    OD_STORAGE_READ_ONLY = 6,   /* the volume was not opened to write */
    OD_STORAGE_CORRUPT = 7,     /* stored bytes are damaged; the message has layer and offset */
    OD_STORAGE_IO = 8, /* the system refused: a full disk, a broken one. Reads go on, and writes once there is room */
    OD_STORAGE_NO_MEMORY = 9,
    OD_STORAGE_IN_USE = 10,      /* something is still open, or the metadata is locked for long */
    OD_STORAGE_BROKEN = 11,      /* it is unknown what became of a change: reopen to write. Reads go on */
    OD_STORAGE_UNSUPPORTED = 12, /* written by a newer version */
    OD_STORAGE_INTERNAL = 13
} od_storage_code;

typedef struct {
    od_storage_code code;
    char message[1000]; /* one line, names in 'quotes' */
} od_storage_error;

typedef struct od_store od_store;
typedef struct od_volume od_volume;

#define OD_STORAGE_ID_SIZE 37   /* of a UUID as text, with its NUL */
#define OD_STORAGE_NAME_MAX 255 /* bytes of a name of a database or logical file */
#define OD_STORAGE_SIZE_MAX (UINT64_C(1) << 62)

/* ---- Stores ---- */

/* Work of a store that takes time. The numbers stay as they are; others may follow. */
typedef enum {
    OD_STORAGE_WORK_SEAL = 0, /* of a volume, from the call until its snapshot is durable */
    OD_STORAGE_WORK_MERGE = 1 /* of some layers into one */
} od_storage_work;

typedef struct {
    od_storage_work work;
    int failed; /* not 0: it could not be done */
    uint64_t nanoseconds;
} od_storage_event;

/* What a store is made of. Begin with zeros: they give the defaults. */
typedef struct {
    /* An existing directory that only this store uses, for its layers; and for its metadata, if nothing else is said. */
    const char *directory;
    /* How long a writer may be silent before another may take over; 0: 30 seconds. The writers of a handle renew theirs from a thread. */
    uint32_t lease_ms;
    /* Metadata in PostgreSQL 15 or later, as a URL or pairs, just as libpq takes them. NULL: in SQLite in the directory. No error shows the
     * password. */
    const char *postgres_url;
    const char *postgres_schema; /* where its tables are, made if it is not there; NULL: "openduck" */

    /* Where copies of sealed layers go: "s3://BUCKET/PREFIX", or an existing directory. Layers that are not in DIRECTORY are read from there.
     * All that have a store open name the same. NULL: nowhere. */
    const char *blob_url;
    int tier;             /* not 0: a thread sends each layer after its seal; 0: od_store_tier does */
    uint64_t keep_bytes;  /* of layers with such a copy, the newest that have so many bytes stay in DIRECTORY; 0: all */
    uint64_t cache_bytes; /* of memory for what is read from there; 0: 64 MiB */
    const char *s3_endpoint; /* "http://HOST:PORT" or "https://HOST"; NULL: Amazon's */
    const char *s3_region;   /* NULL: "us-east-1" */
    const char *s3_key;
    const char *s3_secret; /* no error shows it */
    const char *s3_session;
    int s3_virtual_host; /* not 0: BUCKET.HOST instead of HOST/BUCKET. Always so at Amazon's */
    uint32_t
        s3_timeout_ms; /* of a request, besides a second for each 64 KiB; 0: 15 seconds. Some are tried four times */
    uint32_t s3_part_bytes; /* of larger layers; 0: 8 MiB. S3 takes 5 MiB or more */

    /* Told of work that ended, by calls and by the store's own threads, on the thread that did it. It must not use the store, and lives
     * until that is closed. Not told: what turned out to be done by others, or was stopped. NULL: nobody is told. */
    void (*observe)(void *arg, const od_storage_event *event);
    void *observe_arg;
} od_storage_options;

/* *options, but for what is not zero in it already, from OPENDUCK_DATA_DIR, OPENDUCK_POSTGRES_URL, OPENDUCK_BLOB_URL, AWS_ENDPOINT_URL_S3 or
 * AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION, and AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. The texts
 * are the environment's. */
void od_storage_options_from_environment(od_storage_options *options);
/* HOME/.openduck/data into OUT, of SIZE bytes: the directory of the store when nobody says where it is. It may not be there yet. HOME NULL:
 * $HOME.
 *   OD_STORAGE_NOT_FOUND   there is no home directory
 *   OD_STORAGE_INVALID     it does not fit */
od_storage_code od_storage_default_directory(const char *home, char *out, size_t size, od_storage_error *err);
/* Opens the store that OPTIONS describe, or makes it. Several processes may have it open. What OPTIONS point to may go afterwards.
 *   OD_STORAGE_IO            the directory or the server cannot be reached
 *   OD_STORAGE_UNSUPPORTED   made by a newer version; or there is no libpq, or an old server */
od_storage_code od_store_open_options(const od_storage_options *options, od_store **out, od_storage_error *err);
/* The same with DIRECTORY and LEASE_MS alone. */
od_storage_code od_store_open(const char *directory, uint32_t lease_ms, od_store **out, od_storage_error *err);
/* A store in memory, that ends with its handle. */
od_storage_code od_store_open_memory(od_store **out, od_storage_error *err);
/* NULL is allowed. OD_STORAGE_IN_USE: volumes are open, and STORE is, too. */
od_storage_code od_store_close(od_store *store, od_storage_error *err);

/* ---- Snapshots ---- */

typedef struct {
    const char *id;
    const char *database;
    const char *layer;  /* another one after layers were merged; "" in memory */
    int64_t created_ms; /* since 1970 */
} od_storage_snapshot;

/* Calls FN for each snapshot, oldest first, of DATABASE or of all (NULL). What FN is given lives for the call; it must not use STORE.
 * If it returns something else than 0, no more follow. */
od_storage_code od_store_snapshots(od_store *store, const char *database,
                                   int (*fn)(void *arg, const od_storage_snapshot *snapshot), void *arg,
                                   od_storage_error *err);
/* Readers that have it open keep it until they close. Its bytes go with the next od_store_gc, as far as nobody else needs them. */
od_storage_code od_store_drop_snapshot(od_store *store, const char *snapshot, od_storage_error *err);
/* A new database that begins as SNAPSHOT is, and shares its layers. Takes the same short time whatever the size.
 *   OD_STORAGE_EXISTS   there is a database of that name */
od_storage_code od_store_clone(od_store *store, const char *snapshot, const char *database, od_storage_error *err);

/* ---- Upkeep ---- */

typedef struct {
    const char *layer;
    const char *reason; /* why nobody needs it */
    uint64_t bytes;
} od_storage_garbage;

/* Removes the layers that no snapshot, database or open reader reaches. With DRY_RUN it only tells. FN (may be NULL) is called for
 * each before it goes, *bytes (may be NULL) is their sum. Safe beside writers and readers, and to repeat after a crash.
 * FN must not use STORE; if it returns something else than 0, this layer and the rest stay. */
od_storage_code od_store_gc(od_store *store, int dry_run, int (*fn)(void *arg, const od_storage_garbage *garbage),
                            void *arg, uint64_t *bytes, od_storage_error *err);

typedef struct {
    const char *layer;     /* the new one */
    uint64_t layers;       /* whose place it takes */
    uint64_t bytes_before; /* of their files */
    uint64_t bytes_after;  /* of its file, so far */
    int done;              /* 0: it goes on */
} od_storage_merge;

/* Merges layers that no snapshot, database or clone needs apart, and removes those that it replaced, unless a reader has them open (then
 * they are garbage later). Of the layers that DATABASE wrote, or of all (NULL). It merges what pays: small layers, layers that are
 * mostly overwritten, and so few of the large ones that a byte is seldom copied; with WHOLE all that it can. A store in a directory does this
 * by itself after a seal, but for WHOLE. Safe beside writers and readers of any process: a writer of STORE goes over to the new layers,
 * others do when they open again. FN (may be NULL) is called as it goes on; it must not use STORE, and something else than 0 ends it,
 * with OD_STORAGE_OK: what was merged by then is. */
od_storage_code od_store_compact(od_store *store, const char *database, int whole,
                                 int (*fn)(void *arg, const od_storage_merge *merge), void *arg, od_storage_error *err);

/* Of the last synced state of a database. */
typedef struct {
    const char *database;
    int has_writer;
    uint64_t snapshots;
    uint64_t layers;       /* that it is made of. Of these six nothing is told of a store in memory: 0 */
    uint64_t mergeable;    /* that od_store_compact would merge next */
    uint64_t stored_bytes; /* of the files of these layers */
    uint64_t data_bytes;   /* in its own files, without holes */
    uint64_t read_bytes;   /* that are read from layers to read them once: records are read as a whole */
    uint64_t extents;      /* pieces that this is done in */
} od_storage_status;

/* Calls FN for each database by name, or for DATABASE; the same rules as in od_store_snapshots.
 *   OD_STORAGE_NOT_FOUND   there is no DATABASE */
od_storage_code od_store_status(od_store *store, const char *database,
                                int (*fn)(void *arg, const od_storage_status *status), void *arg,
                                od_storage_error *err);

typedef struct {
    const char *layer;
    uint64_t bytes;
} od_storage_tiered;

/* Sends each sealed layer that has no copy at the store's blob_url yet, reads it back, compares, and notes it; then removes from the
 * directory what keep_bytes does not cover. FN (may be NULL) is called after each layer that was sent; it must not use STORE, and something
 * else than 0 ends it, with OD_STORAGE_OK. Safe beside everything, from any number of processes, and to repeat after a failure.
 *   OD_STORAGE_UNSUPPORTED   the store has no blob_url */
od_storage_code od_store_tier(od_store *store, int (*fn)(void *arg, const od_storage_tiered *tiered), void *arg,
                              od_storage_error *err);

typedef struct {
    uint64_t layers; /* sealed or frozen ones that something needs */
    uint64_t bytes;
    uint64_t far_layers; /* of these: with a copy */
    uint64_t far_bytes;
    uint64_t near_layers; /* of these: in the directory */
    uint64_t near_bytes;
    uint64_t fetches; /* by this handle: requests for bytes */
    uint64_t fetched_bytes;
    uint64_t cached_bytes;
    char last_error[1000]; /* of this handle's thread; empty since it succeeded */
} od_storage_tier_status;

/* OD_STORAGE_UNSUPPORTED: the store has no blob_url. */
od_storage_code od_store_tier_status(od_store *store, od_storage_tier_status *out, od_storage_error *err);

typedef struct {
    const char *layer;
    const char *problem; /* NULL: none */
    uint64_t bytes;      /* that were read */
} od_storage_check;

/* Reads every byte of every layer, and calls FN (may be NULL) for each layer. OD_STORAGE_CORRUPT if one is damaged or missing; ERR tells
 * the first. An active layer is read up to its last sync. FN must not use STORE; something else than 0 ends it. */
od_storage_code od_store_verify(od_store *store, int (*fn)(void *arg, const od_storage_check *check), void *arg,
                                od_storage_error *err);

/* ---- Volumes ---- */

typedef enum {
    OD_VOLUME_READ = 0,  /* the last synced state, as it is now: it does not follow the writer */
    OD_VOLUME_WRITE = 1, /* the one writer */
    OD_VOLUME_CREATE = 2 /* the one writer; an empty database is made if there is none of that name */
} od_volume_mode;

/* DATABASE: letters, digits and the like; no control characters, at most OD_STORAGE_NAME_MAX bytes of UTF-8.
 *   OD_STORAGE_LEASED   there is a writer. It may be dead: its lease ends by itself */
od_storage_code od_volume_open(od_store *store, const char *database, od_volume_mode mode, od_volume **out,
                               od_storage_error *err);
od_storage_code od_volume_open_snapshot(od_store *store, const char *snapshot, od_volume **out, od_storage_error *err);
/* Syncs, and gives the lease back at once. VOLUME is gone whatever is returned; a failure says that what was not synced before may be
 * lost. NULL is allowed. */
od_storage_code od_volume_close(od_volume *volume, od_storage_error *err);

/* Files are named by numbers that are never used again in their database: they stay through a rename, and after a removal give
 * OD_STORAGE_NOT_FOUND. */
od_storage_code od_volume_create(od_volume *volume, const char *name, uint64_t *file, od_storage_error *err);
od_storage_code od_volume_find(od_volume *volume, const char *name, uint64_t *file, od_storage_error *err);
/* Another file of that name is removed in the same step. */
od_storage_code od_volume_rename(od_volume *volume, uint64_t file, const char *name, od_storage_error *err);
od_storage_code od_volume_remove(od_volume *volume, uint64_t file, od_storage_error *err);
/* Calls FN for each file in the order of creation; the same rules as in od_store_snapshots, for VOLUME. */
od_storage_code od_volume_list(od_volume *volume, int (*fn)(void *arg, uint64_t file, const char *name, uint64_t size),
                               void *arg, od_storage_error *err);

/* Reads up to LENGTH bytes at OFFSET; *got is less only at the end of the file. Bytes that were never written are zero.
 *   OD_STORAGE_STALE_LEASE   the process was stopped for longer than its lease, and layers that it reads are gone. Reopen */
od_storage_code od_volume_read(od_volume *volume, uint64_t file, uint64_t offset, void *out, size_t length, size_t *got,
                               od_storage_error *err);
/* Seen by reads at once. After an error a part of it, from the front, may be written. After a crash without a sync, pieces of 256 KiB are
 * there wholly or not at all, in the order of the writes. */
od_storage_code od_volume_write(od_volume *volume, uint64_t file, uint64_t offset, const void *data, size_t length,
                                od_storage_error *err);
od_storage_code od_volume_size(od_volume *volume, uint64_t file, uint64_t *size, od_storage_error *err);
/* Shorter: what is cut off never comes back. Longer: zeros follow. */
od_storage_code od_volume_truncate(od_volume *volume, uint64_t file, uint64_t size, od_storage_error *err);

/* All that was written before, in all files, is on stable storage, and the lease still holds.
 *   OD_STORAGE_STALE_LEASE   it does not: nothing since the last sync is to be counted on */
od_storage_code od_volume_sync(od_volume *volume, od_storage_error *err);
/* Syncs, and keeps this state of all files as a snapshot. SNAPSHOT may be NULL. After an error the volume is as before. */
od_storage_code od_volume_seal(od_volume *volume, char snapshot[OD_STORAGE_ID_SIZE], od_storage_error *err);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
