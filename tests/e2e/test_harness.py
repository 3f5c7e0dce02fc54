"""What the other tests lean on does what it says: proxies, the independent server, the runner of SQL files."""

import re
import time

import fake
import grpc
import pytest
import services

TABLE = "CREATE TABLE t AS SELECT i, 'row ' || i AS s FROM range(50000) t(i)"


@pytest.fixture(scope="module")
def built():
    """Nothing of ours is needed here."""


@pytest.fixture
def server():
    with fake.FakeServer(TABLE) as f:
        yield f


def test_native_payloads_are_aligned_and_readable(server):
    with services.Remote(server.url) as c:
        answer = c.run("FROM t", result_format=2)
        assert answer.finished and answer.table().num_rows == 50000
        assert answer.table().schema.field("i").metadata == {b"openduck:type": b"BIGINT"}
        described = c.run("FROM t", describe_only=True).tables()[0]
        assert described.schema.field("s").metadata == {b"openduck:sql_type": b"VARCHAR"}


def test_tcp_proxy_passes_counts_cuts_and_stalls(server):
    with services.TcpProxy(server.url) as proxy:
        with services.Remote(proxy.url) as c:
            assert c.rows("SELECT count(*) FROM t") == [(50000,)]
            assert proxy.down > 100 and proxy.up > 100 and proxy.connections == 1
            proxy.stall()
            with pytest.raises(grpc.RpcError) as e:
                list(c.execution.ExecuteFragment(c.request("SELECT 1"), timeout=0.5))
            assert e.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            proxy.resume()
            proxy.cut_after = proxy.down + 100_000
            with pytest.raises(grpc.RpcError) as e:
                c.run("FROM t")
            assert e.value.code() == grpc.StatusCode.UNAVAILABLE


def test_tcp_proxy_keeps_its_rate(server):
    with services.TcpProxy(server.url, rate=400_000) as proxy, services.Remote(proxy.url) as c:
        start = time.monotonic()
        size = sum(len(p) for p in c.run("FROM t").payloads)
        took = time.monotonic() - start
        assert 0.5 < took / (size / 400_000) < 2


def test_recording_proxy_writes_down_every_request(server):
    with services.RecordingProxy(server.url) as proxy, services.Remote(proxy.url) as c:
        c.run("SELECT 1")
        c.run("FROM t", describe_only=True)
        assert c.run("FROM nothere").error is not None
        assert proxy.sql() == ["SELECT 1", "FROM nothere"]
        assert proxy.count("ExecuteFragment") == 3
        assert proxy.bytes_down > 100


def test_stubs_have_all_eight_rpcs(pb):
    methods = pb.DESCRIPTOR.services_by_name if hasattr(pb, "DESCRIPTOR") else {}
    service = methods.get("ExecutionService")
    names = {m for m in dir(pb.ExecutionServiceServicer) if not m.startswith("_")}
    assert len(names) == 8 and (service is None or len(service.methods) == 8)


def test_the_tests_that_pages_name_are_there():
    tests = services.ROOT / "tests"
    code = "".join(p.read_text() for p in tests.rglob("test_*") if p.suffix in (".c", ".py"))
    named = re.findall(r"`(test_\w+)`", (tests / "README.md").read_text())
    assert len(named) > 30
    assert [name for name in named if name + "(" not in code] == []
