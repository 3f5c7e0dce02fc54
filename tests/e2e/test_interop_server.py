"""Our CLI and our extension against a server that is not ours, right and wrong in many ways (fake.py)."""

import itertools
import random
import struct
import subprocess
import threading
import time

import duckdb
import fake
import grpc
import pyarrow as pa
import pytest
import services

TABLES = (
    "CREATE TABLE t AS SELECT i::INTEGER AS i, 's' || i AS s FROM range(5000) t(i)",
    "CREATE TABLE e(i INTEGER, s VARCHAR)",
    "CREATE TABLE types AS SELECT true AS b, 1::TINYINT AS t8, 2::HUGEINT AS h, 1.5::DECIMAL(4,1) AS d4, "
    "2.5::DECIMAL(18,3) AS d18, -3.5::DECIMAL(38,10) AS d38, DATE '2020-02-29' AS dt, "
    "TIMESTAMP '2020-02-29 01:02:03.000004' AS ts, 'x'::BLOB AS bl, [1, NULL, 3] AS l, [['a'], NULL, []] AS ll, "
    "{'a': 1, 'b': [true, NULL]} AS st, '00000000-0000-0000-0000-000000000001'::UUID AS u",
)


def is_data(request):
    """Whether REQUEST asks for the rows of t (and not the catalog's questions)."""
    text = request.plan.decode()
    return not request.describe_only and ('"t"' in text or " t" in text) and "duckdb_" not in text


def data(behave):
    """A behaviour that only the questions for t's rows meet."""
    return lambda request, answer: behave(request, answer) if is_data(request) else answer(request)


@pytest.fixture
def right():
    with fake.FakeServer(*TABLES) as f:
        yield f


def query(f, sql="SELECT i, s FROM t", *options):
    return services.cli("query", sql, "--endpoint", f.url, *options)


# ---------------------------------------------------------------- a right server


def test_cli_reads_an_independent_server(right):
    done = query(right, "SELECT i, s FROM t ORDER BY i LIMIT 2", "--format", "csv")
    assert (done.returncode, done.stdout) == (0, "i,s\n0,s0\n1,s1\n"), done.stderr


@pytest.mark.extension
def test_extension_reads_an_independent_server(right):
    with services.attached(right.url) as con:
        assert con.execute("SELECT count(*), sum(i), min(s), max(s) FROM cloud.t").fetchone() == (
            5000,
            sum(range(5000)),
            "s0",
            "s999",
        )
        assert con.execute("FROM cloud.e").fetchall() == []
        want = right.db.execute("FROM types").fetchall()
        assert con.execute("FROM cloud.types").fetchall() == want
        assert con.execute("DESCRIBE cloud.types").fetchall() == right.db.execute("DESCRIBE types").fetchall()


@pytest.mark.extension
def test_extension_asks_as_the_protocol_says(right, pb):
    with services.attached(right.url, token="tok") as con:
        con.execute("SELECT sum(i) FROM cloud.t").fetchall()
        con.execute("SELECT sum(i) FROM cloud.t").fetchall()
    ids = [r.execution_id for r in right.requests]
    assert all(r.access_token == "tok" for r in right.requests)
    assert {r.database for r in right.requests} == {"mydb"}
    assert all(ids) and len(set(ids)) == len(ids)
    assert all(r.result_format == pb.RESULT_FORMAT_NATIVE for r in right.requests if is_data(r))


# ---------------------------------------------------------------- odd but right streams


def several(request, answer):
    """All batches in one payload."""
    for item in answer(request):
        if item.WhichOneof("payload") == "arrow_batch":
            table = pa.ipc.open_stream(item.arrow_batch.ipc_stream_payload).read_all()
            batches = [table.slice(k, 700).combine_chunks().to_batches()[0] for k in range(0, table.num_rows, 700)]
            item.arrow_batch.ipc_stream_payload = fake.ipc(table.schema, batches)
        yield item


