"""A server that is not ours: grpcio, pyarrow payloads, a real DuckDB behind it, and lies where a test asks for them.

NATIVE payloads (docs/protocol.md) are built here by pyarrow from Python values, so that what reads them is held
against an
independent writer.
"""

import concurrent.futures
import datetime
import itertools
import struct
import threading

import grpc
import pyarrow as pa
import services

EPOCH = datetime.datetime(1970, 1, 1)
FIXED = {
    "tinyint": ("TINYINT", pa.int8()),
    "smallint": ("SMALLINT", pa.int16()),
    "integer": ("INTEGER", pa.int32()),
    "bigint": ("BIGINT", pa.int64()),
    "utinyint": ("UTINYINT", pa.uint8()),
    "usmallint": ("USMALLINT", pa.uint16()),
    "uinteger": ("UINTEGER", pa.uint32()),
    "ubigint": ("UBIGINT", pa.uint64()),
    "float": ("FLOAT", pa.float32()),
    "double": ("DOUBLE", pa.float64()),
}


def _int128(value, flip=False):
    return struct.pack("<QQ", value & (2**64 - 1), ((value >> 64) & (2**64 - 1)) ^ (flip << 63))


def native(duck_type):
    """(signature, Arrow type, value converter) of a DuckDBPyType; the types that tests need."""
    kind = duck_type.id
    if kind in FIXED:
        return (*FIXED[kind], None)
    if kind == "boolean":
        return "BOOLEAN", pa.int8(), int
    if kind == "varchar":
        return "VARCHAR", pa.utf8(), None
    if kind == "blob":
        return "BLOB", pa.binary(), None
    if kind == "hugeint":
        return "HUGEINT", pa.binary(16), _int128
    if kind == "uuid":
        return "UUID", pa.binary(16), lambda v: _int128(v.int, True)
    if kind == "date":
        return "DATE", pa.date32(), None
    if kind == "timestamp":
        return "TIMESTAMP", pa.timestamp("us"), None
    if kind == "decimal":
        width, scale = duck_type.children[0][1], duck_type.children[1][1]
        sized = [(4, pa.int16()), (9, pa.int32()), (18, pa.int64()), (38, pa.binary(16))]
        arrow = next(a for w, a in sized if width <= w)
        return (
            "DECIMAL(%d,%d)" % (width, scale),
            arrow,
            lambda v: _int128(int(v.scaleb(scale))) if width > 18 else int(v.scaleb(scale)),
        )
    if kind == "list":
        child = native(duck_type.children[0][1])
        convert = None if child[2] is None else lambda v: [None if x is None else child[2](x) for x in v]
        return "LIST", pa.list_(_field("l", child)), convert
    if kind == "struct":
        children = [(name, native(t)) for name, t in duck_type.children]
        return (
            "STRUCT",
            pa.struct([_field(n, c) for n, c in children]),
            lambda v: {n: None if v[n] is None else (c[2](v[n]) if c[2] else v[n]) for n, c in children},
        )
    if kind == "map":
        (_, key), (_, value) = duck_type.children
        parts = [("key", native(key)), ("value", native(value))]
        pairs = ("STRUCT", pa.struct([_field(n, c) for n, c in parts]), None)

        def entries(v):
            both = [dict(zip(("key", "value"), pair)) for pair in v.items()]
            return [{n: d[n] if d[n] is None or not c[2] else c[2](d[n]) for n, c in parts} for d in both]

        return "MAP", pa.list_(_field("l", pairs)), entries
    if kind == '"null"':
        return "NULL", pa.int32(), None
    raise NotImplementedError("native %s" % duck_type)


def _field(name, parts):
    return pa.field(name, parts[1], metadata={"openduck:type": parts[0]})


def native_table(names, types, rows):
    """One record batch of ROWS."""
    parts = [native(t) for t in types]
    schema = pa.schema([_field(n, p) for n, p in zip(names, parts)])
    columns = []
    for i, (_, arrow, convert) in enumerate(parts):
        values = [None if r[i] is None else (convert(r[i]) if convert else r[i]) for r in rows]
        columns.append(pa.array(values, arrow))
    return pa.record_batch(columns, schema=schema)


def ipc(schema, batches=(), align=64):
    """A whole IPC stream, buffers padded to ALIGN and each batch's body at a multiple of it from the stream's start."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(use_threads=False)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return aligned(sink.getvalue().to_pybytes(), align)


def aligned(stream, align=64):
    """Grows the padding of each message's metadata, so that its body begins at a multiple of ALIGN."""
    out, at = b"", 0
    while at + 8 <= len(stream):
        mark, size = struct.unpack_from("<II", stream, at)
        if size == 0:
            break
        metadata = stream[at + 8 : at + 8 + size]
        body = pa.ipc.read_message(pa.BufferReader(stream[at:])).body
        length = 0 if body is None else body.size
        pad = -(len(out) + 8 + size) % align
        out += struct.pack("<II", mark, size + pad) + metadata + b"\0" * pad + stream[at + 8 + size :][:length]
        out += b"\0" * (-len(out) % 8)
        at += 8 + size + length
    return out + struct.pack("<II", 0xFFFFFFFF, 0)


