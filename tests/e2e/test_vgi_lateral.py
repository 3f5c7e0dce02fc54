"""Functions of a VGI worker, called for each row of another table."""

import duckdb
import pytest
import vgi_catalogs
import vgi_worker
from vgi_catalogs import attach, one, refused, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]


@pytest.fixture(scope="module", params=vgi_worker.GENERATIONS)
def fixtures(request):
    """A worker of the public SDK: ours has no such functions."""
    with vgi_worker.VgiWorker(request.param) as started:
        yield started


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    con.execute("SET memory_limit = '3GB'")
    yield con
    con.close()


def test_a_function_over_a_table_is_called_for_each_row_of_another(ex):
    # Each row's query is a table of its own.
    sql = "FROM range(3) r(i), LATERAL (FROM ex.echo((SELECT r.i AS a, 'x' || r.i AS b))) ORDER BY ALL"
    assert rows(ex, sql) == [(i, i, "x%d" % i) for i in range(3)]
    sql = "SELECT sum(a), count(*) FROM range(3000) r(i), LATERAL (FROM ex.echo((SELECT r.i AS a, NULL AS b)))"
    assert rows(ex, sql) == [(2999 * 1500, 3000)]
    sql = "SELECT i, a, ordinality FROM range(2) r(i), "
    sql += "LATERAL (FROM ex.repeat_inputs(2, (SELECT r.i AS a)) WITH ORDINALITY)"
    assert rows(ex, sql + " ORDER BY ALL") == [(0, 0, 1), (0, 0, 2), (1, 1, 1), (1, 1, 2)]


@pytest.mark.parametrize("table", ["range(3)", "range(0)"])
def test_a_function_that_keeps_rows_is_not_called_for_each_row(ex, table):
    sql = "SELECT * FROM %s r(i), LATERAL (FROM ex.substream_partial_sum((SELECT r.i AS n)))" % table
    assert isinstance(refused(ex, sql, "keeps rows for its end"), duckdb.BinderException)
    ex.execute("PRAGMA disable_optimizer")
    refused(ex, sql, "cannot be called without the optimizer")
    ex.execute("PRAGMA enable_optimizer; SET disabled_optimizers = 'extension'")
    refused(ex, sql, "cannot be called without the optimizer")
    ex.execute("RESET disabled_optimizers")
    assert one(ex, "SELECT sum(n) FROM ex.substream_partial_sum((SELECT range AS n FROM range(10)))") == 45


#: What the fixtures' functions of rows make of them.
EXPLODED = "SELECT i, j FROM range(%d) r(i), range(%d) s(j) WHERE j < i"


def test_a_function_of_rows_is_called_with_constants(ex):
    assert rows(ex, "FROM ex.main.geo_encode(52.25, 13)") == [("52.25:13.0",)]
    assert rows(ex, 'FROM ex.geo_encode(52.25, 13, "precision" := 1)') == [("52.2:13.0",)]
    assert rows(ex, "FROM ex.geo_encode(1, 2, 3) t(code) WHERE code LIKE '1%'") == [("1.0:2.0:3.0",)]
    assert rows(ex, "FROM ex.geo_encode(NULL, 2)") == [(None,)]
    assert rows(ex, "FROM ex.row_sum(1, 2.5, 3), ex.row_sum(-1, absolute := true) s") == [(6.5, 1.0)]
    assert rows(ex, "FROM ex.blended_drop(1)") == []
    assert one(ex, "SELECT sum(i) FROM ex.blended_explode(5000)") == 4999 * 2500
    assert rows(ex, "FROM (FROM ex.blended_explode(100000)) LIMIT 2") == [(0,), (1,)]
    assert rows(ex, "FROM ex.row_sum((SELECT 7), 1)") == [(8.0,)]
    ex.execute("PREPARE p AS FROM ex.geo_encode($1, $2)")
    assert [rows(ex, "EXECUTE p(%d, 2)" % i) for i in (4, 6)] == [[("4.0:2.0",)], [("6.0:2.0",)]]
    assert isinstance(refused(ex, "FROM ex.geo_encode(1)", "No function matches"), duckdb.BinderException)
    refused(ex, "FROM ex.row_sum(1, 'x')", "Could not convert string 'x'")


