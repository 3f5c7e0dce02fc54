#include "storage/meta/db.h"

#include "base/alloc.h"

#include "base/banned.h"

static od_code changed_meanwhile(od_error *err)
{
    return od_fail(err, OD_E_STALE_LEASE, "the layers were changed while they were merged");
}

static od_code merge_begin(od_meta *meta, const od_layer_row *run, size_t count, const od_uuid *layer, int64_t ttl_ms,
                           const od_uuid *pin, od_error *err)
{
    /* Epoch 0 is nobody's lease: only the pin keeps it from being garbage. */
    od_code rc = db_run(
        meta, NULL, err,
        "INSERT INTO layer (id, database, parent, state, epoch, length, created_ms) VALUES (?, ?, ?, ?, 0, 0, ?)",
        "uuuii", layer, &run[count - 1].database, &run[0].parent, (int64_t)OD_LAYER_NEW, db_now(meta));

    if (rc == OD_OK)
        rc = db_run(meta, NULL, err, "INSERT INTO pin (id, until) VALUES (?, ?)", "ui", pin, db_now(meta) + ttl_ms);
    if (rc == OD_OK)
        rc = db_pin(meta, pin, layer, false, err);
    for (size_t i = 0; rc == OD_OK && i < count; i++) {
        int changed = 0;

        rc = db_run(meta, &changed, err,
                    "INSERT INTO pinned (pin, layer) SELECT ?, id FROM layer WHERE id = ? AND state IN (?, ?)", "uuii",
                    pin, &run[i].id, (int64_t)OD_LAYER_FROZEN, (int64_t)OD_LAYER_SEALED);
        if (rc == OD_OK && changed == 0)
            rc = changed_meanwhile(err);
    }
    return rc;
}

od_code od_meta_merge_begin(od_meta *meta, const od_layer_row *run, size_t count, od_uuid layer, int64_t ttl_ms,
                            od_uuid *pin, od_error *err)
{
    od_uuid made = od_uuid_random();
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = db_end(meta, merge_begin(meta, run, count, &layer, ttl_ms, &made, err), err);
    if (rc == OD_OK)
        *pin = made;
    return rc;
}

/* Whether a row of SQL, with one value or more, is there. */
static od_code must_be(od_meta *meta, od_error *err, sqlite3_stmt *stmt)
{
    bool row = false;
    od_code rc = db_step(meta, stmt, &row, err);

    sqlite3_finalize(stmt);
    return rc == OD_OK && !row ? changed_meanwhile(err) : rc;
}

static od_code check_run(od_meta *meta, const od_uuid *pin, const od_layer_row *run, size_t count, od_error *err)
{
    sqlite3_stmt *stmt = NULL;
    od_code rc = db_prepare(meta, &stmt, err, "SELECT 1 FROM pin WHERE id = ? AND until > ?", "ui", pin, db_now(meta));

    if (rc == OD_OK)
        rc = must_be(meta, err, stmt);
    for (size_t i = 1; rc == OD_OK && i < count; i++) {
        rc = db_prepare(meta, &stmt, err, "SELECT 1 FROM layer WHERE id = ? AND parent = ?", "uu", &run[i].id,
                        &run[i - 1].id);
        if (rc == OD_OK)
            rc = must_be(meta, err, stmt);
    }
    return rc;
}

/* What stood on OLD stands on LAYER. */
static od_code move(od_meta *meta, const od_uuid *old, const od_uuid *layer, bool *moved, od_error *err)
{
    static const char *const sql[] = {
        "UPDATE layer SET parent = ? WHERE parent = ?",
        "UPDATE snapshot SET layer = ? WHERE layer = ?",
        "UPDATE database SET tip = ? WHERE tip = ?",
    };

    *moved = false;
    for (size_t i = 0; i < sizeof sql / sizeof *sql; i++) {
        int changed = 0;
        od_code rc = db_run(meta, &changed, err, sql[i], "uu", layer, old);

        if (rc != OD_OK)
            return rc;
        *moved = *moved || changed > 0;
    }
    return OD_OK;
}

static od_code merge_end(od_meta *meta, const od_uuid *pin, const od_layer_row *run, size_t count,
                         const od_layer_row *layer, bool *moved, od_error *err)
{
    int changed = 0;
    od_code rc = check_run(meta, pin, run, count, err);

    /* Its parent may be another by now, if what lies below was merged, too. */
    if (rc == OD_OK)
        rc = db_run(meta, &changed, err,
                    "UPDATE layer SET state = ?, length = ?, live = ?, hash = ?,"
                    " parent = (SELECT l.parent FROM layer l WHERE l.id = ?) WHERE id = ? AND state = ?",
                    "iiihuui", (int64_t)OD_LAYER_SEALED, (int64_t)layer->length, (int64_t)layer->live, layer->hash,
                    &run[0].id, &layer->id, (int64_t)OD_LAYER_NEW);
    if (rc == OD_OK && changed == 0)
        rc = changed_meanwhile(err);
    if (rc == OD_OK)
        rc = move(meta, &run[count - 1].id, &layer->id, moved, err);
    if (rc == OD_OK)
        rc = db_run(meta, NULL, err, "DELETE FROM pin WHERE id = ?", "u", pin);
    return rc;
}

od_code od_meta_merge_end(od_meta *meta, od_uuid pin, const od_layer_row *run, size_t count, const od_layer_row *layer,
                          bool *moved, od_error *err)
{
    od_code rc = db_begin(meta, err);

    return rc != OD_OK ? rc : db_end(meta, merge_end(meta, &pin, run, count, layer, moved, err), err);
}

od_code od_meta_merge_cancel(od_meta *meta, od_uuid pin, od_uuid layer, od_error *err)
{
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = db_run(meta, NULL, err, "DELETE FROM pin WHERE id = ?", "u", &pin);
    if (rc == OD_OK)
        rc = db_run(meta, NULL, err, "UPDATE layer SET state = ? WHERE id = ? AND state = ?", "iui",
                    (int64_t)OD_LAYER_DEAD, &layer, (int64_t)OD_LAYER_NEW);
    return db_end(meta, rc, err);
}

od_code od_meta_pin_swap(od_meta *meta, od_uuid pin, const od_layer_row *run, size_t count, od_uuid layer,
                         od_error *err)
{
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = db_pin(meta, &pin, &layer, false, err);
    for (size_t i = 0; rc == OD_OK && i < count; i++)
        rc = db_run(meta, NULL, err, "DELETE FROM pinned WHERE pin = ? AND layer = ?", "uu", &pin, &run[i].id);
    return db_end(meta, rc, err);
}
