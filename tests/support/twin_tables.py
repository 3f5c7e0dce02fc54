"""Tables at a server with their twins here."""

import collections
import contextlib

import services


@contextlib.contextmanager
def twin_tables(path, names, *statements):
    """A connection with `cloud`, made by STATEMENTS in a server's new file PATH; its tables NAMES are in `twin`."""
    services.make_database(path, *statements)
    with services.Serve({"mydb": path}) as server, services.attached(server) as con:
        con.execute("CREATE SCHEMA twin")
        for name in names:
            con.execute("CREATE TABLE twin.%s AS FROM cloud.%s" % (name, name))
        yield con
        server.wait_idle()


def same_on_every_level(con, sql):
    """SQL, with {0} for the schema, gives the same as with the twins, of the same types, on every level of
    openduck_pushdown. What is sent on the highest, which stays set."""
    here = con.execute(sql.format("twin"))
    types, want = [str(d[1]) for d in here.description], collections.Counter(map(repr, here.fetchall()))
    for level in ("off", "scan", "full"):
        con.execute("SET openduck_pushdown = '%s'" % level)
        there = con.execute(sql.format("cloud"))
        assert types == [str(d[1]) for d in there.description], level
        assert collections.Counter(map(repr, there.fetchall())) == want, level
    return services.remote_sql(con, sql.format("cloud"))
