"""Secrets that a catalog's service has: what DuckDB finds there, how long, and what it is told. The service is the
public SDK's server with secrets of the tests' own; S3 is a real server."""

import contextlib
import json
import threading

import duckdb
import pytest
import s3 as s3_server
import services
import vgi_catalogs
import vgi_worker
from vgi_catalogs import attach, one, refused, rows

pytestmark = [pytest.mark.extension, pytest.mark.usefixtures("nothing_preloaded")]
SUPPORT = str(services.ROOT / "tests" / "support")
LAKE = "vgi_companion"
HTTP = ("--http", "127.0.0.1:0")
HIDDEN = "never-shown-to-anybody"


@pytest.fixture
def con():
    con = vgi_catalogs.connect()
    con.execute("SET extension_directory = '%s'" % (services.ROOT / ".deps" / "extensions"))
    con.execute("CALL enable_logging('VGI')")
    yield con
    con.close()


class Secrets:
    """What a service has: a file that it reads at each call. `location` is where it is."""

    def __init__(self, folder, name, generation="2.2"):
        self.file, self.calls = folder / (name + ".json"), folder / (name + ".calls")
        self.generation, self.told = generation, {"calls": str(self.calls)}
        self.say()

    def say(self, **told):
        self.told.update(told)
        whole = self.file.with_suffix(".new")
        whole.write_text(json.dumps(self.told))
        whole.rename(self.file)

    def environment(self):
        path = vgi_worker.variables(self.generation)["PYTHONPATH"]
        return {"VGI_SECRETS": str(self.file), "PYTHONPATH": path + ":" + SUPPORT}

    def asked(self):
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [(line["type"], line["path"]) for line in map(json.loads, lines)]

    def __enter__(self):
        module = "vgi.secret_service vgi_secrets:Service --host 127.0.0.1"
        self.worker = vgi_worker.VgiWorker(self.generation, "http", module, self.environment())
        self.location = self.worker.__enter__().location
        return self

    def __exit__(self, *why):
        self.worker.__exit__(*why)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Two services of this module's."""
    folder = tmp_path_factory.mktemp("secrets")
    with Secrets(folder, "first") as first, Secrets(folder, "second") as second:
        yield first, second


@pytest.fixture
def two(running):
    """The same, with nothing said yet."""
    for service in running:
        service.told = {"calls": str(service.calls)}
        service.say()
        service.calls.write_text("")
    return running


@pytest.fixture
def service(two):
    return two[0]


@pytest.fixture
def catalog(tmp_path):
    """Makes the location of a catalog that names a service at a URL."""
    database = tmp_path / "hot.duckdb"
    with duckdb.connect(database) as con:
        con.execute("CREATE TABLE numbers AS SELECT 42 AS n")
    with contextlib.ExitStack() as stack:

        def serve(url, *options):
            layout = tmp_path / ("layout%d" % len(list(tmp_path.glob("layout*"))))
            layout.write_text("[catalog]\nsecret_service = %s\n" % url)
            command = [services.BUILD / "bin" / "openduck", "vgi-serve", "--db", database, "--catalog", "companion"]
            command += ["--layout", layout, *options]
            if not options:
                return " ".join(map(str, command))
            return stack.enter_context(vgi_catalogs.Listening(*command)).location

        yield serve


def s3_secret(key="k", **more):
    return {"type": "s3", "values": {"key_id": key, "secret": HIDDEN}, **more}


def which(con, path="s3://bucket/x", type_="s3"):
    found = rows(con, "SELECT name, storage FROM which_secret('%s', '%s')" % (path, type_))
    return found[0] if found else None


def events(con, event):
    return [row[0] for row in rows(con, "SELECT info FROM duckdb_logs_parsed('VGI') WHERE event = '%s'" % event)]


def bucket_secret(s3, **more):
    values = {"key_id": s3_server.KEY, "secret": s3_server.SECRET, "region": "us-east-1", "endpoint": s3.endpoint}
    return {"type": "s3", "scope": ["s3://test"], "values": {**values, "url_style": "path", "use_ssl": False}, **more}


