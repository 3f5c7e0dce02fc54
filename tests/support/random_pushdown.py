"""Compares what random queries give on every level of openduck_pushdown with what plain DuckDB gives.

PYTHONPATH=tests/support:tests/e2e python -m random_pushdown --seed 7 --seconds 600
compares until the time is over, with other tables for each seed from 7 on, and tells how many queries it were.
--only SEED NUMBER runs one of them."""

import argparse
import collections
import contextlib
import random
import sys
import tempfile
import time

import random_queries
import random_tables
import services

LEVELS = ("off", "scan", "full")
#: More rows tell nothing, and take long.
MOST_ROWS = 20000
#: Of one set of tables.
QUERIES = 1500
#: Seconds after which it is told how far they are.
EVERY = 20

PLAIN = "FROM (%s) LIMIT %d"
ORDERED = "%s LIMIT %d"
TYPED = "SELECT COLUMNS(*)::VARCHAR, typeof(COLUMNS(*)) FROM (%s) LIMIT %d"
#: The rows, as they are or as texts: in any order, or in theirs.
FORMS = (
    PLAIN,
    PLAIN,
    TYPED,
    "SELECT COLUMNS(*)::VARCHAR FROM (%s) ORDER BY ALL LIMIT %d",
    "WITH o AS MATERIALIZED (%s) SELECT COLUMNS(*)::VARCHAR FROM o ORDER BY ALL LIMIT %d",
    "WITH o AS MATERIALIZED (SELECT COLUMNS(*)::VARCHAR FROM (%s) LIMIT %d) FROM o ORDER BY ALL",
)
#: Python cannot tell all values of them apart, or needs more for them than is there.
TOLD_AS_TEXT = ("INTERVAL", "TIMESTAMPTZ", None)
#: What a session may have set, for some tables each.
SETTINGS = (
    ("TimeZone", ("Asia/Tokyo", "UTC", "America/New_York")),
    ("default_null_order", ("nulls_last", "nulls_last", "nulls_first", "nulls_first_on_asc_last_on_desc")),
    ("default_order", ("asc", "asc", "desc")),
    ("integer_division", ("false", "false", "true")),
    ("ieee_floating_point_ops", ("true", "true", "false")),
)


class Difference(AssertionError):
    """A level gives something else than plain DuckDB."""


class Failure(str):
    """The kind of an error. What it says is told, but not compared."""

    def __new__(cls, error):
        made = super().__new__(cls, type(error).__name__)
        made.says = str(error)
        return made


class Case:
    """A query as it is compared: TWIN with plain DuckDB's tables, TEXT with those of a server, or some of them."""

    def __init__(self, twin, text, remote, ordered, limited):
        self.twin = twin
        self.text = text
        #: All tables of TEXT are the server's.
        self.remote = remote
        #: Its rows have an order.
        self.ordered = ordered
        #: It counts rows, above which there may be a join.
        self.limited = limited


def answer(con, text, ordered):
    """The types and rows of TEXT, in their order if ORDERED, else as a multiset; or the kind of its error."""
    try:
        con.execute(text)
        types = [str(d[1]) for d in con.description]
        rows = con.fetchall()
    except Exception as error:
        return Failure(error)
    # What is not a number may have a sign, though all such are equal.
    texts = [repr(row).replace("-nan", "nan") for row in rows]
    return types, texts if ordered else collections.Counter(texts)


