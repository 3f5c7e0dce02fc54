#!/bin/bash
# One table at a VGI worker: its new rows in a database that the worker serves, its old ones in a DuckLake that comes along.
# usage: examples/vgi_events.sh      environment: PRESET, OPENDUCK_EXTENSION_DIRECTORY (where DuckDB's ducklake and
# sqlite_scanner are; default: what scripts/deps.sh has put into .deps)
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build/${PRESET:-release}
extensions=${OPENDUCK_EXTENSION_DIRECTORY:-$PWD/.deps/extensions}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
duck() { .deps/venv/bin/duckdb -no-init -unsigned -csv -bail -c "SET extension_directory = '$extensions'; LOAD ducklake; LOAD sqlite_scanner; $1"; }

mkdir "$dir/lake"
duck "
ATTACH 'ducklake:sqlite:$dir/lake.sqlite' AS lake (DATA_PATH '$dir/lake');
CREATE TABLE lake.events AS SELECT i AS id, TIMESTAMP '2026-10-01' + INTERVAL (i) MINUTE AS ts FROM range(44640) t(i);
ATTACH '$dir/hot.duckdb' AS hot;
CREATE TABLE hot.events AS SELECT 44640 + i AS id, TIMESTAMP '2026-11-01' + INTERVAL (i) MINUTE AS ts FROM range(10000) t(i);"

cat >"$dir/layout" <<END
[companion lake]
target = ducklake:sqlite:$dir/lake.sqlite

[table events]
split = SELECT min(ts) FROM events
extension = parquet

[branch]
from = events
where = ts >= {split}

[branch]
from = lake.main.events
where = ts < {split}
END

duck "
LOAD '$build/ext/vgi.duckdb_extension';
ATTACH 'hot' AS w (TYPE vgi, LOCATION 'exec $build/bin/openduck vgi-serve --db $dir/hot.duckdb --layout $dir/layout');
SELECT count(*) AS events, max(ts) AS last FROM w.events;
SELECT count(*) AS last_hour FROM w.events WHERE ts >= TIMESTAMP '2026-11-07 21:40:00';
SELECT branch_index, branch_filter FROM vgi_table_branches() WHERE table_name = 'events';"
