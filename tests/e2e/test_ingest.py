"""IngestData, by a grpcio client and pyarrow: types, formats, errors, backpressure."""

import threading
import time

import grpc
import pyarrow as pa
import pytest
import services
from test_transactions import TABLES, none_open, served


@pytest.fixture
def db(tmp_path):
    return services.make_database(tmp_path / "mydb.duckdb", *TABLES)


@pytest.fixture(params=["serve", "stack"])
def kind(request):
    return request.param


@pytest.fixture
def server(kind, db):
    with served(kind, db) as s:
        yield s


def ipc(table, rows=50000):
    """Payloads, whole IPC streams, of so many rows each."""
    for at in range(0, max(table.num_rows, 1), rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(at, rows))
        yield sink.getvalue().to_pybytes()


NUMBERS = [("i", "BIGINT"), ("v", "VARCHAR")]


def numbers(n):
    return pa.table({"i": pa.array(range(n), pa.int64()), "v": ["value %d" % i for i in range(n)]})


def test_rows_arrive(server):
    with server.client() as c:
        t = c.begin()
        reply = c.ingest(t, "stage", NUMBERS, ipc(numbers(200000)))
        assert reply.rows == 200000
        c.do("INSERT INTO t SELECT * FROM stage", transaction_id=t)
        c.commit(t)
        assert c.rows("SELECT count(*), sum(i)::BIGINT, count(*) FILTER (v = 'value ' || i) FROM t") == [
            (200000, sum(range(200000)), 200000)
        ]
        with pytest.raises(services.Refused):
            c.do("FROM stage")
        none_open(server)


def test_no_rows(server):
    with server.client() as c:
        t = c.begin()
        assert c.ingest(t, "stage", NUMBERS, []).rows == 0
        assert c.ingest(t, "Other One", NUMBERS, ipc(numbers(0))).rows == 0
        assert c.do('SELECT (SELECT count(*) FROM stage) + (SELECT count(*) FROM "Other One")', transaction_id=t) == [
            (0,)
        ]
        c.commit(t)


TYPES = """SELECT i % 2 = 0 AS b, (i % 100)::TINYINT AS t, i::SMALLINT AS s, i::INTEGER AS i, i AS l,
 i::HUGEINT * 1000000007 AS h, (i % 200)::UTINYINT AS ut, i::USMALLINT AS us, i::UINTEGER AS ui,
 i::UBIGINT AS ul, i::FLOAT / 3 AS f, i::DOUBLE / 7 AS d, (i / 7)::DECIMAL(9,3) AS d9,
 (i / 7)::DECIMAL(38,10) AS d38, DATE '2000-01-01' + i::INTEGER AS dt, TIME '00:00:00' + to_seconds(i) AS tm,
 TIMESTAMP '2000-01-01' + to_seconds(i) AS ts, (TIMESTAMP '2000-01-01' + to_seconds(i))::TIMESTAMP_NS AS tns,
 (TIMESTAMP '2000-01-01' + to_seconds(i))::TIMESTAMPTZ AS tz, to_days(i::INTEGER) AS iv,
 md5(i::VARCHAR)::UUID AS u, CASE WHEN i % 3 = 0 THEN NULL ELSE 'größe ' || repeat('z',
 (i % 30)::INTEGER) END AS v, encode('x' || i) AS bl,
 CASE WHEN i % 3 = 0 THEN NULL WHEN i % 3 = 1 THEN 'one' ELSE 'two' END::ENUM('one', 'two') AS en,
 CASE WHEN i % 5 = 0 THEN NULL ELSE [i, NULL, i + 1] END AS li, CASE WHEN i % 6 = 0 THEN NULL ELSE {'a': i,
 'b': ['x' || i]} END AS st, MAP {i: 'm' || i} AS mp, [i, i + 1, i + 2]::BIGINT[3] AS ar FROM range(5000) t(i)"""