class Comparison:
    """Tables of a seed at a server, `cloud`, with their twins in `twin`; and the queries of that seed over them."""

    def __init__(self, con, seed):
        self.seed = seed
        self.tables = random_tables.tables(seed)
        self.rnd = random.Random(seed)
        self.names = sorted(self.tables.columns)
        self.queries = random_queries.queries(seed, self.tables)
        self.counts = collections.Counter()
        self.skipped = None
        for name in self.names:
            con.execute("DROP TABLE IF EXISTS cloud.%s" % name)
        for statement in self.tables.statements:
            con.execute(statement.replace(" TABLE ", " TABLE cloud.", 1))
        con.execute("CREATE SCHEMA IF NOT EXISTS twin")
        for name in self.names:
            con.execute("CREATE OR REPLACE TABLE twin.%s AS FROM cloud.%s" % (name, name))
        self.settings = ["SET %s = '%s'" % (name, self.rnd.choice(values)) for name, values in SETTINGS]
        self.settings.append("SET threads = %d" % self.rnd.choice((1, 1, 1, 4)))
        # Joins of joins may have more rows than it is worth waiting for.
        con.execute("SET memory_limit = '1GB'")
        for statement in self.settings:
            con.execute(statement)
        self.con = con
        # Each level has a connection of its own.
        self.levels = [(level, con.cursor()) for level in LEVELS]
        for level, cursor in self.levels:
            for statement in (*self.settings[:-1], "SET openduck_pushdown = '%s'" % level):
                cursor.execute(statement)
        self.disable("")

    def disable(self, optimizers):
        if optimizers != self.skipped:
            self.con.execute("SET disabled_optimizers = '%s'" % optimizers)
            self.skipped = optimizers

    def next(self):
        query = next(self.queries)
        names = self.names
        where = self.rnd.choice((names, names, self.rnd.sample(names, 2), self.rnd.sample(names, 3)))
        form = self.rnd.choice(FORMS)
        if form == PLAIN:
            if any(t in TOLD_AS_TEXT for t in query.types):
                form = TYPED
            elif query.ordered:
                form = ORDERED
        most = MOST_ROWS + 1
        places = {n: ("cloud." if n in where else "twin.") + n for n in names}
        return Case(
            form % (query.sql.format(**{n: "twin." + n for n in names}), most),
            form % (query.sql.format(**places), most),
            where == names,
            form not in (PLAIN, TYPED),
            "LIMIT" in query.sql or "OFFSET" in query.sql,
        )

    def compare(self):
        """The next query."""
        case = self.next()
        # DuckDB 1.5.5 lets a join's run-time filters leave out rows of its own tables before a LIMIT below counts them.
        self.disable("join_filter_pushdown" if case.limited else "")
        want = answer(self.con, case.twin, case.ordered)
        self.counts["queries"] += 1
        if want in ("InternalException", "OutOfMemoryException"):
            # DuckDB 1.5.5 fails to plan some queries, and some are too large.
            self.counts["not answered"] += 1
            return
        if isinstance(want, Failure):
            self.counts["errors"] += 1
        elif (len(want[1]) if case.ordered else want[1].total()) > MOST_ROWS:
            self.counts["too many rows"] += 1
            return
        if case.remote:
            self.disable("")
        self.counts["compared"] += 1
        for level, cursor in self.levels:
            got = answer(cursor, case.text, case.ordered)
            if got != want:
                raise Difference(self.reproducer(level, case, want, got))

    def reproducer(self, level, case, want, got):
        statements = [s.replace(" TABLE ", " TABLE cloud.", 1) for s in self.tables.statements]
        statements += ["CREATE SCHEMA twin"]
        statements += ["CREATE TABLE twin.%s AS FROM cloud.%s" % (n, n) for n in self.names]
        statements += [*self.settings, "SET disabled_optimizers = '%s'" % self.skipped]
        statements += [case.twin, "SET openduck_pushdown = '%s'" % level, case.text]
        return "seed %d, query %d, level %s:\n%s;\nplain DuckDB gives %.2000s\nthe level gives %.2000s" % (
            self.seed, self.counts["queries"] - 1, level, ";\n".join(statements), told(want, got), told(got, want),
        )  # fmt: skip


def told(answer, other):
    """ANSWER, without the rows that OTHER has too."""
    if isinstance(answer, Failure):
        return "%s: %s" % (answer, answer.says)
    if isinstance(other, Failure) or answer[0] != other[0]:
        return repr(answer)
    if isinstance(answer[1], collections.Counter):
        return repr((answer[0], answer[1] - other[1]))
    return repr(answer)


@contextlib.contextmanager
def place(path):
    """A connection with `cloud`, a server's new database at PATH."""
    with services.Serve({"mydb": path}) as server, services.attached(server) as con:
        yield con
        server.wait_idle()


def run(con, seed, queries, until):
    """Compares QUERIES queries of SEED, fewer if the time UNTIL comes before; how many there were of each kind."""
    comparison = Comparison(con, seed)
    for _ in range(queries):
        if time.monotonic() > until:
            break
        comparison.compare()
    return comparison.counts


def only(con, seed, number):
    """Compares one query of SEED."""
    comparison = Comparison(con, seed)
    for _ in range(number):
        comparison.next()
        comparison.counts["queries"] += 1
    comparison.compare()


def forever(con, seed, queries, seconds):
    """Compares QUERIES queries of each seed from SEED on, for SECONDS. Tells what differs, and from time to time how
    many queries it were. How many differences there are."""
    first, began = seed, time.monotonic()
    told_at, total = began, collections.Counter()
    while time.monotonic() < began + seconds:
        comparison = Comparison(con, seed)
        for n in range(queries):
            try:
                comparison.compare()
            except Difference as difference:
                total["differences"] += 1
                print("%s\n" % difference, flush=True)
            now = time.monotonic()
            over = now > began + seconds
            if over or n == queries - 1:
                total += comparison.counts
                comparison.counts.clear()
            if over or now > told_at + EVERY:
                told_at = now
                counts = dict(total + comparison.counts)
                print("seeds %d to %d, %.0f s: %s" % (first, seed, now - began, counts), flush=True)
            if over:
                break
        seed += 1
    return total["differences"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--queries", type=int, default=QUERIES, help="of each seed")
    parser.add_argument("--only", type=int, nargs=2, metavar=("SEED", "NUMBER"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, place(folder + "/mydb.duckdb") as con:
        if options.only:
            only(con, *options.only)
            return 0
        return 1 if forever(con, options.seed, options.queries, options.seconds) else 0


if __name__ == "__main__":
    sys.exit(main())
