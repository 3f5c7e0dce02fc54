#!/usr/bin/env python3
"""OpenDuck from Python: the duckdb module, nothing else. Start a server first: make run

usage: .deps/venv/bin/python examples/client_python.py     environment: OPENDUCK_ENDPOINT, OPENDUCK_TOKEN, PRESET
"""

import os
import pathlib

import duckdb

build = pathlib.Path(__file__).resolve().parents[1] / "build" / os.environ.get("PRESET", "release")
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute(f"LOAD '{build}/ext/openduck.duckdb_extension'")
con.execute("ATTACH 'openduck:flights' AS cloud")  # at $OPENDUCK_ENDPOINT, else http://127.0.0.1:7878

print("tables:", [row[0] for row in con.execute("SHOW TABLES FROM cloud").fetchall()])

# A filter and a projection run at the server.
late = con.execute(
    "SELECT flight, dest, dep_delay FROM cloud.flights WHERE dep_delay > $1 ORDER BY dep_delay DESC", [900]
)
print("most delayed:", late.fetchone())

# Local and remote rows in one statement.
con.execute("CREATE TABLE watched AS SELECT unnest(['SEA', 'SFO', 'LAX']) AS dest")
print(
    con.sql(
        "SELECT dest, count(*) AS flights, round(avg(air_time)) AS minutes "
        "FROM cloud.flights JOIN watched USING (dest) GROUP BY dest ORDER BY dest"
    )
)

# SQL that the server runs as it is.
print(con.sql("FROM openduck_query('cloud', 'SELECT version() AS version, current_database() AS database')"))

# Rows stream: the first is here before the last is read.
reader = con.execute("FROM cloud.flights").to_arrow_reader(10_000)
print("first batch:", reader.read_next_batch().num_rows, "rows")
