"""TPC-H over an attached catalog, and with half of its tables here, gives the answers of plain DuckDB.

OPENDUCK_TPCH_SF sets the scale (default 0.05, less under a sanitizer).
"""

import os
import shutil

import pytest
import services
import tpc

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


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    path = tmp_path_factory.mktemp("tpch") / "tpch.duckdb"
    answers = tpc.generate(path, "tpch", SF)
    with services.Serve({"mydb": path}, "--read-only") as server, services.attached(server) as remote:
        remote.execute("ATTACH '%s' AS home (READ_ONLY)" % shutil.copy(path, path.with_suffix(".copy")))
        for split, there in SPLITS.items():
            remote.execute("CREATE SCHEMA tpch_" + split)
            for table in TABLES:
                home = "cloud" if table in there else "home"
                remote.execute("CREATE VIEW tpch_%s.%s AS FROM %s.%s" % (split, table, home, table))
        yield remote, answers
        server.wait_idle()


@pytest.mark.parametrize("number", range(1, 23))
@pytest.mark.parametrize("split", SPLITS)
def test_query(lake, split, number):
    con, answers = lake
    sql, types, want = answers[number - 1]
    con.execute("USE %s" % ("cloud" if split == "all" else "memory.tpch_" + split))
    result = con.execute(sql)
    assert [str(d[1]) for d in result.description] == types
    got = result.fetchall()
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert all(tpc.close(x, y) for x, y in zip(a, b)), (a, b)
