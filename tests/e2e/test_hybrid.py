"""openduck_run at a server with --hybrid: parts of a statement here, others at a worker."""

import contextlib
import threading
import time

import pytest
import services
import test_tokens

REMOTE = (
    "CREATE TABLE lineitem AS SELECT i AS id, i * 10 AS amount, 'l' || i AS note FROM range(1, 1001) t(i)",
    "CREATE TABLE side AS SELECT 'remote' AS place",
)
LOCAL = (
    "CREATE TABLE orders AS SELECT i AS id, 'o' || i AS name FROM range(1, 11) t(i)",
    "CREATE TABLE side AS SELECT 'local' AS place",
)


class Hybrid:
    """A client of a gateway with orders, whose worker has lineitem."""

    def __init__(self, worker, gateway, client):
        self.worker, self.gateway, self.client = worker, gateway, client

    def rows(self, sql, **fields):
        return self.client.rows(sql, database="mydb", **fields)

    def error(self, sql, **fields):
        return self.client.run(sql, database="mydb", **fields).error

    def plan(self, sql):
        [(key, text)] = self.rows("EXPLAIN " + sql)
        assert key == "hybrid_plan"
        return text.splitlines()


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory):
    path = tmp_path_factory.mktemp("hybrid")
    far = services.make_database(path / "mydb.duckdb", *REMOTE)
    near = services.make_database(path / "near.duckdb", *LOCAL)
    with services.Worker({"mydb": far}) as worker:
        with services.Gateway([worker.url], "--hybrid", "--db", "near=%s" % near) as gateway:
            with gateway.client() as client:
                yield Hybrid(worker, gateway, client)


def test_a_remote_fragment_joins_a_local_table(hybrid):
    rows = hybrid.rows(
        "SELECT sum(l.amount), count(*), min(o.name) FROM orders o JOIN openduck_run('REMOTE', "
        "'SELECT id, amount FROM lineitem WHERE amount < 1000') l ON o.id = l.id"
    )
    assert rows == [(550, 10, "o1")]


@pytest.mark.parametrize(
    "call",
    [
        "openduck_run('REMOTE', 'SELECT place FROM side')",
        "OPENDUCK_RUN ( 'remote' , 'SELECT place FROM side; ' )",
        "openduck_run(/* ) */ 'Remote', $$SELECT place FROM side -- the end$$)",
        "openduck_run('REMOTE', $q$SELECT $$remote$$ FROM side WHERE place <> 'a''b' /* ') */$q$)",
        "openduck_run('REMOTE', 'SELECT ''remote'' FROM openduck_run(''REMOTE'', ''FROM side'')')",
        "\"openduck_run\"('REMOTE', 'SELECT place FROM side WHERE place != '')''') AS x",
    ],
)
def test_a_call_is_found_however_it_is_written(hybrid, call):
    assert hybrid.rows("SELECT * FROM %s, (SELECT 1 WHERE EXISTS (FROM orders))" % call) == [("remote", 1)]


@pytest.mark.parametrize(
    "sql, value",
    [
        ("SELECT 'openduck_run(''REMOTE'', ''x'')'", "openduck_run('REMOTE', 'x')"),
        ("SELECT place /* openduck_run('LOCAL', 'x') */ FROM side", "remote"),
        ("SELECT place AS openduck_run FROM side", "remote"),
    ],
)
def test_what_only_looks_like_a_call_is_none(hybrid, sql, value):
    assert hybrid.rows(sql) == [(value,)]


@pytest.mark.parametrize(
    "sql",
    [
        "openduck_run('REMOTE', 'SELECT place FROM side')",
        "CALL openduck_run('REMOTE', 'FROM side')",
        "FROM openduck_run('REMOTE', 'FROM side')",
        "SELECT place FROM openduck_run('REMOTE', 'FROM side') WHERE place > ''",
    ],
)
def test_the_whole_statement_may_be_a_call(hybrid, sql):
    assert hybrid.rows(sql) == [("remote",)]
    assert hybrid.rows(sql.replace("REMOTE", "LOCAL")) == [("local",)]


