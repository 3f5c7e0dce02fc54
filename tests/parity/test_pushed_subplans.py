"""Parts of plans that the server runs: the rows and types of plain DuckDB, and what is sent for them."""

import duckdb
import pytest
import services
from twin_tables import same_on_every_level as check
from twin_tables import twin_tables

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE TABLE a AS SELECT i AS id, CASE WHEN i % 13 > 0 THEN i % 50 END AS k, i % 7 AS g, 'a' || i % 31 AS s,"
    " (i * 1.25)::DECIMAL(15,2) AS p, i / 8 AS f FROM range(4000) t(i)",
    "CREATE TABLE b AS SELECT CASE WHEN i % 11 > 0 THEN i END AS k, i % 5 AS g, 'a' || i AS s, i AS c0, -i AS c1 "
    "FROM range(60) t(i)",
    "CREATE TABLE none AS FROM b LIMIT 0",
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad')",
    "CREATE TABLE odd AS SELECT i AS id, ['sad', 'ok', 'glad'][1 + i % 3]::mood AS m, [i] AS l, {'x': i} AS st "
    "FROM range(9) t(i)",
)
NAMES = ("a", "b", "none", "odd")


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    """`cloud` at a server; the twins of its tables, and one of this side's own, here."""
    with twin_tables(tmp_path_factory.mktemp("subplans") / "mydb.duckdb", NAMES, *TABLES) as c:
        c.execute("CREATE TABLE here AS SELECT i AS k, i % 3 AS h FROM range(0, 50, 4) t(i)")
        yield c


@pytest.fixture(autouse=True)
def full(con):
    yield
    con.execute("SET openduck_pushdown = 'full'")


