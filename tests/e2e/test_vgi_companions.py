"""ATTACH (TYPE vgi): a worker's tables, their branches, and the databases that it has attached beside."""

import contextlib
import threading

import duckdb
import pytest
import services
import vgi_catalogs
import vgi_worker
from vgi_catalogs import attach, one, refused, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]
EXTENSIONS = services.ROOT / ".deps" / "extensions"
LAKE = "vgi_companion"
COLUMNS = {"id": "int64", "val": "string"}
ROWS = [(1, "cold-a"), (2, "cold-b"), (3, "cold-c"), (100, "hot-x"), (200, "hot-y")]
NUMBERS = {"columns": {"n": "int64"}, "rows": [[i] for i in range(50)]}


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    yield con
    con.close()


@pytest.fixture
def worker(tmp_path):
    return vgi_catalogs.SpecWorkers(tmp_path)


@pytest.fixture(params=[vgi_catalogs.SpecWorkers, vgi_catalogs.ServedWorkers])
def any_worker(request, tmp_path):
    """One that a test tells what to serve, or `openduck vgi-serve` of a database and a layout that say the same."""
    return request.param(tmp_path)


@pytest.fixture
def cold(tmp_path):
    """A file of DuckDB with the events of the past; its entry in a manifest."""
    path = tmp_path / "cold.duckdb"
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE events AS SELECT * FROM (VALUES %s) t(id, val)"
            % ", ".join("(%d::BIGINT, '%s')" % r for r in ROWS)
        )
    return {"alias": LAKE, "target": str(path), "db_type": "duckdb"}


def arm(condition):
    return {"source": [LAKE, "main", "events"], "filter": condition}


HOT_COLD = {
    "hot_cold": {
        "columns": COLUMNS,
        "branches": [arm("id < 100"), arm("id >= 100")],
        "required_extensions": ["parquet"],
    }
}


def databases(con, name=LAKE):
    return one(con, "SELECT count(*) FROM duckdb_databases() WHERE database_name ILIKE '%s'" % name)


def companions(con):
    return rows(con, "SELECT catalog_name, db_type, hidden, refcount FROM vgi_companion_catalogs()")


# ---------------------------------------------------------------- attach and read


def test_a_table_is_read_from_its_worker(con, worker):
    spec = {
        "tables": {"t": {"columns": {"n": "int64"}, "branches": [{"function": "numbers"}]}},
        "functions": {"numbers": NUMBERS},
    }
    location = worker(**spec)
    attach(con, location)
    assert rows(con, "SELECT count(*), min(n), max(n), sum(n) FROM ex.main.t") == [(50, 0, 49, 1225)]
    assert rows(con, "SELECT n FROM ex.t WHERE n > 47 ORDER BY n") == [(48,), (49,)]
    assert rows(con, "SELECT table_name FROM duckdb_tables() WHERE database_name = 'ex'") == [("t",)]
    con.execute("DETACH ex")
    assert worker.calls()[-1] == "catalog_detach"
    # The name may be asked for, and the place may stand in the path.
    con.execute("ATTACH '%s' (TYPE vgi)" % location)
    assert one(con, "SELECT count(*) FROM companion.t") == 50
    con.execute("ATTACH 'companion?location=%s' AS y (TYPE vgi)" % location.replace("%", "%25").replace("&", "%26"))
    assert one(con, "SELECT count(*) FROM y.t") == 50
    con.execute("ATTACH 'companion?location=/nowhere' AS z (TYPE vgi, LOCATION '%s')" % location)
    assert one(con, "SELECT count(*) FROM z.t") == 50


