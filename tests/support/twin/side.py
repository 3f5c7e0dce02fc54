"""A side: a DuckDB with local tables and a database `cloud`, and what comes of each statement there."""
# ruff: noqa: E501

import collections
import datetime
import re
import sys
import types


class Utc(datetime.tzinfo):
    """What DuckDB's Python client wants of pytz for TIMESTAMP WITH TIME ZONE."""

    def utcoffset(self, when):
        return datetime.timedelta(0)

    dst = utcoffset

    def tzname(self, when):
        return "UTC"

    def localize(self, when):
        return when.replace(tzinfo=self)

    def __repr__(self):
        return "UTC"


pytz = types.ModuleType("pytz")
pytz.__version__ = "0"  # too old for pandas, which then does without
pytz.timezone = lambda name: Utc()
sys.modules.setdefault("pytz", pytz)

Outcome = collections.namedtuple("Outcome", "error names types rows message")

# What the catalog says of the database. No object ids, no estimates, no columns of views: they are those of the last
# time that the view was read.
CATALOG = {
    "schemas": "SELECT schema_name FROM duckdb_schemas() WHERE database_name = 'cloud' AND NOT internal",
    "tables": "SELECT schema_name, table_name, comment, temporary, has_primary_key, column_count, index_count,"
    " check_constraint_count FROM duckdb_tables() WHERE database_name = 'cloud'",
    "columns": "SELECT schema_name, table_name, column_name, column_index, comment, column_default, is_nullable, data_type"
    " FROM duckdb_columns() SEMI JOIN duckdb_tables() USING (table_oid, database_name) WHERE database_name = 'cloud'",
    "views": "SELECT schema_name, view_name, comment FROM duckdb_views() WHERE database_name = 'cloud' AND NOT internal",
    "constraints": "SELECT schema_name, table_name, constraint_type, constraint_column_names FROM duckdb_constraints()"
    " WHERE database_name = 'cloud'",
}
# What an attached catalog does not list, but the server has; asked of the server between transactions.
SERVER_CATALOG = {
    "indexes": "SELECT schema_name, table_name, index_name, is_unique, is_primary, expressions FROM duckdb_indexes()"
    " WHERE database_name = 'cloud'",
    "sequences": "SELECT schema_name, sequence_name, start_value, min_value, max_value, increment_by, cycle, comment"
    " FROM duckdb_sequences() WHERE database_name = 'cloud'",
    "types": "SELECT schema_name, type_name, logical_type, labels FROM duckdb_types() WHERE database_name = 'cloud' AND NOT internal",
    "macros": "SELECT schema_name, function_name, function_type, parameters FROM duckdb_functions()"
    " WHERE database_name = 'cloud' AND NOT internal",
}


def plain_default(value):
    """How a default names a sequence is the server's: without the alias, and with quotes where they are needed."""
    if not isinstance(value, str) or "nextval(" not in value:
        return value
    value = re.sub(r"nextval\('(cloud\.)?(main\.)?", "nextval('", value)
    return re.sub(r"nextval\('[^']*'\)", lambda name: name[0].replace('"', ""), value)


class Side:
    open = False  # in a transaction

    def __init__(self, con, attach, remote=False):
        """CON is taken; ATTACH is the statement that makes `cloud`, which is REMOTE or a file."""
        self.con = con
        self.remote = remote
        self.con.execute("SET TimeZone = 'UTC'")
        # DuckDB's checkpoint may look for ever for a table that a foreign key names.
        self.con.execute("PRAGMA disable_checkpoint_on_shutdown")
        self.con.execute(attach)

    @property
    def quiet(self):
        """The session for questions that are no statements of the script."""
        return self.con

    def run(self, step):
        import duckdb

        try:
            result = self.con.execute(step.sql, list(step.params)) if step.params else self.con.execute(step.sql)
            described = result.description or []
            rows = result.fetchall() if described else []
        except duckdb.Error as e:
            return Outcome(type(e).__name__, None, None, None, str(e))
        if step.sql.startswith(("BEGIN", "COMMIT", "ROLLBACK")):
            self.open = step.sql.startswith("BEGIN")
            if self.open:
                # What makes statements up looks around in between. DuckDB commits the databases in the reverse order of their
                # first use, so that must not be the first: where a commit fails, the order decides about temporary tables.
                self.con.execute("DROP TABLE IF EXISTS temp.main.none")
        if step.compare == "class":
            return Outcome(None, None, None, None, "")
        rows = [repr(tuple(plain_default(v) for v in r)) for r in rows]
        # Nor does it matter to it whether the name of a type is in quotes.
        rows = [re.sub(r'AS "([A-Z]+)"', r"AS \1", r) for r in rows]
        if step.compare == "set":
            rows.sort()
        return Outcome(None, [d[0] for d in described], [str(d[1]) for d in described], rows, "")

    def snapshot(self):
        """All rows of all tables and views, and all that the catalog says: {what: outcome}."""
        from twin.scope import quoted
        from twin.script import Step

        state = {name: self.run(Step(sql)) for name, sql in CATALOG.items()}
        if not self.open:
            for name, sql in SERVER_CATALOG.items():
                state[name] = self.run(Step(self.at_server(sql) if self.remote else sql))
        listed = self.run(
            Step(
                "SELECT database_name, schema_name, table_name FROM duckdb_tables() WHERE database_name IN ('cloud', 'memory', 'temp')"
                " UNION SELECT database_name, schema_name, view_name FROM duckdb_views() WHERE database_name = 'cloud' AND NOT internal"
            )
        )
        for row in listed.rows or []:
            name = ".".join(quoted(part) for part in eval(row))
            state[name] = self.run(Step("FROM " + name))
        return state

    @staticmethod
    def at_server(sql):
        sql = sql.replace("'cloud'", "current_database()").replace("'", "''")
        return "FROM openduck_query('cloud', '%s')" % sql

    def close(self):
        self.con.close()


def difference(step, want, got):
    """What differs between two outcomes of STEP, or None."""
    if want.error != got.error:
        return "error %s, not %s: %s" % (got.error, want.error, (got.message or want.message)[:300])
    for field in ("names", "types", "rows"):
        a, b = getattr(want, field), getattr(got, field)
        if a != b:
            if field == "rows":
                more = [r for r in b if r not in a][:4]
                less = [r for r in a if r not in b][:4]
                return "%d rows, not %d; more: %s; missing: %s" % (len(b), len(a), more, less)
            return "%s %s, not %s" % (field, b, a)
    return None


def state_difference(want, got):
    from twin.script import Step

    for name in sorted(set(want) | set(got)):
        if name not in want or name not in got:
            return "%s exists on one side only" % name
        found = difference(Step(name), want[name], got[name])
        if found:
            return "%s: %s" % (name, found)
    return None
