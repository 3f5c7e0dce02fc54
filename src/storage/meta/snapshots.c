#include "storage/meta/db.h"

#include "base/alloc.h"

#include "base/banned.h"

/* The first column of the first row of STMT, which is finished here. *found: there is a row. */
static od_code one_uuid(od_meta *meta, sqlite3_stmt *stmt, od_uuid *out, bool *found, od_error *err)
{
    od_code rc = db_step(meta, stmt, found, err);

    if (rc == OD_OK && *found)
        rc = db_uuid(stmt, 0, out, err);
    sqlite3_finalize(stmt);
    return rc;
}

static od_code layer_of(od_meta *meta, const od_uuid *snapshot, od_uuid *layer, od_error *err)
{
    sqlite3_stmt *stmt = NULL;
    bool found = false;
    od_code rc = db_prepare(meta, &stmt, err, "SELECT layer FROM snapshot WHERE id = ?", "u", snapshot);

    if (rc == OD_OK)
        rc = one_uuid(meta, stmt, layer, &found, err);
    return rc == OD_OK && !found ? od_fail(err, OD_E_NOT_FOUND, "there is no such snapshot") : rc;
}

od_code db_pin(od_meta *meta, const od_uuid *pin, const od_uuid *layer, bool below, od_error *err)
{
    static const char chain[] =
        "INSERT OR IGNORE INTO pinned (pin, layer) WITH RECURSIVE up(id) AS (SELECT ?2 UNION"
        " SELECT layer.parent FROM up JOIN layer ON layer.id = up.id WHERE layer.parent IS NOT NULL)"
        " SELECT ?1, layer.id FROM up JOIN layer ON layer.id = up.id";
    static const char one[] = "INSERT OR IGNORE INTO pinned (pin, layer) VALUES (?1, ?2)";

    return db_run(meta, NULL, err, below ? chain : one, "uu", pin, layer);
}

static od_code tip_of(od_meta *meta, const char *name, od_uuid *layer, od_error *err)
{
    sqlite3_stmt *stmt = NULL;
    bool found = false;
    od_code rc = db_prepare(meta, &stmt, err, "SELECT tip FROM database WHERE name = ?", "t", name);

    if (rc == OD_OK)
        rc = one_uuid(meta, stmt, layer, &found, err);
    return rc == OD_OK && !found ? od_fail(err, OD_E_NOT_FOUND, "there is no database '%s'", name) : rc;
}

static od_code pin_layer(od_meta *meta, const od_uuid *layer, int64_t ttl_ms, od_uuid *pin, od_error *err)
{
    od_code rc;

    *pin = (od_uuid){{0}};
    if (db_uuid_zero(layer))
        return OD_OK;
    *pin = od_uuid_random();
    rc = db_run(meta, NULL, err, "INSERT INTO pin (id, until) VALUES (?, ?)", "ui", pin, db_now(meta) + ttl_ms);
    return rc == OD_OK ? db_pin(meta, pin, layer, true, err) : rc;
}

od_code od_meta_pin_tip(od_meta *meta, const char *name, int64_t ttl_ms, od_uuid *pin, od_uuid *layer, od_error *err)
{
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = tip_of(meta, name, layer, err);
    if (rc == OD_OK)
        rc = pin_layer(meta, layer, ttl_ms, pin, err);
    return db_end(meta, rc, err);
}

od_code od_meta_pin_snapshot(od_meta *meta, od_uuid snapshot, int64_t ttl_ms, od_uuid *pin, od_uuid *layer,
                             od_error *err)
{
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = layer_of(meta, &snapshot, layer, err);
    if (rc == OD_OK)
        rc = pin_layer(meta, layer, ttl_ms, pin, err);
    return db_end(meta, rc, err);
}

od_code od_meta_pin_renew(od_meta *meta, od_uuid pin, int64_t ttl_ms, od_error *err)
{
    int changed = 0;
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = db_run(meta, &changed, err, "UPDATE pin SET until = ? WHERE id = ? AND until > ?", "iui",
                db_now(meta) + ttl_ms, &pin, db_now(meta));
    if (rc == OD_OK && changed == 0)
        rc = od_fail(err, OD_E_NOT_FOUND, "the reader's pin has expired");
    return db_end(meta, rc, err);
}