def test_a_function_of_rows_is_called_for_each_row_of_a_table(ex):
    sql = "SELECT i, geohash FROM range(3) t(i), ex.geo_encode(t.i, t.i + 0.5) ORDER BY i"
    assert rows(ex, sql) == [(i, "%.1f:%.1f" % (i, i + 0.5)) for i in range(3)]
    # Constants beside columns, an overload, any number of columns, named parameters, NULLs.
    assert rows(ex, "SELECT geohash FROM range(1, 2) t(i), ex.geo_encode(2, t.i, 3)") == [("2.0:1.0:3.0",)]
    assert rows(ex, "SELECT s.* FROM range(-1, 2) t(i), ex.row_sum(t.i, 10, t.i * 2) s ORDER BY 1") == [
        (7.0,),
        (10.0,),
        (13.0,),
    ]
    values = "(VALUES (1, 2), (NULL, 3), (4, NULL)) t(a, b)"
    sql = "SELECT a, b, geohash FROM %s, ex.geo_encode(t.a, t.b) ORDER BY ALL" % values
    assert rows(ex, sql) == [(1, 2, "1.0:2.0"), (4, None, None), (None, 3, None)]
    # None, one or many rows of each; of one row, its own.
    for count in (0, 1, 7):
        sql = "FROM range(%d) t(i), ex.blended_explode(t.i) u(j) ORDER BY ALL" % count
        assert rows(ex, sql) == rows(ex, EXPLODED % (count, count) + " ORDER BY ALL")
    assert rows(ex, "SELECT i, a FROM range(3) t(i), ex.projectable_blended(t.i) ORDER BY ALL") == [
        (i, i * 10) for i in range(3)
    ]
    sql = "FROM range(3) t(i), LATERAL (FROM ex.blended_explode(t.i) WITH ORDINALITY) ORDER BY ALL"
    assert rows(ex, sql) == [(1, 0, 1), (2, 0, 1), (2, 1, 2)]


def test_calls_for_each_row_are_parts_of_larger_queries(ex):
    sql = "SELECT i, j FROM range(60) t(i), ex.blended_explode(t.i) u(j) WHERE j > 50 AND i % 2 = 0 ORDER BY ALL"
    assert rows(ex, sql) == rows(ex, EXPLODED % (60, 60) + " AND j > 50 AND i % 2 = 0 ORDER BY ALL")
    sql = "FROM range(3) t(i) LEFT JOIN LATERAL (FROM ex.blended_explode(t.i)) ON true ORDER BY ALL"
    assert rows(ex, sql) == [(0, None), (1, 0), (2, 0), (2, 1)]
    sql = "SELECT i, j, k FROM range(5) t(i), ex.blended_explode(t.i) u(j), ex.blended_explode(u.j + i) v(k)"
    nested = "SELECT i, j, k FROM (%s), range(20) v(k) WHERE k < i + j" % (EXPLODED % (5, 5))
    assert rows(ex, sql + " ORDER BY ALL") == rows(ex, nested + " ORDER BY ALL")
    sql = "SELECT i, (SELECT sum(k) FROM ex.blended_explode(t.i) u(k)) FROM range(4) t(i) ORDER BY ALL"
    assert rows(ex, sql) == [(0, None), (1, 0), (2, 1), (3, 3)]
    assert rows(ex, "SELECT i FROM range(9) t(i) WHERE EXISTS (FROM ex.blended_explode(t.i - 7)) ORDER BY i") == [(8,)]
    for kind in ("", "MATERIALIZED ", "NOT MATERIALIZED "):
        sql = "WITH c AS %s(SELECT i, j FROM range(4) t(i), ex.blended_explode(t.i) u(j)) " % kind
        assert one(ex, sql + "SELECT count(*) FROM c a JOIN c b USING (i, j)") == 6
    ex.execute("CREATE TEMP VIEW v AS SELECT i, s.row_sum AS r FROM range(3) t(i), ex.row_sum(t.i, 1) s")
    assert rows(ex, "FROM v ORDER BY ALL") == [(0, 1.0), (1, 2.0), (2, 3.0)]
    ex.execute("PREPARE p AS SELECT r.* FROM range(2) t(i), ex.row_sum(t.i, $1, absolute := $2) r ORDER BY ALL")
    assert rows(ex, "EXECUTE p(-5, true)") == [(5.0,), (6.0,)]
    assert rows(ex, "EXECUTE p(-5, false)") == [(-5.0,), (-4.0,)]
    assert "VGI_ROW_FUNCTION" in rows(ex, "EXPLAIN FROM range(3) t(i), ex.geo_encode(t.i, t.i)")[0][1]


