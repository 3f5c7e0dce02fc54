"""Layouts of served databases: companions that ATTACH 'openduck:...' attaches beside, and tables that are read from
several branches, of the server and of a DuckLake. docs/layouts.md says what is shown here."""

import contextlib
import shutil
import signal

import duckdb
import pytest
import services
from vgi_catalogs import one, refused, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]
EXTENSIONS = services.ROOT / ".deps" / "extensions"
LEVELS = ["off", "scan", "full"]
#: Of 1,000 events 400 are hot; the one at the split is in both arms, and counted once.
SPLIT = "TIMESTAMP '2026-11-01 10:00:00'"
EVENTS = "SELECT i AS id, TIMESTAMP '2026-11-01' + INTERVAL (i) MINUTE AS ts, 'e' || i AS val FROM range(1000) t(i)"

LAYOUT = """
[companion lake]
target = ducklake:sqlite:%s

[table events]
comment = all of them
split = SELECT coalesce(min(ts), 'infinity'::TIMESTAMP) FROM events

[branch]
from = events
where = ts >= {split}

[branch]
from = lake.main.events
where = ts < {split}

[table "All"]
[branch]
from = notes
where = id > 0
[branch]
from = lake.main.events
where = id >= 990
"""


@pytest.fixture
def con():
    with connect() as con:
        yield con


@contextlib.contextmanager
def connect():
    con = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "2"})
    con.execute("SET extension_directory = '%s'" % EXTENSIONS)
    con.execute("LOAD '%s'" % services.extension_path())
    con.execute("LOAD ducklake; LOAD sqlite_scanner")
    yield con
    con.close()


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "hot.duckdb"
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE events AS FROM (%s) WHERE ts >= %s" % (EVENTS, SPLIT))
        con.execute("CREATE TABLE notes(id INTEGER PRIMARY KEY, val VARCHAR NOT NULL)")
        con.execute("INSERT INTO notes VALUES (0, 'none'), (1, 'one')")
        con.execute("CREATE VIEW lately AS SELECT max(ts) AS ts FROM events")
    return path


@pytest.fixture
def lake(tmp_path):
    """The metadata of a lake of the events up to the split, and the one at it."""
    meta = tmp_path / "lake.sqlite"
    with connect() as con:
        con.execute("ATTACH 'ducklake:sqlite:%s' AS seed (DATA_PATH '%s')" % (meta, tmp_path / "files"))
        con.execute("CREATE TABLE seed.events AS FROM (%s) WHERE ts <= %s" % (EVENTS, SPLIT))
    return meta


@pytest.fixture
def layout(tmp_path, lake):
    return lay_out(tmp_path, LAYOUT % lake)


def lay_out(tmp_path, text):
    path = tmp_path / "layout"
    path.write_text(text)
    return path


@pytest.fixture
def server(database, layout):
    with services.Serve({"mydb": database}, "--layout", "mydb=%s" % layout) as server:
        yield server


@pytest.fixture
def cloud(con, server):
    attach(con, server)
    return con


def attach(con, server, alias="cloud", **options):
    listed = "".join(", %s %s" % pair for pair in options.items())
    con.execute("ATTACH 'openduck:mydb' AS %s (ENDPOINT '%s'%s)" % (alias, server.url, listed))


def explain(con, sql):
    return rows(con, "EXPLAIN " + sql)[0][1]


def shown(con):
    return {name for (name,) in rows(con, "SELECT database_name FROM duckdb_databases() WHERE NOT internal")}


def count_by_hand(con, where):
    return one(con, "SELECT count(*) FROM (%s) WHERE %s" % (EVENTS, where))


# ---------------------------------------------------------------- companions


def test_a_companion_comes_and_goes_with_the_database(con, server, lake):
    attach(con, server)
    assert rows(con, "FROM openduck_companions()") == [("lake", "ducklake:sqlite:%s" % lake, "ducklake", False, 1)]
    assert one(con, "SELECT count(*) FROM lake.events") == 601
    attach(con, server, "other")
    assert one(con, "SELECT refcount FROM openduck_companions()") == 2
    con.execute("DETACH cloud")
    assert "lake" in shown(con)
    con.execute("DETACH other")
    assert "lake" not in shown(con) and rows(con, "FROM openduck_companions()") == []


