"""ATTACH 'openduck:sales?snapshot=ID': a snapshot over the network, as plain DuckDB reads it from the store."""

import uuid

import duckdb
import pytest
import services

pytestmark = pytest.mark.extension

# {0} and {1}: an earlier snapshot, and the database as it is now.
QUESTIONS = [
    "FROM {0}.orders ORDER BY ALL",
    "SELECT count(*), sum(amount), min(day), max(note) FROM {0}.orders",
    "SELECT note FROM {0}.orders WHERE id % 100 = 7 AND note IS NOT NULL ORDER BY id LIMIT 5",
    "SELECT c.name, count(*) AS n, sum(o.amount) AS s FROM {0}.orders o JOIN {0}.clients c ON o.client = c.id "
    "GROUP BY ALL ORDER BY ALL",
    "FROM {0}.big ORDER BY ALL",
    "SELECT (SELECT max(amount) FROM {0}.orders) AS m, (FROM {1}.clients SELECT count(*)) AS n",
    # What changed since.
    "SELECT coalesce(o.id, n.id) AS id, o.note, n.note FROM {0}.orders o FULL JOIN {1}.orders n ON o.id = n.id "
    "WHERE o.note IS DISTINCT FROM n.note ORDER BY ALL",
    "FROM {0}.orders EXCEPT FROM {1}.orders ORDER BY ALL",
    "SELECT n.name, sum(o.amount) AS s FROM {0}.orders o, {1}.clients n WHERE o.client = n.id GROUP BY 1 ORDER BY ALL",
    "SELECT count(*) FROM {1}.orders WHERE id NOT IN (SELECT id FROM {0}.orders)",
]
MAKE = """
    CREATE TABLE sales.clients AS SELECT i AS id, 'client ' || i AS name FROM range(20) r(i);
    CREATE TABLE sales.orders AS SELECT i AS id, i % 20 AS client, (i * 7 % 1000)::DECIMAL(9,2) / 10 AS amount,
        DATE '2026-01-01' + (i % 90)::INTEGER AS day, CASE WHEN i % 3 = 0 THEN 'note ' || i END AS note
        FROM range(4000) r(i);
    CREATE VIEW big AS SELECT id, amount FROM orders WHERE amount > 90;
"""
CHANGE = """
    DELETE FROM sales.orders WHERE id % 10 = 3;
    UPDATE sales.orders SET note = 'changed' WHERE id % 50 = 0;
    INSERT INTO sales.orders SELECT 10000 + i, 1, 1, DATE '2026-05-01', 'new' FROM range(10) r(i);
    DROP VIEW sales.big;
    UPDATE sales.clients SET name = upper(name) WHERE id < 5;
    ALTER TABLE sales.clients ADD COLUMN country VARCHAR DEFAULT 'NL';
"""


class Shop:
    """A server with two states of `sales`, of which the second is the present one."""

    def __init__(self, make, folder):
        self.url_here = "openduck://sales?data_dir=%s" % (folder / "data")
        self.folder = folder / "data"
        self.server = make({"sales": self.url_here, "plain": ":memory:"})
        with self.server.client() as c:
            c.do(MAKE, database="sales")
            self.old = self.seal(c)
            c.do(CHANGE)
            self.new = self.seal(c)

    @staticmethod
    def seal(client):
        return client.rows("FROM openduck_seal('sales')")[0][1]

    def attach(self, con, alias="old", snapshot=None, url=None):
        url = url or self.server.url
        con.execute(
            "ATTACH 'openduck:sales?endpoint=%s&snapshot=%s' AS %s" % (url, snapshot or self.old, alias),
        )


@pytest.fixture(scope="module", params=["serve", "stack"])
def shop(request, tmp_path_factory):
    make = {"serve": services.Serve, "stack": services.Stack}[request.param]
    shop = Shop(make, tmp_path_factory.mktemp("shop"))
    with shop.server:
        yield shop


@pytest.fixture
def con(shop):
    with services.attached(shop.server, "sales") as con:
        shop.attach(con)
        yield con


def test_it_is_as_it_was_alone_and_beside_the_present(shop, con):
    with services.duck() as here:
        for alias, snapshot in (("old", shop.old), ("cloud", shop.new)):
            here.execute("ATTACH '%s&snapshot=%s' AS %s (READ_ONLY)" % (shop.url_here, snapshot, alias))
        for question in QUESTIONS:
            sql = question.format("old", "cloud")
            assert con.sql(sql).fetchall() == here.sql(sql).fetchall(), sql
            assert con.sql(sql).types == here.sql(sql).types, sql
            con.execute("BEGIN")
            assert con.execute(sql).fetchall() == here.execute(sql).fetchall(), sql
            con.execute("COMMIT")
    assert {r[0] for r in con.execute("SHOW TABLES FROM old").fetchall()} == {"big", "clients", "orders"}
    assert {r[0] for r in con.execute("SHOW TABLES FROM cloud").fetchall()} == {"clients", "orders"}
    assert [r[0] for r in con.execute("DESCRIBE old.clients").fetchall()] == ["id", "name"]
    con.execute("USE old")
    assert con.execute("SELECT count(*) FROM orders WHERE id = ?", [3]).fetchall() == [(1,)]
    assert con.execute("FROM openduck_query('old', 'SELECT count(*) FROM orders')").fetchall() == [(4000,)]


