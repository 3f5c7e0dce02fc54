"""SQL's door: LOAD, ATTACH, names, plans, table functions, interrupts, freshness; in the user's own DuckDB."""

import concurrent.futures
import re
import shutil
import subprocess
import sys
import threading
import time
import uuid

import duckdb
import pytest
import services

pytestmark = pytest.mark.extension
ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"


@pytest.fixture
def free():
    """A DuckDB with the extension and nothing attached."""
    con = services.duck()
    yield con
    con.close()


@pytest.fixture
def recorded(server):
    """(proxy, connection): every request on its way is written down."""
    with services.RecordingProxy(server.url) as proxy, services.attached(proxy.url) as con:
        con.execute("SELECT i FROM cloud.one").fetchall()
        proxy.clear()
        yield proxy, con


def fresh():
    return "x" + uuid.uuid4().hex[:12]


def host(server):
    return server.url.removeprefix("http://")


# ---------------------------------------------------------------- load and attach


def test_load_adds_one_extension_and_no_threads():
    code = (
        "import services, threading, os; con = services.duck(load=False); con.execute('SELECT 1').fetchall(); "
        "n = len(os.listdir('/proc/self/task')); con.execute(\"LOAD '%s'\" % services.extension_path()); "
        "assert len(os.listdir('/proc/self/task')) == n; "
        "print(con.execute(\"SELECT loaded FROM duckdb_extensions() WHERE extension_name = 'openduck'\").fetchall())"
    )
    env = {**services.os.environ, "PYTHONPATH": services.os.path.dirname(services.__file__)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.stdout.strip() == "[(True,)]", done.stderr


def test_load_into_another_version_is_refused(tmp_path):
    wrong = tmp_path / "openduck.duckdb_extension"
    data = services.extension_path().read_bytes()
    head, foot = data[:-512], data[-512:]
    wrong.write_bytes(head + foot.replace(b"v1.5.5", b"v1.4.0"))
    shutil.copy(services.extension_path().parent / "libduckdb.so", tmp_path / "libduckdb.so")
    con = services.duck(load=False)
    with pytest.raises(duckdb.Error) as e:
        con.execute("LOAD '%s'" % wrong)
    assert "1.4.0" in str(e.value) and "1.5.5" in str(e.value)
    con.close()


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH 'openduck:mydb?endpoint={url}' AS c",
        "ATTACH 'openduck:mydb?endpoint={host}' AS c",
        "ATTACH 'openduck:mydb' AS c (ENDPOINT '{url}')",
        "ATTACH 'openduck:mydb' AS c (TYPE openduck, ENDPOINT '{url}')",
        "ATTACH 'openduck:mydb' AS c (ENDPOINT '{url}', READ_ONLY)",
        "ATTACH IF NOT EXISTS 'openduck:mydb?endpoint={url}' AS c",
        "ATTACH 'openduck:mydb?endpoint={url}&token=whatever' AS c",
        "ATTACH 'openduck:my%64b?endpoint={encoded}' AS c",
    ],
)
def test_attach_forms(free, server, sql):
    encoded = server.url.replace(":", "%3A").replace("/", "%2F")
    free.execute(sql.format(url=server.url, host=host(server), encoded=encoded))
    assert free.execute("SELECT count(i) FROM c.t").fetchall() == [(1000,)]


def test_attach_without_an_alias_is_named_after_the_database(free, server):
    free.execute("ATTACH 'openduck:mydb?endpoint=%s'" % server.url)
    assert free.execute("SELECT count(i) FROM mydb.t").fetchall() == [(1000,)]


def test_endpoint_comes_from_the_environment(server):
    code = (
        "import services; con = services.duck(); con.execute(\"ATTACH 'openduck:mydb' AS cloud\"); "
        "print(con.execute('SELECT count(i) FROM cloud.t').fetchall())"
    )
    path = services.os.path.dirname(services.__file__)
    env = {**services.os.environ, "PYTHONPATH": path, "OPENDUCK_ENDPOINT": server.url}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.stdout.strip() == "[(1000,)]", done.stderr


