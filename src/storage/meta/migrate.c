#include "storage/meta/db.h"

#include "base/banned.h"

/* The n-th brings the tables from version n - 1 to n. None is ever changed: what comes later is appended. */
static const char *const migrations[] = {
    "CREATE TABLE database ("
    " id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, tip TEXT REFERENCES layer(id),"
    " epoch INTEGER NOT NULL, lease_until INTEGER NOT NULL, released INTEGER NOT NULL);"
    "CREATE TABLE layer ("
    " id TEXT PRIMARY KEY, database TEXT NOT NULL REFERENCES database(id), parent TEXT, state INTEGER NOT NULL,"
    " epoch INTEGER NOT NULL, length INTEGER NOT NULL, hash BLOB, created_ms INTEGER NOT NULL);"
    "CREATE INDEX layer_parent ON layer(parent);"
    "CREATE TABLE snapshot ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, database TEXT NOT NULL REFERENCES "
    "database(id),"
    " layer TEXT NOT NULL REFERENCES layer(id), created_ms INTEGER NOT NULL);"
    "CREATE INDEX snapshot_layer ON snapshot(layer);"
    "CREATE TABLE pin (id TEXT PRIMARY KEY, layer TEXT NOT NULL REFERENCES layer(id), until INTEGER NOT NULL);"
    "CREATE INDEX pin_layer ON pin(layer);",

    "DROP TABLE pin;"
    "CREATE TABLE pin (id TEXT PRIMARY KEY, until INTEGER NOT NULL);"
    "CREATE TABLE pinned ("
    " pin TEXT NOT NULL REFERENCES pin(id) ON DELETE CASCADE, layer TEXT NOT NULL REFERENCES layer(id),"
    " PRIMARY KEY (pin, layer)) WITHOUT ROWID;"
    "CREATE INDEX pinned_layer ON pinned(layer);"
    "CREATE INDEX database_tip ON database(tip);"
    "ALTER TABLE layer ADD COLUMN live INTEGER NOT NULL DEFAULT 0;",
};
#define VERSION ((int)(sizeof migrations / sizeof *migrations))

static od_code execute(od_meta *meta, const char *sql, od_error *err)
{
    if (sqlite3_exec(meta->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return od_fail(err, OD_E_IO, "cannot update the metadata: %s", sqlite3_errmsg(meta->db));
    return OD_OK;
}

static od_code apply(od_meta *meta, od_error *err)
{
    sqlite3_stmt *stmt = NULL;
    char sql[64];
    bool row = false;
    int version;
    od_code rc;

    OD_TRY(db_prepare(meta, &stmt, err, "PRAGMA user_version", ""));
    OD_TRY(db_step(meta, stmt, &row, err));
    version = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    stmt = NULL;
    if (version > VERSION || version < 0) {
        rc = od_fail(err, OD_E_NOT_IMPLEMENTED, "the metadata are of version %d; this program knows version %d",
                     version, VERSION);
        goto out;
    }
    for (int i = version; i < VERSION; i++)
        OD_TRY(execute(meta, migrations[i], err));
    if (version < VERSION) {
        snprintf(sql, sizeof sql, "PRAGMA user_version = %d", VERSION);
        OD_TRY(execute(meta, sql, err));
    }

out:
    sqlite3_finalize(stmt);
    return rc;
}

od_code db_migrate(od_meta *meta, od_error *err)
{
    od_code rc = db_begin(meta, err);

    return rc != OD_OK ? rc : db_end(meta, apply(meta, err), err);
}
