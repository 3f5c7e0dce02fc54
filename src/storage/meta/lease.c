#include "storage/meta/db.h"

#include "base/banned.h"

static od_code stale(od_error *err)
{
    return od_fail(err, OD_E_STALE_LEASE,
                   "the lease is over: another writer has the database, or it was not renewed in time");
}

od_code db_fenced(od_meta *meta, const od_lease *lease, od_error *err)
{
    sqlite3_stmt *stmt = NULL;
    bool row = false;
    od_code rc = db_prepare(meta, &stmt, err, "SELECT 1 FROM database WHERE id = ? AND epoch = ? AND lease_until > ?",
                            "uii", &lease->database, (int64_t)lease->epoch, db_now(meta));

    if (rc == OD_OK)
        rc = db_step(meta, stmt, &row, err);
    sqlite3_finalize(stmt);
    return rc == OD_OK && !row ? stale(err) : rc;
}

/* What the row of STMT says, if it may be taken. */
static od_code taken(od_meta *meta, sqlite3_stmt *stmt, const char *name, od_lease *out, od_error *err)
{
    od_code rc = db_uuid(stmt, 0, &out->database, err);

    if (rc == OD_OK)
        rc = db_uuid(stmt, 1, &out->tip, err);
    if (rc != OD_OK)
        return rc;
    if (sqlite3_column_int64(stmt, 3) > db_now(meta))
        return od_fail(err, OD_E_LEASED, "database '%s' has a writer already", name);
    out->epoch = (uint64_t)sqlite3_column_int64(stmt, 2) + 1;
    out->released = sqlite3_column_int(stmt, 4) != 0;
    return OD_OK;
}

static od_code acquire(od_meta *meta, const char *name, bool create, int64_t ttl_ms, od_lease *out, od_error *err)
{
    sqlite3_stmt *stmt = NULL;
    bool row = false;
    od_code rc;

    OD_TRY(db_prepare(meta, &stmt, err, "SELECT id, tip, epoch, lease_until, released FROM database WHERE name = ?",
                      "t", name));
    OD_TRY(db_step(meta, stmt, &row, err));
    if (row) {
        OD_TRY(taken(meta, stmt, name, out, err));
        OD_TRY(db_run(meta, NULL, err, "UPDATE database SET epoch = ?, lease_until = ?, released = 0 WHERE id = ?",
                      "iiu", (int64_t)out->epoch, db_now(meta) + ttl_ms, &out->database));
    } else if (!create) {
        rc = od_fail(err, OD_E_NOT_FOUND, "there is no database '%s'", name);
        goto out;
    } else {
        *out = (od_lease){.database = od_uuid_random(), .epoch = 1};
        OD_TRY(db_run(meta, NULL, err,
                      "INSERT INTO database (id, name, tip, epoch, lease_until, released) VALUES (?, ?, NULL, 1, ?, 0)",
                      "uti", &out->database, name, db_now(meta) + ttl_ms));
    }
    out->pin = od_uuid_random();
    OD_TRY(
        db_run(meta, NULL, err, "INSERT INTO pin (id, until) VALUES (?, ?)", "ui", &out->pin, db_now(meta) + ttl_ms));
    if (!db_uuid_zero(&out->tip))
        rc = db_pin(meta, &out->pin, &out->tip, true, err);

out:
    sqlite3_finalize(stmt);
    return rc;
}

od_code od_meta_acquire(od_meta *meta, const char *name, bool create, int64_t ttl_ms, od_lease *out, od_error *err)
{
    od_code rc = db_begin(meta, err);

    return rc != OD_OK ? rc : db_end(meta, acquire(meta, name, create, ttl_ms, out, err), err);
}

static od_code set_until(od_meta *meta, const od_lease *lease, int64_t until, bool released, od_error *err)
{
    int changed = 0;
    od_code rc = db_begin(meta, err);

    if (rc != OD_OK)
        return rc;
    rc = db_run(meta, &changed, err,
                "UPDATE database SET lease_until = ?, released = ? WHERE id = ? AND epoch = ? AND lease_until > ?",
                "iiuii", until, (int64_t)released, &lease->database, (int64_t)lease->epoch, db_now(meta));
    if (rc == OD_OK && changed == 0)
        rc = stale(err);
    if (rc == OD_OK)
        rc = until > 0 ? db_run(meta, NULL, err, "UPDATE pin SET until = ? WHERE id = ?", "iu", until, &lease->pin)
                       : db_run(meta, NULL, err, "DELETE FROM pin WHERE id = ?", "u", &lease->pin);
    return db_end(meta, rc, err);
}

od_code od_meta_renew(od_meta *meta, const od_lease *lease, int64_t ttl_ms, od_error *err)
{
    return set_until(meta, lease, db_now(meta) + ttl_ms, false, err);
}

od_code od_meta_release(od_meta *meta, const od_lease *lease, bool in_order, od_error *err)
{
    return set_until(meta, lease, 0, in_order, err);
}

od_code od_meta_fence(od_meta *meta, const od_lease *lease, od_error *err)
{
    od_code rc = db_read(meta, err);

    return rc != OD_OK ? rc : db_end(meta, db_fenced(meta, lease, err), err);
}
