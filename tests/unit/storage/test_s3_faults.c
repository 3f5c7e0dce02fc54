/* What S3 may do wrong: a server that is down, slow, cut off, or lies. Needs OPENDUCK_TEST_S3 (tests/support/with_s3.sh). */
#include "storage/store.h"

#include <time.h>

#include "support/fault_proxy.h"
#include "unit/storage/far.h"

#define BIG (3U << 20)

static void need_s3(void)
{
    if (getenv("OPENDUCK_TEST_S3") == NULL)
        skip();
}

/* A store whose bucket is behind PROXY. */
static void begin_behind(far_store *f, fault_proxy *proxy, od_storage_options *options)
{
    far_begin(f, far_kind());
    fault_proxy_begin(proxy, getenv("OPENDUCK_TEST_S3"));
    *options = place_options(&f->p, FAR_LEASE_MS);
    options->s3_endpoint = proxy->url;
}

static void end_behind(far_store *f, fault_proxy *proxy)
{
    fault_proxy_end(proxy);
    place_end(&f->p);
}

static void test_a_store_that_is_down_hinders_no_seal(void **state)
{
    far_store f;
    fault_proxy proxy;
    od_storage_options options;
    od_storage_tier_status s = {0};

    (void)state;
    need_s3();
    begin_behind(&f, &proxy, &options);
    options.tier = 1;
    fault_proxy_set(&proxy, FAULT_503, 0, 1000000);
    far_open(&f, &options, OD_VOLUME_CREATE);
    far_write_three(&f, 50000);
    while (s.last_error[0] == '\0') {
        OK(od_store_tier_status(f.store, &s, err));
        usleep(2000);
    }
    assert_non_null(strstr(s.last_error, "503"));
    assert_null(strstr(s.last_error, "secret"));
    far_check_three(&f, f.store, 50000);
    fault_proxy_set(&proxy, FAULT_NONE, 0, 0);
    while (s.layers == 0 || s.far_layers < s.layers || s.last_error[0] != '\0') {
        OK(od_store_tier_status(f.store, &s, err));
        usleep(2000);
    }
    far_close(&f);
    end_behind(&f, &proxy);
}

/* FAULT at the request number AT, while layers of SIZE bytes are sent and read. False: there were fewer requests. */
static bool disturb(fault_kind fault, int at, size_t size)
{
    far_store f;
    fault_proxy proxy;
    od_storage_options options;
    od_volume *volume;
    uint8_t *out = malloc(size);
    uint8_t *want = malloc(size);
    size_t got;
    bool reached;

    assert_true(out != NULL && want != NULL);
    begin_behind(&f, &proxy, &options);
    options.s3_timeout_ms = fault == FAULT_HALF || fault == FAULT_DRIP ? 1000 : 20000;
    options.s3_part_bytes = FAR_PART;
    far_open(&f, &options, OD_VOLUME_CREATE);
    far_write_three(&f, size);
    fault_proxy_set(&proxy, fault, at, 1);
    if (od_store_tier(f.store, NULL, NULL, NULL) != OD_STORAGE_OK)
        OK(od_store_tier(f.store, NULL, NULL, err)); /* what was counted as sent is whole, and the rest follows */
    if (od_volume_open_snapshot(f.store, f.snapshots[0], &volume, NULL) != OD_STORAGE_OK)
        OK(od_volume_open_snapshot(f.store, f.snapshots[0], &volume, err));
    far_fill(want, 0, 0, size);
    if (od_volume_read(volume, f.file, 0, out, size, &got, NULL) != OD_STORAGE_OK)
        OK(od_volume_read(volume, f.file, 0, out, size, &got, err));
    assert_memory_equal(out, want, size);
    OK(od_volume_close(volume, err));
    reached = fault_proxy_requests(&proxy) > at;
    fault_proxy_set(&proxy, FAULT_NONE, 0, 0);
    far_check_three(&f, f.store, size);
    far_close(&f);
    end_behind(&f, &proxy);
    free(out);
    free(want);
    return reached;
}

static void test_no_fault_of_a_request_is_taken_for_success(void **state)
{
    static const fault_kind faults[] = {FAULT_500,  FAULT_SHORT, FAULT_GARBAGE, FAULT_CUT,     FAULT_403,
                                        FAULT_HALF, FAULT_DRIP,  FAULT_CLIPPED, FAULT_SHIFTED, FAULT_WHOLE};
    int step = getenv("OPENDUCK_LONG") != NULL ? 1 : 13;

    (void)state;
    need_s3();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (int at = (int)i % step; disturb(faults[i], at, 60000); at += step)
            ;
}

/* The requests of an upload in parts: one that begins it, two parts, one that ends it. */
static void test_no_fault_of_an_upload_in_parts_is_taken_for_success(void **state)
{
    static const fault_kind faults[] = {FAULT_SHORT, FAULT_500, FAULT_CUT, FAULT_403, FAULT_GARBAGE};
    bool longer = getenv("OPENDUCK_LONG") != NULL;

    (void)state;
    need_s3();
    for (int i = 0; i < (int)(sizeof faults / sizeof *faults); i++)
        for (int at = longer ? 0 : i; at < (longer ? 8 : i + 1); at++)
            (void)disturb(faults[i], at, FAR_PART + 100000);
}

