#!/usr/bin/env python3
"""Runs sqllogictest files against an attached server. usage: tests/sql/run.py [FILE...]   (default: all)

Each file gets a fresh server with the databases `mydb` and `other`, and a fresh DuckDB with the extension. Records:

  server                      the statements up to a blank line run at the server, in mydb
  statement ok                must work
  statement error             must fail; the text behind ---- is part of the message
  query TYPES [rowsort]       TYPES has a letter a column; the rows behind ---- are separated by tabs, NULL is NULL

${URL}, ${HOST} and ${TMP} stand for the server's address, with and without http://, and a folder.
"""

import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import services  # noqa: E402


class Failure(AssertionError):
    pass


def records(path):
    """(line number, command words, SQL, expected lines or None) of each record."""
    lines = path.read_text(encoding="utf-8").split("\n") + [""]
    block, start = [], 0
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            continue
        if line.strip():
            if not block:
                start = number
            block.append(line)
            continue
        if block:
            words, rest = block[0].split(), block[1:]
            expected = None
            if "----" in rest:
                at = rest.index("----")
                rest, expected = rest[:at], rest[at + 1 :]
            yield start, words, "\n".join(rest), expected
            block = []


def fill(text, names):
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def show(value):
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def check(con, client, words, sql, expected):
    if words[0] == "server":
        answer = client.run(sql, database="mydb")
        if answer.error_text is not None:
            raise Failure("the server says: " + answer.error_text)
    elif words[:2] == ["statement", "ok"]:
        con.execute(sql)
    elif words[:2] == ["statement", "error"]:
        try:
            con.execute(sql).fetchall()
        except Exception as e:
            for line in expected or []:
                if line not in str(e):
                    raise Failure("the message lacks %r: %s" % (line, e)) from e
        else:
            raise Failure("no error")
    elif words[0] == "query":
        rows = ["\t".join(show(v) for v in row) for row in con.execute(sql).fetchall()]
        columns = len(con.description)
        if columns != len(words[1]):
            raise Failure("%d columns, not %d" % (columns, len(words[1])))
        wanted = list(expected or [])
        if "rowsort" in words:
            rows, wanted = sorted(rows), sorted(wanted)
        if rows != wanted:
            raise Failure("wanted %r, got %r" % (wanted, rows))
    else:
        raise Failure("unknown record: " + " ".join(words))


def run(path):
    with tempfile.TemporaryDirectory() as tmp:
        databases = {"mydb": tmp + "/mydb.duckdb", "other": tmp + "/other.duckdb"}
        with services.Serve(databases) as server, server.client() as client:
            con = services.duck()
            names = {"${URL}": server.url, "${HOST}": server.url.removeprefix("http://"), "${TMP}": tmp}
            try:
                for line, words, sql, expected in records(path):
                    wanted = [fill(e, names) for e in expected] if expected else expected
                    try:
                        check(con, client, words, fill(sql, names), wanted)
                    except Exception as e:
                        raise Failure("%s:%d: %s: %s" % (path, line, type(e).__name__, e)) from e
            finally:
                con.close()


def main():
    files = [pathlib.Path(a) for a in sys.argv[1:]] or sorted(HERE.rglob("*.test"))
    failed = 0
    for path in files:
        try:
            run(path)
            print("ok   %s" % path)
        except Failure as e:
            failed += 1
            print("FAIL %s" % e)
    print("%d passed, %d failed" % (len(files) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
