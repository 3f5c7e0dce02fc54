"""The DuckDB extension that the wheel carries."""

import pathlib

import duckdb

_FOOTER = 512  # bytes that DuckDB reads at the end of an extension's file: eight fields of 32, and a signature


def extension_path() -> pathlib.Path:
    """The extension's file, for a DuckDB of your own: LOAD 'PATH', with allow_unsigned_extensions."""
    return pathlib.Path(__file__).resolve().parent / "lib" / "openduck.duckdb_extension"


def built_for(path: pathlib.Path) -> str:
    """The version of DuckDB that the extension in PATH is built for, such as "1.5.5"."""
    with open(path, "rb") as file:
        file.seek(-_FOOTER, 2)
        footer = file.read(_FOOTER)
    return footer[5 * 32 : 6 * 32].rstrip(b"\0").decode("ascii", "replace").removeprefix("v")


def check() -> None:
    """Raises duckdb.NotSupportedError if the extension cannot work with the DuckDB that is installed."""
    path = extension_path()
    try:
        wanted = built_for(path)
    except OSError as e:
        raise duckdb.NotSupportedError(
            f"this openduck has no DuckDB extension ({path}: {e.strerror}): install its wheel; "
            "in a clone of the repository 'make wheel' builds one"
        ) from e
    if duckdb.__version__ != wanted:
        raise duckdb.NotSupportedError(
            f"this openduck works with DuckDB {wanted}, and {duckdb.__version__} is installed: "
            f"pip install duckdb=={wanted}"
        )


def load(con: duckdb.DuckDBPyConnection) -> None:
    """Loads the extension, if it is not there yet. CON must allow unsigned extensions."""
    check()
    try:
        con.load_extension(str(extension_path()))
    except duckdb.Error as e:
        raise type(e)(f"the DuckDB extension of openduck does not load: {e}") from e