@pytest.mark.parametrize(
    "sql, word",
    [
        ("ATTACH 'openduck:' AS c", ""),
        ("ATTACH 'openduck:mydb?nosuch=1' AS c", "nosuch"),
        ("ATTACH 'openduck:mydb' AS c (NOSUCH 1)", "nosuch"),
        ("ATTACH 'openduck:mydb?endpoint=ftp://x:1' AS c", "ftp"),
        ("ATTACH 'openduck:mydb?endpoint=https://127.0.0.1:1&token=geheim' AS c", "cannot connect"),
        ("ATTACH 'openduck:mydb?endpoint=http://user:geheim@127.0.0.1:1' AS c", "endpoint"),
        ("ATTACH 'openduck:mydb?endpoint=127.0.0.1:99999' AS c", "99999"),
    ],
)
def test_wrong_attach_is_told_without_the_secret(free, sql, word):
    with pytest.raises(duckdb.Error) as e:
        free.execute(sql)
    assert word.lower() in str(e.value).lower()
    assert "geheim" not in str(e.value)
    assert free.execute("SELECT count(*) FROM duckdb_databases() WHERE database_name = 'c'").fetchall() == [(0,)]


def test_unknown_database_is_told_at_attach_or_first_use(free, server):
    with pytest.raises(duckdb.Error, match="nosuchdb"):
        free.execute("ATTACH 'openduck:nosuchdb?endpoint=%s' AS c" % server.url)
        free.execute("SELECT * FROM c.t").fetchall()


def test_token_never_shows(free, sample_db):
    with services.Serve({"mydb": sample_db}, "--read-only", token="geheim") as s:
        free.execute("ATTACH 'openduck:mydb?endpoint=%s&token=geheim' AS c" % s.url)
        assert free.execute("SELECT count(i) FROM c.t").fetchall() == [(1000,)]
        for sql in ("FROM duckdb_databases()", "SHOW DATABASES", "EXPLAIN SELECT i FROM c.t", "FROM duckdb_settings()"):
            assert "geheim" not in str(free.execute(sql).fetchall()), sql


def test_secret_gives_endpoint_and_token(free, sample_db):
    with services.Serve({"mydb": sample_db}, "--read-only", token="geheim") as s:
        free.execute("CREATE SECRET (TYPE openduck, ENDPOINT '%s', TOKEN 'geheim')" % s.url)
        free.execute("ATTACH 'openduck:mydb' AS c")
        assert free.execute("SELECT count(i) FROM c.t").fetchall() == [(1000,)]
        assert "geheim" not in str(free.execute("FROM duckdb_secrets()").fetchall())


def test_named_secret_is_chosen(free, sample_db):
    with services.Serve({"mydb": sample_db}, "--read-only", token="geheim") as s:
        free.execute("CREATE SECRET good (TYPE openduck, ENDPOINT '%s', TOKEN 'geheim')" % s.url)
        free.execute("CREATE SECRET bad (TYPE openduck, ENDPOINT '%s', TOKEN 'no', SCOPE 'openduck:other')" % s.url)
        free.execute("ATTACH 'openduck:mydb' AS c (SECRET good)")
        assert free.execute("SELECT count(i) FROM c.t").fetchall() == [(1000,)]


def test_two_databases_and_twice_the_same(free, server):
    free.execute(services.attach_sql(server.url, "mydb", "a"))
    free.execute(services.attach_sql(server.url, "mydb", "b"))
    free.execute(services.attach_sql(server.url, "other", "o"))
    assert free.execute("SELECT count(*) FROM a.t JOIN b.t USING (i)").fetchall() == [(1000,)]
    assert free.execute("SELECT count(*) FROM duckdb_tables() WHERE database_name = 'o'").fetchall() == [(0,)]
    free.execute("DETACH a")
    assert free.execute("SELECT count(i) FROM b.t").fetchall() == [(1000,)]


