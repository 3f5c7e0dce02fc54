/* Transactions and ingest in the engine. */
#include "engine_helper.h"
#include "server/host.h"

#include <pthread.h>

static od_code start_in(od_engine *engine, od_txn *txn, const char *sql, od_execution **out)
{
    od_execution_request request = {.sql = od_slice_str(sql), .format = OD_FORMAT_NATIVE, .txn = txn};
    return od_execution_start(engine, &request, out, &err);
}

static od_code finish(od_execution *execution, size_t *rows)
{
    od_ipc_reader *reader;
    od_code rc = OD_OK;
    *rows = 0;
    assert_ok(od_ipc_reader_create(&reader, &err));
    for (;;) {
        od_msg *msg;
        const od_batch *batch;
        rc = od_execution_next(execution, &msg, &err);
        if (rc != OD_OK || msg == NULL)
            break;
        assert_ok(od_ipc_reader_start(reader, od_slice_of(od_msg_data(msg), od_msg_len(msg)), NULL, &err));
        for (;;) {
            assert_ok(od_ipc_reader_next(reader, &batch, &err));
            if (batch == NULL)
                break;
            *rows += (size_t)batch->rows;
        }
        od_msg_unref(msg);
    }
    od_ipc_reader_free(reader);
    od_execution_end(execution);
    return rc;
}

static od_code run_in(od_engine *engine, od_txn *txn, const char *sql, size_t *rows)
{
    od_execution *execution;
    size_t ignored;
    od_code rc = start_in(engine, txn, sql, &execution);
    return rc == OD_OK ? finish(execution, rows ? rows : &ignored) : rc;
}

static od_txn *begin(od_engine *engine)
{
    od_txn *txn;
    assert_ok(od_txn_begin(engine, od_slice_str(""), NULL, &txn, &err));
    return txn;
}

static void test_own_writes_are_seen_and_only_there(void **state)
{
    od_engine *engine = memory_engine();
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT)"));
    od_txn *txn = begin(engine);
    size_t rows;
    assert_ok(run_in(engine, txn, "INSERT INTO t VALUES (1), (2)", NULL));
    assert_ok(run_in(engine, txn, "FROM t", &rows));
    assert_int_equal(rows, 2);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 0);
    assert_ok(od_txn_commit(txn, &err));
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 2);
    assert_int_equal(run_in(engine, txn, "FROM t", NULL), OD_E_NO_TRANSACTION);
    assert_string_equal(err.sqlstate, "25P01");
    assert_int_equal(od_txn_commit(txn, &err), OD_E_NO_TRANSACTION);
    od_txn_unref(txn);
    od_engine_close(engine);
}

static void test_the_view_is_fixed_when_it_begins(void **state)
{
    od_engine *engine = memory_engine();
    size_t rows;
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT)"));
    od_txn *txn = begin(engine);
    assert_ok(run(engine, "INSERT INTO t VALUES (1)"));
    assert_ok(run_in(engine, txn, "FROM t", &rows));
    assert_int_equal(rows, 0);
    assert_ok(od_txn_rollback(txn, "so it was asked", &err));
    od_txn_unref(txn);
    od_engine_close(engine);
}

static void test_rollback_undoes_and_gives_the_connection_back(void **state)
{
    od_engine *engine = memory_engine();
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT)"));
    uint64_t before = od_engine_catalog_version(engine, (od_slice){0});
    od_txn *txn = begin(engine);
    assert_ok(run_in(engine, txn, "INSERT INTO t VALUES (1)", NULL));
    assert_ok(run_in(engine, txn, "CREATE TABLE u (i BIGINT)", NULL));
    assert_true(od_txn_catalog_version(txn) != before);
    assert_ok(od_txn_rollback(txn, "so it was asked", &err));
    od_txn_unref(txn);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 0);
    assert_fails(engine, "FROM u", OD_E_CATALOG);
    assert_int_equal(od_engine_catalog_version(engine, (od_slice){0}), before);
    od_engine_close(engine);
}

