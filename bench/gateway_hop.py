#!/usr/bin/env python3
"""What a separate gateway adds: a copy of lineitem and a one-row query, straight from a worker and through a gateway.

usage: gateway_hop.py DATABASE [REPEATS]     DATABASE holds lineitem and one (a row), as peers.py prepare makes it
Both ways in turn, in one process, on the release build; medians and their ratio.
"""

import pathlib
import statistics
import subprocess
import sys
import time

import duckdb

BUILD = pathlib.Path(__file__).resolve().parents[1] / "build" / "release"


def start(*args):
    command = [BUILD / "bin" / "openduck", *args, "--log", "error", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().split()[1]


def measure(url, queries=700):
    con = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "2"})
    con.execute("LOAD '%s'" % (BUILD / "ext" / "openduck.duckdb_extension"))
    con.execute("ATTACH 'openduck:db?endpoint=%s' AS r" % url)
    begin = time.perf_counter()
    con.execute("CREATE OR REPLACE TABLE x AS SELECT * FROM r.main.lineitem")
    bulk = time.perf_counter() - begin
    small = []
    for _ in range(queries):
        begin = time.perf_counter()
        con.execute("SELECT i FROM r.main.one").fetchall()
        small.append(time.perf_counter() - begin)
    con.close()
    return bulk, statistics.median(small)


def main(database, repeats=4):
    worker, worker_url = start("worker", "--db", "db=" + database)
    gateway, gateway_url = start("gateway", "--workers", worker_url)
    try:
        time.sleep(1)  # the gateway has probed its worker
        runs = [(measure(worker_url), measure(gateway_url)) for _ in range(repeats)]
    finally:
        for process in (gateway, worker):
            process.terminate()
            process.wait()
    bulk = [statistics.median(run[way][0] for run in runs) for way in (0, 1)]
    small = [statistics.median(run[way][1] for run in runs) for way in (0, 1)]
    print("lineitem: %.3f s, through a gateway %.3f s: ratio %.2f" % (*bulk, bulk[1] / bulk[0]))
    print(
        "one row: p50 %.3f ms, through a gateway %.3f ms: %+.0f us"
        % (small[0] * 1e3, small[1] * 1e3, (small[1] - small[0]) * 1e6)
    )


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
