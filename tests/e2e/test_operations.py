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
