"""An independent gRPC client (grpcio, stubs from proto/) against our servers: `serve`, and a gateway before a
worker."""

import shutil
import struct
import threading
import time
import uuid

import grpc
import pyarrow as pa
import pytest
import services

ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"
STREAM = "SELECT i, i::VARCHAR || repeat('x', 100) AS s FROM range(100000000) t(i)"
TOKEN = "correct horse battery staple"


@pytest.fixture(scope="module", params=["serve", "gateway"])
def served(request, sample_db, tmp_path_factory):
    path = tmp_path_factory.mktemp("interop") / "mydb.duckdb"
    shutil.copy(sample_db, path)
    start = services.Serve if request.param == "serve" else services.Stack
    with start({"mydb": path}) as s:
        yield s


@pytest.fixture
def client(served):
    with served.client() as c:
        yield c
    served.wait_idle()


@pytest.fixture(scope="module")
def guarded(sample_db, tmp_path_factory):
    path = tmp_path_factory.mktemp("guarded") / "mydb.duckdb"
    shutil.copy(sample_db, path)
    with services.Serve({"mydb": path}, token=TOKEN) as s:
        yield s


def status_of(call):
    """The gRPC status that CALL (a function) ends with."""
    with pytest.raises(grpc.RpcError) as e:
        result = call()
        if hasattr(result, "__iter__"):
            list(result)
    return e.value.code(), e.value.details()


# ---------------------------------------------------------------- results


def test_select_gives_rows_then_finished(client):
    answer = client.run("SELECT 42 AS a, 'x' AS b", database="mydb")
    assert answer.finished and answer.error_text is None
    assert answer.rows() == [(42, "x")]
    assert answer.table().column_names == ["a", "b"]


def test_finished_comes_once_and_last(client):
    answer = client.run("FROM t")
    kinds = [c.WhichOneof("payload") for c in answer.chunks]
    assert kinds.count("finished") == 1 and kinds[-1] == "finished"


def test_every_payload_is_a_whole_stream_with_one_schema(client):
    answer = client.run("FROM big LIMIT 500000")
    assert len(answer.payloads) > 1
    readers = [pa.ipc.open_stream(p) for p in answer.payloads]
    assert len({str(r.schema) for r in readers}) == 1
    table = pa.Table.from_batches([b for r in readers for b in r])
    assert table.num_rows == 500000
    assert table.column("i").to_pylist() == list(range(500000))


def test_first_payload_is_small_and_later_ones_grow_under_4_mib(client):
    answer = client.run("FROM big")
    rows = [t.num_rows for t in answer.tables()]
    assert rows[0] <= 2048 < max(rows)
    assert sum(rows) == 3000000
    assert max(c.ByteSize() for c in answer.chunks) < 4 << 20


def test_client_with_default_limits_of_4_mib_reads_everything(served):
    with grpc.insecure_channel(served.url.removeprefix("http://")) as channel:
        stub = services.stubs().ExecutionServiceStub(channel)
        request = services.stubs().ExecuteFragmentRequest(plan=b"SELECT repeat('y', 5000) AS s FROM range(20000)")
        rows = 0
        for chunk in stub.ExecuteFragment(request, timeout=60 * services.SLOW):
            if chunk.WhichOneof("payload") == "arrow_batch":
                rows += pa.ipc.open_stream(chunk.arrow_batch.ipc_stream_payload).read_all().num_rows
    assert rows == 20000


def test_batch_chunk_has_its_payload_at_byte_10(client):
    raw = client.raw("/openduck.v1.ExecutionService/ExecuteFragment")
    first = next(iter(raw(client.request("FROM t").SerializeToString(), timeout=60)))
    assert first[0] == 0x0A and first[5] == 0x0A
    assert first[10:14] == b"\xff\xff\xff\xff"


def test_empty_result_carries_its_schema(client):
    answer = client.run("SELECT i, s, 1.5::DECIMAL(9,2) AS d FROM t WHERE i < 0")
    assert answer.finished and len(answer.payloads) == 1
    reader = pa.ipc.open_stream(answer.payloads[0])
    assert reader.schema.names == ["i", "s", "d"]
    assert reader.read_all().num_rows == 0


def test_rows_come_before_the_last_exists(client):
    call = client.call(STREAM)
    start = time.monotonic()
    first = next(call)
    assert first.WhichOneof("payload") == "arrow_batch"
    assert time.monotonic() - start < 2 * services.SLOW
    call.cancel()


