"""Writing through the connection as with a local DuckDB: what holds there is tried there too."""

import datetime
import decimal
import threading

import duckdb
import openduck
import pandas
import polars
import pyarrow
import pytest


@pytest.fixture(params=["server", "local"])
def db(request):
    """A connection to write with, and a second one that sees what the first has committed: what holds of a local
    DuckDB holds of a server's."""
    if request.param == "local":
        con = duckdb.connect()
        other = con.cursor()
    else:
        url = request.getfixturevalue("server").url
        con = openduck.connect("sales", endpoint=url, threads=2)
        other = openduck.connect("sales", endpoint=url, threads=1)
    con.execute("CREATE OR REPLACE TABLE w(i INTEGER PRIMARY KEY, s VARCHAR DEFAULT 'none')")
    yield con, other
    con.close()
    other.close()


def rows(con, table="w"):
    return con.execute(f"FROM {table} ORDER BY ALL").fetchall()


def test_rows_of_every_form_of_insert(db):
    con, other = db
    con.execute("INSERT INTO w VALUES (1, 'a'), (2, 'b')")
    con.execute("INSERT INTO w (i) VALUES (3)")
    con.execute("INSERT INTO w BY NAME SELECT 'd' AS s, 4 AS i")
    con.execute("INSERT OR IGNORE INTO w VALUES (1, 'again')")
    con.execute("INSERT OR REPLACE INTO w VALUES (2, 'again')")
    assert con.execute("INSERT INTO w VALUES (5, 'e') RETURNING i, s").fetchall() == [(5, "e")]
    assert rows(other) == [(1, "a"), (2, "again"), (3, "none"), (4, "d"), (5, "e")]


def test_counts(db):
    con, _ = db
    assert con.execute("INSERT INTO w SELECT range, 'x' FROM range(100)").fetchall() == [(100,)]
    assert con.execute("UPDATE w SET s = 'y' WHERE i < 10").fetchall() == [(10,)]
    assert con.execute("DELETE FROM w WHERE s = 'x'").fetchall() == [(90,)]


def test_parameters(db):
    con, other = db
    con.execute("INSERT INTO w VALUES (?, ?)", [1, "it's"])
    con.execute("INSERT INTO w VALUES ($i, $s)", {"i": 2, "s": None})
    con.execute("UPDATE w SET s = $1 WHERE i = $2", ["new", 2])
    con.execute("DELETE FROM w WHERE i = ?", [99])
    assert rows(other) == [(1, "it's"), (2, "new")]


def test_executemany(db):
    con, other = db
    con.executemany("INSERT INTO w VALUES (?, ?)", [[i, f"n{i}"] for i in range(20)])
    con.executemany("UPDATE w SET s = ? WHERE i = ?", [["u", i] for i in range(10)])
    assert rows(other) == [(i, "u" if i < 10 else f"n{i}") for i in range(20)]


def test_values_of_many_types(db):
    con, other = db
    con.execute(
        "CREATE OR REPLACE TABLE v(a BOOLEAN, b BIGINT, c DOUBLE, d DECIMAL(9,2), e VARCHAR, f BLOB, g DATE, "
        "h TIMESTAMP, j INTEGER[], k STRUCT(x INTEGER, y VARCHAR), l UUID)"
    )
    values = [
        True,
        -(2**62),
        0.1,
        decimal.Decimal("1.25"),
        "ü\U0001f986",
        b"\0\xff",
        datetime.date(2026, 2, 28),
        datetime.datetime(2026, 2, 28, 1, 2, 3, 4),
        [1, None, 3],
        {"x": 1, "y": None},
        "12345678-1234-5678-1234-567812345678",
    ]
    con.execute(f"INSERT INTO v VALUES ({', '.join('?' * len(values))})", values)
    got = other.execute("FROM v").fetchone()
    assert got[:-1] == tuple(values[:-1]) and str(got[-1]) == values[-1]


# ---------------------------------------------------------------- frames


def test_frames_go_in(db):
    con, other = db
    frame = pandas.DataFrame({"i": [1, 2], "s": ["a", "b"]})
    con.execute("INSERT INTO w SELECT * FROM frame")
    con.append("w", pandas.DataFrame({"i": [3], "s": ["c"]}))
    con.append("w", pandas.DataFrame({"s": ["d"], "i": [4]}), by_name=True)
    lazy = polars.DataFrame({"i": [5], "s": ["e"]})
    con.execute("INSERT INTO w BY NAME FROM lazy")
    con.register("arrow_rows", pyarrow.table({"i": [6], "s": ["f"]}))
    con.execute("INSERT INTO w FROM arrow_rows")
    con.unregister("arrow_rows")
    assert rows(other) == [(i + 1, "abcdef"[i]) for i in range(6)]
    assert frame is not None and lazy is not None


