#include "storage/meta/db.h"

#include "base/banned.h"

/* The first column of the first row of STMT, which is finished here. *found: there is a row. */
static od_code one_uuid(od_meta *meta, db_stmt *stmt, od_uuid *out, bool *found, od_error *err)
{
    od_code rc = db_step(meta, stmt, found, err);

    if (rc == OD_OK && *found)
        rc = db_uuid(meta, stmt, 0, out, err);
    db_finish(meta, stmt);
    return rc;
}

static od_code layer_of(od_meta *meta, const od_uuid *snapshot, od_uuid *layer, od_error *err)
{
    db_stmt *stmt = NULL;
    bool found = false;
    od_code rc = db_prepare(meta, &stmt, err, "SELECT layer FROM snapshot WHERE id = $1", "u", snapshot);

    if (rc == OD_OK)
        rc = one_uuid(meta, stmt, layer, &found, err);
    return rc == OD_OK && !found ? od_fail(err, OD_E_NOT_FOUND, "there is no such snapshot") : rc;
}

od_code db_pin(od_meta *meta, const od_uuid *pin, const od_uuid *layer, bool below, od_error *err)
{
    static const char chain[] =
        "INSERT INTO pinned (pin, layer) WITH RECURSIVE up(id) AS (SELECT id FROM layer WHERE id = $1 UNION"
        " SELECT layer.parent FROM up JOIN layer ON layer.id = up.id WHERE layer.parent IS NOT NULL)"
        " SELECT pin.id, layer.id FROM pin, up JOIN layer ON layer.id = up.id WHERE pin.id = $2 ON CONFLICT DO NOTHING";
    static const char one[] = "INSERT INTO pinned (layer, pin) VALUES ($1, $2) ON CONFLICT DO NOTHING";

    return db_run(meta, NULL, err, below ? chain : one, "uu", layer, pin);
}

od_code db_pin_add(od_meta *meta, const od_uuid *pin, int64_t ttl_ms, od_error *err)
{
    return db_run(meta, NULL, err, "INSERT INTO pin (id, until) VALUES ($1, " DB_NOW " + $2)", "ui", pin, ttl_ms);
}

od_code db_tip(od_meta *meta, const char *database, od_uuid *tip, od_error *err)
{
    db_stmt *stmt = NULL;
    bool found = false;
    od_code rc = db_prepare(meta, &stmt, err, "SELECT tip FROM database WHERE name = $1", "t", database);

    if (rc == OD_OK)
        rc = one_uuid(meta, stmt, tip, &found, err);
    return rc == OD_OK && !found ? od_fail(err, OD_E_NOT_FOUND, "there is no database '%s'", database) : rc;
}

/* Pins the tip of database NAME, or if that is NULL the layer of SNAPSHOT. */
static od_code pin_one(od_meta *meta, const char *name, const od_uuid *snapshot, int64_t ttl_ms, od_uuid *pin,
                       od_uuid *layer, od_error *err)
{
    od_code rc = name != NULL ? db_tip(meta, name, layer, err) : layer_of(meta, snapshot, layer, err);

    *pin = (od_uuid){{0}};
    if (rc != OD_OK || db_uuid_zero(layer))
        return rc;
    *pin = od_uuid_random();
    rc = db_pin_add(meta, pin, ttl_ms, err);
    return rc == OD_OK ? db_pin(meta, pin, layer, true, err) : rc;
}

static od_code pin_either(od_meta *meta, const char *name, const od_uuid *snapshot, int64_t ttl_ms, od_uuid *pin,
                          od_uuid *layer, od_error *err)
{
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, pin_one(meta, name, snapshot, ttl_ms, pin, layer, err), err);
    } while (db_again(rc, &tries));
    return rc;
}

od_code od_meta_pin_tip(od_meta *meta, const char *name, int64_t ttl_ms, od_uuid *pin, od_uuid *layer, od_error *err)
{
    return pin_either(meta, name, NULL, ttl_ms, pin, layer, err);
}

od_code od_meta_pin_snapshot(od_meta *meta, od_uuid snapshot, int64_t ttl_ms, od_uuid *pin, od_uuid *layer,
                             od_error *err)
{
    return pin_either(meta, NULL, &snapshot, ttl_ms, pin, layer, err);
}

od_code od_meta_pin_renew(od_meta *meta, od_uuid pin, int64_t ttl_ms, od_error *err)
{
    static const char sql[] = "UPDATE pin SET until = " DB_NOW " + $1 WHERE id = $2 AND until > " DB_NOW;
    int changed = 0;
    od_code rc = db_change(meta, &changed, err, sql, "iu", ttl_ms, &pin);

    return rc == OD_OK && changed == 0 ? od_fail(err, OD_E_NOT_FOUND, "the reader's pin has expired") : rc;
}

od_code od_meta_unpin(od_meta *meta, od_uuid pin, od_error *err)
{
    return db_change(meta, NULL, err, "DELETE FROM pin WHERE id = $1", "u", &pin);
}

static od_code read_snapshot(od_meta *meta, const db_stmt *stmt, void *row, od_error *err)
{
    od_snapshot_row *out = row;
    od_code rc = db_uuid(meta, stmt, 0, &out->id, err);

    if (rc == OD_OK)
        rc = db_uuid(meta, stmt, 1, &out->layer, err);
    out->created_ms = db_integer(meta, stmt, 2);
    snprintf(out->database, sizeof out->database, "%s", db_text(meta, stmt, 3));
    return rc;
}

od_code od_meta_snapshots(od_meta *meta, const char *name, od_snapshot_row **out, size_t *count, od_error *err)
{
    static const char sql[] =
        "SELECT s.id, s.layer, s.created_ms, d.name FROM snapshot s JOIN database d ON d.id = s.database"
        " WHERE $1 = '' OR d.name = $1 ORDER BY s.number";
    static const db_row_kind kind = {.name = "snapshots", .size = sizeof(od_snapshot_row), .read = read_snapshot};
    void *rows = NULL;
    od_code rc = db_list(meta, sql, name, &kind, &rows, count, err);

    if (rc == OD_OK)
        *out = rows;
    return rc;
}

od_code od_meta_snapshot_drop(od_meta *meta, od_uuid snapshot, od_error *err)
{
    int changed = 0;
    od_code rc = db_change(meta, &changed, err, "DELETE FROM snapshot WHERE id = $1", "u", &snapshot);

    return rc == OD_OK && changed == 0 ? od_fail(err, OD_E_NOT_FOUND, "there is no such snapshot") : rc;
}

static od_code make_clone(od_meta *meta, const od_uuid *snapshot, const char *name, od_error *err)
{
    static const char sql[] =
        "INSERT INTO database (id, name, tip, epoch, lease_until, released) VALUES ($1, $2, $3, 0, 0, 1)";
    od_uuid id = od_uuid_random();
    od_uuid layer;
    od_uuid tip;
    od_code rc = layer_of(meta, snapshot, &layer, err);

    if (rc == OD_OK && db_tip(meta, name, &tip, NULL) == OD_OK)
        rc = od_fail(err, OD_E_EXISTS, "there is a database '%s' already", name);
    if (rc == OD_OK)
        rc = db_run(meta, NULL, err, sql, "utu", &id, name, &layer);
    return rc;
}

od_code od_meta_clone(od_meta *meta, od_uuid snapshot, const char *name, od_error *err)
{
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, make_clone(meta, &snapshot, name, err), err);
    } while (db_again(rc, &tries));
    return rc;
}
