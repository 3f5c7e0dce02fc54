#!/bin/bash
# Everything that reads the sources without running them: includes, docs, format, ruff, mypy, clang-tidy, gcc's analyzer.
# usage: scripts/lint.sh [C files...]   (default: all of src/, cli/, fuse/)
set -euo pipefail
cd "$(dirname "$0")/.."
status=0

python3 scripts/check_includes.py || status=1
python3 scripts/gen_docs.py --check || status=1
scripts/format.sh --check || status=1
.deps/venv/bin/ruff check -q . || status=1
(cd clients/python && ../../.deps/venv/bin/mypy --no-error-summary --cache-dir=../../build/mypy) || status=1

if [ $# -gt 0 ]; then
    files=("$@")
else
    mapfile -t files < <(find src cli fuse -name '*.c' 2>/dev/null | sort)
fi
if [ ${#files[@]} -gt 0 ]; then
    # clang reads the flags that it was given itself: the fuzz preset's.
    cmake --preset fuzz --log-level=ERROR >/dev/null
    cmake --build --preset fuzz --target od_generated >/dev/null
    tidy() { clang-tidy-14 -p build/fuzz --quiet "$@" 2>/dev/null || return 1; }
    export -f tidy
    for f in "${files[@]}"; do
        hint="--extra-arg=-include$PWD/scripts/analyzer.h"
        [ "$f" != src/base/error.c ] || hint=--extra-arg=-DOD_LINT
        printf '%s\0%s\0' "$hint" "$f"
    done | xargs -0 -n 2 -P 2 bash -c 'tidy "$@"' tidy || status=1

    analyze() {
        gcc -std=c11 -O2 -D_GNU_SOURCE -DNGHTTP2_STATICLIB -DOD_VERSION='"0"' -fanalyzer -Werror -DXXH_INLINE_ALL -Isrc -Iinclude -I. -Ibuild/fuzz/gen \
            $(pkg-config --cflags fuse3 libpq) -isystem .deps/nghttp2/include -isystem .deps/duckdb/include -isystem .deps/nanoarrow/include \
            -isystem .deps/nanoarrow/include/nanoarrow -isystem .deps/nanoarrow/src -isystem .deps/nanoarrow/flatcc/include \
            "$1" -c "$2" -o /dev/null
    }
    export -f analyze
    for f in "${files[@]}"; do
        hint=-includescripts/analyzer.h
        [ "$f" != src/base/error.c ] || hint=-DOD_LINT
        printf '%s\0%s\0' "$hint" "$f"
    done | xargs -0 -n 2 -P 2 bash -c 'analyze "$@"' analyze || status=1
fi
[ "$status" = 0 ] && echo "lint: clean"
exit $status
