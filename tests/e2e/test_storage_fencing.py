"""Two writers of openduck://: one is stopped and goes on later, or its clock is wrong."""

import os
import random
import subprocess
import time

import duckdb
import pytest
import services
import stores
from stores import attach, attach_soon, in_process, rows, url

pytestmark = pytest.mark.extension

LEASE_MS = 1000
OLD = """
con.execute("ATTACH '%s' AS m" % sys.argv[1])
con.execute("CREATE TABLE IF NOT EXISTS m.t(i INTEGER)")
"""


@pytest.fixture
def con(place):
    with stores.duck() as con:
        yield con


class Writer:
    """A DuckDB in a process of its own that runs what it is told."""

    def __init__(self, place, preload=None, **parameters):
        code = (
            OLD
            + """
for line in sys.stdin:
    try:
        con.execute(line)
        print("OK", flush=True)
    except Exception as e:
        print(type(e).__name__, str(e).replace("\\n", " "), flush=True)
"""
        )
        self.process = in_process(code, url(place, **parameters), preload=preload)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def signal(self, number):
        os.kill(self.process.pid, number)

    def tell(self, sql):
        self.process.stdin.write(sql + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@stores.BOTH
def test_a_writer_that_slept_past_its_lease_acknowledges_nothing(con, place):
    with Writer(place, lease_ms=LEASE_MS) as old:
        assert old.tell("INSERT INTO m.t VALUES (1)") == "OK"
        old.signal(services.signal.SIGSTOP)
        attach_soon(con, place)
        con.execute("INSERT INTO m.t VALUES (2)")
        old.signal(services.signal.SIGCONT)
        refused = old.tell("INSERT INTO m.t VALUES (3)")
        assert refused.startswith("TransactionException") and "ATTACH it again" in refused
        assert "lease is over" in old.tell("INSERT INTO m.t VALUES (4)")
        assert old.tell("CHECKPOINT m").startswith("IOException")
        assert old.tell("SELECT 1") == "OK"  # the rest of that DuckDB lives on
        old.tell("DETACH m")
        assert old.tell("ATTACH '%s' AS again (READ_ONLY)" % url(place)) == "OK"
        check = "SELECT CASE WHEN list_sort(list(i)) <> [1, 2] THEN error('other rows') END FROM again.t"
        assert old.tell(check) == "OK"
    assert rows(con, "SELECT i FROM m.t ORDER BY i") == [(1,), (2,)]


def stop_and_take_over(old, con, place, moments):
    """SQLite's lock stays with who is stopped while it holds it: then at another moment."""
    while True:
        time.sleep(moments.uniform(0, 0.2))
        os.kill(old.pid, services.signal.SIGSTOP)
        try:
            return attach_soon(con, place)
        except duckdb.IOException as e:
            if "locked by somebody else" not in str(e):
                raise
            os.kill(old.pid, services.signal.SIGCONT)


@stores.BOTH
@pytest.mark.parametrize("rounds", [2, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_a_writer_that_is_stopped_at_any_moment_acknowledges_only_what_the_next_one_sees(place, rounds):
    seed = int(os.environ.get("OPENDUCK_SEED", random.randrange(1 << 30)))
    print("OPENDUCK_SEED=%d" % seed)
    moments = random.Random(seed)
    code = (
        OLD
        + """
i = con.execute("SELECT coalesce(max(i), 0) FROM m.t").fetchone()[0]
while True:
    i += 1
    con.execute("INSERT INTO m.t SELECT %d FROM range(%d)" % (i, [1, 100, 30000][i % 3]))
    print("did", i, flush=True)
    if i % 7 == 0:
        con.execute("CHECKPOINT m")
"""
    )
    done = 0
    while done < rounds:
        old = in_process(code, url(place, lease_ms=LEASE_MS), stderr=subprocess.PIPE)
        try:
            first = old.stdout.readline()
            if not first:  # a busy machine let its lease end before that
                assert "lease is over" in old.communicate()[1]
                continue
            done += 1
            with stores.duck() as con:
                stop_and_take_over(old, con, place, moments)
                seen = {i for (i,) in rows(con, "SELECT DISTINCT i FROM m.t")}
                os.kill(old.pid, services.signal.SIGCONT)
                con.execute("INSERT INTO m.t VALUES (%d)" % (max(seen) + 1))
                rest, errors = old.communicate(timeout=60)
                assert "lease is over" in errors, errors
                acknowledged = {int(line[4:]) for line in (first + rest).splitlines() if line.startswith("did ")}
                assert acknowledged <= seen, acknowledged - seen
                now = {i for (i,) in rows(con, "SELECT DISTINCT i FROM m.t")}
                assert now == seen | {max(seen) + 1}
                con.execute("DETACH m")
                attach(con, place)
                assert {i for (i,) in rows(con, "SELECT DISTINCT i FROM m.t")} == now
        finally:
            old.kill()
            old.communicate()


@pytest.fixture(scope="module")
def shifted_clock(tmp_path_factory):
    library = tmp_path_factory.mktemp("preload") / "shifted_clock.so"
    source = services.ROOT / "tests" / "preload" / "shifted_clock.c"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@stores.BOTH
@pytest.mark.parametrize("shift", [-3600, 3600])
def test_a_clock_that_is_wrong_makes_no_second_writer(con, place, shift, shifted_clock, monkeypatch):
    """PostgreSQL's clock judges. With SQLite it is the machine's: who has another may lose its lease, and no more."""
    in_postgres = "OPENDUCK_POSTGRES_URL" in os.environ
    monkeypatch.setenv("OPENDUCK_TEST_SHIFT", str(shift))
    with Writer(place, preload=shifted_clock, lease_ms=60000) as old:
        assert old.tell("INSERT INTO m.t VALUES (1)") == "OK"
        off = "SELECT CASE WHEN abs(epoch(now()) - %f - (%d)) > 1800 THEN error('its clock') END" % (time.time(), shift)
        assert old.tell(off) == "OK"
        if shift < 0 and not in_postgres:
            attach(con, place)  # its lease ended an hour ago
            con.execute("INSERT INTO m.t VALUES (2)")
            assert old.tell("INSERT INTO m.t VALUES (3)").startswith("TransactionException")
            assert old.tell("CHECKPOINT m").startswith("IOException")
        else:
            with pytest.raises(duckdb.IOException, match="has a writer"):
                attach(con, place)
            assert old.tell("INSERT INTO m.t VALUES (2)") == "OK"
            assert old.tell("DETACH m") == "OK"
            attach(con, place)  # at once
    assert rows(con, "SELECT i FROM m.t ORDER BY i") == [(1,), (2,)]