@pytest.mark.parametrize("format", ["PLAIN", "LOSSLESS", "NATIVE"])
def test_types(server, pb, format):
    """What the server gives in a format it takes in that format."""
    number = getattr(pb, "RESULT_FORMAT_" + format)
    with server.client() as c:
        t = c.begin()
        types = [(n, ty) for n, ty, *_ in c.do("DESCRIBE " + TYPES, transaction_id=t)]
        payloads = c.run(TYPES, transaction_id=t, result_format=number).payloads
        assert c.ingest(t, "stage", types, payloads, format=number).rows == 5000
        assert [(n, ty) for n, ty, *_ in c.do("DESCRIBE stage", transaction_id=t)] == types
        assert c.do("SELECT count(*) FROM (FROM stage EXCEPT ALL %s)" % TYPES, transaction_id=t) == [(0,)]
        c.commit(t)


def test_types_by_pyarrow(server):
    """Types that DuckDB itself would not send: they are cast to the column's."""
    table = pa.table(
        {
            "a": pa.array(["1", None, "3"]).dictionary_encode(),
            "b": pa.array([1, 2, None], pa.uint16()),
            "c": pa.array(["2020-01-01", None, "2021-01-01"], pa.large_string()),
            "d": pa.array([b"x", b"", None], pa.large_binary()),
            "e": pa.array([[1], None, []], pa.large_list(pa.int8())),
        }
    )
    columns = [("a", "INTEGER"), ("b", "BIGINT"), ("c", "DATE"), ("d", "BLOB"), ("e", "DOUBLE[]")]
    with server.client() as c:
        t = c.begin()
        assert c.ingest(t, "stage", columns, ipc(table, 2)).rows == 3
        assert c.do("SELECT a, b, c::VARCHAR, d, e FROM stage", transaction_id=t) == [
            (1, 1, "2020-01-01", b"x", [1.0]),
            (None, 2, None, b"", None),
            (3, None, "2021-01-01", None, []),
        ]
        c.commit(t)


# ---------------------------------------------------------------- errors


def test_a_transaction_is_needed(server):
    with server.client() as c:
        for t in ("", "nonsense"):
            with pytest.raises(services.Refused) as e:
                c.ingest(t, "stage", NUMBERS, ipc(numbers(10)))
            assert e.value.code == ("NO_TRANSACTION" if t else "INVALID")


def bad_streams():
    good = list(ipc(numbers(1000)))
    yield "garbage", [b"garbage"]
    yield "cut", [good[0][: len(good[0]) // 2]]
    yield "later", [good[0], good[0], good[0][:100]]
    yield "fewer columns", list(ipc(numbers(10).select(["i"])))
    yield "no cast", list(ipc(pa.table({"i": ["no number"], "v": ["x"]})))


@pytest.mark.parametrize("name, payloads", list(bad_streams()), ids=lambda x: x if isinstance(x, str) else "")
def test_an_error_leaves_nothing(server, name, payloads):
    with server.client() as c:
        t = c.begin()
        c.do("INSERT INTO t VALUES (1, 'kept')", transaction_id=t)
        with pytest.raises(services.Refused):
            c.ingest(t, "stage", NUMBERS, payloads)
        with pytest.raises(services.Refused):
            c.do("FROM stage", transaction_id=t)
        c.rollback(t)
        assert c.rows("SELECT count(*) FROM t") == [(0,)]
        none_open(server)


DAY = 86400 * 10**6


def raw(type_, *values):
    """An array of TYPE_ with these bytes as its values, whether it has such values or not."""
    data = b"".join(v if isinstance(v, bytes) else v.to_bytes(8, "little", signed=True) for v in values)
    if type_ in (pa.string(), pa.binary()):
        offsets = [sum(len(v) for v in values[:n]) for n in range(len(values) + 1)]
        return pa.Array.from_buffers(
            type_, len(values), [None, pa.array(offsets, pa.int32()).buffers()[1], pa.py_buffer(data)]
        )
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(data)])


def opaque(name, array):
    return pa.ExtensionArray.from_storage(pa.opaque(array.type, name, "DuckDB"), array)


