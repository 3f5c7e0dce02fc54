#!/usr/bin/env python3
"""Writing to a served database from Python. Start a server first: make run; and make the package: make wheel

usage: build/client-venv/bin/python examples/writing.py     environment: OPENDUCK_ENDPOINT, OPENDUCK_TOKEN
"""

import duckdb
import openduck
import polars as pl

with openduck.connect("flights") as con:
    con.execute(
        "CREATE OR REPLACE TABLE notes(id INTEGER PRIMARY KEY, dest VARCHAR NOT NULL, note VARCHAR DEFAULT 'new')"
    )

    # A frame goes up as a stream of rows.
    frame = pl.DataFrame({"id": range(1000), "dest": ["SEA", "HNL"] * 500})
    con.execute("INSERT INTO notes BY NAME FROM frame")

    # Parameters travel as values; defaults, keys and constraints are the server's.
    print("added:", con.execute("INSERT INTO notes (id, dest) VALUES (?, ?) RETURNING *", [1000, "LAX"]).fetchone())
    try:
        con.execute("INSERT INTO notes VALUES (1, 'SFO', 'twice')")
    except duckdb.ConstraintException as e:
        print("refused:", str(e).split(":")[0])

    # All sources are remote: the server runs it as one statement, and no row moves.
    con.execute("UPDATE notes SET note = (SELECT count(*) FROM flights f WHERE f.dest = notes.dest) || ' flights'")
    print("noted:", con.execute("SELECT note FROM notes WHERE id = 1").fetchone()[0])

    # A transaction is one at the server: others see all of it or nothing.
    con.begin()
    con.execute("DELETE FROM notes WHERE dest = 'HNL'")
    con.execute("INSERT INTO notes SELECT id + 2000, dest, 'copied' FROM notes")
    print("inside:", con.execute("SELECT count(*) FROM notes").fetchone()[0], end=", ")
    con.rollback()
    print("after rollback:", con.execute("SELECT count(*) FROM notes").fetchone()[0])

    con.execute("DROP TABLE notes")
