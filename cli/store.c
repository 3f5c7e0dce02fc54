#include "cli/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/json.h"

#include "base/banned.h"

enum { PROGRESS_MS = 100 };

static bool shown; /* a line of progress stands on the terminal */

static char *join(const char *directory, const char *name)
{
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = od_alloc(size);

    if (path != NULL)
        snprintf(path, size, "%s/%s", directory, name);
    return path;
}

/* A command that looks at a store must not make one of any directory that it is given. */
static bool is_store(const char *directory)
{
    char *layers = join(directory, "layers");
    struct stat st;
    bool is = layers != NULL && stat(layers, &st) == 0 && S_ISDIR(st.st_mode);

    od_free(layers);
    return is;
}

bool store_open(const char *command, const od_options *options, od_store **out, int *code)
{
    char home[4096];
    const char *directory = od_options_str(options, OD_OPT_DATA_DIR);
    const od_secret *url = od_options_secret(options, OD_OPT_POSTGRES_URL);
    od_storage_options wanted = {.postgres_url = url->len > 0 ? url->value : NULL};
    const char *blob = od_options_str(options, OD_OPT_BLOB_URL);
    od_storage_error err = {0};
    bool opened = false;

    *code = EXIT_FAILED;
    if (blob[0] != '\0')
        wanted.blob_url = blob;
    if (directory[0] == '\0') {
        directory = home;
        if (od_storage_default_directory(NULL, home, sizeof home, &err) != OD_STORAGE_OK) {
            fprintf(stderr, "openduck %s: %s; --data-dir tells where the store is\n", command, err.message);
            *code = EXIT_USAGE;
            return false;
        }
    }
    wanted.directory = directory;
    od_storage_options_from_environment(&wanted); /* what has no option: credentials */
    if (!is_store(directory)) {
        fprintf(stderr, "openduck %s: there is no store in '%s'; --data-dir tells where it is\n", command, directory);
    } else if (od_store_open_options(&wanted, out, &err) != OD_STORAGE_OK) {
        fprintf(stderr, "openduck %s: %s\n", command, err.message);
    } else {
        opened = true;
    }
    return opened;
}

int store_close(const char *command, od_store *store, od_storage_code rc, const od_storage_error *err)
{
    store_progress_end();
    (void)od_store_close(store, NULL);
    if (rc == OD_STORAGE_OK)
        return EXIT_DONE;
    fprintf(stderr, "openduck %s: %s\n", command, err->message);
    return rc == OD_STORAGE_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

int store_usage(const char *command, const char *why)
{
    fprintf(stderr, "openduck %s: %s\n", command, why);
    return EXIT_USAGE;
}

const char *store_size(uint64_t bytes, char out[STORE_SIZE_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(out, STORE_SIZE_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return out;
}

const char *store_layers(uint64_t count, char out[STORE_SIZE_TEXT])
{
    snprintf(out, STORE_SIZE_TEXT, "%" PRIu64 " layer%s", count, count == 1 ? "" : "s");
    return out;
}

const char *store_time(int64_t ms, char out[STORE_TIME_TEXT])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;

    if (gmtime_r(&seconds, &parts) == NULL || strftime(out, STORE_TIME_TEXT, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        snprintf(out, STORE_TIME_TEXT, "%" PRId64, ms);
    return out;
}

void store_json(const char *name, const char *value)
{
    printf("\"%s\": ", name);
    json_text(stdout, od_slice_str(value));
}

void store_progress(const char *fmt, ...)
{
    static int64_t last_ns;
    int64_t now_ns = od_clock_ns();
    va_list args;

    if (isatty(STDERR_FILENO) == 0 || (shown && now_ns - last_ns < (int64_t)PROGRESS_MS * 1000000))
        return;
    last_ns = now_ns;
    shown = true;
    fputs("\r\033[K", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fflush(stderr);
}

void store_progress_end(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = false;
}