def test_companions_are_for_the_user_to_refuse(con, server):
    attach(con, server, attach_companions="false")
    assert "lake" not in shown(con)
    refused(con, "FROM cloud.events", "references companion catalog 'lake' (table 'events') which is not attached")
    assert one(con, "SELECT count(*) FROM cloud.notes") == 2
    refused(con, "ATTACH 'openduck:mydb' AS b (ATTACH_COMPANIONS 'perhaps')", "ATTACH_COMPANIONS must be true or false")


def test_companions_may_be_read_only(con, server):
    attach(con, server, companions_read_only="true")
    refused(con, "DELETE FROM lake.events", "read-only")
    refused_attach(con, server, "other", "already in use")


def refused_attach(con, server, alias, text):
    before = shown(con)
    refused(con, "ATTACH 'openduck:mydb' AS %s (ENDPOINT '%s')" % (alias, server.url), text)
    assert shown(con) == before


def test_the_users_database_stays_and_a_failed_attach_leaves_nothing(con, server):
    con.execute("ATTACH ':memory:' AS lake")
    con.execute("CREATE TABLE lake.mine AS SELECT 42 AS x")
    refused_attach(con, server, "cloud", "OpenDuck catalog 'cloud' could not attach required companion 'lake'")
    assert one(con, "FROM lake.mine") == 42


def test_an_attach_that_is_rolled_back_takes_its_companions_along(con, server):
    con.execute("BEGIN")
    attach(con, server)
    con.execute("ROLLBACK")
    assert not {"lake", "cloud"} & shown(con)


def test_optional_hidden_and_secret_companions(con, database, lake, tmp_path):
    text = (
        """
[companion lake]
target = ducklake:sqlite:%s
hidden = true
[companion nowhere]
target = duckdb:/nonexistent/file.duckdb
option read_only = true
optional = true
[companion base]
target = dbname=x host=127.0.0.1 port=1 password=hush
type = postgres
secret = my_key
optional = true
"""
        % lake
    )
    with services.Serve({"mydb": database}, "--layout", "mydb=%s" % lay_out(tmp_path, text)) as server:
        attach(con, server)
        assert [row[0] for row in rows(con, "FROM openduck_companions()")] == ["lake"]
        assert one(con, "SELECT hidden FROM openduck_companions()") is True
        assert "lake" not in {row[0] for row in rows(con, "SHOW DATABASES")}
        assert one(con, "SELECT count(*) FROM lake.events") == 601


@pytest.mark.skipif(services.PRESET != "release", reason="PostgreSQL's client is not of the sanitized build")
def test_the_lake_may_have_its_metadata_in_postgresql(con, database, postgres, tmp_path):
    con.execute("LOAD postgres_scanner")
    target = "ducklake:postgres:%s password=hush" % postgres.create("l%d" % abs(hash(str(tmp_path))))
    con.execute("ATTACH '%s' AS seed (DATA_PATH '%s')" % (target, tmp_path / "files"))
    con.execute("CREATE TABLE seed.events AS FROM (%s) WHERE ts <= %s" % (EVENTS, SPLIT))
    con.execute("DETACH seed")
    text = LAYOUT.replace("ducklake:sqlite:%s", target)
    con.execute("CALL enable_logging('VGI')")
    with services.Serve({"mydb": database}, "--layout", "mydb=%s" % lay_out(tmp_path, text)) as server:
        attach(con, server)
        assert one(con, "SELECT count(*) FROM cloud.events") == 1000
        assert one(con, "SELECT count(*) FROM cloud.events WHERE ts < %s" % SPLIT) == 600
        listed = rows(con, "FROM openduck_companions()")
        assert [(row[0], row[2:]) for row in listed] == [("lake", ("ducklake", False, 1))]
        told = [listed, rows(con, "FROM openduck_table_branches()"), explain(con, "FROM cloud.events")]
        con.execute("DETACH cloud")
        assert "lake" not in shown(con)
        # What is refused is named, too.
        con.execute("ATTACH ':memory:' AS lake")
        with pytest.raises(duckdb.Error, match="companion 'lake'") as e:
            attach(con, server)
        con.execute("DETACH lake")
        told += [str(e.value), server.stderr()]
    events = rows(con, "SELECT event, info FROM duckdb_logs_parsed('VGI')")
    assert events and "hush" not in str(told + events) and "password=***" in str(listed)


