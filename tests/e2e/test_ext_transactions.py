"""Transactions of the user's DuckDB that go to a remote database: one view, own changes, COMMIT and ROLLBACK; at a
server with a worker of its own (serve) and at a gateway with a separate worker (stack)."""

import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys

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


@pytest.fixture(autouse=True)
def as_it_was(server):
    yield
    with server.client() as c:
        c.do("DELETE FROM t WHERE i > 1")


@pytest.fixture
def con(server):
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


def test_a_failed_statement_ends_the_transaction_at_the_server_at_once(server, con, other):
    con.execute("BEGIN")
    run(con, "UPDATE t SET v = 'ours' WHERE i = 1")
    with pytest.raises(duckdb.ConversionException):
        run(con, "SELECT v::INTEGER FROM t")
    assert open_transactions(server) == 0
    other.do("UPDATE t SET v = 'one' WHERE i = 1")
    with pytest.raises(duckdb.TransactionException, match="Current transaction is aborted"):
        con.execute("SELECT 1")
    with pytest.raises(duckdb.TransactionException, match="Current transaction is aborted"):
        count(con)
    assert open_transactions(server) == 0
    con.execute("ROLLBACK")
    assert count(con) == 1


def test_a_name_that_is_not_there_does_not_abort(con):
    con.execute("BEGIN")
    run(con, "INSERT INTO t VALUES (2, 'two')")
    with pytest.raises(duckdb.CatalogException):
        con.execute("SELECT * FROM cloud.nothing")
    with pytest.raises(duckdb.BinderException):
        con.execute("SELECT nothing FROM cloud.t")
    for sql in ["CREATE TABLE cloud.t(i INTEGER)", "CREATE SCHEMA cloud.main", "DROP TABLE cloud.nothing"]:
        with pytest.raises(duckdb.CatalogException):
            con.execute(sql)
    assert count(con) == 2
    con.execute("COMMIT")
    assert count(con) == 2


# ---------------------------------------------------------------- results


def test_results_that_are_left_unread_leave_the_transaction(con):
    con.execute("BEGIN")
    run(con, "INSERT INTO t VALUES (2, 'two')")
    endless = "SELECT i, 's' || i AS s FROM range(1000000000) t(i)"
    for _ in range(10):
        result = con.execute("FROM openduck_query('cloud', $1)", [endless])
        assert result.fetchmany(2) == [(0, "s0"), (1, "s1")]
        assert count(con) == 2
        con.execute("FROM openduck_query('cloud', $1) LIMIT 3 OFFSET 5000", [endless])
    assert con.execute("FROM (SELECT i FROM openduck_query('cloud', $1)) LIMIT 3", [endless]).fetchall()[2] == (2,)
    con.execute("COMMIT")
    assert count(con) == 2


def test_a_result_is_read_in_parts(con):
    con.execute("BEGIN")
    run(con, "INSERT INTO t SELECT i, 'v' || i FROM range(2, 200000) r(i)")
    result = con.execute("SELECT i FROM cloud.t ORDER BY i")
    seen = []
    while part := result.fetchmany(10000):
        seen += part
    assert [i for (i,) in seen] == list(range(1, 200000))
    con.execute("ROLLBACK")
    assert count(con) == 1


@pytest.mark.parametrize("threads", [1, 4])
def test_scans_of_one_transaction_at_once(server, other, threads):
    with services.attached(server, config={"threads": str(threads)}) as con:
        con.execute("BEGIN")
        run(con, "CREATE TABLE wide AS SELECT i, 'some text ' || i AS s FROM range(300000) t(i)")
        for sql, rows in [
            ("SELECT count(*) FROM cloud.wide a JOIN cloud.wide b USING (i) JOIN cloud.wide c ON a.s = c.s", 300000),
            ("SELECT count(*) FROM cloud.wide a, cloud.wide b WHERE a.i = b.i + 1 AND a.s <> b.s", 299999),
            ("SELECT count(s) FROM (FROM cloud.wide UNION ALL FROM cloud.wide UNION ALL FROM cloud.wide)", 900000),
            ("SELECT count(*) FROM (FROM cloud.wide EXCEPT FROM cloud.wide WHERE i % 2 = 0)", 150000),
            ("SELECT count(*) FROM cloud.wide ASOF JOIN cloud.wide b USING (i)", 300000),
            ("SELECT count(*) FROM cloud.wide a POSITIONAL JOIN cloud.wide b", 300000),
            ("SELECT count(*) FROM cloud.wide a WHERE EXISTS (FROM cloud.wide b WHERE b.i = a.i * 2 LIMIT 1)", 150000),
        ]:
            assert con.execute(sql).fetchall() == [(rows,)], sql
        con.execute("CREATE TEMP TABLE here AS FROM cloud.wide UNION ALL FROM cloud.wide")
        assert con.execute("SELECT count(*), min(i), max(i) FROM here").fetchall() == [(600000, 0, 299999)]
        con.execute("ROLLBACK")


