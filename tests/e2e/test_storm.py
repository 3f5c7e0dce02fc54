"""Sixteen threads write, read, define, attach, prepare, conflict and cancel at once, in one process and in several.
Nothing crashes or hangs, sums are kept, what was acknowledged is there once, and the server is left with nothing open.

OPENDUCK_STORM_SECONDS and OPENDUCK_STORM_SEED change how long and which way. As a program (`test_storm.py URL THREADS
FIRST SECONDS`) it is one process of several."""

import collections
import contextlib
import faulthandler
import json
import os
import random
import subprocess
import sys
import threading
import time

import duckdb
import pytest
import services

pytestmark = [pytest.mark.extension, pytest.mark.timeout(600)]

LONG = os.environ.get("OPENDUCK_LONG") == "1"
SECONDS = float(os.environ.get("OPENDUCK_STORM_SECONDS", "60" if LONG else "8"))
SEED = int(os.environ.get("OPENDUCK_STORM_SEED", "1"))
THREADS = 16
ACCOUNTS = 8
AMOUNT = 1000

TABLES = (
    "CREATE TABLE account AS SELECT i AS id, %d::BIGINT AS amount FROM range(%d) t(i)" % (AMOUNT, ACCOUNTS),
    "CREATE TABLE log (worker INTEGER, n INTEGER)",
    "CREATE TABLE counter AS SELECT i AS worker, 0::BIGINT AS n FROM range(64) t(i)",
    "CREATE TABLE big AS SELECT i, 'row ' || i AS s FROM range(40000) t(i)",
    "CREATE TABLE keyed (k INTEGER PRIMARY KEY, v VARCHAR)",
)

# What may end a statement while others change the same rows and names.
CONFLICT = (duckdb.TransactionException, duckdb.ConstraintException)
MOVING = (*CONFLICT, duckdb.CatalogException, duckdb.BinderException, duckdb.DependencyException)


