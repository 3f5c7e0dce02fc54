#!/bin/bash
# Writing to a served database in DuckDB's own shell. Start a server first: make run
# usage: examples/writing.sh      environment: OPENDUCK_ENDPOINT, OPENDUCK_TOKEN, PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
{
    echo "LOAD 'build/${PRESET:-release}/ext/openduck.duckdb_extension';"
    cat <<'SQL'
ATTACH 'openduck:flights' AS cloud;

-- From a remote table into a remote table: one statement at the server, no row moves.
CREATE SCHEMA IF NOT EXISTS cloud.report;
CREATE OR REPLACE TABLE cloud.report.late AS
    SELECT origin, dest, count(*) AS flights FROM cloud.flights WHERE dep_delay > 120 GROUP BY ALL;

-- From a local table: its rows go up as a stream.
CREATE TABLE names AS FROM (VALUES ('EWR', 'Newark'), ('JFK', 'Kennedy'), ('LGA', 'La Guardia')) t(origin, name);
ALTER TABLE cloud.report.late ADD COLUMN name VARCHAR;
UPDATE cloud.report.late SET name = names.name FROM names WHERE late.origin = names.origin;
SELECT name, sum(flights) AS late FROM cloud.report.late GROUP BY ALL ORDER BY ALL;

-- Several statements, all or none of them.
BEGIN;
DELETE FROM cloud.report.late WHERE flights < 100;
CREATE VIEW cloud.report.worst AS FROM cloud.report.late ORDER BY flights DESC LIMIT 3;
FROM cloud.report.worst;
ROLLBACK;
SELECT count(*) AS routes FROM cloud.report.late;

DROP SCHEMA cloud.report CASCADE;
SQL
} | .deps/venv/bin/duckdb -no-init -unsigned -bail
