/* The engine's sessions, errors, files and locks. */
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/deadline.h"
#include "engine_helper.h"

/* ---- a folder for files ---- */

static char dir[] = "/tmp/od-engine-XXXXXX";

static const char *path_of(const char *name)
{
    static char paths[4][128];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[64];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static od_engine *file_engine(const char *name, bool read_only, bool external)
{
    od_engine_database database = {"main_db", path_of(name)};
    return open_engine(&(od_engine_options){.databases = &database,
                                            .database_count = 1,
                                            .threads = 2,
                                            .read_only = read_only,
                                            .external_access = external});
}

static od_code try_open(const char *name, const char *path, bool read_only)
{
    od_engine *engine = NULL;
    od_engine_database database = {name, path};
    od_code rc = od_engine_open(
        &(od_engine_options){.databases = &database, .database_count = 1, .read_only = read_only}, &engine, &err);
    od_engine_close(engine);
    return rc;
}

/* ---- errors ---- */

static void test_errors_have_kind_state_and_bare_text(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        od_code code;
        od_kind kind;
        const char *starts;
    } cases[] = {
        {"SELECT * FROM nope", OD_E_CATALOG, OD_KIND_CATALOG, "Table with name nope"},
        {"SELECT nope FROM range(1)", OD_E_BINDER, OD_KIND_BINDER, "Referenced column"},
        {"SELECT FROM WHERE", OD_E_PARSER, OD_KIND_PARSER, "syntax error"},
        {"SELECT 'x'::INT", OD_E_CONVERSION, OD_KIND_CONVERSION, "Could not convert"},
        {"SELECT 300::TINYINT", OD_E_CONVERSION, OD_KIND_CONVERSION, "Type INT32"},
        {"INSERT INTO keyed VALUES (1)", OD_E_CONSTRAINT, OD_KIND_CONSTRAINT, "Duplicate key"},
        {"SELECT error('boom')", OD_E_INVALID, OD_KIND_BINDER, "boom"},
        {"COMMIT", OD_E_TRANSACTION, OD_KIND_IO, ""},
        {"", OD_E_INVALID, OD_KIND_BINDER, "the text holds no statement"},
        {"  -- nothing", OD_E_INVALID, OD_KIND_BINDER, "the text holds no statement"},
        {"SELECT ?", OD_E_INVALID, OD_KIND_BINDER, "Values were not provided for"},
        {"SELECT $a + $b", OD_E_INVALID, OD_KIND_BINDER, "Values were not provided for"},
    };
    od_engine *engine = memory_engine();
    assert_ok(run(engine, "CREATE TABLE keyed(i INT PRIMARY KEY); INSERT INTO keyed VALUES (1)"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(engine, cases[i].sql, cases[i].code);
        assert_int_equal(err.kind, cases[i].kind);
        if (strncmp(err.message, cases[i].starts, strlen(cases[i].starts)) != 0)
            fail_msg("%s: %s", cases[i].sql, err.message);
    }
    assert_int_equal(ask(engine, "SELECT count(*) FROM keyed"), 1);
    od_engine_close(engine);
}

static void test_unknown_database_is_refused(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    od_execution *execution;
    od_execution_request request = {.sql = od_slice_str("SELECT 1"), .database = od_slice_str("other")};
    assert_int_equal(od_execution_start(engine, &request, &execution, &err), OD_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "'other'"));
    od_engine_close(engine);
}

/* ---- statements ---- */

static void test_several_statements_give_the_last_result(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    assert_int_equal(
        ask(engine, "CREATE TABLE t(i BIGINT); INSERT INTO t VALUES (3), (4); SELECT sum(i)::BIGINT FROM t"), 7);
    /* a failing one ends the text */
    assert_fails(engine, "INSERT INTO t VALUES (5); SELECT * FROM nope; INSERT INTO t VALUES (6)", OD_E_CATALOG);
    assert_int_equal(ask(engine, "SELECT sum(i)::BIGINT FROM t"), 12);
    od_engine_close(engine);
}

