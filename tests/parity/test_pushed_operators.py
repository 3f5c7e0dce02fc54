"""Windows, lists, recursion and other operators: run at the server if any order of equal rows gives the same."""

import pytest
import services
from twin_tables import same_on_every_level as check
from twin_tables import twin_tables

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE TABLE a(id BIGINT PRIMARY KEY, k INTEGER, g INTEGER, d DATE, p DECIMAL(9,2), s VARCHAR, f DOUBLE)",
    "INSERT INTO a SELECT i, CASE WHEN i % 13 > 0 THEN i % 50 END, i % 7, DATE '2000-01-01' + (i * 7 % 90)::INTEGER,"
    " i % 11 * 1.25, 'a' || i % 31, i / 7 FROM range(800) t(i)",
    "CREATE TABLE b(g INTEGER, n INTEGER, v VARCHAR, UNIQUE (g, n))",
    "INSERT INTO b SELECT i % 5, CASE WHEN i < 95 THEN i // 5 END, 'v' || i FROM range(100) t(i)",
    "CREATE TABLE u(g INTEGER NOT NULL, n INTEGER NOT NULL, v VARCHAR, UNIQUE (g, n))",
    "INSERT INTO u SELECT i % 5, i // 5 * 3, 'v' || i FROM range(60) t(i)",
    "CREATE TABLE l AS SELECT i AS id, CASE WHEN i % 5 > 0 THEN range(i % 4) END AS l, ['x', NULL, 'y'][:i % 4] AS w,"
    " 'p,q,' || i AS s FROM range(90) t(i)",
    "CREATE TABLE tree AS SELECT i AS id, CASE WHEN i > 0 THEN i // 3 END AS parent, i % 4 AS w FROM range(150) t(i)",
    "CREATE TABLE q AS SELECT i % 3 AS g, 'm' || i % 4 AS m, i AS x, i * 2 AS y FROM range(60) t(i)",
)
NAMES = ("a", "b", "u", "l", "tree", "q")


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with twin_tables(tmp_path_factory.mktemp("operators") / "mydb.duckdb", NAMES, *TABLES) as c:
        # The twins have no keys: which are equal is what they tell.
        yield c


@pytest.fixture(autouse=True)
def full(con):
    yield
    con.execute("SET openduck_pushdown = 'full'")


def grouped(window, where="true"):
    """WINDOW below groups, for which a server is always asked."""
    return "SELECT n, count(*), max(id) FROM (SELECT id, %s AS n FROM {0}.a WHERE %s) GROUP BY n" % (window, where)


@pytest.mark.parametrize(
    "window",
    [
        "row_number() OVER (PARTITION BY g ORDER BY id)",
        "row_number() OVER (ORDER BY k DESC NULLS FIRST, id)",
        "row_number() OVER (ORDER BY p, rowid)",
        "ntile(7) OVER (ORDER BY id DESC)",
        "percent_rank() OVER (PARTITION BY g ORDER BY k)",
        "cume_dist() OVER (ORDER BY k NULLS LAST)",
        "lag(p) OVER (PARTITION BY g ORDER BY id)",
        "lag(k, 3, -1) OVER (ORDER BY id)",
        "lead(k IGNORE NULLS) OVER (ORDER BY id)",
        "lead(s, g) OVER (ORDER BY id)",
        "first_value(s) OVER (PARTITION BY g ORDER BY id)",
        "last_value(k IGNORE NULLS) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING)",
        "nth_value(k, 3) OVER (PARTITION BY g ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
        "sum(p) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)",
        "sum(p) OVER (ORDER BY id ROWS BETWEEN g PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)",
        "count(k) FILTER (WHERE p > 3) OVER (PARTITION BY g ORDER BY id ROWS 5 PRECEDING)",
        "avg(k) OVER (ORDER BY d GROUPS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
        "sum(k) OVER (ORDER BY k GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE TIES)",
        "sum(k) OVER (PARTITION BY g ORDER BY k RANGE BETWEEN 3 PRECEDING AND 2 FOLLOWING)",
        "sum(k) OVER (ORDER BY k DESC RANGE BETWEEN 3 PRECEDING AND CURRENT ROW EXCLUDE GROUP)",
        "count(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL 5 DAY PRECEDING AND INTERVAL 2 DAY FOLLOWING)",
        "max(k) OVER (ORDER BY p RANGE BETWEEN 1.5 PRECEDING AND 0.5 PRECEDING)",
        "min(s) OVER (PARTITION BY g ORDER BY d RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL 1 DAY PRECEDING)",
    ],
)  # fmt: skip
def test_window_made_there(con, window):
    sent = check(con, grouped(window))
    assert len(sent) == 1 and "OVER (" in sent[0] and "GROUP BY" in sent[0], sent


