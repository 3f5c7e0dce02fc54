/* Layers that nobody needs apart become one, and nobody sees it but by what is faster and smaller. */
#include "storage/store.h"

#include <errno.h>
#include <pthread.h>

#include "unit/storage/single.h"

#define PAGE 1000U

static void end(single *f)
{
    OK(od_store_verify(f->store, NULL, NULL, err));
    single_end(f);
}

static void write_page(single *f, unsigned at, unsigned value)
{
    place_write_page(f->volume, f->file, PAGE, at, value);
}

static void check_page(od_volume *volume, uint64_t file, unsigned at, unsigned value)
{
    place_check_page(volume, file, PAGE, at, value);
}

static int note_status(void *arg, const od_storage_status *status)
{
    *(od_storage_status *)arg = *status;
    return 0;
}

static od_storage_status status(od_store *store, const char *database)
{
    od_storage_status seen = {0};

    OK(od_store_status(store, database, note_status, &seen, err));
    return seen;
}

/* N seals, each after the same 10 pages and one of its own; all snapshots are dropped but those that KEPT has room for, the last ones. */
static void make_layers(single *f, unsigned n, char (*kept)[OD_STORAGE_ID_SIZE], unsigned keep)
{
    for (unsigned i = 0; i < n; i++) {
        char snapshot[OD_STORAGE_ID_SIZE];

        for (unsigned page = 0; page < 10; page++)
            write_page(f, page, i);
        write_page(f, 10 + i, i);
        OK(od_volume_seal(f->volume, snapshot, err));
        if (i < n - keep)
            OK(od_store_drop_snapshot(f->store, snapshot, err));
        else
            memcpy(kept[i - (n - keep)], snapshot, sizeof snapshot);
    }
}

static void check_layers(od_volume *volume, uint64_t file, unsigned n)
{
    for (unsigned page = 0; page < 10; page++)
        check_page(volume, file, page, n - 1);
    for (unsigned i = 0; i < n; i++)
        check_page(volume, file, 10 + i, i);
}

static void check_snapshot(single *f, const char *snapshot, unsigned n)
{
    od_volume *then;

    OK(od_volume_open_snapshot(f->store, snapshot, &then, err));
    check_layers(then, f->file, n);
    OK(od_volume_close(then, err));
}

typedef struct {
    uint64_t layers;
    uint64_t before;
    uint64_t after;
    int done;
} seen_merges;

static int note_merge(void *arg, const od_storage_merge *merge)
{
    seen_merges *seen = arg;

    assert_int_equal(strlen(merge->layer), OD_STORAGE_ID_SIZE - 1);
    if (merge->done) {
        seen->layers += merge->layers;
        seen->before += merge->bytes_before;
        seen->after += merge->bytes_after;
        seen->done++;
    }
    return 0;
}

static void test_what_nobody_needs_apart_is_merged(void **state)
{
    single f;
    char kept[2][OD_STORAGE_ID_SIZE];
    seen_merges seen = {0};
    od_storage_status before;
    od_storage_status after;
    uint64_t garbage = 1;

    (void)state;
    single_begin(&f, 0);
    make_layers(&f, 20, kept, 2);
    write_page(&f, 100, 100);
    OK(od_volume_sync(f.volume, err));
    before = status(f.store, "db");
    assert_int_equal(before.layers, 21);
    assert_int_equal(before.snapshots, 2);
    assert_true(before.has_writer);
    assert_int_equal(before.data_bytes, 31 * PAGE);
    assert_true(before.mergeable > 0 && before.read_bytes > before.data_bytes);

    OK(od_store_compact(f.store, NULL, 1, note_merge, &seen, err));
    assert_int_equal(seen.done, 1);
    assert_int_equal(seen.layers, 19); /* up to the older snapshot */
    assert_true(seen.after < seen.before / 4);
    after = status(f.store, "db");
    assert_int_equal(after.layers, 3);
    assert_int_equal(after.mergeable, 0);
    assert_int_equal(after.data_bytes, before.data_bytes);
    assert_true(after.stored_bytes < before.stored_bytes / 4);
    assert_true(after.extents < before.extents);
    /* Nothing of it is left: the writer went over to the new layer. */
    OK(od_store_gc(f.store, 0, NULL, NULL, &garbage, err));
    assert_int_equal(garbage, 0);

    check_layers(f.volume, f.file, 20);
    check_page(f.volume, f.file, 100, 100);
    check_snapshot(&f, kept[0], 19);
    check_snapshot(&f, kept[1], 20);
    write_page(&f, 3, 77);
    OK(od_volume_seal(f.volume, NULL, err));
    OK(od_volume_close(f.volume, err));
    OK(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, err));
    check_page(f.volume, f.file, 3, 77);
    check_page(f.volume, f.file, 4, 19);
    check_snapshot(&f, kept[0], 19);
    end(&f);
}