# ---------------------------------------------------------------- the catalog


def names(con):
    return con.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'cloud' ORDER BY 1").fetchall()


def test_own_tables_are_seen_by_oneself_alone_until_commit(server, con, other):
    with services.attached(server) as third:
        assert count(third) == 1
        con.execute("BEGIN")
        assert count(con) == 1
        run(con, "CREATE TABLE made AS SELECT 7 AS i")
        assert con.execute("FROM cloud.made").fetchall() == [(7,)]
        assert names(con) == [("made",), ("t",)]
        assert names(third) == [("t",)]
        with pytest.raises(duckdb.CatalogException):
            third.execute("FROM cloud.made")
        run(con, "ALTER TABLE made ADD COLUMN j INTEGER DEFAULT 8")
        assert con.execute("FROM cloud.made").fetchall() == [(7, 8)]
        run(con, "DROP TABLE t")
        with pytest.raises(duckdb.CatalogException):
            con.execute("FROM cloud.t")
        assert count(third) == 1
        con.execute("ROLLBACK")
        assert names(con) == [("t",)]
        with pytest.raises(duckdb.CatalogException):
            con.execute("FROM cloud.made")
        con.execute("BEGIN")
        run(con, "CREATE TABLE made AS SELECT 9 AS i, 'x' AS s")
        assert con.execute("FROM cloud.made").fetchall() == [(9, "x")]
        con.execute("COMMIT")
        assert third.execute("FROM cloud.made").fetchall() == [(9, "x")]
        assert con.execute("FROM cloud.made").fetchall() == [(9, "x")]
        other.do("DROP TABLE made")


def test_others_ddl_does_not_disturb_a_transaction(server, con, other):
    other.do("CREATE TABLE theirs AS SELECT 1 AS i, 'a' AS s")
    with services.attached(server) as third:
        third.execute("FROM cloud.theirs").fetchall()
        con.execute("BEGIN")
        assert count(con) == 1
        other.do("ALTER TABLE theirs DROP COLUMN s")
        other.do("CREATE TABLE later AS SELECT 5 AS x")
        other.do("DROP TABLE IF EXISTS theirs2")
        assert third.execute("FROM cloud.theirs").fetchall() == [(1,)]
        for _ in range(2):
            assert con.execute("FROM cloud.theirs").fetchall() == [(1, "a")]
            with pytest.raises(duckdb.CatalogException):
                con.execute("FROM cloud.later")
            assert third.execute("FROM cloud.later").fetchall() == [(5,)]
        assert names(con) == [("t",), ("theirs",)]
        assert names(third) == [("later",), ("t",), ("theirs",)]
        con.execute("COMMIT")
        assert con.execute("FROM cloud.theirs").fetchall() == [(1,)]
        assert con.execute("FROM cloud.later").fetchall() == [(5,)]
        other.do("DROP TABLE theirs; DROP TABLE later")


def test_prepared_statements_go_from_transaction_to_transaction(con, other):
    other.do("CREATE TABLE shape AS SELECT 1 AS i")
    con.execute("PREPARE p AS SELECT * FROM cloud.shape")
    con.execute("BEGIN")
    assert con.execute("EXECUTE p").fetchall() == [(1,)]
    other.do("ALTER TABLE shape ADD COLUMN j INTEGER DEFAULT 2")
    assert con.execute("EXECUTE p").fetchall() == [(1,)]
    run(con, "INSERT INTO t VALUES (2, 'two')")
    con.execute("COMMIT")
    assert con.execute("EXECUTE p").fetchall() == [(1, 2)]
    con.execute("BEGIN")
    run(con, "CREATE OR REPLACE TABLE shape AS SELECT 'x' AS only")
    assert con.execute("EXECUTE p").fetchall() == [("x",)]
    con.execute("ROLLBACK")
    assert con.execute("EXECUTE p").fetchall() == [(1, 2)]
    con.execute("DEALLOCATE p")
    other.do("DROP TABLE shape")


