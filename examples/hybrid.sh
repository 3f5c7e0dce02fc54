#!/bin/bash
# One statement over two places: a gateway with --hybrid has the customers, its worker has the orders.
# environment: PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
openduck=$PWD/build/${PRESET:-release}/bin/openduck
dir=$(mktemp -d)
pids=()
stop() {
    for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" || true; done
    rm -rf "$dir"
}
trap stop EXIT

# start NAME ARGS...: starts a server on a free port; its address is in $url.
start() {
    local name=$1
    shift
    : >"$dir/$name.out" # there before it is looked at
    setsid "$openduck" "$@" --listen 127.0.0.1:0 >"$dir/$name.out" 2>"$dir/$name.log" &
    pids+=($!)
    url=
    for _ in $(seq 200); do
        url=$(sed -n 's/^ready //p' "$dir/$name.out")
        [ -z "$url" ] || break
        sleep 0.05
    done
    [ -n "$url" ] || { cat "$dir/$name.log" >&2; exit 1; }
}

start worker worker --db "shop=$dir/shop.duckdb"
start gateway gateway --workers "$url" --hybrid --db "crm=$dir/crm.duckdb"
export OPENDUCK_ENDPOINT=$url OPENDUCK_DATABASE=shop
ask() { "$openduck" query "$1"; }

# Without openduck_run a statement is the worker's. A call that stands alone runs any statement where it says.
ask 'CREATE TABLE orders AS SELECT i AS id, i % 5 AS customer, i * 1.5 AS amount FROM range(1000) t(i)' >/dev/null
ask "CALL openduck_run('LOCAL', 'CREATE TABLE customers AS FROM (VALUES (0, ''Ada''), (1, ''Grace'')) t(id, name)')" >/dev/null

join="SELECT c.name, count(*) AS orders, sum(o.amount) AS amount FROM customers c
JOIN openduck_run('REMOTE', 'SELECT customer, amount FROM orders WHERE amount >= 150') o ON c.id = o.customer
GROUP BY ALL ORDER BY ALL"
"$openduck" query --format csv "EXPLAIN $join"
ask "$join"

# Local rows go up into a remote query; the result is kept at the gateway.
ask "CREATE TABLE spent AS FROM openduck_run('REMOTE', \$\$
    SELECT c.name, max(o.amount) AS most FROM orders o JOIN openduck_run('LOCAL', 'FROM customers') c ON o.customer = c.id
    GROUP BY ALL \$\$)" >/dev/null
ask "FROM openduck_run('LOCAL', 'FROM spent ORDER BY name')"
