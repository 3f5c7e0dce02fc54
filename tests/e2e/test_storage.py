"""openduck:// in a user's DuckDB: ATTACH, snapshots and clones, who may write, where data goes, what fails and how."""

import os
import subprocess
import sys
import textwrap

import duckdb
import pytest
import services
import stores
from postgres import Postgres
from stores import attach, in_process, rows, seal, url

pytestmark = pytest.mark.extension


@pytest.fixture
def con(place):
    with stores.duck() as con:
        yield con


def same(con, left, right):
    """Nothing in LEFT that is not in RIGHT, nor the other way."""
    return not rows(con, "(FROM %s EXCEPT ALL FROM %s)" % (left, right)) and not rows(
        con, "(FROM %s EXCEPT ALL FROM %s)" % (right, left)
    )


# ---------------------------------------------------------------- a database


WORK = [
    "CREATE TABLE m.t(i INTEGER PRIMARY KEY, s VARCHAR, d DECIMAL(12, 3))",
    "INSERT INTO m.t SELECT i, 's' || i, i / 7 FROM range(50000) r(i)",
    "CREATE INDEX by_s ON m.t(s)",
    "INSERT INTO m.t VALUES (1, 'twice', 0)",
    "BEGIN",
    "DELETE FROM m.t WHERE i % 3 = 0",
    "ROLLBACK",
    "UPDATE m.t SET s = repeat('long', 200) WHERE i % 100 = 0",
    "CHECKPOINT m",
    "DELETE FROM m.t WHERE i BETWEEN 1000 AND 30000",
    "CREATE SCHEMA m.other",
    "CREATE VIEW m.other.v AS SELECT s, count(*) AS n FROM m.t GROUP BY s",
    "CREATE SEQUENCE m.seq START 7",
    "INSERT INTO m.t SELECT i + 100000, 'new', nextval('m.seq') FROM range(5000) r(i)",
    "reattach",
    "ALTER TABLE m.t ADD COLUMN l BIGINT DEFAULT 12",
    "INSERT INTO m.t SELECT i + 200000, NULL, 1, i FROM range(200000) r(i)",
    "CHECKPOINT m",
    "CREATE TABLE m.u AS SELECT i, i % 10 AS k FROM range(300000) r(i)",
    "DROP TABLE m.u",
    "reattach",
    "INSERT INTO m.t VALUES (-1, 'last', 0, NULL)",
]
ASK = [
    "SELECT count(*), sum(i), sum(d), count(s), sum(length(s)), sum(l) FROM m.t",
    "SELECT * FROM m.t ORDER BY i LIMIT 20",
    "SELECT * FROM m.other.v ORDER BY ALL LIMIT 20",
    "SELECT nextval('m.seq')",
    "SELECT i FROM m.t WHERE s = 's77'",
    "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = 'm' ORDER BY ALL",
]


def run(con, path, sql):
    try:
        if sql == "reattach":
            con.execute("DETACH m")
            con.execute("ATTACH '%s' AS m" % path)
            return "reattached"
        return con.execute(sql).fetchall()
    except duckdb.Error as e:
        return type(e).__name__, str(e)


@stores.EVERY
def test_a_database_on_openduck_is_as_one_in_a_file(tmp_path, place):
    paths = [str(tmp_path / "plain.duckdb"), url(place)]
    cons = [stores.duck() for _ in paths]
    for con, path in zip(cons, paths):
        con.execute("ATTACH '%s' AS m" % path)
    for sql in WORK + ASK:
        plain, ours = (run(con, path, sql) for con, path in zip(cons, paths))
        assert ours == plain, sql
    for con in cons:
        con.close()


def test_the_path_says_where_the_database_is(con, place):
    attach(con, place)
    assert rows(con, "SELECT path, readonly FROM duckdb_databases() WHERE database_name = 'm'") == [
        ("openduck://mydb/database.duckdb?data_dir=%s&metadata=sqlite" % place, False)
    ]


