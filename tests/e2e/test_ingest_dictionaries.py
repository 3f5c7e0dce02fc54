"""Texts that are sent as indices into dictionaries (docs/protocol.md, NATIVE): by pyarrow, into a table and through a
statement; and by the extension, from tables whose storage has dictionaries."""

import duckdb
import pyarrow as pa
import pytest
import services
from test_metrics import read

INGEST = {"rpc_service": "openduck.v1.ExecutionService", "rpc_method": "IngestData"}
COLUMNS = [("i", "BIGINT"), ("v", "VARCHAR"), ("b", "BLOB")]
WORDS = [b"", b"a", b"twelve bytes", b"more than twelve bytes", "größe".encode()]
BLOBS = [b"\x00\xff", b"\xfe" * 300]


@pytest.fixture(scope="module", params=["serve", "stack"])
def server(request, tmp_path_factory):
    path = services.make_database(tmp_path_factory.mktemp("dictionaries") / "mydb.duckdb", "CREATE TABLE t (i INTEGER)")
    start = services.Serve if request.param == "serve" else services.Stack
    with start({"mydb": path}) as s:
        yield s


def field(name, type_, signature):
    return pa.field(name, type_, metadata={"openduck:type": signature})


def indexed(rows, v, b, dictionaries, *, index=None, values=None):
    """One payload of ROWS rows: V and B are the indices of its texts, None for NULL."""
    index, values = index or pa.uint16(), values or pa.binary()
    schema = [field("i", pa.int64(), "BIGINT"), field("v", index, "VARCHAR"), field("b", index, "BLOB")]
    arrays = [pa.array(range(rows), pa.int64()), pa.array(v, index), pa.array(b, index)]
    if dictionaries is not None:
        schema.append(pa.field("openduck:dictionaries", pa.list_(pa.field("l", values))))
        arrays.append(pa.array(dictionaries + [[]] * (rows - len(dictionaries)), pa.list_(pa.field("l", values))))
    return stream(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(schema)))


def stream(batch):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.fixture(params=["table", "statement"])
def send(request, server, pb):
    """Sends payloads in a transaction, and gives the rows that have come."""

    def sent(payloads, columns=COLUMNS):
        statement = {"statement": "CREATE TABLE made AS FROM stage"} if request.param == "statement" else {}
        with server.client() as c:
            t = c.begin()
            try:
                c.ingest(t, "stage", columns, payloads, format=pb.RESULT_FORMAT_NATIVE, **statement)
                return c.do("FROM %s" % ("made" if statement else "stage"), transaction_id=t)
            finally:
                c.rollback(t)

    return sent


def test_indices_become_their_values(send):
    rows = 5000
    v = [None if i % 7 == 0 else i % len(WORDS) for i in range(rows)]
    b = [i // 2500 for i in range(rows)]
    other = [w + b" of another dictionary" for w in reversed(WORDS)]
    got = send([indexed(rows, v, b, [WORDS, BLOBS]), indexed(rows, v, b, [other, BLOBS])])
    for at, words in ((0, WORDS), (rows, other)):
        assert sorted(got[at : at + rows], key=lambda row: row[0]) == [
            (i, None if v[i] is None else words[v[i]].decode(), BLOBS[b[i]]) for i in range(rows)
        ]


def test_of_what_is_null_no_index_is_read(send):
    rows = 3
    schema = [field("i", pa.int64(), "BIGINT"), field("v", pa.uint16(), "VARCHAR"), field("b", pa.uint16(), "BLOB")]
    schema.append(pa.field("openduck:dictionaries", pa.list_(pa.field("l", pa.binary()))))
    wild = pa.Array.from_buffers(
        pa.uint16(), rows, [pa.py_buffer(b"\x05"), pa.array([0, 65535, 1], pa.uint16()).buffers()[1]]
    )
    lists = pa.array([[b"x", b"y"], [b"z"], []], schema[3].type)
    arrays = [pa.array(range(rows), pa.int64()), wild, pa.array([0] * rows, pa.uint16()), lists]
    got = send([stream(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(schema)))])
    assert got == [(0, "x", b"z"), (1, None, b"z"), (2, "y", b"z")]