static void test_repeated_statements_see_new_rows_and_new_tables(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    assert_ok(run(engine, "CREATE TABLE t(i BIGINT)"));
    for (int64_t i = 0; i < 5; i++) {
        char sql[64];
        assert_int_equal(ask(engine, "SELECT count(*) FROM t"), i);
        assert_int_equal(ask(engine, "SELECT count(*) FROM t"), i);
        assert_int_equal(ask(engine, "SELECT coalesce(max(i), -1) FROM t"), i - 1);
        assert_int_equal(ask(engine, "SELECT count(*) FROM t WHERE i >= 2"), i > 2 ? i - 2 : 0);
        (void)snprintf(sql, sizeof sql, "INSERT INTO t VALUES (%lld)", (long long)i);
        assert_ok(run(engine, sql));
    }
    assert_ok(run(engine, "ALTER TABLE t ADD COLUMN j BIGINT DEFAULT 9"));
    assert_int_equal(ask(engine, "SELECT max(j) FROM t"), 9);
    assert_ok(run(engine, "DROP TABLE t; CREATE TABLE t(i VARCHAR)"));
    assert_ok(run(engine, "SELECT * FROM t"));
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 0);
    od_engine_close(engine);
}

static void test_many_statements_are_kept_within_bounds(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 200; i++) {
            char sql[64];
            (void)snprintf(sql, sizeof sql, "SELECT %d::BIGINT", i);
            assert_int_equal(ask(engine, sql), i);
        }
    od_engine_close(engine);
}

/* ---- sessions ---- */

static void test_session_state_does_not_leak(void **state)
{
    (void)state;
    od_engine *engine = open_engine(&(od_engine_options){.threads = 2, .external_access = true});
    assert_ok(run(engine, "CREATE TABLE t(i INT)"));
    assert_ok(run(engine, "CREATE TEMP TABLE secret(i INT)"));
    assert_fails(engine, "SELECT * FROM secret", OD_E_CATALOG);
    assert_ok(run(engine, "SET SESSION default_null_order = 'nulls_first'"));
    assert_int_equal(ask(engine, "SELECT (current_setting('default_null_order') = 'NULLS_LAST')::BIGINT"), 1);
    assert_ok(run(engine, "PREPARE q AS SELECT 1"));
    assert_fails(engine, "EXECUTE q", OD_E_BINDER);
    assert_ok(run(engine, "SET VARIABLE v = 1"));
    assert_int_equal(ask(engine, "SELECT (getvariable('v') IS NULL)::BIGINT"), 1);
    assert_ok(run(engine, "CREATE SCHEMA s; USE s"));
    assert_int_equal(ask(engine, "SELECT (current_schema() = 'main')::BIGINT"), 1);
    od_engine_close(engine);
}

static void test_open_transactions_are_rolled_back(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    assert_ok(run(engine, "CREATE TABLE t(i INT)"));
    assert_ok(run(engine, "BEGIN"));
    assert_ok(run(engine, "BEGIN; INSERT INTO t VALUES (1)"));
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 0);
    assert_ok(run(engine, "BEGIN; INSERT INTO t VALUES (1); COMMIT"));
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 1);
    assert_fails(engine, "BEGIN; INSERT INTO t VALUES (2); SELECT * FROM nope", OD_E_CATALOG);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 1);
    assert_ok(run(engine, "INSERT INTO t VALUES (3)"));
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 2);
    od_engine_close(engine);
}

static void test_an_unfinished_result_leaves_a_clean_connection(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    for (int i = 0; i < 5; i++) {
        od_execution *execution;
        od_msg *msg;
        assert_ok(try_start(engine, "SELECT i, repeat('x', 100) FROM range(1000000) t(i)", &execution));
        if (i > 0) {
            assert_ok(od_execution_next(execution, &msg, &err));
            od_msg_unref(msg);
        }
        od_execution_end(execution);
        assert_int_equal(ask(engine, "SELECT 5::BIGINT"), 5);
    }
    od_engine_close(engine);
}

/* ---- the catalog's version ---- */

