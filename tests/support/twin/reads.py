"""SELECTs over remote and local tables. Their results are sets, or ordered by all that they show."""
# ruff: noqa: E501

from twin.scope import quoted
from twin.values import NUMBERS, WHOLE, Values

UNSORTED = ("MAP", "INTERVAL")  # equal values that print differently, or no order


class Reads(Values):
    """Needs self.scope too."""

    whole_names = False

    def table(self, remote=None, written=False):
        """A table, remote ones more often; None when there is none of this kind."""
        if remote is None and self.chance(80):
            remote = True
        found = [
            t for t in self.scope.tables
            if (remote is None or t.remote == remote) and not (written and (t.view or not t.plain))
        ]  # fmt: skip
        return self.pick(found) if found else None

    def source(self):
        """A table of either side."""
        return self.table() or self.table(remote=False) or self.table(remote=True)

    def spell(self, table):
        """One of the ways to name TABLE here."""
        name, schema = quoted(table.name), quoted(table.schema)
        ways = ["%s.%s.%s" % (table.database, schema, name)]
        if self.whole_names:
            return ways[0]
        if table.schema == "main" and self.scope.use in (("memory", "main"), ("cloud", "main")):
            ways.append("%s.%s" % (table.database, name))
        if table.database == "temp":
            ways = [name, "temp.%s" % name]
        elif self.scope.use[0] == table.database:
            ways.append("%s.%s" % (schema, name))
            if self.scope.use[1] == table.schema:
                ways += [name, name]
        return self.pick(ways)

    def columns(self, table, alias=None):
        prefix = alias + "." if alias else ""
        return [(prefix + c.text, c.type) for c in table.columns]

    def aliased(self, table, alias):
        return "%s %s%s" % (self.spell(table), "AS " if self.chance(50) else "", alias)

    def select(self):
        """(text, whether its rows are in a total order)"""
        table = self.source()
        if table is None:
            return "SELECT 1", False
        form = self.pick((
            self.simple, self.simple, self.aggregate, self.grouped, self.join, self.join, self.window, self.subquery,
            self.set_operation, self.cte, self.distinct, self.whole, self.lateral, self.scalar,
        ))  # fmt: skip
        text = form(table)
        if self.chance(40):
            text += " ORDER BY ALL" + self.pick(("", "", " DESC", " NULLS FIRST"))
            if self.chance(30):
                text += " LIMIT %d" % self.rnd.randrange(12) + self.pick(("", " OFFSET 2"))
            return text, True
        return text, False

    def outputs(self, columns, most=4):
        """A select list: columns, expressions with and without names."""
        items = []
        for _ in range(self.rnd.randrange(1, most + 1)):
            text, kind = self.pick(columns)
            if self.chance(40):
                text = self.expr(kind, columns)
                if self.chance(60):
                    text += " AS e%d" % len(items)
            items.append(text)
        return ", ".join(items)

    def where(self, columns, percent=60):
        return " WHERE " + self.condition(columns) if self.chance(percent) else ""

    def whole(self, table):
        return "FROM %s" % self.spell(table)

    def simple(self, table):
        if self.chance(25):
            return "SELECT * FROM %s%s" % (self.spell(table), self.where(self.columns(table)))
        if self.chance(30):
            columns = self.columns(table, "x")
            return "SELECT %s FROM %s%s" % (self.outputs(columns), self.aliased(table, "x"), self.where(columns))
        if self.chance(15):
            name = self.spell(table)
            columns = self.columns(table, name if self.chance(50) else quoted(table.name))
            return "SELECT %s FROM %s%s" % (self.outputs(columns), name, self.where(columns))
        columns = self.columns(table)
        return "SELECT %s FROM %s%s" % (self.outputs(columns), self.spell(table), self.where(columns))

    def aggregates(self, columns):
        items = ["count(*)"]
        for _ in range(self.rnd.randrange(1, 4)):
            text, kind = self.pick(columns)
            if kind in NUMBERS:
                items.append("%s(%s)" % (self.pick(("sum", "min", "max", "count", "avg")), text))
            elif kind.startswith(UNSORTED):
                items.append("count(%s)" % text)
            else:
                items.append(self.pick((
                    "min(%s)" % text, "max(%s)" % text, "count(DISTINCT %s)" % text, "list(%s ORDER BY %s)" % (text, text),
                    "count(%s) FILTER (%s IS NOT NULL)" % (text, self.pick(columns)[0]),
                )))  # fmt: skip
        return ", ".join(items)

    def aggregate(self, table):
        columns = self.columns(table)
        return "SELECT %s FROM %s%s" % (self.aggregates(columns), self.spell(table), self.where(columns))

    def grouped(self, table):
        columns = self.columns(table)
        key = self.pick(columns)[0]
        text = "SELECT %s AS e, %s FROM %s%s GROUP BY %s" % (
            key, self.aggregates(columns), self.spell(table), self.where(columns, 30), self.pick((key, "ALL", "1")),
        )  # fmt: skip
        return text + self.pick(("", "", " HAVING count(*) > 1"))

    def pairs(self, left, right):
        """Conditions that join two tables with aliases x and y on columns of one type."""
        found = [
            "x.%s = y.%s" % (a.text, b.text)
            for a in left.columns for b in right.columns
            if (a.type == b.type or (a.type in WHOLE and b.type in WHOLE)) and not a.type.startswith("MAP")
        ]  # fmt: skip
        return found

    def join(self, table):
        other = self.source()
        on = self.pairs(table, other)
        if not on or table.rows * other.rows > 20000:
            return self.simple(table)
        columns = self.columns(table, "x")
        kind = self.pick(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"))
        both = columns if kind in ("SEMI JOIN", "ANTI JOIN") else columns + self.columns(other, "y")
        on = " AND ".join(self.rnd.sample(on, min(len(on), self.pick((1, 1, 2)))))
        what = self.outputs(both) if self.chance(60) else self.aggregates(both)
        return "SELECT %s FROM %s %s %s ON %s%s" % (
            what, self.aliased(table, "x"), kind, self.aliased(other, "y"), on, self.where(both, 40),
        )  # fmt: skip

    def window(self, table):
        columns = self.columns(table)
        by, kind = self.pick(columns)
        order = [text for text, t in columns if not t.startswith(UNSORTED)]
        if not order:
            return self.simple(table)
        what = self.pick(("rank()", "dense_rank()", "count(*)", "percent_rank()", "cume_dist()"))
        numbers = [text for text, t in columns if t in NUMBERS]
        if numbers and self.chance(50):
            what = "%s(%s)" % (self.pick(("sum", "min", "max")), self.pick(numbers))
        partition = "PARTITION BY %s " % by if self.chance(60) and not kind.startswith(UNSORTED) else ""
        return "SELECT %s, %s OVER (%sORDER BY %s) AS w FROM %s%s" % (
            self.pick(columns)[0], what, partition, self.pick(order), self.spell(table), self.where(columns, 30),
        )  # fmt: skip

    def inner(self, table, kind):
        """A subquery of one column of KIND over TABLE, and None if it has none."""
        found = [c.text for c in table.columns if c.type == kind]
        if not found:
            return None
        return "SELECT %s FROM %s%s" % (self.pick(found), self.spell(table), self.where(self.columns(table), 50))

    def subquery(self, table):
        other = self.source()
        if table.rows * other.rows > 20000:
            return self.simple(table)
        columns = self.columns(table, "x")
        text = "SELECT %s FROM %s WHERE " % (self.outputs(columns), self.aliased(table, "x"))
        on = self.pairs(table, other)
        if on and self.chance(50):
            return text + "%sEXISTS (FROM %s WHERE %s)" % (
                self.pick(("", "NOT ")), self.aliased(other, "y"), self.pick(on),
            )  # fmt: skip
        column, kind = self.pick(columns)
        inner = self.inner(other, kind)
        if inner is None or kind.startswith("MAP"):
            return text + self.condition(columns)
        if self.chance(30) and not kind.startswith(UNSORTED):
            return text + "%s >= (SELECT min(v) FROM (%s) AS i(v))" % (column, inner)
        return text + "%s %s (%s)" % (column, self.pick(("IN", "NOT IN")), inner)

    def scalar(self, table):
        other = self.source()
        on = self.pairs(table, other)
        if not on or table.rows * other.rows > 20000:
            return self.simple(table)
        return "SELECT %s, (SELECT count(*) FROM %s WHERE %s) AS n FROM %s" % (
            self.pick(self.columns(table, "x"))[0], self.aliased(other, "y"), self.pick(on), self.aliased(table, "x"),
        )  # fmt: skip

    def set_operation(self, table):
        kind = self.pick(table.columns).type
        other = self.inner(self.source(), kind)
        first = self.inner(table, kind)
        if other is None or kind.startswith(UNSORTED):
            return self.simple(table)
        return "%s %s %s" % (first, self.pick(("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL")), other)

    def cte(self, table):
        columns = self.columns(table)
        name = self.pick(("w", "w", quoted(table.name)))
        if self.chance(20):
            numbers = "SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5"
            return "WITH RECURSIVE r AS (%s) SELECT n, count(*) FROM r, %s GROUP BY n" % (numbers, self.spell(table))
        inner = "SELECT %s AS a, %s AS b FROM %s" % (self.pick(columns)[0], self.pick(columns)[0], self.spell(table))
        return "WITH %s AS %s(%s) SELECT a, count(b) AS n FROM %s GROUP BY a" % (
            name, self.pick(("", "", "MATERIALIZED ")), inner, name,
        )  # fmt: skip

    def distinct(self, table):
        return "SELECT DISTINCT %s FROM %s" % (self.pick(self.columns(table))[0], self.spell(table))

    def lateral(self, table):
        lists = [text for text, t in self.columns(table, "x") if t.endswith("[]")]
        if lists:
            return "SELECT unnest(%s) AS u FROM %s" % (self.pick(lists), self.aliased(table, "x"))
        numbers = [text for text, t in self.columns(table, "x") if t in WHOLE]
        if numbers:
            return "SELECT l.v FROM %s, LATERAL (SELECT %s * 2 AS v) AS l" % (
                self.aliased(table, "x"),
                self.pick(numbers),
            )
        return self.whole(table)

    def ordered_select(self, kinds, table=None):
        """A SELECT of columns of KINDS in a total order, over one table or a join."""
        table = table or self.source()
        columns = self.columns(table, "x")
        items = ["%s AS o%d" % (self.expr(kind, columns), n) for n, kind in enumerate(kinds)]
        return "SELECT %s FROM %s%s ORDER BY ALL" % (
            ", ".join(items),
            self.aliased(table, "x"),
            self.where(columns, 70),
        )

    def look(self):
        """A question to the catalog: (text, ordered)."""
        tables = [t for t in self.scope.tables if not t.view]  # of a view, defaults are shown or not
        name = self.spell(self.pick(tables)) if tables else "cloud.t0"
        return self.pick((
            ("DESCRIBE %s" % name, True), ("SHOW TABLES", True), ("SHOW TABLES FROM cloud", True),
            ("SELECT column_name, column_type, min, max, count FROM (SUMMARIZE %s)" % name, False),
            ("SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_catalog = 'cloud'", False),
            ("SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns"
             " WHERE table_catalog = 'cloud' AND table_name NOT IN (SELECT view_name FROM duckdb_views())", False),
            ("SELECT current_database(), current_schema()", True),
            ("SELECT count(*) FROM duckdb_tables() WHERE database_name = 'cloud'", True),
            ("SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info('%s') ORDER BY cid"
             % name.replace("'", "''"), True),
            ("SELECT * FROM (SHOW ALL TABLES) WHERE name NOT IN (SELECT view_name FROM duckdb_views())", False),
        ))  # fmt: skip
