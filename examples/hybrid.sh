#!/bin/bash
# One statement over two places: a gateway with --hybrid has the customers, its worker has the orders.
# environment: PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/servers.bash

start worker worker --db "shop=$dir/shop.duckdb" >/dev/null
start gateway gateway --workers "$url" --hybrid --db "crm=$dir/crm.duckdb" >/dev/null
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