@pytest.mark.parametrize("generation", vgi_worker.GENERATIONS)
def test_a_lake_in_a_bucket_is_read_with_what_the_service_has(con, tmp_path, s3, generation):
    con.execute("LOAD ducklake; LOAD sqlite_scanner; LOAD httpfs")
    place = "s3://test/lake%s" % generation.replace(".", "_")
    lake = {"alias": LAKE, "target": "ducklake:sqlite:%s" % (tmp_path / "meta.sqlite")}
    with Secrets(tmp_path, "service", generation) as service:
        lake["options"] = {"DATA_PATH": place}
        service.say(secrets=[bucket_secret(s3)], url=service.location, companions=[lake])
        serve = "vgi.serve vgi_secrets:Worker"
        with vgi_worker.VgiWorker(generation, "http", serve, service.environment()) as worker:
            attach(con, worker.location)
            con.execute("CREATE TABLE vgi_companion.events AS SELECT range AS id, 'v' || range AS val FROM range(2000)")
            files = [p for p in s3.objects() if place.rsplit("/", 1)[1] in str(p)]
            assert files and sum(p.stat().st_size for p in files) > 2000
            assert rows(con, "SELECT count(*), min(val), max(id) FROM ex.data.hot_cold") == [(2000, "v0", 1999)]
            assert one(con, "SELECT val FROM ex.hot_cold WHERE id = 1234") == "v1234"
            assert {path.split("/")[2] for kind, path in service.asked() if kind == "s3"} == {"test"}
            # Nobody made a secret here, and none is listed.
            assert rows(con, "FROM duckdb_secrets()") == []
            read = "SELECT count(*) FROM read_parquet('%s/**/*.parquet')" % place
            assert one(con, read) == 2000
            con.execute("DETACH ex")
            assert one(con, "SELECT count(*) FROM duckdb_databases() WHERE database_name = '%s'" % LAKE) == 0
            with pytest.raises(duckdb.Error):
                con.execute("SET s3_endpoint = '%s'; SET s3_url_style = 'path'; SET s3_use_ssl = false" % s3.endpoint)
                con.execute(read).fetchall()
    logged = str(rows(con, "SELECT message FROM duckdb_logs"))
    assert "secret.lookup" in logged and s3_server.SECRET not in logged


def test_a_secret_is_found_as_long_as_a_catalog_is_attached(con, service, catalog):
    service.say(secrets=[s3_secret(name="served")])
    assert which(con) is None
    attach(con, catalog(service.location, *HTTP))
    assert which(con) == ("served", "vgi")
    assert which(con, "gcs://bucket/x", "gcs") is None
    assert [e["endpoint"] for e in events(con, "vgi.secret_service_attach")] == [service.location]
    assert [(e["type"], e["outcome"]) for e in events(con, "secret.lookup")] == [("s3", "found"), ("gcs", "not_found")]
    con.execute("DETACH ex")
    assert which(con) is None
    # A rollback is an end, too.
    con.execute("BEGIN")
    attach(con, catalog(service.location, *HTTP))
    con.execute("ROLLBACK")
    assert which(con) is None


def test_secrets_of_ones_own_come_first_and_their_paths_are_not_told(con, service, catalog):
    service.say(secrets=[s3_secret(scope=["s3://bucket/deep/path/"])])
    attach(con, catalog(service.location, *HTTP))
    con.execute("CREATE SECRET mine (TYPE http, BEARER_TOKEN 'x')")
    assert which(con, "https://example.com/x", "http") == ("mine", "memory")
    assert service.asked() == []
    # Where none of one's own fits, the service's does.
    assert which(con, "s3://bucket/deep/path/x")[0] == "served"
    assert which(con, "s3://bucket/x") is None


def test_answers_are_kept_for_their_time(con, service, catalog):
    attach(con, catalog(service.location, *HTTP))
    service.say(secrets=[s3_secret(ttl=60)])
    assert [which(con) is not None for _ in range(3)] == [True] * 3
    assert len(service.asked()) == 1
    assert which(con, "s3://bucket/y") is not None and len(service.asked()) == 2
    # A credential that ends sooner is not kept longer.
    service.say(secrets=[s3_secret(ttl=60, expires_in=2, name="short")])
    assert which(con, "s3://bucket/z")[0] == "short"
    service.say(secrets=[s3_secret(name="next")])
    services.wait_until(lambda: which(con, "s3://bucket/z")[0] == "next", 10, "the next one")
    # That there is none is kept as well.
    service.say(secrets=[])
    asked = len(service.asked())
    assert [which(con, "s3://none") for _ in range(3)] == [None] * 3
    assert len(service.asked()) == asked + 1


def test_a_service_that_fails_is_an_error_and_asked_again(con, service, catalog):
    attach(con, catalog(service.location, *HTTP))
    service.say(fault="no idea, password=%s" % HIDDEN)
    sql = "FROM which_secret('s3://bucket/x', 's3')"
    why = refused(con, sql, "VGI remote secret lookup failed [endpoint: %s, type: s3]: " % service.location)
    assert "no idea" in str(why) and HIDDEN not in str(why)
    (event,) = events(con, "secret.lookup")
    assert event["outcome"] == "error" and HIDDEN not in str(event)
    del service.told["fault"]
    service.say(secrets=[s3_secret()])
    assert which(con)[0] == "served"


