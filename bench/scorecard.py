#!/usr/bin/env python3
"""OpenDuck against plain DuckDB and its rivals, as ratios within one run, against targets.

usage: scorecard.py [--runs 5] [--workloads A,B,C,D,E,F32,I] [--peers ...] [--quick] [--json] [--raw FILE] [--strict]

Runs ../shared/bench/peers.py (workloads and rivals; OPENDUCK_PEERS names another copy) on the release build, each
run in a
fresh client process, peers interleaved, in a network namespace of its own where that is allowed. `openduck` is
`openduck serve`,
`openduck_gw` the same through a separate gateway. --quick: two runs on a tenth of the data, to see that it works;
its figures
mean little. --strict: exit 1 when a target is missed. Needs `scripts/deps.sh bench`, and a quiet machine for
figures to keep.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PEERS_FILE = pathlib.Path(os.environ.get("OPENDUCK_PEERS", ROOT.parent / "shared" / "bench" / "peers.py"))
GATEWAY_PORT = 7979

# workload, what, measure, against, the most (or with ">=" the least) that the ratio or value may be
TARGETS = [
    ("A", "whole table, wall", "wall", "quack", "<=", 0.45),
    ("A", "whole table, CPU of both sides", "cpu", "quack", "<=", 0.50),
    ("A", "whole table, wall", "wall", "flight", "<=", 1.00),
    ("B", "two columns, wall", "wall", "quack", "<=", 0.60),
    ("C", "one day of filter, wall", "wall", "quack", "<=", 0.10),
    ("C", "one day of filter, wall", "wall", "local", "<=", 1.20),
    ("E", "small query, p50", "p50_ms", "quack", "<=", 0.30),
    ("F32", "32 clients, queries a second", "qps", "quack", ">=", 3.00),
    ("I", "first row, ms", "wall_ms", None, "<=", 50.0),
]
HOPS = [("A", "gateway hop, wall ratio", "wall", "ratio", 1.25), ("E", "gateway hop, p50, us", "p50_ms", "us", 200.0)]


def load_peers():
    if not PEERS_FILE.exists():
        sys.exit("scorecard: %s is missing (OPENDUCK_PEERS names another)" % PEERS_FILE)
    spec = importlib.util.spec_from_file_location("peers", PEERS_FILE)
    peers = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(PEERS_FILE.parent))
    sys.modules["peers"] = peers  # so that a process of its own finds what it is asked to run
    spec.loader.exec_module(peers)
    peers.__file__ = str(pathlib.Path(__file__).resolve())  # its children come back here, and know openduck_gw too
    peers.HERE = str(PEERS_FILE.parent)

    class OpenDuckGateway(peers.OpenDuck):
        name, port = "openduck_gw", GATEWAY_PORT
        attach = ("ATTACH 'openduck:db?endpoint=http://127.0.0.1:%d' AS r" % GATEWAY_PORT,)

        def start(self):
            db = "%s/openduck_gw.duckdb" % peers.DIR
            peers.copy_db(db)
            self.proc = subprocess.Popen([str(ROOT / "bench" / "stack.sh"), db, str(self.port)], start_new_session=True)
            peers.wait_port(self.port)
            return [self.proc.pid]

    peers.PEERS["openduck_gw"] = OpenDuckGateway
    return peers


def child(peers, args):
    """What peers.py starts: a client or a server of its own."""
    if args[0] == "client":
        print(json.dumps(peers.client(args[1], args[2], json.loads(args[3]))))
    else:
        if args[1].startswith("quack"):
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        peers.PEERS[args[1]]().serve()


def isolated(command):
    """COMMAND in a network namespace of its own, if this user may make one."""
    isolate = PEERS_FILE.parent / "isolate.sh"
    allowed = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0
    return ["sh", str(isolate), *command] if allowed and isolate.exists() else command


def measure(args):
    build = ROOT / "build" / "release"
    extension, server = build / "ext" / "openduck.duckdb_extension", build / "bin" / "openduck"
    for path in (extension, server):
        if not path.exists():
            sys.exit("scorecard: no %s: make build" % path)
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("OPENDUCK_")},
        "OPENDUCK_EXT": str(extension),
        "OPENDUCK_SERVE": "exec %s serve --log error --db db={db} --listen 127.0.0.1:{port}" % server,
    }
    if args.quick:
        quick = {"PERF_SF": "0.1", "PERF_E": "200", "PERF_F": "2", "PERF_DIR": "/dev/shm/perf-quick"}
        env = {**env, **{k: env.get(k, v) for k, v in quick.items()}}
    me = [sys.executable, str(pathlib.Path(__file__).resolve())]
    subprocess.run([sys.executable, str(PEERS_FILE), "prepare"], env=env, check=True, stderr=subprocess.DEVNULL)
    # Lines come as runs end, so that a run that is stopped still has something to say.
    with open(args.raw, "w+") if args.raw else tempfile.TemporaryFile("w+") as out:
        run = subprocess.Popen(isolated([*me, "run", args.peers, args.workloads, str(args.runs)]), env=env, stdout=out)
        signal.signal(signal.SIGTERM, lambda *_: stop(run))
        try:
            code = run.wait()
        except KeyboardInterrupt:
            stop(run)
            code = run.wait()
        out.seek(0)
        rows = [json.loads(line) for line in out if line.startswith("{") and line.endswith("\n")]
    if not rows:
        sys.exit("scorecard: the run failed (%s)" % code)
    return rows


def stop(run):
    """Ends the run and what it started: its last descendant that is peers.py stops the servers."""
    import psutil

    family = [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]
    for process in family:
        if "scorecard.py" in " ".join(process.cmdline()) and " run " in " ".join(process.cmdline()):
            process.terminate()


def medians(rows):
    """{(workload, peer): {measure: median}}, and the errors that were met."""
    groups, errors = {}, []
    for r in rows:
        if "error" in r:
            errors.append("%s %s: %s" % (r["w"], r["peer"], r["error"]))
            continue
        r["cpu"] = r["cpu_client"] + r["cpu_server"]
        r["wall_ms"] = r["wall"] * 1e3
        if r.get("errors"):
            errors.append("%s %s: %d queries failed" % (r["w"], r["peer"], r["errors"]))
        groups.setdefault((r["w"], r["peer"]), []).append(r)
    out = {}
    for key, group in groups.items():
        names = {n for r in group for n, v in r.items() if isinstance(v, (int, float))}
        out[key] = {n: statistics.median(r[n] for r in group if n in r) for n in names}
    return out, errors


def judge(m):
    """One line for each target whose runs are there."""
    lines = []

    def add(workload, what, ours, theirs, against, value, op, target):
        ok = value <= target if op == "<=" else value >= target
        lines.append(
            {
                "workload": workload,
                "what": what,
                "openduck": round(ours, 4),
                "against": against or "",
                "theirs": None if theirs is None else round(theirs, 4),
                "value": round(value, 3),
                "target": "%s %g" % (op, target),
                "ok": ok,
            }
        )

    for workload, what, name, against, op, target in TARGETS:
        ours = m.get((workload, "openduck"), {}).get(name)
        theirs = m.get((workload, against), {}).get(name) if against else None
        if ours is None or (against and not theirs):
            continue
        add(workload, what, ours, theirs, against, ours / theirs if against else ours, op, target)
    for workload, what, name, unit, target in HOPS:
        direct = m.get((workload, "openduck"), {}).get(name)
        hop = m.get((workload, "openduck_gw"), {}).get(name)
        if direct is None or hop is None:
            continue
        value = hop / direct if unit == "ratio" else (hop - direct) * 1e3
        add(workload, what, hop, direct, "openduck", value, "<=", target)
    return lines


def show(lines, m, errors):
    print("| workload | measure | OpenDuck | against | theirs | ratio or value | target | |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for x in lines:
        theirs = "" if x["theirs"] is None else "%g" % x["theirs"]
        cells = (x["workload"], x["what"], "%g" % x["openduck"], x["against"], theirs, "%g" % x["value"], x["target"])
        print("| %s | %s |" % (" | ".join(cells), "met" if x["ok"] else "MISSED"))
    print()
    print("| workload | peer | wall s | client + server CPU s | p50 ms | q/s | peak MB, both | wire MB | foreign |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for (workload, peer), v in sorted(m.items()):
        cells = (
            workload,
            peer,
            "%.3f" % v["wall"],
            "%.2f + %.2f" % (v["cpu_client"], v["cpu_server"]),
            "%.2f" % v["p50_ms"] if "p50_ms" in v else "",
            "%.0f" % v["qps"] if "qps" in v else "",
            "%.0f / %.0f" % (v["rss_client_mb"], v["rss_server_mb"]),
            "%.1f" % v["wire_mb"],
            "%.0f%%" % (v["foreign"] * 100),
        )
        print("| %s |" % " | ".join(cells))
    for e in errors:
        print("error: " + e)
    print("%d targets met, %d missed" % (sum(x["ok"] for x in lines), sum(not x["ok"] for x in lines)))


def main():
    argv = sys.argv[1:]
    if argv[:1] in (["client"], ["server"]):
        return child(load_peers(), argv)
    if argv[:1] == ["run"]:
        space = argparse.Namespace(
            peers=argv[1], workloads=argv[2], n=int(argv[3]), timeout=600, max_foreign=0.15, retries=1, wait=3
        )
        return load_peers().run(space)
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--workloads", default="A,B,C,D,E,F32,I")
    p.add_argument("--peers", default="local,openduck,openduck_gw,quack,flight")
    p.add_argument("--quick", action="store_true")
    p.add_argument("--json", action="store_true")
    p.add_argument("--raw", metavar="FILE", help="keep the single runs, one JSON line each")
    p.add_argument("--strict", action="store_true")
    args = p.parse_args()
    if args.quick:
        args.runs = min(args.runs, 2)
    m, errors = medians(measure(args))
    lines = judge(m)
    if args.json:
        print(
            json.dumps({"targets": lines, "runs": {"%s %s" % k: v for k, v in m.items()}, "errors": errors}, indent=1)
        )
    else:
        show(lines, m, errors)
    missed = errors or not all(x["ok"] for x in lines)
    return 1 if args.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main())