def empties(request, answer):
    """Payloads without rows, and chunks without a payload, between the others."""
    for item in answer(request):
        if item.WhichOneof("payload") == "arrow_batch":
            payload = item.arrow_batch.ipc_stream_payload
            table = pa.ipc.open_stream(payload).read_all()
            empty = table.schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
            yield fake.FakeServer.chunk(FAKE[0], fake.ipc(table.schema))
            yield fake.FakeServer.chunk(FAKE[0], fake.ipc(table.schema, empty))
            yield services.stubs().ExecuteFragmentChunk()
        yield item


def tiny(request, answer):
    """One row in each payload."""
    for item in answer(request):
        if item.WhichOneof("payload") != "arrow_batch":
            yield item
            continue
        table = pa.ipc.open_stream(item.arrow_batch.ipc_stream_payload).read_all()
        for k in range(min(table.num_rows, 300)):
            yield fake.FakeServer.chunk(
                FAKE[0], fake.ipc(table.schema, [table.slice(k, 1).combine_chunks().to_batches()[0]])
            )
        if table.num_rows > 300:
            yield fake.FakeServer.chunk(FAKE[0], fake.ipc(table.schema, table.slice(300).combine_chunks().to_batches()))


def unaligned(request, answer):
    """Bodies that begin anywhere that Arrow allows (multiples of 8)."""
    for item in answer(request):
        if item.WhichOneof("payload") == "arrow_batch":
            item.arrow_batch.ipc_stream_payload = fake.aligned(item.arrow_batch.ipc_stream_payload, 8)
        yield item


def slow(request, answer):
    for item in answer(request):
        time.sleep(0.05)
        yield item


FAKE = [None]
ODD = {"several": several, "empties": empties, "tiny": tiny, "unaligned": unaligned, "slow": slow}


@pytest.fixture(params=sorted(ODD))
def odd(request):
    with fake.FakeServer(*TABLES, behave=data(ODD[request.param])) as f:
        FAKE[0] = f
        yield f


def test_cli_reads_odd_but_right_streams(odd):
    done = query(odd, "SELECT i, s FROM t ORDER BY i", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["i,s"] + ["%d,s%d" % (k, k) for k in range(5000)]


@pytest.mark.extension
def test_extension_reads_odd_but_right_streams(odd):
    with services.attached(odd.url) as con:
        assert con.execute("SELECT i, s FROM cloud.t").fetchall() == [(k, "s%d" % k) for k in range(5000)]


@pytest.mark.extension
def test_schema_only_stream_is_an_empty_table():
    def behave(request, answer):
        item = next(iter(answer(request)))
        schema = pa.ipc.open_stream(item.arrow_batch.ipc_stream_payload).schema
        yield FAKE[0].chunk(fake.ipc(schema))
        yield FAKE[0].finished()

    with fake.FakeServer(*TABLES, behave=data(behave)) as f, services.attached(f.url) as con:
        FAKE[0] = f
        assert con.execute("SELECT i, s FROM cloud.t").fetchall() == []
        con.execute("SET openduck_pushdown = 'scan'")  # else the server counts, and this one answers nothing
        assert con.execute("SELECT count(i) FROM (FROM cloud.t LIMIT 10)").fetchall() == [(0,)]


# ---------------------------------------------------------------- errors that a server tells


def one_error(typed, kind=8, state="", text="the dam broke", after_rows=False):
    def behave(request, answer):
        if after_rows:
            yield next(iter(answer(request)))
        yield from fake.FakeServer.fail(text, kind, "", state, typed)

    return data(behave)


KINDS = {
    1: (duckdb.CatalogException, ""),
    2: (duckdb.BinderException, ""),
    3: (duckdb.ConstraintException, ""),
    4: (duckdb.ConversionException, ""),
    5: (duckdb.ParserException, ""),
    6: (duckdb.IOException, ""),
    7: (duckdb.PermissionException, ""),
    8: (duckdb.IOException, "INTERNAL"),
}


@pytest.mark.extension
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_becomes_its_exception_and_the_session_goes_on(kind):
    with fake.FakeServer(*TABLES, behave=one_error(True, kind)) as f, services.attached(f.url) as con:
        with pytest.raises(duckdb.Error) as e:
            con.execute("SELECT i FROM cloud.t").fetchall()
        want, word = KINDS[kind]
        assert type(e.value) is want
        assert "the dam broke" in str(e.value) and word in str(e.value)
        assert f.url.removeprefix("http://") in str(e.value)
        assert con.execute("SELECT 1").fetchall() == [(1,)]
        f.behave = None
        assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(5000,)]


