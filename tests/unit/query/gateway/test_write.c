/* Transactions and ingest, by our client, at a worker alone, at a gateway with a worker of its own, and at one with a remote worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <time.h>

#include "arrow/ipc_read.h"
#include "query/client.h"
#include "query/gateway.h"
#include "server/host.h"

static od_error err;

#define assert_ok(expr)                             \
    do {                                            \
        err.message[0] = '\0';                      \
        od_code code_ = (expr);                     \
        if (code_ != OD_OK)                         \
            fail_msg("%s: %s", #expr, err.message); \
    } while (0)

typedef enum { ALONE, SERVE, SEPARATE } shape;

typedef struct {
    shape shape;
    unsigned max_transactions;
    int64_t idle_ms;
} setup;

typedef struct {
    od_engine *engine;
    od_worker *worker;
    od_gateway *gateway;
    od_rpc_server *worker_server, *server;
    od_remote *remote;
} stand;

static od_rpc_server *start_server(const od_rpc_method *methods, size_t count, void *service)
{
    od_rpc_server_options options = {
        .listen = "127.0.0.1:0", .threads = 2, .service = service, .methods = methods, .method_count = count};
    od_rpc_server *server;
    assert_ok(od_rpc_server_start(&options, &server, &err));
    return server;
}

static od_endpoint endpoint_of(const od_rpc_server *server)
{
    od_endpoint endpoint;
    char text[32];
    (void)snprintf(text, sizeof text, "127.0.0.1:%u", od_rpc_server_port(server));
    assert_ok(od_endpoint_parse(od_slice_str(text), &endpoint, &err));
    return endpoint;
}

static od_remote *connect_to(const od_rpc_server *server)
{
    od_remote_options options = {.endpoint = endpoint_of(server), .execute_timeout_ms = 20000};
    od_remote *remote;
    assert_ok(od_remote_create(&options, &remote, &err));
    return remote;
}

static stand *open_stand(const setup *how)
{
    stand *s = calloc(1, sizeof *s);
    size_t count;
    assert_ok(od_engine_open(&(od_engine_options){.threads = 2, .host = od_server_host()}, &s->engine, &err));
    od_worker_options worker = {
        .engine = s->engine, .max_transactions = how->max_transactions, .transaction_idle_ms = how->idle_ms};
    assert_ok(od_worker_create(&worker, &s->worker, &err));
    od_gateway_options gateway = {.max_transactions = how->max_transactions, .transaction_idle_ms = how->idle_ms};
    if (how->shape != SERVE) {
        const od_rpc_method *methods = od_worker_methods(&count);
        s->worker_server = start_server(methods, count, s->worker);
    }
    if (how->shape == SERVE) {
        gateway.worker = s->worker;
        gateway.engine = s->engine;
    }
    od_endpoint at;
    if (how->shape == SEPARATE) {
        at = endpoint_of(s->worker_server);
        gateway.workers = &at;
        gateway.worker_count = 1;
    }
    if (how->shape != ALONE) {
        assert_ok(od_gateway_create(&gateway, &s->gateway, &err));
        const od_rpc_method *methods = od_gateway_methods(&count);
        s->server = start_server(methods, count, s->gateway);
    }
    s->remote = connect_to(s->server != NULL ? s->server : s->worker_server);
    return s;
}

static void close_stand(stand *s)
{
    od_remote_unref(s->remote);
    if (s->server != NULL)
        (void)od_rpc_server_drain(s->server, od_deadline_in_ms(5000));
    od_rpc_server_free(s->server);
    od_rpc_server_free(s->worker_server);
    od_worker_free(s->worker);
    od_gateway_free(s->gateway);
    od_engine_close(s->engine);
    free(s);
}

static od_code drain(od_result *result, size_t *rows)
{
    od_ipc_reader *reader;
    od_code rc;
    *rows = 0;
    assert_ok(od_ipc_reader_create(&reader, &err));
    for (;;) {
        od_msg *owner;
        od_slice payload;
        const od_batch *batch;
        rc = od_result_next(result, &owner, &payload, &err);
        if (rc != OD_OK || owner == NULL)
            break;
        assert_ok(od_ipc_reader_start(reader, payload, NULL, &err));
        for (;;) {
            assert_ok(od_ipc_reader_next(reader, &batch, &err));
            if (batch == NULL)
                break;
            *rows += (size_t)batch->rows;
        }
        od_msg_unref(owner);
    }
    od_ipc_reader_free(reader);
    od_result_free(result);
    return rc;
}

static od_code run(od_remote *remote, const od_remote_txn *txn, const char *sql, size_t *rows)
{
    od_remote_query query = {.sql = od_slice_str(sql), .format = OD_FORMAT_NATIVE, .txn = txn};
    od_result *result;
    size_t ignored;
    od_code rc = od_remote_execute(remote, &query, &result, &err);
    return rc == OD_OK ? drain(result, rows != NULL ? rows : &ignored) : rc;
}

static size_t count(od_remote *remote, const char *table)
{
    char sql[200];
    size_t rows;
    (void)snprintf(sql, sizeof sql, "FROM %s", table);
    assert_ok(run(remote, NULL, sql, &rows));
    return rows;
}

static od_remote_txn *begin(od_remote *remote)
{
    od_remote_txn *txn;
    assert_ok(od_remote_txn_begin(remote, (od_interrupt){0}, &txn, &err));
    return txn;
}

static bool none_open_within(stand *s, int64_t ms)
{
    int64_t until = od_clock_ns() + ms * 1000000;
    for (;;) {
        unsigned open = od_worker_transactions(s->worker);
        open += s->gateway != NULL ? od_gateway_transactions(s->gateway) : 0;
        if (open == 0 || od_clock_ns() > until)
            return open == 0;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void each_shape(void (*test)(stand *s), setup how)
{
    for (shape which = ALONE; which <= SEPARATE; which++) {
        how.shape = which;
        stand *s = open_stand(&how);
        test(s);
        close_stand(s);
    }
}

/* ---- transactions ---- */

