#!/bin/bash
# A database of differential storage as files: a DuckDB that knows nothing of it writes one, and reads its snapshots.
# usage: examples/fuse.sh      environment: PRESET, DUCKDB (default: .deps/venv/bin/duckdb); needs /dev/fuse
set -euo pipefail
cd "$(dirname "$0")/.."
fuse=build/${PRESET:-release}/bin/openduck-fuse
duckdb=${DUCKDB:-.deps/venv/bin/duckdb}
dir=$(mktemp -d)
mkdir "$dir/data" "$dir/mnt"
end() {
    kill "$pid" 2>/dev/null && wait "$pid"
    rm -rf "$dir"
}
mkfifo "$dir/ready"
"$fuse" --data-dir "$dir/data" sales "$dir/mnt" >"$dir/ready" &
pid=$!
trap end EXIT
read -r _ <"$dir/ready"
ask() { "$duckdb" -csv -noheader "$@"; }

ask "$dir/mnt/database.duckdb" 'CREATE TABLE orders AS FROM range(10000) r(id)'
snapshot=$("$fuse" --seal "$dir/mnt")
ask "$dir/mnt/database.duckdb" 'DELETE FROM orders WHERE id >= 100'
printf 'now: %s orders\n' "$(ask "$dir/mnt/database.duckdb" 'SELECT count(*) FROM orders')"
printf 'then: %s orders\n' "$(ask -readonly "$dir/mnt/snapshots/$snapshot/database.duckdb" 'SELECT count(*) FROM orders')"