static void test_a_conflict_is_told_with_its_state(void **state)
{
    od_engine *engine = memory_engine();
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT PRIMARY KEY, j BIGINT)"));
    assert_ok(run(engine, "INSERT INTO t VALUES (1, 1)"));
    od_txn *a = begin(engine), *b = begin(engine);
    assert_ok(run_in(engine, a, "UPDATE t SET j = 2", NULL));
    assert_int_equal(run_in(engine, b, "UPDATE t SET j = 3", NULL), OD_E_TRANSACTION);
    assert_string_equal(err.sqlstate, "40001");
    assert_int_equal(run_in(engine, b, "FROM t", NULL), OD_E_TRANSACTION);
    assert_string_equal(err.sqlstate, "25P02");
    assert_ok(od_txn_rollback(b, "so it was asked", &err));
    assert_ok(od_txn_commit(a, &err));
    od_txn_unref(a);
    od_txn_unref(b);
    a = begin(engine), b = begin(engine);
    assert_ok(run_in(engine, a, "INSERT INTO t VALUES (2, 2)", NULL));
    assert_ok(run_in(engine, b, "INSERT INTO t VALUES (2, 3)", NULL));
    assert_ok(od_txn_commit(a, &err));
    assert_int_equal(od_txn_commit(b, &err), OD_E_TRANSACTION);
    assert_int_equal(od_txn_commit(b, &err), OD_E_NO_TRANSACTION);
    od_txn_unref(a);
    od_txn_unref(b);
    assert_int_equal(ask(engine, "SELECT j FROM t WHERE i = 2"), 2);
    od_engine_close(engine);
}

static void test_results_side_by_side_are_set_aside(void **state)
{
    od_engine *engine = memory_engine();
    od_execution *a, *b;
    od_msg *msg;
    size_t rows;
    (void)state;
    od_txn *txn = begin(engine);
    assert_ok(start_in(engine, txn, "SELECT i, repeat('x', 100) FROM range(1000000) t(i)", &a));
    assert_ok(od_execution_next(a, &msg, &err));
    od_msg_unref(msg);
    assert_ok(start_in(engine, txn, "FROM range(500000)", &b));
    assert_ok(od_execution_next(b, &msg, &err));
    od_msg_unref(msg);
    assert_ok(run_in(engine, txn, "FROM range(3)", &rows));
    assert_int_equal(rows, 3);
    assert_ok(finish(a, &rows));
    assert_int_equal(rows, 1000000 - 2048);
    assert_ok(od_txn_commit(txn, &err));
    assert_ok(finish(b, &rows));
    assert_int_equal(rows, 500000 - 2048);
    od_txn_unref(txn);
    od_engine_close(engine);
}

static void test_a_late_error_of_a_result_set_aside_is_its_own(void **state)
{
    od_engine *engine = memory_engine();
    od_execution *a;
    od_msg *msg;
    size_t rows;
    (void)state;
    od_txn *txn = begin(engine);
    assert_ok(start_in(engine, txn,
                       "SELECT CASE WHEN i < 300000 THEN i ELSE CAST('x' || i AS BIGINT) END FROM range(600000) t(i)",
                       &a));
    assert_ok(od_execution_next(a, &msg, &err));
    od_msg_unref(msg);
    (void)run_in(engine, txn, "FROM range(3)", &rows);
    /* Of a stream that failed between two fetches DuckDB may tell only that it was interrupted (test_execution.c). */
    od_code late = finish(a, &rows);
    assert_true(late == OD_E_CONVERSION || late == OD_E_UNKNOWN);
    assert_ok(od_txn_rollback(txn, "so it was asked", &err));
    od_txn_unref(txn);
    od_engine_close(engine);
}