def test_a_name_of_any_letters_is_a_database(con, place):
    con.execute("ATTACH 'openduck://a%%20b%%2F%%C3%%BC?data_dir=%s' AS m" % place)
    con.execute("CREATE TABLE m.t AS SELECT 1 AS i")
    seal(con)
    assert rows(con, "SELECT database FROM openduck_snapshots('m')") == [("a b/ü",)]


def test_temporary_files_stay_outside(con, place, tmp_path):
    attach(con, place)
    con.execute("SET temp_directory = '%s'" % (tmp_path / "spill"))
    con.execute("SET memory_limit = '150MB'")
    con.execute("SET threads = 2")
    con.execute("USE m")
    con.execute("CREATE TABLE big AS SELECT i, hash(i) AS h FROM range(4000000) r(i)")
    con.execute("CREATE TABLE sorted AS SELECT * FROM big ORDER BY h")
    con.execute("CHECKPOINT")
    with pytest.raises(duckdb.IOException, match="holds a database and its log"):
        con.execute("COPY (SELECT 1) TO 'openduck://mydb/x.csv?data_dir=%s'" % place)
    with pytest.raises(duckdb.IOException, match="is a database, not a file"):
        con.execute("COPY (SELECT 1) TO 'openduck://other?data_dir=%s'" % place)
    assert rows(con, "SELECT count(*), sum(i) FROM sorted") == [(4000000, 4000000 * 3999999 // 2)]


def test_without_external_access_what_is_attached_goes_on_and_nothing_else_is_reached(con, place):
    attach(con, place)
    con.execute("CREATE TABLE m.t AS SELECT 1 AS i")
    con.execute("SET enable_external_access = false")
    con.execute("INSERT INTO m.t VALUES (2)")
    con.execute("CHECKPOINT m")
    con.execute("INSERT INTO m.t VALUES (3)")
    with pytest.raises(duckdb.PermissionException):
        attach(con, place, "x", "other")
    with pytest.raises(duckdb.PermissionException):
        con.execute("FROM read_blob('openduck://other?data_dir=%s')" % place)
    assert rows(con, "FROM m.t") == [(1,), (2,), (3,)]


# ---------------------------------------------------------------- snapshots and clones


@stores.EVERY
def test_each_snapshot_stays_what_it_was(con, place, tmp_path):
    attach(con, place)
    con.execute("CREATE TABLE m.t AS SELECT i, 'old' AS s FROM range(10000) r(i)")
    steps = [None, "UPDATE m.t SET s = 'new'", "DELETE FROM m.t WHERE i % 2 = 0", "DROP TABLE m.t"]
    snapshots = []
    for number, step in enumerate(steps):
        if step:
            con.execute(step)
        if number < 3:
            con.execute("CREATE TABLE copy%d AS FROM m.t" % number)
        snapshots.append(seal(con))
    assert all(checkpointed for _, checkpointed in snapshots)
    assert [row[0] for row in rows(con, "FROM openduck_snapshots('m')")] == [id for id, _ in snapshots]
    con.execute("CREATE TABLE m.t AS FROM range(5)")
    stores.check_sent(con, place)
    for _ in range(2):
        for number, (snapshot, _) in enumerate(snapshots[:3]):
            attach(con, place, "s%d" % number, snapshot=snapshot, read_only=True)
            assert same(con, "s%d.t" % number, "copy%d" % number)
            con.execute("DETACH s%d" % number)
        con.execute("DETACH m")
        attach(con, place)


def test_a_snapshot_cannot_be_written(con, place):
    attach(con, place)
    con.execute("CREATE TABLE m.t AS SELECT 1 AS i")
    snapshot, _ = seal(con)
    with pytest.raises(duckdb.IOException, match="cannot be opened to write"):
        attach(con, place, "s", snapshot=snapshot)
    attach(con, place, "s", snapshot=snapshot, read_only=True)
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
        con.execute("INSERT INTO s.t VALUES (2)")
    with pytest.raises(duckdb.BinderException, match="attached read-only"):
        seal(con, "s")


@stores.EVERY
def test_a_clone_goes_its_own_way(con, place):
    attach(con, place)
    con.execute("CREATE TABLE m.t AS SELECT i FROM range(1000) r(i)")
    snapshot, _ = seal(con)
    con.execute("INSERT INTO m.t VALUES (-1)")
    con.execute("CALL openduck_clone('%s', 'copy', data_dir := '%s')" % (snapshot, place))
    attach(con, place, "c", "copy")
    con.execute("DELETE FROM c.t WHERE i >= 10")
    con.execute("CHECKPOINT c")
    assert rows(con, "SELECT (SELECT count(*) FROM m.t), (SELECT count(*) FROM c.t)") == [(1001, 10)]
    with pytest.raises(duckdb.IOException, match="copy"):
        con.execute("CALL openduck_clone('%s', 'copy', data_dir := '%s')" % (snapshot, place))


@stores.EVERY
def test_garbage_goes_when_its_snapshot_has_gone(con, place):
    attach(con, place)
    con.execute("CREATE TABLE m.t AS SELECT i FROM range(100000) r(i)")
    snapshot, _ = seal(con)
    con.execute("CALL openduck_clone('%s', 'copy', data_dir := '%s')" % (snapshot, place))
    attach(con, place, "c", "copy")
    con.execute("UPDATE c.t SET i = -i")
    mine, _ = seal(con, "c")
    kept, _ = seal(con, "m")
    con.execute("DETACH c")
    con.execute("CALL openduck_drop_snapshot('%s', data_dir := '%s')" % (snapshot, place))
    # Layers are merged meanwhile, and those that they replace go.
    services.wait_until(lambda: rows(con, "FROM openduck_gc(data_dir := '%s')" % place) == [], 20, "no garbage is left")
    checked = rows(con, "FROM openduck_verify(data_dir := '%s')" % place)
    assert checked and all(problem is None for _, problem, _ in checked)
    for id, total in ((mine, -4999950000), (kept, 4999950000)):
        attach(con, place, "s", snapshot=id, read_only=True)
        assert rows(con, "SELECT sum(i) FROM s.t") == [(total,)]
        con.execute("DETACH s")


def test_layers_and_amplification_are_told_and_merging_lessens_them(con, place):
    attach(con, place)
    con.execute("CREATE TABLE m.t AS SELECT i FROM range(100000) r(i)")
    for number in range(3):
        con.execute("UPDATE m.t SET i = i + 1")
        snapshot, _ = seal(con)
        if number < 2:
            con.execute("CALL openduck_drop_snapshot('%s', data_dir := '%s')" % (snapshot, place))
    con.execute("FROM openduck_compact('m', whole := true)").fetchall()
    columns = "database, has_writer, snapshots, layers, mergeable, stored_bytes >= data_bytes, space > 1, reading > 1"
    ((name, writer, snapshots, layers, mergeable, more, space, reading),) = rows(
        con, "SELECT %s FROM openduck_storage('m')" % columns
    )
    assert (name, writer, snapshots, more, space) == ("mydb", True, 1, True, True)
    assert layers <= 3 and mergeable == 0 and reading is not None
    assert rows(con, "SELECT database FROM openduck_storage(data_dir := '%s')" % place) == [("mydb",)]
    attach(con, place, "s", snapshot=snapshot, read_only=True)
    assert same(con, "m.t", "s.t")


def test_a_seal_takes_no_part_of_a_transaction(con, place):
    attach(con, place)
    con.execute("CREATE TABLE m.t(i INTEGER)")
    other = con.cursor()
    other.execute("BEGIN")
    other.execute("INSERT INTO m.t SELECT range FROM range(300000)")
    con.execute("INSERT INTO m.t VALUES (1)")
    snapshot, _ = seal(con)
    with pytest.raises(duckdb.TransactionException, match="COMMIT first"):
        seal(other)
    other.execute("ROLLBACK")
    attach(con, place, "s", snapshot=snapshot, read_only=True)
    assert rows(con, "FROM s.t") == [(1,)]


def test_a_seal_while_others_read_needs_no_replay(con, place):
    attach(con, place)
    con.execute("CREATE TABLE m.t AS SELECT i FROM range(1000000) r(i)")
    reader = con.cursor()
    reader.execute("BEGIN")
    before = reader.execute("SELECT sum(i) FROM m.t").fetchall()
    con.execute("INSERT INTO m.t SELECT 0 FROM range(1000)")
    snapshot, checkpointed = seal(con)
    assert checkpointed
    assert reader.execute("SELECT sum(i) FROM m.t").fetchall() == before
    attach(con, place, "s", snapshot=snapshot, read_only=True)
    assert rows(con, "SELECT sum(i), count(*) FROM s.t") == [(499999500000, 1001000)]


def test_a_seal_beside_an_open_update_has_every_commit(con, place):
    attach(con, place)
    con.execute("CREATE TABLE m.t AS SELECT i FROM range(10) r(i)")
    other = con.cursor()
    other.execute("BEGIN")
    other.execute("UPDATE m.t SET i = 100 WHERE i = 1")
    con.execute("INSERT INTO m.t VALUES (10)")
    snapshot, checkpointed = seal(con)
    assert not checkpointed
    other.execute("COMMIT")
    attach(con, place, "s", snapshot=snapshot, read_only=True)
    assert rows(con, "SELECT i FROM s.t ORDER BY i") == [(i,) for i in range(11)]


# ---------------------------------------------------------------- one writer, many readers


@stores.BOTH
def test_there_is_one_writer(con, place):
    attach(con, place)
    with services.duck() as other:
        with pytest.raises(duckdb.IOException, match="'mydb' has a writer"):
            attach(other, place, lease_ms=5000)
        assert rows(other, "SELECT 1") == [(1,)]
        con.execute("DETACH m")
        attach(other, place)


@stores.EVERY
def test_a_reader_beside_the_writer_sees_what_was_synced_or_what_was_sealed(con, place):
    attach(con, place)
    con.execute("CREATE TABLE m.t AS SELECT 1 AS i")
    seal(con)
    con.execute("INSERT INTO m.t VALUES (2)")
    with services.duck() as other:
        attach(other, place, "synced", read_only=True, state="synced")
        attach(other, place, "sealed", read_only=True, state="sealed")
        con.execute("INSERT INTO m.t VALUES (3)")
        con.execute("CHECKPOINT m")
        assert rows(other, "FROM synced.t") == [(1,), (2,)]
        assert rows(other, "FROM sealed.t") == [(1,)]
        other.execute("DETACH synced")
        attach(other, place, "synced", read_only=True, state="synced")
        assert rows(other, "FROM synced.t") == [(1,), (2,), (3,)]


def test_a_full_disk_fails_a_commit_and_nothing_else(con, place):
    """The active layer cannot grow, and no file can be made: as on a disk that is full after so many bytes."""
    code = """
        import duckdb, pathlib
        from resource import RLIM_INFINITY, RLIMIT_FSIZE, RLIMIT_NOFILE, getrlimit, setrlimit
        con.execute("ATTACH '%s' AS m" % sys.argv[1])
        con.execute("CREATE TABLE m.t AS SELECT 0 AS i")
        files = getrlimit(RLIMIT_NOFILE)
        done = 1
        for room in [*range(0, 600, 24), 3000, 20000]:
            con.execute("INSERT INTO m.t VALUES (-2)")
            done += 1
            layers = sorted(pathlib.Path(sys.argv[2]).glob("layers/*"), key=lambda f: f.stat().st_mtime_ns)
            setrlimit(RLIMIT_FSIZE, (layers[-1].stat().st_size + room, RLIM_INFINITY))
            setrlimit(RLIMIT_NOFILE, (3, files[1]))
            try:
                for sql in ("INSERT INTO m.t VALUES (-1)", "INSERT INTO m.t SELECT range FROM range(300)"):
                    con.execute(sql)
                    done += 300 if "range" in sql else 1
            except duckdb.TransactionException as e:
                assert "File too large" in str(e) or "Too many open files" in str(e), e
            there = con.execute("SELECT count(*) FROM m.t").fetchall()
            setrlimit(RLIMIT_FSIZE, (RLIM_INFINITY, RLIM_INFINITY))
            setrlimit(RLIMIT_NOFILE, files)
            assert there == [(done,)], (room, there, done)
        con.execute("PRAGMA disable_checkpoint_on_shutdown")  # the log is what the next one sees
        con.close()
        print(done)
    """
    writer = in_process(code, url(place), place)
    out, _ = writer.communicate(timeout=100)
    assert writer.returncode == 0
    attach(con, place)
    assert rows(con, "SELECT count(*) FROM m.t") == [(int(out),)]


# ---------------------------------------------------------------- where a store is


def test_the_directory_comes_from_path_secret_environment_or_home(tmp_path):
    code = """
        import os, pathlib
        con.execute("SET secret_directory = '%s'" % sys.argv[1])
        def where(path):
            con.execute("ATTACH '%s' AS m" % path)
            ((path,),) = con.execute("SELECT path FROM duckdb_databases() WHERE database_name = 'm'").fetchall()
            con.execute("DETACH m")
            return path.partition("data_dir=")[2].partition("&")[0].removeprefix(sys.argv[1])
        print(where("openduck://x"))
        os.environ["OPENDUCK_DATA_DIR"] = sys.argv[1] + "/env"
        print(where("openduck://x"))
        con.execute("CREATE SECRET (TYPE openduck_storage, DATA_DIR '%s/secret')" % sys.argv[1])
        con.execute("CREATE SECRET y (TYPE openduck_storage, DATA_DIR '%s/y', SCOPE 'openduck://y')" % sys.argv[1])
        print(where("openduck://x"))
        print(where("openduck://y"))
        print(where("openduck://x?secret=y"))
        print(where("openduck://y?data_dir=%s/path/" % sys.argv[1]))
        os.chdir(sys.argv[1])
        os.symlink("path", "link")
        print(where("openduck://y?data_dir=link"))
    """
    env = {k: v for k, v in os.environ.items() if k != "OPENDUCK_DATA_DIR"}
    env["HOME"] = str(tmp_path)
    env["PYTHONPATH"] = os.path.dirname(services.__file__)
    head = "import sys, services; con = services.duck()\n"
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code), str(tmp_path)],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert done.stdout.split() == ["/.openduck/data", "/env", "/secret", "/y", "/y", "/path", "/path"], done.stderr