static void test_catalog_version_follows_definitions(void **state)
{
    (void)state;
    od_engine *engine = memory_engine(), *other = memory_engine();
    static const char *const changes[] = {"CREATE TABLE t(i INT)",       "ALTER TABLE t ADD COLUMN j INT",
                                          "CREATE VIEW v AS SELECT 1",   "DROP VIEW v",
                                          "BEGIN; DROP TABLE t; COMMIT", "EXPLAIN ANALYZE CREATE TABLE u(i INT)"};
    static const char *const same[] = {"SELECT 1",      "INSERT INTO w VALUES (1)", "UPDATE w SET i = 2",
                                       "DELETE FROM w", "EXPLAIN SELECT 1",         "SHOW TABLES",
                                       "DESCRIBE w"};
    assert_true(od_engine_catalog_version(engine, (od_slice){0}) != 0);
    assert_true(od_engine_catalog_version(engine, (od_slice){0}) != od_engine_catalog_version(other, (od_slice){0}));
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        uint64_t before = od_engine_catalog_version(engine, (od_slice){0});
        assert_ok(run(engine, changes[i]));
        assert_true(od_engine_catalog_version(engine, (od_slice){0}) != before);
    }
    assert_ok(run(engine, "CREATE TABLE w(i INT)"));
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        uint64_t before = od_engine_catalog_version(engine, (od_slice){0});
        assert_ok(run(engine, same[i]));
        if (od_engine_catalog_version(engine, (od_slice){0}) != before)
            fail_msg("%s changed it", same[i]);
    }
    od_engine_close(engine);
    od_engine_close(other);
}

static void test_stale_catalog_runs_nothing(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    od_execution *execution;
    assert_ok(run(engine, "CREATE TABLE t(i INT)"));
    od_execution_request request = {.sql = od_slice_str("INSERT INTO t VALUES (1)"),
                                    .expected_catalog_version = od_engine_catalog_version(engine, (od_slice){0}) - 1};
    assert_int_equal(od_execution_start(engine, &request, &execution, &err), OD_E_STALE_CATALOG);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 0);
    request.expected_catalog_version++;
    assert_ok(od_execution_start(engine, &request, &execution, &err));
    od_execution_end(execution);
    od_engine_close(engine);
}

/* ---- what SQL may not reach ---- */

static void test_the_host_is_out_of_reach(void **state)
{
    (void)state;
    od_engine *engine = file_engine("jail.db", false, false);
    char sql[300];
    assert_ok(run(engine, "CREATE TABLE t AS SELECT i FROM range(10) r(i)"));
    static const char *const refused[] = {"SELECT * FROM read_csv('/etc/passwd')",
                                          "SELECT * FROM '/etc/passwd'",
                                          "SELECT * FROM read_text('/etc/passwd')",
                                          "SELECT * FROM glob('/etc/*')",
                                          "LOAD 'httpfs'",
                                          "INSTALL httpfs",
                                          "SET enable_external_access = true",
                                          "SET lock_configuration = false",
                                          "SET temp_directory = '/tmp'",
                                          "SELECT getenv('HOME')",
                                          "IMPORT DATABASE '/tmp'",
                                          "SET GLOBAL allowed_configs = ['threads']",
                                          "SET allowed_directories = ['/']"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (run(engine, refused[i]) == OD_OK)
            fail_msg("%s went through", refused[i]);
    (void)snprintf(sql, sizeof sql, "COPY t TO '%s'", path_of("out.csv"));
    assert_fails(engine, sql, OD_E_PERMISSION);
    (void)snprintf(sql, sizeof sql, "ATTACH '%s' AS x", path_of("x.db"));
    assert_fails(engine, sql, OD_E_PERMISSION);
    (void)snprintf(sql, sizeof sql, "EXPORT DATABASE '%s'", path_of("export"));
    assert_true(run(engine, sql) != OD_OK);
    assert_int_equal(access(path_of("out.csv"), F_OK), -1);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 10);
    assert_ok(run(engine, "CHECKPOINT"));
    assert_ok(run(engine, "INSERT INTO t SELECT * FROM range(100000)"));
    assert_ok(run(engine, "FORCE CHECKPOINT"));
    od_engine_close(engine);
    engine = file_engine("jail.db", true, false);
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 100010);
    assert_true(run(engine, "DELETE FROM t") != OD_OK);
    od_engine_close(engine);
}

static void test_spilling_works_behind_the_lock(void **state)
{
    (void)state;
    od_engine_database database = {"spill", path_of("spill.db")};
    od_engine *engine = open_engine(
        &(od_engine_options){.databases = &database, .database_count = 1, .threads = 2, .memory_limit = "60MB"});
    assert_int_equal(ask(engine,
                         "SELECT count(DISTINCT a || b) FROM (SELECT md5(i::VARCHAR) a, md5((i+1)::VARCHAR) b FROM "
                         "range(1200000) t(i))"),
                     1200000);
    od_engine_close(engine);
}

