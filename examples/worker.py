#!/usr/bin/env python3
"""A worker of one's own, in another language: it registers at a gateway and serves tables that Python makes, with
functions that are Python's. To a DuckDB that attaches the gateway they are as any others.

It is a server of gRPC (proto/, docs/protocol.md): this one has DuckDB's Python package read the SQL, and only reads.

usage: .deps/venv/bin/python examples/worker.py GATEWAY      such as http://127.0.0.1:7878; ends with Ctrl-C
environment: OPENDUCK_TOKEN, OPENDUCK_WORKER_TOKEN (what it registers with; else the former)
"""

import concurrent.futures
import contextlib
import hmac
import os
import pathlib
import secrets
import signal
import struct
import sys
import threading

import duckdb
import grpc
import pandas as pd
import pyarrow as pa

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "proto"))
pb, rpc = grpc.protos_and_services("openduck/v1/execution.proto")

DATABASE = "lab"
CONCURRENCY = 8
BATCH_ROWS = 20_000
TOKEN = os.environ.get("OPENDUCK_TOKEN", "")
# Tells clients whether what they know of the tables is still true: these never change while it runs.
VERSION = secrets.randbits(62) + 1


class Refused(Exception):
    """CODE is one of docs/errors.md, which tells its kind and SQLSTATE."""

    def __init__(self, code, kind, state, text):
        super().__init__(text)
        self.code, self.kind, self.state = code, kind, state


# ---------------------------------------------------------------- what it serves


def similarity(a: str, b: str) -> float:
    """Of the pairs of neighbouring letters, how many both have."""
    pairs = [{text[i : i + 2].lower() for i in range(len(text) - 1)} for text in (a, b)]
    return len(pairs[0] & pairs[1]) / max(1, len(pairs[0] | pairs[1]))


def open_database():
    con = duckdb.connect(config={"threads": 2})
    con.execute("ATTACH ':memory:' AS %s; USE %s" % (DATABASE, DATABASE))
    samples = pd.DataFrame({"id": range(100_000)})
    samples["device"] = "sensor-" + (samples.id % 10).astype(str)
    samples["celsius"] = 20 + (samples.id % 97) / 10
    samples["alarm"] = samples.id % 1000 == 0
    con.execute("CREATE TABLE samples AS FROM samples")
    con.create_function("similarity", similarity)
    # SQL that comes from afar reaches no files, and cannot give itself leave to.
    con.execute("SET enable_external_access = false; SET lock_configuration = true")
    return con


# ---------------------------------------------------------------- results, in the format of docs/protocol.md, NATIVE

SAME = {  # DuckDB's name: as Arrow has it
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "VARCHAR": pa.utf8(),
    "BLOB": pa.binary(),
}


def native(name, duck, column):
    """The field and array of a COLUMN (pyarrow's) of the type DUCK (DuckDBPyType), laid out as DuckDB's vectors are."""
    kind = str(duck) if duck.id != "decimal" else "DECIMAL(%d,%d)" % (duck.children[0][1], duck.children[1][1])
    if kind in SAME:
        array = column.cast(SAME[kind])
    elif kind == "BOOLEAN":
        array = column.cast(pa.int8())
    elif kind == "HUGEINT" or duck.id == "decimal":
        # DuckDB gives 128 bits, of which a narrow DECIMAL keeps what it needs.
        bits = column.storage if isinstance(column, pa.ExtensionArray) else column
        array = pa.Array.from_buffers(pa.binary(16), len(bits), bits.buffers(), offset=bits.offset)
        width = duck.children[0][1] if duck.id == "decimal" else 38
        if width <= 18:
            narrow = pa.int16() if width <= 4 else pa.int32() if width <= 9 else pa.int64()
            low = [None if v is None else struct.unpack("<q", v[:8])[0] for v in array.to_pylist()]
            array = pa.array(low, narrow)
    elif duck.id in ("list", "map"):
        if duck.id == "list":
            child, items = native("l", duck.children[0][1], column.values)
        else:  # a list of structs
            pair = [native(n, t, v) for (n, t), v in zip(duck.children, (column.keys, column.items))]
            child = pa.field("l", pa.struct([f for f, _ in pair]), metadata={"openduck:type": "STRUCT"})
            items = pa.StructArray.from_arrays([a for _, a in pair], fields=[f for f, _ in pair])
        buffers = [column.buffers()[0], column.buffers()[1]]
        array = pa.Array.from_buffers(pa.list_(child), len(column), buffers, offset=column.offset, children=[items])
        kind = duck.id.upper()
    else:
        text = "column '%s': this worker cannot send the type %s" % (name, duck)
        raise Refused("NOT_IMPLEMENTED", pb.ERROR_KIND_BINDER, "0A000", text)
    return pa.field(name, array.type, metadata={"openduck:type": kind}), array


def payload(schema, columns=None):
    """A whole Arrow IPC stream: of one batch, or of the schema alone."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        if columns:
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return sink.getvalue().to_pybytes()


def payloads(cursor, result_format):
    """The result of what CURSOR ran, piece by piece; an empty one is its columns alone."""
    names, types = zip(*((d[0], d[1]) for d in cursor.description))
    reader = cursor.to_arrow_reader(BATCH_ROWS)
    sent = False
    for batch in reader:
        if result_format == pb.RESULT_FORMAT_NATIVE:
            pairs = [native(n, t, c) for n, t, c in zip(names, types, batch.columns)]
            yield payload(pa.schema([f for f, _ in pairs]), [a for _, a in pairs])
        else:
            yield payload(batch.schema, batch.columns)
        sent = True
    if not sent:
        empty = [native(n, t, pa.array([], f.type)) for n, t, f in zip(names, types, reader.schema)]
        plain = result_format != pb.RESULT_FORMAT_NATIVE
        yield payload(reader.schema if plain else pa.schema([f for f, _ in empty]))


def description(cursor, sql):
    """The columns that SQL would have, as fields that carry their types."""
    rows = cursor.execute("DESCRIBE " + sql).fetchall()
    return payload(pa.schema([pa.field(r[0], pa.int32(), metadata={"openduck:sql_type": r[1]}) for r in rows]))


def parameters(stream):
    """The values of a statement's parameters, by name: numbers, texts, dates, and lists of them."""
    if not stream:
        return None
    table = pa.ipc.open_stream(stream).read_all()
    return {f.name: c[0].as_py() for f, c in zip(table.schema, table.columns)}


