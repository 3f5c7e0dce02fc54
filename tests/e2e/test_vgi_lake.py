"""Workers of the public SDK, in both generations, and of our own, beside a DuckLake (in SQLite, in PostgreSQL): what a
VGI client is expected to do with companions and with tables of branches. tests/README.md lists row by row what is
shown where."""

import contextlib

import duckdb
import pytest
import services
import vgi_catalogs
import vgi_worker
from vgi_catalogs import attach, one, refused, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]
EXTENSIONS = services.ROOT / ".deps" / "extensions"
LAKE = "vgi_companion"
ROWS = [(1, "cold-a"), (2, "cold-b"), (3, "cold-c"), (100, "hot-x"), (200, "hot-y")]
#: PostgreSQL's client is not of the sanitized build.
STORES = ["sqlite", "postgres"] if services.PRESET == "release" else ["sqlite"]


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    con.execute("SET extension_directory = '%s'" % EXTENSIONS)
    con.execute("LOAD ducklake; LOAD sqlite_scanner")
    yield con
    con.close()


@pytest.fixture(params=[*vgi_worker.GENERATIONS, "served"])
def companion(request, tmp_path):
    """Starts a worker with the target of a companion, and with the fixture's variables that are named; gives its
    location. It is the public SDK's, or `openduck vgi-serve` with the same tables."""
    return sdks(request.param) if request.param != "served" else served(tmp_path)


def sdks(generation):
    @contextlib.contextmanager
    def start(target, **more):
        extra = {"VGI_TEST_COMPANION_TARGET": target, **{"VGI_TEST_COMPANION_" + key: "1" for key in more}}
        with vgi_worker.VgiWorker(generation, module="companion", extra=extra) as worker:
            yield worker.location

    return start


def served(folder):
    arms = [{"source": [LAKE, "main", "events"], "filter": where} for where in ("id < 100", "id >= 100")]
    columns = {"id": "int64", "val": "string"}
    tables = {"hot_cold": {"columns": columns, "branches": arms, "required_extensions": ["parquet"]}}
    worker = vgi_catalogs.ServedWorkers(folder)

    @contextlib.contextmanager
    def start(target, **more):
        wishes = [{"alias": LAKE, "target": target, "hidden": "HIDDEN" in more}]
        wishes += [{"alias": "vgi_companion_poison", "target": "ftp://nope/x"}] if "POISON" in more else []
        yield worker(companions=wishes, tables=tables, default_schema="data")

    return start


@pytest.fixture(params=STORES)
def lake(request, con, tmp_path):
    """The target of a lake with the five events."""
    target = "ducklake:sqlite:%s" % (tmp_path / "meta.sqlite")
    if request.param == "postgres":
        con.execute("LOAD postgres_scanner")
        database = "v%d" % abs(hash(str(tmp_path)))
        target = "ducklake:postgres:" + request.getfixturevalue("postgres").create(database)
    return vgi_catalogs.make_lake(con, target, tmp_path / "data", ROWS)


def databases(con, name=LAKE):
    return one(con, "SELECT count(*) FROM duckdb_databases() WHERE database_name = '%s'" % name)


def listed(con):
    return rows(con, "SELECT catalog_name, db_type, hidden, refcount FROM vgi_companion_catalogs()")