static void test_built_in_functions_are_there(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    assert_int_equal(
        ask(engine, "SELECT date_part('hour', TIMESTAMPTZ '2024-01-01 12:00:00+00' AT TIME ZONE 'Europe/Berlin')"), 13);
    assert_int_equal(ask(engine, "SELECT json_extract('{\"a\": 5}', '$.a')::BIGINT"), 5);
    assert_ok(run(engine, "SELECT date_trunc('day', now()), strftime(current_date, '%Y'), 'a' COLLATE de"));
    od_engine_close(engine);
}

/* ---- files ---- */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

static void test_bad_files_are_named(void **state)
{
    (void)state;
    assert_int_equal(try_open("gone", path_of("no/such/x.db"), false), OD_E_IO);
    assert_non_null(strstr(err.message, "'gone'"));
    assert_non_null(strstr(err.message, "does not exist"));
    assert_int_equal(try_open("absent", path_of("absent.db"), true), OD_E_IO);
    assert_non_null(strstr(err.message, "'absent'"));
    char junk[4096];
    memset(junk, 'x', sizeof junk - 1);
    junk[sizeof junk - 1] = '\0';
    write_file(path_of("junk.db"), junk);
    od_code rc = try_open("junk", path_of("junk.db"), false);
    if (rc != OD_E_CORRUPT)
        fail_msg("%s %s", od_code_name(rc), err.message);
    assert_non_null(strstr(err.message, "'junk'"));
    assert_non_null(strstr(err.message, "junk.db"));
    assert_int_equal(try_open("folder", dir, false), OD_E_IO);
}

/* Another process: holds PATH open, says so on stdout, and waits for the end of stdin. */
static int hold(const char *path)
{
    od_engine *engine = NULL;
    od_engine_database database = {"held", path};
    char byte =
        od_engine_open(&(od_engine_options){.databases = &database, .database_count = 1}, &engine, NULL) == OD_OK;
    if (write(STDOUT_FILENO, &byte, 1) == 1)
        (void)!read(STDIN_FILENO, &byte, 1);
    od_engine_close(engine);
    return 0;
}

