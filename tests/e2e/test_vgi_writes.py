"""INSERT into tables of VGI catalogs."""

import pytest
import vgi_catalogs
import vgi_worker
from vgi_catalogs import attach, one, refused, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]
COLUMNS = {"id": "int64", "val": "string"}
COUNT = {"columns": {"count": "int64"}, "inserts": True}
PLAIN = {"t": {"columns": COLUMNS, "branches": [{"function": "rows"}], "insert": "put"}}


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    yield con
    con.close()


@pytest.fixture
def worker(tmp_path):
    return vgi_catalogs.SpecWorkers(tmp_path)


def served(worker, tables=PLAIN, fault=None, **more):
    functions = {"rows": {"columns": COLUMNS, "rows": []}, "put": {**COUNT, "fault": fault}}
    return worker(tables=tables, functions=functions, **more)


def taken(worker):
    return [row for call in worker.told("insert") for row in call["rows"]]


@pytest.mark.parametrize(("peer", "generation"), vgi_worker.KINDS, ids=vgi_worker.IDS)
def test_rows_go_to_a_writable_table_by_http(con, peer, generation):
    """A scan of the SDK's has no end there: it does not keep its place between two requests."""
    with vgi_worker.VgiWorker(generation, "http", module="simple_writable", peer=peer) as far:
        attach(con, far.location, alias="w", name="simple_writable")
        assert rows(con, "INSERT INTO w.items VALUES (1, 'one', 10), (2, NULL, NULL)") == [(2,)]
        assert rows(con, "INSERT INTO w.items (qty, id) SELECT range * 2, range FROM range(100, 5100)") == [(5000,)]
        assert rows(con, "FROM w.items LIMIT 3") == [(1, "one", 10), (2, None, None), (100, None, 200)]
        assert one(con, "SELECT count(*) FROM (FROM w.items LIMIT 5002)") == 5002
        refused(con, "INSERT INTO w.items VALUES (1, 'x', 1) RETURNING id", "does not support RETURNING")


@pytest.mark.parametrize(("peer", "generation"), vgi_worker.KINDS, ids=vgi_worker.IDS)
def test_rows_go_into_a_writable_table(con, peer, generation):
    with vgi_worker.VgiWorker(generation, module="simple_writable", peer=peer) as far:
        attach(con, far.location, alias="w", name="simple_writable")
        assert rows(con, "INSERT INTO w.items VALUES (1, 'one', 10), (2, NULL, NULL)") == [(2,)]
        assert rows(con, "INSERT INTO w.items (qty, id) SELECT range * 2, range FROM range(100, 5100)") == [(5000,)]
        assert rows(con, "FROM w.items ORDER BY id LIMIT 3") == [(1, "one", 10), (2, None, None), (100, None, 200)]
        assert rows(con, "SELECT count(*), sum(qty) FROM w.items") == [(5002, 10 + 5000 * 5199)]
        # It reads what it writes to, as it was.
        assert rows(con, "INSERT INTO w.items SELECT id + 10000, name, qty FROM w.items WHERE id < 100") == [(2,)]
        assert one(con, "SELECT count(*) FROM w.items") == 5004
        assert rows(con, "INSERT INTO w.items_insert_only SELECT 1, 'x' WHERE false") == [(0,)]
        con.execute("PREPARE p AS INSERT INTO w.items_insert_only VALUES ($1, 'p')")
        for i in (7, 8):
            assert rows(con, "EXECUTE p(%d)" % i) == [(1,)]
        assert rows(con, "FROM w.items_insert_only ORDER BY id") == [(7, "p"), (8, "p")]
        con.execute("CREATE TABLE here AS FROM w.items")
        assert one(con, "SELECT count(*) FROM here") == 5004
        refused(con, "INSERT INTO w.items VALUES (1, 'x', 'y')", "Could not convert string 'y'")
        refused(con, "INSERT INTO w.items VALUES (1, 'x', 1) RETURNING id", "does not support RETURNING")
        refused(con, "INSERT INTO w.items VALUES (1, 'x', 1) ON CONFLICT DO NOTHING", "")
        refused(con, "UPDATE w.items SET qty = 1", "does not support UPDATE")
        refused(con, "DELETE FROM w.items", "does not support DELETE")
        assert one(con, "SELECT count(*) FROM w.items") == 5004


