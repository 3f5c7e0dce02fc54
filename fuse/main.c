/* openduck-fuse: a database of differential storage as files, for programs that know nothing of it. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/option_text.h"
#include "fuse/mount.h"
#include "fuse/operations.h"
#include "base/banned.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef struct {
    od_storage_options store;
    const char *temp_dir, *seal;
    const char *database, *mountpoint;
    bool read_only, seal_on_checkpoint, allow_other;
} arguments;

static void usage(FILE *out)
{
    fputs("openduck-fuse: a database of differential storage as files\n\n"
          "usage: openduck-fuse [OPTIONS] DATABASE MOUNTPOINT\n"
          "       openduck-fuse --seal MOUNTPOINT\n\n"
          "MOUNTPOINT/database.duckdb and what DuckDB puts beside it are DATABASE, which is made if there is none;\n"
          "MOUNTPOINT/snapshots/ID/database.duckdb is each of its snapshots. SIGTERM or umount ends it.\n\n"
          "  --data-dir DIRECTORY   the store (OPENDUCK_DATA_DIR; ~/.openduck/data)\n"
          "                         its metadata are in PostgreSQL if OPENDUCK_POSTGRES_URL says so\n"
          "  --blob-url URL         where copies of layers are: s3://BUCKET/PREFIX (AWS_* variables) or a directory\n"
          "                         (OPENDUCK_BLOB_URL)\n"
          "  --tier                 send each layer there once it is sealed\n"
          "  --keep-bytes SIZE      keep so much of the newest sent layers in the store, such as 10GiB (all)\n"
          "  --read-only            its last synced state, beside a writer\n"
          "  --seal-on-checkpoint   keep a snapshot whenever DuckDB has written a checkpoint\n"
          "  --seal MOUNTPOINT      keep a snapshot of what is mounted there, and print its id\n"
          "  --lease SECONDS        how long the mount may be silent before another writer may take over (30)\n"
          "  --temp-dir DIRECTORY   where DuckDB's temporary files go (TMPDIR; /tmp)\n"
          "  --allow-other          let other users in (see user_allow_other in fuse.conf)\n"
          "  --help, --version\n",
          out);
}

static int wrong(const char *what)
{
    fprintf(stderr, "openduck-fuse: %s; --help tells how\n", what);
    return EXIT_USAGE;
}

static int failed(const char *what, const od_storage_error *err)
{
    fprintf(stderr, "openduck-fuse: %s: %s\n", what, err->message);
    return EXIT_FAILED;
}

static const char *variable(const char *name, const char *otherwise)
{
    const char *value = getenv(name); // NOLINT(concurrency-mt-unsafe): before there are threads

    return value && value[0] ? value : otherwise;
}

static bool parse_size(const char *text, uint64_t *bytes)
{
    int64_t size;

    if (!od_text_bytes(text, &size) || size <= 0)
        return false;
    *bytes = (uint64_t)size;
    return true;
}

static bool parse_lease(const char *text, uint32_t *ms)
{
    char *end;
    long seconds = strtol(text, &end, 10);

    *ms = (uint32_t)seconds * 1000;
    return *end == '\0' && seconds >= 1 && seconds <= 86400;
}

/* As for DuckDB's openduck://; made when it is needed. NULL: there is no home. */
static const char *home_store(char *out, size_t size)
{
    char *slash;

    if (od_storage_default_directory(NULL, out, size, NULL) != OD_STORAGE_OK)
        return NULL;
    slash = strrchr(out, '/');
    *slash = '\0';
    (void)mkdir(out, 0777); /* what cannot be made cannot be opened, and is told there */
    *slash = '/';
    (void)mkdir(out, 0777);
    return out;
}

enum {
    DATA_DIR = 1,
    BLOB_URL,
    TIER,
    KEEP_BYTES,
    READ_ONLY,
    ON_CHECKPOINT,
    SEAL,
    LEASE,
    TEMP_DIR,
    ALLOW_OTHER,
    HELP,
    VERSION
};

static const struct option known_options[] = {
    {"data-dir", required_argument, NULL, DATA_DIR},
    {"blob-url", required_argument, NULL, BLOB_URL},
    {"tier", no_argument, NULL, TIER},
    {"keep-bytes", required_argument, NULL, KEEP_BYTES},
    {"read-only", no_argument, NULL, READ_ONLY},
    {"seal-on-checkpoint", no_argument, NULL, ON_CHECKPOINT},
    {"seal", required_argument, NULL, SEAL},
    {"lease", required_argument, NULL, LEASE},
    {"temp-dir", required_argument, NULL, TEMP_DIR},
    {"allow-other", no_argument, NULL, ALLOW_OTHER},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, VERSION},
    {NULL, 0, NULL, 0},
};

