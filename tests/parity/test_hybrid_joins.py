"""Joins of tables here with tables of a server: the rows of plain DuckDB, and no more on the way than they need."""

import collections
import json
import random

import pytest
import services
import type_table

pytestmark = pytest.mark.extension

#: Not GEOMETRY: a join of two local tables does not always find its values.
TYPES = {n: t for n, t in type_table.SCALARS.items() if t[0] is not None and n != "geometry"}
#: What the server is not asked to compare.
KEPT_HERE = {"boolean", "time_ns", "json", "variant"}
ROWS = 3000
BIG = 400000


def columns(count, step, nulls):
    """COUNT rows with a column of each type, with duplicates and, in every NULLS-th row, NULLs."""
    kept = ["(i * %d) %% 500 AS n, i AS id" % step]
    for name, (sql_type, value) in TYPES.items():
        kept.append("CASE WHEN row %% %d > 0 THEN %s END::%s AS c_%s" % (nulls, value, sql_type, name))
    return "SELECT %s FROM (SELECT i AS row, (i * %d) %% 500 AS i FROM range(%d) t(i))" % (", ".join(kept), step, count)


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    """`cloud` at a server, with r and big; here l and the twins of what is there."""
    folder = tmp_path_factory.mktemp("joins")
    path = services.make_database(
        folder / "mydb.duckdb",
        "CREATE TABLE r AS " + columns(ROWS, 7, 11),
        "CREATE TABLE big AS SELECT i AS k, i // 4 AS g, 's' || (i %% 1000) AS s, i * 1.5 AS d FROM range(%d) t(i)"
        % BIG,
        "CREATE TABLE none AS FROM r LIMIT 0",
    )
    with services.Serve({"mydb": path}) as server, services.attached(server) as c:
        c.execute("CREATE TABLE l AS " + columns(50, 3, 7))
        c.execute("CREATE TABLE empty AS FROM l LIMIT 0")
        c.execute("CREATE SCHEMA twin")
        for table in ("r", "big", "none"):
            c.execute("CREATE TABLE twin.%s AS FROM cloud.%s" % (table, table))
        yield c
        server.wait_idle()


def rows(con, sql):
    return collections.Counter(map(repr, con.execute(sql).fetchall()))


def plan(con, sql):
    return con.execute("EXPLAIN " + sql).fetchall()[0][1]


def check(con, sql):
    """SQL gives the same with the tables of the server, {0}, as with their twins. Whether keys or rows are sent."""
    want = rows(con, sql.format("twin"))
    assert rows(con, sql.format("cloud")) == want, sql
    shown = plan(con, sql.format("cloud"))
    return "OPENDUCK_JOIN_KEYS" in shown or "OPENDUCK_SEND_ROWS" in shown


JOINS = (
    "SELECT l.id, r.id FROM l JOIN {0}.r ON %(on)s",
    "SELECT l.id, r.id FROM l LEFT JOIN {0}.r ON %(on)s",
    "SELECT l.id, r.id FROM l RIGHT JOIN {0}.r ON %(on)s",
    "SELECT l.id, r.id FROM l FULL JOIN {0}.r ON %(on)s",
    "SELECT l.id FROM l SEMI JOIN {0}.r ON %(on)s",
    "SELECT l.id FROM l ANTI JOIN {0}.r ON %(on)s",
    "SELECT r.id FROM {0}.r SEMI JOIN l ON %(on)s",
    "SELECT r.id FROM {0}.r ANTI JOIN l ON %(on)s",
    "SELECT r.id, r.n IN (SELECT l.n FROM l WHERE %(on)s) FROM {0}.r",
    "SELECT l.id FROM l WHERE EXISTS (FROM {0}.r WHERE %(on)s)",
    "SELECT count(*), sum(r.id) FROM {0}.r, l WHERE %(on)s",
)


@pytest.mark.parametrize("name", TYPES)
def test_types(con, name):
    on = "l.c_%s = r.c_%s" % (name, name)
    sent = [check(con, sql % {"on": on}) for sql in JOINS]
    sent.append(check(con, "SELECT l.id FROM l WHERE l.c_%s NOT IN (SELECT c_%s FROM {0}.r)" % (name, name)))
    sent.append(check(con, "SELECT r.id FROM {0}.r WHERE r.c_%s IN (SELECT c_%s FROM l)" % (name, name)))
    check(con, JOINS[0] % {"on": "l.c_%s IS NOT DISTINCT FROM r.c_%s" % (name, name)})
    check(con, JOINS[1] % {"on": "l.c_%s IS NOT DISTINCT FROM r.c_%s" % (name, name)})
    nested = TYPES[name][0].endswith(("]", ")")) and not TYPES[name][0].startswith(("DECIMAL", "ENUM"))
    if name not in KEPT_HERE and not nested:
        assert sent[0] and sent[1] and sent[6] and sent[10] and sent[12]


