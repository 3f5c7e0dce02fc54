/* Rows that a statement brings along: openduck_rows. */
#include "base/buf.h"
#include "engine_helper.h"
#include "server/host.h"

static od_engine *open_with_host(void)
{
    return open_engine(&(od_engine_options){.threads = 2, .host = od_server_host()});
}

/* The first payload of SQL. */
static od_msg *payload_of(od_engine *engine, const char *sql)
{
    od_execution *execution;
    od_msg *msg;
    assert_ok(try_start(engine, sql, &execution));
    assert_ok(od_execution_next(execution, &msg, &err));
    od_execution_end(execution);
    return msg;
}

/* PAYLOAD's first LEN bytes as the value of $1. */
static od_msg *as_parameter(od_engine *engine, od_msg *payload, size_t len)
{
    od_buf sql = {0};
    assert_ok(od_buf_printf(&sql, &err, "SELECT '"));
    for (size_t i = 0; i < len; i++)
        assert_ok(od_buf_printf(&sql, &err, "\\x%02X", (unsigned char)od_msg_data(payload)[i]));
    assert_ok(od_buf_printf(&sql, &err, "'::BLOB AS \"1\""));
    assert_ok(od_buf_append(&sql, "", 1, &err));
    od_msg *out = payload_of(engine, (const char *)sql.data);
    od_buf_release(&sql);
    return out;
}

/* The one BIGINT that SQL gives. */
static od_code ask_with(od_engine *engine, const char *sql, od_msg *parameter, int64_t *value)
{
    od_execution *execution;
    od_msg *msg = NULL;
    od_slice bytes = od_slice_of(od_msg_data(parameter), od_msg_len(parameter));
    od_execution_request request = {.sql = od_slice_str(sql), .format = OD_FORMAT_NATIVE, .parameters = bytes};
    od_code rc = od_execution_start(engine, &request, &execution, &err);
    if (rc == OD_OK)
        rc = od_execution_next(execution, &msg, &err);
    if (rc == OD_OK) {
        od_ipc_reader *reader;
        const od_batch *batch;
        assert_ok(od_ipc_reader_create(&reader, &err));
        assert_ok(od_ipc_reader_start(reader, od_slice_of(od_msg_data(msg), od_msg_len(msg)), NULL, &err));
        assert_ok(od_ipc_reader_next(reader, &batch, &err));
        memcpy(value, batch->columns[0].data, sizeof *value);
        od_ipc_reader_free(reader);
    }
    od_msg_unref(msg);
    od_execution_end(execution);
    return rc;
}

static void test_rows_are_those_of_the_payload(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "SELECT i, i % 3 = 0 AS b, CASE WHEN i % 5 > 0 THEN 'text of a row, number ' || i END AS s FROM range(2000) "
        "r(i)",
        "SELECT (i * 1.25)::DECIMAL(15,2) AS d, DATE '2000-01-01' + i::INTEGER AS e, '\\x00\\xFF'::BLOB AS f, "
        "i::DOUBLE / 7 AS g, uuid() AS h, to_days(i::INTEGER) AS j, TIMETZ '01:02:03+04' AS k, i::HUGEINT AS l, "
        "'101'::BIT AS m, TIMESTAMPTZ '2000-01-01 00:00:00+00' AS n FROM range(100) r(i)",
        "SELECT [i, NULL] AS l, {'a': i} AS s, MAP {i: 'x'} AS m FROM range(10) r(i)",
        "SELECT 1 AS one WHERE false",
    };
    od_engine *engine = open_with_host();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char sql[1200];
        int64_t differ = -1;
        assert_ok(run_as(engine, "DROP TABLE IF EXISTS t", OD_FORMAT_NATIVE));
        (void)snprintf(sql, sizeof sql, "CREATE TABLE t AS %s", rows[i]);
        assert_ok(run_as(engine, sql, OD_FORMAT_NATIVE));
        od_msg *payload = payload_of(engine, "FROM t");
        od_msg *parameter = as_parameter(engine, payload, od_msg_len(payload));
        assert_ok(ask_with(engine,
                           "SELECT (SELECT count(*) FROM (FROM t EXCEPT ALL FROM openduck_rows($1))) + "
                           "abs((SELECT count(*) FROM t) - (SELECT count(*) FROM openduck_rows($1)))",
                           parameter, &differ));
        assert_int_equal(differ, 0);
        od_msg_unref(parameter);
        od_msg_unref(payload);
    }
    od_engine_close(engine);
}

static void test_damaged_rows_are_refused(void **state)
{
    (void)state;
    int64_t value;
    od_engine *engine = open_with_host();
    od_msg *payload = payload_of(engine, "SELECT i, 'some text ' || i AS s FROM range(20) r(i)");
    for (size_t cut = 0; cut + 8 < od_msg_len(payload); cut += 7) {
        od_msg *parameter = as_parameter(engine, payload, cut);
        od_code rc = ask_with(engine, "SELECT count(*) FROM openduck_rows($1)", parameter, &value);
        if (rc == OD_OK && value != 0 && value != 20)
            fail_msg("%zu bytes were taken for %lld rows", cut, (long long)value);
        if (cut < 200)
            assert_int_not_equal(rc, OD_OK);
        od_msg_unref(parameter);
    }
    for (size_t at = 0; at < od_msg_len(payload); at += 3) { /* none of them crashes */
        od_msg_data(payload)[at] ^= 0x55;
        od_msg *parameter = as_parameter(engine, payload, od_msg_len(payload));
        (void)ask_with(engine, "SELECT count(s) FROM openduck_rows($1)", parameter, &value);
        od_msg_unref(parameter);
        od_msg_data(payload)[at] ^= 0x55;
    }
    od_msg_unref(payload);
    assert_int_not_equal(run_as(engine, "FROM openduck_rows(NULL)", OD_FORMAT_NATIVE), OD_OK);
    assert_ok(run_as(engine, "SELECT 1", OD_FORMAT_NATIVE));
    od_engine_close(engine);
}

static void test_plain_arrow_is_no_payload(void **state)
{
    (void)state;
    int64_t value;
    od_engine *engine = open_with_host();
    od_execution *execution;
    od_msg *plain;
    od_execution_request request = {.sql = od_slice_str("SELECT 1 AS i"), .format = OD_FORMAT_PLAIN};
    assert_ok(od_execution_start(engine, &request, &execution, &err));
    assert_ok(od_execution_next(execution, &plain, &err));
    od_execution_end(execution);
    od_msg *parameter = as_parameter(engine, plain, od_msg_len(plain));
    assert_int_not_equal(ask_with(engine, "SELECT count(*) FROM openduck_rows($1)", parameter, &value), OD_OK);
    od_msg_unref(parameter);
    od_msg_unref(plain);
    od_engine_close(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_those_of_the_payload),
        cmocka_unit_test(test_damaged_rows_are_refused),
        cmocka_unit_test(test_plain_arrow_is_no_payload),
    };
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
