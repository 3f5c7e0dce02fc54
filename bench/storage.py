#!/usr/bin/env python3
"""Databases on openduck:// and on openduck-fuse against plain files, through DuckDB, in turn within one run.

usage: storage.py SOURCE.duckdb [--dir DIR] [--runs N] [--only power,load,commit,seal,far] [--gigabytes N] [--seals N]
                  [--no-fuse]
(SOURCE holds the tables of TPC-H; a release build must be there; DIR is where all kinds of databases are made)

power   the 22 queries of TPC-H, warm: the sum of the medians
load    CREATE TABLE AS of lineitem, and a checkpoint
commit  the median of single-row INSERTs; also with the metadata in a PostgreSQL on this machine
seal    openduck_seal after a small change in a large database, many times; then ATTACH of it, and of a file as large
far     two columns of lineitem whose layers are in an S3 server on this machine, for the first time: bytes that are
        fetched, and bytes that DuckDB reads of a plain file"""

import argparse
import glob
import os
import pathlib
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("support", "e2e")]

import postgres  # noqa: E402
import s3  # noqa: E402

EXTENSION = ROOT / "build" / "release" / "ext" / "openduck.duckdb_extension"
FUSE = ROOT / "build" / "release" / "bin" / "openduck-fuse"
KINDS = ["plain", "openduck", "fuse"]
mounts = {}


def connect(*extensions):
    con = duckdb.connect(config={"threads": 2, "allow_unsigned_extensions": "true"})
    for extension in (EXTENSION, *extensions):
        con.execute("LOAD '%s'" % extension)
    return con


def queries():
    pattern = "%s/duckdb_extension_tpch/extensions/v*/tpch.duckdb_extension" % sysconfig.get_paths()["purelib"]
    with connect(*glob.glob(pattern)) as con:
        return [sql for (sql,) in con.execute("SELECT query FROM tpch_queries() ORDER BY query_nr").fetchall()]


def mount(args, name):
    """The file of a database that is mounted when it is first asked for, and then until the end."""
    point = "%s/mount-%s" % (args.dir, name)
    if name not in mounts:
        os.mkdir(point)
        os.makedirs(args.dir + "/mounted", exist_ok=True)
        command = [FUSE, "--data-dir", args.dir + "/mounted", "--temp-dir", args.dir, name, point]
        mounts[name] = subprocess.Popen(command, stdout=subprocess.PIPE)
        if not mounts[name].stdout.readline().startswith(b"ready"):
            raise SystemExit("openduck-fuse does not start")
    return point + "/database.duckdb"


def unmount():
    for process in mounts.values():
        process.terminate()
        process.wait()


def path(args, kind, name):
    if kind == "fuse":
        return mount(args, name)
    if kind == "plain":
        return "%s/%s.duckdb" % (args.dir, name)
    if kind == "openduck":
        return "openduck://%s?data_dir=%s/store" % (name, args.dir)
    return "openduck://%s?data_dir=%s/%s&secret=%s" % (name, args.dir, kind, kind)


def timed(con, sql):
    start = time.monotonic()
    con.execute(sql).fetchall()
    return time.monotonic() - start


def tell(what, figures, unit, **targets):
    """FIGURES of each kind, the first of plain, and each of the others against it."""
    plain = figures["plain"]
    print("%-34s plain %8.2f %-2s" % (what, plain, unit), end="")
    for kind, ours in list(figures.items())[1:]:
        print("  %s %8.2f %-2s ratio %.2f (at most %.2f)" % (kind, ours, unit, ours / plain, targets[kind]), end="")
    print(flush=True)


def power(args):
    cons = {kind: connect() for kind in KINDS}
    for kind, con in cons.items():
        con.execute("ATTACH '%s' AS source (READ_ONLY)" % args.source)
        con.execute("ATTACH '%s' AS d" % path(args, kind, "power"))
        con.execute("COPY FROM DATABASE source TO d")
        con.execute("DETACH source")
        con.execute("DETACH d")
        con.execute("ATTACH '%s' AS d" % path(args, kind, "power"))
        con.execute("USE d")
    cold = {kind: 0.0 for kind in KINDS}
    sums = {kind: 0.0 for kind in KINDS}
    for sql in queries():
        for kind in KINDS:
            cold[kind] += timed(cons[kind], sql)
        times = {kind: [] for kind in KINDS}
        for run in range(args.runs):
            for kind in KINDS if run % 2 == 0 else reversed(KINDS):
                times[kind].append(timed(cons[kind], sql))
        for kind in KINDS:
            sums[kind] += statistics.median(times[kind])
    tell("TPC-H power run, warm", sums, "s", openduck=1.10, fuse=1.50)
    tell("  the first time", cold, "s", openduck=1.10, fuse=1.50)


def load(args):
    times = {kind: [] for kind in KINDS}
    for run in range(args.runs):
        for kind in KINDS if run % 2 == 0 else reversed(KINDS):
            with connect() as con:
                con.execute("ATTACH '%s' AS source (READ_ONLY)" % args.source)
                con.execute("ATTACH '%s' AS d" % path(args, kind, "load%d" % run))
                con.execute("SELECT sum(l_orderkey) FROM source.lineitem").fetchall()
                once = timed(con, "CREATE TABLE d.lineitem AS FROM source.lineitem") + timed(con, "CHECKPOINT d")
                times[kind].append(once)
    medians = {kind: statistics.median(t) for kind, t in times.items()}
    tell("load of lineitem, with checkpoint", medians, "s", openduck=1.30, fuse=2.00)


