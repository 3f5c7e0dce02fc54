"""Typed parameters over the wire, by a grpcio client and pyarrow."""

import datetime
import decimal

import pyarrow as pa
import pytest
import services
from test_transactions import TABLES, served


@pytest.fixture(params=["serve", "stack"])
def server(request, tmp_path):
    with served(request.param, services.make_database(tmp_path / "mydb.duckdb", *TABLES)) as s:
        yield s


def row(**values):
    """Parameters: one row, a column for each."""
    table = pa.table({name.lstrip("_"): [value] for name, value in values.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_values_arrive_with_their_types(server):
    values = {
        "_1": decimal.Decimal("12.50"),
        "_2": "it's $1",
        "_3": datetime.date(2024, 2, 29),
        "_4": [1, None, 3],
        "_5": {"a": 1, "b": None},
        "_6": None,
        "_7": b"\x00\xff",
    }
    with server.client() as c:
        assert c.rows(
            "SELECT typeof($1), $1 = 12.5, $2, typeof($3), $4, $5.a, $6 IS NULL, octet_length($7)",
            parameters=row(**values),
        ) == [("DECIMAL(4,2)", True, "it's $1", "DATE", [1, None, 3], 1, True, 2)]


def test_a_statement_is_run_with_other_values(server):
    with server.client() as c:
        for i in range(20):
            c.run("INSERT INTO t VALUES (?, ?)", parameters=row(_1=i, _2="value %d" % i)).rows()
        for i in range(20):
            assert c.rows("SELECT v FROM t WHERE i = $which", parameters=row(which=i)) == [("value %d" % i,)]


def test_in_a_transaction(server):
    with server.client() as c:
        t = c.begin()
        c.do("INSERT INTO t VALUES (?, ?)", parameters=row(_1=1, _2="a"), transaction_id=t)
        assert c.do("SELECT v FROM t WHERE i = ?", parameters=row(_1=1), transaction_id=t) == [("a",)]
        with pytest.raises(services.Refused, match="Values were not provided for the following"):
            c.do("SELECT $1", transaction_id=t)
        c.commit(t)
        assert c.rows("SELECT count(*) FROM t WHERE v = ?", parameters=row(_1="a")) == [(1,)]


def test_wrong_ones(server):
    with server.client() as c:
        for sql, parameters, text in (
            ("SELECT $1, $2", row(_1=1), "Values were not provided for the following prepared statement parameters: 2"),
            ("SELECT $a", row(a=1, b=2), "identifiers of the excess parameters: b"),
            ("SELECT 1; SELECT $1", row(_1=1), "parameters can be given to a single statement"),
            ("SELECT $1", b"nonsense", "the parameters cannot be read"),
        ):
            with pytest.raises(services.Refused, match=text.replace("$", r"\$")):
                c.do(sql, parameters=parameters)
        server.assert_usable()