def test_an_attach_that_cannot_be_tells_why(con, worker):
    location = worker(catalogs=["a", "b"])
    refused(con, "ATTACH 'companion' AS ex (TYPE vgi)", "")
    refused(con, "ATTACH 'companion?' AS ex (TYPE vgi)", "VGI ATTACH requires LOCATION option")
    refused(con, "ATTACH '%s' AS ex (TYPE vgi)" % location, "the worker serves 2: 'a', 'b'")
    refused(con, "ATTACH 'nope' AS ex (TYPE vgi, LOCATION '%s')" % location, "no catalog 'nope'")
    refused(
        con, "ATTACH 'companion' AS ex (TYPE vgi, LOCATION '%s', shiny 1)" % location, 'Unknown ATTACH option "shiny"'
    )
    refused(
        con,
        "ATTACH 'companion' AS ex (TYPE vgi, LOCATION '%s', attach_companions perhaps)" % location,
        "ATTACH_COMPANIONS must be true or false",
    )
    assert databases(con, "ex") == 0


def test_a_worker_that_dies_is_no_end_of_rows(con, worker):
    dying = {"columns": {"n": "int64"}, "rows": [[i] for i in range(10000)], "die_after": 2}
    attach(
        con, worker(tables={"t": {"columns": {"n": "int64"}, "branches": [{"function": "f"}]}}, functions={"f": dying})
    )
    refused(con, "SELECT count(*) FROM ex.t", "the worker's last words")


# ---------------------------------------------------------------- companions


def test_a_companion_comes_and_goes_with_its_catalog(con, any_worker, cold):
    attach(con, any_worker(companions=[cold], tables=HOT_COLD))
    assert databases(con) == 1
    assert companions(con) == [(LAKE, "duckdb", False, 1)]
    assert one(con, "SELECT target FROM vgi_companion_catalogs()") == cold["target"]
    assert rows(con, "SELECT * FROM ex.hot_cold ORDER BY id") == ROWS
    assert one(con, "SELECT count(*) FROM ex.hot_cold") == 5
    assert rows(con, "SELECT * FROM ex.hot_cold WHERE id >= 150") == [(200, "hot-y")]
    assert rows(con, "SELECT id FROM ex.hot_cold WHERE id < 50 ORDER BY id") == [(1,), (2,), (3,)]
    con.execute("DETACH ex")
    assert databases(con) == 0
    assert companions(con) == []


def test_without_companions_a_branch_tells_which_it_lacks(con, any_worker, cold):
    attach(con, any_worker(companions=[cold], tables=HOT_COLD), "exo", attach_companions="false")
    assert databases(con) == 0
    refused(con, "SELECT * FROM exo.hot_cold", "'vgi_companion' (table 'events') which is not attached")


def test_a_database_of_the_users_stays(con, any_worker, cold):
    location = any_worker(companions=[cold], tables=HOT_COLD)
    con.execute("ATTACH ':memory:' AS vgi_companion")
    con.execute("CREATE TABLE vgi_companion.main.user_table AS SELECT 42 AS x")
    refused(con, "ATTACH 'companion' AS exc (TYPE vgi, LOCATION '%s')" % location, "already in use")
    assert databases(con, "exc") == 0
    assert rows(con, "SELECT x FROM vgi_companion.main.user_table") == [(42,)]


def test_catalogs_share_a_companion(con, any_worker, cold):
    location = any_worker(companions=[cold], tables=HOT_COLD)
    other = any_worker(companions=[{**cold, "alias": LAKE.upper()}], tables=HOT_COLD)
    attach(con, location, "exa")
    attach(con, other, "exb")
    assert databases(con) == 1
    assert companions(con) == [(LAKE, "duckdb", False, 2)]
    con.execute("DETACH exa")
    assert databases(con) == 1
    assert one(con, "SELECT count(*) FROM exb.hot_cold") == 5
    con.execute("DETACH exb")
    assert databases(con) == 0


def test_what_is_not_quite_the_same_is_not_shared(con, worker, cold):
    attach(con, worker(companions=[cold]), "exa")
    location = worker(companions=[{**cold, "options": {"READ_ONLY": "true"}}])
    refused(con, "ATTACH 'companion' AS exb (TYPE vgi, LOCATION '%s')" % location, "with other options (not replaced)")
    assert companions(con) == [(LAKE, "duckdb", False, 1)]


