"""What SQL can do over tables: the same statement over an attached database and over a local copy gives the same rows."""
# ruff: noqa: E501

import datetime

import pytest
import services

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE TABLE sale AS SELECT i AS id, i % 17 AS shop, i % 5 AS kind, DATE '2024-01-01' + (i % 366)::INTEGER AS day,"
    " (i * 7919 % 10007) / 100.0::DOUBLE AS price, CASE WHEN i % 13 = 0 THEN NULL ELSE 'note ' || i % 29 END AS note,"
    " [i % 3, i % 4, NULL] AS tags, {'x': i % 10, 'y': 'y' || i % 6} AS pos FROM range(20000) t(i)",
    "CREATE TABLE shop AS SELECT i AS shop, 'shop ' || i AS name, CASE WHEN i % 4 = 0 THEN NULL ELSE i % 3 END AS region,"
    " TIMESTAMP '2024-01-01' + INTERVAL (i) DAY AS opened FROM range(20) t(i)",
    "CREATE TABLE edge AS SELECT i AS a, i + 1 + i % 3 AS b FROM range(200) t(i)",
    "CREATE TABLE quote AS SELECT i % 17 AS shop, TIMESTAMP '2024-01-01' + INTERVAL (i * 7) HOUR AS at, i AS rate"
    " FROM range(1500) t(i)",
    "CREATE TABLE monthly AS SELECT * FROM (VALUES ('a', 1, 2, 3), ('b', 4, 5, NULL), ('c', 7, NULL, 9)) t(k, jan, feb, mar)",
    "CREATE TABLE empty AS SELECT 1 AS i, 'x' AS s LIMIT 0",
    "CREATE SCHEMA other",
    "CREATE TABLE other.shop AS SELECT i AS shop, 'other ' || i AS name FROM range(5) t(i)",
    "CREATE VIEW cheap AS SELECT id, shop, price FROM sale WHERE price < 3",
    "CREATE VIEW totals AS SELECT shop, sum(price) AS total, count(*) AS n FROM sale GROUP BY shop",
    'CREATE TABLE "odd ""name" AS SELECT i AS "select", i * 2 AS "a b", i * 3 AS "Ünï", i * 4 AS "q""q" FROM range(50) t(i)',
)

# Local tables that the statements join with; they are the same on both sides.
LOCAL = (
    "CREATE TABLE mine AS SELECT i AS shop, 'mine ' || i AS label FROM range(0, 20, 3) t(i)",
    "CREATE TABLE days AS SELECT DATE '2024-01-01' + (i * 30)::INTEGER AS day FROM range(12) t(i)",
)

