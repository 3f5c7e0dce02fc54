"""Fixtures of the end-to-end and parity suites. What they start is in e2e/services.py."""

import os
import pathlib
import signal
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "e2e"), str(HERE / "support")]

import services  # noqa: E402

# In the background of a shell SIGINT is ignored, and so it would be in all that the tests start.
# A signal with a handler is set back to its default there.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config):
    return "openduck preset: %s, build: %s" % (services.PRESET, services.BUILD)


def through_a_gateway(item):
    """True for the half of a test that has the same statements go through a separate gateway."""
    params = getattr(item, "callspec", None)
    return bool(params) and any(
        value in ("stack", "gateway") for value in params.params.values() if isinstance(value, str)
    )


def pytest_collection_modifyitems(config, items):
    long = os.environ.get("OPENDUCK_LONG") == "1"
    for item in items:
        if "long" in item.keywords and not long:
            item.add_marker(pytest.mark.skip(reason="long: OPENDUCK_LONG=1 runs it"))
        if services.PRESET == "tsan" and "extension" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="tsan instruments servers only"))
        if services.PRESET == "asan" and "extension" in item.keywords and through_a_gateway(item):
            item.add_marker(pytest.mark.skip(reason="asan: the same statements go through `serve`"))


def environment():
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """A test leaves the environment as it was, and so do fixtures that live on, or those after it would see another."""
    item.environment = environment()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    result = yield
    assert environment() == item.environment, "the environment of the process was changed"
    return result


@pytest.fixture(scope="session", autouse=True)
def built():
    assert services.BINARY.exists(), "no %s: run make build PRESET=%s" % (services.BINARY, services.PRESET)


SAMPLE = (
    "CREATE TABLE t AS SELECT i, 's' || i AS s FROM range(1000) t(i)",
    "CREATE TABLE big AS SELECT i, i * 2 AS j, 'row number ' || i AS s FROM range(3000000) t(i)",
    "CREATE TABLE one AS SELECT 1::INTEGER AS i",
    "CREATE SCHEMA s2",
    "CREATE TABLE s2.u AS SELECT 'x' AS v, 2.5::DECIMAL(9,2) AS d",
    "CREATE VIEW v AS SELECT i, upper(s) AS u FROM t WHERE i < 10",
)


@pytest.fixture(scope="session")
def sample_db(tmp_path_factory):
    """A file with t (1,000 rows), big (3 million), one, s2.u and the view v; copied by who writes."""
    return services.make_database(tmp_path_factory.mktemp("sample") / "sample.duckdb", *SAMPLE)


@pytest.fixture(scope="module")
def server(sample_db, tmp_path_factory):
    """A server of a module's own, with a copy of the sample as `mydb` and an empty `other`."""
    import shutil

    path = tmp_path_factory.mktemp("server")
    shutil.copy(sample_db, path / "mydb.duckdb")
    with services.Serve({"mydb": path / "mydb.duckdb", "other": path / "other.duckdb"}) as s:
        yield s


@pytest.fixture
def remote(server):
    with server.client() as c:
        yield c


@pytest.fixture
def con(server):
    """A DuckDB with `cloud` attached to the module's server."""
    with services.attached(server) as c:
        yield c


@pytest.fixture
def pb():
    return services.stubs()


@pytest.fixture(scope="session")
def postgres():
    from postgres import Postgres

    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def s3():
    from s3 import S3

    with S3() as server:
        yield server


@pytest.fixture
def place(request, tmp_path, monkeypatch):
    """The directory of a store for DuckDB, with its metadata in SQLite unless a test wants more."""
    import stores

    for name, value in stores.environment(request, tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path / "data"


@pytest.fixture
def data(request, tmp_path, monkeypatch):
    """The same for openduck-fuse."""
    import stores
    from mounts import Mount

    monkeypatch.setattr(Mount, "environment", stores.environment(request, tmp_path))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"
