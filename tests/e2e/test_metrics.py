"""What a server tells of itself to Prometheus."""

import contextlib
import math
import re
import socket
import urllib.error
import urllib.request

import grpc
import pytest
import services
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"
EXECUTE = {"rpc_service": "openduck.v1.ExecutionService", "rpc_method": "ExecuteFragment"}


def metrics_url(daemon):
    found = re.search(r"msg=metrics url=(http://\S+)", daemon.stderr())
    assert found, daemon.stderr()
    return found[1]


def fetch(url, token=None, accept=None):
    request = urllib.request.Request(url)
    if token:
        request.add_header("Authorization", "Bearer " + token)
    if accept:
        request.add_header("Accept", accept)
    with urllib.request.urlopen(request, timeout=15) as reply:
        return reply.read().decode(), reply.headers["Content-Type"]


class Metrics:
    """All series of one reading, checked as promtool would."""

    def __init__(self, text, parse=parse_text):
        self.values = {}
        self.types = {}
        for family in parse(text):
            assert family.documentation, family.name
            assert family.type in ("counter", "gauge", "histogram"), family.name
            assert family.name not in self.types, "%s comes twice" % family.name
            assert re.fullmatch(r"(openduck|process)_[a-z_]+", family.name), family.name
            self.types[family.name] = family.type
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self.values, "%s comes twice" % (key,)
                self.values[key] = sample.value
                self.check_sample(family, sample)
        self.check_histograms()

    @staticmethod
    def check_sample(family, sample):
        assert not math.isnan(sample.value)
        if family.type == "counter":
            assert sample.name == family.name + "_total" and sample.value >= 0
        elif family.type == "histogram":
            assert family.name.endswith("_seconds")
            assert sample.name in [family.name + s for s in ("_bucket", "_sum", "_count")]
            assert ("le" in sample.labels) == sample.name.endswith("_bucket")
        else:
            assert sample.name == family.name and not sample.name.endswith(("_total", "_count", "_sum", "_bucket"))

    def check_histograms(self):
        buckets = {}
        for (name, labels), value in self.values.items():
            if name.endswith("_bucket"):
                rest = dict(labels)
                le = float(rest.pop("le"))
                buckets.setdefault((name[: -len("_bucket")], frozenset(rest.items())), []).append((le, value))
        assert buckets
        for (name, labels), found in buckets.items():
            found.sort()
            assert found[-1][0] == math.inf
            assert [v for _, v in found] == sorted(v for _, v in found), name
            assert found[-1][1] == self.values[name + "_count", labels]

    def get(self, name, **labels):
        """The sum of the series that have LABELS."""
        found = [v for (n, have), v in self.values.items() if n == name and labels.items() <= dict(have).items()]
        assert found, "no %s with %s" % (name, labels)
        return sum(found)

    def assert_not_below(self, earlier):
        for key, value in earlier.values.items():
            if key[0].endswith(("_total", "_bucket", "_count", "_sum")):
                assert self.values[key] >= value, key


def read(daemon, token=None):
    return Metrics(fetch(metrics_url(daemon), token)[0])


def wait_for(daemon, name, value, token=None, **labels):
    return services.wait_until(
        lambda: (m := read(daemon, token)).get(name, **labels) == value and m, 10, "%s %s is %s" % (name, labels, value)
    )


@pytest.fixture(scope="module")
def shown():
    with services.Serve({"mydb": ":memory:"}, "--metrics-listen", "127.0.0.1:0", "--max-in-flight", "2") as s:
        yield s


def test_both_formats_are_read_and_agree(shown):
    text, kind = fetch(metrics_url(shown))
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    plain = Metrics(text)
    text, kind = fetch(metrics_url(shown), accept="application/openmetrics-text; version=1.0.0,text/plain;q=0.5")
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    other = Metrics(text, parse_openmetrics)
    assert plain.values.keys() == other.values.keys()
    other.assert_not_below(plain)
    assert plain.get("openduck_build_info", role="serve", duckdb_version="v1.5.5") == 1


