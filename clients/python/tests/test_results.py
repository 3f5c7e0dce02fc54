"""The connection is DuckDB's own: every way to take rows, and rows of Python's own beside them."""

import duckdb
import pandas
import polars
import pyarrow
import pytest

QUERY = "SELECT i, s FROM t WHERE i < 3 ORDER BY i"
ROWS = [(0, "s0"), (1, "s1"), (2, "s2")]


def test_it_is_duckdbs_connection(con):
    assert type(con) is duckdb.DuckDBPyConnection
    assert duckdb.sql("SELECT count(*) FROM t", connection=con).fetchall() == [(1000,)]


def test_fetch(con):
    assert con.execute(QUERY).fetchall() == ROWS
    assert con.execute(QUERY).fetchone() == ROWS[0]
    cursor = con.execute(QUERY)
    assert [cursor.fetchmany(2), cursor.fetchmany(2)] == [ROWS[:2], ROWS[2:]]
    assert [d[0] for d in con.description] == ["i", "s"]


def test_relations(con):
    relation = con.sql(QUERY)
    assert relation.columns == ["i", "s"]
    assert relation.filter("i > 0").order("i DESC").fetchall() == [ROWS[2], ROWS[1]]
    assert con.table("t").aggregate("sum(i)").fetchall() == [(499500,)]


def test_frames(con):
    assert list(con.sql(QUERY).df().itertuples(index=False, name=None)) == ROWS
    assert con.sql(QUERY).pl().rows() == ROWS
    assert con.sql(QUERY).to_arrow_table().to_pydict() == {"i": [0, 1, 2], "s": ["s0", "s1", "s2"]}
    assert con.execute(QUERY).fetchnumpy()["i"].tolist() == [0, 1, 2]
    assert con.execute("FROM t").to_arrow_reader(100).read_next_batch().num_rows == 100


def test_a_frame_of_the_caller_joins(con):
    wanted = pandas.DataFrame({"i": [7, 8]})
    assert con.sql("SELECT s FROM t JOIN wanted USING (i) ORDER BY s").fetchall() == [("s7",), ("s8",)]
    other = polars.DataFrame({"i": [9]})
    assert con.sql("SELECT s FROM t JOIN other USING (i)").fetchall() == [("s9",)]
    con.register("arrow_rows", pyarrow.table({"i": [10]}))
    assert con.sql("SELECT s FROM t JOIN arrow_rows USING (i)").fetchall() == [("s10",)]
    assert wanted is not None and other is not None


def test_readers_of_other_libraries(con):
    assert polars.read_database(QUERY, con).rows() == ROWS
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        assert list(pandas.read_sql(QUERY, con).itertuples(index=False, name=None)) == ROWS


def test_parameters(con):
    assert con.execute("SELECT s FROM t WHERE i = ?", [5]).fetchall() == [("s5",)]
    assert con.execute("SELECT s FROM t WHERE i = $n", {"n": 6}).fetchall() == [("s6",)]


def test_errors_are_duckdbs(con):
    for sql, kind in (
        ("FROM nosuch", duckdb.CatalogException),
        ("SELECT nosuch FROM t", duckdb.BinderException),
        ("SELEC 1", duckdb.ParserException),
        ("SELECT s::INTEGER FROM t", duckdb.ConversionException),
    ):
        with pytest.raises(kind):
            con.execute(sql).fetchall()
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(1000,)]
