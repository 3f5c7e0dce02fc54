/* Values for a statement's parameters. */
#include "engine_helper.h"
#include "server/host.h"

static od_engine *open_with_host(void)
{
    return open_engine(&(od_engine_options){.threads = 2, .host = od_server_host()});
}

static od_code start_with(od_engine *engine, od_txn *txn, const char *sql, od_slice parameters, bool describe,
                          od_execution **out)
{
    od_execution_request request = {.sql = od_slice_str(sql),
                                    .format = OD_FORMAT_NATIVE,
                                    .describe_only = describe,
                                    .txn = txn,
                                    .parameters = parameters};
    return od_execution_start(engine, &request, out, &err);
}

/* The first payload of SQL in FORMAT, or its description: a row of it can be parameters. */
static od_msg *payload_of(od_engine *engine, const char *sql, od_format format, bool describe)
{
    od_execution *execution;
    od_msg *msg;
    od_execution_request request = {.sql = od_slice_str(sql), .format = format, .describe_only = describe};
    assert_ok(od_execution_start(engine, &request, &execution, &err));
    assert_ok(od_execution_next(execution, &msg, &err));
    od_execution_end(execution);
    return msg;
}

static od_slice bytes_of(od_msg *msg)
{
    return od_slice_of(od_msg_data(msg), od_msg_len(msg));
}

/* SQL's whole result for its effect; the first error's code. */
static od_code run_with(od_engine *engine, od_txn *txn, const char *sql, od_slice parameters)
{
    od_execution *execution;
    od_code rc = start_with(engine, txn, sql, parameters, false, &execution);
    while (rc == OD_OK) {
        od_msg *msg;
        rc = od_execution_next(execution, &msg, &err);
        if (rc != OD_OK || msg == NULL)
            break;
        od_msg_unref(msg);
    }
    od_execution_end(execution);
    return rc;
}

static int64_t ask_with(od_engine *engine, od_txn *txn, const char *sql, od_slice parameters)
{
    od_execution *execution;
    od_msg *msg;
    od_ipc_reader *reader;
    const od_batch *batch;
    int64_t value;
    assert_ok(start_with(engine, txn, sql, parameters, false, &execution));
    assert_ok(od_execution_next(execution, &msg, &err));
    assert_ok(od_ipc_reader_create(&reader, &err));
    assert_ok(od_ipc_reader_start(reader, bytes_of(msg), NULL, &err));
    assert_string_equal(od_ipc_reader_schema(reader)->children[0]->format, "l");
    assert_ok(od_ipc_reader_next(reader, &batch, &err));
    assert_int_equal(batch->rows, 1);
    memcpy(&value, batch->columns[0].data, sizeof value);
    od_ipc_reader_free(reader);
    od_msg_unref(msg);
    od_execution_end(execution);
    return value;
}

static size_t schema_len(od_slice stream)
{
    uint32_t len;
    memcpy(&len, stream.data + 4, 4);
    return 8 + (size_t)len;
}

/* NATIVE parameters of SQL's one row, with whole types: the schema is its description's. */
static od_msg *whole_parameters(od_engine *engine, const char *sql)
{
    od_msg *head = payload_of(engine, sql, OD_FORMAT_NATIVE, true),
           *rows = payload_of(engine, sql, OD_FORMAT_NATIVE, false);
    size_t first = schema_len(bytes_of(head)), skip = schema_len(bytes_of(rows)), rest = od_msg_len(rows) - skip;
    od_msg *out;
    assert_ok(od_msg_create(first + rest, 0, &out, &err));
    memcpy(od_msg_data(out), od_msg_data(head), first);
    memcpy(od_msg_data(out) + first, od_msg_data(rows) + skip, rest);
    od_msg_unref(head);
    od_msg_unref(rows);
    return out;
}