def test_attach_is_safe_to_repeat_in_threads(server):
    con = services.duck()
    sql = services.attach_sql(server.url).replace("ATTACH", "ATTACH IF NOT EXISTS")

    def work(_):
        c = con.cursor()
        try:
            c.execute(sql)
        except duckdb.BinderException as e:  # as plain DuckDB now and then, when two are at it at once
            assert "already exists" in str(e)
        return c.execute("SELECT count(i) FROM cloud.t").fetchall()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(32))) == [[(1000,)]] * 32
    con.close()


# ---------------------------------------------------------------- names, lists


def test_schemas_views_and_case(con):
    assert con.execute("SELECT v, d FROM cloud.s2.u").fetchone()[0] == "x"
    assert con.execute("SELECT count(*) FROM cloud.v").fetchall() == [(10,)]
    assert con.execute("SELECT I FROM CLOUD.MAIN.ONE").fetchall() == [(1,)]


def test_show_describe_and_information_schema(con):
    assert con.execute("SHOW TABLES FROM cloud").fetchall() == [("big",), ("one",), ("t",), ("u",), ("v",)]
    assert [r[:2] for r in con.execute("DESCRIBE cloud.s2.u").fetchall()] == [("v", "VARCHAR"), ("d", "DECIMAL(9,2)")]
    sql = "SELECT table_name, table_type FROM information_schema.tables WHERE table_catalog = 'cloud' ORDER BY 1"
    assert con.execute(sql).fetchall() == [
        ("big", "BASE TABLE"),
        ("one", "BASE TABLE"),
        ("t", "BASE TABLE"),
        ("u", "BASE TABLE"),
        ("v", "VIEW"),
    ]


def test_use_makes_it_the_default(con):
    con.execute("USE cloud")
    assert con.execute("SELECT count(i) FROM t").fetchall() == [(1000,)]
    con.execute("USE memory")


def test_default_database_is_where_new_connections_begin(con):
    sql = "SELECT current_database()"
    con.execute("SET openduck_default_database = 'cloud'")
    cursor = con.cursor()
    assert cursor.execute("SELECT current_database(), count(i) FROM t GROUP BY ALL").fetchall() == [("cloud", 1000)]
    assert con.execute(sql).fetchall() == [("memory",)]
    cursor.execute("USE memory")
    assert cursor.execute(sql).fetchall() == [("memory",)]
    for value in ("nosuch", "memory"):
        with pytest.raises(duckdb.BinderException, match=value):
            con.execute("SET openduck_default_database = '%s'" % value)
    with pytest.raises(duckdb.InvalidInputException, match="USE"):
        con.execute("SET SESSION openduck_default_database = 'cloud'")
    con.execute("DETACH cloud")
    assert con.cursor().execute(sql).fetchall() == [("memory",)]
    con.execute("RESET openduck_default_database")
    assert con.cursor().execute(sql).fetchall() == [("memory",)]


