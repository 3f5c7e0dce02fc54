/* Garbage, damage, and several threads in one volume. */
#include "storage/store.h"

#include <dirent.h>
#include <pthread.h>

#include "unit/storage/single.h"

static void seal(single *f, const char *text, char *snapshot)
{
    OK(od_volume_write(f->volume, f->file, 0, text, strlen(text), err));
    OK(od_volume_seal(f->volume, snapshot, err));
}

static int count_layers(const single *f)
{
    char path[128];
    DIR *dir;
    int count = 0;

    snprintf(path, sizeof path, "%s/layers", f->p.directory);
    dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

typedef struct {
    int count;
    uint64_t bytes;
    char reason[128];
} seen_garbage;

static int note_garbage(void *arg, const od_storage_garbage *garbage)
{
    seen_garbage *seen = arg;

    assert_int_equal(strlen(garbage->layer), OD_STORAGE_ID_SIZE - 1);
    seen->count++;
    seen->bytes += garbage->bytes;
    snprintf(seen->reason, sizeof seen->reason, "%s", garbage->reason);
    return 0;
}

/* The garbage is the layer of a writer that died before it used it. */
static void test_gc_takes_what_nobody_reaches_and_tells_first(void **state)
{
    single f;
    char snapshot[OD_STORAGE_ID_SIZE];
    seen_garbage dry = {0};
    seen_garbage wet = {0};
    od_volume *reader;
    uint64_t bytes = 0;
    int layers;

    (void)state;
    single_begin(&f, 0);
    seal(&f, "one", snapshot);
    OK(od_store_gc(f.store, 0, note_garbage, &dry, &bytes, err));
    assert_int_equal(dry.count, 0);
    f.io.dies_at = "advance.made";
    assert_int_equal(od_volume_seal(f.volume, NULL, NULL), OD_STORAGE_IO);
    (void)od_volume_close(f.volume, NULL);
    OK(od_store_close(f.store, err));
    f.io.dead = false;
    f.io.dies_at = NULL;
    atomic_fetch_add(&f.p.now, SINGLE_LEASE_MS);
    single_open(&f);

    layers = count_layers(&f);
    OK(od_store_gc(f.store, 1, note_garbage, &dry, &bytes, err));
    assert_int_equal(count_layers(&f), layers);
    assert_true(dry.count > 0 && dry.bytes == bytes && bytes > 0);
    assert_true(strlen(dry.reason) > 0);
    OK(od_store_gc(f.store, 0, note_garbage, &wet, &bytes, err));
    assert_int_equal(wet.count, dry.count);
    assert_int_equal(bytes, dry.bytes);
    assert_int_equal(count_layers(&f), layers - wet.count);
    OK(od_store_gc(f.store, 0, note_garbage, &wet, &bytes, err));
    assert_int_equal(wet.count, dry.count);
    assert_int_equal(bytes, 0);
    OK(od_volume_open_snapshot(f.store, snapshot, &reader, err));
    check_text(reader, f.file, "one");
    OK(od_volume_close(reader, err));
    OK(od_store_verify(f.store, NULL, NULL, err));
    single_end(&f);
}

static void test_gc_goes_on_after_a_crash(void **state)
{
    static const char *const points[] = {"gc.marked", "gc.removed"};

    (void)state;
    for (size_t i = 0; i < COUNT(points); i++) {
        single f;
        seen_garbage seen = {0};

        single_begin(&f, 0);
        seal(&f, "kept", NULL);
        f.io.dies_at = "advance.made";
        assert_int_equal(od_volume_seal(f.volume, NULL, NULL), OD_STORAGE_IO);
        (void)od_volume_close(f.volume, NULL);
        OK(od_store_close(f.store, err));
        f.io.dead = false;
        f.io.dies_at = NULL;
        atomic_fetch_add(&f.p.now, SINGLE_LEASE_MS);
        single_open(&f);
        f.io.dies_at = points[i];
        assert_int_equal(od_store_gc(f.store, 0, NULL, NULL, NULL, NULL), OD_STORAGE_IO);
        f.io.dead = false;
        f.io.dies_at = NULL;
        check_text(f.volume, f.file, "kept");
        OK(od_store_gc(f.store, 0, note_garbage, &seen, NULL, err));
        assert_true(seen.count > 0);
        seen.count = 0;
        OK(od_store_gc(f.store, 1, note_garbage, &seen, NULL, err));
        assert_int_equal(seen.count, 0);
        OK(od_store_verify(f.store, NULL, NULL, err));
        single_end(&f);
    }
}

typedef struct {
    int layers;
    int damaged;
    char problem[1000];
} seen_checks;

static int note_check(void *arg, const od_storage_check *check)
{
    seen_checks *seen = arg;

    seen->layers++;
    if (check->problem != NULL) {
        seen->damaged++;
        snprintf(seen->problem, sizeof seen->problem, "%s: %s", check->layer, check->problem);
    }
    return 0;
}

/* Flips a bit of each byte of the only sealed layer in turn. */
static void test_no_damaged_byte_is_returned(void **state)
{
    single f;
    seen_checks seen = {0};
    char snapshot[OD_STORAGE_ID_SIZE];
    char path[256] = "";
    DIR *dir;
    FILE *segment;
    long size = 0;

    (void)state;
    single_begin(&f, 0);
    seal(&f, "precious", snapshot);
    OK(od_store_verify(f.store, note_check, &seen, err));
    assert_int_equal(seen.layers, 2);
    assert_int_equal(seen.damaged, 0);
    snprintf(path, sizeof path, "%s/layers", f.p.directory);
    dir = opendir(path);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char candidate[400];

        snprintf(candidate, sizeof candidate, "%s/layers/%s", f.p.directory, entry->d_name);
        segment = entry->d_name[0] != '.' ? fopen(candidate, "r") : NULL;
        if (segment != NULL) {
            fseek(segment, 0, SEEK_END);
            if (ftell(segment) > size) {
                size = ftell(segment);
                snprintf(path, sizeof path, "%s", candidate);
            }
            fclose(segment);
        }
    }
    closedir(dir);
    segment = fopen(path, "r+");
    assert_non_null(segment);
    for (long at = 0; at < size; at++) {
        od_volume *reader = NULL;
        od_storage_error e = {0};
        char out[16];
        size_t got = 0;
        int byte;

        fseek(segment, at, SEEK_SET);
        byte = fgetc(segment);
        fseek(segment, at, SEEK_SET);
        fputc(byte ^ (1 << at % 8), segment);
        fflush(segment);
        assert_int_not_equal(od_store_verify(f.store, note_check, &seen, &e), OD_STORAGE_OK);
        if (od_volume_open_snapshot(f.store, snapshot, &reader, NULL) == OD_STORAGE_OK) {
            od_storage_code rc = od_volume_read(reader, f.file, 0, out, sizeof out, &got, NULL);

            assert_true(rc == OD_STORAGE_CORRUPT || (got == 8 && memcmp(out, "precious", 8) == 0));
            OK(od_volume_close(reader, err));
        }
        fseek(segment, at, SEEK_SET);
        fputc(byte, segment);
        fflush(segment);
    }
    fclose(segment);
    assert_int_equal(seen.damaged, size);
    assert_non_null(strstr(seen.problem, "at byte"));
    OK(od_store_verify(f.store, NULL, NULL, err));
    single_end(&f);
}