def test_many_rows_go_through_a_function_of_rows(ex):
    # Several vectors go in, more come out, of each row some; two threads.
    ex.execute("CREATE TABLE t AS SELECT range AS i, range % 7 AS n FROM range(200000)")
    # A key of its own for each row: DuckDB calls once for equal ones.
    sql = "SELECT count(*), sum(i), sum(j), count(DISTINCT i) FROM t, ex.blended_explode(t.n + 0 * t.i) u(j)"
    expected = "SELECT count(*), sum(i), sum(j), count(DISTINCT i) FROM t, range(7) u(j) WHERE j < n"
    assert rows(ex, sql) == rows(ex, expected)
    sql = "SELECT count(*), sum(i), sum(s.row_sum) FROM t, ex.row_sum(t.i, t.n) s"
    assert rows(ex, sql) == [(200000, 199999 * 100000, one(ex, "SELECT sum(i + n)::DOUBLE FROM t"))]
    assert one(ex, "SELECT count(*) FROM (FROM t, ex.row_sum(t.i, 1) LIMIT 5)") == 5
    sql = "SELECT max(j), count(*) FROM range(3) t(i), ex.blended_explode(t.i * 5000) u(j)"
    assert rows(ex, sql) == [(9999, 15000)]


def test_named_parameters_beside_columns_are_constants(ex):
    assert rows(ex, 'SELECT geohash FROM range(1, 2) t(i), ex.geo_encode(t.i, 2.55, "precision" := 1)') == [
        ("1.0:2.5",)
    ]
    sql = 'SELECT geohash FROM range(1, 2) t(i), ex.geo_encode(t.i, 2.55, 3, "precision" := 1)'
    assert rows(ex, sql) == [("1.0:2.5:3.0",)]
    sql = "SELECT s.* FROM range(-1, 1) t(i), ex.row_sum(t.i, -3, absolute := %s) s ORDER BY 1"
    assert rows(ex, sql % "1 = 1") == [(3.0,), (4.0,)]
    assert rows(ex, sql % "false") == [(-4.0,), (-3.0,)]
    refused(ex, sql % "i > 2", 'the parameter "absolute" of VGI function "row_sum" has to be a constant')
    # A column of such a name is no named parameter's value, and no value of another's unseen.
    sql = 'SELECT geohash FROM range(1, 2) t("precision"), ex.geo_encode(3, 2.55, t."precision"%s)'
    refused(ex, sql % "", 'the parameter "precision" of VGI function "geo_encode" has to be a constant')
    assert rows(ex, sql % " + 0") == [("3.0:2.55:1.0",)]
    sql = "FROM range(3) t(i), ex.blended_explode(t.i, t.i)"
    assert isinstance(refused(ex, sql, "No function matches"), duckdb.BinderException)
    refused(ex, "FROM range(3) t(i), ex.hostile_provenance(t.i, t.i)", "does not take 2 arguments without a name")