def test_queries_errors_cancels_and_bytes_are_counted(shown):
    before = read(shown)

    def grown(name, by, **labels):
        wait_for(shown, name, before.get(name, **labels) + by, **labels)

    with shown.client() as c:
        for _ in range(7):
            c.rows("SELECT 42")
        for _ in range(3):
            assert c.run("SELECT no_such_column").error_text
        call = c.call(ENDLESS, execution_id="endless")
        wait_for(shown, "openduck_executions_in_flight", 1)
        wait_for(shown, "openduck_rpc_server_active_calls", 1, **EXECUTE)
        assert c.cancel("endless")
        list(call)
        payload = sum(len(chunk.SerializeToString()) for chunk in c.run("SELECT range FROM range(100000)").chunks)
    count = "openduck_rpc_server_duration_seconds_count"
    grown(count, 8, outcome="success", **EXECUTE)
    grown(count, 3, outcome="error", **EXECUTE)
    grown(count, 1, outcome="cancelled", **EXECUTE)
    grown(count, 1, outcome="success", rpc_method="CancelExecution")
    grown("openduck_executions_total", 12)
    grown("openduck_execution_errors_total", 3)
    grown("openduck_execution_cancellations_total", 1)
    grown("openduck_execution_queue_wait_seconds_count", 12)
    grown("openduck_rpc_server_active_calls", 0)
    grown("openduck_executions_in_flight", 0)
    after = read(shown)
    after.assert_not_below(before)
    sent = "openduck_rpc_server_sent_bytes_total"
    assert payload <= after.get(sent, **EXECUTE) - before.get(sent, **EXECUTE) <= payload + 20000
    received = "openduck_rpc_server_received_bytes_total"
    assert 0 < after.get(received, **EXECUTE) - before.get(received, **EXECUTE) < 2000


def test_a_duration_is_as_long_as_the_call(shown):
    name = "openduck_rpc_server_duration_seconds_%s"
    before = read(shown)
    with shown.client() as c:
        call = c.call(ENDLESS, execution_id="long")
        wait_for(shown, "openduck_executions_in_flight", 1)
        services.wait_until(lambda: c.status().running[0].elapsed_ms >= 300, 10, "it has run for 300 ms")
        c.cancel("long")
        list(call)
    labels = {"outcome": "cancelled", **EXECUTE}
    after = wait_for(shown, name % "count", before.get(name % "count", **labels) + 1, **labels)
    took = after.get(name % "sum", **labels) - before.get(name % "sum", **labels)
    assert 0.3 <= took < 60
    short = {**labels, "le": "0.25"}
    assert after.get(name % "bucket", **short) == before.get(name % "bucket", **short)


def test_transactions_and_the_queue(shown):
    with shown.client() as c:
        transaction = c.begin()
        wait_for(shown, "openduck_transactions_open", 1)
        with pytest.raises(services.Refused):
            c.commit("no-such-transaction")
        c.rollback(transaction)
        after = wait_for(shown, "openduck_transactions_open", 0)
        calls = [c.call(ENDLESS, execution_id="q%d" % i) for i in range(3)]
        wait_for(shown, "openduck_executions_queued", 1)
        assert read(shown).get("openduck_executions_in_flight") == 2
        for i in (2, 1, 0):
            c.cancel("q%d" % i)
        for call in calls:
            list(call)
    name = "openduck_rpc_server_duration_seconds_count"
    services.wait_until(
        lambda: read(shown).get(name, rpc_method="CommitTransaction", outcome="error") >= 1, 10, "error"
    )
    assert after.get("openduck_executions_in_flight_limit") == 2


def test_what_never_gets_its_turn_is_counted():
    options = [
        "--metrics-listen",
        "127.0.0.1:0",
        "--max-in-flight",
        "1",
        "--max-queued",
        "1",
        "--queue-timeout",
        "2s",
    ]
    with services.Serve({"mydb": ":memory:"}, *options) as s, s.client() as c:
        call = c.call(ENDLESS, execution_id="one")
        wait_for(s, "openduck_executions_in_flight", 1)
        waiting = c.call("SELECT 1")
        wait_for(s, "openduck_executions_queued", 1)
        with pytest.raises(grpc.RpcError):
            c.run("SELECT 2")
        with pytest.raises(grpc.RpcError):
            list(waiting)
        wait_for(s, "openduck_executions_refused_total", 1, reason="queue_full")
        wait_for(s, "openduck_executions_refused_total", 1, reason="queue_timeout")
        wait_for(s, "openduck_rpc_server_duration_seconds_count", 2, outcome="error", **EXECUTE)
        c.cancel("one")
        list(call)


def test_seals_and_merges_are_measured(tmp_path):
    data = tmp_path / "data"
    seal, merge = ("openduck_storage_%s_duration_seconds" % work for work in ("seal", "merge"))
    url = "openduck://mydb?data_dir=%s" % data
    with services.Serve({"mydb": url}, "--metrics-listen", "127.0.0.1:0") as s, s.client() as c:
        assert read(s).get(seal + "_count", outcome="success") == read(s).get(seal + "_count", outcome="error") == 0
        sealed = [c.rows("SELECT snapshot FROM openduck_seal('mydb')")[0][0] for _ in range(3)]
        after = wait_for(s, seal + "_count", 3, outcome="success")
        assert 0 < after.get(seal + "_sum", outcome="success") < 60 * services.SLOW

        (data / "layers").rename(data / "away")  # no layer can be made
        assert "cannot seal" in c.run("FROM openduck_seal('mydb')").error_text
        wait_for(s, seal + "_count", 1, outcome="error")
        (data / "away").rename(data / "layers")

        for snapshot in sealed[:2]:
            assert services.cli("snapshot", "drop", snapshot, "--data-dir", str(data)).returncode == 0
        c.rows("FROM openduck_seal('mydb')")
        wait_for(s, seal + "_count", 4, outcome="success")
        services.wait_until(lambda: read(s).get(merge + "_count", outcome="success") > 0, 20, "layers are merged")
        assert read(s).get(merge + "_count", outcome="error") == 0