WRONG_VALUES = {
    "TIME": (raw(pa.time64("us"), 0, DAY), raw(pa.time64("us"), 0, -1)),
    "TIME_NS": (raw(pa.time64("ns"), DAY * 1000), raw(pa.time64("ns"), DAY * 1000 + 1)),
    "TIMETZ": (opaque("time_tz", raw(pa.binary(8), 115198)), opaque("time_tz", raw(pa.binary(8), 115199))),
    "VARCHAR": (raw(pa.string(), b"\xc3\xa4"), raw(pa.string(), b"ok", b"\xff\xfe, longer than inlined")),
    "BIT": (opaque("bit", raw(pa.binary(), b"\x00\x01")), opaque("bit", raw(pa.binary(), b"\x09\x01"))),
    "BIGNUM": (opaque("bignum", raw(pa.binary(), b"\x80\x00\x01\x05")), opaque("bignum", raw(pa.binary(), b"\x80"))),
}


def wrapped(array):
    """In each of the ways in which a value can lie inside of another."""
    yield "", array
    yield "[]", pa.ListArray.from_arrays([0, len(array)], array)
    yield "[%d]" % len(array), pa.FixedSizeListArray.from_arrays(array, len(array))
    yield "STRUCT(a %s)", pa.StructArray.from_arrays([array], ["a"])
    if not isinstance(array, pa.ExtensionArray):
        keys = pa.array(range(len(array)), pa.int8())
        yield "dictionary", pa.DictionaryArray.from_arrays(keys, array)
        yield "MAP(TINYINT, %s)", pa.MapArray.from_arrays([0, len(array)], keys, array)


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_values_that_their_type_does_not_have(server, name):
    """DuckDB's functions would trust them: text of a time before midnight is read out of bounds."""
    good, bad = WRONG_VALUES[name]
    with server.client() as c:
        for array, right in ((good, True), (bad, False)):
            for form, whole in wrapped(array):
                kind = form % name if "%s" in form else name + (form if form != "dictionary" else "")
                for statement in (True, False):
                    t = c.begin()
                    send = dict(statement="CREATE TABLE made AS FROM stage") if statement else {}
                    payloads = ipc(pa.table({"v": whole}))
                    if right:
                        assert c.ingest(t, "stage", [("v", kind)], payloads, **send).rows == len(whole)
                        c.do("SELECT md5(v::VARCHAR) FROM %s" % ("made" if statement else "stage"), transaction_id=t)
                    else:
                        with pytest.raises(services.Refused) as e:
                            c.ingest(t, "stage", [("v", kind)], payloads, **send)
                        assert e.value.code == "CORRUPT", (form, e.value)
                    c.rollback(t)
        none_open(server)


def test_the_transaction_goes_on_after_a_damaged_ingest(server):
    with server.client() as c:
        t = c.begin()
        c.do("INSERT INTO t VALUES (1, 'kept')", transaction_id=t)
        with pytest.raises(services.Refused):
            c.ingest(t, "stage", NUMBERS, [*ipc(numbers(1000)), b"garbage"])
        assert c.ingest(t, "stage", NUMBERS, ipc(numbers(10))).rows == 10
        c.commit(t)
        assert c.rows("SELECT count(*) FROM t") == [(1,)]


def test_bad_metadata(server, pb):
    with server.client() as c:
        t = c.begin()
        for columns in (
            [],
            [("i", "NOPE")],
            [("i", "INT); DROP TABLE t; --")],
            [("i", "INT, j INT")],
            [("", "INT")],
            [("i", "")],
        ):
            with pytest.raises(services.Refused):
                c.ingest(t, "stage", columns, [])
            c.rollback(t)
            t = c.begin()
        with pytest.raises(services.Refused):
            c.ingest(t, "", NUMBERS, [])
        with pytest.raises(grpc.RpcError) as e:
            c.execution.IngestData(
                iter([pb.IngestChunk(arrow_batch=pb.ArrowIpcBatch(ipc_stream_payload=b"x"))]), timeout=10
            )
        assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.RpcError) as e:
            c.execution.IngestData(iter([]), timeout=10)
        assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        c.rollback(t)
        assert c.rows("SELECT count(*) FROM t") == [(0,)]


