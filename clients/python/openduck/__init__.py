"""A DuckDB connection with a served OpenDuck database attached and in use.

    import openduck

    with openduck.connect("sales", endpoint="http://db.example:7878", token=token) as con:
        con.sql("FROM orders WHERE amount > 100").df()

`connect` gives a duckdb.DuckDBPyConnection itself, not a wrapper: what works with DuckDB's connection (pandas, polars,
ibis, con.sql over a DataFrame in a variable of the caller) works with it. The wheel carries the extension that does the
work; it needs the DuckDB that it was built for, which pip installs with it.
"""

from importlib.metadata import version as _version

from openduck._connect import attach, connect
from openduck._extension import extension_path

__version__ = _version("openduck")
__all__ = ["__version__", "attach", "connect", "extension_path"]
