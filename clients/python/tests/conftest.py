"""The installed wheel against `openduck serve`. `scripts/wheel.sh --venv DIR` makes the environment that runs this."""

import pathlib
import shutil

import pytest
import services

SAMPLE = (
    "CREATE TABLE t AS SELECT i, 's' || i AS s FROM range(1000) t(i)",
    "CREATE TABLE one AS SELECT 1::INTEGER AS i",
    "CREATE SCHEMA s2",
    "CREATE TABLE s2.u AS SELECT 'x' AS v",
)
TOKEN = "geh'eim & %41+"


@pytest.fixture(scope="session", autouse=True)
def installed():
    import openduck

    path = pathlib.Path(openduck.__file__)
    assert "site-packages" in path.parts, f"{path} is no installed wheel: scripts/wheel.sh --venv build/client-venv"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("ENDPOINT", "TOKEN", "TLS_CA", "TLS_CERT", "TLS_KEY"):
        monkeypatch.delenv("OPENDUCK_" + name, raising=False)


@pytest.fixture(scope="session")
def sample(tmp_path_factory):
    return services.make_database(tmp_path_factory.mktemp("sample") / "sample.duckdb", *SAMPLE)


def serve(sample, path, token=None):
    shutil.copy(sample, path / "sales.duckdb")
    databases = {"sales": path / "sales.duckdb", "hr": path / "hr.duckdb", "my-db.v2": path / "odd.duckdb"}
    return services.Serve(databases, token=token)


@pytest.fixture(scope="module")
def server(sample, tmp_path_factory):
    with serve(sample, tmp_path_factory.mktemp("open")) as s:
        yield s


@pytest.fixture(scope="module")
def guarded(sample, tmp_path_factory):
    """A server that wants TOKEN."""
    with serve(sample, tmp_path_factory.mktemp("guarded"), TOKEN) as s:
        yield s


@pytest.fixture
def con(server):
    import openduck

    with openduck.connect("sales", endpoint=server.url, threads=2) as c:
        yield c
