/* Statements that read rows as they come in. */
#include "engine_helper.h"
#include "server/host.h"

#include <pthread.h>

static od_engine *open_with_host(void)
{
    return open_engine(&(od_engine_options){.threads = 2, .host = od_server_host()});
}

/* What pushes: the payloads of SQL, with a wait where there is no room. */
typedef struct {
    od_engine *engine;
    od_feed *feed;
    const char *sql;
    od_format format;
    size_t most;  /* payloads; 0: all */
    bool damage;  /* the last one is cut */
    bool gone;    /* instead of an end, the pusher goes away */
    size_t waits; /* for room */
    pthread_mutex_t lock;
    pthread_cond_t roomy;
    bool room;
} pusher;

static void has_room(void *arg)
{
    pusher *p = arg;
    (void)pthread_mutex_lock(&p->lock);
    p->room = true;
    (void)pthread_cond_signal(&p->roomy);
    (void)pthread_mutex_unlock(&p->lock);
}

static void wait_for_room(pusher *p)
{
    p->waits++;
    (void)pthread_mutex_lock(&p->lock);
    while (!p->room)
        (void)pthread_cond_wait(&p->roomy, &p->lock);
    (void)pthread_mutex_unlock(&p->lock);
}

static void push_one(pusher *p, od_msg *msg, bool cut)
{
    od_error why;
    bool room;
    p->room = false;
    od_slice bytes = od_slice_of(od_msg_data(msg), cut ? od_msg_len(msg) / 2 : od_msg_len(msg));
    if (od_feed_push(p->feed, msg, bytes, &room, &why) != OD_OK)
        od_feed_fail(p->feed, &why);
    else if (!room)
        wait_for_room(p);
}

static void *push_all(void *arg)
{
    pusher *p = arg;
    od_error why = {0};
    od_execution *execution;
    od_execution_request request = {.sql = od_slice_str(p->sql), .format = p->format};
    if (od_execution_start(p->engine, &request, &execution, &why) != OD_OK)
        return NULL;
    for (size_t i = 0; p->most == 0 || i < p->most; i++) {
        od_msg *msg;
        if (od_execution_next(execution, &msg, &why) != OD_OK || msg == NULL)
            break;
        push_one(p, msg, p->damage && i + 1 == p->most);
        od_msg_unref(msg);
    }
    od_execution_end(execution);
    (void)od_fail(&why, OD_E_CANCELLED, "the client went away");
    if (p->gone)
        od_feed_fail(p->feed, &why);
    else
        od_feed_end(p->feed);
    return NULL;
}

#define MAX_COLUMNS 64

/* Names and types of what SQL gives. */
static size_t describe(od_engine *engine, const char *sql, od_ipc_reader **reader, od_staging_column *columns)
{
    od_execution *execution;
    od_msg *msg;
    od_execution_request request = {.sql = od_slice_str(sql), .format = OD_FORMAT_NATIVE, .describe_only = true};
    assert_ok(od_execution_start(engine, &request, &execution, &err));
    assert_ok(od_execution_next(execution, &msg, &err));
    assert_ok(od_ipc_reader_create(reader, &err));
    assert_ok(od_ipc_reader_start(*reader, od_slice_of(od_msg_data(msg), od_msg_len(msg)), NULL, &err));
    const struct ArrowSchema *schema = od_ipc_reader_schema(*reader);
    for (int64_t i = 0; i < schema->n_children; i++)
        columns[i] = (od_staging_column){od_slice_str(schema->children[i]->name),
                                         od_schema_metadata(schema->children[i], "openduck:sql_type")};
    od_msg_unref(msg);
    od_execution_end(execution);
    return (size_t)schema->n_children;
}

/* Runs STATEMENT over the rows that P pushes, called "stage". */
static od_code feed_by(pusher *p, od_txn *txn, const char *statement, uint64_t *rows)
{
    od_staging_column columns[MAX_COLUMNS];
    od_ipc_reader *description;
    pthread_t thread;
    uint64_t version;
    od_feed_request request = {.txn = txn,
                               .table = od_slice_str("stage"),
                               .columns = columns,
                               .column_count = describe(p->engine, p->sql, &description, columns),
                               .format = p->format,
                               .statement = od_slice_str(statement),
                               .room = has_room,
                               .room_arg = p};
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->roomy, NULL);
    assert_ok(od_feed_open(p->engine, &request, &p->feed, &err));
    assert_int_equal(pthread_create(&thread, NULL, push_all, p), 0);
    od_code rc = od_feed_run(p->feed, rows, &version, &err);
    assert_int_equal(pthread_join(thread, NULL), 0);
    od_feed_free(p->feed);
    od_ipc_reader_free(description);
    (void)pthread_cond_destroy(&p->roomy);
    (void)pthread_mutex_destroy(&p->lock);
    return rc;
}

