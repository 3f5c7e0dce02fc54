"""connect and attach: which database, which server, which settings, and what is refused."""

import os
import subprocess
import sys
import threading
import urllib.parse

import duckdb
import openduck
import pytest
import services
from conftest import TOKEN


def value(con, sql, parameters=None):
    return con.execute(sql, parameters or []).fetchone()[0]


def run(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **env},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ---------------------------------------------------------------- which database


def test_the_database_is_attached_and_in_use(con):
    assert value(con, "SELECT count(*) FROM t") == 1000
    assert value(con, "SELECT current_database()") == "sales"
    assert value(con, "SELECT v FROM s2.u") == "x"


@pytest.mark.parametrize(
    "form",
    [
        "sales",
        "openduck:sales",
        "od:sales",
        "openduck:s%61les",
        "openduck:sales?ENDPOINT={url}",
        "od:sales?endpoint={enc}",
    ],
)
def test_forms_of_the_database(server, form):
    given = {} if "endpoint" in form.lower() else {"endpoint": server.url}
    text = form.format(url=server.url, enc=urllib.parse.quote(server.url, safe=""))
    with openduck.connect(text, **given) as con:
        assert value(con, "SELECT count(*) FROM t") == 1000
        assert value(con, "SELECT current_database()") == "sales"


def test_token_as_an_argument_and_in_the_uri(guarded):
    quoted = urllib.parse.quote(TOKEN, safe="")
    for con in (
        openduck.connect("sales", endpoint=guarded.url, token=TOKEN),
        openduck.connect(f"openduck:sales?endpoint={guarded.url}&token={quoted}"),
        openduck.connect(f"openduck:sales?endpoint={guarded.url}&token=wrong", token=TOKEN),
    ):
        with con:
            assert value(con, "SELECT count(*) FROM t") == 1000


def test_endpoint_and_token_come_from_the_environment(guarded):
    code = "import openduck; print(openduck.connect('sales').execute('SELECT count(*) FROM t').fetchone())"
    assert run(code, OPENDUCK_ENDPOINT=guarded.url, OPENDUCK_TOKEN=TOKEN) == "(1000,)"


def test_endpoint_and_token_come_from_a_named_secret(guarded, tmp_path):
    settings = {"secret_directory": str(tmp_path)}
    with duckdb.connect(config={"allow_unsigned_extensions": True, **settings}) as con:
        con.load_extension(str(openduck.extension_path()))
        sql = "CREATE PERSISTENT SECRET work (TYPE openduck, ENDPOINT $1, TOKEN $2)"
        con.execute(sql, [guarded.url, TOKEN])
    with openduck.connect("openduck:sales?secret=work", **settings) as con:
        assert value(con, "SELECT count(*) FROM t") == 1000


def test_alias(server):
    with openduck.connect("sales", endpoint=server.url, alias="Shop_2") as con:
        assert value(con, "SELECT current_database()") == "Shop_2"
        assert value(con, "SELECT count(*) FROM shop_2.t") == 1000


def test_an_odd_name_needs_an_alias(server):
    with pytest.raises(ValueError, match="alias"):
        openduck.connect("my-db.v2", endpoint=server.url)
    with openduck.connect("my-db.v2", endpoint=server.url, alias="my") as con:
        assert value(con, "SELECT current_database()") == "my"
        assert value(con, "SELECT path FROM duckdb_databases() WHERE database_name = 'my'").startswith(
            "openduck:my-db.v2"
        )


@pytest.mark.parametrize(
    "alias", ["", "a b", 'a"b', "a;b", "1a", "a.b", "é", "a\n", "temp", "SYSTEM", "main", "a" * 64]
)
def test_an_alias_is_an_identifier(server, alias):
    with pytest.raises(ValueError, match="alias"):
        openduck.connect("sales", endpoint=server.url, alias=alias)


def test_an_alias_that_is_a_keyword_works(server):
    with openduck.connect("sales", endpoint=server.url, alias="select") as con:
        assert value(con, "SELECT count(*) FROM t") == 1000


def test_a_name_that_the_local_database_has_is_refused(server):
    with pytest.raises(duckdb.BinderException, match="already exists"):
        openduck.connect("sales", endpoint=server.url, alias="memory")


