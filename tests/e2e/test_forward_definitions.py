"""Definitions in an attached database: the same statements, answers and errors as in a database of DuckDB's own."""

import duckdb
import pytest
import services
from test_forward import TABLES, run, served, twin

pytestmark = pytest.mark.extension


@pytest.fixture(params=["serve", "stack"])
def server(request, tmp_path):
    path = services.make_database(tmp_path / "mydb.duckdb", *TABLES)
    with served(request.param, path) as s:
        yield s


@pytest.fixture
def con(server):
    with services.attached(server) as c:
        yield c


# Statements after each other; what each gives is compared with a twin's answer. An indented line continues the one
# before.
STATEMENTS = r"""
CREATE SCHEMA cloud.s3
CREATE SCHEMA cloud.s3
CREATE SCHEMA IF NOT EXISTS cloud.s3
CREATE TABLE cloud.s3.a (i INTEGER PRIMARY KEY, s VARCHAR NOT NULL DEFAULT 'it''s', d DECIMAL(9, 2) CHECK (d > 0),
  UNIQUE (s, d))
INSERT INTO cloud.s3.a (i, d) VALUES (1, 2.5)
INSERT INTO cloud.s3.a (i, d) VALUES (2, -1)
FROM cloud.s3.a
CREATE TABLE cloud.s3.b (k INTEGER, g INTEGER GENERATED ALWAYS AS (k * 10) VIRTUAL, l VARCHAR[], m MAP(VARCHAR,
  INTEGER), t STRUCT("a b" INTEGER, c VARCHAR))
INSERT INTO cloud.s3.b (k, l, m, t) VALUES (4, ['x', NULL], MAP {'k': 1}, {'a b': 1, 'c': 'q'})
FROM cloud.s3.b
CREATE TABLE cloud.pk (i INTEGER PRIMARY KEY)
CREATE OR REPLACE TABLE cloud.s3.c AS SELECT i, s || '!' AS s2, 1e3 AS big, lower(s) FROM cloud.s3.a
FROM cloud.s3.c
DESCRIBE cloud.s3.c
CREATE OR REPLACE TABLE cloud.s3.c AS SELECT 1 AS one
FROM cloud.s3.c
CREATE TABLE IF NOT EXISTS cloud.s3.c AS SELECT 2 AS two
FROM cloud.s3.c
CREATE TABLE cloud.s3.c AS SELECT 2 AS two
CREATE TABLE cloud.n0 AS FROM cloud.inv WITH NO DATA
FROM cloud.n0
CREATE TABLE cloud.ord AS WITH x AS (SELECT 1 AS i UNION ALL SELECT 2) SELECT i, row_number() OVER (ORDER BY i
  DESC) AS r FROM x
FROM cloud.ord ORDER BY i
ALTER TABLE cloud.s3.b ADD COLUMN "new col" INTEGER DEFAULT 7
ALTER TABLE cloud.s3.b ADD COLUMN IF NOT EXISTS "new col" INTEGER
ALTER TABLE cloud.s3.b ADD COLUMN "new col" INTEGER
FROM cloud.s3.b
ALTER TABLE cloud.s3.b RENAME COLUMN "new col" TO nc
ALTER TABLE cloud.s3.b ALTER COLUMN nc TYPE VARCHAR USING 'v' || nc
ALTER TABLE cloud.s3.b ALTER nc SET DEFAULT 'd' || 'e'
ALTER TABLE cloud.s3.b ALTER nc SET NOT NULL
INSERT INTO cloud.s3.b (k) VALUES (9)
INSERT INTO cloud.s3.b (k, nc) VALUES (9, NULL)
ALTER TABLE cloud.s3.b ALTER nc DROP NOT NULL
ALTER TABLE cloud.s3.b ALTER nc DROP DEFAULT
INSERT INTO cloud.s3.b (k) VALUES (10)
FROM cloud.s3.b
ALTER TABLE cloud.s3.b DROP COLUMN nc
ALTER TABLE cloud.s3.b DROP COLUMN nc
ALTER TABLE cloud.s3.b DROP COLUMN IF EXISTS nc
ALTER TABLE cloud.s3.b ADD COLUMN t.z INTEGER DEFAULT 3
ALTER TABLE cloud.s3.b RENAME COLUMN t.z TO zz
SELECT t FROM cloud.s3.b
ALTER TABLE cloud.s3.b DROP COLUMN t.zz
ALTER TABLE cloud.s3.b RENAME TO bb
FROM cloud.s3.b
SELECT count(*) FROM cloud.s3.bb
ALTER TABLE cloud.s3.nowhere RENAME TO x
ALTER TABLE IF EXISTS cloud.s3.nowhere RENAME TO x
ALTER TABLE cloud.s3.c ADD PRIMARY KEY (one)
INSERT INTO cloud.s3.c VALUES (1)
CREATE VIEW cloud.v AS SELECT i, s FROM cloud.s3.a WHERE cloud.s3.a.i > 0
FROM cloud.v
CREATE VIEW cloud.v AS SELECT 1
CREATE OR REPLACE VIEW cloud.v (x, "y z") AS WITH q AS (FROM cloud.s3.a) SELECT q.i, (SELECT max(d) FROM
  cloud.s3.a) FROM q
FROM cloud.v
CREATE VIEW IF NOT EXISTS cloud.v AS SELECT 1
CREATE VIEW cloud.w AS FROM cloud.v ORDER BY x LIMIT 1
FROM cloud.w
ALTER VIEW cloud.w RENAME TO w2
FROM cloud.w2
DROP VIEW cloud.w
DROP VIEW IF EXISTS cloud.w
DROP VIEW cloud.w2
COMMENT ON TABLE cloud.s3.a IS 'a table''s'
COMMENT ON COLUMN cloud.s3.a.s IS 'a column'
COMMENT ON VIEW cloud.v IS 'a view'
COMMENT ON SCHEMA cloud.s3 IS 'a schema'
SELECT comment FROM duckdb_tables() WHERE database_name = 'cloud' AND table_name = 'a'
SELECT comment FROM duckdb_columns() WHERE database_name = 'cloud' AND table_name = 'a' AND column_name = 's'
SELECT comment FROM duckdb_views() WHERE database_name = 'cloud' AND view_name = 'v'
COMMENT ON TABLE cloud.s3.a IS NULL
SELECT comment FROM duckdb_tables() WHERE database_name = 'cloud' AND table_name = 'a'
CREATE INDEX idx ON cloud.s3.a (d)
CREATE INDEX idx ON cloud.s3.a (d)
CREATE UNIQUE INDEX idx2 ON cloud.s3.a (lower(s), (i + 1))
COMMENT ON INDEX cloud.s3.idx IS 'an index'
DROP INDEX cloud.s3.idx
DROP INDEX cloud.s3.idx
DROP INDEX IF EXISTS cloud.s3.idx
CREATE SEQUENCE cloud.s3.sq START 5 INCREMENT BY 5 MAXVALUE 10 CYCLE
SELECT nextval('cloud.s3.sq'), nextval('cloud.s3.sq')
SELECT nextval('cloud.s3.sq'), currval('cloud.s3.sq')
CREATE SEQUENCE cloud.down START -1 INCREMENT BY -1 MINVALUE -3
SELECT nextval('cloud.down') FROM range(3)
SELECT nextval('cloud.down')
CREATE OR REPLACE SEQUENCE cloud.down
SELECT nextval('cloud.down') AS n
CREATE TABLE cloud.seq_default (i INTEGER DEFAULT nextval('cloud.s3.sq'), j INTEGER)
INSERT INTO cloud.seq_default (j) VALUES (1), (2)
INSERT INTO cloud.seq_default VALUES (nextval('cloud.down'), 3)
FROM cloud.seq_default
COMMENT ON SEQUENCE cloud.s3.sq IS 'numbers'
DROP SEQUENCE cloud.s3.sq
DROP SEQUENCE cloud.down
DROP SEQUENCE IF EXISTS cloud.down
SELECT nextval('cloud.down')
CREATE TYPE cloud.feeling AS ENUM ('so''so', 'ok')
CREATE TYPE cloud.feeling AS ENUM ('x')
CREATE TYPE cloud.point AS STRUCT(x INTEGER, "y y" INTEGER)
CREATE TYPE cloud.s3.number AS DECIMAL(9, 3)
CREATE TYPE cloud.names AS ENUM (SELECT s FROM cloud.s3.a)
CREATE TABLE cloud.typed (f cloud.feeling, p cloud.point, n cloud.s3.number, l cloud.feeling[], m cloud.names
  DEFAULT 'it''s')
INSERT INTO cloud.typed (f, p, n, l) VALUES ('ok', {'x': 1, 'y y': 2}, 1.5, ['ok', 'so''so'])
FROM cloud.typed
SELECT 'ok'::cloud.feeling, CAST(1.25 AS cloud.s3.number)
SELECT f::VARCHAR, p.x FROM cloud.typed WHERE f = 'ok'::cloud.feeling
COMMENT ON TYPE cloud.feeling IS 'how'
DROP TYPE cloud.feeling
DROP TYPE cloud.nowhere
DROP TYPE IF EXISTS cloud.nowhere
CREATE MACRO cloud.add(a, b := 5) AS a + b
SELECT cloud.main.add(1), cloud.main.add(1, b := 2)
CREATE OR REPLACE MACRO cloud.add(a) AS a + 1, (a, b) AS a * b
SELECT cloud.main.add(1), cloud.main.add(3, 4)
CREATE MACRO cloud.s3.rows_of(n) AS TABLE SELECT i, s FROM cloud.s3.a WHERE i <= n
FROM cloud.s3.rows_of(1)
SELECT count(*) FROM cloud.s3.rows_of(1) r JOIN cloud.s3.a USING (i)
INSERT INTO cloud.ids SELECT cloud.main.add(i) FROM cloud.s3.rows_of(9)
UPDATE cloud.ids SET id = cloud.main.add(id, 100) WHERE id = 2
FROM cloud.ids
COMMENT ON MACRO cloud.add IS 'adds'
DROP MACRO cloud.add
DROP MACRO cloud.add
DROP MACRO TABLE cloud.s3.rows_of
DROP MACRO IF EXISTS cloud.add
DROP TABLE cloud.pk
DROP TABLE cloud.pk
DROP TABLE IF EXISTS cloud.pk
DROP TABLE cloud.v
DROP SCHEMA cloud.s3
DROP SCHEMA cloud.s3 CASCADE
DROP SCHEMA cloud.s3
DROP SCHEMA IF EXISTS cloud.s3
CREATE TEMP TABLE here AS FROM cloud.ids
FROM here
CREATE TABLE "new ""t"" x" ("group" INTEGER)
CREATE TABLE cloud."new ""t"" x" ("group" INTEGER, "é" VARCHAR, "a.b" INTEGER)
INSERT INTO cloud."new ""t"" x" ("a.b", "group") VALUES (1, 2) ON CONFLICT DO NOTHING
ALTER TABLE cloud."new ""t"" x" RENAME "a.b" TO "select"
FROM cloud."NEW ""T"" X"
DROP TABLE cloud."new ""t"" x"
"""


