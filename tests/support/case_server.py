#!/usr/bin/env python3
"""The --server-cmd of the case runner: serves a database file as `mydb` by `openduck serve`.

usage: case_server.py [--separate-gateway] DATABASE

Listens on 127.0.0.1:$OPENDUCK_CASE_PORT, prints `ready`, then runs {"sql": ...} lines of stdin on the served database,
through the server, and answers {"ok": true} or {"error": ...}. The end of stdin stops it. A server that ends
badly, or whose
sanitizer reports something, makes this exit with 1 and a line on stderr that begins with `case server:`.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import services


def main():
    args = sys.argv[1:]
    start = services.Stack if "--separate-gateway" in args else services.Serve
    server = start({"mydb": args[-1]}, listen="127.0.0.1:" + os.environ["OPENDUCK_CASE_PORT"])
    try:
        with server.client() as client:
            print("ready", flush=True)
            for line in sys.stdin:
                try:
                    error = client.run(json.loads(line)["sql"], database="mydb").error_text
                    answer = {"ok": True} if error is None else {"error": error}
                except Exception as e:
                    answer = {"error": str(e)}
                print(json.dumps(answer), flush=True)
        server.wait_idle()
        server.stop()
    except BaseException as e:
        print("case server: %s" % e, file=sys.stderr, flush=True)
        server.__exit__(type(e), e, None)
        raise SystemExit(1) from None


main()
