"""`openduck vgi-serve`: a DuckDB database as a VGI catalog, to our own client and through ATTACH."""

import concurrent.futures
import contextlib
import decimal
import json
import re
import shlex
import socket
import stat
import subprocess
import urllib.request

import duckdb
import pytest
import services
import vgi_catalogs
import vgi_worker

pytestmark = pytest.mark.usefixtures("nothing_preloaded")
CLIENT = services.BUILD / "programs" / "vgi_client"
OPENDUCK = services.BUILD / "bin" / "openduck"
TABLES = """
CREATE TABLE events AS SELECT i AS id, TIMESTAMP '2026-11-01' + INTERVAL (i) MINUTE AS ts, 'e' || i AS val
    FROM range(10000) t(i);
CREATE TABLE kinds AS SELECT 1::HUGEINT h, 1.50::DECIMAL(10, 2) d, 'x'::ENUM('x', 'y') e, ['a', NULL] l,
    {'a': 1, 'b': 'z'} s,
    MAP {'k': 2} m, uuid() u, DATE '2026-11-01' dt, TIME '01:02:03' t, INTERVAL 3 DAY iv, '\\x01'::BLOB b,
    NULL::INTEGER n,
    TIMESTAMPTZ '2026-11-01 00:00:00+00' tz,
    1.5::FLOAT f, true AS ok, 3::UTINYINT small;
CREATE SCHEMA other;
CREATE TABLE other."a ""b"" c" (k INTEGER NOT NULL, "a column" VARCHAR);
INSERT INTO other."a ""b"" c" VALUES (7, 'seven'), (8, NULL);
COMMENT ON TABLE events IS 'what happened';
CREATE VIEW few AS SELECT id FROM events WHERE id < 3;
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("vgi") / "hot.duckdb"
    with duckdb.connect(path) as con:
        con.execute(TABLES)
    return path


def serve(database, *options):
    """As a LOCATION."""
    return shlex.join(["exec", str(OPENDUCK), "vgi-serve", "--db", str(database), *map(str, options)])


def ask(location, *arguments, fails=False):
    done = subprocess.run([CLIENT, location, *arguments], capture_output=True, check=False, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout.splitlines()


def listening(database, *options):
    return vgi_catalogs.Listening(OPENDUCK, "vgi-serve", "--db", database, *options)


@pytest.fixture(params=["stdio", "unix", "http"])
def location(request, database, tmp_path):
    if request.param == "stdio":
        yield serve(database)
        return
    where = {"unix": ["--unix", tmp_path / "socket"], "http": ["--http", "127.0.0.1:0"]}[request.param]
    with listening(database, *where) as worker:
        yield worker.location


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    yield con
    con.close()


def rows(con, sql):
    return con.execute(sql).fetchall()


def attach(con, location, name="hot"):
    con.execute("ATTACH '%s' AS w (TYPE vgi, LOCATION '%s')" % (name, location.replace("'", "''")))


def test_the_catalog_is_that_of_the_database(database, location):
    assert ask(location, "catalogs") == ["catalog hot"]
    assert ask(serve(database, "--catalog", "shop"), "catalogs") == ["catalog shop"]
    told = ask(location, "attach", "hot")
    assert {"default_schema main", "version 1", "frozen 1", "transactions 0"} <= set(told)
    assert [line.split()[1] for line in ask(location, "schemas", "hot")] == ["main", "other"]
    assert "table events id:l ts:tsu: val:u" in ask(location, "tables", "hot", "main")
    assert any(
        line.startswith('facts a "b" c row_id=-1 not_null=1 ') for line in ask(location, "tables", "hot", "other")
    )
    functions = ask(location, "functions", "hot", "main")
    assert any(line.startswith("function few ") and "projection=1 filter=1" in line for line in functions)
    branches = ask(location, "branches", "hot", "main", "events")
    assert branches[0] == "branch kind=0 function=events filter= writable=0 source=.. format="


@pytest.mark.extension
def test_its_tables_and_views_are_read(con, database, location):
    attach(con, location)
    assert rows(con, "SELECT count(*), sum(id), min(ts), max(val) FROM w.events") == rows(
        con, "ATTACH '%s' AS l (READ_ONLY); SELECT count(*), sum(id), min(ts), max(val) FROM l.events" % database
    )
    assert rows(con, "SELECT * FROM w.few ORDER BY id") == [(0,), (1,), (2,)]
    assert rows(con, 'SELECT "a column", k FROM w.other."a ""b"" c" WHERE k >= 8') == [(None, 8)]
    assert rows(con, "SELECT comment FROM duckdb_tables() WHERE database_name = 'w' AND table_name = 'events'") == [
        ("what happened",)
    ]
    # More than one batch, and a condition that leaves one row.
    assert rows(con, "SELECT val FROM w.events WHERE ts = TIMESTAMP '2026-11-01 01:40:00'") == [("e100",)]
    assert len(rows(con, "SELECT DISTINCT id FROM w.events")) == 10000
    # A scan that is given up, and the next.
    assert len(rows(con, "SELECT id FROM w.events LIMIT 1")) == 1
    assert rows(con, "SELECT count(*) FROM w.events") == [(10000,)]


@pytest.mark.extension
def test_values_of_all_types_come_as_they_are(con, database):
    attach(con, serve(database))
    con.execute("ATTACH '%s' AS l (READ_ONLY)" % database)
    assert rows(con, "SELECT * EXCLUDE u REPLACE (tz::VARCHAR AS tz) FROM w.kinds") == rows(
        con, "SELECT * EXCLUDE u REPLACE (tz::VARCHAR AS tz) FROM l.kinds"
    )
    assert rows(con, "SELECT u, h, d FROM w.kinds") == rows(con, "SELECT u, h, d FROM l.kinds")
    assert rows(con, "SELECT typeof(h), typeof(d), typeof(s), d FROM w.kinds") == [
        ("HUGEINT", "DECIMAL(10,2)", "STRUCT(a INTEGER, b VARCHAR)", decimal.Decimal("1.50"))
    ]


def test_what_cannot_be_served_is_told(database, tmp_path):
    def told(*arguments):
        done = services.cli("vgi-serve", *arguments)
        assert done.returncode != 0 and not done.stdout
        return done.stderr

    assert "a database is needed" in told()
    assert "nowhere.duckdb" in told("--db", tmp_path / "nowhere.duckdb")
    refused = ask(serve(database), "attach", "shop", fails=True)
    assert "there is no catalog 'shop': there is 'hot'" in "\n".join(refused)


def told_by_the_sdk(generation, where, *words):
    """What the SDK's own client is told by the worker at WHERE (tests/support/vgi_sdk_client.py)."""
    python, script = vgi_worker.arguments(generation)[0], services.ROOT / "tests" / "support" / "vgi_sdk_client.py"
    done = subprocess.run(
        [python, script, generation, where, *words],
        env=vgi_worker.environment(generation),
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("generation", vgi_worker.GENERATIONS)
def test_the_sdks_own_client_calls_functions_of_all_kinds(generation):
    """Of the worker in C that takes the place of the SDK's fixtures."""
    where = vgi_worker.command(generation, peer="c").removeprefix("exec ")
    found = told_by_the_sdk(generation, where, "example", "data", "tt_pushdown_fn", "main")
    assert found["catalogs"] == ["example"] and found["schemas"] == ["main", "data"]
    assert {"numbers", "rowid_struct", "departments"} <= set(found["tables"])
    assert "versioned_data_1" not in found["tables"] and found["views"] == 1
    assert found["rows"] == found["again"] == 5
    assert found["called"] == {
        "upper_case": ["AB", None, "C"],
        "echo": [0, 1, 2, 10, 11, 12],
        "substream_partial_sum": [36],
        "sum_all_columns": [36],
    }


@pytest.mark.parametrize("generation", ["2.2", "1.3"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_sdks_own_client_reads_it(database, cold, generation, transport):
    """Over HTTP its 2.2 form sends bodies in gzip, its 1.3 form in zstd."""
    options = ["--companion", "lake=duckdb:%s" % cold]
    words = ["hot", "main", "events"]
    if transport == "http":
        with listening(database, "--http", "127.0.0.1:0", *options) as worker:
            found = told_by_the_sdk(generation, worker.location, *words)
    else:
        found = told_by_the_sdk(generation, serve(database, *options).removeprefix("exec "), *words)
    assert found["catalogs"] == ["hot"] and found["schemas"] == ["main", "other"] and found["default_schema"] == "main"
    assert found["companions"] == [["lake", "duckdb:%s" % cold, {}, True]]
    assert found["tables"]["events"] == {"id": "int64", "ts": "timestamp[us]", "val": "string"}
    assert found["functions"]["few"] == [True, True] and found["views"] == 0
    assert found["found"] == "events" and found["missing"]
    assert found["rows"] == found["again"] == 10000
    assert found["first"] == ["0", "2026-11-01 00:00:00", "e0"]
    assert found["narrow"] == [["ts", "id"], 10000]
    assert "there is no table function 'nothing'" in found["error"]
    if generation == "2.2":
        assert found["branches"] == [["events", None, None]]
        assert found["filtered"] == 8


@pytest.mark.extension
@pytest.mark.parametrize("where", [["--unix", "socket"], ["--http", "127.0.0.1:0"]])
def test_many_clients_are_served_at_once(database, tmp_path, where):
    def read(location):
        with duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "1"}) as con:
            con.execute("LOAD '%s'" % services.extension_path("vgi"))
            attach(con, location)
            return [rows(con, "SELECT sum(id) FROM w.events WHERE id >= %d" % (1000 * i)) for i in range(3)]

    if where[1] == "socket":
        where = [where[0], tmp_path / where[1]]
    with listening(database, *where) as worker, concurrent.futures.ThreadPoolExecutor(6) as pool:
        told = list(pool.map(read, [worker.location] * 6))
    assert told == [[[(sum(range(1000 * i, 10000)),)] for i in range(3)]] * 6


def test_a_socket_is_the_users_own_and_goes_with_the_worker(database, tmp_path):
    path = tmp_path / "socket"
    with listening(database, "--unix", path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        refused = services.cli("vgi-serve", "--db", database, "--unix", path)
        assert refused.returncode != 0 and "cannot listen at" in refused.stderr
        assert ask("unix://%s" % path, "catalogs") == ["catalog hot"]
    assert not path.exists()
    # What a dead one has left is no hindrance; what is something else, is.
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(path))
    with listening(database, "--unix", path) as worker:
        assert ask(worker.location, "catalogs") == ["catalog hot"]
    path.write_text("precious")
    assert services.cli("vgi-serve", "--db", database, "--unix", path).returncode != 0
    assert path.read_text() == "precious"


@pytest.mark.extension
def test_a_token_is_asked_for(con, database):
    refused = services.cli("vgi-serve", "--db", database, "--http", "0.0.0.0:0")
    assert refused.returncode != 0 and "token" in refused.stderr
    with listening(database, "--http", "127.0.0.1:0", "--token", "sesame") as worker:
        for option in ("", ", bearer_token 'wrong'"):
            with pytest.raises(duckdb.Error, match="401"):
                con.execute("ATTACH 'hot' AS w (TYPE vgi, LOCATION '%s'%s)" % (worker.location, option))
        con.execute("ATTACH 'hot' AS w (TYPE vgi, LOCATION '%s', bearer_token 'sesame')" % worker.location)
        assert rows(con, "SELECT count(*) FROM w.events") == [(10000,)]
        told = urllib.request.urlopen(worker.location + "/health", timeout=60)
        assert json.load(told)["protocol"] == "vgi.v2"


# ---------------------------------------------------------------- companions, branches


def lay_out(tmp_path, text):
    path = tmp_path / "layout"
    path.write_text(text)
    return path


COLD = """
[companion lake]
target = %s
type = duckdb
option read_only = true

[table events]
split = SELECT min(ts) FROM events
comment = all of them

[branch]
from = events
where = ts >= {split}

[branch]
from = lake.main.events
where = ts < {split}
"""


@pytest.fixture
def cold(tmp_path):
    """A file with 1,000 events before those of the database, and one that both have."""
    path = tmp_path / "cold.duckdb"
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE events AS SELECT -i AS id,"
            " TIMESTAMP '2026-11-01' - INTERVAL (i) MINUTE AS ts, 'c' || i AS val "
            "FROM range(1001) t(i)"
        )
    return path


