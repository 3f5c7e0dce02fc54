/* What the files of this room share: statements that SQLite and PostgreSQL both understand, and the drivers that run them.
 *
 * Parameters are $1, $2, ... in the order in which they first stand in the statement. od_now() is the time by the clock that judges
 * leases: the server's, or for SQLite the machine's. Keys that count up are called rowid or number. */
#ifndef OD_STORAGE_META_DB_H
#define OD_STORAGE_META_DB_H

#include <pthread.h>

#include "storage/meta.h"

#define DB_VALUES_MAX 8
#define DB_NOW "od_now()"

typedef struct {
    char type; /* u: ID, all zero is NULL. i: INTEGER. t: TEXT, NULL is NULL. h: HASH of OD_META_HASH_SIZE bytes */
    od_uuid id;
    int64_t integer;
    const char *text;
    const uint8_t *hash;
} db_value;

typedef struct db_stmt db_stmt;

/* A failure after which the whole transaction may be run once more is OD_E_UNAVAILABLE (the server cannot be reached, or was lost before a
 * commit) or OD_E_TRANSACTION; a commit that may or may not have been made is OD_E_CONNECTION_LOST. */
typedef struct {
    od_code (*begin)(void *db, bool write, od_error *err);
    od_code (*commit)(void *db, od_error *err);
    void (*rollback)(void *db); /* no transaction is open afterwards */
    od_code (*prepare)(void *db, const char *sql, const db_value *values, size_t count, db_stmt **out, od_error *err);
    od_code (*step)(void *db, db_stmt *stmt, bool *row, od_error *err);
    int (*changed)(const void *db, const db_stmt *stmt);
    const char *(*text)(const db_stmt *stmt, int column); /* NULL: there is none */
    int64_t (*integer)(const db_stmt *stmt, int column);
    bool (*hash)(const db_stmt *stmt, int column, uint8_t out[OD_META_HASH_SIZE]);
    void (*finish)(db_stmt *stmt); /* NULL allowed */
    od_code (*migrate)(void *db, od_error *err);
    void (*close)(void *db); /* NULL allowed */
} db_driver;

/* LOCK guards the connection: it is held for a statement or a transaction. */
struct od_meta {
    pthread_mutex_t lock;
    const db_driver *driver;
    void *db;
};

/* Opened, but not brought up to date. */
OD_MUST_CHECK od_code db_sqlite_open(const od_meta_place *place, od_meta *meta, od_error *err);
OD_MUST_CHECK od_code db_postgres_open(const od_meta_place *place, od_meta *meta, od_error *err);
int64_t db_clock(const od_meta_place *place);

/* The numbered changes that make the tables what they are. The n-th brings them from version n - 1 to n. */
typedef struct {
    const char *sqlite;
    const char *postgres;
} db_migration;

extern const db_migration db_migrations[];
extern const int db_version;
/* OD_E_NOT_IMPLEMENTED if VERSION is newer than this program. */
OD_MUST_CHECK od_code db_check_version(int64_t version, od_error *err);

/* db_begin locks and begins a transaction that changes something, db_read one that reads; db_end commits if RC is OD_OK, else rolls back,
 * unlocks in any case, and gives the code of both. A transaction that the store gave up is run again, which db_again tells:
 *     do {
 *         rc = db_begin(meta, err);
 *         if (rc == OD_OK)
 *             rc = db_end(meta, work(meta, err), err);
 *     } while (db_again(rc, &tries)); */
OD_MUST_CHECK od_code db_begin(od_meta *meta, od_error *err);
OD_MUST_CHECK od_code db_read(od_meta *meta, od_error *err);
OD_MUST_CHECK od_code db_end(od_meta *meta, od_code rc, od_error *err);

/* Zero-initialise. */
typedef struct {
    int64_t since_ms;
    int pause_ms;
} db_tries;

bool db_again(od_code rc, db_tries *tries); /* waits a little before it says yes */

