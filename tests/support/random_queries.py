"""Random queries over random tables, for comparing what runs at a server with what runs here."""

import random

from random_tables import CHOSEN, COMPARED, COMPUTED, CONSTANTS, INTEGERS, MIXED, SUMMED

#: Aggregates that give the same in whatever order rows come ({0}: a column of one of the types; {1}: a key), and their
#: type, None if it is not compared, and "" if it is the column's.
AGGREGATES = (
    (SUMMED, "sum({0})", None),
    (SUMMED, "avg({0})", None),
    (SUMMED, "sum(DISTINCT {0})", None),
    (SUMMED, "sum({0}) FILTER (WHERE {0} > 2)", None),
    (INTEGERS, "bit_xor({0})", ""),
    (INTEGERS, "bit_and({0})", ""),
    (INTEGERS, "median({0})", "DOUBLE"),
    (("BOOLEAN",), "bool_or({0})", "BOOLEAN"),
    (("BOOLEAN",), "bool_and({0})", "BOOLEAN"),
    (("BOOLEAN",), "count_if({0})", None),
    (("VARCHAR",), "string_agg(DISTINCT {0}, '+' ORDER BY {0})", "VARCHAR"),
    (COMPARED, "min({0})", ""),
    (COMPARED, "max({0})", ""),
    (COMPARED, "count({0})", "BIGINT"),
    (COMPARED, "count(DISTINCT {0})", "BIGINT"),
    (COMPARED, "list({0} ORDER BY {0})", None),
    (COMPARED, "quantile_disc({0}, 0.5)", ""),
    (COMPARED, "max({0}, 2)", None),
)
#: Of the sides of a join.
COMPARISONS = ("=", "=", "=", "=", "IS NOT DISTINCT FROM", "<", ">=", "<>")
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")


class Query:
    """A query. In its text `{t0}` stands for the table t0, wherever that is."""

    def __init__(self, sql, types, ordered):
        self.sql = sql
        #: Of its columns, as far as known: None if not.
        self.types = types
        #: Which rows come in which order is told by the text.
        self.ordered = ordered