@pytest.mark.parametrize("generation", vgi_worker.GENERATIONS)
@pytest.mark.parametrize("transport", ["unix", "http"])
def test_rows_are_there_when_their_transaction_is_committed(con, generation, transport):
    with vgi_worker.VgiWorker(generation, transport, module="simple_writable", peer="c") as far:
        attach(con, far.location, alias="w", name="simple_writable")
        for end, count in (("ROLLBACK", 0), ("COMMIT", 2)):
            con.execute("BEGIN")
            assert rows(con, "INSERT INTO w.items VALUES (1, 'one', 10), (2, 'two', 20)") == [(2,)]
            assert one(con, "SELECT sum(qty) FROM w.items") == 30
            con.execute(end)
            assert one(con, "SELECT count(*) FROM w.items") == count
        refused(con, "INSERT INTO w.items SELECT range, error('stop'), 1 FROM range(1)", "stop")
        assert one(con, "SELECT count(*) FROM w.items") == 2


def test_what_is_left_out_is_the_workers_default(con, worker):
    table = {**PLAIN["t"], "defaults": {"val": "'d' || 1", "id": "no ) sql"}}
    attach(con, served(worker, {"t": table}))
    assert rows(con, "INSERT INTO ex.t (id) VALUES (1), (2)") == [(2,)]
    assert taken(worker) == [[1, "d1"], [2, "d1"]]
    refused(con, "INSERT INTO ex.t (val) VALUES ('x')", 'the worker\'s default of column "id" of "t" is no SQL')
    assert rows(con, "FROM ex.t") == []
    assert len(taken(worker)) == 2


def test_rows_go_to_the_writable_branch(con, worker):
    hot = {"function": "rows", "filter": "id >= 100", "writable": True}
    cold = {"function": "rows", "filter": "id < 100"}
    attach(con, served(worker, {"t": {"columns": COLUMNS, "branches": [cold, hot], "insert": "put"}}))
    assert rows(con, "INSERT INTO ex.t BY NAME SELECT 'v' AS val, range + 100 AS id FROM range(3)") == [(3,)]
    assert taken(worker) == [[100, "v"], [101, "v"], [102, "v"]]
    assert worker.told("insert_function")[0]["branch"] == "rows"
    # A row that the branch does not hold would be lost to the table.
    text = "is not of its writable branch: nobody would find it again [branch_filter: id >= 100]"
    refused(con, "INSERT INTO ex.t VALUES (100, 'x'), (99, 'y')", text)
    refused(con, "INSERT INTO ex.t (val) VALUES ('x')", text)
    assert len(taken(worker)) == 3


def test_what_cannot_be_written_says_so(con, worker):
    far = {"source": ["lake", "main", "events"], "writable": True}
    cold = {"function": "rows", "filter": "id < 100"}
    tables = {
        "read": {"columns": COLUMNS, "branches": [{"function": "rows"}]},
        "both": {"columns": COLUMNS, "branches": [cold, cold]},
        "far": {"columns": COLUMNS, "branches": [cold, far]},
    }
    attach(con, served(worker, tables))
    refused(con, "INSERT INTO ex.read VALUES (1, 'x')", "does not support INSERT into main.read")
    refused(con, "INSERT INTO ex.both VALUES (1, 'x')", "which has no writable branch")
    refused(con, "INSERT INTO ex.far VALUES (1, 'x')", "it is the table lake.events")


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("fails", "no room for rows"),
        ("late", "no room for rows"),
        ("ends", "the worker ends before the rows"),
        ("dies", "the worker's last words"),
        ("denies", "takes no number of rows"),
    ],
)
def test_an_insert_that_goes_wrong_is_an_error(con, worker, fault, text):
    attach(con, served(worker, fault=fault))
    refused(con, "INSERT INTO ex.t SELECT range, 'x' FROM range(3)", text)
    assert rows(con, "FROM ex.t") == []


def test_an_insert_is_of_its_transaction(con, worker):
    attach(con, served(worker, transactions=True))
    for end in ("COMMIT", "ROLLBACK"):
        con.execute("BEGIN")
        con.execute("INSERT INTO ex.t VALUES (1, 'x')")
        con.execute(end)
    con.execute("INSERT INTO ex.t VALUES (2, 'y')")
    refused(con, "INSERT INTO ex.t SELECT 3, error('stop') FROM range(1)", "stop")
    ends = [
        m.rsplit("_", 1)[1]
        for m in worker.calls()
        if m in ("catalog_transaction_commit", "catalog_transaction_rollback")
    ]
    assert ends[-4:] == ["commit", "rollback", "commit", "rollback"]
    assert all(call["transaction"] == "transaction" for call in worker.told("bind"))


def test_a_worker_without_transactions_takes_no_rows_in_one(con, worker):
    """They would stay after a ROLLBACK."""
    attach(con, served(worker))
    con.execute("BEGIN")
    with pytest.raises(Exception, match="has no transactions"):
        con.execute("INSERT INTO ex.t VALUES (1, 'x')")
    con.execute("ROLLBACK")
    assert taken(worker) == []
    assert rows(con, "INSERT INTO ex.t VALUES (1, 'x')") == [(1,)]