STATEMENTS = {
    "prune": "SELECT price, id FROM {db}.sale WHERE id BETWEEN 100 AND 120",
    "star": "FROM {db}.shop",
    "exclude": "SELECT * EXCLUDE (tags, pos) REPLACE (price * 2 AS price) FROM {db}.sale WHERE id < 50",
    "columns": "SELECT min(COLUMNS('^(id|price)$')), max(COLUMNS('^(id|price)$')) FROM {db}.sale",
    "null filters": "SELECT count(*), count(note), count(*) FILTER (note IS NULL) FROM {db}.sale WHERE note IS DISTINCT FROM 'note 3'",
    "not in": "SELECT id FROM {db}.sale WHERE id < 500 AND kind NOT IN (1, 3) AND note NOT LIKE '%1%'",
    "in null": "SELECT id FROM {db}.shop s JOIN {db}.sale USING (shop) WHERE s.region IN (1, NULL) AND id < 300",
    "or": "SELECT id FROM {db}.sale WHERE (shop = 3 AND kind = 2) OR (price > 99.5) OR (note = 'note 7' AND id < 100)",
    "like": "SELECT id FROM {db}.sale WHERE id < 2000 AND (note ILIKE 'NOTE 2_' OR note SIMILAR TO 'note (4|5)' OR note ^@ 'note 9')",
    "functions": "SELECT id FROM {db}.sale WHERE id < 3000 AND abs(id - 1000) < 10 OR upper(note) = 'NOTE 28' AND length(note) = 7 AND id < 500",
    "dates": "SELECT count(*), min(day) FROM {db}.sale WHERE day >= DATE '2024-06-01' AND month(day) = 7 AND day + INTERVAL 1 DAY < '2024-07-20'",
    "casts": "SELECT id FROM {db}.sale WHERE id::VARCHAR LIKE '19%' AND try_cast(note AS INTEGER) IS NULL AND price::INTEGER = 50",
    "division": "SELECT id, id / 7, id // 7, id % 7, -id % 7 FROM {db}.sale WHERE id / 7 > 100.5 AND id // 7 < 103",
    "between columns": "SELECT id FROM {db}.sale WHERE price BETWEEN kind AND shop AND id < 4000",
    "struct": "SELECT pos.x, pos.y, count(*) FROM {db}.sale WHERE pos.x > 5 AND pos.y <> 'y3' GROUP BY ALL",
    "list": "SELECT id, tags[1], list_sum(tags), len(tags) FROM {db}.sale WHERE list_contains(tags, 2) AND id < 100",
    "comprehension": "SELECT id, [x * 10 FOR x IN tags IF x > 0] FROM {db}.sale WHERE id < 60",
    "lambda": "SELECT id, list_transform(tags, lambda x: x + shop), list_filter(tags, lambda x: x IS NOT NULL) FROM {db}.sale WHERE id < 60",
    "unnest": "SELECT id, unnest(tags) AS tag FROM {db}.sale WHERE id < 40",
    "unnest where": "SELECT tag, count(*) FROM (SELECT unnest(tags) AS tag FROM {db}.sale) WHERE tag = 2 GROUP BY tag",
    "group": "SELECT shop, kind, count(*), round(sum(price), 4), count(DISTINCT note) FROM {db}.sale GROUP BY shop, kind",
    "having": "SELECT shop, count(*) AS n FROM {db}.sale GROUP BY shop HAVING count(*) > 1176",
    "rollup": "SELECT shop, kind, count(*), grouping(shop, kind) FROM {db}.sale WHERE shop < 4 GROUP BY ROLLUP (shop, kind)",
    "cube": "SELECT shop, kind, count(*) FROM {db}.sale WHERE shop < 3 GROUP BY CUBE (shop, kind)",
    "grouping sets": "SELECT shop, kind, max(id) FROM {db}.sale GROUP BY GROUPING SETS ((shop), (kind), ())",
    "distinct": "SELECT DISTINCT shop, kind FROM {db}.sale WHERE price > 90",
    "distinct on": "SELECT DISTINCT ON (shop) shop, id FROM {db}.sale ORDER BY shop, price DESC, id",
    "aggregates": "SELECT arg_max(id, price), median(price), mode(kind), quantile_cont(price, 0.9), first(id ORDER BY id), bool_and(id >= 0) FROM {db}.sale",
    "string_agg": "SELECT kind, string_agg(DISTINCT note, ',' ORDER BY note) FROM {db}.sale GROUP BY kind",
    "list agg": "SELECT kind, list(id ORDER BY id)[:5], histogram(shop) FROM {db}.sale WHERE id < 500 GROUP BY kind",
    "order": "SELECT id, note FROM {db}.sale ORDER BY note NULLS FIRST, price DESC, id LIMIT 50 OFFSET 20",
    "order all": "FROM {db}.edge ORDER BY ALL DESC LIMIT 10",
    "top n": "SELECT id FROM {db}.sale ORDER BY price DESC, id LIMIT 10",
    "limit": "SELECT id FROM {db}.sale ORDER BY id LIMIT 10 OFFSET 19995",
    "limit percent": "SELECT count(*) FROM (SELECT id FROM {db}.sale LIMIT 10%)",
    "limit offset count": "SELECT count(*) FROM (FROM {db}.sale LIMIT 700 OFFSET 19500)",
    "limit filter": "SELECT count(*) FROM (FROM {db}.sale WHERE kind = 2 LIMIT 100000)",
    "filter after limit": "SELECT count(*) FROM (SELECT id FROM {db}.sale ORDER BY id LIMIT 1000) WHERE id >= 900",
    "inner join": "SELECT s.id, h.name FROM {db}.sale s JOIN {db}.shop h USING (shop) WHERE h.region = 1 AND s.price < 2",
    "left join": "SELECT h.name, count(s.id) FROM {db}.shop h LEFT JOIN {db}.sale s ON s.shop = h.shop AND s.kind = 0 GROUP BY h.name",
    "right join": "SELECT h.name, count(s.id) FROM {db}.sale s RIGHT JOIN {db}.shop h ON s.shop = h.shop GROUP BY h.name",
    "full join": "SELECT o.name, h.name FROM {db}.other.shop o FULL JOIN {db}.shop h ON o.shop = h.shop + 3",
    "semi join": "SELECT count(*) FROM {db}.sale SEMI JOIN {db}.other.shop USING (shop)",
    "anti join": "SELECT count(*) FROM {db}.sale ANTI JOIN {db}.other.shop USING (shop)",
    "cross join": "SELECT count(*), sum(a.shop * b.shop) FROM {db}.shop a, {db}.other.shop b",
    "self join": "SELECT count(*) FROM {db}.edge x JOIN {db}.edge y ON x.b = y.a WHERE x.a <> y.b",
    "natural join": "SELECT count(*) FROM {db}.shop NATURAL JOIN {db}.other.shop",
    "inequality join": "SELECT count(*) FROM {db}.edge x JOIN {db}.edge y ON x.a < y.b AND x.b > y.a",
    "local join": "SELECT label, count(*), round(sum(price), 4) FROM mine JOIN {db}.sale USING (shop) GROUP BY label",
    "remote left local": "SELECT h.name, m.label FROM {db}.shop h LEFT JOIN mine m USING (shop)",
    "local not in remote": "SELECT * FROM mine WHERE shop NOT IN (SELECT shop FROM {db}.other.shop)",
    "three way": "SELECT count(*) FROM mine JOIN {db}.sale USING (shop) JOIN {db}.shop USING (shop) JOIN days USING (day)",
    "asof": "SELECT h.name, q.rate FROM {db}.shop h ASOF JOIN {db}.quote q ON h.shop = q.shop AND h.opened >= q.at",
    "asof left": "SELECT h.name, q.rate FROM {db}.shop h ASOF LEFT JOIN {db}.quote q ON h.shop = q.shop AND h.opened < q.at",
    "positional": "SELECT count(*), count(a), count(name) FROM (SELECT a FROM {db}.edge) POSITIONAL JOIN (SELECT name FROM {db}.shop)",
    "positional local": "SELECT count(*), count(label) FROM {db}.shop POSITIONAL JOIN mine",
    "lateral": "SELECT h.name, t.id FROM {db}.shop h, LATERAL (SELECT id FROM {db}.sale s WHERE s.shop = h.shop ORDER BY price DESC, id LIMIT 2) t",
    "lateral values": "SELECT shop, x FROM {db}.shop, LATERAL (SELECT unnest([shop, shop * 2]) AS x) WHERE x > 10",
    "correlated scalar": "SELECT name, (SELECT max(price) FROM {db}.sale s WHERE s.shop = h.shop AND s.kind = 1) FROM {db}.shop h",
    "correlated exists": "SELECT name FROM {db}.shop h WHERE EXISTS (SELECT 1 FROM {db}.sale s WHERE s.shop = h.shop AND s.price > 99.9)",
    "correlated in": "SELECT id FROM {db}.sale s WHERE id < 500 AND s.shop IN (SELECT h.shop FROM {db}.shop h WHERE h.region = s.kind)",
    "any": "SELECT count(*) FROM {db}.sale WHERE price > ALL (SELECT shop * 5 FROM {db}.shop) OR kind = ANY (SELECT shop FROM {db}.other.shop WHERE shop < 2)",
    "scalar subquery": "SELECT id FROM {db}.sale WHERE price = (SELECT max(price) FROM {db}.sale)",
    "array subquery": "SELECT name, ARRAY(SELECT id FROM {db}.sale s WHERE s.shop = h.shop ORDER BY id LIMIT 3) FROM {db}.shop h",
    "recursive": "WITH RECURSIVE r(n) AS (SELECT 0 UNION SELECT b FROM {db}.edge JOIN r ON a = n) SELECT count(*), max(n) FROM r",
    "recursive remote base": "WITH RECURSIVE r(a, depth) AS (SELECT a, 0 FROM {db}.edge WHERE a = 5 UNION ALL SELECT b, depth + 1 FROM r JOIN {db}.edge e USING (a) WHERE depth < 20) FROM r",
    "cte": "WITH c AS (SELECT shop, sum(price) AS p FROM {db}.sale GROUP BY shop) SELECT round(max(a.p - b.p), 4) FROM c a, c b",
    "cte materialized": "WITH c AS MATERIALIZED (FROM {db}.sale WHERE kind = 1) SELECT (SELECT count(*) FROM c), (SELECT min(id) FROM c WHERE shop = 7)",
    "window": "SELECT id, row_number() OVER w, round(sum(price) OVER w, 4), lag(id, 2) OVER w FROM {db}.sale WHERE id < 400 WINDOW w AS (PARTITION BY shop ORDER BY price, id)",
    "window frame": "SELECT id, avg(price) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM {db}.sale WHERE id < 300",
    "qualify": "SELECT shop, id FROM {db}.sale QUALIFY row_number() OVER (PARTITION BY shop ORDER BY price DESC, id) = 1",
    "union all": "SELECT shop FROM {db}.shop UNION ALL SELECT shop FROM {db}.other.shop UNION ALL SELECT shop FROM mine",
    "union by name": "FROM {db}.shop UNION ALL BY NAME FROM {db}.other.shop UNION ALL BY NAME FROM mine",
    "intersect": "SELECT shop FROM {db}.sale INTERSECT SELECT shop FROM {db}.other.shop",
    "except": "SELECT shop FROM {db}.shop EXCEPT SELECT shop FROM {db}.sale",
    "except all": "SELECT kind FROM {db}.sale WHERE id < 20 EXCEPT ALL SELECT shop FROM {db}.other.shop",
    "pivot": "PIVOT {db}.sale ON kind USING count(*) GROUP BY shop",
    "pivot in": "PIVOT {db}.sale ON kind IN (0, 3) USING max(id), min(id) AS low GROUP BY shop",
    "pivot sql": "FROM {db}.sale PIVOT (count(*) FOR kind IN (1, 2) GROUP BY shop)",
    "unpivot": "UNPIVOT {db}.monthly ON jan, feb, mar INTO NAME month VALUE v",
    "unpivot nulls": "FROM {db}.monthly UNPIVOT INCLUDE NULLS (v FOR month IN (jan, feb, mar))",
    "sample rows": "SELECT count(*) FROM {db}.sale USING SAMPLE reservoir(100 ROWS) REPEATABLE (3)",
    "sample all": "SELECT count(*) FROM {db}.sale TABLESAMPLE 100%",
    "sample none": "SELECT count(*) FROM {db}.sale TABLESAMPLE bernoulli(0%)",
    "sample filter": "SELECT count(*) FROM (FROM {db}.sale WHERE kind = 2) USING SAMPLE 10 ROWS",
    "empty": "SELECT count(*), sum(i), max(s) FROM {db}.empty",
    "empty join": "SELECT * FROM {db}.empty JOIN {db}.shop ON i = shop",
    "false": "SELECT id FROM {db}.sale WHERE 1 = 0 UNION ALL SELECT id FROM {db}.sale WHERE id < 3 AND id > 5",
    "view": "SELECT shop, count(*) FROM {db}.cheap GROUP BY shop",
    "view filter": "SELECT shop, round(total, 4), n FROM {db}.totals WHERE shop IN (3, 5) OR n > 1176",
    "view join": "SELECT h.name, round(t.total, 4) FROM {db}.totals t JOIN {db}.shop h USING (shop) WHERE h.region IS NULL",
    "odd names": 'SELECT "select", "a b", "Ünï", "q""q" FROM {db}."odd ""name" WHERE "a b" > 10 AND "q""q" < 150 AND "Ünï" <> 33',
    "rowid": "SELECT rowid, a FROM {db}.edge WHERE rowid BETWEEN 10 AND 12",
    "row": "SELECT e FROM {db}.edge e WHERE a < 3",
    "count star": "SELECT count(*) FROM {db}.sale",
    "count constant": "SELECT 'x', 1 + 1 FROM {db}.shop",
    "macro": "SELECT id, twice(kind) FROM {db}.sale WHERE twice(shop) = 10 AND id < 200",
    "variable": "SELECT id FROM {db}.sale WHERE shop = getvariable('v') AND id < 200",
    "summarize": "SELECT column_name, min, max, count FROM (SUMMARIZE {db}.edge)",
    "describe": "SELECT column_name, column_type FROM (DESCRIBE {db}.sale)",
    "case": "SELECT CASE WHEN kind = 1 THEN 'one' WHEN kind > 3 THEN note ELSE name END AS c, count(*) FROM {db}.sale JOIN {db}.shop USING (shop) GROUP BY c",
    "collate": "SELECT name FROM {db}.shop WHERE name COLLATE NOCASE = 'SHOP 7' ORDER BY name COLLATE NOCASE",
    "regexp": r"SELECT id, regexp_extract(note, '(\d+)', 1) FROM {db}.sale WHERE regexp_matches(note, '^note 1\d$') AND id < 300",
    "interval": "SELECT name FROM {db}.shop WHERE opened - TIMESTAMP '2024-01-01' > INTERVAL 10 DAY",
    "time bucket": "SELECT time_bucket(INTERVAL 3 MONTH, day) AS b, count(*) FROM {db}.sale GROUP BY b",
    "from first": "FROM {db}.sale SELECT kind, count(*) WHERE shop = 2 GROUP BY kind",
    "alias reuse": "SELECT price * 2 AS double, double + 1 AS more FROM {db}.sale WHERE double > 199.5",
    "volatile": "SELECT count(*) FROM {db}.sale WHERE random() >= 0",
    "to json": "SELECT to_json(e) FROM {db}.edge e WHERE a < 5",
    "values join": "SELECT v, name FROM (VALUES (1, 'p'), (30, 'q')) t(k, v) LEFT JOIN {db}.shop ON k = shop",
}


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """A connection that knows the same tables as `cloud` (attached) and as `twin` (a file of its own)."""
    path = tmp_path_factory.mktemp("sql")
    here = services.make_database(path / "here.duckdb", *TABLES)
    twin = services.make_database(path / "twin.duckdb", *TABLES)
    with services.Serve({"mydb": here}) as server, services.attached(server) as con:
        con.execute("ATTACH '%s' AS twin (READ_ONLY)" % twin)
        for sql in LOCAL:
            con.execute(sql)
        con.execute("CREATE MACRO twice(x) AS x * 2")
        con.execute("SET VARIABLE v = 4")
        yield con
        server.wait_idle()


