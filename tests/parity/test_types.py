"""Every DuckDB type keeps its name and its values over an attached catalog: alone, NULL, nested, in many batches."""

import pytest
import services
from type_table import SCALARS, column_sql, columns_of_all_types

pytestmark = pytest.mark.extension

ROWS = 5000  # more than two payloads
COMPARED = sorted(set(SCALARS) - {"variant"})  # plain DuckDB 1.5.5 corrupts its memory when it compares VARIANTs


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """(server, plain connection with the same data attached as `plain`)"""
    import duckdb

    path = tmp_path_factory.mktemp("types") / "types.duckdb"
    con = duckdb.connect(str(path), config={"storage_compatibility_version": "latest"})
    con.execute("CREATE TYPE big_enum AS ENUM (SELECT 'v' || i FROM range(300) t(i))")
    for name in SCALARS:
        con.execute("CREATE TABLE c_%s AS SELECT i, %s AS c FROM range(%d) t(i)" % (name, column_sql(name), ROWS))
        con.execute("CREATE TABLE n_%s AS SELECT c FROM c_%s WHERE c IS NULL LIMIT 3" % (name, name))
        con.execute("CREATE TABLE l_%s AS SELECT i, [c, NULL, c] AS c FROM c_%s LIMIT 100" % (name, name))
        con.execute("CREATE TABLE s_%s AS SELECT i, {'x': c, 'y': [{'z': c}]} AS c FROM c_%s LIMIT 100" % (name, name))
    con.execute("CREATE TABLE all_types AS FROM test_all_types(use_large_enum := true)")
    con.close()
    with services.Serve({"mydb": path}, "--read-only") as server, services.attached(server) as remote:
        remote.execute("ATTACH '%s' AS plain (READ_ONLY)" % copy(path))
        remote.execute("SET TimeZone = 'UTC'")
        yield remote
        server.wait_idle()


def copy(path):
    import shutil

    return shutil.copy(path, str(path) + ".copy")


def compare(con, table):
    types = [r[:2] for r in con.execute("DESCRIBE plain.%s" % table).fetchall()]
    assert [r[:2] for r in con.execute("DESCRIBE cloud.%s" % table).fetchall()] == types
    want = con.execute("SELECT COLUMNS(*)::VARCHAR FROM plain.%s" % table).fetchall()
    con.execute("CREATE OR REPLACE TEMP TABLE got AS FROM cloud.%s" % table)
    assert [r[:2] for r in con.execute("DESCRIBE got").fetchall()] == types
    assert con.execute("SELECT COLUMNS(*)::VARCHAR FROM got").fetchall() == want


@pytest.mark.parametrize("name", sorted(SCALARS))
@pytest.mark.parametrize("shape", ["c", "n", "l", "s"], ids=["alone", "null", "in lists", "in structs"])
def test_type_survives(typed, name, shape):
    compare(typed, "%s_%s" % (shape, name))


@pytest.mark.parametrize("column", columns_of_all_types())
def test_all_types_column_survives(typed, column):
    quoted = '"%s"' % column
    want = typed.execute("SELECT typeof(%s), %s::VARCHAR FROM plain.all_types" % (quoted, quoted)).fetchall()
    typed.execute("CREATE OR REPLACE TEMP TABLE got AS SELECT %s FROM cloud.all_types" % quoted)
    assert typed.execute("SELECT typeof(%s), %s::VARCHAR FROM got" % (quoted, quoted)).fetchall() == want
    bits = "SELECT md5(string_agg(%s::VARCHAR, ';')) FROM " % quoted
    assert typed.execute(bits + "cloud.all_types").fetchall() == typed.execute(bits + "plain.all_types").fetchall()


def test_all_types_at_once(typed):
    typed.execute("CREATE OR REPLACE TEMP TABLE got AS FROM cloud.all_types")
    want = typed.execute("SELECT COLUMNS(*)::VARCHAR FROM plain.all_types").fetchall()
    assert typed.execute("SELECT COLUMNS(*)::VARCHAR FROM got").fetchall() == want


@pytest.mark.parametrize("name", COMPARED)
def test_filter_on_the_type_gives_the_same_rows(typed, name):
    """Pushed or not, a comparison with one of the values keeps the same rows."""
    for op in ("=", "<>", "<", ">=", "IS DISTINCT FROM"):
        literal = "(SELECT c FROM plain.c_%s WHERE i = 17)" % name
        sql = "SELECT count(*), sum(i) FROM %s.c_" + name + " WHERE c %s %s" % (op, literal)
        try:
            want = typed.execute(sql % "plain").fetchall()
        except Exception as e:
            with pytest.raises(type(e)):
                typed.execute(sql % "cloud").fetchall()
            continue
        assert typed.execute(sql % "cloud").fetchall() == want, (op, name)


@pytest.mark.parametrize("name", COMPARED)
def test_filter_with_a_constant_gives_the_same_rows(typed, name):
    declared, _ = SCALARS[name]
    kind = declared or "VARCHAR"
    for i in (0, 3, 17):
        text = typed.execute("SELECT c::VARCHAR FROM plain.c_%s WHERE i = %d" % (name, i)).fetchone()[0]
        literal = "'%s'::%s" % (text.replace("'", "''"), kind)
        for op in ("=", "<", ">="):
            sql = "SELECT count(*), sum(i) FROM %s.c_" + name + " WHERE c %s %s" % (op, literal)
            try:
                want = typed.execute(sql % "plain").fetchall()
            except Exception as e:
                with pytest.raises(type(e)):
                    typed.execute(sql % "cloud").fetchall()
                continue
            assert typed.execute(sql % "cloud").fetchall() == want, (op, literal)


@pytest.mark.parametrize("name", sorted(SCALARS))
def test_rows_are_whole_after_a_join(typed, name):
    sql = "SELECT count(*), sum(a.i) FROM %s.c_" + name + " a JOIN plain.c_" + name + " b ON a.i = b.i AND "
    sql += "a.c::VARCHAR IS NOT DISTINCT FROM b.c::VARCHAR"
    assert typed.execute(sql % "cloud").fetchall() == [(ROWS, sum(range(ROWS)))]
