"""Aggregate functions of a VGI worker, in groups, windows and transactions."""

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


def test_rows_are_summed_up_by_the_worker(ex):
    assert rows(ex, "SELECT ex.vgi_sum(i), ex.main.vgi_count(), ex.vgi_avg(i) FROM range(10) t(i)") == [(45, 10, 4.5)]
    assert rows(ex, "SELECT i % 3 AS k, ex.vgi_sum(i) FROM range(10) t(i) GROUP BY k ORDER BY k") == [
        (0, 18),
        (1, 12),
        (2, 15),
    ]
    # No rows, and no row that counts.
    assert rows(ex, "SELECT ex.vgi_sum(i), ex.vgi_count() FROM range(0) t(i)") == [(None, 0)]
    assert rows(ex, "SELECT ex.vgi_sum(i), ex.vgi_count() FROM range(0) t(i) GROUP BY i") == []
    assert rows(ex, "SELECT ex.vgi_sum(NULL), ex.vgi_sum(NULL::BIGINT), ex.vgi_count() FROM range(3)") == [
        (None, None, 3)
    ]
    sql = (
        "SELECT k, ex.vgi_sum(v) FROM (VALUES ('a', 1), ('b', NULL), ('a', 2), (NULL, 4)) t(k, v) GROUP BY k ORDER BY k"
    )
    assert rows(ex, sql) == [("a", 3), ("b", None), (None, 4)]


def test_columns_constants_overloads_and_any_number_of_columns(ex):
    assert rows(ex, "SELECT ex.vgi_weighted_sum(i, 2) FROM range(4) t(i)") == [(12.0,)]
    assert rows(ex, "SELECT ex.vgi_percentile(i, 0.5), ex.vgi_percentile(i, 0.1) FROM range(11) t(i)") == [(5.0, 1.0)]
    assert rows(ex, "SELECT ex.vgi_sum_all(i, i * 2, 1.5) FROM range(3) t(i)") == [(13.5,)]
    assert rows(ex, "SELECT ex.vgi_generic_sum(i), ex.vgi_generic_sum(i::DOUBLE) FROM range(3) t(i)") == [(3, 3.0)]
    assert rows(ex, "SELECT ex.data.test_same_name_agg(i), ex.main.test_same_name_agg(i) FROM range(3) t(i)") == [
        ("data:3", "main:3")
    ]
    error = refused(ex, "SELECT ex.vgi_percentile(i, i) FROM range(3) t(i)", 'takes a constant for its parameter "perc')
    assert isinstance(error, duckdb.BinderException)
    refused(ex, "SELECT ex.vgi_sum('x') FROM range(3)", "No function matches")
    refused(ex, "SELECT ex.vgi_sum(i, i) FROM range(3) t(i)", "No function matches")
    refused(ex, "SELECT ex.vgi_percentile(i, NULL) FROM range(3) t(i)", "percentile must not be NULL")
    refused(ex, "SELECT ex.vgi_sum(i) EXPORT_STATE FROM range(3) t(i)", "EXPORT_STATE")


def test_a_secret_says_what_an_aggregate_gives(ex):
    sql = "SELECT typeof(ex.secret_typed_sum(i)) FROM range(5) t(i)"
    assert one(ex, sql) == "BIGINT"
    ex.execute("CREATE SECRET s (TYPE vgi_example, use_ssl true)")
    assert one(ex, sql) == "DOUBLE"