static const char *const expressions[] = {
    "true",
    "NULL::BOOLEAN",
    "(-128)::TINYINT",
    "255::UTINYINT",
    "(-32768)::SMALLINT",
    "65535::USMALLINT",
    "42::INTEGER",
    "NULL::INTEGER",
    "4294967295::UINTEGER",
    "(-9223372036854775808)::BIGINT",
    "18446744073709551615::UBIGINT",
    "(-170141183460469231731687303715884105728)::HUGEINT",
    "340282366920938463463374607431768211455::UHUGEINT",
    "1.5::FLOAT",
    "'nan'::DOUBLE",
    "1.2::DECIMAL(3,1)",
    "-12345.67::DECIMAL(9,2)",
    "123456789012.345::DECIMAL(18,3)",
    "-1234567890123456789012345678.9012345678::DECIMAL(38,10)",
    "DATE '1992-03-22'",
    "'infinity'::DATE",
    "TIME '12:34:56.789'",
    "'12:34:56.123456789'::TIME_NS",
    "'12:34:56+02:30'::TIMETZ",
    "'2020-01-02 03:04:05'::TIMESTAMP_S",
    "'2020-01-02 03:04:05.678'::TIMESTAMP_MS",
    "TIMESTAMP '2020-01-02 03:04:05.678901'",
    "'2020-01-02 03:04:05.678901234'::TIMESTAMP_NS",
    "'2020-01-02 03:04:05.678901+00'::TIMESTAMPTZ",
    "'-infinity'::TIMESTAMP",
    "INTERVAL '1 year 2 days 3 seconds'",
    "'47183823-2574-4bfd-b411-99ed177d3e43'::UUID",
    "''",
    "'a string that does not fit into a string_t, with ünicode'",
    "NULL::VARCHAR",
    "'\\x00\\xff'::BLOB",
    "'0101011'::BIT",
    "'123456789012345678901234567890123456789012345678901234567890'::BIGNUM",
    "'-5'::BIGNUM",
    "'POINT(1 2)'::GEOMETRY",
    "[1, NULL, 3]",
    "[]::INTEGER[]",
    "[[1], [], NULL]",
    "[1.5, 2.5]::DOUBLE[2]",
    "{'a': 1, 'b': 'x', 'c': [true]}",
    "MAP {'k': [1, 2], 'l': NULL}",
    "union_value(num := 5)",
    "'v'::UNION(num INTEGER, str VARCHAR)",
    "NULL::STRUCT(a INTEGER)",
};

static void expect_kept(od_engine *engine, const char *expression, od_msg *parameters)
{
    char check[800];
    (void)snprintf(check, sizeof check, "SELECT (typeof($1) = typeof(%s) AND $1 IS NOT DISTINCT FROM %s)::BIGINT",
                   expression, expression);
    if (ask_with(engine, NULL, check, bytes_of(parameters)) != 1)
        fail_msg("%s: another value", expression);
    od_msg_unref(parameters);
}

static void test_values_keep_type_and_value(void **state)
{
    od_engine *engine = open_with_host();
    (void)state;
    for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++) {
        char make[300];
        (void)snprintf(make, sizeof make, "SELECT %s AS \"1\"", expressions[i]);
        expect_kept(engine, expressions[i], payload_of(engine, make, OD_FORMAT_NATIVE, false));
        expect_kept(engine, expressions[i], whole_parameters(engine, make));
    }
    od_engine_close(engine);
}

