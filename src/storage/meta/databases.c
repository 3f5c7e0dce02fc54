#include "storage/meta/db.h"

#include "base/banned.h"

static od_code read_row(od_meta *meta, const db_stmt *stmt, void *row, od_error *err)
{
    od_database_row *out = row;
    od_code rc = db_uuid(meta, stmt, 0, &out->id, err);

    if (rc == OD_OK)
        rc = db_uuid(meta, stmt, 1, &out->tip, err);
    out->written = db_integer(meta, stmt, 2) != 0;
    out->snapshots = db_integer(meta, stmt, 3);
    snprintf(out->name, sizeof out->name, "%s", db_text(meta, stmt, 4));
    return rc;
}

od_code od_meta_databases(od_meta *meta, const char *name, od_database_row **out, size_t *count, od_error *err)
{
    static const char sql[] = "SELECT d.id, d.tip, CASE WHEN d.lease_until > " DB_NOW " THEN 1 ELSE 0 END,"
                              " (SELECT count(*) FROM snapshot s WHERE s.database = d.id), d.name"
                              " FROM database d WHERE $1 = '' OR d.name = $1 ORDER BY d.name";
    static const db_row_kind kind = {.name = "databases", .size = sizeof(od_database_row), .read = read_row};
    void *rows = NULL;
    od_code rc = db_list(meta, sql, name, &kind, &rows, count, err);

    if (rc == OD_OK)
        *out = rows;
    return rc;
}
