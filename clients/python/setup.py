"""Builds the wheel `openduck`: the Python files, and the extension of a CMake build with the library it runs on.

Version and dependency are not written down here: CMakeLists.txt says which version the project has, deps.lock which
DuckDB it is built for. OPENDUCK_BUILD names the build folder (default: build/release of this repository).
"""

import os
import pathlib
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("OPENDUCK_BUILD", ROOT / "build" / "release"))
DEPS = ROOT / ".deps"
SCRATCH = ROOT / "build" / "wheel"

LIBRARIES = ("openduck.duckdb_extension", "libduckdb.so")

# What is compiled in, or lies beside: whose words go with every copy.
LICENSES = {
    "openduck": ROOT / "LICENSE",
    "duckdb": DEPS / "duckdb" / "lib" / "LICENSE",
    "nghttp2": DEPS / "nghttp2" / "COPYING",
    "flatcc-nanoarrow": DEPS / "nanoarrow" / "flatcc" / "LICENSE",  # both: Apache 2.0
    "protobuf-c": pathlib.Path("/usr/share/doc/libprotobuf-c-dev/copyright"),
}

# What every Linux with glibc has (PEP 600).
SYSTEM = re.compile(r"lib(c|m|dl|pthread|stdc\+\+|gcc_s)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")


def found(pattern, file):
    """What the one line of FILE that matches PATTERN says."""
    match = re.search(pattern, file.read_text(), re.M)
    if not match:
        raise SystemExit(f"setup.py: {file} lacks a line like {pattern}")
    return match[1]


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True).stdout


def platform_tag():
    """manylinux of the newest glibc that a library needs; refuses one that needs what the wheel does not carry."""
    newest = (2, 17)
    for name in LIBRARIES:
        path = BUILD / "ext" / name
        for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", path)):
            if needed not in LIBRARIES and not SYSTEM.fullmatch(needed):
                raise SystemExit(f"setup.py: {path} needs {needed}, which other hosts may lack")
        versions = re.findall(r"Name: GLIBC_2\.(\d+)", readelf("-V", path))
        newest = max(newest, *((2, int(minor)) for minor in versions))
    return "manylinux_%d_%d_%s" % (*newest, os.uname().machine)


class Build(build_py):
    """Puts the libraries, and the licenses, into the package."""

    def run(self):
        shutil.rmtree(self.build_lib, ignore_errors=True)  # what an earlier build left would be packed too
        super().run()
        missing = [str(BUILD / "ext" / name) for name in LIBRARIES if not (BUILD / "ext" / name).exists()]
        if missing:
            raise SystemExit("setup.py: no %s: run make build first" % " and no ".join(missing))
        out = pathlib.Path(self.build_lib) / "openduck" / "lib"
        out.mkdir(parents=True, exist_ok=True)
        for name in LIBRARIES:
            shutil.copy2(BUILD / "ext" / name, out / name)
        for name, path in LICENSES.items():
            shutil.copy(path, out / f"LICENSE.{name}")


class Wheel(bdist_wheel):
    """One wheel for every Python 3 of the platform: no library of it knows Python."""

    def get_tag(self):
        return "py3", "none", platform_tag()


class OfPlatform(Distribution):
    def has_ext_modules(self):
        return True


(SCRATCH / "egg").mkdir(parents=True, exist_ok=True)
setup(
    version=found(r"^project\(openduck VERSION ([0-9.]+)", ROOT / "CMakeLists.txt"),
    install_requires=["duckdb==" + found(r"^duckdb +([0-9.]+)$", ROOT / "deps.lock")],
    distclass=OfPlatform,
    cmdclass={"build_py": Build, "bdist_wheel": Wheel},
    options={"build": {"build_base": str(SCRATCH)}, "egg_info": {"egg_base": str(SCRATCH / "egg")}},
)