def test_filters_distinct_orders_and_grouping_sets_are_duckdbs(ex):
    sql = "SELECT ex.vgi_sum(i) FILTER (i > 5), ex.vgi_sum(DISTINCT i % 3), ex.vgi_count() FILTER (i < 0)"
    assert rows(ex, sql + " FROM range(10) t(i)") == [(30, 3, 0)]
    assert one(ex, "SELECT ex.vgi_listagg(i::VARCHAR ORDER BY i DESC) FROM range(5) t(i)") == "4,3,2,1,0"
    sql = "SELECT i %% 2 AS k, %s(i) FROM range(10) t(i) GROUP BY ROLLUP (k) HAVING %s(i) > 20 ORDER BY ALL"
    assert rows(ex, sql % ("ex.vgi_sum", "ex.vgi_sum")) == rows(ex, sql % ("sum", "sum"))
    sql = "SELECT (SELECT %s(j) FROM range(5) u(j) WHERE j <= i) FROM range(7) t(i) ORDER BY ALL"
    assert rows(ex, sql % "ex.vgi_sum") == rows(ex, sql % "sum")
    ex.execute("CREATE TEMP VIEW v AS SELECT i % 2 AS k, ex.vgi_sum(i) AS s FROM range(10) t(i) GROUP BY k")
    for kind in ("", "MATERIALIZED ", "NOT MATERIALIZED "):
        sql = "WITH c AS %s(FROM v) SELECT count(*), sum(a.s) FROM c a JOIN c b USING (k)" % kind
        assert rows(ex, sql) == [(2, 45)]


def test_many_groups_in_two_threads(ex):
    # The worker has a file for its states: many rows are only fast if they are of few groups.
    ex.execute("CREATE TABLE few AS SELECT range AS i, range % 3 AS k FROM range(300000)")
    ex.execute("CREATE TABLE many AS SELECT i, i % 3000 AS k FROM few LIMIT 9000")
    sql = "SELECT count(*), sum(s), min(s), max(s), sum(n) FROM (SELECT %s(i) AS s, %s AS n FROM %s GROUP BY k)"
    for table in ("few", "many"):
        assert rows(ex, sql % ("ex.vgi_sum", "ex.vgi_count()", table)) == rows(ex, sql % ("sum", "count(*)", table))
    assert rows(ex, "SELECT ex.vgi_sum(i), ex.vgi_count() FROM few") == rows(ex, "SELECT sum(i), count(*) FROM few")


@pytest.mark.parametrize("generation", vgi_worker.GENERATIONS)
def test_aggregates_over_http(con, generation):
    with vgi_worker.VgiWorker(generation, "http") as far:
        attach(con, far.location, name="example")
        sql = "SELECT k, NAME(i) FROM (SELECT range AS i, range % 3 AS k FROM range(30000)) GROUP BY k ORDER BY k"
        assert rows(con, sql.replace("NAME", "ex.vgi_sum")) == rows(con, sql.replace("NAME", "sum"))
        sql = "SELECT ex.main.vgi_window_sum(i) OVER (ORDER BY i) FROM range(4) t(i) ORDER BY ALL"
        assert rows(con, sql) == [(0,), (1,), (3,), (6,)]


FRAMES = [
    "ORDER BY i",
    "ORDER BY i DESC ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    "PARTITION BY i % 3 ORDER BY i",
    "PARTITION BY i % 3 ORDER BY i // 2 ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES",
    "PARTITION BY i % 2",
    "ORDER BY i ROWS BETWEEN 2 FOLLOWING AND 4 FOLLOWING",
]


@pytest.mark.parametrize("frame", FRAMES)
def test_windows_are_as_those_of_duckdbs_functions(ex, frame):
    # By the states of groups, or by whole partitions at the worker.
    def same(name, local, argument="nullif(i, 3)", more=""):
        sql = "SELECT i, NAME(%s) %sOVER (%s) FROM range(20) t(i) ORDER BY i" % (argument, more, frame)
        assert rows(ex, sql.replace("NAME", "ex.main." + name)) == rows(ex, sql.replace("NAME", local)), name

    known = rows(ex, "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'")
    for name in ("vgi_sum", "vgi_window_sum", "vgi_window_sum_batch", "vgi_streaming_sum"):
        if (name,) in known:  # an older generation has not all of them
            same(name, "sum")
            same(name, "sum", more="FILTER (i % 4 <> 0) ")
    if "ORDER" in frame:  # a frame that is all of its partition is a group, of which this one knows nothing
        same("vgi_window_median", "median", "i")
    if "EXCLUDE" not in frame:
        same("vgi_sum", "sum", "DISTINCT i // 2")


