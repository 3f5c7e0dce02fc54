"""A query that is forwarded is written anew from its parsed form: it must mean the same."""

import pytest
import services
from test_forward import TABLES, remote_sql, run, served, twin

pytestmark = pytest.mark.extension

MORE = (
    "CREATE TABLE x AS SELECT i, i % 3 AS g, 's' || i AS s, CASE WHEN i % 4 > 0 THEN i * 1.5 END AS d,"
    " DATE '2024-01-30' + i::INTEGER AS day, [i, i + 1, NULL] AS l, {'a': i, 'b c': 's' || i} AS st,"
    " MAP {'k': i} AS m, '{\"a\": [1, 2]}'::JSON AS j FROM range(20) r(i)",
    "CREATE TABLE y AS SELECT i * 2 AS i, 'y' || i AS \"select\" FROM range(10) r(i)",
)

QUERIES = r"""
SELECT i, sum(d) OVER (PARTITION BY g ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM cloud.x
SELECT i, lag(s, 2, 'none') OVER w, first_value(d IGNORE NULLS) OVER w FROM cloud.x WINDOW w AS (ORDER BY i DESC)
SELECT g, count(*) FILTER (WHERE d > 3), string_agg(s, '|' ORDER BY i DESC), count(DISTINCT g) FROM cloud.x GROUP
  BY g HAVING count(*) > 1
SELECT quantile_cont(d, 0.5), percentile_cont(0.25) WITHIN GROUP (ORDER BY d) FROM cloud.x
SELECT list_transform(l, lambda e: e + i), list_filter(l, lambda e, k: k > 1), [e * 2 FOR e IN l IF e > 3] FROM
  cloud.x
SELECT l[1], l[1:2], l[-1], st.a, st['b c'], st."b c", m['k'], s[2:], j->'a'->>0, j->>'$.a[1]' FROM cloud.x
SELECT CASE g WHEN 0 THEN 'zero' WHEN 1 THEN 'one' ELSE NULL END, CASE WHEN d IS NULL THEN 1 END FROM cloud.x
SELECT i FROM cloud.x WHERE i BETWEEN 3 AND 5 OR NOT (s LIKE 's1_' ESCAPE '!') AND s NOT ILIKE '%9' OR s SIMILAR TO
  's[0-9]' OR s ~ 's.*' OR s GLOB '*2'
SELECT i FROM cloud.x WHERE (i, g) IN ((1, 1), (2, 2)) OR i IN (SELECT i FROM cloud.y) OR EXISTS (FROM cloud.y
  WHERE y.i = x.i + 1) OR i > ALL (SELECT y.i FROM cloud.y)
SELECT i FROM cloud.x WHERE d IS DISTINCT FROM 1.5 AND d IS NOT NULL AND (d > 2) IS TRUE
SELECT -i, +i, i // 3, i % 3, i ** 2, i & 3, i | 8, xor(i, 5), ~i, i << 1, @(-i), 5!, i <=> 3 FROM (SELECT
  i::INTEGER AS i FROM cloud.x)
SELECT -i, i // 3, i % 3, i ** 2, i & 3, i | 8, i << 1, @(-i), i / 4, 1e3, 1.50, 0x1F, 1_000, .5, -0.0,
  'e'::VARCHAR, NULL FROM cloud.x
SELECT 170141183460469231731687303715884105727, -9223372036854775808, 'a''b', E'c\n\t\\', $$d'$$, x'00FF'::BLOB,
  TRUE, DATE '2024-02-29', TIME '12:00:00.5', TIMESTAMP '2024-01-01 01:02:03', INTERVAL 3 DAY, INTERVAL '1 year 2
  months', UUID '00000000-0000-0000-0000-000000000001', '101'::BIT FROM cloud.x LIMIT 1
SELECT typeof(1e3), typeof(1.50), typeof(100000000000), typeof([1, 2.5]), typeof({'a': 1}), typeof((1, 'x')),
  typeof(NULL) FROM cloud.x LIMIT 1
SELECT day + INTERVAL 1 MONTH, date_trunc('month', day), extract(year FROM day), day - DATE '2024-01-01',
  strftime(day, '%d.%m.%Y'), day::VARCHAR, datepart('week', day) FROM cloud.x
SELECT TRY_CAST(s AS INTEGER), CAST(i AS DECIMAL(9, 2)), i::TINYINT, s::VARCHAR(3), position('1' IN s), substring(s
  FROM 2 FOR 1), trim(BOTH 's' FROM s), overlay(s PLACING 'q' FROM 1), coalesce(d, 0), nullif(g, 1), ifnull(d, -1)
  FROM cloud.x
SELECT s.upper().replace('S', 't'), l.len(), x.s.lower() FROM cloud.x
SELECT * EXCLUDE (l, st) REPLACE (i + 1 AS i) RENAME (g AS gg) FROM cloud.x
SELECT COLUMNS('^[gi]$'), min(COLUMNS(* EXCLUDE (st, m, j, l))) FROM cloud.x GROUP BY ALL
SELECT x.*, y."select" FROM cloud.x LEFT JOIN cloud.y USING (i)
SELECT x.i, y.i FROM cloud.x FULL JOIN cloud.y ON x.i = y.i AND y.i > 4
SELECT i FROM cloud.x NATURAL JOIN cloud.y
SELECT x.i FROM cloud.x SEMI JOIN cloud.y ON x.i = y.i UNION ALL SELECT x.i + 100 FROM cloud.x ANTI JOIN cloud.y
  USING (i)
SELECT x.i, y.i FROM cloud.x ASOF JOIN cloud.y ON x.i >= y.i
SELECT a.i, b.i FROM cloud.y a POSITIONAL JOIN cloud.y b
SELECT a.i, t.k FROM cloud.x a, LATERAL (SELECT a.i + g AS k FROM cloud.y WHERE y.i = a.i) t
SELECT a.i, u.e FROM cloud.x a, unnest(a.l) u(e)
SELECT unnest(l), generate_subscripts(l, 1), i FROM cloud.x
SELECT unnest(st), unnest([{'p': [1]}], recursive := true) FROM cloud.x
SELECT g, grouping(g), sum(i) FROM cloud.x GROUP BY ROLLUP (g) UNION ALL SELECT g, 0, count(*) FROM cloud.x GROUP
  BY GROUPING SETS ((g), (g, s), ()) UNION ALL SELECT g, 9, 1 FROM cloud.x GROUP BY CUBE (g, i)
SELECT DISTINCT ON (g) g, i FROM cloud.x ORDER BY g, i DESC NULLS LAST
SELECT DISTINCT g FROM cloud.x EXCEPT SELECT 1 INTERSECT SELECT 1
(SELECT i FROM cloud.x ORDER BY i LIMIT 2) UNION (SELECT i FROM cloud.y ORDER BY i DESC LIMIT 3 OFFSET 1) ORDER BY 1
SELECT i FROM cloud.x UNION BY NAME SELECT "select" FROM cloud.y
SELECT i FROM cloud.x ORDER BY i LIMIT 20%
SELECT count(*) < 21 FROM cloud.x TABLESAMPLE reservoir(5 ROWS) REPEATABLE (7)
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < (SELECT max(i) FROM cloud.x)) SELECT n, i
  FROM r JOIN cloud.x ON n = i
WITH RECURSIVE r(a, b) USING KEY (a) AS (SELECT 1, 1 UNION SELECT a, b + 1 FROM r WHERE b < 5) SELECT a, b, (SELECT
  max(i) FROM cloud.x) FROM r
WITH a AS MATERIALIZED (FROM cloud.x), b(p, q) AS NOT MATERIALIZED (SELECT i, s FROM a) SELECT p, (WITH a AS
  (SELECT 7 AS z) SELECT z FROM a) FROM b
WITH x AS (SELECT i FROM cloud.x WHERE i < 3) SELECT x.i FROM x
FROM cloud.x SELECT i WHERE g = 1
FROM (VALUES (1, 'a'), (2, NULL)) v(n, t), (SELECT max(i) AS mx FROM cloud.x)
FROM (PIVOT cloud.x ON g IN (0, 1, 2) USING sum(i) AS total, max(s) GROUP BY day)
SELECT * FROM cloud.x PIVOT (sum(i) AS t FOR g IN (0 AS zero, 1 AS one))
FROM (UNPIVOT (SELECT i, g, i * 2 AS h FROM cloud.x) ON g, h INTO NAME n VALUE v)
SELECT * FROM (SELECT i, g, i * 2 AS h FROM cloud.x) UNPIVOT INCLUDE NULLS (v FOR n IN (g AS 'first', h))
SELECT i FROM cloud.x QUALIFY row_number() OVER (PARTITION BY g ORDER BY i) = 1
SELECT (SELECT count(*) FROM cloud.y WHERE y.i < x.i) AS "c o""unt", x.i AS "order" FROM cloud.x
SELECT s COLLATE nocase = 'S1', s FROM cloud.x ORDER BY s COLLATE nocase DESC
SELECT CAST(row(i, s) AS STRUCT(q INTEGER, w VARCHAR)), struct_pack(a := i, b := s), map(['a'], [i]), list_value(i,
  g), array_value(i, g)[1], [i]::INTEGER[1] FROM cloud.x
SELECT format('{} {:.2f}', s, 1.5), printf('%d', i), concat_ws('-', s, i), s || i, regexp_replace(s, '(\d)',
  '<\1>', 'g'), hash(i) = hash(i), md5(s) FROM cloud.x
SELECT r, i FROM cloud.x JOIN range(0, 6, 2) t(r) ON r = i
SELECT generate_series, i FROM cloud.x, generate_series(1, 2) WHERE i = 1
SELECT i AS a, a + 1 AS b, b * 2 AS c FROM cloud.x WHERE a > 3 GROUP BY ALL ORDER BY ALL
SELECT max(i) FILTER (g = 1), arg_max(s, i), list(i ORDER BY s DESC NULLS FIRST), histogram(g) FROM cloud.x
SELECT cloud.x.i, cloud.main.x.g, main.x.s, x.d FROM cloud.x WHERE cloud.main.x.st.a > 3
SELECT count(*) FROM cloud.x AS cloud WHERE cloud.i > 4
SELECT rowid, i FROM cloud.x WHERE rowid < 3
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    path = services.make_database(tmp_path_factory.mktemp("forward") / "mydb.duckdb", *TABLES, *MORE)
    with served("serve", path) as server, services.attached(server) as c:
        yield c


@pytest.fixture(scope="module")
def local():
    c = twin()
    c.execute("USE cloud")
    for sql in MORE:
        c.execute(sql)
    c.execute("USE memory")
    return c


@pytest.mark.parametrize("query", QUERIES.strip().replace("\n  ", " ").splitlines())
def test_a_query_means_the_same_at_the_server(con, local, query):
    sql = "CREATE OR REPLACE TABLE cloud.result AS " + query
    try:
        run(local, sql)
    except Exception as expected:
        with pytest.raises(type(expected)):
            run(con, sql)
        return
    assert remote_sql(con, sql)
    run(con, sql)
    for question in ("SELECT * FROM cloud.result", "DESCRIBE cloud.result"):
        assert run(con, question) == run(local, question)
