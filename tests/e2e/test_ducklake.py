"""A DuckLake among a server's databases, and several workers that have the same one."""

import concurrent.futures
import contextlib
import sqlite3

import pytest
import services

NO_THREADS = pytest.mark.skipif(services.PRESET == "tsan", reason="nothing of it is about threads")
EXTENSIONS = services.ROOT / ".deps" / "extensions"


STORES = pytest.mark.parametrize(
    "store", ["sqlite", "postgres"] if services.PRESET == "release" else ["sqlite"], indirect=True
)


@pytest.fixture
def store(request, tmp_path):
    """The options of a worker for a lake that several processes can have: in SQLite unless a test wants more."""
    if getattr(request, "param", "sqlite") == "sqlite":
        text = "sqlite:%s/lake.sqlite" % tmp_path
    else:
        pg, database = request.getfixturevalue("postgres"), "t%d" % abs(hash(str(tmp_path)))
        text = "postgres:" + pg.create(database)
    (tmp_path / "data").mkdir()
    return lake(text, tmp_path / "data")


def lake(metadata, data, *more, extensions=EXTENSIONS):
    texts = ("--ducklake-metadata", metadata, "--ducklake-data", data, "--extension-directory", extensions)
    return [str(t) for t in (*texts, *more)]


@contextlib.contextmanager
def stack(options, count=2):
    with contextlib.ExitStack() as all_of_it:
        workers = [all_of_it.enter_context(services.Worker({}, *options)) for _ in range(count)]
        yield all_of_it.enter_context(services.Gateway([w.url for w in workers])), *workers


@NO_THREADS
@STORES
def test_workers_share_a_lake(store):
    """What one of them commits the next statement sees, at whichever it runs."""
    with stack(store) as (gateway, first, second):
        assert [list(w.databases) for w in gateway.status().workers] == [["lake"]] * 2
        with gateway.client() as c:
            c.do("CREATE TABLE t AS SELECT range AS i, 'row ' || range AS s FROM range(1000)", database="lake")
            for extra in range(4):
                assert c.do("SELECT count(*) FROM t", database="lake") == [(1000 + extra,)]
                c.do("INSERT INTO t VALUES (%d, NULL)" % -extra, database="lake")
            c.do("UPDATE t SET s = 'new' WHERE i = 7", database="lake")
            c.do("DELETE FROM t WHERE i < 0", database="lake")
            assert c.do("SELECT count(*), max(s) FROM t WHERE i IN (7, 8)", database="lake") == [(2, "row 8")]
            # As it was.
            assert c.do("SELECT count(*), max(s) FROM t AT (VERSION => 1) WHERE i IN (7, 8)", database="lake") == [
                (2, "row 8")
            ]
            assert c.do("SELECT s FROM t AT (VERSION => 1) WHERE i = 7", database="lake") == [("row 7",)]

            txn = c.begin("lake")
            c.do("DELETE FROM t", transaction_id=txn)
            assert c.do("SELECT count(*) FROM t", transaction_id=txn) == [(0,)]
            for _ in range(2):
                assert c.do("SELECT count(*) FROM t", database="lake") == [(1001,)]
            c.rollback(txn)
            assert c.do("SELECT count(*) FROM t", database="lake") == [(1001,)]
        assert all(w.status().executions_total > 3 for w in (first, second))
    with services.Serve({}, *store) as s, s.client() as c:  # it is in the store and the files, not in the workers
        assert c.do("SELECT count(*) FROM t", database="lake") == [(1001,)]


