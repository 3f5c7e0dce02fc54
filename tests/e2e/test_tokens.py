"""Tokens with rights of their own: each right both ways, at a server, at a gateway with a separate worker and at a
worker's own port, by every way that SQL and the RPCs have."""

import contextlib
import hashlib
import os
import signal
import threading

import grpc
import pyarrow as pa
import pytest
import services

TOKENS = {
    "ana": "databases = a",
    "bob": "databases = a, b",
    "all": "databases = *",
    "ro": "databases = a\nread-only = true",
    "star": "databases = b*, none\nread-only = true",
    "ops": "databases = *\nadmin = true",
    "eye": "admin = true",
    "w": "worker = true",
}


def secret(name):
    return "secret-of-" + name


def write_tokens(path, tokens):
    """Replaces the file at once, as whoever administers it should."""
    fresh = path.with_suffix(".new")
    lines = []
    for name, rights in tokens.items():
        digest = hashlib.sha256(secret(name).encode()).hexdigest()
        lines.append("[%s]\nsha256 = %s\n%s\n" % (name, digest, rights))
    fresh.write_text("# tokens\n" + "\n".join(lines))
    fresh.chmod(0o600)
    fresh.rename(path)


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    write_tokens(path, TOKENS)
    return path


@contextlib.contextmanager
def served(kind, folder, tokens, *options):
    databases = {}
    for name in "ab":
        databases[name] = folder / (name + ".duckdb")
        services.make_database(
            databases[name],
            "CREATE TABLE t AS SELECT 7 AS %s_col" % name,
            "CREATE SEQUENCE s",
            "CREATE TABLE only_%s(x INT)" % name,
            "CREATE VIEW v AS FROM t",
            "CREATE MACRO m() AS 1",
            "CREATE TYPE e AS ENUM ('x')",
        )
    if kind == "serve":
        with services.Serve(databases, "--tokens", tokens, *options, token="root") as server:
            yield server
    elif kind == "worker":
        with services.Worker(databases, "--tokens", tokens, *options, token="root") as server:
            yield server
    else:
        with services.Worker(databases, token="root") as worker:
            with services.Gateway((worker.url,), "--tokens", tokens, *options, token="root") as server:
                server.worker = worker
                yield server


@pytest.fixture(params=["serve", "stack", "worker"])
def kind(request):
    return request.param


@pytest.fixture
def server(kind, tmp_path, tokens):
    with served(kind, tmp_path, tokens) as s:
        yield s


def outcome(client, sql, database="a", **fields):
    """The code that SQL ends with, and rows or the message."""
    try:
        return "OK", client.do(sql, database=database, **fields)
    except services.Refused as e:
        return e.code, e.detail.message
    except grpc.RpcError as e:
        return e.code().name, e.details()


def status_of(call, *args, **kwargs):
    with pytest.raises(grpc.RpcError) as e:
        call(*args, **kwargs)
    assert "secret-of" not in e.value.details()
    return e.value.code().name, e.value.details()


READS = [
    "FROM b.t",
    "SELECT b_col FROM b.main.t",
    "SELECT nothing FROM b.t",
    'FROM "B".t',
    "FROM b.v",
    "USE b; FROM t",
    "SET schema = 'b'",
    "SET search_path = 'b,a'",
    "SELECT (SELECT max(b_col) FROM b.t)",
    "FROM range(3) r WHERE EXISTS (SELECT 1 FROM b.t WHERE b_col = r.range)",
    "WITH x AS MATERIALIZED (FROM b.t) FROM x, x y",
    "FROM t, LATERAL (SELECT b_col + t.a_col FROM b.t)",
    "FROM query('FROM ' || 'b.t')",
    "FROM query('SELECT b' || '.m()')",
    "FROM query_table('b.t')",
    "FROM histogram_values('b.t', b_col)",
    "SELECT b.m()",
    "SELECT enum_range(NULL::b.e)",
    "SUMMARIZE b.t",
    "DESCRIBE b.t",
    "FROM (DESCRIBE b.t)",
    "PRAGMA table_info('b.t')",
    "FROM pragma_storage_info('b.t')",
    "FROM pragma_show('b.t')",
    "SELECT currval('b.s')",
    "EXPLAIN FROM b.t",
    "EXPLAIN ANALYZE FROM b.t",
    "PIVOT b.t ON b_col USING count(*)",
    "PREPARE p AS FROM b.t; EXECUTE p",
    "SELECT 1; FROM b.t",
    "INSERT INTO t FROM b.t",
    "CREATE TABLE x AS FROM b.t",
    "CREATE TEMP TABLE x AS FROM b.t; FROM x",
    "CREATE VIEW x AS FROM b.t; FROM x",
    "CREATE MACRO x() AS TABLE FROM b.t; FROM x()",
    "COPY FROM DATABASE b TO a",
    "COPY b.t TO '/tmp/never.csv'",
]
CHANGES = [
    "INSERT INTO b.t VALUES (2)",
    "UPDATE b.t SET b_col = 3",
    "DELETE FROM b.t",
    "TRUNCATE b.t",
    "MERGE INTO b.t USING (SELECT 1 i) n ON b_col = n.i WHEN MATCHED THEN DELETE",
    "CREATE TABLE b.x(i INT)",
    "CREATE SCHEMA b.x",
    "CREATE INDEX x ON b.t(b_col)",
    "ALTER TABLE b.t ADD COLUMN z INT",
    "DROP TABLE b.only_b",
    "COMMENT ON TABLE b.t IS 'x'",
    "SELECT nextval('b.s')",
    "DETACH b",
]


