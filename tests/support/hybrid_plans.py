"""Random queries over tables of two places, each as plain SQL and with openduck_run."""

import random

import type_table

#: A type that is named in a database alone is another one elsewhere.
TYPES = sorted(n for n, t in type_table.SCALARS.items() if t[0] is not None)
#: DuckDB's own joins and groups of these do not always find equal values.
NOT_COMPARED = {"geometry", "variant", "json", "float", "double", "union"}
LOCAL = ("near", "near2", "near_none")
REMOTE = ("far", "far2", "far_none")
PLACE = {**dict.fromkeys(LOCAL, "LOCAL"), **dict.fromkeys(REMOTE, "REMOTE")}


def table_sql(name):
    """Keys with duplicates and NULLs, and a column of each type; none: the columns alone."""
    step, count = (7, 60) if name.endswith("2") else (5, 90)
    columns = ["CASE WHEN row %% 9 = 8 THEN NULL ELSE i %% 20 END::INTEGER AS k, i::BIGINT AS n" % ()]
    for kind in TYPES:
        sql_type, value = type_table.SCALARS[kind]
        columns.append("CASE WHEN row %% 7 = 6 THEN NULL ELSE %s END::%s AS c_%s" % (value, sql_type, kind))
    rows = "(SELECT row, row * %d %% 50 AS i FROM range(%d) t(row))" % (step, 0 if name.endswith("none") else count)
    return "CREATE TABLE %s AS SELECT %s FROM %s" % (name, ", ".join(columns), rows)


def quoted(text, random):
    if random.random() < 0.3 and "$q$" not in text:
        return "$q$%s$q$" % text
    return "'%s'" % text.replace("'", "''")


class Node:
    """A query with the columns k, n and v. TEXT has {0}, {1} where the nodes below stand as tables."""

    def __init__(self, place, text, below=(), tables=()):
        self.place, self.text, self.below, self.tables = place, text, below, tables

    def plain(self):
        return self.text.format(*("(%s)" % b.plain() for b in self.below))

    def hybrid(self, random):
        """The text, to be run at its place."""
        return self.text.format(*(b.as_table(self.place, random) for b in self.below))

    def as_table(self, at, random):
        text = self.hybrid(random)
        if self.place == at and random.random() < 0.6:
            return "(%s)" % text
        alone = not self.below and random.random() < 0.3
        name = random.choice(["openduck_run", "OPENDUCK_RUN", "openduck_Run"])
        where = random.choice(["AUTO", "auto"] if alone else [self.place, self.place.lower()])
        gap = random.choice(["", " ", " /* ' ) */ ", " -- (\n"])
        return "%s%s('%s',%s%s)" % (name, gap, where, gap, quoted(text, random))


class Plans:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.kind = self.random.choice(TYPES)

    def leaf(self):
        table = self.random.choice(LOCAL + REMOTE if self.random.random() < 0.4 else ("near", "far", "near2", "far2"))
        where = self.random.choice(
            ["", "", " WHERE k > 7", " WHERE n % 3 = 1", " WHERE k IS NULL", " WHERE c_%s IS NULL"]
        )
        return Node(
            PLACE[table], "SELECT k, n, c_%s AS v FROM %s%s" % (self.kind, table, where.replace("%s", self.kind))
        )

    def node(self, depth):
        if depth == 0 or self.random.random() < 0.1:
            return self.leaf()
        return getattr(self, self.random.choice(self.shapes()))(depth - 1)

    def shapes(self):
        every = ["join", "union", "semi", "count", "with_", "filter", "window"]
        return every if self.kind in NOT_COMPARED else [*every, "group", "distinct", "except_"]

    def place(self):
        return self.random.choice(["LOCAL", "REMOTE"])

    def two(self, text, depth):
        return Node(self.place(), text, (self.node(depth), self.node(depth)))

    def join(self, depth):
        kind = self.random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on = self.random.choice(["a.k = b.k", "a.k = b.k AND a.n < b.n + 9", "a.k IS NOT DISTINCT FROM b.k"])
        value = self.random.choice(["a.v", "b.v", "coalesce(a.v, b.v)"])
        return self.two(
            "SELECT coalesce(a.k, b.k) AS k, coalesce(a.n, 0) + coalesce(b.n, 0) AS n, %s AS v "
            "FROM {0} a %s {1} b ON %s" % (value, kind, on),
            depth,
        )

    def union(self, depth):
        return self.two("SELECT * FROM {0} UNION ALL SELECT * FROM {1}", depth)

    def semi(self, depth):
        how = self.random.choice(
            [
                "k IN (SELECT k FROM {1} b)",
                "EXISTS (FROM {1} b WHERE b.k = a.k)",
                "NOT EXISTS (FROM {1} b WHERE b.k = a.k)",
            ]
        )
        return self.two(
            "SELECT a.* FROM {0} a WHERE a.%s" % how if how[0] == "k" else "SELECT a.* FROM {0} a WHERE " + how, depth
        )

    def count(self, depth):
        return self.two("SELECT k, n + (SELECT count(v) FROM {1} b) AS n, v FROM {0} a", depth)

    def with_(self, depth):
        return self.two(
            "WITH x AS (FROM {0} a), y AS MATERIALIZED (SELECT * FROM {1} b WHERE n % 2 = 0) "
            "SELECT x.k, x.n, x.v FROM x JOIN y ON x.k = y.k UNION ALL SELECT * FROM x",
            depth,
        )

    def filter(self, depth):
        return Node(
            self.place(), "SELECT k, n, v FROM {0} a WHERE k BETWEEN 2 AND 15 OR v IS NULL", (self.node(depth),)
        )

    def window(self, depth):
        return Node(self.place(), "SELECT k, count(*) OVER (PARTITION BY k) AS n, v FROM {0} a", (self.node(depth),))

    def group(self, depth):
        return Node(
            self.place(),
            "SELECT k, (count(*) + coalesce(sum(n), 0))::BIGINT AS n, v FROM {0} a GROUP BY ALL HAVING count(*) > 0",
            (self.node(depth),),
        )

    def distinct(self, depth):
        return self.two("SELECT * FROM {0} a UNION SELECT * FROM {1} b", depth)

    def except_(self, depth):
        return self.two("SELECT * FROM {0} a EXCEPT SELECT * FROM {1} b", depth)


def make(seed):
    """(plain SQL, SQL with openduck_run) of one random query."""
    plans = Plans(seed)
    root = Node(plans.place(), "SELECT k, n, v FROM {0} q", (plans.node(plans.random.choice([1, 2, 2, 3])),))
    return root.plain(), "SELECT * FROM %s" % root.as_table("", plans.random)
