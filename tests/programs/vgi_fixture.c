/* A VGI worker with a catalog for tests, in the place of the public SDK's: its options, and what it says of where it listens, are theirs.
 *
 *   vgi_fixture CATALOG [--generation 2.2|1.3] [--unix PATH | --http --port 0]     without either: stdin and stdout
 *   VGI_TEST_BRANCH_DIR: the folder of files that branches are of */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fixture_catalogs.h"
#include "support/fixture_sql.h"

static od_vgiw *worker;

static void stop(int number)
{
    (void)number;
    od_vgiw_stop(worker);
}

static void tell(void *arg, const char *location)
{
    bool http = strncmp(location, "http://", 7) == 0;

    (void)arg;
    printf("%s:%s\n", http ? "PORT" : "UNIX", http ? strrchr(location, ':') + 1 : location + strlen("unix://"));
    fflush(stdout);
}

static const char *option(int argc, char **argv, const char *name)
{
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return NULL;
}

static bool has(int argc, char **argv, const char *name)
{
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    const od_vgiw_listen listen = {.ready = tell, .token = getenv("VGI_FIXTURE_TOKEN")};
    const char *path = option(argc, argv, "--unix");
    od_vgiw_error err = {.code = OD_VGIW_OK};
    od_vgiw_code code;

    if (argc < 2)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    fixture_open();
    worker = fixture_catalog(argv[1], option(argc, argv, "--generation"), getenv("VGI_TEST_BRANCH_DIR"));
    if (worker == NULL) {
        fprintf(stderr, "there is no catalog '%s'\n", argv[1]);
        return 2;
    }
    signal(SIGTERM, stop);
    if (path != NULL)
        code = od_vgiw_serve_unix(worker, path, &listen, &err);
    else if (has(argc, argv, "--http"))
        code = od_vgiw_serve_http(worker, "127.0.0.1:0", &listen, &err);
    else
        code = od_vgiw_serve(worker, STDIN_FILENO, STDOUT_FILENO, &err);
    od_vgiw_free(worker);
    fixture_close();
    if (code != OD_VGIW_OK)
        fprintf(stderr, "%s\n", err.message);
    return code != OD_VGIW_OK;
}
