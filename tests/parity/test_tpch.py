"""TPC-H over an attached catalog, and with half of its tables here, gives the answers of plain DuckDB.

OPENDUCK_TPCH_SF sets the scale (default 0.05, less under a sanitizer).
"""

import glob
import os
import shutil
import sysconfig

import pytest
import services

pytestmark = [pytest.mark.extension, pytest.mark.timeout(600)]
SF = float(os.environ.get("OPENDUCK_TPCH_SF", "0.05" if services.SLOW == 1 else "0.01"))


TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
#: Where the tables of TPC-H are, for those that are at the server.
SPLITS = {
    "all": TABLES,
    "facts": ("lineitem", "orders"),
    "dimensions": ("customer", "nation", "part", "partsupp", "region", "supplier"),
    "half": ("lineitem", "part", "supplier", "nation"),
}


def tpch():
    pattern = "%s/duckdb_extension_tpch/extensions/v*/tpch.duckdb_extension" % sysconfig.get_paths()["purelib"]
    return glob.glob(pattern)[0]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    import duckdb

    path = tmp_path_factory.mktemp("tpch") / "tpch.duckdb"
    con = duckdb.connect(str(path), config={"allow_unsigned_extensions": "true"})
    con.execute("LOAD '%s'" % tpch())
    con.execute("CALL dbgen(sf=%s)" % SF)
    queries = [r[0] for r in con.execute("SELECT query FROM tpch_queries() ORDER BY query_nr").fetchall()]
    want = [con.execute(q).fetchall() for q in queries]
    types = [[str(d[1]) for d in con.execute(q).description] for q in queries]
    con.close()
    with services.Serve({"mydb": path}, "--read-only") as server, services.attached(server) as remote:
        remote.execute("ATTACH '%s' AS home (READ_ONLY)" % shutil.copy(path, path.with_suffix(".copy")))
        for split, there in SPLITS.items():
            remote.execute("CREATE SCHEMA tpch_" + split)
            for table in TABLES:
                home = "cloud" if table in there else "home"
                remote.execute("CREATE VIEW tpch_%s.%s AS FROM %s.%s" % (split, table, home, table))
        yield remote, queries, want, types
        server.wait_idle()


@pytest.mark.parametrize("number", range(1, 23))
@pytest.mark.parametrize("split", SPLITS)
def test_query(lake, split, number):
    con, queries, want, types = lake
    con.execute("USE %s" % ("cloud" if split == "all" else "memory.tpch_" + split))
    result = con.execute(queries[number - 1])
    assert [str(d[1]) for d in result.description] == types[number - 1]
    got = result.fetchall()
    assert len(got) == len(want[number - 1])
    for a, b in zip(got, want[number - 1]):
        assert all(close(x, y) for x, y in zip(a, b)), (a, b)


def close(a, b):
    """Equal, but for the order in which DOUBLEs were added up."""
    return abs(a - b) <= 1e-9 * abs(b) if isinstance(a, float) and isinstance(b, float) else a == b