static void test_a_missing_layer_is_told(void **state)
{
    single f;
    char path[128];
    od_storage_error e = {0};
    DIR *dir;

    (void)state;
    single_begin(&f, 0);
    seal(&f, "precious", NULL);
    single_close(&f);
    snprintf(path, sizeof path, "%s/layers", f.p.directory);
    dir = opendir(path);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    place_open(&f.p, SINGLE_LEASE_MS, &f.store);
    assert_int_equal(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, &e), OD_STORAGE_CORRUPT);
    assert_non_null(strstr(e.message, "missing"));
    /* The lease that it had for a moment is not in the way. */
    assert_int_equal(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, &e), OD_STORAGE_CORRUPT);
    assert_int_equal(od_store_verify(f.store, NULL, NULL, NULL), OD_STORAGE_CORRUPT);
    OK(od_store_close(f.store, err));
    lossy_end(&f.io);
    place_end(&f.p);
}

/* ---- Threads ---- */

typedef struct {
    single *f;
    uint8_t number;
    atomic_bool *stop;
} worker;

/* Each has a page of its own, which is full of one number at any moment. */
static void *write_pages(void *arg)
{
    const worker *w = arg;
    uint8_t page[4096];

    for (unsigned round = 1; round <= 60; round++) {
        memset(page, (int)round, sizeof page);
        OK(od_volume_write(w->f->volume, w->f->file, w->number * sizeof page, page, sizeof page, err));
        if (round % 10 == 0)
            OK(od_volume_sync(w->f->volume, err));
        if (w->number == 0 && round % 20 == 0)
            OK(od_volume_seal(w->f->volume, NULL, err));
    }
    return NULL;
}

