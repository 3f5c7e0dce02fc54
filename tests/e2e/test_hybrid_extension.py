"""openduck_run in the extension: LOCAL is the user's process, REMOTE the server of an attached database."""

import pytest
import services

pytestmark = pytest.mark.extension


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "mydb.duckdb"
    services.make_database(
        path,
        "CREATE TABLE far AS SELECT i, 'f' || i AS s FROM range(1000) t(i)",
        "CREATE SCHEMA s2",
        "CREATE TABLE s2.deep AS SELECT 7 AS i",
        "CREATE MACRO twice(x) AS x * 2",
    )
    with services.Serve({"mydb": path}) as server, services.attached(server) as c:
        c.execute("CREATE TABLE near AS SELECT i, 'n' || i AS s FROM range(5) t(i)")
        c.execute("CREATE VIEW seen AS FROM openduck_run('REMOTE', 'SELECT i, s FROM far WHERE i < 3')")
        yield c


@pytest.mark.parametrize(
    "sql, expected",
    [
        ("SELECT n.s, f.s FROM near n JOIN openduck_run('REMOTE', 'FROM far') f USING (i) WHERE i = 4", [("n4", "f4")]),
        ("SELECT max(i) FROM openduck_run('LOCAL', 'FROM near')", [(4,)]),
        ("SELECT * FROM openduck_run('remote', $$SELECT twice(i) AS j FROM far WHERE s = 'f4'; -- end$$)", [(8,)]),
        ("SELECT openduck_run.i FROM openduck_run('REMOTE', 'SELECT 1 AS i')", [(1,)]),
        ("SELECT x FROM openduck_run('REMOTE', 'SELECT 1 AS i') AS t(x)", [(1,)]),
        ("SELECT count(*) FROM seen JOIN near USING (i)", [(3,)]),
        ("FROM openduck_run('AUTO', 'SELECT count(*) FROM far')", [(1000,)]),
        ("FROM openduck_run('AUTO', 'SELECT count(*) FROM far, s2.deep')", [(1000,)]),
        ("FROM openduck_run('AUTO', 'SELECT count(*) FROM far JOIN near USING (i)')", [(5,)]),
        ("FROM openduck_run('AUTO', 'SELECT count(*) FROM cloud.far JOIN near USING (i)')", [(5,)]),
        (
            "FROM openduck_run('REMOTE', 'WITH far AS (FROM far WHERE i > 2) SELECT far.s, n.s FROM far JOIN "
            "openduck_run(''LOCAL'', ''FROM near'') n USING (i) JOIN s2.deep ON true ORDER BY i')",
            [("f3", "n3"), ("f4", "n4")],
        ),
        (
            "FROM openduck_run('REMOTE', 'SELECT twice(d.i) FROM openduck_run(''remote'', ''FROM s2.deep'') d')",
            [(14,)],
        ),
        ("FROM openduck_run('REMOTE', 'FROM s2.deep', database := 'cloud')", [(7,)]),
    ],
)
def test_runs_where_it_says(con, sql, expected):
    assert con.execute(sql).fetchall() == expected


def test_what_is_all_remote_is_sent_as_it_is(con):
    def sent(sql):
        return con.execute("EXPLAIN " + sql).fetchall()[0][1]

    assert "OPENDUCK_QUERY" in sent("FROM openduck_run('AUTO', 'SELECT sum(i) FROM far')")
    assert "AGGREGATE" not in sent("FROM openduck_run('AUTO', 'SELECT sum(i) FROM far')")
    assert "OPENDUCK_QUERY" not in sent("FROM openduck_run('AUTO', 'SELECT sum(i) FROM near')")


def test_in_a_transaction_and_in_writes(con):
    con.execute("BEGIN")
    con.execute("CREATE TABLE cloud.made AS FROM openduck_run('LOCAL', 'FROM near')")
    assert con.execute("FROM openduck_run('REMOTE', 'SELECT count(*) FROM made')").fetchall() == [(5,)]
    con.execute("CREATE TEMP TABLE kept AS FROM openduck_run('REMOTE', 'FROM made')")
    con.execute("INSERT INTO cloud.made SELECT i, s FROM openduck_run('REMOTE', 'SELECT i + 5 AS i, s FROM made')")
    assert con.execute("SELECT count(*) FROM cloud.made").fetchall() == [(10,)]
    con.execute("ROLLBACK")
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name IN ('made', 'kept')").fetchall() == [(0,)]


def test_a_prepared_statement(con):
    sql = "SELECT s FROM openduck_run('REMOTE', 'FROM far') WHERE i = ?"
    assert con.execute(sql, [3]).fetchall() == [("f3",)]
    assert con.execute(sql, [4]).fetchall() == [("f4",)]


@pytest.mark.parametrize(
    "sql, words",
    [
        ("FROM openduck_run('THERE', 'SELECT 1')", "'THERE'"),
        ("FROM openduck_run('REMOTE', 'DROP TABLE far')", "one query"),
        ("FROM openduck_run('LOCAL', NULL)", "string literals"),
        ("FROM openduck_run('LOCAL', 'FROM near') WITH ORDINALITY", "WITH ORDINALITY"),
        ("FROM openduck_run('REMOTE', 'FROM nowhere')", "nowhere"),
        ("FROM openduck_run('REMOTE', 'FROM far', database := 'memory')", "not an openduck database"),
        ("FROM openduck_run('REMOTE', 'SELECT 1 FROM openduck_run(''LOCAL'', s) JOIN far ON true')", "string literals"),
    ],
)
def test_errors_say_what_is_wrong(con, sql, words):
    import duckdb

    with pytest.raises((duckdb.BinderException, duckdb.CatalogException)) as e:
        con.execute(sql)
    assert words in str(e.value)


def test_which_server_is_asked():
    import duckdb

    with services.duck() as con:
        with pytest.raises(duckdb.BinderException, match="no OpenDuck database"):
            con.execute("FROM openduck_run('REMOTE', 'SELECT 1')")
    with services.Serve({"mydb": ":memory:", "other": ":memory:"}) as server, services.attached(server) as con:
        con.execute(services.attach_sql(server.url, "other", "second"))
        with pytest.raises(duckdb.BinderException, match=r"several.*database := "):
            con.execute("FROM openduck_run('REMOTE', 'SELECT 1')")
        name = "SELECT current_database() AS d"
        assert con.execute("FROM openduck_run('REMOTE', '%s', database := 'second')" % name).fetchall() == [("other",)]
        con.execute("USE cloud")
        assert con.execute("FROM openduck_run('REMOTE', '%s')" % name).fetchall() == [("mydb",)]