@pytest.mark.extension
def test_a_companion_may_be_told_by_an_option(con, database, cold):
    attach(con, serve(database, "--companion", "lake=duckdb:%s" % cold))
    assert rows(con, "SELECT catalog_name, db_type FROM vgi_companion_catalogs()") == [("lake", "duckdb")]
    assert rows(con, "SELECT count(*) FROM lake.events") == [(1001,)]


@pytest.mark.extension
def test_a_split_is_where_the_rows_divide(con, database, cold, tmp_path):
    attach(con, serve(database, "--layout", lay_out(tmp_path, COLD % cold)))
    # The event at the split is in both, and counted once.
    assert rows(con, "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM w.events") == [
        (11000, 11000, -1000, 9999)
    ]
    assert rows(con, "SELECT val FROM w.events WHERE id BETWEEN -1 AND 1 ORDER BY id") == [("c1",), ("e0",), ("e1",)]
    assert rows(con, "SELECT comment FROM duckdb_tables() WHERE database_name = 'w' AND table_name = 'events'") == [
        ("all of them",)
    ]
    plan = str(rows(con, "EXPLAIN SELECT * FROM w.events WHERE ts > TIMESTAMP '2026-11-05'"))
    assert "VGI_SCAN" in plan and "SEQ_SCAN" not in plan.replace("VGI_SCAN", "")
    plan = str(rows(con, "EXPLAIN SELECT * FROM w.events WHERE ts < TIMESTAMP '2026-10-30'"))
    assert "VGI_SCAN" not in plan
    # Other tables are as they were.
    assert rows(con, "SELECT count(*) FROM w.few") == [(3,)]


