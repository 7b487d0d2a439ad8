#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tables of the perf programs' comparison with MPI: a row a collective, a column a size.

Usage: docs/beside_mpi.py [--worst] RAW...

RAW: files of corale_*_perf --vs-mpi --raw (test/measure/beside_mpi makes them); of several of one collective and machine the medians. For each
machine two tables, calls in a row and one call at a time: MPI's time / Corale's, above 1 where Corale is faster, and the two times in us.
--worst: one short table for each machine, the least ratio of each collective and the geometric mean. Needs Python 3 only.
"""
import math
import statistics
import sys

from plot import number, read_lines, size_text

ORDER = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all", "all_to_all_v",
         "sendrecv", "barrier"]
# title, columns: ours, MPI's, MPI's / ours
TABLES = [("Calls in a row", "ours_us", "mpi_us", "ratio"), ("One call at a time", "one_us", "one_mpi_us", "one_ratio")]


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def text(ratio):
    return f"{ratio:.2f}"


def size_of(line):
    """The size that was asked for: blocks have whole elements, so a line's may be a little less. 0: a barrier's."""
    return 1 << round(math.log2(int(line["bytes"]))) if int(line["bytes"]) else 0


def cell(line, ours, mpi, ratio):
    if not line or not line.get(ratio):
        return ""
    return f"{text(number(line[ratio]))} ({number(line[mpi]):.1f} / {number(line[ours]):.1f})"


def print_table(title, lines, ours, mpi, ratio):
    """lines: {(collective, size): line}"""
    sizes = sorted({size for _, size in lines if size})
    colls = [coll for coll in ORDER if any(key[0] == coll for key in lines)]
    print(f"{title}: MPI / Corale (MPI / Corale in us)\n")
    print("| | " + " | ".join(size_text(size) for size in sizes) + " | geometric mean |")
    print("|---" * (len(sizes) + 2) + "|")
    every = []
    for coll in colls:
        found = [lines.get((coll, size)) for size in sizes] if (coll, 0) not in lines else [lines[coll, 0]]
        ratios = [number(line[ratio]) for line in found if line and line.get(ratio)]
        cells = [cell(line, ours, mpi, ratio) for line in found]
        if (coll, 0) in lines:
            cells = [""] * len(sizes) + cells
        else:
            cells.append(text(mean(ratios)) if ratios else "")
        every += ratios
        print(f"| {coll} | " + " | ".join(cells) + " |")
    if every:
        print(f"| all | " + " | " * len(sizes) + f"{text(mean(every))} |")
        print(f"\nCorale is faster in {sum(value > 1 for value in every)} of {len(every)}.")
    print()


def median_of(lines):
    """One line of several of the same call."""
    merged = dict(lines[0])
    for column in [name for table in TABLES for name in table[1:]] + ["noise"]:
        values = [number(line[column]) for line in lines if line.get(column)]
        merged[column] = str(statistics.median(values)) if values else ""
    return merged


def worst_cell(lines, ratio):
    """"0.97 at 64K, **1.41**": the least ratio of a collective's lines, at which size, and the geometric mean."""
    ratios = [(number(line[ratio]), size_of(line)) for line in lines if line.get(ratio)]
    if not ratios:
        return ""
    least, size = min(ratios)
    at = f" at {size_text(size)}" if size else ""
    return f"{text(least)}{at}, **{text(mean([value for value, _ in ratios]))}**"


def print_worst(lines):
    """lines: {(collective, size): line}"""
    print("| collective | " + ": least, geometric mean | ".join(table[0].lower() for table in TABLES) + ": least, geometric mean | least noise |")
    print("|---" * (len(TABLES) + 2) + "|")
    for coll in [coll for coll in ORDER if any(key[0] == coll for key in lines)]:
        own = [line for key, line in lines.items() if key[0] == coll]
        noise = min((number(line["noise"]) for line in own if line.get("noise")), default=1)
        print(f"| {coll} | " + " | ".join(worst_cell(own, table[3]) for table in TABLES) + f" | {text(noise)} |")
    print()


def main():
    worst = sys.argv[1:2] == ["--worst"]
    paths = sys.argv[1 + worst:]
    if not paths or paths[0].startswith("-"):
        sys.exit(__doc__)
    machines = {}
    for path in paths:
        header, lines = read_lines(path)
        machine = machines.setdefault((int(header["ranks"]), int(header["nodes"])), (header, {}))
        for line in lines:
            machine[1].setdefault((line["coll"], size_of(line)), []).append(line)
    for (ranks, nodes), (header, found) in sorted(machines.items(), key=lambda item: (item[0][0], -item[0][1])):
        lines = {key: median_of(of_key) for key, of_key in found.items()}
        print(f"### {ranks} ranks on {nodes} nodes\n\nCorale {header['version']}, {header['mpi']}, {header['hosts']} hosts.\n")
        if worst:
            print_worst(lines)
            continue
        for table in TABLES:
            print_table(table[0], lines, *table[1:])


if __name__ == "__main__":
    main()