def answer(con, sql, parameters=None):
    """Names, types and rows; sorted, unless the statement says how."""
    result = con.execute(sql, parameters) if parameters else con.execute(sql)
    shape = [(d[0].replace("cloud.", "twin."), str(d[1])) for d in result.description]
    rows = result.fetchall()
    return shape, rows if " ORDER BY " in sql.rsplit(")", 1)[-1] else sorted(rows, key=repr)


def same(con, sql, parameters=None):
    want = answer(con, sql.replace("{db}", "twin"), parameters)
    assert answer(con, sql.replace("{db}", "cloud"), parameters) == want


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement_gives_the_same(twins, name):
    same(twins, STATEMENTS[name])


@pytest.mark.parametrize("name", [n for n in STATEMENTS if not n.startswith(("pivot", "describe", "summarize"))])
def test_view_over_the_attached_tables_gives_the_same(twins, name):
    for db in ("twin", "cloud"):
        twins.execute("CREATE OR REPLACE TEMP VIEW over_%s AS %s" % (db, STATEMENTS[name].replace("{db}", db)))
    assert answer(twins, "FROM over_cloud") == answer(twins, "FROM over_twin")
    assert answer(twins, "SELECT count(*) FROM over_cloud") == answer(twins, "SELECT count(*) FROM over_twin")


