"""What the tests of ATTACH (TYPE vgi) share: a DuckDB with the extension, and workers that serve what they are told."""

import json
import sys

import duckdb
import pytest
import services

WORKER = services.ROOT / "tests" / "support" / "vgi_spec_worker.py"


def connect():
    con = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "2"})
    con.execute("LOAD '%s'" % services.extension_path("vgi"))
    return con


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
