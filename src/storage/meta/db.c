#include "storage/meta/db.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"

#include "base/banned.h"

#define BUSY_MS 5000

static int64_t system_clock(void *arg)
{
    struct timespec now;

    (void)arg;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t db_now(const od_meta *meta)
{
    return meta->clock(meta->clock_arg);
}

bool db_uuid_zero(const od_uuid *id)
{
    static const od_uuid zero;

    return memcmp(id, &zero, sizeof zero) == 0;
}

static od_code fail(od_meta *meta, int why, od_error *err)
{
    switch (why & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return od_fail(err, OD_E_BUSY, "the metadata are locked by somebody else");
    case SQLITE_NOMEM:
        return od_fail(err, OD_E_NO_MEMORY, "no memory for the metadata");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return od_fail(err, OD_E_CORRUPT, "the metadata are damaged: %s", sqlite3_errmsg(meta->db));
    default:
        return od_fail(err, OD_E_IO, "the metadata cannot be read or written: %s", sqlite3_errmsg(meta->db));
    }
}

static od_code execute(od_meta *meta, const char *sql, od_error *err)
{
    int why = sqlite3_exec(meta->db, sql, NULL, NULL, NULL);

    return why == SQLITE_OK ? OD_OK : fail(meta, why, err);
}

static od_code begin(od_meta *meta, const char *sql, od_error *err)
{
    od_code rc;

    pthread_mutex_lock(&meta->lock);
    rc = execute(meta, sql, err);
    if (rc != OD_OK)
        pthread_mutex_unlock(&meta->lock);
    return rc;
}

od_code db_begin(od_meta *meta, od_error *err)
{
    return begin(meta, "BEGIN IMMEDIATE", err);
}

od_code db_read(od_meta *meta, od_error *err)
{
    return begin(meta, "BEGIN", err);
}

od_code db_end(od_meta *meta, od_code rc, od_error *err)
{
    if (rc == OD_OK)
        rc = execute(meta, "COMMIT", err);
    if (rc != OD_OK && !sqlite3_get_autocommit(meta->db))
        (void)execute(meta, "ROLLBACK", NULL);
    pthread_mutex_unlock(&meta->lock);
    return rc;
}

static int bind(sqlite3_stmt *stmt, int at, char type, va_list *args)
{
    switch (type) {
    case 'u': {
        const od_uuid *id = va_arg(*args, const od_uuid *);
        char text[OD_UUID_TEXT_SIZE];

        if (db_uuid_zero(id))
            return sqlite3_bind_null(stmt, at);
        od_uuid_format(*id, text);
        return sqlite3_bind_text(stmt, at, text, -1, SQLITE_TRANSIENT);
    }
    case 'i':
        return sqlite3_bind_int64(stmt, at, va_arg(*args, int64_t));
    case 't':
        return sqlite3_bind_text(stmt, at, va_arg(*args, const char *), -1, SQLITE_TRANSIENT);
    default:
        return sqlite3_bind_blob(stmt, at, va_arg(*args, const void *), OD_META_HASH_SIZE, SQLITE_TRANSIENT);
    }
}

static od_code prepare(od_meta *meta, sqlite3_stmt **out, od_error *err, const char *sql, const char *types,
                       va_list *args)
{
    sqlite3_stmt *stmt = NULL;
    int why = sqlite3_prepare_v2(meta->db, sql, -1, &stmt, NULL);

    for (int i = 0; why == SQLITE_OK && types[i] != '\0'; i++)
        why = bind(stmt, i + 1, types[i], args);
    if (why != SQLITE_OK) {
        sqlite3_finalize(stmt);
        return fail(meta, why, err);
    }
    *out = stmt;
    return OD_OK;
}

od_code db_prepare(od_meta *meta, sqlite3_stmt **out, od_error *err, const char *sql, const char *types, ...)
{
    va_list args;
    od_code rc;

    va_start(args, types);
    rc = prepare(meta, out, err, sql, types, &args);
    va_end(args);
    return rc;
}

od_code db_step(od_meta *meta, sqlite3_stmt *stmt, bool *row, od_error *err)
{
    int why = sqlite3_step(stmt);

    *row = why == SQLITE_ROW;
    return why == SQLITE_ROW || why == SQLITE_DONE ? OD_OK : fail(meta, why, err);
}

od_code db_run(od_meta *meta, int *changed, od_error *err, const char *sql, const char *types, ...)
{
    sqlite3_stmt *stmt = NULL;
    bool row;
    va_list args;
    od_code rc;

    va_start(args, types);
    rc = prepare(meta, &stmt, err, sql, types, &args);
    va_end(args);
    if (rc == OD_OK)
        rc = db_step(meta, stmt, &row, err);
    if (rc == OD_OK && changed != NULL)
        *changed = sqlite3_changes(meta->db);
    sqlite3_finalize(stmt);
    return rc;
}

od_code db_uuid(sqlite3_stmt *stmt, int column, od_uuid *out, od_error *err)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);

    *out = (od_uuid){{0}};
    if (text != NULL && !od_uuid_parse(text, out))
        return od_fail(err, OD_E_CORRUPT, "the metadata hold an id that is none");
    return OD_OK;
}