def test_fragments_stand_anywhere_in_a_statement(hybrid):
    assert hybrid.rows(
        "WITH far AS (FROM openduck_run('REMOTE', 'SELECT id, amount FROM lineitem')), "
        "near AS (SELECT o.id, far.amount FROM orders o JOIN far USING (id)) "
        "SELECT (SELECT max(amount) FROM openduck_run('REMOTE', 'FROM lineitem')), sum(amount), "
        "(SELECT count(*) FROM openduck_run('LOCAL', 'FROM orders')) FROM near "
        "WHERE id IN (SELECT id FROM openduck_run('REMOTE', 'SELECT id FROM lineitem WHERE id % 2 = 0'))"
    ) == [(10000, 300, 10)]


def test_local_rows_go_up_into_a_remote_fragment(hybrid):
    call = (
        "openduck_run('REMOTE', 'SELECT o.name, l.amount FROM lineitem l JOIN "
        "openduck_run(''LOCAL'', ''SELECT * FROM orders WHERE id > 8'') o USING (id)')"
    )
    assert sorted(hybrid.rows("SELECT * FROM %s" % call)) == [("o10", 100), ("o9", 90)]
    assert sorted(hybrid.rows("SELECT t.* FROM %s t JOIN orders o ON o.name = t.name" % call)) == [
        ("o10", 100),
        ("o9", 90),
    ]
    assert hybrid.plan("SELECT t.* FROM %s t JOIN orders o ON o.name = t.name" % call) == [
        "[LOCAL] Project(t.*)",
        '  [LOCAL] HashJoin(o."name" = t."name")',
        "    [LOCAL] Bridge(R→L)",
        '      [REMOTE] Project(o."name", l.amount)',
        "        [REMOTE] HashJoin(id)",
        "          [REMOTE] Scan(lineitem)",
        "          [REMOTE] Bridge(L→R)",
        "            [LOCAL] Filter(id > 8)",
        "              [LOCAL] Scan(orders)",
        "    [LOCAL] Scan(orders)",
    ]


def test_explain_shows_placements_and_bridges(hybrid):
    assert hybrid.plan("SELECT * FROM orders l JOIN openduck_run('REMOTE', 'FROM lineitem') r ON l.id = r.id") == [
        "[LOCAL] HashJoin(l.id = r.id)",
        "  [LOCAL] Scan(orders)",
        "  [LOCAL] Bridge(R→L)",
        "    [REMOTE] Scan(lineitem)",
    ]


def test_auto_runs_where_its_tables_are(hybrid):
    def placed(sql):
        return hybrid.plan(sql)[0].split()[0]

    assert placed("SELECT count(*) FROM openduck_run('AUTO', 'FROM lineitem')") == "[REMOTE]"
    assert placed("SELECT count(*) FROM openduck_run('AUTO', 'FROM orders')") == "[LOCAL]"
    assert placed("SELECT count(*) FROM lineitem JOIN openduck_run('LOCAL', 'FROM orders') USING (id)") == "[REMOTE]"
    assert hybrid.rows("SELECT count(*) FROM lineitem JOIN openduck_run('LOCAL', 'FROM orders') USING (id)") == [(10,)]
    assert hybrid.rows("SELECT sum(amount) FROM openduck_run('AUTO', 'FROM lineitem JOIN orders USING (id)')") == [
        (550,)
    ]
    assert hybrid.plan("SELECT * FROM openduck_run('AUTO', 'FROM lineitem JOIN main.orders USING (id)')") == [
        "[REMOTE] HashJoin(id)",
        "  [REMOTE] Scan(lineitem)",
        "  [REMOTE] Bridge(L→R)",
        "    [LOCAL] Scan(main.orders)",
    ]


