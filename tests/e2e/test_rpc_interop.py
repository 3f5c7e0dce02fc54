"""query/rpc against grpcio, each as client and as server; messages are bare bytes."""

import concurrent.futures
import subprocess
import threading
import time

import grpc
import pytest
import services

PROGRAMS = services.BUILD / "programs"
MIB = 1 << 20
OPTIONS = [("grpc.max_receive_message_length", 64 * MIB), ("grpc.max_send_message_length", 64 * MIB)]
SLOW = services.SLOW


@pytest.fixture(scope="session", autouse=True)
def built():
    """In the place of conftest's: these tests need the two programs only."""
    for name in ("rpc_echo_server", "rpc_echo_client"):
        assert (PROGRAMS / name).exists(), "no %s: run make build PRESET=%s" % (PROGRAMS / name, services.PRESET)


# ---- our server, their client ----


class EchoServer:
    """tests/programs/rpc_echo_server; lines() are the calls that have ended."""

    def __init__(self, *args):
        self.process = subprocess.Popen(
            [PROGRAMS / "rpc_echo_server", "127.0.0.1:0", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=services.server_env(),
        )
        self.port = int(self.process.stdout.readline())
        self.address = "127.0.0.1:%d" % self.port
        self.ended = []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.ended.append(line.strip())

    def wait_for(self, line, seconds=2.0):
        until = time.monotonic() + seconds * SLOW
        while line not in self.ended:
            assert time.monotonic() < until, "no '%s' in %s" % (line, self.ended)
            time.sleep(0.005)

    def stop(self):
        self.process.terminate()
        assert self.process.wait(20) == 0, self.process.stderr.read()
        self.thread.join(5)
        errors = self.process.stderr.read()
        assert not services.REPORT.search(errors), errors


@pytest.fixture
def server():
    s = EchoServer()
    yield s
    s.stop()


@pytest.fixture(params=["direct", "relayed"])
def channel_and_prefix(request, server):
    middle = EchoServer(server.address) if request.param == "relayed" else None
    with grpc.insecure_channel(middle.address if middle else server.address, OPTIONS) as channel:
        yield channel, "/test.Rpc/Relay/" if middle else "/test.Rpc/"
    if middle:
        middle.stop()


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.address, OPTIONS) as c:
        yield c


def test_server_answers_unary(channel_and_prefix):
    channel, prefix = channel_and_prefix
    call = channel.unary_unary(prefix + "Echo")
    for size in (0, 1, 1000, 100000, MIB):
        assert call(b"y" * size) == b"y" * size


def test_server_streams(channel_and_prefix):
    channel, prefix = channel_and_prefix
    for request, count, size in ((b"1000 1000", 1000, 1000), (b"100 1000000", 100, 1000000), (b"3000 0", 3000, 0)):
        got = list(channel.unary_stream(prefix + "Stream")(request))
        assert len(got) == count and set(map(len, got)) == {size}
        got = list(channel.unary_stream(prefix + "Threaded")(request))
        assert len(got) == count


def test_server_collects_a_stream(channel):
    got = channel.stream_unary("/test.Rpc/Collect")(b"z" * 100000 for _ in range(200))
    assert got == b"200 20000000"


def test_server_echoes_both_ways(channel):
    messages = [bytes([i % 256]) * (i * 37 % 5000) for i in range(500)]
    assert list(channel.stream_stream("/test.Rpc/Echo")(iter(messages))) == messages


def test_server_passes_63_mib_and_refuses_more(channel_and_prefix):
    channel, prefix = channel_and_prefix
    body = b"0123456789abcdef" * (63 * MIB // 16)
    assert channel.unary_unary(prefix + "Echo")(body, timeout=60) == body
    with pytest.raises(grpc.RpcError) as e:
        list(channel.unary_stream(prefix + "Stream")(b"1 %d" % (64 * MIB + 1)))
    assert e.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "67108864" in e.value.details()


def test_server_refuses_what_a_client_without_limit_sends(server):
    with grpc.insecure_channel(server.address, [("grpc.max_send_message_length", -1)]) as channel:
        with pytest.raises(grpc.RpcError) as e:
            channel.unary_unary("/test.Rpc/Echo")(b"x" * (64 * MIB + 1), timeout=60)
        assert e.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "above the limit of 67108864 bytes" in e.value.details()
        assert channel.unary_unary("/test.Rpc/Echo")(b"still") == b"still"


def test_server_keeps_deadlines(server, channel_and_prefix):
    channel, prefix = channel_and_prefix
    began = time.monotonic()
    with pytest.raises(grpc.RpcError) as e:
        channel.unary_unary(prefix + "Hang")(b"", timeout=0.3)
    assert e.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert 0.25 < time.monotonic() - began < 0.8 * SLOW
    until = time.monotonic() + 2 * SLOW
    while not server.ended and time.monotonic() < until:
        time.sleep(0.005)
    assert server.ended[0] in ("gone /test.Rpc/Hang TIMEOUT", "gone /test.Rpc/Hang CANCELLED")


def test_server_sees_a_cancel_at_once(server, channel_and_prefix):
    channel, prefix = channel_and_prefix
    call = channel.unary_stream(prefix + "Stream")(b"100000 100000")
    next(call)
    call.cancel()
    assert call.code() == grpc.StatusCode.CANCELLED
    server.wait_for("gone /test.Rpc/Stream CANCELLED", 1.0)


def test_server_sends_status_and_text(channel_and_prefix):
    channel, prefix = channel_and_prefix
    with pytest.raises(grpc.RpcError) as e:
        channel.unary_unary(prefix + "Fail")("5 nicht gefunden: äöü € 🦆 100%\nzwei".encode())
    assert e.value.code() == grpc.StatusCode.NOT_FOUND
    assert e.value.details() == "nicht gefunden: äöü € 🦆 100%\nzwei"


def test_server_knows_what_it_does_not_know(channel):
    for path in ("/test.Rpc/Nope", "/x", "/" + "p" * 300):
        with pytest.raises(grpc.RpcError) as e:
            channel.unary_unary(path)(b"")
        assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_server_refuses_compression(channel):
    with pytest.raises(grpc.RpcError) as e:
        channel.unary_unary("/test.Rpc/Echo")(b"x" * 10000, compression=grpc.Compression.Gzip)
    assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_server_takes_metadata_and_refuses_too_much(channel):
    call = channel.unary_unary("/test.Rpc/Echo")
    assert call(b"m", metadata=[("a", "b"), ("x-bin", b"\0\1\2")]) == b"m"
    with pytest.raises(grpc.RpcError):
        call(b"m", metadata=[("big", "x" * 60000)])
    assert call(b"m") == b"m"


def test_server_serves_many_at_once(channel_and_prefix):
    channel, prefix = channel_and_prefix
    call = channel.unary_unary(prefix + "Echo")
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(call, [b"%d" % i for i in range(1000)])) == [b"%d" % i for i in range(1000)]