def test_each_service_has_its_own_and_one_that_fails_harms_no_other(con, two, catalog):
    first, second = two
    first.say(secrets=[s3_secret(name="wide"), s3_secret(name="same", scope=["s3://same"])])
    second.say(secrets=[s3_secret(name="narrow", scope=["s3://bucket"]), s3_secret(name="too", scope=["s3://same"])])
    attach(con, catalog(first.location, *HTTP), "a")
    attach(con, catalog(second.location, *HTTP), "b")
    assert [which(con, path)[0] for path in ("s3://other", "s3://bucket/x", "s3://same")] == ["wide", "narrow", "same"]
    first.say(fault="down")
    assert which(con, "s3://bucket/y")[0] == "narrow"
    refused(con, "FROM which_secret('s3://nobodys', 's3')", "down")
    con.execute("DETACH a")
    assert which(con, "s3://nobodys") is None
    assert which(con, "s3://same")[0] == "too"
    con.execute("DETACH b")
    assert which(con, "s3://bucket/y") is None


@pytest.mark.parametrize(
    "url",
    [
        "http://secrets.example/x",
        "ftp://127.0.0.1/x",
        "http://localhost.example/",
        "https://user:%s@secrets.example/" % HIDDEN,
        "https://secrets.example/?token=%s" % HIDDEN,
    ],
)
def test_a_service_elsewhere_without_tls_is_not_asked(con, catalog, url):
    attach(con, catalog(url, *HTTP))
    (event,) = events(con, "vgi.secret_service_attach.skipped")
    assert event["catalog"] == "ex" and event["reason"]
    assert which(con) is None and one(con, "FROM ex.numbers") == 42
    shown = str(rows(con, "SELECT message FROM duckdb_logs")) + str(rows(con, "FROM duckdb_databases()"))
    assert HIDDEN not in shown


def test_the_user_can_do_without(con, service, catalog):
    service.say(secrets=[s3_secret()])
    attach(con, catalog(service.location, *HTTP), secrets="false")
    attach(con, catalog(service.location), "piped")
    assert which(con) is None and service.asked() == []
    reasons = [e["reason"] for e in events(con, "vgi.secret_service_attach.skipped")]
    assert reasons == ["SECRETS false", "only a catalog at a URL may have a secret service"]


def test_nothing_is_stored_at_a_service(con, service, catalog):
    attach(con, catalog(service.location, *HTTP))
    refused(con, "CREATE TEMPORARY SECRET s IN vgi (TYPE http, BEARER_TOKEN 'x')", "read-only")
    refused(con, "CREATE PERSISTENT SECRET s IN vgi (TYPE http, BEARER_TOKEN 'x')", "temporary secret storage")
    refused(con, "DROP SECRET served FROM vgi", "read-only")


def test_who_wants_the_same_waits_for_one_call_and_may_be_interrupted(con, service, catalog):
    service.say(secrets=[s3_secret()], delay=5)
    attach(con, catalog(service.location, *HTTP))
    cursors, found = [con.cursor() for _ in range(8)], []
    threads = [threading.Thread(target=lambda c=c: found.append(which(c))) for c in cursors]
    for thread in threads:
        thread.start()
    services.wait_until(service.asked, 30, "the service is asked")
    # Nothing else waits meanwhile: not for secrets of one's own, not for a catalog.
    con.execute("CREATE SECRET mine (TYPE http, BEARER_TOKEN 'x')")
    assert which(con, "https://example.com/x", "http")[0] == "mine"
    assert one(con, "FROM ex.numbers") == 42
    assert found == []
    for thread in threads:
        thread.join()
    assert found == [("served", "vgi")] * 8 and len(service.asked()) == 1
    errors = []

    def ask(cursor):
        try:
            which(cursor, "s3://bucket/slow")
        except duckdb.Error as why:
            errors.append(why)

    threads = [threading.Thread(target=ask, args=(c,)) for c in cursors[:2]]
    for thread in threads:
        thread.start()
    services.wait_until(lambda: len(service.asked()) > 1, 30, "the service is asked")
    for cursor in cursors[:2]:
        cursor.interrupt()
    for thread in threads:
        thread.join()
    assert [type(e) for e in errors] == [duckdb.InterruptException] * 2


def test_another_catalogs_worker_is_given_none_of_it(con, service, catalog, tmp_path):
    service.say(secrets=[{"type": "acme", "values": {"key": HIDDEN}}])
    attach(con, catalog(service.location, *HTTP))
    worker = vgi_catalogs.SpecWorkers(tmp_path)
    functions = {"f": {"columns": {"n": "int64"}, "rows": [[1]], "secret": "acme"}}
    attach(con, worker("other", secret_types={"acme": {"key": "string"}}, functions=functions), "other", "other")
    assert rows(con, "FROM other.f()") == [(1,)]
    assert service.asked() == []
