#include "storage/meta/db.h"

#include "base/alloc.h"

#include "base/banned.h"

static od_code read_row(od_meta *meta, const db_stmt *stmt, od_database_row *out, od_error *err)
{
    od_code rc = db_uuid(meta, stmt, 0, &out->id, err);

    if (rc == OD_OK)
        rc = db_uuid(meta, stmt, 1, &out->tip, err);
    out->written = db_integer(meta, stmt, 2) != 0;
    out->snapshots = db_integer(meta, stmt, 3);
    snprintf(out->name, sizeof out->name, "%s", db_text(meta, stmt, 4));
    return rc;
}

static od_code list(od_meta *meta, const char *name, od_database_row **out, size_t *count, od_error *err)
{
    static const char sql[] = "SELECT d.id, d.tip, CASE WHEN d.lease_until > " DB_NOW " THEN 1 ELSE 0 END,"
                              " (SELECT count(*) FROM snapshot s WHERE s.database = d.id), d.name"
                              " FROM database d WHERE $1 = '' OR d.name = $1 ORDER BY d.name";
    db_stmt *stmt = NULL;
    size_t cap = 0;
    bool row = false;
    od_code rc;

    OD_TRY(db_prepare(meta, &stmt, err, sql, "t", name != NULL ? name : ""));
    for (;;) {
        OD_TRY(db_step(meta, stmt, &row, err));
        if (!row)
            break;
        if (*count == cap) {
            od_database_row *grown = od_realloc(*out, (cap * 2 + 8) * sizeof *grown);

            if (grown == NULL) {
                rc = od_fail(err, OD_E_NO_MEMORY, "no memory for the list of databases");
                goto out;
            }
            *out = grown;
            cap = cap * 2 + 8;
        }
        OD_TRY(read_row(meta, stmt, &(*out)[*count], err));
        ++*count;
    }
    if (name != NULL && *count == 0)
        rc = od_fail(err, OD_E_NOT_FOUND, "there is no database '%s'", name);

out:
    db_finish(meta, stmt);
    return rc;
}

od_code od_meta_databases(od_meta *meta, const char *name, od_database_row **out, size_t *count, od_error *err)
{
    od_database_row *rows = NULL;
    size_t n = 0;
    db_tries tries = {0};
    od_code rc;

    do {
        od_free(rows);
        rows = NULL;
        n = 0;
        rc = db_read(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, list(meta, name, &rows, &n, err), err);
    } while (db_again(rc, &tries));
    if (rc == OD_OK) {
        *out = rows;
        *count = n;
    } else {
        od_free(rows);
    }
    return rc;
}
