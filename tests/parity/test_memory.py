"""Memory stays bounded whatever the size of a result or the speed of its readers."""

import contextlib
import shutil
import subprocess
import sys
import threading
import time

import pytest
import services

GB10 = "SELECT i, repeat('abcdefgh', 128) AS s FROM range(10000000) t(i)"
MB300 = "SELECT i, repeat('abcdefgh', 128) AS s FROM range(300000) t(i)"


@pytest.fixture
def db(sample_db, tmp_path):
    path = tmp_path / "mydb.duckdb"
    shutil.copy(sample_db, path)
    return path


class Reader(threading.Thread):
    """Reads a stream at RATE bytes a second through a proxy, and counts."""

    def __init__(self, url, sql, rate):
        super().__init__(daemon=True)
        self.proxy = services.TcpProxy(url, rate=rate)
        self.client = services.Remote(self.proxy.url)
        self.call = self.client.call(sql, timeout=600)
        self.bytes = 0

    def run(self):
        with contextlib.suppress(services.grpc.RpcError):
            for chunk in self.call:
                self.bytes += chunk.ByteSize()

    def close(self):
        self.call.cancel()
        self.client.close()
        self.proxy.close()


def slow_clients(db, seconds, gateway_limit):
    with services.Worker({"mydb": db}) as worker, services.Gateway([worker.url]) as gateway:
        with gateway.client() as c:
            c.rows("SELECT 1")
        base = gateway.rss()
        gateway.reset_peak()
        readers = [Reader(gateway.url, GB10, 1 << 20) for _ in range(16)]
        for r in readers:
            r.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.5)
            if services.SLOW == 1:
                assert gateway.rss() < gateway_limit, "gateway at %d MiB" % (gateway.rss() >> 20)
        services.wait_until(lambda: all(r.bytes > 0 for r in readers), 6, "every reader has read")
        peak, grown = gateway.peak(), gateway.peak() - base
        with gateway.client() as c:
            start = time.monotonic()
            c.rows("SELECT 1")
            assert time.monotonic() - start < 2 * services.SLOW
        for r in readers:
            r.close()
        gateway.wait_idle(3)
        worker.wait_idle(3)
        if services.SLOW == 1:
            assert peak < gateway_limit, "gateway: %d MiB, grown by %d" % (peak >> 20, grown >> 20)


def test_gateway_with_16_slow_clients(db):
    slow_clients(db, 6, 128 << 20)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_gateway_with_16_slow_clients_for_minutes(db):
    slow_clients(db, 180, 128 << 20)


OWN_NEED = """
import sys, duckdb
def status(field):
    return int(next(l for l in open("/proc/self/status") if l.startswith(field)).split()[1]) << 10
con = duckdb.connect(config={"memory_limit": "512MB"})
con.execute("SET enable_progress_bar = false")
con.execute("SELECT 1").to_arrow_reader(2048).read_all()
open("/proc/self/clear_refs", "w").write("5")
base = status("VmRSS")
for batch in con.execute(sys.argv[1]).to_arrow_reader(2048):
    pass
print(status("VmHWM") - base)
"""


def own_need(sql):
    """How much memory plain DuckDB takes to stream SQL to nobody, in bytes."""
    done = subprocess.run([sys.executable, "-c", OWN_NEED, sql], capture_output=True, text=True, check=True)
    return int(done.stdout)


def stream(db, sql, rows):
    limit = own_need(sql) + (128 << 20)
    with services.Serve({"mydb": db}, "--memory-limit", "512MB") as server, server.client() as c:
        c.rows("SELECT count(*) FROM big")
        server.reset_peak()
        base = server.rss()
        got = total = 0
        for chunk in c.call(sql, timeout=600):
            total += chunk.ByteSize()
            got += 1
        peak = server.peak()
        assert total > rows * 1024 and got > 100
        if services.SLOW == 1:
            assert peak - base < limit, "%d MiB over %d, limit %d" % (peak >> 20, base >> 20, limit >> 20)


def test_worker_streams_300_mb_in_little_memory(db):
    stream(db, MB300, 300_000)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_worker_streams_10_gb_in_little_memory(db):
    stream(db, GB10, 10_000_000)


@pytest.mark.extension
def test_reading_300_mb_through_duckdb_needs_little_memory(db):
    """An aggregate over a wide stream holds windows of it, not the stream."""
    import psutil

    with services.Serve({"mydb": db}) as server, services.attached(server) as con:
        con.execute("SELECT count(i) FROM cloud.t").fetchall()
        me = psutil.Process()
        base, peak, stop = me.memory_info().rss, [0], threading.Event()

        def watch():
            while not stop.is_set():
                peak[0] = max(peak[0], me.memory_info().rss)
                time.sleep(0.02)

        thread = threading.Thread(target=watch)
        thread.start()
        sql = "SELECT count(*), max(length(s)), sum(i) FROM openduck_query('cloud', '%s')" % MB300.replace("'", "''")
        assert con.execute(sql).fetchall() == [(300000, 1024, sum(range(300000)))]
        stop.set()
        thread.join()
        if services.SLOW == 1:
            assert peak[0] - base < 120 << 20, "grown by %d MiB" % ((peak[0] - base) >> 20)


@pytest.mark.extension
def test_reader_that_sleeps_holds_a_window_only(db):
    with services.Serve({"mydb": db}) as server, services.attached(server) as con:
        con.execute("SELECT count(i) FROM cloud.t").fetchall()
        base = server.rss()
        con.execute("FROM openduck_query('cloud', '%s')" % GB10.replace("'", "''"))
        for _ in range(20):
            con.fetchmany(1)
            time.sleep(0.1)
        if services.SLOW == 1:
            assert server.rss() - base < 100 << 20
        assert services.cpu_share(server, 0.5) < 0.1
        con.execute("SELECT 1").fetchall()
        server.wait_idle(2)
