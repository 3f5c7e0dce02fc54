/* The metadata in a PostgreSQL server, that many machines share. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "storage/meta/db.h"
#include "storage/meta/pq.h"

#include "base/banned.h"

#define SCHEMA_MAX 63
#define VALUE_MAX 48

/* Changes are made one after the other, as in SQLite: then none is rolled back because of another. A process that is stopped within one
 * loses it soon, so that it does not stop the others; and no setting of the server lets an acknowledged change be lost. */
#define BEGIN_WRITE                                    \
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;" \
    "SET LOCAL synchronous_commit = on;"               \
    "SET LOCAL lock_timeout = '10s';"                  \
    "SET LOCAL idle_in_transaction_session_timeout = '5s';"

typedef struct {
    pq_link link;
    od_meta_place place; /* its clock */
    char schema[SCHEMA_MAX + 1];
    bool open; /* a transaction that changes something is */
} server;

struct db_stmt {
    const pq_library *pq;
    PGresult *result;
    int row;
};

static od_code run(server *s, const char *sql, od_error *err)
{
    PGresult *result = NULL;
    od_code rc = pq_link_query(&s->link, sql, 0, NULL, &result, err);

    if (rc == OD_OK)
        s->link.pq->PQclear(result);
    return rc;
}

static od_code connected(server *s, od_error *err)
{
    char sql[SCHEMA_MAX + 200];
    bool fresh = false;
    od_code rc = pq_link_open(&s->link, &fresh, err);

    if (rc != OD_OK || !fresh)
        return rc;
    snprintf(sql, sizeof sql,
             "SET search_path TO \"%s\"; SET statement_timeout = 0;"
             " SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
             s->schema);
    rc = run(s, sql, err);
    if (rc != OD_OK)
        pq_link_drop(&s->link);
    return rc;
}

static od_code pg_begin(void *db, bool write, od_error *err)
{
    server *s = db;
    od_code rc = connected(s, err);

    if (rc != OD_OK || !write)
        return rc;
    s->open = true;
    return run(s, BEGIN_WRITE "LOCK TABLE database IN SHARE ROW EXCLUSIVE MODE", err);
}

static void pg_rollback(void *db)
{
    server *s = db;

    if (s->open && s->link.conn != NULL && run(s, "ROLLBACK", NULL) != OD_OK)
        pq_link_drop(&s->link);
    s->open = false;
}

static od_code pg_begin_or_not(void *db, bool write, od_error *err)
{
    od_code rc = pg_begin(db, write, err);

    if (rc != OD_OK)
        pg_rollback(db);
    return rc;
}

static od_code pg_commit(void *db, od_error *err)
{
    server *s = db;
    od_code rc;

    if (!s->open)
        return OD_OK;
    rc = run(s, "COMMIT", err);
    if (rc == OD_E_UNAVAILABLE)
        return od_fail(
            err, OD_E_CONNECTION_LOST,
            "the connection to the metadata was lost while a change was committed: it may have been made, or not");
    if (rc == OD_OK)
        s->open = false;
    return rc;
}

/* SQL with the time in it. */
static od_code with_clock(const server *s, const char *sql, od_buf *out, od_error *err)
{
    const char *next;

    while ((next = strstr(sql, DB_NOW)) != NULL) {
        od_code rc = od_buf_append(out, sql, (size_t)(next - sql), err);

        if (rc == OD_OK && s->place.clock != NULL)
            rc = od_buf_printf(out, err, "%lld::bigint", (long long)db_clock(&s->place));
        else if (rc == OD_OK)
            rc = od_buf_printf(out, err, "(extract(epoch FROM clock_timestamp()) * 1000)::bigint");
        if (rc != OD_OK)
            return rc;
        sql = next + sizeof DB_NOW - 1;
    }
    return od_buf_append(out, sql, strlen(sql) + 1, err);
}

