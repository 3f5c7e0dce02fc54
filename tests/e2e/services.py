"""The processes and peers that end-to-end tests talk to: Serve, Gateway, Worker on free loopback ports, clients, stubs,
and two proxies. Everything binds to 127.0.0.1, is stopped by its process id, and leaves its stderr behind for failures.

OPENDUCK_PRESET names the build that is tested (build/PRESET): release, debug, asan, tsan.
"""

import collections
import concurrent.futures
import contextlib
import ctypes
import functools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types

import grpc
import psutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRESET = os.environ.get("OPENDUCK_PRESET", "release")
BUILD = ROOT / "build" / PRESET
BINARY = BUILD / "bin" / "openduck"
CASES = ROOT.parent / "shared" / "cases"
SLOW = {"asan": 4.0, "tsan": 10.0}.get(PRESET, 1.0)  # how much longer things may take under a sanitizer
REPORT = re.compile(r"ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:|Assertion .* failed")
MAX_MESSAGE = 64 << 20
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own for each channel
    ("grpc.enable_http_proxy", 0),
]


def extension_path(name="openduck"):
    """The extension of the tested preset, else (presets that build none) the release one."""
    for build in (BUILD, ROOT / "build" / "release"):
        path = build / "ext" / (name + ".duckdb_extension")
        if path.exists():
            return path
    raise FileNotFoundError("no %s.duckdb_extension in build/%s/ext: run make build" % (name, PRESET))


