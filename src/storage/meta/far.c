#include "storage/meta/db.h"

#include "base/banned.h"

static od_code begin(od_meta *meta, const od_uuid *layer, const char *uri, int64_t ttl_ms, const od_uuid *pin,
                     od_error *err)
{
    static const char note[] = "UPDATE layer SET uri = $1 WHERE id = $2 AND far = 0 AND state BETWEEN $3 AND $4";
    int changed = 0;
    od_code rc =
        db_run(meta, &changed, err, note, "tuii", uri, layer, (int64_t)OD_LAYER_FROZEN, (int64_t)OD_LAYER_SEALED);

    if (rc == OD_OK && changed == 0)
        rc = od_fail(err, OD_E_NOT_FOUND, "the layer is gone, or has a copy by now");
    if (rc == OD_OK)
        rc = db_pin_add(meta, pin, ttl_ms, err);
    return rc == OD_OK ? db_pin(meta, pin, layer, false, err) : rc;
}

od_code od_meta_far_begin(od_meta *meta, od_uuid layer, const char *uri, int64_t ttl_ms, od_uuid *pin, od_error *err)
{
    od_uuid made = od_uuid_random();
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, begin(meta, &layer, uri, ttl_ms, &made, err), err);
    } while (db_again(rc, &tries));
    if (rc == OD_OK)
        *pin = made;
    return rc;
}

static od_code end(od_meta *meta, const od_uuid *pin, const od_uuid *layer, od_error *err)
{
    static const char drop[] = "DELETE FROM pin WHERE id = $1 AND until > " DB_NOW;
    int changed = 0;
    od_code rc = db_run(meta, &changed, err, drop, "u", pin);

    if (rc == OD_OK && changed == 0)
        rc = od_fail(err, OD_E_STALE_LEASE, "the copy of the layer took too long");
    return rc == OD_OK ? db_run(meta, NULL, err, "UPDATE layer SET far = 1 WHERE id = $1", "u", layer) : rc;
}

od_code od_meta_far_end(od_meta *meta, od_uuid pin, od_uuid layer, od_error *err)
{
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, end(meta, &pin, &layer, err), err);
    } while (db_again(rc, &tries));
    return rc;
}

static od_code retreat(od_meta *meta, const od_lease *lease, const od_uuid *layer, od_error *err)
{
    static const char sql[] = "UPDATE database SET tip = (SELECT l.parent FROM layer l WHERE l.id = $1)"
                              " WHERE tip = $1 AND id = $2";
    od_code rc = db_fenced(meta, lease, err);

    return rc == OD_OK ? db_run(meta, NULL, err, sql, "uu", layer, &lease->database) : rc;
}

od_code od_meta_retreat(od_meta *meta, const od_lease *lease, od_uuid layer, od_error *err)
{
    db_tries tries = {0};
    od_code rc;

    do {
        rc = db_begin(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, retreat(meta, lease, &layer, err), err);
    } while (db_again(rc, &tries));
    return rc;
}
