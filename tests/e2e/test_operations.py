"""What an operator does to running servers: reload, and workers that come and go."""

import os
import signal

import grpc
import pytest
import services

ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"


def logged(daemon, text, count=1):
    services.wait_until(lambda: daemon.stderr().count(text) >= count, 5, "%r is logged" % text)


# ---------------------------------------------------------------- SIGHUP


@pytest.fixture
def config(tmp_path):
    def write(text):
        new = tmp_path / "new"
        new.write_text(text)
        os.replace(new, tmp_path / "openduck.conf")
        return str(tmp_path / "openduck.conf")

    return write


def hup(daemon, config, text, said, count=1):
    config(text)
    daemon.send_signal(signal.SIGHUP)
    logged(daemon, said, count)


def test_hup_takes_the_reloadable_options(config):
    path = config("max-in-flight = 1\nmax-queued = 0\n")
    with services.Serve({"x": ":memory:"}, "--config", path) as s, s.client() as c:
        call = c.call(ENDLESS, execution_id="one")
        services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
        with pytest.raises(grpc.RpcError) as e:
            c.run("SELECT 1")
        assert e.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        hup(s, config, "max-in-flight = 2\nmax-queued = 5\nlog = debug\ngrace = 100ms\n", "msg=reloaded")
        status = c.status()
        assert (status.max_in_flight, status.max_queued) == (2, 5)
        assert c.rows("SELECT 1") == [(1,)]
        logged(s, "level=debug")
        assert "changed=max-in-flight,max-queued,grace,log" in s.stderr()
        s.send_signal(signal.SIGTERM)
        logged(s, "grace_ms=100")
        list(call)
        s.stop()


def test_hup_lets_in_what_waits(config):
    path = config("max-in-flight = 1\nmax-queued = 1\n")
    with services.Serve({"x": ":memory:"}, "--config", path) as s, s.client() as c:
        call = c.call(ENDLESS, execution_id="one")
        services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
        waiting = c.call("SELECT 1")
        services.wait_until(lambda: c.status().queued == 1, 5, "the second one waits")
        hup(s, config, "max-in-flight = 2\n", "msg=reloaded")
        assert services.Answer(list(waiting)).rows() == [(1,)]
        assert c.cancel("one")
        list(call)


@pytest.mark.parametrize("bad", ["max-in-flight = none", "log = loud", "no-such-option = 1"])
def test_hup_keeps_the_old_options_on_error(config, bad):
    path = config("max-in-flight = 3\n")
    with services.Serve({"x": ":memory:"}, "--config", path) as s, s.client() as c:
        hup(s, config, "grace = 1s\nmax-queued = 9\n%s\n" % bad, 'msg="cannot reload')
        assert s.stderr().count("level=warn") == 2  # no token is set, and this
        assert (c.status().max_in_flight, c.status().max_queued) == (3, 256)
        s.send_signal(signal.SIGTERM)
        logged(s, "grace_ms=30000")


def test_hup_says_what_needs_a_restart_and_the_command_line_stays(config):
    path = config("threads = 1\n")
    with services.Serve({"x": ":memory:"}, "--config", path, "--max-queued", "7", token="right") as s:
        hup(s, config, "threads = 2\nmax-queued = 8\n", "change at the next start")
        assert "options=threads\n" in s.stderr()
        assert s.status("right").max_queued == 7
        with s.client("right") as c:
            assert c.rows("SELECT 1") == [(1,)]
        hup(s, config, "threads = 1\nmax-queued = 8\n", "msg=reloaded", 2)


def test_hup_reloads_a_worker(config):
    path = config("")
    with services.Worker({"x": ":memory:"}, "--config", path) as w:
        hup(w, config, "grace = 2s\nmax-in-flight = 3\n", "changed=grace\n")
        w.send_signal(signal.SIGTERM)
        logged(w, "grace_ms=2000")


# ---------------------------------------------------------------- workers


def workers_of(gateway, token=""):
    return {w.endpoint: w for w in gateway.status(token).workers}


def address(daemon):
    return daemon.url.removeprefix("http://")