@pytest.mark.skipif(services.PRESET != "release", reason="PostgreSQL's client is not of the sanitized build")
def test_a_secret_of_the_users_opens_a_companion_only_if_he_says_so(con, database, postgres, tmp_path):
    con.execute("LOAD postgres_scanner")
    name = "s%d" % abs(hash(str(tmp_path)))
    postgres.create(name)
    where = (postgres.where, postgres.user, name)
    con.execute("CREATE SECRET pg (TYPE postgres, HOST '%s', USER '%s', DATABASE '%s')" % where)
    text = """
[companion base]
target = postgres:
secret = pg
[companion lake]
target = ducklake:postgres:
secret = pg
option data_path = %s
""" % (tmp_path / "files")
    with services.Serve({"mydb": database}, "--layout", "mydb=%s" % lay_out(tmp_path, text)) as server:
        refused_attach(con, server, "cloud", "base")
        attach(con, server, attach_companion_secrets="true")
        assert one(con, "FROM postgres_query('base', 'SELECT current_database()')") == name
        con.execute("CREATE TABLE lake.t AS SELECT 7 AS i")
        assert one(con, "FROM lake.t") == 7
        con.execute("DETACH cloud")
        con.execute("DROP SECRET pg")
        with pytest.raises(duckdb.Error, match="did not resolve to a secret"):
            attach(con, server, attach_companion_secrets="true")
        assert not {"base", "lake", "cloud"} & shown(con)


def test_both_extensions_share_a_companion(con, server, lake, database, tmp_path):
    con.execute("LOAD '%s'" % services.extension_path("vgi"))
    attach(con, server)
    empty = tmp_path / "empty.duckdb"
    duckdb.connect(empty).close()
    command = "%s vgi-serve --db %s --companion lake=ducklake:sqlite:%s" % (services.BINARY, empty, lake)
    con.execute("ATTACH 'empty' AS w (TYPE vgi, LOCATION '%s')" % command)
    assert rows(con, "SELECT catalog_name, refcount FROM vgi_companion_catalogs()") == [("lake", 2)]
    assert rows(con, "FROM vgi_companion_catalogs()") == rows(con, "FROM openduck_companions()")
    con.execute("DETACH cloud")
    assert "lake" in shown(con)
    con.execute("DETACH w")
    assert "lake" not in shown(con)


# ---------------------------------------------------------------- tables of branches


QUERIES = [
    "SELECT count(*), min(id), max(id), sum(id) FROM cloud.events",
    "SELECT * FROM cloud.events WHERE id BETWEEN 595 AND 605 ORDER BY id",
    "SELECT val FROM cloud.events WHERE ts > TIMESTAMP '2026-11-01 16:37:00' ORDER BY ts",
    "SELECT id % 7 AS k, count(*) FROM cloud.events GROUP BY k ORDER BY k",
    "SELECT e.id, n.val FROM cloud.events e JOIN cloud.notes n ON n.id = e.id ORDER BY e.id",
    "SELECT id FROM cloud.events ORDER BY id DESC LIMIT 3",
    "SELECT * FROM cloud.events WHERE id IN (SELECT id FROM cloud.notes) ORDER BY id",
]


@pytest.mark.parametrize("level", LEVELS)
def test_the_arms_make_one_table_at_every_level(cloud, level):
    cloud.execute("SET openduck_pushdown = '%s'" % level)
    cloud.execute("CREATE TABLE memory.events AS " + EVENTS)
    cloud.execute("CREATE TABLE memory.notes AS FROM (VALUES (0, 'none'), (1, 'one')) t(id, val)")
    for query in QUERIES:
        assert rows(cloud, query) == rows(cloud, query.replace("cloud.", "memory.")), query