static int64_t milliseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

typedef struct {
    fault_kind fault;
    int requests;
    const char *says;
} lasting;

/* With a time so short that a busy machine may need several tries for what goes well. */
static void open_soon(far_store *f, const od_storage_options *options)
{
    od_storage_code rc;

    OK(od_store_open_options(options, &f->store, err));
    do {
        rc = od_volume_open_snapshot(f->store, f->snapshots[0], &f->volume, NULL);
        assert_true(rc == OD_STORAGE_OK || rc == OD_STORAGE_IO);
    } while (rc != OD_STORAGE_OK);
}

static void check_lasting(far_store *f, fault_proxy *proxy, od_storage_options options, const lasting *c)
{
    od_storage_error e = {0};
    int64_t since;
    uint8_t one;
    size_t got;

    options.s3_timeout_ms = c->fault == FAULT_STALL ? 700 : 20000;
    open_soon(f, &options);
    fault_proxy_set(proxy, c->fault, 0, 1000000);
    since = milliseconds();
    assert_int_equal(od_volume_read(f->volume, f->file, BIG / 2, &one, 1, &got, &e), OD_STORAGE_IO);
    assert_int_equal(fault_proxy_requests(proxy), c->requests);
    assert_true(c->requests == 1 || milliseconds() - since >= 1050);
    fault_proxy_set(proxy, FAULT_NONE, 0, 0);
    if (strstr(e.message, c->says) == NULL || strstr(e.message, "openduck-secret") != NULL)
        fail_msg("%d: %s", (int)c->fault, e.message);
    far_close(f);
}

/* Each is asked for four times, with growing pauses of 1050 ms together, but for one that is a clear no. */
static void test_what_lasts_is_an_error_that_says_so(void **state)
{
    static const lasting cases[] = {
        {FAULT_503, 4, "503"},
        {FAULT_403, 1, "403"},
        {FAULT_STALL, 4, "timed out"},
        {FAULT_CUT, 4, "cannot read 's3://"},
        {FAULT_CLIPPED, 4, "than was asked for"},
        {FAULT_WHOLE, 4, "than was asked for"},
    };
    far_store f;
    fault_proxy proxy;
    od_storage_options options;

    (void)state;
    need_s3();
    begin_behind(&f, &proxy, &options);
    far_open(&f, &options, OD_VOLUME_CREATE);
    far_write_three(&f, BIG);
    OK(od_store_tier(f.store, NULL, NULL, err));
    far_close(&f);
    for (size_t i = 0; i < COUNT(cases); i++)
        check_lasting(&f, &proxy, options, &cases[i]);
    OK(od_store_open_options(&options, &f.store, err));
    far_check_three(&f, f.store, BIG);
    OK(od_store_close(f.store, err));
    end_behind(&f, &proxy);
}

/* Bytes of another place: whatever the server says of them, they are no data. */
static void test_bytes_that_stay_wrong_are_damage(void **state)
{
    static const fault_kind faults[] = {FAULT_GARBAGE, FAULT_SHIFTED};
    far_store f;
    fault_proxy proxy;
    od_storage_options options;

    (void)state;
    need_s3();
    begin_behind(&f, &proxy, &options);
    far_open(&f, &options, OD_VOLUME_CREATE);
    far_write_three(&f, BIG);
    OK(od_store_tier(f.store, NULL, NULL, err));
    far_close(&f);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        od_storage_error e = {0};
        static uint8_t out[BIG / 2];
        static uint8_t want[BIG / 2];
        size_t got;

        OK(od_store_open_options(&options, &f.store, err)); /* with an empty cache */
        OK(od_volume_open_snapshot(f.store, f.snapshots[0], &f.volume, err));
        fault_proxy_set(&proxy, faults[i], 0, 1000000);
        assert_int_equal(od_volume_read(f.volume, f.file, BIG / 2, out, sizeof out, &got, &e), OD_STORAGE_CORRUPT);
        assert_non_null(strstr(e.message, "at byte"));
        fault_proxy_set(&proxy, FAULT_NONE, 0, 0);
        OK(od_volume_read(f.volume, f.file, BIG / 2, out, sizeof out, &got,
                          err)); /* and nothing of it stays in a cache */
        far_fill(want, 0, BIG / 2, sizeof want);
        assert_memory_equal(out, want, sizeof want);
        far_close(&f);
    }
    end_behind(&f, &proxy);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_store_that_is_down_hinders_no_seal),
        cmocka_unit_test(test_no_fault_of_a_request_is_taken_for_success),
        cmocka_unit_test(test_no_fault_of_an_upload_in_parts_is_taken_for_success),
        cmocka_unit_test(test_what_lasts_is_an_error_that_says_so),
        cmocka_unit_test(test_bytes_that_stay_wrong_are_damage),
    };

    return check_run("storage.s3_faults", tests, argc, argv);
}
