"""Several workers: how they come, stay and go, and which of them gets a statement."""

import contextlib
import signal
import socket
import time

import grpc
import pytest
import services
from test_ingest import NUMBERS, ipc, numbers

ENDLESS = "SELECT count(*) FROM range(10000000000) a(i), range(1000) b(j) WHERE i * j %% 7 = %d"
SECONDS = "SELECT count(*) FROM range(%d000000) a(i), range(100) b(j) WHERE hash(i, j) %% 7 = 1"
pytestmark = pytest.mark.timeout(120 * services.SLOW)


def address(daemon):
    return daemon.url.removeprefix("http://")


def workers_of(gateway):
    return {w.worker_id: w for w in gateway.status().workers}


def wait_for_workers(gateway, *ids):
    services.wait_until(lambda: set(workers_of(gateway)) == set(ids), 10, "%s have registered" % (ids,))


def healthy(gateway, worker_id):
    worker = workers_of(gateway).get(worker_id)
    return worker is not None and worker.healthy


class Named(services.Worker):
    """A worker called NAME, which has the database `shared` and registers at GATEWAY (a URL)."""

    def __init__(self, name, gateway, *options):
        databases = {"shared": ":memory:", "me_" + name: ":memory:"}
        super().__init__(databases, "--worker-id", name, *options, gateway=gateway)


def answered_by(client, sql, **fields):
    """The name of the worker that SQL runs at."""
    [(name,)] = client.rows(
        "SELECT database_name FROM duckdb_databases() WHERE starts_with(database_name, 'me_') -- %s" % sql, **fields
    )
    return name.removeprefix("me_")


# ---------------------------------------------------------------- registration


def test_what_does_not_answer_is_not_registered(pb):
    with services.Gateway() as gateway, gateway.client() as c, socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = "http://127.0.0.1:%d" % silent.getsockname()[1]
        with pytest.raises(grpc.RpcError) as e:
            c.execution.RegisterWorker(pb.WorkerRegistration(worker_id="w", endpoint=endpoint), timeout=30)
        assert e.value.code() == grpc.StatusCode.UNAVAILABLE and "takes no executions" in e.value.details()
        assert not gateway.status().workers
        with pytest.raises(grpc.RpcError) as e:
            c.run("SELECT 1")
        assert e.value.code() == grpc.StatusCode.FAILED_PRECONDITION


def test_restarted_worker_is_the_same_one():
    with services.Gateway() as gateway, gateway.client() as c:
        with services.Worker({"x": ":memory:"}, gateway=gateway.url) as first:
            place = address(first)
            wait_for_workers(gateway, place)
            first.kill()
        with services.Worker({"x": ":memory:"}, gateway=gateway.url, listen=place):
            services.wait_until(lambda: healthy(gateway, place), 10, "it is back")
            assert list(workers_of(gateway)) == [place]
            assert c.rows("SELECT 1", database="x") == [(1,)]


def test_restarted_gateway_is_found_again_at_once():
    """Not only at the next heartbeat, which is an hour away."""
    gateway = services.Gateway()
    with services.Worker({"x": ":memory:"}, "--heartbeat-interval", "1h", gateway=gateway.url) as worker:
        wait_for_workers(gateway, address(worker))
        gateway.kill()
        with services.Gateway(listen=address(gateway)) as again, again.client() as c:
            wait_for_workers(again, address(worker))
            assert c.rows("SELECT 1", database="x") == [(1,)]


def test_evicted_worker_registers_again():
    with services.Gateway((), "--evict-after", "1500ms") as gateway:
        with services.Worker({"x": ":memory:"}, "--heartbeat-interval", "200ms", gateway=gateway.url) as worker:
            wait_for_workers(gateway, address(worker))
            time.sleep(2 * services.SLOW)  # heartbeats keep it
            assert "worker evicted" not in gateway.stderr()
            worker.send_signal(signal.SIGSTOP)
            try:
                wait_for_workers(gateway)
            finally:
                worker.send_signal(signal.SIGCONT)
            wait_for_workers(gateway, address(worker))
            assert "worker evicted" in gateway.stderr()


