"""The operator's door: query, cancel, status, help, versions, configuration."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import time

import fake
import pytest
import services

ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"
COMMANDS = ["serve", "gateway", "worker", "query", "cancel", "status", "snapshot", "gc", "storage", "vgi-serve"]


def query(server, sql, *options, **kw):
    return services.cli("query", sql, "--endpoint", server.url, *options, **kw)


# ---------------------------------------------------------------- help, versions


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(command):
    done = services.cli(command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert "usage" in done.stdout.lower() and "openduck %s" % command in done.stdout
    assert "example" in done.stdout.lower()
    assert max(map(len, lines)) <= 120


def test_help_names_every_command():
    for args in (["--help"], ["help"]):
        done = services.cli(*args)
        assert done.returncode == 0
        for command in COMMANDS:
            assert command in done.stdout
    assert services.cli().returncode == 2


def test_help_tells_options_with_default_and_variable():
    text = services.cli("serve", "--help").stdout
    for option, variable in (("--token", "OPENDUCK_TOKEN"), ("--max-in-flight", "OPENDUCK_MAX_IN_FLIGHT")):
        assert option in text and variable in text
    assert "127.0.0.1:7878" in text and "64" in text


def test_version_names_ours_and_duckdbs():
    done = services.cli("--version")
    assert done.returncode == 0
    assert re.search(r"openduck v?\d+\.\d+\.\d+", done.stdout) and "1.5.5" in done.stdout


# ---------------------------------------------------------------- query


def test_query_as_csv(server):
    done = query(server, "SELECT i, s FROM t ORDER BY i LIMIT 3", "--format", "csv")
    assert (done.returncode, done.stdout, done.stderr) == (0, "i,s\n0,s0\n1,s1\n2,s2\n", "")


def test_csv_quotes_what_needs_it(server):
    done = query(
        server, """SELECT 'a,b' AS "x,y", 'say "hi"' AS q, chr(10) AS n, NULL AS nu, '' AS e""", "--format", "csv"
    )
    assert done.returncode == 0, done.stderr
    names, values = csv.reader(io.StringIO(done.stdout))
    assert names == ["x,y", "q", "n", "nu", "e"]
    assert values[:3] == ["a,b", 'say "hi"', "\n"]


def test_query_as_json_lines(server):
    done = query(server, "SELECT i, s, NULL AS n, i = 1 AS b, 1.5 AS d FROM t ORDER BY i LIMIT 2", "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = services.json_lines(done.stdout)
    assert rows[1] == {"i": 1, "s": "s1", "n": None, "b": True, "d": 1.5}


def test_json_escapes(server):
    sql = """SELECT 'q"\\ ' || chr(9) || chr(10) || chr(1) || 'é🦆' AS "k""ey" """
    done = query(server, sql, "--format", "json")
    assert services.json_lines(done.stdout) == [{'k"ey': 'q"\\ \t\n\x01é🦆'}]


def test_query_as_a_table(server):
    done = query(server, "SELECT i, s FROM t ORDER BY i LIMIT 2")
    assert done.returncode == 0, done.stderr
    assert re.search(r"\bi\b.*\bs\b", done.stdout) and re.search(r"\b1\b.*\bs1\b", done.stdout)


@pytest.mark.parametrize("kind, want", [("csv", "i,s\n"), ("json", "")])
def test_result_without_rows(server, kind, want):
    done = query(server, "SELECT i, s FROM t WHERE i < 0", "--format", kind)
    assert (done.returncode, done.stdout) == (0, want)


def test_nested_and_odd_types_are_printed(server):
    sql = (
        "SELECT [1, NULL] AS l, {'a': 'x'} AS s, 5::HUGEINT AS h, '\\xAA'::BLOB AS b, "
        "uuid() AS u, DATE '2020-01-02' AS d"
    )
    for kind in ("table", "csv", "json"):
        done = query(server, sql, "--format", kind)
        assert done.returncode == 0, done.stderr
        assert "2020-01-02" in done.stdout


def test_large_result_streams_through(server):
    done = query(server, "SELECT i, j, s FROM big", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 3000001
    assert done.stdout.endswith("\n2999999,5999998,row number 2999999\n")


def test_query_picks_its_database(server):
    done = query(server, "SELECT current_database()", "--db", "other", "--format", "csv")
    assert done.stdout.splitlines()[1:] == ["other"], done.stderr


def test_error_goes_to_stderr_with_exit_1(server):
    done = query(server, "SELECT * FROM missing", "--format", "csv")
    assert done.returncode == 1 and done.stdout == ""
    assert "missing" in done.stderr and "does not exist" in done.stderr


def test_error_after_rows_is_exit_1(server):
    done = query(server, "SELECT CASE WHEN i = 2999999 THEN 'x' ELSE '1' END::INTEGER AS n FROM big", "--format", "csv")
    assert done.returncode == 1
    assert "onver" in done.stderr


def test_table_shows_the_rows_before_an_error():
    def behave(request, answer):
        chunks = [c for c in answer(request) if not c.finished]
        return [*chunks, *fake.FakeServer.fail("broken in the middle", kind=4)]

    with fake.FakeServer(behave=behave, rows_per_payload=3) as s:
        done = query(s, "SELECT i FROM range(5) t(i)")
    assert done.returncode == 1 and "broken in the middle" in done.stderr
    assert re.findall(r"│ +(\d) │", done.stdout) == list("01234")
    assert "rows)" not in done.stdout


def test_query_takes_no_larger_message_than_it_was_told(server):
    done = query(server, "SELECT repeat('x', 3000000) AS s", "--max-message", "1MiB")
    assert done.returncode == 1 and done.stdout == "" and "limit" in done.stderr
    done = query(server, "SELECT repeat('x', 3000000) AS s", "--format", "csv", env={"OPENDUCK_MAX_MESSAGE": "4MiB"})
    assert done.returncode == 0 and len(done.stdout) > 3000000


def test_json_is_short_for_the_format(server):
    assert query(server, "SELECT 1 AS i", "--json").stdout == '{"i":1}\n'
    assert query(server, "SELECT 1 AS i", "--json", "--format", "json").returncode == 0
    done = query(server, "SELECT 1 AS i", "--json", "--format", "csv")
    assert done.returncode == 2 and "--format" in done.stderr


def test_unreachable_server_is_exit_1_soon():
    port = services.free_port()
    for command in (["query", "SELECT 1"], ["status"], ["cancel", "x"]):
        start = time.monotonic()
        done = services.cli(*command, "--endpoint", "http://127.0.0.1:%d" % port)
        assert done.returncode == 1
        assert str(port) in done.stderr + done.stdout
        assert time.monotonic() - start < 6 * services.SLOW


def test_https_is_never_downgraded(server):
    done = services.cli("query", "SELECT 1", "--endpoint", server.url.replace("http:", "https:"), "--token", "secret")
    assert done.returncode == 1
    assert "does not speak TLS" in done.stderr and "secret" not in done.stderr


def test_endpoint_and_token_come_from_the_environment(sample_db):
    with services.Serve({"x": ":memory:"}, env={"OPENDUCK_TOKEN": "from env"}) as s:
        env = {"OPENDUCK_ENDPOINT": s.url, "OPENDUCK_TOKEN": "from env"}
        assert services.cli("query", "SELECT 3 AS n", "--format", "csv", env=env).stdout == "n\n3\n"
        env["OPENDUCK_TOKEN"] = "other"
        assert services.cli("query", "SELECT 3", env=env).returncode == 1
        assert services.cli("query", "SELECT 3", "--token", "from env", env=env).returncode == 0


def test_closed_pipe_ends_the_query(server):
    command = [
        services.BINARY,
        "query",
        "SELECT i FROM range(1000000000) t(i)",
        "--endpoint",
        server.url,
        "--format",
        "csv",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=services.server_env()) as p:
        p.stdout.readline()
        p.stdout.close()
        p.wait(10 * services.SLOW)
        assert b"Sanitizer" not in p.stderr.read()
    server.wait_idle(1)


def test_ctrl_c_cancels_the_query(server):
    command = [services.BINARY, "query", ENDLESS, "--endpoint", server.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=services.server_env()) as p:
        services.wait_until(lambda: server.status().in_flight == 1, 5, "the query runs")
        p.send_signal(signal.SIGINT)
        assert p.wait(2 * services.SLOW) != 0
    server.wait_idle(1)


# ---------------------------------------------------------------- cancel, status


def test_cancel_by_id(server):
    with server.client() as c:
        call = c.call(ENDLESS, execution_id="to-cancel-1")
        services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
        listed = services.cli("status", "--endpoint", server.url, "--json")
        assert [r["execution_id"] for r in json.loads(listed.stdout)["running"]] == ["to-cancel-1"]
        done = services.cli("cancel", "to-cancel-1", "--endpoint", server.url)
        assert done.returncode == 0, done.stderr
        answer = services.Answer(list(call))
        assert "cancel" in answer.error_text
        again = services.cli("cancel", "to-cancel-1", "--endpoint", server.url)
        assert again.returncode == 1 and "to-cancel-1" in again.stderr


def test_cancel_with_a_wrong_token_stops_nothing(sample_db):
    with services.Serve({"x": ":memory:"}, token="right") as s, s.client("right") as c:
        call = c.call(ENDLESS, execution_id="safe-1")
        services.wait_until(lambda: c.status().in_flight == 1, 5, "the query runs")
        done = services.cli("cancel", "safe-1", "--endpoint", s.url, "--token", "wrong")
        assert done.returncode == 1 and "access_token" in done.stderr
        assert c.status().in_flight == 1
        assert services.cli("cancel", "safe-1", "--endpoint", s.url, "--token", "right").returncode == 0
        assert services.Answer(list(call)).error_text


def test_status_for_people_and_programs(server):
    done = services.cli("status", "--endpoint", server.url)
    assert done.returncode == 0, done.stderr
    assert "ok" in done.stdout.lower() and "mydb" in done.stdout
    data = json.loads(services.cli("status", "--endpoint", server.url, "--json").stdout)
    assert data["in_flight"] == 0 and data["role"] == "serve" and "1.5.5" in data["duckdb_version"]
    assert set(data["databases"]) >= {"mydb", "other"}
    assert data["max_in_flight"] == 64


@pytest.mark.parametrize("kind", [services.Serve, services.Stack])
def test_what_ended_is_counted_when_its_client_knows(kind):
    """Totals are right at once, and an id that is told as running can be cancelled."""
    with kind({"mydb": ":memory:"}) as s, s.client() as c:
        for n in range(1, 41):
            c.rows("SELECT 1")
            assert c.run("FROM nothere").error_text
            now = c.status()
            assert (now.executions_total, now.errors_total, now.cancelled_total) == (2 * n, n, 0)
        for n in range(1, 6):
            call = c.call(ENDLESS, execution_id="endless")
            services.wait_until(lambda: c.status().running, 10, "it runs")
            assert c.cancel("endless")
            assert list(call)[-1].finished
            now = c.status()
            assert now.cancelled_total + now.errors_total == 40 + n
            assert not c.cancel("endless")


# ---------------------------------------------------------------- servers


def test_ready_line_comes_on_stdout_alone(server):
    assert server.stdout() == "ready %s\n" % server.url


def test_log_lines_are_logfmt(server):
    lines = [line for line in server.stderr().splitlines() if line]
    assert lines
    for line in lines:
        assert re.match(
            r'ts=\S+ level=(error|warn|info|debug) comp=\S+ msg=("[^"]*"|\S+)( \S+=("[^"]*"|\S*))*$', line
        ), line


def test_queries_are_not_logged_at_info(server):
    with server.client() as c:
        c.rows("SELECT 'a secret value'")
    assert "a secret value" not in server.stderr()


def test_flag_beats_environment(tmp_path):
    env = {"OPENDUCK_MAX_IN_FLIGHT": "7"}
    with services.Serve({"x": ":memory:"}, env=env) as s:
        assert s.status().max_in_flight == 7
    with services.Serve({"x": ":memory:"}, "--max-in-flight", "3", env=env) as s:
        assert s.status().max_in_flight == 3


def test_without_a_token_servers_listen_on_loopback_only():
    done = services.cli("serve", "--listen", "0.0.0.0:0", "--db", "x=:memory:", timeout=10)
    assert done.returncode in (1, 2)
    assert "token" in done.stderr


def test_sql_has_no_access_to_the_hosts_files(server, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with server.client() as c:
        for sql in (
            "FROM read_csv('%s')" % secret,
            "FROM '%s'" % secret,
            "SELECT content FROM read_text('/etc/passwd')",
            "COPY t TO '%s/out.csv'" % tmp_path,
            "ATTACH '%s/x.duckdb'" % tmp_path,
            "LOAD '%s/x.duckdb_extension'" % tmp_path,
            "INSTALL httpfs",
            "EXPORT DATABASE '%s/exp'" % tmp_path,
            "SET enable_external_access = true",
            "SET GLOBAL enable_external_access = true",
            "SET lock_configuration = false",
            "PRAGMA enable_profiling; PRAGMA profiling_output='%s/prof.json'; SELECT 1" % tmp_path,
            "SET temp_directory = '%s/tmpdir'" % tmp_path,
            "SET secret_directory = '%s/secdir'" % tmp_path,
        ):
            answer = c.run(sql)
            assert answer.error is not None, sql
            assert answer.error.kind in (7, 2, 6, 1), sql
        assert os.listdir(tmp_path) == ["secret.csv"]


def test_a_query_cannot_touch_what_others_use(server):
    """One client's statements must not shut down or change the instance for the rest."""
    with server.client() as c:
        for sql in (
            "DETACH mydb",
            "DETACH other",
            "SET GLOBAL threads = 1",
            "SET GLOBAL memory_limit = '1MB'",
            "PRAGMA threads = 1",
            "CALL force_checkpoint()",
        ):
            c.run(sql)
        assert c.rows("SELECT count(*) FROM t", database="mydb") == [(1000,)]
        assert c.rows("SELECT 1", database="other") == [(1,)]
        assert c.rows("SELECT current_setting('threads') > 1") == [(os.cpu_count() > 1,)]


def test_read_only_server_refuses_writes(sample_db):
    with services.Serve({"mydb": sample_db}, "--read-only") as s, s.client() as c:
        assert c.rows("SELECT count(*) FROM t") == [(1000,)]
        for sql in ("INSERT INTO one VALUES (3)", "CREATE TABLE n(i INTEGER)", "DROP TABLE t"):
            assert c.run(sql).error is not None, sql