def test_another_database_is_out_of_reach(server):
    with server.client(secret("ana")) as ana, server.client(secret("bob")) as bob:
        for sql in READS + CHANGES:
            code, text = outcome(ana, sql)
            assert code == "PERMISSION", (sql, code, text)
            assert "'ana'" in text and "secret-of" not in text and "b_col" not in text, (sql, text)
        assert outcome(ana, "FROM b.t") == ("PERMISSION", "token 'ana' has no right to database 'b'")
        assert outcome(ana, "SELECT 1", "b") == ("PERMISSION_DENIED", "token 'ana' has no right to database 'b'")
        assert outcome(ana, "FROM t") == ("OK", [(7,)])
        assert outcome(ana, "FROM t", "") == ("OK", [(7,)])
        assert outcome(ana, "SELECT a.m(), nextval('s'), enum_range(NULL::e)") == ("OK", [(1, 1, ["x"])])
        for sql in ["CREATE TABLE x AS FROM t", "INSERT INTO x VALUES (8)", "ALTER TABLE x ADD COLUMN y INT"]:
            assert outcome(ana, sql)[0] == "OK", sql
        # Who has both can use both.
        assert outcome(bob, "SELECT a_col, b_col FROM a.t, b.t") == ("OK", [(7, 7)])
        for sql in READS:
            if "nothing" not in sql and "COPY" not in sql and "CREATE" not in sql and "currval" not in sql:
                assert outcome(bob, sql)[0] == "OK", (sql, outcome(bob, sql))
        assert outcome(bob, "SELECT b_col FROM b.t") == ("OK", [(7,)])


def test_names_of_another_database_are_not_told(server):
    listings = [
        "SELECT DISTINCT database_name FROM duckdb_%s() WHERE NOT database_name IN ('system', 'temp') ORDER BY 1" % what
        for what in ("tables", "columns", "views", "schemas", "databases", "types", "functions", "sequences")
    ]
    listings.append("SELECT DISTINCT table_catalog FROM information_schema.tables ORDER BY 1")
    listings.append("SELECT database_name FROM pragma_database_size() WHERE database_name <> 'memory' ORDER BY 1")
    with server.client(secret("ana")) as ana, server.client(secret("bob")) as bob:
        for sql in listings:
            assert outcome(ana, sql) == ("OK", [("a",)]), sql
            assert outcome(bob, sql) == ("OK", [("a",), ("b",)]), sql
        assert outcome(ana, "SELECT count(*) FROM duckdb_tables()") == ("OK", [(2,)])
        assert outcome(bob, "SELECT count(*) FROM duckdb_tables()") == ("OK", [(4,)])
        assert outcome(ana, "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'only_b'") == ("OK", [(0,)])
        assert [row[1:3] for row in outcome(ana, "SHOW ALL TABLES")[1]] == [
            ("main", "only_a"),
            ("main", "t"),
            ("main", "v"),
        ]
        code, text = outcome(ana, "FROM only_")
        assert code == "CATALOG" and "only_b" not in text, text
        # In a transaction too, where a listing has gone through all catalogs.
        transaction = ana.begin("a")
        assert ana.do("SELECT count(*) FROM duckdb_tables()", transaction_id=transaction) == [(2,)]
        assert ana.do("FROM t", transaction_id=transaction) == [(7,)]
        with pytest.raises(services.Refused, match="PERMISSION"):
            ana.do("FROM b.t", transaction_id=transaction)
        ana.rollback(transaction)


