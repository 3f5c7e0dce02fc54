"""Metrics as an OpenTelemetry collector gets them, decoded by OpenTelemetry's own messages."""

import concurrent.futures
import http.server
import socket
import ssl
import threading
import time

import grpc
import pytest
import services
import test_tls
import tls_files
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as collector
from opentelemetry.proto.metrics.v1 import metrics_pb2 as metrics

PATH = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
ATTRIBUTES = {"rpc.system": "grpc", "rpc.service": "openduck.v1.ExecutionService", "rpc.method": "ExecuteFragment"}


class Collector:
    """Keeps what it is sent: (path or metadata, request)."""

    def __init__(self):
        self.got = []

    def take(self, head, body):
        self.got.append((head, collector.ExportMetricsServiceRequest.FromString(body)))

    def wait(self, count=1):
        services.wait_until(lambda: len(self.got) >= count, 15, "%d exports" % count)

    def wait_for(self, condition, what):
        return services.wait_until(lambda: self.got and condition(Export(self.got[-1][1])), 15, what)


class HttpCollector(Collector):
    def __init__(self, port=0, status=200, tls=None):
        """TLS: an ssl.SSLContext."""
        super().__init__()
        self.status = status
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.take((self.path, dict(self.headers)), body)
                reply = collector.ExportMetricsServiceResponse().SerializeToString()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.handle_error = lambda *_: None  # handshakes that fail
        self.port = self.server.server_address[1]
        self.url = "http%s://127.0.0.1:%d" % ("s" if tls else "", self.port)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class GrpcCollector(Collector, grpc.GenericRpcHandler):
    def __init__(self, tls=None):
        """TLS: grpc.ssl_server_credentials."""
        super().__init__()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
        self.server.add_generic_rpc_handlers((self,))
        if tls:
            self.url = "https://127.0.0.1:%d" % self.server.add_secure_port("127.0.0.1:0", tls)
        else:
            self.url = "http://127.0.0.1:%d" % self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def service(self, details):
        def export(body, context):
            assert details.method == PATH
            self.take(dict(context.invocation_metadata()), body)
            return collector.ExportMetricsServiceResponse().SerializeToString()

        return grpc.unary_unary_rpc_method_handler(export)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()


class Export:
    """One request, checked."""

    def __init__(self, request):
        assert len(request.resource_metrics) == 1
        resource = request.resource_metrics[0]
        self.resource = {a.key: a.value.string_value for a in resource.resource.attributes}
        assert [s.scope.name for s in resource.scope_metrics] == ["openduck"]
        self.metrics = {}
        for m in resource.scope_metrics[0].metrics:
            assert m.name and m.description and m.unit and m.name not in self.metrics
            self.metrics[m.name] = m
            data = getattr(m, m.WhichOneof("data"))
            assert data.data_points
            seen = set()
            for p in data.data_points:
                assert 1.7e18 < p.time_unix_nano < 4e18
                key = frozenset((a.key, a.value.string_value) for a in p.attributes)
                assert key not in seen
                seen.add(key)
                if not isinstance(data, metrics.Gauge):
                    assert 0 < p.start_time_unix_nano <= p.time_unix_nano
            if isinstance(data, metrics.Gauge):
                continue
            assert data.aggregation_temporality == metrics.AGGREGATION_TEMPORALITY_CUMULATIVE
            if isinstance(data, metrics.Sum):
                assert data.is_monotonic
            else:
                self.check_histogram(data)

    @staticmethod
    def check_histogram(data):
        for p in data.data_points:
            assert len(p.bucket_counts) == len(p.explicit_bounds) + 1
            assert list(p.explicit_bounds) == sorted(set(p.explicit_bounds))
            assert sum(p.bucket_counts) == p.count
            assert p.HasField("sum") and (p.sum > 0) == (p.count > 0)

    def point(self, name, **attributes):
        attributes = {k.replace("_", "."): v for k, v in attributes.items()}
        m = self.metrics[name]
        for p in getattr(m, m.WhichOneof("data")).data_points:
            if attributes.items() <= {a.key: a.value.string_value for a in p.attributes}.items():
                return p
        raise AssertionError("no %s with %s" % (name, attributes))


def serve(url, *options, **env):
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_METRIC_EXPORT_INTERVAL": "100", **env}
    return services.Serve({"mydb": ":memory:"}, *options, env=env)


def ran_five(s):
    with s.client() as c:
        for _ in range(4):
            c.rows("SELECT 1")
        assert c.run("SELECT no_such_column").error_text