def test_catalogs_that_are_too_large_to_be_read_whole(tmp_path):
    create = ["CREATE TABLE many_%d AS SELECT %d AS i, 'x' AS s" % (k, k) for k in range(600)]
    path = services.make_database(tmp_path / "mydb.duckdb", *TABLES, *create)
    with services.Serve({"mydb": path}) as server, server.client() as other, services.attached(server) as con:
        con.execute("BEGIN")
        assert con.execute("FROM cloud.many_5").fetchall() == [(5, "x")]
        other.do("ALTER TABLE many_6 DROP COLUMN s")
        assert con.execute("FROM cloud.many_6").fetchall() == [(6, "x")]
        run(con, "CREATE TABLE made AS SELECT 1 AS i")
        assert con.execute("FROM cloud.made").fetchall() == [(1,)]
        assert con.execute("FROM cloud.many_7").fetchall() == [(7, "x")]
        with services.attached(server) as third:
            with pytest.raises(duckdb.CatalogException):
                third.execute("FROM cloud.made")
            assert third.execute("FROM cloud.many_6").fetchall() == [(6,)]
        con.execute("ROLLBACK")
        assert con.execute("FROM cloud.many_6").fetchall() == [(6,)]
        with pytest.raises(duckdb.CatalogException):
            con.execute("FROM cloud.made")


# ---------------------------------------------------------------- read-only


def test_begin_read_only_changes_nothing(server, con, other):
    for change in ["INSERT INTO t VALUES (7, 'x')", "CREATE TABLE made(i INTEGER)", "EXPLAIN ANALYZE DELETE FROM t"]:
        con.execute("BEGIN READ ONLY")
        assert count(con) == 1
        with pytest.raises(duckdb.TransactionException, match="transaction is launched in read-only mode"):
            run(con, change)
        con.execute("ROLLBACK")
    con.execute("BEGIN READ ONLY")
    with pytest.raises(duckdb.TransactionException, match="read-only"):
        con.execute("INSERT INTO cloud.t VALUES (7, 'x')")
    con.execute("ROLLBACK")
    con.execute("BEGIN READ ONLY")
    assert count(con) == 1
    other.do("INSERT INTO t VALUES (2, 'two')")
    assert count(con) == 1
    con.execute("COMMIT")
    assert count(con) == 2
    no_transactions(server)


def test_a_read_only_attach_refuses_changes(server):
    con = services.duck()
    con.execute(services.attach_sql(server.url) + " (READ_ONLY)")
    for begin in [False, True]:
        for change in [
            "INSERT INTO cloud.t VALUES (7, 'x')",
            "CREATE TABLE cloud.made(i INTEGER)",
            "DROP TABLE cloud.t",
        ]:
            if begin:
                con.execute("BEGIN")
            assert count(con) == 1
            with pytest.raises(duckdb.InvalidInputException, match="attached in read-only mode"):
                con.execute(change)
            with pytest.raises(duckdb.Error):
                run(con, change.replace("cloud.", ""))
            if begin:
                con.execute("ROLLBACK")
    with pytest.raises(duckdb.InvalidInputException, match="attached in read-only mode"):
        run(con, "INSERT INTO t VALUES (7, 'x')")
    assert run(con, "EXPLAIN DELETE FROM t") and count(con) == 1
    con.close()


# ---------------------------------------------------------------- attached and detached meanwhile


def test_a_database_in_use_by_the_transaction_is_not_detached(con):
    con.execute("BEGIN")
    run(con, "INSERT INTO t VALUES (2, 'two')")
    with pytest.raises(duckdb.TransactionException, match="outstanding work"):
        con.execute("DETACH cloud")
    con.execute("ROLLBACK")
    con.execute("DETACH cloud")
    with pytest.raises(duckdb.CatalogException):
        count(con)


def test_detached_by_another_a_transaction_goes_on(server, con):
    mine = con.cursor()
    mine.execute("BEGIN")
    run(mine, "INSERT INTO t VALUES (2, 'two')")
    result = mine.execute("FROM openduck_query('cloud', 'SELECT i FROM range(500000) t(i)')")
    first = result.fetchmany(5)
    con.execute("DETACH cloud")
    assert len(first) + len(result.fetchall()) == 500000
    assert count(mine) == 2
    con.execute(services.attach_sql(server.url))
    assert count(con) == 1
    assert count(mine) == 2
    mine.execute("COMMIT")
    assert count(con) == 2
    assert count(mine) == 2


