#!/bin/bash
# Workers that register at a gateway, each with what it has; routing by database, table and compute context; one that stops.
# usage: examples/registration.sh      environment: PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
openduck=$PWD/build/${PRESET:-release}/bin/openduck
dir=$(mktemp -d)
declare -A pid url
stop() {
    trap - EXIT INT TERM
    for name in "${!pid[@]}"; do kill -TERM "${pid[$name]}" 2>/dev/null || true; done
    for name in "${!pid[@]}"; do wait "${pid[$name]}" || true; done
    rm -rf "$dir"
}
trap stop EXIT
trap 'exit 0' INT TERM

# wait_for COMMAND...: until it succeeds
wait_for() {
    for _ in $(seq 200); do
        if "$@"; then return; fi
        sleep 0.05
    done
    echo "still not: $*" >&2
    exit 1
}
# start NAME ARGS...: a server on a free port
start() {
    local name=$1
    shift
    "$openduck" "$@" --listen 127.0.0.1:0 >"$dir/$name.out" 2>"$dir/$name.log" &
    pid[$name]=$!
    : >>"$dir/$name.out" # there before it is looked at
    wait_for grep -q '^ready ' "$dir/$name.out"
    url[$name]=$(sed -n 's/^ready //p' "$dir/$name.out")
}
end() {
    kill -TERM "${pid[$1]}"
    wait "${pid[$1]}"
    unset "pid[$1]"
}
registered() { "$openduck" status | grep -q " id $1,"; }
gone() { ! registered "$1"; }
ask() { "$openduck" query --format csv "$@"; }

# Clients cannot register workers: these have a token of their own.
OPENDUCK_TOKEN=$(head -c 18 /dev/urandom | base64)
OPENDUCK_WORKER_TOKEN=$(head -c 18 /dev/urandom | base64)
export OPENDUCK_TOKEN OPENDUCK_WORKER_TOKEN

# A file with something in it, which several workers serve later, and none of them writes.
start first serve --db "shop=$dir/shop.duckdb"
export OPENDUCK_ENDPOINT=${url[first]}
ask 'CREATE TABLE orders AS SELECT range AS id FROM range(1000)' >/dev/null
ask 'CREATE SCHEMA analytics' >/dev/null
ask 'CREATE TABLE analytics.events AS SELECT range AS id FROM range(50)' >/dev/null
end first

# Whatever workers say themselves, the tables of the analytics schema are for the one called "fast".
start gateway gateway --route 'analytics.*=fast'
export OPENDUCK_ENDPOINT=${url[gateway]} OPENDUCK_GATEWAY=${url[gateway]}

start fast worker --worker-id fast --db "shop=$dir/shop.duckdb" --read-only
start archive worker --worker-id archive --db "shop=$dir/shop.duckdb" --read-only --tables orders
start europe worker --worker-id europe --db "shop=$dir/shop.duckdb" --read-only --compute-context region=eu
start people worker --worker-id people --db "staff=$dir/staff.duckdb"
for name in fast archive europe people; do wait_for registered "$name"; done

ask --db shop 'SELECT count(*) AS orders FROM orders'
ask --db shop 'SELECT count(*) AS events FROM analytics.events'
ask --db staff 'SELECT current_database() AS db'
for name in fast archive europe people; do
    echo "$name ran $("$openduck" status --endpoint "${url[$name]}" | sed -n 's/^executions: \([0-9]*\),.*/\1/p')"
done

# One that stops says goodbye: nothing more is sent to it, and the others go on.
end archive
wait_for gone archive
ask --db shop 'SELECT count(*) AS without_it FROM orders'
