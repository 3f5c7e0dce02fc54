"""Functions, views and macros of a VGI catalog, called by their names."""

import duckdb
import pytest
import vgi_catalogs
import vgi_worker
from vgi_catalogs import attach, one, refused, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    yield con
    con.close()


def test_table_functions_are_called_with_their_arguments(ex):
    assert rows(ex, "SELECT count(*), sum(n) FROM ex.main.sequence(100)") == [(100, 4950)]
    assert rows(ex, "FROM ex.sequence(3, increment := 10)") == [(0,), (10,), (20,)]
    assert rows(ex, "FROM ex.sequence(3, INCREMENT => 10) t(k) WHERE k > 5 ORDER BY k") == [(10,), (20,)]
    assert rows(ex, "SELECT n, pushed_filters FROM ex.filter_echo(10) WHERE n > 8") == [(9, "n > 8")]
    assert one(ex, "SELECT count(*) FROM range(3) r(i), LATERAL (FROM ex.sequence(4))") == 12
    ex.execute("PREPARE p AS SELECT count(*) FROM ex.sequence($1)")
    assert [one(ex, "EXECUTE p(%d)" % i) for i in (5, 7)] == [5, 7]
    ex.execute("USE ex")
    assert one(ex, "SELECT count(*) FROM sequence(8)") == 8
    assert one(ex, "SELECT count(*) FROM range(8)") == 8
    ex.execute("USE memory")
    assert isinstance(refused(ex, "FROM ex.sequence()", "No function matches"), duckdb.BinderException)
    refused(ex, "FROM ex.sequence(3, nonsense := 1)", 'Invalid named parameter "nonsense"')
    refused(ex, "FROM ex.no_such_function(1)", "does not exist")
    refused(ex, "FROM ex.sequence(-1)", "the worker says: ")


def test_streams_share_the_rows_of_a_long_scan(ex):
    for _ in range(2):
        sql = "SELECT count(*), sum(n), count(DISTINCT n) FROM ex.partitioned_sequence(200000)"
        assert rows(ex, sql) == [(200000, 199999 * 100000, 200000)]
    assert one(ex, "SELECT count(*) FROM (FROM ex.partitioned_sequence(1000000) LIMIT 100)") == 100


def test_scalar_functions_are_called_with_columns_and_constants(ex):
    assert rows(ex, "SELECT ex.main.multiply(range, 3) FROM range(3)") == [(0,), (3,), (6,)]
    assert one(ex, "SELECT sum(ex.multiply(range, 2)) FROM range(100000)") == 99999 * 100000
    assert rows(ex, "SELECT ex.add_values(1, 2), ex.upper_case('abc'), ex.upper_case(NULL)") == [(3, "ABC", None)]
    assert rows(ex, "SELECT ex.null_handling(NULL), ex.null_handling(1)") == [(-5000, 1)]
    # Overloads, any number of arguments, none at all.
    assert rows(ex, "SELECT ex.pair_type(1, 2), ex.pair_type(1, 'x'), ex.pair_type('x', 'y')") == [
        ("int+int", "int+str", "str+str")
    ]
    assert rows(ex, "SELECT ex.format_number(1.5), ex.format_number(2, 1.5)") == [("2", "1.50")]
    assert rows(ex, "SELECT ex.concat_values('a', 'b', 'c'), ex.sum_values(1, 2, 3)") == [("abc", 6)]
    assert rows(ex, "SELECT ex.double(range), ex.double(range::DOUBLE) FROM range(1, 2)") == [(2, 2.0)]
    assert one(ex, "SELECT count(ex.bernoulli()) FROM range(5000)") == 5000
    assert rows(ex, "SELECT range FROM range(5) WHERE ex.multiply(range, 2) > 6") == [(4,)]
    ex.execute("PREPARE p AS SELECT ex.multiply($1::BIGINT, 2)")
    assert [one(ex, "EXECUTE p(%d)" % i) for i in (4, 6)] == [8, 12]
    refused(ex, "SELECT ex.multiply(range, range) FROM range(3)", 'takes a constant for its parameter "factor"')
    refused(ex, "SELECT ex.no_such_function(1)", "does not exist")


def test_functions_over_tables_take_a_query(ex, fixtures):
    assert rows(ex, "FROM ex.echo((SELECT range AS a, 'x' AS b FROM range(3)))") == [(0, "x"), (1, "x"), (2, "x")]
    assert rows(ex, "SELECT count(*), sum(a) FROM ex.echo((SELECT range AS a FROM range(10000)))") == [
        (10000, 9999 * 5000)
    ]
    assert rows(ex, "FROM ex.echo((SELECT NULL AS a, i FROM range(2) r(i)))") == [(None, 0), (None, 1)]
    assert rows(ex, "FROM ex.repeat_inputs(3, (SELECT 1 AS a))") == [(1,)] * 3
    assert one(ex, "SELECT count(*) FROM ex.echo((SELECT 1 AS a WHERE false))") == 0
    # What is kept comes at the end.
    assert one(ex, "SELECT sum(n) FROM ex.substream_partial_sum((SELECT range AS n FROM range(100000)))") == 4999950000
    assert one(ex, "SELECT count(*) FROM (FROM ex.echo((SELECT range AS a FROM range(1000000))) LIMIT 5)") == 5
    if fixtures.generation == "2.2":
        sql = "SELECT sum(n), count(*) FROM ex.multi_batch_finish((SELECT range AS n FROM range(7)))"
        assert rows(ex, sql) == [(21, 7)]
        # Ten rows make 0 + 1 + ... + 9, some at a time.
        sql = "SELECT count(*) FROM ex.paged_explode((SELECT range AS n FROM range(10)), page_size := 3)"
        assert one(ex, sql) == 45


