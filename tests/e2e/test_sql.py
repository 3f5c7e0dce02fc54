"""The sqllogictest files of tests/sql, each against a server of its own."""

import importlib.util

import pytest
import services

HERE = services.ROOT / "tests" / "sql"
pytestmark = pytest.mark.extension


def runner():
    spec = importlib.util.spec_from_file_location("sql_run", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", sorted(HERE.rglob("*.test")), ids=lambda p: str(p.relative_to(HERE)))
def test_file(file):
    runner().run(file)