def test_of_several_statements_the_last_result_is_streamed(client):
    answer = client.run("CREATE TEMP TABLE a AS SELECT 5 AS x; INSERT INTO a VALUES (6); SELECT sum(x) AS s FROM a")
    assert answer.error_text is None, answer.error_text
    assert len(answer.payloads) == 1
    assert answer.rows() == [(11,)]


@pytest.mark.parametrize("text", ["", "   ", ";", "-- only a comment"])
def test_text_without_a_statement_ends_cleanly(client, text):
    try:
        answer = client.run(text)
    except grpc.RpcError as e:
        assert e.code() == grpc.StatusCode.INVALID_ARGUMENT
    else:
        assert answer.finished
        assert answer.error_text is not None or answer.payloads


def test_statements_without_a_result_give_a_payload(client):
    name = "x" + uuid.uuid4().hex
    try:
        for sql in ("CREATE TABLE %s(i INTEGER)", "INSERT INTO %s VALUES (1), (2)", "DROP TABLE %s"):
            answer = client.run(sql % name)
            assert answer.error_text is None, answer.error_text
            assert answer.payloads and answer.finished
        assert client.run("INSERT INTO one SELECT 2 WHERE false").rows() == [(0,)]
    finally:
        client.run("DROP TABLE IF EXISTS " + name)


def test_written_rows_are_seen_by_the_next_call(client):
    name = "x" + uuid.uuid4().hex
    assert client.run("CREATE TABLE %s AS SELECT 1 AS i" % name).error_text is None
    assert client.run("INSERT INTO %s VALUES (2)" % name).rows() == [(1,)]
    assert client.rows("SELECT sum(i) FROM " + name) == [(3,)]
    client.run("DROP TABLE " + name)


def test_session_state_of_one_call_is_gone_in_the_next(client):
    assert client.run("CREATE TEMP TABLE private AS SELECT 1 AS i").error_text is None
    assert client.run("FROM private").error is not None
    client.run("SET TimeZone = 'Asia/Tokyo'")
    client.run("USE memory")
    assert client.rows("SELECT count(*) FROM t", database="mydb") == [(1000,)]


# ---------------------------------------------------------------- formats


def test_plain_is_readable_by_any_arrow_reader(client):
    sql = (
        "SELECT true AS b, 1::TINYINT AS t, 2::HUGEINT AS h, 1.5::DECIMAL(9,2) AS d, DATE '2020-02-29' AS dt, "
        "TIMESTAMP '2020-02-29 01:02:03' AS ts, [1, NULL] AS l, {'a': 1} AS s, 'x'::BLOB AS bl, "
        "uuid() AS u, 'a'::ENUM ('a', 'b') AS e, INTERVAL 1 DAY AS iv, MAP {'k': 1} AS m, NULL AS n"
    )
    answer = client.run(sql)
    assert answer.error_text is None, answer.error_text
    row = answer.table().to_pylist()[0]
    assert row["b"] is True and row["l"] == [1, None] and row["s"] == {"a": 1} and row["e"] == "a"


def test_lossless_names_what_plain_arrow_lacks(client):
    answer = client.run("SELECT 5::HUGEINT AS h, uuid() AS u", result_format=1)
    assert answer.error_text is None, answer.error_text
    schema = answer.table().schema
    assert schema.field("h").metadata or not pa.types.is_decimal(schema.field("h").type), schema


def test_native_carries_signatures_and_aligned_bodies(client):
    answer = client.run("SELECT i, s, i::HUGEINT AS h, [i] AS l FROM t", result_format=2)
    assert answer.error_text is None, answer.error_text
    schema = answer.table().schema
    assert [f.metadata[b"openduck:type"] for f in schema] == [b"BIGINT", b"VARCHAR", b"HUGEINT", b"LIST"]
    assert schema.field("h").type == pa.binary(16)
    for payload in answer.payloads:
        assert [offset % 64 for offset in bodies(payload)] == [0]
    assert answer.table().column("l").to_pylist()[:2] == [[0], [1]]


def bodies(payload):
    """Where the body of each record batch begins in an IPC stream."""
    at, found = 0, []
    while at + 8 <= len(payload):
        size = struct.unpack_from("<I", payload, at + 4)[0]
        if size == 0:
            break
        body = pa.ipc.read_message(pa.BufferReader(payload[at:])).body
        if body is not None and body.size:
            found.append(at + 8 + size)
        at += 8 + size + (body.size if body is not None else 0)
    return found


