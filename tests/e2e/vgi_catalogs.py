"""What the tests of ATTACH (TYPE vgi) share: a DuckDB with the extension, and workers that serve what they are told."""

import json
import re
import signal
import subprocess
import sys

import duckdb
import pytest
import services

WORKER = services.ROOT / "tests" / "support" / "vgi_spec_worker.py"


def connect():
    con = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "2"})
    con.execute("LOAD '%s'" % services.extension_path("vgi"))
    return con


def make_lake(con, target, data, rows):
    """A lake at TARGET, with its files in the folder DATA, of events that are ROWS."""
    data.mkdir()
    con.execute("ATTACH '%s' AS seed (DATA_PATH '%s')" % (target, data))
    con.execute("CREATE TABLE seed.events(id BIGINT, val VARCHAR)")
    con.execute("INSERT INTO seed.events VALUES " + ", ".join("(%d, '%s')" % row for row in rows))
    con.execute("DETACH seed")
    return target


class SpecWorkers:
    """Makes LOCATIONs of workers that serve what they are told (tests/support/vgi_spec_worker.py)."""

    def __init__(self, folder):
        self.folder, self.made = folder, []

    def __call__(self, catalog="companion", **spec):
        path = self.folder / ("worker%d.json" % len(self.made))
        self.made.append(path)
        path.write_text(json.dumps({"catalog": catalog, "calls": str(path) + ".calls", **spec}))
        return "%s %s %s" % (sys.executable, WORKER, path)

    def lines(self):
        files = [p.with_name(p.name + ".calls") for p in self.made]
        return [json.loads(line) for f in files if f.exists() for line in f.read_text().splitlines()]

    def calls(self):
        """The methods that were called."""
        return [line["method"] for line in self.lines()]

    def told(self, method):
        """What the calls of `method` said."""
        return [line for line in self.lines() if line["method"] == method]


TYPES = {"int64": "BIGINT", "int32": "INTEGER", "string": "VARCHAR", "timestamp[us]": "TIMESTAMP"}


class ServedWorkers:
    """The same, by `openduck vgi-serve` of a database and a layout made of what SpecWorkers are told."""

    METHOD = re.compile(rb"\0\0\0(catalog_[a-z_]+|bind|init|table_function_[a-z_]+)\0")

    def __init__(self, folder, records=True):
        """`records`: what is asked is kept; a worker that may be killed has to be the very process that is started."""
        self.folder, self.made, self.records = folder, [], records

    def __call__(self, catalog="companion", companions=(), tables=None, functions=None, default_schema="main"):
        stem = self.folder / ("served%d" % len(self.made))
        self.made.append(stem.with_suffix(".asked"))
        with duckdb.connect(stem.with_suffix(".duckdb")) as con:
            con.execute('CREATE SCHEMA IF NOT EXISTS "%s"; USE "%s"' % (default_schema, default_schema))
            for name, function in (functions or {}).items():
                self.create(con, name, function["columns"], function["rows"])
            for name, table in (tables or {}).items():
                self.create(con, name, table["columns"], [])
        stem.with_suffix(".layout").write_text(self.layout(companions, tables or {}, default_schema))
        binary = services.BUILD / "bin" / "openduck"
        command = "%s vgi-serve --db %s.duckdb --layout %s.layout --catalog %s" % (binary, stem, stem, catalog)
        return "tee %s.asked | %s" % (stem, command) if self.records else "exec " + command

    @staticmethod
    def create(con, name, columns, values):
        con.execute('CREATE TABLE "%s" (%s)' % (name, ", ".join('"%s" %s' % (c, TYPES[t]) for c, t in columns.items())))
        slots = ["make_timestamp(?)" if t == "timestamp[us]" else "?" for t in columns.values()]
        if values:
            con.executemany('INSERT INTO "%s" VALUES (%s)' % (name, ", ".join(slots)), values)

    @staticmethod
    def layout(companions, tables, default_schema):
        lines = ["[catalog]", "tables = listed", "default_schema = " + default_schema]
        for c in companions:
            lines += ["[companion %s]" % c["alias"], "target = " + c["target"]]
            lines += ["type = " + c["db_type"]] if c.get("db_type") else []
            lines += ["hidden = true"] if c.get("hidden") else []
            lines += [] if c.get("required", True) else ["optional = true"]
            lines += ["secret = " + c["secret_ref"]] if c.get("secret_ref") else []
            lines += ["option %s = %s" % option for option in c.get("options", {}).items()]
        for name, table in tables.items():
            lines.append("[table %s]" % name)
            lines += ["extension = " + e for e in table.get("required_extensions", [])]
            for branch in table["branches"]:
                lines.append("[branch]")
                if "format" in branch:
                    lines += ["files = " + branch["format"], *("location = " + at for at in branch["locations"])]
                else:
                    lines.append("from = " + (".".join(branch["source"]) if "source" in branch else branch["function"]))
                lines += ["where = " + branch["filter"]] if branch.get("filter") else []
        return "\n".join(lines) + "\n"

    def calls(self):
        """The methods that were called."""
        asked = [path.read_bytes() for path in self.made if path.exists()]
        return [name.decode() for bytes_ in asked for name in self.METHOD.findall(bytes_)]


class Listening:
    """A worker that many clients reach; `location` is for ATTACH. Its end is part of the test."""

    def __init__(self, *command, expect=0):
        self.command, self.expect = [str(word) for word in command], expect

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        told = self.process.stdout.readline()
        assert told.startswith("ready "), told
        self.location = told.split()[1]
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.process.stdout.close()
        assert kind or code == self.expect


def attach(con, location, alias="ex", name="companion", **options):
    more = "".join(", %s %s" % (key, value) for key, value in options.items())
    con.execute("ATTACH '%s' AS %s (TYPE vgi, LOCATION '%s'%s)" % (name, alias, location, more))


def rows(con, sql):
    return con.execute(sql).fetchall()


def one(con, sql):
    return con.execute(sql).fetchone()[0]


def refused(con, sql, text):
    """Runs what fails with `text`, and leaves DuckDB in order; the error."""
    with pytest.raises(duckdb.Error) as caught:
        con.execute(sql).fetchall()
    assert text in str(caught.value), caught.value
    assert one(con, "SELECT 42") == 42
    return caught.value