@pytest.mark.parametrize("transport", ["unix", "http"])
def test_parameters_of_any_type_pages_and_calls_of_few_rows(con, transport):
    with vgi_worker.VgiWorker("2.2", transport) as far:
        attach(con, far.location, name="example")
        sql = "SELECT typeof(value), value FROM range(2) t(i), ex.blended_any(%s) ORDER BY ALL"
        assert rows(con, sql % "{'a': t.i}") == [("STRUCT(a BIGINT)", {"a": 0}), ("STRUCT(a BIGINT)", {"a": 1})]
        assert rows(con, "SELECT value FROM ex.blended_any([1, NULL])") == [([1, None],)]
        assert rows(con, "FROM ex.blended_any_varargs(1, 'x', NULL)") == [(1, "x", None)]
        paged = "SELECT i, j FROM range(30) t(i), ex.blended_paged(t.i, page_size := 4) u(j) ORDER BY ALL"
        assert rows(con, paged) == rows(con, EXPLODED % (30, 30) + " ORDER BY ALL")
        refused(
            con, "FROM range(30) t(i), ex.blended_paged(t.i, page_size := 4, fail_on_page := 3)", "failing on page 3"
        )
        sql = "SELECT i, j, call_rows <= 3 FROM range(30) t(i), ex.blended_sliced(t.i, page_size := 4) u(j, call_rows)"
        assert rows(con, sql + " ORDER BY ALL") == [(*row, True) for row in rows(con, paged)]


@pytest.mark.parametrize("transport", ["unix", "http"])
@pytest.mark.parametrize("generation", vgi_worker.GENERATIONS)
def test_a_worker_that_lies_about_which_row_is_of_which_is_refused(con, generation, transport):
    with vgi_worker.VgiWorker(generation, transport) as far:
        attach(con, far.location, name="example")
        for mode, text in (
            ("range", "comes of row"),
            ("length", "bytes of which they come"),
            ("base64", "does not say in base64"),
        ):
            refused(con, "FROM range(3) t(i), ex.hostile_provenance(t.i, mode := '%s')" % mode, text)
            refused(con, "FROM ex.hostile_provenance(1, mode := '%s')" % mode, text)
        sql = "SELECT i, s.* FROM range(2) t(i), ex.row_sum(t.i) s ORDER BY ALL"
        assert rows(con, sql) == [(0, 0.0), (1, 1.0)]


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("short", ", and does not say of which they come"),
        ("ends", "the worker ends before the rows"),
        ("dies", "the worker's last words"),
        ("types", "the worker sends other columns than it was bound with"),
        ("fails", "no room for rows"),
    ],
)
def test_a_function_of_rows_that_goes_wrong_is_an_error(con, tmp_path, fault, text):
    worker = vgi_catalogs.SpecWorkers(tmp_path)
    echo = {"takes": {"n": "int64"}, "columns": {"m": "int64"}}
    attach(con, worker(functions={"good": echo, "bad": {**echo, "fault": fault}}))
    good = "SELECT n, m FROM range(5) t(n), ex.good(n) ORDER BY ALL"
    assert rows(con, good) == [(i, i) for i in range(5)]
    refused(con, "FROM range(500) t(n), ex.bad(n)", text)
    if fault != "short":  # of one row none is an answer
        refused(con, "FROM ex.bad(3)", text)
    assert rows(con, good) == [(i, i) for i in range(5)]


def test_overloads_of_one_number_of_columns_are_told_apart_by_type(con, tmp_path):
    worker = vgi_catalogs.SpecWorkers(tmp_path)
    functions = {
        "of_text": {"name": "f", "takes": {"x": "string"}, "columns": {"text": "string"}},
        "of_number": {"name": "f", "takes": {"x": "int64"}, "columns": {"number": "int64"}, "per_call": 1000},
    }
    attach(con, worker(functions=functions))
    assert con.execute("FROM ex.f('a')").description[0][0] == "text"
    assert con.execute("FROM ex.f(7::SMALLINT)").description[0][0] == "number"
    assert rows(con, "SELECT text FROM (VALUES ('a'), ('b')) t(x), ex.f(t.x) ORDER BY 1") == [("a",), ("b",)]
    assert one(con, "SELECT sum(number) FROM range(5000) t(x), ex.f(t.x::INTEGER)") == 4999 * 2500
    calls = [told["rows"] for told in worker.told("exchange")]
    assert sum(calls) == 5004
    assert max(calls) == 1000


def test_a_function_of_rows_needs_the_optimizer(ex):
    ex.execute("PRAGMA disable_optimizer")
    for sql in ("FROM ex.row_sum(1)", "FROM range(3) t(i), ex.row_sum(t.i)"):
        refused(ex, sql, "cannot be called without the optimizer")
