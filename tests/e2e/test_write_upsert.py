"""INSERT ... ON CONFLICT, OR REPLACE and OR IGNORE of rows of this side: the server does what the clause says."""

import duckdb
import pytest
import services

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE SEQUENCE s START 100",
    "CREATE TABLE t (i INTEGER PRIMARY KEY, v VARCHAR DEFAULT 'none', n BIGINT DEFAULT nextval('s'))",
    "CREATE TABLE two (a INTEGER, b INTEGER, v VARCHAR, g INTEGER GENERATED ALWAYS AS (a * 2), PRIMARY KEY (a, b))",
    "CREATE TABLE u (i INTEGER PRIMARY KEY, k VARCHAR UNIQUE, CHECK (i < 1000))",
    "CREATE TABLE free (i INTEGER)",
    "CREATE TABLE made (n BIGINT DEFAULT nextval('s') PRIMARY KEY)",
    "CREATE TABLE z (i INTEGER PRIMARY KEY, moment TIMESTAMPTZ, day DATE)",
)
FILL = (
    "INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)",
    "INSERT INTO two VALUES (1, 1, 'x'), (1, 2, 'y')",
    "INSERT INTO u VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO z VALUES (1, '2024-01-01 12:00:00+00', '2024-01-01')",
)
NAMES = ("t", "two", "u", "free", "z")


@pytest.fixture(scope="module", params=["serve", "stack"])
def server(request, tmp_path_factory):
    path = services.make_database(tmp_path_factory.mktemp("upsert") / "mydb.duckdb", *TABLES)
    start = services.Serve if request.param == "serve" else services.Stack
    with start({"mydb": path}) as s:
        yield s


def prepare(con):
    """What both have on their side."""
    con.execute("CREATE TABLE l AS FROM (VALUES (2, 'TWO'), (3, 'THREE'), (4, 'new'), (4, 'again')) r(i, v)")
    con.execute("CREATE TABLE pairs AS FROM (VALUES (1, 2, 'Y'), (2, 2, 'Z')) r(a, b, v)")
    con.execute("CREATE MACRO loud(x) AS upper(x) || '!'")
    con.execute("SET VARIABLE mark = '#'")
    con.create_function("same", lambda x: x, ["BIGINT"], "BIGINT")


@pytest.fixture
def con(server):
    with server.client() as other:
        for sql in [*["DELETE FROM %s" % name for name in NAMES], *FILL]:
            other.do(sql)
    with services.attached(server) as c:
        prepare(c)
        yield c
    server.wait_idle()


@pytest.fixture
def twin():
    with duckdb.connect() as c:
        prepare(c)
        for sql in [*TABLES, *FILL]:
            c.execute(sql)
        yield c


def do(con, sql, values=None):
    """The statement, whose @ is the database that has the tables."""
    name = "cloud" if con.execute("FROM duckdb_databases() WHERE database_name = 'cloud'").fetchall() else "memory"
    return con.execute(sql.replace("@", name + "."), values or []).fetchall()


def outcome(con, sql, values=None):
    """What it gives, and what is in the tables then. Values of the sequence differ: they count as 100."""
    try:
        got = sorted(do(con, sql, values), key=repr)
    except duckdb.Error as e:
        got = type(e)
    columns = {"t": "i, v, least(n, 100)", "z": "i, epoch(moment), day"}
    return got, [do(con, "SELECT %s FROM @%s ORDER BY ALL" % (columns.get(name, "*"), name)) for name in NAMES]


def plan(con, sql, values=None):
    return do(con, "EXPLAIN " + sql, values)[0][1]


def check(con, twin, sql, values=None):
    """As in plain DuckDB, and nothing of the table comes down for it."""
    shown = plan(con, sql, values)
    assert "OPENDUCK_INSERT" in shown and "OPENDUCK_SCAN" not in shown
    assert outcome(con, sql, values) == outcome(twin, sql, values)


