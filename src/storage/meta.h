/* storage/meta.h: databases, layers, snapshots, leases and pins, in SQLite or PostgreSQL.
 *
 * Every change is one transaction that names the epoch of the lease under which it is made, and changes nothing if that is not the
 * database's any more or has expired: OD_E_STALE_LEASE. Time is the server's, or with SQLite the machine's. All may be called from any
 * thread; a call blocks while another process writes, at most ten seconds: OD_E_BUSY. A transaction that the server gave up, or that was
 * not committed when the connection was lost, is run again, for some seconds: then OD_E_UNAVAILABLE. A change that fails
 * otherwise may have been made all the same if its commit failed (OD_E_CONNECTION_LOST): od_meta_layer_get tells. */
#ifndef OD_STORAGE_META_H
#define OD_STORAGE_META_H

#include "base/buf.h"
#include "base/uuid.h"

typedef struct od_meta od_meta;

#define OD_META_NAME_MAX 255
#define OD_META_HASH_SIZE 16

typedef enum {
    OD_LAYER_NEW,    /* its file is being made */
    OD_LAYER_ACTIVE, /* the writer's */
    OD_LAYER_FROZEN, /* a dead writer's: records up to its length, and no footer */
    OD_LAYER_SEALED,
    OD_LAYER_DEAD, /* nobody needs it; its file may be gone already */
} od_layer_state;

typedef struct {
    od_uuid id;
    od_uuid database;
    od_uuid parent; /* all zero: none */
    od_layer_state state;
    uint64_t length;                 /* committed, of frozen and sealed ones */
    uint64_t live;                   /* of these: bytes that its file would have without what it wrote over itself */
    uint8_t hash[OD_META_HASH_SIZE]; /* of frozen and sealed ones */
    bool named;                      /* a snapshot is this layer, or a database's tip */
    bool far;                        /* a whole copy is where its URI says */
    bool sent;                       /* something may be there */
} od_layer_row;

typedef struct {
    od_layer_row *rows; /* from the lowest to the newest */
    size_t count;
} od_layer_rows;

/* The writer's pin lives as long as its lease: it holds the layers that the tip stood on when the lease was taken, and those that came
 * since. */
typedef struct {
    od_uuid database;
    od_uuid pin;
    uint64_t epoch;
    od_uuid tip;   /* all zero: the database is new */
    bool released; /* the writer before gave its lease back: nobody writes the tip any more */
} od_lease;

typedef int64_t (*od_meta_clock)(void *arg); /* milliseconds since 1970 */

/* Where the metadata are. What it points to is copied, but for CLOCK_ARG. */
typedef struct {
    const char *path;            /* SQLite's file, if there is no URL */
    const char *postgres_url;    /* as libpq takes it; NULL: SQLite */
    const char *postgres_schema; /* NULL: openduck */
    od_meta_clock clock;         /* NULL: the server's, or the system's. For tests */
    void *clock_arg;
} od_meta_place;

/* Opens or makes them, and brings the tables up to date. No error shows a password.
 *   OD_E_NOT_IMPLEMENTED   a newer version made them, the server is too old, or there is no libpq
 *   OD_E_UNAVAILABLE       the server cannot be reached */
OD_MUST_CHECK od_code od_meta_open(const od_meta_place *place, od_meta **out, od_error *err);
void od_meta_close(od_meta *meta); /* NULL allowed */

/* Takes the lease of database NAME for TTL_MS with an epoch above all before.
 *   OD_E_LEASED     somebody else has it
 *   OD_E_NOT_FOUND  there is no such database, and not CREATE */
OD_MUST_CHECK od_code od_meta_acquire(od_meta *meta, const char *name, bool create, int64_t ttl_ms, od_lease *out,
                                      od_error *err);
od_code od_meta_renew(od_meta *meta, const od_lease *lease, int64_t ttl_ms, od_error *err);
OD_MUST_CHECK od_code od_meta_fence(od_meta *meta, const od_lease *lease, od_error *err); /* changes nothing */
/* IN_ORDER: whoever comes next may go on in the active layer. */
od_code od_meta_release(od_meta *meta, const od_lease *lease, bool in_order, od_error *err);

/* Notes a layer that is to be made, so that od_meta_doom finds it if it never becomes the tip. */
OD_MUST_CHECK od_code od_meta_layer_add(od_meta *meta, const od_lease *lease, od_uuid layer, od_uuid parent,
                                        od_error *err);
/* A layer that was noted, and not used, is dead. */
od_code od_meta_layer_forget(od_meta *meta, od_uuid layer, od_error *err);
/* LAYER becomes the active tip, and pinned. If OLD is not NULL, its row gets OLD's state, length, live bytes and hash in the same step, and if
 * SNAPSHOT is not NULL, OLD becomes that snapshot. */
OD_MUST_CHECK od_code od_meta_advance(od_meta *meta, const od_lease *lease, od_uuid layer, const od_layer_row *old,
                                      const od_uuid *snapshot, od_error *err);
OD_MUST_CHECK od_code od_meta_layer_get(od_meta *meta, od_uuid layer, od_layer_row *out, od_error *err);
/* LAYER and all below it. */
OD_MUST_CHECK od_code od_meta_chain(od_meta *meta, od_uuid layer, od_layer_rows *out, od_error *err);
/* All layers that are not dead and whose file is there. */
OD_MUST_CHECK od_code od_meta_layers(od_meta *meta, od_layer_rows *out, od_error *err);
void od_layer_rows_release(od_layer_rows *rows);