def test_what_a_worker_declares():
    env = {
        "OPENDUCK_WORKER_ID": "the-one",
        "OPENDUCK_WORKER_DATABASES": "b",
        "OPENDUCK_WORKER_TABLES": "t,u",
        "OPENDUCK_COMPUTE_CONTEXT": "region=eu",
        "OPENDUCK_MAX_CONCURRENCY": "3",
    }
    with services.Gateway() as gateway, gateway.client() as c:
        with services.Worker({"a": ":memory:", "b": ":memory:"}, gateway=gateway.url, env=env):
            wait_for_workers(gateway, "the-one")
            [worker] = gateway.status().workers
            assert list(worker.databases) == ["b"]
            assert c.rows("SELECT 1", database="b") == [(1,)]
            with pytest.raises(grpc.RpcError) as e:
                c.run("SELECT 1", database="a")
            assert e.value.code() == grpc.StatusCode.NOT_FOUND
    done = services.cli("worker", "--db", "a=:memory:", "--databases", "nothere", "--gateway", "http://127.0.0.1:1")
    assert done.returncode == 2 and "nothere" in done.stderr and "served" in done.stderr


def test_static_and_registered_workers_serve_together():
    with services.Worker({"shared": ":memory:", "me_static": ":memory:"}) as static:
        with services.Gateway([static.url]) as gateway, gateway.client() as c, Named("joined", gateway.url):
            services.wait_until(lambda: healthy(gateway, "joined"), 10, "it has registered")
            got = [answered_by(c, "x", database="shared") for _ in range(6)]
            assert sorted(set(got)) == ["joined", "static"] and got.count("joined") == 3


# ---------------------------------------------------------------- routing


def test_tables_and_compute_context_choose_among_workers_of_a_database():
    with services.Gateway() as gateway, gateway.client() as c, contextlib.ExitStack() as stack:
        stack.enter_context(Named("plain", gateway.url))
        stack.enter_context(Named("tabled", gateway.url, "--tables", "orders,analytics.*"))
        stack.enter_context(Named("european", gateway.url, "--compute-context", "region=eu"))
        wait_for_workers(gateway, "plain", "tabled", "european")
        for _ in range(4):
            # No such table anywhere: what says so is the worker that was chosen.
            for name in ("orders", "shared.main.ORDERS", "analytics.events"):
                assert c.run("FROM %s" % name, database="shared").error.code == "CATALOG"
        assert [w.in_flight for w in gateway.status().workers] == [0, 0, 0]
        got = {answered_by(c, "FROM orders", database="shared") for _ in range(6)}
        assert got == {"plain", "tabled", "european"}, "a comment names no table"
        assert c.run("SELECT 1 WHERE 1 IN (FROM orders)", database="shared").error.code == "CATALOG"
        got = {answered_by(c, "x", database="shared", compute_context="region=eu") for _ in range(6)}
        assert got == {"european"}
        totals = {}
        for worker in gateway.status().workers:
            with services.Remote("http://" + worker.endpoint) as direct:
                totals[worker.worker_id] = direct.status().errors_total
        assert totals == {"plain": 0, "tabled": 13, "european": 0}


def test_routes_and_tiers_of_the_gateway():
    """Rules before what workers declare; a tier that is left out counts for nothing."""
    for tiers, expected in (
        (None, ["ruled", "ruled", "tabled"]),
        ("tables,routes", ["ruled", "tabled", "tabled"]),
        ("database,routes", ["ruled", "ruled", None]),
    ):
        options = ("--route", "analytics.*=ruled|nobody,orders=context:there") + (("--tiers", tiers) if tiers else ())
        with services.Gateway((), *options) as gateway, gateway.client() as c, contextlib.ExitStack() as stack:
            stack.enter_context(Named("tabled", gateway.url, "--tables", "orders,items"))
            ruled = stack.enter_context(Named("ruled", gateway.url, "--compute-context", "there"))
            wait_for_workers(gateway, "tabled", "ruled")
            for name, whose in zip(("analytics.events", "orders", "items"), expected):
                before = ruled.status().errors_total
                for _ in range(4):
                    assert c.run("FROM %s" % name, database="shared").error.code == "CATALOG"
                got = ruled.status().errors_total - before
                assert got == {"ruled": 4, "tabled": 0, None: 2}[whose], (tiers, name)
    for option, text in (
        (("--route", "a*b=w"), "'a*b=w' is no route"),
        (("--tiers", "tables,speed"), "no tier 'speed'"),
    ):
        done = services.cli("gateway", *option)
        assert done.returncode == 2 and text in done.stderr