/* What a signature does not tell, the whole type does. */
static void test_whole_types(void **state)
{
    static const char *const rows[] = {"'b'::ENUM('a', 'b')",   "NULL::ENUM('a', 'b')", "'{\"a\": [1]}'::JSON",
                                       "['a'::ENUM('a', 'b')]", "'sad'::mood",          "{'j': '1'::JSON}"};
    od_engine *engine = open_with_host();
    (void)state;
    assert_ok(run(engine, "CREATE TYPE mood AS ENUM ('sad', 'happy')"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char make[300];
        (void)snprintf(make, sizeof make, "SELECT %s AS \"1\"", rows[i]);
        expect_kept(engine, rows[i], whole_parameters(engine, make));
    }
    od_msg *variant = whole_parameters(engine, "SELECT [{'a': 1::TINYINT}]::VARIANT AS \"1\"");
    assert_int_equal(ask_with(engine, NULL,
                              "SELECT (typeof($1) = 'VARIANT' AND $1::VARCHAR = [{'a': 1}]::VARCHAR)::BIGINT",
                              bytes_of(variant)),
                     1);
    od_msg_unref(variant);
    od_msg *signed_only = payload_of(engine, "SELECT 'b'::ENUM('a', 'b') AS \"1\"", OD_FORMAT_NATIVE, false);
    assert_int_equal(run_with(engine, NULL, "SELECT $1", bytes_of(signed_only)), OD_E_INVALID);
    assert_non_null(strstr(err.message, "openduck:sql_type"));
    od_msg_unref(signed_only);
    od_engine_close(engine);
}

static void test_plain_arrow_is_taken(void **state)
{
    od_engine *engine = open_with_host();
    (void)state;
    od_msg *plain = payload_of(engine, "SELECT 7::BIGINT AS a, 'x' AS b, [1, 2] AS c", OD_FORMAT_PLAIN, false);
    assert_int_equal(ask_with(engine, NULL, "SELECT ($a = 7 AND $b = 'x' AND $c = [1, 2])::BIGINT", bytes_of(plain)),
                     1);
    od_msg_unref(plain);
    od_engine_close(engine);
}

static void test_a_statement_is_run_again_with_other_values(void **state)
{
    od_engine *engine = open_with_host();
    (void)state;
    for (int i = 0; i < 5; i++) {
        char make[100];
        (void)snprintf(make, sizeof make, i % 2 == 0 ? "SELECT %d::BIGINT AS \"1\"" : "SELECT %d::SMALLINT AS \"1\"",
                       i);
        od_msg *values = payload_of(engine, make, OD_FORMAT_NATIVE, false);
        assert_int_equal(ask_with(engine, NULL, "SELECT $1::BIGINT * 10", bytes_of(values)), i * 10);
        od_msg_unref(values);
    }
    /* Nothing is left of the last ones. */
    assert_int_equal(run(engine, "SELECT $1::BIGINT * 10"), OD_E_INVALID);
    /* A column that is a parameter has its type anew. */
    od_msg *text = payload_of(engine, "SELECT 'x' AS \"1\"", OD_FORMAT_NATIVE, false);
    od_msg *number = payload_of(engine, "SELECT 5::BIGINT AS \"1\"", OD_FORMAT_NATIVE, false);
    assert_ok(run_with(engine, NULL, "SELECT $1", bytes_of(text)));
    assert_int_equal(ask_with(engine, NULL, "SELECT $1", bytes_of(number)), 5);
    assert_ok(run_with(engine, NULL, "SELECT $1", bytes_of(text)));
    od_msg_unref(text);
    od_msg_unref(number);
    od_engine_close(engine);
}

static void test_writes_and_transactions_take_them(void **state)
{
    od_engine *engine = open_with_host();
    od_txn *txn;
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i INTEGER, s VARCHAR)"));
    od_msg *values = payload_of(engine, "SELECT 1 AS \"1\", 'it''s' AS \"2\"", OD_FORMAT_NATIVE, false);
    assert_ok(run_with(engine, NULL, "INSERT INTO t VALUES (?, ?)", bytes_of(values)));
    assert_ok(od_txn_begin(engine, od_slice_str(""), NULL, &txn, &err));
    assert_ok(run_with(engine, txn, "UPDATE t SET i = i + $1 WHERE s = $2", bytes_of(values)));
    assert_int_equal(ask_with(engine, txn, "SELECT count(*) FROM t WHERE i = $1 + 1 AND s = $2", bytes_of(values)), 1);
    assert_ok(od_txn_commit(txn, &err));
    od_txn_unref(txn);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t WHERE i = 2"), 1);
    od_msg_unref(values);
    od_engine_close(engine);
}

static void expect(od_engine *engine, const char *sql, od_msg *values, od_code code, const char *text)
{
    od_code rc = run_with(engine, NULL, sql, values != NULL ? bytes_of(values) : (od_slice){0});
    if (rc != code || strstr(err.message, text) == NULL)
        fail_msg("%s: %s: %s", sql, od_code_name(rc), err.message);
}

/* Whether the description of SQL has the column type TYPE. */
static void expect_described(od_engine *engine, const char *sql, od_slice parameters, const char *type)
{
    od_execution *execution;
    od_msg *msg;
    od_ipc_reader *reader;
    assert_ok(start_with(engine, NULL, sql, parameters, true, &execution));
    assert_ok(od_execution_next(execution, &msg, &err));
    assert_ok(od_ipc_reader_create(&reader, &err));
    assert_ok(od_ipc_reader_start(reader, bytes_of(msg), NULL, &err));
    od_slice got = od_schema_metadata(od_ipc_reader_schema(reader)->children[0], "openduck:sql_type");
    if (!od_slice_equal(got, od_slice_str(type)))
        fail_msg("%s: %.*s", sql, (int)got.len, (const char *)got.data);
    od_ipc_reader_free(reader);
    od_msg_unref(msg);
    od_execution_end(execution);
}

