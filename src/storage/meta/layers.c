#include "storage/meta/db.h"

#include "base/alloc.h"

#include "base/banned.h"

/* What a snapshot, a database or a reader stands on, and all below it. */
#define LIVE                                                                           \
    "WITH RECURSIVE live(id) AS ("                                                     \
    " SELECT tip FROM database WHERE tip IS NOT NULL UNION SELECT layer FROM snapshot" \
    " UNION SELECT layer FROM pinned JOIN pin ON pin.id = pinned.pin WHERE until > ?1" \
    " UNION SELECT layer.parent FROM live JOIN layer ON layer.id = live.id WHERE layer.parent IS NOT NULL) "

od_code od_meta_layer_add(od_meta *meta, const od_lease *lease, od_uuid layer, od_uuid parent, od_error *err)
{
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = db_fenced(meta, lease, err);
    if (rc == OD_OK)
        rc = db_run(
            meta, NULL, err,
            "INSERT INTO layer (id, database, parent, state, epoch, length, created_ms) VALUES (?, ?, ?, ?, ?, 0, ?)",
            "uuuiii", &layer, &lease->database, &parent, (int64_t)OD_LAYER_NEW, (int64_t)lease->epoch, db_now(meta));
    return db_end(meta, rc, err);
}

od_code od_meta_layer_forget(od_meta *meta, od_uuid layer, od_error *err)
{
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = db_run(meta, NULL, err, "UPDATE layer SET state = ? WHERE id = ? AND state = ?", "iui", (int64_t)OD_LAYER_DEAD,
                &layer, (int64_t)OD_LAYER_NEW);
    return db_end(meta, rc, err);
}

static od_code settle(od_meta *meta, const od_layer_row *old, const od_uuid *snapshot, od_error *err)
{
    int changed = 0;
    od_code rc = db_run(meta, &changed, err,
                        "UPDATE layer SET state = ?, length = ?, live = ?, hash = ? WHERE id = ? AND state = ?",
                        "iiihui", (int64_t)old->state, (int64_t)old->length, (int64_t)old->live, old->hash, &old->id,
                        (int64_t)OD_LAYER_ACTIVE);

    if (rc == OD_OK && changed == 0)
        rc = od_fail(err, OD_E_STALE_LEASE, "the layer that was written is not the active one any more");
    if (rc == OD_OK && snapshot != NULL)
        rc = db_run(meta, NULL, err, "INSERT INTO snapshot (id, database, layer, created_ms) VALUES (?, ?, ?, ?)",
                    "uuui", snapshot, &old->database, &old->id, db_now(meta));
    return rc;
}

static od_code advance(od_meta *meta, const od_lease *lease, od_uuid layer, const od_layer_row *old,
                       const od_uuid *snapshot, od_error *err)
{
    int changed = 0;
    od_code rc = db_fenced(meta, lease, err);

    if (rc == OD_OK && old != NULL)
        rc = settle(meta, old, snapshot, err);
    /* What it stands on may have been merged and removed, if it was not this writer's. */
    if (rc == OD_OK)
        rc = db_run(meta, &changed, err,
                    "UPDATE layer SET state = ? WHERE id = ? AND state = ? AND (parent IS NULL OR EXISTS ("
                    "SELECT 1 FROM layer p WHERE p.id = layer.parent AND p.state BETWEEN ? AND ?))",
                    "iuiii", (int64_t)OD_LAYER_ACTIVE, &layer, (int64_t)OD_LAYER_NEW, (int64_t)OD_LAYER_FROZEN,
                    (int64_t)OD_LAYER_SEALED);
    if (rc == OD_OK && changed == 0)
        rc = od_fail(err, OD_E_BUSY, "the new layer, or what it stands on, was removed before it was used");
    if (rc == OD_OK)
        rc = db_run(meta, NULL, err, "UPDATE database SET tip = ? WHERE id = ?", "uu", &layer, &lease->database);
    if (rc == OD_OK)
        rc = db_pin(meta, &lease->pin, &layer, false, err);
    return rc;
}

od_code od_meta_advance(od_meta *meta, const od_lease *lease, od_uuid layer, const od_layer_row *old,
                        const od_uuid *snapshot, od_error *err)
{
    od_code rc = db_begin(meta, err);

    return rc != OD_OK ? rc : db_end(meta, advance(meta, lease, layer, old, snapshot, err), err);
}

