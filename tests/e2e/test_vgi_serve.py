"""`openduck vgi-serve`: a DuckDB database as a VGI catalog, to our own client and through ATTACH."""

import decimal
import shlex
import subprocess

import duckdb
import pytest
import services

CLIENT = services.BUILD / "programs" / "vgi_client"
OPENDUCK = services.BUILD / "bin" / "openduck"
TABLES = """
CREATE TABLE events AS SELECT i AS id, TIMESTAMP '2026-11-01' + INTERVAL (i) MINUTE AS ts, 'e' || i AS val
    FROM range(10000) t(i);
CREATE TABLE kinds AS SELECT 1::HUGEINT h, 1.50::DECIMAL(10, 2) d, 'x'::ENUM('x', 'y') e, ['a', NULL] l,
    {'a': 1, 'b': 'z'} s,
    MAP {'k': 2} m, uuid() u, DATE '2026-11-01' dt, TIME '01:02:03' t, INTERVAL 3 DAY iv, '\\x01'::BLOB b,
    NULL::INTEGER n,
    TIMESTAMPTZ '2026-11-01 00:00:00+00' tz,
    1.5::FLOAT f, true AS ok, 3::UTINYINT small;
CREATE SCHEMA other;
CREATE TABLE other."a ""b"" c" (k INTEGER NOT NULL, "a column" VARCHAR);
INSERT INTO other."a ""b"" c" VALUES (7, 'seven'), (8, NULL);
COMMENT ON TABLE events IS 'what happened';
CREATE VIEW few AS SELECT id FROM events WHERE id < 3;
"""


@pytest.fixture(autouse=True)
def nothing_preloaded(monkeypatch):
    """A sanitizer's runtime, which this process needs, is none of a worker's."""
    monkeypatch.delenv("LD_PRELOAD", raising=False)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("vgi") / "hot.duckdb"
    with duckdb.connect(path) as con:
        con.execute(TABLES)
    return path


def serve(database, *options):
    """As a LOCATION."""
    return shlex.join(["exec", str(OPENDUCK), "vgi-serve", "--db", str(database), *map(str, options)])


def ask(location, *arguments, fails=False):
    done = subprocess.run([CLIENT, location, *arguments], capture_output=True, check=False, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def con():
    con = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "2"})
    con.execute("LOAD '%s'" % services.extension_path("vgi"))
    yield con
    con.close()


def rows(con, sql):
    return con.execute(sql).fetchall()


def attach(con, location, name="hot"):
    con.execute("ATTACH '%s' AS w (TYPE vgi, LOCATION '%s')" % (name, location.replace("'", "''")))


def test_the_catalog_is_that_of_the_database(database):
    location = serve(database)
    assert ask(location, "catalogs") == ["catalog hot"]
    assert ask(serve(database, "--catalog", "shop"), "catalogs") == ["catalog shop"]
    told = ask(location, "attach", "hot")
    assert {"default_schema main", "version 1", "frozen 1", "transactions 0"} <= set(told)
    assert [line.split()[1] for line in ask(location, "schemas", "hot")] == ["main", "other"]
    assert "table events id:l ts:tsu: val:u" in ask(location, "tables", "hot", "main")
    assert any(
        line.startswith('facts a "b" c row_id=-1 not_null=1 ') for line in ask(location, "tables", "hot", "other")
    )
    functions = ask(location, "functions", "hot", "main")
    assert any(line.startswith("function few ") and "projection=1 filter=1" in line for line in functions)
    branches = ask(location, "branches", "hot", "main", "events")
    assert branches[0] == "branch kind=0 function=events filter= writable=0 source=.. format="


@pytest.mark.extension
def test_its_tables_and_views_are_read(con, database):
    attach(con, serve(database))
    assert rows(con, "SELECT count(*), sum(id), min(ts), max(val) FROM w.events") == rows(
        con, "ATTACH '%s' AS l (READ_ONLY); SELECT count(*), sum(id), min(ts), max(val) FROM l.events" % database
    )
    assert rows(con, "SELECT * FROM w.few ORDER BY id") == [(0,), (1,), (2,)]
    assert rows(con, 'SELECT "a column", k FROM w.other."a ""b"" c" WHERE k >= 8') == [(None, 8)]
    assert rows(con, "SELECT comment FROM duckdb_tables() WHERE database_name = 'w' AND table_name = 'events'") == [
        ("what happened",)
    ]
    # More than one batch, and a condition that leaves one row.
    assert rows(con, "SELECT val FROM w.events WHERE ts = TIMESTAMP '2026-11-01 01:40:00'") == [("e100",)]
    assert len(rows(con, "SELECT DISTINCT id FROM w.events")) == 10000


@pytest.mark.extension
def test_values_of_all_types_come_as_they_are(con, database):
    attach(con, serve(database))
    con.execute("ATTACH '%s' AS l (READ_ONLY)" % database)
    assert rows(con, "SELECT * EXCLUDE u REPLACE (tz::VARCHAR AS tz) FROM w.kinds") == rows(
        con, "SELECT * EXCLUDE u REPLACE (tz::VARCHAR AS tz) FROM l.kinds"
    )
    assert rows(con, "SELECT u, h, d FROM w.kinds") == rows(con, "SELECT u, h, d FROM l.kinds")
    assert rows(con, "SELECT typeof(h), typeof(d), typeof(s), d FROM w.kinds") == [
        ("HUGEINT", "DECIMAL(10,2)", "STRUCT(a INTEGER, b VARCHAR)", decimal.Decimal("1.50"))
    ]


def test_what_cannot_be_served_is_told(database, tmp_path):
    def told(*arguments):
        done = services.cli("vgi-serve", *arguments)
        assert done.returncode != 0 and not done.stdout
        return done.stderr

    assert "a database is needed" in told()
    assert "nowhere.duckdb" in told("--db", tmp_path / "nowhere.duckdb")
    refused = ask(serve(database), "attach", "shop", fails=True)
    assert "there is no catalog 'shop': there is 'hot'" in "\n".join(refused)
