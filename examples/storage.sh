#!/bin/bash
# Snapshots, clones and what they cost: a database on openduck:// in DuckDB's shell, looked after with the openduck program.
# usage: examples/storage.sh      environment: PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build/${PRESET:-release}
duckdb=$PWD/.deps/venv/bin/duckdb
openduck=$build/bin/openduck
OPENDUCK_DATA_DIR=$(mktemp -d)
export OPENDUCK_DATA_DIR
trap 'rm -rf "$OPENDUCK_DATA_DIR"' EXIT

# sql STATEMENTS: in a DuckDB of its own, with the extension
sql() {
    "$duckdb" -no-init -unsigned -csv -noheader -bail -c "LOAD '$build/ext/openduck.duckdb_extension'" -c "$1"
}

echo "-- a database, and its state of Monday"
sql "ATTACH 'openduck://sales' AS sales;
     CREATE TABLE sales.orders AS SELECT i AS id, (i * 37 % 500)::INTEGER AS amount FROM range(200000) r(i);"
monday=$("$openduck" snapshot seal sales)
sql "ATTACH 'openduck://sales' AS sales;
     UPDATE sales.orders SET amount = amount + 1000 WHERE id % 100 = 0;"
tuesday=$("$openduck" snapshot seal sales)
"$openduck" snapshot list sales

echo "-- how much more it is on Tuesday"
sql "ATTACH 'openduck://sales?snapshot=$monday' AS monday (READ_ONLY);
     ATTACH 'openduck://sales?snapshot=$tuesday' AS tuesday (READ_ONLY);
     SELECT (SELECT sum(amount) FROM tuesday.orders) - (SELECT sum(amount) FROM monday.orders);"

echo "-- a trial on a clone, which copies nothing; sales is as it was"
"$openduck" snapshot clone "$monday" trial >/dev/null
sql "ATTACH 'openduck://trial' AS trial;
     DELETE FROM trial.orders WHERE amount < 250;
     ATTACH 'openduck://sales' AS sales (READ_ONLY);
     SELECT (SELECT count(*) FROM trial.orders), (SELECT count(*) FROM sales.orders);"

echo "-- a week of changes, and a snapshot each day"
for day in 3 4 5 6 7; do
    sql "ATTACH 'openduck://sales' AS sales;
         UPDATE sales.orders SET amount = amount + $day WHERE id % 10 = $day;"
    "$openduck" snapshot seal sales >/dev/null
done
"$openduck" storage status sales

echo "-- somebody still reads Tuesday's while all but Monday's and the last go, and their layers become one"
coproc reader { "$duckdb" -no-init -unsigned -csv -noheader 2>&1; }
exec {to_reader}>&"${reader[1]}" {of_reader}<&"${reader[0]}"
echo "LOAD '$build/ext/openduck.duckdb_extension'; ATTACH 'openduck://sales?snapshot=$tuesday' AS t (READ_ONLY); SELECT 'open';" >&"$to_reader"
read -r said <&"$of_reader"
echo "$said"
"$openduck" snapshot list sales | sed '1d;$d' | while read -r id _; do "$openduck" snapshot drop "$id" >/dev/null; done
"$openduck" storage compact sales --whole
"$openduck" storage status sales
echo "-- the reader has the old layers; when it has gone, they go"
"$openduck" gc --dry-run
echo "SELECT count(*) FROM t.orders;" >&"$to_reader"
read -r said <&"$of_reader" && echo "it reads $said"
eval "exec $to_reader>&- ${reader[1]}>&-"
wait "$reader_PID"
"$openduck" gc --dry-run
"$openduck" gc | tail -1

echo "-- Monday's goes, too, but not its layer: the clone stands on it"
"$openduck" snapshot drop "$monday" >/dev/null
"$openduck" gc
"$openduck" storage verify
sql "ATTACH 'openduck://sales' AS sales (READ_ONLY); SELECT count(*), sum(amount) FROM sales.orders;"
