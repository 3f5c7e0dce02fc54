"""Where written rows come from: files, appenders, Python objects, relations, whole databases."""

import duckdb
import pytest
import services
from test_write_rows import rows

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE SEQUENCE s START 100",
    "CREATE TABLE t (i INTEGER PRIMARY KEY, v VARCHAR DEFAULT 'none', n BIGINT DEFAULT nextval('s'))",
    "CREATE TABLE p (i INTEGER, v VARCHAR)",
    "CREATE TABLE g (a INTEGER, twice INTEGER GENERATED ALWAYS AS (a * 2), v VARCHAR)",
    "CREATE MACRO only_here(x) AS x + 1000",
    "CREATE TABLE m (a INTEGER, b INTEGER GENERATED ALWAYS AS (only_here(a)), CHECK (only_here(a) > 0))",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = services.make_database(tmp_path_factory.mktemp("sources") / "mydb.duckdb", *TABLES)
    with services.Serve(
        {"mydb": path, "empty": path.parent / "empty.duckdb", "plain": path.parent / "plain.duckdb"}
    ) as s:
        yield s


@pytest.fixture
def con(server):
    with server.client() as other:
        other.do("DELETE FROM t; DELETE FROM p; DELETE FROM g; DELETE FROM m")
    with services.attached(server) as c:
        c.execute("CREATE TABLE l AS SELECT i + 10 AS i, 'l' || i AS v FROM range(5) r(i)")
        yield c
    server.wait_idle()


LOCAL = [(10 + k, "l%d" % k) for k in range(5)]


@pytest.mark.parametrize("kind", ["csv", "parquet", "json"])
def test_copy_from_a_file(con, tmp_path, kind):
    con.execute("COPY l TO '%s/l.%s'" % (tmp_path, kind))
    assert rows(con, "COPY cloud.p FROM '%s/l.%s'" % (tmp_path, kind)) == [(5,)]
    assert rows(con, "FROM cloud.p ORDER BY i") == LOCAL


def test_copy_from_a_file_into_some_columns(con, tmp_path):
    con.execute("COPY l TO '%s/l.csv'" % tmp_path)
    assert rows(con, "COPY cloud.t (i, v) FROM '%s/l.csv'" % tmp_path) == [(5,)]
    assert rows(con, "SELECT count(*), min(n) >= 100 FROM cloud.t") == [(5, True)]


def test_a_damaged_file_leaves_nothing(con, tmp_path):
    with open(tmp_path / "bad.csv", "w") as f:
        f.write("i,v\n" + "1,x\n" * 200000 + "no number,x\n")
    with pytest.raises(duckdb.Error):
        con.execute("COPY cloud.p FROM '%s/bad.csv' (HEADER, COLUMNS {'i': 'INTEGER', 'v': 'VARCHAR'})" % tmp_path)
    with pytest.raises(duckdb.ConversionException):
        con.execute("COPY cloud.p FROM '%s/bad.csv' (HEADER, AUTO_DETECT false)" % tmp_path)
    assert rows(con, "SELECT count(*) FROM cloud.p") == [(0,)]


def test_python_objects(con):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"i": [1, 2], "v": ["a", None]})
    assert con.execute("INSERT INTO cloud.p SELECT * FROM frame").fetchall() == [(2,)]
    con.register("seen", frame)
    assert rows(con, "INSERT INTO cloud.p FROM seen") == [(2,)]
    con.execute("USE cloud")
    con.append("p", frame)
    assert rows(con, "SELECT i, v, count(*) FROM p GROUP BY ALL ORDER BY i") == [(1, "a", 3), (2, None, 3)]


def test_relations(con):
    con.table("l").insert_into("cloud.p")
    con.table("cloud.p").insert([99, "one"])
    con.sql("SELECT i, v FROM l").create("cloud.made")
    assert rows(con, "FROM cloud.p ORDER BY i") == [*LOCAL, (99, "one")]
    assert rows(con, "FROM cloud.made ORDER BY i") == LOCAL
    con.execute("DROP TABLE cloud.made")


