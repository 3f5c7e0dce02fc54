#include "rpc_fixture.h"

#include "query/rpc/grpc.h"
#include "query/rpc/timers.h"
#include "base/banned.h"

static void test_timeouts_are_written_in_eight_digits(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } CASES[] = {
        {1, "1n"},
        {0, "1n"},
        {-5, "1n"},
        {99999999, "99999999n"},
        {100000000, "100000u"},
        {200000001, "200001u"},
        {5000000000, "5000000u"},
        {100000000000, "100000m"},
        {INT64_MAX, "9223373S"},
    };
    char out[OD_GRPC_TIMEOUT_SIZE];
    int64_t back;

    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        od_grpc_timeout_format(CASES[i].ns, out);
        if (CASES[i].ns < INT64_MAX)
            assert_string_equal(out, CASES[i].text);
        assert_true(strlen(out) <= 9);
        assert_true(od_grpc_timeout_parse(od_slice_str(out), &back));
        assert_true(back >= CASES[i].ns); /* never less than asked for */
    }
}

static void test_malformed_timeouts_are_refused(void **state)
{
    static const char *const BAD[] = {"", "5", "m", "-5m", "5x", "123456789m", " 5m", "5 m", "5ms", "0x5m"};
    int64_t ns;

    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_false(od_grpc_timeout_parse(od_slice_str(BAD[i]), &ns));
    assert_true(od_grpc_timeout_parse(od_slice_str("99999999H"), &ns));
    assert_true(ns == INT64_MAX);
    assert_true(od_grpc_timeout_parse(od_slice_str("0m"), &ns));
    assert_int_equal(ns, 0);
}

static void test_messages_survive_percent_coding(void **state)
{
    static char coded[3 * OD_GRPC_MESSAGE_MAX], back[OD_GRPC_MESSAGE_MAX + 1];
    const char *text = "a%b\n\t\x7f \xc3\xa4\xe2\x82\xac\xf0\x9f\xa6\x86~";
    size_t len = od_grpc_percent_encode(text, coded);

    (void)state;
    for (size_t i = 0; i < len; i++)
        assert_true(coded[i] >= ' ' && coded[i] <= '~');
    od_grpc_percent_decode(od_slice_of(coded, len), back, sizeof back);
    assert_string_equal(back, text);
    /* What other peers send is taken as it is. */
    od_grpc_percent_decode(od_slice_str("100% %zz %4 %41%"), back, sizeof back);
    assert_string_equal(back, "100% %zz %4 A%");
    od_grpc_percent_decode(od_slice_str("a%00b"), back, sizeof back);
    assert_string_equal(back, "a?b");
    od_grpc_percent_decode(od_slice_str("abcdef"), back, 4);
    assert_string_equal(back, "abc");
}

static void test_long_messages_are_cut_at_a_character(void **state)
{
    static char text[9001], coded[3 * OD_GRPC_MESSAGE_MAX], back[9001];
    size_t len;

    (void)state;
    for (size_t i = 0; i + 3 < sizeof text; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3);
    len = od_grpc_percent_encode(text, coded);
    assert_true(len <= sizeof coded);
    od_grpc_percent_decode(od_slice_of(coded, len), back, sizeof back);
    assert_int_equal(strlen(back), 4095);
    assert_memory_equal(back, text, 4095);
}

static void test_statuses_are_mapped(void **state)
{
    (void)state;
    assert_int_equal(od_grpc_status_from_http(401), OD_GRPC_UNAUTHENTICATED);
    assert_int_equal(od_grpc_status_from_http(404), OD_GRPC_UNIMPLEMENTED);
    assert_int_equal(od_grpc_status_from_http(502), OD_GRPC_UNAVAILABLE);
    assert_int_equal(od_grpc_status_from_http(200), OD_GRPC_UNKNOWN);
    assert_int_equal(od_grpc_status_from_h2(7), OD_GRPC_UNAVAILABLE);
    assert_int_equal(od_grpc_status_from_h2(8), OD_GRPC_CANCELLED);
    assert_int_equal(od_grpc_status_from_h2(11), OD_GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(od_grpc_status_from_h2(1), OD_GRPC_INTERNAL);
}

static void test_timers_come_in_order_and_may_be_removed(void **state)
{
    enum { COUNT = 500 };
    static od_timer timers[COUNT];
    od_timers heap = {0};
    unsigned seed = 1;
    int64_t last = 0;
    int popped = 0;

    (void)state;
    memset(timers, 0, sizeof timers);
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1103515245 + 12345;
        assert_true(od_timers_add(&heap, &timers[i], 1 + (int64_t)(seed >> 16) % 1000));
    }
    for (int i = 0; i < COUNT; i += 3) {
        od_timers_remove(&heap, &timers[i]);
        od_timers_remove(&heap, &timers[i]); /* twice does no harm */
    }
    assert_null(od_timers_pop(&heap, 0));
    for (od_timer *t; (t = od_timers_pop(&heap, 1000)) != NULL; popped++) {
        assert_true(t->at_ns >= last);
        assert_true((t - timers) % 3 != 0);
        last = t->at_ns;
    }
    assert_int_equal(popped, COUNT - (COUNT + 2) / 3);
    assert_true(od_timers_next(&heap) == INT64_MAX);
    od_timers_release(&heap);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeouts_are_written_in_eight_digits),
        cmocka_unit_test(test_malformed_timeouts_are_refused),
        cmocka_unit_test(test_messages_survive_percent_coding),
        cmocka_unit_test(test_long_messages_are_cut_at_a_character),
        cmocka_unit_test(test_statuses_are_mapped),
        cmocka_unit_test(test_timers_come_in_order_and_may_be_removed),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