def test_columns_are_those_of_the_database(cloud):
    refused(cloud, 'FROM cloud."All"', "ts")  # the lake's has one more than the table that tells the columns
    assert rows(cloud, "SELECT column_name, column_type FROM (DESCRIBE cloud.events)") == [
        ("id", "BIGINT"),
        ("ts", "TIMESTAMP"),
        ("val", "VARCHAR"),
    ]
    assert rows(cloud, "SELECT table_name, comment FROM duckdb_tables() WHERE database_name = 'cloud' ORDER BY 1") == [
        ("All", None),
        ("events", "all of them"),
        ("notes", None),
    ]
    assert rows(cloud, "FROM openduck_table_branches() WHERE table_name = 'events'") == [
        (*row, "SELECT coalesce(min(ts), 'infinity'::TIMESTAMP) FROM events", [])
        for row in [
            ("cloud", "main", "events", 0, "main.events", "ts >= {split}"),
            ("cloud", "main", "events", 1, "lake.main.events", "ts < {split}"),
        ]
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_a_query_of_recent_rows_never_touches_the_lake(cloud, level, tmp_path):
    cloud.execute("SET openduck_pushdown = '%s'" % level)
    recent = "SELECT count(*) FROM cloud.events WHERE ts >= TIMESTAMP '2026-11-01 12:00:00'"
    plan = explain(cloud, recent)
    assert "DUCKLAKE_SCAN" not in plan and "OPENDUCK" in plan.upper()
    assert "DUCKLAKE_SCAN" in explain(cloud, "SELECT count(*) FROM cloud.events")
    shutil.rmtree(tmp_path / "files")
    assert one(cloud, recent) == count_by_hand(cloud, "ts >= TIMESTAMP '2026-11-01 12:00:00'")
    with pytest.raises(duckdb.Error):
        rows(cloud, "SELECT sum(id) FROM cloud.events")


def test_a_query_of_old_rows_asks_the_server_for_none(cloud):
    plan = explain(cloud, "SELECT * FROM cloud.events WHERE ts < TIMESTAMP '2026-11-01 02:00:00'")
    assert "DUCKLAKE_SCAN" in plan and "OPENDUCK" not in plan.upper()


def test_the_conditions_of_the_hot_arm_run_at_the_server(cloud):
    sent = explain(cloud, "SELECT id FROM cloud.events WHERE val = 'e700' AND ts > TIMESTAMP '2026-11-01 11:00:00'")
    assert "e700" in sent and "WHERE" in sent
    summed = explain(cloud, "SELECT sum(id) FROM cloud.events WHERE ts > TIMESTAMP '2026-11-01 11:00:00'")
    assert "sum(" in summed.lower() and "DUCKLAKE_SCAN" not in summed


def test_the_split_is_asked_for_at_every_execution(cloud, server):
    cloud.execute("PREPARE q AS SELECT count(*), count(DISTINCT id) FROM cloud.events")
    assert rows(cloud, "EXECUTE q") == [(1000, 1000)]
    # Rows are moved: first they are in both, then the server's go.
    moved = "FROM openduck_query('cloud', 'FROM events WHERE id BETWEEN 601 AND 699')"
    cloud.execute("INSERT INTO lake.events " + moved)
    assert rows(cloud, "EXECUTE q") == [(1000, 1000)]
    cloud.execute("CALL openduck_query('cloud', 'DELETE FROM events WHERE id < 700')")
    assert rows(cloud, "EXECUTE q") == [(1000, 1000)]
    cloud.execute("CALL openduck_query('cloud', 'INSERT INTO events VALUES (1000, TIMESTAMP ''2026-11-02'', ''new'')')")
    assert rows(cloud, "EXECUTE q") == [(1001, 1001)]


def test_a_transaction_sees_its_own_rows(cloud):
    cloud.execute("BEGIN")
    cloud.execute("CALL openduck_query('cloud', 'INSERT INTO events VALUES (1000, TIMESTAMP ''2026-11-02'', ''new'')')")
    assert one(cloud, "SELECT count(*) FROM cloud.events") == 1001
    cloud.execute("ROLLBACK")
    assert one(cloud, "SELECT count(*) FROM cloud.events") == 1000


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO cloud.events VALUES (1, now()::TIMESTAMP, 'x')",
        "INSERT INTO cloud.events SELECT * FROM mine",
        "INSERT INTO cloud.events SELECT * FROM cloud.events",
        "UPDATE cloud.events SET val = 'x'",
        "UPDATE cloud.events SET val = m.val FROM mine m WHERE m.id = events.id",
        "DELETE FROM cloud.events",
        "DELETE FROM cloud.events USING mine WHERE mine.id = events.id",
        "MERGE INTO cloud.events USING mine ON mine.id = events.id WHEN MATCHED THEN DELETE",
        "DROP TABLE cloud.events",
        "ALTER TABLE cloud.events ADD COLUMN x INTEGER",
        "ALTER TABLE cloud.events RENAME TO gone",
        "COMMENT ON TABLE cloud.events IS 'x'",
        "CREATE INDEX i ON cloud.events(id)",
        "CREATE OR REPLACE TABLE cloud.events(x INTEGER)",
        "CREATE OR REPLACE TABLE cloud.events AS SELECT 1 AS x",
        "CREATE OR REPLACE TABLE cloud.events AS FROM mine",
        "CREATE OR REPLACE VIEW cloud.events AS SELECT 1 AS x",
    ],
)
def test_a_table_of_branches_is_not_written_to(cloud, server, sql):
    cloud.execute("CREATE TEMP TABLE mine AS SELECT 1::BIGINT AS id, TIMESTAMP '2026-11-01' AS ts, 'x' AS val")
    refused(cloud, sql, 'table "events" of database "cloud" is read from several branches')
    assert one(cloud, "SELECT count(*) FROM cloud.events") == 1000
    assert rows(cloud, "FROM openduck_query('cloud', 'SELECT count(*), count(val) FROM events')") == [(400, 400)]