def test_frames_become_tables(db):
    con, other = db
    frame = polars.DataFrame({"i": range(5000), "s": [f"s{i}" for i in range(5000)]})
    con.execute("CREATE OR REPLACE TABLE made AS FROM frame")
    con.from_arrow(frame.to_arrow()).insert_into("made")
    assert other.execute("SELECT count(*), sum(i), count(DISTINCT s) FROM made").fetchall() == [
        (10000, 2 * sum(range(5000)), 5000)
    ]
    con.execute("DROP TABLE made")
    con.from_df(pandas.DataFrame({"i": [1]})).create("made")
    assert rows(other, "made") == [(1,)]


def test_update_and_delete_by_a_frame(db):
    con, other = db
    con.execute("INSERT INTO w SELECT range, 'old' FROM range(10)")
    changes = pandas.DataFrame({"i": [1, 2], "s": ["x", "y"]})
    gone = pandas.DataFrame({"i": [0, 9]})
    con.execute("UPDATE w SET s = changes.s FROM changes WHERE w.i = changes.i")
    con.execute("DELETE FROM w USING gone WHERE w.i = gone.i")
    assert rows(other) == [(1, "x"), (2, "y")] + [(i, "old") for i in range(3, 9)]
    assert changes is not None and gone is not None


def test_relations_write(db):
    con, other = db
    con.values([1, "a"]).insert_into("w")
    con.table("w").insert([2, "b"])
    con.table("w").update({"s": duckdb.ConstantExpression("c")}, condition=duckdb.ColumnExpression("i") == 2)
    con.sql("FROM w WHERE i > 1").create("made2")
    con.execute("DELETE FROM w WHERE i = 1")
    con.sql("SELECT i + 1 AS j FROM w").create_view("seen")
    con.sql("SELECT i + 2 AS j FROM w").create_view("seen", replace=True)
    assert [rows(other), rows(other, "made2"), rows(other, "seen")] == [[(2, "c")], [(2, "c")], [(4,)]]
    with pytest.raises(duckdb.CatalogException, match="already exists"):
        con.sql("FROM w").create_view("seen", replace=False)
    con.begin()
    con.sql("FROM w").create_view("inside")
    assert rows(con, "inside") == [(2, "c")]
    con.rollback()
    with pytest.raises(duckdb.CatalogException, match="inside"):
        rows(other, "inside")
    con.execute("DROP VIEW seen")
    con.execute("DROP TABLE made2")


def test_a_function_of_this_side_computes_what_is_written(db):
    con, other = db
    con.execute("INSERT INTO w (i) VALUES (1), (2), (3)")
    con.create_function("shout", lambda i: "!" * i, ["INTEGER"], "VARCHAR")
    con.execute("UPDATE w SET s = shout(i)")
    con.execute("DELETE FROM w WHERE shout(i) = '!!'")
    assert con.execute("INSERT INTO w SELECT i + 10, shout(i) FROM w RETURNING i").fetchall() == [(11,), (13,)]
    assert rows(other) == [(1, "!"), (3, "!!!"), (11, "!"), (13, "!!!")]


def test_files_are_those_of_this_side(db, tmp_path):
    con, other = db
    con.execute("INSERT INTO w SELECT range, 's' || range FROM range(2000)")
    con.execute(f"COPY w TO '{tmp_path}/w.csv'")
    con.execute(f"COPY (FROM w WHERE i < 100) TO '{tmp_path}/w.parquet'")
    con.execute("DELETE FROM w")
    con.execute(f"COPY w FROM '{tmp_path}/w.csv'")
    assert other.execute("SELECT count(*), sum(i) FROM w").fetchone() == (2000, sum(range(2000)))
    con.execute(f"CREATE OR REPLACE TABLE made AS FROM '{tmp_path}/w.parquet'")
    con.execute(f"UPDATE w SET s = 'x' FROM '{tmp_path}/w.parquet' p WHERE w.i = p.i")
    assert other.execute("SELECT (SELECT count(*) FROM made), count(*) FROM w WHERE s = 'x'").fetchone() == (100, 100)


def test_an_interrupted_write_leaves_nothing(db):
    con, other = db
    con.execute("CREATE OR REPLACE TABLE target(i BIGINT)")
    over = threading.Event()

    def interrupt():
        while not over.wait(0.2):
            con.interrupt()

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    with pytest.raises(duckdb.InterruptException):
        # Without an end that a test would see: only the interrupt ends it.
        con.execute("INSERT INTO target SELECT a.range FROM range(10000000000) a")
    over.set()
    thread.join()
    assert rows(other, "target") == []
    con.execute("INSERT INTO target VALUES (1)")
    assert rows(other, "target") == [(1,)]