STATEMENTS = [
    "INSERT INTO @t (i, v, n) SELECT i, v, 0 FROM l ON CONFLICT DO NOTHING",
    "INSERT INTO @t SELECT i, v, 0 FROM l ON CONFLICT (i) DO NOTHING RETURNING *",
    "INSERT OR IGNORE INTO @t SELECT i, v, 0 FROM l RETURNING i, n",
    "INSERT OR REPLACE INTO @t SELECT i, v, 7 FROM l",
    "INSERT OR REPLACE INTO @t SELECT i, v, 7 FROM l RETURNING *",
    "INSERT OR REPLACE INTO @t (v, i) SELECT v, i FROM l",
    "INSERT OR REPLACE INTO @t BY NAME SELECT v, i FROM l",
    "INSERT OR REPLACE INTO @t BY NAME SELECT 5 AS n, i FROM l WHERE i < 4 RETURNING i, v, n",
    "INSERT INTO @t (i) SELECT i FROM l ON CONFLICT DO NOTHING",
    "INSERT INTO @t (i, v) SELECT i, v FROM l ON CONFLICT (i) DO UPDATE SET v = excluded.v || t.v || v, n = 1 + t.n",
    "INSERT INTO @t AS x (i, v) SELECT i, v FROM l ON CONFLICT (i) DO UPDATE SET v = x.v || n WHERE x.n > 2 "
    "RETURNING x.i, v",
    "INSERT INTO @t (i, v) SELECT i, v FROM l ON CONFLICT (i) DO UPDATE SET n = excluded.n WHERE excluded.v = 'TWO'",
    "INSERT INTO @t BY NAME SELECT v, i FROM l ON CONFLICT (i) DO UPDATE SET v = excluded.v",
    "INSERT INTO @t SELECT i, v, 1.5 FROM l WHERE i < 3 ON CONFLICT DO UPDATE SET n = excluded.n, v = NULL",
    "INSERT INTO @t SELECT i, loud(v), 1 FROM l WHERE i < 4 "
    "ON CONFLICT DO UPDATE SET v = excluded.v || getvariable('mark')",
    "INSERT INTO @t SELECT i, v, 1 FROM l ON CONFLICT (i) DO UPDATE SET v = @t.v || '+' "
    "RETURNING loud(v), i + 1 AS next",
    "WITH c AS (SELECT i + 1 AS i, v FROM l) INSERT INTO @t (i, v) SELECT * FROM c ON CONFLICT DO NOTHING RETURNING i",
    "WITH c AS MATERIALIZED (SELECT * FROM l) INSERT OR REPLACE INTO @t SELECT i, v, 9 FROM c "
    "WHERE i IN (SELECT i FROM c)",
    "INSERT INTO @t (i, v) WITH c AS (FROM l) FROM c ON CONFLICT (i) DO UPDATE SET v = excluded.v",
    "INSERT INTO @two SELECT * FROM pairs ON CONFLICT DO UPDATE SET v = excluded.v RETURNING *",
    "INSERT INTO @two SELECT * FROM pairs ON CONFLICT (a, b) DO UPDATE SET v = two.v || g",
    "INSERT OR REPLACE INTO @two (b, a, v) SELECT b, a, v FROM pairs",
    "INSERT OR IGNORE INTO @u SELECT i, v FROM l WHERE v <> 'again'",
    "INSERT INTO @u SELECT i, lower(v) FROM l WHERE i < 4 ON CONFLICT (k) DO NOTHING",
    "INSERT INTO @t SELECT i, v, 1 FROM l WHERE i > 9 ON CONFLICT DO NOTHING RETURNING i",
    "INSERT INTO @t SELECT i, v, 1 FROM l WHERE i > 9 ON CONFLICT DO NOTHING",
    # Errors: nothing remains.
    "INSERT INTO @u SELECT i * 500, v FROM l ON CONFLICT (i) DO NOTHING",
    "INSERT INTO @u SELECT i, 'b' FROM l WHERE i = 3 ON CONFLICT (i) DO UPDATE SET k = 'x'",
    "INSERT INTO @u SELECT i, 'q' FROM l WHERE i = 2 ON CONFLICT (i) DO UPDATE SET k = 'a'",
    "INSERT INTO @t SELECT i, v, 1 FROM l ON CONFLICT (i) DO UPDATE SET n = CAST(excluded.v AS INTEGER)",
    "INSERT INTO @t SELECT i, v, v FROM l ON CONFLICT (i) DO NOTHING",
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_as_in_plain_duckdb(con, twin, sql):
    check(con, twin, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO @free SELECT i FROM l ON CONFLICT DO NOTHING",
        "INSERT INTO @t SELECT i, v, 1 FROM l ON CONFLICT (v) DO NOTHING",
        "INSERT OR REPLACE INTO @u SELECT i, v FROM l",
        "INSERT INTO @t SELECT i, v FROM l ON CONFLICT DO NOTHING",
        "INSERT INTO @t BY NAME SELECT i, v AS nope FROM l ON CONFLICT DO NOTHING",
        "INSERT INTO @t SELECT i, v, 1 FROM l ON CONFLICT (i) DO UPDATE SET nope = 1",
        "INSERT INTO @t SELECT i, v, 1 FROM l ON CONFLICT (i) DO UPDATE SET v = (SELECT max(v) FROM l)",
        "INSERT INTO @t SELECT i, v, 1 FROM missing ON CONFLICT DO NOTHING",
    ],
)
def test_what_is_refused_is_refused_as_in_plain_duckdb(con, twin, sql):
    here = outcome(twin, sql)
    assert isinstance(here[0], type)
    assert outcome(con, sql) == here


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("INSERT INTO @t SELECT i + $1, v, 0 FROM l ON CONFLICT DO NOTHING RETURNING i", [1]),
        ("INSERT INTO @t SELECT i, v, $2 FROM l ON CONFLICT (i) DO UPDATE SET v = excluded.v || $1", ["!", 6]),
        (
            "INSERT INTO @t SELECT i, v, ? FROM l ON CONFLICT (i) DO UPDATE SET n = t.n + ? WHERE t.i <> ? RETURNING *",
            [6, 50, 2],
        ),
        (
            "INSERT INTO @t SELECT i, v, 1 FROM l ON CONFLICT (i) DO UPDATE SET v = $value, n = $number",
            {"value": "x", "number": 4},
        ),
        ("INSERT OR REPLACE INTO @t SELECT i, $1, 1 FROM l", [None]),
    ],
)
def test_parameters(con, twin, sql, values):
    check(con, twin, sql, values)


