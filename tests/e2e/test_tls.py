"""TLS: who is trusted, who is refused, and what goes out to whom. Certificates are made by tls_files.py."""

import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import threading

import fake
import grpc
import pytest
import services
import tls_files

TOKEN = "a-token-that-is-told-to-nobody"
SQL = "SELECT 'words-of-a-statement'"
TABLES = ("CREATE TABLE t AS SELECT i::INTEGER AS i, 's' || i AS s FROM range(5000) t(i)",)


@pytest.fixture(scope="module")
def server():
    with services.Serve({"mydb": ":memory:"}, *tls_files.listen(), token=TOKEN) as s:
        yield s


def query(url, *options, sql=SQL, token=TOKEN, env=None):
    env = {"OPENDUCK_TOKEN": token, **(env or {})}
    done = services.cli("query", sql, "--endpoint", url, "--format", "csv", *options, env=env)
    assert TOKEN not in done.stdout + done.stderr
    assert "PRIVATE KEY" not in done.stderr
    return done


def works(url, *options, **more):
    done = query(url, *options, **more)
    assert done.returncode == 0 and "words-of-a-statement" in done.stdout, done.stderr


def refused(url, *options, word, **more):
    done = query(url, *options, **more)
    assert done.returncode == 1 and word in done.stderr, done.stderr
    return done


def by_name(server):
    return "https://localhost:%d" % server.port


# ---------------------------------------------------------------- who is trusted


def test_ready_line_and_status_say_https(server):
    assert server.url.startswith("https://127.0.0.1:")
    done = services.cli("status", "--endpoint", server.url, *tls_files.dial(), env={"OPENDUCK_TOKEN": TOKEN})
    assert done.returncode == 0 and done.stdout.startswith("OK "), done.stderr


def test_server_is_accepted_by_address_and_by_name(server):
    works(server.url, *tls_files.dial())
    works(by_name(server), *tls_files.dial())
    works(server.url, env={"OPENDUCK_TLS_CA": tls_files.path("ca.pem")})


def test_system_store_is_the_default_and_can_be_named(server):
    refused(server.url, word="certificate is refused: unable to get local issuer certificate")
    works(server.url, env={"SSL_CERT_FILE": tls_files.path("ca.pem")})


@pytest.mark.parametrize(
    "cert, ca, word",
    [
        ("server", "other-ca", "unable to get local issuer certificate"),
        ("stranger", "ca", "unable to get local issuer certificate"),
        ("expired", "ca", "certificate has expired"),
        ("elsewhere", "ca", "mismatch"),
        ("client", "ca", "mismatch"),  # its common name is localhost, which is not asked
    ],
)
def test_wrong_server_is_refused_and_gets_nothing(cert, ca, word):
    with services.Serve({"mydb": ":memory:"}, *tls_files.listen(cert), token=TOKEN) as s:
        for url in (s.url, by_name(s)):
            done = refused(url, *tls_files.dial(ca), word="the server's certificate is refused: ")
            assert word in done.stderr
        assert "words-of" not in s.stderr() and TOKEN not in s.stderr()


def test_server_whose_own_certificate_is_in_the_file_is_accepted(server):
    works(server.url, "--tls-ca", tls_files.path("server.pem"))


# ---------------------------------------------------------------- mutual TLS


def test_client_certificate_is_demanded():
    with services.Serve({"mydb": ":memory:"}, *tls_files.listen(client_ca="ca"), token=TOKEN) as s:
        works(s.url, *tls_files.dial(cert="client"))
        refused(s.url, *tls_files.dial(), word="the server asks for a client certificate")
        refused(s.url, *tls_files.dial(cert="stranger"), word="refuses the TLS connection: unknown CA")
        refused(s.url, *tls_files.dial(cert="expired"), word="certificate expired")
        refused(s.url, *tls_files.dial(cert="client"), token="wrong", word="")  # no substitute for the token
        with services.Remote(s.url, TOKEN, tls_files.client_credentials(cert="client")) as c:
            assert c.rows("SELECT 1") == [(1,)]
        with services.Remote(s.url, TOKEN, tls_files.client_credentials()) as c, pytest.raises(grpc.RpcError):
            c.rows("SELECT 1")
        assert "the client has shown no certificate" in s.stderr()


# ---------------------------------------------------------------- the wrong language


