#!/usr/bin/env python3
"""What the DuckDB extension vgi costs beside its worker.

usage: vgi.py [ROWS] [RUNS]      (a release build must be there; the workers are those of the tests)

- the CPU time of the client for ROWS rows, against the worker's (of the public SDK, both generations)
- a query that prunes the cold arm of a table, against the same query of the hot arm alone
- ATTACH with a companion, against ATTACH without plus ATTACH of the companion by hand
"""

import os
import pathlib
import sys
import tempfile
import time

import psutil

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / part) for part in ("e2e", "support")]

import vgi_catalogs  # noqa: E402
import vgi_worker  # noqa: E402

COLUMNS = {"id": "int64", "val": "string"}


def best(run, runs):
    """In ms. What else the machine does only adds to it."""

    def one():
        start = time.perf_counter()
        run()
        return (time.perf_counter() - start) * 1e3

    one()
    return min(one() for _ in range(runs))


def shares(count, runs):
    for generation in vgi_worker.GENERATIONS:
        with vgi_worker.VgiWorker(generation) as worker:
            con, other = vgi_catalogs.connect(), psutil.Process(worker.process.pid)
            vgi_catalogs.attach(con, worker.location, name="example")
            found = []
            for _ in range(runs):
                here, there, start = time.process_time(), sum(other.cpu_times()[:2]), time.perf_counter()
                total = vgi_catalogs.one(con, "SELECT sum(n) FROM ex.sequence(%d)" % count)
                assert total == count * (count - 1) // 2
                there = sum(other.cpu_times()[:2]) - there
                found.append(((time.process_time() - here) / there, there, time.perf_counter() - start))
            share, there, took = sorted(found)[len(found) // 2]
            print(
                "generation %s: %d rows in %.2f s; CPU of the client %.3f of the worker's (%.2f s)"
                % (generation, count, took, share, there)
            )
            con.close()


def arms(con, folder, runs):
    con.execute("ATTACH '%s' AS lake" % (folder / "cold.duckdb"))
    con.execute("CREATE TABLE lake.events AS SELECT range AS id, 'cold' AS val FROM range(1000000)")
    con.execute("DETACH lake")
    companion = {"alias": "lake", "target": str(folder / "cold.duckdb"), "db_type": "duckdb"}
    hot = {"function": "hot", "filter": "id >= 1000000"}
    cold = {"source": ["lake", "main", "events"], "filter": "id < 1000000"}
    tables = {"both": {"columns": COLUMNS, "branches": [hot, cold]}, "hot": {"columns": COLUMNS, "branches": [hot]}}
    functions = {"hot": {"columns": COLUMNS, "rows": [[1000000 + i, "hot"] for i in range(1000)]}}
    location = vgi_catalogs.SpecWorkers(folder)(companions=[companion], tables=tables, functions=functions)
    vgi_catalogs.attach(con, location)
    taken = {}
    for table in ("hot", "both", "hot", "both"):
        sql = "SELECT count(*) FROM ex.%s WHERE id >= 1000500" % table
        assert vgi_catalogs.one(con, sql) == 500
        taken.setdefault(table, []).append(best(lambda sql=sql: con.execute(sql).fetchall(), runs))
    both, alone = min(taken["both"]), min(taken["hot"])
    print("a pruned cold arm costs %.1f ms (%.1f ms against %.1f ms)" % (both - alone, both, alone))
    con.execute("DETACH ex")


def attaches(con, folder, runs):
    """At a worker that runs already: what it costs to start one is not at issue."""
    target = str(folder / "cold.duckdb")
    extra = {"VGI_TEST_COMPANION_TARGET": target, "VGI_TEST_COMPANION_DBTYPE": "duckdb"}
    with vgi_worker.VgiWorker("2.2", module="companion", extra=extra) as worker:

        def with_companion():
            vgi_catalogs.attach(con, worker.location)
            con.execute("DETACH ex")

        def by_hand():
            vgi_catalogs.attach(con, worker.location, attach_companions="false")
            con.execute("ATTACH '%s' AS vgi_companion" % target)
            con.execute("DETACH vgi_companion")
            con.execute("DETACH ex")

        first, second = best(with_companion, runs), best(by_hand, runs)
        more = "ATTACH and DETACH with a companion cost %.1f ms more than both by hand (%.1f ms, %.1f ms)"
        print(more % (first - second, first, second))


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10000000
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print("load %.1f" % os.getloadavg()[0])
    shares(count, runs)
    con = vgi_catalogs.connect()
    with tempfile.TemporaryDirectory() as folder:
        arms(con, pathlib.Path(folder), runs * 10)
        attaches(con, pathlib.Path(folder), runs * 10)
    con.close()


if __name__ == "__main__":
    main()
