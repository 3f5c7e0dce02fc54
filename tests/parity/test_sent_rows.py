"""Rows of this side that go to the server's tables: the rows and types of plain DuckDB, and what is sent."""

import json

import duckdb
import pytest
import services
from twin_tables import same_on_every_level as check
from twin_tables import twin_tables

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE TABLE a AS SELECT i AS id, CASE WHEN i % 13 > 0 THEN i % 50 END AS k, i % 7 AS g, 'a' || i % 31 AS s,"
    " (i * 1.25)::DECIMAL(15,2) AS p FROM range(8000) t(i)",
    "CREATE TABLE b AS SELECT i AS id, CASE WHEN i % 11 > 0 THEN i % 900 END AS k, i % 5 AS g FROM range(6000) t(i)",
    "CREATE TABLE none AS FROM b LIMIT 0",
    "CREATE TABLE bounds AS SELECT i, DATE '2000-01-01' + (i % 290)::INTEGER AS d, i / 10000 AS f, 's' || i AS s,"
    " TIMESTAMP '2000-01-01' + to_seconds(i) AS t, (i / 100)::DECIMAL(10,2) AS m, NULL::INTEGER AS n"
    " FROM range(10000) t(i)",
)
NAMES = ("a", "b", "none", "bounds")
HERE = (
    "CREATE TABLE here AS SELECT CASE WHEN i % 9 > 0 THEN i % 40 END AS k, i % 3 AS h, 'a' || i % 40 AS s,"
    " (i * 1.5)::DECIMAL(15,2) AS p, CASE WHEN i % 4 > 0 THEN 'x' || chr(i::INTEGER) END AS t FROM range(60) t(i)",
    "CREATE TABLE empty AS FROM here LIMIT 0",
    "CREATE TABLE odd AS SELECT k, t COLLATE NOCASE AS t, ['x', 'y'][1 + k % 2]::ENUM('x', 'y') AS e, [k] AS l "
    "FROM here",
    "CREATE TABLE types AS SELECT k, i::TINYINT AS c1, i::UHUGEINT AS c2, i / 7 AS c3, i::FLOAT AS c4, i % 2 = 0 AS c5,"
    " DATE '2000-01-01' + i::INTEGER AS c6, TIME '10:00:00' + to_minutes(i) AS c7,"
    " TIMESTAMPTZ '2000-01-01 00:00:00+00' + to_days(i::INTEGER) AS c8, to_days(i::INTEGER) AS c9,"
    " ('\\x00\\xFF' || i)::BLOB AS c10, md5(i::VARCHAR)::UUID AS c11, '101'::BIT AS c12, i::BIGNUM AS c13,"
    " 'NaN'::DOUBLE AS c14, TIMETZ '10:00:00+02' AS c15, TIMESTAMP_NS '2000-01-01 00:00:00.000000001' AS c16"
    " FROM (SELECT CASE WHEN i % 5 > 0 THEN i END AS i, i % 50 AS k FROM range(40) t(i))",
)


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    """`cloud` at a server; the twins of its tables, and some of this side's own, here."""
    with twin_tables(tmp_path_factory.mktemp("sent") / "mydb.duckdb", NAMES, *TABLES) as c:
        for statement in HERE:
            c.execute(statement)
        yield c


@pytest.fixture(autouse=True)
def full(con):
    yield
    con.execute("SET openduck_pushdown = 'full'")


@pytest.mark.parametrize(
    "parts, sql",
    [
        (1, "SELECT h, sum(a.p) FROM {0}.a JOIN here USING (k) GROUP BY h"),
        (1, "SELECT a.g, count(*), sum(here.p) FROM {0}.a JOIN {0}.b USING (id) JOIN here ON a.k = here.k GROUP BY 1"),
        (1, "SELECT count(*) FROM {0}.a JOIN {0}.b USING (id) JOIN here ON a.k IS NOT DISTINCT FROM here.k"),
        (1, "SELECT h, count(b.id) FROM here LEFT JOIN {0}.b USING (k) GROUP BY h"),
        (1, "SELECT h, count(b.id), count(*) FROM here FULL JOIN {0}.b USING (k) GROUP BY h"),
        (1, "SELECT count(*) FROM {0}.a JOIN {0}.b USING (id) WHERE a.k IN (SELECT k FROM here)"),
        (1, "SELECT count(*) FROM {0}.a JOIN {0}.b USING (id) WHERE a.k NOT IN (SELECT k FROM here WHERE k > 3)"),
        (1, "SELECT max(a.id) FROM {0}.a JOIN (VALUES (1, 'x'), (2, NULL), (2, 'z')) v(k, w) USING (k) GROUP BY w"),
        (1, "SELECT r.range, count(*) FROM {0}.a JOIN range(7) r ON a.g = r.range GROUP BY 1"),
        (
            1,
            "SELECT g, count(*) FROM {0}.a JOIN (SELECT k, max(h) AS h FROM here GROUP BY k LIMIT 100) USING (k) "
            "GROUP BY g",
        ),
        (2, "SELECT sum(a.p) FROM {0}.a JOIN here x USING (k) JOIN (VALUES (1), (2), (2)) v(g) USING (g)"),
        (1, "SELECT a.g, max(a.p) FROM {0}.a JOIN empty ON a.k = empty.k GROUP BY 1"),
        (1, "SELECT t, min(a.s) FROM {0}.a JOIN here ON a.s = here.s GROUP BY t"),
    ],
)  # fmt: skip
def test_made_there(con, parts, sql):
    sent = check(con, sql)
    assert len(sent) == 1, sent
    assert sent[0].count("openduck_rows($") == parts, sent


