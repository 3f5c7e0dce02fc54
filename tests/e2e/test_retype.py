"""A column's new type beside other transactions, where DuckDB 1.5.5 itself loses updates."""

import threading
import time
import uuid

import duckdb
import pytest
import services

pytestmark = pytest.mark.extension
CHANGES = ["ALTER COLUMN j TYPE BIGINT", "ADD COLUMN s.z INTEGER", "DROP COLUMN s.b", "RENAME s.b TO c"]


@pytest.fixture
def table(con):
    name = "cloud.retyped_" + uuid.uuid4().hex[:12]
    con.execute("CREATE TABLE %s AS SELECT i::INTEGER AS i, 1 AS j, {'a': 1, 'b': 1} AS s FROM range(10) r(i)" % name)
    yield name
    con.execute("DROP TABLE " + name)


@pytest.fixture
def other(server):
    with services.attached(server.url) as con:
        yield con


def update(con, table):
    con.execute("UPDATE %s SET j = 2, s = {'a': 2, 'b': 2}" % table)


def values(con, table):
    return set(con.execute("SELECT j, s.a FROM " + table).fetchall())


def test_plain_duckdb_loses_the_update():
    """Should this fail with a newer DuckDB, query/engine/retype.c has had its day."""
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT 1 AS j, {'a': 1, 'b': 1} AS s")
    reader = con.cursor()
    reader.execute("BEGIN; FROM t").fetchall()
    update(con, "t")
    con.execute("ALTER TABLE t ALTER COLUMN j TYPE BIGINT")
    reader.execute("COMMIT")
    assert values(con, "t") == {(1, 2)}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_type_does_not_lose_an_update(con, other, table, change):
    other.execute("BEGIN")
    other.execute("FROM " + table).fetchall()
    update(con, table)
    with pytest.raises(duckdb.TransactionException, match="would lose"):
        con.execute("ALTER TABLE %s %s" % (table, change))
    assert values(con, table) == {(2, 2)}
    assert values(other, table) == {(1, 1)}
    other.execute("COMMIT")
    con.execute("ALTER TABLE %s %s" % (table, change))
    assert values(con, table) == values(other, table) == {(2, 2)}


def test_a_change_of_type_waits_for_a_reader(con, other, table):
    other.execute("BEGIN")
    other.execute("FROM " + table).fetchall()
    update(con, table)
    ending = threading.Event()

    def end():
        time.sleep(0.3)
        ending.set()
        other.execute("COMMIT")

    thread = threading.Thread(target=end)
    thread.start()
    con.execute("ALTER TABLE %s ALTER j TYPE BIGINT" % table)
    assert ending.is_set()
    thread.join()
    assert values(con, table) == {(2, 2)}


def test_what_an_older_transaction_alters_does_not_lose_an_update(con, other, table):
    other.execute("BEGIN")
    other.execute("FROM " + table).fetchall()
    update(con, table)
    with pytest.raises(duckdb.TransactionException, match="would lose"):
        other.execute("ALTER TABLE %s ALTER j TYPE BIGINT" % table)
    other.execute("ROLLBACK")
    assert values(con, table) == {(2, 2)}


def test_readers_of_what_is_current_are_not_waited_for(con, other, table):
    update(con, table)
    other.execute("BEGIN")
    assert values(other, table) == {(2, 2)}
    start = time.monotonic()
    con.execute("ALTER TABLE %s ALTER j TYPE BIGINT" % table)
    assert time.monotonic() - start < 2.5
    other.execute("COMMIT")
    assert values(other, table) == {(2, 2)}


def test_no_update_is_lost_between_changes_of_type(server, con, table):
    """Updates, readers and changes of type at once: what was acknowledged last is what is there."""
    stop, faults, last = threading.Event(), [], [1]

    def run(work):
        with services.attached(server.url) as mine:
            while not stop.is_set() and not faults:
                try:
                    work(mine)
                except duckdb.Error as e:
                    # A conflict, or a column of another type than the statement was bound to: nothing was changed.
                    if not isinstance(e, duckdb.TransactionException) and "is not what was bound" not in str(e):
                        faults.append(e)
                    if work is read:
                        mine.execute("ROLLBACK")

    def write(mine):
        mine.execute("UPDATE %s SET j = %d" % (table, last[0] + 1))
        last[0] += 1

    def read(mine):
        mine.execute("BEGIN")
        seen = last[0]
        found = {j for (j,) in mine.execute("SELECT j FROM " + table).fetchall()}
        mine.execute("COMMIT")
        if len(found) != 1 or found.pop() < seen:
            faults.append(AssertionError("an update is gone"))

    def alter(mine):
        for name in ("BIGINT", "INTEGER"):
            mine.execute("ALTER TABLE %s ALTER j TYPE %s" % (table, name))

    threads = [threading.Thread(target=run, args=(work,)) for work in (write, read, read, alter)]
    for thread in threads:
        thread.start()
    stop.wait(3)
    stop.set()
    for thread in threads:
        thread.join()
    assert not faults, faults
    assert {j for (j,) in con.execute("SELECT j FROM " + table).fetchall()} == {last[0]}
    assert last[0] > 3