def test_prepared(con, twin):
    clause = "ON CONFLICT (i) DO UPDATE SET v = excluded.v"
    for c in (con, twin):
        do(c, "PREPARE put AS INSERT INTO @t SELECT i + $1, v, 0 FROM l %s || $2" % clause)
        for values in ("(0, 'a')", "(1, 'b')", "(0, 'c')"):
            c.execute("EXECUTE put" + values)
        name = "cloud" if c is con else "memory"
        many = "INSERT INTO %s.t SELECT ?, loud(?), 1 FROM l LIMIT 1 %s" % (name, clause)
        c.executemany(many, [[k, "v%d" % k] for k in range(5)])
    assert do(con, "FROM @t ORDER BY i") == do(twin, "FROM @t ORDER BY i")


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT OR REPLACE INTO @t BY NAME SELECT * FROM frame",
        "INSERT INTO @t BY NAME SELECT * FROM frame ON CONFLICT (i) DO UPDATE SET n = 3 RETURNING i, v",
    ],
)
def test_a_frame(con, twin, sql):
    pandas = pytest.importorskip("pandas")
    for c in (con, twin):
        c.register("frame", pandas.DataFrame({"v": ["a", None], "i": [1, 9]}))
    check(con, twin, sql)


def test_in_a_transaction(con):
    con.execute("BEGIN")
    con.execute("INSERT INTO cloud.t VALUES (4, 'mine', 4)")
    sql = "INSERT INTO cloud.t SELECT i, v, 0 FROM l ON CONFLICT (i) DO UPDATE SET v = t.v || excluded.v RETURNING v"
    assert sorted(con.execute(sql).fetchall()) == [("minenew",), ("threeTHREE",), ("twoTWO",)]
    con.execute("ROLLBACK")
    assert con.execute("SELECT string_agg(v, ' ' ORDER BY i) FROM cloud.t").fetchall() == [("one two three",)]