def test_all_types(con):
    columns = ["c%d" % n for n in range(1, 17)]
    for column in columns:
        aggregates = "min(%s)::VARCHAR, max(%s)::VARCHAR, count(DISTINCT %s)" % ((column,) * 3)
        sent = check(con, "SELECT %s, sum(id) FROM {0}.a JOIN types USING (k)" % aggregates)
        assert len(sent) == 1 and "openduck_rows($1)" in sent[0] and "sum(" in sent[0], (column, sent)


@pytest.mark.parametrize(
    "sql",
    [
        # What could mean something else there.
        "SELECT max(odd.t), count(*) FROM {0}.a JOIN odd USING (k) GROUP BY odd.t",
        "SELECT e, count(*) FROM {0}.a JOIN odd USING (k) GROUP BY e",
        "SELECT l, count(*) FROM {0}.a JOIN odd USING (k) GROUP BY l",
        "SELECT h, count(*) FROM {0}.a JOIN here ON a.k = here.k + random()::INTEGER * 0 GROUP BY h",
        "SELECT h, sum(a.p::DOUBLE) FROM {0}.a JOIN here USING (k) WHERE a.id < 9 GROUP BY h",
        "SELECT x.h, count(*) FROM {0}.a JOIN here x USING (k) JOIN {0}.b USING (id) JOIN here y ON b.k = y.k "
        "GROUP BY 1",
        # An order, and first rows.
        "SELECT h, a.id FROM {0}.a JOIN here USING (k) ORDER BY a.id DESC, h, here.p LIMIT 9",
        # A part of this side that is read again and again.
        "WITH RECURSIVE t AS (SELECT 1::BIGINT AS n, 0::BIGINT AS m UNION ALL SELECT n + 1, count(*) "
        "FROM t JOIN {0}.a ON a.k = n JOIN here ON here.k = a.k WHERE n < 5 GROUP BY n) FROM t",
        # More than one statement's part, and one within another.
        "SELECT count(*) FROM here WHERE h < (SELECT count(*) FROM {0}.a JOIN here x USING (k) WHERE x.h = here.h)",
        "SELECT (SELECT max(a.p) FROM {0}.a JOIN {0}.b USING (id) WHERE a.k = here.k) FROM here",
        "WITH w AS MATERIALIZED (SELECT k, h FROM here) "
        "SELECT x.h, count(*) FROM w x JOIN {0}.a USING (k) JOIN w y ON y.k = a.g GROUP BY 1",
    ],
)
def test_right_wherever_it_is_made(con, sql):
    check(con, sql)


def test_what_is_written_in_the_transaction_is_seen(con):
    sql = "SELECT h, count(*) FROM {0}.a JOIN here USING (k) WHERE h = 1 GROUP BY h"
    ((_, before),) = con.execute(sql.format("twin")).fetchall()
    ((partners,),) = con.execute("SELECT count(*) FROM here WHERE k = 1 AND h = 1").fetchall()
    assert partners > 0
    con.execute("BEGIN")
    try:
        con.execute("INSERT INTO cloud.a VALUES (100000, 1, 1, 'new', 1)")
        assert "openduck_rows" in services.remote_sql(con, sql.format("cloud"))[0]
        assert con.execute(sql.format("cloud")).fetchall() == [(1, before + partners)]
    finally:
        con.execute("ROLLBACK")
    assert con.execute(sql.format("cloud")).fetchall() == [(1, before)]