def test_many_statements_with_parameters(con):
    con.execute("CREATE MACRO mine(x) AS x || getvariable('suffix')")
    con.execute("SET VARIABLE suffix = '!'")
    con.executemany("INSERT INTO cloud.p VALUES ($1, mine($2))", [[k, "v%d" % k] for k in range(20)])
    assert rows(con, "SELECT count(*), max(v) FROM cloud.p") == [(20, "v9!")]
    con.execute("PREPARE put AS INSERT INTO cloud.p SELECT i + $1, v FROM l")
    con.execute("EXECUTE put(100)")
    con.execute("EXECUTE put(200)")
    assert rows(con, "SELECT count(*), max(i) FROM cloud.p") == [(30, 214)]


def test_generated_columns_take_no_values(con):
    assert rows(con, "INSERT INTO cloud.g SELECT i, v FROM l") == [(5,)]
    assert rows(con, "SELECT a, twice FROM cloud.g WHERE twice > 25 ORDER BY a") == [(13, 26), (14, 28)]
    assert rows(con, "UPDATE cloud.g SET a = l.i + 1 FROM l WHERE g.a = l.i AND l.i = 14 RETURNING *") == [
        (15, 30, "l4")
    ]
    with pytest.raises(duckdb.BinderException, match="generated"):
        con.execute("UPDATE cloud.g SET twice = l.i FROM l")


def test_what_only_the_server_can_compute(con):
    assert rows(con, "INSERT INTO cloud.m (a) SELECT i FROM l RETURNING a, b")[0] == (10, 1010)
    assert rows(con, "SELECT max(b) FROM cloud.m") == [(1014,)]
    with pytest.raises(duckdb.ConstraintException):
        con.execute("INSERT INTO cloud.m (a) SELECT -2000 FROM l")


# ---------------------------------------------------------------- databases

SOURCE = """
    CREATE SCHEMA s2;
    CREATE SEQUENCE sq START 5;
    CREATE TYPE mood AS ENUM ('a', 'b');
    CREATE MACRO plus1(x) AS x + 1;
    CREATE TABLE t (i INTEGER PRIMARY KEY DEFAULT nextval('sq'), m mood, g INTEGER GENERATED ALWAYS AS (i + 1));
    COMMENT ON TABLE t IS 'hello';
    COMMENT ON COLUMN t.m IS 'how it feels';
    INSERT INTO t (m) VALUES ('a'), ('b');
    CREATE TABLE s2.u AS SELECT i, [i] AS l FROM range(300000) r(i);
    CREATE VIEW s2.w AS SELECT t.i FROM src.main.t WHERE src.main.t.i > 5;
    CREATE VIEW w2 AS SELECT plus1(i) AS p FROM t;
    CREATE INDEX ix ON s2.u (i)
"""


def test_copy_a_database_to_the_server(server, con, tmp_path):
    con.execute("ATTACH '%s/src.duckdb' AS src; USE src" % tmp_path)
    con.execute(SOURCE)
    con.execute("USE memory")
    con.execute(services.attach_sql(server.url, "empty", "far"))
    con.execute("COPY FROM DATABASE src TO far")
    listed = "SELECT schema_name, table_name, sql, comment FROM duckdb_tables() WHERE database_name = '%s' ORDER BY ALL"
    assert rows(con, listed % "far") == rows(con, listed % "src")
    assert rows(con, "SELECT count(*), sum(i), sum(l[1]) FROM far.s2.u") == rows(
        con, "SELECT count(*), sum(i), sum(l[1]) FROM src.s2.u"
    )
    assert rows(con, "SELECT i, m::VARCHAR, g FROM far.t ORDER BY i") == [(5, "a", 6), (6, "b", 7)]
    assert rows(con, "FROM far.s2.w") == [(6,)]
    assert sorted(rows(con, "FROM far.w2")) == [(6,), (7,)]
    assert rows(con, "INSERT INTO far.t (m) SELECT 'a' WHERE random() < 2 RETURNING i") == [(7,)]
    with server.client() as c:
        names = c.rows("SELECT index_name FROM duckdb_indexes() WHERE database_name = 'empty'")
        assert names == [("ix",)]


