#include "storage/meta/db.h"

#include "base/banned.h"

/* None is ever changed: what comes later is appended. */
const db_migration db_migrations[] = {
    {
        .sqlite =
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
        .postgres =
            "CREATE TABLE database ("
            " id UUID PRIMARY KEY, name TEXT NOT NULL UNIQUE, tip UUID,"
            " epoch BIGINT NOT NULL, lease_until BIGINT NOT NULL, released BIGINT NOT NULL);"
            "CREATE TABLE layer ("
            " id UUID PRIMARY KEY, database UUID NOT NULL REFERENCES database(id), parent UUID, state BIGINT NOT NULL,"
            " rowid BIGSERIAL, epoch BIGINT NOT NULL, length BIGINT NOT NULL, hash BYTEA, created_ms BIGINT NOT NULL);"
            "CREATE INDEX layer_parent ON layer(parent);"
            "ALTER TABLE database ADD FOREIGN KEY (tip) REFERENCES layer(id);"
            "CREATE TABLE snapshot ("
            " number BIGSERIAL PRIMARY KEY, id UUID NOT NULL UNIQUE, database UUID NOT NULL REFERENCES "
            "database(id),"
            " layer UUID NOT NULL REFERENCES layer(id), created_ms BIGINT NOT NULL);"
            "CREATE INDEX snapshot_layer ON snapshot(layer);"
            "CREATE TABLE pin (id UUID PRIMARY KEY, layer UUID NOT NULL REFERENCES layer(id), until BIGINT NOT NULL);"
            "CREATE INDEX pin_layer ON pin(layer);",
    },
    {
        .sqlite = "DROP TABLE pin;"
                  "CREATE TABLE pin (id TEXT PRIMARY KEY, until INTEGER NOT NULL);"
                  "CREATE TABLE pinned ("
                  " pin TEXT NOT NULL REFERENCES pin(id) ON DELETE CASCADE, layer TEXT NOT NULL REFERENCES layer(id),"
                  " PRIMARY KEY (pin, layer)) WITHOUT ROWID;"
                  "CREATE INDEX pinned_layer ON pinned(layer);"
                  "CREATE INDEX database_tip ON database(tip);"
                  "ALTER TABLE layer ADD COLUMN live INTEGER NOT NULL DEFAULT 0;",
        .postgres = "DROP TABLE pin;"
                    "CREATE TABLE pin (id UUID PRIMARY KEY, until BIGINT NOT NULL);"
                    "CREATE TABLE pinned ("
                    " pin UUID NOT NULL REFERENCES pin(id) ON DELETE CASCADE, layer UUID NOT NULL REFERENCES layer(id),"
                    " PRIMARY KEY (pin, layer));"
                    "CREATE INDEX pinned_layer ON pinned(layer);"
                    "CREATE INDEX database_tip ON database(tip);"
                    "ALTER TABLE layer ADD COLUMN live BIGINT NOT NULL DEFAULT 0;",
    },
    {
        .sqlite = "ALTER TABLE layer ADD COLUMN uri TEXT;"
                  "ALTER TABLE layer ADD COLUMN far INTEGER NOT NULL DEFAULT 0;",
        .postgres = "ALTER TABLE layer ADD COLUMN uri TEXT;"
                    "ALTER TABLE layer ADD COLUMN far BIGINT NOT NULL DEFAULT 0;",
    },
};
const int db_version = sizeof db_migrations / sizeof *db_migrations;

od_code db_check_version(int64_t version, od_error *err)
{
    if (version > db_version || version < 0)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "the metadata are of version %lld; this program knows version %d",
                       (long long)version, db_version);
    return OD_OK;
}
