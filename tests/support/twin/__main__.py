"""Runs the sessions of seeds on two sides, and shrinks what differs.

usage: python -m twin [--local] [--gateway] [--threads N] [--count N] [--first SESSION] [--shrink]
                      [--collect N] [-v] SEED...

--local compares two local databases, which shows that the statements have one answer. --shrink leaves out
statements as long as the difference stays. --collect leaves out the statement that differed and goes on, N times."""

import argparse
import sys
import time

from twin.run import Arena, collect, first_difference, sessions, shrink


def main():
    parser = argparse.ArgumentParser(
        prog="python -m twin", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--local", action="store_true")
    parser.add_argument("--gateway", action="store_true")
    parser.add_argument("--threads", type=int, help="of DuckDB on each side")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--first", type=int, default=0, help="the first session")
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--collect", type=int, default=0)
    parser.add_argument("-v", action="store_true")
    parser.add_argument("seeds", nargs="+", type=int)
    args = parser.parse_args()
    bad = 0
    kind = "local" if args.local else "gateway" if args.gateway else "serve"
    with Arena(kind, args.threads) as arena:
        for seed in args.seeds:
            bad += run_seed(arena, seed, args)
    return 1 if bad else 0


def run_seed(arena, seed, args):
    start, making, steps, good, bad = time.monotonic(), 0.0, 0, 0, 0
    made = start
    for number, script in sessions(arena, seed, args.count, args.first):
        making += time.monotonic() - made
        good += len([1 for e in script if e.outcome and not e.outcome.error])
        steps += len([1 for e in script if e.outcome])
        if args.v:
            report(script)
        if args.collect:
            found = collect(arena, script, args.collect)
        else:
            one = first_difference(arena, script)
            found = [one] if one else []
        for one in found:
            bad += 1
            print("  %d:%d [%d] %s" % (seed, number, one.number, one.text), flush=True)
            if args.shrink:
                for step in shrink(arena, script, one):
                    print("      %s;%s" % (step.sql, "  -- %r" % (step.params,) if step.params else ""), flush=True)
        made = time.monotonic()
    print("seed %d: %d steps, %.0f %% succeed, made in %.1f s, run in %.1f s, %d differences" % (
        seed, steps, 100 * good / steps, making, time.monotonic() - start - making, bad), flush=True)  # fmt: skip
    return bad


def report(script):
    import collections

    ends = collections.Counter((e.outcome.error or "ok", e.step.sql.split()[0]) for e in script if e.outcome)
    for (end, word), n in sorted(ends.items()):
        print("   %6d %-28s %s" % (n, end, word))
    seen = collections.Counter()
    for e in script:
        if e.outcome and e.outcome.error:
            seen[e.outcome.error] += 1
            if seen[e.outcome.error] <= 25:
                print(
                    "   %s: %s\n       %s"
                    % (e.outcome.error, e.step.sql[:200], e.outcome.message[:160].replace("\n", " "))
                )


if __name__ == "__main__":
    sys.exit(main())