def test_odd_tables_never_break_the_others(con, server):
    """What cannot be read is listed or left out, and told when it is used; everything else works."""
    names = [fresh() for _ in range(4)]
    with server.client() as c:
        assert c.run("CREATE TYPE odd_mood AS ENUM ('a', 'b'); CREATE TABLE %s(m odd_mood)" % names[0]).error is None
        assert c.run("CREATE TABLE %s AS SELECT 1 AS i, NULL AS n" % names[1]).error is None
        assert c.run("CREATE VIEW %s AS FROM %s" % (names[2], names[1])).error is None
        assert c.run("DROP TABLE %s" % names[1]).error is None  # the view is broken now
        assert c.run('CREATE VIEW %s AS SELECT 1 AS a, 2 AS a_1, 3 AS "a b"' % names[3]).error is None
        try:
            tables = {r[0] for r in con.execute("SHOW TABLES FROM cloud").fetchall()}
            assert {"t", "big", names[0], names[3]} <= tables
            assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(1000,)]
            assert con.execute("SELECT count(*) FROM cloud.%s" % names[0]).fetchall() == [(0,)]
            columns = con.execute("SELECT count(*) FROM information_schema.columns WHERE table_catalog = 'cloud'")
            assert columns.fetchone()[0] > 8
            with pytest.raises(duckdb.Error):
                con.execute("FROM cloud.%s" % names[2]).fetchall()
            assert con.execute("FROM cloud.%s" % names[3]).fetchall() == [(1, 2, 3)]
        finally:
            c.run("DROP VIEW %s; DROP VIEW %s; DROP TABLE %s; DROP TYPE odd_mood" % (names[2], names[3], names[0]))


def test_a_thousand_tables_are_listed_in_few_questions(server):
    with server.client() as c:
        create = ";".join("CREATE TABLE IF NOT EXISTS many_%d(i INTEGER, s VARCHAR)" % k for k in range(1000))
        assert c.run(create, database="other").error is None
    with services.RecordingProxy(server.url) as proxy, services.attached(proxy.url, "other") as con:
        assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE database_name = 'cloud'").fetchall() == [(1000,)]
        assert proxy.count("ExecuteFragment") <= 8, proxy.sql(True)
    with server.client() as c:
        assert c.run(";".join("DROP TABLE many_%d" % k for k in range(1000)), database="other").error is None


@pytest.mark.parametrize("listing", ["SHOW ALL TABLES", "FROM duckdb_columns()", "FROM information_schema.tables"])
def test_a_list_that_lacks_a_database_is_an_error(server, recorded, listing):
    proxy, con = recorded
    mine = fresh()
    proxy.refuses = lambda request: b"duckdb_" in request
    with server.client() as c:
        assert c.run("CREATE TABLE %s(i INTEGER)" % mine).error is None
        try:
            with pytest.raises(duckdb.IOException, match="refused by the proxy"):
                con.execute(listing).fetchall()
            with pytest.raises(duckdb.CatalogException, match="does not exist"):
                con.execute("FROM memory.nosuch").fetchall()  # the database that is away is not the reason
            proxy.refuses = lambda request: False
            assert mine in str(con.execute(listing).fetchall())
        finally:
            c.run("DROP TABLE " + mine)


# ---------------------------------------------------------------- plans


def explain(con, sql):
    return "\n".join(r[1] for r in con.execute("EXPLAIN " + sql).fetchall())


def flat(text):
    return re.sub(r"[\s│┌┐└┘─├┤┴┬]+", "", text)


def test_explain_shows_the_sql_that_is_sent(recorded):
    proxy, con = recorded
    sql = "SELECT i FROM cloud.t WHERE s = 's7'"
    plan = explain(con, sql)
    assert proxy.sql() == [], "EXPLAIN runs nothing"
    con.execute(sql).fetchall()
    sent = [s for s in proxy.sql() if "duckdb_" not in s]
    assert len(sent) == 1
    assert flat(sent[0])[:60] in flat(plan), (sent, plan)


def test_explain_analyze_tells_rows_and_bytes(con):
    plan = con.execute("EXPLAIN ANALYZE SELECT i FROM cloud.t WHERE i < 500").fetchall()[0][1]
    assert re.search(r"500", plan), plan
    assert re.search(r"[Bb]ytes|KiB|KB", plan), plan


def test_only_the_columns_in_use_are_asked_for(recorded):
    proxy, con = recorded
    assert con.execute("SELECT sum(j) FROM cloud.big").fetchall() == [(3000000 * 2999999,)]
    sent = " ".join(proxy.sql())
    assert '"j"' in sent or " j" in sent
    assert "row number" not in sent and '"s"' not in sent