/* VALUE as PostgreSQL reads it; NULL for its NULL. TEXT holds what is not a text already. */
static const char *as_text(const db_value *value, char text[VALUE_MAX])
{
    switch (value->type) {
    case 'u':
        if (db_uuid_zero(&value->id))
            return NULL;
        od_uuid_format(value->id, text);
        return text;
    case 'i':
        snprintf(text, VALUE_MAX, "%lld", (long long)value->integer);
        return text;
    case 't':
        return value->text;
    default:
        snprintf(text, VALUE_MAX, "\\x");
        for (size_t i = 0; i < OD_META_HASH_SIZE; i++)
            snprintf(text + 2 + 2 * i, VALUE_MAX - 2 - 2 * i, "%02x", value->hash[i]);
        return text;
    }
}

static od_code pg_prepare(void *db, const char *sql, const db_value *values, size_t count, db_stmt **out, od_error *err)
{
    server *s = db;
    char texts[DB_VALUES_MAX][VALUE_MAX];
    const char *given[DB_VALUES_MAX] = {NULL};
    db_stmt *stmt = od_calloc(1, sizeof *stmt);
    od_buf whole = {0};
    od_code rc =
        stmt != NULL ? with_clock(s, sql, &whole, err) : od_fail(err, OD_E_NO_MEMORY, "no memory for a statement");

    for (size_t i = 0; i < count; i++)
        given[i] = as_text(&values[i], texts[i]);
    if (rc == OD_OK)
        rc = s->link.conn != NULL ? pq_link_query(&s->link, (const char *)whole.data, count, given, &stmt->result, err)
                                  : od_fail(err, OD_E_UNAVAILABLE, "the connection to the metadata is lost");
    od_buf_release(&whole);
    if (rc != OD_OK) {
        od_free(stmt);
        return rc;
    }
    stmt->pq = s->link.pq;
    stmt->row = -1;
    *out = stmt;
    return OD_OK;
}

static od_code pg_step(void *db, db_stmt *stmt, bool *row, od_error *err)
{
    (void)db;
    (void)err;
    *row = ++stmt->row < stmt->pq->PQntuples(stmt->result);
    return OD_OK;
}

static int pg_changed(const void *db, const db_stmt *stmt)
{
    (void)db;
    return (int)strtol(stmt->pq->PQcmdTuples(stmt->result), NULL, 10);
}

static const char *pg_text(const db_stmt *stmt, int column)
{
    if (stmt->pq->PQgetisnull(stmt->result, stmt->row, column))
        return NULL;
    return stmt->pq->PQgetvalue(stmt->result, stmt->row, column);
}