def server_env(extra=None):
    """The environment of a server: no OPENDUCK_ setting leaks in, sanitizers report, nothing is preloaded."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENDUCK_") and k != "LD_PRELOAD"}
    support = ROOT / "tests" / "support"
    env["ASAN_OPTIONS"] = "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:abort_on_error=0"
    env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
    env["LSAN_OPTIONS"] = "suppressions=%s:print_suppressions=0" % (support / "lsan.supp")
    env["TSAN_OPTIONS"] = "halt_on_error=0:second_deadlock_stack=1:suppressions=%s" % (support / "tsan.supp")
    env.update(extra or {})
    return env


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(condition, seconds, what="the condition", step=0.02):
    """Waits until CONDITION() is true and returns its value; fails with WHAT after SECONDS (more under sanitizers)."""
    end = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("after %.1f s still not: %s (last: %r)" % (seconds * SLOW, what, value))
        time.sleep(step)


# ---------------------------------------------------------------- stubs


@functools.cache
def stubs():
    """What protoc makes of proto/: messages, enums, stubs and servicers in one namespace."""
    from grpc_tools import protoc

    out = tempfile.mkdtemp(prefix="openduck-stubs-")
    protos = sorted(str(p.relative_to(ROOT / "proto")) for p in (ROOT / "proto").rglob("*.proto"))
    args = ["protoc", "-I%s" % (ROOT / "proto"), "--python_out=" + out, "--grpc_python_out=" + out, *protos]
    if protoc.main(args) != 0:
        raise RuntimeError("protoc failed")
    sys.path.insert(0, out)
    merged = types.SimpleNamespace()
    for proto in protos:
        for suffix in ("_pb2", "_pb2_grpc"):
            name = proto[: -len(".proto")].replace("/", ".") + suffix
            module = __import__(name, fromlist=["x"])
            for key in dir(module):
                if not key.startswith("_"):
                    setattr(merged, key, getattr(module, key))
    return merged


class Remote:
    """A grpcio client, as independent of ours as can be. CREDENTIALS: grpc.ssl_channel_credentials, for https://."""

    def __init__(self, url, token="", credentials=None):
        self.target = url.split("://")[-1]
        self.token = token
        if credentials:
            self.channel = grpc.secure_channel(self.target, credentials, options=CHANNEL_OPTIONS)
        else:
            self.channel = grpc.insecure_channel(self.target, options=CHANNEL_OPTIONS)
        pb = stubs()
        self.execution = pb.ExecutionServiceStub(self.channel)
        self.status_service = pb.StatusServiceStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.channel.close()

    def request(self, sql, **fields):
        fields.setdefault("access_token", self.token)
        plan = sql if isinstance(sql, bytes) else sql.encode()
        return stubs().ExecuteFragmentRequest(plan=plan, **fields)

    def call(self, sql, timeout=60, **fields):
        return self.execution.ExecuteFragment(self.request(sql, **fields), timeout=timeout * SLOW)

    def run(self, sql, timeout=60, **fields):
        """All of one execution: chunks, payloads, error (typed part or None), legacy error text."""
        chunks = list(self.call(sql, timeout, **fields))
        return Answer(chunks)

    def rows(self, sql, **fields):
        """The rows, by pyarrow, of a PLAIN result; an error chunk raises."""
        answer = self.run(sql, **fields)
        if answer.error_text is not None:
            raise RuntimeError(answer.error_text)
        return answer.rows()

    def begin(self, database="mydb", timeout=15):
        """A transaction: its id, or the typed error raised as Refused."""
        request = stubs().BeginTransactionRequest(database=database, access_token=self.token)
        reply = self.execution.BeginTransaction(request, timeout=timeout * SLOW)
        if reply.HasField("error_detail"):
            raise Refused(reply.error_detail)
        return reply.transaction_id

    def commit(self, transaction, timeout=60):
        request = stubs().CommitTransactionRequest(transaction_id=transaction, access_token=self.token)
        reply = self.execution.CommitTransaction(request, timeout=timeout * SLOW)
        if reply.HasField("error_detail"):
            raise Refused(reply.error_detail)
        return reply

    def rollback(self, transaction, timeout=60):
        request = stubs().RollbackTransactionRequest(transaction_id=transaction, access_token=self.token)
        reply = self.execution.RollbackTransaction(request, timeout=timeout * SLOW)
        if reply.HasField("error_detail"):
            raise Refused(reply.error_detail)
        return reply

    def do(self, sql, **fields):
        """As rows, but an error chunk raises Refused with its typed part."""
        answer = self.run(sql, **fields)
        if answer.error is not None:
            raise Refused(answer.error)
        return answer.rows()

    def ingest(self, transaction, table, columns, payloads, format=0, timeout=600, statement="", **fields):
        """Sends PAYLOADS (whole IPC streams) into a staging table, or through STATEMENT; COLUMNS are pairs of name and
        type. The reply."""
        pb = stubs()

        def chunks():
            yield pb.IngestChunk(
                metadata=pb.IngestMetadata(
                    database="mydb",
                    staging_table=table,
                    columns=[pb.IngestColumn(name=n, sql_type=t) for n, t in columns],
                    transaction_id=transaction,
                    access_token=self.token,
                    format=format,
                    statement=statement,
                    **fields,
                )
            )
            for payload in payloads:
                yield pb.IngestChunk(arrow_batch=pb.ArrowIpcBatch(ipc_stream_payload=payload))

        reply = self.execution.IngestData(chunks(), timeout=timeout * SLOW)
        if reply.HasField("error_detail"):
            raise Refused(reply.error_detail)
        return reply

    def cancel(self, execution_id, token=None):
        pb = stubs()
        request = pb.CancelRequest(execution_id=execution_id, access_token=self.token if token is None else token)
        return self.execution.CancelExecution(request, timeout=15).acknowledged

    def status(self):
        return self.status_service.GetStatus(stubs().StatusRequest(access_token=self.token), timeout=15 * SLOW)

    def raw(self, method, kind="unary_stream"):
        """A call of METHOD with bytes in and bytes out."""
        return getattr(self.channel, kind)(method, request_serializer=bytes, response_deserializer=bytes)


class Refused(Exception):
    """An error in a reply or a stream, with its typed part."""

    def __init__(self, detail):
        super().__init__("%s: %s" % (detail.code, detail.message))
        self.detail = detail
        self.code = detail.code
        self.state = detail.sql_state


