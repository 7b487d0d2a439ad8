#!/usr/bin/env python3
"""Bus bandwidth behind libnccl.so beside NCCL's, from docs/raw/door.
Usage: door_speed.py RAW LIMIT [PLOT.svg]   LIMIT: of blocks, or def; prints the table, and draws all_reduce and all_gather"""
import sys

import plot

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


def cell(of_size):
    texts = [f"{of_size[library]:.0f}" if library in of_size else "-" for library in ("corale", "before", "nccl")]
    return " / ".join(texts)


def draw(programs, path):
    curves = []
    for program, dash in (("all_reduce", ""), ("all_gather", "5 4")):
        for library, name, color in (("corale", "Corale", plot.BLUE), ("nccl", "NCCL 2.32.3", plot.ORANGE)):
            line = sorted((size, of[library]) for size, of in programs[program].items() if library in of and "corale" in of)
            curves.append(plot.Curve(f"{program}, {name}", line, color, dash))
    with open(path, "w", encoding="utf-8") as file:
        file.write(plot.draw("nccl-tests, 4 H100, defaults", "bus bandwidth (GB/s)", curves, linear=True))


def main():
    programs = read(sys.argv[1], sys.argv[2])
    sizes = [n << 20 for n in (1, 4, 16, 32, 64, 256)]
    sizes = [n for n in sizes if any("corale" in of.get(n, {}) for of in programs.values())]
    print("| | " + " | ".join(f"{n >> 20} MB" for n in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for program, of_size in programs.items():
        if any("corale" in of for of in of_size.values()):
            print(f"| {NAMES.get(program, program)} | " + " | ".join(cell(of_size.get(n, {})) for n in sizes) + " |")
    if len(sys.argv) > 3:
        draw(programs, sys.argv[3])


main()
