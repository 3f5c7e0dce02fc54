#!/bin/bash
# Rewrites the sources in house style, or with --check only says which files differ (and fails).
# usage: scripts/format.sh [--check] [files...]
set -euo pipefail
cd "$(dirname "$0")/.."
check=
if [ "${1:-}" = --check ]; then check=1; shift; fi

if [ $# -gt 0 ]; then
    files=("$@")
else
    mapfile -t files < <(git ls-files -co --exclude-standard '*.c' '*.h' '*.cpp' '*.hpp' '*.py')
fi
c=() py=()
for f in "${files[@]}"; do
    [ -f "$f" ] || continue
    case $f in
    *.py) py+=("$f") ;;
    *.c | *.h | *.cpp | *.hpp) c+=("$f") ;;
    esac
done

status=0
if [ ${#c[@]} -gt 0 ]; then
    mode=(-i)
    if [ -n "$check" ]; then mode=(--dry-run --Werror); fi
    clang-format-14 --style=file "${mode[@]}" "${c[@]}" || status=1
fi
if [ ${#py[@]} -gt 0 ]; then
    .deps/venv/bin/ruff format -q ${check:+--check} "${py[@]}" || status=1
fi
if [ "$status" != 0 ]; then echo "format: run scripts/format.sh" >&2; fi
exit $status