class Queries:
    """Queries over TABLES."""

    def __init__(self, rnd, tables):
        self.rnd = rnd
        self.tables = tables
        self.aliases = 0
        #: What WITH has given names to: their columns' types.
        self.named = {}

    def pick(self, scope, types):
        """A column of one of TYPES, and its type."""
        found = [(name, t) for name, t in scope if t in types]
        return self.rnd.choice(found) if found else (None, None)

    def table(self):
        return self.rnd.choice(sorted(self.tables.columns))

    def chance(self, part):
        return self.rnd.random() < part

    def condition(self, scope, depth):
        r = self.rnd.random()
        name, sql_type = self.pick(scope, COMPARED)
        if self.chance(0.2):
            computed, computed_type = self.computed(scope)
            if computed_type in COMPARED:
                name, sql_type = computed, computed_type
        constant = self.rnd.choice(CONSTANTS[sql_type])
        if r < 0.26:
            return "%s %s %s" % (name, self.rnd.choice(("=", "<>", "<", ">=", "IS DISTINCT FROM")), constant)
        if r < 0.36:
            return "%s IS %sNULL" % (name, self.rnd.choice(("", "NOT ")))
        if r < 0.46:
            other, _ = self.pick(scope, MIXED if sql_type in MIXED else (sql_type,))
            return "%s %s %s" % (name, self.rnd.choice(("=", "<", "<>")), other or name)
        if r < 0.53:
            return self.text_condition(scope)
        if r < 0.63:
            return "(%s %s %s)" % (
                self.condition(scope, depth), self.rnd.choice(("AND", "OR")), self.condition(scope, depth),
            )  # fmt: skip
        if r < 0.68:
            return "NOT (%s)" % self.condition(scope, depth)
        if r < 0.74:
            listed = [self.rnd.choice(CONSTANTS[sql_type]) for _ in range(self.rnd.choice((1, 2, 2, 7)))]
            if self.chance(0.1):
                listed.append("NULL")
            return "%s %sIN (%s)" % (name, self.rnd.choice(("", "", "NOT ")), ", ".join(listed))
        if r < 0.78:
            return "%s %sBETWEEN %s AND %s" % (
                name, self.rnd.choice(("", "NOT ")), constant, self.rnd.choice(CONSTANTS[sql_type]),
            )  # fmt: skip
        if r < 0.8:
            other, other_type = self.pick(scope, COMPARED)
            return "(%s, %s) %s (%s, %s)" % (
                name, other, self.rnd.choice(("=", "<", "<>")), constant, self.rnd.choice(CONSTANTS[other_type]),
            )  # fmt: skip
        return self.subquery(scope, depth)

    def text_condition(self, scope):
        text, _ = self.pick(scope, ("VARCHAR",))
        if not text:
            return "true"
        return "%s %s" % (
            text,
            self.rnd.choice(
                ("LIKE 'a%'", "LIKE '%b_'", "LIKE '%'", "LIKE ''", "ILIKE 'A%'", "NOT LIKE '%b%'", "GLOB 'a*'",
                 "SIMILAR TO 'ab[0-2]'", "LIKE 'É!_!%' ESCAPE '!'"),
            ),
        )  # fmt: skip

    def subquery(self, scope, depth):
        """A condition with a subquery, which may name columns of SCOPE."""
        if depth <= 0:
            return "true"
        item, inner = self.item(depth - 1)
        name, sql_type = self.pick(inner, COMPARED)
        outer, _ = self.pick(scope, (sql_type,))
        where = "WHERE %s" % self.condition(inner, 0)
        if outer is None:
            return "EXISTS (SELECT 1 FROM %s %s)" % (item, where)
        key, key_type = self.pick(inner, COMPARED)
        other, _ = self.pick(scope, (key_type,))
        correlated = "AND %s = %s" % (key, other) if other else ""
        no = self.rnd.choice(("", "NOT "))
        kind = self.rnd.randrange(9)
        if kind == 0:
            return "%s %sIN (SELECT %s FROM %s %s)" % (outer, no, name, item, where)
        if kind == 1:
            return "%sEXISTS (SELECT 1 FROM %s %s AND %s = %s)" % (no, item, where, name, outer)
        if kind == 2 and other:
            return "%sEXISTS (SELECT 1 FROM %s WHERE %s = %s AND %s <> %s)" % (no, item, name, outer, key, other)
        if kind == 3:
            return "%s >= (SELECT %s(%s) FROM %s %s)" % (
                outer, self.rnd.choice(("min", "max")), name, item, where,
            )  # fmt: skip
        if kind == 4:
            return "%s %sIN (SELECT %s FROM %s %s %s)" % (outer, no, name, item, where, correlated)
        if kind == 5:
            return "%s %s %s (SELECT %s FROM %s %s)" % (
                outer, self.rnd.choice(("=", "<", ">=", "<>")), self.rnd.choice(("ANY", "ALL")), name, item, where,
            )  # fmt: skip
        if kind == 6 and other:
            return "(%s, %s) %sIN (SELECT %s, %s FROM %s %s)" % (outer, other, no, name, key, item, where)
        if kind == 7:
            return "(SELECT count(*) FROM %s %s %s) %s" % (
                item, where, correlated, self.rnd.choice(("= 0", "> 1", "BETWEEN 1 AND 3")),
            )  # fmt: skip
        return "%s = (SELECT %s(%s) FROM %s %s %s)" % (
            outer, self.rnd.choice(("min", "max")), name, item, where, correlated,
        )  # fmt: skip

    def alias(self):
        self.aliases += 1
        return "a%d" % self.aliases

    def item(self, depth):
        """Something behind FROM, and the columns that it gives."""
        alias = self.alias()
        if self.named and self.chance(0.4):
            name = self.rnd.choice(sorted(self.named))
            return "%s %s" % (name, alias), self.columns(alias, self.named[name])
        if depth > 0 and self.chance(0.3):
            sql, types = self.select(depth - 1)
            return "(%s) %s" % (sql, alias), self.columns(alias, types)
        if self.chance(0.2):
            kind = self.rnd.choice(
                (self.listed, self.listed, self.recursive, self.unnested, self.pivoted, self.unpivoted, self.sampled)
            )
            return kind(alias)
        table = self.table()
        return "{%s} %s" % (table, alias), [("%s.%s" % (alias, c), t) for c, t in self.tables.columns[table].items()]

    @staticmethod
    def columns(alias, types):
        return [("%s.x%d" % (alias, n), t) for n, t in enumerate(types)]

    def listed(self, alias):
        """Rows that stand in the text."""
        types = self.rnd.sample(("INTEGER", "VARCHAR", "BIGINT", "DECIMAL(9,2)", "DATE", "DOUBLE", "UUID"), 3)
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
        table = self.table()
        columns = self.tables.columns[table]
        lists = [c for c, t in columns.items() if t == "INTEGER[]"]
        item = self.rnd.choice(lists) if lists and self.chance(0.6) else "[c0, c0 % 3, NULL]"
        if self.chance(0.3):
            item = "range(id % 4)"
        scope = [("%s.%s" % (alias, c), t) for c, t in (*columns.items(), ("u", "INTEGER"))]
        if self.chance(0.3):
            inner = self.alias()
            names = ", ".join("%s.%s" % (inner, c) for c in columns)
            return "(SELECT %s, u::INTEGER AS u FROM {%s} %s, unnest(%s) e(u)) %s" % (
                names, table, inner, item.replace("c", inner + ".c").replace("id", inner + ".id"), alias,
            ), scope  # fmt: skip
        return "(SELECT *, unnest(%s)::INTEGER AS u FROM {%s}) %s" % (item, table, alias), scope

    def pivoted(self, alias):
        """A table's groups, with columns for some values of another column."""
        table = self.table()
        key, sql_type = self.rnd.choice([(c, t) for c, t in self.tables.columns[table].items() if t in COMPARED])
        if self.chance(0.5):
            on, values = "c1", ("'b'", "'ab1'", "''")
        else:
            on, values = "c0", ("3", "0", "-2")
        call = self.rnd.choice(("count(*)", "max(v)", "min(v)", "sum(v)"))
        return (
            "(PIVOT (SELECT %s AS g, %s AS k, id AS v FROM {%s}) ON k IN (%s, %s) USING %s GROUP BY g) %s(g, p, q)"
            % (key, on, table, *self.rnd.sample(values, 2), call, alias)
        ), [("%s.g" % alias, sql_type), *(("%s.%s" % (alias, c), None if "sum" in call else "BIGINT") for c in "pq")]

    def unpivoted(self, alias):
        """Some columns of a table as rows."""
        nulls = self.rnd.choice(("", "INCLUDE NULLS "))
        return (
            "(SELECT * FROM (SELECT id, c0 AS u, c0 %% 3 AS w FROM {%s}) UNPIVOT %s(v FOR n IN (u, w))) %s(id, n, v)"
            % (self.table(), nulls, alias)
        ), [("%s.id" % alias, "BIGINT"), ("%s.n" % alias, "VARCHAR"), ("%s.v" % alias, "INTEGER")]

    def sampled(self, alias):
        """A sample that has all rows, or of which it is only counted how many it has."""
        table = self.table()
        if self.chance(0.5):
            sample = self.rnd.choice(("reservoir(100000 ROWS) REPEATABLE (3)", "100 PERCENT (bernoulli)"))
            return "(SELECT * FROM {%s} USING SAMPLE %s) %s" % (table, sample, alias), [
                ("%s.%s" % (alias, c), t) for c, t in self.tables.columns[table].items()
            ]
        return "(SELECT count(*) AS n, 1 AS c0 FROM (SELECT c0 FROM {%s} USING SAMPLE reservoir(%d ROWS) %s)) %s" % (
            table, self.rnd.choice((1, 5, 30)), self.rnd.choice(("", "REPEATABLE (42)")), alias,
        ), [("%s.n" % alias, "BIGINT"), ("%s.c0" % alias, "INTEGER")]  # fmt: skip

    def recursive(self, alias):
        """What is reached from some rows, in a few steps."""
        word = self.rnd.choice(("", "ALL"))
        columns = [("%s.id" % alias, "BIGINT"), ("%s.c0" % alias, "INTEGER"), ("%s.n" % alias, "INTEGER")]
        if self.chance(0.3):
            return (
                "(WITH RECURSIVE r(id, c0, n) AS (SELECT 1::BIGINT, 1, 0 UNION %s SELECT id * 2, c0 + n, n + 1 FROM r "
                "WHERE n < %d) FROM r) %s"
            ) % (word, self.rnd.randrange(6), alias), columns
        return (
            "(WITH RECURSIVE r AS (SELECT id, c0, 0 AS n FROM {%s} WHERE id < 5 UNION %s SELECT x.id, x.c0, n + 1 "
            "FROM {%s} x JOIN r ON x.id = r.id * 2 + n WHERE n < 4) FROM r) %s"
        ) % (self.table(), word, self.table(), alias), columns

    def window(self, scope):
        """A window function that gives equal rows the same, or is ordered by a key, and its type."""
        key = self.rnd.choice([name for name, _ in scope])
        if key.endswith(".id") and len({name.split(".")[0] for name, _ in scope}) == 1 and self.chance(0.6):
            return self.ordered_window(scope, key)
        partition, _ = self.pick(scope, COMPARED)
        order, _ = self.pick(scope, COMPARED)
        over = "PARTITION BY %s" % partition if self.chance(0.7) else ""
        r = self.rnd.random()
        if r < 0.4:
            word = self.rnd.choice(("rank()", "dense_rank()"))
            way = self.rnd.choice(("", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
            return "%s OVER (%s ORDER BY %s%s)" % (word, over, order, way), "BIGINT"
        if r < 0.5:
            return "%s() OVER (%s ORDER BY %s)" % (
                self.rnd.choice(("percent_rank", "cume_dist")), over, order,
            ), "DOUBLE"  # fmt: skip
        if self.chance(0.6):
            over += " ORDER BY %s" % order
            if self.chance(0.4):
                over += " GROUPS BETWEEN %s AND %s%s" % (
                    self.rnd.choice(("UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW")),
                    self.rnd.choice(("UNBOUNDED FOLLOWING", "1 FOLLOWING", "CURRENT ROW")),
                    self.rnd.choice(("", "", " EXCLUDE GROUP", " EXCLUDE TIES")),
                )  # fmt: skip
        name, sql_type = self.aggregate(scope, plain=True)
        return "%s OVER (%s)" % (name, over), sql_type

    def ordered_window(self, scope, key):
        """A window function ordered by KEY, in which rows differ, and its type."""
        name, sql_type = self.pick(scope, COMPARED)
        partition, _ = self.pick(scope, COMPARED)
        over = "%s ORDER BY %s%s" % (
            "PARTITION BY %s" % partition if self.chance(0.5) else "", key, self.rnd.choice(("", " DESC")),
        )  # fmt: skip
        nulls = self.rnd.choice(("", " IGNORE NULLS"))
        call, result = self.rnd.choice(
            (
                ("row_number()", "BIGINT"), ("ntile(3)", "BIGINT"), ("lag(%s%s)" % (name, nulls), sql_type),
                ("lead(%s, 2%s)" % (name, nulls), sql_type), ("first_value(%s%s)" % (name, nulls), sql_type),
                ("last_value(%s)" % name, sql_type), ("nth_value(%s, 2)" % name, sql_type),
                ("max(%s)" % name, sql_type), ("count(%s)" % name, "BIGINT"),
                ("list(%s)" % name, None), ("count(DISTINCT %s)" % name, "BIGINT"),
            )
        )  # fmt: skip
        if not call.startswith(("row_number", "ntile", "la", "le")):
            frame = self.rnd.choice(("ROWS", "ROWS", "RANGE"))
            over += " %s BETWEEN %s AND %s%s" % (
                frame,
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
        for _ in range(self.rnd.choice((0, 0, 0, 1, 1, 2))):
            sql, scope = self.joined(sql, scope, depth)
        return sql, scope

    def joined(self, sql, scope, depth):
        """One more item behind those of SQL."""
        if depth > 0 and self.chance(0.08):
            return self.lateral(sql, scope, depth)
        item, inner = self.item(depth)
        keyed = inner[0][0].endswith(".id")
        if keyed and item.startswith("{") and self.chance(0.1):
            # The nearest row is one, since no two have the same key.
            key, _ = self.pick(scope, ("BIGINT",))
            if key:
                kind = self.rnd.choice(("ASOF JOIN", "ASOF LEFT JOIN"))
                return "%s %s %s ON %s >= %s" % (sql, kind, item, key, inner[0][0]), scope + inner
        kind = self.rnd.choice(JOINS)
        both = scope if kind in ("SEMI JOIN", "ANTI JOIN") else scope + inner
        if keyed and [name for name, _ in scope if name.endswith(".id")] == [scope[0][0]] and self.chance(0.06):
            if kind in ("SEMI JOIN", "ANTI JOIN") or self.chance(0.5):
                return "%s %s %s USING (id)" % (sql, kind, item), both
        name, sql_type = self.pick(inner, COMPARED)
        outer, _ = self.pick(scope, MIXED if sql_type in MIXED and self.chance(0.2) else (sql_type,))
        if outer is None:
            if item.startswith("(VALUES"):
                return "%s CROSS JOIN %s" % (sql, item), scope + inner
            return sql, scope
        # DuckDB 1.5.5 takes an ANTI JOIN for empty if statistics say that any two rows would be partners, though it has
        # none on one side.
        words = ("=", "IS NOT DISTINCT FROM") if kind == "ANTI JOIN" else COMPARISONS
        on = "%s %s %s" % (name, self.rnd.choice(words), outer)
        if self.chance(0.25):
            on += " AND %s" % self.condition(inner, 0)
        elif self.chance(0.15):
            on += " %s %s" % (self.rnd.choice(("AND", "OR")), self.condition(scope + inner, 0))
        return "%s %s %s ON %s" % (sql, kind, item, on), both

    def lateral(self, sql, scope, depth):
        """A subquery behind FROM that names columns of what stands before it."""
        item, inner = self.item(depth - 1)
        key, key_type = self.pick(inner, COMPARED)
        outer, _ = self.pick(scope, (key_type,))
        if outer is None:
            return sql, scope
        alias = self.alias()
        name, sql_type = self.pick(inner, COMPARED)
        if self.chance(0.5):
            name, sql_type = self.aggregate(inner)
            limit = ""
        else:
            limit = self.rnd.choice(("", "", " ORDER BY %s DESC LIMIT 2" % name))
        kind = self.rnd.choice((", LATERAL", " LEFT JOIN LATERAL"))
        return "%s%s (SELECT %s AS x0 FROM %s WHERE %s = %s%s) %s%s" % (
            sql, kind, name, item, key, outer, limit, alias, " ON true" if "LEFT" in kind else "",
        ), [*scope, ("%s.x0" % alias, sql_type)]  # fmt: skip

    def computed(self, scope):
        """Something of COMPUTED, and its type."""
        held = {t for _, t in scope}
        sql_type, template, result = self.rnd.choice([c for c in COMPUTED if c[0] in held] or COMPUTED)
        name, _ = self.pick(scope, (sql_type,))
        other, _ = self.pick(scope, (sql_type,))
        return (template.format(name, other), result) if name else (None, None)

    def value(self, scope, depth):
        """An expression over columns, and its type; None if a query may give it, but not compare it."""
        r = self.rnd.random()
        if r < 0.4:
            return self.rnd.choice(scope)
        if r < 0.58:
            computed, sql_type = self.computed(scope)
            if computed:
                return computed, sql_type
        if r < 0.66:
            name, sql_type = self.pick(scope, CHOSEN)
            if name is None:
                return self.rnd.choice(scope)
            return "CASE WHEN %s THEN %s END" % (self.condition(scope, 0), name), sql_type
        if r < 0.72:
            name, _ = self.pick(scope, ("VARCHAR",))
            if name:
                return self.rnd.choice(("upper(%s)", "%s || 'x'", "substring(%s, 1, 2)")) % name, "VARCHAR"
        if r < 0.78:
            name, _ = self.pick(scope, ("UTINYINT", "DECIMAL(9,2)"))
            if name:
                return "%s + %s" % (name, self.rnd.choice(("1", "2.5", name))), None
        if r < 0.84:
            return "(%s)" % self.condition(scope, depth), "BOOLEAN"
        if r < 0.88 and depth > 0:
            return self.scalar(scope, depth)
        if r < 0.92:
            name, sql_type = self.pick(scope, MIXED)
            other, other_type = self.pick(scope, MIXED)
            if name:
                return "coalesce(%s, %s)" % (name, other), sql_type if sql_type == other_type else None
        name, sql_type = self.pick(scope, CHOSEN)
        if name is None:
            return self.rnd.choice(scope)
        return "coalesce(%s, %s)" % (name, self.rnd.choice(CONSTANTS[sql_type])), sql_type

    def scalar(self, scope, depth):
        """A scalar subquery, and its type."""
        item, inner = self.item(depth - 1)
        key, key_type = self.pick(inner, COMPARED)
        outer, _ = self.pick(scope, (key_type,))
        name, sql_type = self.aggregate(inner)
        if inner[0][0].endswith(".id") and item.startswith("{") and self.chance(0.3):
            # A key: there is one row at most.
            outer, _ = self.pick(scope, ("BIGINT", "INTEGER"))
            name, sql_type = self.pick(inner, COMPARED)
            return "(SELECT %s FROM %s WHERE %s = %s)" % (name, item, inner[0][0], outer or "3"), sql_type
        where = " WHERE %s = %s" % (key, outer) if outer and self.chance(0.7) else ""
        return "(SELECT %s FROM %s%s)" % (name, item, where), sql_type

    def aggregate(self, scope, plain=False):
        """An aggregate, and its type. PLAIN: one that can stand before OVER with any frame."""
        if self.chance(0.2):
            return "count(*)", "BIGINT"
        types, template, result = self.rnd.choice(AGGREGATES)
        name, sql_type = self.pick(scope, types)
        if name is None or (plain and ("ORDER BY" in template or "DISTINCT" in template or "quantile" in template)):
            return "count(*)", "BIGINT"
        call = template.format(name)
        if not plain and "FILTER" not in call and self.chance(0.15):
            call += " FILTER (WHERE %s)" % self.condition(scope, 0)
        return call, sql_type if result == "" else result

    def select(self, depth):
        """A SELECT with columns x0, x1, ... and their types."""
        source, scope = self.source(depth)
        where = " WHERE %s" % self.condition(scope, depth) if self.chance(0.6) else ""
        r = self.rnd.random()
        if r < 0.4:
            found, tail = self.grouped(scope)
        else:
            found = [self.value(scope, depth) for _ in range(self.rnd.choice((1, 2, 3)))]
            if r > 0.85:
                found.append(self.window(scope))
            tail = ""
        if not any(t in COMPARED for _, t in found):
            found.append(("count(*)", "BIGINT") if r < 0.4 else self.pick(scope, COMPARED))
        types = [t for _, t in found]
        comparable = all(t in COMPARED for t in types)
        distinct = "DISTINCT " if 0.4 <= r < 0.5 and comparable else ""
        if 0.5 <= r < 0.53 and len({name.split(".")[0] for name, _ in scope}) == 1:
            tail = self.tail_of_a_key(scope)
            if tail.startswith(" ORDER BY"):
                distinct = "DISTINCT ON (%s) " % self.pick(scope, COMPARED)[0]
        columns = ", ".join("%s AS x%d" % (v, n) for n, (v, _) in enumerate(found))
        sql = "SELECT %s%s FROM %s%s%s" % (distinct, columns, source, where, tail)
        if depth > 0 and comparable and self.chance(0.1):
            return self.combined(sql, types), types
        if comparable and r > 0.78 and depth > 0:
            # Of rows that are equal in all columns it does not matter which are taken.
            limit = self.rnd.choice(("LIMIT %d", "LIMIT %d", "LIMIT %d OFFSET 2", "OFFSET %d")) % self.rnd.randrange(9)
            sql = "SELECT * FROM (%s) %s %s %s" % (sql, self.alias(), self.order(len(types)), limit)
        return sql, types

    def tail_of_a_key(self, scope):
        """DISTINCT ON's order, or QUALIFY, by the key of the only item, if it has one."""
        key = scope[0][0]
        if not key.endswith(".id"):
            return ""
        if self.chance(0.5):
            return " ORDER BY %s%s" % (key, self.rnd.choice(("", " DESC")))
        return " QUALIFY %s %s" % (
            "row_number() OVER (PARTITION BY %s ORDER BY %s)" % (self.pick(scope, COMPARED)[0], key),
            self.rnd.choice(("= 1", "<= 2", "> 1")),
        )

    def order(self, columns):
        """ORDER BY all columns."""
        return "ORDER BY " + ", ".join(
            "x%d%s" % (n, self.rnd.choice(("", " DESC", " NULLS FIRST", " DESC NULLS LAST"))) for n in range(columns)
        )

    def grouped(self, scope):
        """A grouping's columns, and what stands behind WHERE."""
        keys = [self.pick(scope, COMPARED) for _ in range(self.rnd.choice((0, 1, 1, 2, 3)))]
        if keys and self.chance(0.15):
            computed, sql_type = self.computed(scope)
            if sql_type in COMPARED:
                keys[0] = computed, sql_type
        found = keys + [self.aggregate(scope) for _ in range(self.rnd.choice((0, 1, 2) if keys else (1, 2)))]
        groups = self.groups(keys) if keys else ""
        tail = " GROUP BY %s" % groups if keys else ""
        if groups.startswith(("ROLLUP", "CUBE", "GROUPING")) and self.chance(0.4):
            found.append(("grouping(%s)" % self.rnd.choice(keys)[0], "BIGINT"))
        if keys and self.chance(0.3):
            call, sql_type = self.aggregate(scope)
            tail += " HAVING %s" % (
                "%s <> %s" % (call, self.rnd.choice(CONSTANTS[sql_type]))
                if sql_type in COMPARED and self.chance(0.4)
                else "count(*) > 1"
            )
        return found, tail

    def combined(self, sql, types):
        """SQL in a set operation with one or two others, as wide as it, of its types."""
        for _ in range(self.rnd.choice((1, 1, 1, 2))):
            other, others = self.item(0)
            picked = [self.pick(others, (t,))[0] or "CAST(NULL AS %s)" % t for t in types]
            word = self.rnd.choice(("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"))
            sql = "(%s) %s (SELECT %s FROM %s)" % (sql, word, ", ".join(picked), other)
        names = ", ".join("x%d" % n for n in range(len(types)))
        return "SELECT * FROM (%s) %s(%s)" % (sql, self.alias(), names)

    def query(self):
        self.aliases = 0
        self.named = {}
        clauses = []
        if self.chance(0.2):
            for name in ("w", "v")[: self.rnd.choice((1, 1, 2))]:
                sql, types = self.select(self.rnd.choice((0, 1, 1)))
                kept = self.rnd.choice(("", "", "MATERIALIZED ", "NOT MATERIALIZED "))
                clauses.append("%s AS %s(%s)" % (name, kept, sql))
                # Only now: it does not name itself.
                self.named[name] = types
        sql, types = self.select(self.rnd.choice((0, 0, 1, 1, 2)))
        ordered = all(t in COMPARED for t in types) and self.chance(0.3)
        if ordered:
            sql = "SELECT * FROM (%s) %s %s" % (sql, self.alias(), self.order(len(types)))
        if clauses:
            sql = "WITH %s %s" % (", ".join(clauses), sql)
        return Query(sql, types, ordered)


def queries(seed, tables):
    rnd = random.Random(seed)
    maker = Queries(rnd, tables)
    while True:
        yield maker.query()