def test_a_prefix_stands_for_databases(server):
    with server.client(secret("star")) as star:
        assert outcome(star, "FROM t", "b") == ("OK", [(7,)])
        assert outcome(star, "FROM t", "a") == ("PERMISSION_DENIED", "token 'star' has no right to database 'a'")
        assert outcome(star, "FROM a.t", "b")[0] == "PERMISSION"
        # The server's first database is another's: names are not looked for there.
        assert outcome(star, "SELECT sum(x) FROM range(4) t(x)", "") == ("OK", [(6,)])
        assert outcome(star, "FROM b.t", "") == ("OK", [(7,)])
        assert outcome(star, "FROM t", "")[0] == "CATALOG"
        assert outcome(star, "SELECT m()", "")[0] == "CATALOG"
        transaction = star.begin("")
        assert outcome(star, "SELECT sum(b_col) FROM b.t", "", transaction_id=transaction) == ("OK", [(7,)])
        assert outcome(star, "SELECT a.m()", "", transaction_id=transaction)[0] == "PERMISSION"
        star.rollback(transaction)
        transaction = star.begin("")
        assert outcome(star, "FROM a.t", "", transaction_id=transaction)[0] == "PERMISSION"
        star.rollback(transaction)


WRITES = [
    "INSERT INTO t VALUES (2)",
    "INSERT INTO t VALUES (2) RETURNING *",
    "UPDATE t SET a_col = 4",
    "DELETE FROM t",
    "TRUNCATE t",
    "MERGE INTO t USING (SELECT 1 i) n ON a_col = n.i WHEN NOT MATCHED THEN INSERT VALUES (n.i)",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
    "CREATE TABLE x(i INT)",
    "CREATE TABLE x AS FROM t",
    "CREATE VIEW x AS FROM t",
    "CREATE SCHEMA x",
    "CREATE SEQUENCE x",
    "CREATE TYPE x AS INT",
    "CREATE MACRO x() AS 1",
    "CREATE INDEX x ON t(a_col)",
    "DROP TABLE only_a",
    "ALTER TABLE t ADD COLUMN z INT",
    "COMMENT ON TABLE t IS 'x'",
    "SELECT nextval('s')",
    "FROM query('SELECT nextval(''s'')')",
    "SET VARIABLE x = nextval('s')",
    "EXPLAIN ANALYZE INSERT INTO t VALUES (2)",
    "PREPARE p AS INSERT INTO t VALUES (5); EXECUTE p",
    "SELECT 1; INSERT INTO t VALUES (1)",
]
NEVER = [
    "CHECKPOINT",
    "FORCE CHECKPOINT a",
    "CALL force_checkpoint('a')",
    "CALL enable_logging()",
    "VACUUM",
    "ANALYZE",
    "PRAGMA disable_optimizer",
    "SET GLOBAL arrow_lossless_conversion = true",
    "ATTACH ':memory:' AS x",
    "SELECT write_log('x')",
    "FROM duckdb_logs()",
    "COPY t TO 'FOLDER/never.csv'",
    "FROM read_text('/etc/passwd')",
    "LOAD json",
    "EXPORT DATABASE a TO 'FOLDER/never'",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM a.t'))",
]


def test_read_only_writes_by_no_way(server):
    with server.client(secret("ro")) as ro, server.client(secret("ana")) as ana:
        for sql in WRITES:
            code, text = outcome(ro, sql)
            assert (code, text) == ("PERMISSION", "token 'ro' is read-only, and may not change database 'a'"), sql
        for sql in WRITES:
            transaction = ro.begin("a")
            assert outcome(ro, sql, transaction_id=transaction)[0] == "PERMISSION", sql
            ro.rollback(transaction)
        assert outcome(ro, "SELECT count(*) FROM t") == ("OK", [(1,)])
        assert outcome(ro, "CREATE TEMP TABLE mine AS FROM t; INSERT INTO mine FROM mine; FROM mine")[0] == "OK"
        assert outcome(ana, "SELECT count(*), max(nextval('s')) FROM t") == ("OK", [(1, 1)])
        # Who may write does all of it.
        for sql in WRITES:
            transaction = ana.begin("a")
            assert outcome(ana, sql, transaction_id=transaction)[0] == "OK", sql
            ana.rollback(transaction)


