"""Groups and aggregates of a remote table, which the server makes where that gives exactly the same."""

import collections
import re

import duckdb
import pytest
import services
import type_table

pytestmark = pytest.mark.extension

TYPES = {n: t for n, t in type_table.SCALARS.items() if t[0] is not None and n != "geometry"}


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    """`cloud` at a server, with r, wide and none; their twins here."""
    columns = ", ".join(
        "CASE WHEN row %% 11 > 0 THEN %s END::%s AS c_%s" % (value, sql_type, name)
        for name, (sql_type, value) in TYPES.items()
    )
    path = services.make_database(
        tmp_path_factory.mktemp("groups") / "mydb.duckdb",
        "CREATE TABLE r AS SELECT i AS id, %s " % columns
        + "FROM (SELECT i AS row, i * 7 % 40 AS i FROM range(3000) t(i))",
        "CREATE TABLE wide AS SELECT i, i % 7 AS g, (i * 1.25)::DECIMAL(15,2) AS p, "
        "(i % 10 / 100)::DECIMAL(15,2) AS d, 's' || i % 3 AS s, i::INTEGER * 700000 AS n, i / 3 AS f "
        "FROM range(3000) t(i)",
        "CREATE TABLE none AS FROM wide LIMIT 0",
    )
    with services.Serve({"mydb": path}) as server, services.attached(server) as c:
        c.execute("CREATE SCHEMA twin")
        for table in ("r", "wide", "none"):
            c.execute("CREATE TABLE twin.%s AS FROM cloud.%s" % (table, table))
        yield c
        server.wait_idle()


def check(con, sql):
    """SQL gives the same, of the same types, as with the twins. Whether the server aggregates."""
    there, here = con.execute(sql.format("cloud")), None
    types, got = [str(d[1]) for d in there.description], collections.Counter(map(repr, there.fetchall()))
    here = con.execute(sql.format("twin"))
    assert types == [str(d[1]) for d in here.description]
    assert got == collections.Counter(map(repr, here.fetchall())), sql
    sent = services.remote_sql(con, sql.format("cloud"))
    return any(re.search(r"\b(count|sum|avg|min|max)\(|GROUP BY", s) for s in sent)


@pytest.mark.parametrize("name", TYPES)
def test_types(con, name):
    column = "c_" + name
    # Times with a zone are fetched as texts, since Python makes no objects of them by itself.
    check(con, "SELECT c::VARCHAR, a, b FROM (SELECT %s c, count(*) a, count(id) b FROM {0}.r GROUP BY ALL)" % column)
    check(con, "SELECT count(%s), count(DISTINCT %s) FROM {0}.r" % (column, column))
    extremes = "SELECT id, min(%s) AS a, max(%s) AS b FROM {0}.r GROUP BY id" % (column, column)
    check(con, "SELECT id, a::VARCHAR, b::VARCHAR FROM (%s)" % extremes)
    # Sums of the largest types overflow, or are DOUBLEs.
    if TYPES[name][0].startswith("DECIMAL") or name.removeprefix("u") in ("tinyint", "smallint", "integer", "bigint"):
        assert check(con, "SELECT id, sum(%s), avg(%s) FROM {0}.r GROUP BY id HAVING id < 30" % (column, column))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT g, sum(p * (1 - d)), avg(p), avg(d), sum(p * (1 - d) * (1 + d)), count(*) FROM {0}.wide GROUP BY g",
        "SELECT sum(p * d) FROM {0}.wide WHERE i BETWEEN 100 AND 900 AND d < 0.05",
        "SELECT g + 1, s || 'x', max(i) FROM {0}.wide WHERE s <> 's1' GROUP BY ALL",
        "SELECT sum(CASE WHEN s = 's1' THEN p ELSE 0 END), sum(i * 2 + g) FROM {0}.wide",
        "SELECT g, count(*) FILTER (WHERE s = 's2'), sum(DISTINCT d) FROM {0}.wide GROUP BY g",
        "SELECT g, sum(n) FROM {0}.none GROUP BY g",
        "SELECT sum(n), count(n), min(s), avg(p) FROM {0}.none",
        "SELECT a.g, a.m, b.m FROM (SELECT g, max(i) AS m FROM {0}.wide GROUP BY g) a "
        "JOIN (SELECT g, min(i) AS m FROM {0}.wide GROUP BY g) b USING (g)",
        "SELECT g, m FROM (SELECT g, sum(i) AS m FROM {0}.wide GROUP BY g) WHERE m > 600000 ORDER BY m",
        "SELECT w.i FROM {0}.wide w WHERE w.p > (SELECT avg(p) FROM {0}.wide)",
        "SELECT sum(m) FROM (SELECT max(i) AS m FROM {0}.wide GROUP BY s)",
        "SELECT s, max(i) FROM {0}.wide GROUP BY s UNION ALL SELECT s, min(i) FROM {0}.none GROUP BY s",
        "SELECT g, s, sum(i) FROM {0}.wide GROUP BY CUBE (g, s)",
        "SELECT g, grouping(g), sum(i) FROM {0}.wide GROUP BY g",
        "SELECT sum(i) FROM (FROM {0}.wide ORDER BY i LIMIT 10)",
        "SELECT g, s, grouping(s, g), count(*), max(p) FROM {0}.wide GROUP BY GROUPING SETS ((g), (s, g), ())",
        "SELECT g, sum(i) FROM {0}.none GROUP BY ROLLUP (g)",
    ],
)
def test_made_there(con, sql):
    assert check(con, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT g, sum(f) FROM {0}.wide WHERE i < 900 GROUP BY g",
        "SELECT g, avg(f) FROM {0}.wide WHERE i < 900 GROUP BY g",
        "SELECT g, string_agg(s ORDER BY i) FROM {0}.wide GROUP BY g",
        "SELECT g, median(i) FROM {0}.wide GROUP BY g",
        "SELECT max(s COLLATE NOCASE) FROM {0}.wide",
    ],
)
def test_made_here(con, sql):
    assert not check(con, sql)


def test_overflow_is_the_same_error(con):
    for schema in ("twin", "cloud"):
        with pytest.raises(duckdb.OutOfRangeException):
            con.execute("SELECT g, max(n * n) FROM %s.wide GROUP BY g" % schema).fetchall()


def test_one_row_travels(con):
    sql = services.remote_sql(con, "SELECT g, sum(p) FROM cloud.wide WHERE i > 5 GROUP BY g")
    assert len(sql) == 1 and sql[0].endswith(' GROUP BY "g"')


def test_sees_the_transaction(con):
    con.execute("BEGIN")
    con.execute("INSERT INTO cloud.none VALUES (1, 2, 3, 0, 's', 5, 6)")
    assert con.execute("SELECT g, sum(n) FROM cloud.none GROUP BY g").fetchall() == [(2, 5)]
    con.execute("ROLLBACK")
    assert con.execute("SELECT g, sum(n) FROM cloud.none GROUP BY g").fetchall() == []
