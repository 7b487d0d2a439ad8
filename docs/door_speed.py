#!/usr/bin/env python3
"""Bus bandwidth behind libnccl.so beside NCCL's, from docs/raw/door. Usage: door_speed.py RAW LIMIT   LIMIT: of blocks, or def"""
import sys

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


def main():
    programs = read(sys.argv[1], sys.argv[2])
    sizes = [n << 20 for n in (1, 4, 16, 32, 64, 256)]
    sizes = [n for n in sizes if any("corale" in of.get(n, {}) for of in programs.values())]
    print("| | " + " | ".join(f"{n >> 20} MB" for n in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for program, of_size in programs.items():
        if any("corale" in of for of in of_size.values()):
            print(f"| {NAMES.get(program, program)} | " + " | ".join(cell(of_size.get(n, {})) for n in sizes) + " |")


main()
