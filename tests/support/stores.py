"""Stores as the tests have them: metadata in SQLite or PostgreSQL, layers near, or far away in S3.

Where a store is stands in the environment, for this process and those that it starts; its directory in the path."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
import services
from s3 import KEY, SECRET

HERE = pathlib.Path(__file__).resolve().parent


def over(*kinds, argument="place"):
    """Runs a test over stores of these KINDS: sqlite, postgres, s3 (with metadata in PostgreSQL).

    Under sanitizers over SQLite alone: one of them takes what libpq does for races."""
    kept = [kind for kind in kinds if services.PRESET == "release" or kind == "sqlite"]
    return pytest.mark.parametrize(argument, kept, indirect=[argument])


BOTH = over("sqlite", "postgres")  # for what the metadata decide
EVERY = over("sqlite", "postgres", "s3")


def environment(request, tmp_path):
    """What tells programs of the store that the parameter of a fixture's REQUEST asks for."""
    kind = getattr(request, "param", "sqlite")
    name = "t%d" % abs(hash(str(tmp_path)))
    given = {}
    if kind != "sqlite":
        given["OPENDUCK_POSTGRES_URL"] = request.getfixturevalue("postgres").create(name)
    if kind == "s3":
        given["OPENDUCK_BLOB_URL"] = "s3://test/" + name
        given["AWS_ENDPOINT_URL_S3"] = "http://" + request.getfixturevalue("s3").endpoint
        given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"] = KEY, SECRET
    return given


def duck(**config):
    """A DuckDB with the extension. Where layers go away they do so after each seal, and none but the newest stays."""
    con = services.duck(**config)
    if "OPENDUCK_BLOB_URL" in os.environ:
        con.execute("CREATE SECRET (TYPE openduck_storage, TIER true, KEEP_BYTES 1)")
    return con


def in_process(code, *args, preload=None, **kwargs):
    """CODE in a process of its own, with `con`, a DuckDB with the extension."""
    head = "import sys, stores; con = stores.duck()\n"
    env = {**os.environ, "PYTHONPATH": "%s:%s" % (HERE, os.path.dirname(services.__file__))}
    if preload:
        env["LD_PRELOAD"] = " ".join(filter(None, [env.get("LD_PRELOAD"), str(preload)]))
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(code), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        **kwargs,
    )


def url(place, name="mydb", **parameters):
    return "openduck://%s?data_dir=%s" % (name, place) + "".join("&%s=%s" % item for item in parameters.items())


def attach(con, place, alias="m", name="mydb", read_only=False, **parameters):
    con.execute("ATTACH '%s' AS %s%s" % (url(place, name, **parameters), alias, " (READ_ONLY)" if read_only else ""))


def attach_soon(con, place, **parameters):
    """ATTACH, once the lease of the writer before is over."""
    import duckdb

    def free():
        try:
            attach(con, place, **parameters)
        except duckdb.IOException as e:
            if "has a writer" not in str(e) and "the lease is over" not in str(e):
                raise
            return False
        return True

    services.wait_until(free, 30, "the lease is over")


def rows(con, sql):
    return con.execute(sql).fetchall()


def check_sent(con, place):
    """Where layers go away, some have."""
    sql = "SELECT far_layers > 0 AND near_layers < layers FROM openduck_far(data_dir := '%s')" % place
    if "OPENDUCK_BLOB_URL" in os.environ:
        services.wait_until(lambda: rows(con, sql) == [(True,)], 30, "layers are sent")


def seal(con, alias="m"):
    ((_, snapshot, checkpointed),) = rows(con, "FROM openduck_seal('%s')" % alias)
    return snapshot, checkpointed
