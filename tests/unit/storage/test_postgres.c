/* What only PostgreSQL can do to a store: go away, lose a connection at any message, hold a lock. Run by tests/support/with_postgres.sh. */
#include "storage/store.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "unit/storage/place.h"

#define LEASE_MS 60000

/* Runs SQL as psql does. */
static void sql(const char *text)
{
    char command[600];

    snprintf(command, sizeof command, "psql -qtAX -v ON_ERROR_STOP=1 -c \"%s\" >/dev/null", text);
    assert_int_equal(system(command), 0);
}

static void begin(place *p)
{
    place_begin(p);
    if (p->postgres_url == NULL)
        skip();
}

/* ---- A server that can be cut off ---- */

typedef struct {
    char path[100]; /* of a socket as a client of PostgreSQL looks for it */
    char server[100];
    int listening;
    int stop[2];
    pthread_t thread;
    atomic_int until;  /* so many messages of clients pass; the next cuts all connections. Negative: no limit */
    atomic_bool after; /* the one that cuts is given to the server first */
    atomic_bool cut;   /* it has happened */
} relay;

static int connect_to(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* False: the connection ends here. */
static bool pass(relay *r, int from, int to, bool of_client)
{
    char bytes[65536];
    ssize_t n = read(from, bytes, sizeof bytes);

    if (n <= 0)
        return false;
    if (of_client && atomic_load(&r->until) >= 0 && atomic_fetch_sub(&r->until, 1) == 0) {
        atomic_store(&r->cut, true);
        if (atomic_load(&r->after))
            (void)!write(to, bytes, (size_t)n);
        return false;
    }
    return write(to, bytes, (size_t)n) == n;
}

static void serve_one(relay *r, int client)
{
    int server = connect_to(r->server);

    for (;;) {
        struct pollfd fds[] = {
            {.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}, {.fd = r->stop[0], .events = POLLIN}};

        assert_true(poll(fds, 3, -1) > 0);
        if (fds[2].revents != 0 || (fds[0].revents != 0 && !pass(r, client, server, true)) ||
            (fds[1].revents != 0 && !pass(r, server, client, false)))
            break;
    }
    close(client);
    close(server);
}

static void *serve(void *arg)
{
    relay *r = arg;

    for (;;) {
        struct pollfd fds[] = {{.fd = r->listening, .events = POLLIN}, {.fd = r->stop[0], .events = POLLIN}};

        assert_true(poll(fds, 2, -1) > 0);
        if (fds[1].revents != 0)
            return NULL;
        serve_one(r, accept(r->listening, NULL, NULL));
    }
}

static void relay_begin(relay *r, const place *p)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    memset(r, 0, sizeof *r);
    atomic_store(&r->until, -1);
    snprintf(r->path, sizeof r->path, "%s/.s.PGSQL.5432", p->directory);
    snprintf(r->server, sizeof r->server, "%s/.s.PGSQL.5432", getenv("PGHOST"));
    snprintf(at.sun_path, sizeof at.sun_path, "%s", r->path);
    r->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->listening, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(r->listening, 8), 0);
    assert_int_equal(pipe(r->stop), 0);
    assert_int_equal(pthread_create(&r->thread, NULL, serve, r), 0);
}

static void relay_end(relay *r)
{
    (void)!write(r->stop[1], "x", 1);
    pthread_join(r->thread, NULL);
    close(r->listening);
    close(r->stop[0]);
    close(r->stop[1]);
}

/* ---- Tests ---- */

static void test_many_begin_at_once(void **state)
{
    place p;
    pid_t pids[6];
    od_store *store;

    (void)state;
    begin(&p);
    for (size_t i = 0; i < 6; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            od_storage_options options = place_options(&p, LEASE_MS);

            _exit(od_store_open_options(&options, &store, NULL) == OD_STORAGE_OK ? 0 : 1);
        }
    }
    for (size_t i = 0; i < 6; i++) {
        int status = -1;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    place_open(&p, LEASE_MS, &store);
    OK(od_store_close(store, err));
    place_end(&p);
}

static void test_newer_metadata_are_refused(void **state)
{
    place p;
    od_store *store;
    char text[200];
    od_storage_options options;

    (void)state;
    begin(&p);
    place_open(&p, LEASE_MS, &store);
    OK(od_store_close(store, err));
    snprintf(text, sizeof text, "INSERT INTO %s.migration VALUES (1000)", p.schema);
    sql(text);
    options = place_options(&p, LEASE_MS);
    assert_int_equal(od_store_open_options(&options, &store, NULL), OD_STORAGE_UNSUPPORTED);
    place_end(&p);
}

static void test_a_writer_outlives_its_connections(void **state)
{
    place p;
    od_store *store;
    od_volume *volume;
    uint64_t file;
    char snapshot[OD_STORAGE_ID_SIZE];

    (void)state;
    begin(&p);
    place_open(&p, LEASE_MS, &store);
    OK(od_volume_open(store, "db", OD_VOLUME_CREATE, &volume, err));
    OK(od_volume_create(volume, "f", &file, err));
    for (int i = 0; i < 3; i++) {
        sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'openduck'");
        OK(od_volume_write(volume, file, 0, "text", 4, err));
        OK(od_volume_sync(volume, err));
        sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'openduck'");
        OK(od_volume_seal(volume, snapshot, err));
    }
    OK(od_volume_close(volume, err));
    OK(od_store_verify(store, NULL, NULL, err));
    OK(od_store_close(store, err));
    place_end(&p);
}

