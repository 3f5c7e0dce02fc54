"""Runs one script on two sides and says where they part."""

import collections
import itertools
import os
import pathlib
import re
import shutil
import tempfile

import duckdb
import services

from twin.script import generate
from twin.side import Side, difference, state_difference

EVERY = 200  # steps between two comparisons of everything
LENGTH = 500  # statements of a session; each has databases of its own

# A step with the reference's outcome, or (outcome None) a comparison of everything with the reference's state.
Entry = collections.namedtuple("Entry", "step outcome state")
Found = collections.namedtuple("Found", "number text entry")


class Arena:
    """Makes fresh sides: plain ones, whose `cloud` is a file, others by KIND: local (plain too), serve, gateway.
    THREADS: of each side's DuckDB; None: its default."""

    def __init__(self, kind, threads=None):
        self.kind = kind
        self.config = {"threads": threads} if threads else {}
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # what is compared needs no disk
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="openduck-twin-", dir=memory))
        self.numbers = itertools.count()
        self.server = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.path, ignore_errors=True)

    def stop(self):
        if self.server:
            server, self.server = self.server, None
            server.__exit__(None, None, None)

    def plain(self):
        path = self.path / ("%d.duckdb" % next(self.numbers))
        return Side(services.duck(load=False, **self.config), "ATTACH '%s' AS cloud (STORAGE_VERSION 'latest')" % path)

    def other(self):
        if self.kind == "local":
            return self.plain()
        self.stop()
        path = services.make_database(self.path / ("%d.duckdb" % next(self.numbers)))
        self.server = (services.Serve if self.kind == "serve" else services.Stack)({"mydb": path})
        return Side(services.duck(**self.config), services.attach_sql(self.server.url), remote=True)


ORPHANS = """SELECT count(*) FROM duckdb_constraints() c WHERE constraint_type = 'FOREIGN KEY' AND NOT EXISTS (FROM
duckdb_tables() t WHERE (t.database_name, t.schema_name, t.table_name) = (c.database_name, c.schema_name,
c.referenced_table))"""


def breaks(side, step, outcome):
    """Whether a statement broke DuckDB itself. So does what leaves a foreign key without its other table: DuckDB 1.5.5
    sometimes lets a table go that is referred to, and its next checkpoint waits for it forever."""
    if outcome.error in ("InternalException", "FatalException"):
        return True
    if outcome.error or not re.search(r"\b(DROP|RENAME|REPLACE|COMMIT|ROLLBACK)\b", step.sql):
        return False
    try:
        return side.con.execute(ORPHANS).fetchone() != (0,)
    except duckdb.Error:  # an aborted transaction
        return False


def session(arena, number, count):
    """The entries of one session, as the reference ran them. It ends early before a statement that breaks DuckDB
    itself: there is nothing to compare then."""
    side, script = arena.plain(), []
    for step, outcome in generate(number, count, side):
        if breaks(side, step, outcome):
            side.close()
            return script
        script.append(Entry(step, outcome, None))
        if len(script) % EVERY == 0:
            script.append(Entry(None, None, side.snapshot()))
    script.append(Entry(None, None, side.snapshot()))
    side.close()
    return script


def sessions(arena, seed, count, first=0):
    """The sessions of a seed, LENGTH statements each, COUNT together: pairs of number and entries."""
    for n in itertools.count(first):
        if count <= 0:
            return
        script = session(arena, seed * 1000 + n, min(LENGTH, count))
        count -= len([1 for e in script if e.step])
        yield n, script


def first_difference(arena, script):
    """The first entry of SCRIPT where the other side parts from the reference, or None."""
    side = arena.other()
    try:
        for number, entry in enumerate(script):
            if entry.step is None:
                text = state_difference(entry.state, side.snapshot())
            else:
                text = difference(entry.step, entry.outcome, side.run(entry.step))
                text = text and "%s%s\n      %s" % (
                    entry.step.sql,
                    " %r" % (entry.step.params,) if entry.step.params else "",
                    text,
                )
            if text:
                return Found(number, text, entry)
        return None
    finally:
        side.close()


def replayed(arena, steps, states=True):
    """A script of STEPS as the reference runs them now, with comparisons of everything at its end."""
    side = arena.plain()
    script = [Entry(step, side.run(step), None) for step in steps]
    if states:
        script.append(Entry(None, None, side.snapshot()))
    side.close()
    return script


def collect(arena, script, most):
    """Up to MOST differences: each statement that differed is left out of the next run."""
    found = []
    while len(found) < most:
        one = first_difference(arena, script)
        if one is None:
            break
        found.append(one)
        steps = [e.step for n, e in enumerate(script) if e.step and n != one.number]
        if one.entry.step is None:
            break
        side, script = arena.plain(), []
        for step in steps:
            script.append(Entry(step, side.run(step), None))
            if len(script) % EVERY == 0:
                script.append(Entry(None, None, side.snapshot()))
        side.close()
    return found


def shrink(arena, script, found):
    """The fewest steps found, by leaving out halves, quarters and so on, that still make the two sides differ."""
    steps = [e.step for e in script[: found.number + 1] if e.step]
    whole = found.entry.step is None

    def differs(some):
        if not whole:
            one = first_difference(arena, replayed(arena, some, states=False))
            return one is not None and one.entry.step == found.entry.step
        return first_difference(arena, replayed(arena, some)) is not None

    size = max(1, len(steps) // 2)
    while size:
        at = len(steps) - (0 if whole else 1)
        while at > 0:
            low = max(0, at - size)
            some = steps[:low] + steps[at:]
            if differs(some):
                steps = some
            at = low
        size //= 2
    return steps