def test_full_worker_is_given_no_more():
    """What waits is sent as soon as there is room, in order; a cancelled one, and one whose time is over, are not."""
    with services.Gateway((), "--queue-timeout", "30s") as gateway, gateway.client() as c:
        with services.Worker({"x": ":memory:"}, "--max-concurrency", "2", gateway=gateway.url) as worker:
            wait_for_workers(gateway, address(worker))
            running = [c.call(ENDLESS % i, execution_id="r%d" % i) for i in range(2)]
            services.wait_until(lambda: worker.status().in_flight == 2, 5, "both run")
            waiting = [c.call("SELECT %d" % i, execution_id="w%d" % i) for i in range(4)]
            services.wait_until(lambda: gateway.status().in_flight == 6, 5, "all are there")
            assert worker.status().in_flight == 2 and worker.status().executions_total == 2
            assert c.cancel("w1")
            assert services.Answer(list(waiting[1])).error.code == "CANCELLED"
            waiting[2].cancel()
            short = c.execution.ExecuteFragment(c.request("SELECT 1"), timeout=0.5)
            with pytest.raises(grpc.RpcError) as e:
                list(short)
            assert e.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            services.wait_until(lambda: gateway.status().in_flight == 4, 5, "they are gone")
            assert c.cancel("r0")
            assert services.Answer(list(waiting[0])).rows() == [(0,)]
            assert services.Answer(list(waiting[3])).rows() == [(3,)]
            assert worker.status().executions_total == 4
            assert c.cancel("r1")
            for call in running:
                list(call)
        gateway.wait_idle()


def test_full_worker_ends_the_wait_with_the_queue_timeout():
    with services.Gateway((), "--queue-timeout", "700ms") as gateway, gateway.client() as c:
        with services.Worker({"x": ":memory:"}, "--max-concurrency", "1", gateway=gateway.url) as worker:
            wait_for_workers(gateway, address(worker))
            running = c.call(ENDLESS % 1, execution_id="r")
            services.wait_until(lambda: worker.status().in_flight == 1, 5, "it runs")
            with pytest.raises(grpc.RpcError) as e:
                c.run("SELECT 1")
            assert e.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "full" in e.value.details()
            c.cancel("r")
            list(running)
        gateway.wait_idle()


def test_full_worker_is_passed_by():
    with services.Gateway() as gateway, gateway.client() as c, contextlib.ExitStack() as stack:
        stack.enter_context(Named("small", gateway.url, "--max-concurrency", "1", "--compute-context", "here"))
        stack.enter_context(Named("large", gateway.url))
        wait_for_workers(gateway, "small", "large")
        running = c.call(ENDLESS % 1, execution_id="r", database="shared", compute_context="here")
        services.wait_until(lambda: workers_of(gateway)["small"].in_flight == 1, 5, "it runs")
        got = [answered_by(c, "x", database="shared", compute_context="here") for _ in range(3)]
        assert got == ["large"] * 3
        c.cancel("r")
        list(running)
        services.wait_until(lambda: workers_of(gateway)["small"].in_flight == 0, 5, "it has ended")
        assert answered_by(c, "x", database="shared", compute_context="here") == "small"


# ---------------------------------------------------------------- workers that fail


def test_hanging_worker_is_left_out_until_it_answers():
    with services.Gateway((), "--probe-interval", "200ms") as gateway, gateway.client() as c:
        with Named("good", gateway.url), Named("sick", gateway.url) as sick:
            wait_for_workers(gateway, "good", "sick")
            sick.send_signal(signal.SIGSTOP)
            try:
                services.wait_until(lambda: not healthy(gateway, "sick"), 15, "it is left out")
                assert [answered_by(c, "x", database="shared") for _ in range(4)] == ["good"] * 4
            finally:
                sick.send_signal(signal.SIGCONT)
            services.wait_until(lambda: healthy(gateway, "sick"), 15, "it is back")
            assert "sick" in [answered_by(c, "x", database="shared") for _ in range(4)]


