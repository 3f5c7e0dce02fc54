#include "query/engine.h"

#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/ident.h"
#include "query/engine/engine_internal.h"
#include "query/engine/rows.h"
#include "query/engine/txn_internal.h"
#include "base/banned.h"

/* Below what peers of the earlier protocol take as one message, 4 MiB. */
#define BATCH_BYTES ((size_t)1 << 20)
#define CHUNK_HEAD 64

static uint64_t random_base(void)
{
    uint64_t base = 0;
    if (getrandom(&base, sizeof base, 0) != (ssize_t)sizeof base)
        base = (uint64_t)(uintptr_t)&base ^ (uint64_t)getpid() << 32;
    base >>= 1;
    return base != 0 ? base : 1;
}

static bool in_memory(const char *path)
{
    return strcmp(path, ":memory:") == 0;
}

bool od_engine_is_stored(const char *path)
{
    return strncmp(path, "openduck://", strlen("openduck://")) == 0;
}

/* Has a folder, and room beside it. */
static bool is_file(const char *path)
{
    return !in_memory(path) && !od_engine_is_stored(path);
}

/* ---- opening ---- */

static od_code set_option(duckdb_config config, const char *name, const char *value, od_error *err)
{
    if (duckdb_set_config(config, name, value) == DuckDBError)
        return od_fail(err, OD_E_INVALID, "the database does not take '%s' for its option %s", value, name);
    return OD_OK;
}

static od_code open_instance(od_engine *engine, const od_engine_options *options, od_error *err)
{
    od_code rc = OD_OK;
    duckdb_config config = NULL;
    char *why = NULL, number[16];
    if (duckdb_create_config(&config) == DuckDBError)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    if (options->threads > 0) {
        (void)snprintf(number, sizeof number, "%u", options->threads);
        OD_TRY(set_option(config, "threads", number, err));
    }
    if (options->memory_limit != NULL)
        OD_TRY(set_option(config, "memory_limit", options->memory_limit, err));
    if (options->extensions != NULL)
        OD_TRY(set_option(config, "extension_directory", options->extensions, err));
    if (!options->external_access) {
        OD_TRY(set_option(config, "autoinstall_known_extensions", "false", err));
        OD_TRY(set_option(config, "autoload_known_extensions", "false", err));
    }
    if (duckdb_open_ext(NULL, &engine->instance, config, &why) == DuckDBError)
        rc = od_duck_fail(err, why);
out:
    duckdb_free(why);
    duckdb_destroy_config(&config);
    return rc;
}

