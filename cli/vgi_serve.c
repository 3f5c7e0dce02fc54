/* openduck vgi-serve: a DuckDB database as a VGI catalog. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/command.h"
#include "cli/vgi_source.h"
#include "ext/server/host.h"
#include "base/banned.h"

static od_code failed(od_vgiw_code code, const od_vgiw_error *why, od_error *err)
{
    static const od_code codes[] = {
        [OD_VGIW_INVALID] = OD_E_INVALID, [OD_VGIW_NOT_FOUND] = OD_E_NOT_FOUND, [OD_VGIW_EXISTS] = OD_E_EXISTS,
        [OD_VGIW_IO] = OD_E_IO,           [OD_VGIW_NO_MEMORY] = OD_E_NO_MEMORY, [OD_VGIW_PROTOCOL] = OD_E_PROTOCOL,
        [OD_VGIW_FAILED] = OD_E_UNKNOWN,
    };

    return code == OD_VGIW_OK ? OD_OK : od_fail(err, codes[code], "%s", why->message);
}

/* ---- the database ---- */

static od_code open_engine(const od_options *options, od_engine **out, od_error *err)
{
    const char *memory_limit = od_options_str(options, OD_OPT_MEMORY_LIMIT);
    const char *extensions = od_options_str(options, OD_OPT_EXTENSION_DIRECTORY);
    const od_engine_database database = {"db", od_options_str(options, OD_OPT_VGI_DB)};
    /* Its clients send no SQL, so what its views may read is for who made them. */
    const od_engine_options engine = {
        .databases = &database,
        .database_count = 1,
        .extensions = extensions[0] != '\0' ? extensions : NULL,
        .read_only = true,
        .threads = (unsigned)od_options_int(options, OD_OPT_THREADS),
        .memory_limit = memory_limit[0] != '\0' ? memory_limit : NULL,
        .external_access = true,
        .host = od_server_host(),
    };

    if (database.path[0] == '\0')
        return od_options_reject(options, OD_OPT_VGI_DB, "a database is needed", err);
    return od_engine_open(&engine, out, err);
}

/* "/srv/hot.duckdb" is called hot. */
static char *stem_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t len = dot != NULL && dot > name ? (size_t)(dot - name) : strlen(name);

    return od_strndup(name, len);
}

static od_code add_table(od_vgiw *worker, const vgi_source *source, od_error *err)
{
    const od_vgiw_branch branch = {.function = source->name, .function_schema = source->schema};
    const od_vgiw_table table = {.schema = source->schema,
                                 .name = source->name,
                                 .comment = source->comment,
                                 .columns = &source->columns,
                                 .branches = &branch,
                                 .branch_count = 1};
    od_vgiw_error why = {.code = OD_VGIW_OK};

    return failed(od_vgiw_add_table(worker, &table, &why), &why, err);
}

static od_code publish(od_vgiw *worker, const vgi_source *source, od_error *err)
{
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_vgiw_code code = od_vgiw_add_schema(worker, source->schema, NULL, &why);
    od_code rc;

    if (code != OD_VGIW_EXISTS)
        OD_TRY(failed(code, &why, err));
    OD_TRY(failed(vgi_source_publish(source, worker, &why), &why, err));
    OD_TRY(add_table(worker, source, err));
out:
    return rc;
}

static od_code make_worker(const od_options *options, const vgi_sources *sources, od_vgiw **out, od_error *err)
{
    const char *name = od_options_str(options, OD_OPT_VGI_CATALOG);
    char *stem = stem_of(od_options_str(options, OD_OPT_VGI_DB));
    const od_vgiw_catalog catalog = {.name = name[0] != '\0' ? name : stem};
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_code rc;

    OD_TRY(failed(od_vgiw_create(&catalog, out, &why), &why, err));
    for (size_t i = 0; i < sources->count; i++)
        OD_TRY(publish(*out, sources->items[i], err));
out:
    od_free(stem);
    return rc;
}

int command_vgi_serve(const od_options *options)
{
    vgi_sources sources = {0};
    od_engine *engine = NULL;
    od_vgiw *worker = NULL;
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_error err;
    od_code rc;

    OD_TRY(open_engine(options, &engine, &err));
    OD_TRY(vgi_sources_open(engine, &sources, &err));
    OD_TRY(make_worker(options, &sources, &worker, &err));
    OD_TRY(failed(od_vgiw_serve(worker, STDIN_FILENO, STDOUT_FILENO, &why), &why, &err));
out:
    od_vgiw_free(worker);
    vgi_sources_close(&sources);
    od_engine_close(engine);
    return rc == OD_OK ? EXIT_DONE : command_fail("vgi-serve", rc, &err);
}
