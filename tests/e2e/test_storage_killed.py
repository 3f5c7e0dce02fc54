"""A DuckDB that writes to openduck:// and is killed: what it acknowledged is there, at the tip and at each snapshot."""

import os
import random
import subprocess
import sys
import time

import duckdb
import pytest
import services
import stores

pytestmark = pytest.mark.extension

LEASE_MS = 500
KEPT = 10  # the rows of so many transactions stay
SIZES = [1, 3, 100, 3000, 20000, 200000]  # rows of a transaction; the last are written to the file before their commit


def rows_of(n):
    return SIZES[random.Random(n).choices(range(len(SIZES)), [10, 10, 10, 5, 2, 1])[0]]


def expected(v):
    """What `t` and `c` hold after transaction V, in the order of n: (n, count of rows, sum of i)."""
    return [
        (n, rows_of(n), n * rows_of(n) + rows_of(n) * (rows_of(n) - 1) // 2) for n in range(max(1, v - KEPT + 1), v + 1)
    ]


def state(con, alias):
    """(v, what there is); V is 0 before the first transaction."""
    tables = con.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE database_name = '%s' AND table_name = 'c'" % alias
    ).fetchall()
    if tables == [(0,)]:
        return 0, []
    ((v,),) = con.execute("SELECT v FROM %s.c" % alias).fetchall()
    return v, con.execute("SELECT n, count(*), sum(i)::BIGINT FROM %s.t GROUP BY n ORDER BY n" % alias).fetchall()


def writer(url):
    """Runs in a process of its own, until it is killed. Says 'did N' after a commit, 'sealed ID N' after a seal.
    Without an index: DuckDB 1.5.5 loses entries of one when it replays a log, of a plain file, too."""
    con = stores.duck()
    con.execute("ATTACH '%s' AS m" % url)
    con.execute("BEGIN")
    con.execute("CREATE TABLE IF NOT EXISTS m.t(n INTEGER, i BIGINT, s VARCHAR)")
    if not con.execute("SELECT 1 FROM duckdb_tables() WHERE database_name = 'm' AND table_name = 'c'").fetchall():
        con.execute("CREATE TABLE m.c AS SELECT 0 AS v")
    con.execute("COMMIT")
    ((n,),) = con.execute("SELECT v FROM m.c").fetchall()
    while True:
        n += 1
        con.execute("BEGIN")
        con.execute(
            "INSERT INTO m.t SELECT $n, $n + i, repeat('x', 1 + (i %% 50)::INT) FROM range(%d) r(i)" % rows_of(n),
            {"n": n},
        )
        con.execute("DELETE FROM m.t WHERE n <= %d" % (n - KEPT))
        con.execute("UPDATE m.c SET v = %d" % n)
        con.execute("COMMIT")
        print("did", n, flush=True)
        chance = random.random()
        if chance < 0.1:
            con.execute("CHECKPOINT m")
        elif chance < 0.25:
            ((id,),) = con.execute("SELECT snapshot FROM openduck_seal('m')").fetchall()
            print("sealed", id, n, flush=True)


class Killed:
    """Rounds of a writer that is killed, in one store."""

    def __init__(self, place):
        self.place = place
        self.url = "openduck://mydb?data_dir=%s&lease_ms=%d" % (place, LEASE_MS)
        self.done = 0
        self.snapshots = {}  # id: transactions in it

    def note(self, line):
        words = line.split()
        if words[:1] == ["did"]:
            self.done = int(words[1])
        elif words[:1] == ["sealed"]:
            self.snapshots[words[1]] = int(words[2])

    def attach(self, con, url, alias, read_only=False):
        def free():
            try:
                con.execute("ATTACH '%s' AS %s%s" % (url, alias, " (READ_ONLY)" if read_only else ""))
            except duckdb.IOException as e:
                # On a busy machine a lease so short may end while the database is opened.
                if "has a writer" not in str(e) and "the lease is over" not in str(e):
                    raise
                return False
            return True

        services.wait_until(free, 30, "the lease of the killed writer is over")

    def round(self, moment):
        folders = map(os.path.dirname, (services.__file__, stores.__file__))
        env = {**os.environ, "PYTHONPATH": ":".join(folders)}
        code = "import sys, test_storage_killed as t; t.writer(sys.argv[1])"
        command = [sys.executable, "-c", code, self.url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        try:
            first = process.stdout.readline()
            self.note(first)
            if first:  # else a busy machine let its lease end before that
                self.look_beside_it()
            time.sleep(moment)
        finally:
            process.kill()
            rest, errors = process.communicate()
        # On a busy machine a lease so short may end before it is renewed.
        assert not errors or "the lease is over" in errors, errors
        for line in rest.splitlines(keepends=True):
            if line.endswith("\n"):
                self.note(line)

    def look_beside_it(self):
        with stores.duck() as con:
            con.execute("ATTACH '%s&state=synced' AS r (READ_ONLY)" % self.url)
            v, found = state(con, "r")
            assert v >= self.done and found == expected(v)

    def check(self):
        """With the writer dead: DuckDB opens it, and every acknowledged commit is there."""
        with stores.duck() as con:
            self.attach(con, self.url, "m")
            v, found = state(con, "m")
            assert self.done <= v <= self.done + 1, "acknowledged %d, there %d" % (self.done, v)
            assert found == expected(v)
            self.done = v
            for id, n in self.snapshots.items():
                con.execute("ATTACH '%s&snapshot=%s' AS s (READ_ONLY)" % (self.url, id))
                assert state(con, "s") == (n, expected(n)), "snapshot %s of %d" % (id, n)
                con.execute("DETACH s")

    def forget(self, keep):
        """Drops the older snapshots, and what only they needed."""
        store = "data_dir := '%s'" % self.place
        with stores.duck() as con:
            for id in list(self.snapshots)[:-keep]:
                con.execute("CALL openduck_drop_snapshot('%s', %s)" % (id, store))
                del self.snapshots[id]
            con.execute("CALL openduck_gc(%s)" % store)
            broken = con.execute("SELECT * FROM openduck_verify(%s) WHERE problem IS NOT NULL" % store).fetchall()
            assert broken == []


@stores.EVERY
@pytest.mark.parametrize("rounds", [3, pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_a_killed_writer_loses_nothing_that_was_acknowledged(place, rounds):
    seed = int(os.environ.get("OPENDUCK_SEED", random.randrange(1 << 30)))
    print("OPENDUCK_SEED=%d" % seed)
    moments = random.Random(seed)
    killed = Killed(place)
    for number in range(rounds):
        killed.round(moments.uniform(0, 0.4))
        killed.check()
        if number % 3 == 2:
            killed.forget(keep=3)
        if number % 25 == 24:
            print("%d rounds, %d transactions" % (number + 1, killed.done), flush=True)
    assert killed.done > rounds
