"""Tables at a server with their twins here."""

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
