#!/usr/bin/env python3
"""OpenDuck from Python. Start a server first: make run; and make the package: make wheel

usage: build/client-venv/bin/python examples/client_python.py     environment: OPENDUCK_ENDPOINT, OPENDUCK_TOKEN
"""

import openduck
import pandas as pd

# DuckDB's own connection, with the server's database in use; at $OPENDUCK_ENDPOINT, else http://127.0.0.1:7878.
with openduck.connect("flights") as con:
    print("tables:", [row[0] for row in con.execute("SHOW TABLES").fetchall()])

    # A filter and a projection run at the server.
    late = con.execute(
        "SELECT flight, dest, dep_delay FROM flights WHERE dep_delay > $1 ORDER BY dep_delay DESC", [900]
    )
    print("most delayed:", late.fetchone())

    # A frame of Python's own and a remote table in one statement.
    watched = pd.DataFrame({"dest": ["SEA", "SFO", "LAX"]})
    print(
        con.sql(
            "SELECT dest, count(*) AS flights, round(avg(air_time)) AS minutes "
            "FROM flights JOIN watched USING (dest) GROUP BY dest ORDER BY dest"
        ).df()
    )

    # SQL that the server runs as it is.
    print(con.sql("FROM openduck_query('flights', 'SELECT version() AS version, current_database() AS database')"))

    # Rows stream: the first is here before the last is read.
    reader = con.execute("FROM flights").to_arrow_reader(10_000)
    print("first batch:", reader.read_next_batch().num_rows, "rows")