static od_code feed(od_engine *engine, od_txn *txn, const char *sql, const char *statement, uint64_t *rows)
{
    return feed_by(&(pusher){.engine = engine, .sql = sql, .format = OD_FORMAT_NATIVE}, txn, statement, rows);
}

static void test_rows_come_in_order(void **state)
{
    od_engine *engine = open_with_host();
    uint64_t rows;
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT, v VARCHAR)"));
    assert_ok(feed(engine, NULL, "SELECT i, 'some text that is not inlined ' || i AS v FROM range(700000) r(i)",
                   "INSERT INTO t FROM stage", &rows));
    assert_int_equal(rows, 700000);
    assert_int_equal(
        ask(engine, "SELECT count(*) FROM t WHERE rowid = i AND v = 'some text that is not inlined ' || i"), 700000);
    /* Row groups are full, as those of rows that are at hand. */
    assert_int_equal(ask(engine, "SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('t')"), 6);
    od_engine_close(engine);
}

static void test_wide_rows_wait_for_room(void **state)
{
    od_engine *engine = open_with_host();
    pusher p = {.engine = engine,
                .sql = "SELECT i, repeat(chr(65 + (i % 26)::INTEGER), 100000) AS v FROM range(2500) r(i)",
                .format = OD_FORMAT_NATIVE};
    uint64_t rows;
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT, v VARCHAR)"));
    assert_ok(feed_by(&p, NULL, "INSERT INTO t FROM stage", &rows));
    assert_int_equal(rows, 2500);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t WHERE rowid = i AND v[1] = chr(65 + (i % 26)::INTEGER) AND "
                                 "length(v) = 100000"),
                     2500);
    od_engine_close(engine);
}

static const char all_types[] =
    "SELECT i % 2 = 0 AS b, (i % 100)::TINYINT AS t, i::HUGEINT * 1000000007 AS h, (i % 200)::UTINYINT AS ut, "
    "i::DOUBLE / 7 "
    "AS d, (i / 7)::DECIMAL(9,3) AS d9, (i / 7)::DECIMAL(38,10) AS d38, DATE '2000-01-01' + i::INTEGER AS dt, "
    "TIMESTAMPTZ "
    "'2000-01-01 00:00:00+00' + to_seconds(i) AS ts, to_days(i::INTEGER) AS iv, md5(i::VARCHAR)::UUID AS u, CASE WHEN "
    "i % "
    "3 = 0 THEN NULL ELSE 'größe ' || repeat('z', (i % 30)::INTEGER) END AS v, encode('x' || i) AS bl, CASE WHEN i % 3 "
    "= 0 "
    "THEN NULL WHEN i % 3 = 1 THEN 'one' ELSE 'two' END::ENUM('one', 'two') AS en, CASE WHEN i % 5 = 0 THEN NULL ELSE "
    "[i, "
    "NULL, i + 1] END AS li, CASE WHEN i % 6 = 0 THEN NULL ELSE {'a': i, 'b': ['x' || i]} END AS st, MAP {i: 'm' || i} "
    "AS "
    "mp, [i, i + 1, i + 2]::BIGINT[3] AS ar, CASE WHEN i % 2 = 0 THEN i::UNION(n BIGINT, s VARCHAR) ELSE ('s' || "
    "i)::UNION(n BIGINT, s VARCHAR) END AS un, ('{\"k\": ' || i || '}')::JSON AS js FROM range(150000) r(i)";

static void test_all_types(void **state)
{
    od_engine *engine = open_with_host();
    char create[3000], check[6000];
    uint64_t rows;
    (void)state;
    (void)snprintf(create, sizeof create, "CREATE TABLE t AS %s LIMIT 0", all_types);
    (void)snprintf(check, sizeof check, "SELECT count(*) FROM ((FROM t) EXCEPT ALL (%s))", all_types);
    assert_ok(run(engine, create));
    assert_ok(feed(engine, NULL, all_types, "INSERT INTO t FROM stage", &rows));
    assert_int_equal(rows, 150000);
    assert_int_equal(ask(engine, check), 0);
    od_engine_close(engine);
}

