#!/bin/bash
# Builds the Python package's wheel from a release build into dist/, without network.
# usage: scripts/wheel.sh [--venv DIR]     --venv: also makes DIR a fresh environment with the wheel installed, which sees
# the packages of .deps/venv but no index; environment: PRESET (release)
set -euo pipefail
cd "$(dirname "$0")/.."
python=.deps/venv/bin/python
pip() { "$python" -m pip --disable-pip-version-check -q "$@"; }

rm -f dist/openduck-*.whl
OPENDUCK_BUILD=$PWD/build/${PRESET:-release} pip wheel --no-index --no-deps --no-build-isolation -w dist clients/python
wheel=$(ls dist/openduck-*.whl)
echo "$wheel"

if [ "${1:-}" = --venv ]; then
    venv=$2
    rm -rf "$venv"
    "$python" -m venv --without-pip "$venv"
    "$python" -c 'import site; print(*site.getsitepackages())' \
        >"$("$venv/bin/python" -c 'import site; print(*site.getsitepackages())')/deps.pth"
    # With its dependencies checked: the metadata must be met by what is there.
    pip --python "$venv/bin/python" install --no-index "$wheel"
fi