def test_a_client_that_stops_in_the_middle(server):
    with server.client() as c:
        t = c.begin()
        going = threading.Event()

        def payloads():
            yield from ipc(numbers(100000))
            going.set()
            time.sleep(0.5)
            raise RuntimeError("no more")

        with pytest.raises((grpc.RpcError, RuntimeError)):
            c.ingest(t, "stage", NUMBERS, payloads())
        assert going.is_set()

        def free():
            try:
                c.do("FROM stage", transaction_id=t)
            except services.Refused as e:
                return e.code == "CATALOG"
            return False

        services.wait_until(free, 5, "the table is gone")
        c.rollback(t)
        none_open(server)


# ---------------------------------------------------------------- a statement that reads them

INSERT = 'INSERT INTO t SELECT i, v FROM "the rows"'


def through(c, payloads, statement=INSERT, transaction="", **fields):
    return c.ingest(transaction, "the rows", NUMBERS, payloads, statement=statement, **fields)


def test_a_statement_of_its_own(server):
    with server.client() as c:
        reply = through(c, ipc(numbers(300000), 7000))
        assert reply.rows == 300000 and reply.catalog_version != 0
        assert c.rows("SELECT count(*) FILTER (i = rowid AND v = 'value ' || i) FROM t") == [(300000,)]
        assert through(c, [], "DELETE FROM t WHERE i >= 10").rows == 299990
        assert through(c, ipc(numbers(5)), 'DELETE FROM t USING "the rows" r WHERE r.i = t.i').rows == 5
        assert c.rows("SELECT min(i), max(i) FROM t") == [(5, 9)]
        none_open(server)


def test_a_statement_in_a_transaction(server):
    with server.client() as c, server.client() as other:
        t = c.begin()
        assert through(c, ipc(numbers(100000), 9999), transaction=t).rows == 100000
        assert c.do("SELECT count(*) FROM t", transaction_id=t) == [(100000,)]
        assert other.rows("SELECT count(*) FROM t") == [(0,)]
        c.commit(t)
        assert other.rows("SELECT count(*) FROM t") == [(100000,)]
        t = c.begin()
        through(c, [], "DELETE FROM t", transaction=t)
        c.rollback(t)
        assert other.rows("SELECT count(*) FROM t") == [(100000,)]
        none_open(server)


def test_a_statement_that_fails_leaves_nothing(server):
    with server.client() as c:
        c.do("INSERT INTO t VALUES (99999, 'there')")
        good = list(ipc(numbers(100000), 10000))
        for payloads, statement, code in (
            (good, INSERT, "CONSTRAINT"),
            ([*good[:3], good[3][:1000]], INSERT, "CORRUPT"),
            (ipc(pa.table({"x": [1]})), INSERT, "INVALID"),
            (ipc(pa.table({"i": ["no number"], "v": ["x"]})), INSERT, "CONVERSION"),
            (good, 'INSERT INTO nowhere FROM "the rows"', "CATALOG"),
            (good, 'FROM "the rows"', "NOT_IMPLEMENTED"),
            (good, INSERT + " RETURNING i", "NOT_IMPLEMENTED"),
            (good, INSERT + "; SELECT 1", "INVALID"),
            (good, "nonsense", "PARSER"),
        ):
            with pytest.raises(services.Refused) as e:
                through(c, payloads, statement)
            assert e.value.code == code, e.value
            assert c.rows("SELECT count(*) FROM t") == [(1,)]
        with pytest.raises(services.Refused) as e:
            through(c, good[:1], expected_catalog_version=1)
        assert e.value.code == "STALE_CATALOG"
        none_open(server)
        server.assert_usable()


def test_a_statement_whose_client_goes_away(server):
    with server.client() as c:

        def payloads():
            # More than waits on the way: the statement has begun before the client goes.
            yield from ipc(numbers(1000000), 10000)
            raise RuntimeError("no more")

        for transaction in ("", c.begin()):
            with pytest.raises((grpc.RpcError, RuntimeError)):
                through(c, payloads(), transaction=transaction)
            if transaction:
                with pytest.raises(services.Refused):
                    c.commit(transaction)
        server.wait_idle()
        assert c.rows("SELECT count(*) FROM t") == [(0,)]
        none_open(server)