def test_a_lake_comes_and_goes_with_its_catalogs(con, lake, companion):
    with companion(lake) as location:
        attach(con, location)
        assert databases(con) == 1
        assert listed(con) == [(LAKE, "ducklake", False, 1)]
        kind = lake.split(":")[1]
        assert one(con, "SELECT count(*) FROM vgi_companion_catalogs() WHERE target LIKE 'ducklake:%s:%%'" % kind) == 1
        assert rows(con, "SELECT * FROM ex.data.hot_cold ORDER BY id") == ROWS
        assert one(con, "SELECT count(*) FROM ex.data.hot_cold") == 5
        assert rows(con, "SELECT * FROM ex.data.hot_cold WHERE id >= 150") == [(200, "hot-y")]
        assert rows(con, "SELECT id FROM ex.data.hot_cold WHERE id < 50 ORDER BY id") == [(1,), (2,), (3,)]
        assert str(rows(con, "EXPLAIN SELECT * FROM ex.hot_cold WHERE id >= 150")).count("DUCKLAKE_SCAN") == 1
        con.execute("DETACH ex")
        assert databases(con) == 0 and listed(con) == []
        attach(con, location, "exo", attach_companions="false")
        assert databases(con) == 0
        refused(con, "FROM exo.data.hot_cold", "not attached")
        con.execute("ATTACH ':memory:' AS vgi_companion")
        con.execute("CREATE TABLE vgi_companion.main.user_table AS SELECT 42 AS x")
        refused(con, "ATTACH 'companion' AS exc (TYPE vgi, LOCATION '%s')" % location, "already in use")
        assert rows(con, "SELECT x FROM vgi_companion.main.user_table") == [(42,)]
        con.execute("DETACH vgi_companion")
        attach(con, location, "exa")
        attach(con, location, "exb")
        assert databases(con) == 1 and listed(con) == [(LAKE, "ducklake", False, 2)]
        con.execute("DETACH exa")
        assert databases(con) == 1
        assert one(con, "SELECT count(*) FROM exb.data.hot_cold") == 5
        con.execute("DETACH exb")
        assert databases(con) == 0 and listed(con) == []


@pytest.mark.parametrize("lake", ["sqlite"], indirect=True)
def test_a_poisoned_manifest_leaves_nothing_and_a_hidden_lake_is_hidden(con, lake, companion):
    with companion(lake, POISON=True) as location:
        refused(con, "ATTACH 'companion' AS ex (TYPE vgi, LOCATION '%s')" % location, "not permitted")
        assert (databases(con), databases(con, "ex")) == (0, 0)
    with companion(lake, HIDDEN=True) as location:
        attach(con, location)
        assert databases(con) == 0
        assert rows(con, "SELECT db_type, refcount FROM vgi_companion_catalogs() WHERE hidden") == [("ducklake", 1)]
        assert one(con, "SELECT count(*) FROM ex.data.hot_cold") == 5


@pytest.mark.parametrize("lake", ["sqlite"], indirect=True)
def test_a_type_beside_a_prefix_is_one_type(con, lake, tmp_path):
    worker = vgi_catalogs.SpecWorkers(tmp_path)
    arm = {"source": [LAKE, "main", "events"]}
    tables = {"t": {"columns": {"id": "int64", "val": "string"}, "branches": [arm]}}
    attach(con, worker(companions=[{"alias": LAKE, "target": lake, "db_type": "ducklake"}], tables=tables))
    assert rows(con, "FROM ex.t ORDER BY id") == ROWS


@pytest.mark.skipif(services.PRESET != "release", reason="PostgreSQL's client is not of the sanitized build")
def test_a_secret_of_the_users_opens_a_companion_only_if_he_says_so(con, tmp_path, request):
    server, worker = request.getfixturevalue("postgres"), vgi_catalogs.SpecWorkers(tmp_path)
    con.execute("LOAD postgres_scanner")
    name = "s%d" % abs(hash(str(tmp_path)))
    server.create(name)
    con.execute(
        "CREATE SECRET pg (TYPE postgres, HOST '%s', USER '%s', DATABASE '%s')" % (server.where, server.user, name)
    )
    # As PostgreSQL itself, and as a lake's metadata.
    plain = worker(companions=[{"alias": "p", "target": "postgres:", "secret_ref": "pg"}])
    attach(con, plain, attach_companion_secrets="true")
    assert one(con, "SELECT current_database() FROM postgres_query('p', 'SELECT 1')") is not None
    assert one(con, "FROM postgres_query('p', 'SELECT current_database()')") == name
    con.execute("DETACH ex")
    options = {"DATA_PATH": str(tmp_path / "more")}
    wish = {"alias": "l", "target": "ducklake:postgres:", "secret_ref": "pg", "options": options}
    attach(con, worker(companions=[wish]), attach_companion_secrets="true")
    con.execute("CREATE TABLE l.t AS SELECT 7 AS i")
    assert one(con, "FROM l.t") == 7
    con.execute("DETACH ex")
    con.execute("CALL enable_logging('VGI')")
    with pytest.raises(duckdb.Error):
        attach(con, plain)
    assert rows(con, "SELECT info['secret_ref'] FROM duckdb_logs_parsed('VGI') WHERE event LIKE '%secret.skipped'") == [
        ("pg",)
    ]
    with pytest.raises(duckdb.Error, match="did not resolve to a secret"):
        nobody = worker(companions=[{"alias": "p", "target": "postgres:", "secret_ref": "nobody"}])
        attach(con, nobody, attach_companion_secrets="true")


