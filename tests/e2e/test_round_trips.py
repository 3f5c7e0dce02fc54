"""What lies in one attached database altogether is one statement there, and one request."""

import pytest
import services

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE TABLE t(id INTEGER PRIMARY KEY, g INTEGER, s VARCHAR DEFAULT 'none')",
    "INSERT INTO t SELECT i, i % 3, 's' || i FROM range(30) r(i)",
    "CREATE TABLE u(id INTEGER, g INTEGER, s VARCHAR)",
    "INSERT INTO u SELECT i * 2, i % 2, 'u' || i FROM range(20) r(i)",
)

READS = """
SELECT g, count(*), max(s) FROM cloud.t GROUP BY g
SELECT t.g, sum(u.id) FROM cloud.t JOIN cloud.u USING (id) WHERE t.s <> 's4' GROUP BY t.g
SELECT * FROM cloud.t WHERE id IN (SELECT id FROM cloud.u WHERE g = 1)
SELECT g, count(*) FROM cloud.t WHERE NOT EXISTS (FROM cloud.u WHERE u.id = t.id AND u.g <> t.g) GROUP BY g
SELECT id, s FROM cloud.t ORDER BY g, id LIMIT 4
SELECT g FROM cloud.t EXCEPT SELECT g FROM cloud.u
SELECT count(*) FROM cloud.t
WITH w AS (SELECT g, count(*) AS n FROM cloud.t GROUP BY g) SELECT a.g, b.n FROM w a JOIN w b ON a.g = b.g + 1
SELECT g, id FROM cloud.t QUALIFY row_number() OVER (PARTITION BY g ORDER BY id) <= 2 ORDER BY g, id LIMIT 3
"""

WRITES = """
INSERT INTO cloud.t SELECT id + 1000, g, s FROM cloud.u
INSERT INTO cloud.t VALUES (2001, 1, 'x'), (2002, 2, DEFAULT)
INSERT INTO cloud.t(id, g) SELECT id + 3000, g FROM cloud.u WHERE id > 9 RETURNING id
INSERT OR REPLACE INTO cloud.t SELECT id, g, 'new' FROM cloud.u
INSERT INTO cloud.t SELECT id, g, s FROM cloud.u ON CONFLICT (id) DO UPDATE SET s = excluded.s
UPDATE cloud.t SET s = upper(s) WHERE g = 1
UPDATE cloud.t SET s = u.s FROM cloud.u WHERE u.id = t.id
UPDATE cloud.t SET g = (SELECT max(g) FROM cloud.u WHERE u.id = t.id) WHERE id < 5 RETURNING id, g
DELETE FROM cloud.t WHERE id > 2500
DELETE FROM cloud.t USING cloud.u WHERE u.id = t.id AND u.g = 1
MERGE INTO cloud.t USING cloud.u ON t.id = u.id WHEN MATCHED THEN UPDATE SET s = u.s
TRUNCATE cloud.u
CREATE TABLE cloud.made AS SELECT g, count(*) AS n FROM cloud.t GROUP BY g
CREATE OR REPLACE TABLE cloud.made(a INTEGER)
CREATE VIEW cloud.seen AS SELECT * FROM cloud.t WHERE g = 1
CREATE INDEX found ON cloud.t(g)
CREATE SCHEMA cloud.more
CREATE SEQUENCE cloud.numbers START 7
CREATE TYPE cloud.mood AS ENUM ('sad', 'glad')
CREATE MACRO cloud.twice(x) AS x * 2
COMMENT ON TABLE cloud.t IS 'a table'
ALTER TABLE cloud.made ADD COLUMN b VARCHAR DEFAULT 'b'
ALTER TABLE cloud.made RENAME TO made_again
SELECT * FROM cloud.seen
DROP VIEW cloud.seen
CREATE VIEW cloud.unread AS SELECT id FROM cloud.t
COMMENT ON VIEW cloud.unread IS 'nobody reads it'
DROP VIEW cloud.unread
DROP INDEX cloud.found
DROP SCHEMA cloud.more
DROP TABLE cloud.made_again
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    path = tmp_path_factory.mktemp("trips") / "mydb.duckdb"
    services.make_database(path, *TABLES)
    with services.Serve({"mydb": path}) as server, services.RecordingProxy(server.url) as proxy:
        with services.attached(proxy) as con:
            con.execute("SELECT count(*) FROM cloud.t").fetchall()
            yield con, proxy


def methods(proxy):
    return [m.rsplit("/", 1)[1] for m, _ in proxy.requests]


def run(served, sql):
    """What SQL asks the server for, beyond what every statement asks."""
    con, proxy = served
    con.execute("SELECT 1 FROM cloud.t LIMIT 0").fetchall()
    proxy.clear()
    con.execute(sql).fetchall()
    return proxy


@pytest.mark.parametrize("sql", READS.strip().splitlines())
def test_a_query_is_one_request(served, sql):
    proxy = run(served, sql)
    assert len(proxy.sql()) == 1, (methods(proxy), proxy.sql(True))
    assert len(proxy.requests) == 1, (methods(proxy), proxy.sql(True))


def test_a_write_is_one_request(served):
    # In their order, since they make what others drop.
    for sql in WRITES.strip().splitlines():
        proxy = run(served, sql)
        if "seen" in sql and "DROP" not in sql:
            # What a view is, is asked when it is first read.
            continue
        assert len(proxy.sql()) == 1, (sql, methods(proxy), proxy.sql(True))
        assert len(proxy.requests) == 1, (sql, methods(proxy), proxy.sql(True))
