#!/bin/bash
# Installs the storage library, builds examples/storage.c and tiering.c with nothing but that, and runs them.
# usage: installed_storage.sh BUILD_DIR CC [SANITIZERS]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
cmake --install "$1" --component storage --prefix "$there" >/dev/null
lib=$(dirname "$(find "$there" -name libopenduck_storage.so)")

# It shows what the header declares, and no more.
grep -o 'od_\(store\|volume\|storage\)_[a-z_]*(' "$there/include/openduck/storage.h" | tr -d '(' | sort -u >"$there/declared"
nm -D --defined-only "$lib/libopenduck_storage.so" | awk '{ print $3 }' | grep '^od_\|^sqlite3_\|^XXH' | sort -u >"$there/shown"
diff "$there/declared" "$there/shown"

"$2" -std=c99 -Wall -Wextra -Werror ${3:+-fsanitize=$3} -I"$there/include" "$root/examples/storage.c" \
    -L"$lib" -Wl,-rpath,"$lib" -lopenduck_storage -o "$there/tour"
mkdir "$there/data"
"$there/tour" "$there/data" >"$there/said"
diff - "$there/said" <<'END'
now: hello, geese
then: hello, ducks
snapshot of tour
copy: hello, ducks
END

"$2" -std=c99 -Wall -Wextra -Werror ${3:+-fsanitize=$3} -I"$there/include" "$root/examples/tiering.c" \
    -L"$lib" -Wl,-rpath,"$lib" -lopenduck_storage -o "$there/tiering"
mkdir "$there/near" "$there/far"
"$there/tiering" "$there/near" "$there/far" >"$there/said"
diff - "$there/said" <<'END'
sealed: 0 of 1 layers far away, 1 here
sent: 1 of 1 layers far away, 0 here
read from there: hello, ducks
END