def test_count_moves_no_column_data(recorded):
    proxy, con = recorded
    assert con.execute("SELECT count(*) FROM cloud.big").fetchall() == [(3000000,)]
    assert proxy.bytes_down < 100_000, proxy.bytes_down


def test_filters_go_to_the_server(recorded):
    proxy, con = recorded
    assert con.execute("SELECT s FROM cloud.big WHERE i = 1234567").fetchall() == [("row number 1234567",)]
    assert proxy.bytes_down < 20_000, proxy.bytes_down
    assert any("1234567" in s for s in proxy.sql())


def test_limit_stops_the_stream(recorded):
    proxy, con = recorded
    assert len(con.execute("FROM cloud.big LIMIT 5").fetchall()) == 5
    assert proxy.bytes_down < 3_000_000, proxy.bytes_down


@pytest.mark.parametrize(
    "where",
    [
        "random() < 2",
        "s = getvariable('v')",
        "s = current_setting('TimeZone') OR i = 7",
        "local_macro(i)",
        "now() > TIMESTAMP '2020-01-01' AND i = 7",
    ],
)
def test_what_means_something_else_there_stays_here(recorded, where):
    proxy, con = recorded
    con.execute("SET VARIABLE v = 's7'; CREATE OR REPLACE TEMP MACRO local_macro(a) AS a = 7")
    con.execute("SELECT i FROM cloud.t WHERE " + where).fetchall()
    for word in ("random", "getvariable", "current_setting", "local_macro", "now()"):
        assert not any(word in s for s in proxy.sql()), proxy.sql()


# ---------------------------------------------------------------- executions


def test_small_query_is_one_round_trip(recorded):
    proxy, con = recorded
    for _ in range(3):
        con.execute("SELECT i FROM cloud.one").fetchall()
    assert proxy.count() == 3, proxy.sql(True)


def test_prepared_statement_runs_each_time(recorded):
    proxy, con = recorded
    con.execute("PREPARE p AS SELECT s FROM cloud.t WHERE i = $1")
    assert proxy.sql() == []
    assert con.execute("EXECUTE p(5)").fetchall() == [("s5",)]
    assert con.execute("EXECUTE p(6)").fetchall() == [("s6",)]


def test_openduck_query_runs_once_an_execution(recorded, server):
    _, con = recorded
    name = fresh()
    with server.client() as c:
        c.run("CREATE TABLE %s(i INTEGER)" % name)
    sql = "FROM openduck_query('cloud', 'INSERT INTO %s VALUES (1) RETURNING i')" % name

    def rows():
        with server.client() as c:
            return c.rows("SELECT count(*) FROM " + name)[0][0]

    con.execute("EXPLAIN " + sql).fetchall()
    con.execute("DESCRIBE " + sql).fetchall()
    con.execute("PREPARE q AS " + sql)
    con.execute("CREATE OR REPLACE TEMP VIEW w AS " + sql)
    assert rows() == 0, "nothing ran before its execution"
    assert con.execute(sql).fetchall() == [(1,)]
    assert rows() == 1
    con.execute("EXECUTE q").fetchall()
    con.execute("EXECUTE q").fetchall()
    assert rows() == 3
    con.execute("FROM w").fetchall()
    assert rows() == 4
    with server.client() as c:
        c.run("DROP TABLE " + name)


def test_openduck_query_and_remote_give_rows(con, server):
    sql = "SELECT i, s FROM t WHERE i < 3 ORDER BY i"
    want = [(0, "s0"), (1, "s1"), (2, "s2")]
    assert con.execute("FROM openduck_query('cloud', '%s')" % sql).fetchall() == want
    remote = "FROM openduck_remote('%s', '', '%s', database := 'mydb')" % (server.url, sql)
    assert con.execute(remote).fetchall() == want
    assert con.execute("SELECT count(*) FROM openduck_query('cloud', 'FROM big')").fetchall() == [(3000000,)]


