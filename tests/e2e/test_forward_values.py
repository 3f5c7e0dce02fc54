"""What a forwarded statement takes along: parameters, values of the session, many constants; and that it runs once."""

import datetime
import decimal
import threading
import uuid

import duckdb
import pytest
import services
from test_forward import TABLES, remote_sql, served

pytestmark = pytest.mark.extension


@pytest.fixture(params=["serve", "stack"])
def server(request, tmp_path):
    path = services.make_database(tmp_path / "mydb.duckdb", *TABLES)
    with served(request.param, path) as s:
        yield s


@pytest.fixture
def con(server):
    with services.attached(server) as c:
        yield c


def names(con):
    return [row[0] for row in con.execute("SELECT nm FROM cloud.inv ORDER BY id").fetchall()]


VALUES = {
    "BOOLEAN": True,
    "TINYINT": -128,
    "UBIGINT": 2**64 - 1,
    "HUGEINT": -(2**100),
    "DOUBLE": 0.1,
    "DECIMAL(38,5)": decimal.Decimal("-123456789012345678901234567890123.45678"),
    "VARCHAR": "it's \U0001f986 $1 \x00 end",
    "BLOB": b"\x00\xff'",
    "DATE": datetime.date(1, 1, 1),
    "TIME": datetime.time(23, 59, 59, 999999),
    "TIMESTAMP": datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
    "INTERVAL": datetime.timedelta(days=-3, microseconds=5),
    "UUID": uuid.UUID(int=7),
    "INTEGER[]": [1, None, 3],
    "STRUCT(a INTEGER, b VARCHAR[])": {"a": 1, "b": ["x", None]},
    "MAP(VARCHAR, INTEGER)": {"k": 1},
}


def test_parameters_of_every_kind_arrive_as_they_are(con):
    columns = ["c%d" % i for i in range(len(VALUES))]
    con.execute("CREATE TABLE cloud.p (%s)" % ", ".join("%s %s" % pair for pair in zip(columns, VALUES)))
    marks = ", ".join("?" for _ in columns)
    con.execute("INSERT INTO cloud.p VALUES (%s)" % marks, list(VALUES.values()))
    con.execute("INSERT INTO cloud.p VALUES (%s)" % marks, [None for _ in columns])
    con.execute("CREATE TABLE p AS FROM cloud.p LIMIT 0")
    con.execute("INSERT INTO p VALUES (%s)" % marks, list(VALUES.values()))
    con.execute("INSERT INTO p VALUES (%s)" % marks, [None for _ in columns])
    assert con.execute("FROM cloud.p ORDER BY c0").fetchall() == con.execute("FROM p ORDER BY c0").fetchall()


def test_parameters_are_not_text(con):
    assert (
        remote_sql(con, "UPDATE cloud.inv SET nm = 'x' WHERE id = 3")
        == "UPDATE mydb.main.inv SET nm = 'x' WHERE (id = 3)"
    )
    con.execute("PREPARE u AS UPDATE cloud.inv SET nm = $2 WHERE id = $1")
    plan = con.execute("EXPLAIN EXECUTE u(3, 'secret')").fetchall()[0][1]
    assert "$2" in plan and "secret" not in plan


def test_prepared_statements_run_with_other_values(con):
    con.execute("PREPARE i AS INSERT INTO cloud.inv (id, nm) VALUES ($1, $2) RETURNING id, nm")
    for i in range(10, 15):
        assert con.execute("EXECUTE i(%d, 'n%d')" % (i, i)).fetchall() == [(i, "n%d" % i)]
    con.execute("PREPARE u AS UPDATE cloud.inv SET nm = $name WHERE id = $id")
    assert con.execute("EXECUTE u(id := 10, name := 'new')").fetchall() == [(1,)]
    con.execute("ALTER TABLE cloud.inv ADD COLUMN extra INTEGER DEFAULT 3")
    assert con.execute("EXECUTE i(20, 'after')").fetchall() == [(20, "after")]
    con.execute("PREPARE d AS DELETE FROM cloud.inv WHERE id >= $1")
    assert con.execute("EXECUTE d(10)").fetchall() == [(6,)]
    con.executemany("INSERT INTO cloud.inv (id, nm) VALUES (?, ?)", [[100, "a"], [101, "b"], [102, "c"]])
    assert names(con) == ["A", "B", "C", "a", "b", "c"]
    con.execute("PREPARE s AS SELECT cloud.main.twice($1) AS t")
    assert [con.execute("EXECUTE s(%s)" % x).fetchall() for x in ("1", "2.5")] == [[(2,)], [(decimal.Decimal("5.0"),)]]
    con.execute("PREPARE gone AS INSERT INTO cloud.ids VALUES ($1)")
    con.execute("DETACH cloud")
    with pytest.raises(duckdb.Error, match="cloud"):
        con.execute("EXECUTE gone(1)")