def test_create_table_as_gives_the_same(twins):
    for sql in (
        "FROM {db}.sale",
        "SELECT shop, list(id ORDER BY id) AS ids, any_value(pos) FROM {db}.sale GROUP BY shop",
    ):
        for db in ("twin", "cloud"):
            twins.execute("CREATE OR REPLACE TABLE copy_%s AS %s" % (db, sql.replace("{db}", db)))
        assert answer(twins, "FROM copy_cloud") == answer(twins, "FROM copy_twin")
    twins.execute("INSERT INTO copy_cloud BY NAME SELECT shop, [1] AS ids FROM cloud.other.shop")
    twins.execute("INSERT INTO copy_twin BY NAME SELECT shop, [1] AS ids FROM twin.other.shop")
    twins.execute("DELETE FROM copy_cloud USING cloud.shop h WHERE h.shop = copy_cloud.shop AND region = 1")
    twins.execute("DELETE FROM copy_twin USING twin.shop h WHERE h.shop = copy_twin.shop AND region = 1")
    twins.execute("UPDATE copy_cloud SET ids = NULL WHERE shop IN (SELECT shop FROM cloud.other.shop)")
    twins.execute("UPDATE copy_twin SET ids = NULL WHERE shop IN (SELECT shop FROM twin.other.shop)")
    assert answer(twins, "FROM copy_cloud") == answer(twins, "FROM copy_twin")