/* Finds the tip of database NAME (all zero: it is new), or the layer of a snapshot, and pins it and all below it for TTL_MS: od_meta_doom
 * spares them, whatever is merged meanwhile. */
OD_MUST_CHECK od_code od_meta_pin_tip(od_meta *meta, const char *name, int64_t ttl_ms, od_uuid *pin, od_uuid *layer,
                                      od_error *err);
OD_MUST_CHECK od_code od_meta_pin_snapshot(od_meta *meta, od_uuid snapshot, int64_t ttl_ms, od_uuid *pin,
                                           od_uuid *layer, od_error *err);
/* OD_E_NOT_FOUND: it has expired. */
od_code od_meta_pin_renew(od_meta *meta, od_uuid pin, int64_t ttl_ms, od_error *err);
od_code od_meta_unpin(od_meta *meta, od_uuid pin, od_error *err);

/* ---- Merging: a new layer takes the place of a run of others, each the parent of the next, all frozen or sealed ---- */

/* Notes LAYER, which is to take the place of the COUNT layers of RUN, lowest first; *pin holds it and them for TTL_MS. */
OD_MUST_CHECK od_code od_meta_merge_begin(od_meta *meta, const od_layer_row *run, size_t count, od_uuid layer,
                                          int64_t ttl_ms, od_uuid *pin, od_error *err);
/* LAYER is sealed with its length, live bytes and hash, and whatever stood on the newest of RUN (layers, snapshots, tips) stands on
 * it now, in one step with the end of PIN. *moved: somebody did; if not, LAYER is garbage.
 *   OD_E_STALE_LEASE   the pin has expired, or the run is not what it was: nothing has changed */
OD_MUST_CHECK od_code od_meta_merge_end(od_meta *meta, od_uuid pin, const od_layer_row *run, size_t count,
                                        const od_layer_row *layer, bool *moved, od_error *err);
/* Ends a merge that came to nothing: LAYER is dead. */
od_code od_meta_merge_cancel(od_meta *meta, od_uuid pin, od_uuid layer, od_error *err);
/* Whoever holds PIN reads LAYER instead of RUN from now on. */
OD_MUST_CHECK od_code od_meta_pin_swap(od_meta *meta, od_uuid pin, const od_layer_row *run, size_t count, od_uuid layer,
                                       od_error *err);

/* ---- Copies far away ---- */

/* A copy of LAYER, frozen or sealed, is going to be at URI: *pin holds the layer for TTL_MS.
 *   OD_E_NOT_FOUND   it is not there any more    OD_E_EXISTS   it has a copy already */
OD_MUST_CHECK od_code od_meta_far_begin(od_meta *meta, od_uuid layer, const char *uri, int64_t ttl_ms, od_uuid *pin,
                                        od_error *err);
/* The copy is whole; PIN ends. OD_E_STALE_LEASE: PIN had ended by itself. Nothing has changed, and the layer may be gone. */
OD_MUST_CHECK od_code od_meta_far_end(od_meta *meta, od_uuid pin, od_uuid layer, od_error *err);
/* For a writer whose active layer LAYER is empty: what lies below it is the tip again, so that anybody can go on there. */
OD_MUST_CHECK od_code od_meta_retreat(od_meta *meta, const od_lease *lease, od_uuid layer, od_error *err);

typedef struct {
    od_uuid id;
    od_uuid tip;  /* all zero: nothing was ever written */
    bool written; /* it has a writer */
    int64_t snapshots;
    char name[OD_META_NAME_MAX + 1];
} od_database_row;

/* By name; NAME (NULL: all). OD_E_NOT_FOUND: no such database. *out is freed with od_free. */
OD_MUST_CHECK od_code od_meta_databases(od_meta *meta, const char *name, od_database_row **out, size_t *count,
                                        od_error *err);

typedef struct {
    od_uuid id;
    od_uuid layer;
    int64_t created_ms;
    char database[OD_META_NAME_MAX + 1];
} od_snapshot_row;

/* Oldest first, of database NAME or of all (NULL). OD_E_NOT_FOUND: no such database. *out is freed with od_free. */
OD_MUST_CHECK od_code od_meta_snapshots(od_meta *meta, const char *name, od_snapshot_row **out, size_t *count,
                                        od_error *err);
OD_MUST_CHECK od_code od_meta_snapshot_drop(od_meta *meta, od_uuid snapshot, od_error *err);
OD_MUST_CHECK od_code od_meta_clone(od_meta *meta, od_uuid snapshot, const char *name, od_error *err);

/* The layers that nothing reaches, among the COUNT in AMONG or all (NULL); with MARK they become dead in the same step, and cannot be
 * reached again. */
OD_MUST_CHECK od_code od_meta_doom(od_meta *meta, const od_layer_row *among, size_t count, bool mark,
                                   od_layer_rows *out, od_error *err);
/* Forgets a dead layer, whose file is gone. */
OD_MUST_CHECK od_code od_meta_bury(od_meta *meta, od_uuid layer, od_error *err);

#endif