def test_columns_of_several_types(con):
    """Keys of several columns, generated."""
    pick = random.Random(5)
    names = [n for n in TYPES if n not in KEPT_HERE]
    for _ in range(40):
        on = " AND ".join(
            "l.c_%s %s r.c_%s" % (n, pick.choice(("=", "=", "IS NOT DISTINCT FROM")), n)
            for n in pick.sample(names, pick.choice((2, 2, 3)))
        )
        check(con, pick.choice(JOINS) % {"on": on})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l.id, r.id FROM l JOIN {0}.r ON l.n = r.n AND l.id < r.id",
        "SELECT l.id, r.id FROM l JOIN {0}.r ON l.n = r.n + 1",
        "SELECT l.id, r.id FROM l JOIN {0}.r ON l.n::VARCHAR = r.n::VARCHAR",
        "SELECT l.id, r.id FROM l JOIN {0}.r ON lower(l.c_varchar) = lower(r.c_varchar)",
        "SELECT l.id, s.n, s.c FROM l JOIN (SELECT n, count(*) AS c FROM {0}.r GROUP BY n) s ON l.n = s.n",
        "SELECT l.id, s.n, s.c FROM l JOIN (SELECT n, count(*) AS c FROM {0}.r GROUP BY ROLLUP (n)) s ON l.n = s.n",
        "SELECT l.id, s.n FROM l JOIN (SELECT DISTINCT n FROM {0}.r) s ON l.n = s.n",
        "SELECT l.id, s.n FROM l JOIN (SELECT n FROM {0}.r UNION ALL SELECT id FROM {0}.r) s ON l.n = s.n",
        "SELECT l.id, s.n FROM l JOIN (SELECT n FROM {0}.r UNION SELECT id FROM {0}.r) s ON l.n = s.n",
        "SELECT l.id, s.n FROM l JOIN (SELECT n FROM {0}.r EXCEPT SELECT id FROM {0}.r WHERE id > 200) s ON l.n = s.n",
        "SELECT l.id, s.w FROM l JOIN (SELECT n, count(*) OVER () AS w FROM {0}.r) s ON l.n = s.n",
        "SELECT l.id, a.id, b.id FROM l JOIN {0}.r a ON l.n = a.n JOIN {0}.r b ON a.id = b.n WHERE l.id < 20",
        "SELECT l.id, m.id, a.id FROM l JOIN {0}.r a ON l.n = a.n JOIN l m ON m.id = a.id",
        "SELECT l.id, a.id FROM l JOIN ({0}.r a LEFT JOIN l m ON m.id = a.id) ON l.n = a.n",
        "SELECT l.id, a.id FROM l JOIN ({0}.r a RIGHT JOIN l m ON m.id = a.id) ON l.n IS NOT DISTINCT FROM a.n",
        "SELECT l.id, a.id FROM l JOIN ({0}.r a FULL JOIN l m ON m.id = a.id) ON l.n = a.n",
        "SELECT l.id, (SELECT max(r.id) FROM {0}.r WHERE r.n = l.n) FROM l",
        "SELECT l.id, x.id FROM l, LATERAL (SELECT r.id FROM {0}.r WHERE r.n = l.n AND r.id > l.id) x",
        "SELECT l.id FROM l WHERE l.n > (SELECT avg(r.n) FROM {0}.r WHERE r.id = l.id)",
        "WITH c AS MATERIALIZED (FROM {0}.r) SELECT l.id, c.id FROM l JOIN c USING (n) WHERE c.id > (SELECT min(id) "
        "FROM c)",
        "WITH RECURSIVE t(n, d) AS (SELECT n, 0 FROM l WHERE id < 9 UNION ALL SELECT (r.id + 1) % 500, d + 1 FROM t "
        "JOIN {0}.r ON r.n = t.n WHERE d < 2 AND r.id < 90) FROM t",
        "SELECT count(*) FROM l ASOF JOIN {0}.r ON l.n = r.n AND l.id >= r.id",
        "SELECT e.id, r.id FROM empty e JOIN {0}.r USING (n)",
        "SELECT e.id, r.id FROM empty e RIGHT JOIN {0}.r USING (n)",
        "SELECT count(*) FROM {0}.r WHERE n NOT IN (SELECT n FROM empty)",
        "SELECT l.id, z.id FROM l LEFT JOIN {0}.none z USING (n)",
        "SELECT l.id, r.id FROM (FROM l WHERE c_integer IS NULL) l JOIN {0}.r USING (c_integer)",
        "SELECT l.id, r.rowid FROM l JOIN {0}.r ON l.id = r.rowid",
        "SELECT k, g FROM {0}.big WHERE (k, g) IN (SELECT id, id // 4 FROM l)",
        "SELECT count(*) FROM {0}.big b JOIN l ON b.g = l.n JOIN l m ON m.id = b.k % 500",
    ],
)
def test_shapes(con, sql):
    check(con, sql)


