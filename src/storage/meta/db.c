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

static od_code run(od_meta *meta, int *changed, const char *sql, const db_value *values, size_t count, od_error *err)
{
    db_stmt *stmt = NULL;
    bool row;
    od_code rc = meta->driver->prepare(meta->db, sql, values, count, &stmt, err);

    if (rc == OD_OK)
        rc = db_step(meta, stmt, &row, err);
    if (rc == OD_OK && changed != NULL)
        *changed = meta->driver->changed(meta->db, stmt);
    db_finish(meta, stmt);
    return rc;
}

od_code db_run(od_meta *meta, int *changed, od_error *err, const char *sql, const char *types, ...)
{
    db_value values[DB_VALUES_MAX];
    size_t count;
    va_list args;

    va_start(args, types);
    count = gather(values, types, &args);
    va_end(args);
    return run(meta, changed, sql, values, count, err);
}

od_code db_change(od_meta *meta, int *changed, od_error *err, const char *sql, const char *types, ...)
{
    db_value values[DB_VALUES_MAX];
    db_tries tries = {0};
    size_t count;
    va_list args;
    od_code rc;

    va_start(args, types);
    count = gather(values, types, &args);
    va_end(args);
    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, run(meta, changed, sql, values, count, err), err);
    } while (db_again(rc, &tries));
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
