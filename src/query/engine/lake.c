/* A DuckLake among the databases: its tables are files of a directory, and a database elsewhere knows which. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/ident.h"
#include "query/engine/engine_internal.h"
#include "base/banned.h"

enum { SQLITE_BUSY_MS = 10000 }; /* how long one that writes waits for another */

/* What metadata can be kept in besides a DuckDB file, and the extension that reaches it. */
static const struct {
    const char *prefix, *extension;
} stores[] = {
    {"sqlite:", "sqlite_scanner"},
    {"postgres:", "postgres_scanner"},
    {"mysql:", "mysql_scanner"},
};

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The file that METADATA names; NULL: it names a server. */
static const char *metadata_file(const char *metadata)
{
    if (begins(metadata, "sqlite:"))
        return metadata + strlen("sqlite:");
    if (begins(metadata, "duckdb:"))
        return metadata + strlen("duckdb:");
    return begins(metadata, "postgres:") || begins(metadata, "mysql:") ? NULL : metadata;
}

/* ---- what is wrong before DuckDB is asked ---- */

static od_code check_metadata(const od_engine_lake *lake, bool read_only, od_error *err)
{
    const char *file = metadata_file(lake->metadata), *slash = file != NULL ? strrchr(file, '/') : NULL;
    struct stat info;
    if (file == NULL)
        return OD_OK;
    if (stat(file, &info) == 0)
        return S_ISDIR(info.st_mode)
                   ? od_fail(err, OD_E_IO, "cannot open lake '%s': its metadata '%s' is a directory", lake->name, file)
                   : OD_OK;
    if (read_only)
        return od_fail(err, OD_E_IO, "cannot open lake '%s' read-only: its metadata '%s' does not exist", lake->name,
                       file);
    if (slash == NULL || slash == file)
        return OD_OK;
    char *dir = od_strndup(file, (size_t)(slash - file));
    if (dir == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    od_code rc = stat(dir, &info) == 0
                     ? OD_OK
                     : od_fail(err, OD_E_IO, "cannot open lake '%s': the directory '%s' of its metadata does not exist",
                               lake->name, dir);
    od_free(dir);
    return rc;
}

static od_code check_data(const od_engine_lake *lake, od_error *err)
{
    struct stat info;
    if (strstr(lake->data, "://") != NULL)
        return od_fail(err, OD_E_NOT_IMPLEMENTED,
                       "cannot open lake '%s': its data has to be in a directory of this host, not at '%s'", lake->name,
                       lake->data);
    if (stat(lake->data, &info) != 0)
        return od_fail(err, OD_E_IO, "cannot open lake '%s': the directory '%s' of its data does not exist", lake->name,
                       lake->data);
    if (!S_ISDIR(info.st_mode))
        return od_fail(err, OD_E_IO, "cannot open lake '%s': '%s', where its data should be, is no directory",
                       lake->name, lake->data);
    return OD_OK;
}

/* ---- attaching ---- */

/* Appends the data's directory as a literal: absolute, since the lake notes it for all who open it. */
static od_code append_data(const od_engine_lake *lake, od_buf *sql, od_error *err)
{
    char *cwd = lake->data[0] != '/' ? getcwd(NULL, 0) : NULL;
    od_buf path = {0};
    od_code rc;
    if (lake->data[0] != '/' && cwd == NULL)
        return od_fail(err, OD_E_IO, "cannot open lake '%s': the working directory is gone", lake->name);
    OD_TRY(od_buf_printf(&path, err, "%s%s%s", cwd != NULL ? cwd : "", cwd != NULL ? "/" : "", lake->data));
    OD_TRY(od_quote_literal(sql, od_slice_of(path.data, path.len), err));
out:
    od_buf_release(&path);
    free(cwd); /* getcwd's own */
    return rc;
}

/* Runs the SQL of BUF, which is whole but for its end. */
static od_code run(duckdb_connection connection, od_buf *sql, od_error *err)
{
    od_code rc = od_buf_append(sql, "", 1, err);
    return rc == OD_OK ? od_duck_run(connection, (const char *)sql->data, err) : rc;
}

static od_code load(duckdb_connection connection, const od_engine_lake *lake, const char *extension, od_error *err)
{
    od_buf sql = {0};
    od_error why = {0};
    od_code rc;
    OD_TRY(od_buf_printf(&sql, err, "LOAD %s", extension));
    rc = run(connection, &sql, &why);
    if (rc != OD_OK)
        rc = od_fail(err, rc, "cannot open lake '%s': DuckDB's extension '%s' is needed: %s", lake->name, extension,
                     why.message);
out:
    od_buf_release(&sql);
    return rc;
}

static od_code load_all(duckdb_connection connection, const od_engine_lake *lake, od_error *err)
{
    od_code rc = load(connection, lake, "ducklake", err);
    for (size_t i = 0; rc == OD_OK && i < sizeof stores / sizeof stores[0]; i++)
        if (begins(lake->metadata, stores[i].prefix))
            rc = load(connection, lake, stores[i].extension, err);
    return rc;
}

static od_code attach_failed(const od_engine_lake *lake, const od_error *why, od_error *err)
{
    if (strstr(why->message, "lock on file") != NULL)
        return od_fail(err, OD_E_BUSY,
                       "cannot open lake '%s': one process alone can have metadata that is a DuckDB file; several "
                       "need a PostgreSQL or MySQL server, or a SQLite file (sqlite:FILE): %s",
                       lake->name, why->message);
    return od_fail(err, why->code, "cannot open lake '%s': %s", lake->name, why->message);
}

/* What tells this lake from all others, for whoever has it. */
static od_code read_base(od_engine *engine, duckdb_connection connection, const od_engine_lake *lake, od_error *err)
{
    od_buf sql = {0}, catalog = {0};
    duckdb_result result;
    duckdb_data_chunk chunk = NULL;
    od_code rc;
    OD_TRY(od_buf_printf(&catalog, err, "__ducklake_metadata_%s", lake->name));
    OD_TRY(od_buf_printf(&sql, err, "SELECT md5_number_lower(schema_uuid::VARCHAR) >> 2 FROM "));
    OD_TRY(od_quote_ident(&sql, od_slice_of(catalog.data, catalog.len), err));
    OD_TRY(od_buf_printf(&sql, err, ".ducklake_schema ORDER BY schema_id LIMIT 1"));
    OD_TRY(od_buf_append(&sql, "", 1, err));
    if (duckdb_query(connection, (const char *)sql.data, &result) == DuckDBError)
        rc = od_duck_fail(err, duckdb_result_error(&result));
    else if ((chunk = duckdb_fetch_chunk(result)) == NULL)
        rc = od_fail(err, OD_E_CORRUPT, "its metadata has no schemas");
    else
        engine->lake_base = *(uint64_t *)duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 0));
    duckdb_destroy_data_chunk(&chunk);
    duckdb_destroy_result(&result);
