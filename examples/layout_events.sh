#!/bin/bash
# One table of a served database: its new rows at the server, its old ones in a DuckLake that ATTACH attaches beside.
# usage: examples/layout_events.sh      environment: PRESET, OPENDUCK_EXTENSION_DIRECTORY (where DuckDB's ducklake and
# sqlite_scanner are; default: what scripts/deps.sh has put into .deps)
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=examples/servers.bash
source examples/servers.bash
extensions=${OPENDUCK_EXTENSION_DIRECTORY:-$PWD/.deps/extensions}
extension=$PWD/build/${PRESET:-release}/ext/openduck.duckdb_extension
duck() { .deps/venv/bin/duckdb -no-init -unsigned -csv -bail -c "SET extension_directory = '$extensions'; LOAD ducklake; LOAD sqlite_scanner; $1"; }

echo "-- a lake with October, a database with November"
mkdir "$dir/lake"
duck "
ATTACH 'ducklake:sqlite:$dir/lake.sqlite' AS lake (DATA_PATH '$dir/lake');
CREATE TABLE lake.events AS SELECT i AS id, TIMESTAMP '2026-10-01' + INTERVAL (i) MINUTE AS ts FROM range(44640) t(i);
ATTACH '$dir/hot.duckdb' AS hot;
CREATE TABLE hot.events AS SELECT 44640 + i AS id, TIMESTAMP '2026-11-01' + INTERVAL (i) MINUTE AS ts FROM range(10000) t(i);"

echo "-- how they make one table"
tee "$dir/layout" <<END
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
start serve serve --db "events=$dir/hot.duckdb" --layout "events=$dir/layout"
export OPENDUCK_ENDPOINT=$url

echo "-- whoever attaches the database has both"
duck "
LOAD '$extension';
ATTACH 'openduck:events' AS cloud;
SELECT catalog_name, refcount FROM openduck_companions();
SELECT count(*) AS events, max(ts) AS last FROM cloud.events;
SELECT branch_index, source, branch_filter FROM openduck_table_branches();"

echo "-- new rows go to the server, and a day moves to the lake: first it is there, then no longer here"
duck "
LOAD '$extension';
ATTACH 'openduck:events' AS cloud;
CALL openduck_query('cloud', 'INSERT INTO events VALUES (54640, TIMESTAMP ''2026-11-07 22:40:00'')');
INSERT INTO lake.events FROM openduck_query('cloud', 'FROM events WHERE ts < TIMESTAMP ''2026-11-02''');
SELECT count(*) AS while_it_moves FROM cloud.events;
CALL openduck_query('cloud', 'DELETE FROM events WHERE ts < TIMESTAMP ''2026-11-02''');
SELECT count(*) AS moved FROM cloud.events;"

echo "-- without the lake's files the last hour is there all the same"
rm -r "$dir/lake"
duck "
LOAD '$extension';
ATTACH 'openduck:events' AS cloud;
SELECT count(*) AS last_hour FROM cloud.events WHERE ts > TIMESTAMP '2026-11-07 21:40:00';"
