"""TPC-DS over an attached catalog gives the answers of plain DuckDB.

OPENDUCK_TPCDS_SF sets the scale.
"""

import os

import pytest
import services
import tpc

pytestmark = [pytest.mark.extension, pytest.mark.timeout(600)]
SF = float(os.environ.get("OPENDUCK_TPCDS_SF", "0.01"))
SETTINGS = ["full", pytest.param("scan", marks=pytest.mark.long), pytest.param("off", marks=pytest.mark.long)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    path = tmp_path_factory.mktemp("tpcds") / "tpcds.duckdb"
    answers = tpc.generate(path, "tpcds", SF)
    with services.Serve({"mydb": path}, "--read-only") as server, services.attached(server) as con:
        con.execute("USE cloud")
        yield con, answers
        server.wait_idle()


def ordered(rows):
    """Rows that are equal in a query's order may come in any."""
    return sorted(rows, key=lambda row: [("%.6g" % v if isinstance(v, float) else str(v)) for v in row])


@pytest.mark.parametrize("number", range(1, 100))
@pytest.mark.parametrize("setting", SETTINGS)
def test_query(shop, setting, number):
    con, answers = shop
    sql, types, want = answers[number - 1]
    con.execute("SET openduck_pushdown = '%s'" % setting)
    result = con.execute(sql)
    assert [str(d[1]) for d in result.description] == types
    got = result.fetchall()
    assert len(got) == len(want)
    for a, b in zip(ordered(got), ordered(want)):
        assert all(tpc.close(x, y) for x, y in zip(a, b)), (a, b)
