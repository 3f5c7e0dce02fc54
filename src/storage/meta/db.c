#include "storage/meta/db.h"

#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"

#include "base/banned.h"

#define PATIENCE_MS 5000 /* how long a server that cannot be reached is tried again */
#define PAUSE_MIN_MS 10
#define PAUSE_MAX_MS 500

static int64_t milliseconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t db_clock(const od_meta_place *place)
{
    return place->clock != NULL ? place->clock(place->clock_arg) : milliseconds(CLOCK_REALTIME);
}

bool db_uuid_zero(const od_uuid *id)
{
    static const od_uuid zero;

    return memcmp(id, &zero, sizeof zero) == 0;
}

/* ---- Transactions ---- */

static od_code begin(od_meta *meta, bool write, od_error *err)
{
    od_code rc;

    pthread_mutex_lock(&meta->lock);
    rc = meta->driver->begin(meta->db, write, err);
    if (rc != OD_OK)
        pthread_mutex_unlock(&meta->lock);
    return rc;
}

od_code db_begin(od_meta *meta, od_error *err)
{
    return begin(meta, true, err);
}

od_code db_read(od_meta *meta, od_error *err)
{
    return begin(meta, false, err);
}

od_code db_end(od_meta *meta, od_code rc, od_error *err)
{
    if (rc == OD_OK)
        rc = meta->driver->commit(meta->db, err);
    if (rc != OD_OK)
        meta->driver->rollback(meta->db);
    pthread_mutex_unlock(&meta->lock);
    return rc;
}

bool db_again(od_code rc, db_tries *tries)
{
    int64_t now;

    if (rc != OD_E_UNAVAILABLE && rc != OD_E_TRANSACTION)
        return false;
    now = milliseconds(CLOCK_MONOTONIC);
    if (tries->pause_ms == 0)
        *tries = (db_tries){.since_ms = now, .pause_ms = PAUSE_MIN_MS};
    if (now - tries->since_ms >= PATIENCE_MS)
        return false;
    poll(NULL, 0, tries->pause_ms);
    tries->pause_ms = tries->pause_ms * 2 < PAUSE_MAX_MS ? tries->pause_ms * 2 : PAUSE_MAX_MS;
    return true;
}

/* ---- Statements ---- */

static size_t gather(db_value values[DB_VALUES_MAX], const char *types, va_list *args)
{
    size_t count = 0;

    for (; types[count] != '\0' && count < DB_VALUES_MAX; count++) {
        db_value *value = &values[count];

        *value = (db_value){.type = types[count]};
        switch (value->type) {
        case 'u':
            value->id = *va_arg(*args, const od_uuid *);
            break;
        case 'i':
            value->integer = va_arg(*args, int64_t);
            break;
        case 't':
            value->text = va_arg(*args, const char *);
            break;
        default:
            value->hash = va_arg(*args, const uint8_t *);
        }
    }
    return count;
}

od_code db_prepare(od_meta *meta, db_stmt **out, od_error *err, const char *sql, const char *types, ...)
{
    db_value values[DB_VALUES_MAX];
    size_t count;
    va_list args;

    va_start(args, types);
    count = gather(values, types, &args);
    va_end(args);
    return meta->driver->prepare(meta->db, sql, values, count, out, err);
}

od_code db_step(od_meta *meta, db_stmt *stmt, bool *row, od_error *err)
{
    return meta->driver->step(meta->db, stmt, row, err);
}

od_code db_run(od_meta *meta, int *changed, od_error *err, const char *sql, const char *types, ...)
{
    db_value values[DB_VALUES_MAX];
    db_stmt *stmt = NULL;
    size_t count;
    bool row;
    va_list args;
    od_code rc;

    va_start(args, types);
    count = gather(values, types, &args);
    va_end(args);
    rc = meta->driver->prepare(meta->db, sql, values, count, &stmt, err);
    if (rc == OD_OK)
        rc = db_step(meta, stmt, &row, err);
    if (rc == OD_OK && changed != NULL)
        *changed = meta->driver->changed(meta->db, stmt);
    db_finish(meta, stmt);
    return rc;
}

void db_finish(od_meta *meta, db_stmt *stmt)
{
    meta->driver->finish(stmt);
}

int64_t db_integer(od_meta *meta, const db_stmt *stmt, int column)
{
    return meta->driver->integer(stmt, column);
}

const char *db_text(od_meta *meta, const db_stmt *stmt, int column)
{
    return meta->driver->text(stmt, column);
}

od_code db_uuid(od_meta *meta, const db_stmt *stmt, int column, od_uuid *out, od_error *err)
{
    const char *text = db_text(meta, stmt, column);

    *out = (od_uuid){{0}};
    if (text != NULL && !od_uuid_parse(text, out))
        return od_fail(err, OD_E_CORRUPT, "the metadata hold an id that is none");
    return OD_OK;
}

od_code db_layer(od_meta *meta, const db_stmt *stmt, od_layer_row *out, od_error *err)
{
    int64_t state = db_integer(meta, stmt, 3);
    od_code rc = db_uuid(meta, stmt, 0, &out->id, err);

    if (rc == OD_OK)
        rc = db_uuid(meta, stmt, 1, &out->database, err);
    if (rc == OD_OK)
        rc = db_uuid(meta, stmt, 2, &out->parent, err);
    if (rc != OD_OK)
        return rc;
    if (state < OD_LAYER_NEW || state > OD_LAYER_DEAD)
        return od_fail(err, OD_E_CORRUPT, "the metadata hold a layer in state %lld", (long long)state);
    out->state = (od_layer_state)state;
    out->length = (uint64_t)db_integer(meta, stmt, 4);
    if (!meta->driver->hash(stmt, 5, out->hash))
        memset(out->hash, 0, sizeof out->hash);
    out->live = (uint64_t)db_integer(meta, stmt, 6);
    out->named = db_integer(meta, stmt, 7) != 0;
    out->far = db_integer(meta, stmt, 8) != 0;
    out->sent = db_integer(meta, stmt, 9) != 0;
    return OD_OK;
}

od_code db_layers(od_meta *meta, db_stmt *stmt, od_layer_rows *out, od_error *err)
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
        rc = db_layer(meta, stmt, &out->rows[out->count], err);
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

od_code db_now(od_meta *meta, int64_t *out, od_error *err)
{
    db_stmt *stmt = NULL;
    bool row;
    od_code rc = db_prepare(meta, &stmt, err, "SELECT " DB_NOW, "");

    if (rc == OD_OK)
        rc = db_step(meta, stmt, &row, err);
    if (rc == OD_OK)
        *out = db_integer(meta, stmt, 0);
    db_finish(meta, stmt);
    return rc;
}

/* ---- Open and close ---- */

od_code od_meta_open(const od_meta_place *place, od_meta **out, od_error *err)
{
    od_meta *meta = od_calloc(1, sizeof *meta);
    od_code rc;

    if (meta == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for the metadata");
    pthread_mutex_init(&meta->lock, NULL);
    OD_TRY(place->postgres_url != NULL ? db_postgres_open(place, meta, err) : db_sqlite_open(place, meta, err));
    OD_TRY(meta->driver->migrate(meta->db, err));
    *out = meta;
    meta = NULL;

out:
    od_meta_close(meta);
    return rc;
}

void od_meta_close(od_meta *meta)
{
    if (meta != NULL) {
        if (meta->driver != NULL)
            meta->driver->close(meta->db);
        pthread_mutex_destroy(&meta->lock);
        od_free(meta);
    }
}