def test_statements_that_write_run_where_their_table_is(hybrid):
    hybrid.rows("CALL openduck_run('LOCAL', 'CREATE OR REPLACE TABLE kept (id BIGINT, amount BIGINT)')")
    hybrid.rows("INSERT INTO kept FROM openduck_run('REMOTE', 'SELECT id, amount FROM lineitem LIMIT 7')")
    hybrid.rows("CREATE OR REPLACE TABLE made AS FROM openduck_run('REMOTE', 'FROM lineitem WHERE id = 3')")
    hybrid.rows(
        "UPDATE kept SET amount = s.n FROM openduck_run('REMOTE', 'SELECT 1 AS id, -1 AS n') s WHERE kept.id = s.id"
    )
    hybrid.rows("DELETE FROM kept WHERE id IN (SELECT id FROM openduck_run('REMOTE', 'SELECT 2 AS id'))")
    assert hybrid.rows("SELECT count(*), min(amount) FROM openduck_run('LOCAL', 'FROM kept')") == [(6, -1)]
    assert hybrid.rows("SELECT note FROM openduck_run('LOCAL', 'FROM made')") == [("l3",)]
    hybrid.rows("openduck_run('REMOTE', 'CREATE TABLE far_made (id BIGINT)')")
    hybrid.rows("INSERT INTO far_made SELECT id FROM openduck_run('LOCAL', 'FROM orders')")
    assert hybrid.rows("SELECT count(*) FROM far_made") == [(10,)]
    hybrid.rows("DROP TABLE far_made")


def test_an_empty_fragment_keeps_its_columns(hybrid):
    assert hybrid.rows(
        "SELECT o.id, l.note, l.amount FROM orders o LEFT JOIN openduck_run('REMOTE', 'FROM lineitem WHERE false') l "
        "USING (id) WHERE o.id = 1"
    ) == [(1, None, None)]


def test_columns_of_one_name_are_told_apart(hybrid):
    sql = "SELECT * FROM openduck_run('REMOTE', 'SELECT 1 AS a, 2 AS A, 3 AS a, NULL AS n'), orders WHERE id = 1"
    answer = hybrid.client.run(sql, database="mydb")
    assert answer.rows() == [(1, 2, 3, None, 1, "o1")]
    assert answer.table().column_names == ["a", "A_1", "a_2", "n", "id", "name"]


def test_a_description_runs_nothing(hybrid):
    answer = hybrid.client.run(
        "SELECT o.id, l.x FROM orders o, openduck_run('REMOTE', 'SELECT error(note)::DATE AS x FROM lineitem') l",
        database="mydb",
        describe_only=True,
    )
    assert answer.error is None
    assert answer.table().column_names == ["id", "x"]


@pytest.mark.parametrize(
    "sql, kind, words",
    [
        ("FROM openduck_run('REMOTE', 'SELEKT 1')", "PARSER", ["openduck_run('REMOTE') 1", "SELEKT"]),
        (
            "FROM orders, openduck_run('REMOTE', 'SELECT 1'), openduck_run('REMOTE', 'FROM nowhere')",
            "CATALOG",
            ["openduck_run('REMOTE') 2", "nowhere"],
        ),
        (
            "FROM orders, openduck_run('REMOTE', 'SELECT ''x''::INTEGER FROM lineitem')",
            "CONVERSION",
            ["openduck_run('REMOTE') 1"],
        ),
        ("FROM openduck_run('HERE', 'SELECT 1')", "BINDER", ["'HERE'"]),
        ("SELECT openduck_run('REMOTE', 'SELECT 1')", "BINDER", ["FROM"]),
        ("FROM openduck_run('REMOTE', name), orders", "BINDER", ["string literals"]),
        ("FROM openduck_run('REMOTE', 'DROP TABLE side')", "BINDER", ["only a query"]),
        ("SELECT 1; FROM openduck_run('REMOTE', 'FROM side')", "BINDER", ["alone"]),
    ],
)
def test_errors_have_their_kind_and_name_the_fragment(hybrid, sql, kind, words):
    error = hybrid.error(sql)
    assert services.stubs().ErrorKind.Name(error.kind) == "ERROR_KIND_" + kind, error
    for word in words:
        assert word in error.message