# ---------------------------------------------------------------- tables of branches


@pytest.fixture(scope="module", params=vgi_worker.KINDS, ids=vgi_worker.IDS)
def branches(request, tmp_path_factory):
    """A worker whose branches read files of a folder; both."""
    folder = tmp_path_factory.mktemp("branches")
    with duckdb.connect() as con:
        for name, select in {
            "vgi_hetero_branch.parquet": "SELECT range AS n FROM range(50, 100)",
            "vgi_nopushdown_branch.csv": "SELECT range AS n FROM range(50, 100)",
            "vgi_recon_a_b.parquet": "SELECT range AS a, range * 10 AS b FROM range(1, 4)",
            "vgi_recon_b_a.parquet": "SELECT range * 10 AS b, range AS a FROM range(4, 7)",
            "vgi_recon_a_only.parquet": "SELECT range AS a FROM range(7, 10)",
            "vgi_format_branch.csv": "SELECT range AS n, 'row_' || range AS label FROM range(5)",
        }.items():
            options = "(DELIMITER '|', HEADER)" if "format" in name else ""
            con.execute("COPY (%s) TO '%s' %s" % (select, folder / name, options))
    peer, generation = request.param
    with vgi_worker.VgiWorker(generation, extra={"VGI_TEST_BRANCH_DIR": str(folder)}, peer=peer) as worker:
        yield worker


@pytest.fixture
def ex(con, branches):
    attach(con, branches.location, name="example")
    con.execute("USE ex.data")
    return con


NUMBERS = "SELECT count(*), count(DISTINCT n), min(n), max(n) FROM "


def test_branches_of_functions(ex, branches):
    plain, split = "multi_branch_numbers", "multi_branch_filtered_numbers"
    assert rows(ex, NUMBERS + plain) == [(100, 50, 0, 49)]
    assert rows(ex, NUMBERS + split) == [(100, 100, 0, 99)]
    assert rows(ex, NUMBERS + split + " WHERE n > 75") == [(24, 24, 76, 99)]
    assert rows(ex, NUMBERS + split + " WHERE n < 25") == [(25, 25, 0, 24)]
    ex.execute("SET vgi_multi_branch_scans = false")
    refused(ex, "FROM " + plain, "Multi-branch VGI table scan disabled via vgi_multi_branch_scans=false")
    ex.execute("SET vgi_multi_branch_scans = true")
    assert one(ex, "SELECT count(*) FROM " + plain) == 100
    for at in ("VERSION => 1", "TIMESTAMP => now()"):
        refused(ex, "FROM %s AT (%s)" % (plain, at), "AT (...) clauses are not supported on multi-branch VGI tables")
    found = rows(
        ex,
        "SELECT table_name, branch_index, function_name, branch_filter FROM vgi_table_branches() "
        "WHERE table_name IN ('%s', '%s', 'numbers') ORDER BY ALL" % (plain, split),
    )
    assert found == [
        (split, 0, "sequence", "n < 50"),
        (split, 1, "sequence", "n >= 50"),
        (plain, 0, "sequence", None),
        (plain, 1, "sequence", None),
        ("numbers", 0, "sequence", None),
    ]
    assert rows(ex, "SELECT claimed_by_none, claimed_by_several FROM vgi_check_branches('ex.data.%s')" % split) == [
        (0, 0),
        (0, 0),
    ]
    if branches.peer == "sdk":  # our library refuses such tables
        refused(ex, "FROM multi_branch_empty", "VGI table returned zero scan branches")
        refused(ex, "FROM multi_branch_two_writable", "declared 2 writable branches")