@pytest.mark.extension
def test_a_view_of_rows_that_come_is_read_as_it_is(con, cold, tmp_path):
    """And the split with it."""

    def write(first, last):
        ts = "TIMESTAMP '2026-11-01' + INTERVAL (i) MINUTE AS ts"
        new = "SELECT i AS id, %s, 'v' || i AS val FROM range(%d, %d) t(i)" % (ts, first, last)
        con.execute("COPY (%s) TO '%s'" % (new, tmp_path / "live.parquet"))

    write(0, 100)
    path = tmp_path / "views.duckdb"
    with duckdb.connect(path) as made:
        made.execute("CREATE VIEW events AS FROM read_parquet('%s')" % (tmp_path / "live.parquet"))
    attach(con, serve(path, "--layout", lay_out(tmp_path, COLD % cold)), "views")
    assert rows(con, "SELECT count(*), max(id) FROM w.events") == [(1100, 99)]
    write(-500, 200)
    assert rows(con, "SELECT count(*), max(id) FROM w.events") == [(1200, 199)]
    assert rows(con, "SELECT val FROM w.events WHERE id IN (-500, -501) ORDER BY id") == [("c501",), ("v-500",)]


@pytest.mark.extension
def test_a_database_on_storage_has_a_writer_meanwhile(con, tmp_path):
    con.execute("LOAD '%s'" % services.extension_path())
    con.execute("CREATE SECRET (TYPE openduck_storage, DATA_DIR '%s')" % tmp_path)
    con.execute("ATTACH 'openduck://live' AS live")
    con.execute("CREATE TABLE live.t AS SELECT 1 AS a")
    location = serve("openduck://live", "--catalog", "live").replace(
        "exec ", "exec env OPENDUCK_DATA_DIR=%s " % tmp_path
    )
    attach(con, location, "live")
    con.execute("INSERT INTO live.t VALUES (2)")
    assert rows(con, "FROM w.t") == [(1,)]
    con.execute("DETACH w")
    attach(con, location, "live")
    assert rows(con, "SELECT count(*) FROM w.t") == [(2,)]


