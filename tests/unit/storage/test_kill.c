/* A writer that is killed, on the kernel's own files: the next one finds all that was acknowledged. OPENDUCK_LONG=1 kills 500. */
#include "storage/store.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "unit/storage/place.h"

#define LEASE_MS 200 /* of those that are killed */
#define PAGES 8U
#define PAGE_WORDS 600U /* some bytes more than a block */

typedef struct {
    uint64_t number;                   /* of a step whose sync returned */
    char snapshot[OD_STORAGE_ID_SIZE]; /* of the last seal */
    uint64_t sealed;                   /* the step that it was made after */
} word;

static od_volume *open_writer(od_store *store)
{
    od_volume *volume = NULL;
    od_storage_error e = {0};

    for (;;) {
        od_storage_code rc = od_volume_open(store, "db", OD_VOLUME_CREATE, &volume, &e);

        if (rc == OD_STORAGE_OK)
            return volume;
        if (rc != OD_STORAGE_LEASED) /* the dead writer's lease ends by itself */
            fail_msg("%d: %s", (int)rc, e.message);
        sched_yield();
    }
}

/* 0 if there is none yet. */
static uint64_t counter(od_volume *volume, uint64_t *file)
{
    uint64_t value = 0;
    size_t got;

    if (od_volume_find(volume, "counter", file, NULL) != OD_STORAGE_OK)
        return 0;
    OK(od_volume_read(volume, *file, 0, &value, sizeof value, &got, err));
    return value;
}

/* The state is that of step COUNT, but for the page of the step after it, which may be there. */
static void check_pages(od_volume *volume, uint64_t count)
{
    uint64_t words[PAGE_WORDS];
    uint64_t file;
    size_t got;

    if (count == 0)
        return;
    OK(od_volume_find(volume, "pages", &file, err));
    for (uint64_t p = 0; p < PAGES; p++) {
        uint64_t want = count - (count + PAGES - p) % PAGES;

        if (count < PAGES && p > count)
            continue;
        OK(od_volume_read(volume, file, p * sizeof words, words, sizeof words, &got, err));
        if (p == 0 && count < PAGES)
            continue; /* there was no step 0 */
        assert_int_equal(got, sizeof words);
        for (size_t i = 0; i < PAGE_WORDS; i++)
            assert_int_equal(words[i], words[0]);
        assert_true(words[0] == want || words[0] == count + 1);
    }
}

/* The first page and the counter, made if there is none. Gives the last step. */
static uint64_t find_files(od_volume *volume, uint64_t *pages, uint64_t *file)
{
    uint64_t count = counter(volume, file);

    if (count == 0) {
        (void)od_volume_create(volume, "pages", pages, NULL);
        (void)od_volume_create(volume, "counter", file, NULL);
    }
    if (od_volume_find(volume, "pages", pages, NULL) != OD_STORAGE_OK ||
        od_volume_find(volume, "counter", file, NULL) != OD_STORAGE_OK)
        _exit(1);
    return count;
}

/* A busy machine may let the lease end: then nothing more is acknowledged. */
static void write_step(od_volume *volume, uint64_t pages, uint64_t file, uint64_t n)
{
    uint64_t words[PAGE_WORDS];

    for (size_t i = 0; i < PAGE_WORDS; i++)
        words[i] = n;
    if (od_volume_write(volume, pages, n % PAGES * sizeof words, words, sizeof words, NULL) != OD_STORAGE_OK ||
        od_volume_write(volume, file, 0, &n, sizeof n, NULL) != OD_STORAGE_OK ||
        od_volume_sync(volume, NULL) != OD_STORAGE_OK)
        _exit(0);
}

static void say(int out, const word *w)
{
    if (write(out, w, sizeof *w) != (ssize_t)sizeof *w)
        _exit(0);
}

