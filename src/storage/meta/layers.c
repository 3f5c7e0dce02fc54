#include "storage/meta/db.h"

#include <string.h>

#include "base/banned.h"

/* What a snapshot, a database or a reader stands on, and all below it. */
#define LIVE                                                                           \
    "WITH RECURSIVE live(id) AS ("                                                     \
    " SELECT tip FROM database WHERE tip IS NOT NULL UNION SELECT layer FROM snapshot" \
    " UNION SELECT layer FROM pinned JOIN pin ON pin.id = pinned.pin WHERE until > $1" \
    " UNION SELECT layer.parent FROM live JOIN layer ON layer.id = live.id WHERE layer.parent IS NOT NULL) "

od_code od_meta_layer_add(od_meta *meta, const od_lease *lease, od_uuid layer, od_uuid parent, od_error *err)
{
    static const char sql[] = "INSERT INTO layer (id, database, parent, state, epoch, length, created_ms)"
                              " VALUES ($1, $2, $3, $4, $5, 0, " DB_NOW ")";
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc != OD_OK)
            continue;
        rc = db_fenced(meta, lease, err);
        if (rc == OD_OK)
            rc = db_run(meta, NULL, err, sql, "uuuii", &layer, &lease->database, &parent, (int64_t)OD_LAYER_NEW,
                        (int64_t)lease->epoch);
        rc = db_end(meta, rc, err);
    } while (db_again(rc, &tries));
    return rc;
}

od_code od_meta_layer_forget(od_meta *meta, od_uuid layer, od_error *err)
{
    return db_change(meta, NULL, err, "UPDATE layer SET state = $1 WHERE id = $2 AND state = $3", "iui",
                     (int64_t)OD_LAYER_DEAD, &layer, (int64_t)OD_LAYER_NEW);
}

static od_code settle(od_meta *meta, const od_layer_row *old, const od_uuid *snapshot, od_error *err)
{
    static const char end[] =
        "UPDATE layer SET state = $1, length = $2, live = $3, hash = $4 WHERE id = $5 AND state = $6";
    static const char keep[] = "INSERT INTO snapshot (id, database, layer, created_ms) VALUES ($1, $2, $3, " DB_NOW ")";
    int changed = 0;
    od_code rc = db_run(meta, &changed, err, end, "iiihui", (int64_t)old->state, (int64_t)old->length,
                        (int64_t)old->live, old->hash, &old->id, (int64_t)OD_LAYER_ACTIVE);

    if (rc == OD_OK && changed == 0)
        rc = od_fail(err, OD_E_STALE_LEASE, "the layer that was written is not the active one any more");
    if (rc == OD_OK && snapshot != NULL)
        rc = db_run(meta, NULL, err, keep, "uuu", snapshot, &old->database, &old->id);
    return rc;
}

static od_code advance(od_meta *meta, const od_lease *lease, od_uuid layer, const od_layer_row *old,
                       const od_uuid *snapshot, od_error *err)
{
    /* What it stands on may have been merged and removed, if it was not this writer's. */
    static const char begin[] =
        "UPDATE layer SET state = $1 WHERE id = $2 AND state = $3 AND (parent IS NULL OR EXISTS ("
        "SELECT 1 FROM layer p WHERE p.id = layer.parent AND p.state BETWEEN $4 AND $5))";
    int changed = 0;
    od_code rc = db_fenced(meta, lease, err);

    if (rc == OD_OK && old != NULL)
        rc = settle(meta, old, snapshot, err);
    if (rc == OD_OK)
        rc = db_run(meta, &changed, err, begin, "iuiii", (int64_t)OD_LAYER_ACTIVE, &layer, (int64_t)OD_LAYER_NEW,
                    (int64_t)OD_LAYER_FROZEN, (int64_t)OD_LAYER_SEALED);
    if (rc == OD_OK && changed == 0)
        rc = od_fail(err, OD_E_BUSY, "the new layer, or what it stands on, was removed before it was used");
    if (rc == OD_OK)
        rc = db_run(meta, NULL, err, "UPDATE database SET tip = $1 WHERE id = $2", "uu", &layer, &lease->database);
    if (rc == OD_OK)
        rc = db_pin(meta, &lease->pin, &layer, false, err);
    return rc;
}

od_code od_meta_advance(od_meta *meta, const od_lease *lease, od_uuid layer, const od_layer_row *old,
                        const od_uuid *snapshot, od_error *err)
{
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, advance(meta, lease, layer, old, snapshot, err), err);
    } while (db_again(rc, &tries));
    return rc;
}

static od_code get(od_meta *meta, const od_uuid *layer, od_layer_row *out, od_error *err)
{
    db_stmt *stmt = NULL;
    bool row = false;
    od_code rc = db_prepare(meta, &stmt, err, "SELECT " DB_LAYER_COLUMNS " FROM layer WHERE id = $1", "u", layer);

    if (rc == OD_OK)
        rc = db_step(meta, stmt, &row, err);
    if (rc == OD_OK)
        rc = row ? db_layer(meta, stmt, out, err) : od_fail(err, OD_E_NOT_FOUND, "there is no such layer");
    db_finish(meta, stmt);
    return rc;
}

/* It waits as a change does: a commit whose answer was lost may still be going on at the server. */
od_code od_meta_layer_get(od_meta *meta, od_uuid layer, od_layer_row *out, od_error *err)
{
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, get(meta, &layer, out, err), err);
    } while (db_again(rc, &tries));
    return rc;
}

