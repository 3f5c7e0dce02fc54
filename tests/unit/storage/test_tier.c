/* Layers that are far away: in a directory, and in S3 where OPENDUCK_TEST_S3 names a server (tests/support/with_s3.sh). */
#include "storage/store.h"

#include <dirent.h>

#include "storage/blob.h"
#include "support/fault_proxy.h"
#include "support/lossy_io.h"
#include "unit/storage/place.h"

#define LEASE_MS 60000
#define BIG (3U << 20)

typedef struct {
    place p;
    od_store *store;
    od_volume *volume;
    uint64_t file;
    char snapshots[3][OD_STORAGE_ID_SIZE];
} fixture;

/* The byte that stands at AT after seal I. */
static uint8_t byte_at(int i, uint64_t at)
{
    return (uint8_t)(at * 31 + (at >> 12) + (uint64_t)i * 101);
}

static void fill(uint8_t *out, int i, uint64_t at, size_t len)
{
    for (size_t n = 0; n < len; n++)
        out[n] = byte_at(i, at + n);
}

static void begin(fixture *f, const char *where)
{
    memset(f, 0, sizeof *f);
    place_begin(&f->p);
    if (f->p.blob[0] == '\0')
        place_blob_begin(&f->p, where);
}

static const char *kind(void)
{
    return getenv("OPENDUCK_TEST_S3") != NULL ? getenv("OPENDUCK_TEST_BUCKET") : "directory";
}

static void open_with(fixture *f, const od_storage_options *options, od_volume_mode mode)
{
    OK(od_store_open_options(options, &f->store, err));
    OK(od_volume_open(f->store, "db", mode, &f->volume, err));
}

static void close_both(fixture *f)
{
    OK(od_volume_close(f->volume, err));
    OK(od_store_close(f->store, err));
}

/* SIZE bytes, and three snapshots: after each the first third is another. */
static void write_three(fixture *f, size_t size)
{
    uint8_t *bytes = malloc(size);

    assert_non_null(bytes);
    OK(od_volume_create(f->volume, "f", &f->file, err));
    for (int i = 0; i < 3; i++) {
        size_t len = i == 0 ? size : size / 3;

        fill(bytes, i, 0, len);
        OK(od_volume_write(f->volume, f->file, 0, bytes, len, err));
        OK(od_volume_seal(f->volume, f->snapshots[i], err));
    }
    free(bytes);
}

static void check_one(od_store *store, const char *snapshot, int i, uint64_t file, size_t size)
{
    uint8_t *got = malloc(size);
    uint8_t *want = malloc(size);
    od_volume *volume;
    size_t n = 0;

    assert_true(got != NULL && want != NULL);
    fill(want, 0, 0, size);
    fill(want, i, 0, i == 0 ? size : size / 3);
    OK(od_volume_open_snapshot(store, snapshot, &volume, err));
    OK(od_volume_read(volume, file, 0, got, size, &n, err));
    assert_int_equal(n, size);
    assert_memory_equal(got, want, size);
    OK(od_volume_close(volume, err));
    free(got);
    free(want);
}

static void check_three(const fixture *f, od_store *store, size_t size)
{
    for (int i = 0; i < 3; i++)
        check_one(store, f->snapshots[i], i, f->file, size);
}

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

static int near_files(const fixture *f)
{
    char path[100];

    snprintf(path, sizeof path, "%s/layers", f->p.directory);
    return count_files(path, ".seg");
}

static void test_layers_go_away_and_are_read_in_pieces(void **state)
{
    fixture f;
    od_storage_options options;
    od_storage_tier_status s;
    od_volume *volume;
    uint8_t some[1000];
    uint8_t want[sizeof some];
    size_t got;

    (void)state;
    begin(&f, kind());
    options = place_options(&f.p, LEASE_MS);
    open_with(&f, &options, OD_VOLUME_CREATE);
    write_three(&f, BIG);
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
    close_both(&f);

    OK(od_store_open_options(&options, &f.store, err));
    OK(od_volume_open_snapshot(f.store, f.snapshots[0], &volume, err));
    OK(od_volume_read(volume, f.file, BIG / 2, some, sizeof some, &got, err));
    fill(want, 0, BIG / 2, sizeof want);
    assert_memory_equal(some, want, sizeof some);
    OK(od_store_tier_status(f.store, &s, err));
    if (s.fetched_bytes > BIG / 4) /* a record, and what stands in header and footer */
        fail_msg("%llu bytes in %llu requests", (unsigned long long)s.fetched_bytes, (unsigned long long)s.fetches);
    OK(od_volume_close(volume, err));
    check_three(&f, f.store, BIG);
    OK(od_store_verify(f.store, NULL, NULL, err));
    OK(od_store_close(f.store, err));
    place_end(&f.p);
}