def test_values_of_the_session_are_taken_along(con):
    con.execute("SET VARIABLE v = 41")
    con.execute("INSERT INTO cloud.ids VALUES (getvariable('v') + 1)")
    assert (42,) in con.execute("FROM cloud.ids").fetchall()
    con.execute("CREATE TABLE cloud.clock (t TIMESTAMPTZ, d DATE, s VARCHAR, x TIMESTAMPTZ DEFAULT now())")
    con.execute("BEGIN")
    con.execute("INSERT INTO cloud.clock (t, d, s) VALUES (now(), current_date, current_schema())")
    con.execute("PREPARE p AS UPDATE cloud.clock SET s = current_setting('TimeZone')")
    assert con.execute("SELECT t = now(), d = current_date, s FROM cloud.clock").fetchall() == [(True, True, "main")]
    con.execute("COMMIT")
    con.execute("SET TimeZone = 'Asia/Tokyo'")
    con.execute("EXECUTE p")
    assert con.execute("SELECT s FROM cloud.clock").fetchall() == [("Asia/Tokyo",)]
    con.execute("INSERT INTO cloud.clock (t) VALUES ('2024-01-01 00:00:00')")
    assert con.execute("SELECT epoch(t) FROM cloud.clock WHERE d IS NULL").fetchall() == [(1704034800.0,)]
    con.execute("CREATE TABLE cloud.words (current_date VARCHAR)")
    con.execute("INSERT INTO cloud.words VALUES ('a')")
    con.execute("UPDATE cloud.words SET current_date = current_date || 'b'")
    assert con.execute("FROM cloud.words").fetchall() == [("ab",)]


def test_functions_of_this_side_run_here(con):
    con.create_function("shout", lambda s: s + "!", ["VARCHAR"], "VARCHAR")
    con.execute("CREATE MACRO plus_one(a) AS a + 1")
    con.execute("INSERT INTO cloud.inv (id, nm) VALUES (plus_one(9), shout('x'))")
    con.execute("UPDATE cloud.inv SET nm = shout(nm) WHERE id < 3")
    assert names(con) == ["A!", "B!", "C", "x!"]
    con.execute("SET default_null_order = 'nulls_first'")
    con.execute("CREATE TABLE cloud.firsts AS SELECT x FROM (VALUES (1), (NULL)) v(x) ORDER BY x LIMIT 1")
    assert con.execute("FROM cloud.firsts").fetchall() == [(None,)]


