"""Every DuckDB type keeps its name and its values when rows of it are written to an attached catalog."""

import pytest
import services
from type_table import SCALARS, column_sql, columns_of_all_types

pytestmark = pytest.mark.extension

ROWS = 3000
SHAPES = {
    "alone": "SELECT i, c FROM source",
    "null": "SELECT c FROM source WHERE c IS NULL",
    "in_lists": "SELECT i, [c, NULL, c] AS c FROM source WHERE i < 500",
    "in_structs": "SELECT i, {'x': c, 'y': [{'z': c}]} AS c FROM source WHERE i < 500",
    "in_arrays": "SELECT i, [c, NULL]::%s[2] AS c FROM source WHERE i < 500",
    "filtered": "SELECT i, c, [c] AS l FROM source WHERE i %% 3 = 0",
    "constant": "SELECT i, first(c) OVER (ORDER BY i) AS c FROM source WHERE i < 3000",
}
WRITTEN = sorted(SCALARS)


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    path = services.make_database(
        tmp_path_factory.mktemp("written") / "mydb.duckdb",
        "CREATE TYPE big_enum AS ENUM (SELECT 'v' || i FROM range(300) t(i))",
    )
    with services.Serve({"mydb": path}) as server, services.attached(server) as c:
        c.execute("CREATE TYPE big_enum AS ENUM (SELECT 'v' || i FROM range(300) t(i))")
        c.execute("SET TimeZone = 'UTC'")
        yield c
        server.wait_idle()


def same(con, local, remote):
    names = con.execute("DESCRIBE %s" % local).fetchall()
    assert [r[:2] for r in con.execute("DESCRIBE %s" % remote).fetchall()] == [r[:2] for r in names]
    want = con.execute("SELECT COLUMNS(*)::VARCHAR FROM %s" % local).fetchall()
    assert con.execute("SELECT COLUMNS(*)::VARCHAR FROM %s" % remote).fetchall() == want


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("shape", SHAPES)
def test_type_survives_being_written(con, name, shape):
    con.execute("CREATE OR REPLACE TABLE source AS SELECT i, %s AS c FROM range(%d) t(i)" % (column_sql(name), ROWS))
    declared = SCALARS[name][0] or "big_enum"
    query = SHAPES[shape] % declared if shape == "in_arrays" else SHAPES[shape].replace("%%", "%")
    con.execute("CREATE OR REPLACE TABLE written AS " + query)
    con.execute("CREATE OR REPLACE TABLE cloud.written AS FROM written")
    same(con, "written", "cloud.written")
    con.execute("CREATE OR REPLACE TABLE cloud.written AS FROM written LIMIT 0")
    assert con.execute("INSERT INTO cloud.written " + query).fetchone() == (
        con.execute("SELECT count(*) FROM written").fetchone()
    )
    same(con, "written", "cloud.written")


def test_all_types_are_written(con):
    names = columns_of_all_types()
    columns = ", ".join('"%s"' % c for c in names)
    con.execute("CREATE OR REPLACE TABLE source AS SELECT %s FROM test_all_types(use_large_enum := true)" % columns)
    con.execute("CREATE OR REPLACE TABLE cloud.written AS FROM source")
    same(con, "source", "cloud.written")
