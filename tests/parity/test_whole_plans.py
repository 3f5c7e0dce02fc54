"""Plans that are the server's as a whole are written before DuckDB optimizes them here: the rows and types of plain
DuckDB, and SQL that the server can optimize as if it had the statement itself."""

import duckdb
import pytest
import services
from twin_tables import same_on_every_level as check
from twin_tables import twin_tables

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE TABLE a AS SELECT i AS id, CASE WHEN i % 13 > 0 THEN i % 50 END AS k, i % 7 AS g, 'a' || i % 31 AS s,"
    " (i * 1.25)::DECIMAL(15,2) AS p, DATE '1999-11-01' + (i % 90)::INTEGER AS d FROM range(4000) t(i)",
    "CREATE TABLE b AS SELECT CASE WHEN i % 11 > 0 THEN i END AS k, i % 5 AS g, 'a' || i AS s FROM range(60) t(i)",
    "CREATE TABLE n AS SELECT (i - 20)::BIGINT AS i8, (i - 20)::INTEGER AS i4, (i - 20)::TINYINT AS i1,"
    " ((i - 20) / 8)::DECIMAL(7,2) AS d7, ((i - 20) * 1.5)::DECIMAL(18,2) AS d18,"
    " ((i - 20) * 2.5)::DECIMAL(18,4) AS e18, ((i - 20) * 3)::DECIMAL(38,3) AS d38, i % 3 AS g FROM range(40) t(i)",
)
NAMES = ("a", "b", "n")


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with twin_tables(tmp_path_factory.mktemp("whole") / "mydb.duckdb", NAMES, *TABLES) as c:
        yield c


@pytest.mark.parametrize(
    "sql",
    [
        # What both names ask of it goes to the server as two conditions: it derives a third from them by itself.
        "WITH w AS (SELECT g, k, count(*) AS n FROM {0}.a GROUP BY g, k) "
        "SELECT x.k, x.n, y.n FROM w x, w y WHERE x.g = 1 AND y.g = 2 AND x.k = y.k ORDER BY ALL LIMIT 20",
        "WITH w AS (SELECT g, k FROM {0}.a UNION ALL SELECT g, k FROM {0}.b) "
        "SELECT count(*) FROM w x, w y WHERE x.g = 1 AND y.g = 2 AND x.k = y.k",
    ],
)
def test_conditions_are_derived_once(con, sql):
    sent = check(con, sql)
    assert len(sent) == 1 and " OR " not in sent[0], sent


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT extract(year FROM d) AS y, sum(p) FROM {0}.a, {0}.b WHERE a.k = b.k AND b.g IN (1, 2, 3) GROUP BY y",
        "SELECT g, count(*) FROM {0}.a WHERE d BETWEEN '1999-12-01' AND DATE '1999-12-01' + 30 GROUP BY g ORDER BY g",
        "SELECT g, max(p) FROM {0}.a WHERE k IN (SELECT k FROM {0}.b WHERE g = 2) GROUP BY g HAVING count(*) > 2",
        "SELECT count(*) FROM {0}.a WHERE g = 3 OR k IN (SELECT k FROM {0}.b)",
        "SELECT count(*), sum(p) FROM {0}.a WHERE p > (SELECT avg(x.p) FROM {0}.a x WHERE x.g = a.g)",
        "SELECT g, count(*) FROM {0}.a WHERE EXISTS (FROM {0}.b WHERE b.k = a.k AND b.g <> a.g) GROUP BY g",
        "SELECT g, (SELECT max(k) FROM {0}.b) AS m FROM {0}.a GROUP BY g",
        "WITH w AS (SELECT g, count(*) AS n FROM {0}.a GROUP BY g) SELECT max(n) FROM w LIMIT 1",
        "WITH w AS (SELECT g, count(*) AS n FROM {0}.a GROUP BY g), v AS (SELECT max(n) AS m FROM w) "
        "SELECT g, n FROM w, v WHERE n = m ORDER BY g LIMIT 3",
        "SELECT DISTINCT g FROM {0}.a WHERE s LIKE 'a1%'",
        "SELECT k FROM {0}.a EXCEPT SELECT k FROM {0}.b",
        "SELECT a.id, b.s FROM {0}.a LEFT JOIN {0}.b ON a.k = b.k AND b.g > 1 ORDER BY a.id, b.s LIMIT 9",
        "SELECT a.g, b.g, count(*) FROM {0}.a FULL JOIN {0}.b ON a.id = b.k GROUP BY ROLLUP (1, 2)",
    ],
)
def test_one_statement_for_the_server(con, sql):
    sent = check(con, sql)
    assert len(sent) == 1, sent