static void test_a_large_layer_goes_in_parts(void **state)
{
    fixture f;
    od_storage_options options;
    size_t size = 12U << 20;

    (void)state;
    begin(&f, kind());
    options = place_options(&f.p, LEASE_MS);
    options.s3_part_bytes = 5U << 20;
    options.cache_bytes = 2U << 20;
    open_with(&f, &options, OD_VOLUME_CREATE);
    write_three(&f, size);
    OK(od_store_tier(f.store, NULL, NULL, err));
    check_three(&f, f.store, size);
    close_both(&f);
    place_end(&f.p);
}

static void test_a_tip_goes_on_elsewhere(void **state)
{
    fixture f;
    od_storage_options options;
    od_storage_options other;
    od_store *there;
    char directory[] = "/tmp/od_other_XXXXXX";
    char command[200];
    uint8_t one = 1;

    (void)state;
    begin(&f, kind());
    options = place_options(&f.p, LEASE_MS);
    other = options;
    other.directory = mkdtemp(directory);
    open_with(&f, &options, OD_VOLUME_CREATE);
    write_three(&f, 100000);
    OK(od_store_tier(f.store, NULL, NULL, err));
    close_both(&f);
    if (f.p.postgres_url == NULL) { /* then this is the metadata of both */
        snprintf(command, sizeof command, "cp %s/metadata.sqlite %s/", f.p.directory, directory);
        assert_int_equal(system(command), 0);
    }
    OK(od_store_open_options(&other, &there, err));
    check_three(&f, there, 100000);
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
        open_with(&f, &options, OD_VOLUME_WRITE);
        one = 0;
        OK(od_volume_read(f.volume, f.file, 0, &one, 1, &(size_t){0}, err));
        assert_int_equal(one, 1);
        close_both(&f);
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
    fixture f;
    od_storage_options options;
    od_storage_options other;
    char directory[] = "/tmp/od_other_XXXXXX";
    char command[200];
    uint8_t one = 7;
    size_t got;

    (void)state;
    begin(&f, kind());
    options = place_options(&f.p, LEASE_MS);
    other = options;
    other.directory = mkdtemp(directory);
    open_with(&f, &options, OD_VOLUME_CREATE);
    write_three(&f, 1000);
    OK(od_store_tier(f.store, NULL, NULL, err));
    OK(od_volume_write(f.volume, f.file, 0, &one, 1, err));
    close_both(&f);
    snprintf(command, sizeof command, "cp %s/metadata.sqlite %s/ 2>/dev/null", f.p.directory, directory);
    (void)!system(command); /* with SQLite this is the metadata of both */
    cannot_open(&other, OD_VOLUME_READ, "openduck storage tier");
    cannot_open(&other, OD_VOLUME_WRITE, "openduck snapshot seal");
    other.blob_url = NULL;
    cannot_open(&other, OD_VOLUME_READ, "name it (blob_url)");
    other.blob_url = options.blob_url;

    open_with(&f, &options, OD_VOLUME_WRITE);
    OK(od_volume_read(f.volume, f.file, 0, &one, 1, &got, err));
    assert_int_equal(one, 7); /* nothing that the other did has hurt */
    OK(od_volume_seal(f.volume, NULL, err));
    OK(od_store_tier(f.store, NULL, NULL, err));
    close_both(&f);
    (void)!system(command);
    open_with(&f, &other, OD_VOLUME_WRITE);
    one = 0;
    OK(od_volume_read(f.volume, f.file, 0, &one, 1, &got, err));
    assert_int_equal(one, 7);
    close_both(&f);
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    place_end(&f.p);
}

/* The blob of a layer of a store in a directory. */
static int far_files(const fixture *f)
{
    return count_files(f->p.blob, "");
}

