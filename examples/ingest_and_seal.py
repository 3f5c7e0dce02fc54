#!/usr/bin/env python3
"""Rows come in all the time, and now and then a snapshot is kept: each has what was committed when it was asked for.

usage: ingest_and_seal.py DIRECTORY [openduck.duckdb_extension]
"""

import sys
import threading

import duckdb

directory = sys.argv[1]
extension = sys.argv[2] if len(sys.argv) > 2 else "build/release/ext/openduck.duckdb_extension"
database = "openduck://events?data_dir=%s" % directory

con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute("LOAD '%s'" % extension)
con.execute("ATTACH '%s' AS events" % database)
con.execute("CREATE OR REPLACE TABLE events.clicks(number BIGINT, moment TIMESTAMP)")

committed = 0
more = threading.Condition()
stop = threading.Event()


def ingest(cursor):
    global committed
    while not stop.is_set():
        cursor.execute("INSERT INTO events.clicks SELECT ? + i, now()::TIMESTAMP FROM range(100) r(i)", [committed])
        with more:
            committed += 100
            more.notify_all()


thread = threading.Thread(target=ingest, args=(con.cursor(),))
thread.start()
kept = []
for _ in range(3):
    with more:
        least = committed + 100
        more.wait_for(lambda least=least: committed >= least)
        before = committed
    ((snapshot,),) = con.execute("SELECT snapshot FROM openduck_seal('events')").fetchall()
    kept.append((snapshot, before))
stop.set()
thread.join()

for snapshot, before in kept:
    con.execute("ATTACH '%s&snapshot=%s' AS then_ (READ_ONLY)" % (database, snapshot))
    ((count, last),) = con.execute("SELECT count(*), max(number) + 1 FROM then_.clicks").fetchall()
    assert count == last >= before
    con.execute("DETACH then_")
    print("snapshot of %d rows or more: ok" % before)
print("now: %d rows" % con.execute("SELECT count(*) FROM events.clicks").fetchall()[0][0])