@pytest.mark.parametrize(
    "window",
    [
        # Rows that are equal in the order could be put in any.
        "row_number() OVER (PARTITION BY g ORDER BY k)",
        "first_value(s) OVER (ORDER BY k)",
        "sum(p) OVER (ORDER BY k ROWS 2 PRECEDING)",
        "sum(f) OVER (ORDER BY id)",
        "row_number() OVER ()",
    ],
)
def test_window_that_hangs_on_the_order_of_equal_rows_stays_here(con, window):
    sent = services.remote_sql(con, grouped(window).format("cloud"))
    assert "OVER (" not in sent[0], sent


@pytest.mark.parametrize(
    "words, sql",
    [
        # Keys that are unique, and known to be.
        (["row_number() OVER"],
         "SELECT r, count(*) FROM (SELECT row_number() OVER (ORDER BY g, n) AS r FROM {0}.u) GROUP BY r"),
        (["row_number() OVER"],
         "SELECT * FROM (SELECT k, count(*) AS c, row_number() OVER (ORDER BY count(*), k) AS r FROM {0}.a "
         "GROUP BY k) WHERE r BETWEEN 3 AND 5"),
        (["OVER (", " > "], "SELECT id, rank() OVER (PARTITION BY g ORDER BY p) AS r FROM {0}.a QUALIFY r > 90"),
        (["DISTINCT ON"],
         "SELECT g, sum(p) FROM (SELECT DISTINCT ON (k) k, g, p FROM {0}.a ORDER BY k, id DESC) GROUP BY g"),
        # Correlated.
        (["LEFT JOIN"],
         "SELECT g, count((SELECT max(p) FROM {0}.a x WHERE x.g = u.g AND x.k = u.n)) FROM {0}.u GROUP BY "
         "g"),
        ([" IN ("],
         "SELECT e, count(*) FROM (SELECT u.n IN (SELECT k FROM {0}.a x WHERE x.g = u.g AND x.p > 2) AS e "
         "FROM {0}.u) GROUP BY e"),
        (["LEFT JOIN (SELECT DISTINCT", "IS NOT NULL)"],
         "SELECT e, count(*) FROM (SELECT EXISTS (FROM {0}.a x WHERE x.g = u.g AND x.k > u.n + 20) AS e "
         "FROM {0}.u) GROUP BY e"),
        # Lists.
        (["unnest("], "SELECT x, count(*) FROM (SELECT unnest(l) AS x FROM {0}.l) GROUP BY x"),
        (["unnest("],
         "SELECT x, y, count(*) FROM (SELECT unnest(l) AS x, unnest(w) AS y, id FROM {0}.l) GROUP BY x, y"),
        (["unnest("], "SELECT u, count(*), min(id) FROM {0}.l, unnest(l.l) t(u) WHERE id > 3 GROUP BY u"),
        (["unnest(", "string_split("], "SELECT u, count(*) FROM {0}.l, unnest(string_split(s, ',')) t(u) GROUP BY u"),
        (["unnest(", "list_value("], "SELECT u, count(*) FROM {0}.l, unnest([id, id % 3, NULL]) t(u) GROUP BY u"),
        # Recursion.
        (
            ["WITH RECURSIVE", "UNION ALL"],
            "WITH RECURSIVE t AS (SELECT id, 0 AS depth FROM {0}.tree WHERE parent IS NULL UNION ALL "
            "SELECT x.id, depth + 1 FROM {0}.tree x JOIN t ON x.parent = t.id) SELECT depth, count(*), sum(id) "
            "FROM t GROUP BY depth",
        ),
        (
            ["WITH RECURSIVE", " UNION "],
            "WITH RECURSIVE t AS (SELECT id, w FROM {0}.tree WHERE id < 3 UNION "
            "SELECT x.w AS id, x.w FROM {0}.tree x JOIN t ON x.parent = t.id) SELECT w, count(*) FROM t JOIN "
            "{0}.u ON u.n = t.id GROUP BY w",
        ),
        (["ASOF JOIN"],
         "SELECT a.g, count(*), max(u.v) FROM {0}.a ASOF JOIN {0}.u ON a.g = u.g AND a.k >= u.n GROUP BY "
         "a.g"),
        (["ASOF LEFT JOIN"],
         "SELECT a.g, count(u.v), min(u.v) FROM {0}.a ASOF LEFT JOIN {0}.u ON a.g = u.g AND a.k < u.n "
         "WHERE a.id > 5 GROUP BY a.g"),
        (["SEMI JOIN"], "SELECT g, count(*) FROM {0}.a SEMI JOIN {0}.u USING (g) GROUP BY g"),
        (["ANTI JOIN"], "SELECT g, count(*) FROM {0}.a ANTI JOIN {0}.u ON a.k = u.n AND a.g > u.g GROUP BY g"),
        # What DuckDB makes aggregates and lists of.
        (["FILTER (WHERE"], "PIVOT {0}.q ON m IN ('m0', 'm1', 'm3') USING sum(x) GROUP BY g"),
        (["unnest("], "SELECT name, sum(value) FROM (UNPIVOT {0}.q ON x, y INTO NAME name VALUE value) GROUP BY name"),
    ],
)  # fmt: skip
def test_made_there(con, words, sql):
    sent = check(con, sql)
    assert len(sent) == 1, sent
    assert all(word in sent[0] for word in words), sent