@pytest.mark.parametrize(
    "poison", [{"target": "ftp://nope/x"}, {"target": "/nowhere/at/all.duckdb", "db_type": "duckdb"}]
)
def test_a_failure_leaves_nothing_behind(con, worker, cold, poison):
    bad = {"alias": "poison", **poison}
    location = worker(companions=[cold, bad], tables=HOT_COLD)
    refused(con, "ATTACH 'companion' AS ex (TYPE vgi, LOCATION '%s')" % location, "companion 'poison'")
    assert (databases(con), databases(con, "ex")) == (0, 0)
    assert companions(con) == []
    # What is not required is left out.
    con.execute("CALL enable_logging('VGI')")
    attach(con, worker(companions=[cold, {**bad, "required": False}], tables=HOT_COLD))
    assert companions(con) == [(LAKE, "duckdb", False, 1)]
    events = rows(con, "SELECT event, info['alias'] FROM duckdb_logs_parsed('VGI') ORDER BY event")
    assert events == [("vgi.companion_attach", LAKE), ("vgi.companion_attach.skipped", "poison")]


def test_a_failure_after_the_companions_leaves_nothing_behind(con, worker, cold):
    """The alias is taken: DuckDB finds that out when the companions are attached already."""
    location = worker(companions=[cold], tables=HOT_COLD)
    con.execute("ATTACH ':memory:' AS ex")
    refused(con, "ATTACH 'companion' AS ex (TYPE vgi, LOCATION '%s')" % location, "already exists")
    assert databases(con) == 0
    assert companions(con) == []


def test_a_rollback_takes_the_companions_along(con, worker, cold):
    location = worker(companions=[cold], tables=HOT_COLD)
    con.execute("BEGIN")
    attach(con, location)
    con.execute("ROLLBACK")
    assert (databases(con), databases(con, "ex")) == (0, 0)
    assert companions(con) == []
    # But not if somebody else uses them by then.
    other = con.cursor()
    con.execute("BEGIN")
    attach(con, location, "exa")
    attach(other, location, "exb")
    con.execute("ROLLBACK")
    assert companions(con) == [(LAKE, "duckdb", False, 1)]
    assert one(other, "SELECT count(*) FROM exb.hot_cold") == 5


def test_a_hidden_companion_is_listed_only_by_its_own_function(con, any_worker, cold):
    attach(con, any_worker(companions=[{**cold, "hidden": True}], tables=HOT_COLD))
    assert databases(con) == 0
    assert companions(con) == [(LAKE, "duckdb", True, 1)]
    assert one(con, "SELECT count(*) FROM ex.hot_cold") == 5
    assert one(con, "SELECT count(*) FROM vgi_companion.main.events") == 5


def test_the_users_database_of_the_same_name_is_not_the_companion(con, worker, cold):
    location = worker(companions=[cold], tables=HOT_COLD)
    attach(con, location)
    con.execute("DETACH vgi_companion")
    con.execute("ATTACH ':memory:' AS vgi_companion")
    assert companions(con) == []
    refused(con, "ATTACH 'companion' AS exb (TYPE vgi, LOCATION '%s')" % location, "already in use")
    con.execute("DETACH ex")
    assert databases(con) == 1


def test_a_companion_that_is_the_default_database_is_kept_and_taken_over(con, any_worker, cold):
    location = any_worker(companions=[cold], tables=HOT_COLD)
    attach(con, location)
    con.execute("USE vgi_companion")
    con.execute("DETACH ex")
    assert companions(con) == [(LAKE, "duckdb", False, 0)]
    attach(con, location)
    assert companions(con) == [(LAKE, "duckdb", False, 1)]
    con.execute("USE memory")
    con.execute("DETACH ex")
    assert databases(con) == 0


def test_the_worker_chooses_no_other_type_and_no_secret(con, worker, cold):
    for bad, text in [
        ({**cold, "db_type": "foo"}, "scheme 'foo' is not permitted"),
        ({**cold, "db_type": ""}, "scheme '' is not permitted"),
        ({"alias": "x", "target": "http://127.0.0.1:1/x"}, "scheme 'http' is not permitted"),
        ({**cold, "target": "vgi:nested"}, "scheme 'vgi' is not permitted"),
        ({**cold, "options": {"type": "vgi"}}, "the option 'type', which is not permitted"),
        ({"alias": "x", "target": "postgres:host=h", "options": {"secret": "s"}}, "without attach_companion_secrets"),
    ]:
        location = worker(companions=[bad])
        error = refused(con, "ATTACH 'companion' AS ex (TYPE vgi, LOCATION '%s')" % location, text)
        assert isinstance(error, duckdb.BinderException)