def statements(text):
    return text.strip().replace("\n  ", " ").splitlines()


def answer(con, sql):
    try:
        names, rows = run(con, sql)
        return names, rows
    except duckdb.Error as e:
        return type(e).__name__, str(e)


def test_definitions_do_what_they_do_in_a_database_of_ones_own(con):
    local = twin()
    wrong = []
    for sql in statements(STATEMENTS):
        expected, got = answer(local, sql), answer(con, sql)
        # Of an error only the class counts.
        if isinstance(expected[0], str):
            same = expected[0] == got[0]
        else:
            same = expected == got
        if not same:
            wrong.append("%s\n  local:  %s\n  remote: %s" % (sql, expected, got))
    assert not wrong, "\n".join(wrong)


IN_USE = """
CREATE TABLE t (i INTEGER, "order" VARCHAR DEFAULT 'o')
INSERT INTO t (i) VALUES (1), (2)
INSERT INTO main.t SELECT i + 10, t."order" FROM t WHERE main.t.i = 1 AND cloud.main.t.i < 5
UPDATE t SET i = i + 1 WHERE t.i = 2
SELECT * FROM t
DELETE FROM s2.inv WHERE false
INSERT INTO s2.inv SELECT i FROM main.t
SELECT * FROM s2.inv
SELECT nextval('seq')
SELECT twice(4), main.twice(5)
FROM pair(7)
SELECT 'ok'::mood
CREATE TABLE moods (m mood, i INTEGER DEFAULT nextval('seq'))
INSERT INTO moods (m) VALUES ('sad')
FROM moods
CREATE VIEW over AS SELECT twice(i) AS d FROM t
FROM over
CREATE MACRO thrice(a) AS a * 3
SELECT thrice(i) FROM t ORDER BY 1
CREATE TABLE pk (i INTEGER PRIMARY KEY)
CREATE TABLE fk (i INTEGER REFERENCES pk (i), j INTEGER, FOREIGN KEY (j) REFERENCES pk)
INSERT INTO fk VALUES (5, 5)
INSERT INTO pk VALUES (5)
INSERT INTO fk VALUES (5, 5)
DROP TABLE pk
DROP TABLE fk
CREATE SCHEMA s9
CREATE TABLE s9.x AS SELECT max(i) AS m FROM t
FROM s9.x
ALTER TABLE s9.x RENAME TO y
CREATE INDEX iy ON s9.y (m)
DROP INDEX s9.iy
DROP TABLE s9.y
DROP SCHEMA s9
COMMENT ON TABLE t IS 'c'
DROP MACRO thrice
DROP VIEW over
DROP TABLE moods
DROP TABLE nowhere
CREATE TEMP TABLE tmp (i INTEGER)
INSERT INTO tmp SELECT i FROM t
FROM tmp
MERGE INTO t USING (SELECT 1 AS i) AS s ON t.i = s.i WHEN MATCHED THEN DELETE
TRUNCATE t
DROP TABLE t
"""