def test_a_list_of_each_row_is_weighed(con):
    # Beside no groups: what the table gives is looked at, and what the lists give is no table.
    check(con, "SELECT id, u FROM {0}.l, unnest(range(id % 4)) t(u)")
    check(con, "SELECT count(*) OVER (PARTITION BY id), u FROM {0}.l, unnest(l.l) t(u) QUALIFY u > 1")


@pytest.mark.parametrize(
    "word, sql",
    [
        # A row may have several partners that are as near.
        ("ASOF", "SELECT a.g, count(*) FROM {0}.u ASOF JOIN {0}.a ON a.g = u.g AND u.n >= a.k GROUP BY a.g"),
        # NULLs are not unique.
        ("row_number", "SELECT r, count(*) FROM (SELECT row_number() OVER (ORDER BY g, n) AS r FROM {0}.b) GROUP BY r"),
        ("DISTINCT ON", "SELECT g, count(*) FROM (SELECT DISTINCT ON (k) k, g FROM {0}.a ORDER BY k, p) GROUP BY g"),
        # Which rows a sample has, and which stand beside each other, hangs on where they are read.
        ("SAMPLE", "SELECT g, count(*) FROM (FROM {0}.a USING SAMPLE reservoir(50 ROWS) REPEATABLE (7)) GROUP BY g"),
        ("SAMPLE", "SELECT g, count(*) FROM {0}.a TABLESAMPLE bernoulli(20%) REPEATABLE (7) GROUP BY g"),
        ("POSITIONAL", "SELECT a.g, count(*) FROM {0}.a POSITIONAL JOIN {0}.u GROUP BY a.g"),
    ],
)
def test_what_hangs_on_an_order_that_nobody_asked_for_stays_here(con, word, sql):
    for text in services.remote_sql(con, sql.format("cloud")):
        assert word not in text
    con.execute(sql.format("cloud")).fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        # Rows of no table, and none.
        "SELECT g, count(*) FROM (SELECT g, k FROM {0}.a UNION ALL SELECT 3, NULL) GROUP BY g",
        "SELECT g, count(*) FROM {0}.a LEFT JOIN (SELECT n FROM {0}.u WHERE n < 3 AND n > 5) x ON x.n = a.k GROUP BY g",
        "SELECT one, g, count(*) FROM {0}.a CROSS JOIN (SELECT 1 AS one) GROUP BY one, g",
        # The numbers of a numbering compared with others, or seen.
        "SELECT r, count(*) FROM (SELECT row_number() OVER () AS r FROM {0}.q) JOIN {0}.u ON u.n = r GROUP BY r",
        "SELECT count(*) FROM (SELECT row_number() OVER () AS r, g FROM {0}.q) x WHERE r IN "
        "(SELECT n FROM {0}.u WHERE u.g = x.g)",
        "WITH w AS (SELECT row_number() OVER () AS r, g FROM {0}.q) SELECT a.g, count(*) FROM w a JOIN w b USING (r) "
        "GROUP BY a.g",
    ],
)
def test_right_wherever_it_is_made(con, sql):
    check(con, sql)
