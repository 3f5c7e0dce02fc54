"""Snapshots of a served database: ExecuteFragment with a snapshot_id, alone and behind a gateway."""

import concurrent.futures
import hashlib
import threading
import uuid

import psutil
import pytest
import services

ROWS = 5000


def store(tmp_path):
    return "data_dir=%s" % (tmp_path / "data")


def seal(client, name="sales"):
    ((_, snapshot, checkpointed),) = client.rows("FROM openduck_seal('%s')" % name)
    assert checkpointed
    return snapshot


@pytest.fixture(params=["serve", "stack"])
def server(request, tmp_path):
    make = {"serve": services.Serve, "stack": services.Stack}[request.param]
    databases = {name: "openduck://%s?%s" % (name, store(tmp_path)) for name in ("sales", "staff")}
    with make({**databases, "plain": ":memory:"}) as running:
        yield running


def refused(client, sql, **fields):
    with pytest.raises(services.Refused) as caught:
        client.do(sql, **fields)
    return caught.value


def test_each_snapshot_is_read_as_it_was(server):
    with server.client() as c:
        c.do("CREATE TABLE sales.t AS SELECT i, 'v' || i AS v FROM range(%d) r(i)" % ROWS)
        first = seal(c)
        c.do("UPDATE sales.t SET v = 'changed' WHERE i %% 2 = 0; DELETE FROM sales.t WHERE i > %d" % (ROWS // 2))
        second = seal(c)
        c.do("DROP TABLE sales.t; CREATE TABLE sales.other AS SELECT 1 AS i")
        wanted = {
            first: [(ROWS, 0)],
            second: [(ROWS // 2 + 1, ROWS // 4 + 1)],
        }
        question = "SELECT count(*) AS n, count(*) FILTER (v = 'changed') AS changed FROM %s"
        for snapshot, rows in wanted.items():
            for name in ("t", "main.t", "sales.t", "sales.main.t"):
                assert c.do(question % name, database="sales", snapshot_id=snapshot) == rows
            assert c.do("SELECT current_database() AS d", database="sales", snapshot_id=snapshot) == [("sales",)]
        assert c.do("SELECT i FROM other", database="sales") == [(1,)]
        # Nothing else is there.
        for other in ("staff", "plain"):
            assert refused(c, "FROM %s.t" % other, database="sales", snapshot_id=first).detail.kind == 1
        described = c.run("SELECT v FROM t", database="sales", snapshot_id=first.upper(), describe_only=True)
        assert described.error is None and described.table().schema.names == ["v"]


def test_what_is_no_snapshot_of_the_database_is_an_error(server):
    with server.client() as c:
        c.do("CREATE TABLE sales.t AS SELECT 1 AS i; CREATE TABLE staff.secrets AS SELECT 1 AS i")
        mine, other = seal(c), seal(c, "staff")
        unknown = str(uuid.uuid4())
        for snapshot in (unknown, other):
            wrong = refused(c, "SELECT 1", database="sales", snapshot_id=snapshot)
            assert wrong.code == "NOT_FOUND"
            assert wrong.detail.message == "database 'sales' has no snapshot '%s'" % snapshot
        for garbage in ("", "latest", mine[:-1], mine + "0", "../" + mine, "x" * 36, mine[:8] + "\0" + mine[9:]):
            wrong = refused(c, "SELECT 1", database="sales", snapshot_id=garbage)
            assert wrong.code == "INVALID" and "a snapshot's id is a UUID" in wrong.detail.message, garbage
        wrong = refused(c, "SELECT 1", database="plain", snapshot_id=mine)
        assert wrong.code == "NOT_IMPLEMENTED"
        assert wrong.detail.message == "database 'plain' has no snapshots: it is not at openduck://"
        assert c.do("FROM t", database="sales", snapshot_id=mine) == [(1,)]


def test_a_snapshot_cannot_be_changed(server):
    with server.client() as c:
        c.do("CREATE TABLE sales.t AS SELECT 1 AS i")
        snapshot = seal(c)
        for sql in (
            "INSERT INTO t VALUES (2)",
            "CREATE TABLE u(i INTEGER)",
            "DROP TABLE t",
            "UPDATE sales.t SET i = 3",
        ):
            wrong = refused(c, sql, database="sales", snapshot_id=snapshot)
            assert "snapshot '%s' does not change" % snapshot in wrong.detail.message, wrong
            assert "read-only" in wrong.detail.message
        txn = c.begin("sales")
        wrong = refused(c, "FROM t", database="sales", snapshot_id=snapshot, transaction_id=txn)
        assert wrong.code == "INVALID" and "not of a snapshot" in wrong.detail.message
        c.rollback(txn)
        with pytest.raises(services.Refused, match="read-only"):
            c.do("FROM openduck_seal('sales')", database="sales", snapshot_id=snapshot)
        assert c.do("FROM t", database="sales", snapshot_id=snapshot) == [(1,)]
        assert c.do("FROM t", database="sales") == [(1,)]


def test_one_that_is_dropped_is_gone_and_who_reads_it_reads_on(tmp_path):
    url = "openduck://sales?" + store(tmp_path)
    with services.Serve({"sales": url}, "--batch-bytes", "4KiB") as server, server.client() as c:
        c.do("CREATE TABLE sales.t AS SELECT i FROM range(1000000) r(i)")
        snapshot = seal(c)
        stream = c.call("FROM t", database="sales", snapshot_id=snapshot)
        got = services.Answer([next(stream)]).rows()
        dropped = services.cli("snapshot", "drop", snapshot, "--data-dir", tmp_path / "data")
        assert dropped.returncode == 0, dropped.stderr

        def gone():
            answer = c.run("SELECT 1", database="sales", snapshot_id=snapshot)
            return answer.error and answer.error.code == "NOT_FOUND" and answer.error.message

        message = services.wait_until(gone, 20, "the snapshot is gone")
        assert message == "database 'sales' has no snapshot '%s'" % snapshot
        got += services.Answer(list(stream)).rows()
        assert len(got) == 1000000 and sum(i for (i,) in got) == 499999500000
        server.assert_usable()


def test_so_many_are_open_at_once_and_no_more(tmp_path):
    url = "openduck://sales?" + store(tmp_path)
    options = ("--max-snapshots", "1", "--batch-bytes", "4KiB")
    with services.Serve({"sales": url}, *options) as server, server.client() as c:
        c.do("CREATE TABLE sales.t AS SELECT i FROM range(3000000) r(i)")
        first = seal(c)
        c.do("INSERT INTO sales.t VALUES (-1)")
        second = seal(c)
        stream = c.call("FROM t", database="sales", snapshot_id=first)
        next(stream)  # and no more: it stays in use
        wrong = refused(c, "SELECT count(*) AS n FROM t", database="sales", snapshot_id=second)
        assert wrong.code == "BUSY" and "1 snapshots are in use" in wrong.detail.message
        assert c.do("SELECT 1 AS i", database="sales", snapshot_id=first) == [(1,)]
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waits = pool.submit(c.do, "SELECT count(*) AS n FROM t", database="sales", snapshot_id=second)
            services.wait_until(lambda: server.status().in_flight >= 2, 20, "it waits")
            stream.cancel()
            assert waits.result() == [(3000001,)]


def test_many_read_many_snapshots(tmp_path):
    url = "openduck://sales?" + store(tmp_path)
    count = 5
    with services.Serve({"sales": url}, "--max-snapshots", "2", "--snapshot-idle-timeout", "5ms") as server:
        with server.client() as c:
            c.do("CREATE TABLE sales.t(i INTEGER)")
            snapshots = []
            for i in range(count):
                c.do("INSERT INTO sales.t VALUES (%d)" % i)
                snapshots.append(seal(c))
            barrier = threading.Barrier(4)

            def read(offset):
                barrier.wait()
                for i in range(2 * count):
                    at = (i * (offset + 1)) % count
                    rows = c.do("SELECT count(*) AS n, max(i) AS m FROM t", database="sales", snapshot_id=snapshots[at])
                    assert rows == [(at + 1, at)]

            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                for done in [pool.submit(read, i) for i in range(4)]:
                    done.result()


def test_one_that_nothing_reads_is_closed(tmp_path):
    url = "openduck://sales?" + store(tmp_path)
    with services.Serve({"sales": url}, "--snapshot-idle-timeout", "300ms") as server, server.client() as c:
        c.do("CREATE TABLE sales.t AS SELECT 1 AS i")
        snapshot = seal(c)
        process = psutil.Process(server.pid)
        before = process.num_threads()
        stream_sql = "SELECT i, sum(i) OVER () AS s FROM t"
        assert c.do(stream_sql, database="sales", snapshot_id=snapshot) == [(1, 1)]

        def layers():
            return sorted(f.path for f in process.open_files() if f.path.endswith(".seg"))

        held = layers()
        services.wait_until(lambda: len(layers()) < len(held), 20, "its layers are closed")
        assert process.num_threads() <= before + 4
        assert c.do("FROM t", database="sales", snapshot_id=snapshot) == [(1,)]


def test_rights_hold_for_snapshots(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("[ana]\nsha256 = %s\ndatabases = sales\n" % hashlib.sha256(b"ana-secret").hexdigest())
    tokens.chmod(0o600)
    databases = {name: "openduck://%s?%s" % (name, store(tmp_path)) for name in ("sales", "staff")}
    with services.Serve(databases, "--tokens", tokens, token="root") as server:
        with server.client("root") as root, server.client("ana-secret") as ana:
            root.do("CREATE TABLE sales.t AS SELECT 1 AS i; CREATE TABLE staff.t AS SELECT 2 AS i")
            sales, staff = seal(root), seal(root, "staff")
            assert ana.do("FROM t", database="sales", snapshot_id=sales) == [(1,)]
            assert refused(ana, "FROM t", database="sales", snapshot_id=staff).code == "NOT_FOUND"
            assert refused(ana, "FROM read_text('/etc/hostname')", database="sales", snapshot_id=sales).detail.kind == 7
            assert root.do("FROM t", database="staff", snapshot_id=staff) == [(2,)]
            with pytest.raises(Exception, match="PERMISSION_DENIED"):
                ana.do("FROM t", database="staff", snapshot_id=staff)
