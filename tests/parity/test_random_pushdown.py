"""Random queries over tables of a server, or of here and there: answered as by plain DuckDB."""

import collections
import itertools
import os
import random
import time

import pytest
import random_queries
import services

pytestmark = pytest.mark.extension

LEVELS = ("off", "scan", "full")
#: More rows tell nothing, and take long.
MOST_ROWS = 20000


def answer(con, sql):
    """The rows of SQL as a multiset of texts, and their types; or the kind of its error."""
    try:
        found = con.execute("SELECT COLUMNS(*)::VARCHAR FROM (%s) LIMIT %d" % (sql, MOST_ROWS + 1)).fetchall()
        types = [str(d[1]) for d in con.execute("DESCRIBE " + sql).description]
        types += [row[1] for row in con.fetchall()]
    except Exception as error:
        return type(error).__name__
    return types, collections.Counter(map(repr, found))


@pytest.fixture(params=range(3))
def place(request, tmp_path):
    """A connection with the same random tables in `twin` and in `cloud`, and the random source of queries."""
    made = random_queries.tables(request.param)
    path = services.make_database(tmp_path / "mydb.duckdb", *made.statements)
    with services.Serve({"mydb": path}) as server, services.attached(server) as con:
        con.execute("SET TimeZone = 'Asia/Tokyo'")
        con.execute("CREATE SCHEMA twin")
        for table in made.columns:
            con.execute("CREATE TABLE twin.%s AS FROM cloud.%s" % (table, table))
        yield con, made, request.param
        server.wait_idle()


def compare(con, sql, names, where):
    """Every level gives what the twins give; with some tables here, too."""
    want = answer(con, sql.format(**{n: "twin." + n for n in names}))
    if not isinstance(want, str) and sum(want[1].values()) > MOST_ROWS:
        return
    text = sql.format(**{n: ("cloud." if n in where else "twin.") + n for n in names})
    for level in LEVELS:
        con.execute("SET openduck_pushdown = '%s'" % level)
        got = answer(con, text)
        assert got == want, "%s: %s" % (level, text)


def run(place, count, seconds):
    con, made, seed = place
    names = sorted(made.columns)
    rnd = random.Random(seed)
    deadline = time.monotonic() + seconds
    done = 0
    for sql in itertools.islice(random_queries.queries(seed, made), count):
        where = rnd.choice((names, names, rnd.sample(names, 2), rnd.sample(names, 3)))
        compare(con, sql, names, where)
        done += 1
        if time.monotonic() > deadline:
            break
    return done


def test_random_queries(place):
    # As many as there is time for on a slow machine: which ones does not hang on it.
    assert run(place, 60, 20) > 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_random_queries_for_long(place):
    run(place, 10**9, float(os.environ.get("OPENDUCK_FUZZ_SECONDS", "200")))