def test_nothing_of_a_failed_statement_remains(hybrid):
    hybrid.rows("CALL openduck_run('LOCAL', 'CREATE OR REPLACE TABLE half (id BIGINT)')")
    error = hybrid.error("INSERT INTO half SELECT error(note) FROM openduck_run('REMOTE', 'FROM lineitem')")
    assert "l1" in error.message
    assert hybrid.rows("SELECT count(*) FROM openduck_run('LOCAL', 'FROM half')") == [(0,)]


ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"


def test_a_failed_fragment_ends_the_others(hybrid):
    start = time.monotonic()
    error = hybrid.error("FROM orders, openduck_run('REMOTE', '%s'), openduck_run('REMOTE', 'FROM nowhere')" % ENDLESS)
    assert "nowhere" in error.message
    assert time.monotonic() - start < 15 * services.SLOW
    hybrid.worker.wait_idle(10)
    hybrid.gateway.wait_idle(10)


@pytest.mark.parametrize("where", ["REMOTE", "LOCAL"])
def test_cancel_reaches_every_fragment(hybrid, where):
    sql = "FROM orders, openduck_run('REMOTE', '%s'), (%s)" % (ENDLESS if where == "REMOTE" else "SELECT 1", ENDLESS)
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(hybrid.client.run(sql, database="mydb", execution_id="endless-" + where))
    )
    thread.start()
    services.wait_until(lambda: hybrid.gateway.status().running, 20, "the statement to run")
    services.wait_until(lambda: hybrid.client.cancel("endless-" + where), 20, "the cancel to be taken")
    thread.join(20 * services.SLOW)
    assert not thread.is_alive()
    assert "cancelled" in answers[0].error.message
    hybrid.worker.wait_idle(10)
    hybrid.gateway.wait_idle(10)


def test_a_statement_that_gives_nothing_times_out(hybrid):
    with services.Gateway([hybrid.worker.url], "--hybrid", "--execute-timeout", "1s") as gateway:
        with gateway.client() as client:
            for sql in ("FROM openduck_run('REMOTE', '%s')", "FROM openduck_run('REMOTE', 'SELECT 1'), (%s)"):
                error = client.run(sql % ENDLESS, database="mydb").error
                assert "timed out" in error.message
            gateway.wait_idle(10)
    hybrid.worker.wait_idle(10)


def test_without_hybrid_the_error_says_what_is_missing(hybrid):
    with hybrid.worker.client() as client:
        error = client.run("FROM openduck_run('LOCAL', 'FROM side')", database="mydb").error
    assert "--hybrid" in error.message
    with services.Serve({"mydb": ":memory:"}) as server, server.client() as client:
        for where in ("LOCAL", "REMOTE", "AUTO"):
            assert "--hybrid" in client.run("FROM openduck_run('%s', 'SELECT 1')" % where).error.message


def test_a_server_alone_has_both_places(tmp_path):
    path = services.make_database(tmp_path / "mydb.duckdb", *REMOTE, LOCAL[0])
    with services.Serve({"mydb": path}, "--hybrid") as server, server.client() as client:
        assert client.rows(
            "SELECT count(*) FROM orders o JOIN openduck_run('REMOTE', 'FROM lineitem') l USING (id)"
        ) == [(10,)]
        assert client.rows(
            "FROM openduck_run('REMOTE', 'SELECT count(*) FROM lineitem JOIN "
            "openduck_run(''LOCAL'', ''FROM orders'') USING (id)')"
        ) == [(10,)]


# ---------------------------------------------------------------- in a transaction of the client


class Alone:
    """A server with both places."""

    def __init__(self, server, client):
        self.server, self.client = server, client

    rows, error, plan = Hybrid.rows, Hybrid.error, Hybrid.plan


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    path = services.make_database(tmp_path_factory.mktemp("alone") / "mydb.duckdb", *REMOTE, LOCAL[0])
    with services.Serve({"mydb": path}, "--hybrid") as server, server.client() as client:
        yield Alone(server, client)


