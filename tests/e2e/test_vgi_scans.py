"""What a VGI worker is told of the query that reads its rows: columns, conditions, limits, streams."""

import pytest
import vgi_catalogs
from vgi_catalogs import attach, one, refused, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]
NUMBERS = {"columns": {"n": "int64", "m": "int64"}, "rows": [[i, i * 10] for i in range(100)], "projects": True}
TABLE = {"t": {"columns": NUMBERS["columns"], "branches": [{"function": "numbers"}]}}


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    yield con
    con.close()


@pytest.fixture
def worker(tmp_path):
    return vgi_catalogs.SpecWorkers(tmp_path)


# ---------------------------------------------------------------- conditions


def test_conditions_reach_the_worker(ex, fixtures):
    """The worker says which ones; what it is not told, and what it is, holds for what comes."""
    newer = fixtures.generation == "2.2"
    cases = {
        "n >= 8 AND n < 10": ([8, 9], "(n >= 8 AND n < 10)"),
        "n IN (3, 5)": ([3, 5], "n IN (3, 5)"),
        "7 = n": ([7], "n = 7"),
        "s = 'row_7'": ([7], "s = 'row_7'"),
        "n BETWEEN 3 AND 4 OR n = 9": ([3, 4, 9], "((n >= 3 AND n <= 4) OR n = 9)"),
        "s LIKE '%_1%' AND n > 90": ([91], "n > 90"),
        "n IS NOT NULL AND n = 2": ([2], "n IS NOT NULL AND n = 2"),
        "abs(n) = 4 AND n < 50": ([4], "n < 50"),
        "n = s.length() AND n < 50": ([5], "n < 50"),
        # Generation 1.3 has no condition on two columns; the next one is told all the same.
        "(n = 1 OR s = 'row_3') AND n < 50": ([1, 3], None),
    }
    for condition, (expected, told) in cases.items():
        found = rows(ex, "SELECT n, pushed_filters FROM ex.data.filter_echo_table WHERE %s ORDER BY n" % condition)
        assert [row[0] for row in found] == expected, condition
        if told is None:
            told_both = "(n = 1 OR s = 'row_3') AND n < 50"
            assert {row[1] for row in found} == {told_both if newer else "n < 50"}
        else:
            assert {row[1] for row in found} == {told}
    ex.execute("PREPARE p AS SELECT n, pushed_filters FROM ex.data.filter_echo_table WHERE n = $1")
    assert [rows(ex, "EXECUTE p(%d)" % i)[0][0] for i in (4, 6)] == [4, 6]
    # A view's, and a branch's.
    ex.execute("CREATE VIEW v AS SELECT n AS k, pushed_filters FROM ex.data.filter_echo_table")
    assert rows(ex, "FROM v WHERE k = 11") == [(11, "n = 11")]


def test_what_a_worker_applies_exactly_is_not_applied_again(con, worker):
    attach(con, worker(tables=TABLE, functions={"numbers": {**NUMBERS, "filters": "apply"}}))
    assert rows(con, "SELECT m FROM ex.t WHERE n > 97 ORDER BY m") == [(980,), (990,)]
    assert worker.told("init")[-1]["columns"] == [1]
    plan = str(rows(con, "EXPLAIN SELECT m FROM ex.t WHERE n > 97"))
    assert "FILTER" not in plan and "n > 97" in plan
    assert one(con, "SELECT count(*) FROM ex.t WHERE n > 10 AND m % 20 = 0") == 44
    # Two places of one query are two scans.
    assert rows(con, "SELECT (SELECT sum(n) FROM ex.t WHERE n < 3), (SELECT sum(n) FROM ex.t WHERE n < 4)") == [(3, 6)]


def test_what_a_worker_does_not_apply_is_applied(con, worker):
    attach(con, worker(tables=TABLE, functions={"numbers": {**NUMBERS, "filters": "ignore"}}))
    assert rows(con, "SELECT m FROM ex.t WHERE n > 97 ORDER BY m") == [(980,), (990,)]
    assert len(worker.told("init")[-1]["filters"]) == 1
    attach(con, worker(tables=TABLE, functions={"numbers": NUMBERS}), "plain")
    assert rows(con, "SELECT m FROM plain.t WHERE n > 97 ORDER BY m") == [(980,), (990,)]
    assert worker.told("init")[-1]["filters"] == []


