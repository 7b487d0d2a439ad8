#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Bus bandwidth behind libnccl.so beside NCCL's, from docs/raw/door.
Usage: door_speed.py RAW LIMIT [GPUS PLOT.svg]   LIMIT: of blocks, or def; prints the table, and draws all_reduce and all_gather of GPUS"""
import sys

import plot
import tables

NAMES = {"alltoall": "all_to_all", "alltoallv": "all_to_all_v"}


def read(path, limit):
    """{program: {bytes: {library: GB/s}}}, in the order of the file"""
    programs = {}
    for line in open(path):
        words = line.split()
        if line[0] != "#" and words[2] == limit:
            of_size = programs.setdefault(words[0], {}).setdefault(int(words[3]), {})
            of_size.setdefault(words[1], float(words[5]))
    return programs


def cell(of_size, libraries):
    return " / ".join(f"{of_size[library]:.0f}" if library in of_size else "-" for library in libraries)


def draw(programs, gpus, path):
    curves = []
    for program, dash in (("all_reduce", ""), ("all_gather", "5 4")):
        for library, name, color in (("corale", "Corale", plot.BLUE), ("nccl", "NCCL 2.32.3", plot.ORANGE)):
            line = sorted((size, of[library]) for size, of in programs[program].items() if library in of and "corale" in of)
            curves.append(plot.Curve(f"{program}, {name}", line, color, dash))
    with open(path, "w", encoding="utf-8") as file:
        file.write(plot.draw(f"nccl-tests, {gpus}, defaults", "bus bandwidth (GB/s)", curves, linear=True))


def main():
    programs = read(sys.argv[1], sys.argv[2])
    measured = {program: of for program, of in programs.items() if any("corale" in of_size for of_size in of.values())}
    sizes = sorted({size for of in measured.values() for size in of if "corale" in of[size] and size >= 1 << 20})
    seen = {library for of in measured.values() for of_size in of.values() for library in of_size}
    libraries = [library for library in ("corale", "before", "nccl") if library in seen]
    rows = [[NAMES.get(program, program)] + [cell(of.get(size, {}), libraries) for size in sizes] for program, of in measured.items()]
    print(tables.table([""] + [plot.size_text(size) for size in sizes], rows), end="")
    if len(sys.argv) > 3:
        draw(programs, sys.argv[3], sys.argv[4])


main()