@pytest.mark.extension
def test_only_what_is_listed_is_served(con, database, tmp_path):
    layout = lay_out(
        tmp_path, '[catalog]\ntables = listed\ndefault_schema = other\n[table "a ""b"" c"]\n[table main.few]\n'
    )
    attach(con, serve(database, "--layout", layout))
    told = rows(con, "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'w' ORDER BY ALL")
    assert told == [("main", "few"), ("other", 'a "b" c')]
    assert rows(con, 'SELECT k FROM w."a ""b"" c" ORDER BY k') == [(7,), (8,)]


@pytest.mark.extension
def test_files_are_a_branch(con, database, tmp_path):
    con.execute(
        "COPY (SELECT -1::BIGINT AS id, NULL::TIMESTAMP AS ts, 'file' AS val) TO '%s'" % (tmp_path / "a.parquet")
    )
    layout = lay_out(
        tmp_path,
        "[table both]\n[branch]\nfrom = events\n[branch]\nfiles = parquet\nlocation = %s/*.parquet\n" % tmp_path,
    )
    attach(con, serve(database, "--layout", layout))
    assert rows(con, "SELECT count(*), min(id) FROM w.both") == [(10001, -1)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "layout:1: this is in no section: 'x'"),
        ("[nonsense]", "layout:1: a section is [catalog]"),
        ("[catalog]\ntables = some", "layout:2: tables are 'all' or 'listed', not 'some'"),
        ("[companion a]", "layout:1: there is no target of companion 'a'"),
        ("[companion a]\ntarget = b\ntarget = c", "layout:3: told twice: 'target'"),
        ("[branch]", "layout:1: a branch belongs to a table before it"),
        ("[table a.b.c]", "layout:1: a table is NAME or SCHEMA.NAME"),
        ('[table "a]', "layout:1: no name: '\"a'"),
        ("[table events]\n[branch]\nwhere = true", "layout:2: a branch has either 'from' or 'files'"),
        ("[table events]\n[branch]\nfrom = nothing", "line 2: the database has no table 'nothing'"),
        ("[table events]\n[branch]\nfrom = lake.main.events", "line 2: there is no companion 'lake'"),
        ("[table nothing]", "line 1: the database has no table 'nothing'"),
        ("[table events]\n[branch]\nfrom = events\nwhere = tss > 1", 'line 2: Referenced column "tss"'),
        ("[table events]\nsplit = SELECT NULL\n[branch]\nfrom = events", "the split of table 'events': it is NULL"),
        (
            "[table events]\nsplit = SELECT nothing\n[branch]\nfrom = events",
            "the split of table 'events': Referenced column",
        ),
        ("[companion a]\ntarget = b\n[companion A]\ntarget = c", "there are two companions 'A'"),
        ("[table events]\n[table EVENTS]", "there are two tables 'EVENTS' in schema 'main'"),
    ],
)
def test_a_layout_that_cannot_be_is_refused_at_the_start(database, tmp_path, text, told):
    done = services.cli("vgi-serve", "--db", database, "--layout", lay_out(tmp_path, text))
    assert done.returncode != 0 and told in done.stderr, done.stderr