def test_branches_of_other_kinds(ex, branches):
    for table, kinds in [("hetero", ["sequence", "read_parquet"]), ("nopushdown", ["sequence", "read_csv_auto"])]:
        table = "multi_branch_" + table  # noqa: PLW2901
        assert rows(ex, NUMBERS + table) == [(100, 100, 0, 99)]
        assert rows(ex, NUMBERS + table + " WHERE n >= 60") == [(40, 40, 60, 99)]
        assert rows(ex, NUMBERS + table + " WHERE n < 20") == [(20, 20, 0, 19)]
        assert rows(ex, NUMBERS + table + " WHERE n > 60") == [(39, 39, 61, 99)]
        assert rows(ex, NUMBERS + table + " WHERE n < 30") == [(30, 30, 0, 29)]
        assert rows(ex, NUMBERS + table + " WHERE n BETWEEN 25 AND 75") == [(51, 51, 25, 75)]
        sql = "SELECT function_name FROM vgi_table_branches() WHERE table_name = '%s' ORDER BY branch_index"
        assert [row[0] for row in rows(ex, sql % table)] == kinds
    if branches.generation == "2.2":
        # The option that tells what NULL is reaches the reader.
        assert rows(ex, "SELECT count(*), count(label) FROM multi_branch_format") == [(5, 4)]
    table = "multi_branch_recon"
    assert rows(ex, "SELECT count(*), count(DISTINCT a) FROM " + table) == [(9, 9)]
    for condition, count in {"b IS NULL": 3, "b IS NOT NULL": 6, "b <> a * 10": 0}.items():
        assert one(ex, "SELECT count(*) FROM %s WHERE %s" % (table, condition)) == count
    assert rows(ex, "SELECT a, b FROM %s ORDER BY a" % table) == [(i, i * 10 if i < 7 else None) for i in range(1, 10)]


def test_branches_are_not_written(ex):
    table = "multi_branch_numbers"
    refused(ex, "INSERT INTO %s VALUES (1)" % table, "does not support INSERT")
    refused(ex, "DELETE FROM " + table, "Can only delete from base table")
    refused(ex, "UPDATE %s SET n = 1" % table, "Can only update base table")
    merge = "MERGE INTO %s t USING (SELECT 1::BIGINT AS n) s ON t.n = s.n WHEN MATCHED THEN DELETE" % table
    refused(ex, merge, "Can only merge into base tables")
    sql = "SELECT typeof(writable), bool_or(writable) FROM vgi_table_branches() WHERE table_name = '%s' GROUP BY 1"
    assert rows(ex, sql % table) == [("BOOLEAN", False)]


def test_branches_in_joins(ex):
    outer = "(VALUES (1), (2), (3)) o(outer_val)"
    plain, split = "multi_branch_numbers", "multi_branch_filtered_numbers"
    cases = {
        "%s, LATERAL (FROM %s) m" % (outer, plain): 300,
        "%s, LATERAL (FROM %s WHERE n < 5) m" % (outer, plain): 30,
        "%s, LATERAL (FROM %s) m WHERE outer_val > 1" % (outer, split): 200,
        "%s CROSS JOIN %s m" % (outer, plain): 300,
        "%s, LATERAL (FROM %s WHERE n = outer_val) m" % (outer, plain): 6,
    }
    for sql, count in cases.items():
        assert one(ex, "SELECT count(*) FROM " + sql) == count, sql
    keys = "(SELECT range * 5 AS k FROM range(200))"
    assert rows(ex, "SELECT count(*), min(n), max(n) FROM %s JOIN %s ON n = k" % (keys, plain)) == [(20, 0, 45)]


def test_a_worker_that_has_branches_is_asked_for_nothing_else(con, tmp_path):
    worker = vgi_catalogs.SpecWorkers(tmp_path)
    numbers = {"columns": {"n": "int64"}, "rows": [[1]]}
    tables = {"t": {"columns": {"n": "int64"}, "branches": [{"function": "f"}] * 2}}
    attach(con, worker(tables=tables, functions={"f": numbers}))
    for _ in range(4):
        assert rows(con, "FROM ex.t") == [(1,), (1,)]
    calls = worker.calls()
    assert calls.count("catalog_table_scan_branches_get") == 4
    assert "catalog_table_scan_function_get" not in calls