def test_static_workers_get_only_what_they_serve():
    with (
        services.Worker({"sales": ":memory:"}, "--max-concurrency", "7") as one,
        services.Worker({"hr": ":memory:", "ops": ":memory:"}) as two,
        services.Gateway([one.url, two.url]) as gateway,
        gateway.client() as c,
    ):
        for _ in range(10):
            for name in ("sales", "hr", "ops"):
                assert c.rows("SELECT current_database()", database=name) == [(name,)]
        with pytest.raises(grpc.RpcError) as e:
            c.run("SELECT 1", database="nobody")
        assert e.value.code() == grpc.StatusCode.NOT_FOUND and "nobody" in e.value.details()
        assert one.status().executions_total == 10 and two.status().executions_total == 20
        listed = workers_of(gateway)
        assert list(listed[address(one)].databases) == ["sales"] and listed[address(one)].healthy
        assert list(listed[address(two)].databases) == ["hr", "ops"]


def test_static_worker_goes_and_comes_back_with_another_database():
    one, two = services.Worker({"sales": ":memory:"}), services.Worker({"hr": ":memory:"})
    with one, services.Gateway([one.url, two.url]) as gateway, gateway.client() as c:
        assert c.rows("SELECT current_database()", database="hr") == [("hr",)]
        two.stop()
        services.wait_until(lambda: not workers_of(gateway)[address(two)].healthy, 8, "the stop is noticed")
        for _ in range(6):
            assert c.rows("SELECT current_database()") == [("sales",)]
        with services.Worker({"ops": ":memory:"}, listen=address(two)):
            services.wait_until(lambda: workers_of(gateway)[address(two)].healthy, 5, "the return is noticed")
            assert c.rows("SELECT current_database()", database="ops") == [("ops",)]
            with pytest.raises(grpc.RpcError) as e:
                c.run("SELECT 1", database="hr")
            assert e.value.code() == grpc.StatusCode.NOT_FOUND
    assert gateway.stderr().count("worker unreachable") == 1


def test_gateway_starts_without_its_workers():
    port = services.free_port()
    with services.Gateway(["http://127.0.0.1:%d" % port]) as gateway, gateway.client() as c:
        with pytest.raises(grpc.RpcError) as e:
            c.run("SELECT 1")
        assert e.value.code() == grpc.StatusCode.UNAVAILABLE
        with services.Worker({"x": ":memory:"}, listen="127.0.0.1:%d" % port):
            services.wait_until(lambda: gateway.status().workers[0].healthy, 5, "the worker is noticed")
            assert c.rows("SELECT current_database()", database="x") == [("x",)]


def test_probes_use_the_token_and_a_worker_with_another_one_is_no_down_worker():
    with services.Worker({"x": ":memory:"}, token="t") as worker:
        with services.Gateway([worker.url], token="t") as gateway:
            assert list(gateway.status("t").workers[0].databases) == ["x"]
        with services.Gateway([worker.url]) as gateway, gateway.client("t") as c:
            assert gateway.status().workers[0].healthy and not gateway.status().workers[0].databases
            assert c.rows("SELECT 1") == [(1,)]


def test_registered_worker_that_drains_gets_no_more():
    with services.Gateway() as gateway, gateway.client() as c:
        one = services.Worker({"one": ":memory:"}, gateway=gateway.url)
        with services.Worker({"two": ":memory:"}, gateway=gateway.url):
            services.wait_until(lambda: len(gateway.status().workers) == 2, 5, "both have registered")
            call = c.call(ENDLESS, database="one", execution_id="long")
            services.wait_until(lambda: one.status().in_flight == 1, 5, "the query runs")
            one.send_signal(signal.SIGTERM)
            services.wait_until(lambda: len(gateway.status().workers) == 1, 5, "the gateway has forgotten it")
            assert one.alive()
            for _ in range(4):
                assert c.rows("SELECT current_database()") == [("two",)]
            c.cancel("long")
            list(call)
            one.stop()
    assert "worker left" in gateway.stderr() and "worker unreachable" not in gateway.stderr()


