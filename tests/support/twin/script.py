"""The statements of a seed. They are made up while a reference database runs them, so that what exists is known and
most succeed; afterwards they are fixed text, which any side can run."""
# ruff: noqa: E501

import dataclasses
import random
import re

from twin.definitions import Definitions
from twin.scope import Scope, quoted

SETUP = (
    "CREATE TABLE l1 AS SELECT i::INTEGER AS k, 'n' || i % 5 AS b, i / 4.0::DOUBLE AS c, DATE '2024-01-01' + i::INTEGER AS d"
    " FROM range(1, 21) t(i)",
    "CREATE TABLE l2 (k INTEGER PRIMARY KEY, a BIGINT DEFAULT 7, b VARCHAR, e INTEGER[])",
    "INSERT INTO l2 VALUES (1, 2, 'x', [1]), (2, NULL, 'abc', NULL), (9, 5, 'it''s', [])",
    "CREATE TEMP TABLE m1 AS SELECT i AS k, i % 3 AS a FROM range(12) t(i)",
)
FIRST = (
    "CREATE TABLE cloud.t0 (k INTEGER PRIMARY KEY, a INTEGER, b VARCHAR, c DOUBLE DEFAULT 1.5, d DATE)",
    "CREATE SEQUENCE cloud.q0",
    "CREATE SCHEMA cloud.s1",
    "CREATE TABLE cloud.s1.t0 (k BIGINT, b VARCHAR NOT NULL, e INTEGER[], j STRUCT(a INTEGER, b VARCHAR))",
    "CREATE TABLE cloud.numbered (k INTEGER DEFAULT nextval('cloud.main.q0'), a DECIMAL(10,2), g1 INTEGER AS (k * 2))",
    "INSERT INTO cloud.t0 SELECT i, i % 4, 'n' || i, i / 4.0, DATE '2024-02-01' + i::INTEGER FROM range(1, 31) t(i)",
)


@dataclasses.dataclass(frozen=True)
class Step:
    """One call of execute(). `compare`: its rows as a set or in order, or only whether it fails, and with which class."""

    sql: str
    params: tuple = ()
    compare: str = "set"