od_code od_meta_unpin(od_meta *meta, od_uuid pin, od_error *err)
{
    od_code rc = db_begin(meta, err);

    return rc != OD_OK ? rc : db_end(meta, db_run(meta, NULL, err, "DELETE FROM pin WHERE id = ?", "u", &pin), err);
}

static od_code read_snapshot(sqlite3_stmt *stmt, od_snapshot_row *out, od_error *err)
{
    od_code rc = db_uuid(stmt, 0, &out->id, err);

    if (rc == OD_OK)
        rc = db_uuid(stmt, 1, &out->layer, err);
    out->created_ms = sqlite3_column_int64(stmt, 2);
    snprintf(out->database, sizeof out->database, "%s", (const char *)sqlite3_column_text(stmt, 3));
    return rc;
}

static od_code list(od_meta *meta, const char *name, od_snapshot_row **out, size_t *count, od_error *err)
{
    static const char sql[] =
        "SELECT s.id, s.layer, s.created_ms, d.name FROM snapshot s JOIN database d ON d.id = s.database"
        " WHERE ?1 = '' OR d.name = ?1 ORDER BY s.number";
    sqlite3_stmt *stmt = NULL;
    size_t cap = 0;
    bool row = false;
    od_uuid tip;
    od_code rc = OD_OK;

    if (name != NULL)
        OD_TRY(tip_of(meta, name, &tip, err));
    OD_TRY(db_prepare(meta, &stmt, err, sql, "t", name != NULL ? name : ""));
    for (;;) {
        OD_TRY(db_step(meta, stmt, &row, err));
        if (!row)
            break;
        if (*count == cap) {
            od_snapshot_row *grown = od_realloc(*out, (cap * 2 + 8) * sizeof *grown);

            if (grown == NULL) {
                rc = od_fail(err, OD_E_NO_MEMORY, "no memory for the list of snapshots");
                goto out;
            }
            *out = grown;
            cap = cap * 2 + 8;
        }
        OD_TRY(read_snapshot(stmt, &(*out)[*count], err));
        ++*count;
    }

out:
    sqlite3_finalize(stmt);
    return rc;
}

od_code od_meta_snapshots(od_meta *meta, const char *name, od_snapshot_row **out, size_t *count, od_error *err)
{
    od_code rc = db_read(meta, err);

    if (rc != OD_OK)
        return rc;
    *out = NULL;
    *count = 0;
    rc = db_end(meta, list(meta, name, out, count, err), err);
    if (rc != OD_OK) {
        od_free(*out);
        *out = NULL;
    }
    return rc;
}

od_code od_meta_snapshot_drop(od_meta *meta, od_uuid snapshot, od_error *err)
{
    int changed = 0;
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = db_run(meta, &changed, err, "DELETE FROM snapshot WHERE id = ?", "u", &snapshot);
    if (rc == OD_OK && changed == 0)
        rc = od_fail(err, OD_E_NOT_FOUND, "there is no such snapshot");
    return db_end(meta, rc, err);
}

od_code od_meta_clone(od_meta *meta, od_uuid snapshot, const char *name, od_error *err)
{
    od_uuid id = od_uuid_random();
    od_uuid layer;
    od_uuid tip;
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = layer_of(meta, &snapshot, &layer, err);
    if (rc == OD_OK && tip_of(meta, name, &tip, NULL) == OD_OK)
        rc = od_fail(err, OD_E_EXISTS, "there is a database '%s' already", name);
    if (rc == OD_OK)
        rc = db_run(meta, NULL, err,
                    "INSERT INTO database (id, name, tip, epoch, lease_until, released) VALUES (?, ?, ?, 0, 0, 1)",
                    "utu", &id, name, &layer);
    return db_end(meta, rc, err);
}
