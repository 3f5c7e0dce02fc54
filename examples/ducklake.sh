#!/bin/bash
# Two workers that have one DuckLake, and a gateway before them: what is written through one is read through the other.
# usage: examples/ducklake.sh      environment: PRESET, OPENDUCK_EXTENSION_DIRECTORY (where DuckDB's ducklake and
# sqlite_scanner are; default: what scripts/deps.sh has put into .deps)
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/servers.bash

# SQLite will do for workers of one host. On several hosts it is postgres:CONNECTION, and a directory that all of them have.
export OPENDUCK_DUCKLAKE_METADATA=sqlite:$dir/lake.sqlite OPENDUCK_DUCKLAKE_DATA=$dir/lake
export OPENDUCK_EXTENSION_DIRECTORY=${OPENDUCK_EXTENSION_DIRECTORY:-$PWD/.deps/extensions}
mkdir "$OPENDUCK_DUCKLAKE_DATA"
start one worker
one=$url
start two worker
two=$url
start gateway gateway --workers "$one,$two"
export OPENDUCK_ENDPOINT=$url OPENDUCK_DATABASE=lake
ask() { "$openduck" query --format csv "$1"; }

ask 'CREATE TABLE orders AS SELECT range AS id, 1.5 * range AS amount FROM range(10000)' >/dev/null
ask 'DELETE FROM orders WHERE id >= 100' >/dev/null
ask 'SELECT count(*) AS orders, sum(amount) AS amount FROM orders'
echo "-- as it was before the DELETE"
ask 'SELECT count(*) AS orders FROM orders AT (VERSION => 1)'
echo "-- what has been done to it"
ask 'SELECT snapshot_id, changes FROM lake.snapshots() ORDER BY snapshot_id'
for at in "$one" "$two"; do
    "$openduck" status --endpoint "$at" | sed -n 's/^executions: \([0-9]*\),.*/\1 of them ran at one worker/p'
done