def test_attached_anew_within_a_transaction(server, con):
    con.execute("BEGIN")
    run(con, "INSERT INTO t VALUES (2, 'two')")
    con.execute(services.attach_sql(server.url).replace("ATTACH", "ATTACH OR REPLACE"))
    con.execute("COMMIT")
    assert count(con) == 2
    con.execute("BEGIN")
    con.execute(services.attach_sql(server.url, alias="again"))
    assert con.execute("SELECT count(*) FROM again.t").fetchall() == [(2,)]
    con.execute("ROLLBACK")
    no_transactions(server)


def test_attach_and_detach_by_16_threads(server):
    con = services.duck()
    attach = services.attach_sql(server.url)
    once, anew = attach.replace("ATTACH", "ATTACH IF NOT EXISTS"), attach.replace("ATTACH", "ATTACH OR REPLACE")

    def keep(_):
        c = con.cursor()
        for _ in range(5):
            c.execute(once)
            assert count(c) == 1
            c.execute("BEGIN")
            assert count(c) == 1
            assert names(c) in ([("t",)], [])  # a list shows the databases of now: not one that was replaced
            c.execute("COMMIT")
            c.execute(anew)

    def move(n):
        c = con.cursor()
        for k in range(10):
            c.execute([once, anew, "DETACH DATABASE IF EXISTS cloud"][(n + k) % 3])
            try:
                c.execute("BEGIN")
                c.execute("SELECT count(*) FROM cloud.t").fetchall()
                c.execute("COMMIT")
            except duckdb.CatalogException:  # it is not attached
                c.execute("ROLLBACK")

    for work in [keep, move]:
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(16)))
        con.execute(once)
        assert count(con) == 1
    con.close()
    no_transactions(server)


# ---------------------------------------------------------------- lost


CLIENT = """
import sys, time
sys.path.insert(0, sys.argv[1])
import services
con = services.duck()
con.execute(services.attach_sql(sys.argv[2]))
con.execute("BEGIN")
con.execute("FROM openduck_query('cloud', 'UPDATE t SET v = ''held'' WHERE i = 1')")
print("held", flush=True)
if sys.argv[3] == "computing":
    con.execute("FROM openduck_query('cloud', 'SELECT count(*) FROM range(10000000000) a, range(1000) b')")
time.sleep(600)
"""


@pytest.mark.parametrize("work", ["idle", "computing"])
def test_a_killed_client_is_rolled_back_within_10_seconds(server, con, work):
    here = os.path.dirname(services.__file__)
    args = [sys.executable, "-c", CLIENT, here, server.url, work]
    with subprocess.Popen(args, stdout=subprocess.PIPE, text=True) as client:
        try:
            assert client.stdout.readline().strip() == "held"
            if work == "computing":
                with getattr(server, "worker", server).client() as c:
                    services.wait_until(lambda: c.status().in_flight >= 1, 20, "it computes")
            with pytest.raises(duckdb.TransactionException, match=r"[Cc]onflict"):
                run(con, "UPDATE t SET v = 'other' WHERE i = 1")
        finally:
            client.send_signal(signal.SIGKILL)

    def free():
        try:
            run(con, "UPDATE t SET v = 'one' WHERE i = 1")
        except duckdb.TransactionException:
            return False
        return True

    services.wait_until(free, 10, "what the client had changed to be free again")
    assert con.execute("SELECT v FROM cloud.t").fetchall() == [("one",)]
    no_transactions(server)


def test_a_closed_connection_is_rolled_back(server, con):
    own = con.cursor()
    own.execute("BEGIN")
    run(own, "INSERT INTO t VALUES (2, 'two')")
    own.close()
    assert count(con) == 1
    no_transactions(server)


def test_a_lost_connection_ends_the_transaction_and_not_the_session(server):
    with services.TcpProxy(server.url) as proxy, services.attached(proxy.url) as con:
        con.execute("BEGIN")
        run(con, "INSERT INTO t VALUES (2, 'two')")
        proxy.cut()
        with pytest.raises((duckdb.IOException, duckdb.TransactionException)) as e:
            run(con, "INSERT INTO t VALUES (3, 'three')")
            count(con)
        assert proxy.url.removeprefix("http://") in str(e.value)
        with pytest.raises(duckdb.TransactionException, match="aborted"):
            count(con)
        con.execute("ROLLBACK")
        assert count(con) == 1
        con.execute("BEGIN")
        run(con, "INSERT INTO t VALUES (2, 'two')")
        proxy.cut()
        with pytest.raises(duckdb.TransactionException, match="Failed to commit"):
            con.execute("COMMIT")
        assert count(con) == 1
        con.execute("BEGIN")
        run(con, "INSERT INTO t VALUES (2, 'two')")
        proxy.cut()
        con.execute("ROLLBACK")
        assert count(con) == 1
    no_transactions(server)


