"""Random sessions that write, define, fail and read: a database that is attached from a server answers as a file that
is attached does. tests/support/twin makes the statements up; `python -m twin SEED` there runs one seed and shrinks what
differs."""

import os

import pytest
from twin.run import Arena, first_difference, sessions

pytestmark = [pytest.mark.extension, pytest.mark.timeout(3600)]

LONG = os.environ.get("OPENDUCK_LONG") == "1"


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
    run("local", seed, 10000 if LONG else 500)