def test_limits_leave_the_server_alone(kind, tmp_path, tokens):
    """Whatever --external-access allows."""
    with served(kind, tmp_path, tokens) as server, server.client(secret("ro")) as ro:
        for sql in NEVER:
            assert outcome(ro, sql.replace("FOLDER", str(tmp_path)))[0] == "PERMISSION", sql
    if kind == "stack":
        return
    (tmp_path / "open").mkdir()
    with served(kind, tmp_path / "open", tokens, "--external-access") as server:
        with server.client(secret("ana")) as ana, server.client(secret("all")) as everything:
            for sql in NEVER:
                assert outcome(ana, sql.replace("FOLDER", str(tmp_path)))[0] == "PERMISSION", sql
            assert outcome(ana, "FROM read_blob('%s')" % (tmp_path / "b.duckdb"))[0] == "PERMISSION"
            assert outcome(ana, "ATTACH '%s' AS mine" % (tmp_path / "b.duckdb"))[0] == "PERMISSION"
            assert outcome(everything, "SELECT length(content) > 0 FROM read_text('/etc/passwd')") == ("OK", [(True,)])
            # What others attach is not theirs to read.
            assert outcome(everything, "ATTACH ':memory:' AS mine; CREATE TABLE mine.x AS SELECT 1")[0] == "OK"
            assert outcome(ana, "FROM mine.x")[0] == "PERMISSION"
            assert outcome(everything, "FROM mine.x") == ("OK", [(1,)])
            for sql in ("FROM '%s'", "FROM read_csv('%s')", "FROM read_json('%s', format = 'array')"):
                code, text = outcome(ana, sql % tokens)
                assert (code, text.splitlines()[0]) == ("PERMISSION", "token 'ana' has limits, and may not use files")
    assert not list(tmp_path.glob("never*"))


@pytest.mark.parametrize("options", [(), ("--external-access",)])
def test_a_lake_has_files_of_its_own(tmp_path, tokens, options):
    """Who has the right to a DuckLake uses its files, and no others."""
    folder = tmp_path / "data"
    folder.mkdir()
    write_tokens(
        tokens, {"ana": "databases = lake", "ro": "databases = lake\nread-only = true", "bob": "databases = a"}
    )
    lake = ["--ducklake-metadata", "sqlite:%s/lake.sqlite" % tmp_path, "--ducklake-data", folder]
    lake += ["--extension-directory", services.ROOT / ".deps" / "extensions"]
    with served("serve", tmp_path, tokens, *lake, *options) as server:
        ana, ro, bob = (server.client(secret(name)) for name in ("ana", "ro", "bob"))
        with ana, ro, bob:
            assert outcome(ana, "CREATE TABLE x AS SELECT i FROM range(10000) n(i)", "lake")[0] == "OK"
            assert outcome(ana, "UPDATE x SET i = 0 WHERE i > 9", "lake") == ("OK", [(9990,)])
            for client in (ana, ro):
                assert outcome(client, "SELECT count(*), sum(i)::INT FROM x", "lake") == ("OK", [(10000, 45)])
                for path in (tokens, "%s/../tokens" % folder, str(folder) + ".not"):
                    assert (
                        outcome(client, "FROM read_csv('%s')" % path, "lake")[1].splitlines()[0].endswith("use files")
                    )
                # Not even these but by their tables.
                assert outcome(client, "FROM glob('%s/**')" % folder, "lake")[0] == "PERMISSION"
                assert outcome(client, "FROM a.t", "lake")[0] == "PERMISSION"
                assert outcome(client, "FROM __ducklake_metadata_lake.ducklake_table", "lake")[0] == "PERMISSION"
                assert outcome(client, "CALL ducklake_expire_snapshots('lake')", "lake")[0] == "PERMISSION"
            assert outcome(ro, "INSERT INTO x VALUES (1)", "lake")[0] == "PERMISSION"
            assert outcome(ro, "EXPORT DATABASE lake TO '%s/never'" % folder, "lake")[0] == "PERMISSION"
            assert outcome(bob, "FROM lake.x")[0] == "PERMISSION"
            assert outcome(bob, "FROM read_parquet('%s/**/*.parquet')" % folder)[0] == "PERMISSION"
    assert not list(folder.glob("never*"))