def test_the_other_tables_are_written_to_as_ever(cloud):
    cloud.execute("INSERT INTO cloud.notes VALUES (5, 'five')")
    cloud.execute("UPDATE cloud.notes SET val = 'V' WHERE id = 5")
    assert one(cloud, "SELECT val FROM cloud.notes WHERE id = 5") == "V"
    cloud.execute("CREATE TABLE cloud.more(x INTEGER)")
    cloud.execute("DROP TABLE cloud.more")


def test_no_statement_goes_whole_that_reads_branches(cloud):
    """The server has 400 of the 1,000 rows: what it runs alone would tell so."""
    cloud.execute("CREATE TABLE cloud.copied AS SELECT id, val FROM cloud.events")
    assert one(cloud, "SELECT count(*) FROM cloud.copied") == 1000
    cloud.execute("INSERT INTO cloud.copied SELECT id + 1000, val FROM cloud.events WHERE id < 10")
    assert one(cloud, "SELECT count(*) FROM cloud.copied") == 1010
    cloud.execute("UPDATE cloud.copied SET val = (SELECT count(*) FROM cloud.events) WHERE id = 0")
    assert one(cloud, "SELECT val FROM cloud.copied WHERE id = 0") == "1000"
    cloud.execute("DELETE FROM cloud.copied WHERE id NOT IN (SELECT id FROM cloud.events)")
    assert one(cloud, "SELECT count(*) FROM cloud.copied") == 1000
    refused(cloud, "CREATE VIEW cloud.v AS SELECT * FROM cloud.events", "events")
    assert one(cloud, "FROM openduck_run('auto', 'SELECT count(*) FROM cloud.events')") == 1000
    cloud.execute("USE cloud")
    assert one(cloud, "FROM openduck_run('auto', 'SELECT count(*) FROM events')") == 1000
    assert one(cloud, "SELECT count(*) FROM events") == 1000


def test_without_the_optimizer_it_is_refused(cloud):
    cloud.execute("PRAGMA disable_optimizer")
    refused(cloud, "SELECT count(*) FROM cloud.events", "cannot be read without the optimizer")


def test_a_branch_may_be_a_view_or_files_and_tell_the_columns(con, database, lake, tmp_path):
    con.execute("COPY (SELECT TIMESTAMP '2020-01-01' AS ts) TO '%s' (FORMAT parquet)" % (tmp_path / "a.parquet"))
    text = (
        "[table past]\n[branch]\nfrom = lately\n[branch]\nfiles = parquet\nlocation = %s\nwhere = ts < '2021-01-01'\n"
    )
    path = lay_out(tmp_path, text % (tmp_path / "a.parquet"))
    with services.Serve({"mydb": database}, "--layout", "mydb=%s" % path) as server:
        attach(con, server)
        assert [str(row[0]) for row in rows(con, "FROM cloud.past ORDER BY ts")] == [
            "2020-01-01 00:00:00",
            "2026-11-01 16:39:00",
        ]
        assert len(rows(con, "FROM cloud.lately")) == 1


# ---------------------------------------------------------------- the gateway, and peers


def test_a_gateway_tells_of_what_its_workers_serve(con, database, layout):
    with services.Stack({"mydb": database}, "--layout", "mydb=%s" % layout) as stack:
        attach(con, stack)
        assert rows(con, QUERIES[0]) == [(1000, 0, 999, 499500)]