def test_copy_a_database_from_the_server(server, con):
    with services.attached(server, "plain", "far") as c:
        c.execute("CREATE TABLE far.p AS SELECT i, 'v' || i AS v FROM range(100) r(i)")
        c.execute("CREATE SCHEMA far.s2")
        c.execute(
            "CREATE TABLE far.s2.g (a INTEGER UNIQUE, twice INTEGER GENERATED ALWAYS AS (a * 2), d INTEGER DEFAULT 7)"
        )
        c.execute("INSERT INTO far.s2.g (a) FROM range(10)")
        c.execute("CREATE VIEW far.w AS SELECT count(*) AS n FROM far.p")
        c.execute("ATTACH ':memory:' AS back")
        c.execute("COPY FROM DATABASE far TO back")
        listed = "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = '%s' ORDER BY ALL"
        assert rows(c, listed % "back") == rows(c, listed % "far")
        assert rows(c, "FROM back.p EXCEPT FROM far.p") == []
        assert rows(c, "SELECT count(*), max(twice), min(d) FROM back.s2.g") == [(10, 18, 7)]


# All kinds of what a database holds; run by a database of DuckDB's own, and by the server.
OBJECTS = r"""
    CREATE SCHEMA s2;
    CREATE SEQUENCE sq START 5;
    CREATE SEQUENCE "odd name" START -1 INCREMENT BY -2 MINVALUE -9 CYCLE;
    CREATE SEQUENCE s2.ends MAXVALUE 2;
    COMMENT ON SEQUENCE sq IS 'numbers';
    CREATE TYPE mood AS ENUM ('a', 'it''s');
    CREATE TYPE s2.point AS STRUCT(x INTEGER, "y y" DECIMAL(5, 2));
    CREATE MACRO plus(x, b := 5) AS x + b, (x, y INTEGER, z VARCHAR := 'x'', y INTEGER :=') AS z || y || x;
    CREATE MACRO zero() AS 0;
    CREATE MACRO felt(m mood := 'a'::mood) AS m::VARCHAR || '!';
    CREATE MACRO s2.nested(x) AS main.plus(x) + 1;
    CREATE MACRO a_last(x) AS s2.nested(x) * 2;
    CREATE MACRO "odd (m"("a b", l := [1, 2], "group" VARCHAR := 'g') AS TABLE SELECT "a b" AS a, l, "group";
    CREATE MACRO s2.rows_of(n) AS TABLE (FROM range(n) r(i)), (n, m) AS TABLE (FROM range(n, m) r(i));
    COMMENT ON MACRO plus IS 'adds';
    CREATE TABLE t (i INTEGER PRIMARY KEY DEFAULT nextval('sq'), m mood, g INTEGER AS (i + 1), k INTEGER);
    CREATE TABLE s2.u (g INTEGER GENERATED ALWAYS AS (i + 1), v VARCHAR, i INTEGER, p s2.point);
    INSERT INTO t (m, k) VALUES ('a', 1), ('it''s', 2);
    INSERT INTO s2.u (v, i) SELECT 'V' || r.i, r.i FROM range(5000) r(i);
    CREATE VIEW w AS SELECT plus(k) AS p FROM t;
    CREATE INDEX ix ON s2.u (i);
    CREATE UNIQUE INDEX "odd ix" ON s2.u (lower(v), (i + 1));
    COMMENT ON INDEX s2.ix IS 'an index';
    CREATE UNIQUE INDEX uk ON t (k);
    SELECT nextval('"odd name"'), nextval('"odd name"');
    SELECT nextval('s2.ends');
    SELECT nextval('s2.ends')
"""

LISTS = (
    "SELECT schema_name, sequence_name, comment, temporary, min_value, max_value, increment_by, cycle, sql, %s"
    " FROM duckdb_sequences() WHERE database_name = '%s' ORDER BY ALL",
    "SELECT schema_name, function_name, function_type, parameters, parameter_types, macro_definition, comment, internal"
    ", %s FROM duckdb_functions() WHERE database_name = '%s' ORDER BY ALL",
    "SELECT schema_name, index_name, table_name, is_unique, is_primary, expressions, sql, comment, %s"
    " FROM duckdb_indexes() WHERE database_name = '%s' ORDER BY ALL",
    "SELECT schema_name, type_name, type_size, logical_type, type_category, labels, %s"
    " FROM duckdb_types() WHERE database_name = '%s' AND NOT internal ORDER BY ALL",
    "SELECT schema_name, view_name, sql, %s FROM duckdb_views() WHERE database_name = '%s' AND NOT internal"
    " ORDER BY ALL",
    "SELECT schema_name, table_name, sql, %s FROM duckdb_tables() WHERE database_name = '%s' ORDER BY ALL",
)


