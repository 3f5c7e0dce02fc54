"""What a data engineer does all day, over an attached database as over a file: relations, data frames, Arrow, COPY, the
appender, prepared statements, USE, and DuckDB's shell. The same steps run on both sides and must give the same."""

import datetime
import decimal
import os
import pathlib
import subprocess
import sys

import duckdb
import pytest
import services

pytestmark = pytest.mark.extension

TABLES = (
    "CREATE TABLE sale (id INTEGER PRIMARY KEY, shop VARCHAR, amount DECIMAL(9,2) DEFAULT 1.5, day DATE,"
    " g INTEGER AS (id * 2))",
    "INSERT INTO sale SELECT i, 's' || i % 3, i / 4, DATE '2024-01-01' + i::INTEGER FROM range(100) t(i)",
    "CREATE SCHEMA other",
    "CREATE TABLE other.note (id BIGINT, text VARCHAR)",
)


@pytest.fixture(params=["file", "cloud"])
def con(request, tmp_path):
    """`cloud` is a file, or a served copy of it: every test holds for both."""
    path = services.make_database(tmp_path / "mydb.duckdb", *TABLES)
    if request.param == "file":
        con = services.duck(load=False)
        con.execute("ATTACH '%s' AS cloud" % path)
        yield con
        con.close()
        return
    with services.Serve({"mydb": path}) as server, services.attached(server) as con:
        yield con
        con.close()
        server.wait_idle()


def fetch(con, sql, parameters=None):
    return con.execute(sql, parameters).fetchall() if parameters else con.execute(sql).fetchall()


def test_relations(con):
    con.execute("USE cloud")
    sale = con.table("sale")
    assert sale.columns == ["id", "shop", "amount", "day", "g"]
    assert sale.filter("id < 5").order("id").project("id, g").fetchall() == [(i, i * 2) for i in range(5)]
    assert sale.aggregate("shop, count(*) AS n").order("shop").fetchall() == [("s0", 34), ("s1", 33), ("s2", 33)]
    con.sql("SELECT id + 1000 AS id, shop FROM sale WHERE id < 3").create("copied")
    assert con.table("copied").order("id").fetchall() == [(1000, "s0"), (1001, "s1"), (1002, "s2")]
    con.sql("SELECT 7::BIGINT AS id, 'x' AS text").insert_into("other.note")
    con.table("other.note").insert([8, "y"])
    assert fetch(con, "FROM other.note ORDER BY id") == [(7, "x"), (8, "y")]
    con.table("other.note").update(
        {"text": duckdb.ConstantExpression("z")}, condition=duckdb.ColumnExpression("id") == 8
    )
    assert fetch(con, "FROM other.note ORDER BY id") == [(7, "x"), (8, "z")]
    con.sql("FROM sale WHERE id < 2").create_view("two")
    assert fetch(con, "SELECT count(*) FROM two") == [(2,)]
    sale.filter("id = 1").select("id", "shop").to_table("one")
    assert fetch(con, "FROM one") == [(1, "s1")]


def test_arrow_goes_up_and_comes_back(con):
    pyarrow = pytest.importorskip("pyarrow")
    rows = pyarrow.table({"id": list(range(5000)), "text": ["t%d" % (i % 7) for i in range(5000)]})
    con.execute("INSERT INTO cloud.other.note SELECT * FROM rows")
    con.execute("CREATE TABLE cloud.copied AS FROM rows")
    con.register("registered", rows)
    con.execute("INSERT INTO cloud.copied FROM registered")
    assert fetch(con, "SELECT count(*), count(DISTINCT id), max(text) FROM cloud.copied") == [(10000, 5000, "t6")]
    table = con.execute("SELECT id, text FROM cloud.other.note WHERE id < 3 ORDER BY id").fetch_arrow_table()
    assert table.to_pylist() == [{"id": i, "text": "t%d" % i} for i in range(3)]
    batches = con.execute("SELECT id FROM cloud.other.note").fetch_record_batch(1000)
    assert sum(b.num_rows for b in batches) == 5000


def test_data_frames(con):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1, 2], "text": ["a", None]})  # noqa: F841
    con.execute("INSERT INTO cloud.other.note SELECT * FROM frame")
    got = con.execute("FROM cloud.other.note ORDER BY id").df()
    assert list(got["id"]) == [1, 2]