def test_openduck_query_of_an_unknown_alias_is_named(con):
    with pytest.raises(duckdb.Error, match="nosuchalias"):
        con.execute("FROM openduck_query('nosuchalias', 'SELECT 1')").fetchall()


@pytest.mark.parametrize(
    "text, kind, words",
    [
        ("", duckdb.InvalidInputException, "no statement"),
        (";", duckdb.InvalidInputException, "no statement"),
        ("-- nothing", duckdb.InvalidInputException, "no statement"),
        ("SELECT 1; SELECT 2", duckdb.InvalidInputException, "single statement"),
        ("CREATE TABLE not_made AS SELECT 1 AS i; SELECT 2 AS i", duckdb.InvalidInputException, "single statement"),
        ("SELECT ?", duckdb.InvalidInputException, "parameter"),
        ("SELEC 1", duckdb.ParserException, "SELEC"),
        ("FROM not_made", duckdb.CatalogException, "not_made"),
        ("COPY t TO '/tmp/not_made.csv'", duckdb.PermissionException, "disabled"),
        ("SET memory_limit = '1GB'", duckdb.InvalidInputException, "locked"),
        ("COMMIT", duckdb.TransactionException, "no transaction"),
    ],
)
def test_openduck_query_of_an_odd_text_says_what_is_wrong(con, text, kind, words):
    with pytest.raises(kind, match=words):
        con.execute("FROM openduck_query('cloud', ?)", [text]).fetchall()
    assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(1000,)]


# ---------------------------------------------------------------- interrupts


@pytest.mark.parametrize(
    "sql",
    [
        "FROM openduck_query('cloud', '%s')" % ENDLESS,
        "SELECT count(*) FROM cloud.big a, cloud.big b WHERE a.i + b.i = -1",
        "CREATE OR REPLACE TEMP TABLE z AS SELECT a.* FROM cloud.big a, range(1000)",
    ],
    ids=["remote", "local", "download"],
)
def test_interrupt_is_quick_and_stops_the_remote(con, server, sql):
    for _ in range(2):
        fired = []

        def fire(fired=fired):
            fired.append(time.monotonic())
            con.interrupt()

        timer = threading.Timer(0.7, fire)
        timer.start()
        with pytest.raises(duckdb.InterruptException):
            con.execute(sql).fetchall()
        assert time.monotonic() - fired[0] < 1 * services.SLOW
        server.wait_idle(1)
        services.wait_until(lambda: services.cpu_share(server, 0.2) < 0.1, 1, "the server is idle")
        assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(1000,)]
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'z'").fetchall() == [(0,)]


def test_an_interrupted_statement_does_not_stand_in_the_way_of_an_index(con, server):
    mine = fresh()
    con.execute("CREATE TABLE cloud.%s AS SELECT i, i %% 7 AS j FROM range(5000) r(i)" % mine)
    busy = (
        "SELECT sum(length(md5(repeat(''ab'', 10000000 + i)))) FROM %s WHERE i < 3" % mine
    )  # looks for interrupts nowhere

    def fire():
        services.wait_until(lambda: services.cpu_share(server, 0.1) > 0.05, 30, "the statement is at work")
        con.interrupt()

    timer = threading.Thread(target=fire)
    timer.start()
    with pytest.raises(duckdb.InterruptException):
        con.execute("FROM openduck_query('cloud', '%s')" % busy).fetchall()
    timer.join()
    con.execute("UPDATE cloud.%s SET j = j + 1" % mine)
    con.execute("CREATE INDEX %s_j ON cloud.%s(j)" % (mine, mine))  # else: ... with outstanding updates
    con.execute("DROP TABLE cloud." + mine)


