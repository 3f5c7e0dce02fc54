"""connect and attach."""

import os
import re
from typing import Any

import duckdb

from openduck import _extension
from openduck._target import Target, encode, parse

_ALIAS = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_RESERVED = ("main", "system", "temp")

# These would keep DuckDB from loading the extension, so they are set when it is there. The last one ends all setting.
_LATE = ("disabled_filesystems", "enable_external_access", "lock_configuration")


def connect(
    database: str,
    *,
    endpoint: str | None = None,
    token: str | None = None,
    tls_ca: str | os.PathLike[str] | None = None,
    tls_cert: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    snapshot: str | None = None,
    alias: str | None = None,
    read_only: bool = False,
    local: str | os.PathLike[str] = ":memory:",
    **duckdb_config: Any,
) -> duckdb.DuckDBPyConnection:
    """Opens a DuckDB with DATABASE of an OpenDuck server attached and in use: SELECT ... FROM t means the server's t.

    database   its name at the server, or a URI: "openduck:sales?endpoint=http://db.example:7878", also "od:sales"
    endpoint   URL of the server; else what the URI, a secret or $OPENDUCK_ENDPOINT says; else http://127.0.0.1:7878
    token      access token; else what the URI, a secret or $OPENDUCK_TOKEN says
    tls_ca     for https://, a PEM file of the CAs that the server is checked against; else what a secret or
               $OPENDUCK_TLS_CA says; else the system's
    tls_cert, tls_key  PEM files of a certificate and its key, for a server that asks for one
    snapshot   id of a snapshot of the database, which is read instead of the database as it is now
    alias      name of the attached catalog; else the database's. An identifier: letters, digits, _
    read_only  refuse to write
    local      the file of the DuckDB on this side, made if it is missing; its tables are reached by its own name, those
               of ":memory:" as memory.t
    duckdb_config  settings of DuckDB, such as threads=4 or memory_limit="4GB", and of the extension, such as
               openduck_connect_timeout="2 seconds"

    The result is DuckDB's own connection and closes as that does: `with`, or close(). Its cursors, one for each thread,
    begin in DATABASE too. After a fork the child opens its own: DuckDB's threads do not live on in it.

    Unsigned extensions are allowed while this one is loaded, and no longer, unless allow_unsigned_extensions says so.
    The token is in no statement, repr, error or catalog table.

    Raises ValueError for words that are not understood, duckdb.NotSupportedError if another DuckDB is installed than
    the one that this package is built for, and what ATTACH raises: duckdb.IOException when no server answers.
    """
    target = parse(database)
    name = _identifier(alias, target)
    _extension.check()
    early, late = _split(duckdb_config)
    keep_unsigned = _is_true(early.get("allow_unsigned_extensions", False))
    con = duckdb.connect(os.fspath(local), config={**early, "allow_unsigned_extensions": True})
    try:
        _extension.load(con)
        if not keep_unsigned:
            con.execute("SET GLOBAL allow_unsigned_extensions = false")
        for key in [k for k in late if k not in _LATE]:
            _set(con, key, late[key])
        _attach(con, target, name, endpoint, token, snapshot, _tls(tls_ca, tls_cert, tls_key), read_only)
        # Of two parts, so that no schema of the local database can be meant.
        con.execute(f'USE "{name}"."main"')
        _set(con, "openduck_default_database", name)
        for key in [k for k in _LATE if k in late]:
            _set(con, key, late[key])
    except BaseException:
        con.close()
        raise
    return con


def attach(
    con: duckdb.DuckDBPyConnection,
    database: str,
    *,
    endpoint: str | None = None,
    token: str | None = None,
    tls_ca: str | os.PathLike[str] | None = None,
    tls_cert: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    snapshot: str | None = None,
    alias: str | None = None,
    read_only: bool = False,
) -> None:
    """Attaches a further DATABASE to CON, under its own name or ALIAS. Words and errors are those of `connect`.

    CON is one of `connect`, or any of DuckDB that was opened with allow_unsigned_extensions.
    """
    target = parse(database)
    name = _identifier(alias, target)
    _extension.load(con)
    _attach(con, target, name, endpoint, token, snapshot, _tls(tls_ca, tls_cert, tls_key), read_only)


def _tls(*files: str | os.PathLike[str] | None) -> dict[str, str]:
    named = zip(("TLS_CA", "TLS_CERT", "TLS_KEY"), files, strict=True)
    return {key: os.fspath(file) for key, file in named if file is not None}


def _attach(
    con: duckdb.DuckDBPyConnection,
    target: Target,
    name: str,
    endpoint: str | None,
    token: str | None,
    snapshot: str | None,
    tls: dict[str, str],
    read_only: bool,
) -> None:
    given = {
        "ENDPOINT": target.endpoint if endpoint is None else endpoint,
        "TOKEN": target.token if token is None else token,
        "SECRET": target.secret,
        "SNAPSHOT": target.snapshot if snapshot is None else snapshot,
        **tls,
    }
    options = {key: value for key, value in given.items() if value is not None}
    words = [f"{key} ${number}" for number, key in enumerate(options, 1)]
    if read_only:
        words.append("READ_ONLY")
    # Values travel as parameters: nothing to quote, and no token in a statement's text.
    sql = f"ATTACH 'openduck:{encode(target.database)}' AS \"{name}\""
    con.execute(f"{sql} ({', '.join(words)})" if words else sql, list(options.values()))


def _identifier(alias: str | None, target: Target) -> str:
    name = target.database if alias is None else alias
    if not _ALIAS.fullmatch(name) or name.lower() in _RESERVED:
        # A name from a URI is not repeated: it may be a URI gone wrong, with a token in it.
        what = "the database's name" if alias is None else f"alias {name!r}"
        raise ValueError(
            f"{what} cannot name a catalog: give an alias of letters, digits and _ that begins with no digit "
            f"and is not {' or '.join(_RESERVED)}"
        )
    return name


def _split(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What DuckDB is opened with, and what is set once the extension is there."""
    late = {k: v for k, v in config.items() if k.lower() in _LATE or k.lower().startswith("openduck_")}
    for key in late:
        if not key.isidentifier():
            raise ValueError(f"{key!r} is no setting")
    early = {k: v for k, v in config.items() if k not in late}
    return early, {k.lower(): v for k, v in late.items()}


def _set(con: duckdb.DuckDBPyConnection, key: str, value: Any) -> None:
    con.execute(f"SET GLOBAL {key} = $1", [value])


def _is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "1", "yes", "on", "t")
