"""Branches that are Iceberg tables: of VGI workers (the public SDK's, one that serves what it is told, `openduck
vgi-serve`), and of layouts of served databases."""

import duckdb
import pyarrow as pa
import pytest
import services
import vgi_catalogs
import vgi_worker
from iceberg_tables import Warehouse
from vgi_catalogs import attach, one, refused, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]
EXTENSIONS = services.ROOT / ".deps" / "extensions"
COLUMNS = {"id": "int64", "val": "string"}
#: The types of the table's columns: what the branch's filter rules out is then not even opened.
SAME = pa.schema([("VAL", pa.string()), ("Id", pa.int64())])
HOT = {"columns": COLUMNS, "rows": [[100 + i, "hot"] for i in range(5)]}


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    con.execute("SET extension_directory = '%s'" % EXTENSIONS)
    yield con
    con.close()


@pytest.fixture
def warehouse(tmp_path):
    (tmp_path / "warehouse").mkdir()
    return Warehouse(tmp_path / "warehouse")


@pytest.fixture
def worker(tmp_path):
    return vgi_catalogs.SpecWorkers(tmp_path)


@pytest.fixture(params=["told", "served"])
def any_worker(request, tmp_path):
    return (vgi_catalogs.SpecWorkers if request.param == "told" else vgi_catalogs.ServedWorkers)(tmp_path)


def numbers(first, last, **more):
    """Rows with other columns than the table has: in another order, of another type."""
    ids = range(first, last)
    return pa.table({"VAL": ["v%d" % i for i in ids], "Id": pa.array(ids, pa.int32()), **more})


def branch(table, **more):
    return {"format": "iceberg", "locations": [str(table.metadata)], **more}


def tables(*branches, columns=None):
    return {
        "events": {"columns": columns or COLUMNS, "branches": list(branches), "required_extensions": ["iceberg"]},
    }


def is_loaded(con):
    return one(con, "SELECT loaded FROM duckdb_extensions() WHERE extension_name = 'iceberg'")


def test_an_arm_of_iceberg_beside_one_of_the_worker(con, any_worker, warehouse):
    cold = warehouse.create("cold", numbers(0, 60), numbers(60, 102), delete="Id = 7")
    arms = [{"function": "hot", "filter": "id >= 100"}, branch(cold, filter="id < 100")]
    attach(con, any_worker(tables=tables(*arms), functions={"hot": HOT}))
    assert is_loaded(con) is False
    assert rows(con, "SELECT count(*), sum(id), min(val) FROM ex.events") == [(104, sum(range(105)) - 7, "hot")]
    assert is_loaded(con) is True
    assert rows(con, "SELECT id, val FROM ex.events WHERE id BETWEEN 6 AND 8 ORDER BY id") == [(6, "v6"), (8, "v8")]
    assert rows(con, "SELECT val FROM ex.events WHERE id IN (99, 100) ORDER BY id") == [("v99",), ("hot",)]
    assert rows(con, "DESCRIBE ex.events")[0][:2] == ("id", "BIGINT")


def test_conditions_and_columns_reach_the_files(con, any_worker, warehouse):
    cold = warehouse.create("cold", *(numbers(*part).cast(SAME) for part in ((0, 50), (50, 100))))
    arms = [{"function": "hot", "filter": "id >= 100"}, branch(cold, filter="id < 100")]
    attach(con, any_worker(tables=tables(*arms), functions={"hot": HOT}))
    plan = rows(con, "EXPLAIN SELECT val FROM ex.events WHERE val = 'v3' AND id < 100")[0][1]
    assert "ICEBERG_SCAN" in plan and "v3" in plan and "VGI_SCAN" not in plan
    for parquet in cold.folder.glob("data/*.parquet"):
        parquet.unlink()
    assert "ICEBERG" not in rows(con, "EXPLAIN FROM ex.events WHERE id >= 100")[0][1]
    assert one(con, "SELECT count(*) FROM ex.events WHERE id >= 100") == 5
    refused(con, "FROM ex.events", "No such file")


def test_missing_columns_are_null_and_others_an_error(con, any_worker, warehouse):
    narrow = warehouse.create("narrow", pa.table({"id": pa.array([1, 2], pa.int64())}))
    wide = warehouse.create("wide", numbers(0, 3, more=[1.0, 2.0, 3.0]))
    attach(con, any_worker(tables=tables(branch(narrow))))
    assert rows(con, "FROM ex.events ORDER BY id") == [(1, None), (2, None)]
    attach(con, any_worker(tables=tables(branch(wide))), "wide")
    refused(con, "FROM wide.events", "column 'more' which is not in the table's declared schema")


