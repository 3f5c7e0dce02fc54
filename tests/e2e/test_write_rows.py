"""Rows that are computed here are written to an attached database: INSERT, CREATE TABLE AS, UPDATE, DELETE; in one
process (serve) and through a gateway with a separate worker (stack)."""

import os
import signal
import threading

import duckdb
import pytest
import services

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE SEQUENCE s START 100",
    "CREATE TABLE t (i INTEGER PRIMARY KEY, v VARCHAR DEFAULT 'none', n BIGINT DEFAULT nextval('s'), CHECK (i < 1000))",
)


@pytest.fixture(scope="module", params=["serve", "stack"])
def server(request, tmp_path_factory):
    path = services.make_database(tmp_path_factory.mktemp("write") / "mydb.duckdb", *TABLES)
    start = services.Serve if request.param == "serve" else services.Stack
    with start({"mydb": path}) as s:
        yield s


@pytest.fixture
def con(server):
    with server.client() as other:
        other.do("DELETE FROM t; INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)")
    with services.attached(server) as c:
        c.execute("CREATE TABLE l AS SELECT i + 10 AS i, 'l' || i AS v FROM range(5) r(i)")
        yield c
    server.wait_idle()


def rows(con, sql):
    return con.execute(sql).fetchall()


def failure(con, sql):
    with pytest.raises(duckdb.Error) as e:
        con.execute(sql).fetchall()
    return e.value


# ---------------------------------------------------------------- INSERT


def test_insert_leaves_to_the_server_what_is_not_given(con):
    assert rows(con, "INSERT INTO cloud.t (v, i) SELECT v, i FROM l") == [(5,)]
    got = rows(con, "SELECT i, v, n >= 100 FROM cloud.t WHERE i >= 10 ORDER BY i")
    assert got == [(10 + k, "l%d" % k, True) for k in range(5)]
    assert rows(con, "INSERT INTO cloud.t BY NAME SELECT i + 100 AS i FROM l") == [(5,)]
    assert rows(con, "SELECT DISTINCT v FROM cloud.t WHERE i >= 110") == [("none",)]


def test_insert_returns_what_the_server_made_of_it(con):
    got = rows(con, "INSERT INTO cloud.t (i) SELECT i FROM l WHERE i < 12 RETURNING v, n > 99, i * 2 AS d")
    assert got == [("none", True, 20), ("none", True, 22)]


def test_insert_of_nothing(con):
    assert rows(con, "INSERT INTO cloud.t (i) SELECT i FROM l WHERE i < 0") == [(0,)]
    assert rows(con, "INSERT INTO cloud.t (i) SELECT i FROM l WHERE i < 0 RETURNING *") == []


def test_insert_from_both_sides(con):
    assert rows(con, "INSERT INTO cloud.t SELECT t.i + l.i, t.v || l.v, 0 FROM cloud.t JOIN l ON l.i = t.i + 9") == [
        (3,)
    ]
    assert rows(con, "SELECT i, v FROM cloud.t WHERE n = 0 ORDER BY i") == [
        (11, "onel0"),
        (13, "twol1"),
        (15, "threel2"),
    ]


def test_order_is_kept(con):
    con.execute("CREATE TABLE big AS SELECT i, i * 7 % 1000003 AS k, repeat('x', i % 50) AS s FROM range(600000) r(i)")
    con.execute("CREATE OR REPLACE TABLE cloud.big AS FROM big")
    assert rows(
        con, "SELECT count(*), count(*) FILTER (i = r) FROM (SELECT i, row_number() OVER () - 1 AS r FROM cloud.big)"
    ) == [(600000, 600000)]
    same = "SELECT count(*), sum(hash(i, k, s)) FROM %s"
    assert rows(con, same % "cloud.big") == rows(con, same % "big")
    con.execute("CREATE OR REPLACE TABLE cloud.big AS FROM big ORDER BY k")
    assert rows(con, "SELECT count(*) FROM (SELECT k, lag(k) OVER () AS before FROM cloud.big) WHERE before > k") == [
        (0,)
    ]
    con.execute("SET preserve_insertion_order = false")
    con.execute("CREATE OR REPLACE TABLE cloud.big AS FROM big")
    assert rows(con, same % "cloud.big") == rows(con, same % "big")