class Answer:
    def __init__(self, chunks):
        self.chunks = chunks
        self.payloads = [c.arrow_batch.ipc_stream_payload for c in chunks if c.WhichOneof("payload") == "arrow_batch"]
        errors = [c for c in chunks if c.WhichOneof("payload") == "error"]
        self.errors = errors
        self.error_text = errors[0].error if errors else None
        self.error = errors[0].error_detail if errors and errors[0].HasField("error_detail") else None
        self.finished = bool(chunks) and chunks[-1].WhichOneof("payload") == "finished" and chunks[-1].finished

    def tables(self):
        import pyarrow as pa

        return [pa.ipc.open_stream(p).read_all() for p in self.payloads]

    def table(self):
        import pyarrow as pa

        return pa.concat_tables(self.tables())

    def rows(self):
        return [tuple(row.values()) for t in self.tables() for row in t.to_pylist()]


# ---------------------------------------------------------------- servers


class Daemon:
    """One server process. Ready when constructed; stop() asks it to end and checks how it did."""

    program = BINARY
    says_ready = re.compile(r"^ready (https?://\S+)", re.M)

    def __init__(self, *args, env=None, ready=20):
        self.args = [str(a) for a in args]
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        self.proc = subprocess.Popen(
            [str(self.program), *self.args],
            stdin=subprocess.DEVNULL,
            stdout=self.out,
            stderr=self.err,
            env=server_env(env),
        )
        self.checked = False
        try:
            self.url = wait_until(self._ready, ready, "%s is ready" % self.args)
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.proc.poll() is None and kind is None:
            self.stop()
        else:
            self.kill()
            self.check_reports()

    def _ready(self):
        found = self.says_ready.search(self.stdout())
        if found:
            return found[1]
        if self.proc.poll() is not None:
            raise RuntimeError("%s ended with %s:\n%s" % (self.args, self.proc.returncode, self.stderr()))
        return None

    @staticmethod
    def _text(file):
        size = os.fstat(file.fileno()).st_size
        return os.pread(file.fileno(), size, 0).decode(errors="replace")

    def stdout(self):
        return self._text(self.out)

    def stderr(self):
        return self._text(self.err)

    @property
    def pid(self):
        return self.proc.pid

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    def alive(self):
        return self.proc.poll() is None

    def send_signal(self, number):
        self.proc.send_signal(number)

    def wait(self, seconds):
        return self.proc.wait(seconds * SLOW)

    def stop(self, number=signal.SIGTERM, seconds=20, code=0):
        """Ends it by NUMBER, expects exit CODE, and no report of a sanitizer."""
        if self.alive():
            self.send_signal(number)
        try:
            got = self.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                "%s did not end within %s s of signal %s:\n%s" % (self.args, seconds, number, self.tail())
            ) from None
        self.check_reports()
        assert got == code, "%s ended with %s, not %s:\n%s" % (self.args, got, code, self.tail())

    def tail(self, lines=40):
        return "\n".join(self.stderr().splitlines()[-lines:])

    def check_reports(self):
        text = self.stderr()
        found = REPORT.search(text)
        assert not found, "sanitizer report of %s:\n%s" % (self.args, text[found.start() :][:8000])

    def kill(self):
        if self.alive():
            self.proc.kill()
        self.proc.wait()

    def cpu(self):
        """CPU seconds used so far."""
        t = psutil.Process(self.pid).cpu_times()
        return t.user + t.system

    def rss(self):
        return psutil.Process(self.pid).memory_info().rss

    def reset_peak(self):
        pathlib.Path("/proc/%d/clear_refs" % self.pid).write_text("5")

    def peak(self):
        """Peak RSS in bytes since the start or reset_peak."""
        text = pathlib.Path("/proc/%d/status" % self.pid).read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) * 1024

    def client(self, token=""):
        return Remote(self.url, token)

    def status(self, token=""):
        with self.client(token) as c:
            return c.status()

    def wait_idle(self, seconds=2.0, token=""):
        """Waits until no execution holds a slot and none waits."""
        with self.client(token) as c:

            def idle():
                s = c.status()
                return s if s.in_flight == 0 and s.queued == 0 else None

            return wait_until(idle, seconds, "no execution is in flight at %s" % self.url, step=0.05)

    def assert_usable(self, token=""):
        """What every fault must leave behind: slots free, and a query works."""
        self.wait_idle(token=token)
        with self.client(token) as c:
            assert c.rows("SELECT 1") == [(1,)]