def test_options_go_to_the_reader(con, worker, warehouse):
    """Of a table with several snapshots each is read as the branch says."""
    table = warehouse.create("many", numbers(0, 10), numbers(10, 30), delete="Id < 5")
    expected = dict(zip(table.snapshots, [10, 30, 25], strict=True))
    for i, (snapshot, count) in enumerate(expected.items()):
        arm = branch(table, options={"snapshot_from_id": snapshot})
        attach(con, worker(tables=tables(arm)), "at%d" % i)
        assert one(con, "SELECT count(*) FROM at%d.events" % i) == count
    attach(con, worker(tables=tables(branch(table, options={"snapshot_from_id": 12}))), "never")
    refused(con, "FROM never.events", "Could not find snapshot with id 12")
    attach(con, worker(tables=tables(branch(table, options={"colour": "red"}))), "coloured")
    refused(con, "FROM coloured.events", "colour")


def test_a_folder_is_read_that_names_its_version(con, any_worker, warehouse):
    table = warehouse.create("named", numbers(0, 10)).name_version()
    attach(con, any_worker(tables=tables({"format": "iceberg", "locations": [str(table.folder)]})))
    assert one(con, "SELECT count(*) FROM ex.events") == 10


def test_what_cannot_be_read_says_so(con, any_worker, warehouse, tmp_path):
    table = warehouse.create("broken", numbers(0, 10))
    cases = {
        "missing": (tmp_path / "nowhere.metadata.json", "nowhere.metadata.json"),
        "unnamed": (table.folder, "version"),
        "text": (tmp_path / "text.metadata.json", "text.metadata.json"),
        "cut": (
            tmp_path / "cut.metadata.json",
            'a branch of VGI table "main"."cut", of the format',
        ),
    }
    (tmp_path / "text.metadata.json").write_text("no JSON")
    (tmp_path / "cut.metadata.json").write_text('{"format-version": 2}')
    arms = {name: {"format": "iceberg", "locations": [str(location)]} for name, (location, _) in cases.items()}
    attach(con, any_worker(tables={name: tables(arm)["events"] for name, arm in arms.items()}))
    for name, (_, told) in cases.items():
        refused(con, "FROM ex." + name, told)
    assert one(con, "SELECT 1") == 1


def test_one_branch_is_one_table(con, worker, warehouse):
    table = warehouse.create("one", numbers(0, 2))
    attach(con, worker(tables=tables({"format": "iceberg", "locations": [str(table.metadata)] * 2})))
    refused(con, "FROM ex.events", "of the format 'iceberg' names 2 places, not one")


def test_without_the_extension_the_table_is_refused(con, any_worker, warehouse, tmp_path):
    table = warehouse.create("t", numbers(0, 2))
    con.execute("SET extension_directory = '%s'" % (tmp_path / "none"))
    con.execute("SET autoinstall_known_extensions = false")
    attach(con, any_worker(tables=tables(branch(table))))
    refused(con, "FROM ex.events", "needs the extension 'iceberg', which is not loaded and could not be")


@pytest.mark.parametrize("generation", vgi_worker.GENERATIONS)
def test_the_public_workers_arm_of_iceberg(con, warehouse, tmp_path, generation):
    table = warehouse.create("n", pa.table({"n": pa.array(range(50, 100), pa.int64())})).name_version()
    (tmp_path / "branches").mkdir()
    (tmp_path / "branches" / "vgi_iceberg_branch").symlink_to(table.folder)
    with vgi_worker.VgiWorker(generation, extra={"VGI_TEST_BRANCH_DIR": str(tmp_path / "branches")}) as worker:
        attach(con, worker.location, name="example")
        count = "SELECT count(*), count(DISTINCT n), min(n), max(n) FROM ex.data.multi_branch_iceberg"
        assert rows(con, count) == [(100, 100, 0, 99)]
        assert rows(con, count + " WHERE n >= 60") == [(40, 40, 60, 99)]


# ---------------------------------------------------------------- layouts of served databases


def test_a_layouts_branch_is_an_iceberg_table(warehouse, tmp_path):
    table = warehouse.create("cold", numbers(0, 60), numbers(60, 102), delete="Id = 7")
    with duckdb.connect(tmp_path / "hot.duckdb") as hot:
        hot.execute("CREATE TABLE events AS SELECT 100 + range AS id, 'hot' AS val FROM range(5)")
    text = "[table events]\nextension = iceberg\n[branch]\nfrom = events\n"
    text += "[branch]\nfiles = iceberg\nlocation = %s\nwhere = id < 100\n"
    (tmp_path / "layout").write_text(text % table.metadata)
    con = services.duck(extension_directory=EXTENSIONS)
    with services.Serve({"mydb": tmp_path / "hot.duckdb"}, "--layout", "mydb=%s" % (tmp_path / "layout")) as server:
        con.execute("ATTACH 'openduck:mydb' AS cloud (ENDPOINT '%s')" % server.url)
        for level in ("off", "scan", "full"):
            con.execute("SET openduck_pushdown = '%s'" % level)
            assert rows(con, "SELECT count(*), sum(id) FROM cloud.events") == [(104, sum(range(105)) - 7)]
            assert rows(con, "SELECT val FROM cloud.events WHERE id IN (7, 8, 100) ORDER BY id") == [("v8",), ("hot",)]
        table.metadata.unlink()
        refused(con, "FROM cloud.events", table.metadata.name)
        con.close()