static int count_snapshot(void *arg, const od_storage_snapshot *snapshot)
{
    (void)snapshot;
    ++*(int *)arg;
    return 0;
}

/* Writes, syncs and seals through a connection that is cut at message AT. False: it ended before. */
static bool work_until_cut(place *p, relay *r, int at, bool after)
{
    char url[200];
    char schema[48];
    od_storage_options options = {.directory = p->directory, .lease_ms = LEASE_MS, .postgres_schema = schema};
    od_store *store;
    od_volume *volume;
    uint64_t file = 0;
    char text[16];
    int synced = 0;
    int sealed = 0;
    int made = 0;
    char snapshots[3][OD_STORAGE_ID_SIZE] = {{0}};

    snprintf(url, sizeof url, "host=%s user=openduck dbname=postgres", p->directory);
    snprintf(schema, sizeof schema, "%s_%d_%d", p->schema, at, after ? 1 : 0);
    options.postgres_url = url;
    OK(od_store_open_options(&options, &store, err));
    OK(od_volume_open(store, "db", OD_VOLUME_CREATE, &volume, err));
    OK(od_volume_create(volume, "f", &file, err));
    atomic_store(&r->after, after);
    atomic_store(&r->cut, false);
    atomic_store(&r->until, at);
    for (int i = 1; i <= 3; i++) {
        snprintf(text, sizeof text, "state %d", i);
        OK(od_volume_write(volume, file, 0, text, 7, err));
        if (od_volume_sync(volume, NULL) == OD_STORAGE_OK)
            synced = i;
        if (od_volume_seal(volume, snapshots[i - 1], NULL) != OD_STORAGE_OK)
            snapshots[i - 1][0] = '\0';
    }
    atomic_store(&r->until, -1);
    /* Reads and writes go on, and all that was acknowledged is there. */
    OK(od_volume_write(volume, file, 7, "!", 1, err));
    OK(od_volume_sync(volume, err));
    OK(od_volume_close(volume, err));
    OK(od_volume_open(store, "db", OD_VOLUME_WRITE, &volume, err));
    check_text(volume, file, "state 3!");
    assert_int_equal(synced, 3); /* a look is repeated */
    OK(od_volume_close(volume, err));
    for (int i = 0; i < 3; i++) {
        if (snapshots[i][0] == '\0')
            continue;
        sealed++;
        snprintf(text, sizeof text, "state %d", i + 1);
        OK(od_volume_open_snapshot(store, snapshots[i], &volume, err));
        check_text(volume, file, text);
        OK(od_volume_close(volume, err));
    }
    OK(od_store_snapshots(store, "db", count_snapshot, &made, err));
    if (made != sealed) /* a seal whose answer was lost is looked for */
        fail_msg("cut at message %d: %d of %d snapshots have a name", at, sealed, made);
    OK(od_store_verify(store, NULL, NULL, err));
    OK(od_store_close(store, err));
    return atomic_load(&r->cut);
}

static void test_a_connection_may_be_cut_at_each_message(void **state)
{
    place p;
    relay r;
    int at = 0;

    (void)state;
    begin(&p);
    relay_begin(&r, &p);
    for (bool cut = true; cut; at += getenv("OPENDUCK_LONG") != NULL ? 1 : 4) /* among them a seal's commit */
        cut = work_until_cut(&p, &r, at, false) && work_until_cut(&p, &r, at, true);
    assert_true(at > 30); /* three seals of two changes each */
    relay_end(&r);
    place_end(&p);
}

static void test_a_lock_is_waited_for(void **state)
{
    place p;
    od_store *store;
    od_volume *volume;
    char command[500];

    (void)state;
    begin(&p);
    place_open(&p, LEASE_MS, &store);
    snprintf(command, sizeof command,
             "psql -qX -c 'BEGIN; LOCK TABLE %s.database; SELECT pg_sleep(0.3); COMMIT' >/dev/null &", p.schema);
    assert_int_equal(system(command), 0);
    OK(od_volume_open(store, "db", OD_VOLUME_CREATE, &volume, err));
    OK(od_volume_close(volume, err));
    OK(od_store_close(store, err));
    place_end(&p);
}

static void refuse(const place *p, const char *url, od_storage_code code, const char *part)
{
    od_storage_options options = {.directory = p->directory, .postgres_url = url};
    od_storage_error e = {0};
    od_store *store;

    assert_int_equal(od_store_open_options(&options, &store, &e), code);
    if (strstr(e.message, part) == NULL || strstr(e.message, "hunter2") != NULL)
        fail_msg("%s", e.message);
}

static void test_no_error_shows_a_password(void **state)
{
    place p;
    char url[200];

    (void)state;
    begin(&p);
    refuse(&p, "postgresql://me:hunter2@localhost:hunter2/db", OD_STORAGE_IO, "cannot connect");
    refuse(&p, "postgresql://me:hunter2@localhost/db?hunter2=x", OD_STORAGE_INVALID, "cannot be read");
    snprintf(url, sizeof url, "host=%s user=openduck password=hunter2 dbname=hunter2", getenv("PGHOST"));
    refuse(&p, url, OD_STORAGE_IO, "cannot connect");
    place_end(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_begin_at_once),
        cmocka_unit_test(test_newer_metadata_are_refused),
        cmocka_unit_test(test_a_writer_outlives_its_connections),
        cmocka_unit_test(test_a_connection_may_be_cut_at_each_message),
        cmocka_unit_test(test_a_lock_is_waited_for),
        cmocka_unit_test(test_no_error_shows_a_password),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