def test_a_reading_transaction_commits_whatever_became_of_its_connection(server):
    with services.TcpProxy(server.url) as proxy, services.attached(proxy.url) as con:
        con.execute("BEGIN")
        con.execute("CREATE TABLE here AS FROM cloud.t")
        proxy.cut()
        con.execute("COMMIT")
        assert con.execute("SELECT count(*) FROM here").fetchall() == [(1,)]


def test_a_commit_without_an_answer_says_that_nobody_knows(server):
    with services.TcpProxy(server.url) as proxy, services.attached(proxy.url) as con, server.client() as other:
        for end in ["cut", "interrupt"]:
            con.execute("BEGIN")
            run(con, "INSERT INTO t VALUES (2, 'two')")
            proxy.stall()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                commit = pool.submit(con.execute, "COMMIT")
                services.wait_until(lambda: proxy.held > 0, 20, "COMMIT or its answer is on its way")
                if end == "cut":
                    proxy.cut()
                else:
                    con.interrupt()
                with pytest.raises(duckdb.TransactionException, match="not known"):
                    commit.result()
            proxy.resume()
            assert count(con) in (1, 2)
            no_transactions(server)
            other.do("DELETE FROM t WHERE i = 2")


def test_an_interrupt_aborts_and_rollback_follows(server, con):
    con.execute("BEGIN")
    run(con, "INSERT INTO t VALUES (2, 'two')")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, con, "SELECT count(*) FROM range(10000000000) a, range(1000) b")
        with getattr(server, "worker", server).client() as c:
            services.wait_until(lambda: c.status().in_flight >= 1, 20, "it computes")
        con.interrupt()
        with pytest.raises(duckdb.InterruptException):
            running.result()
    with pytest.raises(duckdb.TransactionException, match="aborted"):
        count(con)
    con.execute("ROLLBACK")
    assert count(con) == 1
    no_transactions(server)


def test_limits_of_the_server_are_told(tmp_path):
    path = services.make_database(tmp_path / "mydb.duckdb", *TABLES)
    options = ["--max-transactions", "1", "--transaction-idle-timeout", "500ms"]
    with services.Serve({"mydb": path}, *options) as server, services.attached(server) as con:
        con.execute("BEGIN")
        run(con, "INSERT INTO t VALUES (2, 'two')")
        services.wait_until(lambda: open_transactions(server) == 0, 20, "the idle transaction to be ended")
        with pytest.raises(duckdb.TransactionException, match="nothing ran in it"):
            count(con)
        con.execute("ROLLBACK")
        assert count(con) == 1
    with services.Serve({"mydb": path}, "--max-transactions", "1") as server, services.attached(server) as con:
        held = con.cursor()
        held.execute("BEGIN")
        assert count(held) == 1
        assert count(con) == 1
        con.execute("BEGIN")
        with pytest.raises(duckdb.Error, match="transactions"):
            count(con)
        con.execute("ROLLBACK")
        held.execute("COMMIT")
        con.execute("BEGIN")
        assert count(con) == 1
        con.execute("COMMIT")


# ---------------------------------------------------------------- plans


def test_a_join_knows_the_sizes_that_writes_have_made(server, other):
    def build_side(con):
        sql = "EXPLAIN SELECT list(a.i), list(b.i) FROM cloud.grown a JOIN cloud.small b ON a.i = b.i"  # joined here
        plan = con.execute(sql).fetchall()[0][1]
        return "300,000" in plan and "~3 " in plan.replace("│", " ")

    other.do("CREATE TABLE grown(i BIGINT); CREATE TABLE small AS FROM range(3) t(i)")
    with services.RecordingProxy(server.url) as proxy, services.attached(proxy.url) as con:
        assert not build_side(con)
        con.execute("BEGIN")
        con.execute("INSERT INTO cloud.grown SELECT i FROM range(300000) t(i)")
        assert build_side(con)
        con.execute("ROLLBACK")
        assert not build_side(con)
        con.execute("INSERT INTO cloud.grown SELECT i FROM range(300000) t(i)")
        assert build_side(con)
        proxy.clear()
        assert con.execute("SELECT count(*) FROM cloud.grown").fetchall() == [(300000,)]
        assert build_side(con)
        assert len(proxy.sql()) == 1  # asked once after a write, and only where something is joined
    other.do("DROP TABLE grown; DROP TABLE small")
