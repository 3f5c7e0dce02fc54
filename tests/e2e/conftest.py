"""What several files of end-to-end tests share."""

import pytest
import vgi_catalogs
import vgi_worker


@pytest.fixture
def nothing_preloaded(monkeypatch):
    """A sanitizer's runtime, which this process needs, is none of a VGI worker's."""
    monkeypatch.delenv("LD_PRELOAD", raising=False)


@pytest.fixture(scope="session", params=vgi_worker.GENERATIONS)
def fixtures(request):
    """A VGI worker of the public SDK with its fixtures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LD_PRELOAD", raising=False)
        with vgi_worker.VgiWorker(request.param) as started:
            yield started


@pytest.fixture
def ex(con, fixtures):
    """A test's own `con` with the SDK's catalog as `ex`."""
    vgi_catalogs.attach(con, fixtures.location, name="example")
    return con
