/* openduck: the operator's door. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/command.h"
#include "query/engine.h"
#include "base/banned.h"

static const struct {
    unsigned bit;
    const char *name;
    int (*run)(const od_options *options);
} commands[] = {
    {OD_CMD_SERVE, "serve", command_serve},          {OD_CMD_GATEWAY, "gateway", command_gateway},
    {OD_CMD_WORKER, "worker", command_worker},       {OD_CMD_QUERY, "query", command_query},
    {OD_CMD_CANCEL, "cancel", command_cancel},       {OD_CMD_STATUS, "status", command_status},
    {OD_CMD_SNAPSHOT, "snapshot", command_snapshot}, {OD_CMD_GC, "gc", command_gc},
    {OD_CMD_STORAGE, "storage", command_storage},    {OD_CMD_VGI_SERVE, "vgi-serve", command_vgi_serve},
};

/* What the process was started with, for SIGHUP. */
static struct {
    unsigned command;
    int argc;
    char **argv;
} started;

static void print_usage(FILE *out)
{
    fputs("openduck: DuckDB databases that live elsewhere\n\nusage: openduck COMMAND [OPTIONS]\n\ncommands:\n", out);
    od_options_print_commands(out);
    fputs("\nopenduck COMMAND --help tells a command's options; openduck --version, the versions\n", out);
}

int command_fail(const char *command, od_code code, const od_error *err)
{
    fprintf(stderr, "openduck %s: %s\n", command, err->message);
    return code == OD_E_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

od_code command_read_again(od_options **out, od_error *err)
{
    return od_options_parse(started.command, started.argc, started.argv, getenv, out, err);
}

od_code command_connect(const od_options *options, const char *database, const od_remote_options *wanted,
                        od_remote **out, od_error *err)
{
    const od_secret *token = od_options_secret(options, OD_OPT_TOKEN);
    od_remote_options remote = wanted ? *wanted : (od_remote_options){0};
    const od_tls_files files = {
        .cert = od_options_str(options, OD_OPT_CLIENT_TLS_CERT),
        .key = od_options_str(options, OD_OPT_CLIENT_TLS_KEY),
        .ca = od_options_str(options, OD_OPT_TLS_CA),
    };
    char name[1024];
    od_code rc;

    *out = NULL;
    remote.connect_timeout_ms = od_options_ms(options, OD_OPT_CONNECT_TIMEOUT);
    rc = od_endpoint_parse(od_slice_str(od_options_str(options, OD_OPT_ENDPOINT)), &remote.endpoint, err);
    if (rc != OD_OK) {
        od_error_prefix(err, "--endpoint");
        return rc;
    }
    if (database && strlen(database) >= sizeof name)
        return od_fail(err, OD_E_INVALID, "--database is above %zu bytes", sizeof name - 1);
    snprintf(name, sizeof name, "%s", database ? database : "");
    if (remote.endpoint.tls) {
        rc = od_tls_create_client(&files, &remote.tls, err);
        if (rc != OD_OK)
            return rc;
    }
    /* od_remote_create copies both. */
    remote.database = name;
    remote.token = *token;
    rc = od_remote_create(&remote, out, err);
    od_tls_unref(remote.tls);
    return rc;
}

/* The value of the flag NAME in ARG, or in NEXT, the argument after it; NULL if ARG is another flag. */
static char *value_of(const char *name, char *arg, char *next)
{
    size_t len = strlen(name);

    if (strncmp(arg, name, len) != 0)
        return NULL;
    if (arg[len] == '=')
        return arg + len + 1;
    return arg[len] == '\0' ? next : NULL;
}

/* A token on the command line is seen by whoever lists processes: it is copied by now, so it goes. */
static void hide_tokens(int argc, char **argv)
{
    for (int i = 0; i < argc && argv[i]; i++) {
        char *next = i + 1 < argc ? argv[i + 1] : NULL;
        char *value = value_of("--token", argv[i], next);

        if (!value)
            value = value_of("--worker-token", argv[i], next);
        if (!value)
            value = value_of("--postgres-url", argv[i], next);
        if (value)
            memset(value, '*', strlen(value));
    }
}

static int run(size_t at, int argc, char **argv)
{
    od_options *options;
    od_error err;
    od_code rc = od_options_parse(commands[at].bit, argc, argv, getenv, &options, &err);
    int code;

    started.command = commands[at].bit;
    started.argc = argc;
    started.argv = argv;
    hide_tokens(argc, argv);
    if (rc != OD_OK)
        return command_fail(commands[at].name, rc, &err);
    if (od_options_help_wanted(options)) {
        od_options_print_help(commands[at].bit, stdout);
        code = EXIT_DONE;
    } else {
        rc = od_log_configure(od_options_str(options, OD_OPT_LOG), &err);
        code = rc == OD_OK ? commands[at].run(options) : command_fail(commands[at].name, OD_E_INVALID, &err);
    }
    od_options_free(options);
    return code;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    signal(SIGPIPE, SIG_IGN);
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("openduck %s (DuckDB %s)\n", OD_VERSION, od_engine_version());
        return EXIT_DONE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(name, commands[i].name) == 0)
            return run(i, argc - 2, argv + 2);
    }
    if (name[0])
        fprintf(stderr, "openduck: '%s' is no command; openduck --help lists them\n", name);
    else
        print_usage(stderr);
    return EXIT_USAGE;
}