od_code db_layer(sqlite3_stmt *stmt, od_layer_row *out, od_error *err)
{
    int state = sqlite3_column_int(stmt, 3);
    od_code rc = db_uuid(stmt, 0, &out->id, err);

    if (rc == OD_OK)
        rc = db_uuid(stmt, 1, &out->database, err);
    if (rc == OD_OK)
        rc = db_uuid(stmt, 2, &out->parent, err);
    if (rc != OD_OK)
        return rc;
    if (state < OD_LAYER_NEW || state > OD_LAYER_DEAD)
        return od_fail(err, OD_E_CORRUPT, "the metadata hold a layer in state %d", state);
    out->state = (od_layer_state)state;
    out->length = (uint64_t)sqlite3_column_int64(stmt, 4);
    memset(out->hash, 0, sizeof out->hash);
    if (sqlite3_column_bytes(stmt, 5) == OD_META_HASH_SIZE)
        memcpy(out->hash, sqlite3_column_blob(stmt, 5), OD_META_HASH_SIZE);
    out->live = (uint64_t)sqlite3_column_int64(stmt, 6);
    out->named = sqlite3_column_int(stmt, 7) != 0;
    return OD_OK;
}

od_code db_layers(od_meta *meta, sqlite3_stmt *stmt, od_layer_rows *out, od_error *err)
{
    size_t cap = out->count;

    for (;;) {
        bool row;
        od_code rc = db_step(meta, stmt, &row, err);

        if (rc != OD_OK || !row)
            return rc;
        if (out->count == cap) {
            od_layer_row *grown = od_realloc(out->rows, (cap * 2 + 8) * sizeof *grown);

            if (grown == NULL)
                return od_fail(err, OD_E_NO_MEMORY, "no memory for the list of layers");
            out->rows = grown;
            cap = cap * 2 + 8;
        }
        rc = db_layer(stmt, &out->rows[out->count], err);
        if (rc != OD_OK)
            return rc;
        out->count++;
    }
}

void od_layer_rows_release(od_layer_rows *rows)
{
    od_free(rows->rows);
    *rows = (od_layer_rows){0};
}

od_code od_meta_open(const char *path, od_meta_clock clock, void *clock_arg, od_meta **out, od_error *err)
{
    od_meta *meta = od_calloc(1, sizeof *meta);
    od_code rc;
    int why;

    if (meta == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for the metadata");
    pthread_mutex_init(&meta->lock, NULL);
    meta->clock = clock != NULL ? clock : system_clock;
    meta->clock_arg = clock_arg;
    why = sqlite3_open_v2(path, &meta->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (why != SQLITE_OK) {
        rc = od_fail(err, OD_E_IO, "cannot open the metadata '%s': %s", path, sqlite3_errstr(why));
        goto out;
    }
    sqlite3_busy_timeout(meta->db, BUSY_MS);
    OD_TRY(execute(meta, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON", err));
    OD_TRY(db_migrate(meta, err));
    *out = meta;
    meta = NULL;

out:
    od_meta_close(meta);
    return rc;
}

void od_meta_close(od_meta *meta)
{
    if (meta != NULL) {
        sqlite3_close(meta->db);
        pthread_mutex_destroy(&meta->lock);
        od_free(meta);
    }
}
