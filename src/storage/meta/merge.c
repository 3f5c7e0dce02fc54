#include "storage/meta/db.h"

#include "base/banned.h"

static od_code changed_meanwhile(od_error *err)
{
    return od_fail(err, OD_E_STALE_LEASE, "the layers were changed while they were merged");
}

static od_code merge_begin(od_meta *meta, const od_layer_row *run, size_t count, const od_uuid *layer, int64_t ttl_ms,
                           const od_uuid *pin, od_error *err)
{
    /* Epoch 0 is nobody's lease: only the pin keeps it from being garbage. */
    od_code rc = db_run(meta, NULL, err,
                        "INSERT INTO layer (id, database, parent, state, epoch, length, created_ms)"
                        " VALUES ($1, $2, $3, $4, 0, 0, " DB_NOW ")",
                        "uuui", layer, &run[count - 1].database, &run[0].parent, (int64_t)OD_LAYER_NEW);

    if (rc == OD_OK)
        rc = db_pin_add(meta, pin, ttl_ms, err);
    if (rc == OD_OK)
        rc = db_pin(meta, pin, layer, false, err);
    for (size_t i = 0; rc == OD_OK && i < count; i++) {
        int changed = 0;

        rc = db_run(meta, &changed, err,
                    "INSERT INTO pinned (pin, layer) SELECT pin.id, layer.id FROM pin, layer"
                    " WHERE pin.id = $1 AND layer.id = $2 AND layer.state IN ($3, $4)",
                    "uuii", pin, &run[i].id, (int64_t)OD_LAYER_FROZEN, (int64_t)OD_LAYER_SEALED);
        if (rc == OD_OK && changed == 0)
            rc = changed_meanwhile(err);
    }
    return rc;
}

od_code od_meta_merge_begin(od_meta *meta, const od_layer_row *run, size_t count, od_uuid layer, int64_t ttl_ms,
                            od_uuid *pin, od_error *err)
{
    od_uuid made = od_uuid_random();
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, merge_begin(meta, run, count, &layer, ttl_ms, &made, err), err);
    } while (db_again(rc, &tries));
    if (rc == OD_OK)
        *pin = made;
    return rc;
}

/* Whether a row of SQL, with one value or more, is there. */
static od_code must_be(od_meta *meta, od_error *err, db_stmt *stmt)
{
    bool row = false;
    od_code rc = db_step(meta, stmt, &row, err);

    db_finish(meta, stmt);
    return rc == OD_OK && !row ? changed_meanwhile(err) : rc;
}

static od_code check_run(od_meta *meta, const od_uuid *pin, const od_layer_row *run, size_t count, od_error *err)
{
    db_stmt *stmt = NULL;
    od_code rc = db_prepare(meta, &stmt, err, "SELECT 1 FROM pin WHERE id = $1 AND until > " DB_NOW, "u", pin);

    if (rc == OD_OK)
        rc = must_be(meta, err, stmt);
    for (size_t i = 1; rc == OD_OK && i < count; i++) {
        rc = db_prepare(meta, &stmt, err, "SELECT 1 FROM layer WHERE id = $1 AND parent = $2", "uu", &run[i].id,
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
        "UPDATE layer SET parent = $1 WHERE parent = $2",
        "UPDATE snapshot SET layer = $1 WHERE layer = $2",
        "UPDATE database SET tip = $1 WHERE tip = $2",
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
                    "UPDATE layer SET state = $1, length = $2, live = $3, hash = $4,"
                    " parent = (SELECT l.parent FROM layer l WHERE l.id = $5) WHERE id = $6 AND state = $7",
                    "iiihuui", (int64_t)OD_LAYER_SEALED, (int64_t)layer->length, (int64_t)layer->live, layer->hash,
                    &run[0].id, &layer->id, (int64_t)OD_LAYER_NEW);
    if (rc == OD_OK && changed == 0)
        rc = changed_meanwhile(err);
    if (rc == OD_OK)
        rc = move(meta, &run[count - 1].id, &layer->id, moved, err);
    if (rc == OD_OK)
        rc = db_run(meta, NULL, err, "DELETE FROM pin WHERE id = $1", "u", pin);
    return rc;
}

od_code od_meta_merge_end(od_meta *meta, od_uuid pin, const od_layer_row *run, size_t count, const od_layer_row *layer,
                          bool *moved, od_error *err)
{
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, merge_end(meta, &pin, run, count, layer, moved, err), err);
    } while (db_again(rc, &tries));
    return rc;
}

od_code od_meta_merge_cancel(od_meta *meta, od_uuid pin, od_uuid layer, od_error *err)
{
    static const char sql[] = "UPDATE layer SET state = $1 WHERE id = $2 AND state = $3";
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc != OD_OK)
            continue;
        rc = db_run(meta, NULL, err, "DELETE FROM pin WHERE id = $1", "u", &pin);
        if (rc == OD_OK)
            rc = db_run(meta, NULL, err, sql, "iui", (int64_t)OD_LAYER_DEAD, &layer, (int64_t)OD_LAYER_NEW);
        rc = db_end(meta, rc, err);
    } while (db_again(rc, &tries));
    return rc;
}

od_code od_meta_pin_swap(od_meta *meta, od_uuid pin, const od_layer_row *run, size_t count, od_uuid layer,
                         od_error *err)
{
    static const char sql[] = "DELETE FROM pinned WHERE pin = $1 AND layer = $2";
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc != OD_OK)
            continue;
        rc = db_pin(meta, &pin, &layer, false, err);
        for (size_t i = 0; rc == OD_OK && i < count; i++)
            rc = db_run(meta, NULL, err, sql, "uu", &pin, &run[i].id);
        rc = db_end(meta, rc, err);
    } while (db_again(rc, &tries));
    return rc;
}
