/* From a statement with openduck_run to what runs where: parsing, places, bridges, EXPLAIN, and the texts that are sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "query/gateway/hybrid/bridges.h"
#include "query/gateway/hybrid/hint.h"
#include "query/gateway/hybrid/placement.h"
#include "server/host.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static od_engine *engine;
static unsigned remote_looks;

/* Tables beginning with l are local, those with r remote, with b both. The digits after that are the size. */
static uint64_t size_of(const plan_node *scan)
{
    const char *digits = scan->name + strcspn(scan->name, "0123456789");

    return *digits ? strtoull(digits, NULL, 10) : 1;
}

static od_code look_local(void *arg, plan_node *const *scans, size_t count, od_error *err)
{
    (void)arg;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        scans[i]->facts.local = scans[i]->name[0] == 'l' || scans[i]->name[0] == 'b';
        scans[i]->facts.local_size = size_of(scans[i]);
    }
    return OD_OK;
}

static od_code look_remote(void *arg, plan_node *const *scans, size_t count, od_error *err)
{
    (void)arg;
    (void)err;
    remote_looks++;
    for (size_t i = 0; i < count; i++) {
        scans[i]->facts.remote = scans[i]->name[0] == 'r' || scans[i]->name[0] == 'b';
        scans[i]->facts.remote_size = size_of(scans[i]);
    }
    return OD_OK;
}

static const placement_catalog CATALOG = {NULL, look_local, look_remote};

static od_code make(const char *sql, plan *out, od_error *err)
{
    od_code rc = hint_read(engine, od_slice_str(sql), out, err);

    if (rc == OD_OK)
        rc = resolve_auto(out, &CATALOG, err);
    if (rc == OD_OK)
        rc = insert_bridges(out, err);
    return rc;
}

static void make_well(const char *sql, plan *out)
{
    od_error err = {0};

    if (make(sql, out, &err) != OD_OK)
        fail_msg("%s: %s", sql, err.message);
}

static void expect_plan(const char *sql, const char *expected)
{
    od_buf text = {0};
    plan p;

    make_well(sql, &p);
    assert_int_equal(plan_explain(&p, &text, NULL), OD_OK);
    assert_string_equal(od_buf_cstr(&text), expected);
    od_buf_release(&text);
    plan_release(&p);
}

static void expect_text(const plan_node *fragment, const char *expected)
{
    od_buf text = {0};

    assert_int_equal(plan_text(fragment, "b", &text, NULL), OD_OK);
    assert_string_equal(od_buf_cstr(&text), expected);
    od_buf_release(&text);
}

/* ---- parsing ---- */

static void test_a_call_is_read_however_it_is_written(void **state)
{
    static const struct {
        const char *sql, *inner;
        placement where;
    } cases[] = {
        {"FROM openduck_run('REMOTE', 'SELECT 1')", "SELECT 1", PLACE_REMOTE},
        {"FROM OpenDuck_Run('local','SELECT ''it''''s''')", "SELECT 'it''s'", PLACE_LOCAL},
        {"SELECT (SELECT max(i) FROM openduck_run ( $$Auto$$ , $q$SELECT ')'$q$ ))", "SELECT ')'", PLACE_AUTO},
        {"FROM \"openduck_run\"(/* ( */ 'REMOTE', -- )\n 'SELECT 1')", "SELECT 1", PLACE_REMOTE},
        {"FROM main.openduck_run('REMOTE', 'SELECT 1;') t(x)", "SELECT 1 ", PLACE_REMOTE},
        {"CALL openduck_run('REMOTE', 'DROP TABLE t')", "DROP TABLE t", PLACE_REMOTE},
        {"openduck_run('REMOTE', 'SELECT (1)')", "SELECT (1)", PLACE_REMOTE},
        {"FROM\u00a0openduck_run('REMOTE',\u2003'SELECT 1')", "SELECT 1", PLACE_REMOTE},
        {"COPY (FROM openduck_run('REMOTE', 'SELECT 1')) TO 'x.csv'", "SELECT 1", PLACE_REMOTE},
        {"UPDATE t SET a = (FROM openduck_run('REMOTE', 'SELECT 1'))", "SELECT 1", PLACE_REMOTE},
        {"DELETE FROM t USING openduck_run('REMOTE', 'SELECT 1') s RETURNING 1", "SELECT 1", PLACE_REMOTE},
        {"PIVOT (FROM openduck_run('REMOTE', 'SELECT 1 AS i')) ON i IN (1) USING count(*)", "SELECT 1 AS i",
         PLACE_REMOTE},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_error err = {0};
        plan p;
        const plan_node *node;

        assert_true(hint_may_be(od_slice_str(cases[i].sql)));
        if (hint_read(engine, od_slice_str(cases[i].sql), &p, &err) != OD_OK)
            fail_msg("%s: %s", cases[i].sql, err.message);
        assert_int_equal(p.fragment_count, 2);
        for (node = p.root->children[0]; node->kind != PLAN_FRAGMENT; node = node->children[node->child_count - 1])
            assert_true(node->child_count > 0);
        assert_int_equal(node->where, cases[i].where);
        assert_string_equal(node->sql, cases[i].inner);
        assert_int_equal(node->number, 1);
        plan_release(&p);
    }
}