static void commit_and_rollback(stand *s)
{
    size_t rows;
    const od_interrupt never = {0};
    assert_ok(run(s->remote, NULL, "CREATE TABLE t (i BIGINT PRIMARY KEY)", NULL));
    od_remote_txn *txn = begin(s->remote);
    assert_ok(run(s->remote, txn, "INSERT INTO t VALUES (1), (2)", NULL));
    assert_ok(run(s->remote, txn, "FROM t", &rows));
    assert_int_equal(rows, 2);
    assert_int_equal(count(s->remote, "t"), 0);
    assert_ok(od_remote_txn_commit(txn, never, &err));
    assert_int_equal(count(s->remote, "t"), 2);
    assert_int_equal(run(s->remote, txn, "FROM t", NULL), OD_E_NO_TRANSACTION);
    assert_int_equal(od_remote_txn_commit(txn, never, &err), OD_E_NO_TRANSACTION);
    od_remote_txn_free(txn);
    txn = begin(s->remote);
    assert_ok(run(s->remote, txn, "DELETE FROM t", NULL));
    assert_ok(od_remote_txn_rollback(txn, never, &err));
    assert_int_equal(count(s->remote, "t"), 2);
    od_remote_txn_free(txn);
    assert_true(none_open_within(s, 0));
    /* A COMMIT that fails. */
    od_remote_txn *other = begin(s->remote);
    txn = begin(s->remote);
    assert_ok(run(s->remote, txn, "INSERT INTO t VALUES (3)", NULL));
    assert_ok(run(s->remote, other, "INSERT INTO t VALUES (3)", NULL));
    assert_ok(od_remote_txn_commit(txn, never, &err));
    assert_int_equal(od_remote_txn_commit(other, never, &err), OD_E_TRANSACTION);
    assert_string_equal(err.sqlstate, "40001");
    assert_true(none_open_within(s, 0));
    od_remote_txn_free(txn);
    od_remote_txn_free(other);
}

static void test_commit_and_rollback(void **state)
{
    (void)state;
    each_shape(commit_and_rollback, (setup){0});
}

