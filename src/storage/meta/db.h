/* What the files of this room share: one connection to SQLite, and how a statement is run on it. */
#ifndef OD_STORAGE_META_DB_H
#define OD_STORAGE_META_DB_H

#include <pthread.h>

#include <sqlite3.h>

#include "storage/meta.h"

/* LOCK guards the connection: it is held for a statement or a transaction, since SQLite has one of each for a connection. */
struct od_meta {
    pthread_mutex_t lock;
    sqlite3 *db;
    od_meta_clock clock;
    void *clock_arg;
};

int64_t db_now(const od_meta *meta);

/* db_begin locks and begins a transaction that writes, db_read one that reads; db_end commits if RC is OD_OK, else rolls back,
 * unlocks in any case, and gives the code of both. */
OD_MUST_CHECK od_code db_begin(od_meta *meta, od_error *err);
OD_MUST_CHECK od_code db_read(od_meta *meta, od_error *err);
OD_MUST_CHECK od_code db_end(od_meta *meta, od_code rc, od_error *err);

/* Prepares SQL with values: for each letter of TYPES one argument, u od_uuid * (all zero: NULL), i int64_t, t text, h a hash. */
OD_MUST_CHECK od_code db_prepare(od_meta *meta, sqlite3_stmt **out, od_error *err, const char *sql, const char *types,
                                 ...);
/* *row: there is one. */
OD_MUST_CHECK od_code db_step(od_meta *meta, sqlite3_stmt *stmt, bool *row, od_error *err);
/* Prepares and runs what gives no rows. The number of rows that it changed goes to *changed, which may be NULL. */
OD_MUST_CHECK od_code db_run(od_meta *meta, int *changed, od_error *err, const char *sql, const char *types, ...);

/* NULL gives all zero; text that is no UUID OD_E_CORRUPT. */
OD_MUST_CHECK od_code db_uuid(sqlite3_stmt *stmt, int column, od_uuid *out, od_error *err);
/* DB_LAYER_COLUMNS of the current row. */
OD_MUST_CHECK od_code db_layer(sqlite3_stmt *stmt, od_layer_row *out, od_error *err);
/* All rows of STMT, which db_layer can read, appended to OUT. */
OD_MUST_CHECK od_code db_layers(od_meta *meta, sqlite3_stmt *stmt, od_layer_rows *out, od_error *err);

/* In a transaction: whether LEASE holds. */
OD_MUST_CHECK od_code db_fenced(od_meta *meta, const od_lease *lease, od_error *err);

bool db_uuid_zero(const od_uuid *id);

/* In a transaction: the holder of PIN needs LAYER and, if BELOW, all below it. */
OD_MUST_CHECK od_code db_pin(od_meta *meta, const od_uuid *pin, const od_uuid *layer, bool below, od_error *err);

#define DB_LAYER_COLUMNS                                                                         \
    "layer.id, layer.database, layer.parent, layer.state, layer.length, layer.hash, layer.live," \
    " EXISTS (SELECT 1 FROM snapshot s WHERE s.layer = layer.id) OR"                             \
    " EXISTS (SELECT 1 FROM database t WHERE t.tip = layer.id)"

/* The numbered changes that make the tables what they are; db_migrate applies those that are missing. */
OD_MUST_CHECK od_code db_migrate(od_meta *meta, od_error *err);

#endif