@pytest.mark.extension
@pytest.mark.parametrize(
    "state, want",
    [
        ("40001", duckdb.TransactionException),
        ("25006", duckdb.TransactionException),
        ("57014", duckdb.InterruptException),
        ("0A000", duckdb.NotImplementedException),
    ],
)
def test_sql_state_refines_the_exception(state, want):
    with fake.FakeServer(*TABLES, behave=one_error(True, 6, state)) as f, services.attached(f.url) as con:
        with pytest.raises(want):
            con.execute("SELECT i FROM cloud.t").fetchall()
        assert con.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.extension
@pytest.mark.parametrize("typed", [True, False])
def test_error_after_rows_is_an_error(typed):
    with fake.FakeServer(*TABLES, behave=one_error(typed, after_rows=True)) as f, services.attached(f.url) as con:
        with pytest.raises(duckdb.Error, match="the dam broke"):
            con.execute("SELECT i FROM cloud.t").fetchall()
        with pytest.raises(duckdb.Error, match="the dam broke"):
            con.execute("CREATE TEMP TABLE x AS FROM cloud.t")
        assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'x'").fetchall() == [(0,)]


def test_cli_tells_an_error_with_and_without_the_typed_part():
    for typed in (True, False):
        with fake.FakeServer(*TABLES, behave=one_error(typed, after_rows=True)) as f:
            done = query(f)
            assert done.returncode == 1
            assert "the dam broke" in done.stderr


# ---------------------------------------------------------------- streams and payloads that are wrong


def no_finished(request, answer):
    for item in answer(request):
        if not item.finished:
            yield item


def only_rows(request, answer):
    yield next(iter(answer(request)))


def status_without_finished(request, answer):
    yield next(iter(answer(request)))
    yield grpc.StatusCode.UNAVAILABLE


def nothing(request, answer):
    return iter(())


def garbage_message(request, answer):
    yield next(iter(answer(request)))
    yield b"\xff\xff\xff\xff this is no message"
    yield fake.FakeServer.finished()


def payload_of(change):
    def behave(request, answer):
        for item in answer(request):
            if item.WhichOneof("payload") == "arrow_batch":
                item.arrow_batch.ipc_stream_payload = change(item.arrow_batch.ipc_stream_payload)
            yield item

    return behave


def second_payload_of(change):
    def behave(request, answer):
        for n, item in enumerate(answer(request)):
            if n == 1 and item.WhichOneof("payload") == "arrow_batch":
                item.arrow_batch.ipc_stream_payload = change(item.arrow_batch.ipc_stream_payload)
            yield item

    return behave


def huge_length(payload):
    """A batch whose row count is 2^40, everything else as it was."""
    count = struct.pack("<q", pa.ipc.open_stream(payload).read_all().num_rows)
    return payload.replace(count, struct.pack("<q", 1 << 40))


def huge_metadata(payload):
    return payload[:4] + struct.pack("<I", 0x7FFFFFF0) + payload[8:]


def rewrite(batch, schema=None, columns=None):
    columns = columns or batch.columns
    return pa.RecordBatch.from_arrays(columns, schema=schema or batch.schema)


