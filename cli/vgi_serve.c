/* openduck vgi-serve: a DuckDB database as a VGI catalog. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/command.h"
#include "cli/vgi_publish.h"
#include "ext/server/host.h"
#include "query/gateway.h"
#include "base/banned.h"

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

static od_code read_layout(const od_options *options, od_layout *out, od_error *err)
{
    const char *path = od_options_str(options, OD_OPT_VGI_LAYOUT);
    size_t count;
    const od_option_pair *companions = od_options_pairs(options, OD_OPT_VGI_COMPANION, &count);
    od_code rc = OD_OK;

    if (path[0] != '\0')
        OD_TRY(od_layout_read(path, out, err));
    for (size_t i = 0; i < count; i++)
        OD_TRY(od_layout_add_companion(out, companions[i].name, companions[i].value, err));
out:
    return rc;
}

/* ---- clients ---- */

static od_vgiw *running; /* what a signal ends */

static void on_signal(int number)
{
    (void)number;
    od_vgiw_stop(running);
}

static void tell_ready(void *arg, const char *location)
{
    (void)arg;
    printf("ready %s\n", location);
    fflush(stdout);
}

/* The client that started this process, or many that come by themselves. */
static od_code serve_clients(const od_options *options, od_vgiw *worker, od_error *err)
{
    /* The second one does not wait for anything. */
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    const char *path = od_options_str(options, OD_OPT_VGI_UNIX), *address = od_options_str(options, OD_OPT_VGI_HTTP);
    const od_secret *token = od_options_secret(options, OD_OPT_TOKEN);
    const od_vgiw_listen listen = {.ready = tell_ready, .token = token->value};
    od_vgiw_error why = {.code = OD_VGIW_OK};
    od_code rc = OD_OK;

    if (path[0] != '\0' && address[0] != '\0')
        return od_options_reject(options, OD_OPT_VGI_HTTP, "there is --unix, too", err);
    if (path[0] == '\0' && address[0] == '\0')
        return vgi_publish_failed(od_vgiw_serve(worker, STDIN_FILENO, STDOUT_FILENO, &why), &why, err);
    if (address[0] != '\0')
        OD_TRY(od_listen_check(address, token, err));
    running = worker;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    rc = vgi_publish_failed(address[0] != '\0' ? od_vgiw_serve_http(worker, address, &listen, &why)
                                               : od_vgiw_serve_unix(worker, path, &listen, &why),
                            &why, err);
out:
    return rc;
}

static od_code serve(const od_options *options, od_engine *engine, od_error *err)
{
    const char *name = od_options_str(options, OD_OPT_VGI_CATALOG);
    char *stem = stem_of(od_options_str(options, OD_OPT_VGI_DB));
    od_layout layout = {0};
    vgi_publish *publish = NULL;
    od_code rc;

    if (stem == NULL)
        OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory"));
    OD_TRY(read_layout(options, &layout, err));
    OD_TRY(vgi_publish_open(engine, name[0] != '\0' ? name : stem, &layout, &publish, err));
    OD_TRY(serve_clients(options, vgi_publish_worker(publish), err));
out:
    vgi_publish_close(publish);
    od_layout_release(&layout);
    od_free(stem);
    return rc;
}

int command_vgi_serve(const od_options *options)
{
    od_engine *engine = NULL;
    od_error err;
    od_code rc = open_engine(options, &engine, &err);

    if (rc == OD_OK)
        rc = serve(options, engine, &err);
    od_engine_close(engine);
    return rc == OD_OK ? EXIT_DONE : command_fail("vgi-serve", rc, &err);
}
