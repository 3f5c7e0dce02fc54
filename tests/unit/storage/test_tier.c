/* Layers that are far away: in a directory, and in S3 where OPENDUCK_TEST_S3 names a server (tests/support/with_s3.sh). What that may do wrong is in
 * test_s3_faults.c. */
#include "storage/store.h"

#include <dirent.h>

#include "storage/blob.h"
#include "support/lossy_io.h"
#include "unit/storage/far.h"

#define BIG (3U << 20)

static int count_files(const char *directory, const char *ending)
{
    DIR *dir = opendir(directory);
    int count = 0;

    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        size_t len = strlen(entry->d_name);

        count += len > strlen(ending) && strcmp(entry->d_name + len - strlen(ending), ending) == 0;
    }
    closedir(dir);
    return count;
}

static int near_files(const far_store *f)
{
    char path[100];

    snprintf(path, sizeof path, "%s/layers", f->p.directory);
    return count_files(path, ".seg");
}

static void test_layers_go_away_and_are_read_in_pieces(void **state)
{
    far_store f;
    od_storage_options options;
    od_storage_tier_status s;
    od_volume *volume;
    uint8_t some[1000];
    uint8_t want[sizeof some];
    size_t got;

    (void)state;
    far_begin(&f, far_kind());
    options = place_options(&f.p, FAR_LEASE_MS);
    far_open(&f, &options, OD_VOLUME_CREATE);
    far_write_three(&f, BIG);
    OK(od_store_tier_status(f.store, &s, err));
    assert_int_equal(s.far_layers, 0);
    assert_int_equal(s.near_layers, s.layers);
    OK(od_store_tier(f.store, NULL, NULL, err));
    OK(od_store_tier_status(f.store, &s, err));
    assert_int_equal(s.layers, 3);
    assert_int_equal(s.far_layers, 3);
    assert_int_equal(s.far_bytes, s.bytes);
    assert_int_equal(s.near_layers, 0);
    assert_int_equal(near_files(&f), 1); /* the active one */
    far_close(&f);

    OK(od_store_open_options(&options, &f.store, err));
    OK(od_volume_open_snapshot(f.store, f.snapshots[0], &volume, err));
    OK(od_volume_read(volume, f.file, BIG / 2, some, sizeof some, &got, err));
    far_fill(want, 0, BIG / 2, sizeof want);
    assert_memory_equal(some, want, sizeof some);
    OK(od_store_tier_status(f.store, &s, err));
    if (s.fetched_bytes > BIG / 4) /* a record, and what stands in header and footer */
        fail_msg("%llu bytes in %llu requests", (unsigned long long)s.fetched_bytes, (unsigned long long)s.fetches);
    OK(od_volume_close(volume, err));
    far_check_three(&f, f.store, BIG);
    OK(od_store_verify(f.store, NULL, NULL, err));
    OK(od_store_close(f.store, err));
    place_end(&f.p);
}

static void test_a_large_layer_goes_in_parts(void **state)
{
    far_store f;
    od_storage_options options;
    size_t size = 12U << 20;

    (void)state;
    far_begin(&f, far_kind());
    options = place_options(&f.p, FAR_LEASE_MS);
    options.s3_part_bytes = FAR_PART;
    options.cache_bytes = 2U << 20;
    far_open(&f, &options, OD_VOLUME_CREATE);
    far_write_three(&f, size);
    OK(od_store_tier(f.store, NULL, NULL, err));
    far_check_three(&f, f.store, size);
    far_close(&f);
    place_end(&f.p);
}

static void test_a_tip_goes_on_elsewhere(void **state)
{
    far_store f;
    od_storage_options options;
    od_storage_options other;
    od_store *there;
    char directory[] = "/tmp/od_other_XXXXXX";
    char command[200];
    uint8_t one = 1;

    (void)state;
    far_begin(&f, far_kind());
    options = place_options(&f.p, FAR_LEASE_MS);
    other = options;
    other.directory = mkdtemp(directory);
    far_open(&f, &options, OD_VOLUME_CREATE);
    far_write_three(&f, 100000);
    OK(od_store_tier(f.store, NULL, NULL, err));
    far_close(&f);
    if (f.p.postgres_url == NULL) { /* then this is the metadata of both */
        snprintf(command, sizeof command, "cp %s/metadata.sqlite %s/", f.p.directory, directory);
        assert_int_equal(system(command), 0);
    }
    OK(od_store_open_options(&other, &there, err));
    far_check_three(&f, there, 100000);
    OK(od_store_clone(there, f.snapshots[1], "copy", err));
    OK(od_volume_open(there, "copy", OD_VOLUME_WRITE, &f.volume, err));
    OK(od_volume_write(f.volume, f.file, 0, &one, 1, err));
    OK(od_volume_close(f.volume, err));
    OK(od_volume_open(there, "db", OD_VOLUME_WRITE, &f.volume, err));
    OK(od_volume_write(f.volume, f.file, 0, &one, 1, err));
    OK(od_volume_seal(f.volume, f.snapshots[2], err));
    OK(od_store_tier(there, NULL, NULL, err));
    OK(od_volume_close(f.volume, err));
    OK(od_store_close(there, err));
    if (f.p.postgres_url != NULL) { /* and back */
        far_open(&f, &options, OD_VOLUME_WRITE);
        one = 0;
        OK(od_volume_read(f.volume, f.file, 0, &one, 1, &(size_t){0}, err));
        assert_int_equal(one, 1);
        far_close(&f);
    }
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    place_end(&f.p);
}

