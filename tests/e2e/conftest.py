"""What several files of end-to-end tests share."""

import pytest
import services
import vgi_catalogs
import vgi_worker

#: How sanitizers report.
SANITIZERS = ("ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")


@pytest.fixture
def nothing_preloaded(monkeypatch):
    """A VGI worker is started as a server is: a sanitizer's runtime, which this process needs, is none of its."""
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    server = services.server_env()
    for name in SANITIZERS:
        monkeypatch.setenv(name, server[name])


@pytest.fixture(scope="session", params=vgi_worker.KINDS, ids=vgi_worker.IDS)
def fixtures(request):
    """A VGI worker with the catalog of the public SDK's fixtures: theirs, or ours."""
    peer, generation = request.param
    with vgi_worker.VgiWorker(generation, peer=peer) as started:
        yield started


@pytest.fixture
def ex(con, fixtures):
    """A test's own `con` with that catalog as `ex`."""
    vgi_catalogs.attach(con, fixtures.location, name="example")
    return con