def test_an_attached_database_stays_where_it_is_whatever_secrets_come(con, place, tmp_path):
    con.execute("SET secret_directory = '%s'" % (tmp_path / "secrets"))
    con.execute("CREATE SECRET x (TYPE openduck_storage, DATA_DIR '%s')" % place)
    con.execute("ATTACH 'openduck://mydb' AS m")
    con.execute("CREATE TABLE m.t AS SELECT 1 AS i")
    con.execute(
        "CREATE OR REPLACE SECRET x (TYPE openduck_storage, DATA_DIR '%s', POSTGRES_URL 'host=none')" % tmp_path
    )
    con.execute("INSERT INTO m.t VALUES (2)")
    con.execute("CHECKPOINT m")
    con.execute("INSERT INTO m.t VALUES (3)")
    con.execute("DETACH m")
    attach(con, place, metadata="sqlite")
    assert rows(con, "FROM m.t") == [(1,), (2,), (3,)]
    ((shown,),) = rows(con, "SELECT secret_string FROM duckdb_secrets()")
    assert "postgres_url=redacted" in shown and "none" not in shown


def test_metadata_in_postgresql(con, place):
    with Postgres() as postgres:  # ends before the test does
        con.execute("CREATE SECRET (TYPE openduck_storage, POSTGRES_URL '%s password=hidden')" % postgres.url)
        attach(con, place)
        con.execute("CREATE TABLE m.t AS FROM range(1000) r(i)")
        snapshot, _ = seal(con)
        con.execute("DELETE FROM m.t")
        attach(con, place, "s", snapshot=snapshot, read_only=True)
        assert rows(con, "SELECT (SELECT count(*) FROM m.t), (SELECT count(*) FROM s.t)") == [(0, 1000)]
        paths = rows(con, "SELECT path FROM duckdb_databases() WHERE path LIKE 'openduck:%'")
        assert len(paths) == 2 and all("metadata=postgres-" in path and "hidden" not in path for (path,) in paths)
        assert not (place / "metadata.sqlite").exists()
        with services.duck() as other:
            other.execute("CREATE SECRET (TYPE openduck_storage, POSTGRES_URL '%s')" % postgres.url)
            with pytest.raises(duckdb.IOException, match="'mydb' has a writer"):
                attach(other, place)
    with pytest.raises(duckdb.TransactionException, match="cannot sync 'openduck://mydb'") as e:
        con.execute("INSERT INTO m.t VALUES (1)")
    assert "hidden" not in str(e.value)
    assert rows(con, "SELECT count(*) FROM s.t") == [(1000,)]


