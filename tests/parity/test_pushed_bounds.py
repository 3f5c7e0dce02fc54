"""What becomes known while a plan runs reaches scans that have not started: bounds of TOP N, what joins look for."""

import json
import random

import pytest
from twin_tables import twin_tables

pytestmark = pytest.mark.extension

LEVELS = ("off", "scan", "full")
TABLES = (
    "CREATE TABLE big AS SELECT i AS id, (i * 7919) % 100003 AS v,"
    " CASE WHEN i % 17 > 0 THEN (i * 31) % 100003 END AS n,"
    " 'n' || lpad(((i * 7919) % 100003)::VARCHAR, 6, '0') AS s,"
    " DATE '2000-01-01' + ((i * 7919) % 100003)::INTEGER AS d,"
    " ((i * 7919) % 100003 * 0.01)::DECIMAL(12,2) AS p, i % 7 AS g FROM range(60000) t(i)",
    "CREATE TABLE few AS SELECT i AS g, 'group ' || i AS name FROM range(7) t(i)",
)


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    """`cloud` at a server, twins of its tables, and `here`, of which every row may be among the first."""
    with twin_tables(tmp_path_factory.mktemp("bounds") / "mydb.duckdb", ("big", "few"), *TABLES) as c:
        c.execute(
            "CREATE TABLE here AS SELECT -i AS id, (i * 577) % 100003 AS v, CASE WHEN i % 5 > 0 THEN i % 300 END AS n,"
            " 'n' || lpad(((i * 577) % 100003)::VARCHAR, 6, '0') AS s,"
            " DATE '2000-01-01' + ((i * 577) % 100003)::INTEGER AS d,"
            " ((i * 577) % 100003 * 0.01)::DECIMAL(12,2) AS p, i % 7 AS g FROM range(1, 4000) t(i)"
        )
        yield c


def nodes(plan):
    yield plan
    for child in plan["children"]:
        yield from nodes(child)


def scans(con, sql):
    """What the scans of SQL sent, and how many rows they got."""
    text = con.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + sql).fetchall()[0][1]
    info = [n["extra_info"] for n in nodes(json.loads(text)) if "Remote SQL" in n.get("extra_info", {})]
    return [(i["Remote SQL"], int(i["Rows Received"])) for i in info]


def check(con, sql, ordered=True):
    """SQL gives the same as with the twins on each level. What was sent, by level."""
    in_order = list if ordered else lambda rows: sorted(map(repr, rows))
    # DuckDB 1.5.5 has its bounds reach below a RIGHT or FULL JOIN, where they make rows without a partner.
    con.execute("SET disabled_optimizers = 'top_n'")
    result = con.execute(sql.format("twin"))
    types, want = [str(d[1]) for d in result.description], in_order(result.fetchall())
    con.execute("RESET disabled_optimizers")
    sent = {}
    for level in LEVELS:
        con.execute("SET openduck_pushdown = '%s'" % level)
        result = con.execute(sql.format("cloud"))
        assert [str(d[1]) for d in result.description] == types, level
        assert in_order(result.fetchall()) == want, (level, sql)
        sent[level] = scans(con, sql.format("cloud"))
    con.execute("RESET openduck_pushdown")
    return sent


BOTH = "(FROM here UNION ALL FROM {0}.big)"


@pytest.mark.parametrize(
    "condition, sql",
    [
        ('"v" < ', "SELECT id, v FROM %s ORDER BY v LIMIT 10" % BOTH),
        ('"v" > ', "SELECT id, v FROM %s ORDER BY v DESC LIMIT 10 OFFSET 5" % BOTH),
        ('"s" <= ', "SELECT * FROM %s ORDER BY s, id LIMIT 20" % BOTH),
        ('"d" >= ', "SELECT * FROM %s ORDER BY d DESC, id LIMIT 20" % BOTH),
        ('"p" <= ', "SELECT * FROM %s ORDER BY p, id LIMIT 20" % BOTH),
        ('"n" <= ', "SELECT n, id FROM %s ORDER BY n NULLS LAST, id LIMIT 50" % BOTH),
        ('"v" <= ', "SELECT v, id FROM (FROM {0}.big UNION ALL FROM here) ORDER BY v, id LIMIT 9"),
        ('"v" <= ', "SELECT v, id FROM (FROM {0}.big UNION ALL FROM here UNION ALL FROM here UNION ALL FROM {0}.big)"
         " ORDER BY v, id LIMIT 9"),
        ('"v" <= ', "SELECT v, id, name FROM %s JOIN (SELECT g, reverse(name) AS name FROM {0}.few) USING (g)"
         " ORDER BY v, id LIMIT 9" % BOTH),
        ('"v" <= ', "SELECT v, id, name FROM %s LEFT JOIN {0}.few USING (g) ORDER BY v, id LIMIT 9" % BOTH),
    ],
)  # fmt: skip
def test_a_bound_is_sent(con, condition, sql):
    sent = check(con, sql)
    for level in ("scan", "full"):
        big = [(s, rows) for s, rows in sent[level] if '"big"' in s]
        assert big and all(condition in s and rows < 1000 for s, rows in big), (level, sent)
    assert all(condition not in s for s, _ in sent["off"])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n, id FROM %s ORDER BY n NULLS FIRST, id LIMIT 9000" % BOTH,  # every NULL is among the first
        "SELECT * FROM (FROM here LIMIT 3) UNION ALL FROM {0}.big ORDER BY v, id LIMIT 10",  # no bound comes of so few
        "SELECT v, id FROM (FROM here UNION ALL (FROM {0}.big ORDER BY id LIMIT 5000)) ORDER BY v, id LIMIT 9",
        "SELECT v, id FROM (FROM here UNION ALL (SELECT DISTINCT ON (g) * FROM {0}.big ORDER BY g, id))"
        " ORDER BY v, id LIMIT 9",
        "SELECT b.v, f.g FROM (SELECT v, id, g FROM %s) b RIGHT JOIN (SELECT -i AS id, i AS g FROM range(60000) t(i)) f"
        " USING (id) ORDER BY b.v NULLS FIRST, f.g LIMIT 5" % BOTH,
        "SELECT b.v, f.g FROM (SELECT v, id, g FROM %s) b FULL JOIN (SELECT i AS id, i AS g FROM range(9) t(i)) f"
        " USING (id) ORDER BY b.v NULLS FIRST, f.g LIMIT 5" % BOTH,
        "SELECT v, max(id) FROM %s GROUP BY v ORDER BY v LIMIT 10" % BOTH,
    ],
)  # fmt: skip
def test_a_bound_that_is_none_changes_nothing(con, sql):
    check(con, sql)


