"""Transactions over the wire, by a grpcio client that shares nothing with ours: at a server with a worker of its own
(serve) and at a gateway with a separate worker (stack)."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time

import grpc
import pytest
import services

TABLES = (
    "CREATE TABLE t (i BIGINT PRIMARY KEY, v VARCHAR)",
    "CREATE TABLE log (transaction_id BIGINT, part BIGINT)",
)


@contextlib.contextmanager
def served(kind, path, *options):
    if kind == "serve":
        with services.Serve({"mydb": path}, *options) as s:
            yield s
            if s.alive():
                s.stop()
    else:
        with services.Stack({"mydb": path}, *options, worker_options=options) as s:
            yield s
            if s.gateway.alive() and s.worker.alive():
                s.stop()


@pytest.fixture
def db(tmp_path):
    return services.make_database(tmp_path / "mydb.duckdb", *TABLES)


@pytest.fixture(params=["serve", "stack"])
def kind(request):
    return request.param


@pytest.fixture
def server(kind, db):
    with served(kind, db) as s:
        yield s


def open_transactions(server):
    worker = getattr(server, "worker", None)
    total = 0
    for one in [server, *([worker] if worker else [])]:
        with one.client() as c:
            total += c.status().transactions
    return total


def none_open(server, seconds=5.0):
    services.wait_until(lambda: open_transactions(server) == 0, seconds, "no transaction is open")


def count(c, table="t"):
    return c.rows("SELECT count(*) FROM %s" % table)[0][0]


def test_a_transaction_is_isolated_and_sees_its_own_writes(server):
    with server.client() as a, server.client() as b:
        t = a.begin()
        a.do("INSERT INTO t VALUES (1, 'a')", transaction_id=t)
        assert a.do("SELECT i, v FROM t", transaction_id=t) == [(1, "a")]
        assert count(b) == 0
        b.do("INSERT INTO t VALUES (2, 'b')")
        assert a.do("SELECT i FROM t", transaction_id=t) == [(1,)], "one snapshot"
        a.commit(t)
        assert b.rows("SELECT i FROM t ORDER BY i") == [(1,), (2,)]
        none_open(server)


def test_rollback_undoes_rows_and_tables(server):
    with server.client() as c:
        t = c.begin()
        c.do("INSERT INTO t VALUES (1, 'a')", transaction_id=t)
        c.do("CREATE TABLE made (i INTEGER)", transaction_id=t)
        c.do("ALTER TABLE t ADD COLUMN w INTEGER", transaction_id=t)
        c.rollback(t)
        assert count(c) == 0
        assert len(c.rows("DESCRIBE t")) == 2
        with pytest.raises(services.Refused):
            c.do("FROM made")
        none_open(server)


def test_conflicts_are_typed(server, pb):
    with server.client() as c:
        c.do("INSERT INTO t VALUES (1, 'a')")
        a, b = c.begin(), c.begin()
        c.do("UPDATE t SET v = 'x'", transaction_id=a)
        with pytest.raises(services.Refused) as e:
            c.do("UPDATE t SET v = 'y'", transaction_id=b)
        assert (e.value.detail.kind, e.value.state) == (pb.ERROR_KIND_IO, "40001")
        c.rollback(b)
        c.commit(a)
        none_open(server)


def test_a_commit_that_fails_ends_the_transaction_and_frees_its_slot(kind, db):
    with served(kind, db, "--max-transactions", "2") as server, server.client() as c:
        for _ in range(5):
            a, b = c.begin(), c.begin()
            with pytest.raises(services.Refused) as e:
                c.begin()
            assert (e.value.code, e.value.state) == ("BUSY", "53300")
            n = random.randrange(1 << 60)
            for t in (a, b):
                c.do("INSERT INTO t VALUES (%d, 'x')" % n, transaction_id=t)
            c.commit(a)
            with pytest.raises(services.Refused) as e:
                c.commit(b)
            assert e.value.state == "40001"
            with pytest.raises(services.Refused) as e:
                c.commit(b)
            assert e.value.code == "NO_TRANSACTION"
        assert count(c) == 5
        none_open(server)


def test_unknown_transactions_are_refused(server):
    with server.client() as c:
        for call in (c.commit, c.rollback, lambda t: c.do("SELECT 1", transaction_id=t)):
            with pytest.raises(services.Refused) as e:
                call("nonsense")
            assert (e.value.code, e.value.state) == ("NO_TRANSACTION", "25P01")
        t = c.begin()
        for sql in ("COMMIT", "ROLLBACK", "SELECT 1; COMMIT", "BEGIN"):
            with pytest.raises(services.Refused):
                c.do(sql, transaction_id=t)
            c.rollback(t)
            t = c.begin()
        c.rollback(t)
        with pytest.raises((services.Refused, grpc.RpcError)):
            c.begin("nowhere")


def test_the_token_guards_all(kind, db, tmp_path):
    options = {"token": "secret"}
    with (
        services.Serve({"mydb": db}, **options) as server,
        server.client("secret") as good,
        server.client("bad") as bad,
    ):
        t = good.begin()
        for call in (bad.begin, lambda: bad.commit(t), lambda: bad.rollback(t), lambda: bad.ingest(t, "s", [], [])):
            with pytest.raises(grpc.RpcError) as e:
                call()
            assert e.value.code() == grpc.StatusCode.UNAUTHENTICATED
        good.commit(t)
        server.stop()


def test_results_side_by_side(server):
    """Several results of one transaction are open at once, and are read in any order."""
    with server.client() as c:
        t = c.begin()
        calls = [c.call("SELECT i, repeat('x', 100) FROM range(300000) t(i)", transaction_id=t) for _ in range(4)]
        firsts = [next(call) for call in calls]
        for first, call in reversed(list(zip(firsts, calls, strict=True))):
            answer = services.Answer([first, *call])
            assert answer.finished and sum(x.num_rows for x in answer.tables()) == 300000
        c.commit(t)


def test_statements_at_once_in_one_transaction(server):
    with server.client() as c:
        t = c.begin()
        errors = []

        def insert(k):
            try:
                for i in range(20):
                    c.do("INSERT INTO t VALUES (%d, 'x')" % (k * 100 + i), transaction_id=t)
            except Exception as e:
                errors.append(e)

        threads = [threading.Thread(target=insert, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        c.commit(t)
        assert count(c) == 160


def test_a_cancelled_statement_leaves_the_transaction(server):
    with server.client() as c:
        t = c.begin()
        c.do("INSERT INTO t VALUES (1, 'x')", transaction_id=t)
        call = c.call("SELECT count(*) FROM range(10000000000) a, range(1000) b", transaction_id=t, execution_id="long")
        services.wait_until(lambda: c.status().in_flight == 1, 5, "it runs")
        assert c.cancel("long")
        assert services.Answer(list(call)).error is not None
        c.rollback(t)
        assert count(c) == 0
        none_open(server)


def test_a_reader_that_has_enough_leaves_the_transaction(server):
    with server.client() as c:
        t = c.begin()
        c.do("INSERT INTO t VALUES (1, 'x')", transaction_id=t)
        for _ in range(20):
            call = c.call("SELECT i, 's' || i FROM range(1000000000) t(i)", transaction_id=t)
            next(call)
            call.cancel()
        assert c.do("SELECT count(*) FROM t", transaction_id=t) == [(1,)]
        c.commit(t)
        assert count(c) == 1
        none_open(server)


def test_an_aborted_transaction_is_not_committed(server):
    with server.client() as c:
        t = c.begin()
        c.do("INSERT INTO t VALUES (1, 'x')", transaction_id=t)
        with pytest.raises(services.Refused):
            c.do("INSERT INTO t VALUES (1, 'y')", transaction_id=t)
        with pytest.raises(services.Refused) as e:
            c.commit(t)
        assert e.value.state == "25P02"
        assert count(c) == 0
        none_open(server)


# ---------------------------------------------------------------- owners that go


CLIENT = """
import sys, time
sys.path.insert(0, sys.argv[1])
import services
with services.Remote(sys.argv[2]) as c:
    t = c.begin()
    c.do("INSERT INTO t VALUES (1, 'x')", transaction_id=t)
    print(t, flush=True)
    if sys.argv[3] == "computing":
        c.do("SELECT count(*) FROM range(10000000000) a, range(1000) b", transaction_id=t)
    time.sleep(600)