@pytest.fixture(params=["hybrid", "alone"])
def place(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def txn(place):
    place.rows("CALL openduck_run('REMOTE', 'CREATE OR REPLACE TABLE grows AS SELECT 1 AS id')")
    transaction = place.client.begin("mydb")
    yield {"transaction_id": transaction}
    with contextlib.suppress(services.Refused):
        place.client.rollback(transaction)


COUNT = "SELECT count(*) FROM orders o JOIN openduck_run('REMOTE', 'FROM grows') g USING (id)"


def test_a_fragment_sees_what_its_transaction_did(place, txn):
    place.rows("INSERT INTO grows VALUES (2), (3)", **txn)
    assert place.rows(COUNT, **txn) == [(3,)]
    assert place.rows(COUNT) == [(1,)]
    assert place.rows("FROM openduck_run('REMOTE', 'SELECT count(*) FROM grows')", **txn) == [(3,)]
    place.rows("CREATE TABLE fresh AS SELECT 5 AS id", **txn)
    assert place.rows("SELECT id FROM openduck_run('AUTO', 'FROM fresh') JOIN orders USING (id)", **txn) == [(5,)]
    place.client.commit(txn["transaction_id"])
    assert place.rows(COUNT) == [(3,)]
    place.rows("CALL openduck_run('REMOTE', 'DROP TABLE fresh')")


def test_what_a_fragment_writes_goes_with_its_transaction(place, txn):
    place.rows("CALL openduck_run('REMOTE', 'INSERT INTO grows VALUES (2)')", **txn)
    place.rows("INSERT INTO grows SELECT id FROM openduck_run('LOCAL', 'FROM orders WHERE id BETWEEN 3 AND 6')", **txn)
    assert place.rows(COUNT, **txn) == [(6,)]
    assert place.rows(COUNT) == [(1,)]
    place.client.rollback(txn["transaction_id"])
    assert place.rows(COUNT) == [(1,)]


def test_a_transaction_has_one_view_of_the_data(place, txn):
    assert place.rows(COUNT, **txn) == [(1,)]
    place.rows("CALL openduck_run('REMOTE', 'INSERT INTO grows VALUES (2)')")
    assert place.rows(COUNT) == [(2,)]
    assert place.rows(COUNT, **txn) == [(1,)]


def test_fragments_of_one_transaction_take_turns(place, txn):
    """Several that are read at once, each more than is kept in memory for a moment, and one inside of another."""
    place.rows("INSERT INTO grows SELECT i FROM range(2, 200001) t(i)", **txn)
    wide = "SELECT id, repeat(''x'', 40) AS s FROM grows"
    sql = (
        "SELECT count(*), sum(length(a.s || b.s)), count(o.name) FROM openduck_run('REMOTE', '%s') a "
        "JOIN openduck_run('REMOTE', '%s') b USING (id) LEFT JOIN orders o USING (id) "
        "WHERE id IN (FROM openduck_run('REMOTE', 'SELECT g.id FROM grows g JOIN openduck_run(''LOCAL'', "
        "''SELECT id FROM orders UNION ALL SELECT i FROM range(11, 150001) t(i)'') l USING (id)'))"
    ) % (wide, wide)
    assert place.rows(sql, **txn) == [(150000, 12000000, 10)]
    assert place.rows(COUNT, **txn) == [(10,)]


def test_names_of_the_statement_are_not_those_of_a_fragment(place, txn):
    for fields in ({}, txn):
        assert place.rows(
            "WITH grows AS (SELECT 7 AS id) SELECT g.id AS a, r.id AS b, name FROM grows g JOIN orders USING (id), "
            "openduck_run('REMOTE', 'FROM grows') r",
            **fields,
        ) == [(7, 1, "o7")]


def test_a_failed_or_cancelled_fragment_leaves_the_transaction_its_own(place, txn):
    place.rows("INSERT INTO grows VALUES (2)", **txn)
    error = place.error("SELECT * FROM orders, openduck_run('REMOTE', 'SELECT id FROM nowhere')", **txn)
    assert "nowhere" in error.message
    place.client.rollback(txn["transaction_id"])
    assert place.rows(COUNT) == [(1,)]
    transaction = {"transaction_id": place.client.begin("mydb")}
    call = place.client.call(
        "SELECT * FROM orders, openduck_run('REMOTE', '%s')" % ENDLESS,
        database="mydb",
        execution_id="stuck",
        **transaction,
    )
    services.wait_until(lambda: place.client.status().running, 20, "the statement to run")
    services.wait_until(lambda: place.client.cancel("stuck"), 20, "the cancel to be taken")
    assert list(call)[-1].finished
    place.client.rollback(transaction["transaction_id"])
    services.wait_until(lambda: place.client.status().transactions == 0, 20, "the transaction to end")


def test_a_transaction_that_is_over_is_told(place, txn):
    place.client.rollback(txn["transaction_id"])
    assert "transaction" in place.error(COUNT, **txn).message
    assert place.error(COUNT, **txn).sql_state == place.error("FROM grows", **txn).sql_state
    assert "transaction" in place.error(COUNT, transaction_id="none").message


def test_explain_in_a_transaction_shows_places(place, txn):
    sql = "SELECT * FROM orders JOIN openduck_run('REMOTE', 'FROM grows') g USING (id)"
    [(_, text)] = place.rows("EXPLAIN " + sql, **txn)
    assert text.splitlines() == place.plan(sql) and "Bridge(R\u2192L)" in text


def test_in_a_transaction_of_a_worker_the_gateway_only_reads(hybrid):
    transaction = hybrid.client.begin("mydb")
    for sql, what in (
        ("CALL openduck_run('LOCAL', 'CREATE TABLE mine AS SELECT 1 AS i')", "the statement"),
        ("INSERT INTO orders SELECT 11, place FROM openduck_run('REMOTE', 'FROM side')", "the statement"),
    ):
        error = hybrid.error(sql, transaction_id=transaction)
        assert error.message.startswith(what) and "LOCAL takes only queries in it" in error.message
        assert hybrid.worker.url.removeprefix("http://") in error.message
    assert hybrid.rows("SELECT count(*) FROM openduck_run('LOCAL', 'FROM orders')", transaction_id=transaction) == [
        (10,)
    ]
    hybrid.client.rollback(transaction)


@pytest.mark.parametrize("kind", [services.Serve, services.Stack])
def test_nobody_elses_transaction_can_be_used(kind, tmp_path):
    tokens = tmp_path / "tokens"
    test_tokens.write_tokens(tokens, {"one": "databases = *", "two": "databases = *"})
    with kind({"mydb": ":memory:"}, "--hybrid", "--tokens", str(tokens), token="shared") as server:
        with server.client(test_tokens.secret("one")) as one, server.client(test_tokens.secret("two")) as two:
            transaction = one.begin("mydb")
            sql = "FROM openduck_run('REMOTE', 'SELECT 1')"
            assert one.rows(sql, database="mydb", transaction_id=transaction) == [(1,)]
            error = two.run(sql, database="mydb", transaction_id=transaction).error
            assert services.stubs().ErrorKind.Name(error.kind) == "ERROR_KIND_PERMISSION"
            one.rollback(transaction)


# ---------------------------------------------------------------- in views and macros


def test_a_view_and_a_macro_run_their_calls_where_they_are(alone):
    alone.rows("CREATE OR REPLACE VIEW seen AS SELECT * FROM openduck_run('REMOTE', 'FROM lineitem WHERE id <= 20') l")
    alone.rows("CREATE OR REPLACE VIEW pairs AS FROM orders JOIN openduck_run('AUTO', 'FROM seen') s USING (id)")
    assert alone.rows("SELECT count(*), sum(amount) FROM pairs") == [(10, 550)]
    assert alone.rows("SELECT count(*) FROM openduck_run('LOCAL', 'FROM pairs') b JOIN seen USING (id)") == [(10,)]
    alone.rows(
        "CREATE OR REPLACE MACRO upto(n) AS TABLE SELECT * FROM openduck_run('LOCAL', 'FROM orders') WHERE id <= n"
    )
    alone.rows("CREATE OR REPLACE MACRO much() AS (SELECT sum(amount) FROM openduck_run('REMOTE', 'FROM seen'))")
    assert alone.rows("SELECT count(*), much() FROM upto(3)") == [(3, 2100)]


def test_a_view_is_in_its_readers_transaction(alone):
    alone.rows("CREATE OR REPLACE TABLE kept AS SELECT 1 AS id")
    alone.rows("CREATE OR REPLACE VIEW seen_kept AS FROM openduck_run('REMOTE', 'FROM kept')")
    transaction = alone.client.begin("mydb")
    alone.rows("INSERT INTO kept VALUES (2)", transaction_id=transaction)
    assert alone.rows("SELECT count(*) FROM seen_kept", transaction_id=transaction) == [(2,)]
    assert alone.rows("SELECT count(*) FROM seen_kept") == [(1,)]
    alone.client.rollback(transaction)


def test_a_view_of_a_worker_is_the_workers(hybrid):
    hybrid.rows(
        "CREATE OR REPLACE VIEW far_seen AS FROM openduck_run('REMOTE', 'SELECT id FROM lineitem WHERE id < 4')"
    )
    assert hybrid.rows("SELECT count(*) FROM far_seen") == [(3,)]
    assert hybrid.rows("SELECT max(name) FROM far_seen JOIN openduck_run('LOCAL', 'FROM orders') USING (id)") == [
        ("o3",)
    ]
    assert (
        "in a view or a macro a call runs where that is"
        in hybrid.error("CREATE VIEW never AS FROM openduck_run('LOCAL', 'FROM orders')").message
    )
    hybrid.rows(
        "CALL openduck_run('LOCAL', 'CREATE OR REPLACE VIEW near AS FROM openduck_run(''LOCAL'', ''FROM orders'')')"
    )
    assert hybrid.rows("SELECT count(*) FROM openduck_run('LOCAL', 'FROM near')") == [(10,)]


def test_a_view_reaches_no_further_than_its_token(tmp_path):
    tokens = tmp_path / "tokens"
    test_tokens.write_tokens(tokens, {"one": "databases = a", "all": "databases = *"})
    with services.Serve({"a": ":memory:", "b": ":memory:"}, "--hybrid", "--tokens", str(tokens)) as server:
        with server.client(test_tokens.secret("one")) as one, server.client(test_tokens.secret("all")) as both:
            both.rows("CREATE TABLE b.kept AS SELECT 1 AS i", database="a")
            both.rows("CREATE VIEW a.seen AS FROM openduck_run('REMOTE', 'FROM b.kept')", database="a")
            assert both.rows("FROM seen", database="a") == [(1,)]
            for sql in ("FROM seen", "CREATE VIEW mine AS FROM openduck_run('LOCAL', 'FROM b.kept')"):
                error = one.run(sql, database="a").error
                assert services.stubs().ErrorKind.Name(error.kind) == "ERROR_KIND_PERMISSION", error


@pytest.mark.parametrize(
    "sql, words",
    [
        ("FROM openduck_run('REMOTE', 'DROP TABLE orders')", "takes one query"),
        ("FROM openduck_run('REMOTE', 'SELECT 1; SELECT 2')", "takes one query"),
        ("FROM openduck_run('THERE', 'SELECT 1')", "not 'THERE'"),
        ("FROM openduck_run('LOCAL', NULL)", "two string literals"),
        ("FROM openduck_run('LOCAL', 'SELECT FROM')", "syntax error"),
        ("FROM openduck_run('LOCAL', 'SELECT 1') WITH ORDINALITY", "WITH ORDINALITY"),
    ],
)
def test_a_call_in_a_view_that_cannot_be_one(alone, sql, words):
    assert words in alone.error("CREATE VIEW wrong AS " + sql).message


def test_a_view_that_reads_itself_is_an_error(alone):
    alone.rows("CREATE OR REPLACE VIEW loop AS SELECT 1 AS i")
    alone.rows("CREATE OR REPLACE VIEW loops AS FROM openduck_run('LOCAL', 'FROM loop')")
    alone.rows("CREATE OR REPLACE VIEW loop AS FROM loops")
    assert "recurs" in alone.error("FROM loop").message
    alone.rows("CREATE OR REPLACE MACRO round() AS TABLE SELECT 1 AS i")
    alone.rows("CREATE OR REPLACE MACRO round() AS TABLE FROM openduck_run('LOCAL', 'FROM round()')")
    assert alone.error("FROM round()").message
    assert alone.rows("SELECT 1") == [(1,)]


def test_many_at_once_with_cancels_leave_nothing_behind(hybrid):
    joined = "SELECT l.id FROM lineitem l JOIN openduck_run(''LOCAL'', ''FROM orders'') USING (id)"
    sql = (
        "SELECT count(*), sum(r.i) FROM openduck_run('REMOTE', 'SELECT i FROM range(200000) t(i)') r "
        "JOIN openduck_run('REMOTE', '%s') o ON r.i = o.id" % joined
    )
    answers, cancelled = [], []

    def ask(number):
        for turn in range(4):
            execution = "storm-%d-%d" % (number, turn)
            if (number + turn) % 3 == 0:
                timer = threading.Timer(0.01 * number, hybrid.client.cancel, (execution,))
                timer.start()
            answer = hybrid.client.run(sql, database="mydb", execution_id=execution)
            if answer.error is None:
                answers.append(answer.rows())
            else:
                cancelled.append(answer.error.message)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100 * services.SLOW)
        assert not thread.is_alive()
    assert len(answers) + len(cancelled) == 32 and len(answers) >= 20
    assert all(rows == [(10, 55)] for rows in answers)
    assert all("cancelled" in message for message in cancelled)
    hybrid.gateway.wait_idle(10)
    hybrid.worker.wait_idle(10)