# ---------------------------------------------------------------- transactions


def test_commit_and_rollback(db):
    con, other = db
    con.begin()
    con.execute("INSERT INTO w VALUES (1, 'a')")
    assert rows(con) == [(1, "a")]
    assert rows(other) == []
    con.commit()
    assert rows(other) == [(1, "a")]
    con.begin()
    con.execute("DELETE FROM w")
    assert rows(con) == []
    con.rollback()
    assert rows(con) == rows(other) == [(1, "a")]


def test_an_error_ends_the_transaction(db):
    con, other = db
    con.begin()
    con.execute("INSERT INTO w VALUES (1, 'a')")
    with pytest.raises(duckdb.ConstraintException):
        con.execute("INSERT INTO w VALUES (1, 'b')")
    con.commit()  # of an aborted transaction: DuckDB rolls it back
    assert rows(other) == []
    con.execute("INSERT INTO w VALUES (2, 'c')")
    assert rows(other) == [(2, "c")]


def test_a_conflict_is_a_transaction_exception(db):
    con, other = db
    con.execute("INSERT INTO w VALUES (1, 'a')")
    con.begin()
    other.begin()
    con.execute("UPDATE w SET s = 'mine' WHERE i = 1")
    with pytest.raises(duckdb.TransactionException):
        other.execute("UPDATE w SET s = 'theirs' WHERE i = 1")
    other.rollback()
    con.commit()
    assert rows(other) == [(1, "mine")]


def test_closing_rolls_back(db):
    con, other = db
    cursor = con.cursor()
    with cursor:
        cursor.begin()
        cursor.execute("INSERT INTO w VALUES (1, 'a')")
    assert rows(other) == []
    assert rows(con) == []


def test_errors_are_duckdbs(db):
    con, other = db
    con.execute("INSERT INTO w VALUES (1, 'a')")
    for sql, kind in (
        ("INSERT INTO w VALUES (1, 'b')", duckdb.ConstraintException),
        ("INSERT INTO w VALUES (NULL, 'b')", duckdb.ConstraintException),
        ("INSERT INTO w VALUES ('x', 'b')", duckdb.ConversionException),
        ("INSERT INTO w VALUES (2)", duckdb.BinderException),
        ("INSERT INTO nosuch VALUES (2)", duckdb.CatalogException),
        ("UPDATE w SET nosuch = 1", duckdb.BinderException),
        ("CREATE TABLE w(i INTEGER)", duckdb.CatalogException),
    ):
        with pytest.raises(kind):
            con.execute(sql)
        assert rows(other) == [(1, "a")], sql


# ---------------------------------------------------------------- only with a server


def test_threads_write_with_a_cursor_each(con, server):
    con.execute("CREATE OR REPLACE TABLE many(thread INTEGER, i INTEGER)")
    errors = []

    def work(cursor, n):
        try:
            for i in range(25):
                cursor.execute("INSERT INTO many VALUES (?, ?)", [n, i])
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(con.cursor(), n)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert con.execute("SELECT thread, count(DISTINCT i) FROM many GROUP BY ALL ORDER BY ALL").fetchall() == [
        (n, 25) for n in range(4)
    ]


def test_read_only_refuses_writing(server):
    with openduck.connect("sales", endpoint=server.url, read_only=True) as con:
        assert con.execute("SELECT count(*) FROM t").fetchone() == (1000,)
        with pytest.raises(duckdb.InvalidInputException, match="read-only"):
            con.execute("INSERT INTO one VALUES (2)")
        with pytest.raises(duckdb.InvalidInputException, match="read-only"):
            con.table("one").create_view("nothing")
        con.execute("CREATE TABLE memory.mine AS SELECT i FROM one")
        assert rows(con, "memory.mine") == [(1,)]


def test_a_view_at_the_server_sees_nothing_of_this_side(con):
    con.execute("CREATE TABLE memory.mine AS SELECT 1 AS i")
    with pytest.raises(duckdb.BinderException, match="mine"):
        con.table("memory.mine").create_view("over_mine")
    assert con.table("memory.mine").query("mine_here", "SELECT count(*) FROM mine_here").fetchall() == [(1,)]


def test_a_local_file_goes_up_and_comes_down(server, tmp_path):
    with openduck.connect("sales", endpoint=server.url, local=tmp_path / "notes.duckdb") as con:
        con.execute("CREATE TABLE notes.n AS SELECT range AS i, 'n' || range AS s FROM range(3000)")
        con.execute("CREATE OR REPLACE TABLE up AS FROM notes.n")
        con.execute("INSERT INTO notes.n SELECT i + 3000, s FROM up")
        assert con.execute("SELECT count(*), sum(i) FROM notes.n").fetchone() == (6000, sum(range(6000)))