def test_not_below_a_limit(con):
    """Rows without a partner count for a LIMIT. (DuckDB's own join filters may forget that.)"""
    con.execute("SET disabled_optimizers = 'join_filter_pushdown'")
    for order in ("ORDER BY id, n, c_bigint LIMIT 700", "ORDER BY id, n, c_bigint LIMIT 700 OFFSET 3"):
        sql = "SELECT l.id, s.n FROM l JOIN (SELECT n FROM {0}.r %s) s ON l.n = s.n" % order
        check(con, sql)
        assert "OPENDUCK_JOIN_KEYS" not in plan(con, sql.format("cloud"))
    con.execute("RESET disabled_optimizers")


def test_joins_of_one_query_share_a_scan(con):
    """Keys of two joins filter one scan."""
    sql = "SELECT b.k FROM {0}.big b JOIN l ON b.k = l.id JOIN empty e ON b.g = e.n"
    assert check(con, sql)
    two = "SELECT b.k FROM {0}.big b JOIN l ON b.k = l.id JOIN (FROM l WHERE id > 3) m ON b.g = m.n"
    assert check(con, two)
    assert plan(con, two.format("cloud")).count("OPENDUCK_JOIN_KEYS") == 2


def test_keys_of_a_grouped_scan_are_waited_for(con):
    # With a column that rows which are sent cannot have.
    groups = "(SELECT g, count(*) AS c FROM {0}.big GROUP BY g) s"
    sql = "SELECT l.id, l.c_list, s.c FROM l JOIN %s ON l.n = s.g" % groups
    assert check(con, sql)
    assert "OPENDUCK_AWAIT_KEYS" in plan(con, sql.format("cloud"))


def nodes(plan):
    """PLAN's operators: a list of them, each with its children."""
    for node in plan:
        yield node
        yield from nodes(node["children"])


def travelled(con, sql):
    """Of the scans of SQL: keys and rows sent, and bytes that came and went."""
    text = con.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + sql).fetchall()[0][1]
    found = collections.Counter()
    for node in nodes([json.loads(text)]):
        for name in ("Keys Sent", "Rows Sent", "Bytes Sent", "Bytes Received"):
            found[name] += int(node.get("extra_info", {}).get(name, 0))
    return found


def test_a_small_side_moves_little(con):
    """Of 1,000 rows here and a large table there, no more than a fiftieth of the table moves."""
    whole = travelled(con, "FROM cloud.big")["Bytes Received"]
    con.execute("CREATE OR REPLACE TABLE few AS SELECT (i * 7919) %% %d AS k FROM range(1000) t(i)" % BIG)
    for sql in (
        "SELECT big.* FROM few JOIN cloud.big USING (k)",
        "SELECT big.* FROM few LEFT JOIN cloud.big USING (k)",
        "SELECT big.* FROM cloud.big WHERE k IN (FROM few)",
        "SELECT count(*) FROM cloud.big SEMI JOIN few USING (k)",
        "SELECT few.k, sum(d) FROM few JOIN cloud.big USING (k) GROUP BY few.k",
    ):
        moved = travelled(con, sql)
        assert moved["Keys Sent"] + moved["Rows Sent"] == 1000, sql
        assert moved["Bytes Received"] + moved["Bytes Sent"] < whole / 50, sql


def test_a_large_side_stays(con):
    """Keys that are about as many as the rows there are not gathered; nor sent, if there are more than expected."""
    large = "SELECT count(*) FROM (SELECT i AS k FROM range(300000) t(i)) JOIN cloud.big USING (k)"
    assert "OPENDUCK_JOIN_KEYS" not in plan(con, large)
    con.execute("CREATE OR REPLACE TABLE wrong AS SELECT i AS k, 1 AS one FROM range(300000) t(i)")
    few = "(FROM wrong WHERE one + k * 0 = 1 AND one * 1 = 1 AND one - k * 0 = 1)"
    surprise = "SELECT count(*) FROM %s JOIN {0}.big USING (k)" % few
    check(con, surprise)
    assert travelled(con, surprise.format("cloud"))["Keys Sent"] == 0


