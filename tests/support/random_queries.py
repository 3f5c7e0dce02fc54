"""Random tables and random queries over them, for comparing what runs at a server with what runs here."""

import random

# Types that queries compute with, and expressions for their values; NULLs are added.
VALUES = {
    "INTEGER": ("(i * 7 % 23 - 9)", "CASE i % 9 WHEN 0 THEN 2147483647 WHEN 1 THEN -2147483648 ELSE i % 5 END"),
    "BIGINT": ("i % 12", "CASE i % 11 WHEN 0 THEN 9223372036854775807 ELSE i * 3 % 14 END"),
    "UTINYINT": ("i % 256", "255 - i % 3"),
    "HUGEINT": ("i::HUGEINT * 1000000000000000000 % 7", "i % 6 - 3"),
    "DECIMAL(9,2)": ("(i % 17) * 1.25", "CASE i % 8 WHEN 0 THEN 9999999.99 ELSE -0.01 * (i % 9) END"),
    "DECIMAL(38,4)": ("(i % 9) * 10.5", "-1.0001 * (i % 4)"),
    "DOUBLE": ("i % 10 / 4", "CASE i % 7 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN '-inf'::DOUBLE ELSE i % 3 END"),
    "FLOAT": ("i % 6", "CASE i % 5 WHEN 0 THEN 'inf'::FLOAT ELSE i % 4 / 8 END"),
    "VARCHAR": ("chr((97 + i % 6)::INTEGER)", "CASE i % 6 WHEN 0 THEN '' WHEN 1 THEN 'É_%' ELSE 'ab' || i % 4 END"),
    "DATE": ("DATE '2000-01-01' + (i % 9)::INTEGER", "CASE i % 8 WHEN 0 THEN 'infinity' ELSE '1999-12-31' END::DATE"),
    "TIMESTAMP": ("TIMESTAMP '2000-01-01' + to_hours(i % 8)", "'1970-01-01 00:00:00.000001'::TIMESTAMP"),
    "BOOLEAN": ("i % 2 = 0", "i % 3 = 0"),
    "UUID": ("md5((i % 5)::VARCHAR)::UUID", "md5('x')::UUID"),
    "BLOB": ("chr((97 + i % 4)::INTEGER)::BLOB", "'\\x00\\xFF'::BLOB"),
    "INTERVAL": ("to_days((i % 4)::INTEGER)", "to_months((i % 3)::INTEGER)"),
    "TIMESTAMPTZ": ("TIMESTAMPTZ '2000-01-01 00:00:00+00' + to_hours(i % 5)", "'infinity'::TIMESTAMPTZ"),
    "ENUM('a', 'c', 'b')": ("['a', 'c', 'b'][(1 + i % 3)::INTEGER]", "'b'"),
    "INTEGER[]": ("[i % 3, NULL]", "[]::INTEGER[]"),
    "STRUCT(a INTEGER, b VARCHAR)": ("{'a': i % 4, 'b': 's'}", "{'a': NULL, 'b': 'x'}"),
}
NUMBERS = ("INTEGER", "BIGINT", "UTINYINT", "HUGEINT", "DECIMAL(9,2)", "DECIMAL(38,4)")
SUMMED = ("INTEGER", "BIGINT", "UTINYINT", "DECIMAL(9,2)")
COMPARED = (
    *NUMBERS, "DOUBLE", "FLOAT", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN", "UUID", "BLOB", "TIMESTAMPTZ",
    "ENUM('a', 'c', 'b')",
)  # fmt: skip
CONSTANTS = {
    "INTEGER": ("3", "-2147483648", "0"),
    "BIGINT": ("5", "9223372036854775807"),
    "UTINYINT": ("255", "7"),
    "HUGEINT": ("2", "-1"),
    "DECIMAL(9,2)": ("2.5", "9999999.99", "0.01"),
    "DECIMAL(38,4)": ("10.5", "-1.0001"),
    "DOUBLE": ("0.5", "'nan'::DOUBLE", "'-inf'::DOUBLE"),
    "FLOAT": ("1", "'inf'::FLOAT"),
    "VARCHAR": ("'b'", "''", "'É_%'", "'ab1'"),
    "DATE": ("DATE '2000-01-03'", "DATE 'infinity'"),
    "TIMESTAMP": ("TIMESTAMP '2000-01-01 03:00:00'",),
    "BOOLEAN": ("true", "false"),
    "UUID": ("md5('1')::UUID",),
    "BLOB": ("'a'::BLOB", "'\\x00\\xFF'::BLOB"),
    "TIMESTAMPTZ": ("TIMESTAMPTZ '2000-01-01 02:00:00+00'",),
    "ENUM('a', 'c', 'b')": ("'c'::ENUM('a', 'c', 'b')", "'b'::ENUM('a', 'c', 'b')"),
}
#: What is computed of one column ({0}) or two of a type, and its type; None: it is not compared. No zero has a sign: of
#: two that are equal any could come.
COMPUTED = (
    ("INTEGER", "{0} / 2", "DOUBLE"),
    ("INTEGER", "{0} / {1} + 0", "DOUBLE"),
    ("INTEGER", "{0} % 3", "INTEGER"),
    ("INTEGER", "{0} // 4", "INTEGER"),
    ("INTEGER", "round({0}, -1)", "INTEGER"),
    ("INTEGER", "TRY_CAST({0} AS UTINYINT)", "UTINYINT"),
    ("BIGINT", "{0} % 1000", "BIGINT"),
    ("BIGINT", "{0} & 6", "BIGINT"),
    ("BIGINT", "hex({0})", "VARCHAR"),
    ("UTINYINT", "{0} % {1}", "UTINYINT"),
    ("UTINYINT", "{0} // {1}", "UTINYINT"),
    ("DECIMAL(9,2)", "{0} % {1}", "DECIMAL(9,2)"),
    ("DECIMAL(9,2)", "{0} / {1} + 0", "DOUBLE"),
    ("DECIMAL(9,2)", "{0}::VARCHAR", "VARCHAR"),
    ("DOUBLE", "{0} / {1} + 0", "DOUBLE"),
    ("DOUBLE", "{0} % {1} + 0", "DOUBLE"),
    ("DOUBLE", "floor({0})", "DOUBLE"),
    ("DOUBLE", "greatest({0}, {1})", "DOUBLE"),
    ("FLOAT", "{0} / {1} + 0", "FLOAT"),
    ("FLOAT", "abs({0})", "FLOAT"),
    ("VARCHAR", "concat({0}, {1})", "VARCHAR"),
    ("VARCHAR", "replace({0}, 'a', {1})", "VARCHAR"),
    ("VARCHAR", "regexp_replace({0}, '[a-c]', '.')", "VARCHAR"),
    ("VARCHAR", "instr({0}, {1})", "BIGINT"),
    ("VARCHAR", "levenshtein({0}, {1})", "BIGINT"),
    ("VARCHAR", "TRY_CAST({0} AS DOUBLE)", "DOUBLE"),
    ("DATE", "year({0})", "BIGINT"),
    ("DATE", "dayname({0})", "VARCHAR"),
    ("DATE", "date_trunc('month', {0})", None),
    ("TIMESTAMP", "hour({0})", "BIGINT"),
    ("TIMESTAMP", "{0}::DATE", "DATE"),
    ("BLOB", "octet_length({0})", "BIGINT"),
    ("ENUM('a', 'c', 'b')", "{0}::VARCHAR", "VARCHAR"),
    ("ENUM('a', 'c', 'b')", "greatest({0}, {1})", "ENUM('a', 'c', 'b')"),
    ("INTEGER[]", "len({0})", "BIGINT"),
    ("INTEGER[]", "list_contains({0}, 2)", "BOOLEAN"),
)


