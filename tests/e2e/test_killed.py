"""kill -9 of client, gateway or worker at any point of a transaction: afterwards each transaction is wholly there or
wholly absent, what COMMIT acknowledged is there, and nothing is left open."""

import os
import random
import subprocess
import sys
import threading
import time

import pytest
import services

# Transactions of ten rows each, in three ways; tells what it begins, and what was acknowledged.
CLIENT = """
import sys, time
sys.path.insert(0, sys.argv[1])
import grpc, pyarrow as pa, services

def payload(n, first, last):
    table = pa.table({"n": [n] * (last - first), "part": list(range(first, last))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()

COLUMNS = [("n", "BIGINT"), ("part", "BIGINT")]
INSERT = "INSERT INTO log FROM stage"

def rows(c, n, first, last, t):
    for part in range(first, last):
        c.do("INSERT INTO log VALUES (%d, %d)" % (n, part), transaction_id=t, timeout=20)

def one(c, n):
    if n % 3 == 0:
        c.ingest("", "stage", COLUMNS, [payload(n, 0, 4), payload(n, 4, 10)], statement=INSERT, timeout=20)
        return
    t = c.begin(timeout=20)
    if n % 3 == 1:
        rows(c, n, 0, 10, t)
    else:
        rows(c, n, 0, 3, t)
        c.ingest(t, "stage", COLUMNS, [payload(n, 3, 10)], statement=INSERT, timeout=20)
    c.commit(t, timeout=20)

n = int(sys.argv[3])
while True:
    try:
        with services.Remote(sys.argv[2]) as c:
            while True:
                n += 1
                print("try", n, flush=True)
                one(c, n)
                print("ack", n, flush=True)
    except (grpc.RpcError, services.Refused):
        time.sleep(0.02)
"""


class Client:
    """A client process, and what it told."""

    def __init__(self, url, first, tried, acknowledged):
        here = os.path.dirname(services.__file__)
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, here, url, str(first)], stdout=subprocess.PIPE, text=True
        )
        self.thread = threading.Thread(target=self._read, args=(tried, acknowledged))
        self.thread.start()

    def _read(self, tried, acknowledged):
        for line in self.process.stdout:
            # A line that the kill cut tells nothing.
            word, _, n = line.rstrip("\n").partition(" ")
            if line.endswith("\n"):
                (tried if word == "try" else acknowledged).append(int(n))

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()


@pytest.mark.parametrize("transactions", [24, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("victim", ["client", "gateway", "worker"])
def test_kill_9_leaves_each_transaction_whole(tmp_path, victim, transactions):
    db = services.make_database(tmp_path / "mydb.duckdb", "CREATE TABLE log (n BIGINT, part BIGINT)")
    ports = {"worker": services.free_port(), "gateway": services.free_port()}
    url = "http://127.0.0.1:%d" % ports["gateway"]
    tried, acknowledged = [], []
    rng = random.Random(transactions)

    def start(what):
        if what == "client":
            return Client(url, 1000 * (tried[-1] // 1000 + 1) if tried else 0, tried, acknowledged)
        listen = "127.0.0.1:%d" % ports[what]
        if what == "worker":
            return services.Worker({"mydb": db}, listen=listen)
        return services.Gateway(["http://127.0.0.1:%d" % ports["worker"]], listen=listen)

    running = {}
    try:
        for what in ("worker", "gateway", "client"):
            running[what] = start(what)
        # Those that are tried while nobody is there are not enough.
        while len(tried) < transactions or len(acknowledged) < transactions // 3:
            before = len(acknowledged)
            services.wait_until(lambda before=before: len(acknowledged) > before + 1, 60, "transactions are committed")
            time.sleep(rng.random() * 0.05)
            running[victim].kill()
            running[victim] = start(victim)
        running["client"].kill()
        for what in ("gateway", "worker"):
            with running[what].client() as c:
                services.wait_until(lambda c=c: c.status().transactions == 0, 10, "nothing is open")
        with running["worker"].client() as c:
            services.wait_until(lambda: c.status().in_flight == 0, 10, "nothing runs")
            rows = c.rows("SELECT n, count(*)::INTEGER, count(DISTINCT part)::INTEGER FROM log GROUP BY ALL")
        for what in ("gateway", "worker"):
            running[what].stop()
    finally:
        for one in running.values():
            one.kill()
    assert [r for r in rows if r[1:] != (10, 10)] == [], "each is wholly there"
    there = {n for n, _, _ in rows}
    assert set(acknowledged) <= there, "what was acknowledged is there"
    assert there <= set(tried)
