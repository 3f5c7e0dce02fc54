"""What exists while a session is made up: read from the reference's own catalog, so it never drifts from the truth."""

import dataclasses
import re

WORDS = ("sad", "ok", "glad")  # of every ENUM, in its order
ENUM = "ENUM('sad', 'ok', 'glad')"


def quoted(name):
    return name if re.fullmatch(r"[a-z][a-z0-9_]*", name) and name != "select" else '"%s"' % name.replace('"', '""')


@dataclasses.dataclass
class Column:
    name: str
    type: str
    nullable: bool = True
    default: bool = False

    @property
    def generated(self):
        return self.name.startswith("g")

    @property
    def text(self):
        return quoted(self.name)


@dataclasses.dataclass
class Table:
    database: str
    schema: str
    name: str
    view: bool
    columns: list = dataclasses.field(default_factory=list)
    key: tuple = ()
    unique: int = 0  # constraints and indexes that forbid equal rows
    numbered: bool = False  # a default draws from a sequence
    rows: int = 0

    @property
    def remote(self):
        return self.database == "cloud"

    @property
    def plain(self):
        """The columns that can be written."""
        return [c for c in self.columns if not c.generated]


class Scope:
    """The tables, sequences, types, macros, indexes and schemas that the session sees now."""

    def __init__(self, con):
        self.con = con
        self.use = ("memory", "main")
        self.broken = []  # views that cannot be read any more
        self.tables, self.schemas, self.sequences, self.types, self.macros, self.indexes = [], [], [], [], [], []

    def refresh(self, macros=False):
        """Reads the catalog anew. Returns False in a transaction that was aborted."""
        import duckdb

        try:
            self._read(macros)
        except duckdb.Error:
            return False
        return True

    def _read(self, macros):
        rows = lambda sql: self.con.execute(sql).fetchall()  # noqa: E731
        ours = "database_name IN ('cloud', 'memory', 'temp') AND NOT internal ORDER BY ALL"
        self.schemas = [
            s for (s,) in rows("SELECT schema_name FROM duckdb_schemas() WHERE database_name = 'cloud'")
            if s not in ("information_schema", "pg_catalog")
        ]  # fmt: skip
        self.schemas.sort()
        found = {}
        for db, schema, name, view in rows(
            "SELECT database_name, schema_name, table_name, false FROM duckdb_tables() WHERE %s" % ours
        ) + rows("SELECT database_name, schema_name, view_name, true FROM duckdb_views() WHERE %s" % ours):
            found[db, schema, name] = Table(db, schema, name, view)
        for db, schema, name, column, kind, nullable, default in rows(
            "SELECT database_name, schema_name, table_name, column_name, data_type, is_nullable, column_default"
            " FROM duckdb_columns() WHERE database_name IN ('cloud', 'memory', 'temp') AND NOT internal"
            " ORDER BY database_name, schema_name, table_name, column_index"
        ):
            if (db, schema, name) in found:
                table = found[db, schema, name]
                table.columns.append(Column(column, kind, nullable, default is not None))
                table.numbered |= "nextval" in (default or "")
        for db, schema, name, columns in rows(
            "SELECT database_name, schema_name, table_name, constraint_column_names FROM duckdb_constraints()"
            " WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY constraint_type DESC, constraint_index DESC"
        ):
            if (db, schema, name) in found:
                found[db, schema, name].key = tuple(columns)
                found[db, schema, name].unique += 1
        for db, schema, name in rows(
            "SELECT database_name, schema_name, table_name FROM duckdb_indexes() WHERE is_unique"
        ):
            if (db, schema, name) in found:
                found[db, schema, name].unique += 1
        self.broken = [t for t in found.values() if t.view and not self._binds(t)]
        self.tables = [t for t in found.values() if t.columns and t not in self.broken]
        names = "SELECT schema_name, %s FROM %s() WHERE database_name = 'cloud' %s ORDER BY ALL"
        self.sequences = rows(names % ("sequence_name", "duckdb_sequences", ""))
        self.types = rows(names % ("type_name", "duckdb_types", "AND NOT internal AND type_name LIKE 'y%'"))
        self.indexes = rows(names % ("index_name", "duckdb_indexes", ""))
        if macros:  # a slow question
            self.macros = rows(
                "SELECT schema_name, function_name, function_type, len(parameters) FROM duckdb_functions()"
                " WHERE database_name = 'cloud' AND NOT internal ORDER BY ALL"
            )

    def _binds(self, view):
        """Whether what a view reads is still there."""
        import duckdb

        try:
            self.con.execute("DESCRIBE %s.%s.%s" % (view.database, quoted(view.schema), quoted(view.name)))
        except (duckdb.BinderException, duckdb.CatalogException):
            return False
        return True

    def count(self, name):
        import duckdb

        try:
            return self.con.execute("SELECT count(*) FROM " + name).fetchone()[0]
        except duckdb.Error:
            return 0

    @staticmethod
    def full(schema, name):
        return "cloud.%s.%s" % (quoted(schema), quoted(name))