out:
    od_buf_release(&catalog);
    od_buf_release(&sql);
    return rc;
}

/* SQL is an ATTACH of LAKE, all but its options. */
static od_code finish_attach(duckdb_connection connection, const od_engine_lake *lake, bool read_only, od_buf *sql,
                             od_error *err)
{
    od_code rc;
    OD_TRY(od_buf_printf(sql, err, " (DATA_PATH "));
    OD_TRY(append_data(lake, sql, err));
    /* Rows that DuckLake keeps in the metadata: it crashes when several statements add some at once. */
    OD_TRY(od_buf_printf(sql, err, ", DATA_INLINING_ROW_LIMIT 0"));
    /* With SQLite's other journals a reader keeps others from writing; DuckLake does not survive all of the errors that gives. */
    if (begins(lake->metadata, "sqlite:") && !read_only)
        OD_TRY(od_buf_printf(sql, err, ", META_JOURNAL_MODE 'WAL'"));
    if (begins(lake->metadata, "sqlite:"))
        OD_TRY(od_buf_printf(sql, err, ", META_BUSY_TIMEOUT %d", SQLITE_BUSY_MS));
    OD_TRY(od_buf_printf(sql, err, read_only ? ", READ_ONLY)" : ")"));
    OD_TRY(run(connection, sql, err));
out:
    return rc;
}

static od_code attach(duckdb_connection connection, const od_engine_lake *lake, bool read_only, od_error *err)
{
    od_buf sql = {0}, target = {0};
    od_code rc;
    OD_TRY(od_buf_printf(&target, err, "ducklake:%s", lake->metadata));
    OD_TRY(od_buf_printf(&sql, err, "ATTACH "));
    OD_TRY(od_quote_literal(&sql, od_slice_of(target.data, target.len), err));
    OD_TRY(od_buf_printf(&sql, err, " AS "));
    OD_TRY(od_quote_ident(&sql, od_slice_str(lake->name), err));
    OD_TRY(finish_attach(connection, lake, read_only, &sql, err));
out:
    od_buf_release(&target);
    od_buf_release(&sql);
    return rc;
}

od_code od_lake_attach(od_engine *engine, duckdb_connection connection, const od_engine_lake *lake, bool read_only,
                       od_error *err)
{
    od_error why = {0};
    od_code rc;
    OD_TRY(check_metadata(lake, read_only, err));
    OD_TRY(check_data(lake, err));
    OD_TRY(load_all(connection, lake, err));
    rc = attach(connection, lake, read_only, &why);
    if (rc == OD_OK)
        rc = read_base(engine, connection, lake, &why);
    if (rc != OD_OK)
        rc = attach_failed(lake, &why, err);
out:
    return rc;
}

static od_code confine(od_engine *engine, duckdb_connection connection, const od_engine_lake *lake, od_error *err)
{
    char why[sizeof err->message];
    if (engine->host == NULL)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "lake '%s' cannot be served here without external access",
                       lake->name);
    if (!engine->host->confine(connection, why, sizeof why))
        return od_duck_fail(err, why);
    for (size_t i = 0; i < engine->database_count; i++)
        engine->pools[i].confined = true;
    return OD_OK;
}

static od_code allow_data(duckdb_connection connection, const od_engine_lake *lake, od_error *err)
{
    od_buf sql = {0};
    od_code rc;
    OD_TRY(od_buf_printf(&sql, err, "SET GLOBAL allowed_directories = ["));
    OD_TRY(append_data(lake, &sql, err));
    OD_TRY(od_buf_printf(&sql, err, "]"));
    OD_TRY(run(connection, &sql, err));
out:
    od_buf_release(&sql);
    return rc;
}

od_code od_lake_confine(od_engine *engine, duckdb_connection connection, const od_engine_lake *lake, od_error *err)
{
    od_code rc = allow_data(connection, lake, err);
    return rc == OD_OK ? confine(engine, connection, lake, err) : rc;
}

/* ---- what others do to it ---- */

void od_lake_look(od_engine *engine, const od_lease *lease)
{
    uint64_t now, seen = atomic_load(&engine->lake_version);
    if (!lease->pool->lake || engine->host == NULL ||
        !engine->host->catalog_version(lease->connection, lease->pool->database, &now))
        return;
    /* Only ever forwards: looks of several threads may overtake each other. */
    while (now > seen && !atomic_compare_exchange_weak(&engine->lake_version, &seen, now))
        ;
}
