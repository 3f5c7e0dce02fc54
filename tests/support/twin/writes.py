"""INSERT, UPDATE, DELETE, MERGE, TRUNCATE in their forms. What they leave never depends on the order in which rows
come: a source of an UPDATE or MERGE has one row for each key, and rows that draw from a sequence come in a total order."""
# ruff: noqa: E501

from twin.reads import Reads
from twin.scope import quoted
from twin.values import WHOLE

MOST_ROWS = 400


class Writes(Reads):
    def target(self):
        if self.chance(98 if self.open else 85):
            return self.table(remote=True, written=True)
        return self.table(remote=False, written=True)

    def write(self):
        table = self.target()
        if table is None:
            return "SELECT 2"
        table.rows = self.scope.count("%s.%s.%s" % (table.database, quoted(table.schema), quoted(table.name)))
        if table.rows > MOST_ROWS:
            return self.pick((self.delete, self.truncate))(table)
        forms = [self.insert] * 6 + [self.update] * 5 + [self.delete] * 2 + [self.upsert] * 2 + [self.merge] * 3
        form = self.pick([*forms, self.truncate]) if table.rows else self.insert
        return form(table)

    def returning(self, table, percent=30, alias=None):
        if not self.chance(percent):
            return ""
        if self.chance(40):
            return " RETURNING *"
        params, self.params = self.params, None  # DuckDB takes no parameters there
        text = " RETURNING " + self.outputs(self.columns(table, alias if self.chance(50) else None), 3)
        self.params = params
        return text

    def chosen(self, table):
        """Columns for an INSERT: all, or some with all that must be given, in any order."""
        columns = table.plain
        if self.chance(50):
            return columns, False
        some = [c for c in columns if not c.nullable or c.name == "k" or self.chance(60)] or columns[:1]
        self.rnd.shuffle(some)
        return some, True

    def insert(self, table):
        columns, listed = self.chosen(table)
        names = " (%s)" % ", ".join(c.text for c in columns) if listed else ""
        into = "INSERT INTO " + self.spell(table)
        tail = self.returning(table)
        form = self.rnd.randrange(10)
        if form == 0 and all(c.nullable or c.default for c in table.columns):
            return "%s DEFAULT VALUES%s" % (into, tail)
        if form in (1, 2):
            pairs = ", ".join("%s AS %s" % (self.value(c).replace("DEFAULT", "NULL"), c.text) for c in columns)
            return "%s BY NAME SELECT %s%s" % (into, pairs, tail)
        if form in (3, 4, 5):
            return "%s%s %s%s" % (into, names, self.rows_from_select(columns), tail)
        rows = ["(%s)" % ", ".join(self.value(c) for c in columns) for _ in range(self.pick((1, 1, 2, 3, 5)))]
        return "%s%s VALUES %s%s" % (into, names, ", ".join(rows), tail)

    def rows_from_select(self, columns):
        """Rows for COLUMNS out of other tables; a key gets numbers of its own."""
        source = self.source()
        reach = self.columns(source, "x")
        items = []
        for n, c in enumerate(columns):
            text = self.expr(c.type, reach) if c.nullable else "coalesce(%s, %s)" % (
                self.expr(c.type, reach), self.plain_literal(c.type))  # fmt: skip
            items.append("%s AS o%d" % (text, n))
        keys = [n for n, c in enumerate(columns) if c.name == "k"]
        text = "SELECT %s FROM %s%s ORDER BY ALL LIMIT 20" % (
            ", ".join(items), self.aliased(source, "x"), self.where(reach, 70),
        )  # fmt: skip
        if not keys:
            return text
        base = self.fresh
        self.fresh += 20
        outer = [
            "%d + row_number() OVER (ORDER BY ALL)" % base if n in keys else "o%d" % n for n in range(len(columns))
        ]
        others = ", ".join("o%d" % n for n in range(len(columns)) if n not in keys)
        if not others:
            return "SELECT %d + n FROM range(5) AS r(n)" % (base + 1)
        outer = [o.replace("ORDER BY ALL", "ORDER BY " + others) for o in outer]
        return "SELECT %s FROM (%s) AS z ORDER BY ALL" % (", ".join(outer), text)

    def upsert(self, table):
        # With two of them it is DuckDB's affair which of several rows is taken.
        if not table.key or table.numbered or table.unique > 1:
            return self.insert(table)
        tail = self.returning(table)
        key = ", ".join(quoted(k) for k in table.key)
        columns = [c for c in table.plain if c.name in table.key or not c.nullable or self.chance(70)]
        names = ", ".join(c.text for c in columns)
        seen, rows = set(), []
        for _ in range(self.pick((1, 2, 4))):
            n = self.rnd.randrange(1, self.fresh + 3)
            if n in seen:
                continue
            seen.add(n)
            rows.append([str(n) if c.name == "k" else self.literal(c.type, 8 if c.nullable else 0) for c in columns])
        body = "VALUES " + ", ".join("(%s)" % ", ".join(r) for r in rows)
        if self.chance(30):
            body = self.rows_from_select(columns)
        if self.chance(35):
            word = self.pick(("REPLACE", "IGNORE"))
            return "INSERT OR %s INTO %s (%s) %s%s" % (word, self.spell(table), names, body, tail)
        others = [c for c in columns if c.name not in table.key]
        if not others or self.chance(30):
            action = self.pick((" DO NOTHING", " (%s) DO NOTHING" % key))
        else:
            c = self.pick(others)
            fresh = self.pick(("excluded.%s" % c.text, self.plain_literal(c.type)))
            action = " (%s) DO UPDATE SET %s = %s" % (key, c.text, fresh)
            if self.chance(30):
                action += " WHERE excluded.%s IS NOT NULL" % c.text
        return "INSERT INTO %s (%s) %s ON CONFLICT%s%s" % (
            self.spell(table),
            names,
            body,
            action,
            self.returning(table),
        )

    def settable(self, table):
        return [c for c in table.plain if c.name != "k" or self.chance(10)] or table.plain

    def assignments(self, table, columns, alias=None):
        chosen = self.settable(table)
        chosen = self.rnd.sample(chosen, min(len(chosen), self.pick((1, 1, 2, 3))))
        items = []
        for c in chosen:
            if c.default and self.chance(15):
                items.append("%s = DEFAULT" % c.text)
            elif c.nullable:
                items.append("%s = %s" % (c.text, self.expr(c.type, columns)))
            else:
                items.append("%s = coalesce(%s, %s)" % (c.text, self.expr(c.type, columns), self.plain_literal(c.type)))
        return ", ".join(items)

    def update(self, table):
        form = self.rnd.randrange(5)
        if form == 0:
            return self.update_from(table)
        if form == 1:
            other = self.source()
            c = self.pick(self.settable(table))
            inner = self.inner(other, c.type)
            if inner and not c.type.startswith(("MAP", "INTERVAL")):
                value = "(SELECT max(v) FROM (%s) AS i(v))" % inner
                value = value if c.nullable else "coalesce(%s, %s)" % (value, self.plain_literal(c.type))
                return "UPDATE %s SET %s = %s%s%s" % (
                    self.spell(table), c.text, value, self.filter(table), self.returning(table),
                )  # fmt: skip
        if self.chance(25):
            columns = self.columns(table, "x")
            return "UPDATE %s SET %s%s%s" % (
                self.aliased(table, "x"), self.assignments(table, columns), self.where(columns), self.returning(table),
            )  # fmt: skip
        columns = self.columns(table)
        return "UPDATE %s SET %s%s%s" % (
            self.spell(table), self.assignments(table, columns), self.filter(table), self.returning(table),
        )  # fmt: skip

    def filter(self, table):
        """A WHERE over TABLE, sometimes with a subquery over another."""
        columns = self.columns(table)
        if self.chance(25):
            column, kind = self.pick(columns)
            inner = self.inner(self.source(), kind)
            if inner and not kind.startswith(("MAP", "INTERVAL")):
                return " WHERE %s %s (%s)" % (column, self.pick(("IN", "NOT IN")), inner)
        return self.where(columns, 75)

    def keyed(self, table):
        """A source with one row for each number v and columns w, z: (text, the column of TABLE that v joins)."""
        numbers = [c for c in table.columns if c.type in WHOLE]
        other = self.source()
        theirs = [c.text for c in other.columns if c.type in WHOLE]
        if not numbers:
            return None, None
        column = self.pick(numbers)
        if not theirs or self.chance(25):
            rows = ["(%d, %s)" % (n, self.plain_literal("INTEGER")) for n in self.rnd.sample(range(30), 4)]
            return "(VALUES %s)" % ", ".join(rows), column
        v = self.pick(theirs)
        return "(SELECT %s, max(%s) FROM %s WHERE %s IS NOT NULL GROUP BY %s)" % (
            v, self.pick(theirs), self.spell(other), v, v,
        ), column  # fmt: skip

    def update_from(self, table):
        source, column = self.keyed(table)
        if source is None:
            return self.delete(table)
        columns = [*self.columns(table, "x"), ("s.v::INTEGER", "INTEGER"), ("s.w::INTEGER", "INTEGER")]
        return "UPDATE %s SET %s FROM %s AS s(v, w) WHERE x.%s = s.v%s" % (
            self.aliased(table, "x"), self.assignments(table, columns), source, column.text, self.returning(table, 20, "x"),
        )  # fmt: skip

    def delete(self, table):
        if self.chance(30):
            source, column = self.keyed(table)
            if source:
                return "DELETE FROM %s USING %s AS s(v, w) WHERE x.%s = s.v%s" % (
                    self.aliased(table, "x"), source, column.text, self.returning(table, 30, "x"),
                )  # fmt: skip
        return "DELETE FROM %s%s%s" % (self.spell(table), self.filter(table), self.returning(table))

    def truncate(self, table):
        return "%s %s" % (self.pick(("TRUNCATE", "DELETE FROM")), self.spell(table))

    def merge(self, table):
        source, column = self.keyed(table)
        if source is None:
            return self.insert(table)
        columns = self.columns(table, "x")
        reach = [*columns, ("s.w::INTEGER", "INTEGER")]
        parts = []
        if self.chance(30):
            action = self.pick(("DELETE", "DO NOTHING"))
            parts.append("WHEN MATCHED AND %s THEN %s" % (self.condition(reach, 0), action))
        if self.chance(80):
            parts.append("WHEN MATCHED THEN UPDATE SET " + self.assignments(table, reach))
        if self.chance(60):
            given = [c for c in table.plain if c.name in ("k", column.name) or not c.nullable or self.chance(30)]
            values = ["s.v" if c.name in ("k", column.name) else self.literal(c.type, 0) for c in given]
            parts.append("WHEN NOT MATCHED THEN INSERT (%s) VALUES (%s)" % (
                ", ".join(c.text for c in given), ", ".join(values)))  # fmt: skip
        if self.chance(15) or not parts:
            parts.append("WHEN NOT MATCHED BY SOURCE THEN " + self.pick(("DELETE", "UPDATE SET ")))
            if parts[-1].endswith("SET "):
                parts[-1] += self.assignments(table, columns)
        tail = self.pick(("", "", "", " RETURNING merge_action, *", " RETURNING *"))
        if "BY SOURCE THEN UPDATE" in parts[-1]:
            tail = ""  # DuckDB 1.5.5 returns columns that it never filled in, and may crash
        return "MERGE INTO %s USING %s AS s(v, w) ON x.%s = s.v %s%s" % (
            self.aliased(table, "x"), source, column.text, " ".join(parts), tail,
        )  # fmt: skip