def test_a_window_over_several_vectors(ex):
    sql = "SELECT sum(s), count(s) FROM (SELECT %s(i) OVER (ORDER BY i ROWS 3 PRECEDING) AS s FROM range(2500) t(i))"
    assert rows(ex, sql % "ex.main.vgi_sum") == rows(ex, sql % "sum")
    assert rows(ex, sql % "ex.main.vgi_window_sum") == rows(ex, sql % "sum")
    assert rows(ex, "SELECT ex.main.vgi_window_sum(i) OVER () FROM range(0) t(i)") == []
    ex.execute("USE ex")
    assert rows(ex, "SELECT vgi_sum(i) OVER (ORDER BY i) FROM range(3) t(i) ORDER BY ALL") == [(0,), (1,), (3,)]


def test_prepared_statements_and_transactions_begin_anew(ex):
    ex.execute("PREPARE p AS SELECT ex.vgi_percentile(i, $1), ex.vgi_sum($2), ex.vgi_count() FROM range(11) t(i)")
    for _ in range(2):
        assert rows(ex, "EXECUTE p(0.5, 2)") == [(5.0, 22, 11)]
        assert rows(ex, "EXECUTE p(0.1, 3)") == [(1.0, 33, 11)]
    ex.execute("BEGIN")
    for _ in range(2):
        assert rows(ex, "EXECUTE p(0.5, 2)") == [(5.0, 22, 11)]
    ex.execute("COMMIT")
    assert rows(ex, "EXECUTE p(0.5, 2)") == [(5.0, 22, 11)]


SUM = {"columns": {"n": "int64"}, "aggregate": True}


def test_a_worker_lets_go_of_what_it_keeps_when_the_transaction_ends(con, tmp_path):
    worker = vgi_catalogs.SpecWorkers(tmp_path)
    con.execute("SET threads = 1")
    attach(con, worker(functions={"total": SUM}))
    assert rows(con, "SELECT n % 2, ex.total(n) FROM range(10) t(n) GROUP BY ALL ORDER BY ALL") == [(0, 20), (1, 25)]
    assert worker.calls().count("aggregate_bind") == worker.calls().count("aggregate_destructor") == 1
    con.execute("BEGIN")
    assert one(con, "SELECT ex.total(n) FROM range(10) t(n)") == 45
    assert worker.calls().count("aggregate_destructor") == 1
    con.execute("ROLLBACK")
    assert worker.calls().count("aggregate_bind") == worker.calls().count("aggregate_destructor") == 2
    # The same twice is asked for once.
    before = worker.calls().count("aggregate_update")
    assert rows(con, "SELECT ex.total(n), ex.total(n) + 1 FROM range(10) t(n)") == [(45, 46)]
    assert worker.calls().count("aggregate_update") == before + 1


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("fails", "vgi aggregate_update: the worker says: ValueError: no room for rows"),
        ("dies", "the worker's last words"),
        ("late", "vgi aggregate_finalize: the worker says: ValueError: no room for results"),
        ("short", "results for"),
        ("types", "results of another type than it was bound with"),
        ("columns", "the function gives 2 columns, not one"),
        ("nameless", "has no execution_id"),
    ],
)
def test_an_aggregate_that_goes_wrong_is_an_error(con, tmp_path, fault, text):
    worker = vgi_catalogs.SpecWorkers(tmp_path)
    con.execute("SET threads = 1")
    attach(con, worker(functions={"good": SUM, "bad": {**SUM, "fault": fault}}))
    for sql in (
        "SELECT ex.bad(n) FROM range(5) t(n)",
        "SELECT n, ex.bad(n) FROM range(5) t(n) GROUP BY n",
        "SELECT ex.main.bad(n) OVER (ORDER BY n) FROM range(5) t(n)",
    ):
        refused(con, sql, text)
        assert one(con, "SELECT ex.good(n) FROM range(5) t(n)") == 10
