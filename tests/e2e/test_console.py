"""The console: what its page shows in a browser, what may be done there, and whom it serves."""

import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import browser
import duckdb
import pytest
import services
import tls_files
from test_tokens import secret, write_tokens

TOKEN = "the token & its=odd %characters"
ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"
MARKUP = "SELECT '<script>document.title = 1</script><img src=http://evil.example/x>' AS \"<b>\", " + ENDLESS[7:]
RUNNING = "document.querySelectorAll('#running tbody tr').length"


def console_url(daemon):
    found = services.wait_until(
        lambda: re.search(r"msg=console url=(\S+)/", daemon.stderr()), 10, "it tells its console"
    )
    return found[1]


class Script:
    """A program that talks to the console, as one with the token or as a browser with a cookie might."""

    def __init__(self, url, tls=None, **headers):
        self.url, self.tls, self.headers = urllib.parse.urlsplit(url), tls, headers

    def __call__(self, method, path, body=None, **headers):
        headers = {k.replace("_", "-"): v for k, v in {**self.headers, **headers}.items()}
        if self.url.scheme == "https":
            connection = http.client.HTTPSConnection(self.url.netloc, timeout=30, context=self.tls)
        else:
            connection = http.client.HTTPConnection(self.url.netloc, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        kind = answer.headers["content-type"]
        return answer.status, json.loads(text) if kind == "application/json" else text, answer.headers


def bearer(url, token=TOKEN):
    return Script(url, Authorization="Bearer " + token)


@pytest.fixture(scope="module")
def served():
    """A server with a console and a token."""
    with services.Serve({"m": ":memory:"}, "--console-listen", "127.0.0.1:0", token=TOKEN) as s:
        yield s


def sign_in(page, url, token=TOKEN):
    page.open(url)
    page.wait("document.querySelector('#sign-in').checkVisibility()", what="the form")
    page.click("#token")
    page.type(token)
    page.press("Enter")


def see(page):
    page.wait("document.querySelector('#app').checkVisibility()", what="the console")
    page.wait("document.querySelector('#state').innerText === 'serving'", what="what the server says")


def start_query(daemon, sql, token=TOKEN):
    env = services.server_env({"OPENDUCK_TOKEN": token})
    return subprocess.Popen(
        [services.BINARY, "query", "--endpoint", daemon.url, "--db", "m", sql],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_long_query_is_seen_and_cancelled_in_the_browser():
    with services.Stack({"m": ":memory:"}, "--console-listen", "127.0.0.1:0", token=TOKEN) as stack:
        url = console_url(stack.gateway)
        with browser.Browser() as page:
            sign_in(page, url, "not the token")
            page.wait("document.querySelector('#sign-in-error').innerText", what="the refusal")
            assert page.text("#sign-in-error") == "This is no token of an administrator."
            assert not page.visible("#app")
            page.type(TOKEN)  # what was wrong is selected, and replaced
            page.press("Enter")
            see(page)
            page.wait("document.querySelectorAll('#workers tbody tr').length === 1", what="the worker")
            assert "up" in page.text("#workers tbody tr") and stack.worker.url.split("//")[1] in page.text("#workers")
            assert page.text("#no-running") == "Nothing runs."

            client = start_query(stack.gateway, MARKUP)
            page.wait(RUNNING + " === 1", what="the query")
            # What the query says is text: no element is made of it, and nothing is fetched.
            assert page.text("#running tbody code") == MARKUP
            page.wait("document.querySelector('#running tbody .pill').innerText === 'running'", what="a worker has it")
            row = page.text("#running tbody tr")
            assert "m" in row and stack.worker.url.split("//")[1] in row
            assert page.eval("document.querySelectorAll('#running script, #running img, #running b').length") == 0
            assert page.eval("document.title") == "OpenDuck console: 1 running"

            page.resize(360, 800)
            page.wait(
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth", what="it fits a phone"
            )
            page.resize(1280, 1000)

            page.click("#running .danger")
            page.wait("document.querySelector('#confirm').open", what="the question")
            assert page.text("#confirm-sql") == MARKUP
            page.press("Enter")  # "Let it run" has the focus
            page.wait("!document.querySelector('#confirm').open", what="the answer")
            assert client.poll() is None and not any(r["url"].endswith("/api/cancel") for r in page.requests)
            page.click("#running .danger")
            page.wait("document.querySelector('#confirm').open", what="the question")
            page.click("#confirm-yes")
            _, complaint = client.communicate(timeout=30 * services.SLOW)
            assert client.returncode == 1
            assert "cancelled at the console" in complaint
            page.wait(RUNNING + " === 0", what="the query is gone")
            page.wait("document.querySelectorAll('#failures tbody tr').length === 1", what="the error")
            assert "CANCELLED (57014)" in page.text("#failures tbody tr")

            assert {urllib.parse.urlsplit(r["url"]).netloc for r in page.requests} == {
                urllib.parse.urlsplit(url).netloc
            }
            assert not any(TOKEN in r["url"] or "token" in r["url"] for r in page.requests)
            assert page.errors == []
        assert TOKEN not in stack.gateway.stderr() and "Bearer" not in stack.gateway.stderr()


def test_the_browser_is_told_when_the_session_or_the_server_is_gone(served):
    url = console_url(served)
    address = "127.0.0.1:%d" % services.free_port()
    with browser.Browser(dark=True) as page:
        with services.Gateway([], "--console-listen", address):
            # Without a token there is nothing to type, and without workers nothing runs.
            page.open("http://" + address)
            see(page)
            page.wait("document.querySelector('#no-workers').checkVisibility()", what="the lack of workers")
            assert page.text("#no-workers").startswith("No workers. Queries are refused until one registers")
        page.wait("document.querySelector('#notice').innerText.startsWith('The gateway does not answer.')")
        assert page.eval("document.body.classList.contains('stale')")
        with services.Gateway([], "--console-listen", address):
            page.wait("document.querySelector('#notice').hidden", what="the notice goes")
            assert page.visible("#app") and not page.eval("document.body.classList.contains('stale')")
        page.errors.clear()  # what the gateway's end did to requests

        sign_in(page, url)
        see(page)
        page.send("Network.clearBrowserCookies")  # as when the session has ended
        page.wait("document.querySelector('#sign-in').checkVisibility()", what="the form")
        assert page.text("#notice") == "Your session has ended: sign in again."
        page.type(TOKEN)  # the field has the focus
        page.press("Enter")
        see(page)
        page.click("#sign-out")
        page.wait("document.querySelector('#notice').innerText === 'You have signed out.'")
        assert page.errors == []


def test_rates_latencies_and_errors_are_shown(served):
    ask = bearer(console_url(served))
    with served.client(TOKEN) as c:
        for _ in range(20):
            c.rows("SELECT 1", database="m")
        with pytest.raises(RuntimeError):
            c.rows("SELECT '<i>' AS x, nothing_here\n-- the secret part", database="m")

        def latest():
            _, series, _ = ask("GET", "/api/series?since=0")
            figures = series["rows"][-1][3 + series["methods"].index("ExecuteFragment")] if series["rows"] else [None]
            return figures if figures[0] and figures[1] else None

        calls, errors, p50, p95, p99 = services.wait_until(latest, 20, "a row of the calls")
    assert calls > errors > 0
    assert 0 < p50 <= p95 <= p99 < 60000

    def noted():
        return [f for f in ask("GET", "/api/failures")[1]["failures"] if "nothing_here" in f["message"]]

    failure = services.wait_until(noted, 10, "the error is noted")[0]
    assert (failure["kind"], failure["database"]) == ("BINDER", "m")
    assert "secret part" not in failure["message"]


def test_the_clients_statement_ends_as_an_interrupted_one(served):
    ask = bearer(console_url(served))
    with served.client(TOKEN) as c:
        call = c.call(ENDLESS, execution_id="to be ended", database="m")

        def running():
            return [row for row in ask("GET", "/api/status")[1]["running"] if not row["waiting"]]

        (row,) = services.wait_until(running, 10, "it runs")
        assert (row["id"], row["database"], row["sql"]) == ("to be ended", "m", ENDLESS)
        assert row["client"].startswith("127.0.0.1:")
        assert ask("POST", "/api/cancel", "execution=to+be%20ended")[:2] == (200, {"cancelled": "yes"})
        assert services.Answer(list(call)).error.sql_state == "57014"
        assert ask("POST", "/api/cancel", "execution=to+be%20ended")[:2] == (200, {"cancelled": "no"})
    assert re.search(r'msg="execution cancelled" exec="to be ended"', served.stderr())


@pytest.mark.extension
def test_a_statement_of_the_extension_is_cancelled(served):
    ask = bearer(console_url(served))
    sql = "SELECT * FROM openduck_query('cloud', %s)" % repr(ENDLESS)
    with services.attached(served, "m", token=urllib.parse.quote(TOKEN, safe="")) as con, ThreadPoolExecutor(1) as pool:
        run = pool.submit(lambda: con.execute(sql).fetchall())

        def cancelled():
            """The execution that describes the query is listed too, and is gone before long."""
            for row in ask("GET", "/api/status")[1]["running"]:
                if "range" in row["sql"]:
                    ask("POST", "/api/cancel", urllib.parse.urlencode({"execution": row["id"]}))
            return run.done()

        try:
            services.wait_until(cancelled, 30, "it is cancelled")
        finally:
            con.interrupt()
        with pytest.raises(duckdb.InterruptException):
            run.result()
        assert con.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("kind", [services.Serve, services.Stack])
def test_failures_of_transactions_and_uploads_are_noted(kind):
    with kind({"mydb": ":memory:"}, "--console-listen", "127.0.0.1:0") as s, s.client() as c:
        ask = bearer(console_url(s), "anything")
        c.rows("CREATE TABLE t(i INTEGER)", database="mydb")

        def calls():
            return {f["call"]: f for f in ask("GET", "/api/failures")[1]["failures"]}

        with pytest.raises(services.Refused):
            c.commit("no such transaction")
        ended = services.wait_until(lambda: calls().get("CommitTransaction"), 10, "it is noted")
        assert ended["client"].startswith("127.0.0.1:") and ended["id"] == ""
        transaction = c.begin()
        with pytest.raises(services.Refused):
            c.ingest(transaction, "t", [("i", "NO TYPE")], [])
        noted = services.wait_until(lambda: calls().get("IngestData"), 10, "it is noted")
        assert noted["message"] and calls().keys() == {"CommitTransaction", "IngestData"}


def test_who_may_look_and_who_may_not(served):
    url = console_url(served)
    origin, nobody = url, Script(url)
    for path in ("/api/status", "/api/series", "/api/failures"):
        assert nobody("GET", path)[0] == 401
        assert bearer(url, "wrong")("GET", path)[0] == 401
        assert bearer(url)("GET", path)[0] == 200
    assert nobody("POST", "/api/cancel", "execution=x")[0] == 401
    assert nobody("GET", "/api/session")[1] == {"signed_in": False, "token_needed": True, "csrf": ""}

    form = urllib.parse.urlencode({"token": TOKEN})
    for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": origin + "0"}):
        assert nobody("POST", "/login", form, **headers)[0] == 403
    assert nobody("POST", "/login", "token=wrong", Origin=origin)[0] == 401
    assert nobody("POST", "/login", "", Origin=origin)[0] == 401
    status, _, headers = nobody("POST", "/login", form, Origin=origin)
    cookie = headers["set-cookie"]
    assert status == 200
    assert re.fullmatch(r"openduck_console_\d+=[0-9a-f]{64}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict", cookie)

    browsing = Script(url, Cookie="other=1; " + cookie.split(";")[0])
    csrf = browsing("GET", "/api/session")[1]["csrf"]
    assert browsing("GET", "/api/status")[0] == 200
    # A wrong bearer is not made good by a cookie.
    assert browsing("GET", "/api/status", Authorization="Bearer wrong")[0] == 401
    for headers in (
        {},
        {"Origin": origin},
        {"X-OpenDuck-CSRF": csrf},
        {"Origin": "http://evil.example", "X-OpenDuck-CSRF": csrf},
        {"Origin": origin, "X-OpenDuck-CSRF": csrf[:-1] + "x"},
    ):
        assert browsing("POST", "/api/cancel", "execution=x", **headers)[0] == 403
        assert browsing("POST", "/logout", "", **headers)[0] == 403
    good = {"Origin": origin, "X-OpenDuck-CSRF": csrf}
    assert browsing("POST", "/api/cancel", "execution=x", **good)[:2] == (200, {"cancelled": "no"})
    assert browsing("POST", "/api/cancel", "execution=%00", **good)[0] == 400
    assert browsing("POST", "/logout", "", **good)[0] == 200
    assert browsing("GET", "/api/status")[0] == 401
    assert "a wrong token was tried" in served.stderr() and TOKEN not in served.stderr()


def test_it_takes_an_administrator(tmp_path):
    tokens = tmp_path / "tokens"
    write_tokens(tokens, {"ops": "admin = true", "reader": "databases = *\nread-only = true"})
    options = ["--tokens", tokens, "--console-listen", "127.0.0.1:0"]
    with services.Serve({"m": ":memory:"}, *options) as s, s.client(secret("reader")) as reader:
        url = console_url(s)
        assert Script(url)("GET", "/api/session")[1]["token_needed"]
        assert bearer(url, secret("reader"))("GET", "/api/status")[0] == 401

        def login(name):
            return Script(url)("POST", "/login", "token=" + secret(name), Origin=url)

        assert login("reader")[0] == 401
        status, _, headers = login("ops")
        assert status == 200
        browsing = Script(url, Cookie=headers["set-cookie"].split(";")[0])
        call = reader.call(ENDLESS, execution_id="of the reader", database="m")
        (row,) = services.wait_until(lambda: browsing("GET", "/api/status")[1]["running"], 10, "it runs")
        assert (row["id"], row["user"]) == ("of the reader", "reader")
        assert bearer(url, secret("ops"))("POST", "/api/cancel", "execution=of+the+reader")[1] == {"cancelled": "yes"}
        assert services.Answer(list(call)).error.sql_state == "57014"
        (failure,) = services.wait_until(lambda: browsing("GET", "/api/failures")[1]["failures"], 10, "it is noted")
        assert (failure["id"], failure["user"], failure["code"]) == ("of the reader", "reader", "CANCELLED")
        # A session is worth no more than its token.
        write_tokens(tokens, {"reader": "databases = *"})
        s.send_signal(signal.SIGHUP)
        services.wait_until(lambda: browsing("GET", "/api/status")[0] == 401, 10, "the session ends")


def test_every_answer_keeps_others_out(served):
    nobody = Script(console_url(served))
    for path in ("/", "/console.js", "/chart.js", "/console.css", "/icon.svg", "/api/session", "/api/status"):
        _, _, headers = nobody("GET", path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-frame-options"] == "DENY" and headers["cache-control"] == "no-store"
    _, page, _ = nobody("GET", "/")
    assert not re.search(r"https?://|<style|style=|<script(?! type=\"module\" src=)|\son\w+=", page)
    # The name of another site that points here.
    assert nobody("GET", "/", Host="evil.example")[0] == 421
    assert nobody("POST", "/login", "token=x", Host="evil.example", Origin="http://evil.example")[0] == 421


def test_only_loopback_without_a_token():
    def fails(*options):
        return services.cli("serve", "--db", "x=:memory:", "--listen", "127.0.0.1:0", *options)

    done = fails("--console-listen", "0.0.0.0:0")
    assert done.returncode == 2
    assert "--console-listen: without a token only a loopback address" in done.stderr
    with services.Serve({"m": ":memory:"}) as s:
        done = fails("--console-listen", s.url.removeprefix("http://"))
        assert done.returncode == 1 and "--console-listen: cannot listen on" in done.stderr
        assert "console" not in s.stderr()


# ---------------------------------------------------------------- TLS


def trusting(*protocols):
    context = ssl.create_default_context(cafile=tls_files.path("ca.pem"))
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


@pytest.fixture(scope="module")
def encrypted():
    """A gateway with both pages, over TLS."""
    files = ["--tls-cert", tls_files.path("server.pem"), "--tls-key", tls_files.path("server.key")]
    pages = ["--console-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
    with services.Gateway([], *pages, *files, token=TOKEN) as gateway:
        yield gateway


def dial(url, *protocols):
    to = urllib.parse.urlsplit(url)
    raw = socket.create_connection((to.hostname, to.port), timeout=30)
    return trusting(*protocols).wrap_socket(raw, server_hostname=to.hostname)


def read_all(connection):
    got = b""
    while data := connection.recv(65536):
        got += data
    return got


def test_both_pages_speak_tls_only(encrypted):
    url = console_url(encrypted)
    metrics = re.search(r"msg=metrics url=(\S+)/metrics", encrypted.stderr())[1]
    assert url.startswith("https://") and metrics.startswith("https://")
    ask = Script(url, trusting(), Authorization="Bearer " + TOKEN)
    assert ask("GET", "/api/status")[0] == 200
    status, text, _ = Script(metrics, trusting(), Authorization="Bearer " + TOKEN)("GET", "/metrics")
    assert status == 200 and "openduck_build_info" in text
    status, _, headers = ask("POST", "/login", urllib.parse.urlencode({"token": TOKEN}), Origin=url)
    assert status == 200 and headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")
    for page in (url, metrics):
        with socket.create_connection(page.removeprefix("https://").split(":"), timeout=30) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_all(plain)[:1] in (b"", b"\x15"), "an alert at most"
    with pytest.raises(ssl.SSLCertVerificationError):
        Script(url, ssl.create_default_context())("GET", "/")


def test_requests_in_one_flood_and_byte_by_byte_over_tls(encrypted):
    url = console_url(encrypted)
    with pytest.raises(ssl.SSLError, match=r"(?i)no application protocol"):
        dial(url, "h2")
    with dial(url, "h2", "http/1.1") as c:
        assert c.selected_alpn_protocol() == "http/1.1"
        body = "token=" + "x" * 12000
        post = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        last = "GET /console.js HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        c.sendall((post * 5 + last).encode())
        got = read_all(c)
        assert got.count(b"HTTP/1.1 403 Forbidden") == 5 and got.count(b"HTTP/1.1 200 OK") == 1
        assert got.rstrip().endswith(b"poll();")
    with dial(url) as c:
        for i in range(len(last)):
            c.sendall(last[i : i + 1].encode())
        assert read_all(c).rstrip().endswith(b"poll();")


def test_the_browser_uses_the_console_over_tls(encrypted):
    with browser.Browser(insecure=True) as page:
        sign_in(page, console_url(encrypted))
        see(page)
        assert page.errors == []
        (cookie,) = page.send("Network.getCookies")["cookies"]
        assert cookie["secure"] and cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        assert page.eval("document.cookie") == "" and TOKEN not in page.eval("document.documentElement.outerHTML")
        assert page.eval("localStorage.length + sessionStorage.length") == 0