def test_describe_only_tells_types_and_runs_nothing(client):
    before = client.rows("SELECT count(*) FROM one")
    answer = client.run("INSERT INTO one VALUES (5)", describe_only=True)
    assert answer.finished and answer.error_text is None
    assert client.rows("SELECT count(*) FROM one") == before
    answer = client.run("SELECT i, [s] AS l, {'a': 1::UTINYINT} AS st FROM t", describe_only=True)
    assert len(answer.payloads) == 1
    reader = pa.ipc.open_stream(answer.payloads[0])
    assert [f.metadata[b"openduck:sql_type"] for f in reader.schema] == [b"BIGINT", b"VARCHAR[]", b"STRUCT(a UTINYINT)"]
    assert sum(b.num_rows for b in reader) == 0


def test_unknown_format_is_refused(client):
    request = client.request("SELECT 1").SerializeToString() + b"\x40\x63"  # field 8, varint 99
    raw = client.raw("/openduck.v1.ExecutionService/ExecuteFragment")
    code, _ = status_of(lambda: raw(request, timeout=30))
    assert code == grpc.StatusCode.INVALID_ARGUMENT


# ---------------------------------------------------------------- requests


def test_request_in_every_form_is_understood(client, pb):
    request = client.request(
        "SELECT 7",
        database="mydb",
        access_token="not needed",
        execution_id="form-%s" % uuid.uuid4(),
        compute_context="region=here",
        statement_id="stmt-1",
    )
    assert [c.WhichOneof("payload") for c in client.execution.ExecuteFragment(request)] == ["arrow_batch", "finished"]


def test_snapshot_that_cannot_be_read_is_refused_never_ignored(client):
    answer = client.run("SELECT 7", snapshot_id="6f9619ff-8b86-d011-b42d-00c04fc964ff")
    assert answer.error is not None and "snapshot" in answer.error_text


def test_unknown_fields_are_skipped(client, pb):
    raw = client.raw("/openduck.v1.ExecutionService/ExecuteFragment")
    body = client.request("SELECT 7").SerializeToString()
    extra = b"\xfa\x3f\x03abc" + b"\xf8\x3f\x05" + b"\xf9\x3f12345678" + b"\xfd\x3f1234"  # field 1023, four wire types
    chunks = [pb.ExecuteFragmentChunk.FromString(m) for m in raw(extra + body + extra, timeout=30)]
    assert chunks[-1].finished and not chunks[0].error


def test_of_a_repeated_field_the_last_counts(client, pb):
    raw = client.raw("/openduck.v1.ExecutionService/ExecuteFragment")
    body = client.request("SELECT wrong").SerializeToString() + client.request("SELECT 8").SerializeToString()
    chunks = [pb.ExecuteFragmentChunk.FromString(m) for m in raw(body, timeout=30)]
    assert services.Answer(chunks).rows() == [(8,)]


def test_request_as_earlier_peers_send_it(client, pb):
    """Fields 1 to 6 only, as generated from the earlier contract."""
    raw = client.raw("/openduck.v1.ExecutionService/ExecuteFragment")
    plan = b"SELECT 9 AS n"
    body = b"\x0a" + bytes([len(plan)]) + plan + b"\x12\x04mydb" + b"\x22\x00" + b"\x2a\x00" + b"\x32\x00"
    chunks = [pb.ExecuteFragmentChunk.FromString(m) for m in raw(body, timeout=30)]
    assert services.Answer(chunks).rows() == [(9,)]


def test_plan_that_is_not_utf8_is_an_invalid_argument(client):
    code, text = status_of(lambda: client.call(b"SELECT '\xff\xfe'"))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "UTF-8" in text


def test_unknown_database_is_named(client):
    try:
        answer = client.run("SELECT 1", database="nosuchdb")
    except grpc.RpcError as e:
        assert e.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION)
        assert "nosuchdb" in e.details()
    else:
        assert answer.error is not None and answer.finished
        assert "nosuchdb" in answer.error_text


def test_unknown_method_and_service_are_unimplemented(client):
    for path in (
        "/openduck.v1.ExecutionService/Nonsense",
        "/no.such.Service/Method",
        "/grpc.health.v1.Health/Nope",
        "/x",
    ):
        code, _ = status_of(lambda path=path: client.raw(path, "unary_unary")(b"", timeout=30))
        assert code == grpc.StatusCode.UNIMPLEMENTED, path