class Client(threading.Thread):
    """A cursor and a random number generator of its own."""

    def __init__(self, con, url, number, end):
        super().__init__(name="storm-%d" % number, daemon=True)
        self.cur = con.cursor()
        self.url = url
        self.number = number
        self.rnd = random.Random(SEED * 1000 + number)
        self.end = end
        self.done = collections.Counter()
        self.logged = 0  # rows of `log`, and commits of `counter`, that were acknowledged
        self.counted = 0
        self.problem = None
        self.doing = None

    def run(self):
        actions = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("do_")]
        try:
            while time.monotonic() < self.end:
                action = self.rnd.choice(actions)
                action()
                self.done[action.__name__] += 1
        except BaseException as e:
            self.problem = e
        with contextlib.suppress(duckdb.Error):
            self.cur.execute("ROLLBACK")
        self.cur.close()

    def rows(self, sql, *allowed, parameters=None):
        """The rows; None after an error of a class in ALLOWED, which leaves no transaction open."""
        self.doing = sql
        try:
            return (self.cur.execute(sql, parameters) if parameters else self.cur.execute(sql)).fetchall()
        except allowed as e:
            assert not isinstance(e, (duckdb.InternalException, duckdb.FatalException)), (sql, e)
            assert "INTERNAL" not in str(e), (sql, e)
            self.done[type(e).__name__] += 1
            return None

    @contextlib.contextmanager
    def transaction(self, *allowed):
        """BEGIN to COMMIT; yields a list that holds True after an acknowledged commit. An error in it rolls back."""
        done = []
        try:
            self.rows("BEGIN")
            yield done
            self.rows("COMMIT")
            done.append(True)
        except allowed as e:
            assert "INTERNAL" not in str(e), (self.doing, e)
            self.done[type(e).__name__] += 1
            with contextlib.suppress(duckdb.TransactionException):
                self.cur.execute("ROLLBACK")

    def do_transfer(self):
        a, b = self.rnd.sample(range(ACCOUNTS), 2)
        n = self.rnd.randrange(50)
        with self.transaction(*CONFLICT):
            self.rows("UPDATE cloud.account SET amount = amount - %d WHERE id = %d" % (n, a))
            self.rows("UPDATE cloud.account SET amount = amount + ? WHERE id = ?", parameters=[n, b])

    def do_transfer_at_once(self):
        a, b = self.rnd.sample(range(ACCOUNTS), 2)
        self.rows(
            "UPDATE cloud.account a SET amount = amount + m.n FROM (VALUES (%d, -5), (%d, 5)) m(i, n) WHERE id = i"
            % (a, b),
            *CONFLICT,
        )

    def do_transfer_from_local(self):
        a, b = self.rnd.sample(range(ACCOUNTS), 2)
        self.rows("CREATE OR REPLACE TEMP TABLE move AS SELECT * FROM (VALUES (%d, -3), (%d, 3)) m(id, n)" % (a, b))
        self.rows("UPDATE cloud.account SET amount = amount + n FROM move WHERE account.id = move.id", *CONFLICT)

    def do_sum(self):
        got = self.rows("SELECT sum(amount), count(*) FROM cloud.account")
        assert got == [(AMOUNT * ACCOUNTS, ACCOUNTS)], got

    def do_sum_here(self):
        got = self.rows("SELECT sum(amount + length(?) - 1) FROM cloud.account WHERE random() >= 0", parameters=["x"])
        assert got == [(AMOUNT * ACCOUNTS,)], got

    def do_count_up(self):
        sql = "UPDATE cloud.counter SET n = n + 1 WHERE worker = %d" % self.number
        self.counted += self.rows(sql, *CONFLICT) is not None

    def do_count_up_in_a_transaction(self):
        with self.transaction(*CONFLICT) as done:
            for _ in range(2):
                self.rows("UPDATE cloud.counter SET n = n + 1 WHERE worker = %d" % self.number)
            got = self.rows("SELECT n FROM cloud.counter WHERE worker = %d" % self.number)
            assert got == [(self.counted + 2,)], (got, self.counted)
        self.counted += 2 * len(done)

    def do_log(self):
        for _ in range(self.rnd.randrange(3)):
            self.rows("INSERT INTO cloud.log VALUES (?, ?)", parameters=[self.number, self.logged])
            self.logged += 1

    def do_log_from_local(self):
        n = self.rnd.choice((1, 10, 5000))
        self.rows("CREATE OR REPLACE TEMP TABLE fresh AS SELECT %d + i AS n FROM range(%d) t(i)" % (self.logged, n))
        with self.transaction(*CONFLICT) as done:
            self.rows("INSERT INTO cloud.log SELECT %d, n FROM fresh" % self.number)
        self.logged += n * len(done)

    def do_log_and_undo(self):
        self.rows("BEGIN")
        self.rows("INSERT INTO cloud.log VALUES (-1, -1)")
        assert self.rows("SELECT count(*) FROM cloud.log WHERE worker = -1") == [(1,)]
        self.rows("ROLLBACK")

    def do_key(self):
        k = self.rnd.randrange(20)
        sql = self.rnd.choice((
            "INSERT INTO cloud.keyed VALUES (%d, 'x')", "DELETE FROM cloud.keyed WHERE k = %d",
            "INSERT OR REPLACE INTO cloud.keyed VALUES (%d, 'y')",
            "INSERT INTO cloud.keyed VALUES (%d, 'z') ON CONFLICT DO NOTHING",
        ))  # fmt: skip
        self.rows(sql % k, *CONFLICT)

    def do_define(self):
        name = "made%d" % self.rnd.randrange(3)
        sql = self.rnd.choice((
            "CREATE OR REPLACE TABLE cloud.%s AS SELECT 1 AS a, 'x' AS b",
            "CREATE TABLE IF NOT EXISTS cloud.%s (a INTEGER)",
            "DROP TABLE IF EXISTS cloud.%s", "ALTER TABLE cloud.%s ADD COLUMN IF NOT EXISTS c INTEGER",
            "CREATE INDEX IF NOT EXISTS ix ON cloud.%s (a)", "COMMENT ON TABLE cloud.%s IS 'y'",
        ))  # fmt: skip
        self.rows(sql % name, *MOVING)

    def do_define_and_undo(self):
        self.rows("BEGIN")
        made = self.rows("CREATE TABLE cloud.never_%d (a INTEGER)" % self.number, *MOVING) is not None
        if made:
            self.rows("INSERT INTO cloud.never_%d VALUES (1)" % self.number, *MOVING)
        self.rows("ROLLBACK", duckdb.TransactionException)

    def do_use_what_changes(self):
        sql = self.rnd.choice(
            ("FROM cloud.made%d", "INSERT INTO cloud.made%d (a) VALUES (1)", "UPDATE cloud.made%d SET a = 2")
        )
        self.rows(sql % self.rnd.randrange(3), *MOVING, duckdb.IOException)

    def do_own_alias(self):
        alias = "own%d" % self.number
        self.rows(services.attach_sql(self.url, alias=alias))
        assert self.rows("SELECT count(*) FROM %s.big" % alias) == [(40000,)]
        with self.transaction(*CONFLICT) as done:
            self.rows("INSERT INTO %s.log VALUES (%d, %d)" % (alias, self.number, self.logged))
        self.logged += len(done)
        self.rows("DETACH %s" % alias)

    def do_shared_alias(self):
        uri = services.attach_sql(self.url, alias="shared").removeprefix("ATTACH ")
        self.rows("ATTACH IF NOT EXISTS " + uri, *MOVING)
        got = self.rows("SELECT sum(amount) FROM shared.account", *MOVING)
        assert got in (None, [(AMOUNT * ACCOUNTS,)]), got

    def do_replace_shared_alias(self):
        uri = services.attach_sql(self.url, alias="shared").removeprefix("ATTACH ")
        self.rows(self.rnd.choice(("ATTACH OR REPLACE " + uri, "DETACH DATABASE IF EXISTS shared")), *MOVING)

    def do_prepare(self):
        self.rows("PREPARE p AS SELECT s FROM cloud.big WHERE i = $1")
        self.rows("PREPARE w AS UPDATE cloud.counter SET n = n + $1 WHERE worker = $2")
        for i in self.rnd.sample(range(40000), 3):
            assert self.rows("EXECUTE p(%d)" % i) == [("row %d" % i,)]
        self.counted += self.rows("EXECUTE w(1, %d)" % self.number, *CONFLICT) is not None
        self.rows("DEALLOCATE p")
        self.rows("DEALLOCATE w")

    def do_cancel(self):
        wait, over = self.rnd.random() * 0.05, threading.Event()

        def interrupt():  # again and again: one that comes before the statement has begun is lost
            while not over.wait(wait):
                self.cur.interrupt()

        timer = threading.Thread(target=interrupt)
        timer.start()
        sql = self.rnd.choice((
            "SELECT count(*) FROM cloud.big a JOIN cloud.big b USING (i)",
            "CREATE TABLE cloud.slow_%d AS SELECT i FROM cloud.big, range(20000) r WHERE i + r.range < 0" % self.number,
            "INSERT INTO cloud.log SELECT -1, a.range FROM range(200000) a, range(20000) b WHERE a.range + b.range < 0",
        ))  # fmt: skip
        try:
            self.rows(sql, duckdb.InterruptException)
        finally:
            over.set()
            timer.join()
        with contextlib.suppress(duckdb.InterruptException):
            self.rows("DROP TABLE IF EXISTS cloud.slow_%d" % self.number, *MOVING)


