/* Registration, heartbeat, status: there and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/wire.h"

static od_slice bytes_of(od_msg *msg)
{
    return od_slice_of(od_msg_data(msg), od_msg_len(msg));
}

static void test_registration_both_ways(void **state)
{
    static const char *const databases[] = {"a", "b c"}, *const tables[] = {"t"};
    const od_registration in = {.worker_id = "w-1",
                                .endpoint = "http://127.0.0.1:1",
                                .databases = databases,
                                .database_count = 2,
                                .compute_context = "region=x",
                                .max_concurrency = 8,
                                .tables = tables,
                                .table_count = 1,
                                .access_token = "token"};
    od_registration out;
    od_msg *msg = NULL;

    (void)state;
    assert_int_equal(od_registration_encode(&in, &msg, NULL), OD_OK);
    assert_int_equal(od_registration_decode(bytes_of(msg), &out, NULL), OD_OK);
    assert_string_equal(out.worker_id, "w-1");
    assert_string_equal(out.endpoint, "http://127.0.0.1:1");
    assert_int_equal(out.database_count, 2);
    assert_string_equal(out.databases[1], "b c");
    assert_string_equal(out.compute_context, "region=x");
    assert_int_equal(out.max_concurrency, 8);
    assert_int_equal(out.table_count, 1);
    assert_string_equal(out.tables[0], "t");
    assert_string_equal(out.access_token, "token");
    od_registration_release(&out);
    od_registration_release(&out);
    for (size_t cut = 0; cut < od_msg_len(msg); cut++) {
        uint8_t *part = malloc(cut ? cut : 1);

        assert_non_null(part);
        memcpy(part, od_msg_data(msg), cut);
        if (od_registration_decode(od_slice_of(part, cut), &out, NULL) == OD_OK)
            od_registration_release(&out);
        free(part);
    }
    od_msg_unref(msg);
}

static void test_registration_above_its_limit_is_refused(void **state)
{
    size_t len = 300 << 10;
    uint8_t *many = malloc(len);
    od_registration out;

    (void)state;
    assert_non_null(many);
    for (size_t i = 0; i < len; i += 2) {
        many[i] = 0x1a; /* an empty database name */
        many[i + 1] = 0;
    }
    assert_int_equal(od_registration_decode(od_slice_of(many, len), &out, NULL), OD_E_TOO_LARGE);
    free(many);
}

static void test_heartbeat_both_ways(void **state)
{
    const od_heartbeat in = {.worker_id = "w", .access_token = NULL, .leaving = true};
    od_heartbeat out;
    od_msg *msg = NULL;

    (void)state;
    assert_int_equal(od_heartbeat_encode(&in, &msg, NULL), OD_OK);
    assert_int_equal(od_heartbeat_decode(bytes_of(msg), &out, NULL), OD_OK);
    assert_string_equal(out.worker_id, "w");
    assert_string_equal(out.access_token, "");
    assert_true(out.leaving);
    od_heartbeat_release(&out);
    od_msg_unref(msg);
}

static void test_status_both_ways(void **state)
{
    static const char *const databases[] = {"m"};
    const od_status_worker workers[] = {{"w1", "h:1", true, 3, databases, 1, 16, 90},
                                        {.worker_id = "w2", .endpoint = "h:2"}};
    const od_status_running running[] = {{"e1", "m", 1500, UINT64_MAX, "SELECT 1", true, "h:1", "c:5", "reports"},
                                         {.execution_id = "e2", .database = ""}};
    const od_status in = {.version = "1",
                          .duckdb_version = "v1",
                          .role = "serve",
                          .uptime_seconds = 5,
                          .in_flight = 1,
                          .max_in_flight = 64,
                          .queued = 2,
                          .max_queued = 256,
                          .transactions = 7,
                          .executions_total = 10,
                          .errors_total = 3,
                          .cancelled_total = 4,
                          .databases = databases,
                          .database_count = 1,
                          .workers = workers,
                          .worker_count = 2,
                          .draining = true,
                          .running = running,
                          .running_count = 2};
    od_status out;
    od_msg *msg = NULL;

    (void)state;
    assert_int_equal(od_status_encode(&in, &msg, NULL), OD_OK);
    assert_int_equal(od_status_decode(bytes_of(msg), &out, NULL), OD_OK);
    assert_string_equal(out.role, "serve");
    assert_int_equal(out.max_queued, 256);
    assert_int_equal(out.transactions, 7);
    assert_int_equal(out.cancelled_total, 4);
    assert_true(out.draining);
    assert_int_equal(out.worker_count, 2);
    assert_true(out.workers[0].healthy);
    assert_string_equal(out.workers[0].databases[0], "m");
    assert_string_equal(out.workers[1].endpoint, "h:2");
    assert_int_equal(out.running_count, 2);
    assert_true(out.running[0].bytes_sent == UINT64_MAX);
    assert_string_equal(out.running[0].sql, "SELECT 1");
    assert_string_equal(out.running[0].worker, "h:1");
    assert_string_equal(out.running[0].client, "c:5");
    assert_string_equal(out.running[0].user, "reports");
    assert_int_equal(out.workers[0].max_concurrency, 16);
    assert_int_equal(out.workers[0].known_seconds, 90);
    assert_true(out.running[0].waiting && !out.running[1].waiting);
    assert_string_equal(out.running[1].sql, "");
    od_status_release(&out);
    od_msg_unref(msg);
}

static void test_sql_of_a_status_is_cut_at_a_character(void **state)
{
    char sql[OD_STATUS_SQL + 1], text[OD_STATUS_SQL + 10];

    (void)state;
    od_status_sql(od_slice_str("SELECT 1"), sql);
    assert_string_equal(sql, "SELECT 1");
    od_status_sql(od_slice_of(NULL, 0), sql);
    assert_string_equal(sql, "");
    od_status_sql(od_slice_str("SELECT '\xff'"), sql);
    assert_string_equal(sql, "");
    memset(text, 'x', sizeof text);
    od_status_sql(od_slice_of(text, OD_STATUS_SQL), sql);
    assert_int_equal(strlen(sql), OD_STATUS_SQL);
    memcpy(text + OD_STATUS_SQL - 1, "\xc3\xbc", 2); /* only half of it would fit */
    od_status_sql(od_slice_of(text, sizeof text), sql);
    assert_int_equal(strlen(sql), OD_STATUS_SQL - 1);
    memcpy(text + OD_STATUS_SQL - 3, "\xf0\x9f\xa6\x86", 4);
    od_status_sql(od_slice_of(text, sizeof text), sql);
    assert_int_equal(strlen(sql), OD_STATUS_SQL - 3);
}

static void test_status_request_both_ways(void **state)
{
    od_slice token;
    od_msg *msg = NULL;

    (void)state;
    assert_int_equal(od_status_request_encode(od_slice_str("t"), &msg, NULL), OD_OK);
    assert_int_equal(od_status_request_decode(bytes_of(msg), &token, NULL), OD_OK);
    assert_true(od_slice_equal(token, od_slice_str("t")));
    od_msg_unref(msg);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registration_both_ways),   cmocka_unit_test(test_registration_above_its_limit_is_refused),
        cmocka_unit_test(test_heartbeat_both_ways),      cmocka_unit_test(test_status_both_ways),
        cmocka_unit_test(test_status_request_both_ways), cmocka_unit_test(test_sql_of_a_status_is_cut_at_a_character),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
