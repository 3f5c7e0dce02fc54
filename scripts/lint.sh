#!/bin/bash
# Everything that reads the sources without running them: includes, format, ruff, clang-tidy.
# usage: scripts/lint.sh [C files...]   (default: all of src/, cli/, fuse/)
set -euo pipefail
cd "$(dirname "$0")/.."
status=0

python3 scripts/check_includes.py || status=1
scripts/format.sh --check || status=1
.deps/venv/bin/ruff check -q . || status=1

if [ $# -gt 0 ]; then
    files=("$@")
else
    mapfile -t files < <(find src cli fuse -name '*.c' 2>/dev/null | sort)
fi
if [ ${#files[@]} -gt 0 ]; then
    # clang reads the flags that it was given itself: the fuzz preset's.
    cmake --preset fuzz --log-level=ERROR >/dev/null
    cmake --build --preset fuzz --target od_generated >/dev/null
    printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P 2 clang-tidy-14 -p build/fuzz --quiet 2>/dev/null || status=1
fi
[ "$status" = 0 ] && echo "lint: clean"
exit $status