@pytest.mark.parametrize(
    "path, error, text",
    [
        ("openduck://", duckdb.BinderException, "names no database"),
        ("openduck://m?date_dir=x", duckdb.BinderException, "unknown parameter 'date_dir'"),
        ("openduck://m?metadata=postgres", duckdb.BinderException, "the URL of a PostgreSQL belongs into a secret"),
        ("openduck://m?state=old", duckdb.BinderException, "sealed or synced, not 'old'"),
        ("openduck://m?lease_ms=1s", duckdb.BinderException, "lease_ms is 100 to 3600000, not '1s'"),
        ("openduck://m?secret=none", duckdb.BinderException, 'secret "none" does not exist'),
        ("openduck://m?snapshot=x&data_dir={place}", duckdb.InvalidInputException, "a snapshot's id is a UUID"),
        (
            "openduck://m?snapshot=00000000-0000-0000-0000-000000000000&data_dir={place}",
            duckdb.IOException,
            "00000000-0000",
        ),
        ("openduck://none?data_dir={place}", duckdb.IOException, "none"),
        ("openduck://m?data_dir=/proc/none", duckdb.IOException, "/proc/none"),
    ],
)
def test_what_cannot_be_attached_is_said(con, place, path, error, text):
    attach(con, place)
    with pytest.raises(error, match=text):
        con.execute("ATTACH '%s' AS x (READ_ONLY)" % path.format(place=place))
    assert rows(con, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("name", ["none", "memory"])
def test_what_is_not_on_openduck_cannot_be_sealed(con, name):
    with pytest.raises(duckdb.BinderException, match='cannot seal "%s"' % name):
        seal(con, name)


def test_damaged_bytes_are_an_error_that_names_the_layer(con, place):
    attach(con, place)
    con.execute("CREATE TABLE m.t AS SELECT i, hash(i) AS h FROM range(500000) r(i)")
    snapshot, _ = seal(con)
    con.execute("DETACH m")
    ((layer,),) = rows(con, "SELECT layer FROM openduck_snapshots(data_dir := '%s')" % place)
    file = place / "layers" / (layer + ".seg")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    attach(con, place, "s", snapshot=snapshot, read_only=True)
    with pytest.raises(duckdb.IOException, match=layer):
        con.execute("SELECT sum(h) FROM s.t").fetchall()
    assert rows(con, "SELECT 1") == [(1,)]
    assert [
        row[1] is None for row in rows(con, "FROM openduck_verify(data_dir := '%s')" % place) if row[0] == layer
    ] == [False]