def test_server_answers_pings(server):
    options = [
        ("grpc.keepalive_time_ms", 10000),
        ("grpc.keepalive_timeout_ms", 1000),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    with grpc.insecure_channel(server.address, options) as channel:
        assert channel.unary_unary("/test.Rpc/Echo")(b"1") == b"1"
        time.sleep(0.2)
        assert channel.unary_unary("/test.Rpc/Echo")(b"2") == b"2"


# ---- our client, their server ----


class Service(grpc.GenericRpcHandler):
    def __init__(self):
        self.cancelled = threading.Event()

    def service(self, details):
        name = details.method.rsplit("/", 1)[1]
        handler = getattr(self, name, None)
        if name in ("Unary", "Fail", "Hang"):
            return grpc.unary_unary_rpc_method_handler(handler)
        if name == "Stream":
            return grpc.unary_stream_rpc_method_handler(handler)
        if name == "Collect":
            return grpc.stream_unary_rpc_method_handler(handler)
        return None

    def Unary(self, request, context):
        return request

    def Fail(self, request, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, request.decode())

    def Hang(self, request, context):
        gone = threading.Event()
        context.add_callback(gone.set)
        gone.wait(20)
        self.cancelled.set()
        return b""

    def Stream(self, request, context):
        count, size = map(int, request.split())
        context.add_callback(self.cancelled.set)
        for _ in range(count):
            yield b"x" * size

    def Collect(self, requests, context):
        sizes = [len(r) for r in requests]
        return b"%d %d" % (len(sizes), sum(sizes))


@pytest.fixture
def their_server():
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=OPTIONS)
    service = Service()
    server.add_generic_rpc_handlers([service])
    service.address = "127.0.0.1:%d" % server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield service
    server.stop(None)


def ask(service, method, *messages, timeout_ms=60000, take=-1):
    done = subprocess.run(
        [PROGRAMS / "rpc_echo_client", service.address, "/x.Y/" + method, str(timeout_ms), str(take), *messages],
        capture_output=True,
        check=False,
        text=True,
        timeout=100,
        env=services.server_env(),
    )
    assert done.returncode == 0 and not services.REPORT.search(done.stderr), done.stderr
    return done.stdout.splitlines()


def test_client_is_answered(their_server):
    assert ask(their_server, "Unary", "hällo") == ["message 6 hällo", "end OK "]
    assert ask(their_server, "Unary", "") == ["message 0 ", "end OK "]


def test_client_receives_streams(their_server):
    assert ask(their_server, "Stream", "500 1000") == ["message 1000 " + "x" * 40] * 500 + ["end OK "]
    assert ask(their_server, "Stream", "20 3000000") == ["message 3000000 " + "x" * 40] * 20 + ["end OK "]


def test_client_sends_streams(their_server):
    assert ask(their_server, "Collect", *["@100000"] * 200) == ["message 12 200 20000000", "end OK "]


def test_client_passes_63_mib_and_refuses_more(their_server):
    size = 63 * MIB
    assert ask(their_server, "Unary", "@%d" % size) == ["message %d %s" % (size, "x" * 40), "end OK "]
    end = ask(their_server, "Unary", "@%d" % (64 * MIB + 1))[-1]
    assert end.startswith("end TOO_LARGE") and "67108864" in end


def test_client_shows_status_and_text(their_server):
    end = ask(their_server, "Fail", "geht nicht: äöü € 🦆 100%")[-1]
    assert end.endswith(" geht nicht: äöü € 🦆 100%") and end.startswith("end PRECONDITION")


def test_client_keeps_its_deadline(their_server):
    began = time.monotonic()
    assert ask(their_server, "Hang", "x", timeout_ms=300)[-1].startswith("end TIMEOUT")
    assert 0.25 < time.monotonic() - began < 1.5 * SLOW
    assert their_server.cancelled.wait(2)


def test_client_that_drops_a_call_cancels_it(their_server):
    began = time.monotonic()
    assert ask(their_server, "Stream", "1000000 100000", take=3)[-1] == "dropped"
    assert their_server.cancelled.wait(2)
    assert time.monotonic() - began < 5 * SLOW


def test_client_hears_that_a_method_is_unknown(their_server):
    assert ask(their_server, "Nope", "x")[-1].startswith("end NOT_IMPLEMENTED")


def test_client_names_an_endpoint_that_is_not_there(their_server):
    their_server.address = "127.0.0.1:1"
    end = ask(their_server, "Unary", "x")[-1].lower()
    assert end == "end unavailable cannot connect to '127.0.0.1:1': connection refused"