"""


@contextlib.contextmanager
def client_process(server, work):
    """A client of its own process with a transaction that is open, and its id."""
    here = os.path.dirname(services.__file__)
    args = [sys.executable, "-c", CLIENT, here, server.url, work]
    with subprocess.Popen(args, stdout=subprocess.PIPE, text=True) as client:
        try:
            yield client, client.stdout.readline().strip()
        finally:
            client.kill()


@pytest.mark.parametrize("work", ["idle", "computing"])
def test_a_killed_client_is_rolled_back_at_once(server, work):
    with client_process(server, work) as (client, t):
        if work == "computing":
            with server.client() as c:
                services.wait_until(lambda: c.status().in_flight == 1, 10, "it computes")
        start = time.monotonic()
        client.kill()
        client.wait()
        none_open(server, 5)
        assert time.monotonic() - start < 5 * services.SLOW
    with server.client() as c:
        assert count(c) == 0
        c.do("INSERT INTO t VALUES (1, 'mine')")
        with pytest.raises(services.Refused) as e:
            c.commit(t)
        assert e.value.code == "NO_TRANSACTION"


def test_a_stopped_client_is_rolled_back_when_it_dies(server):
    with client_process(server, "idle") as (client, _):
        client.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        assert open_transactions(server) > 0
        client.kill()
        client.wait()
        none_open(server, 5)


def test_an_idle_transaction_is_rolled_back(kind, db):
    with served(kind, db, "--transaction-idle-timeout", "500ms") as server, server.client() as c:
        t = c.begin()
        c.do("INSERT INTO t VALUES (1, 'x')", transaction_id=t)
        for _ in range(4):
            time.sleep(0.2)
            c.do("SELECT 1", transaction_id=t)
        time.sleep(1.2)
        with pytest.raises(services.Refused) as e:
            c.do("SELECT 1", transaction_id=t)
        assert e.value.code == "NO_TRANSACTION"
        assert "500 ms" in str(e.value)
        with pytest.raises(services.Refused):
            c.commit(t)
        assert count(c) == 0
        none_open(server)


def test_a_worker_killed_in_a_transaction(db):
    with services.Worker({"mydb": db}) as worker, services.Gateway([worker.url]) as gateway:
        with gateway.client() as c:
            t = c.begin()
            c.do("INSERT INTO t VALUES (1, 'x')", transaction_id=t)
            worker.kill()
            with pytest.raises((services.Refused, grpc.RpcError)):
                c.do("SELECT 1", transaction_id=t)
            with pytest.raises((services.Refused, grpc.RpcError)):
                c.commit(t)
            services.wait_until(lambda: c.status().transactions == 0, 5, "the gateway forgot it")
        with services.Worker({"mydb": db}, listen="127.0.0.1:%d" % worker.port), gateway.client() as c:

            def answers():
                try:
                    return count(c) == 0
                except (grpc.RpcError, RuntimeError):
                    return False

            services.wait_until(answers, 20, "the worker that came back answers")
            t = c.begin()
            c.do("INSERT INTO t VALUES (1, 'x')", transaction_id=t)
            c.commit(t)
            assert count(c) == 1
        gateway.stop()


def test_a_gateway_killed_in_a_transaction(db):
    with services.Worker({"mydb": db}) as worker:
        with services.Gateway([worker.url]) as gateway, gateway.client() as c:
            t = c.begin()
            c.do("INSERT INTO t VALUES (1, 'x')", transaction_id=t)
            gateway.kill()
        with worker.client() as c:
            services.wait_until(lambda: c.status().transactions == 0, 5, "the worker rolled back")
            assert count(c) == 0
        worker.stop()


# ---------------------------------------------------------------- killed at any time


def writer(url, first, acknowledged, attempted, stop):
    """Transactions of ten rows each; notes which COMMIT was acknowledged."""
    n = first
    while not stop.is_set():
        try:
            with services.Remote(url) as c:
                while not stop.is_set():
                    t = c.begin(timeout=5)
                    attempted.append(n)
                    for part in range(10):
                        c.do("INSERT INTO log VALUES (%d, %d)" % (n, part), transaction_id=t, timeout=10)
                    c.commit(t, timeout=10)
                    acknowledged.append(n)
                    n += 1
        except (grpc.RpcError, services.Refused):
            n += 1
            time.sleep(0.05)


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.long)])
def test_kill_9_leaves_transactions_whole(kind, db, kills):
    acknowledged, attempted = [], []
    stop = threading.Event()
    port, worker_port = services.free_port(), services.free_port()

    def start():
        if kind == "serve":
            return services.Serve({"mydb": db}, listen="127.0.0.1:%d" % port), None
        worker = services.Worker({"mydb": db}, listen="127.0.0.1:%d" % worker_port)
        return worker, None

    gateway = (
        services.Gateway(["http://127.0.0.1:%d" % worker_port], listen="127.0.0.1:%d" % port)
        if kind == "stack"
        else None
    )
    url = "http://127.0.0.1:%d" % port
    threads = [
        threading.Thread(target=writer, args=(url, k * 1000000, acknowledged, attempted, stop)) for k in range(4)
    ]
    server, _ = start()
    for thread in threads:
        thread.start()
    try:
        rng = random.Random(kills)
        for _ in range(kills):
            before = len(acknowledged)
            services.wait_until(lambda before=before: len(acknowledged) >= before + 3, 60, "transactions are committed")
            time.sleep(rng.random() * 0.2)
            server.kill()
            server, _ = start()
        stop.set()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    with server.client() as c:
        rows = c.rows("SELECT transaction_id, count(*)::INTEGER, count(DISTINCT part)::INTEGER FROM log GROUP BY ALL")
    assert all((n, d) == (10, 10) for _, n, d in rows), "each is wholly there"
    there = {t for t, _, _ in rows}
    assert set(acknowledged) <= there, "what was acknowledged is there"
    assert there <= set(attempted)
    if gateway is not None:
        gateway.stop()
    server.stop()
