"""Many threads do everything at once over one DuckDB instance, while a server comes and goes.

OPENDUCK_STRESS_SECONDS and OPENDUCK_STRESS_SEED change how long and which way."""

import collections
import faulthandler
import os
import random
import sys
import threading
import time

import duckdb
import pytest
import services

pytestmark = pytest.mark.extension

SECONDS = float(os.environ.get("OPENDUCK_STRESS_SECONDS", "8"))
SEED = int(os.environ.get("OPENDUCK_STRESS_SEED", "1"))
THREADS = 16

# What a statement may end with when what it names is changed, detached or created by another thread meanwhile.
MOVING = (duckdb.CatalogException, duckdb.BinderException, duckdb.TransactionException, duckdb.InvalidInputException)


class Worker(threading.Thread):
    """One client: a cursor of its own, and a random number generator of its own."""

    def __init__(self, con, number, end):
        super().__init__(name="stress-%d" % number, daemon=True)
        self.cur = con.cursor()
        self.rnd = random.Random(SEED * 1000 + number)
        self.end = end
        self.done = collections.Counter()
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

    def rows(self, sql, *allowed):
        """The rows, or None after an error of a class in ALLOWED."""
        self.doing = sql
        try:
            return self.cur.execute(sql).fetchall()
        except allowed as e:
            assert not isinstance(e, (duckdb.InternalException, duckdb.FatalException)), (sql, e)
            assert "INTERNAL" not in str(e), (sql, e)
            self.done[type(e).__name__] += 1
            return None

    def expect(self, want, sql, *allowed):
        got = self.rows(sql, *allowed)
        assert got is None or got == want, (sql, got)

    def steady(self):
        return self.rnd.choice(("a1", "a2"))

    def do_point(self):
        i = self.rnd.randrange(1000)
        self.expect([("s%d" % i,)], "SELECT s FROM %s.t WHERE i = %d" % (self.steady(), i))

    def do_aggregate(self):
        n = self.rnd.randrange(1, 40000)
        self.expect([(n, n * (n - 1))], "SELECT count(*), sum(j) FROM %s.big WHERE i < %d" % (self.steady(), n))

    def do_join_local(self):
        self.expect([(500,)], "SELECT count(*) FROM %s.t JOIN mine USING (i) WHERE s <> ''" % self.steady())

    def do_join_remote(self):
        self.expect([(1000,)], "SELECT count(*) FROM a1.t x JOIN a2.big y USING (i) WHERE x.s <> y.s")

    def do_explain(self):
        word = self.rnd.choice(("EXPLAIN", "EXPLAIN ANALYZE"))
        assert self.rows("%s SELECT s FROM %s.t WHERE i > 990" % (word, self.steady()))

    def do_leave_a_result(self):
        self.doing = "fetchmany"
        self.cur.execute("FROM %s.big" % self.steady())
        assert len(self.cur.fetchmany(3)) == 3

    def do_limit(self):
        sql = "SELECT i FROM %s.big WHERE random() >= 0 LIMIT 5"
        assert len(self.rows(sql % self.steady())) == 5

    def do_interrupt(self):
        wait, over = self.rnd.random() * 0.08, threading.Event()

        def interrupt():  # again and again: one that comes before the statement has begun is lost
            while not over.wait(wait):
                self.cur.interrupt()

        timer = threading.Thread(target=interrupt)
        timer.start()
        sql = self.rnd.choice(
            (
                "SELECT max(a.s), count(*) FROM a1.big a JOIN a2.big b USING (i)",
                "CREATE OR REPLACE TEMP TABLE z AS FROM a1.big",
                "SELECT max(i) FROM openduck_query('a2', 'SELECT i FROM range(100000000000) t(i) WHERE i % 1000 < 0')",
                "SELECT count(*) FROM moving.t",
            )
        )
        try:
            self.rows(sql, duckdb.InterruptException, *(MOVING if "moving" in sql else ()))
        finally:
            over.set()
            timer.join()

    def do_transaction(self):
        self.rows("BEGIN")
        self.expect([(1000,)], "SELECT count(s) FROM a1.t")
        self.rows("SELECT * FROM a1.made", *MOVING, duckdb.IOException)
        self.rows(self.rnd.choice(("ROLLBACK", "COMMIT")), duckdb.TransactionException)

    def do_prepared(self):
        name = self.steady()
        self.doing = "prepared"
        for i in (1, 2):
            got = self.cur.execute("SELECT s FROM %s.t WHERE i = ? AND length(s) > ?" % name, [i, 0]).fetchall()
            assert got == [("s%d" % i,)]

    def do_attach(self):
        self.rows("ATTACH IF NOT EXISTS '%s' AS moving" % Worker.uri, *MOVING)

    def do_detach(self):
        self.rows("DETACH DATABASE IF EXISTS moving", *MOVING)

    def do_read_moving(self):
        self.expect([(1000,)], "SELECT count(s) FROM moving.t", *MOVING)

    def do_list(self):
        self.rows(
            self.rnd.choice(
                (
                    "SELECT count(*) FROM duckdb_columns() WHERE database_name = 'a1'",
                    "SHOW TABLES FROM a1",
                    "SHOW ALL TABLES",
                    "FROM duckdb_databases()",
                )
            ),
            *MOVING,
            duckdb.IOException,
        )

    def do_change_the_server(self):
        sql = self.rnd.choice(
            (
                "CREATE OR REPLACE TABLE made AS SELECT %d AS x, ''y'' AS y" % self.rnd.randrange(9),
                "CREATE OR REPLACE TABLE made AS SELECT DATE ''2024-01-01'' AS x",
                "ALTER TABLE made ADD COLUMN IF NOT EXISTS w INTEGER DEFAULT 5",
                "DROP TABLE IF EXISTS made",
            )
        )
        self.rows("FROM openduck_query('a1', '%s')" % sql, *MOVING)

    def do_read_what_changes(self):
        self.rows("SELECT * FROM %s.made" % self.steady(), *MOVING, duckdb.IOException)

    def do_ask_who_comes_and_goes(self):
        sql = self.rnd.choice(("SELECT count(i) FROM gone.t", "SELECT count(s) FROM gone.big WHERE i % 3 = 0"))
        got = self.rows(sql, duckdb.IOException, duckdb.CatalogException)
        assert got in (None, [(1000,)], [(13334,)]), got


