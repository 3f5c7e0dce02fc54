#!/bin/bash
# Earlier states over the network: a server keeps snapshots of its database, and clients read them beside the present.
# usage: examples/served_snapshots.sh      environment: PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=examples/servers.bash
source examples/servers.bash
extension=$PWD/build/${PRESET:-release}/ext/openduck.duckdb_extension

start serve serve --db "sales=openduck://sales?data_dir=$dir/store" --max-snapshots 4
export OPENDUCK_ENDPOINT=$url
ask() { "$openduck" query --db sales --format csv "$@"; }
keep() { ask "SELECT snapshot FROM openduck_seal('sales')" | tail -1; }

echo "-- Monday's prices are kept, then some change"
ask "CREATE TABLE prices AS SELECT i AS item, 100 + i % 7 AS price FROM range(1000) r(i)" >/dev/null
monday=$(keep)
ask "UPDATE prices SET price = price + 5 WHERE item % 100 = 0" >/dev/null
ask "DELETE FROM prices WHERE item >= 990" >/dev/null

echo "-- the program reads either"
echo "Monday: $(ask --snapshot "$monday" "SELECT sum(price) FROM prices" | tail -1)"
echo "now: $(ask "SELECT sum(price) FROM prices" | tail -1)"

echo "-- in DuckDB both are attached, and meet in one statement; what is gone comes back"
.deps/venv/bin/duckdb -no-init -unsigned -csv -noheader -bail -c "
    LOAD '$extension';
    ATTACH 'openduck:sales' AS cloud;
    ATTACH 'openduck:sales?snapshot=$monday' AS monday;
    SELECT 'dearer: ' || count(*) FROM cloud.prices n JOIN monday.prices m USING (item) WHERE n.price > m.price;
    INSERT INTO cloud.prices FROM monday.prices ANTI JOIN cloud.prices USING (item);
    SELECT 'items: ' || count(*) FROM cloud.prices;"

echo "-- nothing changes a snapshot"
{ ask --snapshot "$monday" "DELETE FROM prices" 2>&1 || true; } | grep -o "attached in read-only mode"