static void owner_gone(stand *s)
{
    assert_ok(run(s->remote, NULL, "CREATE TABLE t (i BIGINT)", NULL));
    od_remote_txn *txn = begin(s->remote), *other = begin(s->remote);
    char id[64];
    (void)snprintf(id, sizeof id, "%s", od_remote_txn_id(txn));
    assert_ok(run(s->remote, txn, "INSERT INTO t VALUES (1)", NULL));
    od_remote_txn_free(txn);
    for (int i = 0; i < 5000 && od_worker_transactions(s->worker) > 1; i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(od_worker_transactions(s->worker), 1);
    assert_ok(run(s->remote, other, "FROM t", NULL));
    assert_int_equal(count(s->remote, "t"), 0);
    od_remote_txn_free(other);
    assert_true(none_open_within(s, 5000));
}

static void test_a_transaction_goes_with_its_connection(void **state)
{
    (void)state;
    each_shape(owner_gone, (setup){0});
}

static void owner_gone_while_it_runs(stand *s)
{
    /* The execution's connection is another one. */
    od_remote *other = connect_to(s->server != NULL ? s->server : s->worker_server);
    od_remote_txn *txn = begin(s->remote);
    od_remote_query query = {.sql = od_slice_str("SELECT count(*) FROM range(100000000) a, range(100000) b"),
                             .txn = txn};
    od_result *result;
    size_t rows;
    assert_ok(od_remote_execute(other, &query, &result, &err));
    (void)nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    od_remote_txn_free(txn);
    assert_int_not_equal(drain(result, &rows), OD_OK);
    assert_true(none_open_within(s, 5000));
    od_remote_unref(other);
}

static void test_what_runs_in_it_is_stopped(void **state)
{
    (void)state;
    each_shape(owner_gone_while_it_runs, (setup){0});
}

static void idle(stand *s)
{
    od_remote_txn *txn = begin(s->remote);
    (void)nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
    assert_int_equal(run(s->remote, txn, "SELECT 1", NULL), OD_E_NO_TRANSACTION);
    assert_non_null(strstr(err.message, "200 ms"));
    assert_int_equal(od_remote_txn_commit(txn, (od_interrupt){0}, &err), OD_E_NO_TRANSACTION);
    assert_non_null(strstr(err.message, "200 ms"));
    od_remote_txn_free(txn);
    assert_true(none_open_within(s, 100));
}

static void test_an_idle_one_is_rolled_back(void **state)
{
    (void)state;
    each_shape(idle, (setup){.idle_ms = 200});
}

static void bounded(stand *s)
{
    od_remote_txn *a = begin(s->remote), *b = begin(s->remote), *c;
    assert_int_equal(od_remote_txn_begin(s->remote, (od_interrupt){0}, &c, &err), OD_E_BUSY);
    assert_ok(od_remote_txn_rollback(a, (od_interrupt){0}, &err));
    c = begin(s->remote);
    od_remote_txn_free(a);
    od_remote_txn_free(b);
    od_remote_txn_free(c);
}

static void test_their_number_is_bounded(void **state)
{
    (void)state;
    each_shape(bounded, (setup){.max_transactions = 2});
}

static void side_by_side(stand *s)
{
    od_remote_txn *txn = begin(s->remote);
    od_remote_query query = {.sql = od_slice_str("SELECT i, repeat('x', 50) FROM range(400000) t(i)"),
                             .txn = txn,
                             .format = OD_FORMAT_NATIVE};
    od_result *results[4];
    size_t rows;
    for (size_t i = 0; i < 4; i++)
        assert_ok(od_remote_execute(s->remote, &query, &results[i], &err));
    for (size_t i = 4; i-- > 0;) {
        assert_ok(drain(results[i], &rows));
        assert_int_equal(rows, 400000);
    }
    assert_ok(od_remote_txn_commit(txn, (od_interrupt){0}, &err));
    od_remote_txn_free(txn);
}

static void test_several_results_at_once(void **state)
{
    (void)state;
    each_shape(side_by_side, (setup){0});
}

/* That an answer to SQL tells. */
static uint64_t version_after(od_remote *remote, const od_remote_txn *txn, const char *sql)
{
    od_remote_query query = {.sql = od_slice_str(sql), .format = OD_FORMAT_NATIVE, .txn = txn};
    od_result *result;
    od_msg *owner;
    od_slice payload;
    assert_ok(od_remote_execute(remote, &query, &result, &err));
    do {
        assert_ok(od_result_next(result, &owner, &payload, &err));
        od_msg_unref(owner);
    } while (owner != NULL);
    uint64_t version = od_result_catalog_version(result);
    od_result_free(result);
    return version;
}

static void versions(stand *s)
{
    assert_ok(run(s->remote, NULL, "CREATE TABLE rows_only (i BIGINT)", NULL));
    uint64_t before = version_after(s->remote, NULL, "SELECT 1");
    /* Rows change none. */
    assert_int_equal(version_after(s->remote, NULL, "INSERT INTO rows_only VALUES (1)"), before);
    assert_int_equal(version_after(s->remote, NULL, "DELETE FROM rows_only"), before);
    assert_int_equal(version_after(s->remote, NULL, "TRUNCATE rows_only"), before);
    od_remote_txn *txn = begin(s->remote);
    assert_int_equal(od_remote_txn_catalog_version(txn), before);
    assert_int_equal(version_after(s->remote, txn, "INSERT INTO rows_only VALUES (1)"), before);
    /* A table changes its own alone, each time. */
    uint64_t own = version_after(s->remote, txn, "CREATE TABLE t (i BIGINT)");
    assert_true(own != before && own != 0);
    assert_int_equal(version_after(s->remote, txn, "SELECT 1"), own);
    assert_true(version_after(s->remote, txn, "DROP TABLE t") != own);
    assert_int_equal(version_after(s->remote, NULL, "SELECT 1"), before);
    assert_ok(od_remote_txn_commit(txn, (od_interrupt){0}, &err));
    uint64_t after = version_after(s->remote, NULL, "SELECT 1");
    assert_true(after != before && after != own);
    assert_int_equal(od_remote_txn_catalog_version(txn), after);
    od_remote_txn_free(txn);
    /* What is undone, and what changes rows only, changes nobody's. */
    txn = begin(s->remote);
    assert_true(version_after(s->remote, txn, "CREATE TABLE t (i BIGINT)") != after);
    assert_ok(od_remote_txn_rollback(txn, (od_interrupt){0}, &err));
    od_remote_txn_free(txn);
    txn = begin(s->remote);
    assert_int_equal(version_after(s->remote, txn, "UPDATE rows_only SET i = 2"), after);
    assert_ok(od_remote_txn_commit(txn, (od_interrupt){0}, &err));
    assert_int_equal(od_remote_txn_catalog_version(txn), after);
    od_remote_txn_free(txn);
    assert_int_equal(version_after(s->remote, NULL, "SELECT 1"), after);
}

static void test_versions_change_at_commit(void **state)
{
    (void)state;
    each_shape(versions, (setup){0});
}

/* ---- ingest ---- */

static const od_wire_column columns[] = {{{(const uint8_t *)"i", 1}, {(const uint8_t *)"BIGINT", 6}},
                                         {{(const uint8_t *)"v", 1}, {(const uint8_t *)"VARCHAR", 7}}};

/* Of SELECT, through STATEMENT (NULL: into a table). */
static od_code send_through(stand *s, od_remote_txn *txn, const char *select, const char *statement, uint64_t *rows,
                            uint64_t *version)
{
    od_ingest_options options = {.staging_table = od_slice_str("stage"),
                                 .columns = columns,
                                 .column_count = 2,
                                 .format = OD_FORMAT_NATIVE,
                                 .statement = od_slice_str(statement)};
    od_execution_request request = {.sql = od_slice_str(select), .format = OD_FORMAT_NATIVE};
    od_execution *execution;
    od_ingest *ingest;
    od_code rc;
    assert_ok(od_ingest_open(s->remote, txn, &options, &ingest, &err));
    assert_ok(od_execution_start(s->engine, &request, &execution, &err));
    do {
        od_msg *msg;
        assert_ok(od_execution_next(execution, &msg, &err));
        if (msg == NULL)
            break;
        rc = od_ingest_send(ingest, msg, &err);
        od_msg_unref(msg);
    } while (rc == OD_OK);
    od_execution_end(execution);
    bool again;
    do {
        rc = od_ingest_finish_within(ingest, 1, rows, &again, &err);
    } while (rc == OD_OK && again);
    *version = od_ingest_catalog_version(ingest);
    od_ingest_free(ingest);
    return rc;
}

static od_code send_rows(stand *s, od_remote_txn *txn, const char *select, uint64_t *rows)
{
    uint64_t ignored;
    return send_through(s, txn, select, NULL, rows, &ignored);
}

static void ingest(stand *s)
{
    size_t seen;
    uint64_t rows;
    assert_ok(run(s->remote, NULL, "CREATE TABLE t (i BIGINT, v VARCHAR)", NULL));
    od_remote_txn *txn = begin(s->remote);
    assert_ok(send_rows(s, txn, "SELECT i, 'value ' || i FROM range(1000000) t(i)", &rows));
    assert_int_equal(rows, 1000000);
    assert_ok(run(s->remote, txn, "INSERT INTO t FROM stage", NULL));
    assert_ok(od_remote_txn_commit(txn, (od_interrupt){0}, &err));
    od_remote_txn_free(txn);
    assert_ok(run(s->remote, NULL, "FROM t WHERE v = 'value ' || i", &seen));
    assert_int_equal(seen, 1000000);
    /* What does not fit. */
    txn = begin(s->remote);
    assert_int_equal(send_rows(s, txn, "SELECT i::INTEGER, 'value ' || i FROM range(1000000) t(i)", &rows),
                     OD_E_INVALID);
    assert_int_equal(run(s->remote, txn, "FROM stage", NULL), OD_E_CATALOG);
    od_remote_txn_free(txn);
    /* Left in the middle. */
    txn = begin(s->remote);
    od_ingest_options options = {
        .staging_table = od_slice_str("stage"), .columns = columns, .column_count = 2, .format = OD_FORMAT_NATIVE};
    od_ingest *left;
    assert_ok(od_ingest_open(s->remote, txn, &options, &left, &err));
    od_ingest_free(left);
    int64_t until = od_clock_ns() + 5000000000;
    while (run(s->remote, txn, "FROM stage", NULL) != OD_E_CATALOG && od_clock_ns() < until)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_ok(send_rows(s, txn, "SELECT i, '' FROM range(10) t(i)", &rows));
    assert_int_equal(rows, 10);
    od_remote_txn_free(txn);
    /* Without a transaction. */
    txn = begin(s->remote);
    assert_ok(od_remote_txn_rollback(txn, (od_interrupt){0}, &err));
    assert_int_equal(send_rows(s, txn, "SELECT i, '' FROM range(10) t(i)", &rows), OD_E_NO_TRANSACTION);
    od_remote_txn_free(txn);
    assert_true(none_open_within(s, 5000));
}

static void test_rows_come_in(void **state)
{
    (void)state;
    each_shape(ingest, (setup){0});
}

static void ingest_through(stand *s)
{
    static const char rows_sql[] = "SELECT i, 'value ' || i FROM range(300000) t(i)";
    uint64_t rows, version, later;
    size_t seen;
    assert_ok(run(s->remote, NULL, "CREATE TABLE t (i BIGINT, v VARCHAR)", NULL));
    assert_ok(send_through(s, NULL, rows_sql, "INSERT INTO t FROM stage", &rows, &version));
    assert_int_equal(rows, 300000);
    assert_ok(run(s->remote, NULL, "FROM t WHERE v = 'value ' || i AND rowid = i", &seen));
    assert_int_equal(seen, 300000);
    /* Rows change no catalog; a table does. */
    assert_ok(send_through(s, NULL, rows_sql, "DELETE FROM t USING stage WHERE t.i = stage.i", &rows, &later));
    assert_int_equal(rows, 300000);
    assert_true(version != 0 && later == version);
    assert_ok(send_through(s, NULL, rows_sql, "CREATE TABLE made AS FROM stage", &rows, &later));
    assert_true(later != version);
    od_remote_txn *txn = begin(s->remote);
    assert_ok(send_through(s, txn, rows_sql, "INSERT INTO t FROM stage", &rows, &version));
    assert_ok(run(s->remote, txn, "FROM t", &seen));
    assert_int_equal(seen, 300000);
    assert_ok(od_remote_txn_rollback(txn, (od_interrupt){0}, &err));
    od_remote_txn_free(txn);
    assert_int_equal(
        send_through(s, NULL, rows_sql, "INSERT INTO made SELECT error('no'), v FROM stage", &rows, &version),
        OD_E_INVALID);
    assert_ok(run(s->remote, NULL, "FROM t", &seen));
    assert_int_equal(seen, 0);
    assert_true(none_open_within(s, 5000));
}

static void test_a_statement_reads_rows(void **state)
{
    (void)state;
    each_shape(ingest_through, (setup){0});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit_and_rollback),
        cmocka_unit_test(test_a_transaction_goes_with_its_connection),
        cmocka_unit_test(test_what_runs_in_it_is_stopped),
        cmocka_unit_test(test_an_idle_one_is_rolled_back),
        cmocka_unit_test(test_their_number_is_bounded),
        cmocka_unit_test(test_several_results_at_once),
        cmocka_unit_test(test_versions_change_at_commit),
        cmocka_unit_test(test_rows_come_in),
        cmocka_unit_test(test_a_statement_reads_rows),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