@NO_THREADS
def test_versions_of_a_shared_catalog_are_the_same_everywhere(store):
    """So a client that bound its statement against one worker's can run it at another, until the tables change."""
    with stack(store) as (_, first, second), first.client() as a, second.client() as b:

        def version(c, sql="SELECT 1", **fields):
            return c.run(sql, database="lake", **fields).chunks[0].catalog_version

        at_first = version(a)
        assert at_first == version(b) != 0
        a.do("CREATE TABLE t(i INTEGER)", database="lake")
        changed = version(b)
        assert changed != at_first
        assert changed == version(a)
        a.do("INSERT INTO t VALUES (1)", database="lake")
        assert changed == version(b) == version(a)
        stale = b.run("SELECT 1", database="lake", expected_catalog_version=at_first)
        assert stale.error.code == "STALE_CATALOG"
        assert stale.chunks[0].catalog_version == changed
        # A transaction keeps the one that it began with, also of its view.
        txn = b.begin("lake")
        a.do("ALTER TABLE t ADD COLUMN j INTEGER", database="lake")
        assert version(b, transaction_id=txn) == changed
        assert b.do("FROM t", transaction_id=txn) == [(1,)]
        b.commit(txn)
        assert b.do("FROM t", database="lake") == [(1, None)]
        assert changed != version(a) == version(b)


@pytest.mark.extension
def test_through_the_extension(store):
    with (
        stack(store) as (gateway, first, second),
        services.attached(gateway, "lake") as one,
        services.attached(gateway, "lake") as other,
        services.attached(second, "lake") as direct,
        first.client() as c,
    ):
        one.execute("CREATE TABLE cloud.t(i INTEGER, s VARCHAR)")
        for _ in range(2):
            one.execute("INSERT INTO cloud.t SELECT range, 'x' || range FROM range(3000)")
            assert other.execute("SELECT count(*) FROM cloud.t WHERE i = 5").fetchall() == [(1,)]
            one.execute("DELETE FROM cloud.t WHERE i <> 5")
            one.execute("DELETE FROM cloud.t")
        one.execute("INSERT INTO cloud.t SELECT range, 'x' || range FROM range(3000)")
        one.execute("CREATE TABLE mine AS SELECT 5 AS i, 'five' AS s")
        one.execute("UPDATE cloud.t SET s = mine.s FROM mine WHERE t.i = mine.i")
        assert other.execute("SELECT s FROM cloud.t WHERE i IN (5, 6) ORDER BY i").fetchall() == [("five",), ("x6",)]
        # Tables that another worker made, changed and dropped.
        for step, sql, want in (
            ("CREATE TABLE d AS SELECT 1 AS a", "FROM cloud.d", [(1,)]),
            ("ALTER TABLE d ADD COLUMN b INTEGER", "FROM cloud.d", [(1, None)]),
            ("DROP TABLE d", "SHOW TABLES FROM cloud", [("t",)]),
        ):
            c.do(step, database="lake")
            assert direct.execute(sql).fetchall() == want
        one.execute("BEGIN; INSERT INTO cloud.t VALUES (-1, 'mine')")
        assert one.execute("SELECT count(*) FROM cloud.t").fetchall() == [(3001,)]
        assert other.execute("SELECT count(*) FROM cloud.t").fetchall() == [(3000,)]
        one.execute("COMMIT")
        assert other.execute("SELECT count(*) FROM cloud.t").fetchall() == [(3001,)]
        earlier = "FROM openduck_query('cloud', 'SELECT count(*) FROM t AT (VERSION => 2)')"
        assert other.execute(earlier).fetchall() == [(3000,)]


@STORES
def test_concurrent_writers(store):
    """None of what is acknowledged is lost or there twice. With SQLite there are conflicts; they may be tried again."""
    with stack(store) as (gateway, first, second):
        with first.client() as a, second.client() as b:
            a.do("CREATE TABLE t(i INTEGER)", database="lake")
            for i, c in enumerate((a, b)):
                c.do("INSERT INTO t VALUES (%d)" % i, database="lake")

        def insert(base):
            with gateway.client() as c:
                for i in range(base, base + 4):
                    for _ in range(1000):
                        try:
                            c.do("INSERT INTO t VALUES (%d)" % i, database="lake")
                            break
                        except services.Refused as e:
                            assert e.state == "40001", e

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(insert, range(100, 500, 100)))
        with gateway.client() as c:
            assert c.do("SELECT count(*), count(DISTINCT i) FROM t", database="lake") == [(18, 18)]


