#!/usr/bin/env python3
"""What several streams bring: lineitem fetched over one stream and over more, wall and processor time of both sides.

usage: fetch_streams.py DATABASE [REPEATS [THREADS]]     DATABASE holds lineitem, as peers.py prepare makes it
Each way has a client process of its own, in turn, on the release build, over one server; medians and their ratio.
THREADS (2) are DuckDB's at the client. The statements: a copy of all columns, which keeps their order, and an aggregate
over three, which needs none; both with openduck_pushdown = 'scan', so that all rows are fetched.
"""

import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import duckdb
import psutil

BUILD = pathlib.Path(__file__).resolve().parents[1] / "build" / "release"
STATEMENTS = {
    "copy": "CREATE OR REPLACE TABLE x AS FROM r.main.lineitem",
    "aggregate": "SELECT count(DISTINCT l_shipmode), max(l_comment), max(l_orderkey) FROM r.main.lineitem",
}
STREAMS = (1, 2)


def processor(process):
    times = process.cpu_times()
    return times.user + times.system


def client(url, server, statement, streams, threads):
    """Prints what STATEMENT took."""
    con = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": threads})
    con.execute("SET enable_progress_bar = false")
    con.execute("LOAD '%s'" % (BUILD / "ext" / "openduck.duckdb_extension"))
    con.execute("SET openduck_pushdown = 'scan'; SET openduck_fetch_streams = %s" % streams)
    con.execute("ATTACH 'openduck:db?endpoint=%s' AS r" % url)
    con.execute("SELECT l_orderkey FROM r.main.lineitem LIMIT 1").fetchall()
    sides = (psutil.Process(), psutil.Process(int(server)))
    before, begin = sum(map(processor, sides)), time.perf_counter()
    con.execute(STATEMENTS[statement]).fetchall()
    wall = time.perf_counter() - begin
    took = {"wall": wall, "cpu": sum(map(processor, sides)) - before}
    took["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(took))


def main(database, repeats=5, threads=2):
    command = [BUILD / "bin" / "openduck", "serve", "--read-only", "--db", "db=" + database, "--log", "error"]
    server = subprocess.Popen([*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    taken = {}
    try:
        url = server.stdout.readline().split()[1]
        for _ in range(repeats):
            for statement in STATEMENTS:
                for streams in STREAMS:
                    ask = ["client", url, str(server.pid), statement, str(streams), str(threads)]
                    run = subprocess.run([sys.executable, __file__, *ask], check=True, capture_output=True, text=True)
                    taken.setdefault((statement, streams), []).append(json.loads(run.stdout))
    finally:
        server.terminate()
        server.wait()
    for (statement, streams), runs in taken.items():
        wall, cpu, peak = (statistics.median(run[what] for run in runs) for what in ("wall", "cpu", "peak"))
        one = [statistics.median(run[what] for run in taken[statement, 1]) for what in ("wall", "cpu")]
        print(
            "%-9s %d streams: wall %.3f s (%.2f), both sides' processors %.2f s (%.2f), the client's peak %.0f MiB"
            % (statement, streams, wall, wall / one[0], cpu, cpu / one[1], peak)
        )


if __name__ == "__main__":
    if sys.argv[1] == "client":
        client(*sys.argv[2:])
    else:
        main(sys.argv[1], *map(int, sys.argv[2:]))