static od_code chain(od_meta *meta, const od_uuid *layer, od_layer_rows *out, od_error *err)
{
    static const char sql[] =
        "WITH RECURSIVE up(id, depth) AS (SELECT id, 0 FROM layer WHERE id = $1 UNION ALL"
        " SELECT layer.parent, depth + 1 FROM up JOIN layer ON layer.id = up.id"
        " WHERE layer.parent IS NOT NULL) "
        "SELECT " DB_LAYER_COLUMNS " FROM up JOIN layer ON layer.id = up.id ORDER BY up.depth DESC";
    db_stmt *stmt = NULL;
    od_code rc = db_prepare(meta, &stmt, err, sql, "u", layer);

    if (rc == OD_OK)
        rc = db_layers(meta, stmt, out, err);
    if (rc == OD_OK && (out->count == 0 || !db_uuid_zero(&out->rows[0].parent)))
        rc = od_fail(err, OD_E_CORRUPT, "the metadata lack a layer below another");
    db_finish(meta, stmt);
    return rc;
}

od_code od_meta_chain(od_meta *meta, od_uuid layer, od_layer_rows *out, od_error *err)
{
    od_layer_rows rows = {0};
    db_tries tries = {0};
    od_code rc;

    do {
        od_layer_rows_release(&rows);
        rc = db_read(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, chain(meta, &layer, &rows, err), err);
    } while (db_again(rc, &tries));
    if (rc == OD_OK)
        *out = rows;
    else
        od_layer_rows_release(&rows);
    return rc;
}

/* The layers that SQL gives, whose $1 is NOW. */
static od_code collect(od_meta *meta, const char *sql, int64_t now, od_layer_rows *out, od_error *err)
{
    db_stmt *stmt = NULL;
    od_code rc = db_prepare(meta, &stmt, err, sql, "i", now);

    if (rc == OD_OK)
        rc = db_layers(meta, stmt, out, err);
    db_finish(meta, stmt);
    return rc;
}

static od_code living(od_meta *meta, od_layer_rows *out, od_error *err)
{
    static const char sql[] =
        LIVE "SELECT " DB_LAYER_COLUMNS
             " FROM layer WHERE state BETWEEN 1 AND 3 AND id IN (SELECT id FROM live) ORDER BY layer.rowid";
    int64_t now = 0;
    od_code rc = db_now(meta, &now, err);

    return rc != OD_OK ? rc : collect(meta, sql, now, out, err);
}

od_code od_meta_layers(od_meta *meta, od_layer_rows *out, od_error *err)
{
    od_layer_rows rows = {0};
    db_tries tries = {0};
    od_code rc;

    do {
        od_layer_rows_release(&rows);
        rc = db_read(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, living(meta, &rows, err), err);
    } while (db_again(rc, &tries));
    if (rc == OD_OK)
        *out = rows;
    else
        od_layer_rows_release(&rows);
    return rc;
}

/* Neither reached, nor being made by a living writer. */
#define DOOMED                                                               \
    " WHERE id NOT IN (SELECT id FROM live) AND NOT (state = 0 AND EXISTS (" \
    "SELECT 1 FROM database d WHERE d.id = layer.database AND d.epoch = layer.epoch AND d.lease_until > $1))"

/* Keeps those of ROWS that are AMONG the COUNT. */
static void keep(od_layer_rows *rows, const od_layer_row *among, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < rows->count; i++)
        for (size_t j = 0; j < count; j++)
            if (memcmp(&rows->rows[i].id, &among[j].id, sizeof among[j].id) == 0) {
                rows->rows[kept++] = rows->rows[i];
                break;
            }
    rows->count = kept;
}

static od_code doom(od_meta *meta, const od_layer_row *among, size_t count, bool mark, od_layer_rows *out,
                    od_error *err)
{
    int64_t now = 0;
    od_code rc = db_now(meta, &now, err);

    if (rc == OD_OK)
        rc = collect(meta, LIVE "SELECT " DB_LAYER_COLUMNS " FROM layer" DOOMED " ORDER BY layer.rowid", now, out, err);
    if (rc == OD_OK && among != NULL)
        keep(out, among, count);
    if (rc == OD_OK && mark)
        rc = db_run(meta, NULL, err, "DELETE FROM pin WHERE until <= $1", "i", now);
    if (rc == OD_OK && mark && among == NULL)
        rc = db_run(meta, NULL, err, LIVE "UPDATE layer SET state = $2" DOOMED, "ii", now, (int64_t)OD_LAYER_DEAD);
    for (size_t i = 0; rc == OD_OK && mark && among != NULL && i < out->count; i++)
        rc = db_run(meta, NULL, err, LIVE "UPDATE layer SET state = $2" DOOMED " AND id = $3", "iiu", now,
                    (int64_t)OD_LAYER_DEAD, &out->rows[i].id);
    return rc;
}

od_code od_meta_doom(od_meta *meta, const od_layer_row *among, size_t count, bool mark, od_layer_rows *out,
                     od_error *err)
{
    od_layer_rows rows = {0};
    db_tries tries = {0};
    od_code rc;

    do {
        od_layer_rows_release(&rows);
        rc = mark ? db_begin(meta, err) : db_read(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, doom(meta, among, count, mark, &rows, err), err);
    } while (db_again(rc, &tries));
    if (rc == OD_OK)
        *out = rows;
    else
        od_layer_rows_release(&rows);
    return rc;
}

od_code od_meta_bury(od_meta *meta, od_uuid layer, od_error *err)
{
    return db_change(meta, NULL, err, "DELETE FROM layer WHERE id = $1 AND state = $2", "ui", &layer,
                     (int64_t)OD_LAYER_DEAD);
}