@NO_THREADS
@STORES
def test_its_extensions_open_no_other_doors(store, tmp_path):
    """Those for SQLite and PostgreSQL do not ask DuckDB whether SQL may reach files and hosts."""
    other = tmp_path / "other.sqlite"
    with contextlib.closing(sqlite3.connect(other)) as con:
        con.execute("CREATE TABLE t AS SELECT 'secret' AS s")
        con.commit()
    with services.Serve({}, *store) as s, s.client() as c:
        c.do("CREATE TABLE mine AS SELECT 1 AS i", database="lake")
        before = sorted(tmp_path.iterdir())
        for sql in (
            "FROM sqlite_scan('%s', 't')" % other,
            "SELECT * FROM query('FROM sqlite_scan(''%s'', ''t'')')" % other,
            "CALL sqlite_attach('%s')" % other,
            "ATTACH '%s' AS o (TYPE sqlite)" % other,
            "ATTACH 'sqlite:%s/new.sqlite' AS o" % tmp_path,
            "FROM sqlite_query('__ducklake_metadata_lake', 'SELECT 1')",
            "PREPARE p AS FROM sqlite_scan('%s', 't'); EXECUTE p" % other,
            "CREATE VIEW v AS FROM sqlite_scan('%s', 't'); FROM v" % other,
            "FROM postgres_scan('host=127.0.0.1 port=1', 'public', 't')",
            "FROM postgres_query('__ducklake_metadata_lake', 'SELECT pg_read_file(''/etc/passwd'')')",
            "CALL postgres_execute('__ducklake_metadata_lake', 'SELECT 1')",
            "ATTACH 'host=127.0.0.1 port=1' AS o (TYPE postgres)",
            "ATTACH 'ducklake:sqlite:%s/new.sqlite' AS o (DATA_PATH '%s/data')" % (tmp_path, tmp_path),
        ):
            with pytest.raises(services.Refused) as e:
                c.do(sql)
            # Where its extension is not there, neither is the function.
            assert e.value.code in ("PERMISSION", "CATALOG"), (sql, e.value)
            assert "secret" not in str(e.value)
        assert sorted(tmp_path.iterdir()) == before
        c.do("INSERT INTO mine VALUES (2)", database="lake")
        assert c.do("SELECT sum(i) FROM mine", database="lake") == [(3,)]


@NO_THREADS
@pytest.mark.parametrize("kind", ["sqlite:", ""])
def test_texts_are_escaped(kind, tmp_path):
    odd = 'it\'s; DROP "x" -- $1 %s ü'
    data = tmp_path / ("data " + odd)
    data.mkdir()
    name = 'my "lake"; it\'s'
    options = lake("%s%s/meta %s" % (kind, tmp_path, odd), data, "--ducklake-name", name)
    for already in (False, True):
        with services.Serve({}, *options) as s, s.client() as c:
            assert list(s.status().databases) == [name]
            if not already:
                c.do("CREATE TABLE t AS SELECT range AS i FROM range(5000)", database=name)
            assert c.do("SELECT count(*), sum(i) FROM t", database=name) == [(5000, 12497500)]
    assert sorted(p.name for p in tmp_path.iterdir() if p.name[-4:] not in (".wal", "-wal", "-shm")) == [
        data.name,
        "meta " + odd,
    ]
    assert list(data.rglob("*.parquet"))