static const char variants[] =
    "SELECT i, CASE i % 9 WHEN 0 THEN NULL WHEN 1 THEN i::VARIANT WHEN 2 THEN ('text ' || i)::VARIANT WHEN 3 THEN (i / "
    "7)::DECIMAL(38,10)::VARIANT WHEN 4 THEN ('{\"x\": [' || i || ', {\"y\": [true, null, \"z\"]}], \"e\": "
    "{}}')::JSON::VARIANT WHEN 5 THEN [{'a': i}, {'a': i + 1}]::VARIANT WHEN 6 THEN (DATE '2000-01-01')::VARIANT WHEN "
    "7 "
    "THEN []::INT[]::VARIANT ELSE {'u': uuid_nil, 'b': '0101'::BIT, 'n': '123456789'::BIGNUM, 'iv': INTERVAL 3 "
    "DAY}::VARIANT END AS v FROM range(20000) r(i), (SELECT '00000000-0000-0000-0000-000000000000'::UUID AS uuid_nil)";

static void test_variants(void **state)
{
    od_engine *engine = open_with_host();
    char check[2500];
    uint64_t rows;
    (void)state;
    (void)snprintf(check, sizeof check,
                   "SELECT count(*) FROM ((SELECT i, v::VARCHAR, variant_typeof(v) FROM t) EXCEPT ALL (SELECT i, "
                   "v::VARCHAR, variant_typeof(v) FROM (%s)))",
                   variants);
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT, v VARIANT)"));
    assert_ok(feed(engine, NULL, variants, "INSERT INTO t FROM stage", &rows));
    assert_int_equal(rows, 20000);
    assert_int_equal(ask(engine, check), 0);
    od_engine_close(engine);
}

/* tsan, which takes many times as long, looks at threads, not at bytes. */
#ifdef __SANITIZE_THREAD__
enum { STRIDE = 10 };
#else
enum { STRIDE = 1 };
#endif

/* Any byte of SQL's one column may be another one: it is refused, or DuckDB can read what it says. Returns how many of each STEPth were
 * refused. */
static size_t damage_each(const char *type, const char *sql, size_t step)
{
    od_staging_column column = {od_slice_str("v"), od_slice_str(type)};
    od_engine *engine = open_with_host();
    od_execution *execution;
    od_msg *msg;
    size_t refused = 0;
    char create[200];
    (void)snprintf(create, sizeof create, "CREATE TABLE t (v %s)", type);
    assert_ok(run(engine, create));
    assert_ok(try_start(engine, sql, &execution));
    assert_ok(od_execution_next(execution, &msg, &err));
    od_execution_end(execution);
    for (size_t i = od_msg_len(msg) / 2; i < od_msg_len(msg); i += step * STRIDE) {
        od_feed_request request = {.table = od_slice_str("stage"),
                                   .columns = &column,
                                   .column_count = 1,
                                   .format = OD_FORMAT_NATIVE,
                                   .statement = od_slice_str("INSERT INTO t FROM stage"),
                                   .room = has_room};
        uint64_t rows, version;
        od_feed *feed;
        od_msg *damaged;
        bool room;
        assert_ok(od_msg_create(od_msg_len(msg), 0, &damaged, &err));
        memcpy(od_msg_data(damaged), od_msg_data(msg), od_msg_len(msg));
        od_msg_data(damaged)[i] ^= (uint8_t)(i % 2 == 0 ? 1U << i / 2 % 8 | 1 : 0x80);
        assert_ok(od_feed_open(engine, &request, &feed, &err));
        if (od_feed_push(feed, damaged, od_slice_of(od_msg_data(damaged), od_msg_len(damaged)), &room, &err) != OD_OK)
            od_feed_fail(feed, &err);
        od_feed_end(feed);
        refused += od_feed_run(feed, &rows, &version, &err) != OD_OK;
        od_feed_free(feed);
        od_msg_unref(damaged);
        /* What DuckDB has no text for, as an object with an empty key, is an error like any other. */
        od_code rc = run(engine, "SELECT md5(v::VARCHAR) FROM t");
        if (rc == OD_E_INTERNAL || rc == OD_E_FATAL)
            fail_msg("byte %zu: %s", i, err.message);
        assert_ok(run(engine, "TRUNCATE t"));
    }
    od_msg_unref(msg);
    od_engine_close(engine);
    return refused;
}

