"""openduck:// with copies of its layers in a bucket, or another directory."""

from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest
import services
from s3 import KEY, SECRET

pytestmark = pytest.mark.extension
LAYERS = "SELECT count(*), sum(i), max(s) FROM m.t"


@pytest.fixture
def store(postgres, tmp_path):
    """The URL of new metadata, and a prefix of its own."""
    name = "t%d" % abs(hash(str(tmp_path)))
    return postgres.create(name), "s3://test/" + name


def machine(folder, postgres_url, blob_url, **more):
    """A DuckDB as on a machine of its own: with a directory that no other has."""
    con = services.duck()
    given = {"DATA_DIR": folder, "POSTGRES_URL": postgres_url, "BLOB_URL": blob_url, **more}
    con.execute("CREATE SECRET (TYPE openduck_storage, %s)" % ", ".join("%s '%s'" % item for item in given.items()))
    con.execute("ATTACH 'openduck://mydb' AS m")
    return con


def in_bucket(s3):
    return {
        "KEY_ID": KEY,
        "SECRET": SECRET,
        "ENDPOINT": s3.endpoint,
        "USE_SSL": "false",
        "URL_STYLE": "path",
        "TIER": "true",
    }


def fill(con):
    con.execute("CREATE TABLE m.t AS SELECT i, 's' || i AS s FROM range(300000) r(i)")
    snapshot = con.execute("SELECT snapshot FROM openduck_seal('m')").fetchone()[0]
    return snapshot, con.execute(LAYERS).fetchall()


def sent(con, count=1):
    """Waits until so many layers have a copy."""

    def enough():
        found = con.execute("SELECT far_layers FROM openduck_far()").fetchone()[0]
        return found >= count

    services.wait_until(enough, 30, "layers are sent")


def test_another_machine_reads_and_writes_on(s3, store, tmp_path):
    with machine(tmp_path / "a", *store, **in_bucket(s3)) as a:
        snapshot, expected = fill(a)
        sent(a)
        assert len(s3.objects()) >= 1
    with machine(tmp_path / "b", *store, **in_bucket(s3)) as b:
        assert b.execute(LAYERS).fetchall() == expected
        assert not list((tmp_path / "b").rglob("*%s*" % snapshot))
        b.execute("ATTACH 'openduck://mydb?snapshot=%s' AS s (READ_ONLY)" % snapshot)
        b.execute("DELETE FROM m.t WHERE i >= 10")
        assert b.execute("SELECT (SELECT count(*) FROM m.t), (SELECT count(*) FROM s.t)").fetchall() == [(10, 300000)]
        fetched = b.execute("SELECT fetched_bytes FROM openduck_far()").fetchone()[0]
        assert 0 < fetched


def test_what_was_not_sent_is_said_where_it_is_missing(s3, store, tmp_path):
    kept = {**in_bucket(s3), "TIER": "false"}
    with machine(tmp_path / "a", *store, **kept) as a:
        _, expected = fill(a)
    with pytest.raises(duckdb.IOException, match="openduck snapshot seal, openduck storage tier"):
        machine(tmp_path / "b", *store, **kept)
    with machine(tmp_path / "a", *store, **kept) as a:
        assert a.execute(LAYERS).fetchall() == expected
        a.execute("FROM openduck_seal('m')").fetchall()
        a.execute("FROM openduck_tier()").fetchall()
    with machine(tmp_path / "b", *store, **kept) as b:
        assert b.execute(LAYERS).fetchall() == expected


def test_a_server_that_stalls_is_cut_off_or_goes_loses_nothing(s3, store, tmp_path):
    with services.TcpProxy("http://" + s3.endpoint, rate=3_000_000) as proxy:
        place = {**in_bucket(s3), "ENDPOINT": proxy.url.removeprefix("http://")}
        with machine(tmp_path / "a", *store, **place) as a:
            _, expected = fill(a)
            sent(a)

        def ask(name, disturb):
            """Asks on a machine that has nothing of it yet; DISTURB is called once bytes are coming."""
            with machine(tmp_path / name, *store, **place) as con, ThreadPoolExecutor() as pool:
                before = proxy.down
                answer = pool.submit(con.execute, LAYERS)
                services.wait_until(lambda: proxy.down > before, 30, "layers are fetched", step=0.001)
                disturb()
                return answer.result(60).fetchall()

        def stall():
            proxy.stall()
            services.wait_until(lambda: proxy.held, 30, "something waits")
            proxy.resume()

        assert ask("b", proxy.cut) == expected
        assert ask("c", stall) == expected
        with machine(tmp_path / "d", *store, **place) as con:
            proxy.close()
            with pytest.raises(duckdb.IOException, match="s3://test/") as e:
                con.execute(LAYERS).fetchall()
            assert SECRET not in str(e.value)
            con.execute("CREATE TABLE m.u AS FROM range(1000)")
            con.execute("FROM openduck_seal('m')").fetchall()
            assert con.execute("SELECT count(*) FROM m.u").fetchall() == [(1000,)]
    with machine(tmp_path / "d", *store, **in_bucket(s3)) as con:
        assert con.execute(LAYERS).fetchall() == expected
        assert con.execute("SELECT count(*) FROM m.u").fetchall() == [(1000,)]


