"""What a VGI worker declares (options, settings, types of secrets), versions of its tables, and row ids."""

import contextlib

import duckdb
import pytest
import vgi_catalogs
import vgi_worker
from vgi_catalogs import attach, one, refused, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    yield con
    con.close()


@pytest.mark.parametrize(("peer", "generation"), vgi_worker.KINDS, ids=vgi_worker.IDS)
def test_options_that_the_worker_declares_are_cast_and_sent(con, peer, generation):
    with vgi_worker.VgiWorker(generation, module="attach_options", peer=peer) as worker:
        place = "(TYPE vgi, LOCATION '%s'" % worker.location
        con.execute(
            "ATTACH 'attach_options' AS a %s, opt_bool false, OPT_INT64 7, opt_string 'x', opt_date '2024-02-29', "
            "opt_decimal 1.5)" % place
        )
        told = con.execute("FROM a.echo_attach_options()").fetchdf().iloc[0]
        assert (told["opt_bool"], told["opt_int64"], told["opt_string"]) == (False, 7, "x")
        assert str(told["opt_date"])[:10] == "2024-02-29" and float(told["opt_decimal"]) == 1.5
        assert told["opt_int32"] == -32  # not given: the worker's default
        # In the path, too.
        con.execute("ATTACH 'attach_options?opt_int64=9&location=%s' AS b (TYPE vgi)" % worker.location)
        assert one(con, "SELECT opt_int64 FROM b.echo_attach_options()") == 9
        refused(con, "ATTACH 'attach_options' AS c %s, shiny 1)" % place, 'Unknown ATTACH option "shiny"')
        refused(con, "ATTACH 'attach_options' AS c %s, opt_int8 1000)" % place, '"opt_int8" for VGI catalog')
        if generation == "2.2":
            check_required_options(con, peer, worker)


def check_required_options(con, peer, worker):
    """The SDK's worker has both catalogs, one of ours has one."""
    name = "attach_options_required"
    with contextlib.ExitStack() as stack:
        if peer == "c":
            worker = stack.enter_context(vgi_worker.VgiWorker("2.2", module=name, peer=peer))
        place = "(TYPE vgi, LOCATION '%s'" % worker.location
        refused(con, "ATTACH '%s' AS c %s)" % (name, place), "api_key")
        con.execute("ATTACH '%s' AS c %s, api_key 'hushhush')" % (name, place))
        assert "hushhush" not in str(rows(con, "FROM duckdb_databases()"))
        con.execute("DETACH c")


def test_settings_that_the_worker_declares_are_set_and_sent(ex):
    assert one(ex, "SELECT current_setting('greeting')") == "Hello"
    assert one(ex, "SELECT ex.multiply_by_setting(5)") == 5
    ex.execute("SET multiplier = 3")
    assert one(ex, "SELECT ex.multiply_by_setting(5)") == 15
    assert rows(ex, "SELECT greeting, value FROM ex.settings_aware(2) ORDER BY id") == [("Hello", 0.0), ("Hello", 7.5)]
    ex.execute("SET greeting = 'Hi'")
    ex.execute("SET vgi_verbose_mode = true")
    assert rows(ex, "SELECT greeting, details FROM ex.settings_aware(1)") == [("Hi", "row_0")]
    ex.execute("SET config = {'start': 10, 'step': 5, 'label': 'n'}")
    assert len(rows(ex, "FROM ex.struct_settings(3)")) == 3
    refused(ex, "SET multiplier = 'many'", "")
    # Attached again, they are the same.
    ex.execute("DETACH ex")
    assert one(ex, "SELECT current_setting('greeting')") == "Hi"


def test_a_setting_of_somebody_elses_is_refused(con, tmp_path):
    worker = vgi_catalogs.SpecWorkers(tmp_path)
    for name in ("threads", "vgi_multi_branch_scans"):
        sql = "ATTACH 'companion' AS x (TYPE vgi, LOCATION '%s')" % worker(settings={name: "string"})
        refused(con, sql, "declares a setting '%s', which is not its own" % name)
    attach(con, worker(settings={"my_knob": "int64"}), "x")
    sql = "ATTACH 'companion' AS y (TYPE vgi, LOCATION '%s')" % worker(settings={"my_knob": "string"})
    refused(con, sql, "which is one of the type BIGINT")


