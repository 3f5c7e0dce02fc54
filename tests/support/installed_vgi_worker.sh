#!/bin/bash
# Installs the library for VGI workers, builds examples/vgi_worker.c with nothing but that, and asks it.
# usage: installed_vgi_worker.sh BUILD_DIR CC [SANITIZERS]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
cmake --install "$1" --component vgi_worker --prefix "$there" >/dev/null
lib=$(dirname "$(find "$there" -name libopenduck_vgi_worker.so)")

# It shows what the header declares, and no more.
grep -o 'od_vgiw_[a-z_]*(' "$there/include/openduck/vgi_worker.h" | tr -d '(' | sort -u >"$there/declared"
nm -D --defined-only "$lib/libopenduck_vgi_worker.so" | awk '{ print $3 }' | grep '^od_\|^Arrow\|^flatcc' | sort -u >"$there/shown"
diff "$there/declared" "$there/shown"

"$2" -std=c99 -Wall -Wextra -Werror ${3:+-fsanitize=$3} -I"$there/include" "$root/examples/vgi_worker.c" \
    -L"$lib" -Wl,-rpath,"$lib" -lopenduck_vgi_worker -o "$there/squares"
"$1/programs/vgi_client" "$there/squares" scan demo main squares 2500 >"$there/said"
grep -q '^bound n:l square:l$' "$there/said"
grep -q '^first rows=2500 sum=3123750 ' "$there/said"
"$1/programs/vgi_client" "$there/squares" scan demo main squares 3 -1 1 >"$there/said"
grep -q '^columns square:l$' "$there/said"
grep -q '^first rows=3 sum=5 ' "$there/said"