def test_views_and_macros_are_the_workers(ex):
    assert rows(ex, "FROM ex.main.first_ten LIMIT 2") == [(0,), (1,)]
    assert one(ex, "SELECT count(*) FROM ex.even_numbers") == 50
    assert one(ex, "SELECT count(*) FROM ex.data.small_numbers") == 10
    assert rows(ex, "SELECT view_name FROM duckdb_views() WHERE database_name = 'ex' ORDER BY ALL") == [
        ("even_numbers",),
        ("first_ten",),
        ("small_numbers",),
    ]
    assert rows(ex, "SELECT ex.vgi_multiply(3, 4), ex.vgi_clamp(5, 1, 3)") == [(12, 3)]
    assert one(ex, "SELECT count(*) FROM ex.vgi_range_table(4)") == 4
    listed = {row[0] for row in rows(ex, "SELECT function_name FROM duckdb_functions() WHERE database_name = 'ex'")}
    assert {"sequence", "multiply", "echo", "vgi_multiply", "vgi_range_table"} <= listed


@pytest.mark.parametrize(("peer", "generation"), [("sdk", "2.2"), ("c", "2.2"), ("c", "1.3")])
def test_functions_are_called_over_http(con, peer, generation):
    with vgi_worker.VgiWorker(generation, "http", peer=peer) as far:
        attach(con, far.location, name="example")
        assert one(con, "SELECT count(*) FROM ex.sequence(5000)") == 5000
        assert one(con, "SELECT sum(ex.multiply(range, 2)) FROM range(5000)") == 4999 * 5000
        assert rows(con, "SELECT count(*), sum(a) FROM ex.echo((SELECT range AS a FROM range(5000)))") == [
            (5000, 4999 * 2500)
        ]
        assert one(con, "SELECT sum(n) FROM ex.substream_partial_sum((SELECT range AS n FROM range(5000)))") == 12497500


@pytest.mark.parametrize(
    ("fault", "text"),
    [("short", "rows for 5"), ("ends", "the worker ends before the rows"), ("dies", "the worker's last words")],
)
def test_a_scalar_function_that_goes_wrong_is_an_error(con, tmp_path, fault, text):
    worker = vgi_catalogs.SpecWorkers(tmp_path)
    echo = {"columns": {"n": "int64"}, "scalar": True}
    attach(con, worker(functions={"good": echo, "bad": {**echo, "fault": fault}}))
    assert rows(con, "SELECT sum(ex.good(range)) FROM range(5)") == [(10,)]
    refused(con, "SELECT ex.bad(range) FROM range(5)", text)
    assert rows(con, "SELECT sum(ex.good(range)) FROM range(5)") == [(10,)]


def test_functions_that_keep_all_rows_give_theirs_at_the_end(ex):
    assert rows(ex, "FROM ex.buffer_input((SELECT range AS n FROM range(5)))") == [(i,) for i in range(5)]
    sql = "SELECT count(*), sum(n), max(s) FROM ex.buffer_input((SELECT range AS n, 'x' AS s FROM range(10000)))"
    assert rows(ex, sql) == [(10000, 49995000, "x")]
    assert rows(ex, "FROM ex.sum_all_columns((SELECT range AS a, range * 2 AS b FROM range(5000)))") == [
        (12497500, 24995000)
    ]
    # None, conditions and columns of what comes, a worker that counts its batches, and what is told of it.
    assert one(ex, "SELECT count(*) FROM ex.buffer_input((SELECT 1 AS n WHERE false))") == 0
    some = "FROM ex.buffer_input((SELECT range AS n, range * 2 AS m FROM range(10)))"
    assert rows(ex, "SELECT m FROM (%s) WHERE n > 7 ORDER BY m" % some) == [(16,), (18,)]
    assert one(ex, "SELECT count(*) FROM ex.batch_index_buffer_input((SELECT range AS n FROM range(10000)))") == 10000
    assert rows(ex, "SELECT a.n, b.m FROM (%s) a JOIN (%s) b ON a.n = b.m ORDER BY ALL" % (some, some)) == [
        (i, i) for i in range(0, 10, 2)
    ]
    assert "VGI_BUFFERED" in rows(ex, "EXPLAIN " + some)[0][1]
    for kind in ("", "NOT MATERIALIZED"):
        assert one(ex, "WITH c AS %s (%s) SELECT count(*) FROM c a JOIN c b USING (n)" % (kind, some)) == 10
    for i in range(2):
        assert one(ex, "SELECT sum(n) FROM ex.buffer_input((SELECT range + %d AS n FROM range(3)))" % i) == 3 + 3 * i
    refused(ex, "SELECT 1 FROM range(3) r(i), LATERAL (FROM ex.buffer_input((SELECT r.i AS n)))", "keeps all rows")
    refused(ex, "FROM ex.buffer_input((SELECT error('stop') AS n))", "stop")