def test_a_lost_worker_is_named(hybrid, tmp_path):
    with services.Worker({"mydb": ":memory:"}) as worker:
        with services.Gateway([worker.url], "--hybrid") as gateway, gateway.client() as client:
            answers = []
            sql = "FROM openduck_run('LOCAL', 'SELECT 1'), openduck_run('REMOTE', '%s')" % ENDLESS
            thread = threading.Thread(target=lambda: answers.append(client.run(sql, database="mydb")))
            thread.start()
            with worker.client() as direct:
                services.wait_until(lambda: direct.status().in_flight, 20, "the fragment to run")
            worker.kill()
            thread.join(30 * services.SLOW)
            assert not thread.is_alive()
            assert "openduck_run('REMOTE') 2" in answers[0].error.message
            gateway.wait_idle(10)


@pytest.mark.skipif(services.PRESET != "release", reason="measures memory")
def test_what_does_not_fit_into_memory_is_spilled(hybrid, tmp_path):
    rows = "SELECT i, repeat(md5(i::VARCHAR), 4) AS s FROM range(2000000) t(i)"  # 256 MB of text
    near = services.make_database(tmp_path / "near.duckdb", *LOCAL)
    options = ("--hybrid", "--db", "near=%s" % near, "--memory-limit", "100MB", "--threads", "2")
    with services.Gateway([hybrid.worker.url], *options) as gateway, gateway.client() as client:
        gateway.reset_peak()
        answer = client.rows(
            "SELECT count(*), count(DISTINCT length(s)), count(o.id) FROM openduck_run('REMOTE', '%s') r "
            "LEFT JOIN orders o ON o.id = r.i" % rows.replace("'", "''"),
            database="mydb",
        )
        assert answer == [(2000000, 1, 10)]
        assert gateway.peak() < 350 << 20


@pytest.mark.extension
def test_in_a_transaction_of_the_extension(place):
    place.rows("CALL openduck_run('REMOTE', 'CREATE OR REPLACE TABLE grows AS SELECT 1 AS id')")
    server = place.server if isinstance(place, Alone) else place.gateway
    sql = "FROM openduck_query('cloud', '%s')" % COUNT.replace("'", "''")
    with services.attached(server, "mydb") as con:
        con.execute("BEGIN")
        con.execute("INSERT INTO cloud.grows VALUES (2), (3)")
        assert con.execute(sql).fetchall() == [(3,)]
        assert con.execute("SELECT count(*) FROM openduck_run('REMOTE', 'FROM grows')").fetchall() == [(3,)]
        con.execute("ROLLBACK")
        assert con.execute(sql).fetchall() == [(1,)]