def test_compressed_request_is_answered_by_the_rules(served, client, pb):
    """gRPC: a message compressed by what the server lacks ends with UNIMPLEMENTED; the connection goes on."""
    request = client.request("SELECT '%s'" % ("a" * 4000))
    try:
        chunks = list(client.execution.ExecuteFragment(request, timeout=30, compression=grpc.Compression.Gzip))
        assert chunks[-1].finished
    except grpc.RpcError as e:
        assert e.code() == grpc.StatusCode.UNIMPLEMENTED
    assert client.rows("SELECT 1") == [(1,)]


def test_same_execution_id_twice_is_refused(client):
    name = "twice-%s" % uuid.uuid4()
    first = client.call(STREAM, execution_id=name)
    next(first)
    code, text = status_of(lambda: client.call("SELECT 1", execution_id=name))
    assert code == grpc.StatusCode.ALREADY_EXISTS
    assert name in text
    assert client.cancel(name)
    assert any(c.WhichOneof("payload") == "error" for c in list(first))
    services.wait_until(lambda: not client.status().running, 2, "the first has ended")
    assert client.run("SELECT 1", execution_id=name).rows() == [(1,)]


def test_stale_catalog_version_runs_nothing(client):
    first = client.run("SELECT 1").chunks[0]
    assert first.catalog_version != 0
    now = client.run("CREATE OR REPLACE TABLE versioned AS SELECT 1 AS i").chunks[0].catalog_version
    current = client.run("SELECT 1").chunks[0].catalog_version
    assert current not in (0, first.catalog_version), (first.catalog_version, now, current)
    answer = client.run("INSERT INTO versioned VALUES (2)", expected_catalog_version=first.catalog_version)
    assert answer.error is not None and answer.error.code == "STALE_CATALOG"
    assert answer.chunks[0].catalog_version == current
    assert client.rows("SELECT count(*) FROM versioned", expected_catalog_version=current) == [(1,)]


def test_many_calls_share_one_connection(served):
    with served.client() as c:
        calls = [c.call("SELECT sum(i) FROM big WHERE i %% 16 = %d" % k) for k in range(16)]
        sums = [services.Answer(list(call)).rows()[0][0] for call in calls]
        assert sum(sums) == sum(range(3000000))


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "sql, kind, state, text",
    [
        ("FROM missing_table", "CATALOG", "42", "missing_table"),
        ("SELECT nope FROM t", "BINDER", "42", "nope"),
        ("SELEC 1", "PARSER", "42601", "SELEC"),
        ("SELECT 'x'::INTEGER", "CONVERSION", "22", "'x'"),
        ("SELECT 9223372036854775807 + i FROM t", "CONVERSION", "22", "verflow"),
        ("CREATE TEMP TABLE c(i INTEGER CHECK (i > 0)); INSERT INTO c VALUES (0)", "CONSTRAINT", "23", "CHECK"),
        ("SELECT error('boom')", "BINDER", "22", "boom"),
    ],
)
def test_error_has_its_legacy_text_and_typed_part(client, pb, sql, kind, state, text):
    answer = client.run(sql, execution_id="err-%s" % uuid.uuid4())
    assert answer.finished and len(answer.errors) == 1
    assert text in answer.error_text
    assert answer.error is not None
    assert pb.ErrorKind.Name(answer.error.kind) == "ERROR_KIND_" + kind
    assert answer.error.sql_state.startswith(state), answer.error.sql_state
    assert len(answer.error.sql_state) == 5
    assert text in answer.error.message
    assert answer.error.code


def test_error_after_rows_comes_in_the_stream(client, pb):
    answer = client.run("SELECT CASE WHEN i = 2999999 THEN 'x' ELSE '1' END::INTEGER AS n FROM big")
    assert answer.payloads, "rows were delivered first"
    assert answer.error.kind == pb.ERROR_KIND_CONVERSION
    assert answer.finished


# ---------------------------------------------------------------- tokens