static void test_damaged_variants(void **state)
{
    (void)state;
    assert_true(damage_each("VARIANT",
                            "SELECT ('{\"x\": [' || i || ', {\"y\": [true, null, \"z\"]}], \"e\": "
                            "{}}')::JSON::VARIANT AS v FROM range(3) r(i)",
                            1) > 20 / STRIDE);
}

/* DuckDB's text of a time that lies outside of its day is read out of bounds. */
static void test_damaged_times(void **state)
{
    (void)state;
    assert_true(damage_each("STRUCT(a TIME, b TIME_NS, c TIMETZ)",
                            "SELECT {'a': TIME '01:02:03.4', 'b': '01:02:03.4'::TIME_NS, 'c': TIMETZ "
                            "'01:02:03.4+01'} AS v",
                            3) > 3 / STRIDE);
    assert_true(damage_each("VARIANT",
                            "SELECT [(TIME '01:02:03.4')::VARIANT, ('01:02:03.4'::TIME_NS)::VARIANT, (TIMETZ "
                            "'01:02:03.4+01')::VARIANT] AS v",
                            3) > 3 / STRIDE);
}

static void test_plain_arrow_is_cast(void **state)
{
    od_engine *engine = open_with_host();
    pusher p = {.engine = engine,
                .sql = "SELECT i, i::VARCHAR AS s, (i % 2)::HUGEINT AS h, 'x'::ENUM('x') AS e FROM range(300000) r(i)",
                .format = OD_FORMAT_PLAIN};
    uint64_t rows;
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (a BIGINT, b VARCHAR DEFAULT 'd', c HUGEINT, e VARCHAR)"));
    assert_ok(feed_by(&p, NULL, "INSERT INTO t (a, c, e) SELECT i * 2, h, e FROM stage", &rows));
    assert_int_equal(rows, 300000);
    assert_int_equal(
        ask(engine, "SELECT count(*) FROM t WHERE a = 2 * rowid AND b = 'd' AND c = rowid % 2 AND e = 'x'"), 300000);
    od_engine_close(engine);
}

static void test_other_statements_read_them(void **state)
{
    od_engine *engine = open_with_host();
    uint64_t rows;
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT PRIMARY KEY, v VARCHAR)"));
    assert_ok(run(engine, "INSERT INTO t SELECT i, 'old' FROM range(1000) r(i)"));
    assert_ok(feed(engine, NULL, "SELECT i FROM range(500, 1500) r(i)", "DELETE FROM t USING stage WHERE t.i = stage.i",
                   &rows));
    assert_int_equal(rows, 500);
    assert_ok(feed(engine, NULL, "SELECT i FROM range(100) r(i)",
                   "UPDATE t SET v = 'new' FROM stage WHERE t.i = stage.i", &rows));
    assert_int_equal(rows, 100);
    assert_ok(feed(engine, NULL, "SELECT i, 'x' AS v FROM range(600) r(i)",
                   "INSERT INTO t FROM stage ON CONFLICT DO UPDATE SET v = 'both'", &rows));
    assert_int_equal(ask(engine, "SELECT count(*) FROM t WHERE v = 'both'"), 500);
    assert_ok(feed(engine, NULL, "SELECT i, 'm' AS v FROM range(700) r(i)",
                   "MERGE INTO t USING stage ON t.i = stage.i WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT",
                   &rows));
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 100);
    assert_ok(feed(engine, NULL, "SELECT i FROM range(250000) r(i)", "CREATE TABLE made AS FROM stage", &rows));
    assert_int_equal(ask(engine, "SELECT count(*) FROM made WHERE i = rowid"), 250000);
    od_engine_close(engine);
}

static void test_in_a_transaction(void **state)
{
    od_engine *engine = open_with_host();
    od_txn *txn;
    uint64_t rows;
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT)"));
    assert_ok(od_txn_begin(engine, od_slice_str(""), NULL, &txn, &err));
    assert_ok(feed(engine, txn, "SELECT i FROM range(200000) r(i)", "INSERT INTO t FROM stage", &rows));
    assert_ok(feed(engine, txn, "SELECT i FROM range(10) r(i)", "INSERT INTO t FROM stage", &rows));
    assert_int_equal(rows, 10);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 0);
    assert_ok(od_txn_commit(txn, &err));
    od_txn_unref(txn);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 200010);
    assert_int_equal(run(engine, "FROM stage"), OD_E_CATALOG);
    od_engine_close(engine);
}

