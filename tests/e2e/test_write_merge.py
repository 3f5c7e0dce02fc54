"""MERGE INTO an attached database with a local source: which action a row gets is decided here, and is done there."""

import duckdb
import pytest
import services
from test_write_rows import failure, rows

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE SEQUENCE s START 100",
    "CREATE TABLE t (i INTEGER PRIMARY KEY, v VARCHAR DEFAULT 'none', n BIGINT DEFAULT nextval('s'))",
)


@pytest.fixture(scope="module", params=["serve", "stack"])
def server(request, tmp_path_factory):
    path = services.make_database(tmp_path_factory.mktemp("merge") / "mydb.duckdb", *TABLES)
    start = services.Serve if request.param == "serve" else services.Stack
    with start({"mydb": path}) as s:
        yield s


@pytest.fixture
def con(server):
    with server.client() as other:
        other.do("DELETE FROM t; INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)")
    with services.attached(server) as c:
        c.execute("CREATE TABLE l AS FROM (VALUES (2, 'TWO'), (3, 'gone'), (4, 'new'), (5, 'skip')) r(i, v)")
        yield c
    server.wait_idle()


EVERY_ACTION = """MERGE INTO cloud.t USING l ON t.i = l.i
    WHEN MATCHED AND l.v = 'gone' THEN DELETE
    WHEN MATCHED THEN UPDATE SET v = l.v, n = DEFAULT
    WHEN NOT MATCHED AND l.v = 'skip' THEN DO NOTHING
    WHEN NOT MATCHED THEN INSERT (i, v, n) VALUES (l.i, l.v, DEFAULT)
    WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'lonely'"""


def test_every_action(con):
    assert rows(con, EVERY_ACTION) == [(4,)]
    got = rows(con, "SELECT i, v, n >= 100 FROM cloud.t ORDER BY i")
    assert got == [(1, "lonely", False), (2, "TWO", True), (4, "new", True)]


def test_returning_tells_the_action(con):
    got = rows(con, EVERY_ACTION + " RETURNING merge_action, i, v")
    assert sorted(got) == [("DELETE", 3, "three"), ("INSERT", 4, "new"), ("UPDATE", 1, "lonely"), ("UPDATE", 2, "TWO")]


def test_an_error_action_leaves_nothing(con):
    error = failure(
        con,
        "MERGE INTO cloud.t USING l ON t.i = l.i WHEN MATCHED AND l.i = 3 THEN ERROR 'no ' || l.v "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (i, v) VALUES (l.i, l.v)",
    )
    assert isinstance(error, duckdb.ConstraintException) and "no gone" in str(error)
    assert rows(con, "SELECT i FROM cloud.t ORDER BY i") == [(1,), (2,), (3,)]


def test_a_row_may_take_the_key_of_one_that_goes(con):
    con.execute("CREATE TABLE moved AS SELECT 2 AS old, 9 AS new")
    sql = "MERGE INTO cloud.t USING moved ON t.i = moved.%s WHEN MATCHED THEN DELETE "
    sql += "WHEN NOT MATCHED THEN INSERT (i) VALUES (%s)"
    assert rows(con, sql % ("old", "new")) == [(1,)]
    assert rows(con, sql % ("old", "new")) == [(1,)]
    assert rows(con, "SELECT i FROM cloud.t ORDER BY i") == [(1,), (3,), (9,)]


def test_insert_by_name_and_of_defaults(con):
    assert rows(con, "MERGE INTO cloud.t USING l USING (i) WHEN NOT MATCHED THEN INSERT BY NAME") == [(2,)]
    con.execute("CREATE TABLE three AS SELECT 100 + i AS i FROM range(3) r(i)")
    with_defaults = (
        "MERGE INTO cloud.d USING three USING (i) WHEN NOT MATCHED THEN INSERT DEFAULT VALUES RETURNING merge_action, *"
    )
    con.execute("CREATE OR REPLACE TABLE cloud.d AS SELECT 1 AS i")
    assert rows(con, with_defaults) == [("INSERT", None)] * 3


def test_what_it_does_is_as_in_plain_duckdb(con):
    con.execute("CREATE TABLE p (i INTEGER PRIMARY KEY, v VARCHAR, n BIGINT)")
    con.execute("INSERT INTO p FROM cloud.t")
    con.execute("CREATE TABLE src AS SELECT i % 7 AS i, 'v' || i AS v FROM range(1, 6) r(i)")
    sql = (
        "MERGE INTO %s AS t USING src AS s ON t.i = s.i WHEN MATCHED AND s.i = 2 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET v = t.v || s.v WHEN NOT MATCHED THEN INSERT VALUES (s.i, s.v, length(s.v)) "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE RETURNING merge_action, i, v"
    )
    assert sorted(rows(con, sql % "cloud.t")) == sorted(rows(con, sql % "p"))
    assert rows(con, "SELECT i, v FROM cloud.t ORDER BY i") == rows(con, "SELECT i, v FROM p ORDER BY i")


def test_insert_on_conflict_from_local_rows(con):
    assert rows(con, "INSERT INTO cloud.t SELECT i, v, 0 FROM l ON CONFLICT DO NOTHING") == [(2,)]
    got = rows(
        con,
        "INSERT INTO cloud.t SELECT i, v, 0 FROM l ON CONFLICT (i) DO UPDATE SET v = excluded.v || '!' RETURNING i, v",
    )
    assert sorted(got) == [(2, "TWO!"), (3, "gone!"), (4, "new!"), (5, "skip!")]
    assert rows(con, "INSERT OR REPLACE INTO cloud.t SELECT i, v, 7 FROM l") == [(4,)]
    assert rows(con, "SELECT i, v, n FROM cloud.t WHERE i > 1 ORDER BY i") == [
        (2, "TWO", 7),
        (3, "gone", 7),
        (4, "new", 7),
        (5, "skip", 7),
    ]