def test_missing_and_wrong_tokens_have_their_texts(guarded):
    with guarded.client("") as c:
        code, text = status_of(lambda: c.call("SELECT 1"))
        assert (code, text) == (
            grpc.StatusCode.UNAUTHENTICATED,
            "access_token required when OPENDUCK_TOKEN is set",
        )
    for token in ("x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\0" + TOKEN, TOKEN + "\0"):
        with guarded.client(token) as c:
            assert status_of(lambda c=c: c.call("SELECT 1")) == (
                grpc.StatusCode.UNAUTHENTICATED,
                "invalid access_token",
            )
    with guarded.client(TOKEN) as c:
        assert c.rows("SELECT 1") == [(1,)]


def test_every_rpc_checks_the_token(guarded, pb):
    with guarded.client("") as c:
        e = c.execution
        calls = {
            "CancelExecution": lambda: e.CancelExecution(pb.CancelRequest(execution_id="x", access_token="no")),
            "RegisterWorker": lambda: e.RegisterWorker(
                pb.WorkerRegistration(worker_id="w", endpoint="http://127.0.0.1:1", access_token="no")
            ),
            "Heartbeat": lambda: e.Heartbeat(pb.HeartbeatRequest(worker_id="w", access_token="no")),
            "BeginTransaction": lambda: e.BeginTransaction(pb.BeginTransactionRequest(access_token="no")),
            "CommitTransaction": lambda: e.CommitTransaction(pb.CommitTransactionRequest(access_token="no")),
            "RollbackTransaction": lambda: e.RollbackTransaction(pb.RollbackTransactionRequest(access_token="no")),
            "IngestData": lambda: e.IngestData(
                iter([pb.IngestChunk(metadata=pb.IngestMetadata(access_token="no", staging_table="s"))])
            ),
            "GetStatus": lambda: c.status_service.GetStatus(pb.StatusRequest(access_token="no")),
        }
        got = {name: status_of(call)[0] for name, call in calls.items()}
    # What a server does not offer yet may say so before it looks at the token.
    allowed = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED}
    assert {name: code for name, code in got.items() if code not in allowed} == {}
    must = ("CancelExecution", "GetStatus")
    assert {name: got[name] for name in must} == dict.fromkeys(must, grpc.StatusCode.UNAUTHENTICATED)


def test_token_never_shows_in_the_log(guarded):
    assert TOKEN not in guarded.stderr() + guarded.stdout()


def test_server_without_token_takes_any_and_warns(served):
    with served.client("whatever") as c:
        assert c.rows("SELECT 1") == [(1,)]
    assert "level=warn" in served.stderr()


# ---------------------------------------------------------------- workers, as earlier peers register them


def test_registration_and_heartbeat_of_earlier_peers(sample_db, tmp_path, pb):
    with services.Gateway() as gateway, services.Worker({"mydb": copy(sample_db, tmp_path)}) as worker:
        with gateway.client() as c:
            code, text = status_of(lambda: c.execution.RegisterWorker(pb.WorkerRegistration(worker_id="w1")))
            assert (code, text) == (grpc.StatusCode.INVALID_ARGUMENT, "endpoint is required")
            assert not c.execution.Heartbeat(pb.HeartbeatRequest(worker_id="w1")).acknowledged
            reply = c.execution.RegisterWorker(
                pb.WorkerRegistration(worker_id="w1", endpoint=worker.url, databases=["mydb"], max_concurrency=4)
            )
            assert reply.accepted
            assert c.execution.Heartbeat(pb.HeartbeatRequest(worker_id="w1")).acknowledged
            assert c.rows("SELECT count(*) FROM t", database="mydb") == [(1000,)]


def copy(db, tmp_path):
    path = tmp_path / "mydb.duckdb"
    shutil.copy(db, path)
    return path


def test_a_dead_endpoint_that_registers_takes_no_queries(sample_db, tmp_path, pb):
    with services.Stack({"mydb": copy(sample_db, tmp_path)}) as stack, stack.client() as c:
        dead = "http://127.0.0.1:%d" % services.free_port()
        registration = pb.WorkerRegistration(worker_id="dead", endpoint=dead, databases=["mydb"])
        code, text = status_of(lambda: c.execution.RegisterWorker(registration))
        assert code == grpc.StatusCode.UNAVAILABLE and dead.removeprefix("http://") in text
        assert not c.execution.Heartbeat(pb.HeartbeatRequest(worker_id="dead")).acknowledged
        assert [c.rows("SELECT 1", database="mydb") for _ in range(20)] == [[(1,)]] * 20


