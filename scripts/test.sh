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
host=() # environment of the interpreter that runs pytest
python=.deps/venv/bin/python

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

# suite NAME PATH...: the pytest suite of that folder or these files, into its log.
suite() {
    local name=$1
    shift
    env "OPENDUCK_PRESET=${preset:-release}" "${host[@]}" "$python" -m pytest -q "$@" >"$logs/pytest-${name// /-}.log" 2>&1
}

# half N: the first or second half of the end-to-end tests, about as long as the other.
half() { ls -S tests/e2e/test_*.py | awk -v n="$1" '(NR % 4 < 2) == (n == 1)'; }

# told NAME CODE: shows the log of a suite that has ended, and notes how.
told() {
    step "pytest $1"
    cat "$logs/pytest-${1// /-}.log"
    note "pytest $1" pytest "$logs/pytest-${1// /-}.log" "$2"
}

build() { { cmake --preset "$1" --log-level=WARNING && cmake --build --preset "$1"; } >"$logs/build-$1.log" 2>&1; }

build "${presets[0]}" &
built=$!
for i in "${!presets[@]}"; do
    preset=${presets[i]}
    step "build $preset"
    wait "$built"
    failed=$?
    # The tests leave time over: the next preset is built in it.
    if [ $((i + 1)) -lt ${#presets[@]} ]; then
        (renice -n 19 $BASHPID >/dev/null && build "${presets[i + 1]}") &
        built=$!
    fi
    if [ "$failed" != 0 ]; then
        tail -60 "$logs/build-$preset.log"
        closing+=("-- build $preset FAILED")
        status=1
        continue
    fi
    step "ctest $preset"
    ctest --preset "$preset" 2>&1 | tee "$logs/ctest-$preset.log"
    note "ctest $preset" ctest "$logs/ctest-$preset.log" "${PIPESTATUS[0]}"
    host=()
    if [ "$preset" = asan ]; then
        # The extension is instrumented too: the interpreter that loads it needs the runtimes before anything else.
        host=("LD_PRELOAD=$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
            "ASAN_OPTIONS=detect_leaks=0" "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1")
    fi
    # Side by side: all wait a lot.
    jobs=()
    for n in 1 2; do
        suite "e2e $n $preset" $(half $n) &
        jobs+=($!)
    done
    suite "parity $preset" tests/parity
    parity=$?
    for n in 1 2; do
        wait "${jobs[n - 1]}"
        told "e2e $n $preset" $?
    done
    told "parity $preset" "$parity"
done
if [[ " ${presets[*]} " == *" release "* ]]; then
    step "wheel"
    preset=release host=() python=build/client-venv/bin/python
    if PRESET=release scripts/wheel.sh --venv build/client-venv >"$logs/wheel.log" 2>&1; then
        suite clients clients/python/tests
        told clients $?
    else
        tail -60 "$logs/wheel.log"
        closing+=("-- wheel FAILED")
        status=1
    fi
fi

step "closing lines"
printf '%s\n' "${closing[@]}"
exit $status