static void test_a_result_may_be_left(void **state)
{
    od_engine *engine = memory_engine();
    od_execution *execution;
    od_msg *msg;
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT)"));
    od_txn *txn = begin(engine);
    assert_ok(run_in(engine, txn, "INSERT INTO t VALUES (1)", NULL));
    /* Not begun, begun, computing for ever. */
    assert_ok(start_in(engine, txn, "SELECT count(*) FROM range(100000000) a, range(100000) b", &execution));
    od_execution_end(execution);
    assert_ok(start_in(engine, txn, "FROM range(1000000000)", &execution));
    assert_ok(od_execution_next(execution, &msg, &err));
    od_msg_unref(msg);
    od_execution_end(execution);
    assert_ok(start_in(engine, txn, "SELECT count(*) FROM range(100000000) a, range(100000) b", &execution));
    od_execution_interrupt(execution);
    assert_int_equal(od_execution_next(execution, &msg, &err), OD_E_CANCELLED);
    od_execution_end(execution);
    assert_ok(run_in(engine, txn, "INSERT INTO t VALUES (2)", NULL));
    assert_ok(od_txn_commit(txn, &err));
    od_txn_unref(txn);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 2);
    od_engine_close(engine);
}

static void *reader(void *arg)
{
    od_execution *execution = arg;
    od_msg *msg = NULL;
    od_error why;
    while (od_execution_next(execution, &msg, &why) == OD_OK && msg != NULL)
        od_msg_unref(msg);
    return NULL;
}

static void test_an_abandoned_result_leaves_the_transaction(void **state)
{
    od_engine *engine = memory_engine();
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT)"));
    od_txn *txn = begin(engine);
    assert_ok(run_in(engine, txn, "INSERT INTO t VALUES (1)", NULL));
    for (int round = 0; round < 10; round++) {
        od_execution *execution;
        pthread_t thread;
        assert_ok(start_in(engine, txn, "FROM range(100000000000)", &execution));
        assert_int_equal(pthread_create(&thread, NULL, reader, execution), 0);
        (void)nanosleep(&(struct timespec){.tv_nsec = 3000000L * round}, NULL);
        od_execution_abandon(execution);
        (void)pthread_join(thread, NULL);
        od_execution_end(execution);
    }
    assert_ok(run_in(engine, txn, "INSERT INTO t VALUES (2)", NULL));
    assert_ok(od_txn_commit(txn, &err));
    od_txn_unref(txn);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 2);
    od_engine_close(engine);
}

static void test_a_change_that_is_left_is_never_committed(void **state)
{
    od_engine *engine = memory_engine();
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT)"));
    for (int round = 0; round < 10; round++) {
        od_txn *txn = begin(engine);
        od_execution *execution;
        pthread_t thread;
        assert_ok(start_in(engine, txn, "INSERT INTO t SELECT i FROM range(100000000000) r(i)", &execution));
        assert_int_equal(pthread_create(&thread, NULL, reader, execution), 0);
        (void)nanosleep(&(struct timespec){.tv_nsec = 3000000L * round}, NULL);
        od_execution_abandon(execution);
        (void)pthread_join(thread, NULL);
        od_execution_end(execution);
        assert_int_equal(run_in(engine, txn, "SELECT 1", NULL), OD_E_TRANSACTION);
        assert_int_equal(od_txn_commit(txn, &err), OD_E_TRANSACTION);
        od_txn_unref(txn);
    }
    /* One that nobody has fetched from. */
    for (int round = 0; round < 10; round++) {
        od_txn *txn = begin(engine);
        od_execution *execution;
        assert_ok(start_in(engine, txn, "INSERT INTO t SELECT i FROM range(100000000000) r(i)", &execution));
        (void)nanosleep(&(struct timespec){.tv_nsec = 3000000L * round}, NULL);
        od_execution_end(execution);
        assert_int_equal(od_txn_commit(txn, &err), OD_E_TRANSACTION);
        od_txn_unref(txn);
    }
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 0);
    od_engine_close(engine);
}