def test_query_whose_worker_dies_before_its_first_rows_is_run_elsewhere():
    with services.Gateway() as gateway, gateway.client() as c:
        with Named("one", gateway.url) as one, Named("two", gateway.url):
            wait_for_workers(gateway, "one", "two")
            call = c.call(SECONDS % 4, database="shared")
            services.wait_until(lambda: any(w.in_flight for w in gateway.status().workers), 5, "it runs")
            [name] = [w.worker_id for w in gateway.status().workers if w.in_flight]
            if name == "two":  # the one that is to be killed is the one that runs it
                list(call)
                call = c.call(SECONDS % 4, database="shared")
                services.wait_until(lambda: workers_of(gateway)["one"].in_flight, 5, "it runs")
            one.kill()
            answer = services.Answer(list(call))
            assert answer.error is None and answer.finished and answer.rows()[0][0] > 0
        gateway.wait_idle()


def test_write_whose_worker_dies_is_not_run_again():
    with services.Gateway() as gateway, gateway.client() as c:
        with Named("one", gateway.url, "--compute-context", "1") as one, Named("two", gateway.url) as two:
            wait_for_workers(gateway, "one", "two")
            for name in ("1", ""):
                c.do("CREATE TABLE IF NOT EXISTS t AS SELECT 0::BIGINT AS i", database="shared", compute_context=name)
            sql = "INSERT INTO t " + SECONDS % 4
            call = c.call(sql, database="shared", compute_context="1")
            services.wait_until(lambda: workers_of(gateway)["one"].in_flight, 5, "it runs")
            one.kill()
            answer = services.Answer(list(call))
            assert answer.error.code == "CONNECTION_LOST" and address(one) in answer.error.message
            with two.client() as direct:
                tables = direct.rows("SELECT count(*) FROM duckdb_tables() WHERE estimated_size > 1")
                assert tables == [(0,)]
        gateway.wait_idle()


def test_transaction_begins_at_a_worker_that_is_there():
    with services.Worker({"x": ":memory:"}) as one, services.Worker({"x": ":memory:"}) as two:
        with services.Gateway([one.url, two.url], "--probe-interval", "1h") as gateway, gateway.client() as c:
            assert {w.healthy for w in gateway.status().workers} == {True}
            one.kill()
            for _ in range(3):
                transaction = c.begin("x")
                assert c.do("SELECT 42", database="x", transaction_id=transaction) == [(42,)]
                c.rollback(transaction)
            two.kill()
            with pytest.raises(grpc.RpcError) as e:
                c.begin("x")
            assert e.value.code() == grpc.StatusCode.UNAVAILABLE
            assert gateway.status().transactions == 0


@pytest.mark.parametrize("rows", [0, 1000, 400000])
def test_rows_go_to_a_worker_that_is_there(rows):
    """What was on its way to a worker that cannot be reached is sent to the next one: all of it, once, in order."""
    with services.Worker({"mydb": ":memory:"}) as one, services.Worker({"mydb": ":memory:"}) as two:
        with services.Gateway([one.url, two.url], "--probe-interval", "1h") as gateway, gateway.client() as c:
            with two.client() as direct:
                direct.do("CREATE TABLE t(i BIGINT, v VARCHAR)")
                one.kill()
                for i in range(2):  # the second time it is known that one is not there
                    payloads = ipc(numbers(rows), 20000)
                    reply = c.ingest("", "stage", NUMBERS, payloads, statement="INSERT INTO t FROM stage")
                    assert reply.rows == rows
                    got = direct.rows("SELECT count(*), count(DISTINCT i), count(*) FILTER (v = 'value ' || i) FROM t")
                    assert got == [(rows * (i + 1), rows, rows * (i + 1))]
            assert [w.in_flight for w in gateway.status().workers] == [0, 0]
            two.kill()
            with pytest.raises(grpc.RpcError) as e:
                c.ingest("", "stage", NUMBERS, ipc(numbers(rows)), statement="INSERT INTO t FROM stage")
            assert e.value.code() == grpc.StatusCode.UNAVAILABLE
