#include "storage/meta/db.h"

#include "base/banned.h"

static od_code stale(od_error *err)
{
    return od_fail(err, OD_E_STALE_LEASE,
                   "the lease is over: another writer has the database, or it was not renewed in time");
}

od_code db_fenced(od_meta *meta, const od_lease *lease, od_error *err)
{
    static const char sql[] = "SELECT 1 FROM database WHERE id = $1 AND epoch = $2 AND lease_until > " DB_NOW;
    db_stmt *stmt = NULL;
    bool row = false;
    od_code rc = db_prepare(meta, &stmt, err, sql, "ui", &lease->database, (int64_t)lease->epoch);

    if (rc == OD_OK)
        rc = db_step(meta, stmt, &row, err);
    db_finish(meta, stmt);
    return rc == OD_OK && !row ? stale(err) : rc;
}

/* What the row of STMT says, if it may be taken. */
static od_code taken(od_meta *meta, const db_stmt *stmt, const char *name, od_lease *out, od_error *err)
{
    od_code rc = db_uuid(meta, stmt, 0, &out->database, err);

    if (rc == OD_OK)
        rc = db_uuid(meta, stmt, 1, &out->tip, err);
    if (rc != OD_OK)
        return rc;
    if (db_integer(meta, stmt, 3) != 0)
        return od_fail(err, OD_E_LEASED, "database '%s' has a writer already", name);
    out->epoch = (uint64_t)db_integer(meta, stmt, 2) + 1;
    out->released = db_integer(meta, stmt, 4) != 0;
    return OD_OK;
}

static od_code acquire(od_meta *meta, const char *name, bool create, int64_t ttl_ms, od_lease *out, od_error *err)
{
    static const char find[] = "SELECT id, tip, epoch, CASE WHEN lease_until > " DB_NOW
                               " THEN 1 ELSE 0 END, released FROM database WHERE name = $1";
    static const char take[] =
        "UPDATE database SET epoch = $1, lease_until = " DB_NOW " + $2, released = 0 WHERE id = $3";
    static const char make[] = "INSERT INTO database (id, name, tip, epoch, lease_until, released)"
                               " VALUES ($1, $2, NULL, 1, " DB_NOW " + $3, 0)";
    db_stmt *stmt = NULL;
    bool row = false;
    od_code rc;

    OD_TRY(db_prepare(meta, &stmt, err, find, "t", name));
    OD_TRY(db_step(meta, stmt, &row, err));
    if (row) {
        OD_TRY(taken(meta, stmt, name, out, err));
        OD_TRY(db_run(meta, NULL, err, take, "iiu", (int64_t)out->epoch, ttl_ms, &out->database));
    } else if (!create) {
        rc = od_fail(err, OD_E_NOT_FOUND, "there is no database '%s'", name);
        goto out;
    } else {
        *out = (od_lease){.database = od_uuid_random(), .epoch = 1};
        OD_TRY(db_run(meta, NULL, err, make, "uti", &out->database, name, ttl_ms));
    }
    out->pin = od_uuid_random();
    OD_TRY(db_pin_add(meta, &out->pin, ttl_ms, err));
    if (!db_uuid_zero(&out->tip))
        rc = db_pin(meta, &out->pin, &out->tip, true, err);

out:
    db_finish(meta, stmt);
    return rc;
}

od_code od_meta_acquire(od_meta *meta, const char *name, bool create, int64_t ttl_ms, od_lease *out, od_error *err)
{
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, acquire(meta, name, create, ttl_ms, out, err), err);
    } while (db_again(rc, &tries));
    return rc;
}

#define HOLDS " WHERE id = $2 AND epoch = $3 AND lease_until > " DB_NOW

/* SQL changes the row of the database, whose pin goes with it. */
static od_code change(od_meta *meta, const char *sql, int64_t value, const od_lease *lease, const char *pin_sql,
                      od_error *err)
{
    int changed = 0;
    od_code rc = db_run(meta, &changed, err, sql, "iui", value, &lease->database, (int64_t)lease->epoch);

    if (rc == OD_OK && changed == 0)
        rc = stale(err);
    return rc == OD_OK ? db_run(meta, NULL, err, pin_sql, "iu", value, &lease->pin) : rc;
}

od_code od_meta_renew(od_meta *meta, const od_lease *lease, int64_t ttl_ms, od_error *err)
{
    static const char sql[] = "UPDATE database SET lease_until = " DB_NOW " + $1" HOLDS;
    static const char pin[] = "UPDATE pin SET until = " DB_NOW " + $1 WHERE id = $2";
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, change(meta, sql, ttl_ms, lease, pin, err), err);
    } while (db_again(rc, &tries));
    return rc;
}

od_code od_meta_release(od_meta *meta, const od_lease *lease, bool in_order, od_error *err)
{
    static const char sql[] = "UPDATE database SET lease_until = 0, released = $1" HOLDS;
    static const char pin[] = "DELETE FROM pin WHERE $1 >= 0 AND id = $2";
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, change(meta, sql, in_order ? 1 : 0, lease, pin, err), err);
    } while (db_again(rc, &tries));
    return rc;
}

od_code od_meta_fence(od_meta *meta, const od_lease *lease, od_error *err)
{
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_read(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, db_fenced(meta, lease, err), err);
    } while (db_again(rc, &tries));
    return rc;
}