def storm(url, numbers, seconds):
    """Lets clients NUMBERS loose in this process. What each did: {number: (logged, counted)}, and the counts."""
    con = services.duck(threads="4")
    con.execute(services.attach_sql(url))
    end = time.monotonic() + seconds
    clients = [Client(con, url, n, end) for n in numbers]
    for c in clients:
        c.start()
    for c in clients:
        c.join(max(0.0, end - time.monotonic()) + 40 * services.SLOW)
    hung = [(c.name, c.doing) for c in clients if c.is_alive()]
    if hung:
        faulthandler.dump_traceback(sys.__stderr__)
    assert not hung, hung
    problems = [(c.name, c.doing, repr(c.problem)) for c in clients if c.problem]
    assert not problems, "\n".join(map(str, problems))
    con.close()
    return {c.number: (c.logged, c.counted) for c in clients}, sum((c.done for c in clients), collections.Counter())


def check(server, did, done):
    for one in (server, getattr(server, "worker", server)):
        with one.client() as c:
            services.wait_until(
                lambda c=c: (s := c.status()).transactions == 0 and s.in_flight == 0 and s.queued == 0,
                10,
                "nothing is open at %s" % one.url,
            )
    with services.attached(server) as con:
        fetch = lambda sql: con.execute(sql).fetchall()  # noqa: E731
        assert fetch("SELECT sum(amount), count(*) FROM cloud.account") == [(AMOUNT * ACCOUNTS, ACCOUNTS)]
        assert fetch("SELECT count(*) FROM cloud.log WHERE worker = -1") == [(0,)]
        logged = dict(fetch("SELECT worker, count(*) FROM cloud.log GROUP BY worker"))
        distinct = dict(fetch("SELECT worker, count(DISTINCT n) FROM cloud.log GROUP BY worker"))
        counted = dict(fetch("SELECT worker, n FROM cloud.counter"))
        for number, (rows, commits) in did.items():
            assert (logged.get(number, 0), distinct.get(number, 0)) == (rows, rows), number
            assert counted[number] == commits, number
        assert not fetch(
            "SELECT table_name FROM duckdb_tables() WHERE table_name ^@ 'never' AND database_name = 'cloud'"
        )
    print(SEED, dict(done))


