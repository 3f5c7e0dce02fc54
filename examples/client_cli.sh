#!/bin/bash
# The openduck command as a client. Start a server first: make run
# usage: examples/client_cli.sh      environment: OPENDUCK_ENDPOINT, OPENDUCK_TOKEN, PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
export OPENDUCK_ENDPOINT=${OPENDUCK_ENDPOINT:-http://127.0.0.1:7878}
openduck=build/${PRESET:-release}/bin/openduck

echo "-- is it there, what does it serve?"
"$openduck" status

echo "-- rows for a person, for a spreadsheet, for a program"
"$openduck" query --db flights 'SELECT carrier, count(*) AS n FROM flights GROUP BY carrier ORDER BY n DESC LIMIT 3'
"$openduck" query --db flights --format csv 'SELECT origin, dest, distance FROM flights ORDER BY distance DESC, dest LIMIT 2'
"$openduck" query --db flights --format json 'SELECT count(*) AS planes, min(year) AS oldest FROM planes'

echo "-- stop a query by its execution id"
"$openduck" query --db flights 'SELECT count(*) FROM flights a, flights b WHERE a.distance + b.distance = -1' &
query=$!
id=
for _ in $(seq 200); do
    id=$("$openduck" status --json | python3 -c \
        'import json, sys; print(*[r["execution_id"] for r in json.load(sys.stdin)["running"]][:1])')
    [ -z "$id" ] || break
    sleep 0.05
done
"$openduck" cancel "$id"
if wait "$query"; then echo "the query ended by itself"; else echo "the query was cancelled"; fi