# ---------------------------------------------------------------- the service


def kind_of(error):
    if isinstance(error, Refused):
        return error.kind
    for name in ("Catalog", "Binder", "Constraint", "Conversion", "Parser", "Permission"):
        if isinstance(error, getattr(duckdb, name + "Exception")):
            return pb.ErrorKind.Value("ERROR_KIND_" + name.upper())
    return pb.ERROR_KIND_IO


class Worker(rpc.ExecutionServiceServicer):
    """What it does not have, such as transactions, the base class answers with UNIMPLEMENTED."""

    def __init__(self):
        self.database = open_database()
        self.running = {}  # by execution id
        self.lock = threading.Lock()

    @staticmethod
    def authorize(request, context):
        if TOKEN and not hmac.compare_digest(request.access_token.encode(), TOKEN.encode()):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "invalid access_token")

    def ExecuteFragment(self, request, context):
        self.authorize(request, context)
        cursor = self.database.cursor()
        with self.lock:
            self.running[request.execution_id] = cursor
        # Also when the client is gone, or its time is over: nobody waits for the rest.
        context.add_callback(cursor.interrupt)
        try:
            for each in self.run(cursor, request):
                yield pb.ExecuteFragmentChunk(
                    arrow_batch=pb.ArrowIpcBatch(ipc_stream_payload=each), catalog_version=VERSION
                )
        except (duckdb.Error, Refused) as error:
            text = str(error)
            detail = pb.ExecuteFragmentError(kind=kind_of(error), message=text, execution_id=request.execution_id)
            if isinstance(error, Refused):
                detail.code, detail.sql_state = error.code, error.state
            yield pb.ExecuteFragmentChunk(error=text, error_detail=detail, catalog_version=VERSION)
        finally:
            with self.lock:
                self.running.pop(request.execution_id, None)
        yield pb.ExecuteFragmentChunk(finished=True)

    @staticmethod
    def run(cursor, request):
        if request.expected_catalog_version not in (0, VERSION):
            raise Refused(
                "STALE_CATALOG", pb.ERROR_KIND_CATALOG, "55006", "the tables are others than those that are known"
            )
        sql = request.plan.decode()
        reading = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
        if any(statement.type not in reading for statement in cursor.extract_statements(sql)):
            raise Refused("PERMISSION", pb.ERROR_KIND_PERMISSION, "42501", "this worker only reads")
        cursor.execute("USE " + DATABASE)
        if request.describe_only:
            yield description(cursor, sql)
            return
        cursor.execute(sql, parameters(request.parameters))
        yield from payloads(cursor, request.result_format)

    def CancelExecution(self, request, context):
        self.authorize(request, context)
        with self.lock:
            cursor = self.running.get(request.execution_id)
        if cursor:
            cursor.interrupt()
        return pb.CancelReply(acknowledged=cursor is not None)


# ---------------------------------------------------------------- its place at the gateway


def stay_registered(gateway, endpoint, stopped):
    """Registers, and says that it is still there; again if the gateway does not know it any more. Then, goodbye."""
    token = os.environ.get("OPENDUCK_WORKER_TOKEN", TOKEN)
    stub = rpc.ExecutionServiceStub(grpc.insecure_channel(gateway.removeprefix("http://")))
    registration = pb.WorkerRegistration(
        worker_id="lab-1", endpoint=endpoint, databases=[DATABASE], max_concurrency=CONCURRENCY, access_token=token
    )
    heartbeat = pb.HeartbeatRequest(worker_id="lab-1", access_token=token)
    known, pause = False, 0
    while not stopped.wait(pause):
        try:
            if known:
                known = stub.Heartbeat(heartbeat, timeout=10).acknowledged
            else:
                known = stub.RegisterWorker(registration, timeout=10).accepted
                print("registered" if known else "not accepted", flush=True)
            pause = 30 if known else 1
        except grpc.RpcError as error:
            print("gateway:", error.details(), file=sys.stderr, flush=True)
            pause = 1 if known else min(30, 2 * max(pause, 0.5))
            known = False
    heartbeat.leaving = True
    with contextlib.suppress(grpc.RpcError):
        stub.Heartbeat(heartbeat, timeout=2)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: worker.py GATEWAY")
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    pool = concurrent.futures.ThreadPoolExecutor(CONCURRENCY + 2)  # two to cancel
    server = grpc.server(pool, options=[("grpc.max_send_message_length", 64 << 20)])
    rpc.add_ExecutionServiceServicer_to_server(Worker(), server)
    endpoint = "http://127.0.0.1:%d" % server.add_insecure_port("127.0.0.1:0")
    server.start()  # it listens before it registers: the gateway asks it first
    print("ready", endpoint, flush=True)
    stay_registered(sys.argv[1], endpoint, stopped)
    server.stop(grace=5).wait()


if __name__ == "__main__":
    main()