def test_plain_client_of_a_tls_server_is_told(server):
    refused(server.url.replace("https:", "http:"), word="the server speaks TLS: the endpoint has to be https://")
    with services.Remote(server.url, TOKEN) as c, pytest.raises(grpc.RpcError) as e:
        c.rows("SELECT 1")
    assert e.value.code() == grpc.StatusCode.UNAVAILABLE
    works(server.url, *tls_files.dial())


def test_tls_client_of_a_plain_server_is_told():
    with services.Serve({"mydb": ":memory:"}, token=TOKEN) as s:
        refused(s.url.replace("http:", "https:"), *tls_files.dial(), word="the server does not speak TLS")
        works(s.url)
    with fake.FakeServer() as f:
        refused(f.url.replace("http:", "https:"), *tls_files.dial(), word="TLS")
        assert f.requests == []


def test_silent_connections_hold_nobody_up(server):
    with contextlib.ExitStack() as stack:
        for first in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"):
            for _ in range(40):
                s = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                s.sendall(first)
        works(server.url, *tls_files.dial())
        # Each is closed when its time for the handshake is over.
        s.settimeout(20 * services.SLOW)
        assert s.recv(100) == b""


# ---------------------------------------------------------------- grpcio


def test_grpcio_talks_to_us(server):
    with services.Remote(server.url, TOKEN, tls_files.client_credentials()) as c:
        assert c.rows("SELECT count(*), max(i) FROM range(1000000) t(i)") == [(1000000, 999999)]
        assert len(c.rows("SELECT repeat('x', 1000) FROM range(20000)")) == 20000
        txn = c.begin()
        c.do("CREATE TABLE kept AS SELECT 42 AS i", transaction_id=txn)
        c.commit(txn)
        assert c.rows("SELECT i FROM mydb.kept") == [(42,)]


def test_gateway_talks_to_a_grpcio_worker_with_tls():
    credentials = tls_files.server_credentials()
    with (
        fake.FakeServer(*TABLES, credentials=credentials) as worker,
        services.Gateway([worker.url], *tls_files.listen(), *tls_files.dial(), token=TOKEN) as gateway,
    ):
        done = query(gateway.url, *tls_files.dial(), sql="SELECT count(*) AS n, max(s) FROM t")
        assert done.stdout == "n,max(s)\n5000,s999\n", done.stderr
        assert len(worker.requests) == 1


def test_grpcio_worker_that_demands_a_certificate_gets_the_gateways():
    credentials = tls_files.server_credentials(client_ca="ca")
    with fake.FakeServer(*TABLES, credentials=credentials) as worker:
        options = ["--tls-ca", tls_files.path("ca.pem")]
        with services.Gateway([worker.url], *tls_files.listen("client"), *options, token=TOKEN) as gateway:
            done = query(gateway.url, "--tls-ca", tls_files.path("client.pem"), sql="SELECT 1")
            assert "mismatch" in done.stderr  # a client's certificate names no host
        with services.Gateway([worker.url], *tls_files.listen("server"), *options, token=TOKEN) as gateway:
            done = query(gateway.url, *tls_files.dial(), sql="SELECT count(*) AS n FROM t")
            assert done.stdout == "n\n5000\n", done.stderr


# ---------------------------------------------------------------- gateway and workers


@pytest.mark.parametrize("kind", ["static", "registered"])
def test_everything_by_mutual_tls(kind):
    tls = [*tls_files.listen(client_ca="ca"), "--tls-ca", tls_files.path("ca.pem")]
    client = tls_files.dial(cert="client")
    with contextlib.ExitStack() as stack:
        if kind == "static":
            worker = stack.enter_context(services.Worker({"mydb": ":memory:"}, *tls, token=TOKEN))
            gateway = stack.enter_context(services.Gateway([worker.url], *tls, token=TOKEN))
        else:
            gateway = stack.enter_context(services.Gateway([], *tls, token=TOKEN))
            worker = stack.enter_context(services.Worker({"mydb": ":memory:"}, *tls, token=TOKEN, gateway=gateway.url))
            services.wait_until(lambda: "msg=registered" in worker.stderr(), 10, "the worker has registered")
        works(gateway.url, *client)
        credentials = tls_files.client_credentials(cert="client")
        with services.Remote(gateway.url, TOKEN, credentials) as c:
            txn = c.begin()
            c.do("CREATE TABLE kept AS SELECT 42 AS i", transaction_id=txn)
            c.commit(txn)
            assert c.rows("SELECT i FROM mydb.kept") == [(42,)]
            assert len(c.rows("SELECT repeat('x', 1000) FROM range(20000)")) == 20000
        refused(worker.url, *tls_files.dial(), word="client certificate")