def test_long_rows_are_split_among_payloads(con):
    con.execute(
        "CREATE TABLE long AS SELECT i, repeat(chr(97 + i::INTEGER), 300000) AS s, range(i * 1000) AS r "
        "FROM range(26) t(i)"
    )
    con.execute("INSERT INTO long SELECT 100 + i, repeat('z', 3000000), NULL FROM range(40) t(i)")
    con.execute("CREATE OR REPLACE TABLE cloud.long AS FROM long")
    same = "SELECT i, md5(s), len(r), list_sum(r) FROM %s ORDER BY i"
    assert rows(con, same % "cloud.long") == rows(con, same % "long")


# ---------------------------------------------------------------- all or nothing


@pytest.mark.parametrize("megabytes", [40, 200])
def test_a_client_sleeps_while_the_server_takes_nothing(server, megabytes):
    """What waits fits into memory, or does not and holds up the reading: no thread spins, and all goes on."""
    with services.attached(server) as con:
        con.execute("SET threads = 8")
        con.execute("CREATE TABLE cloud.stopped (i BIGINT, v VARCHAR)")
        con.execute("CREATE TABLE big AS SELECT i, repeat('x', 990) || i AS v FROM range(?) r(i)", [megabytes * 1000])
        answer = []
        sender = threading.Thread(target=lambda: answer.extend(rows(con, "INSERT INTO cloud.stopped FROM big")))
        con.execute("BEGIN")
        con.execute("FROM cloud.t LIMIT 1").fetchall()
        os.kill(server.pid, signal.SIGSTOP)
        try:
            sender.start()
            services.wait_until(lambda: services.own_cpu_share() < 0.2, 20, "the client has read what it may")
            share = services.own_cpu_share(1)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        sender.join(120 * services.SLOW)
        assert share < 0.2
        assert answer == [(megabytes * 1000,)]
        con.execute("COMMIT")
        got = rows(con, "SELECT count(*), count(*) FILTER (i = rowid AND v = repeat('x', 990) || i) FROM cloud.stopped")
        assert got == [(megabytes * 1000, megabytes * 1000)]
        con.execute("DROP TABLE cloud.stopped")


def test_a_failure_at_the_server_leaves_nothing(con):
    error = failure(con, "INSERT INTO cloud.t (i) SELECT i FROM l UNION ALL SELECT 1")
    assert isinstance(error, duckdb.ConstraintException)
    assert isinstance(failure(con, "INSERT INTO cloud.t (i) SELECT i + 990 FROM l"), duckdb.ConstraintException)
    assert rows(con, "SELECT count(*) FROM cloud.t") == [(3,)]


def test_a_failure_of_the_source_leaves_nothing(con):
    con.execute("CREATE OR REPLACE TABLE cloud.any_number (i BIGINT)")  # which takes all that comes before the failure
    big = "SELECT CASE WHEN i = 900000 THEN error('stop') ELSE i END FROM range(1000000) r(i)"
    big += " WHERE EXISTS (FROM l)"
    assert "stop" in str(failure(con, "INSERT INTO cloud.any_number " + big))
    assert "stop" in str(failure(con, "CREATE TABLE cloud.never AS " + big))
    assert rows(con, "SELECT count(*) FROM cloud.any_number") == [(0,)]
    assert isinstance(failure(con, "FROM cloud.never"), duckdb.CatalogException)
    con.execute("DROP TABLE cloud.any_number")


def test_a_failure_aborts_the_transaction(con):
    con.execute("BEGIN")
    con.execute("INSERT INTO cloud.t (i) SELECT i FROM l")
    assert rows(con, "SELECT count(*) FROM cloud.t") == [(8,)]
    failure(con, "INSERT INTO cloud.t (i) SELECT i FROM l")
    assert "aborted" in str(failure(con, "SELECT 1"))
    con.execute("ROLLBACK")
    assert rows(con, "SELECT count(*) FROM cloud.t") == [(3,)]


def test_rows_of_a_transaction_whose_definition_failed(con):
    """A definition that fails changes the transaction's catalog version, and nothing else."""
    con.execute("BEGIN")
    assert isinstance(failure(con, "ALTER TABLE cloud.t DROP COLUMN missing"), duckdb.BinderException)
    con.execute("CREATE TABLE cloud.made AS SELECT i FROM l")
    con.execute("INSERT INTO cloud.made SELECT i FROM l")
    assert rows(con, "SELECT count(*) FROM cloud.made") == [(10,)]
    con.execute("ROLLBACK")


