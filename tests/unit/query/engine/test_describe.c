/* Descriptions: the SQL type of each column as DuckDB itself writes it, and the NATIVE signature. */
#include "engine_helper.h"

static void local_run(duckdb_connection con, const char *sql)
{
    duckdb_result result;
    if (duckdb_query(con, sql, &result) == DuckDBError)
        fail_msg("%s: %s", sql, duckdb_result_error(&result));
    duckdb_destroy_result(&result);
}

static od_msg *describe(od_engine *engine, const char *sql, od_format format)
{
    od_execution *execution;
    od_msg *msg, *end;
    od_execution_request request = {.sql = od_slice_str(sql), .format = format, .describe_only = true};
    assert_ok(od_execution_start(engine, &request, &execution, &err));
    assert_ok(od_execution_next(execution, &msg, &err));
    assert_non_null(msg);
    assert_ok(od_execution_next(execution, &end, &err));
    assert_null(end);
    od_execution_end(execution);
    return msg;
}

/* SETUP runs on both sides; the types of SQL must read the same. */
static void assert_types(const char *setup, const char *sql)
{
    duckdb_database db;
    duckdb_connection con;
    duckdb_result result;
    char text[2000];
    od_engine *engine = memory_engine();
    assert_int_equal(duckdb_open(NULL, &db), DuckDBSuccess);
    assert_int_equal(duckdb_connect(db, &con), DuckDBSuccess);
    if (setup != NULL) {
        local_run(con, setup);
        assert_ok(run(engine, setup));
    }
    (void)snprintf(text, sizeof text, "SELECT column_name, column_type FROM (DESCRIBE %s)", sql);
    if (duckdb_query(con, text, &result) == DuckDBError)
        fail_msg("%s: %s", text, duckdb_result_error(&result));
    static const od_format formats[] = {OD_FORMAT_NATIVE, OD_FORMAT_PLAIN, OD_FORMAT_LOSSLESS};
    for (size_t f = 0; f < 3; f++) {
        od_ipc_reader *reader;
        const od_batch *batch;
        od_msg *msg = describe(engine, sql, formats[f]);
        assert_ok(od_ipc_reader_create(&reader, &err));
        assert_ok(od_ipc_reader_start(reader, od_slice_of(od_msg_data(msg), od_msg_len(msg)), NULL, &err));
        if (f == 0) {
            assert_ok(od_ipc_reader_next(reader, &batch, &err));
            assert_null(batch);
        }
        const struct ArrowSchema *schema = od_ipc_reader_schema(reader);
        assert_int_equal(schema->n_children, duckdb_row_count(&result));
        for (idx_t i = 0; i < duckdb_row_count(&result); i++) {
            char *name = duckdb_value_varchar(&result, 0, i), *type = duckdb_value_varchar(&result, 1, i);
            od_slice told = od_schema_metadata(schema->children[i], "openduck:sql_type");
            assert_string_equal(schema->children[i]->name, name);
            if (!od_slice_equal(told, od_slice_str(type)))
                fail_msg("%s is %.*s, not %s", name, (int)told.len, (const char *)told.data, type);
            assert_true(od_schema_metadata(schema->children[i], "openduck:type").len > 0);
            duckdb_free(name);
            duckdb_free(type);
        }
        od_ipc_reader_free(reader);
        od_msg_unref(msg);
    }
    duckdb_destroy_result(&result);
    duckdb_disconnect(&con);
    duckdb_close(&db);
    od_engine_close(engine);
}

static void test_every_type_is_named(void **state)
{
    (void)state;
    assert_types(NULL, "SELECT * FROM test_all_types(use_large_enum := false)");
    assert_types(NULL, "SELECT * FROM test_all_types(use_large_enum := true)");
}

static void test_names_are_quoted_as_duckdb_does(void **state)
{
    (void)state;
    assert_types(NULL,
                 "SELECT {'a': 1, 'b c': 2, 'select': 3, 'Upper': 4, 'table': 5, 'has\"quote': 6, '1st': 7, 'date': 8, "
                 "'name_1': 9, 'ä': 10, 'asof': 12, 'anti': 13, 'year': 14} AS s, {'SELECT': 1, 'Date': 2} AS t");
    assert_types(NULL, "SELECT union_value(\"order\" := 1) AS u, row(1, 'x') AS r, row(row(1), [row(2)]) AS rr");
    assert_types(NULL, "SELECT 'it''s'::ENUM('it''s', 'b \" c', 'ü') AS e, "
                       "MAP {'k': {'x y': 1::DECIMAL(5,2)}} AS m, [[1::HUGEINT]] AS l, [1, 2]::INT[2] AS a, "
                       "[[1, 2]]::INT[2][] AS la, [[1], [2]]::INT[][2] AS al");
}

static void test_aliases_and_own_types(void **state)
{
    (void)state;
    assert_types(NULL, "SELECT '{}'::JSON AS j, ['1'::JSON] AS jl, {'j': 'null'::JSON} AS js");
    assert_types("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS STRUCT(a INT, b VARCHAR); "
                 "CREATE TABLE t(m mood, l mood[], p pair)",
                 "SELECT * FROM t");
}

static void test_description_runs_nothing(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    assert_ok(run(engine, "CREATE TABLE t(i INT)"));
    uint64_t version = od_engine_catalog_version(engine, (od_slice){0});
    od_msg_unref(describe(engine, "INSERT INTO t VALUES (1)", OD_FORMAT_NATIVE));
    od_msg_unref(describe(engine, "DROP TABLE t", OD_FORMAT_NATIVE));
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 0);
    assert_int_equal(od_engine_catalog_version(engine, (od_slice){0}), version);
    od_engine_close(engine);
}

static void test_one_statement_is_described(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    od_execution *execution;
    od_execution_request request = {.sql = od_slice_str("SELECT 1; SELECT 2"), .describe_only = true};
    assert_int_equal(od_execution_start(engine, &request, &execution, &err), OD_E_INVALID);
    assert_non_null(strstr(err.message, "single statement"));
    request.sql = od_slice_str("SELECT * FROM nope");
    assert_int_equal(od_execution_start(engine, &request, &execution, &err), OD_E_CATALOG);
    od_engine_close(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_is_named),        cmocka_unit_test(test_names_are_quoted_as_duckdb_does),
        cmocka_unit_test(test_aliases_and_own_types),      cmocka_unit_test(test_description_runs_nothing),
        cmocka_unit_test(test_one_statement_is_described),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
