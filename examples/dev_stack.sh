#!/bin/bash
# A gateway and two workers, each with its database, as separate processes with one token; asks a question and stops.
# usage: examples/dev_stack.sh [serve]      serve: keep running until Ctrl-C; environment: PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
. examples/servers.bash

# In the environment, not on a command line, where other users of the host could read it.
OPENDUCK_TOKEN=$(head -c 18 /dev/urandom | base64)
export OPENDUCK_TOKEN

start sales-worker worker --db "sales=$dir/sales.duckdb"
sales=$url
start hr-worker worker --db "hr=$dir/hr.duckdb"
hr=$url
start gateway gateway --workers "$sales,$hr"
export OPENDUCK_ENDPOINT=$url

# The gateway sends each statement to the worker that serves its database.
"$openduck" query --db sales 'CREATE TABLE orders AS SELECT i AS id, i * 1.5 AS amount FROM range(100) t(i)' >/dev/null
"$openduck" query --db hr "CREATE TABLE staff AS SELECT 'Ada' AS name" >/dev/null
"$openduck" query --db sales 'SELECT count(*) AS orders, sum(amount) AS amount FROM orders'
"$openduck" query --db hr 'SELECT name FROM staff'
"$openduck" status

if [ "${1:-}" = serve ]; then
    echo "Serving until Ctrl-C. export OPENDUCK_ENDPOINT=$OPENDUCK_ENDPOINT OPENDUCK_TOKEN='$OPENDUCK_TOKEN'"
    wait "${pids[@]}"
fi