def commit(args):
    with postgres.Postgres("-c", "fsync=on") as server:
        cons = {kind: connect() for kind in [*KINDS, "postgres"]}
        secret = "CREATE SECRET postgres (TYPE openduck_storage, SCOPE 'openduck://none', POSTGRES_URL '%s')"
        cons["postgres"].execute(secret % server.url)
        for kind, con in cons.items():
            con.execute("ATTACH '%s' AS d" % path(args, kind, "commit"))
            con.execute("CREATE TABLE d.t(i BIGINT, s VARCHAR)")
        times = {kind: [] for kind in cons}
        for _ in range(200 * args.runs):
            for kind, con in cons.items():
                times[kind].append(timed(con, "INSERT INTO d.t VALUES (42, 'a row')"))
        for con in cons.values():
            con.close()
    medians = {kind: statistics.median(t) * 1000 for kind, t in times.items()}
    tell("commit of a row", medians, "ms", openduck=1.50, fuse=2.00, postgres=3.00)


def seal(args):
    rows = int(args.gigabytes * 1e9 / 16)  # two random BIGINTs each
    con = connect()
    for kind in KINDS[:2]:
        con.execute("ATTACH '%s' AS %s" % (path(args, kind, "large"), kind))
        con.execute("CREATE TABLE %s.t AS SELECT hash(i) AS a, hash(-i) AS b FROM range(%d) r(i)" % (kind, rows))
        con.execute("CREATE TABLE %s.small(i INTEGER)" % kind)
        con.execute("CHECKPOINT %s" % kind)
    times = []
    for _ in range(args.seals):
        con.execute("INSERT INTO openduck.small FROM range(10)")
        con.execute("UPDATE openduck.small SET i = i + 1")
        times.append(timed(con, "FROM openduck_seal('openduck')") * 1000)
    tenth = max(1, args.seals // 10)
    print(
        "seal of %.1f GB after a small change, ms: median %.1f, first %d %.1f, last %d %.1f, most %.1f"
        "  (at most 50, and flat)"
        % (
            args.gigabytes,
            statistics.median(times),
            tenth,
            statistics.median(times[:tenth]),
            tenth,
            statistics.median(times[-tenth:]),
            max(times),
        )
    )
    opened = {kind: [] for kind in KINDS[:2]}
    for kind in KINDS[:2]:
        con.execute("DETACH %s" % kind)
    for _ in range(2 * args.runs):
        for kind in KINDS[:2]:
            opened[kind].append(timed(con, "ATTACH '%s' AS d" % path(args, kind, "large")) * 1000)
            con.execute("DETACH d")
    plain, ours = (statistics.median(opened[kind]) for kind in KINDS[:2])
    print("ATTACH with %d layers, ms: plain %.1f, openduck %.1f  (at most 100 more)" % (args.seals, plain, ours))


def bytes_read():
    """By this process, of files: those of the kernel's cache, too."""
    return int(pathlib.Path("/proc/self/io").read_text().split()[1])


def far(args):
    columns = "SELECT sum(l_extendedprice), sum(l_discount) FROM d.lineitem"
    fetched = "SELECT fetched_bytes, fetches FROM openduck_far(data_dir := '%s/far', secret := 'far')" % args.dir
    with s3.S3() as server, connect() as con:
        con.execute(
            "CREATE SECRET far (TYPE openduck_storage, SCOPE 'openduck://none', BLOB_URL 's3://test/bench',"
            " KEEP_BYTES 1, KEY_ID '%s', SECRET '%s', ENDPOINT '%s', USE_SSL false, URL_STYLE 'path')"
            % (s3.KEY, s3.SECRET, server.endpoint)
        )
        for kind in ("plain", "far"):
            con.execute("ATTACH '%s' AS source (READ_ONLY)" % args.source)
            con.execute("ATTACH '%s' AS d" % path(args, kind, "cold"))
            con.execute("CREATE TABLE d.lineitem AS FROM source.lineitem")
            con.execute("CHECKPOINT d")
            if kind == "far":
                con.execute("FROM openduck_seal('d')").fetchall()
            con.execute("DETACH d")
            con.execute("DETACH source")
        con.execute("FROM openduck_tier(data_dir := '%s/far', secret := 'far')" % args.dir).fetchall()
        before = bytes_read()
        con.execute("ATTACH '%s' AS d (READ_ONLY)" % path(args, "plain", "cold"))
        plain_time = timed(con, columns)
        plain = bytes_read() - before
        con.execute("DETACH d")
        con.execute("ATTACH '%s' AS d (READ_ONLY)" % path(args, "far", "cold"))
        far_time = timed(con, columns)
        ((ours, requests),) = con.execute(fetched).fetchall()
    print(
        "two columns of lineitem, cold      plain %8.2f MB read, %.2f s  S3 %8.2f MB fetched in %d requests, %.2f s"
        "  ratio %.2f (at most 1.30)" % (plain / 1e6, plain_time, ours / 1e6, requests, far_time, ours / plain)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--dir")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="power,load,commit,seal,far")
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--seals", type=int, default=200)
    parser.add_argument("--no-fuse", action="store_true")
    args = parser.parse_args()
    if args.no_fuse:
        KINDS.remove("fuse")
    with tempfile.TemporaryDirectory(dir=args.dir) as args.dir:
        try:
            for name in args.only.split(","):
                {"power": power, "load": load, "commit": commit, "seal": seal, "far": far}[name](args)
        finally:
            unmount()
    print("load of the machine in the last minutes: %.1f %.1f %.1f" % os.getloadavg())


if __name__ == "__main__":
    main()