/* A writer and a reader elsewhere know nothing of it, and read on in the old layers until they close. */
static void test_who_has_the_old_layers_open_keeps_them(void **state)
{
    single f;
    char kept[1][OD_STORAGE_ID_SIZE];
    od_store *elsewhere;
    od_volume *reader;
    uint64_t garbage = 0;

    (void)state;
    single_begin(&f, 0);
    make_layers(&f, 12, kept, 1);
    elsewhere = single_open_another(&f);
    OK(od_volume_open_snapshot(elsewhere, kept[0], &reader, err));
    OK(od_store_compact(elsewhere, "db", 1, NULL, NULL, err));
    assert_int_equal(status(elsewhere, "db").layers, 2);
    OK(od_store_gc(elsewhere, 0, NULL, NULL, &garbage, err));
    assert_int_equal(garbage, 0);
    check_layers(reader, f.file, 12);
    check_layers(f.volume, f.file, 12);
    write_page(&f, 50, 1);
    OK(od_volume_seal(f.volume, NULL, err));
    OK(od_volume_close(reader, err));
    OK(od_store_gc(elsewhere, 0, NULL, NULL, &garbage, err));
    assert_int_equal(garbage, 0);
    check_layers(f.volume, f.file, 12);
    OK(od_volume_close(f.volume, err));
    OK(od_store_gc(elsewhere, 0, NULL, NULL, &garbage, err));
    assert_true(garbage > 0);
    OK(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, err));
    check_layers(f.volume, f.file, 12);
    check_snapshot(&f, kept[0], 12);
    OK(od_store_close(elsewhere, err));
    end(&f);
}

static void test_clones_stand_on_the_merged_layer(void **state)
{
    single f;
    char kept[1][OD_STORAGE_ID_SIZE];
    od_volume *copy;

    (void)state;
    single_begin(&f, 0);
    make_layers(&f, 8, kept, 1);
    OK(od_store_clone(f.store, kept[0], "copy", err));
    OK(od_store_clone(f.store, kept[0], "untouched", err));
    OK(od_volume_open(f.store, "copy", OD_VOLUME_WRITE, &copy, err));
    OK(od_volume_write(copy, f.file, 0, "copied", 6, err));
    OK(od_volume_sync(copy, err));
    OK(od_store_drop_snapshot(f.store, kept[0], err));
    OK(od_store_compact(f.store, NULL, 1, NULL, NULL, err));
    assert_int_equal(status(f.store, "db").layers, 2);
    assert_int_equal(status(f.store, "copy").layers, 2);
    assert_int_equal(status(f.store, "untouched").layers, 1);
    check_page(copy, f.file, 12, 2);
    OK(od_volume_close(copy, err));
    OK(od_volume_open(f.store, "copy", OD_VOLUME_READ, &copy, err));
    check_page(copy, f.file, 9, 7);
    OK(od_volume_close(copy, err));
    OK(od_volume_open(f.store, "untouched", OD_VOLUME_WRITE, &copy, err));
    check_layers(copy, f.file, 8);
    OK(od_volume_close(copy, err));
    assert_int_equal(od_store_compact(f.store, "nobody", 1, NULL, NULL, NULL), OD_STORAGE_NOT_FOUND);
    end(&f);
}