@pytest.mark.parametrize(
    "use", ["USE cloud", "USE cloud.main", "SET search_path = 'cloud'", "SET schema = 'cloud.main'"]
)
def test_in_use_names_need_no_catalog(con, use):
    local = twin()
    wrong = []
    for sql in [use, *statements(IN_USE)]:
        expected, got = answer(local, sql), answer(con, sql)
        same = expected[0] == got[0] if isinstance(expected[0], str) else expected == got
        if not same:
            wrong.append("%s\n  local:  %s\n  remote: %s" % (sql, expected, got))
    assert not wrong, "\n".join(wrong)


def test_another_schema_in_use(con):
    con.execute("USE cloud.s2")
    con.execute("CREATE TABLE here (i INTEGER)")
    con.execute("INSERT INTO here VALUES (1)")
    con.execute("INSERT INTO inv SELECT 'row ' || i FROM here")
    assert con.execute("FROM cloud.s2.inv").fetchall() == [("row 1",)]
    assert con.execute("SELECT schema_name FROM duckdb_tables() WHERE table_name = 'here'").fetchall() == [("s2",)]
    con.execute("USE memory")


def test_an_index_that_exists_is_left(con):
    con.execute("CREATE INDEX idx ON cloud.ids (id)")
    con.execute("CREATE INDEX IF NOT EXISTS idx ON cloud.ids (id)")
    with pytest.raises(duckdb.CatalogException, match="already exists"):
        con.execute("CREATE INDEX idx ON cloud.ids (id)")