static void test_a_definition_that_fails_leaves_the_transaction(void **state)
{
    static const char *const failing[] = {"CREATE TABLE t (j BIGINT)", "CREATE SCHEMA main", "DROP TABLE none",
                                          "ALTER TABLE t ADD COLUMN i BIGINT"};
    od_engine *engine = memory_engine();
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT)"));
    od_txn *txn = begin(engine);
    for (size_t i = 0; i < sizeof failing / sizeof failing[0]; i++) {
        assert_int_equal(run_in(engine, txn, failing[i], NULL), OD_E_CATALOG);
        assert_ok(run_in(engine, txn, "INSERT INTO t VALUES (1)", NULL));
    }
    assert_ok(od_txn_commit(txn, &err));
    od_txn_unref(txn);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 4);
    od_engine_close(engine);
}

static void test_an_aborted_transaction_is_not_committed(void **state)
{
    od_engine *engine = memory_engine();
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT PRIMARY KEY)"));
    od_txn *txn = begin(engine);
    assert_ok(run_in(engine, txn, "INSERT INTO t VALUES (1)", NULL));
    assert_int_equal(run_in(engine, txn, "INSERT INTO t VALUES (1)", NULL), OD_E_CONSTRAINT);
    assert_int_equal(od_txn_commit(txn, &err), OD_E_TRANSACTION);
    assert_string_equal(err.sqlstate, "25P02");
    assert_non_null(strstr(err.message, "nothing was committed"));
    assert_int_equal(od_txn_commit(txn, &err), OD_E_NO_TRANSACTION);
    od_txn_unref(txn);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 0);
    od_engine_close(engine);
}

static void test_sql_cannot_end_it(void **state)
{
    od_engine *engine = memory_engine();
    (void)state;
    od_txn *txn = begin(engine);
    assert_int_equal(run_in(engine, txn, "COMMIT", NULL), OD_E_INVALID);
    assert_int_equal(run_in(engine, txn, "SELECT 1; ROLLBACK", NULL), OD_E_INVALID);
    assert_ok(od_txn_commit(txn, &err));
    od_txn_unref(txn);
    od_engine_close(engine);
}

typedef struct {
    od_engine *engine;
    od_txn *txn;
    od_code code;
} job;

static void *long_run(void *arg)
{
    job *j = arg;
    od_execution *execution;
    od_error why;
    od_execution_request request = {.sql = od_slice_str("SELECT count(*) FROM range(100000000) a, range(100000) b"),
                                    .txn = j->txn};
    j->code = od_execution_start(j->engine, &request, &execution, &why);
    if (j->code == OD_OK) {
        od_msg *msg;
        j->code = od_execution_next(execution, &msg, &why);
        od_execution_end(execution);
    }
    return NULL;
}

static void test_rollback_stops_what_runs(void **state)
{
    od_engine *engine = memory_engine();
    pthread_t thread;
    (void)state;
    job j = {engine, begin(engine), OD_OK};
    assert_int_equal(pthread_create(&thread, NULL, long_run, &j), 0);
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    assert_ok(od_txn_rollback(j.txn, "so it was asked", &err));
    (void)pthread_join(thread, NULL);
    assert_int_not_equal(j.code, OD_OK);
    od_txn_unref(j.txn);
    od_engine_close(engine);
}

/* ---- ingest ---- */

