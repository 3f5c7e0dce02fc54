"""Random sessions that write, define, fail and read: a database that is attached from a server answers as a file that
is attached does. tests/support/twin makes the statements up; `python -m twin SEED` there runs one seed and shrinks what
differs."""

import os

import pytest
import services
from twin.run import Arena, first_difference, sessions

pytestmark = [pytest.mark.extension, pytest.mark.timeout(3600)]

LONG = os.environ.get("OPENDUCK_LONG") == "1"


# How many statements there is time for.
COUNT = 10000 if LONG else 3000 if services.SLOW == 1 else 500


def run(kind, seed, count):
    with Arena(kind) as arena:
        for number, script in sessions(arena, seed, count):
            found = first_difference(arena, script)
            again = "" if kind == "serve" else "--%s " % kind
            assert not found, "seed %d, session %d, step %d: %s\nshrink it: python -m twin %s--shrink --first %d %d" % (
                seed, number, found.number, found.text, again, number, seed,
            )  # fmt: skip


@pytest.mark.parametrize("seed", range(1, 31) if LONG else [1])
def test_statements_have_one_answer(seed):
    """What follows compares with DuckDB, so DuckDB must agree with itself."""
    run("local", seed, COUNT if LONG else 500)


@pytest.mark.parametrize("seed", range(1, 101) if LONG else [1, 2, 3])
def test_an_attached_database_answers_as_a_file_does(seed):
    run("serve", seed, COUNT)


@pytest.mark.parametrize("seed", range(101, 111) if LONG else [4])
def test_so_it_does_behind_a_gateway(seed):
    run("gateway", seed, COUNT if LONG else 500)
