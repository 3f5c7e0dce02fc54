#!/bin/bash
# Builds and runs every suite. usage: scripts/test.sh [preset...]   (default: release asan tsan)
# Every suite runs even if one before it failed; the runners' own closing lines come again at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh || exit 1
presets=("$@")
[ $# -gt 0 ] || presets=(release asan tsan)
logs=build/logs
mkdir -p "$logs"
status=0
closing=()

step() { printf '\n== %s\n' "$1"; }

# note SUITE RUNNER LOG CODE: keeps the closing line of a suite, and whether it failed.
note() {
    local line
    case $2 in
    ctest) line=$(grep -E '^[0-9]+% tests passed' "$3" | tail -1) ;;
    pytest) line=$(grep -E '^(=+ )?.*[0-9]+ (passed|failed|error).* in [0-9.]+s' "$3" | tail -1) ;;
    *) line=$(tail -1 "$3") ;;
    esac
    closing+=("-- $1" "${line:-no closing line}")
    if [ "$4" != 0 ]; then
        status=1
        closing+=("-- $1 FAILED")
    fi
}

for preset in "${presets[@]}"; do
    step "build $preset"
    if ! { cmake --preset "$preset" --log-level=WARNING >/dev/null && cmake --build --preset "$preset"; } \
        >"$logs/build-$preset.log" 2>&1; then
        tail -60 "$logs/build-$preset.log"
        closing+=("-- build $preset FAILED")
        status=1
        continue
    fi
    step "ctest $preset"
    ctest --preset "$preset" 2>&1 | tee "$logs/ctest-$preset.log"
    note "ctest $preset" ctest "$logs/ctest-$preset.log" "${PIPESTATUS[0]}"
done

# The suites that drive the built programs from outside.
export OD_BUILD_DIR="$PWD/build/${presets[0]}"
for suite in clients/python/tests tests/e2e tests/parity; do
    compgen -G "$suite/**/test_*.py" >/dev/null || compgen -G "$suite/test_*.py" >/dev/null || continue
    step "pytest $suite"
    log=$logs/pytest-${suite//\//-}.log
    .deps/venv/bin/python -m pytest -q --timeout 120 "$suite" 2>&1 | tee "$log"
    note "pytest $suite" pytest "$log" "${PIPESTATUS[0]}"
done
if [ -f tests/sql/run.py ]; then
    step "sql"
    .deps/venv/bin/python tests/sql/run.py 2>&1 | tee "$logs/sql.log"
    note sql sql "$logs/sql.log" "${PIPESTATUS[0]}"
fi

step "closing lines"
printf '%s\n' "${closing[@]}"
exit $status