def first_batch(payload):
    return pa.ipc.open_stream(payload).read_next_batch()


def typed(field, arrow, signature):
    return pa.field(field.name, arrow, metadata={"openduck:type": signature})


def lying_type(payload):
    """Column i says INTEGER and has 8-byte values."""
    b = first_batch(payload)
    schema = pa.schema([typed(b.schema.field(0), pa.int64(), "INTEGER"), *list(b.schema)[1:]])
    return fake.ipc(schema, [rewrite(b, schema, [b.column(0).cast(pa.int64()), *b.columns[1:]])])


def other_type(payload):
    """Column i is honest, but not what was bound."""
    b = first_batch(payload)
    schema = pa.schema([typed(b.schema.field(0), pa.int64(), "BIGINT"), *list(b.schema)[1:]])
    return fake.ipc(schema, [rewrite(b, schema, [b.column(0).cast(pa.int64()), *b.columns[1:]])])


def strings_for_numbers(payload):
    b = first_batch(payload)
    schema = pa.schema([typed(b.schema.field(0), pa.utf8(), "VARCHAR"), *list(b.schema)[1:]])
    return fake.ipc(schema, [rewrite(b, schema, [b.column(0).cast(pa.utf8()), *b.columns[1:]])])


def fewer_columns(payload):
    b = first_batch(payload)
    return fake.ipc(pa.schema(list(b.schema)[:-1]), [rewrite(b, pa.schema(list(b.schema)[:-1]), b.columns[:-1])])


def more_columns(payload):
    b = first_batch(payload)
    schema = pa.schema([*b.schema, b.schema.field(0).with_name("extra")])
    return fake.ipc(schema, [rewrite(b, schema, [*b.columns, b.column(0)])])


def bad_offsets(payload):
    """String offsets beyond the data."""
    b = first_batch(payload)
    column = b.column(b.num_columns - 1)
    if not pa.types.is_string(column.type):
        raise AssertionError("the last column is no string")
    valid, offsets, chars = column.buffers()
    broken = bytearray(offsets.to_pybytes())
    struct.pack_into("<i", broken, 4, 0x7FFFFFF0)
    wrong = pa.Array.from_buffers(pa.utf8(), len(column), [valid, pa.py_buffer(bytes(broken)), chars])
    return fake.ipc(b.schema, [rewrite(b, None, [*b.columns[:-1], wrong])])


def falling_offsets(payload):
    b = first_batch(payload)
    column = b.column(b.num_columns - 1)
    valid, offsets, chars = column.buffers()
    broken = bytearray(offsets.to_pybytes())
    struct.pack_into("<ii", broken, 8, 9, 1)
    wrong = pa.Array.from_buffers(pa.utf8(), len(column), [valid, pa.py_buffer(bytes(broken)), chars])
    return fake.ipc(b.schema, [rewrite(b, None, [*b.columns[:-1], wrong])])


def negative_offsets(payload):
    b = first_batch(payload)
    column = b.column(b.num_columns - 1)
    valid, offsets, chars = column.buffers()
    broken = bytearray(offsets.to_pybytes())
    struct.pack_into("<i", broken, 0, -1000)
    wrong = pa.Array.from_buffers(pa.utf8(), len(column), [valid, pa.py_buffer(bytes(broken)), chars])
    return fake.ipc(b.schema, [rewrite(b, None, [*b.columns[:-1], wrong])])


def bad_utf8(payload):
    b = first_batch(payload)
    raw = pa.array([b"\xff\xfe"] * b.num_rows, pa.binary())
    wrong = pa.Array.from_buffers(pa.utf8(), len(raw), raw.buffers())
    return fake.ipc(b.schema, [rewrite(b, None, [*b.columns[:-1], wrong])])


