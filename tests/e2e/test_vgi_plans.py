"""VGI scans in plans that DuckDB weighs, copies and compares: estimates, CTEs, subqueries, prepared statements."""

import json

import pytest
import vgi_catalogs
from vgi_catalogs import attach, one, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]
COLUMNS = {"id": "int64", "v": "int64"}


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    yield con
    con.close()


@pytest.fixture
def worker(tmp_path):
    return vgi_catalogs.SpecWorkers(tmp_path)


def estimates(con, sql):
    """How many rows DuckDB expects of each scan of a worker's function, by the function's name."""
    found = {}

    def walk(node):
        info = node["extra_info"]
        if "Function" in info:
            found[info["Function"].split(".")[-1]] = int(info["Estimated Cardinality"])
        for child in node["children"]:
            walk(child)

    walk(json.loads(rows(con, "EXPLAIN (FORMAT json) " + sql)[0][1])[0])
    return found


# ---------------------------------------------------------------- statistics


def test_what_a_worker_says_of_its_columns_guides_estimates(con, worker):
    function = {"columns": COLUMNS, "cardinality": 10000, "filters": "apply", "rows": []}
    attach(
        con,
        worker(
            tables={
                "told": {
                    "columns": COLUMNS,
                    "branches": [{"function": "big"}],
                    "statistics": {"id": [0, 9999, 10000], "v": [0, 1000, 50]},
                },
                "silent": {"columns": COLUMNS, "branches": [{"function": "asked"}]},
            },
            functions={"big": function, "asked": {**function, "statistics": {"v": [0, 100, 4]}}},
        ),
    )
    join = "SELECT count(*) FROM ex.told JOIN ex.silent USING (id) WHERE "
    assert estimates(con, join + "told.v < 10") == {"big": 100, "asked": 10000}
    assert estimates(con, join + "told.v BETWEEN 100 AND 200 AND silent.v = 7") == {"big": 1000, "asked": 2500}
    assert estimates(con, join + "told.v IN (1, 2) AND silent.v > 75") == {"big": 400, "asked": 2500}
    # What nobody can be, and what is not told.
    assert estimates(con, join + "told.v > 5000 AND silent.id > 5") == {"big": 1, "asked": 10000}
    assert worker.calls().count("table_function_statistics") == 4  # of the table's that has none
    # Where nothing is weighed, nothing is asked.
    assert estimates(con, "FROM ex.silent WHERE v > 75") == {"asked": 10000}
    assert worker.calls().count("table_function_statistics") == 4


def test_workers_of_the_sdk_say_it(ex):
    """Of a table, told with it or asked for, and of a function."""
    join = "SELECT count(*) FROM ex.data.%s a JOIN ex.data.departments b ON b.id = a.%s WHERE a.%s < %d"
    assert estimates(ex, join % ("funny_numbers", "n", "n", 1000)) != estimates(
        ex, join % ("funny_numbers", "n", "n", 100000)
    )
    sql = "SELECT count(*) FROM ex.data.numbers a JOIN ex.data.large_sequence b ON a.value = b.n WHERE b.n < 10"
    assert one(ex, sql) == 10


@pytest.mark.parametrize("told", ["with the table", "by the function"])
def test_statistics_that_lie_change_no_answer(con, worker, told):
    """DuckDB would take bounds and nulls for true: it would drop conditions, narrow types and leave out checks."""
    columns = {"id": "int64", "v": "int64", "s": "string", "small": "int32"}
    values = [[i, None if i % 7 == 0 else i * 1000, "ü%d" % i * (i % 40), i - 50] for i in range(100)]
    values.append([2**62, 2**62, "x" * 300, 2**31 - 1])
    lies = {"id": [3, 4, 2], "v": [5, 5, 1], "s": ["a", "b", 2], "small": [1, 2, 2**62]}
    table = {"columns": columns, "branches": [{"function": "f"}]}
    function = {"columns": columns, "rows": values, "cardinality": 1}
    (table if told == "with the table" else function)["statistics"] = lies
    attach(con, worker(tables={"t": table}, functions={"f": function}))
    con.execute("CREATE TABLE truth AS SELECT * FROM ex.t")
    assert rows(con, "SELECT count(*), count(v) FROM truth") == [(101, 86)]
    con.execute("CREATE TABLE other AS SELECT range::BIGINT AS id, 'o' || range AS o FROM range(200)")
    for sql in (
        "SELECT t.id FROM {t} t JOIN other USING (id) WHERE v > 10000",
        "SELECT t.id FROM {t} t JOIN other USING (id) WHERE v IS NULL OR s IS NULL",
        "SELECT count(*) FROM {t} t LEFT JOIN other USING (id) WHERE v IS NOT NULL",
        "SELECT id % 5 AS k, count(*), min(v), max(s), sum(small) FROM {t} t GROUP BY k",
        "SELECT small, count(*) FROM {t} t JOIN other ON other.id = t.small GROUP BY small",
        "SELECT min(t.id), max(t.id), min(v), max(v), count(DISTINCT s), max(length(s)) FROM {t} t, other",
        "SELECT upper(s), v, id FROM {t} t JOIN other USING (id) ORDER BY v DESC NULLS LAST, s",
        "SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.v JOIN other o ON o.id = a.id % 200",
        "SELECT DISTINCT s, v FROM {t} t WHERE id IN (SELECT id FROM other) OR v = 4611686018427387904",
        "SELECT sum(t.small::INTEGER + 1::BIGINT), sum(u.v // 7) FROM {t} t JOIN {t} u USING (id)",
    ):
        found, expected = (con.execute(sql.format(t=t)).fetchall() for t in ("ex.t", "truth"))
        assert sorted(found, key=repr) == sorted(expected, key=repr), sql
    for sql in ("SELECT t.small + 1::INTEGER FROM {t} t, other", "SELECT t.v * 4 FROM {t} t JOIN {t} u USING (id)"):
        for t in ("ex.t", "truth"):
            vgi_catalogs.refused(con, sql.format(t=t), "Overflow")


