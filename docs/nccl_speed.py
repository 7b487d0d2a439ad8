#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The table of docs/lab/gpus.md, 'Behind libnccl.so.2', from the output of programs. Usage: nccl_speed.py docs/raw/nccl-h100.raw"""
import sys

NAMES = {"own": "Corale's own program", "nccl": "nccl-tests", "scratch": "nccl-tests, `CORALE_NCCL_SCRATCH=512M`"}


def read(path):
    """{(program, collective): {bytes: us out of place}}, in the order of the file"""
    runs, run = {}, None
    for line in open(path):
        words = line.split()
        if line.startswith("=="):
            run = runs.setdefault((words[1], words[2]), {})
        elif words and words[0].isdigit():
            run[int(words[0])] = float(words[5])
    return runs


def size(n):
    for unit, bytes_ in (("M", 1 << 20), ("K", 1 << 10)):
        if n >= bytes_:
            return f"{n // bytes_} {unit}B"
    return f"{n} B"


def main():
    runs = read(sys.argv[1])
    sizes = list(next(iter(runs.values())))
    print("| us | program | " + " | ".join(size(n) for n in sizes) + " |")
    print("|---|---|" + "---|" * len(sizes))
    for (program, collective), times in runs.items():
        print(f"| {collective} | {NAMES[program]} | " + " | ".join(f"{times[n]:.1f}" for n in sizes) + " |")


main()