@pytest.mark.parametrize("rows", [1000, 30000])
def test_many_constants(con, rows):
    con.execute("CREATE TABLE cloud.many (i INTEGER, s VARCHAR)")
    values = ", ".join("(%d, 'it''s %d')" % (i, i) for i in range(rows))
    assert con.execute("INSERT INTO cloud.many VALUES " + values).fetchall() == [(rows,)]
    assert con.execute("SELECT count(*), sum(i), max(s) FROM cloud.many").fetchall() == [
        (rows, rows * (rows - 1) // 2, "it's %d" % max(range(rows), key=str))
    ]


def test_explain_runs_nothing_and_explain_analyze_runs_it_once(con):
    con.execute("EXPLAIN DELETE FROM cloud.inv")
    assert names(con) == ["A", "B", "C"]
    con.execute("EXPLAIN ANALYZE INSERT INTO cloud.inv (id, nm) VALUES (9, 'once')")
    assert names(con) == ["A", "B", "C", "once"]
    con.execute("EXPLAIN SELECT nextval('cloud.seq')")
    assert con.execute("SELECT nextval('cloud.seq')").fetchall() == [(10,)]


def test_a_result_that_is_closed_early_is_done(con):
    con.execute("INSERT INTO cloud.ids SELECT i FROM range(100000) r(i) RETURNING id")
    assert con.fetchone() == (0,)
    assert con.execute("SELECT count(*) FROM cloud.ids").fetchall() == [(100002,)]


@pytest.mark.parametrize("after", [1, 40, 80, 120, 160, 400])
def test_a_lost_answer_is_an_error_and_nothing_is_run_twice(con, server, after):
    """The connection breaks when the server has answered, or while it does."""
    proxy = services.TcpProxy(server.url)
    with proxy, services.attached(proxy.url) as c:
        c.execute("INSERT INTO cloud.ids VALUES (999)")
        proxy.cut_after = proxy.down + after
        acknowledged = True
        try:
            c.execute("INSERT INTO cloud.ids VALUES (1000)")
        except duckdb.IOException:
            acknowledged = False
        proxy.cut_after = None
        ((rows,),) = con.execute("SELECT count(*) FROM cloud.ids WHERE id = 1000").fetchall()
        assert rows == 1 or (rows == 0 and not acknowledged)
        c.execute("INSERT INTO cloud.ids VALUES (1001)")


def test_one_request_is_enough(con, server):
    with services.RecordingProxy(server.url) as proxy, services.attached(proxy.url) as c:
        c.execute("FROM cloud.inv").fetchall()
        c.execute("PREPARE p AS INSERT INTO cloud.inv (id, nm) VALUES ($1, $2)")
        c.execute("PREPARE q AS SELECT nextval('cloud.seq')")
        for sql, requests in (
            ("INSERT INTO cloud.inv (id, nm) VALUES (10, 'a') RETURNING *", 1),
            ("UPDATE cloud.inv SET qty = 1 WHERE id IN (SELECT id FROM cloud.inv)", 1),
            ("DELETE FROM cloud.inv WHERE id = 10", 1),
            ("EXECUTE p(11, 'b')", 1),
            ("EXECUTE p(12, 'c')", 1),
            ("EXECUTE q", 1),
            ("EXECUTE q", 1),
            ("CREATE TABLE cloud.fresh (i INTEGER)", 1),
        ):
            before = len(proxy.requests)
            c.execute(sql).fetchall()
            assert len(proxy.requests) - before == requests, (sql, proxy.requests[before:])
        c.execute("PREPARE r AS SELECT cloud.main.twice($1)")
        c.execute("EXECUTE r(1)")
        before = len(proxy.requests)
        assert c.execute("EXECUTE r(2)").fetchall() == [(4,)]
        assert len(proxy.requests) - before == 1, proxy.executions()[-3:]
        before = len(proxy.requests)
        c.execute("FROM cloud.inv").fetchall()
        c.execute("INSERT INTO cloud.ids VALUES (?)", [1])
        c.executemany("INSERT INTO cloud.ids VALUES (?)", [[i] for i in range(10)])
        assert len(proxy.requests) - before <= 13, [r.plan for r in proxy.executions()[-16:]]


def test_an_interrupt_stops_it_at_the_server(con, server):
    timer = threading.Timer(0.3, con.interrupt)
    timer.start()
    with pytest.raises(duckdb.InterruptException):
        con.execute("INSERT INTO cloud.ids SELECT count(*) FROM range(200000) a, range(200000) b")
    timer.join()
    server.wait_idle(20.0)
    assert con.execute("SELECT count(*) FROM cloud.ids").fetchall() == [(2,)]


def test_relations_write(con):
    con.values([7]).insert_into("cloud.ids")
    con.sql("SELECT 8 AS x").create("cloud.made")
    con.table("cloud.ids").insert([9])
    con.sql("FROM cloud.ids").create("cloud.copied")
    assert sorted(con.sql("FROM cloud.copied").fetchall()) == [(2,), (3,), (7,), (9,)]
    assert con.sql("FROM cloud.made").fetchall() == [(8,)]