static void test_what_only_looks_like_a_call_is_none(void **state)
{
    static const char *const cases[] = {
        "SELECT 'openduck_run(''REMOTE'', ''SELECT 1'')'",
        "SELECT 1 -- FROM openduck_run('REMOTE', 'SELECT 1')",
        "SELECT $$ FROM openduck_run('REMOTE', 'SELECT 1') $$ FROM openduck_run",
        "SELECT \"openduck_run\" FROM openduck_run2('REMOTE', 'x')",
    };
    plan p;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(hint_read(engine, od_slice_str(cases[i]), &p, NULL), OD_OK);
        assert_int_equal(p.fragment_count, 1);
        plan_release(&p);
    }
    assert_false(hint_may_be(od_slice_str("SELECT open_duck_run")));
    assert_false(hint_may_be(od_slice_str("openduck_ru")));
    assert_true(hint_may_be(od_slice_str("xOPENDUCK_RUN")));
}

static void test_wrong_calls_are_refused(void **state)
{
    static const struct {
        const char *sql, *says;
    } cases[] = {
        {"FROM openduck_run('HERE', 'SELECT 1')", "not 'HERE'"},
        {"FROM openduck_run('REMOTE')", "two string literals"},
        {"FROM openduck_run('REMOTE', 'SELECT 1', 'x')", "two string literals"},
        {"FROM openduck_run('REMOTE', NULL)", "two string literals"},
        {"FROM openduck_run('REMOTE', 'a' || 'b')", "two string literals"},
        {"FROM openduck_run('REMOTE', query := 'SELECT 1')", "two string literals"},
        {"SELECT openduck_run('REMOTE', 'SELECT 1')", "belongs into FROM"},
        {"SELECT 1; FROM openduck_run('REMOTE', 'SELECT 1')", "come alone"},
        {"FROM openduck_run('REMOTE', 'DROP TABLE t')", "only a query"},
        {"FROM openduck_run('REMOTE', 'SELECT 1; SELECT 2')", "only a query"},
        {"FROM openduck_run('REMOTE', '')", "no statement"},
        {"FROM openduck_run('LOCAL', 'SELECT 1'), openduck_run('REMOTE', 'SELEKT')", "openduck_run('REMOTE') 2"},
        {"FROM openduck_run('LOCAL', 'FROM openduck_run(''AWAY'', ''x'')')", "openduck_run('LOCAL') 1"},
        {"FROM openduck_run('LOCAL', 'SELECT 1') WITH ORDINALITY", "WITH ORDINALITY"},
        {"SELEKT openduck_run", "SELEKT"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        od_error err = {0};
        plan p;

        assert_int_not_equal(hint_read(engine, od_slice_str(cases[i].sql), &p, &err), OD_OK);
        assert_null(p.root);
        if (!strstr(err.message, cases[i].says))
            fail_msg("%s: %s", cases[i].sql, err.message);
    }
}

static void test_calls_are_bounded_in_number_and_depth(void **state)
{
    od_buf sql = {0};
    od_error err = {0};
    plan p;

    (void)state;
    for (int i = 0; i < HINT_MOST - 1; i++)
        assert_int_equal(od_buf_printf(&sql, NULL, "%sFROM openduck_run('LOCAL', 'SELECT 1')", i ? " UNION ALL " : ""),
                         OD_OK);
    assert_int_equal(hint_read(engine, od_slice_of(sql.data, sql.len), &p, &err), OD_OK);
    assert_int_equal(p.fragment_count, HINT_MOST);
    plan_release(&p);
    assert_int_equal(od_buf_printf(&sql, NULL, " UNION ALL FROM openduck_run('LOCAL', 'SELECT 1')"), OD_OK);
    assert_int_equal(hint_read(engine, od_slice_of(sql.data, sql.len), &p, &err), OD_E_INVALID);
    sql.len = 0;
    for (int i = 0; i < HINT_DEEPEST + 1; i++)
        assert_int_equal(od_buf_printf(&sql, NULL, "FROM openduck_run('LOCAL', $q%d$", i), OD_OK);
    assert_int_equal(od_buf_printf(&sql, NULL, "SELECT 1"), OD_OK);
    for (int i = HINT_DEEPEST; i >= 0; i--)
        assert_int_equal(od_buf_printf(&sql, NULL, "$q%d$)", i), OD_OK);
    assert_int_equal(hint_read(engine, od_slice_of(sql.data, sql.len), &p, &err), OD_E_INVALID);
    assert_non_null(strstr(err.message, "in each other"));
    od_buf_release(&sql);
}

/* ---- places ---- */

static void test_a_statement_runs_where_its_tables_are(void **state)
{
    static const struct {
        const char *sql;
        placement where;
        unsigned bridges, remote_looks;
    } cases[] = {
        {"FROM l JOIN openduck_run('REMOTE', 'FROM r') x USING (i)", PLACE_LOCAL, 1, 0},
        {"FROM r JOIN openduck_run('LOCAL', 'FROM l') x USING (i)", PLACE_REMOTE, 1, 0},
        {"FROM r JOIN openduck_run('REMOTE', 'FROM r') x USING (i)", PLACE_REMOTE, 0, 0},
        {"FROM openduck_run('AUTO', 'FROM r')", PLACE_REMOTE, 0, 0},
        {"FROM openduck_run('AUTO', 'FROM l')", PLACE_LOCAL, 0, 0},
        {"FROM openduck_run('AUTO', 'FROM b')", PLACE_LOCAL, 0, 0},
        {"FROM openduck_run('AUTO', 'SELECT 1')", PLACE_LOCAL, 0, 0},
        {"FROM openduck_run('LOCAL', 'FROM r'), openduck_run('REMOTE', 'FROM l')", PLACE_LOCAL, 1, 0},
        {"FROM openduck_run('AUTO', 'FROM l5, r6')", PLACE_REMOTE, 1, 1},
        {"FROM openduck_run('AUTO', 'FROM l7, r6')", PLACE_LOCAL, 1, 1},
        {"FROM openduck_run('AUTO', 'FROM l7, r3 a, r3 c, r3 d')", PLACE_REMOTE, 1, 1},
        {"FROM openduck_run('AUTO', 'WITH l AS (FROM r) FROM l')", PLACE_REMOTE, 0, 0},
        {"INSERT INTO l SELECT * FROM r9, openduck_run('REMOTE', 'FROM r')", PLACE_LOCAL, 2, 1},
        {"INSERT INTO r FROM openduck_run('LOCAL', 'FROM l')", PLACE_REMOTE, 1, 0},
        {"UPDATE l1 SET i = s.i FROM r9 s, openduck_run('REMOTE', 'FROM r') t", PLACE_LOCAL, 2, 1},
        {"CREATE TABLE x AS FROM openduck_run('REMOTE', 'FROM r')", PLACE_LOCAL, 1, 0},
        {"CALL openduck_run('REMOTE', 'CREATE TABLE x (i INTEGER)')", PLACE_REMOTE, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        plan p;

        remote_looks = 0;
        make_well(cases[i].sql, &p);
        if (p.root->where != cases[i].where || p.bridge_count != cases[i].bridges ||
            remote_looks != cases[i].remote_looks)
            fail_msg("%s: %s, %u bridges, %u looks", cases[i].sql, placement_text(p.root->where), p.bridge_count,
                     remote_looks);
        plan_release(&p);
    }
}

static void test_tables_that_are_changed_are_at_one_place(void **state)
{
    od_error err = {0};
    plan p;

    (void)state;
    assert_int_equal(make("INSERT INTO l SELECT * FROM r AT (VERSION => 1), openduck_run('LOCAL', 'FROM l')", &p, &err),
                     OD_E_NOT_IMPLEMENTED);
    assert_non_null(strstr(err.message, "'r'"));
    plan_release(&p);
    assert_int_equal(make("FROM l, ONLY (r), openduck_run('LOCAL', 'FROM l') x", &p, &err), OD_OK);
    assert_int_equal(p.root->where, PLACE_REMOTE);
    plan_release(&p);
}

/* ---- EXPLAIN ---- */

static void test_explain_shows_places_and_bridges(void **state)
{
    (void)state;
    expect_plan("SELECT * FROM l JOIN openduck_run('REMOTE', 'FROM r') r ON l.id = r.id",
                "[LOCAL] HashJoin(l.id = r.id)\n"
                "  [LOCAL] Scan(l)\n"
                "  [LOCAL] Bridge(R\u2192L)\n"
                "    [REMOTE] Scan(r)\n");
    expect_plan(
        "EXPLAIN SELECT a, count(*) FROM l LEFT JOIN openduck_run('REMOTE', 'SELECT a FROM r, "
        "openduck_run(''LOCAL'', ''FROM l WHERE b > 1 LIMIT 3'')') USING (a) GROUP BY a HAVING count(*) > 1 ORDER BY a",
        "[LOCAL] OrderBy(a)\n"
        "  [LOCAL] Project(a, count_star())\n"
        "    [LOCAL] Filter(count_star() > 1)\n"
        "      [LOCAL] Aggregate(a)\n"
        "        [LOCAL] HashJoin(LEFT, a)\n"
        "          [LOCAL] Scan(l)\n"
        "          [LOCAL] Bridge(R\u2192L)\n"
        "            [REMOTE] Project(a)\n"
        "              [REMOTE] CrossProduct\n"
        "                [REMOTE] Scan(r)\n"
        "                [REMOTE] Bridge(L\u2192R)\n"
        "                  [LOCAL] Limit(3)\n"
        "                    [LOCAL] Filter(b > 1)\n"
        "                      [LOCAL] Scan(l)\n");
    expect_plan("WITH x AS (FROM openduck_run('REMOTE', 'FROM r')) SELECT * FROM l WHERE i IN (SELECT i FROM x) "
                "UNION ALL FROM x",
                "[LOCAL] With\n"
                "  [LOCAL] Cte(x)\n"
                "    [LOCAL] Bridge(R\u2192L)\n"
                "      [REMOTE] Scan(r)\n"
                "  [LOCAL] Union(ALL)\n"
                "    [LOCAL] Filter(i = ANY(SELECT i FROM x))\n"
                "      [LOCAL] Scan(l)\n"
                "      [LOCAL] Project(i)\n"
                "        [LOCAL] CteScan(x)\n"
                "    [LOCAL] CteScan(x)\n");
}

static void test_bridges_have_numbers_of_their_own(void **state)
{
    const plan_node *join, *first, *second;
    plan p;

    (void)state;
    make_well(
        "FROM openduck_run('REMOTE', 'FROM r') a, openduck_run('LOCAL', 'FROM openduck_run(''REMOTE'', ''FROM r'')') c",
        &p);
    join = p.root->children[0];
    first = join->children[0];
    second = join->children[1]->children[0];
    assert_int_equal(p.bridge_count, 2);
    assert_int_equal(first->kind, PLAN_BRIDGE);
    assert_int_equal(second->kind, PLAN_BRIDGE);
    assert_int_not_equal(first->number, second->number);
    plan_release(&p);
}

/* ---- texts ---- */

static void test_texts_read_what_was_moved(void **state)
{
    plan p;

    (void)state;
    make_well(
        "SELECT openduck_run.i, c.* FROM openduck_run('REMOTE', 'FROM r'), l, openduck_run('LOCAL', 'FROM l -- x') c "
        "WHERE 'openduck_run(' <> '';",
        &p);
    expect_text(p.root, "SELECT openduck_run.i, c.* FROM temp.main.\"b_1\" AS \"openduck_run\" , l, (FROM l -- x\n)  c "
                        "WHERE 'openduck_run(' <> '' ");
    plan_release(&p);
    make_well("SELECT l9.i FROM l9 JOIN main . r2 ON true, r1 AS x, openduck_run('REMOTE', 'SELECT 1')", &p);
    expect_text(p.root, "SELECT l9.i FROM l9 JOIN temp.main.\"b_1\" AS \"r2\" ON true, temp.main.\"b_2\" AS x, "
                        "temp.main.\"b_3\" AS \"openduck_run\" ");
    plan_release(&p);
    make_well("FROM l9, r1 *, openduck_run('LOCAL', 'SELECT 1') x", &p);
    expect_text(p.root, "FROM l9, temp.main.\"b_1\" AS \"r1\" , (SELECT 1\n)  x");
    plan_release(&p);
    make_well("CALL openduck_run('REMOTE', 'DROP TABLE r;')", &p);
    expect_text(p.root, "DROP TABLE r ");
    plan_release(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_is_read_however_it_is_written),
        cmocka_unit_test(test_what_only_looks_like_a_call_is_none),
        cmocka_unit_test(test_wrong_calls_are_refused),
        cmocka_unit_test(test_calls_are_bounded_in_number_and_depth),
        cmocka_unit_test(test_a_statement_runs_where_its_tables_are),
        cmocka_unit_test(test_tables_that_are_changed_are_at_one_place),
        cmocka_unit_test(test_explain_shows_places_and_bridges),
        cmocka_unit_test(test_bridges_have_numbers_of_their_own),
        cmocka_unit_test(test_texts_read_what_was_moved),
    };
    const od_engine_options options = {.threads = 1, .host = od_server_host()};
    int failed;

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (od_engine_open(&options, &engine, NULL) != OD_OK)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    od_engine_close(engine);
    return failed;
}