def test_gateway_without_workers_says_so():
    with services.Gateway() as gateway, gateway.client() as c:
        code, text = status_of(lambda: c.call("SELECT 1"))
        assert code == grpc.StatusCode.FAILED_PRECONDITION
        assert "no workers available" in text


# ---------------------------------------------------------------- cancel, deadlines, disconnects


def idle_cpu(served, seconds=1.0):
    """Waits until the server uses no CPU; what a query that still ran would keep from happening."""
    end = time.monotonic() + seconds * services.SLOW
    daemons = [d for d in (getattr(served, "worker", None), getattr(served, "gateway", None) or served) if d]
    while True:
        shares = [services.cpu_share(d, 0.2) for d in daemons]
        if max(shares) < 0.1:
            return
        assert time.monotonic() < end, "the server still works: %r of a core" % shares


def test_cancel_stops_a_query_that_computes(served, client):
    name = "cancel-%s" % uuid.uuid4()
    got = []
    thread = threading.Thread(target=lambda: got.append(client.run(ENDLESS, execution_id=name)))
    thread.start()
    services.wait_until(lambda: client.status().in_flight == 1, 5, "the query runs")
    time.sleep(0.2)
    start = time.monotonic()
    assert client.cancel(name)
    thread.join(5 * services.SLOW)
    assert got, "the stream has not ended"
    assert time.monotonic() - start < 1 * services.SLOW
    assert "execution cancelled: " + name in got[0].error_text
    assert got[0].finished and got[0].error.sql_state == "57014"
    idle_cpu(served)


def test_cancel_of_unknown_and_ended_executions_is_not_acknowledged(client):
    assert client.cancel("never-was") is False
    assert client.cancel("") is False
    client.run("SELECT 1", execution_id="done-1")
    # The server may tell the end a moment before it forgets the id.
    services.wait_until(lambda: client.cancel("done-1") is False, 5, "an ended execution is forgotten")


@pytest.mark.parametrize("sql", [ENDLESS, STREAM], ids=["computing", "streaming"])
def test_client_that_resets_its_stream_stops_the_query(served, client, sql):
    call = client.call(sql)
    services.wait_until(lambda: client.status().in_flight == 1, 5, "the query runs")
    call.cancel()
    served.wait_idle(1)
    idle_cpu(served)


def test_client_that_closes_its_connection_stops_its_queries(served):
    with served.client() as c:
        calls = [c.call(sql) for sql in (ENDLESS, STREAM, STREAM)]
        services.wait_until(lambda: c.status().in_flight == 3, 5, "the queries run")
    assert calls
    served.wait_idle(1)
    idle_cpu(served)


def test_deadline_of_the_call_stops_the_query(served, client):
    start = time.monotonic()
    call = client.execution.ExecuteFragment(client.request(ENDLESS), timeout=0.5)
    with pytest.raises(grpc.RpcError) as e:
        list(call)
    assert e.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - start < 3 * services.SLOW
    served.wait_idle(1)
    idle_cpu(served)


# ---------------------------------------------------------------- sizes


def test_row_of_30_mib_passes(client):
    answer = client.run("SELECT repeat('x', 30 * 1048576) AS s, 1 AS i")
    assert answer.error_text is None, answer.error_text
    assert answer.table().column("i").to_pylist() == [1]
    assert len(answer.table().column("s")[0].as_py()) == 30 * 1048576


def test_row_above_the_cap_is_an_error_that_names_it(client):
    answer = client.run("SELECT repeat('x', 70 * 1048576) AS s")
    assert answer.error is not None, "no error"
    assert answer.finished
    assert "64 MiB" in answer.error_text or str(64 << 20) in answer.error_text or "67108" in answer.error_text
    assert client.rows("SELECT 1") == [(1,)]


def test_result_beyond_the_cap_comes_in_pieces(client):
    answer = client.run("SELECT repeat('z', 100000) AS s FROM range(1000)")
    assert sum(t.num_rows for t in answer.tables()) == 1000
    assert sum(len(p) for p in answer.payloads) > 64 << 20


def test_request_above_the_cap_ends_only_its_call(client):
    long = b"SELECT '" + b"x" * (65 << 20) + b"'"
    code, _ = status_of(lambda: client.call(long))
    assert code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE)
    assert client.rows("SELECT 1") == [(1,)]


def test_request_of_20_mib_passes(client):
    assert client.rows("SELECT length('" + "x" * (20 << 20) + "')") == [(20 << 20,)]