def test_every_request_names_it_and_none_begins_a_transaction(shop):
    with services.RecordingProxy(shop.server.url) as proxy, services.duck() as con:
        shop.attach(con, url=proxy.url)
        con.execute("BEGIN")
        joined = "SELECT c.name, count(*) FROM old.orders o JOIN old.clients c ON o.client = c.id GROUP BY ALL"
        proxy.clear()
        assert len(con.execute(joined).fetchall()) == 20
        sent = proxy.sql()
        assert any("JOIN" in s and "GROUP BY" in s for s in sent), sent  # made at the server
        con.execute("FROM old.big LIMIT 1").fetchall()
        con.execute("EXPLAIN FROM old.orders").fetchall()
        con.execute("COMMIT")
        assert {r.snapshot_id for r in proxy.executions()} == {shop.old}
        assert proxy.count() == len(proxy.executions())


def test_parts_of_a_plan_stay_with_their_state(shop, con):
    """Two states of one database are two databases: no part of a plan goes to one for both."""
    sql = "SELECT count(*) FROM old.orders o JOIN cloud.orders n ON o.id = n.id AND o.note IS NOT DISTINCT FROM n.note"
    sent = services.remote_sql(con, sql)
    assert len(sent) == 2 and not any("JOIN" in s for s in sent), sent


def test_nothing_changes_it(shop, con):
    for sql in (
        "INSERT INTO old.orders SELECT * FROM old.orders",
        "UPDATE old.orders SET note = ''",
        "DELETE FROM old.orders",
        "CREATE TABLE old.t(i INTEGER)",
        "CREATE TABLE old.t AS FROM cloud.orders",
        "CREATE SCHEMA old.s",
        "DROP TABLE old.orders",
        "ALTER TABLE old.orders ADD COLUMN i INTEGER",
        "FROM openduck_query('old', 'DELETE FROM orders')",
    ):
        with pytest.raises(duckdb.InvalidInputException, match="read-only mode"):
            con.execute(sql).fetchall()
    assert con.execute("SELECT count(*) FROM old.orders").fetchall() == [(4000,)]
    ((path, read_only),) = con.execute(
        "SELECT path, readonly FROM duckdb_databases() WHERE database_name = 'old'"
    ).fetchall()
    assert read_only and path.endswith("&snapshot=" + shop.old)


def test_rows_of_it_go_back_into_the_present(shop, con):
    con.execute("CREATE TABLE cloud.restored AS FROM old.orders WHERE id % 10 = 3")
    con.execute("INSERT INTO cloud.restored SELECT o.* FROM old.orders o JOIN cloud.clients c ON c.id = o.id")
    assert con.execute("SELECT count(*) FROM cloud.restored").fetchall() == [(420,)]
    con.execute("DROP TABLE cloud.restored")


def test_what_cannot_be_attached(shop):
    with services.duck() as con:
        unknown = str(uuid.uuid4())
        with pytest.raises(duckdb.CatalogException, match="database 'sales' has no snapshot '%s'" % unknown):
            shop.attach(con, snapshot=unknown)
        with pytest.raises(duckdb.InvalidInputException, match="a snapshot's id is a UUID"):
            shop.attach(con, snapshot="latest")
        endpoint = "ENDPOINT '%s', SNAPSHOT '%s'" % (shop.server.url, shop.old)
        with pytest.raises(duckdb.NotImplementedException, match="'plain' has no snapshots: it is not at openduck://"):
            con.execute("ATTACH 'openduck:plain' AS p (%s)" % endpoint)
        with pytest.raises(duckdb.BinderException, match="READ_WRITE"):
            con.execute("ATTACH 'openduck:sales' AS p (%s, READ_WRITE)" % endpoint)
        con.execute("ATTACH 'openduck:sales' AS p (%s, READ_ONLY)" % endpoint)
        assert con.execute("SELECT count(*) FROM p.orders").fetchall() == [(4000,)]


def test_one_that_is_dropped_says_so(shop, con):
    with shop.server.client() as c:
        kept = shop.seal(c)
    shop.attach(con, "brief", kept)
    count = "SELECT count(*) FROM brief.clients"
    assert con.execute(count).fetchall() == [(20,)]
    dropped = services.cli("snapshot", "drop", kept, "--data-dir", shop.folder)
    assert dropped.returncode == 0, dropped.stderr

    def gone():
        try:
            con.execute(count).fetchall()
        except duckdb.CatalogException as e:
            return str(e)
        return None

    assert "has no snapshot '%s'" % kept in services.wait_until(gone, 20, "it is gone")
    assert con.execute("SELECT count(*) FROM old.orders").fetchall() == [(4000,)]


def test_the_command_reads_it(shop):
    where = ("--endpoint", shop.server.url, "--db", "sales", "--snapshot", shop.old)
    done = services.cli("query", *where, "--format", "csv", "SELECT count(*) AS n FROM orders")
    assert (done.returncode, done.stdout) == (0, "n\n4000\n"), done.stderr