# ---------------------------------------------------------------- copies


def two_tables(con, worker):
    """Tables of the same columns, and functions, that differ in their rows alone; and the same as `a` and `b` here."""
    spec = {
        name: {"columns": COLUMNS, "rows": [[i, i * by] for i in range(10)]} for name, by in (("fa", 1), ("fb", 100))
    }
    attach(
        con,
        worker(
            tables={t: {"columns": COLUMNS, "branches": [{"function": "f" + t}]} for t in "ab"},
            functions={**spec, "twice": {"columns": {"n": "int64"}, "scalar": True}},
        ),
    )
    for t in "ab":
        con.execute("CREATE TABLE %s AS FROM ex.%s" % (t, t))


GROUPED = "(SELECT id %% 3 AS k, sum(v) AS s, count(*) AS c FROM {%s} GROUP BY ALL)"


@pytest.mark.parametrize(
    "sql",
    [
        # Parts of a plan that look alike are read once.
        "SELECT (SELECT sum(v) FROM {a}), (SELECT sum(v) FROM {b})",
        "FROM %s x JOIN %s y USING (k)" % (GROUPED % "a", GROUPED % "b"),
        "SELECT count(*), sum(s) FROM (FROM %s UNION ALL FROM %s)" % (GROUPED % "a", GROUPED % "b"),
        "FROM %s x JOIN %s y USING (k)" % (GROUPED % "a", GROUPED % "a"),
        # CTEs, in the place of each of their names or read once.
        "WITH c AS MATERIALIZED (FROM {a}) SELECT count(*), sum(x.v + y.v) FROM c x, c y",
        "WITH c AS NOT MATERIALIZED (FROM {a}) SELECT count(*), sum(x.v + y.v) FROM c x, c y",
        "WITH c AS (FROM {a} WHERE v > 3) SELECT * FROM (SELECT count(*) FROM c), (SELECT max(v) FROM c)",
        "WITH c AS (FROM {a}) SELECT count(*) FROM (FROM c LIMIT 3) UNION ALL SELECT count(*) FROM (FROM c LIMIT 2)",
        "WITH c AS (SELECT id, b.v FROM {a} JOIN {b} b USING (id)) FROM (FROM c ORDER BY v LIMIT 3) JOIN c USING (id)",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c JOIN {a} a ON a.id = n) SELECT count(*) FROM c",
        # Subqueries about a row of the query around them.
        "SELECT id FROM {a} x WHERE v >= (SELECT avg(v) FROM {a} y WHERE y.id % 2 = x.id % 2)",
        "SELECT id, (SELECT max(v) FROM {b} y WHERE y.id < x.id) FROM {a} x",
        "SELECT id FROM {a} x WHERE EXISTS (FROM {b} y WHERE y.v = x.id * 100 AND y.id > 4)",
        "SELECT x.id, s FROM {a} x, LATERAL (SELECT sum(v) AS s FROM {b} y WHERE y.id <= x.id)",
        "SELECT id FROM {a} WHERE id IN (SELECT v // 100 FROM {b} WHERE v > 300)",
        "SELECT id, v, row_number() OVER (PARTITION BY id % 2 ORDER BY v DESC) FROM {a} QUALIFY max(v) OVER () > 3",
    ],
)
def test_plans_are_copied_and_compared_as_what_they_read(con, worker, sql):
    two_tables(con, worker)
    found, expected = (
        con.execute(sql.format(a=prefix + "a", b=prefix + "b")).fetchall() for prefix in ("ex.", "memory.")
    )
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    con.execute("PREPARE p AS " + sql.format(a="ex.a", b="ex.b"))
    for _ in range(2):
        assert sorted(con.execute("EXECUTE p").fetchall(), key=repr) == sorted(expected, key=repr)


def test_functions_are_copied_and_compared_as_what_they_are(con, worker):
    """Functions of another catalog of the same name, and those that a plan calls twice."""
    two_tables(con, worker)
    other = vgi_catalogs.SpecWorkers(worker.folder / "other")
    other.folder.mkdir()
    attach(con, other(functions={"fa": {"columns": COLUMNS, "rows": [[1, 7]]}}), alias="other")
    total = "(SELECT id % 2 AS k, sum(v) AS s FROM {}.fa() GROUP BY ALL)"
    sql = "SELECT x.s, y.s FROM %s x JOIN %s y USING (k)" % (total.format("ex"), total.format("other"))
    assert rows(con, sql) == [(25, 7)]
    sql = "WITH c AS NOT MATERIALIZED (SELECT ex.twice(id) AS t FROM ex.a) SELECT count(*), sum(x.t) FROM c x, c y"
    assert rows(con, sql) == [(100, 450)]
    sql = "WITH c AS (SELECT ex.twice(id) AS t FROM a) SELECT (SELECT sum(t) FROM c), (SELECT count(t) FROM c)"
    assert rows(con, sql) == [(45, 10)]


def test_a_prepared_statement_reads_what_is_there_when_it_runs(ex):
    ex.execute("PREPARE p AS WITH c AS (FROM ex.data.numbers WHERE value < $1) SELECT count(*) FROM c x, c y")
    assert [one(ex, "EXECUTE p(%d)" % n) for n in (3, 5)] == [9, 25]
    ex.execute("PREPARE q AS SELECT count(*) FROM ex.data.numbers a JOIN ex.sequence(10) b ON a.value = b.n + $1")
    assert [one(ex, "EXECUTE q(%d)" % n) for n in (0, 95)] == [10, 5]