/* What was cut, removed and renamed below does not come back, and holes stay. */
static void test_a_merged_layer_says_all_that_its_layers_did(void **state)
{
    single f;
    char base[OD_STORAGE_ID_SIZE];
    char snapshot[OD_STORAGE_ID_SIZE];
    uint64_t other;
    uint64_t found;
    uint64_t size;
    uint8_t zeros[PAGE] = {0};
    uint8_t out[PAGE];
    size_t got;

    (void)state;
    single_begin(&f, 0);
    OK(od_volume_create(f.volume, "gone", &other, err));
    OK(od_volume_create(f.volume, "old name", &other, err));
    for (unsigned i = 0; i < 6; i++)
        write_page(&f, i, i);
    OK(od_volume_seal(f.volume, base, err)); /* is kept: what follows is merged above it */
    OK(od_volume_truncate(f.volume, f.file, 2 * PAGE, err));
    OK(od_volume_seal(f.volume, snapshot, err));
    OK(od_store_drop_snapshot(f.store, snapshot, err));
    OK(od_volume_truncate(f.volume, f.file, 6 * PAGE, err));
    write_page(&f, 4, 44);
    OK(od_volume_find(f.volume, "gone", &found, err));
    OK(od_volume_remove(f.volume, found, err));
    OK(od_volume_rename(f.volume, other, "new name", err));
    OK(od_volume_seal(f.volume, snapshot, err));
    OK(od_store_drop_snapshot(f.store, snapshot, err));
    write_page(&f, 0, 100);
    OK(od_volume_seal(f.volume, NULL, err));
    OK(od_store_compact(f.store, NULL, 1, NULL, NULL, err));
    assert_int_equal(status(f.store, "db").layers, 3);
    for (int again = 0; again < 2; again++) {
        OK(od_volume_size(f.volume, f.file, &size, err));
        assert_int_equal(size, 6 * PAGE);
        check_page(f.volume, f.file, 0, 100);
        check_page(f.volume, f.file, 1, 1);
        check_page(f.volume, f.file, 4, 44);
        OK(od_volume_read(f.volume, f.file, 2 * PAGE, out, sizeof out, &got, err));
        assert_memory_equal(out, zeros, sizeof out);
        OK(od_volume_find(f.volume, "new name", &found, err));
        assert_int_equal(found, other);
        assert_int_equal(od_volume_find(f.volume, "gone", &found, NULL), OD_STORAGE_NOT_FOUND);
        OK(od_volume_close(f.volume, err));
        OK(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, err));
    }
    end(&f);
}

static void test_a_crash_at_each_point_of_a_merge_loses_nothing(void **state)
{
    static const char *const points[] = {"merge.noted", "merge.made", "merge.written", "merge.synced",
                                         "merge.moved", "gc.marked",  "gc.removed"};

    (void)state;
    for (size_t i = 0; i < COUNT(points); i++) {
        single f;
        char kept[1][OD_STORAGE_ID_SIZE];
        uint64_t dice = i;
        uint64_t garbage = 1;

        single_begin(&f, 0);
        make_layers(&f, 9, kept, 1);
        f.io.dies_at = points[i];
        assert_int_equal(od_store_compact(f.store, NULL, 1, NULL, NULL, NULL), OD_STORAGE_IO);
        (void)od_volume_close(f.volume, NULL);
        OK(od_store_close(f.store, err));
        lossy_crash(&f.io, &dice);
        atomic_fetch_add(&f.p.now, SINGLE_LEASE_MS);
        f.store = single_open_another(&f);
        OK(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, err));
        check_layers(f.volume, f.file, 9);
        check_snapshot(&f, kept[0], 9);
        OK(od_store_verify(f.store, NULL, NULL, err));
        OK(od_store_compact(f.store, NULL, 1, NULL, NULL, err));
        OK(od_store_gc(f.store, 0, NULL, NULL, NULL, err));
        OK(od_store_gc(f.store, 0, NULL, NULL, &garbage, err));
        assert_int_equal(garbage, 0);
        assert_int_equal(status(f.store, "db").layers, 2);
        check_layers(f.volume, f.file, 9);
        check_snapshot(&f, kept[0], 9);
        end(&f);
    }
}

static void test_a_merge_that_fails_leaves_all_as_it_was(void **state)
{
    single f;
    char kept[1][OD_STORAGE_ID_SIZE];
    uint64_t garbage = 0;
    long n = 0;

    (void)state;
    single_begin(&f, 0);
    make_layers(&f, 9, kept, 1);
    for (;; n++) {
        od_storage_code rc;

        f.io.write_fails_in = n;
        f.io.write_error = ENOSPC;
        rc = od_store_compact(f.store, NULL, 1, NULL, NULL, NULL);
        f.io.write_fails_in = -1;
        if (rc == OD_STORAGE_OK)
            break;
        assert_int_equal(rc, OD_STORAGE_IO);
        check_layers(f.volume, f.file, 9);
        OK(od_store_gc(f.store, 1, NULL, NULL, &garbage, err));
        assert_int_equal(garbage, 0);
        assert_int_equal(status(f.store, "db").layers, 10);
    }
    assert_true(n >= 3);
    assert_int_equal(status(f.store, "db").layers, 2);
    check_layers(f.volume, f.file, 9);
    end(&f);
}