class FakeServer:
    """Answers ExecuteFragment with what `behave(request, answer)` yields; by default what a right server would.

    With CREDENTIALS (grpc.ssl_server_credentials) it speaks TLS.

    `answer(request)` is that default: chunks of a real DuckDB's result, in the format that was asked for. Yielded
    items are
    chunks, or bytes sent as they are. What was asked is in `requests`."""

    def __init__(self, *statements, behave=None, rows_per_payload=2048, credentials=None):
        import duckdb

        self.db = duckdb.connect(config={"storage_compatibility_version": "latest"})
        self.db.execute("ATTACH ':memory:' AS mydb; USE mydb")
        for sql in statements:
            self.db.execute(sql)
        self.behave = behave
        self.rows_per_payload = rows_per_payload
        self.requests = []
        self.cancelled = []
        self.gone = threading.Event()
        self.version = 7
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(16), options=services.CHANNEL_OPTIONS)
        self.server.add_generic_rpc_handlers((_Handler(self),))
        if credentials:
            self.url = "https://127.0.0.1:%d" % self.server.add_secure_port("127.0.0.1:0", credentials)
        else:
            self.url = "http://127.0.0.1:%d" % self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()
        self.db.close()

    # ---- what a right server does
    def answer(self, request):
        pb = services.stubs()
        try:
            payloads = list(self._payloads(request))
        except Exception as e:
            yield from self.fail(str(e), kind_of(e))
            return
        for payload in payloads:
            yield self.chunk(payload)
        yield pb.ExecuteFragmentChunk(finished=True)

    def _payloads(self, request):
        con = self.db.cursor()
        con.execute("USE " + (request.database or "mydb"))
        sql = request.plan.decode()
        pb = services.stubs()
        if request.describe_only:
            described = con.execute("DESCRIBE " + sql).fetchall()
            fields = [pa.field(r[0], pa.int32(), metadata={"openduck:sql_type": r[1]}) for r in described]
            yield ipc(pa.schema(fields))
            return
        result = con.execute(sql)
        if request.result_format != pb.RESULT_FORMAT_NATIVE:
            table = result.to_arrow_table()
            for at in range(0, max(1, table.num_rows), self.rows_per_payload):
                yield ipc(table.schema, table.slice(at, self.rows_per_payload).combine_chunks().to_batches())
            return
        names = [d[0] for d in result.description]
        types = [d[1] for d in result.description]
        rows = iter(result.fetchall())
        while True:
            some = list(itertools.islice(rows, self.rows_per_payload))
            batch = native_table(names, types, some)
            yield ipc(batch.schema, [batch] if some else [])
            if len(some) < self.rows_per_payload:
                return

    # ---- pieces for behaviours
    def chunk(self, payload):
        pb = services.stubs()
        return pb.ExecuteFragmentChunk(
            arrow_batch=pb.ArrowIpcBatch(ipc_stream_payload=payload), catalog_version=self.version
        )

    @staticmethod
    def fail(text, kind=8, code="", state="", typed=True):
        pb = services.stubs()
        chunk = pb.ExecuteFragmentChunk(error=text)
        if typed:
            chunk.error_detail.kind = kind
            chunk.error_detail.message = text
            if state:
                chunk.error_detail.sql_state = state
            chunk.error_detail.code = code
        yield chunk
        yield pb.ExecuteFragmentChunk(finished=True)

    @staticmethod
    def finished():
        return services.stubs().ExecuteFragmentChunk(finished=True)


def kind_of(e):
    """The wire's kind of a DuckDB exception."""
    pb = services.stubs()
    names = {
        "CatalogException": "CATALOG",
        "BinderException": "BINDER",
        "ConstraintException": "CONSTRAINT",
        "ConversionException": "CONVERSION",
        "ParserException": "PARSER",
    }
    return pb.ErrorKind.Value("ERROR_KIND_" + names.get(type(e).__name__, "INTERNAL"))


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, fake):
        self.fake = fake

    def service(self, details):
        pb = services.stubs()
        fake = self.fake
        name = details.method.rsplit("/", 1)[1]

        def execute(raw, context):
            request = pb.ExecuteFragmentRequest.FromString(raw)
            fake.requests.append(request)
            context.add_callback(fake.gone.set)
            items = fake.behave(request, fake.answer) if fake.behave else fake.answer(request)
            for item in items:
                if isinstance(item, grpc.StatusCode):
                    context.abort(item, "as the test asked")
                yield item if isinstance(item, bytes) else item.SerializeToString()

        def cancel(raw, _):
            fake.cancelled.append(pb.CancelRequest.FromString(raw).execution_id)
            return pb.CancelReply(acknowledged=True).SerializeToString()

        if name == "ExecuteFragment":
            return grpc.unary_stream_rpc_method_handler(execute)
        if name == "CancelExecution":
            return grpc.unary_unary_rpc_method_handler(cancel)
        return None