def test_without_storage_nothing_is_told_of_it(shown):
    assert not [name for name in read(shown).types if "storage" in name]


def test_unknown_methods_share_a_series(shown):
    with shown.client() as c:
        for name in ("One", "Two"):
            with pytest.raises(grpc.RpcError):
                list(c.raw("/openduck.v1.Nothing/" + name)(b""))
    services.wait_until(
        lambda: (
            read(shown).get("openduck_rpc_server_duration_seconds_count", rpc_method="_OTHER", outcome="error") >= 2
        ),
        10,
        "both are counted",
    )


def test_a_gateway_tells_of_its_workers():
    with services.Gateway([], "--metrics-listen", "127.0.0.1:0") as g:
        with services.Worker({"mydb": ":memory:"}, "--metrics-listen", "127.0.0.1:0", gateway=g.url) as w:
            wait_for(g, "openduck_workers", 1, state="healthy")
            wait_for(g, "openduck_worker_registrations_total", 1, result="accepted")
            with g.client() as c:
                assert c.rows("SELECT 1", database="mydb") == [(1,)]
                with pytest.raises(services.Refused):
                    c.commit(c.begin() + "x")
            wait_for(g, "openduck_executions_total", 1)
            wait_for(w, "openduck_executions_total", 1)
            wait_for(w, "openduck_rpc_server_duration_seconds_count", 1, outcome="success", **EXECUTE)
            assert "openduck_workers" not in read(w).types
            pb = services.stubs()
            with g.client() as c:
                beat = pb.HeartbeatRequest(worker_id="nobody")
                assert not c.execution.Heartbeat(beat, timeout=15).acknowledged
            wait_for(g, "openduck_worker_heartbeats_total", 1, worker="unknown")
        wait_for(g, "openduck_worker_departures_total", 1, reason="left")
        wait_for(g, "openduck_workers", 0)


# ---------------------------------------------------------------- the listener


def test_off_by_default():
    with services.Serve({"mydb": ":memory:"}) as s:
        assert "msg=metrics" not in s.stderr()


def test_the_token_protects_the_metrics():
    with services.Serve({"mydb": ":memory:"}, "--metrics-listen", "127.0.0.1:0", token="secret") as s:
        for token in (None, "wrong"):
            with pytest.raises(urllib.error.HTTPError) as e:
                fetch(metrics_url(s), token)
            assert e.value.code == 401
        assert read(s, "secret").get("openduck_executions_total") == 0
        assert "secret" not in s.stderr()


def test_without_a_token_only_loopback_is_listened_on():
    done = services.cli("serve", "--db", "x=:memory:", "--listen", "127.0.0.1:0", "--metrics-listen", "0.0.0.0:0")
    assert done.returncode == 2
    assert "--metrics-listen: without a token only a loopback address" in done.stderr


def test_a_taken_port_is_a_clear_error(shown):
    address = metrics_url(shown).removeprefix("http://").removesuffix("/metrics")
    done = services.cli("serve", "--db", "x=:memory:", "--listen", "127.0.0.1:0", "--metrics-listen", address)
    assert done.returncode == 1
    assert "--metrics-listen: cannot listen on '%s': address already in use" % address in done.stderr.lower()


GARBAGE = [
    b"\x00" * 100 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),  # a TLS hello
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100000,
    b"GET /" + b"y" * 100000,
    b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n" + b"z" * 100000,
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
]


@pytest.mark.parametrize("sent", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_refused_and_serving_goes_on(shown, sent):
    port = int(metrics_url(shown).rsplit(":", 1)[1].split("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=15 * services.SLOW) as s:
        with contextlib.suppress(OSError):
            s.sendall(sent)
        got = b""
        with contextlib.suppress(OSError):
            while data := s.recv(65536):
                got += data
    assert re.match(rb"HTTP/1.1 (400|413|414|431|505) ", got), got[:200]
    read(shown)
    with shown.client() as c:
        assert c.rows("SELECT 1") == [(1,)]
