#include "query/console/view.h"

#include <stdio.h>
#include <string.h>

#include "unit/base/check.h"

static void test_a_status_is_told_with_hostile_texts_as_texts(void **state)
{
    static const char *const databases[] = {"m", "\"x\""};
    const od_status_worker workers[] = {{"w<1>", "h:1", true, 3, databases, 2, 16, 90}, {.worker_id = "w2"}};
    const od_status_running running[] = {
        {"young", "m", 5, 0, "SELECT 1", true, NULL, NULL, NULL},
        {"old", "m", 1500, 7, "SELECT '</script>' \xff\n", false, "h:1", "c:5", "rep"},
    };
    const od_status status = {.version = "1",
                              .duckdb_version = "v1",
                              .role = "gateway",
                              .max_in_flight = 64,
                              .databases = databases,
                              .database_count = 2,
                              .workers = workers,
                              .worker_count = 2,
                              .draining = true,
                              .running = running,
                              .running_count = 2};
    od_buf out = {0};

    (void)state;
    assert_int_equal(view_status(&status, &out, NULL), OD_OK);
    assert_string_equal(
        od_buf_cstr(&out),
        "{\"version\":\"1\",\"duckdb_version\":\"v1\",\"role\":\"gateway\",\"uptime_seconds\":0,\"draining\":true,"
        "\"in_flight\":0,\"max_in_flight\":64,\"queued\":0,\"max_queued\":0,\"transactions\":0,\"executions_total\":0,"
        "\"errors_total\":0,\"cancelled_total\":0,\"databases\":[\"m\",\"\\\"x\\\"\"],\"workers\":["
        "{\"id\":\"w<1>\",\"endpoint\":\"h:1\",\"healthy\":true,\"in_flight\":3,\"max_concurrency\":16,"
        "\"known_seconds\":90,\"databases\":[\"m\",\"\\\"x\\\"\"]},"
        "{\"id\":\"w2\",\"endpoint\":\"\",\"healthy\":false,\"in_flight\":0,\"max_concurrency\":0,\"known_seconds\":0,"
        "\"databases\":[]}],\"running_count\":2,\"running\":["
        "{\"id\":\"old\",\"database\":\"m\",\"client\":\"c:5\",\"user\":\"rep\",\"worker\":\"h:1\",\"elapsed_ms\":1500,"
        "\"bytes_sent\":7,"
        "\"waiting\":false,\"cut\":false,\"sql\":\"SELECT '</script>' \xEF\xBF\xBD\\n\"},"
        "{\"id\":\"young\",\"database\":\"m\",\"client\":\"\",\"user\":\"\",\"worker\":\"\",\"elapsed_ms\":5,\"bytes_"
        "sent\":0,"
        "\"waiting\":true,\"cut\":false,\"sql\":\"SELECT 1\"}]}");
    od_buf_release(&out);
}

static void test_what_is_shown_of_many_long_ones_is_bounded(void **state)
{
    enum { MANY = 1000 };
    static od_status_running running[MANY];
    static char sql[OD_STATUS_SQL + 1];
    const od_status status = {.running = running, .running_count = MANY};
    od_buf out = {0};

    (void)state;
    sql[0] = 'x'; /* so that the cut falls into a character */
    for (size_t i = 1; i + 2 < sizeof sql; i += 2)
        memcpy(sql + i, "\xc3\xbc", 2);
    for (size_t i = 0; i < MANY; i++)
        running[i] =
            (od_status_running){.execution_id = i == 7 ? "oldest" : "e", .sql = sql, .elapsed_ms = i == 7 ? 9 : 1};
    assert_int_equal(view_status(&status, &out, NULL), OD_OK);
    assert_true(out.len < (size_t)VIEW_RUNNING * (VIEW_SQL + 200));
    assert_non_null(strstr(od_buf_cstr(&out), "\"running_count\":1000,\"running\":[{\"id\":\"oldest\""));
    assert_non_null(strstr(od_buf_cstr(&out), "\"cut\":true"));
    assert_null(strstr(od_buf_cstr(&out), "\xEF\xBF\xBD"));
    od_buf_release(&out);
}

static void test_failures_are_told(void **state)
{
    static const od_gateway_failure list[] = {{1700000000123, "Execute", "e\"1", "m", "c:5", "rep", OD_E_BINDER,
                                               OD_KIND_BINDER, "42000", "no <b>such</b> column"},
                                              {.code = OD_E_CANCELLED, .kind = OD_KIND_IO}};
    od_buf out = {0};

    (void)state;
    assert_int_equal(view_failures(list, 2, &out, NULL), OD_OK);
    assert_string_equal(
        od_buf_cstr(&out),
        "{\"failures\":[{\"unix_ms\":1700000000123,\"call\":\"Execute\",\"id\":\"e\\\"1\",\"database\":\"m\","
        "\"client\":\"c:5\",\"user\":"
        "\"rep\",\"code\":"
        "\"BINDER\","
        "\"kind\":\"BINDER\",\"sqlstate\":\"42000\",\"message\":\"no <b>such</b> "
        "column\"},{\"unix_ms\":0,\"call\":\"\",\"id\":\"\","
        "\"database\":\"\",\"client\":\"\",\"user\":\"\",\"code\":\"CANCELLED\",\"kind\":\"IO\",\"sqlstate\":\"\","
        "\"message\":\"\"}]"
        "}");
    od_buf_release(&out);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_status_is_told_with_hostile_texts_as_texts),
                                       cmocka_unit_test(test_what_is_shown_of_many_long_ones_is_bounded),
                                       cmocka_unit_test(test_failures_are_told)};

    return check_run("view", tests, argc, argv);
}