static int refuse(void *arg, const od_storage_merge *merge)
{
    (void)merge;
    ++*(int *)arg;
    return 1;
}

static int sleep_too_long(void *arg, const od_storage_merge *merge)
{
    single *f = arg;

    if (!merge->done)
        atomic_fetch_add(&f->p.now, SINGLE_LEASE_MS);
    return 0;
}

/* A merge that was stopped for longer than its pin lives may have lost what it read: it changes nothing. */
static void test_a_merge_ends_with_its_caller_or_its_pin(void **state)
{
    single f;
    char kept[1][OD_STORAGE_ID_SIZE];
    int asked = 0;

    (void)state;
    single_begin(&f, 0);
    make_layers(&f, 9, kept, 1);
    OK(od_store_compact(f.store, NULL, 1, refuse, &asked, err));
    assert_int_equal(asked, 1);
    assert_int_equal(status(f.store, "db").layers, 10);
    assert_int_equal(od_store_compact(f.store, NULL, 1, sleep_too_long, &f, NULL), OD_STORAGE_STALE_LEASE);
    assert_int_equal(status(f.store, "db").layers, 10);
    assert_int_equal(od_volume_close(f.volume, NULL), OD_STORAGE_STALE_LEASE); /* its own lease passed, too */
    OK(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, err));
    check_layers(f.volume, f.file, 9);
    end(&f);
}

typedef struct {
    od_store *elsewhere;
    int collections;
} collector;

static int collect(void *arg, const od_storage_merge *merge)
{
    collector *c = arg;

    if (!merge->done) {
        OK(od_store_gc(c->elsewhere, 0, NULL, NULL, NULL, err));
        c->collections++;
    }
    return 0;
}

static void test_gc_spares_what_a_merge_reads_and_makes(void **state)
{
    single f;
    char kept[1][OD_STORAGE_ID_SIZE];
    collector c = {0};

    (void)state;
    single_begin(&f, 0);
    make_layers(&f, 9, kept, 1);
    c.elsewhere = single_open_another(&f);
    OK(od_store_compact(f.store, NULL, 1, collect, &c, err));
    assert_true(c.collections > 0);
    OK(od_store_close(c.elsewhere, err));
    assert_int_equal(status(f.store, "db").layers, 2);
    check_layers(f.volume, f.file, 9);
    check_snapshot(&f, kept[0], 9);
    end(&f);
}

/* Whose pin has ended may find its layers gone. That is no damage, and it is told so. */
static void test_a_reader_that_slept_too_long_is_told_to_reopen(void **state)
{
    single f;
    char kept[1][OD_STORAGE_ID_SIZE];
    od_store *elsewhere;
    od_volume *reader;
    od_storage_error e = {0};
    uint8_t page[PAGE];
    size_t got;
    od_storage_code rc = OD_STORAGE_OK;

    (void)state;
    single_begin(&f, 0);
    elsewhere = single_open_another(&f);
    make_layers(&f, 80, kept, 1); /* more than stay open */
    OK(od_volume_open_snapshot(elsewhere, kept[0], &reader, err));
    OK(od_volume_close(f.volume, err));
    atomic_fetch_add(&f.p.now, SINGLE_LEASE_MS);
    OK(od_store_compact(f.store, NULL, 1, NULL, NULL, err));
    for (unsigned i = 0; i < 80 && rc == OD_STORAGE_OK; i++)
        rc = od_volume_read(reader, f.file, (10 + i) * PAGE, page, sizeof page, &got, &e);
    assert_int_equal(rc, OD_STORAGE_STALE_LEASE);
    assert_non_null(strstr(e.message, "reopen"));
    OK(od_volume_close(reader, err));
    OK(od_store_close(elsewhere, err));
    OK(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, err));
    check_layers(f.volume, f.file, 80);
    end(&f);
}

