#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The table of docs/performance.md, 'Two H100': NCCL's best time / Corale's, and both in us.
Usage: docs/pair_nccl.py RAW...   RAW: files of corale_*_perf --vs-nccl --raw"""
import sys

from plot import number, read_lines, size_text, time_text


def main():
    for path in sys.argv[1:]:
        head, lines = read_lines(path)
        rows = {}
        for line in lines:
            rows.setdefault(line["coll"], {})[int(line["bytes"])] = (number(line["nccl_best_us"]), number(line["ours_us"]))
        sizes = sorted({bytes_ for row in rows.values() for bytes_ in row})
        print(f"\n| {head['mode']} | " + " | ".join(size_text(n) for n in sizes) + " |\n|---|" + "---|" * len(sizes))
        for coll, row in rows.items():
            cells = [f"{nccl / ours:.2f} ({time_text(nccl)} / {time_text(ours)})" for nccl, ours in (row[n] for n in sizes)]
            print(f"| {coll} | " + " | ".join(cells) + " |")


main()