BAD = {
    "an index outside": (indexed(3, [0, 1, 5], [0, 0, 0], [WORDS, BLOBS]), "CORRUPT"),
    "no dictionary of the second": (indexed(3, [0, 1, 2], [0, 0, 0], [WORDS]), "CORRUPT"),
    "fewer rows than dictionaries": (indexed(1, [0], [0], [WORDS]), "CORRUPT"),
    "no UTF-8": (indexed(3, [0, 0, 0], [0, 0, 0], [[b"\xff\xfe"], BLOBS]), "CORRUPT"),
    "no UTF-8 where no index points": (indexed(3, [0, 0, 0], [0, 0, 0], [[b"", b"\xff\xfe"], BLOBS]), "CORRUPT"),
    "too many values": (indexed(3, [0, 0, 0], [0, 0, 0], [[b"x"] * 65537, BLOBS]), "CORRUPT"),
    "indices without dictionaries": (indexed(3, [0, 0, 0], [0, 0, 0], None), "INVALID"),
    "wider indices": (indexed(3, [0, 0, 0], [0, 0, 0], [WORDS, BLOBS], index=pa.uint32()), "INVALID"),
    "values of another kind": (indexed(3, [0, 0, 0], [0, 0, 0], [[1], [2]], values=pa.int64()), "INVALID"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_damaged_is_refused(send, name):
    payload, code = BAD[name]
    with pytest.raises(services.Refused) as e:
        send([payload])
    assert e.value.code == code, e.value


def test_only_texts_at_the_top_are_indexed(send):
    """Below, and of other types, an index would be taken for the value."""
    lists = pa.list_(pa.field("l", pa.binary()))
    for array, signature, kind in (
        (pa.array([{"a": 0}], pa.struct([field("a", pa.uint16(), "VARCHAR")])), "STRUCT", "STRUCT(a VARCHAR)"),
        (pa.array([0], pa.uint16()), "INTEGER", "INTEGER"),
    ):
        schema = pa.schema([field("v", array.type, signature), pa.field("openduck:dictionaries", lists)])
        with pytest.raises(services.Refused) as e:
            send([stream(pa.RecordBatch.from_arrays([array, pa.array([[b"x"]], lists)], schema=schema))], [("v", kind)])
        assert e.value.code == "INVALID", e.value


# ---------------------------------------------------------------- the extension

SOURCE = """CREATE TABLE src.l AS SELECT i,
 CASE WHEN i % 11 = 0 THEN NULL ELSE ['up', 'down', 'a value longer than twelve bytes', ''][1 + i % 4] END AS few,
 ('größe ' || i % 300 || repeat('x', i % 20)) AS more, 'each is another ' || md5(i::VARCHAR) AS many,
 CASE WHEN i < 122880 THEN 'first ' || i % 3 WHEN i < 245760 THEN md5(i::VARCHAR) ELSE 'last ' || i % 900 END AS varied,
 encode('blob ' || i % 5) AS blob, [i % 2] AS list FROM range(300000) r(i)"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A file of tables that storage has compressed: in memory there are no dictionaries."""
    path = tmp_path_factory.mktemp("source") / "source.duckdb"
    with duckdb.connect() as c:
        c.execute("ATTACH '%s' AS src" % path)
        c.execute(SOURCE)
        c.execute("CHECKPOINT src")
    return path


@pytest.fixture
def con(server, source):
    with services.attached(server) as c:
        c.execute("ATTACH '%s' AS src (READ_ONLY)" % source)
        c.execute("CREATE TABLE cloud.t2 AS FROM src.l LIMIT 0")
        yield c
        c.execute("DROP TABLE cloud.t2")


@pytest.mark.extension
@pytest.mark.parametrize(
    "rows", ["FROM src.l", "FROM src.l WHERE i % 3 = 0", "FROM src.l LIMIT 300", "FROM src.l ORDER BY i DESC"]
)
def test_rows_arrive_as_they_are(con, rows):
    con.execute("INSERT INTO cloud.t2 " + rows)
    sums = "SELECT count(*), bit_xor(hash(t)), sum(hash(t)) FROM (%s) t"
    assert con.execute(sums % "FROM cloud.t2").fetchall() == con.execute(sums % rows).fetchall()


@pytest.mark.extension
def test_dictionaries_of_several_row_groups_go_in_one_payload(con):
    """A MiB of indices is more rows than a row group has, and each group has a dictionary of its own."""
    con.execute("SET preserve_insertion_order = false")
    con.execute("CREATE TABLE cloud.narrow AS SELECT more, blob FROM src.l")
    counts = "SELECT more, blob, count(*) FROM %s GROUP BY ALL ORDER BY ALL"
    assert con.execute(counts % "cloud.narrow").fetchall() == con.execute(counts % "src.l").fetchall()
    con.execute("DROP TABLE cloud.narrow")


@pytest.mark.extension
def test_fewer_bytes_are_sent(source):
    """Texts of 7 to 26 bytes, three a row: as indices they take two each."""
    with services.Serve({"mydb": ":memory:"}, "--metrics-listen", "127.0.0.1:0") as s, services.attached(s) as c:
        c.execute("ATTACH '%s' AS src (READ_ONLY)" % source)
        c.execute("CREATE TABLE cloud.t (a VARCHAR, b VARCHAR, c BLOB)")
        c.execute("INSERT INTO cloud.t SELECT more, more, blob FROM src.l WHERE i > 0")
        text = c.execute("SELECT sum(12 + 2 * strlen(more) + octet_length(blob)) FROM src.l").fetchone()[0]
        received = read(s).get("openduck_rpc_server_received_bytes_total", **INGEST)
    assert 300000 * 6 < received < text / 3