static int64_t pg_integer(const db_stmt *stmt, int column)
{
    const char *text = pg_text(stmt, column);

    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

static bool pg_hash(const db_stmt *stmt, int column, uint8_t out[OD_META_HASH_SIZE])
{
    const char *text = pg_text(stmt, column);

    if (text == NULL || strlen(text) != 2 + (size_t)2 * OD_META_HASH_SIZE)
        return false;
    for (size_t i = 0; i < OD_META_HASH_SIZE; i++) {
        int high = od_hex_value((uint8_t)text[2 + 2 * i]);
        int low = od_hex_value((uint8_t)text[3 + 2 * i]);

        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static void pg_finish(db_stmt *stmt)
{
    if (stmt != NULL) {
        stmt->pq->PQclear(stmt->result);
        od_free(stmt);
    }
}

/* ---- Migrations ---- */

static od_code number(server *s, const char *sql, int64_t *out, od_error *err)
{
    db_stmt *stmt = NULL;
    bool row = false;
    od_code rc = pg_prepare(s, sql, NULL, 0, &stmt, err);

    if (rc == OD_OK)
        rc = pg_step(s, stmt, &row, err);
    if (rc == OD_OK)
        *out = row ? pg_integer(stmt, 0) : 0;
    pg_finish(stmt);
    return rc;
}

/* 0: there are no tables yet. */
static od_code version(server *s, int64_t *out, od_error *err)
{
    char sql[SCHEMA_MAX + 100];
    od_code rc;

    snprintf(sql, sizeof sql, "SELECT CASE WHEN to_regclass('\"%s\".migration') IS NULL THEN 0 ELSE 1 END", s->schema);
    rc = number(s, sql, out, err);
    if (rc == OD_OK && *out != 0)
        rc = number(s, "SELECT coalesce(max(number), 0) FROM migration", out, err);
    return rc != OD_OK ? rc : db_check_version(*out, err);
}

static od_code apply(server *s, od_error *err)
{
    char sql[2 * SCHEMA_MAX + 200];
    int64_t there = 0;
    int64_t now = 0;
    od_code rc;

    /* One at a time, also where there is no table yet that could be locked. */
    snprintf(sql, sizeof sql, BEGIN_WRITE "SELECT pg_advisory_xact_lock(hashtext('openduck'), hashtext('%s'))",
             s->schema);
    s->open = true;
    OD_TRY(run(s, sql, err));
    snprintf(sql, sizeof sql, "SELECT CASE WHEN to_regnamespace('\"%s\"') IS NULL THEN 0 ELSE 1 END", s->schema);
    OD_TRY(number(s, sql, &there, err));
    if (there == 0) {
        snprintf(sql, sizeof sql, "CREATE SCHEMA \"%s\"", s->schema);
        OD_TRY(run(s, sql, err));
    }
    OD_TRY(run(s, "CREATE TABLE IF NOT EXISTS migration (number BIGINT PRIMARY KEY)", err));
    OD_TRY(version(s, &now, err));
    for (int64_t i = now; i < db_version; i++) {
        OD_TRY(run(s, db_migrations[i].postgres, err));
        snprintf(sql, sizeof sql, "INSERT INTO migration VALUES (%lld)", (long long)i + 1);
        OD_TRY(run(s, sql, err));
    }
    rc = pg_commit(s, err);

out:
    if (rc != OD_OK)
        pg_rollback(s);
    /* Whether it was made shows when it is tried again. */
    return rc == OD_E_CONNECTION_LOST ? od_fail(err, OD_E_UNAVAILABLE, "the connection to the metadata is lost") : rc;
}

static od_code pg_migrate(void *db, od_error *err)
{
    server *s = db;
    db_tries tries = {0};
    od_code rc = connected(s, err);

    if (rc != OD_OK) /* more likely a wrong URL than a server that will be back */
        return rc;
    do {
        int64_t now = 0;

        rc = connected(s, err);
        if (rc == OD_OK)
            rc = version(s, &now, err);
        if (rc == OD_OK && now < db_version)
            rc = apply(s, err);
    } while (db_again(rc, &tries));
    return rc;
}

static void pg_close(void *db)
{
    server *s = db;

    if (s != NULL) {
        pq_link_release(&s->link);
        od_free(s);
    }
}

static const db_driver driver = {
    .begin = pg_begin_or_not,
    .commit = pg_commit,
    .rollback = pg_rollback,
    .prepare = pg_prepare,
    .step = pg_step,
    .changed = pg_changed,
    .text = pg_text,
    .integer = pg_integer,
    .hash = pg_hash,
    .finish = pg_finish,
    .migrate = pg_migrate,
    .close = pg_close,
};

static bool good_schema(const char *name)
{
    size_t len = strnlen(name, SCHEMA_MAX + 1);

    if (len == 0 || len > SCHEMA_MAX)
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == len;
}

od_code db_postgres_open(const od_meta_place *place, od_meta *meta, od_error *err)
{
    const char *schema = place->postgres_schema != NULL ? place->postgres_schema : "openduck";
    server *s;

    if (!good_schema(schema))
        return od_fail(err, OD_E_INVALID, "a PostgreSQL schema has 1 to %d of a to z, 0 to 9 and _", SCHEMA_MAX);
    s = od_calloc(1, sizeof *s);
    if (s == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for the metadata");
    meta->driver = &driver;
    meta->db = s;
    s->place = *place;
    snprintf(s->schema, sizeof s->schema, "%s", schema);
    return pq_link_init(&s->link, place->postgres_url, err);
}