def test_what_is_stored_uses_nothing_of_this_side(con):
    con.execute("CREATE TABLE l AS SELECT 1 AS i")
    con.execute("CREATE MACRO mine(a) AS a")
    for sql in (
        "CREATE VIEW cloud.v AS FROM l",
        "CREATE VIEW cloud.v AS SELECT mine(id) FROM cloud.ids",
        "CREATE MACRO cloud.m(a) AS (SELECT max(i) FROM l)",
    ):
        with pytest.raises(duckdb.BinderException, match="what that database has"):
            con.execute(sql)
    # As DuckDB has it, a name that both sides have is that of the view's database.
    con.execute("CREATE TABLE ids AS SELECT 99 AS id")
    con.execute("CREATE VIEW cloud.v AS SELECT max(id) AS m FROM cloud.ids")
    assert con.execute("FROM cloud.v").fetchall() == [(3,)]
    with pytest.raises(duckdb.BinderException, match="what that database has"):
        con.execute("CREATE OR REPLACE VIEW cloud.v AS SELECT max(id) AS m FROM memory.ids")


VIEWS = r"""
CREATE VIEW cloud.v1 AS SELECT id, ids.id + 1 AS next FROM ids
FROM cloud.v1
CREATE TABLE ids AS SELECT 99 AS id
CREATE OR REPLACE VIEW cloud.v1 AS SELECT max(id) AS m FROM ids
FROM cloud.v1
CREATE VIEW cloud.v2 AS SELECT nm, v1.m FROM main.inv, v1 WHERE inv.id IN (SELECT id FROM main.ids)
FROM cloud.v2 ORDER BY ALL
CREATE VIEW cloud.s2.v3 AS SELECT count(id) AS n, any_value(typeof(id)) AS t FROM inv
FROM cloud.s2.v3
CREATE VIEW cloud.v4 AS WITH ids AS (SELECT 7 AS id) SELECT id, twice(id) FROM ids
FROM cloud.v4
CREATE VIEW cloud.v5 AS SELECT * FROM nowhere
CREATE TABLE cloud.copied AS SELECT * FROM ids
FROM cloud.copied
"""