@pytest.mark.parametrize("projects", [True, False])
def test_a_worker_without_an_engine_for_filters_sends_all_rows(con, worker, projects):
    """It promised to apply them: what it cannot is done here, with columns that nobody else asked for."""
    numbers = {**NUMBERS, "filters": "refuse", "projects": projects}
    attach(con, worker(tables=TABLE, functions={"numbers": numbers}))
    assert rows(con, "SELECT m FROM ex.t WHERE n > 97 ORDER BY m") == [(980,), (990,)]
    assert worker.told("init")[-1]["columns"] == ([1, 0] if projects else None)
    assert one(con, "SELECT count(*) FROM ex.t WHERE n IN (3, 200) OR m = 70") == 2
    assert rows(con, "SELECT m FROM ex.t WHERE n > 97 LIMIT 1") in ([(980,)], [(990,)])
    assert worker.told("init")[-1]["limit"] is None


# ---------------------------------------------------------------- limits


def test_a_limit_reaches_the_worker(con, worker):
    tables = {**TABLE, "two": {"columns": NUMBERS["columns"], "branches": [{"function": "numbers"}] * 2}}
    attach(con, worker(tables=tables, functions={"numbers": {**NUMBERS, "filters": "ignore"}}))

    def limits(sql, count):
        before = len(worker.told("init"))
        assert len(rows(con, sql)) == count
        return [told["limit"] for told in worker.told("init")[before:]]

    assert limits("SELECT n + 1 FROM ex.t LIMIT 3", 3) == [3]
    assert limits("FROM ex.t LIMIT 3 OFFSET 2", 3) == [5]
    assert set(limits("FROM ex.two LIMIT 7", 7)) == {7}
    # Where a row more or less may count, it does not.
    assert limits("FROM ex.t WHERE n % 2 = 1 LIMIT 3", 3) == [None]
    assert limits("FROM ex.t WHERE n > 50 LIMIT 3", 3) == [None]
    assert limits("SELECT DISTINCT n % 5 FROM ex.t LIMIT 3", 3) == [None]
    assert limits("FROM ex.t ORDER BY m DESC LIMIT 3", 3) == [None]
    assert limits("FROM ex.t LIMIT 3%", 3) == [None]


# ---------------------------------------------------------------- required filters


def test_a_table_that_requires_filters_is_not_read_without(ex):
    for table, filters, fits in [
        ("rff_simple", "true", False),
        ("rff_simple", "b = 10", False),
        ("rff_simple", "a = 1", True),
        ("rff_simple", "A + 1 = 2", True),
        ("rff_struct", "s.a = 1", False),
        ("rff_struct", "s IS NOT NULL", False),
        ("rff_struct", "s.a = 1 AND s.b > 0", True),
        ("rff_struct", "s['a'] = 1 AND s.b > 0", True),
        ("rff_nested", "wrapper.mid IS NOT NULL", False),
        ("rff_nested", "wrapper.mid.leaf = 3", True),
        ("rff_or", "b IS NOT NULL", True),
        ("rff_or", "true", False),
    ]:
        sql = "SELECT count(*) FROM ex.data.%s WHERE %s" % (table, filters)
        if fits:
            assert one(ex, sql) >= 1, sql
        else:
            refused(ex, sql, 'VGI table "data"."%s" is read only with a filter on "' % table)
    refused(ex, "FROM ex.data.rff_or", 'is read only with a filter on "a" or "b"')
    assert one(ex, "SELECT count(*) FROM ex.data.rff_none") == 3


def test_a_required_filter_is_found_wherever_it_stands(ex):
    ex.execute("CREATE VIEW vsimple AS SELECT a AS k, b FROM ex.data.rff_simple")
    for sql in [
        "SELECT b FROM vsimple WHERE k = 1",
        "WITH c AS MATERIALIZED (FROM ex.data.rff_simple) SELECT b FROM c WHERE a = 1",
        "SELECT x.b FROM ex.data.rff_simple x, ex.data.rff_none y WHERE x.a = 1 AND y.a = 1",
        "SELECT b FROM (FROM vsimple UNION ALL SELECT 0, 0) WHERE k = 1",
        "SELECT b FROM (SELECT k, max(b) AS b FROM vsimple GROUP BY k) WHERE k = 1",
    ]:
        assert rows(ex, sql) == [(10,)], sql
    refused(ex, "SELECT x.b FROM ex.data.rff_simple x, ex.data.rff_none y WHERE y.a = 1", "is read only with a filter")
    ex.execute("PREPARE p AS SELECT b FROM vsimple WHERE k = $1")
    assert rows(ex, "EXECUTE p(1)") == [(10,)]
