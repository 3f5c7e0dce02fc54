#!/usr/bin/env python3
"""UPDATE of every row and DELETE of half of lineitem: through an attached catalog, and in a file of one's own.

usage: write_statements.py SOURCE.duckdb [pairs]   (SOURCE holds lineitem; a release build must be there)

Both sides work on a copy of SOURCE in a folder of their own, in turn; prints seconds and the ratio of the medians."""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "release"
STATEMENTS = {
    "UPDATE": "UPDATE {t} SET l_quantity = l_quantity + 1, l_comment = l_comment || '.'",
    "DELETE": "DELETE FROM {t} WHERE l_orderkey % 2 = 0",
}


def timed(connection, sql):
    start = time.monotonic()
    connection.execute(sql).fetchall()
    return time.monotonic() - start


def once(connection, table):
    # Both have read the table once, so that neither waits for the file.
    connection.execute("SELECT count(*), sum(l_quantity), max(l_comment) FROM %s" % table).fetchall()
    return {name: timed(connection, sql.format(t=table)) for name, sql in STATEMENTS.items()}


def at_home(path):
    with duckdb.connect(config={"threads": 2}) as c:
        c.execute("ATTACH '%s' AS home" % path)
        return once(c, "home.lineitem")


def over_there(path):
    command = [BUILD / "bin" / "openduck", "serve", "--listen", "127.0.0.1:0", "--db", "db=%s" % path, "--threads", "2"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        endpoint = server.stdout.readline().split()[1]
        with duckdb.connect(config={"threads": 2, "allow_unsigned_extensions": "true"}) as c:
            c.execute("LOAD '%s'" % (BUILD / "ext" / "openduck.duckdb_extension"))
            c.execute("ATTACH 'openduck:db' AS cloud (ENDPOINT '%s')" % endpoint)
            return once(c, "cloud.lineitem")
    finally:
        server.terminate()
        server.wait()


def main():
    source, pairs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    taken = {(side, name): [] for side in ("home", "there") for name in STATEMENTS}
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(source))) as folder:
        for _ in range(pairs):
            for side, run in (("home", at_home), ("there", over_there)):
                path = os.path.join(folder, side + ".duckdb")
                shutil.copyfile(source, path)
                for name, seconds in run(path).items():
                    taken[side, name].append(seconds)
                os.unlink(path)
    for name in STATEMENTS:
        home, there = (statistics.median(taken[side, name]) for side in ("home", "there"))
        print("%s: %.2f s at home, %.2f s through the catalog, ratio %.2f" % (name, home, there, there / home))


if __name__ == "__main__":
    main()