def executions(export, outcome):
    return export.point("rpc.server.duration", rpc_method="ExecuteFragment", outcome=outcome).count


def check_five(export):
    return executions(export, "success") == 4 and executions(export, "error") == 1


def test_http_exports_are_decoded_and_right():
    env = {
        "OTEL_EXPORTER_OTLP_HEADERS": "x-api-key=s3cr%20et",
        "OTEL_SERVICE_NAME": "ducks",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test,service.name=other",
    }
    with HttpCollector() as c, serve(c.url, **env) as s:
        ran_five(s)
        c.wait_for(check_five, "the five executions are told")
        (path, headers), request = c.got[-1]
        assert path == "/v1/metrics"
        assert headers["Content-Type"] == "application/x-protobuf"
        assert headers["x-api-key"] == "s3cr et"
        export = Export(request)
        assert export.resource["service.name"] == "ducks"
        assert export.resource["deployment.environment"] == "test"
        assert len(export.resource["service.instance.id"]) == 36
        assert export.metrics["rpc.server.duration"].unit == "ms"
        p = export.point("rpc.server.duration", rpc_method="ExecuteFragment", outcome="success")
        assert ATTRIBUTES.items() <= {a.key: a.value.string_value for a in p.attributes}.items()
        assert 0.01 < p.sum < 1000 * 4 * services.SLOW and p.explicit_bounds[0] == 0.5
        assert export.point("openduck.executions").as_int == 5
        assert export.point("openduck.executions.errors").as_int == 1
        assert export.point("process.cpu.time").as_double > 0
        assert export.point("openduck.rpc.server.sent", rpc_method="ExecuteFragment").as_int > 500
        assert "s3cr" not in s.stderr()


def test_grpc_exports_are_decoded_and_right():
    env = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_HEADERS": "X-Api-Key=k1,other=2"}
    with GrpcCollector() as c, serve(c.url, **env) as s:
        ran_five(s)
        c.wait_for(check_five, "the five executions are told")
        metadata, _ = c.got[-1]
        assert metadata["x-api-key"] == "k1" and metadata["other"] == "2"


def test_seals_are_exported(tmp_path):
    with HttpCollector() as c:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_METRIC_EXPORT_INTERVAL": "3600000"}
        with services.Serve({"mydb": "openduck://mydb?data_dir=%s" % (tmp_path / "data")}, env=env) as s:
            with s.client() as client:
                client.rows("FROM openduck_seal('mydb')")
            s.stop()
            c.wait()
        export = Export(c.got[-1][1])
        assert export.metrics["openduck.storage.seal.duration"].unit == "s"
        p = export.point("openduck.storage.seal.duration", outcome="success")
        assert p.count == sum(p.bucket_counts) == 1 and 0 < p.sum < 60 * services.SLOW
        assert export.point("openduck.storage.seal.duration", outcome="error").count == 0


def test_counters_never_fall():
    with HttpCollector() as c, serve(c.url) as s:
        ran_five(s)
        c.wait(4)
        counts = [executions(Export(r), "success") for _, r in c.got]
        assert counts == sorted(counts)
        assert len({Export(r).resource["service.instance.id"] for _, r in c.got}) == 1


@pytest.mark.parametrize("make", [HttpCollector, GrpcCollector])
def test_the_last_export_comes_at_the_end(make):
    protocol = "grpc" if make is GrpcCollector else "http/protobuf"
    env = {"OTEL_METRIC_EXPORT_INTERVAL": "3600000", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    with make() as c, serve(c.url, **env) as s:
        ran_five(s)
        assert not c.got
        s.stop()
        c.wait()
        assert check_five(Export(c.got[-1][1]))


def test_a_dead_collector_is_told_once_and_tried_again():
    port = services.free_port()
    with serve("http://127.0.0.1:%d" % port) as s:
        services.wait_until(lambda: "metrics cannot be exported" in s.stderr(), 15, "it is logged")
        ran_five(s)
        time.sleep(0.5)  # five more tries
        assert s.stderr().count("metrics cannot be exported") == 1
        with HttpCollector(port) as c:
            c.wait_for(check_five, "nothing was lost")
            services.wait_until(lambda: "metrics are exported again" in s.stderr(), 15, "it is logged")


def test_a_refusal_is_logged_with_its_status():
    with HttpCollector(status=503) as c, serve(c.url) as s:
        services.wait_until(lambda: "HTTP status 503" in s.stderr(), 15, "it is logged")
        c.status = 200
        services.wait_until(lambda: "metrics are exported again" in s.stderr(), 15, "it is logged")


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_collector_that_never_answers_holds_nothing_up(protocol):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "http://127.0.0.1:%d" % silent.getsockname()[1]
        with serve(url, OTEL_EXPORTER_OTLP_PROTOCOL=protocol) as s:
            peer, _ = silent.accept()
            ran_five(s)
            start = time.monotonic()
            s.stop()
            assert time.monotonic() - start < 3 + 2 * services.SLOW
            peer.close()


def test_what_cannot_be_done_does_not_keep_a_server_from_serving():
    for env in (
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://127.0.0.1:1", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/no/nonsense"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://127.0.0.1:1", "OTEL_EXPORTER_OTLP_CLIENT_KEY": "/no/nonsense"},
        {"OTEL_EXPORTER_OTLP_HEADERS": "nonsense"},
    ):
        with serve("http://127.0.0.1:1", **env) as s:
            assert 'msg="metrics are not exported"' in s.stderr()
            assert "nonsense" not in s.stderr().replace("'/no/nonsense'", "")
            ran_five(s)


# ---------------------------------------------------------------- over TLS

PROTOCOLS = pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])