/* Prepares SQL with values: for each letter of TYPES (as in db_value) one argument, u od_uuid *, i int64_t, t text, h a hash. */
OD_MUST_CHECK od_code db_prepare(od_meta *meta, db_stmt **out, od_error *err, const char *sql, const char *types, ...);
/* *row: there is one. */
OD_MUST_CHECK od_code db_step(od_meta *meta, db_stmt *stmt, bool *row, od_error *err);
/* Prepares and runs what gives no rows. The number of rows that it changed goes to *changed, which may be NULL. */
OD_MUST_CHECK od_code db_run(od_meta *meta, int *changed, od_error *err, const char *sql, const char *types, ...);
/* The same as a transaction of its own, run again if the store gave it up. */
OD_MUST_CHECK od_code db_change(od_meta *meta, int *changed, od_error *err, const char *sql, const char *types, ...);
void db_finish(od_meta *meta, db_stmt *stmt); /* NULL allowed */

int64_t db_integer(od_meta *meta, const db_stmt *stmt, int column);
const char *db_text(od_meta *meta, const db_stmt *stmt, int column); /* NULL: there is none */
/* NULL gives all zero; text that is no UUID OD_E_CORRUPT. */
OD_MUST_CHECK od_code db_uuid(od_meta *meta, const db_stmt *stmt, int column, od_uuid *out, od_error *err);

/* How the current row of a statement becomes SIZE bytes. */
typedef struct {
    const char *name; /* of many, for errors */
    size_t size;
    od_code (*read)(od_meta *meta, const db_stmt *stmt, void *out, od_error *err);
} db_row_kind;

/* All rows of SQL, which reads once and whose $1 is the name of a database, or '' for all if that is NULL; *rows is freed with od_free.
 *   OD_E_NOT_FOUND   there is no such database */
OD_MUST_CHECK od_code db_list(od_meta *meta, const char *sql, const char *database, const db_row_kind *kind,
                              void **rows, size_t *count, od_error *err);
/* All rows of STMT, whose columns are DB_LAYER_COLUMNS, appended to OUT. */
OD_MUST_CHECK od_code db_layers(od_meta *meta, db_stmt *stmt, od_layer_rows *out, od_error *err);
/* The current row of such a STMT. */
OD_MUST_CHECK od_code db_layer(od_meta *meta, const db_stmt *stmt, od_layer_row *out, od_error *err);

/* In a transaction: the time, and whether LEASE holds. */
OD_MUST_CHECK od_code db_now(od_meta *meta, int64_t *out, od_error *err);
OD_MUST_CHECK od_code db_fenced(od_meta *meta, const od_lease *lease, od_error *err);

bool db_uuid_zero(const od_uuid *id);

/* In a transaction: the tip of a database. OD_E_NOT_FOUND: there is none of that name. */
OD_MUST_CHECK od_code db_tip(od_meta *meta, const char *database, od_uuid *tip, od_error *err);

/* In a transaction: the holder of PIN needs LAYER and, if BELOW, all below it. */
OD_MUST_CHECK od_code db_pin(od_meta *meta, const od_uuid *pin, const od_uuid *layer, bool below, od_error *err);
/* A new pin for TTL_MS. */
OD_MUST_CHECK od_code db_pin_add(od_meta *meta, const od_uuid *pin, int64_t ttl_ms, od_error *err);

#define DB_LAYER_COLUMNS                                                                         \
    "layer.id, layer.database, layer.parent, layer.state, layer.length, layer.hash, layer.live," \
    " CASE WHEN EXISTS (SELECT 1 FROM snapshot s WHERE s.layer = layer.id) OR"                   \
    " EXISTS (SELECT 1 FROM database t WHERE t.tip = layer.id) THEN 1 ELSE 0 END,"               \
    " layer.far, CASE WHEN layer.uri IS NULL THEN 0 ELSE 1 END"

#endif
