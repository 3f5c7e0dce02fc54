"""What a server says of the executions that it has, to `openduck status` and in its log."""

import json
import re

import services

ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"


def printed(server):
    done = services.cli("status", "--endpoint", server.url, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_runs_and_what_waits_is_told_with_its_sql():
    sql = "SELECT 'ü\n' AS a, count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"
    with services.Stack({"mydb": ":memory:"}, "--max-in-flight", "1") as stack, stack.client() as c:
        first = c.call(sql, execution_id="first", database="mydb")
        services.wait_until(lambda: c.status().in_flight == 1 and c.status().running[0].worker, 10, "a worker has it")
        second = c.call("SELECT 2", execution_id="second", database="mydb")
        services.wait_until(lambda: c.status().queued == 1, 10, "it waits")
        got = {r["execution_id"]: (r["waiting"], r["worker"], r["sql"]) for r in printed(stack)["running"]}
        worker = stack.worker.url.removeprefix("http://")
        assert got == {"first": (False, worker, sql), "second": (True, "", "SELECT 2")}
        shown = services.cli("status", "--endpoint", stack.url).stdout
        assert "waiting:    second mydb" in shown and "SELECT 'ü ' AS a" in shown
        (at_worker,) = printed(stack.worker)["running"]
        assert (at_worker["sql"], at_worker["database"], at_worker["waiting"]) == (sql, "mydb", False)
        assert c.cancel("first")
        list(first), list(second)
        services.wait_until(lambda: not c.status().running, 10, "nothing is left")


def test_long_sql_is_cut_at_a_character():
    with services.Serve({"mydb": ":memory:"}) as s, s.client() as c:
        call = c.call("/* %s */ %s" % ("ü" * 3000, ENDLESS), execution_id="long", database="mydb")
        (got,) = services.wait_until(lambda: c.status().running, 10, "it runs")
        assert got.sql.startswith("/* üü") and 2040 <= len(got.sql.encode()) <= 2047
        assert c.cancel("long")
        list(call)


def test_log_lines_of_an_execution_have_its_id():
    env = {"OPENDUCK_LOG": "info,gateway=debug,worker=debug"}
    with services.Serve({"mydb": ":memory:"}, env=env) as s, s.client() as c:
        c.run("SELECT 1", execution_id="good")
        c.run("SELECT nothing", execution_id="bad one")
        services.wait_until(lambda: s.stderr().count('msg="execution ended"') == 4, 10, "both ends of both are logged")
        ended = [line for line in s.stderr().splitlines() if 'msg="execution ended"' in line]
        assert sum(" exec=good " in line for line in ended) == 2
        assert sum(' exec="bad one" ' in line for line in ended) == 2
        assert sum("comp=worker" in line and line.endswith(" code=OK") for line in ended) == 1
        assert sum("comp=gateway" in line and " failed=1 " in line for line in ended) == 1
        assert "SELECT" not in s.stderr()
        c.ingest("", "rows", [("i", "BIGINT")], [], statement="CREATE TABLE t AS FROM rows")
        last = s.stderr().splitlines()[-1]
        assert "comp=worker" in last and re.search(r" exec=[0-9a-f-]{36} .* rows=0 code=OK$", last)