static void test_a_crash_leaves_nothing_far_away_for_ever(void **state)
{
    static const char *const points[] = {"tier.noted", "tier.sent", "gc.marked", "gc.removed", NULL};

    (void)state;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        fixture f;
        lossy_io io;
        uint64_t dice = i + 1;
        od_store_ports ports = {.io = &io.io, .clock = place_clock, .no_heartbeat = true};
        int most;

        begin(&f, "directory");
        lossy_begin(&io);
        ports.clock_arg = &f.p;
        ports.options = place_options(&f.p, LEASE_MS);
        OK(od_store_open_with(&ports, &f.store, err));
        OK(od_volume_open(f.store, "db", OD_VOLUME_CREATE, &f.volume, err));
        write_three(&f, 50000);
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
        atomic_fetch_add(&f.p.now, LEASE_MS);
        OK(od_store_open_with(&ports, &f.store, err));
        OK(od_volume_open(f.store, "db", OD_VOLUME_WRITE, &f.volume, err));
        OK(od_store_tier(f.store, NULL, NULL, err));
        if (i < 2)
            check_three(&f, f.store, 50000);
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
        close_both(&f);
        lossy_end(&io);
        place_end(&f.p);
    }
}

static void test_damage_far_away_is_found(void **state)
{
    fixture f;
    od_storage_options options;
    od_storage_error e = {0};
    od_volume *volume;
    char command[300];
    uint8_t *out = malloc(BIG);
    size_t got;

    (void)state;
    begin(&f, "directory");
    options = place_options(&f.p, LEASE_MS);
    open_with(&f, &options, OD_VOLUME_CREATE);
    write_three(&f, BIG);
    OK(od_store_tier(f.store, NULL, NULL, err));
    close_both(&f);
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
    fixture f;
    od_storage_options options;
    od_storage_tier_status s = {0};

    (void)state;
    begin(&f, "directory");
    options = place_options(&f.p, LEASE_MS);
    options.tier = 1;
    open_with(&f, &options, OD_VOLUME_CREATE);
    write_three(&f, 50000);
    while (s.layers == 0 || s.far_layers < s.layers || s.near_layers > 0) {
        OK(od_store_tier_status(f.store, &s, err));
        usleep(2000);
    }
    check_three(&f, f.store, 50000);
    close_both(&f);
    place_end(&f.p);
}

/* ---- Faults of S3 ---- */

static void need_s3(void)
{
    if (getenv("OPENDUCK_TEST_S3") == NULL)
        skip();
}

static void test_a_store_that_is_down_hinders_no_seal(void **state)
{
    fixture f;
    fault_proxy proxy;
    od_storage_options options;
    od_storage_tier_status s = {0};

    (void)state;
    need_s3();
    begin(&f, kind());
    fault_proxy_begin(&proxy, getenv("OPENDUCK_TEST_S3"));
    options = place_options(&f.p, LEASE_MS);
    options.s3_endpoint = proxy.url;
    options.tier = 1;
    fault_proxy_set(&proxy, FAULT_503, 0, 1000000);
    open_with(&f, &options, OD_VOLUME_CREATE);
    write_three(&f, 50000);
    while (s.last_error[0] == '\0') {
        OK(od_store_tier_status(f.store, &s, err));
        usleep(2000);
    }
    assert_non_null(strstr(s.last_error, "503"));
    assert_null(strstr(s.last_error, "secret"));
    check_three(&f, f.store, 50000);
    fault_proxy_set(&proxy, FAULT_NONE, 0, 0);
    while (s.layers == 0 || s.far_layers < s.layers || s.last_error[0] != '\0') {
        OK(od_store_tier_status(f.store, &s, err));
        usleep(2000);
    }
    close_both(&f);
    fault_proxy_end(&proxy);
    place_end(&f.p);
}