def test_hybrid_statements_reach_workers_by_mutual_tls():
    tls = [*tls_files.listen(client_ca="ca"), "--tls-ca", tls_files.path("ca.pem")]
    with (
        services.Worker({"mydb": ":memory:"}, *tls, token=TOKEN) as worker,
        services.Gateway([worker.url], "--hybrid", *tls, token=TOKEN) as gateway,
    ):
        far = "SELECT i FROM openduck_run(''LOCAL'', ''SELECT 2 AS i'')"
        sql = "SELECT sum(i) AS s FROM openduck_run('REMOTE', '%s'), openduck_run('LOCAL', 'SELECT 1 AS j')" % far
        assert query(gateway.url, *tls_files.dial(cert="client"), sql=sql).stdout == "s\n2\n"


def test_gateway_refuses_a_worker_that_it_cannot_trust():
    with services.Worker({"mydb": ":memory:"}, *tls_files.listen("stranger"), token=TOKEN) as worker:
        with services.Gateway([worker.url], *tls_files.dial(), token=TOKEN) as gateway:
            done = refused(gateway.url, word="unable to get local issuer certificate")
            assert worker.url.split("//")[1] in done.stderr
            assert TOKEN not in gateway.stderr() and "words-of" not in gateway.stderr()
    with services.Worker({"mydb": ":memory:"}, token=TOKEN) as plain:
        url = plain.url.replace("http:", "https:")
        with services.Gateway([url], *tls_files.dial(), token=TOKEN) as gateway:
            refused(gateway.url, word="the server does not speak TLS")


def test_worker_refuses_a_gateway_that_it_cannot_trust():
    with services.Gateway([], *tls_files.listen("stranger"), token=TOKEN) as gateway:
        options = [*tls_files.dial(), "--gateway", gateway.url]
        with services.Worker({"mydb": ":memory:"}, *options, token=TOKEN) as worker:
            services.wait_until(lambda: "cannot register" in worker.stderr(), 10, "the worker has tried")
            assert "unable to get local issuer certificate" in worker.stderr()
            assert TOKEN not in worker.stderr() + gateway.stderr()


# ---------------------------------------------------------------- what goes out


class Recorder:
    """A TCP peer that writes down what it gets. It says ANSWER, and hangs up after a while without a byte."""

    def __init__(self, answer=b""):
        self.answer = answer
        self.streams = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "https://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                conn, _ = self.listener.accept()
                stream = bytearray()
                self.streams.append(stream)
                threading.Thread(target=self.record, args=(conn, stream), daemon=True).start()

    def record(self, conn, stream):
        with conn, contextlib.suppress(OSError):
            conn.settimeout(1.0)
            conn.sendall(self.answer)
            while data := conn.recv(65536):
                stream += data

    def check(self):
        """Nothing but TLS has come, and at least that."""
        assert any(self.streams)
        for stream in filter(None, self.streams):
            assert stream[0] in (0x15, 0x16) and stream[1] == 3, bytes(stream[:40])
            for word in (TOKEN.encode(), b"words-of-a-statement", b"PRI * HTTP/2", b"openduck.v1", b"mydb"):
                assert word not in stream