/* A layer that a dead writer left, and one that wrote over itself. */
static void test_frozen_and_wasteful_layers_are_written_anew(void **state)
{
    static uint8_t block[200000];
    single f;
    char snapshot[OD_STORAGE_ID_SIZE];
    od_storage_status before;

    (void)state;
    single_begin(&f, 0);
    for (int i = 0; i < 20; i++) {
        memset(block, i, sizeof block);
        OK(od_volume_write(f.volume, f.file, 0, block, sizeof block, err));
    }
    OK(od_volume_seal(f.volume, snapshot, err));
    before = status(f.store, "db");
    assert_int_equal(before.mergeable, 1);
    OK(od_store_compact(f.store, NULL, 0, NULL, NULL, err));
    assert_true(status(f.store, "db").stored_bytes < before.stored_bytes / 10);
    assert_int_equal(status(f.store, "db").mergeable, 0);
    check_page(f.volume, f.file, 0, 19);

    for (int i = 0; i < 3; i++) {
        write_page(&f, 1, 50U + (unsigned)i);
        OK(od_volume_sync(f.volume, err));
        f.io.dead = true;
        (void)od_volume_close(f.volume, NULL);
        OK(od_store_close(f.store, err));
        f.io.dead = false;
        atomic_fetch_add(&f.p.now, SINGLE_LEASE_MS);
        f.store = single_open_another(&f);
        OK(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, err));
    }
    assert_int_equal(status(f.store, "db").layers, 5);
    OK(od_store_compact(f.store, NULL, 0, NULL, NULL, err));
    assert_int_equal(status(f.store, "db").layers, 3);
    check_page(f.volume, f.file, 1, 52);
    check_page(f.volume, f.file, 0, 19);
    end(&f);
}

/* Seals whose snapshots go leave a number of layers that grows with the logarithm of what was written. */
static void test_layers_stay_few(void **state)
{
    single f;
    od_storage_status last = {0};
    static uint8_t block[300000];

    (void)state;
    single_begin(&f, 0);
    for (unsigned i = 0; i < 40; i++) {
        char snapshot[OD_STORAGE_ID_SIZE];

        memset(block, (int)i, sizeof block);
        OK(od_volume_write(f.volume, f.file, i * sizeof block, block, sizeof block, err));
        OK(od_volume_seal(f.volume, snapshot, err));
        OK(od_store_drop_snapshot(f.store, snapshot, err));
        OK(od_store_compact(f.store, NULL, 0, NULL, NULL, err));
        last = status(f.store, "db");
        assert_true(last.layers <= 7);
    }
    assert_int_equal(last.data_bytes, 40 * sizeof block);
    assert_true(last.read_bytes < last.data_bytes + last.data_bytes / 100);
    end(&f);
}

/* ---- By itself, and at the same time ---- */

static void test_a_store_merges_by_itself(void **state)
{
    place p;
    od_store *store;
    od_volume *volume;
    uint64_t file;

    (void)state;
    place_begin(&p);
    place_open(&p, 0, &store);
    OK(od_volume_open(store, "db", OD_VOLUME_CREATE, &volume, err));
    OK(od_volume_create(volume, "f", &file, err));
    for (unsigned i = 0; i < 30; i++) {
        char snapshot[OD_STORAGE_ID_SIZE];

        OK(od_volume_write(volume, file, i, "x", 1, err));
        OK(od_volume_seal(volume, snapshot, err));
        OK(od_store_drop_snapshot(store, snapshot, err));
    }
    OK(od_volume_seal(volume, NULL, err));
    while (status(store, "db").layers > 4)
        usleep(1000);
    OK(od_volume_close(volume, err));
    OK(od_store_verify(store, NULL, NULL, err));
    OK(od_store_close(store, err));
    place_end(&p);
}

typedef struct {
    const place *p;
    atomic_bool stop;
    atomic_int rounds;
} side;

static void *merge_and_collect(void *arg)
{
    side *h = arg;
    od_store *store;

    place_open(h->p, 0, &store);
    while (!atomic_load(&h->stop)) {
        od_storage_code rc = od_store_compact(store, NULL, 1, NULL, NULL, NULL);

        assert_true(rc == OD_STORAGE_OK || rc == OD_STORAGE_STALE_LEASE || rc == OD_STORAGE_IN_USE);
        rc = od_store_gc(store, 0, NULL, NULL, NULL, NULL);
        assert_true(rc == OD_STORAGE_OK || rc == OD_STORAGE_IN_USE);
        atomic_fetch_add(&h->rounds, 1);
    }
    OK(od_store_close(store, err));
    return NULL;
}

