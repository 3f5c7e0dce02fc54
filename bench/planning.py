#!/usr/bin/env python3
"""What a plan over attached tables costs: EXPLAIN of a join of 30 tables, and an aggregate that the server makes.

usage: planning.py SOURCE.duckdb [pairs]   (SOURCE holds TPC-H's lineitem; a release build must be there)

Both sides in turn, on the same files; prints medians, their ratio for the joins and the aggregate's difference."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import duckdb
from hybrid_joins import BUILD

TABLES = 30
CHAIN = "JOIN {s}.t%(i)d ON t%(i)d.k%(i)d = t%(before)d.k%(i)d"
STAR = "JOIN {s}.t%(i)d ON t%(i)d.k%(i)d = t0.k0"
AGGREGATE = "SELECT count(*), sum(l_extendedprice) FROM {s}.lineitem"


def make(path):
    with duckdb.connect(path) as c:
        for i in range(TABLES):
            c.execute(
                "CREATE TABLE t%d AS SELECT i AS k%d, (i * 7) %% 100 AS k%d, i %% %d AS v FROM range(1000) t(i)"
                % (i, i, i + 1, i + 2)
            )


def joined(link):
    joins = " ".join(link % {"i": i, "before": i - 1} for i in range(1, TABLES))
    return "EXPLAIN SELECT sum(t%d.v) FROM {s}.t0 %s" % (TABLES - 1, joins)


def medians(c, sql, sides, pairs):
    taken = {side: [] for side in sides}
    for _ in range(pairs + 1):
        for side in sides:
            start = time.perf_counter()
            c.execute(sql.format(s=side)).fetchall()
            taken[side].append(1e3 * (time.perf_counter() - start))
    return [statistics.median(taken[side][1:]) for side in sides]


def measure(endpoint, path, source, pairs):
    with duckdb.connect(config={"threads": 2, "allow_unsigned_extensions": "true"}) as c:
        c.execute("LOAD '%s'" % (BUILD / "ext" / "openduck.duckdb_extension"))
        for name, file in (("joins", path), ("lines", source)):
            c.execute("ATTACH '%s' AS home_%s (READ_ONLY)" % (file, name))
            c.execute("ATTACH 'openduck:%s' AS cloud_%s (ENDPOINT '%s', READ_ONLY)" % (name, name, endpoint))
        for shape, link in (("chain", CHAIN), ("star", STAR)):
            for level in ("full", "scan", "off"):
                c.execute("SET openduck_pushdown = '%s'" % level)
                here, there = medians(c, joined(link), ("home_joins", "cloud_joins"), pairs)
                print("%s, %s: %.1f ms here, %.1f ms there, ratio %.2f" % (shape, level, here, there, there / here))
        c.execute("SET openduck_pushdown = 'full'")
        here, there = medians(c, AGGREGATE, ("home_lines", "cloud_lines"), pairs)
        print("aggregate: %.2f ms here, %.2f ms there, %.2f ms more" % (here, there, there - here))


def main():
    source, pairs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 15
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(source))) as folder:
        path, served = os.path.join(folder, "joins.duckdb"), os.path.join(folder, "lines.duckdb")
        make(path)
        shutil.copyfile(source, served)
        command = [BUILD / "bin" / "openduck", "serve", "--listen", "127.0.0.1:0", "--threads", "2", "--read-only"]
        command += ["--db", "joins=" + path, "--db", "lines=" + served]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            measure(server.stdout.readline().split()[1], path, source, pairs)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