class Tables:
    """Names, columns and the statements that make some tables. Every one begins with a key, `id`."""

    def __init__(self, rnd):
        self.columns = {}
        self.statements = []
        for n in range(4):
            name = "t%d" % n
            # Some types in every table, so that tables can be joined.
            types = ["INTEGER", "VARCHAR", *rnd.sample(sorted(VALUES), 5)]
            rows = rnd.choice((0, 1, 7, 40, 150, 150))
            columns = {"id": "BIGINT"}
            parts = ["i AS id"]
            for k, sql_type in enumerate(types):
                nulls = rnd.choice((2, 5, 9, 1000000))
                value = rnd.choice(VALUES[sql_type])
                columns["c%d" % k] = sql_type
                parts.append("CASE WHEN (i + %d) %% %d > 0 THEN %s END::%s AS c%d" % (n, nulls, value, sql_type, k))
            self.columns[name] = columns
            self.statements.append("CREATE TABLE %s AS SELECT %s FROM range(%d) r(i)" % (name, ", ".join(parts), rows))
            if rnd.random() < 0.7:
                self.statements.append("ALTER TABLE %s ADD PRIMARY KEY (id)" % name)


class Queries:
    """Queries over TABLES. In their text `{t0}` stands for the table t0, wherever that is."""

    def __init__(self, rnd, tables):
        self.rnd = rnd
        self.tables = tables
        self.aliases = 0

    def pick(self, scope, types):
        """A column of one of TYPES, and its type."""
        found = [(name, t) for name, t in scope if t in types]
        return self.rnd.choice(found) if found else (None, None)

    def condition(self, scope, depth):
        r = self.rnd.random()
        name, sql_type = self.pick(scope, COMPARED)
        if self.rnd.random() < 0.2:
            computed, computed_type = self.computed(scope)
            if computed_type in COMPARED:
                name, sql_type = computed, computed_type
        constant = self.rnd.choice(CONSTANTS[sql_type])
        if r < 0.3:
            return "%s %s %s" % (name, self.rnd.choice(("=", "<>", "<", ">=", "IS DISTINCT FROM")), constant)
        if r < 0.4:
            return "%s IS %sNULL" % (name, self.rnd.choice(("", "NOT ")))
        if r < 0.5:
            other, _ = self.pick(scope, (sql_type,))
            return "%s %s %s" % (name, self.rnd.choice(("=", "<", "<>")), other)
        if r < 0.58:
            text, _ = self.pick(scope, ("VARCHAR",))
            return "%s LIKE '%s'" % (text, self.rnd.choice(("a%", "%b_", "%", ""))) if text else "true"
        if r < 0.68:
            return "(%s %s %s)" % (
                self.condition(scope, depth), self.rnd.choice(("AND", "OR")), self.condition(scope, depth),
            )  # fmt: skip
        if r < 0.74:
            return "NOT (%s)" % self.condition(scope, depth)
        if r < 0.8:
            return "%s IN (%s, %s)" % (name, constant, self.rnd.choice(CONSTANTS[sql_type]))
        return self.subquery(scope, depth)

    def subquery(self, scope, depth):
        if depth <= 0:
            return "true"
        item, inner = self.item(depth - 1)
        name, sql_type = self.pick(inner, COMPARED)
        outer, _ = self.pick(scope, (sql_type,))
        where = "WHERE %s" % self.condition(inner, 0)
        if outer is None:
            return "EXISTS (SELECT 1 FROM %s %s)" % (item, where)
        kind = self.rnd.randrange(5)
        if kind == 0:
            return "%s %sIN (SELECT %s FROM %s %s)" % (outer, self.rnd.choice(("", "NOT ")), name, item, where)
        if kind == 1:
            return "%sEXISTS (SELECT 1 FROM %s %s AND %s = %s)" % (
                self.rnd.choice(("", "NOT ")), item, where, name, outer,
            )  # fmt: skip
        if kind == 2:
            key, key_type = self.pick(inner, COMPARED)
            other, _ = self.pick(scope, (key_type,))
            if other is None:
                return "true"
            return "%sEXISTS (SELECT 1 FROM %s WHERE %s = %s AND %s <> %s)" % (
                self.rnd.choice(("", "NOT ")), item, name, outer, key, other,
            )  # fmt: skip
        if kind == 3:
            return "%s >= (SELECT %s(%s) FROM %s %s)" % (
                outer, self.rnd.choice(("min", "max")), name, item, where,
            )  # fmt: skip
        key, key_type = self.pick(inner, COMPARED)
        other, _ = self.pick(scope, (key_type,))
        correlated = "AND %s = %s" % (key, other) if other else ""
        return "%s = (SELECT %s(%s) FROM %s %s %s)" % (
            outer, self.rnd.choice(("min", "max")), name, item, where, correlated,
        )  # fmt: skip

    def alias(self):
        self.aliases += 1
        return "a%d" % self.aliases

    def item(self, depth):
        """Something behind FROM, and the columns that it gives."""
        alias = self.alias()
        if depth > 0 and self.rnd.random() < 0.35:
            sql, types = self.select(depth - 1)
            return "(%s) %s" % (sql, alias), [("%s.x%d" % (alias, n), t) for n, t in enumerate(types)]
        if self.rnd.random() < 0.08:
            return self.listed(alias)
        if self.rnd.random() < 0.05:
            return self.recursive(alias)
        if self.rnd.random() < 0.05:
            return self.unnested(alias)
        table = self.rnd.choice(sorted(self.tables.columns))
        return "{%s} %s" % (table, alias), [("%s.%s" % (alias, c), t) for c, t in self.tables.columns[table].items()]

    def listed(self, alias):
        """Rows that stand in the text."""
        types = self.rnd.sample(("INTEGER", "VARCHAR", "BIGINT", "DECIMAL(9,2)"), 3)
        values = [(*CONSTANTS[t], "NULL") for t in types]
        rows = [
            "(%s)" % ", ".join("CAST(%s AS %s)" % (self.rnd.choice(v), t) for v, t in zip(values, types))
            for _ in range(self.rnd.randrange(1, 6))
        ]
        columns = ["c%d" % n for n in range(len(types))]
        return "(VALUES %s) %s(%s)" % (", ".join(rows), alias, ", ".join(columns)), [
            ("%s.%s" % (alias, c), t) for c, t in zip(columns, types)
        ]

    def unnested(self, alias):
        """A table's rows, once for each element of a list."""
        table = self.rnd.choice(sorted(self.tables.columns))
        columns = self.tables.columns[table]
        lists = [c for c, t in columns.items() if t == "INTEGER[]"]
        item = self.rnd.choice(lists) if lists and self.rnd.random() < 0.7 else "[c0, c0 % 3, NULL]"
        return "(SELECT *, unnest(%s)::INTEGER AS u FROM {%s}) %s" % (item, table, alias), [
            ("%s.%s" % (alias, c), t) for c, t in (*columns.items(), ("u", "INTEGER"))
        ]

    def recursive(self, alias):
        """What is reached from some rows, in a few steps."""
        one, other = self.rnd.choice(sorted(self.tables.columns)), self.rnd.choice(sorted(self.tables.columns))
        return (
            "(WITH RECURSIVE r AS (SELECT id, c0, 0 AS n FROM {%s} WHERE id < 5 UNION %s SELECT x.id, x.c0, n + 1 "
            "FROM {%s} x JOIN r ON x.id = r.id * 2 + n WHERE n < 4) FROM r) %s"
        ) % (one, self.rnd.choice(("", "ALL")), other, alias), [
            ("%s.id" % alias, "BIGINT"), ("%s.c0" % alias, "INTEGER"), ("%s.n" % alias, "INTEGER"),
        ]  # fmt: skip

    def window(self, scope):
        """A window function that gives equal rows the same, or is ordered by a key, and its type."""
        key = self.rnd.choice([name for name, _ in scope])
        if key.endswith(".id") and len({name.split(".")[0] for name, _ in scope}) == 1 and self.rnd.random() < 0.6:
            return self.ordered_window(scope, key)
        partition, _ = self.pick(scope, COMPARED)
        order, _ = self.pick(scope, COMPARED)
        over = "PARTITION BY %s" % partition if self.rnd.random() < 0.7 else ""
        r = self.rnd.random()
        if r < 0.4:
            word = self.rnd.choice(("rank()", "dense_rank()"))
            way = self.rnd.choice(("", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
            return "%s OVER (%s ORDER BY %s%s)" % (word, over, order, way), "BIGINT"
        if r < 0.5:
            return "%s() OVER (%s ORDER BY %s)" % (
                self.rnd.choice(("percent_rank", "cume_dist")),
                over,
                order,
            ), "DOUBLE"
        if self.rnd.random() < 0.6:
            over += " ORDER BY %s" % order
            if self.rnd.random() < 0.4:
                over += " GROUPS BETWEEN %s AND %s" % (
                    self.rnd.choice(("UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW")),
                    self.rnd.choice(("UNBOUNDED FOLLOWING", "1 FOLLOWING", "CURRENT ROW")),
                )  # fmt: skip
        name, sql_type = self.aggregate(scope)
        return "%s OVER (%s)" % (name, over), sql_type

    def ordered_window(self, scope, key):
        """A window function ordered by KEY, in which rows differ, and its type."""
        name, sql_type = self.pick(scope, COMPARED)
        partition, _ = self.pick(scope, COMPARED)
        over = "%s ORDER BY %s%s" % (
            "PARTITION BY %s" % partition if self.rnd.random() < 0.5 else "", key, self.rnd.choice(("", " DESC")),
        )  # fmt: skip
        nulls = self.rnd.choice(("", " IGNORE NULLS"))
        call, result = self.rnd.choice(
            (
                ("row_number()", "BIGINT"), ("ntile(3)", "BIGINT"), ("lag(%s%s)" % (name, nulls), sql_type),
                ("lead(%s, 2%s)" % (name, nulls), sql_type), ("first_value(%s%s)" % (name, nulls), sql_type),
                ("last_value(%s)" % name, sql_type), ("nth_value(%s, 2)" % name, sql_type),
                ("max(%s)" % name, sql_type), ("count(%s)" % name, "BIGINT"),
            )
        )  # fmt: skip
        if not call.startswith(("row_number", "ntile", "la", "le")):
            over += " ROWS BETWEEN %s AND %s%s" % (
                self.rnd.choice(("UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW")),
                self.rnd.choice(("UNBOUNDED FOLLOWING", "1 FOLLOWING", "CURRENT ROW")),
                self.rnd.choice(("", "", " EXCLUDE CURRENT ROW", " EXCLUDE TIES")),
            )  # fmt: skip
        return "%s OVER (%s)" % (call, over), result

    def groups(self, keys):
        """What stands behind GROUP BY."""
        names = [k for k, _ in keys]
        r = self.rnd.random()
        if len(set(names)) < len(names) or r < 0.7:
            return ", ".join(names)
        if r < 0.85:
            return "%s(%s)" % (self.rnd.choice(("ROLLUP", "CUBE")), ", ".join(names))
        sizes = [len(names)] + [self.rnd.randint(0, len(names)) for _ in range(2)]
        sets = ["(%s)" % ", ".join(self.rnd.sample(names, size)) for size in sizes]
        return "GROUPING SETS (%s)" % ", ".join(sets)

    def source(self, depth):
        sql, scope = self.item(depth)
        for _ in range(self.rnd.choice((0, 0, 1, 1, 2))):
            item, inner = self.item(depth)
            kind = self.rnd.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"))
            if inner[0][0].endswith(".id") and " " in item and item.startswith("{") and self.rnd.random() < 0.1:
                # The nearest row is one, since no two have the same key.
                key, _ = self.pick(scope, ("BIGINT",))
                if key:
                    kind = self.rnd.choice(("ASOF JOIN", "ASOF LEFT JOIN"))
                    sql = "%s %s %s ON %s >= %s" % (sql, kind, item, key, inner[0][0])
                    scope = scope + inner
                    continue
            name, sql_type = self.pick(inner, COMPARED)
            outer, _ = self.pick(scope, (sql_type,))
            if outer is None:
                continue
            on = "%s %s %s" % (name, self.rnd.choice(("=", "=", "=", "IS NOT DISTINCT FROM")), outer)
            if self.rnd.random() < 0.25:
                on += " AND %s" % self.condition(inner, 0)
            sql = "%s %s %s ON %s" % (sql, kind, item, on)
            if kind not in ("SEMI JOIN", "ANTI JOIN"):
                scope = scope + inner
        return sql, scope

    def computed(self, scope):
        """Something of COMPUTED, and its type."""
        sql_type, template, result = self.rnd.choice(COMPUTED)
        name, _ = self.pick(scope, (sql_type,))
        other, _ = self.pick(scope, (sql_type,))
        return (template.format(name, other), result) if name else (None, None)

    def value(self, scope):
        """An expression over columns, and its type; None if a query may give it, but not compare it."""
        r = self.rnd.random()
        if r < 0.45:
            return self.rnd.choice(scope)
        if r < 0.6:
            computed, sql_type = self.computed(scope)
            if computed:
                return computed, sql_type
        if r < 0.7:
            name, sql_type = self.pick(scope, COMPARED)
            return "CASE WHEN %s THEN %s END" % (self.condition(scope, 0), name), sql_type
        if r < 0.8:
            name, _ = self.pick(scope, ("VARCHAR",))
            if name:
                return self.rnd.choice(("upper(%s)", "%s || 'x'", "substring(%s, 1, 2)")) % name, "VARCHAR"
        if r < 0.9:
            name, _ = self.pick(scope, ("UTINYINT", "DECIMAL(9,2)"))
            if name:
                return "%s + %s" % (name, self.rnd.choice(("1", "2.5", name))), None
        name, sql_type = self.pick(scope, COMPARED)
        return "coalesce(%s, %s)" % (name, self.rnd.choice(CONSTANTS[sql_type])), sql_type

    def aggregate(self, scope):
        r = self.rnd.random()
        if r < 0.25:
            return "count(*)", "BIGINT"
        name, sql_type = self.pick(scope, SUMMED if r < 0.5 else COMPARED)
        if name is None:
            return "count(*)", "BIGINT"
        if r < 0.5:
            return "%s(%s)" % (self.rnd.choice(("sum", "avg")), name), None
        if r < 0.6:
            return "count(%s%s)" % (self.rnd.choice(("", "DISTINCT ")), name), "BIGINT"
        if r < 0.7:
            return "max(%s) FILTER (WHERE %s)" % (name, self.condition(scope, 0)), sql_type
        return "%s(%s)" % (self.rnd.choice(("min", "max")), name), sql_type

    def select(self, depth):
        """A SELECT with columns x0, x1, ... and their types."""
        source, scope = self.source(depth)
        where = " WHERE %s" % self.condition(scope, depth) if self.rnd.random() < 0.6 else ""
        r = self.rnd.random()
        if r < 0.4:
            keys = [self.pick(scope, COMPARED) for _ in range(self.rnd.choice((0, 1, 1, 2)))]
            found = keys + [self.aggregate(scope) for _ in range(self.rnd.choice((1, 2)))]
            tail = " GROUP BY %s" % self.groups(keys) if keys else ""
            if keys and self.rnd.random() < 0.3:
                tail += " HAVING count(*) > 1"
        else:
            found = [self.value(scope) for _ in range(self.rnd.choice((1, 2, 3)))]
            if r > 0.9:
                found.append(self.window(scope))
            tail = ""
        if not any(t in COMPARED for _, t in found):
            found.append(self.aggregate(scope) if r < 0.4 else self.pick(scope, COMPARED))
        found = [(v, t) for v, t in found if v is not None]
        if not any(t in COMPARED for _, t in found):
            found.append(("count(*)", "BIGINT") if r < 0.4 else self.pick(scope, COMPARED))
        comparable = all(t in COMPARED for _, t in found)
        distinct = "DISTINCT " if 0.4 <= r < 0.5 and comparable else ""
        columns = ", ".join("%s AS x%d" % (v, n) for n, (v, _) in enumerate(found))
        sql = "SELECT %s%s FROM %s%s%s" % (distinct, columns, source, where, tail)
        if depth > 0 and comparable and r > 0.9:
            # As wide as the first, of its types.
            types = [t for _, t in found]
            other, others = self.item(0)
            picked = [self.pick(others, (t,))[0] or "CAST(NULL AS %s)" % t for t in types]
            word = self.rnd.choice(("UNION", "UNION ALL", "EXCEPT", "INTERSECT"))
            sql = "(%s) %s (SELECT %s FROM %s)" % (sql, word, ", ".join(picked), other)
            return "SELECT * FROM (%s) %s(%s)" % (
                sql, self.alias(), ", ".join("x%d" % n for n in range(len(types))),
            ), types  # fmt: skip
        if comparable and r > 0.8 and depth > 0:
            # Of rows that are equal in all columns it does not matter which are taken.
            order = ", ".join("x%d%s" % (n, self.rnd.choice(("", " DESC", " NULLS FIRST"))) for n in range(len(found)))
            sql = "SELECT * FROM (%s) %s ORDER BY %s LIMIT %d" % (sql, self.alias(), order, self.rnd.randrange(1, 9))
        return sql, [t for _, t in found]

    def query(self):
        sql, _ = self.select(2)
        if self.rnd.random() < 0.15:
            alias = self.alias()
            other = self.alias()
            sql = "WITH w AS (%s) SELECT %s.x0, %s.x0 AS y FROM w %s, w %s WHERE %s.x0 IS NOT DISTINCT FROM %s.x0" % (
                sql, alias, other, alias, other, alias, other,
            )  # fmt: skip
        return sql


def tables(seed):
    return Tables(random.Random(seed))


def queries(seed, made):
    rnd = random.Random(seed)
    maker = Queries(rnd, made)
    while True:
        yield maker.query()
