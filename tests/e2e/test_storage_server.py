"""A server whose database is on openduck://: writing, sealing while rows come in, snapshots beside it, one writer."""

import threading

import duckdb
import pytest
import services

pytestmark = pytest.mark.extension

LEASE_MS = 1000


@pytest.fixture
def url(tmp_path):
    return "openduck://sales?data_dir=%s&lease_ms=%d" % (tmp_path / "data", LEASE_MS)


def remote(con, sql):
    return con.execute("FROM openduck_query('cloud', ?)", [sql]).fetchall()


def test_snapshots_are_sealed_while_rows_come_in(url):
    with services.Serve({"sales": url}) as server, services.attached(server, "sales") as con:
        con.execute("CREATE TABLE cloud.t(n INTEGER)")
        done, stop = [0], threading.Event()

        def ingest():
            with services.attached(server, "sales") as writer:
                while not stop.is_set():
                    writer.execute("INSERT INTO cloud.t VALUES (?)", [done[0]])
                    done[0] += 1

        thread = threading.Thread(target=ingest)
        thread.start()
        sealed = []
        try:
            for _ in range(3):
                before = done[0]
                services.wait_until(lambda least=before: done[0] > least, 20, "more rows came")
                before = done[0]
                ((_, snapshot, _),) = remote(con, "FROM openduck_seal('sales')")
                sealed.append((snapshot, before, done[0] + 1))
        finally:
            stop.set()
            thread.join()
        with services.duck() as beside:
            for snapshot, least, most in sealed:
                beside.execute("ATTACH '%s&snapshot=%s' AS s (READ_ONLY)" % (url, snapshot))
                ((count, last),) = beside.execute("SELECT count(*), max(n) + 1 FROM s.t").fetchall()
                assert count == last and least <= count <= most
                beside.execute("DETACH s")
            beside.execute("ATTACH '%s' AS s (READ_ONLY)" % url)
            assert beside.execute("SELECT count(*) FROM s.t").fetchall() == [(done[0],)]


def test_a_served_database_has_one_writer_and_outlives_it(url):
    first = services.Serve({"sales": url})
    try:
        with services.attached(first, "sales") as con:
            con.execute("CREATE TABLE cloud.t AS FROM range(1000) r(i)")
        with services.duck() as con, pytest.raises(duckdb.IOException, match="'sales' has a writer"):
            con.execute("ATTACH '%s' AS m" % url)
    finally:
        first.kill()

    def again():
        try:
            return services.Serve({"sales": url})
        except RuntimeError as e:
            assert "has a writer" in str(e), e
            return None

    with services.wait_until(again, 20, "the lease of the killed server is over") as second:
        with services.attached(second, "sales") as con:
            assert con.execute("SELECT count(*) FROM cloud.t").fetchall() == [(1000,)]
    with services.Serve({"sales": url}) as third, services.attached(third, "sales") as con:
        con.execute("INSERT INTO cloud.t VALUES (-1)")  # an orderly end gave the lease back


def test_clients_reach_the_served_databases_and_no_others(url, tmp_path):
    with services.Serve({"sales": url}) as server, services.attached(server, "sales") as con:
        with pytest.raises(duckdb.PermissionException):
            remote(con, "ATTACH 'openduck://other?data_dir=%s' AS x" % (tmp_path / "data"))
        with pytest.raises(duckdb.PermissionException):
            remote(con, "SELECT size FROM read_blob('%s&state=synced')" % url)
        with pytest.raises(duckdb.CatalogException):
            remote(con, "FROM openduck_gc(data_dir := '%s')" % tmp_path)
        con.execute("CREATE TABLE cloud.t AS SELECT 1 AS i")
        con.execute("CHECKPOINT cloud")
        con.execute("INSERT INTO cloud.t VALUES (2)")
        assert con.execute("FROM cloud.t").fetchall() == [(1,), (2,)]


def test_servers_of_one_directory_spill_apart(url, tmp_path):
    """DuckDB names its temporary files alike in all processes."""
    other = url.replace("/data?", "/other?").replace("openduck://sales", "openduck://stock")
    seen = set()
    with services.Serve({"sales": url}) as one, services.Serve({"stock": other}) as two:
        for server, name in ((one, "sales"), (two, "stock")):
            with services.attached(server, name) as con:
                seen.update(remote(con, "SELECT current_setting('temp_directory')"))
    assert len(seen) == 2, seen