@pytest.mark.extension
def test_the_tutorial_of_a_lake_and_its_recent_rows(tmp_path):
    """The blocks of the tutorial, as they stand; then the files of the lake are gone, and the last hour is not."""
    text = (services.ROOT / "docs" / "tutorial" / "events.md").read_text().replace("/tmp/events", str(tmp_path))
    text = text.replace("build/release/", str(services.BUILD) + "/").replace(
        ".deps/", str(services.ROOT / ".deps") + "/"
    )
    (tmp_path / "lake").mkdir()
    (tmp_path / "layout").write_text(re.search(r"```ini\n(.*?)```", text, re.S).group(1))
    blocks = re.findall(r"```sql\n(.*?)```", text, re.S)
    text = blocks[2].replace(str(services.BUILD / "ext" / "vgi.duckdb_extension"), str(services.extension_path("vgi")))
    config = {"allow_unsigned_extensions": "true"}
    with duckdb.connect(config=config) as con:
        con.execute(blocks[0])
        con.execute(blocks[1])
    with duckdb.connect(config=config) as con:
        told = [con.execute(statement).fetchall() for statement in text.split(";\n") if statement.strip()]
        assert [t[0] for t in told[-4:-1]] == [(54640, *told[-4][0][1:]), ("lake", told[-3][0][1]), (60,)]
        assert [n for _, n in told[-1]] == [44640, 10000]
        for file in (tmp_path / "lake").rglob("*.parquet"):
            file.unlink()
        assert con.execute("SELECT count(*) FROM w.events WHERE ts >= TIMESTAMP '2026-11-07 21:40:00'").fetchall() == [
            (60,)
        ]
        with pytest.raises(duckdb.Error):
            con.execute("SELECT max(what) FROM w.events").fetchall()
        con.execute("DETACH w")
        assert con.execute("SELECT count(*) FROM duckdb_databases() WHERE NOT internal").fetchall() == [(1,)]