def test_passwords_are_not_shown(con, worker):
    wish = {"alias": "pg", "target": "ftp:host=h password=hushhush"}
    error = refused(
        con, "ATTACH 'companion' AS ex (TYPE vgi, LOCATION '%s')" % worker(companions=[wish]), "password=***"
    )
    assert "hushhush" not in str(error)


def test_companions_can_be_read_only(con, any_worker, cold):
    attach(con, any_worker(companions=[cold]), companions_read_only="true")
    refused(con, "CREATE TABLE vgi_companion.main.t(i INTEGER)", "read-only")


def test_counts_are_right_when_many_attach_and_detach(con, worker, cold):
    location = worker(companions=[cold], tables=HOT_COLD)
    failures = []

    def rounds(mine, alias):
        try:
            for _ in range(3):
                attach(mine, location, alias)
                assert one(mine, "SELECT count(*) FROM %s.hot_cold" % alias) == 5
                mine.execute("DETACH " + alias)
        except Exception as why:
            failures.append(why)

    threads = [threading.Thread(target=rounds, args=(con.cursor(), "t%d" % i)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert databases(con) == 0
    assert companions(con) == []


# ---------------------------------------------------------------- branches


def two(first, second, columns=None, **more):
    return {"t": {"columns": columns or {"n": "int64"}, "branches": [first, second], **more}}


def test_a_time_split_prunes_the_other_arm(con, any_worker, tmp_path):
    """Typed literals, and a query of the last hour that reads nothing of the past."""
    path = tmp_path / "past.duckdb"
    with duckdb.connect(path) as past:
        past.execute(
            "CREATE TABLE old AS SELECT TIMESTAMP '2023-01-01' + to_days(i::INTEGER) AS ts, i::INTEGER AS v "
            "FROM range(100) t(i)"
        )
    days = [[1704067200000000 + i * 86400000000, i] for i in range(10)]
    hot = {"columns": {"ts": "timestamp[us]", "v": "int32"}, "rows": days}
    split = "TIMESTAMP '2024-01-01 00:00:00'"
    tables = two(
        {"function": "hot", "filter": "ts >= " + split},
        {"source": ["lake", "main", "old"], "filter": "ts < " + split},
        hot["columns"],
    )
    lake = {"alias": "lake", "target": str(path), "db_type": "duckdb"}
    attach(con, any_worker(companions=[lake], tables=tables, functions={"hot": hot}))
    assert one(con, "SELECT count(*) FROM ex.t") == 110
    recent, past = (
        "SELECT count(*) FROM ex.t WHERE ts >= '2024-01-01'",
        "SELECT count(*) FROM ex.t WHERE ts < '2024-01-01'",
    )
    plan = str(rows(con, "EXPLAIN " + recent))
    assert "VGI_SCAN" in plan and "old" not in plan
    assert one(con, recent) == 10
    scans = any_worker.calls().count("init")
    assert "VGI_SCAN" not in str(rows(con, "EXPLAIN " + past))
    assert one(con, past) == 100
    assert any_worker.calls().count("init") == scans


def filtered(conditions):
    """A table for each condition, of one branch."""
    branches = [{"function": "numbers", "filter": condition} for condition in conditions]
    tables = {"t%d" % i: {"columns": {"n": "int64"}, "branches": [branch]} for i, branch in enumerate(branches)}
    return {"tables": tables, "functions": {"numbers": NUMBERS}}


def test_one_branch_has_its_filter_too(con, any_worker):
    cases = {
        "n BETWEEN 10 AND 19": 10,
        "n IN (1, 2, 99)": 2,
        "N < 5 AND NOT n = 3": 4,
        "n::VARCHAR = '7' OR abs(n) = 8": 2,
        "n IS NOT NULL": 50,
        "CASE WHEN n < 25 THEN true ELSE false END": 25,
    }
    attach(con, any_worker(**filtered(cases)))
    counts = [one(con, "SELECT count(*) FROM ex.t%d" % i) for i in range(len(cases))]
    assert counts == list(cases.values())


def test_a_filter_is_a_condition_over_the_branch(con, worker):
    cases = {
        "n < (SELECT 5)": "must not hold a subquery",
        "sum(n) > 1": "cannot be bound",
        "n < random()": "must have the same value each time",
        "n < 5, n < 3": "must be one condition, not 2",
        "n <": "parse error",
        "m < 5": "cannot be bound",
        "row_number() OVER () < 5": "must not hold a window function",
    }
    attach(con, worker(**filtered(cases)))
    for i, text in enumerate(cases.values()):
        error = refused(con, "SELECT * FROM ex.t%d" % i, text)
        assert isinstance(error, duckdb.BinderException)


def test_branches_may_be_functions_of_duckdb_and_files(con, worker, tmp_path):
    con.execute("COPY (SELECT range AS n FROM range(50, 100)) TO '%s'" % (tmp_path / "n.parquet"))
    numbers = {"function": "numbers"}
    cases = [
        {"function": "read_parquet", "arguments": [str(tmp_path / "n.parquet")]},
        {"format": "parquet", "locations": [str(tmp_path / "n.parquet")]},
        {"function": "range", "arguments": [50, 100]},
    ]
    for i, case in enumerate(cases):
        columns = {"range": "int64"} if case.get("function") == "range" else {"n": "int64"}
        tables = {"t": {"columns": columns, "branches": [case]}}
        attach(con, worker(tables=tables), "one%d" % i)
        assert rows(con, "SELECT count(*), min(COLUMNS(*)), max(COLUMNS(*)) FROM one%d.t" % i) == [(50, 50, 99)]
    attach(con, worker(tables=two(numbers, cases[0]), functions={"numbers": NUMBERS}), "mixed")
    assert rows(con, "SELECT count(*), count(DISTINCT n), min(n), max(n) FROM mixed.t") == [(100, 100, 0, 99)]
    assert rows(con, "SELECT count(*), min(n), max(n) FROM mixed.t WHERE n >= 60") == [(40, 60, 99)]
    assert one(con, "SELECT count(*) FROM mixed.t WHERE n BETWEEN 25 AND 75") == 51


def test_columns_are_matched_by_name(con, any_worker, tmp_path):
    for i, select in enumerate(["1 AS a, 10 AS b", "20::SMALLINT AS B, 2::INTEGER AS A", "3 AS a"]):
        con.execute("COPY (SELECT %s) TO '%s'" % (select, tmp_path / ("f%d.parquet" % i)))
    branches = [{"format": "parquet", "locations": [str(tmp_path / ("f%d.parquet" % i))]} for i in range(3)]
    attach(con, any_worker(tables={"t": {"columns": {"a": "int64", "b": "int64"}, "branches": branches}}))
    assert rows(con, "SELECT a, b FROM ex.t ORDER BY a") == [(1, 10), (2, 20), (3, None)]
    assert rows(con, "SELECT b FROM ex.t WHERE b IS NOT NULL ORDER BY b") == [(10,), (20,)]
    attach(con, any_worker(tables={"t": {"columns": {"a": "int64"}, "branches": branches}}), "narrow")
    refused(con, "SELECT a FROM narrow.t", "column 'b' which is not in the table's declared schema")


def test_lists_that_make_no_sense_are_refused(con, worker):
    numbers = {"function": "numbers"}
    tables = {
        "none": {"columns": {"n": "int64"}, "branches": []},
        "writers": {"columns": {"n": "int64"}, "branches": [{**numbers, "writable": True}] * 2},
        "nobody": {"columns": {"n": "int64"}, "branches": [{"function": "no_such_function"}]},
        "both": {"columns": {"n": "int64"}, "branches": [numbers] * 2},
        "lacks": {"columns": {"n": "int64"}, "branches": [numbers], "required_extensions": ["no_such_extension"]},
    }
    attach(con, worker(tables=tables, functions={"numbers": NUMBERS}))
    refused(con, "FROM ex.none", "VGI table returned zero scan branches")
    refused(con, "FROM ex.writers", "declared 2 writable branches (ordinals: 0, 1)")
    refused(con, "FROM ex.nobody", "references unknown function 'no_such_function'")
    refused(con, "FROM ex.lacks", "needs the extension 'no_such_extension'")
    refused(con, "FROM ex.both AT (VERSION => 1)", "AT (...) clauses are not supported on multi-branch VGI tables")
    con.execute("SET vgi_multi_branch_scans = false")
    refused(con, "FROM ex.both", "Multi-branch VGI table scan disabled via vgi_multi_branch_scans=false")
    con.execute("SET vgi_multi_branch_scans = true")
    assert one(con, "SELECT count(*) FROM ex.both") == 100
    refused(con, "INSERT INTO ex.both VALUES (1)", "does not support INSERT")
    refused(con, "DELETE FROM ex.both", "Can only delete from base table")
    refused(con, "UPDATE ex.both SET n = 1", "Can only update base table")
    con.execute("PRAGMA disable_optimizer")
    refused(con, "FROM ex.both", "cannot be read without the optimizer")


def test_tables_of_branches_in_larger_queries(con, any_worker):
    tables = two({"function": "numbers"}, {"function": "numbers"})
    attach(con, any_worker(tables=tables, functions={"numbers": NUMBERS}))
    assert one(con, "SELECT count(*) FROM range(3) r(i), LATERAL (SELECT * FROM ex.t WHERE n < 5)") == 30
    assert one(con, "SELECT count(*) FROM range(3) r(i), LATERAL (SELECT * FROM ex.t WHERE n = i)") == 6
    assert rows(
        con, "SELECT count(*), max(t.n) FROM ex.t JOIN (SELECT i * 5 AS k FROM range(200) r(i)) ON t.n = k"
    ) == [(20, 45)]
    assert one(con, "WITH c AS (SELECT n FROM ex.t) SELECT count(*) FROM c a JOIN c b USING (n)") == 200
    assert one(con, "SELECT count(*) FROM (SELECT 1 FROM ex.t LIMIT 7)") == 7
    con.execute("CREATE TABLE copy AS FROM ex.t")
    assert one(con, "SELECT sum(n) FROM copy") == 2450
    con.execute("PREPARE p AS SELECT count(*) FROM ex.t WHERE n < $1")
    assert [one(con, "EXECUTE p(%d)" % i) for i in (5, 7)] == [10, 14]


def test_branches_are_listed(con, worker, cold):
    tables = {
        "t": {
            "columns": {"n": "int64"},
            "branches": [
                {"function": "numbers", "arguments": [7], "filter": "n < 50"},
                {"function": "numbers", "writable": True},
            ],
        },
        "broken": {"columns": {"n": "int64"}, "branches": []},
    }
    attach(con, worker(tables=tables, functions={"numbers": NUMBERS}))
    assert rows(con, "SELECT * FROM vgi_table_branches() ORDER BY branch_index") == [
        ("ex", "main", "t", 0, "numbers", "[7]", "{}", "n < 50", [], False),
        ("ex", "main", "t", 1, "numbers", "[]", "{}", None, [], True),
    ]


def test_more_branches_than_a_vector_holds_are_listed(con, worker):
    """With the companions' list it shares how rows are given."""
    table = {"columns": {"n": "int64"}, "branches": [{"function": "numbers"}] * 50}
    attach(con, worker(tables={"t%d" % i: table for i in range(60)}, functions={"numbers": NUMBERS}))
    sql = "SELECT count(*), count(DISTINCT (table_name, branch_index)), max(branch_index) FROM vgi_table_branches()"
    assert rows(con, sql) == [(3000, 3000, 49)]


def test_rows_that_no_branch_claims_or_two_do_are_counted(con, worker, cold):
    hot = {"columns": COLUMNS, "rows": [[5, "cold-e"], [100, "hot-x"], [300, "hot-z"]]}
    tables = {
        "right": {"columns": COLUMNS, "branches": [{"function": "hot", "filter": "id >= 100"}, arm("id < 100")]},
        "wrong": {
            "columns": COLUMNS,
            "branches": [{"function": "hot", "filter": "id > 100"}, arm("id < 50 OR id > 150")],
        },
        "loose": {"columns": COLUMNS, "branches": [{"function": "hot"}, arm("id < 100")]},
    }
    attach(con, worker(companions=[cold], tables=tables, functions={"hot": hot}))
    check = "FROM vgi_check_branches('ex.main.%s') ORDER BY branch_index"
    assert rows(con, check % "right") == [(0, 3, 0, 0), (1, 5, 0, 0)]
    # 100 is claimed by none, 300 and 200 by both.
    assert rows(con, check % "wrong") == [(0, 3, 1, 1), (1, 5, 1, 1)]
    assert rows(con, check % "loose") == [(0, 3, 0, 1), (1, 5, 0, 3)]
    con.execute("CREATE TABLE mine(i INTEGER)")
    refused(con, "FROM vgi_check_branches('mine')", "is no table of a VGI catalog")
    refused(con, "FROM vgi_check_branches('ex.main.nope')", "does not exist")


# ---------------------------------------------------------------- a lake


def test_a_lake_beside_a_worker(con, worker, tmp_path):
    con.execute("SET extension_directory = '%s'" % EXTENSIONS)
    con.execute("LOAD ducklake; LOAD sqlite_scanner")
    target = "ducklake:sqlite:%s" % (tmp_path / "meta.sqlite")
    (tmp_path / "data").mkdir()
    con.execute("ATTACH '%s' AS seed (DATA_PATH '%s')" % (target, tmp_path / "data"))
    con.execute("CREATE TABLE seed.events(id BIGINT, val VARCHAR)")
    con.execute("INSERT INTO seed.events VALUES " + ", ".join("(%d, '%s')" % row for row in ROWS))
    con.execute("DETACH seed")
    attach(con, worker(companions=[{"alias": LAKE, "target": target}], tables=HOT_COLD))
    assert companions(con) == [(LAKE, "ducklake", False, 1)]
    assert rows(con, "SELECT * FROM ex.hot_cold ORDER BY id") == ROWS
    assert rows(con, "SELECT * FROM ex.hot_cold WHERE id >= 150") == [(200, "hot-y")]
    assert str(rows(con, "EXPLAIN SELECT * FROM ex.hot_cold WHERE id >= 150")).count("DUCKLAKE_SCAN") == 1
    con.execute("DETACH ex")
    assert one(con, "SELECT count(*) FROM duckdb_databases() WHERE NOT internal") == 1


# ---------------------------------------------------------------- workers of the public SDK


def seed(con, tmp_path):
    """A lake of the five events; its target."""
    con.execute("SET extension_directory = '%s'" % EXTENSIONS)
    con.execute("LOAD ducklake; LOAD sqlite_scanner")
    target = "ducklake:sqlite:%s" % (tmp_path / "meta.sqlite")
    return vgi_catalogs.make_lake(con, target, tmp_path / "data", ROWS)


@contextlib.contextmanager
def companion_worker(generation, tmp_path, target, hidden=False, poison=False):
    """The SDK's, or ours of the same catalog."""
    if generation != "ours":
        extra = {"VGI_TEST_COMPANION_TARGET": target}
        extra.update({"VGI_TEST_COMPANION_HIDDEN": "1"} if hidden else {})
        extra.update({"VGI_TEST_COMPANION_POISON": "1"} if poison else {})
        with vgi_worker.VgiWorker(generation, module="companion", extra=extra) as sdk:
            yield sdk.location
        return
    folder = tmp_path / ("ours%d%d" % (hidden, poison))
    folder.mkdir()
    asked = [{"alias": LAKE, "target": target, "hidden": hidden}]
    asked += [{"alias": "poison", "target": "evil:nowhere"}] if poison else []
    yield vgi_catalogs.ServedWorkers(folder)(companions=asked, tables=HOT_COLD, default_schema="data")


@pytest.mark.parametrize("generation", [*vgi_worker.GENERATIONS, "ours"])
def test_the_companion_worker_of_the_sdk(con, tmp_path, generation):
    target = seed(con, tmp_path)
    with companion_worker(generation, tmp_path, target) as location:
        attach(con, location)
        assert databases(con) == 1
        assert companions(con) == [(LAKE, "ducklake", False, 1)]
        assert one(con, "SELECT count(*) FROM vgi_companion_catalogs() WHERE target LIKE 'ducklake:sqlite:%'") == 1
        assert rows(con, "SELECT * FROM ex.data.hot_cold ORDER BY id") == ROWS
        assert rows(con, "SELECT * FROM ex.hot_cold WHERE id >= 150") == [(200, "hot-y")]
        assert rows(con, "SELECT id FROM ex.data.hot_cold WHERE id < 50 ORDER BY id") == [(1,), (2,), (3,)]
        assert str(rows(con, "EXPLAIN SELECT * FROM ex.hot_cold WHERE id >= 150")).count("DUCKLAKE_SCAN") == 1
        con.execute("DETACH ex")
        assert one(con, "SELECT count(*) FROM duckdb_databases() WHERE NOT internal") == 1
    with companion_worker(generation, tmp_path, target, poison=True) as location:
        refused(con, "ATTACH 'companion' AS ex (TYPE vgi, LOCATION '%s')" % location, "not permitted")
        assert (databases(con), databases(con, "ex")) == (0, 0)
    with companion_worker(generation, tmp_path, target, hidden=True) as location:
        attach(con, location)
        assert databases(con) == 0
        assert companions(con) == [(LAKE, "ducklake", True, 1)]
        assert one(con, "SELECT count(*) FROM ex.data.hot_cold") == 5


@pytest.mark.parametrize(("peer", "generation"), vgi_worker.KINDS, ids=vgi_worker.IDS)
def test_tables_of_branches_of_the_sdk(con, peer, generation):
    with vgi_worker.VgiWorker(generation, peer=peer) as worker:
        attach(con, worker.location, name="example")
        plain, split = "ex.data.multi_branch_numbers", "ex.data.multi_branch_filtered_numbers"
        numbers = "SELECT count(*), min(n), max(n), count(DISTINCT n) FROM "
        assert rows(con, numbers + plain) == [(100, 0, 49, 50)]
        assert rows(con, numbers + split) == [(100, 0, 99, 100)]
        assert rows(con, numbers + split + " WHERE n > 75") == [(24, 76, 99, 24)]
        assert rows(con, numbers + split + " WHERE n < 25") == [(25, 0, 24, 25)]
        con.execute("SET vgi_multi_branch_scans = false")
        refused(con, "FROM " + plain, "Multi-branch VGI table scan disabled via vgi_multi_branch_scans=false")
        con.execute("SET vgi_multi_branch_scans = true")
        for at in ("VERSION => 1", "TIMESTAMP => now()"):
            refused(
                con, "FROM %s AT (%s)" % (plain, at), "AT (...) clauses are not supported on multi-branch VGI tables"
            )
        refused(con, "INSERT INTO %s VALUES (1)" % plain, "does not support INSERT")
        refused(con, "DELETE FROM " + plain, "Can only delete from base table")
        if peer == "sdk":  # our library refuses such a table
            refused(con, "FROM ex.data.multi_branch_empty", "VGI table returned zero scan branches")
        lateral = "SELECT count(*) FROM range(1, 4) r(i), LATERAL (SELECT * FROM %s m WHERE m.n = r.i)" % plain
        assert one(con, lateral) == 6
        keys = "(SELECT i * 5 AS k FROM range(200) r(i))"
        assert rows(con, "SELECT count(*), min(n), max(n) FROM %s JOIN %s ON n = k" % (plain, keys)) == [(20, 0, 45)]
