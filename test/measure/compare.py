#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two builds by turns: how much slower or faster is the new one, beside how much the old one differs from itself.

Usage: test/measure/bench compare OLD NEW [--ranks "2 4"] [--device host|cuda] [--turns N] [--min SIZE] [--max SIZE]
           [--only COLLECTIVE,...] [--modes eager,graph,registered] [--out FILE]
OLD, NEW: build directories. Each turn runs OLD, NEW and OLD again (NEW first in every other turn), with sizes 2^k and 3 x 2^k. A
line is a collective, mode and size: the median of OLD's time over NEW's (above 1: NEW is faster), and of OLD's over OLD's other
run's. Ends with the sizes at which NEW's ratio is below 0.97; status 1 if there are any where OLD against OLD is not.
"""
import argparse, os, statistics, subprocess, sys, tempfile

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "sendrecv"]
MODES = {"eager": [], "graph": ["-G", "8"], "registered": ["-R", "2"], "graph-registered": ["-G", "8", "-R", "2"]}
LEAST = 0.97


def number(text):
    return int(text[:-1]) << 10 * ("KMG".index(text[-1]) + 1) if text[-1] in "KMG" else int(text)


def program(build, collective):
    for place in (build, os.path.join(build, "examples")):
        path = os.path.join(place, f"corale_{collective}_perf")
        if os.access(path, os.X_OK):
            return path
    sys.exit(f"compare: {build} has no corale_{collective}_perf")


def times(args, build, collective, mode, ranks, first):
    """Microseconds by bytes, sizes from `first` on by doubling."""
    env = dict(os.environ, LD_LIBRARY_PATH=build + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
    with tempfile.NamedTemporaryFile("r", suffix=".raw") as raw:
        command = [args.mpirun, "-n", str(ranks), program(build, collective), "--device", args.device, "-c", "0",
                   "-b", str(first), "-e", args.max, "-f", "2", "--raw", raw.name] + MODES[mode]
        run = subprocess.run(["timeout", "-k", "10", "600"] + command, env=env, capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"compare: {' '.join(command)}: status {run.returncode}\n{run.stdout[-500:]}{run.stderr[-500:]}")
        lines = [line.rstrip("\n").split("\t") for line in raw if not line.startswith("#")]
    at = {name: i for i, name in enumerate(lines[0])}
    return {int(f[at["bytes"]]): float(f[at["us"]]) for f in lines[1:] if float(f[at["us"]] or 0) > 0}


def compare(args, collective, mode, ranks):
    """By bytes: ratios OLD/NEW and OLD/OLD, one a turn."""
    ratios = {}
    for turn in range(args.turns):
        for first in (number(args.min), number(args.min) * 3):
            order = ["old", "new", "again"] if turn % 2 == 0 else ["new", "old", "again"]
            builds = {"old": args.old, "again": args.old, "new": args.new}
            us = {which: times(args, builds[which], collective, mode, ranks, first) for which in order}
            for size in us["new"]:
                if size in us["old"] and size in us["again"]:
                    ratios.setdefault(size, []).append((us["old"][size] / us["new"][size], us["old"][size] / us["again"][size]))
    return ratios


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("old"), p.add_argument("new")
    p.add_argument("--ranks", default="2 4"), p.add_argument("--device", default="host", choices=["host", "cuda"])
    p.add_argument("--turns", type=int, default=5), p.add_argument("--min", default="8"), p.add_argument("--max", default="32M")
    p.add_argument("--only", default=",".join(COLLECTIVES)), p.add_argument("--modes"), p.add_argument("--out")
    p.add_argument("--mpirun", default="mpirun")
    args = p.parse_args()
    modes = args.modes.split(",") if args.modes else list(MODES) if args.device == "cuda" else ["eager"]
    out = open(args.out, "w") if args.out else None
    slower, suspect = [], []
    for ranks in args.ranks.split():
        for collective in args.only.split(","):
            for mode in modes:
                for size, pairs in sorted(compare(args, collective, mode, ranks).items()):
                    new, same = (statistics.median(r[i] for r in pairs) for i in (0, 1))
                    line = f"{ranks} ranks  {collective:15s} {mode:17s} {size:11d}  {new:6.3f}  {same:6.3f}"
                    print(line, flush=True)
                    if out:
                        print(line, file=out, flush=True)
                    if new < LEAST:
                        (suspect if same < LEAST or same > 1 / LEAST else slower).append(line)
    print(f"\n{len(slower)} below {LEAST} where OLD is like itself, {len(suspect)} where it is not")
    for line in slower:
        print("SLOWER " + line)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