/* Seals, says so, and drops the snapshot before, whose layer can be merged then. */
static void seal_step(od_store *store, od_volume *volume, word *w, int out)
{
    char before[OD_STORAGE_ID_SIZE];

    memcpy(before, w->snapshot, sizeof before);
    if (od_volume_seal(volume, w->snapshot, NULL) != OD_STORAGE_OK)
        _exit(0);
    w->sealed = w->number;
    say(out, w);
    if (before[0] != '\0')
        (void)od_store_drop_snapshot(store, before, NULL);
}

/* Never returns. */
static void work(const place *p, int out)
{
    od_storage_options options = place_options(p, LEASE_MS);
    od_store *store;
    od_volume *volume;
    uint64_t pages;
    uint64_t file;
    uint64_t count;
    word w = {0};

    if (od_store_open_options(&options, &store, NULL) != OD_STORAGE_OK)
        _exit(1);
    volume = open_writer(store);
    count = find_files(volume, &pages, &file);
    for (uint64_t n = count + 1;; n++) {
        write_step(volume, pages, file, n);
        w.number = n;
        if (n % 8 == 0)
            seal_step(store, volume, &w, out);
        say(out, &w);
    }
}

/* Lets a child work for some steps more than STEPS, kills it, and gives the last that it said. */
static word work_and_die(const place *p, unsigned steps)
{
    word last = {0};
    word w;
    int fds[2];
    int status;
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    if (child == 0) {
        close(fds[0]);
        work(p, fds[1]);
    }
    assert_true(child > 0);
    close(fds[1]);
    for (unsigned i = 0; i < steps && read(fds[0], &w, sizeof w) == (ssize_t)sizeof w; i++)
        last = w;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    while (read(fds[0], &w, sizeof w) == (ssize_t)sizeof w)
        last = w;
    close(fds[0]);
    return last;
}

static void kill_often(unsigned rounds, uint64_t dice)
{
    place p;

    place_begin(&p);
    for (unsigned i = 0; i < rounds; i++) {
        od_store *store;
        od_volume *volume;
        uint64_t file;
        uint64_t count;
        word last;

        dice = dice * 6364136223846793005U + 1442695040888963407U;
        last = work_and_die(&p, 1 + (unsigned)(dice >> 33) % 40);
        place_open(&p, 0, &store);
        volume = open_writer(store);
        count = counter(volume, &file);
        assert_true(count >= last.number);
        check_pages(volume, count);
        OK(od_volume_close(volume, err));
        if (last.sealed != 0) {
            OK(od_volume_open_snapshot(store, last.snapshot, &volume, err));
            assert_int_equal(counter(volume, &file), last.sealed);
            check_pages(volume, last.sealed);
            OK(od_volume_close(volume, err));
        }
        OK(od_store_gc(store, 0, NULL, NULL, NULL, err));
        OK(od_store_verify(store, NULL, NULL, err));
        OK(od_store_close(store, err));
    }
    place_end(&p);
}

static void test_a_killed_writer_loses_nothing_that_was_acknowledged(void **state)
{
    bool longer = getenv("OPENDUCK_LONG") != NULL;

    (void)state;
    kill_often(longer ? 500 : 6, 99);
}

/* ---- At each point ---- */

static const char *dies_at;
static int dies_in;

static int die(void *ctx, const char *name)
{
    (void)ctx;
    if (dies_at != NULL && strcmp(dies_at, name) == 0 && dies_in-- == 0)
        (void)raise(SIGKILL);
    return 0;
}

static od_store *open_fragile(place *p, od_io *io)
{
    od_store *store = NULL;
    od_store_ports ports = place_ports(p, LEASE_MS, io);

    *io = *od_io_posix();
    io->point = die;
    if (od_store_open_with(&ports, &store, NULL) != OD_STORAGE_OK)
        _exit(1);
    return store;
}