def test_a_plan_that_waits_says_so(con):
    sql = "EXPLAIN SELECT id, v FROM %s ORDER BY v LIMIT 10" % BOTH.format("cloud")
    assert "OPENDUCK_AWAIT_BOUND" in con.execute(sql).fetchall()[0][1]
    # Reading so much here takes longer than what is there takes to come.
    long = "(SELECT i AS id, i AS v FROM range(100000000) t(i) UNION ALL SELECT id, v FROM cloud.big)"
    sql = "EXPLAIN SELECT id, v FROM %s ORDER BY v LIMIT 10" % long
    assert "OPENDUCK_AWAIT_BOUND" not in con.execute(sql).fetchall()[0][1]
    con.execute("PREPARE again AS SELECT id, v FROM %s ORDER BY v, id LIMIT $1" % BOTH.format("cloud"))
    for limit in (3, 4000, 3):
        want = con.execute("SELECT id, v FROM %s ORDER BY v, id LIMIT %d" % (BOTH.format("twin"), limit)).fetchall()
        assert con.execute("EXECUTE again(%d)" % limit).fetchall() == want
    con.execute("DEALLOCATE again")


def test_a_bound_in_a_query_that_is_joined(con):
    """The join's own run-time filter stays away from what the LIMIT counts; the bound does not."""
    top = "(SELECT g, v, id FROM %s ORDER BY v, id LIMIT 25)" % BOTH
    sent = check(con, "SELECT t.*, h.g FROM %s t JOIN (SELECT 3 AS g) h USING (g)" % top, ordered=False)
    assert any('"v" <=' in s for s, _ in sent["scan"]), sent


@pytest.mark.parametrize(
    "conditions, here",
    [
        ((">= CAST('100'", "<= CAST('900'"), "SELECT unnest([100, 900, 333]) AS v"),
        (("IN (",), "SELECT unnest([100, 900, 333]) AS v"),
        (("= CAST('5'",), "SELECT 5 AS v"),
        ((">= CAST('0'", "<= CAST('1998'"), "SELECT i * 2 AS v FROM range(1000) t(i)"),
    ],
)
def test_what_a_join_looks_for_is_sent(con, conditions, here):
    con.execute("CREATE OR REPLACE TABLE wanted AS " + here)
    sent = check(con, "SELECT v, id FROM {0}.big JOIN wanted USING (v)", ordered=False)
    (big,) = [s for s, _ in sent["scan"]]
    assert all(c in big for c in conditions), big
    assert all(c not in s for s, _ in sent["off"] for c in conditions)


def test_what_is_sent_is_bounded(con):
    """A list of long texts is not sent, nor texts that bound it; the join finds its rows all the same."""
    con.execute("CREATE OR REPLACE TABLE wanted AS SELECT repeat('n', 40000) || i AS s FROM range(3) t(i)")
    con.execute("INSERT INTO wanted VALUES ('n007919')")
    con.execute("SET dynamic_or_filter_threshold = 1000")
    sent = check(con, "SELECT s, id FROM {0}.big JOIN wanted USING (s)", ordered=False)
    assert all(len(s) < 100000 for s, _ in sent["scan"]), [len(s) for s, _ in sent["scan"]]
    con.execute("RESET dynamic_or_filter_threshold")


def test_random_bounds(con):
    """Orders, limits and places of unions at random."""
    rnd = random.Random(8)
    for _ in range(12):
        parts = [
            rnd.choice(("FROM here", "FROM {0}.big", "FROM {0}.big WHERE g < 4", "FROM here WHERE g > 2"))
            for _ in range(3)
        ]
        source = "(%s)" % " UNION ALL ".join(parts)
        if rnd.random() < 0.4:
            join = rnd.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"))
            source = "(SELECT x.* FROM %s x %s (FROM here WHERE g <> 1 LIMIT 50) y ON x.g = y.g AND x.v = y.v)" % (
                source,
                join,
            )
        column = rnd.choice(("v", "n", "s", "d", "p"))
        order = "%s %s NULLS %s" % (column, rnd.choice(("ASC", "DESC")), rnd.choice(("FIRST", "LAST")))
        limit = rnd.choice((1, 10, 300))
        check(con, "SELECT * FROM %s ORDER BY %s, id, v, g LIMIT %d" % (source, order, limit))
