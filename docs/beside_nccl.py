#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tables of Corale and NCCL, each alone in its processes: a row a collective, a column a size.

Usage: docs/beside_nccl.py RAW...

RAW: files of corale_*_perf --raw, some of them with --only nccl (test/measure/beside_nccl makes them). A cell is NCCL's time / Corale's, above 1
where Corale is faster, and both times in us: medians over the files of a library. Cells below 0.95 are bold. A cell with a wrong result
says so, and counts in no mean. Needs Python 3 only.
"""
import math
import sys
from statistics import median

from plot import number, read_lines, size_text, time_text

ORDER = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all", "all_to_all_v",
         "sendrecv", "barrier"]
TABLES = [("Calls in a row", "us"), ("One call at a time", "one_us")]
LEAST = 0.95  # a ratio below it is marked


class Cell:
    """The lines of one collective and size: times of both libraries, a list of the files' for each column."""

    def __init__(self):
        self.times = {"corale": {}, "nccl": {}}
        self.modes, self.wrong = [], set()

    def add(self, line):
        library = line["library"]
        if line["nccl_mode"]:
            self.modes.append(line["nccl_mode"])
        if any(line[column] not in ("", "0", "N/A") for column in ("wrong", "in_wrong")):
            self.wrong.add(library)
        for _, column in TABLES:
            if line[column]:
                self.times[library].setdefault(column, []).append(number(line[column]))

    def pair(self, column):
        """Corale's time and NCCL's; None: not measured."""
        return [median(times[column]) if times.get(column) else None for times in (self.times["corale"], self.times["nccl"])]

    def ratio(self, column):
        corale, nccl = self.pair(column)
        return nccl / corale if corale and nccl and not self.wrong else None

    def text(self, column):
        if self.wrong:
            return "wrong: " + ", ".join(sorted(self.wrong))
        times = " / ".join(time_text(us) or "-" for us in self.pair(column))
        ratio = self.ratio(column)
        if ratio is None:
            return f"({times})"
        return f"**{ratio:.2f}** ({times})" if ratio < LEAST else f"{ratio:.2f} ({times})"


def size_of(line):
    """The size that was asked for: blocks have whole elements, so a line's may be a little less. 0: a barrier's."""
    return 1 << round(math.log2(int(line["bytes"]))) if int(line["bytes"]) else 0


def mean_text(cells, column):
    ratios = [ratio for ratio in (cell.ratio(column) for cell in cells) if ratio]
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else ""


def print_table(title, column, cells):
    """cells: {(collective, size): Cell}"""
    sizes = sorted({size for _, size in cells})
    print(f"{title}: NCCL / Corale (us Corale / NCCL)\n")
    print("| | " + " | ".join(size_text(size) for size in sizes) + " | geometric mean |")
    print("|---" * (len(sizes) + 2) + "|")
    for coll in sorted({coll for coll, _ in cells}, key=ORDER.index):
        row = [cells.get((coll, size)) for size in sizes]
        texts = [cell.text(column) if cell else "" for cell in row]
        print(f"| {coll} | " + " | ".join(texts) + f" | {mean_text([cell for cell in row if cell], column)} |")
    means = [mean_text([cell for key, cell in cells.items() if key[1] == size], column) for size in sizes]
    print("| all | " + " | ".join(means) + f" | {mean_text(cells.values(), column)} |")
    ratios = [ratio for ratio in (cell.ratio(column) for cell in cells.values()) if ratio]
    print(f"\nBelow {LEAST}: {sum(ratio < LEAST for ratio in ratios)} of {len(ratios)}.\n")


def print_modes(cells):
    modes = [mode for cell in cells.values() for mode in cell.modes]
    counts = ", ".join(f"{mode} {modes.count(mode)}" for mode in sorted(set(modes)))
    print(f"NCCL's fastest mode, of {len(modes)} lines: {counts}.\n")


def read_all(paths):
    """{(ranks, nodes, mode): (headers by library, how many files of each, cells)}"""
    machines = {}
    for path in paths:
        header, lines = read_lines(path)
        if "library" not in header:
            sys.exit(f"{path}: it does not say which library it is of")
        key = (int(header["ranks"]), int(header["nodes"]), header["mode"])
        headers, counts, cells = machines.setdefault(key, ({}, {}, {}))
        headers[header["library"]] = header
        counts[header["library"]] = counts.get(header["library"], 0) + 1
        for line in lines:
            if line.get("nccl_mode") is not None:  # the last column: the line is whole
                cells.setdefault((line["coll"], size_of(line)), Cell()).add(line)
    return machines


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for (ranks, nodes, mode), (headers, counts, cells) in sorted(read_all(sys.argv[1:]).items()):
        any_header = next(iter(headers.values()))
        nccl = " ".join(headers["nccl"]["nccl"].split()[:2]) if "nccl" in headers else "NCCL was not measured"
        rounds = " and ".join(f"{count} of {library}" for library, count in sorted(counts.items()))
        print(f"### {ranks} ranks on {nodes} nodes, {mode}\n\nCorale {any_header['version']}, {nccl}, {any_header['gpu']}. "
              f"Each library alone in its processes, by turns: {rounds}.\n")
        print_modes(cells)
        for title, column in TABLES:
            print_table(title, column, cells)


if __name__ == "__main__":
    main()