def test_a_view_looks_into_its_own_database_first(con):
    local = twin()
    wrong = []
    for sql in statements(VIEWS):
        expected, got = answer(local, sql), answer(con, sql)
        same = expected[0] == got[0] if isinstance(expected[0], str) else expected == got
        if not same:
            wrong.append("%s\n  local:  %s\n  remote: %s" % (sql, expected, got))
    assert not wrong, "\n".join(wrong)


def test_a_type_of_the_server_can_be_used_here(con):
    con.execute("CREATE TABLE l (m cloud.mood, n cloud.main.mood[])")
    con.execute("INSERT INTO l VALUES ('ok', ['sad'])")
    assert con.execute("SELECT m, n, typeof(m) FROM l").fetchall() == [("ok", ["sad"], "ENUM('sad', 'ok')")]
    con.execute("INSERT INTO cloud.fed (m) SELECT m FROM l WHERE m = 'ok'::cloud.mood")
    assert con.execute("SELECT m FROM cloud.fed").fetchall() == [("ok",)]
    con.execute("DROP TABLE cloud.fed")
    con.execute("DROP TYPE cloud.mood")
    with pytest.raises(duckdb.CatalogException):
        con.execute("SELECT 'ok'::cloud.mood")


def test_a_stored_query_does_not_name_the_database(con, server):
    con.execute("CREATE VIEW cloud.v AS SELECT i.id FROM cloud.ids i JOIN cloud.main.inv USING (id)")
    with server.client() as c:
        ((sql,),) = c.rows("SELECT sql FROM duckdb_views() WHERE view_name = 'v'")
    assert "mydb" not in sql and "cloud" not in sql, sql


def test_definitions_of_another_are_seen(con, server):
    with services.attached(server) as other:
        other.execute("SELECT count(*) FROM cloud.ids").fetchall()
        con.execute("ALTER TABLE cloud.ids ADD COLUMN z INTEGER DEFAULT 4")
        other.execute("INSERT INTO cloud.ids VALUES (7, 8)")
        other.execute("INSERT INTO cloud.ids (id) VALUES (9) RETURNING *")
        assert other.fetchall() == [(9, 4)]
        con.execute("DROP TABLE cloud.ids")
        with pytest.raises(duckdb.CatalogException):
            other.execute("INSERT INTO cloud.ids VALUES (1, 2)")


SELF_REFERENCES = (
    "CREATE TABLE cloud.tree (k INTEGER UNIQUE, parent INTEGER REFERENCES tree (k))",
    'CREATE TABLE cloud.s2."a""b" ("k k" INTEGER, j INTEGER, p INTEGER, q INTEGER, PRIMARY KEY ("k k", j),'
    ' FOREIGN KEY (p, q) REFERENCES s2."a""b" ("k k", j), CHECK (p > 3))',
)
CONSTRAINTS = (
    "SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table,"
    " referenced_column_names FROM duckdb_constraints() WHERE database_name = '%s' AND table_name IN ('tree', 'a\"b')"
)