/* Fault KIND at the request number AT and the COUNT - 1 after it, while layers are sent and read. False: there were fewer requests. */
static bool disturb(fault_kind fault, int at, int count)
{
    fixture f;
    fault_proxy proxy;
    od_storage_options options;
    od_volume *volume;
    static uint8_t out[60000];
    static uint8_t want[60000];
    size_t got;
    bool reached;

    begin(&f, kind());
    fault_proxy_begin(&proxy, getenv("OPENDUCK_TEST_S3"));
    options = place_options(&f.p, LEASE_MS);
    options.s3_endpoint = proxy.url;
    options.s3_timeout_ms = fault == FAULT_STALL ? 300 : 20000;
    open_with(&f, &options, OD_VOLUME_CREATE);
    write_three(&f, sizeof out);
    fault_proxy_set(&proxy, fault, at, count);
    if (od_store_tier(f.store, NULL, NULL, NULL) != OD_STORAGE_OK)
        OK(od_store_tier(f.store, NULL, NULL, err)); /* what was counted as sent is whole, and the rest follows */
    if (od_volume_open_snapshot(f.store, f.snapshots[0], &volume, NULL) != OD_STORAGE_OK)
        OK(od_volume_open_snapshot(f.store, f.snapshots[0], &volume, err));
    fill(want, 0, 0, sizeof want);
    if (od_volume_read(volume, f.file, 0, out, sizeof out, &got, NULL) != OD_STORAGE_OK)
        OK(od_volume_read(volume, f.file, 0, out, sizeof out, &got, err));
    assert_memory_equal(out, want, sizeof want);
    OK(od_volume_close(volume, err));
    reached = fault_proxy_requests(&proxy) > at;
    fault_proxy_set(&proxy, FAULT_NONE, 0, 0);
    check_three(&f, f.store, sizeof out);
    close_both(&f);
    fault_proxy_end(&proxy);
    place_end(&f.p);
    return reached;
}

static void test_no_fault_of_a_request_is_taken_for_success(void **state)
{
    static const fault_kind faults[] = {FAULT_500, FAULT_SHORT, FAULT_GARBAGE, FAULT_CUT, FAULT_403};
    int step = getenv("OPENDUCK_LONG") != NULL ? 1 : 11;

    (void)state;
    need_s3();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (int at = (int)i % step; disturb(faults[i], at, 1); at += step)
            ;
}

static void test_what_lasts_is_an_error_that_says_so(void **state)
{
    static const struct {
        fault_kind fault;
        const char *says;
    } cases[] = {{FAULT_503, "503"}, {FAULT_403, "403"}, {FAULT_STALL, "timed out"}, {FAULT_CUT, "cannot read 's3://"}};
    fixture f;
    fault_proxy proxy;
    od_storage_options options;

    (void)state;
    need_s3();
    begin(&f, kind());
    fault_proxy_begin(&proxy, getenv("OPENDUCK_TEST_S3"));
    options = place_options(&f.p, LEASE_MS);
    options.s3_endpoint = proxy.url;
    options.s3_timeout_ms = 1000;
    open_with(&f, &options, OD_VOLUME_CREATE);
    write_three(&f, BIG);
    OK(od_store_tier(f.store, NULL, NULL, err));
    OK(od_volume_close(f.volume, err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        od_storage_error e = {0};
        uint8_t one;
        size_t got;

        OK(od_volume_open_snapshot(f.store, f.snapshots[0], &f.volume, err));
        fault_proxy_set(&proxy, cases[i].fault, 0, 1000000);
        assert_int_equal(od_volume_read(f.volume, f.file, BIG - 1 - i * 500000, &one, 1, &got, &e), OD_STORAGE_IO);
        fault_proxy_set(&proxy, FAULT_NONE, 0, 0);
        if (strstr(e.message, cases[i].says) == NULL || strstr(e.message, "openduck-secret") != NULL)
            fail_msg("%s", e.message);
        OK(od_volume_read(f.volume, f.file, BIG - 1 - i * 500000, &one, 1, &got, err));
        OK(od_volume_close(f.volume, err));
    }
    OK(od_store_close(f.store, err));
    fault_proxy_end(&proxy);
    place_end(&f.p);
}

static void test_what_makes_no_sense_is_refused(void **state)
{
    static const char *const urls[] = {"s3://", "s3:///x", "s3://b/p?x", "ftp://x/y"};
    fixture f;
    od_storage_options options;
    od_storage_tier_status s;

    (void)state;
    begin(&f, "directory");
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        options = place_options(&f.p, LEASE_MS);
        options.blob_url = urls[i];
        assert_int_equal(od_store_open_options(&options, &f.store, NULL), OD_STORAGE_INVALID);
    }
    options = place_options(&f.p, LEASE_MS);
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
        cmocka_unit_test(test_a_store_that_is_down_hinders_no_seal),
        cmocka_unit_test(test_no_fault_of_a_request_is_taken_for_success),
        cmocka_unit_test(test_what_lasts_is_an_error_that_says_so),
        cmocka_unit_test(test_what_makes_no_sense_is_refused),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