def test_order_of_rows_is_kept(twins):
    assert twins.execute("SELECT id FROM cloud.sale").fetchall() == [(i,) for i in range(20000)]
    twins.execute("CREATE OR REPLACE TABLE ordered AS SELECT id FROM cloud.sale WHERE id % 3 = 0")
    assert twins.execute("SELECT id FROM ordered").fetchall() == [(i,) for i in range(0, 20000, 3)]


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_copy_to_a_file_gives_the_same(twins, form, tmp_path):
    for db in ("twin", "cloud"):
        twins.execute("COPY %s.sale TO '%s' (FORMAT %s)" % (db, tmp_path / db, form))
        twins.execute(
            "COPY (SELECT kind, max(id) AS m FROM %s.sale GROUP BY kind ORDER BY kind) TO '%s' (FORMAT %s)"
            % (db, tmp_path / (db + "-query"), form)
        )
    read = {"csv": "read_csv", "parquet": "read_parquet", "json": "read_json"}[form]
    for end in ("", "-query"):
        sql = "FROM %s('%s')"
        assert answer(twins, sql % (read, tmp_path / ("cloud" + end))) == answer(
            twins, sql % (read, tmp_path / ("twin" + end))
        )
    if form != "parquet":
        assert (tmp_path / "cloud").read_bytes() == (tmp_path / "twin").read_bytes()