def test_no_secret_is_shown(s3, store, tmp_path):
    wrong = {**in_bucket(s3), "SECRET": "hidden-and-wrong", "SESSION_TOKEN": "hidden-token", "TIER": "false"}
    with machine(tmp_path / "a", *store, **wrong) as con:
        fill(con)
        with pytest.raises(duckdb.IOException) as e:
            con.execute("FROM openduck_tier()")
        shown = con.execute("SELECT path FROM duckdb_databases() UNION ALL SELECT secret_string FROM duckdb_secrets()")
        texts = [str(e.value)] + [str(text) for (text,) in shown.fetchall()]
        assert not [text for text in texts if "hidden" in text], texts
        assert con.execute(LAYERS).fetchone()[0] == 300000, "nothing else is hindered"


def test_credentials_of_a_secret_of_type_s3(s3, store, tmp_path):
    con = services.duck(extension_directory=services.ROOT / ".deps" / "extensions")
    with con:
        con.execute("LOAD httpfs")
        con.execute(
            "CREATE SECRET (TYPE s3, KEY_ID '%s', SECRET '%s', ENDPOINT '%s', USE_SSL false, URL_STYLE 'path')"
            % (KEY, SECRET, s3.endpoint)
        )
        con.execute("CREATE SECRET (TYPE openduck_storage, DATA_DIR '%s')" % (tmp_path / "data"))
        con.execute("ATTACH 'openduck://mydb?blob_url=%s' AS m" % store[1])
        _, expected = fill(con)
        assert con.execute("FROM openduck_tier(blob_url := '%s')" % store[1]).fetchall()
        before = len(s3.objects())
        assert before >= 1
        assert con.execute("FROM openduck_tier(blob_url := '%s')" % store[1]).fetchall() == []
        con.execute("INSERT INTO m.t VALUES (-1, 'x')")
        con.execute("DETACH m")
        con.execute("ATTACH 'openduck://mydb?blob_url=%s' AS m" % store[1])
        assert con.execute("SELECT count(*) FROM m.t").fetchall() == [(expected[0][0] + 1,)]


def test_a_directory_will_do(tmp_path):
    (tmp_path / "far").mkdir()
    con = services.duck()
    with con:
        con.execute(
            "CREATE SECRET (TYPE openduck_storage, DATA_DIR '%s', BLOB_URL '%s', KEEP_BYTES 1)"
            % (tmp_path / "data", tmp_path / "far")
        )
        con.execute("ATTACH 'openduck://mydb' AS m")
        _, expected = fill(con)
        con.execute("DETACH m")
        assert con.execute("SELECT sum(bytes) > 1000000 FROM openduck_tier()").fetchall() == [(True,)]
        assert [p for p in (tmp_path / "far").rglob("*") if p.is_file()]
        assert con.execute("SELECT near_bytes < bytes FROM openduck_far()").fetchall() == [(True,)]
        con.execute("ATTACH 'openduck://mydb' AS m")
        assert con.execute(LAYERS).fetchall() == expected


@pytest.mark.parametrize(
    ("sql", "error", "text"),
    [
        ("ATTACH 'openduck://m?blob_url=ftp://x&data_dir={place}' AS m", duckdb.Error, "ftp://x"),
        ("ATTACH 'openduck://m?far=7000&data_dir={place}' AS m", duckdb.BinderException, "blob_url"),
        ("ATTACH 'openduck://m?blob_url=s3://test/x&data_dir={place}' AS m", duckdb.Error, "key"),
        ("FROM openduck_tier(data_dir := '{place}')", duckdb.Error, "blob_url"),
    ],
)
def test_what_cannot_be_named_is_said(tmp_path, sql, error, text):
    (tmp_path / "layers").mkdir()
    with services.duck() as con, pytest.raises(error, match=text):
        con.execute(sql.format(place=tmp_path))