def payload(column, values):
    table = pa.table({column: pa.array(values, pa.int32())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def ingest(client, transaction, statement="", database="a"):
    """What IngestData answers."""
    pb = services.stubs()
    column = pb.IngestColumn(name="x", sql_type="INTEGER")
    metadata = pb.IngestMetadata(
        database=database,
        staging_table="stage",
        columns=[column],
        transaction_id=transaction,
        access_token=client.token,
        statement=statement,
    )
    chunks = [
        pb.IngestChunk(metadata=metadata),
        pb.IngestChunk(arrow_batch=pb.ArrowIpcBatch(ipc_stream_payload=payload("x", [1, 2]))),
    ]
    try:
        reply = client.execution.IngestData(iter(chunks), timeout=60)
    except grpc.RpcError as e:
        return e.code().name
    return reply.error_detail.code if reply.HasField("error_detail") else "OK"


def test_rows_go_where_the_token_may_write(server):
    with server.client(secret("ana")) as ana, server.client(secret("ro")) as ro:
        assert ingest(ana, "", "INSERT INTO only_a FROM stage") == "OK"
        assert ingest(ana, "", "INSERT INTO b.only_b FROM stage") == "PERMISSION"
        assert ingest(ana, "", "INSERT INTO only_b FROM stage", "b") == "PERMISSION_DENIED"
        assert ingest(ro, "", "INSERT INTO only_a FROM stage") == "PERMISSION"
        # A table of the transaction's own is nobody's database.
        transaction = ro.begin("a")
        assert ingest(ro, transaction) == "OK"
        assert ro.do("SELECT sum(x) FROM stage", transaction_id=transaction) == [(3,)]
        assert outcome(ro, "INSERT INTO only_a VALUES (1)", transaction_id=transaction)[0] == "PERMISSION"
        ro.rollback(transaction)
        assert ana.rows("SELECT count(*) FROM only_a", database="a") == [(2,)]


def test_a_transaction_is_its_tokens(server):
    with server.client(secret("ana")) as ana, server.client(secret("bob")) as bob, server.client("root") as root:
        assert status_of(ana.begin, "b") == ("PERMISSION_DENIED", "token 'ana' has no right to database 'b'")
        transaction = bob.begin("b")
        bob.do("INSERT INTO only_b VALUES (1)", database="b", transaction_id=transaction)
        for other in (ana, root):
            code, text = outcome(other, "FROM only_b", "", transaction_id=transaction)
            assert code in ("PERMISSION", "PERMISSION_DENIED") and "another token" in text
            for end in (other.commit, other.rollback):
                try:
                    end(transaction)
                except services.Refused as e:
                    assert e.code == "PERMISSION"
                except grpc.RpcError as e:
                    assert e.code() == grpc.StatusCode.PERMISSION_DENIED
                else:
                    raise AssertionError("a transaction was ended by another token")
            assert ingest(other, transaction, database="") in ("PERMISSION", "PERMISSION_DENIED")
        # One of b does not become one of a, nor the other way round.
        assert outcome(bob, "FROM t", "a", transaction_id=transaction)[0] == "INVALID"
        bob.commit(transaction)
        assert bob.rows("FROM only_b", database="b") == [(1,)]
        transaction = ana.begin("a")
        assert outcome(ana, "FROM b.t", transaction_id=transaction)[0] == "PERMISSION"
        ana.rollback(transaction)


SLOW = "SELECT sum(hash(i)) FROM range(200000000000) t(i)"


@contextlib.contextmanager
def running(server, name, execution_id):
    """SLOW, run by NAME until it is stopped; gives where its outcome will be."""
    result = []
    with server.client(secret(name)) as client:

        def run():
            result.append(outcome(client, SLOW, execution_id=execution_id))

        thread = threading.Thread(target=run)
        thread.start()
        try:
            with server.client("root") as root:
                services.wait_until(
                    lambda: execution_id in [r.execution_id for r in root.status().running], 20, "it runs"
                )
            yield result
        finally:
            with server.client("root") as root:
                root.cancel(execution_id)
            thread.join(60)
    assert result


def test_others_are_seen_and_stopped_by_administrators(server):
    with running(server, "bob", "bobs") as result:
        with server.client(secret("ana")) as ana:
            assert [r.execution_id for r in ana.status().running] == []
            assert list(ana.status().databases) in (["a"], [])
            assert not ana.status().workers
            code, text = status_of(ana.cancel, "bobs")
            assert code == "PERMISSION_DENIED" and "'ana'" in text and "'admin'" in text
            assert ana.cancel("nobodys") is False
        with server.client(secret("bob")) as bob:
            assert [r.execution_id for r in bob.status().running] == ["bobs"]
        assert not result
        with server.client(secret("eye")) as eye:
            assert [r.execution_id for r in eye.status().running] == ["bobs"]
            assert outcome(eye, "SELECT 1") == ("PERMISSION_DENIED", "token 'eye' has no right to database 'a'")
            assert eye.cancel("bobs") is True
        services.wait_until(lambda: result, 30, "it ends")
    assert result[0][0] == "CANCELLED"
    with running(server, "ana", "anas") as result, server.client(secret("ana")) as ana:
        assert ana.cancel("anas") is True
        services.wait_until(lambda: result, 30, "it ends")
    assert result[0][0] == "CANCELLED"


def test_an_unknown_token_gets_nothing(server, kind):
    pb = services.stubs()
    for token in (
        "",
        "secret-of-nobody",
        hashlib.sha256(secret("ana").encode()).hexdigest(),
        "openduck-rights/1 x wa- * ",
    ):
        with server.client(token) as c:
            assert outcome(c, "SELECT 1")[0] == "UNAUTHENTICATED"
            assert status_of(c.begin, "a")[0] == "UNAUTHENTICATED"
            assert status_of(c.commit, "x")[0] == "UNAUTHENTICATED"
            assert status_of(c.rollback, "x")[0] == "UNAUTHENTICATED"
            assert status_of(c.cancel, "x")[0] == "UNAUTHENTICATED"
            assert status_of(c.status)[0] == "UNAUTHENTICATED"
            assert ingest(c, "x") == "UNAUTHENTICATED"
            if kind != "worker":
                beat = pb.HeartbeatRequest(worker_id="x", access_token=token)
                assert status_of(c.execution.Heartbeat, beat, timeout=10)[0] == "UNAUTHENTICATED"
                hello = pb.WorkerRegistration(worker_id="x", endpoint="127.0.0.1:1", access_token=token)
                assert status_of(c.execution.RegisterWorker, hello, timeout=10)[0] == "UNAUTHENTICATED"


def test_workers_register_with_the_right_to(tmp_path, tokens):
    pb = services.stubs()
    with services.Gateway((), "--tokens", tokens, token="root") as gateway, gateway.client("root") as root:
        for name in ("ana", "ops"):
            with gateway.client(secret(name)) as c:
                hello = pb.WorkerRegistration(worker_id="x", endpoint="127.0.0.1:1", access_token=c.token)
                want = ("PERMISSION_DENIED", "token '%s' lacks the right 'worker'" % name)
                assert status_of(c.execution.RegisterWorker, hello, timeout=10) == want
                beat = pb.HeartbeatRequest(worker_id="x", access_token=c.token)
                assert status_of(c.execution.Heartbeat, beat, timeout=10) == want
        env = {"OPENDUCK_WORKER_TOKEN": secret("w")}
        with services.Worker({"a": tmp_path / "a.duckdb"}, token="root", gateway=gateway.url, env=env):
            services.wait_until(lambda: len(root.status().workers) == 1, 20, "the worker registers")
            with gateway.client(secret("ana")) as ana:
                assert outcome(ana, "SELECT 1") == ("OK", [(1,)])
        with gateway.client(secret("w")) as w:
            assert outcome(w, "SELECT 1")[0] == "PERMISSION_DENIED"
            assert status_of(w.status)[0] == "PERMISSION_DENIED"


def test_what_a_worker_is_given_is_no_key_to_a_gateway(tmp_path, tokens):
    """The form in which rights travel opens nothing but a worker, and that with the token of both only."""
    with served("stack", tmp_path, tokens) as server:
        forged = "openduck-rights/1 ana wa- * root"
        with server.client(forged) as c:
            assert outcome(c, "SELECT 1")[0] == "UNAUTHENTICATED"
        with server.worker.client(forged) as c:
            assert outcome(c, "SELECT b_col FROM t", "b") == ("OK", [(7,)])
        for text in ("openduck-rights/1 ana wa- * toor", "openduck-rights/1 ana wa- * ", secret("ana")):
            with server.worker.client(text) as c:
                assert outcome(c, "SELECT 1")[0] == "UNAUTHENTICATED"
        # Nobody makes more of it than it says.
        with server.worker.client("openduck-rights/1 ana - a root") as c:
            assert outcome(c, "FROM b.t")[0] == "PERMISSION"
            assert outcome(c, "INSERT INTO t VALUES (1)")[0] == "PERMISSION"


def logged(server, text, seconds=20):
    services.wait_until(lambda: text in server.stderr(), seconds, "%r in the log" % text)


@pytest.mark.parametrize(("kind", "how"), [("serve", "file"), ("stack", "signal"), ("worker", "signal")])
def test_a_token_that_is_taken_away_ends_what_it_began(server, tokens, how):
    def reload(fresh):
        write_tokens(tokens, fresh)
        if how == "signal":
            server.send_signal(signal.SIGHUP)

    rest = {name: rights for name, rights in TOKENS.items() if name != "bob"}
    with server.client(secret("bob")) as bob, server.client(secret("ana")) as ana:
        lost, kept = bob.begin("a"), ana.begin("a")
        bob.do("INSERT INTO only_a VALUES (1)", database="a", transaction_id=lost)
        ana.do("INSERT INTO t VALUES (8)", database="a", transaction_id=kept)
        with running(server, "bob", "bobs") as result:
            reload(rest)
            services.wait_until(lambda: result, 30, "what runs ends")
        assert result[0] == ("UNAUTHENTICATED", "the access token was withdrawn")
        assert outcome(bob, "SELECT 1")[0] == "UNAUTHENTICATED"
        logged(server, "withdrawn=some")
        # Back again, with the same rights: but what was open is over.
        reload(TOKENS)
        services.wait_until(lambda: outcome(bob, "SELECT 1")[0] == "OK", 20, "the token is known again")
        services.wait_until(
            lambda: outcome(bob, "SELECT 1", transaction_id=lost)[0] == "NO_TRANSACTION", 20, "it is rolled back"
        )
        assert ana.do("SELECT count(*) FROM t", database="a", transaction_id=kept) == [(2,)]
        ana.commit(kept)
        assert ana.rows("SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM only_a)", database="a") == [(2, 0)]
        # Other rights for the same token count from its next call.
        reload({**TOKENS, "bob": "databases = a\nread-only = true"})
        services.wait_until(
            lambda: outcome(bob, "INSERT INTO only_a VALUES (1)")[0] == "PERMISSION", 20, "the new rights are in force"
        )
        assert outcome(bob, "SELECT 1", "b")[0] == "PERMISSION_DENIED"
    assert "secret-of" not in server.stderr()


@pytest.mark.parametrize("kind", ["serve"])
def test_a_faulty_file_changes_nothing(server, tokens):
    with server.client(secret("ana")) as ana, server.client("root") as root:
        kept = ana.begin("a")
        tokens.write_text("[ana]\ntoken = fresh-secret\ndatabase = a\n")
        logged(server, "cannot read the tokens")
        line = next(row for row in server.stderr().splitlines() if "cannot read the tokens" in row)
        assert "%s:3: settings are" % tokens in line and "fresh-secret" not in server.stderr()
        assert outcome(ana, "SELECT 1", transaction_id=kept) == ("OK", [(1,)])
        assert outcome(root, "SELECT 1") == ("OK", [(1,)])
        os.chmod(tokens, 0o644)
        server.send_signal(signal.SIGHUP)
        logged(server, "can be used by others (mode 0644)")
        tokens.unlink()
        server.send_signal(signal.SIGHUP)
        logged(server, "cannot open")
        assert outcome(ana, "SELECT 1", transaction_id=kept) == ("OK", [(1,)])
        write_tokens(tokens, {"new": "databases = a"})
        logged(server, "withdrawn=some")
        # Told once each, not at every look.
        assert server.stderr().count("cannot read the tokens") == 3
        assert outcome(ana, "SELECT 1")[0] == "UNAUTHENTICATED"
        with server.client(secret("new")) as new:
            assert outcome(new, "FROM t") == ("OK", [(7,)])


def test_a_server_does_not_start_with_a_faulty_file(tmp_path, tokens):
    cases = [("[x]\ntoken = s3cret\n", 0o600, "%s:1: the token has no right" % tokens), ("", 0o604, "chmod 600")]
    for text, mode, says in cases:
        tokens.write_text(text)
        tokens.chmod(mode)
        done = services.cli("serve", "--listen", "127.0.0.1:0", "--tokens", tokens)
        assert done.returncode == 2 and says in done.stderr and "s3cret" not in done.stderr
    done = services.cli("serve", "--listen", "127.0.0.1:0", "--tokens", tmp_path / "none")
    assert done.returncode == 1 and "cannot open" in done.stderr


def test_a_file_alone_is_enough(tmp_path, tokens):
    """Without OPENDUCK_TOKEN nobody has every right, and other hosts may come in."""
    options = ("--tokens", tokens, "--log", "info,gateway=debug,worker=debug")
    with services.Serve({"a": ":memory:"}, *options, listen="0.0.0.0:0") as server:
        assert "no token is set" not in server.stderr()
        url = "http://127.0.0.1:%d" % server.port
        with services.Remote(url, "") as c:
            assert outcome(c, "SELECT 1") == ("UNAUTHENTICATED", "access_token required when OPENDUCK_TOKENS is set")
        with services.Remote(url, secret("ana")) as c:
            assert outcome(c, "SELECT 1") == ("OK", [(1,)])
        services.wait_until(lambda: server.stderr().count(" token=ana ") == 2, 20, "gateway and worker log its name")
        assert "secret-of" not in server.stderr()


@pytest.mark.parametrize("kind", ["serve", "gateway"])
def test_parts_of_hybrid_statements_have_the_same_rights(kind, tmp_path, tokens):
    local = services.make_database(tmp_path / "here.duckdb", "CREATE TABLE here AS SELECT 7 AS a_col")
    with contextlib.ExitStack() as stack:
        if kind == "serve":
            server = stack.enter_context(served("serve", tmp_path, tokens, "--hybrid"))
        else:
            server = stack.enter_context(served("stack", tmp_path, tokens, "--hybrid", "--db", "b_here=%s" % local))
        ana, bob = (stack.enter_context(server.client(secret(name))) for name in ("ana", "all"))
        both = (
            "SELECT * FROM openduck_run('REMOTE', 'FROM a.t') JOIN openduck_run('REMOTE', 'FROM b.t') ON a_col = b_col"
        )
        there = "SELECT a_col + 1 FROM openduck_run('REMOTE', 'FROM t')"
        assert outcome(ana, there) == ("OK", [(8,)])
        assert outcome(bob, both) == ("OK", [(7, 7)])
        for where in ("REMOTE", "AUTO"):
            for sql in ("SELECT * FROM openduck_run('%s', 'FROM b.t')", "CALL openduck_run('%s', 'FROM b.t')"):
                assert outcome(ana, sql % where)[0] == "PERMISSION", sql % where
        assert outcome(ana, both)[0] == "PERMISSION"
        mixed = (
            "SELECT count(*), sum(a_col + i) FROM openduck_run('REMOTE', 'FROM t') "
            "JOIN openduck_run('LOCAL', 'SELECT i FROM range(3) n(i)') ON i < a_col"
        )
        assert outcome(ana, mixed) == ("OK", [(3, 24)])
        assert outcome(ana, "SELECT max(a_col) FROM openduck_run('AUTO', 'FROM t')") == ("OK", [(7,)])
        if kind == "gateway":
            here = "SELECT * FROM openduck_run('LOCAL', 'FROM b_here.here')"
            assert outcome(ana, here)[0] == "PERMISSION"
            assert outcome(bob, here) == ("OK", [(7,)])
        with server.client(secret("ro")) as ro:
            assert outcome(ro, there) == ("OK", [(8,)])


@pytest.mark.extension
def test_duckdb_says_permission_error(tmp_path, tokens):
    import duckdb

    with served("serve", tmp_path, tokens) as server:
        with services.attached(server, "a", token=secret("ro")) as con:
            assert con.sql("FROM cloud.t").fetchall() == [(7,)]
            assert con.sql("SELECT table_name FROM duckdb_tables() WHERE database_name = 'cloud'").fetchall() != []
            with pytest.raises(duckdb.PermissionException, match="token 'ro' is read-only") as e:
                con.execute("INSERT INTO cloud.t VALUES (1)")
            assert "secret-of" not in str(e.value)
            with pytest.raises(duckdb.PermissionException, match="token 'ro' has no right to database 'b'"):
                con.execute("FROM openduck_query('cloud', 'FROM b.t')")
            assert con.sql("SELECT sum(a_col) FROM cloud.t JOIN (SELECT 7 AS x) ON x = a_col").fetchall() == [(7,)]
        with pytest.raises(duckdb.PermissionException, match="token 'ro' has no right to database 'b'"):
            with services.attached(server, "b", token=secret("ro")) as con:
                con.execute("FROM cloud.t")
        with services.attached(server, "a", token=secret("ana")) as con:
            con.execute("INSERT INTO cloud.t SELECT 8")
            con.execute("UPDATE cloud.t SET a_col = a_col + 1")
            con.execute("CREATE TABLE cloud.mine AS SELECT 1 AS i")
            assert con.sql("FROM cloud.t ORDER BY 1").fetchall() == [(8,), (9,)]