def _db_args(databases):
    args = []
    for name, path in (databases or {}).items():
        args += ["--db", "%s=%s" % (name, path)]
    return args


class Serve(Daemon):
    """Gateway and worker in one process."""

    def __init__(self, databases, *options, token=None, listen="127.0.0.1:0", env=None):
        extra = ["--token", token] if token else []
        super().__init__("serve", "--listen", listen, *_db_args(databases), *extra, *options, env=env)


class Worker(Daemon):
    def __init__(self, databases, *options, token=None, gateway=None, listen="127.0.0.1:0", env=None):
        extra = ["--token", token] if token else []
        if gateway:
            extra += ["--gateway", gateway]
        super().__init__("worker", "--listen", listen, *_db_args(databases), *extra, *options, env=env)


class Gateway(Daemon):
    def __init__(self, workers=(), *options, token=None, listen="127.0.0.1:0", env=None):
        extra = ["--token", token] if token else []
        if workers:
            extra += ["--workers", ",".join(workers)]
        super().__init__("gateway", "--listen", listen, *extra, *options, env=env)


class Stack:
    """A gateway in front of one worker, with the face of Serve."""

    def __init__(self, databases, *options, worker_options=(), token=None, listen="127.0.0.1:0"):
        self.worker = Worker(databases, *worker_options, token=token)
        try:
            self.gateway = Gateway([self.worker.url], *options, token=token, listen=listen)
        except BaseException:
            self.worker.kill()
            raise
        self.url = self.gateway.url

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        self.gateway.__exit__(kind, *rest)
        self.worker.__exit__(kind, *rest)

    def __getattr__(self, name):
        return getattr(self.gateway, name)

    def stop(self):
        self.gateway.stop()
        self.worker.stop()


def cli(*args, env=None, timeout=60, stdin=None):
    """Runs an openduck command to its end."""
    return subprocess.run(
        [str(BINARY), *[str(a) for a in args]],
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        capture_output=True,
        text=True,
        timeout=timeout * SLOW,
        env=server_env(env),
        check=False,
    )


# ---------------------------------------------------------------- databases and DuckDB clients


def make_database(path, *statements):
    import duckdb

    con = duckdb.connect(str(path), config={"storage_compatibility_version": "latest"})
    for sql in statements:
        con.execute(sql)
    con.close()
    return path


def attach_sql(url, database="mydb", alias="cloud", token=None, **options):
    options = {"endpoint": url, **options}
    if token is not None:
        options["token"] = token
    query = "&".join("%s=%s" % item for item in options.items())
    return "ATTACH 'openduck:%s?%s' AS %s" % (database, query, alias)


def duck(load=True, **config):
    """A DuckDB of the user, with the extension loaded."""
    import duckdb

    con = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "2", **config})
    if load:
        con.execute("LOAD '%s'" % extension_path())
    return con


@contextlib.contextmanager
def attached(server, database="mydb", alias="cloud", token=None, config=None, **options):
    """A DuckDB connection with the server's DATABASE attached as ALIAS."""
    url = server if isinstance(server, str) else server.url
    con = duck(**(config or {}))
    try:
        con.execute(attach_sql(url, database, alias, token, **options))
        yield con
    finally:
        con.close()


# ---------------------------------------------------------------- proxies


def disconnect(sock):
    """connect(2) to AF_UNSPEC: the reset is sent at once, while close waits for threads that are about to read."""
    no_address = b"\0" * 16
    ctypes.CDLL(None).connect(sock.fileno(), no_address, len(no_address))