@pytest.mark.parametrize(
    "sql",
    [
        # Something of each stays here.
        "SELECT g, sum(p / 3) FROM {0}.a GROUP BY g HAVING false",
        "SELECT g, count(*) FROM {0}.a WHERE random() < 2 GROUP BY g",
        "SELECT g, count(*) FROM (FROM {0}.a WHERE hash(id) IS NOT NULL) GROUP BY g ORDER BY g LIMIT 4",
        "SELECT max(s COLLATE NOCASE), g FROM {0}.a GROUP BY g",
        "SELECT * FROM (SELECT k, row_number() OVER (ORDER BY k) AS r FROM {0}.b WHERE k = 5) ORDER BY r LIMIT 2",
    ],
)
def test_what_cannot_be_written_is_made_here(con, sql):
    check(con, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s || 'x' AS x, k FROM {0}.a WHERE s > 'a1' ORDER BY x DESC, k NULLS FIRST LIMIT 0",
        "SELECT g, max(s) AS m FROM {0}.a GROUP BY g ORDER BY m || 'long enough not to lie inline' LIMIT 0 OFFSET 3",
        "SELECT count(*) FROM (SELECT s FROM {0}.a ORDER BY s LIMIT 0)",
        "SELECT s FROM ((SELECT s FROM {0}.a ORDER BY s LIMIT 0) UNION ALL (SELECT s FROM {0}.b)) ORDER BY s LIMIT 5",
    ],
)
def test_the_first_none_are_not_looked_for(con, sql):
    """DuckDB's TOP N would read the last of no rows: it has to be nothing before it becomes one."""
    check(con, sql)
    (plan,) = con.execute("EXPLAIN " + sql.format("cloud")).fetchall()
    assert "TOP_N" not in plan[1] or "LIMIT 5" in sql


@pytest.mark.parametrize("first, second", ["ab", "ba"])
def test_joins_of_a_plan_of_the_servers_are_not_ordered_here(con, first, second):
    """The tables come as they are in the statement, whichever is larger."""
    con.execute("SET openduck_pushdown = 'full'")
    sent = services.remote_sql(
        con, "SELECT g, count(*) FROM cloud.%s JOIN cloud.%s USING (g) GROUP BY g" % (first, second)
    )
    assert len(sent) == 1 and sent[0].index('"%s"' % first) < sent[0].index('"%s"' % second), sent


NUMBERS = """
i8 * d7 ; d7 * i4 ; d7 * d7 ; d18 * d7 ; d38 * i1 ; d38 * 1.0000 ; d7 * 0.5 ; d18 * e18 ; -0.05 * d7 ; d7 * i8 * i4
i8 + d7 ; 1 - d7 ; d18 + d18 ; d18 - e18 ; e18 + i8 ; d38 + 1.5 ; d7 - 100 ; d7 + 0.001 ; d18 * (1 - d7) * (1 + d7)
d7::DECIMAL(12,2) * d7 ; d18::DECIMAL(17,2) * d18 ; d18::DECIMAL(6,1) + d7 ; i8::DECIMAL(18,0) * d18
d7::DECIMAL(38,2) * d7
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("text", [t.strip() for t in NUMBERS if t.strip()])
def test_decimals_have_their_types(con, text):
    sent = check(con, "SELECT g, sum(%s), min(%s), max(%s) FROM {0}.n GROUP BY g" % (text, text, text))
    assert len(sent) == 1, sent


@pytest.mark.parametrize(
    "text, written",
    [
        ("i8 * d7", '"*"("i8", "d7")'),
        ("d7 * i4", '"*"("d7", "i4")'),
        ("i8 + d7", '"+"("i8", "d7")'),
        ("1 - d7", """"-"(CAST('1' AS INTEGER), "d7")"""),
        ("1.00 - d7", """"-"(CAST('1.00' AS DECIMAL(3,2)), "d7")"""),
        ("d7 * 0.5", """"*"("d7", CAST('0.5' AS DECIMAL(2,1)))"""),
        ("d38 * 1.0000", """"*"("d38", CAST('1.0000' AS DECIMAL(5,4)))"""),
    ],
)
def test_the_server_computes_decimals_as_wide_as_they_were(con, text, written):
    """Arguments without the width that the result has: of those the server would make one that is wider still."""
    sent = check(con, "SELECT g, max(%s) FROM {0}.n GROUP BY g" % text)
    assert "system.main." + written in sent[0], sent


@pytest.mark.parametrize("level", ["off", "scan", "full"])
@pytest.mark.parametrize(
    "text",
    ["max(d18::DECIMAL(3,2) * d18)", "max(d38 * 9999999999999999999999999999999999999)", "max(d18 * 99999999999999.9)"],
)
def test_what_does_not_fit_fails_on_every_level(con, level, text):
    con.execute("SET openduck_pushdown = '%s'" % level)
    kinds = []
    for schema in ("twin", "cloud"):
        with pytest.raises(duckdb.Error) as caught:
            con.execute(f"SELECT g, {text} FROM {schema}.n GROUP BY g").fetchall()
        kinds.append(type(caught.value))
    assert kinds[0] == kinds[1]