def test_a_lake_beside_files(tmp_path):
    (tmp_path / "data").mkdir()
    options = lake(tmp_path / "lake.duckdb", tmp_path / "data")
    with services.Serve({"mydb": tmp_path / "x.duckdb"}, *options) as s, s.client() as c:
        assert list(s.status().databases) == ["mydb", "lake"]
        c.do("CREATE TABLE lake.t AS SELECT range AS i FROM range(3)", database="mydb")
        assert c.do("SELECT sum(i) FROM t", database="lake") == [(3,)]
        # Files of the lake are reached, and no others.
        parquet = next((tmp_path / "data").rglob("*.parquet"))
        assert c.do("SELECT count(*) FROM read_parquet('%s')" % parquet) == [(3,)]
        for sql in (
            "FROM read_csv('/etc/passwd')",
            "COPY (SELECT 1) TO '%s/out.csv'" % tmp_path,
            "ATTACH '%s/other.duckdb'" % tmp_path,
            "FROM read_csv('%s/data/../../../../etc/passwd')" % tmp_path,
        ):
            with pytest.raises(services.Refused) as e:
                c.do(sql)
            assert e.value.code == "PERMISSION", e.value
        # Metadata in a DuckDB file is for one process.
        done = services.cli("worker", "--listen", "127.0.0.1:0", *options)
        assert done.returncode == 1
        assert "one process alone can have metadata that is a DuckDB file" in done.stderr
        assert done.stderr.count("\n") == 1
    with services.Serve({}, *options, "--read-only") as s, s.client() as c:
        assert c.do("SELECT sum(i) FROM t", database="lake") == [(3,)]
        with pytest.raises(services.Refused, match="read-only"):
            c.do("DELETE FROM t", database="lake")


@NO_THREADS
def test_what_keeps_a_lake_from_being_served(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "file").write_text("no lake")
    (tmp_path / "other").mkdir()
    with services.Serve({}, *lake("sqlite:%s/used.sqlite" % tmp_path, data)):
        pass
    for options, text in (
        (lake("sqlite:%s/no/x.sqlite" % tmp_path, data), "the directory '%s/no' of its metadata does not" % tmp_path),
        (lake(tmp_path / "no" / "x.duckdb", data), "the directory '%s/no' of its metadata does not exist" % tmp_path),
        (lake(tmp_path, data), "its metadata '%s' is a directory" % tmp_path),
        (lake("sqlite:%s/x" % tmp_path, tmp_path / "nodir"), "the directory '%s/nodir' of its data" % tmp_path),
        (lake("sqlite:%s/x" % tmp_path, tmp_path / "file"), "'%s/file', where its data should be, is no" % tmp_path),
        (lake("sqlite:%s/x" % tmp_path, "s3://bucket/x"), "has to be in a directory of this host"),
        (lake("sqlite:%s/file" % tmp_path, data), "file is not a database"),
        (lake(tmp_path / "file", data), "not a valid DuckDB database file"),
        (lake("sqlite:%s/used.sqlite" % tmp_path, tmp_path / "other"), "does not match existing data path"),
        (lake("sqlite:%s/x" % tmp_path, data, "--read-only"), "read-only: its metadata '%s/x' does not" % tmp_path),
        (lake("postgres:host=%s dbname=x" % tmp_path, data), "Unable to connect to Postgres"),
        (lake("sqlite:%s/x" % tmp_path, data, extensions=tmp_path / "other"), "extension 'ducklake' is needed: "),
        (lake("sqlite:%s/x" % tmp_path, data, "--db", "lake=:memory:"), "already exists"),
        (["--ducklake-metadata", "sqlite:x"], "a DuckLake needs both --ducklake-metadata and --ducklake-data"),
        (["--ducklake-data", data], "a DuckLake needs both --ducklake-metadata and --ducklake-data"),
        (lake("sqlite:x", data, "--ducklake-name", ""), "a name is needed"),
    ):
        done = services.cli("worker", "--listen", "127.0.0.1:0", *options)
        assert done.returncode in (1, 2) and not done.stdout, (options, done)
        assert text in done.stderr, (options, done.stderr)
    for secret in ("password=hunter2", "PassWord = 'hunter2'", "postgresql://me:hunter2@db/x", "sslpassword=hunter2"):
        done = services.cli("worker", *lake("postgres:host=db %s" % secret, data))
        assert done.returncode == 2
        assert "holds a password, which clients could read" in done.stderr
        assert "hunter2" not in done.stderr + done.stdout