def test_secrets_are_given_to_functions_that_ask_for_them(ex):
    assert rows(ex, "FROM ex.secret_demo()") == []
    ex.execute("CREATE SECRET mine (TYPE vgi_example, secret_string 'abc', api_key 'hushhush', port 99)")
    told = {row[0]: row[1] for row in rows(ex, "FROM ex.secret_demo()")}
    assert (told["secret_string"], told["api_key"], told["port"]) == ("abc", "hushhush", "99")
    assert one(ex, "SELECT ex.secret_field()") == "port=99;name=abc"
    assert "hushhush" not in str(rows(ex, "FROM duckdb_secrets()"))
    assert rows(ex, "SELECT DISTINCT value FROM ex.data.secret_demo_table WHERE key = 'port'") == [("99",)]


def test_secrets_of_other_types_are_not_given_away(con, tmp_path):
    """A type of DuckDB's stays DuckDB's, also if the worker declares it."""
    asks = {"columns": {"n": "int64"}, "rows": [[1]], "secret": "http"}
    worker = vgi_catalogs.SpecWorkers(tmp_path)
    location = worker(functions={"f": asks}, secret_types={"http": {"bearer_token": "string"}})
    con.execute("CREATE SECRET web (TYPE http, bearer_token 'hushhush')")
    attach(con, location, "x")
    error = refused(con, "FROM x.f()", "asks for a secret of the type 'http'")
    assert isinstance(error, duckdb.PermissionException)
    attach(con, location, "y", worker_secrets="true")
    assert rows(con, "FROM y.f()") == [(1,)]
    assert worker.told("bind")[-1]["secrets"] == ["web"]


def test_a_table_is_read_as_of_a_version(ex):
    table = "ex.data.versioned_data"
    present = rows(ex, "FROM %s ORDER BY id" % table)
    assert rows(ex, "FROM %s AT (VERSION => 3) ORDER BY id" % table) == present
    first = ex.execute("FROM %s AT (VERSION => 1)" % table)
    assert [column[0] for column in first.description] != ["id", "score"] or first.fetchall() != present
    assert rows(ex, "FROM %s AT (VERSION => 1)" % table) == rows(
        ex, "FROM %s AT (TIMESTAMP => TIMESTAMP '2020-06-15 00:00:00')" % table
    )
    # Two versions in one statement.
    counts = "(SELECT count(*) FROM %s AT (VERSION => %d))"
    both = "SELECT %s, %s" % (counts % (table, 1), counts % (table, 3))
    assert rows(ex, both) == [(len(rows(ex, "FROM %s AT (VERSION => 1)" % table)), len(present))]
    refused(ex, "FROM %s AT (VERSION => 77)" % table, "Unknown version: 77")
    refused(ex, "FROM ex.data.numbers AT (VERSION => 1)", "does not support time travel")
    # Told to the function itself, with a condition.
    assert one(ex, "SELECT count(*) FROM ex.data.tt_pushdown_fn AT (VERSION => 1)") >= 1
    assert one(ex, "SELECT count(*) FROM ex.data.tt_pushdown_cols AT (VERSION => 1)") >= 1


def test_a_table_has_the_constraints_and_the_comment_of_its_worker(con):
    for generation in vgi_worker.GENERATIONS:
        with vgi_worker.VgiWorker(generation, peer="c") as worker:
            attach(con, worker.location, name="example")
            sql = "SELECT comment, estimated_size FROM duckdb_tables() WHERE database_name = 'ex' AND table_name = '%s'"
            assert rows(con, sql % "departments") == [("who works where", 4)]
            sql = "SELECT constraint_type FROM duckdb_constraints() WHERE database_name = 'ex' AND table_name = '%s'"
            assert {row[0] for row in rows(con, sql % "departments")} >= {"PRIMARY KEY", "UNIQUE", "NOT NULL"}
            assert rows(con, sql % "colors") == []
            con.execute("DETACH ex")


def test_row_ids_are_the_workers(ex):
    for table in ("rowid_first", "rowid_middle", "rowid_last"):
        assert [c[0] for c in ex.execute("FROM ex.data.%s LIMIT 1" % table).description] == ["name", "value"]
        found = rows(ex, "SELECT rowid, name, value FROM ex.data.%s ORDER BY rowid" % table)
        assert len({row[0] for row in found}) == len(found) > 1
        assert one(ex, "SELECT count(*) FROM ex.data." + table) == len(found)
        assert rows(ex, "SELECT name, value FROM ex.data.%s WHERE rowid = %d" % (table, found[1][0])) == [found[1][1:]]
    assert isinstance(one(ex, "SELECT rowid FROM ex.data.rowid_string LIMIT 1"), str)
    assert isinstance(one(ex, "SELECT rowid FROM ex.data.rowid_struct LIMIT 1"), dict)
    refused(ex, "SELECT rowid FROM ex.data.colors", "")