def test_worker_token_is_for_workers_alone(pb):
    env = {"OPENDUCK_WORKER_TOKEN": "w-secret"}
    with services.Gateway((), "--worker-token", "w-secret", token="c-secret") as gateway:
        with open("/proc/%d/cmdline" % gateway.pid) as f:
            assert "w-secret" not in f.read()
        with gateway.client("c-secret") as c:
            registration = pb.WorkerRegistration(worker_id="x", endpoint="127.0.0.1:1", access_token="c-secret")
            with pytest.raises(grpc.RpcError) as e:
                c.execution.RegisterWorker(registration, timeout=10)
            assert e.value.code() == grpc.StatusCode.PERMISSION_DENIED
            with pytest.raises(grpc.RpcError) as e:
                c.execution.Heartbeat(pb.HeartbeatRequest(worker_id="x", access_token="c-secret"), timeout=10)
            assert e.value.code() == grpc.StatusCode.PERMISSION_DENIED
            with services.Worker({"x": ":memory:"}, token="c-secret", gateway=gateway.url) as stranger:
                logged(stranger, "cannot register")
                assert not c.status().workers
            with services.Worker({"x": ":memory:"}, token="c-secret", gateway=gateway.url, env=env):
                services.wait_until(lambda: len(c.status().workers) == 1, 5, "the worker registers")
                assert c.rows("SELECT 1") == [(1,)]
        with pytest.raises(grpc.RpcError), gateway.client("w-secret") as c:
            c.status()


# ---------------------------------------------------------------- status


@pytest.mark.parametrize("kind", [services.Serve, services.Stack])
def test_status_shows_the_bytes_of_what_runs(kind):
    with kind({"x": ":memory:"}) as s, s.client() as c:
        call = c.call("SELECT i, repeat('x', 100) FROM range(1000000000) t(i)", execution_id="long")
        received = 0
        while received < 5 << 20:
            received += next(call).ByteSize()
        assert [r.execution_id for r in s.status().running] == ["long"]
        # A message is counted once it is on its way, so a client may have it a moment earlier.
        services.wait_until(lambda: s.status().running[0].bytes_sent >= received, 10, "it counts what has come")
        call.cancel()


# ---------------------------------------------------------------- errors of a call


@pytest.mark.parametrize("through_gateway", [False, True])
def test_status_of_a_call_tells_its_code(through_gateway):
    """RESOURCE_EXHAUSTED is for size, too much work and memory: only the name tells whether to try again."""
    with (
        services.Worker({"x": ":memory:"}, "--max-message", "1MiB") as worker,
        services.Gateway([worker.url], "--max-in-flight", "1", "--max-queued", "0") as gateway,
    ):
        server = gateway if through_gateway else worker

        def refused(call):
            with pytest.raises(grpc.RpcError) as e:
                list(call)
            assert e.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            return dict(e.value.trailing_metadata())["openduck-code"]

        with server.client() as c:
            assert refused(c.call("SELECT 1 -- %s" % ("x" * (2 << 20)))) == "TOO_LARGE"
            assert c.rows("SELECT 1") == [(1,)]
            if through_gateway:
                call = c.call(ENDLESS, execution_id="one")
                services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
                assert refused(c.call("SELECT 1")) == "BUSY"
                call.cancel()


# ---------------------------------------------------------------- a lost instance


@pytest.mark.parametrize("kind", ["serve", "worker"])
def test_fatal_error_ends_the_process_and_loses_nothing(tmp_path, kind):
    path = tmp_path / "x.duckdb"
    daemon = services.Serve if kind == "serve" else services.Worker
    with daemon({"x": path}, "--external-access") as s, s.client() as c:
        for sql in ("CREATE TABLE t(i INTEGER)", "CHECKPOINT", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"):
            assert c.run(sql).error_text is None
        c.run("SET GLOBAL debug_checkpoint_abort = 'before_truncate'")
        answer = c.run("CHECKPOINT")
        assert answer.error.code == "FATAL" and answer.error.kind == 8
        assert s.wait(10) == 1
        errors = [line for line in s.stderr().splitlines() if "level=error" in line]
        assert len(errors) == 2 and "DuckDB has given up a database" in errors[0]
        assert "checkpoint_abort" in errors[0]
        s.check_reports()
    with daemon({"x": path}) as s, s.client() as c:
        assert c.rows("SELECT i FROM t ORDER BY i") == [(1,), (2,)]