PREPARED = {
    "compare": ("SELECT id FROM {db}.sale WHERE id < ? AND kind = ?", [[100, 1], [5, 2], [0, 0], [None, 1]]),
    "in": ("SELECT id FROM {db}.sale WHERE shop IN (?, ?) AND id < 200", [[1, 2], [3, None]]),
    "text": ("SELECT id FROM {db}.sale WHERE note = ? AND id < 1000", [["note 7"], ["it's"], [None], ["\u00fc\u4e2d"]]),
    "like": ("SELECT count(*) FROM {db}.sale WHERE note LIKE ?", [["note 1%"], ["%\\_%"], [""]]),
    "date": ("SELECT count(*) FROM {db}.sale WHERE day > ?", [[datetime.date(2024, 3, 1)], [datetime.date(1, 1, 1)]]),
    "number": ("SELECT count(*) FROM {db}.sale WHERE price > ? + 1", [[50], [99.9], [-1e300]]),
    "limit": ("SELECT id FROM {db}.sale ORDER BY id LIMIT ? OFFSET ?", [[5, 10], [0, 0]]),
    "select": ("SELECT id + ?, ? FROM {db}.sale WHERE id < 3", [[10, "x"], [None, "y"]]),
    "join": ("SELECT count(*) FROM {db}.sale s JOIN {db}.shop h ON s.shop = h.shop + ? WHERE h.name <> ?", [[1, "shop 3"], [-2, "x"]]),
    "view": ("SELECT n FROM {db}.totals WHERE shop = ?", [[3], [99]]),
}  # fmt: skip


@pytest.mark.parametrize("name", PREPARED)
def test_prepared_statement_gives_the_same(twins, name):
    sql, all_parameters = PREPARED[name]
    for parameters in all_parameters * 2:
        same(twins, sql, parameters)


def test_sql_prepare_gives_the_same(twins):
    for db in ("twin", "cloud"):
        twins.execute("PREPARE p_%s AS SELECT id FROM %s.sale WHERE shop = $shop AND id < $top" % (db, db))
    for shop, top in ((1, 100), (16, 300), (1, 100)):
        use = "(shop := %d, top := %d)" % (shop, top)
        assert answer(twins, "EXECUTE p_cloud" + use) == answer(twins, "EXECUTE p_twin" + use)


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_change_nothing(twins, threads):
    twins.execute("SET threads = %d" % threads)
    try:
        for name in ("group", "three way", "lateral", "recursive", "union by name", "window", "positional"):
            same(twins, STATEMENTS[name])
    finally:
        twins.execute("SET threads = 2")