def test_append_of_a_frame(con):
    pandas = pytest.importorskip("pandas")
    con.execute("USE cloud.other")
    con.append("note", pandas.DataFrame({"id": range(3000), "text": ["x"] * 3000}))
    assert fetch(con, "SELECT count(*), sum(id) FROM note") == [(3000, 3000 * 2999 // 2)]


def test_executemany(con):
    con.execute("BEGIN")
    con.executemany("INSERT INTO cloud.other.note VALUES (?, ?)", [[i, "n%d" % i] for i in range(200)])
    con.execute("COMMIT")
    con.executemany("UPDATE cloud.other.note SET text = $2 WHERE id = $1", [[1, "one"], [2, "two"]])
    assert fetch(con, "SELECT count(*) FROM cloud.other.note") == [(200,)]
    assert fetch(con, "FROM cloud.other.note WHERE id < 3 ORDER BY id") == [(0, "n0"), (1, "one"), (2, "two")]
    with pytest.raises(duckdb.ConstraintException):
        con.executemany("INSERT INTO cloud.sale (id) VALUES (?)", [[500], [1]])


def test_a_result_is_read_while_another_cursor_writes(con):
    reader = con.cursor()
    reader.execute("SELECT id FROM cloud.sale ORDER BY id")
    seen = reader.fetchmany(10)
    con.execute("INSERT INTO cloud.other.note SELECT id, 'x' FROM cloud.sale")
    con.execute("DELETE FROM cloud.sale WHERE id > 50")
    while more := reader.fetchmany(10):
        seen += more
    assert seen == [(i,) for i in range(100)]
    assert fetch(con, "SELECT count(*) FROM cloud.sale") == [(51,)]
    assert fetch(con, "SELECT count(*) FROM cloud.other.note") == [(100,)]


def test_typed_parameters(con):
    values = [77, "it's", decimal.Decimal("3.25"), datetime.date(2024, 2, 29)]
    got = fetch(
        con,
        "INSERT INTO cloud.sale (id, shop, amount, day) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
        values,
    )
    assert got == []
    values[0] = 777
    got = fetch(con, "INSERT INTO cloud.sale (id, shop, amount, day) VALUES (?, ?, ?, ?) RETURNING *", values)
    assert got == [(*values, 1554)]
    assert fetch(con, "SELECT id FROM cloud.sale WHERE day = $d AND shop = $s", {"d": values[3], "s": "it's"}) == [
        (777,)
    ]
    con.execute("PREPARE up AS UPDATE cloud.sale SET amount = $a WHERE id = $i")
    con.execute("EXECUTE up(a := 9.75, i := 777)")
    con.execute("EXECUTE up(i := 1, a := NULL)")
    assert fetch(con, "SELECT id, amount FROM cloud.sale WHERE id IN (1, 777) ORDER BY id") == [
        (1, None),
        (777, decimal.Decimal("9.75")),
    ]
    con.execute("ALTER TABLE cloud.sale ADD COLUMN extra INTEGER")
    con.execute("EXECUTE up(a := 0.5, i := 1)")
    con.execute("DEALLOCATE up")
    assert fetch(con, "SELECT amount, extra FROM cloud.sale WHERE id = 1") == [(decimal.Decimal("0.50"), None)]


def test_use_and_search_path(con):
    con.execute("CREATE TABLE here AS SELECT 1 AS a")
    con.execute("USE cloud.other")
    con.execute("INSERT INTO note VALUES (1, 'a')")
    con.execute("CREATE TABLE made AS SELECT 2 AS a")
    assert fetch(con, "SELECT current_database(), current_schema()") == [("cloud", "other")]
    con.execute("SET search_path = 'cloud.other,cloud.main,memory.main'")
    assert fetch(con, "SELECT count(*) FROM sale, note, here, made") == [(100,)]
    con.execute("UPDATE sale SET shop = 'found' WHERE id = 5")
    con.execute("DROP TABLE made")
    con.execute("USE memory")
    assert fetch(con, "SELECT cloud.main.sale.shop FROM cloud.main.sale WHERE cloud.main.sale.id = 5") == [("found",)]
    with pytest.raises(duckdb.CatalogException):
        con.execute("FROM cloud.other.made")
    with pytest.raises(duckdb.CatalogException):
        con.execute("FROM note")


def test_copy(con, tmp_path):
    for form in ("csv", "parquet", "json"):
        file = tmp_path / ("sale." + form)
        con.execute("COPY (SELECT id, shop, amount, day FROM cloud.sale) TO '%s' (FORMAT %s)" % (file, form))
        con.execute("CREATE OR REPLACE TABLE cloud.loaded (id INTEGER, shop VARCHAR, amount DECIMAL(9,2), day DATE)")
        con.execute("COPY cloud.loaded FROM '%s' (FORMAT %s)" % (file, form))
        assert fetch(con, "SELECT count(*), sum(amount), max(day) FROM cloud.loaded") == fetch(
            con, "SELECT count(*), sum(amount), max(day) FROM cloud.sale"
        )
        con.execute("INSERT INTO cloud.other.note SELECT id, shop FROM '%s'" % file)
    (tmp_path / "bad.csv").write_text("id,shop,amount,day\n1,a,2.5,2024-01-01\n2,b,no,2024-01-01\n")
    with pytest.raises(duckdb.ConversionException):
        con.execute("COPY cloud.loaded FROM '%s' (HEADER, AUTO_DETECT false)" % (tmp_path / "bad.csv"))
    assert fetch(con, "SELECT count(*) FROM cloud.loaded") == [(100,)]


def test_generated_columns_are_left_to_the_database(con):
    con.execute("CREATE TABLE more AS SELECT 900 AS id, 'm' AS shop, 2.5 AS amount, DATE '2024-03-01' AS day")
    con.execute("INSERT INTO cloud.sale FROM more")
    assert fetch(con, "SELECT id, g FROM cloud.sale WHERE g = 1800") == [(900, 1800)]
    assert fetch(con, "SELECT \"default\" FROM (DESCRIBE cloud.sale) WHERE column_name = 'g'") == [(None,)]
    with pytest.raises(duckdb.BinderException):
        con.execute("UPDATE cloud.sale SET g = id FROM more WHERE sale.id = more.id")
    con.execute("ATTACH ':memory:' AS copy")
    con.execute("COPY FROM DATABASE cloud TO copy")
    assert fetch(con, "SELECT g FROM copy.sale WHERE id = 900") == [(1800,)]


def test_several_statements_in_one_call(con):
    got = fetch(
        con,
        "BEGIN; INSERT INTO cloud.other.note VALUES (1, 'a'), (2, 'b'); COMMIT; SELECT count(*) FROM cloud.other.note",
    )
    assert got == [(2,)]
    with pytest.raises(duckdb.ConstraintException):
        con.execute("INSERT INTO cloud.other.note VALUES (3, 'c'); INSERT INTO cloud.sale (id) VALUES (1); SELECT 1")
    assert fetch(con, "SELECT count(*) FROM cloud.other.note") == [(3,)]


def test_leaving_a_schema_that_is_dropped(con):
    con.execute("USE cloud.other")
    con.execute("DROP SCHEMA cloud.other CASCADE")
    assert fetch(con, "SELECT current_database(), current_schema()") == [("cloud", "main")]
    assert fetch(con, "SELECT count(*) FROM sale") == [(100,)]


def test_lists_of_tables_agree(con):
    con.execute("CREATE VIEW cloud.v AS SELECT id FROM cloud.main.sale")
    for sql in (
        "CREATE TABLE IF NOT EXISTS cloud.sale (id INTEGER)",
        "INSERT INTO cloud.sale (id) VALUES (700)",
        "COMMENT ON TABLE cloud.sale IS 'x'",
        "CREATE TABLE cloud.more (i INTEGER)",
    ):
        con.execute(sql)
        listed = [(row[2], len(row[3])) for row in fetch(con, "SHOW ALL TABLES")]
        assert ("sale", 5) in listed and ("note", 2) in listed and ("v", 1) in listed, (sql, listed)


def test_a_foreign_key_to_a_table_with_an_odd_name(con):
    con.execute("USE cloud")
    con.execute('CREATE TABLE "odd name" (id INTEGER PRIMARY KEY)')
    con.execute('CREATE TABLE child (id INTEGER REFERENCES "odd name"(id))')
    with pytest.raises(duckdb.ConstraintException):
        con.execute("INSERT INTO child VALUES (1)")
    with pytest.raises(duckdb.BinderException):
        con.execute('CREATE TABLE other.child (id INTEGER REFERENCES main."odd name"(id))')


def test_what_cannot_be_run_cannot_be_prepared_or_explained(con):
    for word in ("EXPLAIN ", "PREPARE p AS "):
        with pytest.raises(duckdb.CatalogException):
            con.execute(word + "UPDATE cloud.missing SET id = 1")
        with pytest.raises(duckdb.BinderException):
            con.execute(word + "INSERT INTO cloud.sale BY NAME SELECT 464 AS id, NULL AS g")
        with pytest.raises(duckdb.BinderException):
            con.execute(word + "DELETE FROM cloud.sale WHERE missing = 1")


def shell(lines, *options):
    """DuckDB's own shell."""
    program = pathlib.Path(sys.executable).parent / "duckdb"
    if not program.exists():
        pytest.skip("no duckdb shell beside %s" % sys.executable)
    env = services.server_env()
    # An instrumented extension needs what this interpreter was given for it.
    env.update({k: os.environ[k] for k in ("LD_PRELOAD", "ASAN_OPTIONS") if k in os.environ})
    done = subprocess.run(
        [program, "-unsigned", "-batch", "-csv", "-noheader", *options],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=60 * services.SLOW,
        env=env,
        check=False,
    )
    return done.stdout, done.stderr


def test_shell(tmp_path):
    (tmp_path / "notes.csv").write_text("id,text\n1,a\n2,b\n")
    lines = (
        "USE cloud;",
        ".tables",
        ".import --csv --skip 1 %s other.note" % (tmp_path / "notes.csv"),
        ".import --csv %s fresh" % (tmp_path / "notes.csv"),
        "FROM cloud.other.note ORDER BY id;",
        "SELECT count(*) FROM fresh;",
        ".schema sale",
        "UPDATE sale SET shop = 'x' WHERE id < 3;",
        "SELECT count(*) FROM sale WHERE shop = 'x';",
        ".dump note",
    )
    path = services.make_database(tmp_path / "mydb.duckdb", *TABLES)
    want = shell(["ATTACH '%s' AS cloud;" % path, *lines])
    path = services.make_database(tmp_path / "again.duckdb", *TABLES)
    with services.Serve({"mydb": path}) as server:
        load = "LOAD '%s';" % services.extension_path()
        got = shell([load, services.attach_sql(server.url) + ";", *lines])
    assert got == want
    assert "sale" in got[0]