static void test_a_locked_file_is_busy(void **state)
{
    (void)state;
    int said[2], wait_for[2];
    char byte = 0;
    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(wait_for), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(wait_for[0], STDIN_FILENO);
        (void)dup2(said[1], STDOUT_FILENO);
        (void)close(wait_for[1]);
        (void)execl("/proc/self/exe", "test_engine", "--hold", path_of("held.db"), (char *)NULL);
        _exit(1);
    }
    (void)close(said[1]);
    (void)close(wait_for[0]);
    assert_int_equal(read(said[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    od_code rc = try_open("held", path_of("held.db"), false);
    (void)close(wait_for[1]);
    (void)waitpid(child, NULL, 0);
    (void)close(said[0]);
    if (rc != OD_E_BUSY)
        fail_msg("%s %s", od_code_name(rc), err.message);
    assert_non_null(strstr(err.message, "'held'"));
    assert_ok(try_open("held", path_of("held.db"), false));
}

static void test_databases_keep_their_names(void **state)
{
    (void)state;
    od_engine_database databases[] = {
        {"memory", path_of("called memory.db")}, {"odd \"name\"", ":memory:"}, {"it's", path_of("it's.db")}};
    od_engine_options options = {.databases = databases, .database_count = 3, .threads = 1};
    for (int round = 0; round < 2; round++) {
        od_engine *engine = open_engine(&options);
        for (size_t i = 0; i < 3; i++) {
            od_execution *execution;
            od_msg *msg;
            od_execution_request request = {
                .sql = od_slice_str(round == 0 ? "CREATE TABLE IF NOT EXISTS here AS SELECT 1" : "SELECT * FROM here"),
                .database = od_slice_str(databases[i].name)};
            od_code rc = od_execution_start(engine, &request, &execution, &err);
            if (round == 1 && i == 1) {
                assert_int_equal(rc, OD_E_CATALOG); /* in memory: gone */
                continue;
            }
            assert_int_equal(rc, OD_OK);
            assert_ok(od_execution_next(execution, &msg, &err));
            od_msg_unref(msg);
            od_execution_end(execution);
            assert_true(od_engine_has_database(engine, od_slice_str(databases[i].name)));
        }
        od_engine_close(engine);
    }
}

/* ---- memory ---- */

static void test_each_allocation_may_fail(void **state)
{
    (void)state;
    static const od_format formats[] = {OD_FORMAT_NATIVE, OD_FORMAT_PLAIN};
    static const char *const texts[] = {
        "SELECT i, i::VARCHAR AS t, [i, NULL] AS l, list_reverse([i, i + 1]) AS r FROM range(3000) t(i)",
        "CREATE TABLE IF NOT EXISTS t(i INT); SELECT {'a': 1, 'b': [1]} AS s, 'x'::ENUM('x', 'y') AS e"};
    od_engine *engine = memory_engine();
    for (size_t f = 0; f < 2; f++)
        for (size_t k = 0; k < 2; k++) {
            od_code rc = OD_E_NO_MEMORY;
            long n = 0;
            for (; n < 3000 && rc != OD_OK; n++) {
                od_alloc_fail_after(n);
                rc = run_as(engine, texts[k], formats[f]);
                od_alloc_fail_after(-1);
                if (rc != OD_OK && rc != OD_E_NO_MEMORY)
                    fail_msg("allocation %ld: %s %s", n, od_code_name(rc), err.message);
            }
            assert_int_equal(rc, OD_OK);
            assert_true(n > 3);
        }
    od_engine_close(engine);
    od_code rc = OD_E_NO_MEMORY;
    for (long n = 0; n < 5000 && rc != OD_OK; n++) {
        engine = NULL;
        od_alloc_fail_after(n);
        rc = od_engine_open(&(od_engine_options){.threads = 1}, &engine, &err);
        od_alloc_fail_after(-1);
        od_engine_close(engine);
        if (rc == OD_E_NO_MEMORY)
            n += n < 20 ? 0 : 37; /* most of them are a keyword each */
        else if (rc != OD_OK)
            fail_msg("allocation %ld: %s %s", n, od_code_name(rc), err.message);
    }
    assert_int_equal(rc, OD_OK);
}

/* ---- interrupt, threads ---- */

static void *interrupt_soon(void *arg)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    od_execution_interrupt(arg);
    return NULL;
}

static void test_a_failure_between_two_fetches_is_no_interrupt(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    for (int i = 0; i < 30; i++) {
        od_execution *execution;
        od_msg *msg;
        od_code rc;
        assert_ok(try_start(
            engine, "SELECT CASE WHEN i < 300000 THEN i ELSE CAST('x' || i AS BIGINT) END FROM range(600000) t(i)",
            &execution));
        assert_ok(od_execution_next(execution, &msg, &err));
        od_msg_unref(msg);
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); /* a slow reader */
        while ((rc = od_execution_next(execution, &msg, &err)) == OD_OK && msg != NULL)
            od_msg_unref(msg);
        assert_true(rc == OD_E_CONVERSION || rc == OD_E_UNKNOWN);
        od_execution_end(execution);
    }
    od_engine_close(engine);
}

static void test_interrupt_is_quick(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "SELECT count(*) FROM range(10000000000) a(i), range(1000) b(j) WHERE (i * j) % 7 = 3",
        "SELECT i, j FROM range(10000000000) a(i), range(1000) b(j) WHERE (i * j) % 7000000 = 3999999999999",
        "SELECT count(*) FROM range(10000000000) a(i), range(1000) b(j) WHERE (i * j) % 7 = 3; SELECT 1",
        "CREATE TABLE x AS SELECT md5(i::VARCHAR) m FROM range(100000000000) t(i)",
        "SELECT * FROM range(100000000) t(i) ORDER BY md5(i::VARCHAR)"};
    od_engine *engine = memory_engine();
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        od_execution *execution;
        pthread_t thread;
        od_msg *msg;
        assert_ok(try_start(engine, texts[i], &execution));
        assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, execution), 0);
        int64_t start = od_clock_ns();
        od_code rc;
        while ((rc = od_execution_next(execution, &msg, &err)) == OD_OK && msg != NULL)
            od_msg_unref(msg);
        int64_t took = (od_clock_ns() - start) / 1000000;
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(rc, OD_E_CANCELLED);
        if (took > 100 + 400) /* 200 and what a busy machine adds */
            fail_msg("%s: %lld ms", texts[i], (long long)took);
        assert_ok(od_execution_next(execution, &msg, &err));
        assert_null(msg);
        od_execution_end(execution);
        assert_int_equal(ask(engine, "SELECT 7::BIGINT"), 7);
    }
    od_engine_close(engine);
}

