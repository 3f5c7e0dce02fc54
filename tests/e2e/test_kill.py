"""kill -9 of the client, the gateway and the worker at random points of transactions that go through ATTACH: after a
restart each transaction is wholly there or wholly absent, and what COMMIT acknowledged is there.

OPENDUCK_KILL_SEED changes where. As a program (`test_kill.py URL SEED FIRST`) it is the client: it writes transactions
without end, and says on stdout when one begins and when one is acknowledged."""

import contextlib
import os
import random
import subprocess
import sys
import threading
import time

import duckdb
import pytest
import services

pytestmark = [pytest.mark.extension, pytest.mark.timeout(1800)]

KILLS = 200 if os.environ.get("OPENDUCK_LONG") == "1" else 20
SEED = int(os.environ.get("OPENDUCK_KILL_SEED", "1"))
PARTS = 4  # what one transaction leaves in each of two tables
TABLES = (
    "CREATE TABLE part (txn BIGINT, part INTEGER, text VARCHAR)",
    "CREATE TABLE keyed (txn BIGINT, part INTEGER, PRIMARY KEY (txn, part))",
    "CREATE TABLE total AS SELECT 0::BIGINT AS n",
)


def write(con, rnd, txn):
    """One transaction of several statements, of all the ways that rows go up."""
    con.execute("CREATE OR REPLACE TEMP TABLE rows AS SELECT %d AS txn, i AS part FROM range(%d) t(i)" % (txn, PARTS))
    con.execute("BEGIN")
    if rnd.random() < 0.5:
        con.execute("INSERT INTO cloud.part SELECT txn, part, repeat('x', 1000) FROM rows")
    else:
        for i in range(PARTS):
            con.execute("INSERT INTO cloud.part VALUES (?, ?, 'y')", [txn, i])
    con.execute(
        "INSERT INTO cloud.keyed FROM rows"
        if rnd.random() < 0.5
        else "INSERT INTO cloud.keyed SELECT txn, part FROM cloud.part WHERE txn = %d" % txn
    )
    con.execute("UPDATE cloud.total SET n = n + 1")
    if rnd.random() < 0.3:
        con.execute("CREATE TABLE cloud.made_%d AS SELECT %d AS txn" % (txn, txn))
    con.execute("COMMIT")


def main(url, seed, first):
    rnd = random.Random(seed)
    con = services.duck()
    con.execute(services.attach_sql(url))
    txn = first
    while True:
        print("begin %d" % txn, flush=True)
        with contextlib.suppress(duckdb.TransactionException):
            write(con, rnd, txn)
            print("done %d" % txn, flush=True)
        txn += 1


class Servers:
    """A worker and a gateway at fixed ports, or serve; what was killed is started anew."""

    def __init__(self, topology, path):
        self.topology, self.path = topology, path
        self.ports = [services.free_port() for _ in range(2)]
        self.first = self.second = None
        self.start()

    def start(self):
        listen = ["127.0.0.1:%d" % p for p in self.ports]
        db = {"mydb": self.path}
        if self.topology == "serve":
            self.first = self.first or services.Serve(db, listen=listen[0])
        else:
            self.second = self.second or services.Worker(db, listen=listen[1])
            self.first = self.first or services.Gateway([self.second.url], listen=listen[0])
        self.url = self.first.url

    def kill(self, which):
        if which == "worker" and self.second:
            self.second.kill()
            self.second = None
        else:
            self.first.kill()
            self.first = None

    def close(self):
        for one in (self.first, self.second):
            if one:
                one.kill()
                one.check_reports()


class Writer:
    """The client process, and what it said."""

    def __init__(self, url, seed, first):
        self.proc = subprocess.Popen(
            [sys.executable, __file__, url, str(seed), str(first)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.begun, self.done = first - 1, []
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.proc.stdout:
            word, number = line.split()
            if word == "begin":
                self.begun = int(number)
            else:
                self.done.append(int(number))

    def end(self):
        """Ends it, if it lives, and reads what it said last."""
        self.proc.kill()
        self.proc.wait()
        self.thread.join()
        self.proc.stdout.close()
        with self.proc.stderr:
            return self.proc.stderr.read()


def wholly(con, acknowledged, last):
    """The transactions that are there. Each must be so wholly, and what was acknowledged must be among them."""
    fetch = lambda sql: con.execute(sql).fetchall()  # noqa: E731
    parts = dict(fetch("SELECT txn, count(DISTINCT part) FROM cloud.part GROUP BY txn"))
    keyed = dict(fetch("SELECT txn, count(*) FROM cloud.keyed GROUP BY txn"))
    assert fetch("SELECT count(*) FROM cloud.part") == [(PARTS * len(parts),)]
    assert parts == keyed
    assert set(parts.values()) <= {PARTS}, parts
    assert fetch("SELECT n FROM cloud.total") == [(len(parts),)]
    made = {int(n[5:]) for (n,) in fetch("SELECT table_name FROM duckdb_tables() WHERE table_name ^@ 'made_'")}
    assert made <= set(parts), made - set(parts)
    assert acknowledged <= set(parts), acknowledged - set(parts)
    assert max(parts, default=0) <= last
    return set(parts)


@pytest.mark.parametrize("topology", ["serve", "gateway"])
def test_a_transaction_is_there_wholly_or_not_at_all(topology, tmp_path):
    rnd = random.Random(SEED)
    servers = Servers(topology, services.make_database(tmp_path / "mydb.duckdb", *TABLES))
    acknowledged, last, killed = set(), 0, []
    try:
        for n in range(KILLS // 2):
            writer = Writer(servers.url, SEED * 1000 + n, last + 1)
            services.wait_until(lambda w=writer, last=last: w.begun > last, 30, "the client has begun")
            time.sleep(rnd.random() * 0.6)  # the point where it is killed is what is random here
            killed.append(rnd.choice(("client", "gateway", "worker")))
            if killed[-1] != "client":
                servers.kill(killed[-1])
                services.wait_until(lambda w=writer: w.proc.poll() is not None, 30, "the client has seen its end")
            said = writer.end()
            assert "INTERNAL" not in said and "Segmentation" not in said, said[-3000:]
            acknowledged |= set(writer.done)
            last = writer.begun
            servers.start()
            services.wait_until(
                lambda: servers.first.status().transactions == 0, 15, "what the client left open was rolled back"
            )
            with services.attached(servers) as con:
                wholly(con, acknowledged, last)
        with services.attached(servers) as con:
            there = wholly(con, acknowledged, last)
        print(topology, len(acknowledged), "acknowledged,", len(there), "there,", last, "begun;", killed)
        assert acknowledged
    finally:
        servers.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