def test_statements_side_by_side(server):
    """Conflicts are told; each statement is wholly there or not at all."""
    with server.client() as c:
        c.do("CREATE TABLE many (i BIGINT, v VARCHAR)")
        replies = []

        def send():
            with server.client() as mine:
                replies.append(through(mine, ipc(numbers(50000), 3000), 'INSERT INTO many FROM "the rows"').rows)

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        assert c.rows("SELECT 42") == [(42,)]
        for thread in threads:
            thread.join()
        assert replies == [50000] * 8
        assert c.rows("SELECT count(*), sum(i)::BIGINT FROM many") == [(400000, 8 * sum(range(50000)))]
        server.assert_usable()


# ---------------------------------------------------------------- a lot


@pytest.mark.parametrize("megabytes", [400, pytest.param(10000, marks=pytest.mark.long)])
def test_backpressure_of_a_statement(kind, db, megabytes):
    one = next(ipc(pa.table({"s": ["%01000d" % i for i in range(1000)]})))
    n = megabytes * (1 << 20) // len(one)
    with (
        served(kind, db, "--memory-limit", "600MB")
        if kind == "serve"
        else services.Stack({"mydb": db}, worker_options=("--memory-limit", "600MB")) as server,
        server.client() as c,
    ):
        c.do("CREATE TABLE wide (s VARCHAR)")
        replies = []

        def send():
            replies.append(
                c.ingest("", "r", [("s", "VARCHAR")], (one for _ in range(n)), statement="INSERT INTO wide FROM r")
            )

        call = threading.Thread(target=send)
        call.start()
        peak = 0
        while call.is_alive():
            peak = max(peak, server.rss())
            call.join(0.1)
        assert replies[0].rows == n * 1000
        assert c.rows("SELECT count(*) FROM wide") == [(n * 1000,)]
    limit = (1500 if kind == "serve" else 150) << 20
    if services.PRESET in ("release", "debug"):
        assert peak < limit, "%d MiB" % (peak >> 20)


@pytest.mark.parametrize("megabytes", [400, pytest.param(10000, marks=pytest.mark.long)])
def test_backpressure(kind, db, megabytes):
    """A client that sends as fast as it can fills neither gateway nor worker beyond what the table needs."""
    one = next(ipc(pa.table({"s": ["%01000d" % i for i in range(1000)]})))
    n = megabytes * (1 << 20) // len(one)
    sent = [0]

    def payloads():
        for _ in range(n):
            sent[0] += 1
            yield one

    with (
        served(kind, db, "--memory-limit", "600MB")
        if kind == "serve"
        else services.Stack({"mydb": db}, worker_options=("--memory-limit", "600MB")) as server,
        server.client() as c,
    ):
        t = c.begin()
        call = threading.Thread(target=lambda: c.ingest(t, "stage", [("s", "VARCHAR")], payloads()))
        call.start()
        peak = 0
        while call.is_alive():
            peak = max(peak, server.rss())
            call.join(0.1)
        assert c.do("SELECT count(*) FROM stage", transaction_id=t) == [(n * 1000,)]
        c.rollback(t)
    limit = (1500 if kind == "serve" else 150) << 20
    if services.PRESET in ("release", "debug"):
        assert peak < limit, "%d MiB" % (peak >> 20)


def test_two_ingests_and_a_query_at_once(server):
    with server.client() as c:
        t = c.begin()
        replies = {}

        def send(name):
            replies[name] = c.ingest(t, name, NUMBERS, ipc(numbers(100000), 5000))

        threads = [threading.Thread(target=send, args=("s%d" % k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        rows = c.run("SELECT i FROM range(1000000) t(i)", transaction_id=t)
        for thread in threads:
            thread.join()
        assert sum(x.num_rows for x in rows.tables()) == 1000000
        assert [r.rows for r in replies.values()] == [100000] * 3
        c.commit(t)


def test_a_large_message(server):
    with server.client() as c:
        t = c.begin()
        big = pa.table({"s": ["x" * (30 << 20)]})
        assert c.ingest(t, "stage", [("s", "VARCHAR")], ipc(big)).rows == 1
        too_big = next(ipc(pa.table({"s": ["x" * (65 << 20)]})))
        with pytest.raises(grpc.RpcError) as e:
            c.ingest(t, "stage2", [("s", "VARCHAR")], [too_big])
        assert e.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        c.commit(t)
