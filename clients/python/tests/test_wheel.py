"""What is installed: one wheel, made for the platform, that works with one DuckDB and says so."""

import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys

import duckdb
import openduck
import pytest
import services
from openduck import _extension

ROOT = services.ROOT
VERSION = re.search(r"project\(openduck VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
DUCKDB = re.search(r"^duckdb ([0-9.]+)$", (ROOT / "deps.lock").read_text(), re.M)[1]


def test_version_is_the_projects_everywhere(con):
    assert openduck.__version__ == importlib.metadata.version("openduck") == VERSION
    sql = "SELECT extension_version FROM duckdb_extensions() WHERE extension_name = 'openduck'"
    assert con.execute(sql).fetchone()[0].removeprefix("v") == VERSION
    assert importlib.metadata.requires("openduck") == ["duckdb==" + DUCKDB]


def test_tag_names_the_newest_glibc_that_is_needed():
    tags = importlib.metadata.distribution("openduck").read_text("WHEEL")
    minor, machine = re.search(r"Tag: py3-none-manylinux_2_(\d+)_(\w+)\n", tags).groups()
    assert machine == services.os.uname().machine
    needed = set()
    for path in (openduck.extension_path(), openduck.extension_path().with_name("libduckdb.so")):
        out = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
        needed |= {int(n) for n in re.findall(r"GLIBC_2\.(\d+)", out)}
    assert max(needed) == int(minor)


def test_the_extension_finds_its_library_in_the_wheel():
    """Not in the build folder: with both gone from sight, it still loads, and what it loads is what lies beside it."""
    code = (
        "import openduck, duckdb; con = duckdb.connect(config={'allow_unsigned_extensions': True})\n"
        "con.load_extension(str(openduck.extension_path()))\n"
        "print(*{l.split()[-1] for l in open('/proc/self/maps') if 'libduckdb.so' in l})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=False)
    assert done.stdout.strip() == str(openduck.extension_path().parent / "libduckdb.so"), done.stderr


def test_licenses_of_what_is_carried_are_there():
    names = {p.suffix[1:] for p in openduck.extension_path().parent.glob("LICENSE.*")}
    assert {"openduck", "duckdb", "nghttp2", "protobuf-c"} <= names


def test_typed():
    assert (pathlib.Path(openduck.__file__).parent / "py.typed").exists()


def test_another_duckdb_is_named(monkeypatch):
    monkeypatch.setattr(duckdb, "__version__", "1.4.2")
    with pytest.raises(duckdb.NotSupportedError) as e:
        openduck.connect("sales")
    assert "1.4.2" in str(e.value) and f"pip install duckdb=={DUCKDB}" in str(e.value)


def test_a_missing_extension_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(_extension, "extension_path", lambda: tmp_path / "openduck.duckdb_extension")
    with pytest.raises(duckdb.NotSupportedError, match="wheel"):
        openduck.connect("sales")


def copied(tmp_path, change):
    """The extension with its footer changed, beside its library."""
    source = openduck.extension_path()
    data = source.read_bytes()
    path = tmp_path / source.name
    path.write_bytes(change(data[:-512], data[-512:]))
    shutil.copy(source.parent / "libduckdb.so", tmp_path)
    return path


@pytest.mark.parametrize(
    "change, word",
    [
        (lambda code, foot: code + foot.replace(b"linux_", b"osxno_"), "osxno_"),
        (lambda code, foot: bytes(len(code)) + foot, "openduck"),
        (lambda code, foot: b"", "openduck"),
    ],
    ids=["another platform", "a damaged file", "an empty file"],
)
def test_an_extension_that_does_not_load_is_named(monkeypatch, tmp_path, change, word):
    path = copied(tmp_path, change)
    monkeypatch.setattr(_extension, "extension_path", lambda: path)
    with pytest.raises(duckdb.Error, match=word):
        openduck.connect("sales")
    assert duckdb.connect().execute("SELECT 1").fetchone() == (1,)