static void cannot_open(const od_storage_options *options, od_volume_mode mode, const char *says)
{
    od_storage_error e = {0};
    od_store *store;
    od_volume *volume;

    OK(od_store_open_options(options, &store, err));
    assert_int_equal(od_volume_open(store, "db", mode, &volume, &e), OD_STORAGE_CORRUPT);
    if (strstr(e.message, "missing") == NULL || strstr(e.message, says) == NULL)
        fail_msg("%s", e.message);
    OK(od_store_close(store, err));
}

/* It was synced on a machine that has not sent it. What is said leads to it. */
static void test_what_another_machine_has_not_sent_is_said(void **state)
{
    far_store f;
    od_storage_options options;
    od_storage_options other;
    char directory[] = "/tmp/od_other_XXXXXX";
    char command[200];
    uint8_t one = 7;
    size_t got;

    (void)state;
    far_begin(&f, far_kind());
    options = place_options(&f.p, FAR_LEASE_MS);
    other = options;
    other.directory = mkdtemp(directory);
    far_open(&f, &options, OD_VOLUME_CREATE);
    far_write_three(&f, 1000);
    OK(od_store_tier(f.store, NULL, NULL, err));
    OK(od_volume_write(f.volume, f.file, 0, &one, 1, err));
    far_close(&f);
    snprintf(command, sizeof command, "cp %s/metadata.sqlite %s/ 2>/dev/null", f.p.directory, directory);
    (void)!system(command); /* with SQLite this is the metadata of both */
    cannot_open(&other, OD_VOLUME_READ, "openduck storage tier");
    cannot_open(&other, OD_VOLUME_WRITE, "openduck snapshot seal");
    other.blob_url = NULL;
    cannot_open(&other, OD_VOLUME_READ, "name it (blob_url)");
    other.blob_url = options.blob_url;

    far_open(&f, &options, OD_VOLUME_WRITE);
    OK(od_volume_read(f.volume, f.file, 0, &one, 1, &got, err));
    assert_int_equal(one, 7); /* nothing that the other did has hurt */
    OK(od_volume_seal(f.volume, NULL, err));
    OK(od_store_tier(f.store, NULL, NULL, err));
    far_close(&f);
    (void)!system(command);
    far_open(&f, &other, OD_VOLUME_WRITE);
    one = 0;
    OK(od_volume_read(f.volume, f.file, 0, &one, 1, &got, err));
    assert_int_equal(one, 7);
    far_close(&f);
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    place_end(&f.p);
}

/* The blob of a layer of a store in a directory. */
static int far_files(const far_store *f)
{
    return count_files(f->p.blob, "");
}

static void test_a_crash_leaves_nothing_far_away_for_ever(void **state)
{
    static const char *const points[] = {"tier.noted", "tier.sent", "gc.marked", "gc.removed", NULL};

    (void)state;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        far_store f;
        lossy_io io;
        uint64_t dice = i + 1;
        od_store_ports ports;
        int most;

        far_begin(&f, "directory");
        lossy_begin(&io);
        ports = place_ports(&f.p, FAR_LEASE_MS, &io.io);
        OK(od_store_open_with(&ports, &f.store, err));
        OK(od_volume_open(f.store, "db", OD_VOLUME_CREATE, &f.volume, err));
        far_write_three(&f, 50000);
        io.dies_at = points[i];
        (void)od_store_tier(f.store, NULL, NULL, NULL);
        if (!io.dead) {
            for (int s = 0; s < 3; s++)
                OK(od_store_drop_snapshot(f.store, f.snapshots[s], err));
            (void)od_store_compact(f.store, NULL, 1, NULL, NULL, NULL);
            (void)od_store_gc(f.store, 0, NULL, NULL, NULL, NULL);
        }
        (void)od_volume_close(f.volume, NULL);
        OK(od_store_close(f.store, err));
        lossy_crash(&io, &dice);
        atomic_fetch_add(&f.p.now, FAR_LEASE_MS);
        OK(od_store_open_with(&ports, &f.store, err));
        OK(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, err));
        OK(od_store_tier(f.store, NULL, NULL, err));
        if (i < 2)
            far_check_three(&f, f.store, 50000);
        most = far_files(&f);
        for (int s = 0; s < 3; s++)
            (void)od_store_drop_snapshot(f.store, f.snapshots[s], NULL);
        OK(od_store_compact(f.store, NULL, 1, NULL, NULL, err));
        OK(od_store_gc(f.store, 0, NULL, NULL, NULL, err));
        assert_true(far_files(&f) < most || most == 0 || i >= 2);
        OK(od_store_tier(f.store, NULL, NULL, err));
        OK(od_store_verify(f.store, NULL, NULL, err));
        { /* what is far is what the metadata say */
            od_storage_tier_status s;
            int frozen;

            OK(od_store_tier_status(f.store, &s, err));
            frozen = count_files(f.p.blob, ".idx");
            assert_int_equal((uint64_t)(far_files(&f) - frozen), s.far_layers + 2); /* and . and .. */
        }
        far_close(&f);
        lossy_end(&io);
        place_end(&f.p);
    }
}

