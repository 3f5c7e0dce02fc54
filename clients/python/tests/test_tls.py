"""connect over https://."""

import duckdb
import openduck
import pytest
import services
import tls_files
from conftest import TOKEN


@pytest.fixture(scope="module")
def server():
    with services.Serve({"sales": ":memory:"}, *tls_files.listen(client_ca="ca"), token=TOKEN) as s:
        yield s


def test_files_are_given_as_paths(server):
    files = {"tls_ca": "ca.pem", "tls_cert": "client.pem", "tls_key": "client.key"}
    paths = {key: tls_files.folder() / name for key, name in files.items()}
    with openduck.connect("sales", endpoint=server.url, token=TOKEN, **paths) as con:
        con.execute("CREATE OR REPLACE TABLE t AS SELECT 42 AS i")
        openduck.attach(con, "sales", alias="again", endpoint=server.url, token=TOKEN, **paths)
        assert con.execute("FROM again.t").fetchall() == [(42,)]


def test_files_are_given_by_the_environment(server, monkeypatch):
    for name, file in (("CA", "ca.pem"), ("CERT", "client.pem"), ("KEY", "client.key")):
        monkeypatch.setenv("OPENDUCK_TLS_" + name, tls_files.path(file))
    with openduck.connect("sales", endpoint=server.url, token=TOKEN) as con:
        assert con.execute("SELECT 42").fetchall() == [(42,)]


@pytest.mark.parametrize(
    "files, word",
    [
        ({}, "unable to get local issuer certificate"),
        ({"tls_ca": "other-ca.pem"}, "unable to get local issuer certificate"),
        ({"tls_ca": "ca.pem"}, "the server asks for a client certificate"),
    ],
)
def test_wrong_files_are_refused(server, files, word):
    paths = {key: tls_files.path(name) for key, name in files.items()}
    with pytest.raises(duckdb.IOException, match=word) as e:
        openduck.connect("sales", endpoint=server.url, token=TOKEN, **paths)
    assert TOKEN not in str(e.value)