def serve(topology, tmp_path):
    db = {"mydb": services.make_database(tmp_path / "mydb.duckdb", *TABLES)}
    if topology == "serve":
        return services.Serve(db, "--max-concurrency", "64")
    return services.Stack(db, worker_options=("--max-concurrency", "64"))


@pytest.mark.parametrize("topology", ["serve", "gateway"])
def test_sixteen_threads_of_one_process(topology, tmp_path):
    with serve(topology, tmp_path) as server:
        did, done = storm(server.url, range(THREADS), SECONDS)
        check(server, did, done)
        missing = [n for n in dir(Client) if n.startswith("do_") and not done[n]]
        assert services.SLOW > 1 or not missing, missing


@pytest.mark.parametrize("topology", ["serve", "gateway"])
def test_four_processes(topology, tmp_path):
    with serve(topology, tmp_path) as server:
        command = [sys.executable, "-X", "faulthandler", __file__, server.url, str(THREADS // 4)]
        procs = [
            subprocess.Popen(
                [*command, str(n), str(SECONDS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for n in range(0, THREADS, THREADS // 4)
        ]
        did, done = {}, collections.Counter()
        try:
            for p in procs:
                out, err = p.communicate(timeout=(SECONDS + 60) * services.SLOW)
                assert p.returncode == 0, err[-6000:]
                one = json.loads(out.splitlines()[-1])
                did.update({int(k): tuple(v) for k, v in one["did"].items()})
                done += collections.Counter(one["done"])
        finally:
            for p in procs:
                p.kill()
                p.wait()
        check(server, did, done)


if __name__ == "__main__":
    first, count = int(sys.argv[3]), int(sys.argv[2])
    what, how_often = storm(sys.argv[1], range(first, first + count), float(sys.argv[4]))
    print(json.dumps({"did": what, "done": how_often}))
