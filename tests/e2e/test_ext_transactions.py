"""Transactions of the user's DuckDB that go to a remote database: one view, own changes, COMMIT and ROLLBACK; at a
server with a worker of its own (serve) and at a gateway with a separate worker (stack)."""

import contextlib

import duckdb
import pytest
import services

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE TABLE t (i BIGINT PRIMARY KEY, v VARCHAR)",
    "INSERT INTO t VALUES (1, 'one')",
)


@pytest.fixture(scope="module", params=["serve", "stack"])
def server(request, tmp_path_factory):
    path = services.make_database(tmp_path_factory.mktemp("txn") / "mydb.duckdb", *TABLES)
    if request.param == "serve":
        with services.Serve({"mydb": path}) as s:
            yield s
    else:
        with services.Stack({"mydb": path}) as s:
            yield s


@pytest.fixture
def con(server):
    with server.client() as other:
        other.do("DELETE FROM t WHERE i > 1")
    with services.attached(server) as c:
        yield c


@pytest.fixture
def other(server):
    """Another client, by plain SQL."""
    with server.client() as c:
        yield c


def open_transactions(server):
    with getattr(server, "worker", server).client() as c:
        return c.status().transactions


def no_transactions(server):
    services.wait_until(lambda: open_transactions(server) == 0, 10, "the server to have ended the transaction")


def run(con, sql):
    """Whatever the statement is, at the server, as a part of the user's transaction."""
    return con.execute("FROM openduck_query('cloud', $1)", [sql]).fetchall()


def count(con):
    return con.execute("SELECT count(*) FROM cloud.t").fetchone()[0]


# ---------------------------------------------------------------- one view


def test_all_reads_of_a_transaction_see_one_moment(con, other):
    con.execute("BEGIN")
    assert count(con) == 1
    other.do("INSERT INTO t VALUES (2, 'two')")
    assert count(con) == 1
    assert run(con, "SELECT count(*) FROM t") == [(1,)]
    assert con.execute("SELECT v FROM cloud.t WHERE i = 2").fetchall() == []
    con.execute("COMMIT")
    assert count(con) == 2


def test_own_changes_are_seen_by_oneself_until_commit_by_nobody_else(con, other):
    con.execute("BEGIN")
    run(con, "INSERT INTO t VALUES (2, 'two')")
    assert con.execute("SELECT v FROM cloud.t WHERE i = 2").fetchall() == [("two",)]
    assert other.rows("SELECT count(*) FROM t") == [(1,)]
    con.execute("COMMIT")
    assert other.rows("SELECT count(*) FROM t") == [(2,)]


def test_rollback_leaves_nothing(server, con, other):
    con.execute("BEGIN")
    run(con, "INSERT INTO t VALUES (2, 'two')")
    assert count(con) == 2
    con.execute("ROLLBACK")
    assert count(con) == 1
    assert other.rows("SELECT count(*) FROM t") == [(1,)]
    assert open_transactions(server) == 0


def test_statements_without_begin_open_no_transaction(server, con):
    assert count(con) == 1
    con.execute("BEGIN")
    con.execute("SELECT 1").fetchall()
    assert open_transactions(server) == 0
    con.execute("COMMIT")


# ---------------------------------------------------------------- conflicts


def test_a_conflict_of_a_statement_is_a_transaction_error_and_aborts(server, con, other):
    con.execute("BEGIN")
    assert count(con) == 1
    other.do("UPDATE t SET v = 'theirs' WHERE i = 1")
    with pytest.raises(duckdb.TransactionException, match=r"[Cc]onflict"):
        run(con, "UPDATE t SET v = 'ours' WHERE i = 1")
    with pytest.raises(duckdb.TransactionException, match="Current transaction is aborted"):
        count(con)
    con.execute("ROLLBACK")
    assert con.execute("SELECT v FROM cloud.t").fetchall() == [("theirs",)]
    other.do("UPDATE t SET v = 'one'")
    no_transactions(server)


def test_a_conflict_at_commit_is_a_transaction_error(server, con, other):
    con.execute("BEGIN")
    run(con, "INSERT INTO t VALUES (2, 'ours')")
    other.do("INSERT INTO t VALUES (2, 'theirs')")
    with pytest.raises(duckdb.TransactionException, match="Failed to commit: "):
        con.execute("COMMIT")
    assert con.execute("SELECT v FROM cloud.t ORDER BY i").fetchall() == [("one",), ("theirs",)]
    assert open_transactions(server) == 0


def test_commit_of_an_aborted_transaction_rolls_back(server, con):
    con.execute("BEGIN")
    run(con, "INSERT INTO t VALUES (2, 'two')")
    with pytest.raises(duckdb.ConstraintException):
        run(con, "INSERT INTO t VALUES (2, 'again')")
    with contextlib.suppress(duckdb.Error):
        con.execute("COMMIT")
    assert count(con) == 1
    assert open_transactions(server) == 0