def tls_collector(protocol, cert="server", client_ca=None):
    if protocol == "grpc":
        return GrpcCollector(tls_files.server_credentials(cert, client_ca))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls_files.path(cert + ".pem"), tls_files.path(cert + ".key"))
    if client_ca:
        context.load_verify_locations(tls_files.path(client_ca + ".pem"))
        context.verify_mode = ssl.CERT_REQUIRED
    return HttpCollector(tls=context)


def tls_env(protocol, ca="ca", client=None):
    env = {"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_HEADERS": "x-api-key=s3cret"}
    if ca:
        env["OTEL_EXPORTER_OTLP_CERTIFICATE"] = tls_files.path(ca + ".pem")
    if client:
        env["OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"] = tls_files.path(client + ".pem")
        env["OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY"] = tls_files.path(client + ".key")
    return env


@PROTOCOLS
@pytest.mark.parametrize("client", [None, "client"])
def test_exports_over_tls_are_decoded(protocol, client):
    with tls_collector(protocol, client_ca="ca" if client else None) as c:
        url = c.url.replace("127.0.0.1", "localhost")
        with serve(url, **tls_env(protocol, client=client)) as s:
            ran_five(s)
            c.wait_for(check_five, "the five executions are told")
            sent = c.got[-1][0]
            assert (sent if protocol == "grpc" else sent[1])["x-api-key"] == "s3cret"
            assert "s3cret" not in s.stderr() and "metrics cannot be exported" not in s.stderr()


@PROTOCOLS
@pytest.mark.parametrize(
    "cert, ca, client_ca, word",
    [
        ("server", "other-ca", None, "unable to get local issuer certificate"),
        ("server", None, None, "unable to get local issuer certificate"),
        ("expired", "ca", None, "certificate has expired"),
        ("elsewhere", "ca", None, "mismatch"),
        ("server", "ca", "ca", "metrics cannot be exported"),  # in the peer's words, if it has any
    ],
)
def test_a_wrong_collector_gets_nothing(protocol, cert, ca, client_ca, word):
    with tls_collector(protocol, cert, client_ca) as c, serve(c.url, **tls_env(protocol, ca)) as s:
        services.wait_until(lambda: word in s.stderr(), 15, "it is logged")
        assert s.stderr().count("metrics cannot be exported") == 1
        ran_five(s)
        s.stop()
        assert not c.got


@PROTOCOLS
@pytest.mark.parametrize("answer", ["silent", "http1", "http2"])
def test_nothing_goes_out_in_the_clear(protocol, answer):
    with test_tls.Recorder(test_tls.ANSWERS[answer]) as peer:
        with serve(peer.url, OTEL_EXPORTER_OTLP_TIMEOUT="400", **tls_env(protocol)) as s:
            services.wait_until(lambda: "metrics cannot be exported" in s.stderr(), 15, "it is logged")
        peer.check()
        for stream in peer.streams:
            for word in (b"s3cret", b"POST", b"openduck", b"opentelemetry"):
                assert word not in stream


def test_disabled_is_disabled():
    with HttpCollector() as c:
        with serve(c.url, OTEL_SDK_DISABLED="true") as s:
            ran_five(s)
        with serve(c.url, OTEL_METRICS_EXPORTER="none") as s:
            ran_five(s)
        assert not c.got