static void test_damage_far_away_is_found(void **state)
{
    far_store f;
    od_storage_options options;
    od_storage_error e = {0};
    od_volume *volume;
    char command[300];
    uint8_t *out = malloc(BIG);
    size_t got;

    (void)state;
    far_begin(&f, "directory");
    options = place_options(&f.p, FAR_LEASE_MS);
    far_open(&f, &options, OD_VOLUME_CREATE);
    far_write_three(&f, BIG);
    OK(od_store_tier(f.store, NULL, NULL, err));
    far_close(&f);
    snprintf(command, sizeof command,
             "for x in %s/*.seg; do printf XXXXXXXX | dd of=$x bs=1 seek=70000 conv=notrunc status=none; done",
             f.p.blob);
    assert_int_equal(system(command), 0);
    OK(od_store_open_options(&options, &f.store, err));
    OK(od_volume_open_snapshot(f.store, f.snapshots[0], &volume, err));
    assert_int_equal(od_volume_read(volume, f.file, 0, out, BIG, &got, &e), OD_STORAGE_CORRUPT);
    assert_non_null(strstr(e.message, "checksum"));
    OK(od_volume_close(volume, err));
    assert_int_equal(od_store_verify(f.store, NULL, NULL, NULL), OD_STORAGE_CORRUPT);
    OK(od_store_close(f.store, err));
    free(out);
    place_end(&f.p);
}

static void test_a_thread_sends_what_is_sealed(void **state)
{
    far_store f;
    od_storage_options options;
    od_storage_tier_status s = {0};

    (void)state;
    far_begin(&f, "directory");
    options = place_options(&f.p, FAR_LEASE_MS);
    options.tier = 1;
    far_open(&f, &options, OD_VOLUME_CREATE);
    far_write_three(&f, 50000);
    while (s.layers == 0 || s.far_layers < s.layers || s.near_layers > 0) {
        OK(od_store_tier_status(f.store, &s, err));
        usleep(2000);
    }
    far_check_three(&f, f.store, 50000);
    far_close(&f);
    place_end(&f.p);
}

static void test_what_makes_no_sense_is_refused(void **state)
{
    static const char *const urls[] = {"s3://", "s3:///x", "s3://b/p?x", "ftp://x/y"};
    far_store f;
    od_storage_options options;
    od_storage_tier_status s;

    (void)state;
    far_begin(&f, "directory");
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        options = place_options(&f.p, FAR_LEASE_MS);
        options.blob_url = urls[i];
        assert_int_equal(od_store_open_options(&options, &f.store, NULL), OD_STORAGE_INVALID);
    }
    options = place_options(&f.p, FAR_LEASE_MS);
    options.blob_url = "s3://b";
    options.s3_secret = NULL;
    assert_int_equal(od_store_open_options(&options, &f.store, NULL), OD_STORAGE_INVALID);
    options.blob_url = NULL;
    OK(od_store_open_options(&options, &f.store, err));
    assert_int_equal(od_store_tier(f.store, NULL, NULL, NULL), OD_STORAGE_UNSUPPORTED);
    assert_int_equal(od_store_tier_status(f.store, &s, NULL), OD_STORAGE_UNSUPPORTED);
    OK(od_store_close(f.store, err));
    place_end(&f.p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers_go_away_and_are_read_in_pieces),
        cmocka_unit_test(test_a_large_layer_goes_in_parts),
        cmocka_unit_test(test_a_tip_goes_on_elsewhere),
        cmocka_unit_test(test_what_another_machine_has_not_sent_is_said),
        cmocka_unit_test(test_a_crash_leaves_nothing_far_away_for_ever),
        cmocka_unit_test(test_damage_far_away_is_found),
        cmocka_unit_test(test_a_thread_sends_what_is_sealed),
        cmocka_unit_test(test_what_makes_no_sense_is_refused),
    };

    return check_run("storage.tier", tests, argc, argv);
}