class TcpProxy:
    """Passes bytes between clients and a server until it is told to stall, cut or throttle.

    `down` counts the server's bytes. cut_after: closes both sides hard once so many went down. rate: bytes a second
    towards each client."""

    def __init__(self, url, cut_after=None, rate=None):
        host, port = url.removeprefix("http://").rsplit(":", 1)
        self.upstream = (host, int(port))
        self.cut_after = cut_after
        self.rate = rate
        self.stalled = threading.Event()
        self.closed = False
        self.held = 0
        self.down = 0
        self.up = 0
        self.connections = 0
        self.pairs = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.upstream)
            except OSError:
                client.close()
                continue
            with self.lock:
                self.connections += 1
                self.pairs.append((client, server))
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source, sink, down):
        start, passed = time.monotonic(), 0
        try:
            while not self.closed:
                data = source.recv(16384 if down and self.rate else 65536)
                if not data:
                    break
                if self.stalled.is_set():
                    self.held += 1
                while self.stalled.is_set() and not self.closed:
                    time.sleep(0.01)
                sink.sendall(data)
                passed += len(data)
                if down:
                    self.down += len(data)
                    if self.cut_after is not None and self.down >= self.cut_after:
                        self.cut()
                        return
                    if self.rate:
                        time.sleep(max(0.0, start + passed / self.rate - time.monotonic()))
                else:
                    self.up += len(data)
        except OSError:
            pass
        for s in (source, sink):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def stall(self):
        """From now on nothing passes; `held` counts the directions of connections on which something waits."""
        self.held = 0
        self.stalled.set()

    def resume(self):
        self.stalled.clear()

    def cut(self):
        """Resets all connections (RST, not FIN); the peers know when this returns."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for s in pair:
                with contextlib.suppress(OSError):
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    disconnect(s)
                    s.close()

    def close(self):
        self.closed = True
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()


class RecordingProxy:
    """A gRPC proxy that writes down every request on its way to the server.

    refuses: takes a request's bytes; what it is true of does not go on and is answered with UNAVAILABLE."""

    def __init__(self, url):
        self.channel = grpc.insecure_channel(url.removeprefix("http://"), options=CHANNEL_OPTIONS)
        self.requests = []  # (method, bytes)
        self.bytes_down = 0
        self.refuses = lambda request: False
        self.lock = threading.Lock()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(32), options=CHANNEL_OPTIONS)
        self.server.add_generic_rpc_handlers((_Relay(self),))
        self.url = "http://127.0.0.1:%d" % self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()
        self.channel.close()

    def clear(self):
        with self.lock:
            self.requests.clear()
            self.bytes_down = 0

    def count(self, method=None):
        return len([1 for m, _ in self.requests if method is None or m.endswith("/" + method)])

    def executions(self):
        """Decoded ExecuteFragment requests, in order."""
        decode = stubs().ExecuteFragmentRequest.FromString
        return [decode(b) for m, b in list(self.requests) if m.endswith("/ExecuteFragment")]

    def sql(self, describes=False):
        return [r.plan.decode() for r in self.executions() if describes or not r.describe_only]


class _Relay(grpc.GenericRpcHandler):
    def __init__(self, proxy):
        self.proxy = proxy

    def service(self, details):
        method = details.method
        proxy = self.proxy

        def handle(request, context):
            with proxy.lock:
                proxy.requests.append((method, request))
            if proxy.refuses(request):
                context.abort(grpc.StatusCode.UNAVAILABLE, "refused by the proxy")
            call = proxy.channel.unary_stream(method)(request)
            context.add_callback(call.cancel)
            try:
                for message in call:
                    proxy.bytes_down += len(message)
                    yield message
            except grpc.RpcError as e:
                context.abort(e.code(), e.details())

        return grpc.unary_stream_rpc_method_handler(handle)


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.strip()]


Sample = collections.namedtuple("Sample", "cpu wall")


def cpu_share(daemon, seconds=0.5):
    """The share of one core that DAEMON uses over SECONDS."""
    before, start = daemon.cpu(), time.monotonic()
    time.sleep(seconds)
    return (daemon.cpu() - before) / (time.monotonic() - start)


def own_cpu_share(seconds=0.5):
    """The share of one core that this process uses over SECONDS."""
    before, start = time.process_time(), time.monotonic()
    time.sleep(seconds)
    return (time.process_time() - before) / (time.monotonic() - start)


def remote_sql(con, sql):
    """What the scans of SQL send, as EXPLAIN tells."""
    todo = json.loads(con.execute("EXPLAIN (FORMAT JSON) " + sql).fetchall()[0][1])
    found = []
    while todo:
        node = todo.pop()
        found += [node["extra_info"]["Remote SQL"]] if "Remote SQL" in node["extra_info"] else []
        todo += node["children"]
    return found