WRONG_STREAMS = {
    "no finished": no_finished,
    "only rows": only_rows,
    "a status instead of finished": status_without_finished,
    "nothing": nothing,
    "garbage message": garbage_message,
    "empty payload": payload_of(lambda p: b""),
    "garbage payload": payload_of(lambda p: b"\x00\x01garbage" * 100),
    "payload cut in the schema": payload_of(lambda p: p[:100]),
    "payload cut in the batch": payload_of(lambda p: p[: len(p) * 2 // 3]),
    "second payload cut": second_payload_of(lambda p: p[: len(p) // 2]),
    "huge row count": payload_of(huge_length),
    "huge metadata": payload_of(huge_metadata),
    "fewer columns": payload_of(fewer_columns),
    "more columns": payload_of(more_columns),
    "second payload of other columns": second_payload_of(fewer_columns),
    "offsets beyond the data": payload_of(bad_offsets),
    "falling offsets": payload_of(falling_offsets),
    "negative offsets": payload_of(negative_offsets),
}
# Seen only by a reader that has bound types.
WRONG_TYPES = {
    "lying type": payload_of(lying_type),
    "other type": payload_of(other_type),
    "strings for numbers": payload_of(strings_for_numbers),
    "invalid UTF-8": payload_of(bad_utf8),
}


@pytest.mark.extension
@pytest.mark.parametrize("name", sorted(WRONG_STREAMS | WRONG_TYPES))
def test_extension_refuses_a_wrong_stream_and_goes_on(name):
    behave = data((WRONG_STREAMS | WRONG_TYPES)[name])
    with fake.FakeServer(*TABLES, behave=behave) as f, services.attached(f.url) as con:
        with pytest.raises(duckdb.Error) as e:
            con.execute("SELECT i, s FROM cloud.t").fetchall()
        assert type(e.value) is not duckdb.InternalException, e.value
        assert type(e.value) is not duckdb.FatalException, e.value
        assert f.url.removeprefix("http://") in str(e.value), "the message names the server: %s" % e.value
        f.behave = None
        assert con.execute("SELECT count(i), count(s) FROM cloud.t").fetchall() == [(5000, 5000)]


# `query` prints what the stream's own schema says: a payload with fewer or more columns from the first on is one to it.
CLI_WRONG = sorted(set(WRONG_STREAMS) - {"fewer columns", "more columns"})


@pytest.mark.parametrize("name", CLI_WRONG)
def test_cli_refuses_a_wrong_stream(name):
    with fake.FakeServer(*TABLES, behave=data(WRONG_STREAMS[name])) as f:
        done = query(f, "SELECT i, s FROM t", "--format", "csv")
        assert done.returncode == 1, "exit %s\n%s" % (done.returncode, done.stderr[-3000:])
        assert done.stderr.strip()
        assert not services.REPORT.search(done.stderr), done.stderr[:6000]


def client_program(f, sql):
    """The C library as examples/client.c uses it: adds up the first column."""
    program = services.BUILD / "programs" / "client"
    done = subprocess.run(
        [program, f.url, "mydb", sql],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60 * services.SLOW,
        env=services.server_env(),
        check=False,
    )
    assert not services.REPORT.search(done.stderr), done.stderr[:6000]
    assert done.returncode in (0, 1), (done.returncode, done.stderr[-2000:])
    return done


@pytest.mark.parametrize(
    "name", sorted(set(CLI_WRONG) - {"second payload of other columns"})
)  # it reads the first only
def test_c_client_refuses_a_wrong_stream(name):
    with fake.FakeServer(*TABLES, behave=data(WRONG_STREAMS[name])) as f:
        done = client_program(f, "SELECT i::BIGINT, s FROM t")
        assert done.returncode == 1 and done.stderr.startswith("client: "), (done.stdout, done.stderr)
        f.behave = None
        assert client_program(f, "SELECT i::BIGINT, s FROM t").stdout == "5000 rows, sum 12497500\n"


@pytest.mark.timeout(400)
def test_c_client_survives_mutated_payloads():
    current = [b""]

    def behave(request, answer):
        yield FAKE[0].chunk(current[0])
        yield FAKE[0].finished()

    with fake.FakeServer(*TABLES, behave=data(behave), rows_per_payload=10000) as f:
        FAKE[0] = f
        plain = f_request("SELECT i::BIGINT, s FROM t LIMIT 200")
        plain.result_format = 0
        good = next(iter(f._payloads(plain)))
        codes = []
        for mutated in mutations(good, 300, seed=9):
            current[0] = mutated
            codes.append(client_program(f, "SELECT i::BIGINT, s FROM t").returncode)
        assert codes.count(1) > 100


@pytest.mark.extension
def test_enum_index_beyond_the_dictionary_is_refused():
    values = ["v%d" % k for k in range(3)]
    h = 0xCBF29CE484222325
    for byte in b"".join(v.encode() + b"\0" for v in values):
        h = (h ^ byte) * 0x100000001B3 % 2**64

    for index, digest, right in ((2, h, True), (3, h, False), (255, h, False), (1, h ^ 1, False)):

        def behave(request, answer, index=index, digest=digest):
            field = pa.field("c", pa.uint8(), metadata={"openduck:type": "ENUM(3,%016x)" % digest})
            yield FAKE[0].chunk(
                fake.ipc(pa.schema([field]), [pa.record_batch([pa.array([0, index], pa.uint8())], pa.schema([field]))])
            )
            yield FAKE[0].finished()

        create = "CREATE TABLE t AS SELECT 'v0'::ENUM ('v0', 'v1', 'v2') AS c"
        with fake.FakeServer(create, behave=data(behave)) as f, services.attached(f.url) as con:
            FAKE[0] = f
            if right:
                assert con.execute("SELECT c FROM cloud.t").fetchall() == [("v0",), ("v2",)]
            else:
                with pytest.raises(duckdb.Error) as e:
                    con.execute("SELECT c FROM cloud.t").fetchall()
                assert not isinstance(e.value, (duckdb.InternalException, duckdb.FatalException)), e.value
                assert con.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.extension
@pytest.mark.parametrize("name", ["TIME", "TIME_NS", "TIME WITH TIME ZONE"])
def test_a_time_outside_of_its_day_is_refused(name):
    """DuckDB's text of one is read out of bounds."""
    day = 86400 * 10**6
    arrow, good, bad = {
        "TIME": (pa.time64("us"), (0, day), (-1, day + 1, 2**63 - 1)),
        "TIME_NS": (pa.time64("ns"), (0, day * 1000), (-1, day * 1000 + 1)),
        "TIME WITH TIME ZONE": (pa.uint64(), (day << 24, 115198), (day + 1 << 24, 115199, 2**63)),
    }[name]
    for value, right in [(v, True) for v in good] + [(v, False) for v in bad]:

        def behave(request, answer, value=value):
            field = pa.field("c", arrow, metadata={"openduck:type": name})
            bits = (value % 2**64).to_bytes(8, "little")
            array = pa.Array.from_buffers(arrow, 1, [None, pa.py_buffer(bits)])
            yield FAKE[0].chunk(fake.ipc(pa.schema([field]), [pa.record_batch([array], pa.schema([field]))]))
            yield FAKE[0].finished()

        create = "CREATE TABLE t AS SELECT '00:00:00'::%s AS c" % name
        with fake.FakeServer(create, behave=data(behave)) as f, services.attached(f.url) as con:
            FAKE[0] = f
            if right:
                assert len(con.execute("SELECT c::VARCHAR FROM cloud.t").fetchall()) == 1
            else:
                with pytest.raises(duckdb.IOException, match="damaged result"):
                    con.execute("SELECT c::VARCHAR FROM cloud.t").fetchall()


def mutations(payload, count, seed):
    """COUNT copies of PAYLOAD with bits flipped, bytes cut out, runs overwritten or the end missing."""
    rnd = random.Random(seed)
    for _ in range(count):
        p = bytearray(payload)
        how = rnd.randrange(5)
        if how == 0:
            for _ in range(rnd.randint(1, 8)):
                p[rnd.randrange(len(p))] ^= 1 << rnd.randrange(8)
        elif how == 1:
            at = rnd.randrange(len(p))
            del p[at : at + rnd.randint(1, 64)]
        elif how == 2:
            at = rnd.randrange(len(p))
            p[at : at + 8] = rnd.choice([b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, struct.pack("<q", 1 << 40)])
        elif how == 3:
            p = p[: rnd.randrange(len(p))]
        else:  # in the metadata, where it hurts most
            p[rnd.randrange(min(len(p), 900))] = rnd.randrange(256)
        yield bytes(p)


@pytest.mark.extension
@pytest.mark.timeout(400)
def test_extension_survives_mutated_payloads():
    """Each is an answer or an error of a decent kind; never a crash, a hang or an InternalException."""
    payloads = itertools.count()
    current = [b""]

    def behave(request, answer):
        next(payloads)
        yield FAKE[0].chunk(current[0])
        yield FAKE[0].finished()

    with fake.FakeServer(*TABLES, behave=data(behave), rows_per_payload=10000) as f, services.attached(f.url) as con:
        FAKE[0] = f
        good = next(iter(f._payloads(f_request("SELECT i, s FROM t LIMIT 200"))))
        failed = 0
        for mutated in mutations(good, 1000 if services.SLOW == 1 else 300, seed=5):
            current[0] = mutated
            try:
                con.execute("SELECT i, s FROM cloud.t").fetchall()
            except (duckdb.InternalException, duckdb.FatalException) as e:
                raise AssertionError("%s for %s" % (e, mutated.hex())) from e
            except duckdb.Error:
                failed += 1
        assert failed > 100
        f.behave = None
        assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(5000,)]


def f_request(sql):
    pb = services.stubs()
    return pb.ExecuteFragmentRequest(plan=sql.encode(), database="mydb", result_format=pb.RESULT_FORMAT_NATIVE)


# ---------------------------------------------------------------- waiting


@pytest.mark.extension
def test_interrupt_while_a_server_says_nothing():
    release = threading.Event()

    def behave(request, answer):
        yield next(iter(answer(request)))
        release.wait(60)

    with fake.FakeServer(*TABLES, behave=data(behave)) as f, services.attached(f.url) as con:
        timer = threading.Timer(0.5, con.interrupt)
        timer.start()
        start = time.monotonic()
        with pytest.raises(duckdb.InterruptException):
            con.execute("SELECT sum(i) FROM cloud.t").fetchall()
        assert time.monotonic() - start < 1.5 * services.SLOW
        f.gone.wait(2)
        release.set()
        f.behave = None
        assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(5000,)]


@pytest.mark.extension
def test_a_stopped_reader_resets_its_stream():
    sent = []

    def behave(request, answer):
        items = list(answer(request))
        for _ in range(2000):
            sent.append(1)
            yield items[0]
        yield items[-1]

    with fake.FakeServer(*TABLES, behave=data(behave)) as f, services.attached(f.url) as con:
        result = con.execute("SELECT i, s FROM cloud.t")
        result.fetchmany(10)
        con.execute("SELECT 1").fetchall()  # drops the open result
        assert f.gone.wait(5)
        time.sleep(0.2)
        assert len(sent) < 2000


@pytest.mark.extension
def test_attach_to_nothing_fails_soon_and_names_it():
    url = "http://127.0.0.1:%d" % services.free_port()
    con = services.duck()
    start = time.monotonic()
    with pytest.raises(duckdb.IOException, match=url.removeprefix("http://")):
        con.execute(services.attach_sql(url))
        con.execute("SELECT * FROM cloud.t").fetchall()
    assert time.monotonic() - start < 6 * services.SLOW
    con.close()
