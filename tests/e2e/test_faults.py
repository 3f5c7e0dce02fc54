"""Things die, stall, lie and fill up. After each: slots free, no CPU used, and the next query works."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

import duckdb
import grpc
import pytest
import services

ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"
STREAM = "SELECT i, i::VARCHAR || repeat('x', 100) AS s FROM range(1000000000) t(i)"
SECONDS = "SELECT count(*) FROM range(%d) a WHERE hash(hash(hash(a.range))) = 1"  # about 10 ns a row and core

EXECUTE = "/openduck.v1.ExecutionService/ExecuteFragment"


@pytest.fixture
def db(sample_db, tmp_path):
    path = tmp_path / "mydb.duckdb"
    shutil.copy(sample_db, path)
    return path


def drain(call):
    """Reads CALL to its end: (chunks, RpcError or None)."""
    chunks = []
    try:
        for chunk in call:
            chunks.append(chunk)
    except grpc.RpcError as e:
        return chunks, e
    return chunks, None


def failed(chunks, error):
    """Whether the client was told: by a status, an error chunk, or a stream without `finished`."""
    answer = services.Answer(chunks)
    return error is not None or answer.error_text is not None or not answer.finished


def quiet(daemon, seconds=1.0):
    services.wait_until(lambda: services.cpu_share(daemon, 0.2) < 0.1, seconds, "%s is idle" % daemon.args[0])


# ---------------------------------------------------------------- killed


@pytest.mark.parametrize("sql", [STREAM, ENDLESS], ids=["streaming", "computing"])
def test_worker_killed_in_mid_stream(db, sql):
    with services.Worker({"mydb": db}) as worker, services.Gateway([worker.url]) as gateway:
        with gateway.client() as c:
            call = c.call(sql)
            services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
            if sql is STREAM:
                next(call)
            start = time.monotonic()
            worker.kill()
            chunks, error = drain(call)
            assert failed(chunks, error)
            assert time.monotonic() - start < 2 * services.SLOW
            gateway.wait_idle()
            _, error = drain(c.call("SELECT 1"))
            assert error is not None, "a query without a worker has no answer"
        with services.Worker({"mydb": db}, listen="127.0.0.1:%d" % worker.port):
            services.wait_until(lambda: answers(gateway), 10, "the gateway finds the worker that came back")
            gateway.assert_usable()
        gateway.stop()


def answers(server):
    with server.client() as c:
        try:
            return c.rows("SELECT 1") == [(1,)]
        except (grpc.RpcError, RuntimeError):
            return False


def test_gateway_killed_in_mid_stream(db):
    with services.Worker({"mydb": db}) as worker:
        gateway = services.Gateway([worker.url])
        with gateway.client() as c:
            calls = [c.call(STREAM), c.call(ENDLESS)]
            next(calls[0])
            services.wait_until(lambda: worker.status().in_flight == 2, 5, "the queries run")
            gateway.kill()
            for call in calls:
                assert failed(*drain(call))
        worker.wait_idle(1)
        quiet(worker)
        worker.assert_usable()
        worker.stop()


@pytest.mark.parametrize("sql", [STREAM, ENDLESS], ids=["streaming", "computing"])
def test_client_killed(db, sql):
    with services.Serve({"mydb": db}) as server:
        client = subprocess.Popen(
            [services.BINARY, "query", sql, "--endpoint", server.url, "--format", "csv"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=services.server_env(),
        )
        services.wait_until(lambda: server.status().in_flight == 1, 5, "the query runs")
        client.kill()
        client.wait()
        server.wait_idle(1)
        quiet(server)
        server.assert_usable()


@pytest.mark.extension
def test_duckdb_process_killed_during_a_download(db):
    with services.Serve({"mydb": db}) as server:
        script = (
            "import services; con = services.duck(); con.execute(services.attach_sql(%r)); "
            "con.execute('SELECT max(a.i + b.i) FROM cloud.big a, cloud.big b').fetchall()" % server.url
        )
        env = {**os.environ, "PYTHONPATH": os.path.dirname(services.__file__)}
        with subprocess.Popen([services.sys.executable, "-c", script], env=env) as client:
            services.wait_until(lambda: server.status().executions_total > 1, 20, "the client asks")
            time.sleep(0.3)
            client.kill()
        server.wait_idle(2)
        quiet(server)
        server.assert_usable()


# ---------------------------------------------------------------- stalled, cut


def test_stalled_reader_stops_its_producer_and_harms_nobody(db):
    with services.Serve({"mydb": db}) as server, services.TcpProxy(server.url) as proxy:
        with server.client() as other:
            other.rows("SELECT count(*) FROM big")
            before = server.rss()
            with services.Remote(proxy.url) as c:
                call = c.call(STREAM)
                next(call)
                proxy.stall()
                time.sleep(2)
                quiet(server, 3)
                if services.PRESET != "tsan":  # whose shadow of each byte counts too
                    assert server.rss() - before < 64 << 20
                start = time.monotonic()
                assert other.rows("SELECT 1") == [(1,)]
                assert time.monotonic() - start < 1 * services.SLOW
                proxy.resume()
                next(call)
                call.cancel()
        server.wait_idle()


@pytest.mark.parametrize("topology", ["serve", "gateway"])
def test_cut_connection_stops_the_query(db, topology):
    start = services.Serve if topology == "serve" else services.Stack
    with start({"mydb": db}) as server, services.TcpProxy(server.url) as proxy:
        for sql in (STREAM, ENDLESS):
            with services.Remote(proxy.url) as c:
                call = c.call(sql)
                services.wait_until(lambda: server.status().in_flight == 1, 5, "the query runs")
                proxy.cut()
                assert failed(*drain(call))
            server.wait_idle(1)
            quiet(server)
        server.assert_usable()


@pytest.mark.extension
@pytest.mark.parametrize("after", [100, 5000, 1000000])
def test_extension_sees_a_cut_stream_as_an_error(db, after):
    with services.Serve({"mydb": db}) as server, services.TcpProxy(server.url) as proxy:
        with services.attached(proxy.url) as con:
            con.execute("SELECT count(i) FROM cloud.one").fetchall()
            proxy.cut_after = proxy.down + after
            with pytest.raises(duckdb.IOException):
                con.execute("CREATE OR REPLACE TEMP TABLE got AS SELECT i, s FROM cloud.big")
            proxy.cut_after = None
            assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(1000,)]
        server.assert_usable()


@pytest.mark.extension
def test_connection_that_died_while_idle_is_replaced_unseen(db):
    with services.Serve({"mydb": db}) as server, services.TcpProxy(server.url) as proxy:
        with services.attached(proxy.url) as con:
            assert con.execute("SELECT i FROM cloud.one").fetchall() == [(1,)]
            proxy.cut()
            assert con.execute("SELECT i FROM cloud.one").fetchall() == [(1,)]
            assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(1000,)]


@pytest.mark.extension
def test_server_that_restarts_is_found_again(db):
    server = services.Serve({"mydb": db})
    with services.attached(server) as con:
        assert con.execute("SELECT i FROM cloud.one").fetchall() == [(1,)]
        server.stop()
        with pytest.raises(duckdb.IOException, match=str(server.port)):
            con.execute("SELECT i FROM cloud.one").fetchall()
        with services.Serve({"mydb": db}, listen="127.0.0.1:%d" % server.port):
            assert con.execute("SELECT i FROM cloud.one").fetchall() == [(1,)]


# ---------------------------------------------------------------- tokens


@pytest.mark.extension
def test_wrong_token_is_a_permission_error(db):
    with services.Serve({"mydb": db}, token="right") as server:
        con = services.duck()
        for token in (None, "wrong"):
            with pytest.raises(duckdb.PermissionException) as e:
                con.execute(services.attach_sql(server.url, token=token))
                con.execute("SELECT * FROM cloud.t").fetchall()
            assert "access_token" in str(e.value)
            con.execute("DETACH DATABASE IF EXISTS cloud")
        con.execute(services.attach_sql(server.url, token="right"))
        assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(1000,)]
        con.close()
        assert "wrong" not in server.stderr()
        done = services.cli("query", "SELECT 1", "--endpoint", server.url, "--token", "wrong")
        assert done.returncode == 1 and "invalid access_token" in done.stderr
        server.assert_usable("right")


# ---------------------------------------------------------------- bytes that mean nothing


METHODS = [
    EXECUTE,
    *("/openduck.v1.ExecutionService/" + m for m in ("CancelExecution", "IngestData", "BeginTransaction")),
    *("/openduck.v1.ExecutionService/" + m for m in ("CommitTransaction", "RollbackTransaction")),
    *("/openduck.v1.ExecutionService/" + m for m in ("RegisterWorker", "Heartbeat")),
    "/openduck.v1.StatusService/GetStatus",
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("topology", ["serve", "gateway"])
def test_random_bytes_to_every_rpc(db, topology):
    """10,000 strings, some nearly right; each ends its call with a status, and nothing else."""
    rnd = random.Random(11)
    good = services.stubs().ExecuteFragmentRequest(plan=b"SELECT 1", database="mydb").SerializeToString()
    total = (10000 if services.SLOW == 1 else 2000) // (1 if topology == "serve" else 4)
    start = services.Serve if topology == "serve" else services.Stack
    with start({"mydb": db}) as server, server.client() as c:
        for n in range(total // 50):
            batch = []
            for k in range(50):
                if rnd.random() < 0.3:
                    body = bytearray(good)
                    for _ in range(rnd.randint(1, 4)):
                        body[rnd.randrange(len(body))] = rnd.randrange(256)
                    body = bytes(body)
                else:
                    body = rnd.randbytes(rnd.choice([0, 1, 2, 7, 40, 300, 5000]))
                method = METHODS[(n * 50 + k) % len(METHODS)]
                batch.append(c.raw(method)(body, timeout=20))
            for call in batch:
                try:
                    for _ in call:
                        pass
                except grpc.RpcError as e:
                    assert e.code() != grpc.StatusCode.DEADLINE_EXCEEDED, e
                    # A string may happen to register a worker, which is not there.
                    assert e.code() != grpc.StatusCode.UNAVAILABLE or "worker at '" in e.details(), e
        assert server.alive()
        server.assert_usable()
        server.stop()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 1000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        os.urandom(100000),
    ],
    ids=["nothing", "http1", "preface", "bad frame", "settings", "tls", "random"],
)
def test_bytes_that_are_no_grpc_end_their_connection_only(server, data):
    with socket.create_connection(("127.0.0.1", server.port), 5) as s:
        s.settimeout(5)
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
        except (ConnectionError, BrokenPipeError):
            pass
    server.assert_usable()


def test_a_thousand_connections_come_and_go(server):
    before = len(os.listdir("/proc/%d/fd" % server.pid))
    for _ in range(10):
        sockets = [socket.create_connection(("127.0.0.1", server.port), 5) for _ in range(100)]
        for s in sockets:
            s.close()
    services.wait_until(
        lambda: len(os.listdir("/proc/%d/fd" % server.pid)) <= before + 5, 5, "the descriptors are closed"
    )
    server.assert_usable()


# ---------------------------------------------------------------- starts that fail


def one_line(done, code, *words):
    """The command failed with CODE and said why in a single line."""
    assert done.returncode == code, (done.returncode, done.stderr)
    lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("ts=")]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert str(word) in lines[0], lines[0]
    assert done.stdout == ""


def test_port_in_use(db, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
        for command in (["serve", "--db", "mydb=%s" % db], ["gateway"], ["worker", "--db", "mydb=%s" % db]):
            done = services.cli(*command, "--listen", "127.0.0.1:%d" % port)
            one_line(done, 1, port, "in use")


def test_database_that_cannot_be_opened(db, tmp_path):
    def start(path):
        return services.cli("serve", "--db", "mydb=%s" % path, "--listen", "127.0.0.1:0")

    one_line(start(tmp_path / "no" / "such" / "dir" / "x.duckdb"), 1, "mydb", "no/such/dir")
    (tmp_path / "text.duckdb").write_text("this is no database\n" * 1000)
    one_line(start(tmp_path / "text.duckdb"), 1, "mydb", "text.duckdb")
    one_line(start(tmp_path), 1, "mydb", tmp_path)
    with services.Serve({"mydb": db}):
        one_line(start(db), 1, "mydb", db.name)


@pytest.mark.parametrize(
    "args, words",
    [
        (["serve", "--no-such-option"], ["--no-such-option"]),
        (["serve", "--db"], ["--db"]),
        (["serve", "--db", "noequals"], ["noequals"]),
        (["serve", "--db", "=x"], ["--db"]),
        (["serve", "--listen", "nonsense"], ["nonsense"]),
        (["serve", "--listen", "127.0.0.1:99999"], ["99999"]),
        (["serve", "--max-in-flight", "many"], ["max-in-flight", "many"]),
        (["serve", "--max-in-flight", "0"], ["max-in-flight"]),
        (["gateway", "--workers", "ftp://x:1"], ["https://"]),
        (["worker", "--db", "a=:memory:", "--db", "a=:memory:"], ["a"]),
        (["serve", "--tls-cert", "x.pem"], ["--tls-key"]),
        (["serve", "--tls-client-ca", "x.pem"], ["--tls-cert"]),
        (["serve", "--tls-cert", "no.pem", "--tls-key", "no.key"], ["certificate 'no.pem'"]),
        (["worker", "--tls-ca", "no.pem"], ["CA 'no.pem'"]),
        (["query", "SELECT 1", "--endpoint", "https://x:1", "--tls-ca", "no.pem"], ["CA 'no.pem'"]),
        (["serve", "--listen", "https://127.0.0.1:0", "--token", "x"], ["https://", "certificate"]),
        (["query"], ["query"]),
        (["nosuchcommand"], ["nosuchcommand", "--help"]),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_2_and_one_line(args, words):
    one_line(services.cli(*args), 2, *words)


def test_bad_environment_is_named():
    done = services.cli("serve", "--listen", "127.0.0.1:0", env={"OPENDUCK_MAX_IN_FLIGHT": "lots"})
    one_line(done, 2, "OPENDUCK_MAX_IN_FLIGHT", "lots")


# ---------------------------------------------------------------- ends


def test_sigterm_lets_running_queries_finish_and_takes_no_new_ones(db):
    with services.Serve({"mydb": db}) as server, server.client() as c:
        got = []
        sql = SECONDS % 400_000_000
        thread = threading.Thread(target=lambda: got.append(c.run(sql)))
        thread.start()
        services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
        server.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        with services.Remote(server.url) as late:
            chunks, error = drain(late.call("SELECT 1", timeout=5))
            assert failed(chunks, error)
        thread.join(60)
        assert got and got[0].error_text is None and got[0].finished
        assert server.wait(10) == 0
        server.check_reports()


def test_sigterm_when_idle_ends_at_once(db):
    with services.Serve({"mydb": db}) as server:
        with server.client() as c:
            c.rows("SELECT 1")
            start = time.monotonic()
            server.stop()  # the client's connection is still open
            assert time.monotonic() - start < 2 * services.SLOW


def test_second_sigint_cancels_what_runs(db):
    with services.Serve({"mydb": db}) as server, server.client() as c:
        call = c.call(ENDLESS)
        services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
        server.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert server.alive(), "the first SIGINT waits for what runs"
        start = time.monotonic()
        server.send_signal(signal.SIGINT)
        assert failed(*drain(call))
        assert server.wait(5) == 0
        assert time.monotonic() - start < 3 * services.SLOW
        server.check_reports()


def test_grace_ends_and_cancels(db):
    with services.Serve({"mydb": db}, "--grace", "1s") as server, server.client() as c:
        call = c.call(ENDLESS)
        services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
        start = time.monotonic()
        server.send_signal(signal.SIGTERM)
        assert failed(*drain(call))
        server.wait(6)
        assert 0.8 < time.monotonic() - start < 5 * services.SLOW
        server.check_reports()


def test_database_is_whole_after_a_kill(db):
    """What was acknowledged is there after kill -9."""
    server = services.Serve({"mydb": db})
    with server.client() as c:
        assert c.run("CREATE TABLE kept AS SELECT i FROM range(100000) t(i)").error_text is None
        assert c.run("INSERT INTO kept SELECT 100000 + i FROM range(1000) t(i)").rows() == [(1000,)]
        server.kill()
    with services.Serve({"mydb": db}) as again, again.client() as c:
        assert c.rows("SELECT count(*), max(i) FROM kept") == [(101000, 100999)]


# ---------------------------------------------------------------- time


@pytest.mark.parametrize("topology", ["serve", "gateway"])
def test_query_that_gives_nothing_for_too_long_is_stopped(db, topology):
    start = services.Serve if topology == "serve" else services.Stack
    limit = ["--execute-timeout", "1s"]
    more = {} if topology == "serve" else {"worker_options": limit}
    with start({"mydb": db}, *limit, **more) as server, server.client() as c:
        begun = time.monotonic()
        chunks, error = drain(c.call(ENDLESS))
        assert 0.8 < time.monotonic() - begun < 4 * services.SLOW
        answer = services.Answer(chunks)
        told = error.details() if error else answer.error_text
        assert told and ("time" in told.lower() or "deadline" in told.lower()), told
        server.wait_idle(1)
        quiet(getattr(server, "worker", server))
        server.assert_usable()


def test_stream_that_always_delivers_outlives_the_limit(db):
    with services.Serve({"mydb": db}, "--execute-timeout", "1s") as server:
        with services.TcpProxy(server.url, rate=3 << 20) as proxy, services.Remote(proxy.url) as c:
            begun = time.monotonic()
            answer = c.run("SELECT repeat('x', 1000) AS s FROM range(9000)")
            assert time.monotonic() - begun > 2
            assert answer.finished and answer.error_text is None, answer.error_text


def test_reader_that_stops_reading_loses_its_call(db):
    with services.Serve({"mydb": db}, "--stall-timeout", "1s") as server, services.TcpProxy(server.url) as proxy:
        with services.Remote(proxy.url) as c:
            call = c.call(STREAM)
            next(call)
            proxy.stall()
            server.wait_idle(5)
            quiet(server)
            proxy.resume()
            assert failed(*drain(call))
        server.assert_usable()


@pytest.mark.extension
def test_the_clients_own_limit_ends_the_wait(db):
    with services.Serve({"mydb": db}) as server, services.attached(server) as con:
        con.execute("SET openduck_execute_timeout = '1 second'")
        con.execute("DETACH cloud")
        con.execute(services.attach_sql(server.url))
        begun = time.monotonic()
        with pytest.raises(duckdb.Error, match=r"timed out: no answer within 1000 ms"):
            con.execute("FROM openduck_query('cloud', '%s')" % ENDLESS).fetchall()
        assert time.monotonic() - begun < 4 * services.SLOW
        server.wait_idle(1)
        quiet(server)
        assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(1000,)]


# ---------------------------------------------------------------- full


def test_queue_full_is_resource_exhausted_at_once(db):
    with services.Serve({"mydb": db}, "--max-in-flight", "1", "--max-queued", "2") as server, server.client() as c:
        running = c.call(ENDLESS)
        services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
        waiting = [c.call("SELECT %d" % k) for k in range(2)]
        services.wait_until(lambda: c.status().queued == 2, 5, "two wait")
        start = time.monotonic()
        _, error = drain(c.call("SELECT 9"))
        assert error is not None and error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert time.monotonic() - start < 0.5 * services.SLOW
        assert "1" in error.details(), error.details()
        running.cancel()
        assert [services.Answer(list(w)).rows() for w in waiting] == [[(0,)], [(1,)]]
        server.assert_usable()


def test_waiting_ends_with_the_queue_timeout(db):
    options = ["--max-in-flight", "1", "--queue-timeout", "1s"]
    with services.Serve({"mydb": db}, *options) as server, server.client() as c:
        running = c.call(ENDLESS)
        services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
        start = time.monotonic()
        _, error = drain(c.call("SELECT 9"))
        assert error is not None and error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert 0.8 < time.monotonic() - start < 3 * services.SLOW
        running.cancel()
        server.assert_usable()


def test_waiting_client_that_leaves_frees_its_place(db):
    with services.Serve({"mydb": db}, "--max-in-flight", "1", "--max-queued", "2") as server, server.client() as c:
        running = c.call(ENDLESS)
        services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
        waiting = [c.call("SELECT 1") for _ in range(2)]
        services.wait_until(lambda: c.status().queued == 2, 5, "two wait")
        for w in waiting:
            w.cancel()
        services.wait_until(lambda: c.status().queued == 0, 1, "the queue is empty")
        running.cancel()
        server.assert_usable()


@pytest.mark.extension
@pytest.mark.parametrize("topology", ["serve", "gateway"])
def test_one_slot_serves_a_statement_with_several_scans(db, topology):
    start = services.Serve if topology == "serve" else services.Stack
    with start({"mydb": db}, "--max-in-flight", "1") as server, services.attached(server) as con:
        sql = "SELECT count(*) FROM cloud.t a JOIN cloud.t b USING (i) JOIN cloud.one o ON o.i = a.i"
        assert con.execute(sql).fetchall() == [(1,)]
        sql = "SELECT count(*), (SELECT max(i) FROM cloud.big) FROM (FROM cloud.t UNION ALL FROM cloud.t)"
        assert con.execute(sql).fetchall() == [(2000, 2999999)]
        server.assert_usable()


@pytest.mark.extension
def test_two_clients_of_one_slot_both_get_answers(db):
    with services.Serve({"mydb": db}, "--max-in-flight", "1") as server:
        got = []

        def work(n):
            with services.attached(server) as con:
                for _ in range(10):
                    got.append(con.execute("SELECT count(*) FROM cloud.t a JOIN cloud.t b USING (i)").fetchall())

        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60 * services.SLOW)
        assert got == [[(1000,)]] * 30
        server.assert_usable()


def test_slots_come_back_after_a_thousand_mixed_queries(db):
    with services.Serve({"mydb": db}, "--max-in-flight", "4") as server, server.client() as c:
        rnd = random.Random(3)
        total = 999 if services.SLOW == 1 else 150

        def work(count):
            for _ in range(count):
                kind = rnd.randrange(3)
                if kind == 0:
                    assert services.Answer(list(c.call("SELECT 1"))).rows() == [(1,)]
                elif kind == 1:
                    assert services.Answer(list(c.call("FROM nothere"))).error is not None
                else:
                    call = c.call(STREAM)
                    if rnd.random() < 0.5:
                        next(call)
                    call.cancel()

        threads = [threading.Thread(target=work, args=(total // 6,)) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(100)
        status = server.wait_idle()
        assert status.executions_total >= total // 6 * 6 * 0.6
        assert not status.running
        quiet(server)
        server.assert_usable()


def test_a_refused_message_after_a_large_one(server):
    """Two messages where one is due, the second above the limit: an error, and the server lives."""
    pb = services.stubs()
    large = pb.ExecuteFragmentRequest(plan=b"SELECT 1 --" + b"x" * (5 << 20)).SerializeToString()
    for path in ("ExecuteFragment", "IngestData", "Heartbeat"):
        with server.client() as c:
            call = c.channel.stream_stream(
                "/openduck.v1.ExecutionService/" + path,
                request_serializer=lambda b: b,
                response_deserializer=lambda b: b,
            )
            answer = call(iter([large, bytes((64 << 20) + 1)]), timeout=30)
            with contextlib.suppress(grpc.RpcError):
                list(answer)
            assert answer.code() != grpc.StatusCode.DEADLINE_EXCEEDED
    with server.client() as c:
        assert c.rows("SELECT 1") == [(1,)]
    server.wait_idle(3)
