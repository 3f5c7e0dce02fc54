"""Many threads attach, ask and detach catalogs that share companions, while workers are killed: in the end every count
is right, and nothing is attached that should not be. OPENDUCK_STORM_SECONDS lets it rage longer."""

import functools
import os
import random
import threading
import time

import duckdb
import psutil
import pytest
import vgi_catalogs
from vgi_catalogs import attach, one, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]
EVENTS = [[i, i * 10] for i in range(500)]
COLUMNS = {"id": "int64", "v": "int64"}


def lake(folder, name):
    path = folder / (name + ".duckdb")
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE events AS SELECT range AS id, range * 10 AS v FROM range(500, 1000)")
    return {"alias": name, "target": str(path), "db_type": "duckdb"}


def locations(folder, workers):
    """Of three workers: the first file is everybody's, the second that of two; the third wants it otherwise."""
    worker = workers(folder)
    first, second = lake(folder, "first"), lake(folder, "second")
    other = {**second, "options": {"READ_ONLY": "true"}, "required": False}
    arms = [{"function": "hot", "filter": "id < 500"}, {"source": ["first", "main", "events"], "filter": "id >= 500"}]
    more = {
        "tables": {"events": {"columns": COLUMNS, "branches": arms}},
        "functions": {"hot": {"columns": COLUMNS, "rows": EVENTS}},
    }
    return [worker(companions=list(c), **more) for c in ((first, second), (first, second), (first, other))]


def kill_one(chance):
    """Ends a worker that this process has started."""
    started = psutil.Process().children(recursive=True)
    mine = [p for p in started if any(word.endswith(("vgi_spec_worker.py", "vgi-serve")) for word in cmdline(p))]
    if mine:
        try:
            chance.choice(mine).kill()
        except psutil.NoSuchProcess:
            pass


def cmdline(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def rage(con, places, alias, chance, until, counts):
    """Attaches, asks and detaches; a worker that was killed is an error, and never a wrong answer."""
    while time.monotonic() < until and not counts["bad"]:
        try:
            attach(con, chance.choice(places), alias)
        except duckdb.Error:
            counts["refused"] += 1
            continue
        for _ in range(chance.randrange(3)):
            try:
                found = one(con, "SELECT sum(v) // 10 FROM %s.events WHERE id >= %d" % (alias, chance.choice([0, 500])))
                if found not in (499500, 374750):
                    counts["bad"].append(found)
                counts["answers"] += 1
            except duckdb.Error:
                counts["failed"] += 1
        con.execute("DETACH " + alias)


def storm(folder, workers, threads, seconds, seed):
    con = vgi_catalogs.connect()
    places, until = locations(folder, workers), time.monotonic() + seconds
    counts = {"bad": [], "answers": 0, "refused": 0, "failed": 0}

    def guarded(mine, alias, chance):
        try:
            rage(mine, places, alias, chance, until, counts)
        except Exception as why:
            counts["bad"].append(why)

    raging = [
        threading.Thread(target=guarded, args=(con.cursor(), "c%d" % i, random.Random(seed + i)))
        for i in range(threads)
    ]
    for thread in raging:
        thread.start()
    chance = random.Random(seed)
    while any(thread.is_alive() for thread in raging):
        time.sleep(chance.uniform(0.2, 0.8))
        if time.monotonic() < until:
            kill_one(chance)
    for thread in raging:
        thread.join()
    assert counts["bad"] == []
    assert rows(con, "FROM vgi_companion_catalogs()") == []
    assert rows(con, "SELECT database_name FROM duckdb_databases() WHERE NOT internal") == [("memory",)]
    # What is left works.
    attach(con, places[0], "last")
    assert one(con, "SELECT count(*) FROM last.events") == 1000
    assert rows(con, "SELECT catalog_name, refcount FROM vgi_companion_catalogs()") == [("first", 1), ("second", 1)]
    con.execute("DETACH last")
    con.close()
    return counts


@pytest.fixture(params=["told", "served"])
def workers(request):
    """Those that a test tells what to serve, or `openduck vgi-serve` of the same."""
    served = functools.partial(vgi_catalogs.ServedWorkers, records=False)
    return {"told": vgi_catalogs.SpecWorkers, "served": served}[request.param]


def test_counts_are_right_after_a_storm(tmp_path, workers):
    counts = storm(tmp_path, workers, threads=6, seconds=5, seed=7)
    assert counts["answers"] + counts["failed"] + counts["refused"] > 0


@pytest.mark.long
def test_counts_are_right_after_a_long_storm(tmp_path, workers):
    seconds = float(os.environ.get("OPENDUCK_STORM_SECONDS", "60"))
    counts = storm(tmp_path, workers, threads=16, seconds=seconds, seed=int(time.time()))
    print(counts)
    assert counts["answers"] > 0