static void expect(od_engine *engine, pusher p, const char *statement, od_code code, const char *text)
{
    uint64_t rows;
    p.engine = engine;
    p.sql = p.sql != NULL ? p.sql : "SELECT i FROM range(300000) r(i)";
    p.format = OD_FORMAT_NATIVE;
    od_code rc = feed_by(&p, NULL, statement, &rows);
    if (rc != code || strstr(err.message, text) == NULL)
        fail_msg("%s: %s: %s", statement, od_code_name(rc), err.message);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 1);
    assert_int_equal(run(engine, "FROM stage"), OD_E_CATALOG);
}

static void test_all_or_nothing(void **state)
{
    od_engine *engine = open_with_host();
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT PRIMARY KEY); INSERT INTO t VALUES (299999)"));
    expect(engine, (pusher){0}, "INSERT INTO t FROM stage", OD_E_CONSTRAINT, "uplicate key");
    expect(engine, (pusher){.most = 3, .damage = true}, "INSERT INTO t FROM stage", OD_E_CORRUPT, "arrow stream");
    expect(engine, (pusher){.most = 3, .gone = true}, "INSERT INTO t FROM stage", OD_E_CANCELLED, "went away");
    expect(engine, (pusher){0}, "INSERT INTO t SELECT error('boom') FROM stage", OD_E_INVALID, "boom");
    expect(engine, (pusher){0}, "INSERT INTO nope FROM stage", OD_E_CATALOG, "nope");
    expect(engine, (pusher){0}, "INSERT INTO t SELECT a.i FROM stage a, stage b", OD_E_INVALID, "only once");
    expect(engine, (pusher){0}, "INSERT INTO t FROM stage RETURNING i", OD_E_NOT_IMPLEMENTED, "RETURNING");
    expect(engine, (pusher){0}, "FROM stage", OD_E_NOT_IMPLEMENTED, "changes rows");
    expect(engine, (pusher){0}, "INSERT INTO t VALUES (1); INSERT INTO t FROM stage", OD_E_INVALID, "single statement");
    expect(engine, (pusher){.most = 2, .gone = true}, "INSERT INTO t FROM stage LIMIT 1", OD_E_CANCELLED, "went away");
    od_engine_close(engine);
}

static void test_rows_that_are_not_read_are_dropped(void **state)
{
    od_engine *engine = open_with_host();
    uint64_t rows;
    (void)state;
    assert_ok(run(engine, "CREATE TABLE t (i BIGINT)"));
    assert_ok(feed(engine, NULL, "SELECT i FROM range(20000000) r(i)", "INSERT INTO t FROM stage LIMIT 7", &rows));
    assert_int_equal(rows, 7);
    assert_int_equal(ask(engine, "SELECT sum(i)::BIGINT FROM t"), 21);
    assert_ok(feed(engine, NULL, "SELECT i FROM range(0) r(i)", "INSERT INTO t FROM stage", &rows));
    assert_int_equal(rows, 0);
    assert_ok(feed(engine, NULL, "SELECT i FROM range(10) r(i)", "INSERT INTO t VALUES (1)", &rows));
    assert_int_equal(rows, 1);
    od_engine_close(engine);
}

static void test_the_function_alone_gives_nothing(void **state)
{
    od_engine *engine = open_with_host();
    (void)state;
    assert_fails(engine, "FROM openduck_stream()", OD_E_BINDER);
    od_engine_close(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_in_order),
        cmocka_unit_test(test_wide_rows_wait_for_room),
        cmocka_unit_test(test_all_types),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_damaged_variants),
        cmocka_unit_test(test_damaged_times),
        cmocka_unit_test(test_plain_arrow_is_cast),
        cmocka_unit_test(test_other_statements_read_them),
        cmocka_unit_test(test_in_a_transaction),
        cmocka_unit_test(test_all_or_nothing),
        cmocka_unit_test(test_rows_that_are_not_read_are_dropped),
        cmocka_unit_test(test_the_function_alone_gives_nothing),
    };
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