def test_keys_that_leave_nothing_out_stay(con):
    """As many keys as the column has values are not sent; of others those that leave out most come first."""
    con.execute("CREATE OR REPLACE TABLE names AS SELECT 's' || i AS s, i % 2 AS odd FROM range(1000) t(i)")
    con.execute("CREATE OR REPLACE TABLE part_of_k AS SELECT i AS k FROM range(20000) t(i)")
    every = "SELECT k FROM {0}.big JOIN names USING (s)"
    # DuckDB does not see that it leaves out nothing.
    hidden = every + " WHERE odd * odd < 4"
    half = every + " WHERE odd * odd = 1"
    for sql, keys in ((every, 0), (hidden, 0), (half, 500)):
        check(con, sql)
        assert travelled(con, sql.format("cloud"))["Keys Sent"] == keys, sql
    both = "SELECT k FROM {0}.big JOIN names USING (s) JOIN part_of_k USING (k) WHERE odd * odd = 1"
    check(con, both)
    text = con.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + both.format("cloud")).fetchall()[0][1]
    scan = next(n for n in nodes([json.loads(text)]) if "Keys Sent" in n.get("extra_info", {}))["extra_info"]
    assert int(scan["Keys Sent"]) == 20500
    assert scan["Remote SQL"].index('"k" IN') < scan["Remote SQL"].index('"s" IN'), scan


def test_no_partner_no_question(con):
    """The server is not asked for rows if there is no key."""
    con.execute("CREATE OR REPLACE TABLE keys AS SELECT NULL::BIGINT AS k FROM range(3)")
    assert travelled(con, "SELECT * FROM cloud.big JOIN keys USING (k)")["Bytes Received"] == 0


def test_explain(con):
    """EXPLAIN shows which keys go where."""
    text = con.execute("EXPLAIN (FORMAT JSON) SELECT s FROM l JOIN cloud.big ON l.id = k AND l.n = g").fetchall()[0][1]
    found = {n["name"]: n["extra_info"] for n in nodes(json.loads(text))}
    assert found["OPENDUCK_JOIN_KEYS"]["Sent For"] == '"k", "g" of big'
    sql = found["OPENDUCK_SCAN"]["Remote SQL"]
    assert '("k", "g") IN (SELECT k1, k2 FROM openduck_rows($1))' in sql


def test_a_prepared_join_sees_todays_keys(con):
    con.execute("CREATE OR REPLACE TABLE keys AS SELECT i AS k FROM range(10) t(i)")
    con.execute("PREPARE j AS SELECT count(*), sum(b.k) FROM keys JOIN cloud.big b USING (k) WHERE keys.k >= $1")
    assert con.execute("EXECUTE j(5)").fetchone() == (5, 35)
    con.execute("INSERT INTO keys VALUES (100), (NULL)")
    assert con.execute("EXECUTE j(9)").fetchone() == (2, 109)
    con.execute("DELETE FROM keys")
    assert con.execute("EXECUTE j(0)").fetchone() == (0, None)


def test_in_a_transaction(con):
    """A scan with keys sees what its transaction has written."""
    con.execute("CREATE OR REPLACE TABLE keys AS SELECT %d + i AS k FROM range(3) t(i)" % (BIG - 1))
    join = "SELECT count(*) FROM keys JOIN cloud.big USING (k)"
    con.execute("BEGIN")
    assert con.execute(join).fetchone() == (1,)
    con.execute("INSERT INTO cloud.big VALUES (%d, 0, 'new', 1)" % BIG)
    assert con.execute(join).fetchone() == (2,)
    con.execute("ROLLBACK")
    assert con.execute(join).fetchone() == (1,)


def test_writes(con):
    """UPDATE, DELETE and MERGE by a table of this side read only the rows that they change."""
    con.execute("CREATE OR REPLACE TABLE keys AS SELECT i * 100 AS k, 'n' || i AS s FROM range(50) t(i)")
    for schema in ("cloud", "twin.main"):
        table = "cloud.w" if schema == "cloud" else "twin.w"
        con.execute("CREATE OR REPLACE TABLE %s AS FROM %s.big WHERE k < 20000" % (table, schema.split(".")[0]))
    changes = (
        "UPDATE {0}.w SET s = keys.s FROM keys WHERE keys.k = w.k",
        "DELETE FROM {0}.w USING keys WHERE keys.k + 1 = w.k",
        "MERGE INTO {0}.w USING keys ON w.k = keys.k + 2 WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT VALUES (keys.k, 0, keys.s, 0)",
    )
    for sql in changes:
        assert con.execute(sql.format("cloud")).fetchall() == con.execute(sql.format("twin")).fetchall()
        check(con, "FROM {0}.w")
    con.execute("DROP TABLE cloud.w")