static const char all_types[] =
    "SELECT b, b::UTINYINT AS ut, i::SMALLINT AS s, i, l, h::HUGEINT AS hh, (i / 7)::DECIMAL(30,3) AS d, d1, f, dd, "
    "dt, ts, "
    "tz, iv, u, v, bl, en, li, st, mp, ar, un, bt FROM (SELECT i % 2 = 0 AS b, i::INTEGER AS i, i AS l, i * 1000000 AS "
    "h, "
    "(i / 3)::DECIMAL(9,2) AS d1, i::FLOAT AS f, i::DOUBLE AS dd, DATE '2020-01-01' + i::INTEGER % 1000 AS dt, "
    "TIMESTAMP '2020-01-01' + to_seconds(i) AS ts, TIMESTAMPTZ '2020-01-01' + to_seconds(i) AS tz, to_days(i::INTEGER) "
    "AS iv, "
    "md5(i::VARCHAR)::UUID AS u, CASE WHEN i % 5 = 0 THEN NULL ELSE 'straße ' || repeat('y', (i % 40)::INTEGER) END AS "
    "v, "
    "encode(i::VARCHAR) AS bl, CASE i % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' END::ENUM('a', 'b') AS en, "
    "CASE WHEN i % 4 = 0 THEN NULL ELSE range(i % 5) END AS li, CASE WHEN i % 6 = 0 THEN NULL ELSE {'x': i, 'y': "
    "[i::VARCHAR]} END AS st, "
    "MAP {i::VARCHAR: i} AS mp, (CASE WHEN i % 7 = 0 THEN NULL ELSE [i, i + 1, NULL] END)::BIGINT[3] AS ar, "
    "CASE WHEN i % 2 = 0 THEN union_value(n := i)::UNION(n BIGINT, t VARCHAR) ELSE union_value(t := 'z')::UNION(n "
    "BIGINT, t VARCHAR) END AS un, "
    "(i % 256)::UTINYINT::BIT AS bt FROM range(10000) t(i))";

/* Sends SELECT's rows back in as table NAME. */
static od_code round_trip(od_engine *engine, od_txn *txn, const char *select, od_format format, const char *name)
{
    od_execution *execution;
    od_ipc_reader *reader;
    od_staging *ingest;
    od_staging_column columns[64];
    od_msg *head, *msg;
    uint64_t rows;
    size_t n;
    od_code rc;
    od_execution_request request = {.sql = od_slice_str(select), .format = format, .describe_only = true, .txn = txn};
    assert_ok(od_execution_start(engine, &request, &execution, &err));
    assert_ok(od_execution_next(execution, &head, &err));
    od_execution_end(execution);
    assert_ok(od_ipc_reader_create(&reader, &err));
    assert_ok(od_ipc_reader_start(reader, od_slice_of(od_msg_data(head), od_msg_len(head)), NULL, &err));
    const struct ArrowSchema *schema = od_ipc_reader_schema(reader);
    n = (size_t)schema->n_children;
    for (size_t i = 0; i < n; i++)
        columns[i] = (od_staging_column){od_slice_str(schema->children[i]->name),
                                         od_schema_metadata(schema->children[i], "openduck:sql_type")};
    od_staging_request into = {txn, od_slice_str(name), columns, n, format};
    rc = od_staging_open(&into, &ingest, &err);
    od_ipc_reader_free(reader);
    od_msg_unref(head);
    if (rc != OD_OK)
        return rc;
    request.describe_only = false;
    assert_ok(od_execution_start(engine, &request, &execution, &err));
    while (rc == OD_OK) {
        assert_ok(od_execution_next(execution, &msg, &err));
        if (msg == NULL)
            break;
        rc = od_staging_append(ingest, msg, od_slice_of(od_msg_data(msg), od_msg_len(msg)), &err);
        od_msg_unref(msg);
    }
    od_execution_end(execution);
    if (rc == OD_OK)
        rc = od_staging_finish(ingest, &rows, &err);
    od_staging_free(ingest);
    return rc;
}

static void check_same(od_engine *engine, od_txn *txn, const char *select, const char *name)
{
    char sql[8192];
    size_t rows;
    (void)snprintf(sql, sizeof sql, "(%s EXCEPT ALL FROM %s) UNION ALL (FROM %s EXCEPT ALL %s)", select, name, name,
                   select);
    assert_ok(run_in(engine, txn, sql, &rows));
    assert_int_equal(rows, 0);
    (void)snprintf(sql, sizeof sql, "FROM %s", name);
    assert_ok(run_in(engine, txn, sql, &rows));
    assert_int_equal(rows, 10000);
}