def test_only_who_asks_is_told(server, con):
    pb = services.stubs()
    remote = services.Remote(server.url)
    ask = {"plan": b"SELECT 1", "database": "mydb"}
    chunks = list(remote.execution.ExecuteFragment(pb.ExecuteFragmentRequest(**ask)))
    assert not any(chunk.HasField("layout") for chunk in chunks)
    chunks = list(remote.execution.ExecuteFragment(pb.ExecuteFragmentRequest(wants_layout=True, **ask)))
    assert [chunk.HasField("layout") for chunk in chunks] == [True] + [False] * (len(chunks) - 1)
    told = chunks[0].layout
    assert [c.alias for c in told.companions] == ["lake"]
    assert [list(t.name) for t in told.tables] == [["events"], ["All"]]
    assert [list(getattr(b, "from")) for b in told.tables[0].branches] == [
        ["events"],
        ["lake", "main", "events"],
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "layout:1: this is in no section: 'x'"),
        ("[catalog]\ncomment = c", "[catalog] is for vgi-serve alone"),
        ("[companion a]\ntarget = http:x", "line 1: OpenDuck catalog '' advertised companion 'a'"),
        ("[companion a]\ntarget = duckdb:b\n[companion A]\ntarget = duckdb:c", "line 3: there are two companions 'A'"),
        ("[table notes]", "zero scan branches"),
        ("[table t]\n[branch]\nfrom = nothing", "line 2: Table with name nothing does not exist"),
        ("[table notes]\n[branch]\nfrom = lake.main.events", "line 2: there is no companion 'lake'"),
        ("[table notes]\n[branch]\nfrom = notes\nwhere = ids > 1", 'Referenced column "ids"'),
        ("[table notes]\nsplit = SELECT NULL\n[branch]\nfrom = notes", "the split of table 'notes': it is NULL"),
        ("[table t]\n[branch]\nfiles = csv\nlocation = a", "line 1: the database has no table 't'"),
        (
            "[table notes]\n[branch]\nfrom = notes\n[table main.NOTES]\n[branch]\nfrom = notes",
            "there are two tables 'NOTES' in schema 'main'",
        ),
    ],
)
def test_a_layout_that_cannot_be_is_refused_at_the_start(database, tmp_path, text, told):
    path = lay_out(tmp_path, text)
    done = services.cli("serve", "--listen", "127.0.0.1:0", "--db", "mydb=%s" % database, "--layout", "mydb=%s" % path)
    assert done.returncode != 0 and told in done.stderr, done.stderr


def test_a_layout_is_of_a_database_that_is_served(database, layout):
    done = services.cli("serve", "--listen", "127.0.0.1:0", "--db", "mydb=%s" % database, "--layout", "x=%s" % layout)
    assert done.returncode != 0 and "no database 'x' is served" in done.stderr, done.stderr


@pytest.mark.parametrize("kind", ["serve", "gateway"])
def test_hup_reads_the_layout_again(con, database, layout, kind):
    option = ("--layout", "mydb=%s" % layout)
    start = (
        services.Serve({"mydb": database}, *option) if kind == "serve" else services.Stack({"mydb": database}, *option)
    )
    with start as server:
        daemon = server if kind == "serve" else server.gateway

        def hup(text, said, times=1):
            layout.write_text(text)
            daemon.send_signal(signal.SIGHUP)
            services.wait_until(lambda: daemon.stderr().count(said) >= times, 10, said)

        attach(con, server)
        hup("[table notes]\n[branch]\nfrom = notes\nwhere = id > 0\n", "msg=reloaded")
        # What was attached before stays as it is.
        assert one(con, "SELECT count(*) FROM cloud.events") == 1000
        with connect() as other:
            attach(other, server)
            assert rows(other, "SELECT id FROM cloud.notes") == [(1,)] and "lake" not in shown(other)
        hup("[table notes]\nnonsense = 1\n", 'msg="cannot reload')
        assert "nonsense" in daemon.stderr()
        with connect() as other:
            attach(other, server)
            assert rows(other, "SELECT id FROM cloud.notes") == [(1,)]
        hup("", "msg=reloaded", 2)
        with connect() as other:
            attach(other, server)
            assert one(other, "SELECT count(*) FROM cloud.notes") == 2
