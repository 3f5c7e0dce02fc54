"""openduck_status, openduck_workers and openduck_queries, and `openduck status` beside them."""

import json

import duckdb
import pytest
import services

pytestmark = pytest.mark.extension


def rows(con, sql):
    cursor = con.execute(sql)
    names = [d[0] for d in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def printed(server):
    done = services.cli("status", "--endpoint", server.url, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def stack():
    with services.Stack({"mydb": ":memory:"}, "--max-in-flight", "1", "--max-queued", "3") as s:
        yield s


def test_a_status_is_what_the_command_prints(server):
    with services.attached(server) as con:
        con.execute("FROM openduck_query('cloud', 'SELECT 1')").fetchall()
        (got,) = rows(con, "FROM openduck_status()")
        said = printed(server)
        assert got["database_name"] == "cloud"
        assert got["role"] == said["role"] == "serve"
        assert got["databases"] == said["databases"] == ["mydb", "other"]
        for name in ("version", "duckdb_version", "draining", "max_in_flight", "queued", "max_queued", "transactions"):
            assert got[name] == said[name], name
        assert abs(got["uptime"].total_seconds() - said["uptime_seconds"]) < 60
        assert 1 <= got["executions_total"] <= said["executions_total"]
        assert rows(con, "FROM openduck_workers()") == []


def test_counts_grow(server):
    with services.attached(server) as con:
        before = rows(con, "FROM openduck_status('cloud')")[0]
        with server.client() as c:
            for _ in range(5):
                c.rows("SELECT 1")
            assert c.run("SELECT no_such_column").error_text
        services.wait_until(
            lambda: rows(con, "FROM openduck_status('cloud')")[0]["errors_total"] == before["errors_total"] + 1, 10
        )
        after = rows(con, "FROM openduck_status('cloud')")[0]
        assert after["executions_total"] == before["executions_total"] + 6


def test_workers_of_a_gateway_are_listed(stack):
    with services.attached(stack) as con:
        (got,) = rows(con, "FROM openduck_workers()")
        (said,) = printed(stack)["workers"]
        assert got["endpoint"] == said["endpoint"] == stack.worker.url.removeprefix("http://")
        assert got["healthy"] is True
        assert got["databases"] == said["databases"] == ["mydb"]


def test_queries_run_and_wait(stack):
    sql = "SELECT 'ü\n' AS a, count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"
    with services.attached(stack) as con, stack.client() as c:
        first = c.call(sql, execution_id="first", database="mydb")
        services.wait_until(lambda: c.status().in_flight == 1, 10, "it runs")
        second = c.call("SELECT 2", execution_id="second", database="mydb")
        services.wait_until(lambda: c.status().queued == 1, 10, "it waits")
        services.wait_until(lambda: c.status().running[0].worker or c.status().running[1].worker, 10, "a worker has it")
        got = {r["execution_id"]: r for r in rows(con, "FROM openduck_queries('cloud')")}
        assert got.keys() == {"first", "second"}
        assert got["first"]["state"] == "running" and got["second"]["state"] == "waiting"
        assert got["first"]["sql"] == sql and got["second"]["sql"] == "SELECT 2"
        assert got["first"]["worker"] == stack.worker.url.removeprefix("http://") and got["second"]["worker"] is None
        assert got["first"]["remote_database"] == "mydb"
        assert got["first"]["elapsed"] >= got["second"]["elapsed"]
        said = {r["execution_id"]: r for r in printed(stack)["running"]}
        assert {k: (v["waiting"], v["sql"], v["worker"]) for k, v in said.items()} == {
            k: (v["state"] == "waiting", v["sql"], v["worker"] or "") for k, v in got.items()
        }
        assert c.cancel("first")
        list(first), list(second)
        services.wait_until(lambda: rows(con, "FROM openduck_queries('cloud')") == [], 10, "nothing is left")


def test_all_attached_databases_are_asked(server, stack):
    with services.attached(server) as con:
        con.execute(services.attach_sql(stack.url, alias="far"))
        con.execute("ATTACH ':memory:' AS here")
        got = con.execute("SELECT database_name, role FROM openduck_status() ORDER BY ALL").fetchall()
        assert got == [("cloud", "serve"), ("far", "gateway")]
        assert con.execute("SELECT database_name FROM openduck_workers()").fetchall() == [("far",)]
        for bad in ("here", "nowhere"):
            with pytest.raises(duckdb.BinderException, match=bad):
                con.execute("FROM openduck_status('%s')" % bad)
        with pytest.raises(duckdb.BinderException, match="NULL"):
            con.execute("FROM openduck_queries(NULL)")


def test_without_an_attached_database_there_is_nothing():
    con = services.duck()
    for name in ("status", "workers", "queries"):
        assert con.execute("FROM openduck_%s()" % name).fetchall() == []


def test_a_server_that_is_gone_is_an_io_error():
    with services.Serve({"mydb": ":memory:"}) as s:
        con = services.duck()
        con.execute(services.attach_sql(s.url))
        assert len(con.execute("FROM openduck_status()").fetchall()) == 1
        s.stop()
        with pytest.raises(duckdb.IOException):
            con.execute("FROM openduck_status()")
        assert con.execute("SELECT 1").fetchall() == [(1,)]
        con.close()


def test_the_token_is_needed():
    with services.Serve({"mydb": ":memory:"}, token="t") as s, services.attached(s, token="t") as con:
        assert len(con.execute("FROM openduck_status()").fetchall()) == 1
        assert services.cli("status", "--endpoint", s.url).returncode == 1