def lists(con, database, *more):
    return [rows(con, text % (extra, database)) for text, extra in zip(LISTS, more or ["0"] * len(LISTS))]


@pytest.fixture(scope="module")
def holding(tmp_path_factory):
    path = services.make_database(tmp_path_factory.mktemp("objects") / "objects.duckdb", *OBJECTS.split(";"))
    with services.Serve({"objects": path}) as s:
        yield s


@pytest.fixture
def both(holding, tmp_path):
    """A connection with the same objects in a database of its own, plain, and in a remote one, far."""
    with services.attached(holding, "objects", "far") as c:
        path = services.make_database(tmp_path / "plain.duckdb", *OBJECTS.split(";"))
        c.execute("ATTACH '%s' AS plain" % path)
        yield c
    holding.wait_idle()


def test_what_a_database_holds_is_listed(both):
    used = ["start_value, last_value", "0", "0", "0", "0", "0"]
    assert lists(both, "far", *used) == lists(both, "plain", *used)


def test_copy_all_that_a_database_holds(both):
    for name in ("plain", "far"):
        both.execute("ATTACH ':memory:' AS from_%s" % name)
        both.execute("COPY FROM DATABASE %s TO from_%s" % (name, name))
    used = ["start_value, last_value", "0", "0", "0", "0", "0"]
    assert lists(both, "from_far", *used) == lists(both, "from_plain", *used)
    for name in ("from_plain", "from_far"):
        both.execute("USE " + name)
        assert rows(both, "INSERT INTO t (m, k) VALUES ('a', 3) RETURNING i, g") == [(7, 8)]
        assert rows(both, "SELECT nextval('\"odd name\"')") == [(-5,)]
        with pytest.raises(duckdb.Error, match="maximum"):
            both.execute("SELECT nextval('s2.ends')")
        assert rows(both, "SELECT plus(1), plus(1, 2, z := 'z'), a_last(1), zero(), felt()") == [
            (6, "z21", 14, 0, "a!")
        ]
        assert rows(both, 'FROM "odd (m"(1)') == [(1, [1, 2], "g")]
        assert rows(both, "SELECT count(*) FROM s2.rows_of(2, 5)") == [(3,)]
        assert rows(both, "SELECT g, v FROM s2.u WHERE i = 77") == [(78, "V77")]
        with pytest.raises(duckdb.ConstraintException):
            both.execute("INSERT INTO s2.u (v, i) VALUES ('v77', 77)")
        both.execute("INSERT INTO s2.u (v, i, p) VALUES ('v77', 78, {'x': 1, 'y y': 2})")
        with pytest.raises(duckdb.ConstraintException):
            both.execute("INSERT INTO t (k) VALUES (1)")
        assert rows(both, "SELECT 'it''s'::mood::VARCHAR, sum(p) FROM w") == [("it's", 21)]
        both.execute("USE memory")


def test_lists_are_of_this_moment(both, holding):
    with holding.client() as other:
        other.do("CREATE SEQUENCE fresh")
        last = "SELECT last_value FROM duckdb_sequences() WHERE database_name = 'far' AND sequence_name = 'fresh'"
        assert rows(both, last) == [(None,)]
        assert rows(both, "SELECT nextval('far.fresh')") == [(1,)]
        assert rows(both, last) == [(1,)]
        both.execute("BEGIN")
        both.execute("CREATE SEQUENCE far.mine")
        assert rows(both, last.replace("fresh", "mine")) == [(None,)]
        both.execute("ROLLBACK")
        assert rows(both, last.replace("fresh", "mine")) == []
        other.do("DROP SEQUENCE fresh")
        assert rows(both, last) == []
