/* From the workers that registered and a request, with its SQL, to the worker that gets it: tables of tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/gateway/reading.h"
#include "query/gateway/registry.h"
#include "server/host.h"

enum { WORKERS = 4, TURNS = 3, NAMES = 4 };

typedef struct {
    const char *id;
    const char *databases[NAMES], *tables[NAMES];
    const char *context;
    unsigned max, running; /* executions */
    bool down;
} worker;

static size_t count_of(const char *const *names)
{
    size_t count = 0;

    while (count < NAMES && names[count])
        count++;
    return count;
}

static void add(registry *r, const worker *w, int number)
{
    char place[30];
    worker_entry **list;
    size_t count;

    snprintf(place, sizeof place, "127.0.0.1:%d", number + 1);
    assert_int_equal(registry_register(r,
                                       &(od_registration){.worker_id = w->id,
                                                          .endpoint = place,
                                                          .databases = w->databases,
                                                          .database_count = count_of(w->databases),
                                                          .tables = w->tables,
                                                          .table_count = count_of(w->tables),
                                                          .compute_context = w->context,
                                                          .max_concurrency = w->max},
                                       0, NULL),
                     OD_OK);
    list = registry_list(r, &count);
    for (unsigned i = 0; i < w->running; i++)
        assert_true(worker_entry_enter(list[count - 1], true));
    if (w->down)
        worker_entry_failed(list[count - 1], 0);
    registry_list_free(list, count);
}

static void choose(registry *r, const char *database, const char *context, const char *sql, char *out, size_t size)
{
    registry_wish wish = {.route = {.database = od_slice_str(database), .compute_context = od_slice_str(context)}};
    worker_entry *w = NULL;
    reading read = {0};
    od_code rc;

    if (registry_needs_tables(r, &wish, NULL, 0, false, 1)) {
        reading_take(&read, od_server_host(), od_slice_str(sql), wish.route.database);
        wish.tables = &read.tables;
    }
    rc = registry_pick(r, &wish, NULL, 0, 1, &w, NULL);
    snprintf(out, size, "%s", rc == OD_OK ? w->id : od_code_name(rc));
    if (w)
        worker_entry_leave(w);
    worker_entry_unref(w);
    reading_release(&read);
}

/* What each worker has in common. */
#define SHOP .databases = {"shop"}
#define OTHER .databases = {"other"}