@pytest.mark.parametrize(
    "words, sql",
    [
        (["ORDER BY", " LIMIT 7"], "SELECT id, p FROM {0}.a ORDER BY p DESC NULLS FIRST, id LIMIT 5 OFFSET 2"),
        (["ORDER BY", "LIMIT", "GROUP BY"], "SELECT k, sum(p) AS t FROM {0}.a GROUP BY k ORDER BY t DESC, k LIMIT 3"),
        # Names of outputs are those of columns.
        (["ORDER BY", "LIMIT"], "SELECT c1, c0 FROM {0}.b ORDER BY c1, c0 LIMIT 4"),
        (["GROUP BY"], "SELECT c1 * 3 AS c0, count(*) FROM {0}.b GROUP BY c1 * 3"),
        (["DISTINCT"], "SELECT DISTINCT g, s FROM {0}.a WHERE k > 3"),
        (["UNION"], "SELECT k, g FROM {0}.a UNION SELECT k, g FROM {0}.b"),
        (["EXCEPT"], "SELECT k FROM {0}.a EXCEPT SELECT k FROM {0}.b WHERE g < 3"),
        (["INTERSECT ALL"], "SELECT k, s FROM {0}.a INTERSECT ALL SELECT k, s FROM {0}.b"),
        ([" IN (SELECT", "count("], "SELECT k IN (SELECT k FROM {0}.b) AS found, count(*) FROM {0}.a GROUP BY ALL"),
        ([" IN (SELECT", "count("], "SELECT k IN (SELECT k FROM {0}.none) AS found, count(*) FROM {0}.a GROUP BY ALL"),
        (["SELECT"], "SELECT id FROM {0}.a WHERE k NOT IN (SELECT k FROM {0}.b WHERE k IS NOT NULL)"),
        (["count("], "SELECT count(*) FROM {0}.a WHERE k NOT IN (SELECT k FROM {0}.b)"),
        # Correlated.
        (["max("], "SELECT id FROM {0}.a WHERE k > 9 AND p = (SELECT max(p) FROM {0}.a x WHERE x.g = a.g)"),
        (
            ["openduck_1"],
            "SELECT count(*) FROM {0}.a WHERE g = 2 AND EXISTS (FROM {0}.b x WHERE x.k = a.k AND x.g <> a.g)",
        ),
        (["ANTI JOIN"], "SELECT count(*) FROM {0}.a WHERE NOT EXISTS (FROM {0}.b x WHERE x.k = a.k AND x.g <> a.g)"),
        (["avg(", "CROSS JOIN"], "SELECT id FROM {0}.a WHERE f < (SELECT 0.001 * avg(k) FROM {0}.a)"),
        # Two that are one.
        (
            ["GROUP BY"],
            "WITH t AS MATERIALIZED (SELECT k, sum(p) AS p FROM {0}.a GROUP BY k) "
            "SELECT x.k FROM t x JOIN t y ON x.k = y.k + 1 WHERE x.p > y.p",
        ),
        (
            ["LEFT JOIN", "GROUP BY"],
            "SELECT b.g, count(o) FROM {0}.b LEFT JOIN (SELECT k, 1 AS o FROM {0}.a) USING (k) GROUP BY 1",
        ),
        (
            ["FULL JOIN"],
            "SELECT o, count(*) FROM {0}.b FULL JOIN (SELECT k + 40 AS k, 1 AS o FROM {0}.a) USING (k) GROUP BY 1",
        ),
        (["max(", "CROSS JOIN"], "SELECT id, count(*), max(k) FROM {0}.odd JOIN {0}.b ON id = k GROUP BY id"),
        (
            ["rank() OVER (", "PARTITION BY", "DESC NULLS LAST", "GROUP BY"],
            "SELECT n, count(*), max(id) FROM (SELECT id, rank() OVER (PARTITION BY g ORDER BY k DESC NULLS LAST) AS n "
            "FROM {0}.a) GROUP BY n",
        ),
        (
            ["count(DISTINCT", "OVER ("],
            "SELECT n, count(*) FROM (SELECT count(DISTINCT k) FILTER (WHERE id > 9) OVER (PARTITION BY s) AS n "
            "FROM {0}.a) GROUP BY n",
        ),
        (
            ["sum(", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"],
            "SELECT n, count(*) FROM (SELECT sum(p) OVER (PARTITION BY g ORDER BY k) AS n FROM {0}.a) GROUP BY n",
        ),
        (
            ["LIMIT 3 OFFSET 2", "GROUP BY", "MATERIALIZED"],
            "SELECT b.g, count(*) FROM (SELECT k, id FROM {0}.a WHERE k > 1 ORDER BY id LIMIT 3 OFFSET 2) x "
            "JOIN {0}.b USING (k) GROUP BY b.g",
        ),
        (["CAST", "sum("], "SELECT sum(g * 2.5), sum(p * 0.07 + 1) FROM {0}.a JOIN {0}.b USING (k, g)"),
    ],
)  # fmt: skip
def test_made_there(con, words, sql):
    sent = check(con, sql)
    assert len(sent) == 1, sent
    assert all(word in sent[0] for word in words), sent


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT g, sum(f) FROM {0}.a JOIN {0}.b USING (g) WHERE a.id < 9 GROUP BY g",
        "SELECT k, row_number() OVER (PARTITION BY g ORDER BY id) FROM {0}.a WHERE id < 50",
        "SELECT DISTINCT ON (g) g, id FROM {0}.a WHERE g = 3 AND id = 3",
        "SELECT max(s COLLATE NOCASE) FROM {0}.a JOIN {0}.b USING (s)",
        "SELECT m, count(*) FROM {0}.odd GROUP BY m",
        "SELECT (SELECT k FROM {0}.b WHERE c0 = 7) AS one, id FROM {0}.a WHERE id < 3",
        "SELECT count(*) FROM {0}.a WHERE random() < 2 AND k IN (SELECT k FROM {0}.b)",
        "SELECT id / 0 AS q, count(*) FROM {0}.a GROUP BY ALL",
        "WITH RECURSIVE t AS "
        "(SELECT 1::BIGINT AS n UNION ALL SELECT n + 1 FROM t JOIN {0}.b ON k = n WHERE n < 5) FROM t",
        "SELECT x.id FROM {0}.a x JOIN here ON x.k = here.k WHERE x.id < 100",
        "SELECT * FROM {0}.a ORDER BY random() * 0, id LIMIT 3",
    ],
)  # fmt: skip
def test_right_where_it_is_made_here(con, sql):
    check(con, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM {0}.a WHERE k = (SELECT k FROM {0}.b WHERE c0 = 7)",
        "SELECT count(*), min(id) FROM {0}.a WHERE g = (SELECT DISTINCT g FROM {0}.b WHERE g = 2)",
        # No row, and one that is NULL.
        "SELECT count(*) FROM {0}.a WHERE k IS NOT DISTINCT FROM (SELECT k FROM {0}.none)",
        "SELECT count(*) FROM {0}.a WHERE k IS NOT DISTINCT FROM (SELECT k FROM {0}.b WHERE c0 = 11)",
        "SELECT g, max(id) FROM {0}.a WHERE s < (SELECT s FROM {0}.b WHERE c0 = 30) GROUP BY g",
    ],
)
def test_a_scalar_subquery_is_made_there(con, sql):
    sent = check(con, sql)
    assert len(sent) == 1 and "More than one row" in str(sent[0]), sent


@pytest.mark.parametrize("level", ["off", "scan", "full"])
def test_a_scalar_subquery_of_several_rows_is_the_same_error(con, level):
    con.execute("SET openduck_pushdown = '%s'" % level)
    for schema in ("twin", "cloud"):
        with pytest.raises(duckdb.InvalidInputException, match="More than one row returned by a subquery"):
            con.execute(f"SELECT count(*) FROM {schema}.a WHERE k = (SELECT k FROM {schema}.b WHERE c0 < 9)").fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (SELECT k FROM {0}.b) FROM {0}.none",
        "SELECT (SELECT k FROM {0}.b) AS x, count(*) FROM {0}.none GROUP BY x",
        "SELECT k FROM {0}.none WHERE k = (SELECT k FROM {0}.b)",
        "SELECT max(k) FROM {0}.none WHERE k > (SELECT k FROM {0}.b)",
    ],
)
@pytest.mark.parametrize("level", ["off", "scan", "full"])
def test_rows_of_a_scalar_subquery_are_counted_beside_no_rows(con, level, sql):
    con.execute("SET openduck_pushdown = '%s'" % level)
    for schema in ("twin", "cloud"):
        with pytest.raises(duckdb.InvalidInputException, match="More than one row returned by a subquery"):
            con.execute(sql.format(schema)).fetchall()