static void test_rows_of_all_types_come_in(void **state)
{
    od_engine *engine = open_engine(&(od_engine_options){.threads = 2, .host = od_server_host()});
    (void)state;
    od_txn *txn = begin(engine);
    assert_ok(round_trip(engine, txn, all_types, OD_FORMAT_NATIVE, "n"));
    check_same(engine, txn, all_types, "n");
    assert_ok(round_trip(engine, txn, all_types, OD_FORMAT_LOSSLESS, "p"));
    check_same(engine, txn, all_types, "p");
    assert_ok(round_trip(engine, txn, all_types, OD_FORMAT_PLAIN, "\"q q\""));
    assert_ok(od_txn_commit(txn, &err));
    od_txn_unref(txn);
    assert_fails(engine, "FROM n", OD_E_CATALOG);
    od_engine_close(engine);
}

static void test_what_does_not_fit_leaves_nothing(void **state)
{
    static const od_staging_column columns[] = {{{(const uint8_t *)"i", 1}, {(const uint8_t *)"BIGINT", 6}}};
    od_staging_column bad = columns[0];
    od_engine *engine = memory_engine();
    od_execution *execution;
    od_staging *ingest;
    od_msg *msg;
    (void)state;
    od_txn *txn = begin(engine);
    od_staging_request request = {txn, od_slice_str("s"), columns, 1, OD_FORMAT_NATIVE};
    assert_ok(od_staging_open(&request, &ingest, &err));
    assert_ok(start_in(engine, txn, "SELECT 'x'", &execution));
    assert_ok(od_execution_next(execution, &msg, &err));
    od_execution_end(execution);
    assert_int_equal(od_staging_append(ingest, msg, od_slice_of(od_msg_data(msg), od_msg_len(msg)), &err),
                     OD_E_INVALID);
    assert_int_equal(od_staging_append(ingest, msg, od_slice_of(od_msg_data(msg), 20), &err), OD_E_CORRUPT);
    od_msg_unref(msg);
    od_staging_free(ingest);
    assert_int_equal(run_in(engine, txn, "FROM s", NULL), OD_E_CATALOG);
    assert_ok(od_txn_rollback(txn, "asked", &err));
    od_txn_unref(txn);
    txn = begin(engine);
    request = (od_staging_request){txn, od_slice_str("s"), &bad, 1, OD_FORMAT_NATIVE};
    bad.sql_type = od_slice_str("INT); DROP TABLE x; --");
    assert_int_equal(od_staging_open(&request, &ingest, &err), OD_E_INVALID);
    bad.sql_type = od_slice_str("INT, j INT");
    assert_int_equal(od_staging_open(&request, &ingest, &err), OD_E_INVALID);
    request.column_count = 0;
    assert_int_equal(od_staging_open(&request, &ingest, &err), OD_E_INVALID);
    od_txn_unref(txn);
    od_engine_close(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_writes_are_seen_and_only_there),
        cmocka_unit_test(test_the_view_is_fixed_when_it_begins),
        cmocka_unit_test(test_rollback_undoes_and_gives_the_connection_back),
        cmocka_unit_test(test_a_conflict_is_told_with_its_state),
        cmocka_unit_test(test_results_side_by_side_are_set_aside),
        cmocka_unit_test(test_a_late_error_of_a_result_set_aside_is_its_own),
        cmocka_unit_test(test_a_result_may_be_left),
        cmocka_unit_test(test_an_abandoned_result_leaves_the_transaction),
        cmocka_unit_test(test_a_change_that_is_left_is_never_committed),
        cmocka_unit_test(test_a_definition_that_fails_leaves_the_transaction),
        cmocka_unit_test(test_an_aborted_transaction_is_not_committed),
        cmocka_unit_test(test_sql_cannot_end_it),
        cmocka_unit_test(test_rollback_stops_what_runs),
        cmocka_unit_test(test_rows_of_all_types_come_in),
        cmocka_unit_test(test_what_does_not_fit_leaves_nothing),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
