"""Random queries over tables of a server, or of here and there: answered as by plain DuckDB."""

import os
import time

import pytest
import random_pushdown

pytestmark = pytest.mark.extension


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with random_pushdown.place(tmp_path_factory.mktemp("random") / "mydb.duckdb") as c:
        yield c


@pytest.mark.parametrize("seed", range(3))
def test_random_queries(con, seed):
    # As many as there is time for on a slow machine: which ones does not hang on it.
    counts = random_pushdown.run(con, seed, 100, time.monotonic() + 15)
    assert counts["compared"] > 0


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_random_queries_for_long(con):
    until = time.monotonic() + float(os.environ.get("OPENDUCK_FUZZ_SECONDS", "600"))
    seed = 3
    while time.monotonic() < until:
        random_pushdown.run(con, seed, random_pushdown.QUERIES, until)
        seed += 1


def test_a_difference_is_told_with_what_makes_it(con):
    comparison = random_pushdown.Comparison(con, 0)
    for name in comparison.names:
        con.execute("INSERT INTO cloud.%s(id, c0) VALUES (7777, 1), (7778, 1), (7779, NULL)" % name)
    with pytest.raises(random_pushdown.Difference) as raised:
        for _ in range(100):
            comparison.compare()
    text = str(raised.value)
    assert "seed 0, query " in text and ", level off:" in text
    for statement in ("CREATE TABLE cloud.t0 AS SELECT", "CREATE TABLE twin.t0 AS FROM cloud.t0", "SET TimeZone = '"):
        assert statement in text