def test_interrupts_at_random_moments(con, server):
    import random

    rnd = random.Random(1)
    for _ in range(60 if services.SLOW == 1 else 20):
        timer = threading.Timer(rnd.random() * 0.15, con.interrupt)
        timer.start()
        try:
            con.execute("SELECT max(a.s), count(*) FROM cloud.big a JOIN cloud.big b USING (i)").fetchall()
        except duckdb.InterruptException:
            pass
        timer.cancel()
        timer.join()
    server.wait_idle(1)
    con.execute("SELECT 1").fetchall()
    assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(1000,)]


def test_limit_ends_the_remote_query(con, server):
    sql = "SELECT i FROM openduck_query('cloud', 'SELECT i FROM range(100000000000) t(i)') LIMIT 1"
    assert con.execute(sql).fetchall() == [(0,)]
    server.wait_idle(2)
    services.wait_until(lambda: services.cpu_share(server, 0.2) < 0.1, 2, "the server is idle")


# A million rows at once, and then none for a long time.
STALLING = "SELECT i, random() AS r FROM range(100000000000) t(i) WHERE i < 1000000 OR i % 1000000000000 = 999999999999"


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_closed_result_ends_a_scan_that_waits(server, threads):
    with services.attached(server, config={"threads": str(threads)}) as con:
        for rows in (1, 500000):
            con.execute("FROM openduck_query('cloud', '%s')" % STALLING)
            assert len(con.fetchmany(rows)) == rows
            time.sleep(0.2)
            start = time.monotonic()
            assert con.execute("SELECT 1").fetchall() == [(1,)]
            assert time.monotonic() - start < 1 * services.SLOW
            server.wait_idle(2)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_limit_that_the_client_applies_ends_a_scan_that_waits(server, threads):
    with services.attached(server, config={"threads": str(threads)}) as con:
        for limit in (1, 50000):
            start = time.monotonic()
            sql = "SELECT i FROM openduck_query('cloud', '%s') WHERE i %% 10 = 3 LIMIT %d"
            rows = con.execute(sql % (STALLING, limit)).fetchall()
            assert len(rows) == limit and rows[0] == (3,)
            assert time.monotonic() - start < 3 * services.SLOW
            server.wait_idle(2)


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_in_python_ends_a_scan_that_waits(server, threads):
    code = (
        "import os, signal, threading, time, services\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background shell leaves it ignored
        "con = services.duck(threads='%d'); con.execute(services.attach_sql(%r))\n"
        "threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "start = time.monotonic()\n"
        "try:\n"
        "    con.execute(\"SELECT max(r) FROM openduck_query('cloud', '%s')\").fetchall()\n"
        "except BaseException as e:\n"
        "    print(type(e).__name__, time.monotonic() - start < 2 * services.SLOW)\n"
        "print(con.execute('SELECT 1').fetchall())\n" % (threads, server.url, STALLING)
    )
    env = {**services.os.environ, "PYTHONPATH": services.os.path.dirname(services.__file__)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60, check=False
    )
    assert done.stdout.strip().endswith("True\n[(1,)]"), (done.stdout, done.stderr[-3000:])
    server.wait_idle(2)


def test_closing_the_connection_ends_its_streams(server):
    with services.attached(server) as con:
        con.execute("FROM cloud.big").fetchmany(5)
    server.wait_idle(1)


# ---------------------------------------------------------------- freshness