# What a peer could say to make a client go on in the clear: nothing, HTTP/2, HTTP/1, and pieces of TLS.
ANSWERS = {
    "silent": b"",
    "http2": bytes.fromhex("000000040000000000" + "000000040100000000"),
    "http1": b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1/\r\n\r\n",
    "alert": bytes.fromhex("15030300020228"),
    "garbage": b"\x16\x03\x03\x00\x04\x02\x00\x00\x00" + b"\xff" * 100,
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_commands_send_nothing_in_the_clear(answer):
    env = {"OPENDUCK_TOKEN": TOKEN, "OPENDUCK_CONNECT_TIMEOUT": "700ms"}
    with Recorder(ANSWERS[answer]) as peer:
        for command in (["query", SQL, "--db", "mydb"], ["status"], ["cancel", "an-execution"]):
            done = services.cli(*command, "--endpoint", peer.url, env=env)
            assert done.returncode == 1 and TOKEN not in done.stderr + done.stdout
            assert "cannot connect to '127.0.0.1:" in done.stderr, done.stderr
        peer.check()
        assert len(peer.streams) == 3


@pytest.mark.parametrize("answer", ["silent", "http2"])
def test_gateway_and_worker_send_nothing_in_the_clear(answer):
    timeout = ["--connect-timeout", "700ms"]
    with Recorder(ANSWERS[answer]) as peer:
        with services.Gateway([peer.url], *timeout, token=TOKEN) as gateway:
            refused(gateway.url, "--db", "mydb", word="127.0.0.1:%s" % peer.url.rsplit(":", 1)[1])
        seen = len(peer.streams)
        with services.Worker({"mydb": ":memory:"}, *timeout, "--gateway", peer.url, token=TOKEN) as worker:
            services.wait_until(lambda: "cannot register" in worker.stderr(), 10, "the worker has tried")
        assert 0 < seen < len(peer.streams)
        peer.check()


# ---------------------------------------------------------------- new certificates


def test_sighup_takes_new_certificates_and_keeps_the_old_on_error(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def put(name):
        shutil.copy(tls_files.path(name + ".pem"), cert)
        shutil.copy(tls_files.path(name + ".key"), key)

    def hup(s, line):
        before = s.stderr().count(line)
        s.send_signal(signal.SIGHUP)
        services.wait_until(lambda: s.stderr().count(line) > before, 10, line)

    tls_files.make_cert(tls_files.folder(), "renewed", "other-ca")
    put("server")
    with services.Serve({"mydb": ":memory:"}, "--tls-cert", cert, "--tls-key", key, token=TOKEN) as s:
        works(s.url, *tls_files.dial("ca"))
        with services.Remote(s.url, TOKEN, tls_files.client_credentials("ca")) as c:
            assert c.rows("SELECT 1") == [(1,)]
            put("renewed")
            hup(s, "msg=reloaded")
            assert c.rows("SELECT 1") == [(1,)]  # the connection stays
        works(s.url, *tls_files.dial("other-ca"))
        refused(s.url, *tls_files.dial("ca"), word="unable to get local issuer certificate")
        key.write_text("no key\n")
        hup(s, "cannot reload")
        assert "cannot use the key '%s'" % key in s.stderr() and "no key\n" not in s.stderr()
        works(s.url, *tls_files.dial("other-ca"))


# ---------------------------------------------------------------- the extension


def attach(con, url, *options, database="mydb", alias="cloud"):
    more = "".join(", %s '%s'" % o for o in options)
    con.execute("ATTACH 'openduck:%s' AS %s (ENDPOINT '%s', TOKEN '%s'%s)" % (database, alias, url, TOKEN, more))


def tls_option(ca="ca"):
    return ("TLS_CA", tls_files.path(ca + ".pem"))


@pytest.mark.extension
def test_attach_over_https(server):
    with services.duck() as con:
        attach(con, server.url, tls_option())
        con.execute("CREATE TABLE cloud.big AS SELECT i, 's' || i AS s FROM range(200000) t(i)")
        assert con.execute("SELECT count(*), sum(i), max(s) FROM cloud.big").fetchone() == (
            200000,
            19999900000,
            "s99999",
        )
        path = con.execute("SELECT path FROM duckdb_databases() WHERE database_name = 'cloud'").fetchone()[0]
        assert path == "openduck:mydb?endpoint=" + server.url
        con.execute("DROP TABLE cloud.big")


@pytest.mark.extension
@pytest.mark.parametrize(
    "options, word",
    [
        ([], "unable to get local issuer certificate"),
        ([("TLS_CA", "other-ca.pem")], "unable to get local issuer certificate"),
        ([("TLS_CA", "nosuch.pem")], "cannot read the CA"),
        ([("TLS_CA", "server.key")], "cannot use the CA"),
        ([("TLS_CA", "ca.pem"), ("TLS_CERT", "client.pem")], "needs its key"),
        ([("TLS_CA", "ca.pem"), ("TLS_CERT", "client.pem"), ("TLS_KEY", "server.key")], "cannot use the key"),
    ],
)
def test_wrong_attach_is_refused(server, options, word):
    with services.duck() as con, pytest.raises(Exception) as e:
        attach(con, server.url, *[(name, tls_files.path(file)) for name, file in options])
    assert word in str(e.value) and TOKEN not in str(e.value) and "PRIVATE" not in str(e.value)
    assert "INTERNAL" not in str(e.value)


@pytest.mark.extension
def test_attach_with_a_text_in_the_place_of_a_path_does_not_show_it(server):
    key = (tls_files.folder() / "client.key").read_text()
    with services.duck() as con, pytest.raises(Exception, match="has to be the path of a PEM file") as e:
        attach(con, server.url, tls_option(), ("TLS_CERT", tls_files.path("client.pem")), ("TLS_KEY", key))
    assert key.splitlines()[1] not in str(e.value)


@pytest.mark.extension
def test_attach_tls_options_need_https(server):
    with services.duck() as con, pytest.raises(Exception, match="begins with https://"):
        attach(con, server.url.replace("https:", "http:"), tls_option())
    with services.duck() as con, pytest.raises(Exception, match="the endpoint has to be https://"):
        attach(con, server.url.replace("https:", "http:"))


@pytest.mark.extension
@pytest.mark.parametrize("cert, word", [("expired", "certificate has expired"), ("elsewhere", "mismatch")])
def test_attach_refuses_a_wrong_server(cert, word):
    with services.Serve({"mydb": ":memory:"}, *tls_files.listen(cert), token=TOKEN) as s:
        with services.duck() as con, pytest.raises(Exception, match=word):
            attach(con, s.url, tls_option())


@pytest.mark.extension
def test_attach_by_secret_with_a_client_certificate():
    with services.Serve({"mydb": ":memory:"}, *tls_files.listen(client_ca="ca"), token=TOKEN) as s:
        with services.duck() as con:
            with pytest.raises(Exception, match="client certificate"):
                attach(con, s.url, tls_option(), alias="bare")
            con.execute(
                "CREATE SECRET (TYPE openduck, ENDPOINT '%s', TOKEN '%s', TLS_CA '%s', TLS_CERT '%s', TLS_KEY '%s')"
                % (s.url, TOKEN, *[tls_files.path(n) for n in ("ca.pem", "client.pem", "client.key")])
            )
            con.execute("ATTACH 'openduck:mydb' AS cloud")
            con.execute("CREATE TABLE cloud.t AS SELECT 42 AS i")
            assert con.execute("FROM cloud.t").fetchall() == [(42,)]
            shown = str(con.execute("FROM duckdb_secrets()").fetchall())
            assert TOKEN not in shown and "client.key" not in shown and "ca.pem" in shown


@pytest.mark.extension
def test_extension_sends_nothing_in_the_clear():
    with Recorder() as peer, services.duck() as con:
        con.execute("SET openduck_connect_timeout = '700ms'")
        with pytest.raises(Exception, match="the TLS handshake timed out"):
            attach(con, peer.url, tls_option())
        with pytest.raises(Exception, match="cannot connect"):
            con.execute("FROM openduck_remote('%s', '%s', '%s')" % (peer.url, TOKEN, SQL.replace("'", "''")))
        peer.check()


@pytest.mark.extension
def test_extension_has_an_openssl_of_its_own():
    """It is loaded into processes that have another, so no symbol goes in or out."""
    path = services.extension_path()
    symbols = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout
    for line in symbols.splitlines():
        name = line.split()[-1].split("@")[0]
        assert not name.startswith(("SSL_", "TLS_", "EVP_", "X509", "CRYPTO_", "OPENSSL_", "BIO_", "ERR_")), line
    needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    assert "libduckdb" in needed and "libssl" not in needed and "libcrypto" not in needed


@pytest.mark.extension
def test_extension_and_pythons_ssl_live_in_one_process(server):
    code = """
import socket, ssl, sys, threading
import duckdb
url, token, ca, extension = sys.argv[1:]
port = int(url.rsplit(":", 1)[1])
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute("LOAD '%s'" % extension)
con.execute("ATTACH 'openduck:mydb' AS cloud (ENDPOINT '%s', TOKEN '%s', TLS_CA '%s')" % (url, token, ca))
context = ssl.create_default_context(cafile=ca)
context.set_alpn_protocols(["h2"])
def shake():
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", port)) as s:
            with context.wrap_socket(s, server_hostname="localhost") as t:
                assert t.selected_alpn_protocol() == "h2"
threads = [threading.Thread(target=shake) for _ in range(4)]
[t.start() for t in threads]
for _ in range(50):
    assert con.cursor().execute("SELECT * FROM openduck_query('cloud', 'SELECT 42')").fetchall() == [(42,)]
[t.join() for t in threads]
try:
    ssl.create_default_context().wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")
except ssl.SSLCertVerificationError:
    print("fine")
"""
    args = [server.url, TOKEN, tls_files.path("ca.pem"), services.extension_path()]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