def test_prepared_again(con):
    con.execute("CREATE OR REPLACE TABLE changing AS SELECT 1::BIGINT AS k")
    con.execute("PREPARE p AS SELECT count(*) FROM cloud.a JOIN changing USING (k) WHERE a.g >= $1")
    try:
        first = con.execute("EXECUTE p(0)").fetchone()
        con.execute("INSERT INTO changing VALUES (2), (2)")
        assert (
            con.execute("EXECUTE p(0)").fetchone()
            == con.execute("SELECT count(*) FROM twin.a JOIN changing USING (k)").fetchone()
        )
        assert con.execute("EXECUTE p(0)").fetchone() > first
    finally:
        con.execute("DEALLOCATE p")


def test_explain_analyze_counts_what_was_sent(con):
    sql = "EXPLAIN ANALYZE SELECT h, count(*) FROM cloud.a JOIN here USING (k) GROUP BY h"
    plan = con.execute(sql).fetchall()[0][1]
    assert "Rows Expected" in plan and "Rows Sent: 60" in plan and "Bytes Sent" in plan, plan


def test_an_error_of_this_side_is_its_own(con):
    with pytest.raises(duckdb.InvalidInputException, match="on purpose"):
        con.execute(
            "SELECT h, count(*) FROM cloud.a JOIN (SELECT CASE WHEN h > 1 THEN error('on purpose') ELSE k END AS k, h "
            "FROM here) USING (k) GROUP BY h"
        )
    assert con.execute("SELECT count(*) FROM cloud.a").fetchone() == (8000,)


@pytest.mark.parametrize("begin", (False, True))
def test_more_than_a_request_takes(con, begin):
    # Nobody expects so many.
    many = "(SELECT unnest(range(60000)) AS k, repeat('x', 1000) AS w)"
    sql = "SELECT g, max(w), count(*) FROM {0}.a JOIN %s USING (k) GROUP BY g" % many
    want = con.execute(sql.format("twin")).fetchall()
    if begin:
        con.execute("BEGIN")
    try:
        assert sorted(con.execute(sql.format("cloud")).fetchall(), key=repr) == sorted(want, key=repr)
        plan = con.execute("EXPLAIN ANALYZE " + sql.format("cloud")).fetchall()[0][1]
        assert "openduck_sent_" in plan.replace("\n", "").replace("│", "").replace(" ", ""), plan
    finally:
        if begin:
            con.execute("COMMIT")


def expected_rows(con, sql):
    plan = con.execute("EXPLAIN (FORMAT JSON) " + sql).fetchall()[0][1]
    return int(json.loads(plan)[0]["extra_info"]["Estimated Cardinality"])


def test_expected_rows_come_of_distinct_counts(con):
    told = con.execute("FROM openduck_query('cloud', 'FROM openduck_column_statistics()') ORDER BY ALL").fetchall()
    counts = {(table, column): count for _, schema, table, column, count, _, _ in told if schema == "main"}
    assert 6 <= counts["a", 3] <= 8 and 4 <= counts["b", 3] <= 6 and 7000 <= counts["a", 1] <= 9000
    one = con.execute(
        "FROM openduck_query('cloud', "
        "'SELECT table_name, column_index FROM openduck_column_statistics(''main'', ''B'')')"
    ).fetchall()
    assert set(one) == {("b", 1), ("b", 2), ("b", 3)}
    assert 8000 / 8 <= expected_rows(con, "SELECT id FROM cloud.a WHERE g = 3") <= 8000 / 6


@pytest.mark.parametrize(
    "condition, lowest, highest",
    [
        ("i < 1000", 900, 1100),
        ("1000 > i", 900, 1100),
        ("i BETWEEN 5000 AND 5999", 900, 1100),
        ("i >= 5000 AND i < 6000 AND n > 5", 900, 1100),
        ("d >= DATE '2000-02-01' AND d < DATE '2000-03-01'", 900, 1100),
        ("t > TIMESTAMP '2000-01-01 00:05:00'", 9500, 9800),
        ("m <= 50.00", 4500, 5500),
        ("f > 0.9", 900, 1100),
        ("i <> 3", 9000, 10000),
        ("i > 9000000", 1, 2),
        ("s < 'b'", 1500, 2500),  # of texts nothing is known
        ("n > 10", 1500, 2500),  # nor of what is NULL everywhere
    ],
)
def test_expected_rows_come_of_lowest_and_highest(con, condition, lowest, highest):
    assert lowest <= expected_rows(con, "SELECT i FROM cloud.bounds WHERE " + condition) <= highest
