"""Literals, parameters and expressions of a type. Nothing here fails by itself or depends on the order of rows: doubles
are quarters, so that sums are exact, and numbers stay small."""

import datetime
import decimal

from twin.scope import WORDS

TYPES = (
    "INTEGER", "BIGINT", "VARCHAR", "DOUBLE", "DECIMAL(10,2)", "DATE", "TIMESTAMP", "BOOLEAN", "INTEGER[]",
    "STRUCT(a INTEGER, b VARCHAR)", "UUID", "BLOB", "HUGEINT", "SMALLINT", "TIME", "INTERVAL", "UINTEGER",
    "VARCHAR[]", "TIMESTAMP WITH TIME ZONE", "MAP(VARCHAR, INTEGER)",
)  # fmt: skip
WHOLE = ("INTEGER", "BIGINT", "SMALLINT", "HUGEINT", "UINTEGER")
NUMBERS = (*WHOLE, "DOUBLE", "DECIMAL(10,2)")
TEXTS = ("a", "b", "abc", "", "it''s", "Straße", "x y", "100%", "naïve", 'q"q', "-- no", "Ä", "zz")


class Values:
    """Needs self.rnd. `params` is None, or collects the values that become parameters."""

    params = None
    fresh = 0

    def chance(self, percent):
        return self.rnd.random() * 100 < percent

    def pick(self, choices):
        return self.rnd.choice(choices)

    def fresh_key(self):
        """A number that no row had before."""
        self.fresh += 1
        return self.fresh

    def plain_literal(self, kind):
        n = self.rnd.randrange(-9, 40)
        if kind in WHOLE:
            return str(abs(n) if kind == "UINTEGER" else n)
        if kind == "DOUBLE":
            return str(n / 4) if n % 7 else "%d::DOUBLE" % n
        if kind.startswith("DECIMAL"):
            return "%d.%02d" % (n, abs(n))
        if kind == "VARCHAR":
            return "'%s'" % self.pick(TEXTS)
        if kind == "DATE":
            return "DATE '2024-%02d-%02d'" % (1 + n % 12, 1 + n % 28)
        if kind == "TIMESTAMP":
            return "TIMESTAMP '2024-01-%02d %02d:30:00.%d'" % (1 + n % 28, n % 24, abs(n))
        if kind == "TIMESTAMP WITH TIME ZONE":
            return "TIMESTAMPTZ '2024-01-%02d %02d:30:00+00'" % (1 + n % 28, n % 24)
        if kind == "TIME":
            return "TIME '%02d:00:%02d'" % (n % 24, n % 60)
        if kind == "INTERVAL":
            return "INTERVAL %d DAY" % n
        if kind == "BOOLEAN":
            return "true" if n % 2 else "false"
        if kind == "INTEGER[]":
            return self.pick(("[]", "[%d]" % n, "[1, NULL, %d]" % n))
        if kind == "VARCHAR[]":
            return self.pick(("[]", "['x', 'it''s']", "['%d']" % n))
        if kind.startswith("STRUCT"):
            return "{'a': %d, 'b': '%s'}" % (n, self.pick(TEXTS))
        if kind.startswith("MAP"):
            return "MAP {'k%d': %d}" % (n % 3, n)
        if kind == "UUID":
            return "'00000000-0000-4000-8000-0000000000%02d'::UUID" % abs(n)
        if kind == "BLOB":
            return "'\\xAA\\x00%d'::BLOB" % abs(n)
        if kind.startswith("ENUM"):
            return "'%s'" % self.pick(WORDS)
        return "NULL"

    def literal(self, kind, null=8):
        """A literal, or a parameter of this type's values."""
        if self.chance(null):
            return "NULL"
        if self.params is not None and len(self.params) < 6 and self.chance(60):
            value = self.python_value(kind)
            if value is not None:
                self.params.append(value)
                return "$%d%s" % (len(self.params), "" if self.chance(60) else "::" + kind)
        return self.plain_literal(kind)

    def python_value(self, kind):
        n = self.rnd.randrange(0, 40)
        if kind in WHOLE:
            return n
        if kind == "DOUBLE":
            return n / 4
        if kind.startswith("DECIMAL"):
            return decimal.Decimal("%d.25" % n)
        if kind == "VARCHAR":
            return self.pick(TEXTS).replace("''", "'")
        if kind == "DATE":
            return datetime.date(2024, 1 + n % 12, 1 + n % 28)
        if kind == "TIMESTAMP":
            return datetime.datetime(2024, 1, 1 + n % 28, n % 24, 30)
        if kind == "BOOLEAN":
            return n % 2 == 0
        if kind == "BLOB":
            return b"\xaa\x00" + str(n).encode()
        if kind == "INTEGER[]":
            return [n, None, 3]
        if kind.startswith("ENUM"):
            return self.pick(WORDS)
        return None

    def value(self, column):
        """What an INSERT gives COLUMN: mostly what its constraints allow."""
        if column.name == "k" and not self.chance(12):
            return str(self.fresh_key())
        if column.default and self.chance(20):
            return "DEFAULT"
        return self.literal(column.type, 8 if column.nullable else 0)

    # Expressions over COLUMNS, pairs of text and type.

    def of(self, kind, columns):
        same = [text for text, t in columns if t == kind]
        return self.pick(same) if same and not self.chance(15) else self.literal(kind, 2)

    def expr(self, kind, columns, depth=2):
        if depth == 0 or self.chance(35):
            return self.of(kind, columns)
        if self.chance(15):
            condition = self.condition(columns, depth - 1)
            return "CASE WHEN %s THEN %s ELSE %s END" % (condition, self.of(kind, columns), self.of(kind, columns))
        if self.chance(12):
            return "coalesce(%s, %s)" % (self.of(kind, columns), self.plain_literal(kind))
        return self._call(kind, columns, depth)

    def _call(self, kind, columns, depth):
        x, y = self.of(kind, columns), self.of(kind, columns)
        if kind in ("INTEGER", "BIGINT"):
            wide = self.expr(self.pick(("INTEGER", "BIGINT")), columns, depth - 1)
            forms = (
                "(%s + %s) %% 1000" % (wide, y), "abs(%s) %% 1000" % wide, "%s %% 7" % wide, "%s // 3" % wide,
                "length(%s)" % self.of("VARCHAR", columns), "greatest(%s, %s)" % (x, y), "least(%s, 5)" % x,
                "%s - 1" % self.of("SMALLINT", columns), "year(%s)" % self.of("DATE", columns),
                "len(%s)" % self.of("INTEGER[]", columns), "nullif(%s, %s)" % (x, y),
            )  # fmt: skip
            text = self.pick(forms)
            return text if kind == "BIGINT" else "(%s)::INTEGER" % text
        if kind == "VARCHAR":
            return self.pick((
                "upper(%s)" % x, "left(%s || %s, 20)" % (x, y), "replace(%s, 'a', 'o')" % x, "left(%s, 3)" % x,
                "%s::VARCHAR" % self.of(self.pick(TYPES), columns), "trim(%s)" % x, "left(concat(%s, 1), 9)" % x,
            ))  # fmt: skip
        if kind == "DOUBLE":
            return "(%s + %s) %% 1000" % (x, y)
        if kind == "DECIMAL(10,2)":
            return "((%s + 1.5) %% 1000)::DECIMAL(10,2)" % x
        if kind == "BOOLEAN":
            return "(%s)" % self.condition(columns, depth - 1)
        if kind == "DATE":
            return "(%s + INTERVAL 1 DAY)::DATE" % x
        if kind == "TIMESTAMP":
            return "date_trunc('day', %s)" % x
        if kind == "INTEGER[]":
            return self.pick(("list_sort(%s)" % x, "(%s || [7])[1:4]" % x))
        if kind.startswith("STRUCT"):
            return "{'a': %s, 'b': %s}" % (self.of("INTEGER", columns), self.of("VARCHAR", columns))
        return x

    def condition(self, columns, depth=1):
        if depth > 0 and self.chance(30):
            form = self.pick(("(%s AND %s)", "(%s OR %s)", "(NOT %s AND %s)"))
            return form % (self.condition(columns, depth - 1), self.condition(columns, depth - 1))
        usable = [(text, t) for text, t in columns if not t.startswith("MAP")]
        if not usable:
            return "true"
        text, kind = self.pick(usable)
        if kind == "BOOLEAN" and self.chance(50):
            return self.pick(("%s", "NOT %s", "%s IS NOT TRUE")) % text
        if kind == "VARCHAR" and self.chance(40):
            return (
                self.pick(("%s LIKE '%%a%%'", "%s ILIKE 'A%%'", "length(%s) > 1", "%s ^@ 'a'", "contains(%s, 'z')"))
                % text
            )
        if kind.startswith("STRUCT") and self.chance(50):
            return "(%s).a > 3" % text
        if "[" in kind or ("(" in kind and not kind.startswith("DECIMAL")):
            # BETWEEN and IN over nested values are errors or not as DuckDB's optimizer rewrites them.
            return self.pick(("%s = %s", "%s <> %s", "%s < %s")) % (text, self.literal(kind, 0))
        operator = self.pick(("=", "<>", "<", ">", "<=", ">=", "IS DISTINCT FROM"))
        return self.pick((
            "%s %s %s" % (text, operator, self.literal(kind, 0)), "%s IS NULL" % text, "%s IS NOT NULL" % text,
            "%s IN (%s, %s)" % (text, self.literal(kind, 0), self.literal(kind, 0)),
            "%s BETWEEN %s AND %s" % (text, self.literal(kind, 0), self.literal(kind, 0)),
            "%s %s %s" % (text, operator, self.of(kind, usable)),
        ))  # fmt: skip