@pytest.mark.parametrize(
    "text, word",
    [
        ("", "named"),
        ("openduck:", "named"),
        ("od:?token=geheim", "named"),
        ("sales?token=geheim", "openduck:NAME"),
        ("md:sales?token=geheim", "openduck:NAME"),
        ("openduck:sales&token=geheim", "alias"),
        ("openduck:sales?tokem=geheim", "unknown"),
        ("openduck:sales?token=ge&heim", "unknown"),
        ("openduck:sales?token=geheim&", "unknown"),
        ("openduck:sales?token=geheim&Token=geheim", "twice"),
        ("openduck:sales?token=geheim%4", "percent"),
        ("openduck:sales?token=geheim%ff", "UTF-8"),
        ("openduck:sales?token=geheim%00", "control"),
    ],
)
def test_what_is_not_understood_is_refused_without_the_token(text, word):
    with pytest.raises(ValueError, match=word) as e:
        openduck.connect(text)
    assert "heim" not in str(e.value)


def test_attach_a_second_database(con, server):
    openduck.attach(con, "hr", endpoint=server.url, read_only=True)
    openduck.attach(con, "sales", endpoint=server.url, alias="again")
    assert value(con, "SELECT count(*) FROM t JOIN again.t u USING (i)") == 1000
    assert value(con, "SELECT readonly FROM duckdb_databases() WHERE database_name = 'hr'") is True
    assert value(con, "SELECT current_database()") == "sales"


# ---------------------------------------------------------------- the token stays unseen


def test_token_is_in_no_table_log_or_repr(guarded, tmp_path):
    settings = {"allow_unsigned_extensions": True}
    with duckdb.connect(str(tmp_path / "x.duckdb"), config=settings) as log:
        log.execute("CALL enable_logging('QueryLog')")
        with openduck.connect(
            "sales", endpoint=guarded.url, token=TOKEN, local=tmp_path / "x.duckdb", **settings
        ) as con:
            assert value(con, "SELECT count(*) FROM t") == 1000
            assert TOKEN not in repr(con)
            for sql in (
                "FROM duckdb_databases()",
                "FROM duckdb_settings()",
                "FROM duckdb_secrets()",
                "FROM duckdb_variables()",
            ):
                assert TOKEN not in str(con.execute(sql).fetchall()), sql
        logged = str(log.execute("SELECT message FROM duckdb_logs").fetchall())
        assert "ATTACH" in logged and "openduck:sales" in logged
        assert "geh" not in logged


def test_token_is_in_no_error(guarded):
    for given in ({"token": "geheim"}, {"token": "geheim", "endpoint": "http://127.0.0.1:1"}):
        with pytest.raises(duckdb.Error) as e:
            openduck.connect("sales", **{"endpoint": guarded.url, **given})
        assert "geheim" not in str(e.value)


# ---------------------------------------------------------------- settings


def test_settings_reach_duckdb_and_the_extension(server):
    settings = {"threads": 3, "memory_limit": "1GiB", "openduck_connect_timeout": "2 seconds"}
    with openduck.connect("sales", endpoint=server.url, **settings) as con:
        assert value(con, "SELECT current_setting('threads')") == 3
        assert value(con, "SELECT current_setting('memory_limit')") == "1.0 GiB"
        assert value(con, "SELECT current_setting('openduck_connect_timeout')") == "2 seconds"


def test_unknown_settings_are_refused(server):
    with pytest.raises(duckdb.Error, match="nosuch"):
        openduck.connect("sales", endpoint=server.url, nosuch=1)
    with pytest.raises(duckdb.Error, match="openduck_nosuch"):
        openduck.connect("sales", endpoint=server.url, openduck_nosuch=1)
    with pytest.raises(ValueError, match="no setting"):
        openduck.connect("sales", endpoint=server.url, **{"openduck_x = 1; SELECT": 1})


def test_a_locked_down_client_still_connects(server):
    settings = {"enable_external_access": False, "lock_configuration": True}
    with openduck.connect("sales", endpoint=server.url, **settings) as con:
        assert value(con, "SELECT count(*) FROM t") == 1000
        with pytest.raises(duckdb.PermissionException):
            con.execute("FROM read_csv('/etc/hostname')")
        with pytest.raises(duckdb.InvalidInputException, match="locked"):
            con.execute("SET threads = 1")


def test_unsigned_extensions_are_not_allowed_any_longer(server):
    with openduck.connect("sales", endpoint=server.url) as con:
        assert value(con, "SELECT current_setting('allow_unsigned_extensions')") is False
    with openduck.connect("sales", endpoint=server.url, allow_unsigned_extensions=True) as con:
        assert value(con, "SELECT current_setting('allow_unsigned_extensions')") is True


