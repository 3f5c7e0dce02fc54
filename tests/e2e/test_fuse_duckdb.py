"""DuckDB on a mount of openduck-fuse."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import duckdb
import pytest
import services
from mounts import BOTH_STORES, Mount, mount_soon

pytestmark = pytest.mark.skipif(not pathlib.Path("/dev/fuse").exists(), reason="the kernel has no FUSE here")


def rows(path, sql, **options):
    with duckdb.connect(str(path), **options) as con:
        return con.execute(sql).fetchall()


def test_a_database_is_written_and_read(data):
    with Mount(data) as m:
        with duckdb.connect(str(m.file)) as con:
            con.execute("CREATE TABLE t AS SELECT i, 's' || i AS s FROM range(500000) t(i)")
            con.execute("CHECKPOINT")
            con.execute("UPDATE t SET s = 'x' WHERE i % 7 = 0")
            con.execute("INSERT INTO t VALUES (-1, 'y')")
            assert sorted(os.listdir(m.point)) == ["database.duckdb", "database.duckdb.wal", "snapshots"]
            expected = con.execute("SELECT count(*), sum(i), count(*) FILTER (s = 'x') FROM t").fetchall()
        assert expected == [(500001, 124999749999, 71429)]
        assert os.listdir(m.point) == ["database.duckdb", "snapshots"], "the log went with the last connection"
        # A plain file of the same bytes is the same database.
        copy = data.parent / "copy.duckdb"
        copy.write_bytes(m.file.read_bytes())
        assert rows(copy, "SELECT count(*), sum(i), count(*) FILTER (s = 'x') FROM t") == expected
    with Mount(data) as m:
        assert rows(m.file, "SELECT count(*), sum(i), count(*) FILTER (s = 'x') FROM t") == expected


def test_snapshots_open_read_only(data):
    with Mount(data) as m:
        with duckdb.connect(str(m.file)) as con:
            con.execute("CREATE TABLE t AS SELECT 1 AS i")
            with_log = m.seal()
            con.execute("CHECKPOINT")
            con.execute("INSERT INTO t VALUES (2)")
            con.execute("CHECKPOINT")
            without = m.seal()
            con.execute("DELETE FROM t")
            for _ in range(2):
                assert rows(m.snapshot(with_log), "SELECT i FROM t", read_only=True) == [(1,)]
                assert rows(m.snapshot(without), "SELECT i FROM t ORDER BY i", read_only=True) == [(1,), (2,)]
                con.execute("CHECKPOINT")


@BOTH_STORES
def test_checkpoints_seal(data):
    with Mount(data, "db", "--seal-on-checkpoint") as m:
        with duckdb.connect(str(m.file)) as con:
            con.execute("CREATE TABLE t AS SELECT 1 AS i")
            con.execute("CHECKPOINT")
            first = set(os.listdir(m.point / "snapshots"))
            con.execute("INSERT INTO t VALUES (2)")
            con.execute("CHECKPOINT")
            second = set(os.listdir(m.point / "snapshots")) - first
        assert first
        assert second
        counts = {rows(m.snapshot(s), "SELECT count(*) FROM t", read_only=True)[0][0] for s in second}
        assert counts == {2}
        assert all(not (m.snapshot(s).parent / "database.duckdb.wal").exists() for s in second), "no log to replay"


def test_what_does_not_fit_into_memory_spills_outside(data, tmp_path):
    outside = tmp_path / "spilled"
    outside.mkdir()
    with Mount(data, "db", "--temp-dir", outside) as m:
        with duckdb.connect(str(m.file), config={"memory_limit": "80MB", "threads": 2}) as con:
            con.execute("CREATE TABLE t AS SELECT i, hash(i) AS h FROM range(2000000) t(i)")
            con.execute("CREATE TEMP TABLE sorted AS SELECT * FROM t ORDER BY h")
            spilled = [f for f in outside.rglob("*") if f.is_file()]
            assert spilled
            assert sorted(p for p in os.listdir(m.point) if not p.endswith(".wal")) == ["database.duckdb", "snapshots"]
            assert con.execute("SELECT count(*) FROM sorted").fetchall() == [(2000000,)]
    assert list(outside.iterdir()) == []


WORKLOAD = """
import duckdb, sys
con = duckdb.connect(sys.argv[1])
con.execute("SET checkpoint_threshold = '64KB'")
con.execute("CREATE TABLE IF NOT EXISTS t (i INTEGER, s VARCHAR)")
i = con.execute("SELECT coalesce(max(i), 0) FROM t").fetchone()[0]
while True:
    i += 1
    con.execute("INSERT INTO t SELECT ?, repeat('x', ?)", [i, i * 37 % 4000])
    print(i, flush=True)
"""


@BOTH_STORES
@pytest.mark.parametrize(
    "times",
    [pytest.param(3, id="short"), pytest.param(200, id="long", marks=[pytest.mark.long, pytest.mark.timeout(3600)])],
)
def test_a_killed_mount_loses_nothing_that_was_acknowledged(data, times):
    known = 0
    for turn in range(times):
        with Mount(data, "db", "--lease", "1") as m:
            client = subprocess.Popen(
                [sys.executable, "-c", WORKLOAD, str(m.file)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=services.server_env(),
            )
            first = int(client.stdout.readline())
            assert first == known + 1, "the commits before are there, and none is twice"
            time.sleep((turn * 7 % 10) / 10)
            m.send_signal(signal.SIGKILL)
            m.proc.wait()
            last = [int(line) for line in client.stdout.read().split()] or [first]
            client.wait()
            m.clear()
        with mount_soon(data, "--lease", "1") as m:
            there = rows(m.file, "SELECT count(*), max(i), count(*) FILTER (length(s) <> i * 37 % 4000) FROM t")[0]
        # One more may be there: its acknowledgement was on the way.
        assert there[0] == there[1], there
        assert there[1] in (last[-1], last[-1] + 1), (there, last[-1])
        assert there[2] == 0
        known = there[1]
