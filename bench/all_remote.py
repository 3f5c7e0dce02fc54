#!/usr/bin/env python3
"""TPC-H and TPC-DS with every table at a server, against plain DuckDB on the same file.

usage: all_remote.py SOURCE.duckdb [runs] [--queries 1,3,..] [--each]
(SOURCE holds the tables of TPC-H, or those of TPC-DS; a release build must be there)

Each query runs here and there in turn. Prints the ratio of the sums of the medians, what the client received in all and
for the query that received most, and which answers differ. Rows that are equal in a query's order may come in any."""

import argparse
import collections
import statistics
import sys

import duckdb
import hybrid_joins


def same(a, b):
    """The same rows, in whatever order; DOUBLEs but for the order in which they were added up."""

    def rounded(rows):
        return collections.Counter(tuple(float("%.9g" % v) if isinstance(v, float) else v for v in row) for row in rows)

    return hybrid_joins.same(a, b) or rounded(a) == rounded(b)


def compare(home, cloud, texts, runs, each):
    taken = {n: ([], []) for n in texts}
    wrong = []
    for _ in range(runs):
        for n, sql in texts.items():
            t, want = hybrid_joins.timed(home, sql)
            taken[n][0].append(t)
            t, got = hybrid_joins.timed(cloud, sql)
            taken[n][1].append(t)
            if not same(got, want) and n not in wrong:
                wrong.append(n)
    medians = {n: [statistics.median(side) for side in taken[n]] for n in texts}
    here, there = (sum(m[side] for m in medians.values()) for side in (0, 1))
    moved = {n: hybrid_joins.travelled(cloud, sql)[0] for n, sql in texts.items()}
    most = max(moved, key=moved.get)
    print(
        "%.2f s here, %.2f s there, ratio %.2f; %.2f MB received, most by query %d: %.1f KB; wrong: %s"
        % (here, there, there / here, sum(moved.values()) / 1e6, most, moved[most] / 1e3, wrong or "none")
    )
    for n, (a, b) in medians.items() if each else ():
        print("  %2d  %7.1f %7.1f ms  %+7.1f ms  %9.1f KB" % (n, a * 1e3, b * 1e3, (b - a) * 1e3, moved[n] / 1e3))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("runs", nargs="?", type=int, default=3)
    parser.add_argument("--queries")
    parser.add_argument("--each", action="store_true", help="a line for each query")
    args = parser.parse_args()
    with duckdb.connect(args.source, read_only=True) as c:
        tables = [name for (name,) in c.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
    texts = hybrid_joins.queries("tpcds" if "store_sales" in tables else "tpch")
    if args.queries:
        texts = {int(n): texts[int(n)] for n in args.queries.split(",")}
    with hybrid_joins.served(args.source) as endpoint:
        with hybrid_joins.client(args.source, endpoint, (), tables) as home:
            with hybrid_joins.client(args.source, endpoint, tables, tables) as cloud:
                compare(home, cloud, texts, args.runs, args.each)


if __name__ == "__main__":
    sys.exit(main())