static void test_interrupt_before_the_first_row(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    od_execution *execution;
    od_msg *msg;
    assert_ok(try_start(engine, "SELECT 1", &execution));
    od_execution_interrupt(execution);
    assert_int_equal(od_execution_next(execution, &msg, &err), OD_E_CANCELLED);
    od_execution_end(execution);
    assert_int_equal(ask(engine, "SELECT 7::BIGINT"), 7);
    od_engine_close(engine);
}

static void *many(void *arg)
{
    od_engine *engine = arg;
    for (int i = 0; i < 60; i++) {
        od_execution *execution;
        od_error why;
        char sql[160];
        (void)snprintf(sql, sizeof sql,
                       i % 4 == 0   ? "INSERT INTO t SELECT %d FROM range(10)"
                       : i % 4 == 1 ? "SELECT count(*), %d FROM t"
                       : i % 4 == 2 ? "SELECT i + %d, repeat('x', 20) FROM range(20000) r(i)"
                                    : "SELECT count(*) FROM t WHERE %d > 0",
                       i);
        od_execution_request request = {.sql = od_slice_str(sql),
                                        .format = i % 3 == 0 ? OD_FORMAT_PLAIN : OD_FORMAT_NATIVE};
        if (od_execution_start(engine, &request, &execution, &why) != OD_OK)
            return "start";
        for (;;) {
            od_msg *msg;
            if (od_execution_next(execution, &msg, &why) != OD_OK) {
                od_execution_end(execution);
                return "next";
            }
            if (msg == NULL)
                break;
            od_msg_unref(msg);
        }
        od_execution_end(execution);
    }
    return NULL;
}

static void test_eight_threads(void **state)
{
    (void)state;
    od_engine *engine = memory_engine();
    pthread_t threads[8];
    assert_ok(run(engine, "CREATE TABLE t(i BIGINT)"));
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many, engine), 0);
    for (int i = 0; i < 8; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        if (failed != NULL)
            fail_msg("%s", (const char *)failed);
    }
    assert_int_equal(ask(engine, "SELECT count(*) FROM t"), 8 * 15 * 10);
    od_engine_close(engine);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_locked_file_is_busy),
        cmocka_unit_test(test_errors_have_kind_state_and_bare_text),
        cmocka_unit_test(test_unknown_database_is_refused),
        cmocka_unit_test(test_several_statements_give_the_last_result),
        cmocka_unit_test(test_repeated_statements_see_new_rows_and_new_tables),
        cmocka_unit_test(test_many_statements_are_kept_within_bounds),
        cmocka_unit_test(test_session_state_does_not_leak),
        cmocka_unit_test(test_open_transactions_are_rolled_back),
        cmocka_unit_test(test_an_unfinished_result_leaves_a_clean_connection),
        cmocka_unit_test(test_catalog_version_follows_definitions),
        cmocka_unit_test(test_stale_catalog_runs_nothing),
        cmocka_unit_test(test_the_host_is_out_of_reach),
        cmocka_unit_test(test_spilling_works_behind_the_lock),
        cmocka_unit_test(test_built_in_functions_are_there),
        cmocka_unit_test(test_bad_files_are_named),
        cmocka_unit_test(test_databases_keep_their_names),
        cmocka_unit_test(test_each_allocation_may_fail),
        cmocka_unit_test(test_a_failure_between_two_fetches_is_no_interrupt),
        cmocka_unit_test(test_interrupt_is_quick),
        cmocka_unit_test(test_interrupt_before_the_first_row),
        cmocka_unit_test(test_eight_threads),
    };
    if (argc > 2 && strcmp(argv[1], "--hold") == 0)
        return hold(argv[2]);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