od_code od_meta_layer_get(od_meta *meta, od_uuid layer, od_layer_row *out, od_error *err)
{
    sqlite3_stmt *stmt = NULL;
    bool row = false;
    od_code rc = db_read(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = db_prepare(meta, &stmt, err, "SELECT " DB_LAYER_COLUMNS " FROM layer WHERE id = ?", "u", &layer);
    if (rc == OD_OK)
        rc = db_step(meta, stmt, &row, err);
    if (rc == OD_OK)
        rc = row ? db_layer(stmt, out, err) : od_fail(err, OD_E_NOT_FOUND, "there is no such layer");
    sqlite3_finalize(stmt);
    return db_end(meta, rc, err);
}

/* Runs SQL, whose ?1 is the time and whose ?2 may be LAYER. */
static od_code collect(od_meta *meta, const char *sql, const od_uuid *layer, od_layer_rows *out, od_error *err)
{
    sqlite3_stmt *stmt = NULL;
    od_code rc = db_prepare(meta, &stmt, err, sql, layer != NULL ? "iu" : "i", db_now(meta), layer);

    if (rc == OD_OK)
        rc = db_layers(meta, stmt, out, err);
    sqlite3_finalize(stmt);
    return rc;
}

od_code od_meta_chain(od_meta *meta, od_uuid layer, od_layer_rows *out, od_error *err)
{
    static const char sql[] =
        "WITH RECURSIVE up(id, depth) AS (SELECT ?2, ?1 - ?1 UNION ALL"
        " SELECT layer.parent, depth + 1 FROM up JOIN layer ON layer.id = up.id"
        " WHERE layer.parent IS NOT NULL) "
        "SELECT " DB_LAYER_COLUMNS " FROM up JOIN layer ON layer.id = up.id ORDER BY up.depth DESC";
    od_code rc = db_read(meta, err);

    if (rc != OD_OK)
        return rc;
    *out = (od_layer_rows){0};
    rc = collect(meta, sql, &layer, out, err);
    if (rc == OD_OK && (out->count == 0 || !db_uuid_zero(&out->rows[0].parent)))
        rc = od_fail(err, OD_E_CORRUPT, "the metadata lack a layer below another");
    rc = db_end(meta, rc, err);
    if (rc != OD_OK)
        od_layer_rows_release(out);
    return rc;
}

od_code od_meta_layers(od_meta *meta, od_layer_rows *out, od_error *err)
{
    static const char sql[] =
        LIVE "SELECT " DB_LAYER_COLUMNS
             " FROM layer WHERE state BETWEEN 1 AND 3 AND id IN (SELECT id FROM live) ORDER BY layer.rowid";
    od_code rc = db_read(meta, err);

    if (rc != OD_OK)
        return rc;
    *out = (od_layer_rows){0};
    rc = db_end(meta, collect(meta, sql, NULL, out, err), err);
    if (rc != OD_OK)
        od_layer_rows_release(out);
    return rc;
}

static od_code doom(od_meta *meta, bool mark, od_layer_rows *out, od_error *err)
{
    static const char sql[] = LIVE
        "SELECT " DB_LAYER_COLUMNS " FROM layer WHERE id NOT IN (SELECT id FROM live) AND NOT (state = 0 AND EXISTS ("
        "SELECT 1 FROM database d WHERE d.id = layer.database AND d.epoch = layer.epoch AND d.lease_until > ?1)) "
        "ORDER BY layer.rowid";
    od_code rc = collect(meta, sql, NULL, out, err);

    if (rc == OD_OK && mark)
        rc = db_run(meta, NULL, err, "DELETE FROM pin WHERE until <= ?", "i", db_now(meta));
    for (size_t i = 0; rc == OD_OK && mark && i < out->count; i++)
        rc = db_run(meta, NULL, err, "UPDATE layer SET state = ? WHERE id = ?", "iu", (int64_t)OD_LAYER_DEAD,
                    &out->rows[i].id);
    return rc;
}

od_code od_meta_doom(od_meta *meta, bool mark, od_layer_rows *out, od_error *err)
{
    od_code rc = mark ? db_begin(meta, err) : db_read(meta, err);

    if (rc != OD_OK)
        return rc;
    *out = (od_layer_rows){0};
    rc = db_end(meta, doom(meta, mark, out, err), err);
    if (rc != OD_OK)
        od_layer_rows_release(out);
    return rc;
}

od_code od_meta_bury(od_meta *meta, od_uuid layer, od_error *err)
{
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    return db_end(
        meta,
        db_run(meta, NULL, err, "DELETE FROM layer WHERE id = ? AND state = ?", "ui", &layer, (int64_t)OD_LAYER_DEAD),
        err);
}