static void test_a_description_has_the_types_of_the_values(void **state)
{
    od_engine *engine = open_with_host();
    od_msg *list = payload_of(engine, "SELECT [1::UTINYINT] AS \"1\"", OD_FORMAT_NATIVE, false);
    od_execution *execution;
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i INTEGER)"));
    expect_described(engine, "SELECT $1", bytes_of(list), "UTINYINT[]");
    expect_described(engine, "INSERT INTO t VALUES (len($1)) RETURNING i", bytes_of(list), "INTEGER");
    expect_described(engine, "SELECT i FROM t WHERE i = $1", (od_slice){0}, "INTEGER");
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 0);
    assert_ok(start_with(engine, NULL, "SELECT $1", (od_slice){0}, true, &execution));
    od_msg *msg;
    assert_int_equal(od_execution_next(execution, &msg, &err), OD_E_INVALID);
    assert_non_null(strstr(err.message, "column 1: its type is that of a parameter"));
    od_execution_end(execution);
    assert_int_equal(start_with(engine, NULL, "SELECT i FROM t WHERE i > $2", bytes_of(list), true, &execution),
                     OD_E_INVALID);
    assert_int_equal(run_with(engine, NULL, "SELECT $1", bytes_of(list)), OD_OK);
    od_msg_unref(list);
    od_engine_close(engine);
}

static void test_wrong_ones_are_refused(void **state)
{
    od_engine *engine = open_with_host();
    od_msg *one = payload_of(engine, "SELECT 1 AS \"1\"", OD_FORMAT_NATIVE, false);
    od_msg *named = payload_of(engine, "SELECT 1 AS a, 2 AS b", OD_FORMAT_NATIVE, false);
    od_msg *rows = payload_of(engine, "SELECT unnest([1, 2]) AS \"1\"", OD_FORMAT_NATIVE, false);
    od_msg *none = payload_of(engine, "SELECT 1 AS \"1\" WHERE false", OD_FORMAT_NATIVE, false);
    (void)state;
    expect(engine, "SELECT $1, $2", one, OD_E_INVALID,
           "Values were not provided for the following prepared statement parameters: 2");
    expect(engine, "SELECT $1", NULL, OD_E_INVALID, "Values were not provided");
    expect(engine, "SELECT $a", named, OD_E_INVALID,
           "Parameter argument/count mismatch, identifiers of the excess parameters: b");
    expect(engine, "SELECT $a, $c", named, OD_E_INVALID, "Values were not provided");
    expect(engine, "SELECT 1", one, OD_E_INVALID, "identifiers of the excess parameters: 1");
    expect(engine, "SELECT $A + $B", named, OD_OK, "");
    expect(engine, "SELECT $1", rows, OD_E_INVALID, "one row, not 2");
    expect(engine, "SELECT $1", none, OD_E_INVALID, "one row, not 0");
    expect(engine, "SELECT 1; SELECT $1", one, OD_E_INVALID, "single statement");
    od_execution *execution;
    assert_int_equal(start_with(engine, NULL, "SELECT $1", od_slice_str("nonsense"), false, &execution), OD_E_CORRUPT);
    for (size_t cut = 0; cut + 1 < od_msg_len(one); cut += 3) /* none of them passes or crashes */
        if (cut > 0 && run_with(engine, NULL, "SELECT $1", od_slice_of(od_msg_data(one), cut)) == OD_OK && cut < 200)
            fail_msg("%zu bytes of parameters were taken", cut);
    od_engine *bare = memory_engine();
    expect(bare, "SELECT $1", one, OD_E_NOT_IMPLEMENTED, "parameters");
    od_engine_close(bare);
    od_msg_unref(one);
    od_msg_unref(named);
    od_msg_unref(rows);
    od_msg_unref(none);
    od_engine_close(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_keep_type_and_value),
        cmocka_unit_test(test_whole_types),
        cmocka_unit_test(test_plain_arrow_is_taken),
        cmocka_unit_test(test_a_statement_is_run_again_with_other_values),
        cmocka_unit_test(test_writes_and_transactions_take_them),
        cmocka_unit_test(test_a_description_has_the_types_of_the_values),
        cmocka_unit_test(test_wrong_ones_are_refused),
    };
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
