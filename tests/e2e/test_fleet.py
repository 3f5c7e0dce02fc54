"""Many clients, several workers and a gateway, while workers die: what is lost, and what is left behind."""

import concurrent.futures
import contextlib
import os
import random
import subprocess
import threading
import time

import grpc
import psutil
import pytest
import services

LONG = os.environ.get("OPENDUCK_LONG") == "1"
SLOW = services.SLOW
ROWS = 300000
WORKERS = 5
CLIENTS = 32 if SLOW == 1 else 8
SECONDS = 60 if LONG else 8


# ---------------------------------------------------------------- workers that are killed, one after the other


class Reader(threading.Thread):
    """Reads until END. `lost`: what failed without a row having come; `cut`: what failed in mid-stream."""

    def __init__(self, url, number, end):
        super().__init__(daemon=True)
        self.url, self.end = url, end
        self.random = random.Random(number)
        self.done = 0
        self.lost, self.cut, self.wrong = [], [], []

    def run(self):
        with services.Remote(self.url) as c:
            while time.monotonic() < self.end:
                try:
                    self.once(c)
                except AssertionError as e:
                    self.wrong.append(repr(e))

    def once(self, c):
        kind = self.random.randrange(3)
        if kind == 0:
            sql, rows = "SELECT count(*) FROM t", None
        elif kind == 1:
            sql, rows = "SELECT i, s FROM t", ROWS
        else:
            sql, rows = "SELECT a.i FROM t a JOIN t b ON a.i = b.i + 1 WHERE a.i %% 10 = %d" % (self.done % 10), None
        chunks = []
        try:
            for chunk in c.call(sql, database="mydb", timeout=60):
                chunks.append(chunk)
        except grpc.RpcError as e:
            self.lost.append("%s: %s, %s" % (sql, e.code(), e.details()))
            return
        answer = services.Answer(chunks)
        if answer.error_text is None:
            assert answer.finished
            got = sum(t.num_rows for t in answer.tables())
            assert got == ROWS if rows else got > 0, got
        elif not answer.payloads:
            self.lost.append("%s: %s" % (sql, answer.error_text))
        else:
            assert answer.error.code == "CONNECTION_LOST" and "worker '127.0.0.1:" in answer.error.message
            self.cut.append(answer.error.message)
        self.done += 1


def start_worker(path, gateway, listen="127.0.0.1:0"):
    options = ("--read-only", "--threads", "1", "--heartbeat-interval", "1s")
    return services.Worker({"mydb": path}, *options, gateway=gateway.url, listen=listen)


def kill_workers(workers, end, start):
    """Kills one of WORKERS each second, and starts it again, until END. How many."""
    rnd = random.Random(1)
    kills, returning, due = 0, {}, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        while due + 1 < end:
            due += 1
            time.sleep(max(0, due - time.monotonic()))
            for i in [i for i, worker in returning.items() if worker.done()]:
                workers[i] = returning.pop(i).result()
            there = [i for i in range(WORKERS) if i not in returning]
            if len(there) > 1:
                i = rnd.choice(there)
                workers[i].kill()
                kills += 1
                returning[i] = pool.submit(start, "127.0.0.1:%d" % workers[i].port)
        for i, worker in returning.items():
            workers[i] = worker.result()
    return kills


@pytest.mark.timeout(SECONDS * 2 + 120 * SLOW)
def test_reads_outlive_the_workers_that_run_them(tmp_path):
    path = services.make_database(
        tmp_path / "t.duckdb", "CREATE TABLE t AS SELECT i::BIGINT AS i, 'text ' || i AS s FROM range(%d) r(i)" % ROWS
    )
    with services.Gateway((), "--probe-interval", "500ms") as gateway, contextlib.ExitStack() as stack:
        workers = [stack.enter_context(start_worker(path, gateway)) for _ in range(WORKERS)]
        services.wait_until(lambda: len(gateway.status().workers) == WORKERS, 10, "all have registered")
        end = time.monotonic() + SECONDS
        readers = [Reader(gateway.url, i, end) for i in range(CLIENTS)]
        for reader in readers:
            reader.start()
        kills = kill_workers(workers, end - 1, lambda place: stack.enter_context(start_worker(path, gateway, place)))
        for reader in readers:
            reader.join(90 * SLOW)
        assert not any(reader.is_alive() for reader in readers), "a query hangs"
        done, cut = sum(r.done for r in readers), [m for r in readers for m in r.cut]
        print("\n%d kills, %d queries, %d cut in mid-stream" % (kills, done, len(cut)))
        assert [m for r in readers for m in r.wrong] == []
        assert [m for r in readers for m in r.lost] == []
        assert done > CLIENTS
        gateway.wait_idle(5)
        services.wait_until(lambda: len(gateway.status().workers) == WORKERS, 10, "all are back")
        status = gateway.status()
        assert [w.in_flight for w in status.workers] == [0] * WORKERS


# ---------------------------------------------------------------- clients that come, cancel and vanish


def memory_of(daemon):
    return psutil.Process(daemon.pid).memory_info().rss


def storm(gateway, clients, queries, seed):
    program = services.BUILD / "programs" / "storm"
    done = subprocess.run(
        [program, gateway.url, str(clients), str(queries), str(seed)],
        capture_output=True,
        text=True,
        timeout=3600 if LONG else 100 * SLOW,
        env=services.server_env(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print("\n" + done.stdout.strip())


@pytest.mark.timeout(7200 if LONG else 240 * SLOW)
def test_no_slot_is_lost_and_memory_is_flat():
    """256 clients at 64 slots and a queue of 128: some read all, some cancel, some hang up, some are refused."""
    clients = 256 if SLOW == 1 else 64
    queries = 100000 if LONG else 4000 if SLOW == 1 else 600
    options = ("--max-in-flight", "64", "--max-queued", "128")
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(services.Worker({"mydb": ":memory:"}, "--threads", "1")) for _ in range(2)]
        gateway = stack.enter_context(services.Gateway([w.url for w in workers], *options))
        start = memory_of(gateway)
        storm(gateway, clients, queries, 1)
        status = gateway.wait_idle(20)
        assert status.executions_total >= queries * 0.5 and not status.running and status.transactions == 0
        assert [w.in_flight for w in status.workers] == [0, 0]
        for worker in workers:
            services.wait_until(lambda w=worker: w.status().in_flight == 0, 10, "its workers are idle")
        if SLOW == 1:
            services.wait_until(lambda: memory_of(gateway) < start + (16 << 20), 15, "memory is as before")
            print(
                "memory %.1f MB, at most %.1f, then %.1f"
                % tuple(m / 1e6 for m in (start, gateway.peak(), memory_of(gateway)))
            )
        # All slots are there: so many run at once.
        with gateway.client() as c:
            sql = "SELECT count(*) FROM range(10000000000) a(i), range(1000) b(j) WHERE i * j % 7 = 1"
            calls = [c.call(sql, execution_id="s%d" % i) for i in range(64)]
            services.wait_until(lambda: gateway.status().in_flight == 64, 20, "64 run at once")
            for i in range(64):
                c.cancel("s%d" % i)
            for call in calls:
                assert services.Answer(list(call)).error.code == "CANCELLED"
        gateway.assert_usable()