/* What is wrong with PATH before DuckDB is asked, in our words; OD_OK if nothing is seen. */
static od_code check_path(const od_engine_database *database, bool read_only, od_error *err)
{
    struct stat info;
    if (stat(database->path, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            return od_fail(err, OD_E_IO, "cannot open database '%s': '%s' is a directory", database->name,
                           database->path);
        return OD_OK;
    }
    const char *slash = strrchr(database->path, '/');
    if (slash != NULL && slash != database->path) {
        char *dir = od_strndup(database->path, (size_t)(slash - database->path));
        bool missing = dir != NULL && stat(dir, &info) != 0;
        od_code rc = missing
                         ? od_fail(err, OD_E_IO, "cannot open database '%s' at '%s': the directory '%s' does not exist",
                                   database->name, database->path, dir)
                         : OD_OK;
        od_free(dir);
        if (rc != OD_OK)
            return rc;
    }
    if (read_only)
        return od_fail(err, OD_E_IO, "cannot open database '%s' read-only: '%s' does not exist", database->name,
                       database->path);
    return OD_OK;
}

/* DuckDB's error of an ATTACH, as ours: which database, which file. */
static od_code attach_failed(const od_engine_database *database, od_error *err)
{
    od_error why = *err;
    od_code code = why.code;
    if (strstr(why.message, "lock on file") != NULL || strstr(why.message, "has a writer already") != NULL)
        code = OD_E_BUSY;
    else if (strstr(why.message, "not a valid DuckDB database file") != NULL || strstr(why.message, "orrupt") != NULL ||
             strstr(why.message, "checksum") != NULL)
        code = OD_E_CORRUPT;
    return od_fail(err, code, "cannot open database '%s' at '%s': %s", database->name, database->path, why.message);
}

static od_code attach(duckdb_connection connection, const od_engine_database *database, bool read_only, od_error *err)
{
    od_buf sql = {0};
    od_error why = {0};
    od_code rc;
    OD_TRY(od_buf_printf(&sql, err, "ATTACH "));
    OD_TRY(od_quote_literal(&sql, od_slice_str(database->path), err));
    OD_TRY(od_buf_printf(&sql, err, " AS "));
    OD_TRY(od_quote_ident(&sql, od_slice_str(database->name), err));
    if (read_only && !in_memory(database->path))
        OD_TRY(od_buf_printf(&sql, err, " (READ_ONLY)"));
    OD_TRY(od_buf_append(&sql, "", 1, err));
    rc = od_duck_run(connection, (const char *)sql.data, &why);
    if (rc != OD_OK) {
        rc = attach_failed(database, &why);
        if (err != NULL)
            *err = why;
    }
out:
    od_buf_release(&sql);
    return rc;
}

/* The instance's own database is called "memory": one of that name with a file takes its place. */
static od_code replace_memory(duckdb_connection connection, const od_engine_database *database, bool read_only,
                              od_error *err)
{
    static const od_engine_database stand_in = {"openduck_stand_in", ":memory:"};
    od_code rc;
    OD_TRY(attach(connection, &stand_in, false, err));
    OD_TRY(od_duck_run(connection, "USE openduck_stand_in", err));
    OD_TRY(od_duck_run(connection, "DETACH memory", err));
    OD_TRY(attach(connection, database, read_only, err));
    OD_TRY(od_duck_run(connection, "USE memory", err));
    OD_TRY(od_duck_run(connection, "DETACH openduck_stand_in", err));
out:
    return rc;
}

static od_code attach_all(duckdb_connection connection, const od_engine_options *options, od_error *err)
{
    for (size_t i = 0; i < options->database_count; i++) {
        const od_engine_database *database = &options->databases[i];
        bool own = strcasecmp(database->name, "memory") == 0;
        od_code rc = OD_OK;
        if (database->name[0] == '\0')
            rc = od_fail(err, OD_E_INVALID, "a database without a name");
        else if (is_file(database->path))
            rc = check_path(database, options->read_only, err);
        if (rc == OD_OK && own && !in_memory(database->path))
            rc = replace_memory(connection, database, options->read_only, err);
        else if (rc == OD_OK && !own)
            rc = attach(connection, database, options->read_only, err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

/* What DuckDB spills goes beside the first file, as it would if it had opened it. Without a file it goes where the process was
 * started, but not into the ".tmp" that DuckDB would take: temporary files have the same names in all processes. */
static od_code set_temp_directory(duckdb_connection connection, const od_engine_options *options, od_error *err)
{
    od_buf sql = {0};
    od_code rc = OD_OK;
    size_t i = 0;
    while (i < options->database_count && !is_file(options->databases[i].path))
        i++;
    if (options->temp_directory != NULL)
        OD_TRY(od_buf_printf(&sql, err, "%s", options->temp_directory));
    else if (i < options->database_count)
        OD_TRY(od_buf_printf(&sql, err, "%s.tmp", options->databases[i].path));
    else
        OD_TRY(od_buf_printf(&sql, err, ".openduck-%d.tmp", (int)getpid()));
    od_buf literal = {0};
    rc = od_quote_literal(&literal, od_slice_of(sql.data, sql.len), err);
    sql.len = 0;
    if (rc == OD_OK)
        rc = od_buf_printf(&sql, err, "SET GLOBAL temp_directory = %.*s", (int)literal.len, (const char *)literal.data);
    od_buf_release(&literal);
    OD_TRY(rc);
    OD_TRY(od_buf_append(&sql, "", 1, err));
    OD_TRY(od_duck_run(connection, (const char *)sql.data, err));
out:
    od_buf_release(&sql);
    return rc;
}

static od_code lock_down(duckdb_connection connection, od_error *err)
{
    static const char *const steps[] = {
        "SET GLOBAL allow_community_extensions = false",
        "SET GLOBAL enable_external_access = false",
        /* Chosen for each connection by the format that it serves. */
        "SET GLOBAL allowed_configs = ['arrow_lossless_conversion']",
        "SET GLOBAL lock_configuration = true",
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        od_code rc = od_duck_run(connection, steps[i], err);
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

static od_code install_host(const od_engine *engine, duckdb_connection connection, od_error *err)
{
    char why[sizeof err->message];
    if (engine->host == NULL || engine->host->install(connection, engine->run_places, why, sizeof why))
        return OD_OK;
    return od_duck_fail(err, why);
}

static od_code install_storage(od_engine *engine, duckdb_connection connection, const od_engine_options *options,
                               od_error *err)
{
    char why[sizeof err->message];
    size_t i = 0;
    while (i < options->database_count && !od_engine_is_stored(options->databases[i].path))
        i++;
    if (i == options->database_count)
        return OD_OK;
    if (engine->host == NULL)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "there is no storage for '%s' here", options->databases[i].path);
    od_engine_watch_storage(engine, options->metrics);
    if (engine->host->serve_storage(connection, &engine->stored, why, sizeof why))
        return OD_OK;
    return od_duck_fail(err, why);
}

static od_code prepare_instance(od_engine *engine, const od_engine_options *options, od_error *err)
{
    od_code rc;
    duckdb_connection connection = NULL;
    if (duckdb_connect(engine->instance, &connection) == DuckDBError)
        return od_fail(err, OD_E_INTERNAL, "the database gives no connection");
    OD_TRY(install_storage(engine, connection, options, err));
    OD_TRY(attach_all(connection, options, err));
    if (options->lake != NULL)
        OD_TRY(od_lake_attach(engine, connection, options->lake, options->read_only, err));
    OD_TRY(set_temp_directory(connection, options, err));
    OD_TRY(od_keywords_load(&engine->keywords, connection, err));
    OD_TRY(install_host(engine, connection, err));
    OD_TRY(od_rows_install(connection, err));
    if (!options->external_access && options->lake != NULL)
        OD_TRY(od_lake_confine(engine, connection, options->lake, err));
    if (!options->external_access)
        OD_TRY(lock_down(connection, err));
out:
    duckdb_disconnect(&connection);
    return rc;
}

static od_code make_pools(od_engine *engine, const od_engine_options *options, od_error *err)
{
    size_t served = options->database_count + (options->lake != NULL ? 1 : 0), n = served > 0 ? served : 1;
    engine->pools = od_calloc(n, sizeof *engine->pools);
    engine->names = od_calloc(n, sizeof *engine->names);
    if (engine->pools == NULL || engine->names == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        bool lake = options->lake != NULL && i == options->database_count;
        engine->names[i] = od_strdup(lake ? options->lake->name : served > 0 ? options->databases[i].name : "memory");
        if (engine->names[i] == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
        engine->pools[i] = (od_lease_pool){.database = engine->names[i],
                                           .lake = lake,
                                           .instance = engine->instance,
                                           .host = options->host,
                                           .retype = &engine->retype};
        (void)pthread_mutex_init(&engine->pools[i].lock, NULL);
        engine->database_count++;
    }
    return OD_OK;
}

/* Results that are set aside go beside the first file, as what DuckDB spills: it has the room. */
static od_code choose_spool_dir(od_engine *engine, const od_engine_options *options, od_error *err)
{
    if (options->temp_directory != NULL) {
        engine->spool_dir = od_strdup(options->temp_directory);
        return engine->spool_dir != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < options->database_count; i++) {
        const char *path = options->databases[i].path, *slash = strrchr(path, '/');
        if (!is_file(path))
            continue;
        engine->spool_dir = slash == NULL   ? od_strdup(".")
                            : slash == path ? od_strdup("/")
                                            : od_strndup(path, (size_t)(slash - path));
        return engine->spool_dir != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    return OD_OK;
}

od_code od_engine_open(const od_engine_options *options, od_engine **out, od_error *err)
{
    od_code rc = OD_OK;
    *out = NULL;
    od_engine *engine = od_calloc(1, sizeof *engine);
    if (engine == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    od_settle_init(&engine->settle);
    od_retype_init(&engine->retype);
    engine->external_access = options->external_access;
    engine->host = options->host;
    engine->run_places = options->run_places;
    engine->batch_bytes = options->batch_bytes > 0 ? options->batch_bytes : BATCH_BYTES;
    engine->max_payload = options->max_payload > 0 ? options->max_payload : OD_RPC_MAX_MESSAGE - CHUNK_HEAD;
    atomic_init(&engine->catalog_version, options->catalog_version > 0 ? options->catalog_version : random_base());
    /* From another half of the numbers, so that they never meet. */
    atomic_init(&engine->private_version, random_base() | (uint64_t)1 << 63);
    atomic_init(&engine->data_version, 1);
    atomic_init(&engine->lake_version, 0);
    OD_TRY(choose_spool_dir(engine, options, err));
    OD_TRY(open_instance(engine, options, err));
    OD_TRY(make_pools(engine, options, err));
    OD_TRY(prepare_instance(engine, options, err));
    OD_TRY(od_snapshots_create(engine, options, &engine->snapshots, err));
    *out = engine;
out:
    if (rc != OD_OK)
        od_engine_close(engine);
    return rc;
}

void od_engine_close(od_engine *engine)
{
    if (engine == NULL)
        return;
    od_snapshots_free(engine->snapshots);
    for (size_t i = 0; i < engine->database_count; i++) {
        od_lease_pool_empty(&engine->pools[i]);
        (void)pthread_mutex_destroy(&engine->pools[i].lock);
    }
    for (size_t i = 0; i < engine->database_count; i++)
        od_free(engine->names[i]);
    od_free(engine->names);
    od_free(engine->spool_dir);
    od_free(engine->pools);
    od_keywords_release(&engine->keywords);
    duckdb_close(&engine->instance);
    od_retype_destroy(&engine->retype);
    od_settle_destroy(&engine->settle);
    od_free(engine);
}

/* ---- asking ---- */

size_t od_engine_database_count(const od_engine *engine)
{
    return engine->database_count;
}

const char *od_engine_database_name(const od_engine *engine, size_t i)
{
    return i < engine->database_count ? engine->names[i] : NULL;
}

bool od_engine_has_database(const od_engine *engine, od_slice name)
{
    for (size_t i = 0; i < engine->database_count; i++)
        if (od_slice_equal(od_slice_str(engine->names[i]), name))
            return true;
    return false;
}

const char *od_engine_version(void)
{
    return duckdb_library_version();
}

od_code od_engine_outline(const od_engine *engine, od_slice sql, const od_outline_sink *sink, od_error *err)
{
    char why[sizeof err->message];
    if (engine->host == NULL)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "statements are not taken apart here");
    if (engine->host->outline((const char *)sql.data, sql.len, sink, why, sizeof why))
        return OD_OK;
    return od_duck_fail(err, why);
}

uint64_t od_pool_catalog_version(const od_engine *engine, const od_lease_pool *pool)
{
    if (pool->lake)
        return engine->lake_base + 1 + atomic_load(&engine->lake_version); /* 0 means "any" */
    return atomic_load(&engine->catalog_version);
}

uint64_t od_engine_catalog_version(const od_engine *engine, od_slice database)
{
    size_t at = 0;
    for (size_t i = 0; i < engine->database_count; i++)
        if (od_slice_equal(od_slice_str(engine->names[i]), database))
            at = i;
    return od_pool_catalog_version(engine, &engine->pools[at]);
}

uint64_t od_engine_private_version(od_engine *engine)
{
    return (atomic_fetch_add(&engine->private_version, 1) + 1) | (uint64_t)1 << 63;
}
