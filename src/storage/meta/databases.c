#include "storage/meta/db.h"

#include "base/alloc.h"

#include "base/banned.h"

static od_code read_row(sqlite3_stmt *stmt, od_database_row *out, od_error *err)
{
    od_code rc = db_uuid(stmt, 0, &out->id, err);

    if (rc == OD_OK)
        rc = db_uuid(stmt, 1, &out->tip, err);
    out->written = sqlite3_column_int(stmt, 2) != 0;
    out->snapshots = sqlite3_column_int64(stmt, 3);
    snprintf(out->name, sizeof out->name, "%s", (const char *)sqlite3_column_text(stmt, 4));
    return rc;
}

static od_code list(od_meta *meta, const char *name, od_database_row **out, size_t *count, od_error *err)
{
    static const char sql[] = "SELECT d.id, d.tip, d.lease_until > ?1,"
                              " (SELECT count(*) FROM snapshot s WHERE s.database = d.id), d.name"
                              " FROM database d WHERE ?2 = '' OR d.name = ?2 ORDER BY d.name";
    sqlite3_stmt *stmt = NULL;
    size_t cap = 0;
    bool row = false;
    od_code rc;

    OD_TRY(db_prepare(meta, &stmt, err, sql, "it", db_now(meta), name != NULL ? name : ""));
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
        OD_TRY(read_row(stmt, &(*out)[*count], err));
        ++*count;
    }
    if (name != NULL && *count == 0)
        rc = od_fail(err, OD_E_NOT_FOUND, "there is no database '%s'", name);

out:
    sqlite3_finalize(stmt);
    return rc;
}

od_code od_meta_databases(od_meta *meta, const char *name, od_database_row **out, size_t *count, od_error *err)
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