@pytest.fixture
def database(tmp_path):
    def make(name):
        return services.make_database(
            tmp_path / name,
            "CREATE TABLE t AS SELECT i, 's' || i AS s FROM range(1000) t(i)",
            "CREATE TABLE big AS SELECT i, i * 2 AS j, 'row number ' || i AS s FROM range(40000) t(i)",
        )

    return make


def come_and_go(make, port, end):
    """Kills the server on PORT and starts it again, until END; leaves it running."""
    rnd = random.Random(SEED)
    server = make()
    while time.monotonic() < end:
        time.sleep(rnd.random() * 1.5)
        server.kill()
        server.check_reports()
        time.sleep(rnd.random() * 0.3)
        server = make()
    return server


def test_all_at_once(database):
    steady_db, gone_db = database("steady"), database("gone")
    port = services.free_port()

    def make():
        return services.Serve({"mydb": gone_db}, listen="127.0.0.1:%d" % port)

    with services.Stack({"mydb": steady_db}, worker_options=("--max-concurrency", "64")) as steady:
        con = services.duck(threads="4")
        first = make()
        for alias, url in (("a1", steady.url), ("a2", steady.url), ("gone", first.url)):
            con.execute(services.attach_sql(url, alias=alias))
        first.kill()
        Worker.uri = "openduck:mydb?endpoint=" + steady.url
        con.execute("CREATE TABLE mine AS SELECT i * 2 AS i FROM range(500) t(i)")
        end = time.monotonic() + SECONDS
        workers = [Worker(con, n, end) for n in range(THREADS)]
        for w in workers:
            w.start()
        last = come_and_go(make, port, end)
        for w in workers:
            w.join(30 * services.SLOW)
        hung = [(w.name, w.doing) for w in workers if w.is_alive()]
        if hung:
            faulthandler.dump_traceback(sys.__stderr__)
        assert not hung, hung
        problems = [(w.doing, repr(w.problem)) for w in workers if w.problem]
        assert not problems, "\n".join(map(str, problems))
        done = sum((w.done for w in workers), collections.Counter())
        print(SEED, dict(done))
        for w in workers:
            w.cur.close()
        steady.wait_idle(2)
        last.wait_idle(2)
        assert con.execute("SELECT count(*) FROM gone.t JOIN a1.t USING (i) JOIN mine USING (i)").fetchall() == [(500,)]
        con.close()
        steady.assert_usable()
        last.stop()
    assert all(done["do_" + name[3:]] for name in dir(Worker) if name.startswith("do_")), done