static void *read_all(void *arg)
{
    side *h = arg;
    od_store *store;

    place_open(h->p, 0, &store);
    while (!atomic_load(&h->stop)) {
        od_volume *volume;
        uint64_t file;
        uint8_t pages[8 * PAGE];
        size_t got;

        OK(od_volume_open(store, "db", OD_VOLUME_READ, &volume, err));
        if (od_volume_find(volume, "f", &file, NULL) == OD_STORAGE_OK) {
            OK(od_volume_read(volume, file, 0, pages, sizeof pages, &got, err));
            for (size_t i = 1; i < got; i++) /* a sync is after all pages have the same number */
                assert_int_equal(pages[i], pages[0]);
        }
        OK(od_volume_close(volume, err));
        atomic_fetch_add(&h->rounds, 1);
    }
    OK(od_store_close(store, err));
    return NULL;
}

static void test_merging_beside_a_writer_and_readers(void **state)
{
    place p;
    pthread_t threads[2];
    side merger = {0};
    side reader = {0};
    od_store *store;
    od_volume *volume;
    uint64_t file;
    uint8_t pages[8 * PAGE];
    uint8_t got_pages[8 * PAGE];
    size_t got;

    (void)state;
    place_begin(&p);
    merger.p = reader.p = &p;
    place_open(&p, 0, &store);
    OK(od_volume_open(store, "db", OD_VOLUME_CREATE, &volume, err));
    OK(od_volume_create(volume, "f", &file, err));
    OK(od_volume_sync(volume, err));
    assert_int_equal(pthread_create(&threads[0], NULL, merge_and_collect, &merger), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, read_all, &reader), 0);
    for (unsigned i = 0; i < 20 || atomic_load(&merger.rounds) < 3 || atomic_load(&reader.rounds) < 3; i++) {
        char snapshot[OD_STORAGE_ID_SIZE];

        memset(pages, (int)i, sizeof pages);
        OK(od_volume_write(volume, file, 0, pages, sizeof pages, err));
        OK(od_volume_seal(volume, snapshot, err));
        if (i % 5 != 0)
            OK(od_store_drop_snapshot(store, snapshot, err));
        OK(od_volume_read(volume, file, 0, got_pages, sizeof got_pages, &got, err));
        assert_memory_equal(pages, got_pages, sizeof pages);
    }
    atomic_store(&merger.stop, true);
    atomic_store(&reader.stop, true);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    OK(od_volume_close(volume, err));
    OK(od_store_compact(store, NULL, 1, NULL, NULL, err));
    OK(od_store_gc(store, 0, NULL, NULL, NULL, err));
    OK(od_store_verify(store, NULL, NULL, err));
    OK(od_volume_open(store, "db", OD_VOLUME_READ, &volume, err));
    OK(od_volume_read(volume, file, 0, got_pages, sizeof got_pages, &got, err));
    assert_memory_equal(pages, got_pages, sizeof pages);
    OK(od_volume_close(volume, err));
    OK(od_store_close(store, err));
    place_end(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_nobody_needs_apart_is_merged),
        cmocka_unit_test(test_who_has_the_old_layers_open_keeps_them),
        cmocka_unit_test(test_clones_stand_on_the_merged_layer),
        cmocka_unit_test(test_a_merged_layer_says_all_that_its_layers_did),
        cmocka_unit_test(test_a_crash_at_each_point_of_a_merge_loses_nothing),
        cmocka_unit_test(test_a_merge_that_fails_leaves_all_as_it_was),
        cmocka_unit_test(test_a_merge_ends_with_its_caller_or_its_pin),
        cmocka_unit_test(test_gc_spares_what_a_merge_reads_and_makes),
        cmocka_unit_test(test_a_reader_that_slept_too_long_is_told_to_reopen),
        cmocka_unit_test(test_frozen_and_wasteful_layers_are_written_anew),
        cmocka_unit_test(test_layers_stay_few),
        cmocka_unit_test(test_a_store_merges_by_itself),
        cmocka_unit_test(test_merging_beside_a_writer_and_readers),
    };

    return check_run("storage.compact", tests, argc, argv);
}
