#!/usr/bin/env python3
"""TPC-H with some tables here and the others at a server, against all of them here; and a join of 1,000 rows here.

usage: hybrid_joins.py SOURCE.duckdb [runs] [--queries 1,3,..]
(SOURCE holds the tables of TPC-H; a release build must be there)

Every split of the tables answers the queries in turn with plain DuckDB on the same file. Prints, for each split, the
ratio of the sums of the medians, what was received and sent, and which answers differ; then the same for each query."""

import argparse
import contextlib
import glob
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "release"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
SPLITS = {
    "facts remote": ("lineitem", "orders"),
    "lineitem local": ("customer", "nation", "orders", "part", "partsupp", "region", "supplier"),
    "facts local": ("customer", "nation", "part", "partsupp", "region", "supplier"),
    "half of each": ("lineitem", "part", "supplier", "nation"),
    "other half": ("orders", "customer", "partsupp", "region"),
}


def queries(name="tpch"):
    pattern = "%s/duckdb_extension_%s/extensions/v*/*.duckdb_extension" % (sysconfig.get_paths()["purelib"], name)
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as c:
        c.execute("LOAD '%s'" % glob.glob(pattern)[0])
        return dict(c.execute("SELECT query_nr, query FROM %s_queries() ORDER BY 1" % name).fetchall())


@contextlib.contextmanager
def served(source):
    """The endpoint of a server with a copy of SOURCE."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(source))) as folder:
        path = os.path.join(folder, "db.duckdb")
        shutil.copyfile(source, path)
        command = [
            BUILD / "bin" / "openduck",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--db",
            "db=" + path,
            "--threads",
            "2",
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            yield server.stdout.readline().split()[1]
        finally:
            server.terminate()
            server.wait()


def client(path, endpoint, remote, tables=TABLES):
    c = duckdb.connect(config={"threads": 2, "allow_unsigned_extensions": "true"})
    c.execute("LOAD '%s'" % (BUILD / "ext" / "openduck.duckdb_extension"))
    c.execute("ATTACH '%s' AS home (READ_ONLY)" % path)
    c.execute("ATTACH 'openduck:db' AS cloud (ENDPOINT '%s', READ_ONLY)" % endpoint)
    for table in tables:
        c.execute("CREATE VIEW %s AS FROM %s.%s" % (table, "cloud" if table in remote else "home", table))
    return c


def timed(connection, sql):
    start = time.monotonic()
    rows = connection.execute(sql).fetchall()
    return time.monotonic() - start, rows


def travelled(connection, sql):
    """Bytes that the scans of SQL received and sent."""
    plan = json.loads(connection.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + sql).fetchall()[0][1])
    received = sent = 0
    todo = [plan]
    while todo:
        node = todo.pop()
        info = node.get("extra_info", {})
        received += int(info.get("Bytes Received", 0))
        sent += int(info.get("Bytes Sent", 0))
        todo += node.get("children", [])
    return received, sent


def same(a, b):
    def close(x, y):
        return abs(x - y) <= 1e-9 * abs(y) if isinstance(x, float) and isinstance(y, float) else x == y

    return len(a) == len(b) and all(all(close(x, y) for x, y in zip(r, s)) for r, s in zip(a, b))


def tpch(path, endpoint, asked, runs):
    texts = {n: q for n, q in queries().items() if n in asked}
    with client(path, endpoint, ()) as home:
        for split, remote in SPLITS.items():
            with client(path, endpoint, remote) as there:
                taken = {n: ([], []) for n in texts}
                wrong = []
                for _ in range(runs):
                    for n, sql in texts.items():
                        t, want = timed(home, sql)
                        taken[n][0].append(t)
                        t, got = timed(there, sql)
                        taken[n][1].append(t)
                        if not same(got, want) and n not in wrong:
                            wrong.append(n)
                sums = [sum(statistics.median(taken[n][side]) for n in texts) for side in (0, 1)]
                moved = {n: travelled(there, sql) for n, sql in texts.items()}
                print(
                    "%s: %.2f s here, %.2f s split, ratio %.2f; %.1f MB received, %.1f MB sent; wrong: %s"
                    % (
                        split,
                        sums[0],
                        sums[1],
                        sums[1] / sums[0],
                        sum(m[0] for m in moved.values()) / 1e6,
                        sum(m[1] for m in moved.values()) / 1e6,
                        wrong or "none",
                    )
                )
                for n in texts:
                    here, away = (statistics.median(x) for x in taken[n])
                    print(
                        "  Q%-2d %6.3f %6.3f  ratio %5.2f  %8.2f MB received %6.2f MB sent"
                        % (n, here, away, away / here, moved[n][0] / 1e6, moved[n][1] / 1e6)
                    )


def small_side(path, endpoint):
    with client(path, endpoint, TABLES) as c:
        c.execute("CREATE TABLE picked AS SELECT o_orderkey AS k FROM home.orders ORDER BY hash(o_orderkey) LIMIT 1000")
        whole = travelled(c, "SELECT * FROM lineitem")[0]
        received, sent = travelled(c, "SELECT lineitem.* FROM picked JOIN lineitem ON l_orderkey = k")
        want = c.execute("SELECT count(*) FROM picked JOIN home.lineitem ON l_orderkey = k").fetchone()
        got = c.execute("SELECT count(*) FROM picked JOIN lineitem ON l_orderkey = k").fetchone()
        print(
            "1,000 rows with lineitem: %d bytes received and %d sent of %d, %.3f %%; %s"
            % (received, sent, whole, 100.0 * (received + sent) / whole, "right" if got == want else "WRONG")
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("runs", nargs="?", type=int, default=3)
    parser.add_argument("--queries", default=",".join(str(n) for n in range(1, 23)))
    args = parser.parse_args()
    with served(args.source) as endpoint:
        small_side(args.source, endpoint)
        tpch(args.source, endpoint, [int(n) for n in args.queries.split(",")], args.runs)


if __name__ == "__main__":
    sys.exit(main())