# ---------------------------------------------------------------- CREATE TABLE AS


def test_create_table_as(con):
    assert rows(con, "CREATE OR REPLACE TABLE cloud.c AS SELECT i, v, '[1]'::JSON AS j, [i] AS k FROM l") == [(5,)]
    assert [r[:2] for r in rows(con, "DESCRIBE cloud.c")] == [
        ("i", "BIGINT"),
        ("v", "VARCHAR"),
        ("j", "JSON"),
        ("k", "BIGINT[]"),
    ]
    assert isinstance(failure(con, "CREATE TABLE cloud.c AS FROM l"), duckdb.CatalogException)
    con.execute("CREATE TABLE IF NOT EXISTS cloud.c AS SELECT i AS other FROM l")
    assert rows(con, "SELECT count(j) FROM cloud.c") == [(5,)]
    assert rows(con, "CREATE OR REPLACE TABLE cloud.c AS SELECT v AS only FROM l WHERE i < 0") == [(0,)]
    assert [r[:2] for r in rows(con, "DESCRIBE cloud.c")] == [("only", "VARCHAR")]


# ---------------------------------------------------------------- UPDATE, DELETE


def test_update_from_local_rows(con):
    con.execute("INSERT INTO cloud.t (i) SELECT i FROM l")
    assert rows(con, "UPDATE cloud.t SET v = l.v, n = -1 FROM l WHERE t.i = l.i AND l.i < 13") == [(3,)]
    assert rows(con, "SELECT i, v FROM cloud.t WHERE n = -1 ORDER BY i") == [(10, "l0"), (11, "l1"), (12, "l2")]


def test_update_returning_in_the_order_of_the_table(con):
    con.execute("CREATE MACRO here(x) AS x + getvariable('add')")
    con.execute("SET VARIABLE add = 40")
    got = rows(con, "UPDATE cloud.t SET n = here(n), v = DEFAULT WHERE i < 3 RETURNING i, v, n, *")
    assert sorted(got) == [(1, "none", 41, 1, "none", 41), (2, "none", 42, 2, "none", 42)]


def test_update_to_the_default_of_the_server(con):
    assert rows(con, "UPDATE cloud.t SET n = DEFAULT FROM l WHERE l.i = t.i + 9 RETURNING n >= 100") == [(True,)] * 3


def test_update_of_what_is_not_unique(con):
    error = failure(con, "UPDATE cloud.t SET i = l.i FROM l WHERE l.i = 10")
    assert isinstance(error, duckdb.ConstraintException)
    assert rows(con, "SELECT i FROM cloud.t ORDER BY i") == [(1,), (2,), (3,)]


def test_delete_by_local_rows(con):
    con.execute("INSERT INTO cloud.t (i) SELECT i FROM l")
    got = rows(con, "DELETE FROM cloud.t USING l WHERE t.i = l.i AND l.i > 12 RETURNING i, v")
    assert sorted(got) == [(13, "none"), (14, "none")]
    assert rows(con, "DELETE FROM cloud.t WHERE i IN (SELECT i FROM l)") == [(3,)]
    assert rows(con, "DELETE FROM cloud.t WHERE i > getvariable('none')") == [(0,)]
    assert rows(con, "SELECT i FROM cloud.t ORDER BY i") == [(1,), (2,), (3,)]


def test_a_column_called_rowid(con):
    con.execute("CREATE OR REPLACE TABLE cloud.r AS SELECT i AS rowid, v FROM l")
    assert rows(con, "SELECT rowid FROM cloud.r LIMIT 1") == [(10,)]
    assert isinstance(failure(con, "DELETE FROM cloud.r USING l WHERE r.v = l.v"), duckdb.NotImplementedException)
    assert rows(con, "SELECT count(*) FROM cloud.r") == [(5,)]


# ---------------------------------------------------------------- who may


def test_read_only_refuses(server):
    con = services.duck()
    con.execute(services.attach_sql(server.url) + " (READ_ONLY)")
    for sql in (
        "INSERT INTO cloud.t (i) SELECT getvariable('x')",
        "DELETE FROM cloud.t WHERE i = getvariable('x')",
        "CREATE TABLE cloud.x AS SELECT 1 AS i",
    ):
        assert "read-only" in str(failure(con, sql))
    con.close()