static void test_requests(void **state)
{
    static const struct {
        const char *name;
        worker workers[WORKERS];
        const char *database, *context, *sql;
        const char *expected[TURNS]; /* for the same request again and again */
    } rows[] = {
        /* database affinity */
        {"nobody is there", {{0}}, "shop", "", "FROM t", {"PRECONDITION", "PRECONDITION", "PRECONDITION"}},
        {"its database", {{"a", OTHER}, {"b", SHOP}}, "shop", "", "FROM t", {"b", "b", "b"}},
        {"only others'", {{"a", OTHER}}, "shop", "", "FROM t", {"NOT_FOUND", "NOT_FOUND", "NOT_FOUND"}},
        {"others' even if they have the table",
         {{"a", OTHER, .tables = {"t"}}, {"b", SHOP}},
         "shop",
         "",
         "FROM t",
         {"b", "b", "b"}},
        {"others' even if they have the context",
         {{"a", OTHER, .context = "x"}, {"b", SHOP}},
         "shop",
         "x",
         "FROM t",
         {"b", "b", "b"}},
        {"others' never, its own is down",
         {{"a", OTHER}, {"b", SHOP, .down = true}},
         "shop",
         "",
         "FROM t",
         {"b", "b", "b"}},
        {"its own before one that tells nothing", {{.id = "a"}, {"b", SHOP}}, "shop", "", "FROM t", {"b", "b", "b"}},
        {"one that tells nothing before none", {{.id = "a"}, {"b", OTHER}}, "shop", "", "FROM t", {"a", "a", "a"}},
        {"a tie", {{"a", SHOP}, {"b", SHOP}, {"c", OTHER}}, "shop", "", "FROM t", {"a", "b", "a"}},
        {"no database: any of them", {{"a", SHOP}, {"b", OTHER}}, "", "", "FROM t", {"a", "b", "a"}},
        /* table co-location */
        {"the table's", {{"a", SHOP}, {"b", SHOP, .tables = {"t"}}}, "shop", "", "FROM t", {"b", "b", "b"}},
        {"a tie of tables",
         {{"a", SHOP, .tables = {"t"}}, {"b", SHOP, .tables = {"t", "u"}}, {"c", SHOP}},
         "shop",
         "",
         "FROM t",
         {"a", "b", "a"}},
        {"most of the tables",
         {{"a", SHOP, .tables = {"t"}}, {"b", SHOP, .tables = {"t", "u"}}},
         "shop",
         "",
         "FROM t JOIN u USING (i)",
         {"b", "b", "b"}},
        {"no table of theirs", {{"a", SHOP, .tables = {"t"}}, {"b", SHOP}}, "shop", "", "FROM x", {"a", "b", "a"}},
        {"no table at all", {{"a", SHOP, .tables = {"t"}}, {"b", SHOP}}, "shop", "", "SELECT 't'", {"a", "b", "a"}},
        {"not in a string",
         {{"a", SHOP}, {"b", SHOP, .tables = {"t"}}},
         "shop",
         "",
         "SELECT 'FROM t' FROM u",
         {"a", "b", "a"}},
        {"not in a comment",
         {{"a", SHOP}, {"b", SHOP, .tables = {"t"}}},
         "shop",
         "",
         "FROM u -- FROM t",
         {"a", "b", "a"}},
        {"not a common table",
         {{"a", SHOP}, {"b", SHOP, .tables = {"t"}}},
         "shop",
         "",
         "WITH t AS (FROM u) FROM t",
         {"a", "b", "a"}},
        {"in a common table",
         {{"a", SHOP}, {"b", SHOP, .tables = {"u"}}},
         "shop",
         "",
         "WITH t AS (FROM u) FROM t",
         {"b", "b", "b"}},
        {"in a subquery",
         {{"a", SHOP}, {"b", SHOP, .tables = {"u"}}},
         "shop",
         "",
         "SELECT 1 WHERE 1 IN (SELECT i FROM u)",
         {"b", "b", "b"}},
        {"of an insert",
         {{"a", SHOP}, {"b", SHOP, .tables = {"u"}}},
         "shop",
         "",
         "INSERT INTO u VALUES (1)",
         {"b", "b", "b"}},
        {"quoted, of another case",
         {{"a", SHOP}, {"b", SHOP, .tables = {"Main.T"}}},
         "shop",
         "",
         "FROM \"shop\".\"MAIN\".\"t\"",
         {"b", "b", "b"}},
        {"with its schema",
         {{"a", SHOP, .tables = {"x.t"}}, {"b", SHOP, .tables = {"y.t"}}},
         "shop",
         "",
         "FROM y.t",
         {"b", "b", "b"}},
        {"with its database",
         {{"a", SHOP, .tables = {"other.t"}}, {"b", SHOP, .tables = {"shop.t"}}},
         "shop",
         "",
         "FROM t",
         {"b", "b", "b"}},
        {"by prefix",
         {{"a", SHOP}, {"b", SHOP, .tables = {"analytics.*"}}},
         "shop",
         "",
         "FROM analytics.events",
         {"b", "b", "b"}},
        {"by prefix, another",
         {{"a", SHOP}, {"b", SHOP, .tables = {"analytics.*"}}},
         "shop",
         "",
         "FROM analytics2.events",
         {"a", "b", "a"}},
        {"by prefix, the database",
         {{"a", .databases = {"analytics"}}, {"b", .databases = {"analytics"}, .tables = {"analytics.*"}}},
         "analytics",
         "",
         "FROM events",
         {"b", "b", "b"}},
        {"what cannot be parsed",
         {{"a", SHOP, .tables = {"t"}}, {"b", SHOP}},
         "shop",
         "",
         "FROM FROM t",
         {"a", "b", "a"}},
        {"its table's is down",
         {{"a", SHOP}, {"b", SHOP, .tables = {"t"}, .down = true}},
         "shop",
         "",
         "FROM t",
         {"a", "a", "a"}},
        {"its table's is full",
         {{"a", SHOP}, {"b", SHOP, .tables = {"t"}, .max = 1, .running = 1}},
         "shop",
         "",
         "FROM t",
         {"a", "a", "a"}},
        /* compute context */
        {"the context's",
         {{"a", SHOP, .context = "eu"}, {"b", SHOP, .context = "us"}},
         "shop",
         "us",
         "FROM t",
         {"b", "b", "b"}},
        {"a context of nobody", {{"a", SHOP, .context = "eu"}, {"b", SHOP}}, "shop", "us", "FROM t", {"a", "b", "a"}},
        {"no context wished", {{"a", SHOP, .context = "eu"}, {"b", SHOP}}, "shop", "", "FROM t", {"a", "b", "a"}},
        {"a tie of contexts",
         {{"a", SHOP, .context = "us"}, {"b", SHOP}, {"c", SHOP, .context = "us"}},
         "shop",
         "us",
         "FROM t",
         {"a", "c", "a"}},
        {"a table before a context",
         {{"a", SHOP, .context = "us"}, {"b", SHOP, .tables = {"t"}}},
         "shop",
         "us",
         "FROM t",
         {"b", "b", "b"}},
        {"a context among those of a table",
         {{"a", SHOP, .tables = {"t"}}, {"b", SHOP, .tables = {"t"}, .context = "us"}},
         "shop",
         "us",
         "FROM t",
         {"b", "b", "b"}},
        {"the context's is down",
         {{"a", SHOP}, {"b", SHOP, .context = "us", .down = true}},
         "shop",
         "us",
         "FROM t",
         {"a", "a", "a"}},
        /* round robin, health, room */
        {"round robin", {{"a", SHOP}, {"b", SHOP}, {"c", SHOP}}, "shop", "", "FROM t", {"a", "b", "c"}},
        {"round robin of the healthy",
         {{"a", SHOP}, {"b", SHOP, .down = true}, {"c", SHOP}},
         "shop",
         "",
         "FROM t",
         {"a", "c", "a"}},
        {"all are down", {{"a", SHOP, .down = true}, {"b", SHOP, .down = true}}, "shop", "", "FROM t", {"a", "b", "a"}},
        {"free before full",
         {{"a", SHOP, .max = 2, .running = 2}, {"b", SHOP, .max = 2, .running = 1}},
         "shop",
         "",
         "FROM t",
         {"b", "b", "b"}},
        {"all are full",
         {{"a", SHOP, .max = 2, .running = 2}, {"b", SHOP, .max = 1, .running = 1}},
         "shop",
         "",
         "FROM t",
         {"BUSY", "BUSY", "BUSY"}},
        {"full, and others' are free",
         {{"a", SHOP, .max = 1, .running = 1}, {"b", OTHER}},
         "shop",
         "",
         "FROM t",
         {"BUSY", "BUSY", "BUSY"}},
        {"no limit", {{"a", SHOP, .running = 1000}}, "shop", "", "FROM t", {"a", "a", "a"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        registry *r = NULL;

        assert_int_equal(registry_create(NULL, 0, 90000, &r, NULL), OD_OK);
        for (int k = 0; k < WORKERS && rows[i].workers[k].id; k++)
            add(r, &rows[i].workers[k], k);
        for (int turn = 0; turn < TURNS; turn++) {
            char got[40];

            choose(r, rows[i].database, rows[i].context, rows[i].sql, got, sizeof got);
            if (strcmp(got, rows[i].expected[turn]) != 0)
                fail_msg("%s, turn %d: %s", rows[i].name, turn, got);
        }
        registry_free(r);
    }
}

/* ---- what is asked of the parser ---- */

static void test_nothing_is_parsed_where_nothing_depends_on_it(void **state)
{
    static const struct {
        worker workers[WORKERS];
        bool needed;
    } rows[] = {
        {{{"a", SHOP}, {"b", SHOP}}, false},
        {{{"a", SHOP, .tables = {"t"}}}, false},
        {{{"a", SHOP, .tables = {"t"}}, {"b", OTHER}}, false},
        {{{"a", SHOP, .tables = {"t"}}, {"b", SHOP, .down = true}}, false},
        {{{"a", SHOP, .tables = {"t"}}, {"b", SHOP}}, true},
    };
    const registry_wish wish = {.route = {.database = od_slice_str("shop")}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        registry *r = NULL;

        assert_int_equal(registry_create(NULL, 0, 90000, &r, NULL), OD_OK);
        for (int k = 0; k < WORKERS && rows[i].workers[k].id; k++)
            add(r, &rows[i].workers[k], k);
        if (registry_needs_tables(r, &wish, NULL, 0, false, 1) != rows[i].needed)
            fail_msg("row %zu", i);
        registry_free(r);
    }
}

static void test_what_may_run_twice(void **state)
{
    static const struct {
        const char *sql;
        bool only_reads;
    } rows[] = {
        {"SELECT 1", true},
        {"FROM t", true},
        {"WITH a AS (FROM t) SELECT * FROM a JOIN b USING (i) WHERE EXISTS (FROM c) ORDER BY 1", true},
        {"VALUES (1)", true},
        {"SELECT * FROM range(10)", true},
        {"SELECT * FROM read_parquet('x')", true},
        {"SHOW TABLES", true},
        {"DESCRIBE t", true},
        {"EXPLAIN ANALYZE SELECT 1", true},
        {"SELECT 1; SELECT 2", true},
        {"FROM a UNION ALL FROM b", true},
        {"FROM duckdb_tables()", true},
        {"SELECT nextval('s')", false},
        {"SELECT (SELECT nextval('s')) FROM t", false},
        {"FROM postgres_execute('db', 'DELETE FROM t')", false},
        {"FROM (FROM checkpoint())", false},
        {"INSERT INTO t VALUES (1)", false},
        {"EXPLAIN ANALYZE INSERT INTO t VALUES (1)", false},
        {"UPDATE t SET i = 1", false},
        {"DELETE FROM t", false},
        {"MERGE INTO t USING u ON t.i = u.i WHEN MATCHED THEN DELETE", false},
        {"CREATE TABLE x AS FROM t", false},
        {"DROP TABLE t", false},
        {"SELECT 1; DELETE FROM t", false},
        {"DELETE FROM t; SELECT 1", false},
        {"COPY t TO 'x'", false},
        {"CALL f()", false},
        {"SET threads = 1", false},
        {"EXECUTE p", false},
        {"", false},
        {"FROM FROM", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        reading read = {0};

        reading_take(&read, od_server_host(), od_slice_str(rows[i].sql), od_slice_str(""));
        if (read.only_reads != rows[i].only_reads)
            fail_msg("%s", rows[i].sql);
        reading_release(&read);
    }
}

static void test_a_huge_statement_is_not_parsed(void **state)
{
    char *sql = malloc(READING_MAX + 100);
    reading read = {0};

    (void)state;
    assert_non_null(sql);
    memset(sql, ' ', READING_MAX + 1);
    memcpy(sql, "FROM t", 6);
    reading_take(&read, od_server_host(), od_slice_of(sql, READING_MAX + 1), od_slice_str(""));
    assert_false(read.only_reads);
    assert_int_equal(read.tables.count, 0);
    reading_release(&read);
    reading_take(&read, od_server_host(), od_slice_of(sql, READING_MAX), od_slice_str(""));
    assert_true(read.only_reads);
    assert_int_equal(read.tables.count, 1);
    reading_release(&read);
    free(sql);
}

/* Every word of the parser's, and no crash on what is cut off. */
static void test_tables_of_statements(void **state)
{
    static const struct {
        const char *sql, *tables; /* as a list of first forms */
    } rows[] = {
        {"FROM a, b JOIN c ON true", "a b c"},
        {"INSERT INTO a SELECT * FROM b", "a b"},
        {"UPDATE a SET i = (SELECT max(i) FROM c) FROM b", "a b c"},
        {"DELETE FROM a USING b WHERE i IN (FROM c)", "a b c"},
        {"MERGE INTO a USING b ON a.i = b.i WHEN MATCHED THEN DELETE", "a b"},
        {"CREATE TABLE a AS FROM b", "a b"},
        {"CREATE VIEW a AS FROM b", "a b"},
        {"CREATE INDEX i ON a(x)", "a"},
        {"ALTER TABLE a ADD COLUMN j INTEGER", "a"},
        {"DROP TABLE a", "a"},
        {"COPY a TO 'x'", "a"},
        {"COPY (FROM a) TO 'x'", "a"},
        {"PIVOT a ON x IN (1, 2) USING sum(y)", "a"},
        {"WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r JOIN a USING (i)) FROM r", "a"},
        {"SELECT * FROM range(3), a", "a"},
        {"FROM a QUALIFY row_number() OVER (ORDER BY (SELECT 1 FROM b)) = 1", "a b"},
        {"SELECT count(*) FILTER (WHERE x IN (FROM b)) FROM a GROUP BY ALL HAVING (SELECT true FROM c)", "a b c"},
        {"SELECT 1 LIMIT (SELECT 1 FROM a)", "a"},
        {"EXPLAIN FROM a", "a"},
        {"FROM a; FROM b", "a b"},
        {"WITH a AS (FROM a) FROM a", "a"},
        {"SELECT 1", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char got[200] = "";
        reading read = {0};

        reading_take(&read, od_server_host(), od_slice_str(rows[i].sql), od_slice_str(""));
        for (size_t k = 0; k < read.tables.count; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", k ? " " : "", read.tables.refs[k].forms[0]);
        if (strcmp(got, rows[i].tables) != 0)
            fail_msg("%s: '%s'", rows[i].sql, got);
        reading_release(&read);
        for (size_t cut = strlen(rows[i].sql); cut-- > 0;) {
            reading_take(&read, od_server_host(), od_slice_of(rows[i].sql, cut), od_slice_str("x"));
            reading_release(&read);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_nothing_is_parsed_where_nothing_depends_on_it),
        cmocka_unit_test(test_what_may_run_twice),
        cmocka_unit_test(test_a_huge_statement_is_not_parsed),
        cmocka_unit_test(test_tables_of_statements),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