def test_a_table_may_refer_to_itself(con):
    """DuckDB's own CREATE statement of such a table lacks the constraint."""
    local = twin()
    for c in (con, local):
        for sql in SELF_REFERENCES:
            c.execute(sql)
        c.execute("CREATE TABLE cloud.old (k INTEGER UNIQUE, parent INTEGER REFERENCES old (k))")
        c.execute("ALTER TABLE cloud.old RENAME TO renamed")
        c.execute("DROP TABLE cloud.fed")  # its default is the sequence's, which only its own database has
        c.execute("ATTACH ':memory:' AS copied")
        c.execute("COPY FROM DATABASE cloud TO copied")
    for name in ("cloud", "copied"):
        assert run(con, CONSTRAINTS % name) == run(local, CONSTRAINTS % name), name
    assert len(run(con, CONSTRAINTS % "copied")[1]) == 7
    renamed = "SELECT constraint_type FROM duckdb_constraints() WHERE database_name = '%s' AND table_name = 'renamed'"
    assert run(con, renamed % "cloud") == run(local, renamed % "cloud")


ODD_REFERENCES = (
    'CREATE SCHEMA cloud."s p"',
    'CREATE TABLE cloud."s p"."Odd, t(x) ""y" (k INTEGER PRIMARY KEY, "a b" VARCHAR UNIQUE)',
    'CREATE TABLE cloud."s p".plain (k INTEGER PRIMARY KEY)',
    'CREATE TABLE cloud."s2.t" (k INTEGER PRIMARY KEY)',
    'CREATE TABLE cloud."select" (k INTEGER PRIMARY KEY)',
    'CREATE TABLE cloud."s p".refers (a INTEGER REFERENCES "s p"."Odd, t(x) ""y" (k), b INTEGER, c VARCHAR,'
    ' FOREIGN KEY (c) REFERENCES "s p"."Odd, t(x) ""y" ("a b"), CHECK (b > 0), UNIQUE (a, b),'
    ' d INTEGER REFERENCES "s p".plain (k))',
    'CREATE TABLE cloud.dotted (a INTEGER REFERENCES "s2.t" (k), b INTEGER REFERENCES "select" (k))',
)
ALL_CONSTRAINTS = CONSTRAINTS.split(" AND ", maxsplit=1)[0] + " AND table_name IN ('refers', 'dotted')"


def test_a_table_may_refer_to_one_whose_name_needs_quotes(con):
    """DuckDB's own CREATE statement lacks the quotes."""
    local = twin()
    for c in (con, local):
        c.execute("USE cloud")
        for sql in ODD_REFERENCES:
            c.execute(sql)
        c.execute("DROP TABLE cloud.fed")  # its default is the sequence's, which only its own database has
        c.execute("ATTACH ':memory:' AS copied")
        c.execute("USE memory")
        c.execute("COPY FROM DATABASE cloud TO copied")
    for name in ("cloud", "copied"):
        assert run(con, ALL_CONSTRAINTS % name) == run(local, ALL_CONSTRAINTS % name), name
    assert len(run(con, ALL_CONSTRAINTS % "copied")[1]) == 7
    for c in (con, local):
        with pytest.raises(duckdb.ConstraintException):
            c.execute('INSERT INTO copied."s p".refers (a) VALUES (1)')


def test_a_moment_with_its_offset_is_the_same_everywhere(con):
    con.execute(
        "CREATE TABLE cloud.moments (k INTEGER PRIMARY KEY, t TIMESTAMPTZ, n INTEGER DEFAULT nextval('cloud.seq'))"
    )
    con.execute("SET TimeZone = 'Asia/Tokyo'")
    for _ in range(2):
        con.execute(
            "INSERT INTO cloud.moments (k, t) VALUES (1, TIMESTAMPTZ '2024-01-04 03:30:00+02')"
            " ON CONFLICT (k) DO UPDATE SET t = TIMESTAMPTZ '2024-01-06 09:30:00-05:30', n = n + 100"
        )
    assert con.execute("SELECT k, epoch(t), n FROM cloud.moments").fetchall() == [(1, 1704553200.0, 110)]
    con.execute("INSERT INTO cloud.moments VALUES (2, TIMESTAMPTZ '2024-01-04 03:30:00', 0)")
    assert con.execute("SELECT epoch(t) FROM cloud.moments WHERE k = 2").fetchall() == [(1704306600.0,)]