def test_server_side_changes_are_seen_by_the_next_statement(recorded, server):
    proxy, con = recorded
    name = fresh()
    with server.client() as c:

        def there(sql):
            assert c.run(sql % name).error is None, sql

        there("CREATE TABLE %s AS SELECT 1 AS a")
        assert con.execute("FROM cloud.%s" % name).fetchall() == [(1,)]
        there("ALTER TABLE %s ADD COLUMN b VARCHAR DEFAULT 'x'")
        assert con.execute("FROM cloud.%s" % name).fetchall() == [(1, "x")]
        there("ALTER TABLE %s ALTER a TYPE VARCHAR")
        assert con.execute("SELECT a, typeof(a) FROM cloud.%s" % name).fetchall() == [("1", "VARCHAR")]
        there("DROP TABLE %s")
        with pytest.raises(duckdb.CatalogException, match=name):
            con.execute("FROM cloud.%s" % name).fetchall()
        there("CREATE TABLE %s AS SELECT 2.5::DOUBLE AS z")
        assert con.execute("FROM cloud.%s" % name).fetchall() == [(2.5,)]
        proxy.clear()
        for _ in range(3):
            con.execute("SELECT z FROM cloud.%s" % name).fetchall()
        assert proxy.count() == 3, "freshness costs no extra question: %s" % proxy.sql(True)
        there("DROP TABLE %s")


def test_prepared_statement_after_a_change_is_right_or_refused(con, server):
    name = fresh()
    with server.client() as c:
        c.run("CREATE TABLE %s AS SELECT 1::INTEGER AS a" % name)
        con.execute("PREPARE p AS SELECT a FROM cloud.%s" % name)
        assert con.execute("EXECUTE p").fetchall() == [(1,)]
        c.run("CREATE OR REPLACE TABLE %s AS SELECT 'text' AS a" % name)
        try:
            assert con.execute("EXECUTE p").fetchall() == [("text",)]
        except duckdb.Error as e:
            assert not isinstance(e, duckdb.InternalException), e
        assert con.execute("SELECT a FROM cloud.%s" % name).fetchall() == [("text",)]
        c.run("DROP TABLE " + name)


# ---------------------------------------------------------------- errors


def test_remote_internal_error_leaves_the_client_usable(con):
    with pytest.raises(duckdb.Error) as e:
        con.execute("FROM openduck_query('cloud', 'SELECT error(''boom'')')").fetchall()
    assert "boom" in str(e.value)
    assert con.execute("SELECT 1").fetchall() == [(1,)]
    assert con.execute("SELECT count(i) FROM cloud.t").fetchall() == [(1000,)]


def test_message_names_server_and_execution(con, server):
    with pytest.raises(duckdb.Error) as e:
        con.execute("FROM openduck_query('cloud', 'SELECT ''x''::INTEGER FROM t')").fetchall()
    assert host(server) in str(e.value) and "execution" in str(e.value)


# ---------------------------------------------------------------- use by many


def test_threads_share_one_instance(server):
    with services.attached(server) as con:

        def work(n):
            c = con.cursor()
            out = [
                c.execute("SELECT s FROM cloud.t WHERE i = %d" % ((n * 31 + k) % 1000)).fetchone() for k in range(20)
            ]
            return out == [("s%d" % ((n * 31 + k) % 1000),) for k in range(20)]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(16)))
    server.wait_idle()


def test_detach_while_another_reads(server):
    with services.attached(server) as con:
        reader = con.cursor()
        reader.execute("FROM cloud.big")
        first = reader.fetchmany(10)
        con.execute("DETACH cloud")
        assert len(first) == 10
        rest = reader.fetchall()
        assert len(first) + len(rest) == 3000000
    server.wait_idle()


def test_fork_of_a_client_works_in_both(server):
    code = (
        "import os, services; con = services.duck(); con.execute(services.attach_sql(%r))\n"
        "assert con.execute('SELECT i FROM cloud.one').fetchall() == [(1,)]\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    con2 = services.duck(); con2.execute(services.attach_sql(%r))\n"
        "    ok = con2.execute('SELECT count(i) FROM cloud.t').fetchall() == [(1000,)]\n"
        "    os._exit(0 if ok else 1)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "assert con.execute('SELECT i FROM cloud.one').fetchall() == [(1,)]\n"
        "print('fine')\n" % (server.url, server.url)
    )
    env = {**services.os.environ, "PYTHONPATH": services.os.path.dirname(services.__file__)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60, check=False
    )
    assert done.stdout.strip() == "fine", done.stderr[-3000:]