/* What stands behind the options. -1: go on; else the exit code. */
static int take_arguments(int count, char **given, arguments *a)
{
    if (a->seal)
        return count == 0 ? -1 : wrong("--seal takes nothing else");
    if (count != 2)
        return wrong("a DATABASE and a MOUNTPOINT are needed");
    if (a->read_only && a->seal_on_checkpoint)
        return wrong("--seal-on-checkpoint is for a writer");
    a->database = given[0];
    a->mountpoint = given[1];
    return -1;
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, arguments *a)
{
    int c;

    *a = (arguments){.temp_dir = variable("TMPDIR", "/tmp")};
    // NOLINTNEXTLINE(concurrency-mt-unsafe): before there are threads
    while ((c = getopt_long(argc, argv, "", known_options, NULL)) != -1) {
        switch (c) {
        case DATA_DIR:
            a->store.directory = optarg;
            break;
        case BLOB_URL:
            a->store.blob_url = optarg;
            break;
        case TIER:
            a->store.tier = 1;
            break;
        case KEEP_BYTES:
            if (!parse_size(optarg, &a->store.keep_bytes))
                return wrong("--keep-bytes takes a size, such as 10GiB");
            break;
        case READ_ONLY:
            a->read_only = true;
            break;
        case ON_CHECKPOINT:
            a->seal_on_checkpoint = true;
            break;
        case SEAL:
            a->seal = optarg;
            break;
        case LEASE:
            if (!parse_lease(optarg, &a->store.lease_ms))
                return wrong("--lease takes 1 to 86400 seconds");
            break;
        case TEMP_DIR:
            a->temp_dir = optarg;
            break;
        case ALLOW_OTHER:
            a->allow_other = true;
            break;
        case HELP:
            usage(stdout);
            return EXIT_DONE;
        case VERSION:
            printf("openduck-fuse %s (libfuse %s)\n", OD_VERSION, fuse_pkgversion());
            return EXIT_DONE;
        default:
            return EXIT_USAGE; /* getopt has said why */
        }
    }
    return take_arguments(argc - optind, argv + optind, a);
}

static int seal(const char *mountpoint)
{
    char id[OD_STORAGE_ID_SIZE];
    int fd = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 ? -1 : ioctl(fd, OPENDUCK_SEAL, id);
    od_error err;

    if (rc < 0 && errno == ENOTTY) {
        fprintf(stderr, "openduck-fuse: '%s' is not mounted by openduck-fuse\n", mountpoint);
    } else if (rc < 0) {
        (void)od_fail_errno(&err, OD_E_IO, errno, "'%s' cannot be sealed", mountpoint);
        fprintf(stderr, "openduck-fuse: %s\n", err.message);
    } else {
        id[sizeof id - 1] = '\0';
        puts(id);
    }
    if (fd >= 0)
        close(fd);
    return rc < 0 ? EXIT_FAILED : EXIT_DONE;
}

/* Serves until it is unmounted or told to end. */
static int serve(mount *m, const arguments *a)
{
    char mount_options[128], name[] = "openduck-fuse", flag[] = "-o";
    char *argv[] = {name, flag, mount_options, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(3, argv);
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    struct fuse_session *session;
    int code = EXIT_FAILED;

    snprintf(mount_options, sizeof mount_options, "fsname=openduck,subtype=openduck,default_permissions%s%s",
             a->read_only ? ",ro" : "", a->allow_other ? ",allow_other" : "");
    session = config ? fuse_session_new(&args, &fuse_operations, sizeof fuse_operations, m) : NULL;
    if (session && fuse_set_signal_handlers(session) == 0) {
        if (fuse_session_mount(session, a->mountpoint) == 0) {
            printf("ready %s\n", a->mountpoint);
            fflush(stdout);
            /* A signal's number is an end as good as an unmount. */
            code = fuse_session_loop_mt(session, config) < 0 ? EXIT_FAILED : EXIT_DONE;
            fuse_session_unmount(session);
        }
        fuse_remove_signal_handlers(session);
    }
    if (session)
        fuse_session_destroy(session);
    fuse_loop_cfg_destroy(config);
    fuse_opt_free_args(&args);
    return code;
}

static int run(const arguments *a)
{
    mount m = {.database = a->database,
               .read_only = a->read_only,
               .seal_on_checkpoint = a->seal_on_checkpoint,
               .uid = getuid(),
               .gid = getgid()};
    od_storage_options store = a->store;
    char scratch[4000], home[4000];
    od_storage_error err;
    od_error why;
    int code;

    od_storage_options_from_environment(&store);
    if (!store.directory)
        store.directory = home_store(home, sizeof home);
    if (!store.directory)
        return wrong("there is no HOME: --data-dir or OPENDUCK_DATA_DIR is needed");
    if (!store.blob_url && (store.tier || store.keep_bytes > 0))
        return wrong("--tier and --keep-bytes need a --blob-url");
    m.directory = store.directory;
    if (od_store_open_options(&store, &m.store, &err) != OD_STORAGE_OK)
        return failed("the store cannot be opened", &err);
    if (snprintf(scratch, sizeof scratch, "%s/openduck-fuse-XXXXXX", a->temp_dir) >= (int)sizeof scratch ||
        !mkdtemp(scratch)) {
        (void)od_fail_errno(&why, OD_E_IO, errno, "no folder can be made in '%s'", a->temp_dir);
        fprintf(stderr, "openduck-fuse: %s\n", why.message);
        (void)od_store_close(m.store, NULL); /* nothing is open in it */
        return EXIT_FAILED;
    }
    m.scratch = scratch;
    if (mount_open(&m, &err) != OD_STORAGE_OK) {
        code = failed("the database cannot be opened", &err);
        rmdir(scratch);
    } else {
        code = serve(&m, a);
        if (mount_close(&m, &err) != OD_STORAGE_OK)
            code = failed("what was not synced may be lost", &err);
    }
    (void)od_store_close(m.store, NULL); /* its volumes are closed */
    return code;
}

int main(int argc, char **argv)
{
    arguments a;
    int code = parse(argc, argv, &a);

    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write */
    if (code >= 0)
        return code;
    return a.seal ? seal(a.seal) : run(&a);
}
