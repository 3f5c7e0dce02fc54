"""The data and queries of TPC-H and TPC-DS, by DuckDB's extensions for them."""

import glob
import sysconfig

#: What makes the data.
GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}


def generate(path, name, scale):
    """Makes the tables in the new file PATH. Gives for each query its text, the types of its columns, and its rows."""
    import duckdb

    pattern = "%s/duckdb_extension_%s/extensions/v*/*.duckdb_extension" % (sysconfig.get_paths()["purelib"], name)
    with duckdb.connect(str(path), config={"allow_unsigned_extensions": "true"}) as con:
        con.execute("LOAD '%s'" % glob.glob(pattern)[0])
        con.execute("CALL %s(sf=%s)" % (GENERATORS[name], scale))
        answers = []
        for (sql,) in con.execute("SELECT query FROM %s_queries() ORDER BY query_nr" % name).fetchall():
            result = con.execute(sql)
            answers.append((sql, [str(d[1]) for d in result.description], result.fetchall()))
    return answers


def close(a, b):
    """Equal, but for the order in which DOUBLEs were added up."""
    return abs(a - b) <= 1e-9 * abs(b) if isinstance(a, float) and isinstance(b, float) else a == b