/* Takes over, writes, seals, drops, merges, collects, closes. Comes to its end only if it does not die. */
static void do_everything(place *p, int out)
{
    od_io io;
    od_store *store = open_fragile(p, &io);
    od_volume *volume;
    uint64_t pages;
    uint64_t file;
    word w = {0};

    if (od_volume_open(store, "db", OD_VOLUME_CREATE, &volume, NULL) != OD_STORAGE_OK)
        _exit(1);
    w.number = find_files(volume, &pages, &file);
    for (int i = 0; i < 4; i++) {
        write_step(volume, pages, file, ++w.number);
        say(out, &w);
        seal_step(store, volume, &w, out);
    }
    if (od_store_compact(store, NULL, 1, NULL, NULL, NULL) != OD_STORAGE_OK ||
        od_store_gc(store, 0, NULL, NULL, NULL, NULL) != OD_STORAGE_OK)
        _exit(1);
    write_step(volume, pages, file, ++w.number);
    say(out, &w);
    (void)od_volume_close(volume, NULL);
    _exit(7);
}

/* Gives the last that the child said; *status: of its end. */
static word run_child(place *p, int *status)
{
    word last = {0};
    word w;
    int fds[2];
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    if (child == 0) {
        close(fds[0]);
        do_everything(p, fds[1]);
    }
    assert_true(child > 0);
    close(fds[1]);
    while (read(fds[0], &w, sizeof w) == (ssize_t)sizeof w)
        last = w;
    close(fds[0]);
    waitpid(child, status, 0);
    return last;
}

static void check_after(place *p, const word *last)
{
    od_io io;
    od_store *store;
    od_volume *volume;
    uint64_t file;
    uint64_t garbage = 1;

    atomic_fetch_add(&p->now, LEASE_MS);
    store = open_fragile(p, &io);
    OK(od_volume_open(store, "db", OD_VOLUME_CREATE, &volume, err));
    assert_true(counter(volume, &file) >= last->number);
    check_pages(volume, counter(volume, &file));
    OK(od_store_verify(store, NULL, NULL, err));
    OK(od_store_compact(store, NULL, 1, NULL, NULL, err));
    OK(od_store_gc(store, 0, NULL, NULL, NULL, err));
    OK(od_store_gc(store, 1, NULL, NULL, &garbage, err));
    assert_int_equal(garbage, 0);
    check_pages(volume, counter(volume, &file));
    OK(od_volume_close(volume, err));
    if (last->sealed != 0) {
        OK(od_volume_open_snapshot(store, last->snapshot, &volume, err));
        assert_int_equal(counter(volume, &file), last->sealed);
        check_pages(volume, last->sealed);
        OK(od_volume_close(volume, err));
    }
    OK(od_store_close(store, err));
}

static void test_a_writer_that_is_killed_at_any_point_loses_nothing(void **state)
{
    static const char *const points[] = {"freeze.indexed", "advance.begin", "advance.noted", "advance.made",
                                         "seal.begin",     "seal.indexed",  "seal.synced",   "seal.done",
                                         "merge.noted",    "merge.made",    "merge.written", "merge.synced",
                                         "merge.moved",    "gc.marked",     "gc.removed",    "close"};

    (void)state;
    for (size_t i = 0; i < COUNT(points); i++) {
        place p;
        word last;
        int status = 0;

        place_begin(&p);
        /* The first one dies at its end without having closed: its successor has a layer to freeze. */
        dies_at = "close";
        dies_in = 0;
        last = run_child(&p, &status);
        assert_true(WIFSIGNALED(status) && last.number == 5);
        atomic_fetch_add(&p.now, LEASE_MS);
        dies_at = points[i];
        last = run_child(&p, &status);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            fail_msg("it did not die at '%s'", points[i]);
        dies_at = NULL;
        check_after(&p, &last);
        place_end(&p);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_killed_writer_loses_nothing_that_was_acknowledged),
        cmocka_unit_test(test_a_writer_that_is_killed_at_any_point_loses_nothing),
    };

    return check_run("storage.kill", tests, argc, argv);
}