class Session(Definitions):
    """What a user might type next."""

    def __init__(self, seed, scope):
        self.rnd = random.Random(seed)
        self.scope = scope
        self.open = False  # in a transaction
        self.prepared = {}
        self.fresh = 100

    def next(self):
        """A Step."""
        if self.open and self.chance(12):
            return Step(self.pick(("COMMIT", "COMMIT", "ROLLBACK")))
        if not self.open and self.chance(4):
            return Step(self.pick(("BEGIN", "BEGIN TRANSACTION")))
        roll = self.rnd.randrange(100)
        if roll < 33:
            return self.read()
        if roll < 70:
            return self.with_parameters(self.write)
        if roll < 82:
            return Step(self.define())
        if roll < 86:
            text, ordered = self.look()
            return Step(text, (), "ordered" if ordered else "set")
        if roll < 91:
            return self.other()
        return Step(self.fault())

    def read(self):
        return self.with_parameters(self.select)

    def with_parameters(self, make):
        self.params = [] if self.chance(15) else None
        made = make()
        params, self.params = self.params, None
        text, ordered = made if isinstance(made, tuple) else (made, False)
        used = tuple(params or ())
        # A statement that was made up and given up left its parameters behind.
        if any("$%d" % (n + 1) not in text for n in range(len(used))):
            return Step("SELECT 3")
        return Step(text, used, "ordered" if ordered else "set")

    def other(self):
        form = self.rnd.randrange(8)
        if form == 0:
            self.use = self.pick(("memory", "cloud", "cloud", "cloud." + quoted(self.schema())))
            return Step("USE " + self.use)
        if form in (1, 2):
            name = "p%d" % self.rnd.randrange(4)
            if name in self.prepared and self.chance(80):
                values = ", ".join(
                    self.plain_literal(self.pick(("INTEGER", "VARCHAR"))) for _ in range(self.prepared[name])
                )
                return Step("EXECUTE %s%s" % (name, "(%s)" % values if values else ""))
            self.params = []
            made = self.pick((self.select, self.write))()
            self.params = None
            text = made[0] if isinstance(made, tuple) else made
            self.prepared[name] = len(set(re.findall(r"\$\d", text)))
            return Step("PREPARE %s AS %s" % (name, text))
        if form == 3:
            if not self.scope.sequences:
                return Step("SELECT 4")
            name = self.scope.full(*self.pick(self.scope.sequences)).replace("'", "''")
            return Step("SELECT %s('%s') AS n" % (self.pick(("nextval", "nextval", "currval")), name))
        if form in (4, 5) and self.scope.macros:
            schema, name, kind, arguments = self.pick(self.scope.macros)
            call = "%s(%s)" % (self.scope.full(schema, name), ", ".join("1" for _ in range(arguments)))
            return Step("FROM " + call if kind == "table_macro" else "SELECT %s AS f" % call)
        if form == 6:
            word = self.pick(("EXPLAIN ", "EXPLAIN ANALYZE "))
            return Step(word + self.pick((self.select()[0], self.write())), (), "class")
        if self.chance(50):
            return Step("SET VARIABLE v = %d" % self.rnd.randrange(30))
        table = self.target()
        numbers = [c.text for c in table.plain if c.type in ("INTEGER", "BIGINT")] if table else []
        if not numbers:
            return Step("SELECT getvariable('v') AS v")
        c = self.pick(numbers)
        return Step("UPDATE %s SET %s = getvariable('v') WHERE %s = 3" % (self.spell(table), c, c))

    def fault(self):
        """A statement that is wrong in one way."""
        table = self.table(remote=True, written=True)
        if table is None:
            return "FROM cloud.missing"
        name, c = self.spell(table), self.pick(table.plain)
        keyed = [t for t in self.scope.tables if t.remote and t.key == ("k",)]
        k = self.spell(self.pick(keyed)) if keyed else name
        return self.pick((
            "FROM cloud.missing", "SELECT missing FROM %s" % name, "FROM cloud.nowhere.t1", "SELECT nofunction(1) FROM %s" % name,
            "INSERT INTO %s (missing) VALUES (1)" % name, "INSERT INTO cloud.missing VALUES (1)", "SELEC 1",
            "INSERT INTO %s VALUES (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)" % name, "INSERT INTO %s VALUES" % name,
            "INSERT INTO %s (%s) VALUES ('no number')" % (name, c.text), "UPDATE %s SET missing = 1" % name,
            "INSERT INTO %s (%s) SELECT 'no' || 'pe'" % (name, c.text),
            "UPDATE %s SET %s = CAST('x' || %s AS INTEGER)" % (name, c.text, c.text),
            "SELECT CAST('x' || %s::VARCHAR AS INTEGER) FROM %s" % (c.text, name),
            "SELECT 9223372036854775807 + k FROM %s WHERE k > 0" % k, "SELECT sqrt(-1 - abs(k)) FROM %s" % k,
            "INSERT INTO %s (k) SELECT k FROM %s" % (k, k), "INSERT INTO %s (k) VALUES (NULL)" % k,
            "INSERT INTO %s (k) VALUES (70000000000000000000)" % k, "UPDATE %s SET k = 1" % k, "DELETE FROM %s WHERE nope = 1" % k,
            "SELECT (SELECT k FROM %s) FROM %s" % (k, name), "SELECT k FROM %s GROUP BY ALL HAVING sum(k) OVER () > 1" % k,
            "SELECT error('boom') FROM %s" % name, "INSERT INTO %s (%s) SELECT error('boom')" % (name, c.text),
            "CREATE TABLE %s (k INTEGER)" % name, "CREATE SCHEMA cloud.main", "DROP TABLE cloud.missing", "DROP VIEW %s" % name,
            "CREATE VIEW cloud.v_bad AS SELECT missing FROM %s" % name, "ALTER TABLE %s ADD COLUMN k INTEGER" % k,
            "ALTER TABLE %s DROP COLUMN missing" % name, "DROP SCHEMA cloud.nowhere", "CREATE INDEX bad ON %s (missing)" % name,
            "DROP INDEX cloud.missing", "DROP SEQUENCE cloud.missing", "DROP TYPE cloud.missing", "USE nowhere", "USE cloud.nowhere",
            "SELECT nextval('cloud.missing')", "EXECUTE missing", "BEGIN" if self.open else "COMMIT", "DROP MACRO cloud.missing",
            "UPDATE %s SET k = (SELECT 1 UNION ALL SELECT 2)" % k, "INSERT INTO %s BY NAME SELECT 1 AS missing" % name,
            "INSERT INTO %s VALUES (1) ON CONFLICT (missing) DO NOTHING" % name, "INSERT INTO %s SELECT * FROM l1, l2" % name,
            "MERGE INTO %s AS x USING l1 AS s ON x.k = s.missing WHEN MATCHED THEN DELETE" % k, "SELECT $1",
            "DELETE FROM %s RETURNING missing" % name, "SELECT * FROM %s ORDER BY missing" % name, "CREATE TABLE cloud.bad (a NOTYPE)",
            "CREATE TABLE cloud.bad (a INTEGER, a INTEGER)", "CREATE TABLE cloud.bad AS SELECT missing FROM %s" % name,
            "COMMENT ON TABLE cloud.missing IS 'x'", "SELECT k + 'x' FROM %s" % k, "SELECT 1 / 0 FROM %s" % name,
            "INSERT INTO %s (%s) VALUES (DEFAULT, DEFAULT)" % (name, c.text), "TRUNCATE cloud.missing", "SELECT strftime(1, 2)",
        ))  # fmt: skip


def generate(seed, count, side):
    """COUNT steps, run on SIDE (a fresh side.Side) as they are made up. Yields (step, outcome)."""
    for sql in (*SETUP, *FIRST):
        step = Step(sql)
        yield step, side.run(step)
    scope = Scope(side.quiet)
    session = Session(seed, scope)
    scope.refresh()
    changed = False  # whether this transaction changed the catalog
    for _ in range(count - len(SETUP) - len(FIRST)):
        step = session.next()
        outcome = side.run(step)
        yield step, outcome
        word = step.sql.split()[0]
        if word in ("COMMIT", "ROLLBACK"):
            session.open = False
        if outcome.error:
            if session.open and not scope.refresh():
                for last in (Step("SELECT 5"), Step(session.pick(("ROLLBACK", "ROLLBACK", "COMMIT")))):
                    yield last, side.run(last)
                session.open = changed = False
                scope.refresh(macros=True)
            continue
        if word == "BEGIN":
            session.open = True
        elif word == "USE":
            scope.use = tuple((session.use.replace('"', "") + ".main").split(".")[:2])
        elif word in ("CREATE", "DROP", "ALTER"):
            scope.refresh(macros=re.match(r"(CREATE|DROP).* (MACRO|FUNCTION|SCHEMA)", step.sql) is not None)
            changed |= session.open
            if scope.use[0] == "cloud" and scope.use[1] not in scope.schemas:
                scope.use = ("cloud", "main")
        elif word == "ROLLBACK" and changed:
            scope.refresh(macros=True)
        changed &= session.open