static void *read_pages(void *arg)
{
    const worker *w = arg;
    uint8_t page[4096];
    uint8_t last = 0;
    size_t got;

    while (!atomic_load(w->stop)) {
        OK(od_volume_read(w->f->volume, w->f->file, 0, page, sizeof page, &got, err));
        for (size_t i = 1; i < got; i++)
            assert_int_equal(page[i], page[0]);
        if (got > 0) {
            assert_true(page[0] >= last);
            last = page[0];
        }
    }
    return NULL;
}

static void test_threads_share_a_volume(void **state)
{
    single f;
    pthread_t writers[3];
    pthread_t reader;
    worker of[3];
    atomic_bool stop = false;
    worker watch = {.f = &f, .stop = &stop};
    uint8_t page[4096];
    size_t got;

    (void)state;
    single_begin(&f, 0);
    assert_int_equal(pthread_create(&reader, NULL, read_pages, &watch), 0);
    for (uint8_t i = 0; i < COUNT(writers); i++) {
        of[i] = (worker){.f = &f, .number = i};
        assert_int_equal(pthread_create(&writers[i], NULL, write_pages, &of[i]), 0);
    }
    for (size_t i = 0; i < COUNT(writers); i++)
        pthread_join(writers[i], NULL);
    atomic_store(&stop, true);
    pthread_join(reader, NULL);
    single_close(&f);
    single_open(&f);
    for (uint64_t i = 0; i < COUNT(writers); i++) {
        OK(od_volume_read(f.volume, f.file, i * sizeof page, page, sizeof page, &got, err));
        assert_int_equal(got, sizeof page);
        assert_int_equal(page[0], 60);
        assert_int_equal(page[sizeof page - 1], 60);
    }
    OK(od_store_verify(f.store, NULL, NULL, err));
    single_end(&f);
}

typedef struct {
    unsigned done[2], failed[2];
    uint64_t took_ns[2];
} seen_work;

static void note_work(void *arg, const od_storage_event *event)
{
    seen_work *seen = arg;

    ++*(event->failed ? &seen->failed[event->work] : &seen->done[event->work]);
    seen->took_ns[event->work] += event->nanoseconds;
}

static int stop_merge(void *arg, const od_storage_merge *merge)
{
    (void)arg;
    (void)merge;
    return 1;
}

static void test_an_observer_is_told_of_seals_and_merges(void **state)
{
    enum { SEAL = OD_STORAGE_WORK_SEAL, MERGE = OD_STORAGE_WORK_MERGE };
    single f;
    seen_work seen = {0};
    od_store_ports ports;
    char snapshots[3][OD_STORAGE_ID_SIZE];

    (void)state;
    single_begin(&f, 0);
    single_close(&f);
    ports = place_ports(&f.p, SINGLE_LEASE_MS, &f.io.io);
    ports.options.observe = note_work;
    ports.options.observe_arg = &seen;
    OK(od_store_open_with(&ports, &f.store, err));
    OK(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, err));
    for (size_t i = 0; i < COUNT(snapshots); i++)
        seal(&f, "some", snapshots[i]);
    assert_int_equal(seen.done[SEAL], 3);
    assert_true(seen.took_ns[SEAL] > 0);

    OK(od_store_drop_snapshot(f.store, snapshots[0], err));
    OK(od_store_drop_snapshot(f.store, snapshots[1], err));
    OK(od_store_compact(f.store, NULL, 1, stop_merge, NULL, err));
    assert_int_equal(seen.done[MERGE] + seen.failed[MERGE], 0);
    OK(od_store_compact(f.store, NULL, 1, NULL, NULL, err));
    assert_int_equal(seen.done[MERGE], 1);
    assert_true(seen.took_ns[MERGE] > 0);

    f.io.dies_at = "seal.indexed";
    assert_int_equal(od_volume_seal(f.volume, NULL, NULL), OD_STORAGE_IO);
    assert_int_equal(seen.done[SEAL], 3);
    assert_int_equal(seen.failed[SEAL], 1);
    (void)od_volume_close(f.volume, NULL);
    OK(od_store_close(f.store, err));
    lossy_end(&f.io);
    place_end(&f.p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gc_takes_what_nobody_reaches_and_tells_first),
        cmocka_unit_test(test_gc_goes_on_after_a_crash),
        cmocka_unit_test(test_no_damaged_byte_is_returned),
        cmocka_unit_test(test_a_missing_layer_is_told),
        cmocka_unit_test(test_threads_share_a_volume),
        cmocka_unit_test(test_an_observer_is_told_of_seals_and_merges),
    };

    return check_run("storage.upkeep", tests, argc, argv);
}
