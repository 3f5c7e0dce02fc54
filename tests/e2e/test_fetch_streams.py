"""One result over several streams: each row once and in order, whatever ends it."""

import concurrent.futures
import contextlib
import hashlib
import itertools
import threading

import duckdb
import fake
import grpc
import pyarrow as pa
import pytest
import services

ROWS = 1_500_000
WIDE = "SELECT i, s FROM t"


@pytest.fixture(scope="module", params=["serve", "stack"])
def server(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("streams") / "mydb.duckdb"
    services.make_database(
        path, "CREATE TABLE t AS SELECT range AS i, 'row ' || range || repeat('.', 40) AS s FROM range(%d)" % ROWS
    )
    with (services.Serve if request.param == "serve" else services.Stack)({"mydb": path}) as s:
        yield s


# ---- by the protocol ----


def native(**fields):
    return dict(database="mydb", result_format=services.stubs().RESULT_FORMAT_NATIVE, **fields)


def follow(client, execution, **fields):
    """The chunks of a further stream."""
    pb = services.stubs()
    request = pb.ExecuteFragmentRequest(database="mydb", follows=execution, access_token=client.token, **fields)
    return client.execution.ExecuteFragment(request, timeout=60 * services.SLOW)


def values(payload):
    return pa.ipc.open_stream(payload).read_all().column(0).to_pylist()


class Reader:
    """Reads a stream to its end on a thread."""

    def __init__(self, chunks):
        self.parts, self.end, self.error = {}, None, None
        self.thread = threading.Thread(target=self._read, args=(chunks,))
        self.thread.start()

    def _read(self, chunks):
        try:
            for chunk in chunks:
                if chunk.WhichOneof("payload") == "arrow_batch":
                    assert chunk.place > max(self.parts, default=0)
                    self.parts[chunk.place] = chunk.arrow_batch.ipc_stream_payload
                elif chunk.WhichOneof("payload") == "error":
                    self.error = chunk.error
                else:
                    self.end = chunk
        except grpc.RpcError as e:
            self.error = e

    def join(self):
        self.thread.join()
        return self


def test_streams_share_a_result_and_places_tell_its_order(server):
    with server.client() as c:
        leader = c.call("SELECT i FROM t", **native(execution_id="led", divides=True))
        first = next(leader)
        assert first.place == 1
        readers = [Reader(follow(c, "led")) for _ in range(3)]
        readers.append(Reader(itertools.chain([first], leader)))
        parts = {}
        for reader in readers:
            reader.join()
            assert reader.error is None and reader.end.finished
            assert not set(parts) & set(reader.parts)
            parts.update(reader.parts)
        assert readers[-1].end.payloads == len(parts)
        assert [r.end.payloads for r in readers[:-1]] == [0, 0, 0]
        assert sorted(parts) == list(range(1, len(parts) + 1))
        assert list(itertools.chain(*(values(parts[p]) for p in sorted(parts)))) == list(range(ROWS))


@pytest.mark.parametrize("execution", ["nobody", "over", "x" * 200])
def test_who_follows_nothing_gets_an_empty_stream(server, execution):
    with server.client() as c:
        c.run("SELECT 1", **native(execution_id="over", divides=True))
        chunks = list(follow(c, execution))
        assert [(chunk.finished, chunk.payloads) for chunk in chunks] == [(True, 0)]


@pytest.mark.parametrize(
    "fields",
    [{"result_format": 0}, {"divides": False}, {"transaction_id": "begin"}],
    ids=["plain", "not asked for", "transaction"],
)
def test_what_cannot_be_followed_tells_no_places(server, fields):
    with server.client() as c:
        if "transaction_id" in fields:
            fields = {"transaction_id": c.begin()}
        chunks = c.call(WIDE, **{**native(execution_id="alone", divides=True), **fields})
        assert next(chunks).place == 0
        assert [chunk.WhichOneof("payload") for chunk in follow(c, "alone")] == ["finished"]
        rest = list(chunks)
        assert rest[-1].finished and rest[-1].payloads == 0
        assert not any(chunk.place for chunk in rest)
        if "transaction_id" in fields:
            c.rollback(fields["transaction_id"])


def test_a_follower_that_nobody_reads_does_not_hold_the_result(server):
    """What it has taken is missed by who counts; the rest comes."""
    with server.client() as c, server.client() as idle:
        leader = c.call(WIDE, **native(execution_id="led", divides=True))
        first = next(leader)
        stuck = follow(idle, "led")
        next(stuck)
        reader = Reader(itertools.chain([first], leader)).join()
        assert reader.error is None
        assert reader.end.payloads > len(reader.parts) > 1
        stuck.cancel()
    server.wait_idle()


def test_cancelling_the_execution_ends_all_its_streams(server):
    sql = "SELECT range AS i FROM range(1000000000000) WHERE range < 1000000 OR hash(range) = 0"
    with server.client() as c:
        leader = c.call(sql, **native(execution_id="led", divides=True))
        readers = [Reader(itertools.chain([next(leader)], leader))]
        readers += [Reader(follow(c, "led")) for _ in range(2)]
        services.wait_until(lambda: len(c.status().running) == 1, 20, "it is listed once")
        assert c.cancel("led")
        for reader in readers:
            reader.join()
        assert "cancelled" in readers[0].error
    server.wait_idle()
    server.assert_usable()


def test_streams_are_counted_and_listed_as_one_execution(server):
    with server.client() as c:
        before = c.status()
        leader = c.call(WIDE, **native(execution_id="led", divides=True))
        next(leader)
        followers = [follow(c, "led") for _ in range(3)]
        for follower in followers:
            next(follower)
        status = c.status()
        assert (status.in_flight, [r.execution_id for r in status.running]) == (1, ["led"])
        for stream in [*followers, leader]:
            stream.cancel()
        server.wait_idle()
        status = c.status()
        assert status.executions_total == before.executions_total + 1
        assert status.errors_total == before.errors_total


def test_followers_wait_for_no_slot(tmp_path):
    path = tmp_path / "mydb.duckdb"
    services.make_database(path, "CREATE TABLE t AS SELECT range AS i FROM range(3000000)")
    options = ("--max-in-flight", "1", "--max-queued", "0")
    with services.Serve({"mydb": path}, *options) as server, server.client() as c:
        leader = c.call("SELECT i FROM t", **native(execution_id="led", divides=True))
        first = next(leader)
        readers = [Reader(follow(c, "led")) for _ in range(2)]
        readers.append(Reader(itertools.chain([first], leader)))
        parts = set().union(*(set(reader.join().parts) for reader in readers))
        assert [reader.error for reader in readers] == [None] * 3
        assert readers[-1].end.payloads == len(parts)


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    lines = [
        "[%s]\nsha256 = %s\ndatabases = *\n%s\n" % (n, hashlib.sha256(n.encode()).hexdigest(), r)
        for n, r in [("ana", ""), ("bob", ""), ("ops", "admin = true")]
    ]
    path.write_text("\n".join(lines))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("kind", ["serve", "stack", "worker"])
def test_only_its_own_token_follows_an_execution(tmp_path, tokens, kind):
    path = tmp_path / "mydb.duckdb"
    services.make_database(path, "CREATE TABLE t AS SELECT range AS i, repeat('x', 50) AS s FROM range(1000000)")
    with contextlib.ExitStack() as stack:
        if kind == "stack":
            worker = stack.enter_context(services.Worker({"mydb": path}, token="root"))
            server = stack.enter_context(services.Gateway([worker.url], "--tokens", tokens, token="root"))
        else:
            make = services.Serve if kind == "serve" else services.Worker
            server = stack.enter_context(make({"mydb": path}, "--tokens", tokens, token="root"))
        ana, bob, ops = (stack.enter_context(server.client(name)) for name in ["ana", "bob", "ops"])
        leader = ana.call(WIDE, **native(execution_id="anas", access_token="ana", divides=True))
        first = next(leader)
        for other in (bob, ops):
            with pytest.raises(grpc.RpcError) as e:
                list(follow(other, "anas"))
            assert e.value.code() == grpc.StatusCode.PERMISSION_DENIED
            assert "another token" in e.value.details()
        own = Reader(follow(ana, "anas"))
        rest = Reader(itertools.chain([first], leader)).join()
        assert rest.error is None and own.join().error is None
        assert rest.end.payloads == len(rest.parts) + len(own.parts)


# ---- through ATTACH ----


@contextlib.contextmanager
def attached(server, streams=4, threads=4):
    with services.attached(server.url) as con:
        con.execute("SET threads = %d; SET openduck_pushdown = 'scan'" % threads)
        con.execute("SET openduck_fetch_streams = %d" % streams)
        yield con


def streams_of(con, sql):
    """Over how many streams the one scan of SQL came."""
    plan = con.execute("EXPLAIN (ANALYZE, FORMAT json) " + sql).fetchall()[0][1]
    found = [line.split('"')[3] for line in plan.splitlines() if '"Streams"' in line]
    return int(found[0]) if found else 1


def test_a_large_result_comes_over_several_streams(server):
    with attached(server, streams=0) as con:
        assert streams_of(con, "SELECT count(*), min(s), max(s) FROM cloud.t") == 2
    with attached(server) as con:
        assert streams_of(con, "SELECT count(*), min(s), max(s) FROM cloud.t") > 1
        # All is there, whatever is done with it.
        assert con.execute("SELECT count(DISTINCT i), sum(i), max(s) = 'row 999999' || repeat('.', 40) "
                           "FROM cloud.t").fetchall() == [(ROWS, ROWS * (ROWS - 1) // 2, True)]  # fmt: skip


def test_a_small_result_comes_over_one(server):
    with attached(server) as con:
        assert streams_of(con, "SELECT min(s) FROM (FROM cloud.t LIMIT 20000)") == 1


@pytest.mark.parametrize("streams, threads", [(1, 4), (0, 2), (0, 3), (4, 1)])
def test_one_stream_if_that_is_wanted_or_threads_are_few(server, streams, threads):
    with attached(server, streams, threads) as con:
        assert streams_of(con, "SELECT min(s) FROM cloud.t") == 1


@pytest.mark.parametrize("value", ["65", "NULL"])
def test_how_many_streams_there_may_be_is_checked(value):
    with contextlib.closing(services.duck()) as con, pytest.raises(duckdb.Error, match="openduck_fetch_streams"):
        con.execute("SET openduck_fetch_streams = %s" % value)


def test_order_is_kept(server):
    with attached(server) as con:
        for _ in range(3):
            con.execute("CREATE OR REPLACE TEMP TABLE copy AS FROM cloud.t")
            assert con.execute("SELECT count(*) FROM copy WHERE i = rowid").fetchall() == [(ROWS,)]
        got = con.execute("SELECT i FROM (FROM cloud.t LIMIT 1000000 OFFSET 7)").fetchnumpy()["i"]
        assert (got[0], got[-1], bool((got[1:] == got[:-1] + 1).all())) == (7, 1_000_006, True)
        got = con.execute("SELECT i, s FROM cloud.t ORDER BY i DESC").fetchnumpy()["i"]
        assert len(got) == ROWS and bool((got[:-1] == got[1:] + 1).all())


def test_a_limit_ends_all_streams(server):
    with attached(server) as con:
        for _ in range(5):
            sql = "SELECT i, s FROM cloud.t WHERE hash(i) % 3 = 0 LIMIT 200000"
            assert len(con.execute(sql).fetchall()) == 200000
            server.wait_idle()


def test_an_interrupt_ends_all_streams(server):
    with attached(server) as con, concurrent.futures.ThreadPoolExecutor(1) as pool:
        for _ in range(3):
            sql = "CREATE OR REPLACE TEMP TABLE z AS SELECT a.* FROM cloud.t a, range(1000)"
            running = pool.submit(con.execute, sql)
            with server.client() as c:
                services.wait_until(lambda: c.status().in_flight == 1, 20, "it runs")
            con.interrupt()
            with pytest.raises(duckdb.InterruptException):
                running.result()
            server.wait_idle()
        assert con.execute("SELECT count(*) FROM cloud.t").fetchall() == [(ROWS,)]


def test_an_error_in_the_middle_is_the_statements(server):
    sql = "SELECT CASE WHEN i < %d THEN s ELSE error('no further') END AS s FROM t" % (ROWS - 1000)
    with attached(server) as con:
        for _ in range(5):
            with pytest.raises(duckdb.Error, match="no further"):
                con.execute("CREATE OR REPLACE TEMP TABLE z AS FROM openduck_query('cloud', $$%s$$)" % sql)


def test_in_a_transaction_a_result_comes_over_one_stream(server):
    with attached(server) as con:
        con.execute("BEGIN")
        assert streams_of(con, "SELECT count(*), min(s) FROM cloud.t") == 1
        con.execute("ROLLBACK")


@pytest.mark.parametrize("killed", ["worker", "gateway"])
def test_a_server_that_is_killed_leaves_no_short_result(tmp_path, killed):
    path = tmp_path / "mydb.duckdb"
    services.make_database(
        path, "CREATE TABLE t AS SELECT range AS i, 'row ' || range || repeat('.', 40) AS s FROM range(%d)" % ROWS
    )
    for after in (0.15, 0.3, 0.45):
        with services.Worker({"mydb": path}) as worker, services.Gateway([worker.url]) as gateway:
            with attached(gateway) as con, concurrent.futures.ThreadPoolExecutor(1) as pool:
                running = pool.submit(con.execute, "CREATE TEMP TABLE z AS SELECT a.* FROM cloud.t a, range(3)")
                timer = threading.Timer(after * services.SLOW, (worker if killed == "worker" else gateway).kill)
                timer.start()
                try:
                    running.result()
                except duckdb.Error as e:
                    assert "openduck" in str(e) and ("lost" in str(e) or "connect" in str(e) or "cut" in str(e)), e
                else:
                    assert con.execute("SELECT count(*) FROM z").fetchall() == [(3 * ROWS,)]
                timer.join()


# ---- servers that lie ----


def lying(places, payloads, follower=None):
    """Answers rows in payloads of 2 MiB that say to stand at PLACES; a follower gets what FOLLOWER yields."""
    block = fake.native_table(["s"], [duckdb.sqltype("VARCHAR")], [("x" * 1000,)] * 2000)
    payload = fake.ipc(block.schema, [block])

    def behave(request, answer):
        pb = services.stubs()
        if request.describe_only or (b"FROM big" not in request.plan and not request.follows):
            yield from answer(request)
            return
        chosen = places if not request.follows else follower
        for place in chosen:
            chunk = pb.ExecuteFragmentChunk(arrow_batch=pb.ArrowIpcBatch(ipc_stream_payload=payload), place=place)
            chunk.catalog_version = 7
            yield chunk
        yield pb.ExecuteFragmentChunk(finished=True, payloads=0 if request.follows else payloads)

    return behave


@pytest.mark.parametrize(
    "places, payloads, follower, message",
    [
        ([1, 2, 2], 3, (), "cannot be"),
        ([1, 3, 4, 5, 6, 7, 8], 8, (), "cut"),
        ([1, 0, 2], 3, (), "cannot be"),
        ([1, 2, 3], 4, (), "cut"),
        ([1, 2, 3], 2, (), "more payloads"),
        ([0] * 20, 0, (), None),
        (range(1, 21), 20, (), None),
        (range(1, 41), 40, (5,), "cannot be"),
        (range(1, 41), 42, (41, 42), None),
        (range(1, 41), 41, (41, 42), "more payloads"),
        (range(1, 41), 0, (41,), "does not tell"),
    ],
    ids=[
        "twice",
        "missing",
        "no place",
        "fewer than told",
        "more than told",
        "no places at all",
        "right",
        "twice on two streams",
        "right on two streams",
        "more than told on two streams",
        "not told",
    ],
)
def test_what_a_lying_server_tells_of_places(places, payloads, follower, message):
    with fake.FakeServer("CREATE TABLE big(s VARCHAR)", behave=lying(places, payloads, follower)) as server:
        with attached(server, streams=2) as con:
            sql = "SELECT count(*) FROM openduck_query('cloud', 'SELECT s FROM big') WHERE length(s) > 0"
            if message:
                with pytest.raises(duckdb.IOException, match=message):
                    con.execute(sql).fetchall()
            else:
                assert con.execute(sql).fetchall() == [(2000 * (len(places) + len(follower)),)]
