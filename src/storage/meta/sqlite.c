/* The metadata in a file beside the layers. */
#include <string.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "storage/meta/db.h"

#include "base/banned.h"

#define BUSY_MS 10000

typedef struct {
    sqlite3 *db;
    od_meta_place place; /* its clock */
} file;

/* A db_stmt here is a sqlite3_stmt. */
static sqlite3_stmt *raw(const db_stmt *stmt)
{
    return (sqlite3_stmt *)(uintptr_t)stmt;
}

static od_code fail(const file *f, int why, od_error *err)
{
    switch (why & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return od_fail(err, OD_E_BUSY, "the metadata are locked by somebody else");
    case SQLITE_NOMEM:
        return od_fail(err, OD_E_NO_MEMORY, "no memory for the metadata");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return od_fail(err, OD_E_CORRUPT, "the metadata are damaged: %s", sqlite3_errmsg(f->db));
    default:
        return od_fail(err, OD_E_IO, "the metadata cannot be read or written: %s", sqlite3_errmsg(f->db));
    }
}

static od_code execute(const file *f, const char *sql, od_error *err)
{
    int why = sqlite3_exec(f->db, sql, NULL, NULL, NULL);

    return why == SQLITE_OK ? OD_OK : fail(f, why, err);
}

static od_code sqlite_begin(void *db, bool write, od_error *err)
{
    return execute(db, write ? "BEGIN IMMEDIATE" : "BEGIN", err);
}

static od_code sqlite_commit(void *db, od_error *err)
{
    return execute(db, "COMMIT", err);
}

static void sqlite_rollback(void *db)
{
    if (!sqlite3_get_autocommit(((file *)db)->db))
        (void)execute(db, "ROLLBACK", NULL);
}

static int bind(sqlite3_stmt *stmt, int at, const db_value *value)
{
    char text[OD_UUID_TEXT_SIZE];

    switch (value->type) {
    case 'u':
        if (db_uuid_zero(&value->id))
            return sqlite3_bind_null(stmt, at);
        od_uuid_format(value->id, text);
        return sqlite3_bind_text(stmt, at, text, -1, SQLITE_TRANSIENT);
    case 'i':
        return sqlite3_bind_int64(stmt, at, value->integer);
    case 't':
        return sqlite3_bind_text(stmt, at, value->text, -1, SQLITE_TRANSIENT);
    default:
        return sqlite3_bind_blob(stmt, at, value->hash, OD_META_HASH_SIZE, SQLITE_TRANSIENT);
    }
}

static od_code sqlite_prepare(void *db, const char *sql, const db_value *values, size_t count, db_stmt **out,
                              od_error *err)
{
    file *f = db;
    sqlite3_stmt *stmt = NULL;
    int why = sqlite3_prepare_v2(f->db, sql, -1, &stmt, NULL);

    for (size_t i = 0; why == SQLITE_OK && i < count; i++)
        why = bind(stmt, (int)i + 1, &values[i]);
    if (why != SQLITE_OK) {
        sqlite3_finalize(stmt);
        return fail(f, why, err);
    }
    *out = (db_stmt *)stmt;
    return OD_OK;
}

static od_code sqlite_step(void *db, db_stmt *stmt, bool *row, od_error *err)
{
    int why = sqlite3_step(raw(stmt));

    *row = why == SQLITE_ROW;
    return why == SQLITE_ROW || why == SQLITE_DONE ? OD_OK : fail(db, why, err);
}

static int sqlite_changed(const void *db, const db_stmt *stmt)
{
    (void)stmt;
    return sqlite3_changes(((const file *)db)->db);
}

static const char *sqlite_text(const db_stmt *stmt, int column)
{
    return (const char *)sqlite3_column_text(raw(stmt), column);
}

static int64_t sqlite_integer(const db_stmt *stmt, int column)
{
    return sqlite3_column_int64(raw(stmt), column);
}

static bool sqlite_hash(const db_stmt *stmt, int column, uint8_t out[OD_META_HASH_SIZE])
{
    const void *bytes = sqlite3_column_blob(raw(stmt), column);

    if (bytes == NULL || sqlite3_column_bytes(raw(stmt), column) != OD_META_HASH_SIZE)
        return false;
    memcpy(out, bytes, OD_META_HASH_SIZE);
    return true;
}

static void sqlite_finish(db_stmt *stmt)
{
    sqlite3_finalize(raw(stmt));
}

static od_code apply(file *f, od_error *err)
{
    sqlite3_stmt *stmt = NULL;
    char sql[64];
    int version = 0;
    int why = sqlite3_prepare_v2(f->db, "PRAGMA user_version", -1, &stmt, NULL);
    od_code rc;

    if (why == SQLITE_OK) {
        why = sqlite3_step(stmt);
        version = sqlite3_column_int(stmt, 0);
    }
    sqlite3_finalize(stmt);
    if (why != SQLITE_ROW)
        return fail(f, why, err);
    rc = db_check_version(version, err);
    for (int i = version; rc == OD_OK && i < db_version; i++)
        rc = execute(f, db_migrations[i].sqlite, err);
    if (rc == OD_OK && version < db_version) {
        snprintf(sql, sizeof sql, "PRAGMA user_version = %d", db_version);
        rc = execute(f, sql, err);
    }
    return rc;
}

static od_code sqlite_migrate(void *db, od_error *err)
{
    od_code rc = sqlite_begin(db, true, err);

    if (rc != OD_OK)
        return rc;
    rc = apply(db, err);
    if (rc == OD_OK)
        rc = sqlite_commit(db, err);
    if (rc != OD_OK)
        sqlite_rollback(db);
    return rc;
}

static void sqlite_close(void *db)
{
    file *f = db;

    if (f != NULL) {
        sqlite3_close(f->db);
        od_free(f);
    }
}

static void now(sqlite3_context *context, int count, sqlite3_value **values)
{
    const file *f = sqlite3_user_data(context);

    (void)count;
    (void)values;
    sqlite3_result_int64(context, db_clock(&f->place));
}

static const db_driver driver = {
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .prepare = sqlite_prepare,
    .step = sqlite_step,
    .changed = sqlite_changed,
    .text = sqlite_text,
    .integer = sqlite_integer,
    .hash = sqlite_hash,
    .finish = sqlite_finish,
    .migrate = sqlite_migrate,
    .close = sqlite_close,
};

od_code db_sqlite_open(const od_meta_place *place, od_meta *meta, od_error *err)
{
    file *f = od_calloc(1, sizeof *f);
    int why;

    if (f == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for the metadata");
    f->place = *place;
    meta->driver = &driver;
    meta->db = f;
    why = sqlite3_open_v2(place->path, &f->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (why == SQLITE_OK)
        why = sqlite3_create_function(f->db, "od_now", 0, SQLITE_UTF8, f, now, NULL, NULL);
    if (why != SQLITE_OK)
        return od_fail(err, OD_E_IO, "cannot open the metadata '%s': %s", place->path, sqlite3_errstr(why));
    sqlite3_busy_timeout(f->db, BUSY_MS);
    return execute(f, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON", err);
}