def test_which_row_a_scalar_subquery_gives_is_not_asked_of_the_server(con):
    con.execute("SET scalar_subquery_error_on_multiple_rows = false")
    try:
        sql = "SELECT count(*) FROM cloud.a WHERE k = (SELECT k FROM cloud.b WHERE c0 BETWEEN 3 AND 8)"
        assert con.execute(sql).fetchone()[0] > 0
        assert "first(" not in " ".join(services.remote_sql(con, sql))
    finally:
        con.execute("RESET scalar_subquery_error_on_multiple_rows")


def test_a_cte_of_which_columns_are_left_out_is_made_there(con):
    sent = check(
        con,
        "WITH t AS (SELECT k, g, sum(p) AS t, max(s) AS unused FROM {0}.a GROUP BY k, g) "
        "SELECT x.k, x.t FROM t x WHERE x.t > (SELECT avg(t) FROM t y WHERE x.g = y.g) ORDER BY ALL LIMIT 5",
    )
    assert len(sent) == 1 and "max(" not in sent[0] and "avg(" in sent[0], sent


@pytest.mark.parametrize("kind", ["", "NOT MATERIALIZED", "MATERIALIZED"])
def test_a_cte_that_is_read_twice_below_a_limit(con, kind):
    # DuckDB would copy its plan. Whether to, is left to the server.
    sent = check(
        con,
        "WITH t AS %s (SELECT id, k FROM {0}.a WHERE k > 3) "
        "SELECT x.id, y.k FROM t x JOIN t y ON x.id = y.k ORDER BY ALL LIMIT 40" % kind,
    )
    assert len(sent) == 1 and "AS %s(" % (kind and kind + " ") in sent[0]


def test_a_remote_statement_that_is_read_twice_runs_once(con):
    con.execute("CREATE TABLE cloud.log(i INTEGER)")
    # fmt: off
    twice = ("WITH t AS NOT MATERIALIZED (FROM openduck_query('cloud', 'INSERT INTO log VALUES (7) RETURNING i')) "
             "SELECT x.i, y.i FROM t x, t y LIMIT 3")
    # fmt: on
    assert con.execute(twice).fetchall() == [(7, 7)]
    assert con.execute("FROM cloud.log").fetchall() == [(7,)]
    con.execute("DROP TABLE cloud.log")


def test_a_cut_above_what_stays_here(con):
    sent = check(
        con, "SELECT h, sum(t) FROM here JOIN (SELECT k, sum(p) AS t FROM {0}.a GROUP BY k) USING (k) GROUP BY h"
    )
    assert len(sent) == 1
    assert "GROUP BY" in sent[0] or "$1" in sent[0], sent


def test_levels(con):
    sql = "SELECT count(id), max(s) FROM cloud.a WHERE k = 7"
    sent = {}
    for level in ("off", "SCAN", "full"):
        con.execute("SET openduck_pushdown = '%s'" % level)
        sent[level] = services.remote_sql(con, sql)[0]
    assert "WHERE" not in sent["off"] and '"p"' not in sent["off"]
    assert "WHERE" in sent["SCAN"] and "max(" not in sent["SCAN"]
    assert "WHERE" in sent["full"] and "max(" in sent["full"]
    con.execute("SET openduck_pushdown = 'off'")
    assert "LIMIT" not in services.remote_sql(con, "SELECT id FROM cloud.a LIMIT 3")[0]
    assert con.execute("SELECT count(*) FROM (SELECT id FROM cloud.a WHERE s <> 'a1' LIMIT 3)").fetchone() == (3,)
    for bad in ("'some'", "NULL", "''"):
        with pytest.raises(duckdb.InvalidInputException, match="openduck_pushdown"):
            con.execute("SET openduck_pushdown = %s" % bad)
    assert con.execute("SELECT current_setting('openduck_pushdown')").fetchone() == ("off",)
    con.execute("RESET openduck_pushdown")
    assert con.execute("SELECT current_setting('openduck_pushdown')").fetchone() == ("full",)


def test_explain_shows_expected_rows(con):
    plan = con.execute("EXPLAIN SELECT g, count(*) FROM cloud.a JOIN cloud.b USING (g) GROUP BY g").fetchall()[0][1]
    assert "OPENDUCK_SCAN" in plan and "rows" in plan and "HASH_JOIN" not in plan


def test_an_overflow_is_the_same_error(con):
    for schema in ("twin", "cloud"):
        with pytest.raises(duckdb.OutOfRangeException):
            con.execute(f"SELECT max(x.id * 9223372036854775807) FROM {schema}.a x JOIN {schema}.b y USING (k)")


def test_settings_of_this_side_stay_here(con):
    con.execute("SET default_null_order = 'nulls_first'")
    con.execute("SET default_order = 'desc'")
    try:
        check(con, "SELECT k, id FROM {0}.a ORDER BY k, id LIMIT 400")
    finally:
        con.execute("RESET default_null_order")
        con.execute("RESET default_order")
