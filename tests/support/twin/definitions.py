"""CREATE, ALTER, DROP and COMMENT in their forms."""
# ruff: noqa: E501

from twin.scope import ENUM, WORDS, quoted
from twin.values import TYPES, WHOLE
from twin.writes import Writes

NAMES = ("a", "b", "c", "d", "e", "select", "a b", "Ünï", "long_name", 'q"q')
MOST_TABLES = 14


class Definitions(Writes):
    number = 0

    def new(self, letter):
        self.number += 1
        return "%s%d" % (letter, self.number)

    def schema(self):
        return self.pick(["main", "main", *self.scope.schemas])

    def place(self, letter):
        """A new name in a schema of cloud, or as the session's USE allows."""
        schema, name = self.schema(), self.new(letter)
        if schema == "main" and self.chance(50):
            return "cloud." + name
        if self.scope.use[0] == "cloud" and self.chance(50):
            return self.pick(("%s.%s" % (quoted(schema), name), name))
        return self.scope.full(schema, name)

    def define(self):
        many = len([t for t in self.scope.tables if t.remote and not t.view]) > MOST_TABLES
        forms = [self.create_table] * (0 if many else 6) + [self.drop_table] * (6 if many else 1)
        forms += [self.create_as] * (0 if many else 3) + [self.alter] * 8 + [self.create_view] * 2
        forms += [self.create_index] * 2 + [self.create_sequence, self.create_type, self.create_macro, self.comment]
        forms += [
            self.create_schema,
            self.drop_schema,
            self.drop_other,
            self.local_table,
            self.drop_view,
            self.alter_view,
        ]
        return self.pick(forms)()

    def column_type(self):
        if self.scope.types and self.chance(10):
            return self.scope.full(*self.pick(self.scope.types))
        return self.pick(TYPES[:9]) if self.chance(70) else self.pick((*TYPES, ENUM, "INTEGER"))

    def create_table(self):
        names = ["k", *self.rnd.sample(NAMES, self.rnd.randrange(1, 6))]
        key = self.pick(("", "PRIMARY KEY", "PRIMARY KEY", "UNIQUE", "NOT NULL"))
        if self.scope.sequences and self.chance(15):
            key = "DEFAULT nextval('%s')" % self.scope.full(*self.pick(self.scope.sequences)).replace("'", "''")
        items = ["k %s %s" % (self.pick(("INTEGER", "INTEGER", "BIGINT")), key)]
        for name in names[1:]:
            kind = self.column_type()
            text = "%s %s" % (quoted(name), kind)
            if kind in TYPES and self.chance(20):
                text += " DEFAULT " + self.plain_literal(kind)
            if self.chance(10):
                text += " NOT NULL"
            if kind in WHOLE and self.chance(10):
                text += " CHECK (%s < 500)" % quoted(name)
            items.append(text)
        if self.chance(12):
            items.append("g1 %sAS (k * 2)" % self.pick(("INTEGER GENERATED ALWAYS ", "BIGINT ", "")))
        if self.chance(8):
            items.append("CHECK (k > -100)")
        if self.chance(30) and self.scope.use[0] == "cloud":  # a reference has no database of its own
            parents = [t for t in self.scope.tables if t.remote and t.key == ("k",)]
            if parents:
                parent = self.pick(parents)
                name = "%s.%s" % (quoted(parent.schema), quoted(parent.name))
                items.append("p %s REFERENCES %s(k)" % (parent.columns[0].type, name))
        word = self.pick(("CREATE TABLE", "CREATE TABLE", "CREATE OR REPLACE TABLE", "CREATE TABLE IF NOT EXISTS"))
        name = self.place("t")
        if word != "CREATE TABLE" and self.chance(60):
            table = self.table(remote=True)
            name = self.spell(table) if table and not table.view else name
        return "%s %s (%s)" % (word, name, ", ".join(items))

    def create_as(self):
        text, _ = self.select()
        word = self.pick(("CREATE TABLE", "CREATE TABLE", "CREATE OR REPLACE TABLE", "CREATE TABLE IF NOT EXISTS"))
        if self.chance(50):
            source = self.source()
            columns = self.columns(source, "x")
            kinds = [self.pick(columns)[1] for _ in range(self.rnd.randrange(1, 4))]
            text = self.ordered_select(kinds, source) + " LIMIT 50"
        tail = self.pick(("", "", "", " WITH NO DATA"))
        return "%s %s AS %s%s" % (word, self.place("t"), text, tail)

    def local_table(self):
        if len([t for t in self.scope.tables if not t.remote]) > 6:
            table = self.pick(
                [t for t in self.scope.tables if t.database == ("temp" if self.open else t.database) != "cloud"]
            )
            return "DROP %s %s" % ("VIEW" if table.view else "TABLE", self.spell(table))
        if self.chance(40) or self.open:
            return "CREATE TEMP %s %s AS %s" % (self.pick(("TABLE", "TABLE", "VIEW")), self.new("m"), self.select()[0])
        return "CREATE %s memory.main.%s AS %s" % (
            self.pick(("TABLE", "TABLE", "VIEW")),
            self.new("l"),
            self.select()[0],
        )

    def remote_only(self):
        """A SELECT over remote tables alone, by whole names: DuckDB looks a view's names up in its own schema first."""
        table = self.table(remote=True)
        if table is None:
            return "SELECT 1 AS a"
        self.whole_names = True
        text = self.pick((self.simple, self.grouped, self.aggregate, self.distinct))(table)
        self.whole_names = False
        return text

    def create_view(self):
        if self.scope.broken or len([t for t in self.scope.tables if t.view]) > 5:
            return self.drop_view()
        word = self.pick(("CREATE VIEW", "CREATE VIEW", "CREATE OR REPLACE VIEW", "CREATE VIEW IF NOT EXISTS"))
        if self.chance(20):
            return "%s %s(one, two) AS SELECT a, b FROM (%s) AS z(a, b)" % (word, self.place("v"), "SELECT 1, 'x'")
        return "%s %s AS %s" % (word, self.place("v"), self.remote_only())

    def drop_view(self):
        views = self.scope.broken or [t for t in self.scope.tables if t.view]
        if not views:
            return "DROP VIEW IF EXISTS cloud.main.v0"
        return "DROP VIEW %s%s" % (self.pick(("", "IF EXISTS ")), self.spell(self.pick(views)))

    def alter_view(self):
        views = [t for t in self.scope.tables if t.view and t.remote]
        if not views:
            return "ALTER VIEW IF EXISTS cloud.main.v0 RENAME TO v1"
        return "ALTER VIEW %s RENAME TO %s" % (self.spell(self.pick(views)), self.new("v"))

    def drop_table(self):
        table = self.table(remote=True, written=True)
        if table is None:
            return "DROP TABLE IF EXISTS cloud.main.t0"
        return "DROP TABLE %s%s%s" % (
            self.pick(("", "", "IF EXISTS ")),
            self.spell(table),
            self.pick(("", "", " CASCADE")),
        )

    def create_index(self):
        table = self.table(remote=True, written=True)
        if table is None:
            return self.create_table()
        columns = [
            c.text for c in table.plain if not c.type.startswith(("MAP", "STRUCT", "INTERVAL")) and "[" not in c.type
        ]
        if not columns:
            return self.create_table()
        chosen = self.rnd.sample(columns, min(len(columns), self.pick((1, 1, 2))))
        return "CREATE %sINDEX %s%s ON %s (%s)" % (
            self.pick(("", "", "", "UNIQUE ")), self.pick(("", "IF NOT EXISTS ")), self.new("i"), self.spell(table), ", ".join(chosen),
        )  # fmt: skip

    def create_sequence(self):
        tail = self.pick(("", " START 5", " START 10 INCREMENT BY 5", " MINVALUE 1 MAXVALUE 4 CYCLE", " MAXVALUE 6"))
        word = self.pick(
            ("CREATE SEQUENCE", "CREATE SEQUENCE", "CREATE SEQUENCE IF NOT EXISTS", "CREATE OR REPLACE SEQUENCE")
        )
        return "%s %s%s" % (word, self.place("q"), tail)

    def create_type(self):
        body = self.pick((
            "ENUM (%s)" % ", ".join("'%s'" % w for w in WORDS), "DECIMAL(10,2)", "STRUCT(a INTEGER, b VARCHAR)", "INTEGER",
        ))  # fmt: skip
        return "CREATE TYPE %s AS %s" % (self.place("y"), body)

    def create_macro(self):
        name = self.place("f")
        word = self.pick(("CREATE MACRO", "CREATE FUNCTION", "CREATE OR REPLACE MACRO"))
        table = self.table(remote=True)
        if self.chance(40) and table:
            return "%s %s(n) AS TABLE SELECT count(*) + n AS c FROM cloud.%s.%s" % (
                word, name, quoted(table.schema), quoted(table.name))  # fmt: skip
        return "%s %s(%s) AS %s" % (
            word,
            name,
            *self.pick((("x", "x + 1"), ("x, y", "x + y"), ("x", "upper(x::VARCHAR)"))),
        )

    def create_schema(self):
        if len(self.scope.schemas) > 4:
            return self.drop_schema()
        name = self.pick((self.new("s"), self.new("s"), "s p", "S2"))
        return "CREATE SCHEMA %scloud.%s" % (self.pick(("", "IF NOT EXISTS ")), quoted(name))

    def drop_schema(self):
        names = [s for s in self.scope.schemas if s != "main"]
        if not names:
            return "DROP SCHEMA IF EXISTS cloud.s0"
        return "DROP SCHEMA cloud.%s%s" % (quoted(self.pick(names)), self.pick(("", " CASCADE", " CASCADE")))

    def drop_other(self):
        kind, found = self.pick((
            ("SEQUENCE", self.scope.sequences), ("TYPE", self.scope.types), ("INDEX", self.scope.indexes),
            ("MACRO", [m[:2] for m in self.scope.macros]),
        ))  # fmt: skip
        if not found:
            return "DROP %s IF EXISTS cloud.main.z0" % kind
        if kind == "MACRO":
            schema, name = self.pick(found)
            kind = (
                "MACRO TABLE"
                if ("table_macro") in [m[2] for m in self.scope.macros if m[:2] == (schema, name)]
                else kind
            )
            return "DROP %s %s" % (kind, self.scope.full(schema, name))
        return "DROP %s %s" % (kind, self.scope.full(*self.pick(found)))

    def comment(self):
        table = self.table(remote=True)
        if table is None:
            return self.create_table()
        text = self.pick(("'it is'", "NULL", "'don''t'"))
        if self.chance(40):
            return "COMMENT ON COLUMN %s.%s IS %s" % (self.spell(table), self.pick(table.columns).text, text)
        if self.scope.sequences and self.chance(20):
            return "COMMENT ON SEQUENCE %s IS %s" % (self.scope.full(*self.pick(self.scope.sequences)), text)
        return "COMMENT ON %s %s IS %s" % ("VIEW" if table.view else "TABLE", self.spell(table), text)

    def alter(self):
        table = self.table(remote=True, written=True)
        if table is None:
            return self.create_table()
        head = "ALTER TABLE %s%s " % (self.pick(("", "", "IF EXISTS ")), self.spell(table))
        c = self.pick(table.columns)
        kind = self.pick(TYPES[:9])
        free = [n for n in NAMES if n not in [x.name for x in table.columns]] or [self.new("c")]
        return head + self.pick((
            "ADD COLUMN %s %s" % (quoted(self.pick(free)), kind),
            "ADD COLUMN %s %s DEFAULT %s" % (quoted(self.pick(free)), kind, self.plain_literal(kind)),
            "ADD COLUMN IF NOT EXISTS %s %s" % (c.text, kind),
            "DROP COLUMN %s" % c.text, "DROP COLUMN IF EXISTS zz",
            "RENAME COLUMN %s TO %s" % (c.text, quoted(self.pick(free))), "RENAME %s TO %s" % (c.text, quoted(self.pick(free))),
            "ALTER COLUMN %s TYPE VARCHAR" % c.text, "ALTER %s SET DATA TYPE %s USING NULL" % (c.text, kind),
            "ALTER COLUMN %s SET DEFAULT %s" % (c.text, self.plain_literal(c.type)),
            "ALTER COLUMN %s DROP DEFAULT" % c.text, "ALTER COLUMN %s SET NOT NULL" % c.text,
            "ALTER COLUMN %s DROP NOT NULL" % c.text, "RENAME TO %s" % self.new("t"), "ADD PRIMARY KEY (%s)" % c.text,
        ))  # fmt: skip
