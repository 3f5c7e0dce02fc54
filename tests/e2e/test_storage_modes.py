"""--storage: the same database read as a file, in the server's process, and in a mount of openduck-fuse."""

import os
import pathlib
import signal
import subprocess

import duckdb
import psutil
import pytest
import services
from mounts import Mount

NO_FUSE = pytest.mark.skipif(not pathlib.Path("/dev/fuse").exists(), reason="the kernel has no FUSE here")


def stored(tmp_path, name="sales"):
    return "openduck://%s?data_dir=%s" % (name, tmp_path / "data")


def refused(make, databases, *options):
    with pytest.raises(RuntimeError) as caught:
        make(databases, *options).kill()
    return str(caught.value)


def work(server):
    """What is the same in each mode."""
    with server.client() as c:
        c.do("CREATE TABLE t AS SELECT i, 'v' || i AS v FROM range(20000) r(i)", database="sales")
        txn = c.begin("sales")
        c.do("UPDATE sales.t SET v = NULL WHERE i % 2 = 0", transaction_id=txn)
        c.commit(txn)
        c.do("CHECKPOINT sales; INSERT INTO sales.t VALUES (-1, 'late')")
        assert c.do("SELECT count(*) AS n, count(v) AS v FROM sales.t") == [(20001, 10001)]


def mounts_of(server):
    return [p for p in psutil.Process(server.pid).children() if p.name() == "openduck-fuse"]


def sealed(mount):
    """The id of a snapshot that is kept now."""
    words = mount.cmdline()
    point = next(w for w in reversed(words) if w.startswith("/") and os.path.ismount(w))
    done = subprocess.run([words[0], "--seal", point], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def check_store(tmp_path):
    with services.duck() as con:
        con.execute("ATTACH '%s' AS sales" % stored(tmp_path))
        assert con.execute("SELECT count(*), count(v) FROM sales.t").fetchall() == [(20001, 10001)]


@pytest.mark.parametrize("make", [services.Serve, services.Worker])
def test_direct_is_a_file(make, tmp_path):
    path = tmp_path / "sales.duckdb"
    with make({"sales": path}, "--storage", "direct") as server:
        work(server)
    with duckdb.connect(str(path)) as con:
        assert con.execute("SELECT count(*), count(v) FROM t").fetchall() == [(20001, 10001)]
    why = refused(make, {"sales": stored(tmp_path)}, "--storage", "direct")
    assert "ended with 2" in why and "not files" in why


@pytest.mark.extension
@pytest.mark.parametrize("make", [services.Serve, services.Worker])
def test_in_process_is_the_store(make, tmp_path):
    with make({"sales": stored(tmp_path)}, "--storage", "in-process") as server:
        work(server)
        assert not mounts_of(server)
    check_store(tmp_path)
    why = refused(make, {"sales": tmp_path / "sales.duckdb"}, "--storage", "in-process")
    assert "ended with 2" in why and "openduck://" in why


@NO_FUSE
@pytest.mark.extension
@pytest.mark.parametrize("make", [services.Serve, services.Worker])
def test_fuse_is_a_mount_that_ends_with_the_server(make, tmp_path):
    (tmp_path / "data").mkdir()
    with make(
        {"sales": stored(tmp_path), "m": ":memory:"}, "--storage", "fuse", env={"TMPDIR": str(tmp_path)}
    ) as server:
        work(server)
        (mount,) = mounts_of(server)
        with server.client() as c:
            missing = c.run("SELECT 1", database="sales", snapshot_id="6f9619ff-8b86-d011-b42d-00c04fc964ff")
            assert "has no snapshot" in missing.error_text
            none = c.run("SELECT 1", database="m", snapshot_id="6f9619ff-8b86-d011-b42d-00c04fc964ff")
            assert "it is not at openduck://" in none.error_text
            kept = sealed(mount)
            c.do("CREATE TABLE later(i INTEGER)", database="sales")
            tables = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'later'"
            assert c.rows(tables, database="sales") == [(1,)]
            assert c.rows(tables, database="sales", snapshot_id=kept) == [(0,)]
    assert not mount.is_running()
    assert [p.name for p in tmp_path.iterdir()] == ["data"], "nothing is left of the mount"
    check_store(tmp_path)


@NO_FUSE
@pytest.mark.extension
def test_a_mount_outlives_no_server(tmp_path):
    (tmp_path / "data").mkdir()
    server = services.Serve({"sales": stored(tmp_path)}, "--storage", "fuse", env={"TMPDIR": str(tmp_path)})
    try:
        work(server)
        (mount,) = mounts_of(server)
    finally:
        server.kill()
    services.wait_until(lambda: not mount.is_running() or mount.status() == psutil.STATUS_ZOMBIE, 20, "it has ended")
    check_store(tmp_path)  # and it has given the lease back


@NO_FUSE
def test_a_mount_that_is_there_is_used_and_left(tmp_path):
    (tmp_path / "data").mkdir()
    with Mount(tmp_path / "data", "sales") as m:
        with services.Worker({"sales": m.point}, "--storage", "fuse") as server:
            work(server)
            assert not mounts_of(server)
            with server.client() as c:
                spills = c.do("SELECT current_setting('temp_directory') AS d")
            assert spills == [("%s.tmp" % m.file,)], "a folder that is not in the volume"
        assert m.alive() and m.file.stat().st_size > 0
    check_store(tmp_path)


@NO_FUSE
def test_what_cannot_be_mounted(tmp_path):
    (tmp_path / "data").mkdir()
    for path in (tmp_path, tmp_path / "data", "/proc"):
        assert "database 'sales': '%s' is not mounted by openduck-fuse" % path in refused(
            services.Worker, {"sales": path}, "--storage", "fuse"
        )
    why = refused(services.Worker, {"sales": tmp_path / "nowhere"}, "--storage", "fuse")
    assert "the mount '%s' is not there" % (tmp_path / "nowhere") in why
    why = refused(services.Worker, {"sales": "openduck://sales?data_dir=/nowhere/at/all"}, "--storage", "fuse")
    assert "openduck-fuse does not mount it" in why and "/nowhere/at/all" in why
    for unknown in ("lease_ms=1000", "snapshot=x"):
        why = refused(services.Worker, {"sales": stored(tmp_path) + "&" + unknown}, "--storage", "fuse")
        assert "a mount takes data_dir and blob_url, not '%s'" % unknown.split("=")[0] in why
    with Mount(tmp_path / "data", "sales"):
        why = refused(services.Worker, {"sales": stored(tmp_path)}, "--storage", "fuse")
        assert "has a writer" in why and "ended with 1" in why


@NO_FUSE
@pytest.mark.extension
def test_a_second_signal_does_not_leave_a_mount(tmp_path):
    (tmp_path / "data").mkdir()
    with services.Serve({"sales": stored(tmp_path)}, "--storage", "fuse", env={"TMPDIR": str(tmp_path)}) as server:
        work(server)
        (mount,) = mounts_of(server)
        server.send_signal(signal.SIGINT)
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
        assert not mount.is_running()
        assert [p.name for p in tmp_path.iterdir()] == ["data"]