def test_local_file_is_beside_the_remote_database(server, tmp_path):
    with openduck.connect("sales", endpoint=server.url, local=tmp_path / "notes.duckdb") as con:
        con.execute("CREATE TABLE notes.n AS SELECT 7 AS i")
        assert con.sql("SELECT s FROM t JOIN notes.n USING (i)").fetchall() == [("s7",)]
    with openduck.connect("sales", endpoint=server.url, local=str(tmp_path / "notes.duckdb"), alias="b") as con:
        assert value(con, "SELECT i FROM notes.n") == 7


def test_a_local_schema_named_as_the_alias_is_not_meant(server, tmp_path):
    duckdb.connect(str(tmp_path / "x.duckdb")).execute("CREATE SCHEMA sales").close()
    with openduck.connect("sales", endpoint=server.url, local=tmp_path / "x.duckdb") as con:
        assert value(con, "SELECT count(*) FROM t") == 1000


# ---------------------------------------------------------------- cursors, threads, processes


def test_cursors_begin_in_the_database(con):
    cursor = con.cursor()
    assert value(cursor, "SELECT current_database()") == "sales"
    cursor.execute("USE memory")
    assert value(cursor.cursor(), "SELECT current_database()") == "sales"
    assert value(con, "SELECT current_database()") == "sales"


def test_threads_with_a_cursor_each(con):
    sums, errors = [], []

    def work(cursor, n):
        try:
            for _ in range(20):
                sums.append(value(cursor, "SELECT sum(i) FROM t WHERE i % 8 = $1", [n]))
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(con.cursor(), n)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert sum(sums) == 20 * sum(range(1000))


def test_connections_are_apart(server):
    with openduck.connect("sales", endpoint=server.url) as a, openduck.connect("sales", endpoint=server.url) as b:
        a.execute("CREATE TABLE memory.x(i INTEGER)")
        with pytest.raises(duckdb.CatalogException):
            b.execute("FROM memory.x")
        a.close()
        assert value(b, "SELECT count(*) FROM t") == 1000


def test_a_failed_connect_leaves_nothing_open(tmp_path):
    with pytest.raises(duckdb.IOException, match="connect"):
        openduck.connect("sales", endpoint="http://127.0.0.1:1", local=tmp_path / "x.duckdb")
    # The file would be locked, and have another configuration.
    code = f"import duckdb; print(duckdb.connect({str(tmp_path / 'x.duckdb')!r}).execute('SELECT 1').fetchone())"
    assert run(code) == "(1,)"


def test_a_forked_child_connects_by_itself(server):
    code = (
        "import openduck, os, sys\n"
        f"con = openduck.connect('sales', endpoint={server.url!r})\n"
        "count = lambda c: c.execute('SELECT count(*) FROM t').fetchone() == (1000,)\n"
        "assert count(con)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        f"    os._exit(0 if count(openduck.connect('sales', endpoint={server.url!r})) else 1)\n"
        "assert os.waitpid(pid, 0)[1] == 0 and count(con)\n"
        "print('fine')\n"
    )
    assert run(code) == "fine"


def test_the_context_manager_closes(server):
    with openduck.connect("sales", endpoint=server.url) as con:
        pass
    with pytest.raises(duckdb.ConnectionException):
        con.execute("SELECT 1")


def test_a_snapshot_is_read_by_argument_and_by_uri(tmp_path):
    with services.Serve({"sales": "openduck://sales?data_dir=%s" % (tmp_path / "data")}) as server:
        with openduck.connect("sales", endpoint=server.url) as con:
            con.execute("CREATE TABLE t AS SELECT 1 AS i")
            snapshot = value(con, "SELECT snapshot FROM openduck_query('sales', 'FROM openduck_seal(''sales'')')")
            con.execute("INSERT INTO t VALUES (2)")
        with openduck.connect("sales", endpoint=server.url, snapshot=snapshot) as con:
            assert value(con, "SELECT count(*) FROM t") == 1
            with pytest.raises(duckdb.InvalidInputException, match="read-only"):
                con.execute("INSERT INTO t VALUES (3)")
            openduck.attach(con, "sales", endpoint=server.url, alias="present")
            assert value(con, "SELECT count(*) FROM present.t ANTI JOIN t USING (i)") == 1
        uri = "openduck:sales?endpoint=%s&snapshot=%s" % (server.url, snapshot)
        with openduck.connect(uri) as con:
            assert value(con, "SELECT count(*) FROM t") == 1