def test_rows_of_both_sides(con, twin):
    sql = "INSERT INTO @t SELECT l.i, old.v || l.v, 0 FROM l JOIN @t old ON old.i = l.i ON CONFLICT (i) "
    sql += "DO UPDATE SET v = excluded.v"
    shown = plan(con, sql)
    assert shown.count("OPENDUCK_SCAN") == 1 and "OPENDUCK_INSERT" in shown
    assert outcome(con, sql) == outcome(twin, sql)


def test_many_rows(con, twin):
    sql = "INSERT INTO @t SELECT k // 4, 'v' || k, k FROM big ON CONFLICT (i) "
    sql += "DO UPDATE SET v = excluded.v, n = least(excluded.n, 9)"
    total = "SELECT count(*), sum(i), count(DISTINCT v), count(*) FILTER (n // 4 <> i AND i > 3) FROM @t"
    for c in (con, twin):
        c.execute("CREATE TABLE big AS SELECT range AS k FROM range(400000)")
        assert do(c, sql) == [(100000,)]
    assert do(con, total) == do(twin, total)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO @t SELECT i, v, 1 FROM l ON CONFLICT (i) DO UPDATE SET n = same(t.n) + 1",
        "INSERT INTO @t SELECT i, v, 1 FROM l ON CONFLICT (i) DO UPDATE SET v = loud(excluded.v) "
        "RETURNING merge_action, i",
        "INSERT INTO @two (a, b, g) SELECT a, b, 1 FROM pairs ON CONFLICT DO NOTHING",
        "INSERT INTO @z FROM days ON CONFLICT (i) DO UPDATE SET day = excluded.moment::DATE",
    ],
)
def test_a_clause_of_this_side_is_decided_here(con, twin, sql):
    for c in (con, twin):
        c.execute(
            "CREATE TABLE days AS SELECT 1 AS i, TIMESTAMPTZ '2024-05-05 23:30:00+00' AS moment, NULL::DATE AS day"
        )
        c.execute("SET TimeZone = 'Asia/Tokyo'")
    assert outcome(con, sql) == outcome(twin, sql)


def test_defaults_beside_values(con, twin):
    sql = (
        "INSERT INTO @t VALUES (same(1), 'x', DEFAULT), (8, 'y', DEFAULT) ON CONFLICT (i) DO UPDATE SET v = excluded.v"
    )
    check(con, twin, sql)
    only = "INSERT INTO cloud.made VALUES (DEFAULT), (DEFAULT) ON CONFLICT DO NOTHING RETURNING same(n) >= 100"
    assert con.execute(only).fetchall() == [(True,), (True,)]
    with pytest.raises(duckdb.NotImplementedException, match='DEFAULT of "n"'):
        con.execute("INSERT OR REPLACE INTO cloud.t VALUES (same(1), 'x', DEFAULT)")


def test_merge_itself_is_not_touched(con):
    sql = (
        "MERGE INTO cloud.t USING (SELECT DISTINCT ON (i) * FROM l) l ON t.i = l.i "
        "WHEN MATCHED THEN UPDATE SET v = l.v "
        "WHEN NOT MATCHED THEN INSERT (i, v, n) VALUES (l.i, l.v, 5)"
    )
    assert con.execute(sql).fetchall() == [(3,)]
    assert con.execute("SELECT v FROM cloud.t WHERE i = 2").fetchall() == [("TWO",)]


def test_read_only(server):
    with services.duck() as c:
        c.execute(services.attach_sql(server.url) + " (READ_ONLY)")
        c.execute("CREATE TABLE l AS SELECT 1 AS i")
        with pytest.raises(duckdb.InvalidInputException, match="read-only"):
            c.execute("INSERT INTO cloud.t (i) SELECT i FROM l ON CONFLICT DO NOTHING")
