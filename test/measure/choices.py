#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tables of what test/measure/choices measured.

Usage: test/measure/choices.py RAW...

A line for each call: the planner's choice, the fastest forced algorithm, choice / best, the MPI library's time and MPI / choice where it was
measured, the model's time of the choice / its measured time, then each forced algorithm with its time and, behind a slash, the
model's. A choice above 1.5 was measured again, by turns with the fastest; such lines have these two times and a *. The end: how
many choices were good, by collective, and each bad one. Needs Python 3 only.
"""
import math
import sys

GOOD, GOOD_US, BAD = 1.15, 2.0, 1.5


class Call:
    """One call on one machine: [(kind, algorithm, us, model_us)], and the spreads of entries."""

    def __init__(self, nodes, coll, size):
        self.nodes, self.coll, self.size, self.timed, self.spreads = nodes, coll, size, [], []

    def find(self, kind):
        return [entry for entry in self.timed if entry[0] == kind]

    def forced(self):
        return sorted(self.find("forced"), key=lambda entry: entry[2])

    def again(self):
        return bool(self.find("again_choice"))

    def choice(self):
        return (self.find("again_choice") or self.find("choice"))[0]

    def best(self):
        return (self.find("again_forced") or self.forced())[0]

    def ratio(self):
        return self.choice()[2] / self.best()[2]

    def good(self):
        return self.ratio() <= GOOD or self.choice()[2] - self.best()[2] <= GOOD_US

    def mpi_ratio(self):
        return self.find("mpi")[0][2] / self.find("choice")[0][2] if self.find("mpi") else None

    def noise(self):
        """The choice against the same algorithm forced: the same plan measured twice; at least 1."""
        _, algo, us, _ = self.find("choice")[0]
        twin = [entry[2] for entry in self.forced() if entry[1] == algo]
        return max(us / twin[0], twin[0] / us) if twin else None


def read(path):
    """The calls of one raw file, in order."""
    with open(path, encoding="utf-8") as file:
        first = file.readline().rstrip("\n").split("\t")
        if first[0] != "# corale-choices 1":
            sys.exit(f"{path}: not a raw file of test/measure/choices")
        header = dict(field.split("=", 1) for field in first[1:])
        columns = file.readline().rstrip("\n").split("\t")
        calls = {}
        for text in file:
            line = dict(zip(columns, text.rstrip("\n").split("\t")))
            key = (line["coll"], int(line["bytes"]))
            call = calls.setdefault(key, Call(header["nodes"], *key))
            call.timed.append((line["kind"], line["algo"], float(line["us"]), float(line["model_us"] or 0)))
            call.spreads.append(float(line["spread_us"]))
        return header, list(calls.values())


def short(nodes):
    """NxR where each node has as many ranks."""
    sizes = nodes.split(",")
    return f"{len(sizes)}x{sizes[0]}" if len(set(sizes)) == 1 else nodes


def cells(call):
    _, algo, us, model = call.choice()
    _, best, best_us, _ = call.best()
    mpi = call.find("mpi")
    return [short(call.nodes), call.coll, str(call.size), algo, f"{us:.1f}", best, f"{best_us:.1f}",
            f"{call.ratio():.2f}{'*' if call.again() else ''}", f"{mpi[0][2]:.1f}" if mpi else "-",
            f"{call.mpi_ratio():.2f}" if mpi else "-", f"{model / us:.2f}",
            "  ".join(f"{name} {time:.1f}/{modelled:.1f}" for _, name, time, modelled in call.forced())]


def print_rows(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    for row in rows:
        print("  ".join([text.ljust(width) for text, width in zip(row, widths)] + row[-1:]).rstrip())


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(name, calls):
    ratios = [call.ratio() for call in calls]
    mpi = [call.mpi_ratio() for call in calls if call.mpi_ratio()]
    good = sum(call.good() for call in calls)
    return [name, str(len(calls)), f"{good} ({100 * good / len(calls):.0f} %)", f"{mean(ratios):.3f}", f"{max(ratios):.2f}",
            f"{mean(mpi):.2f}" if mpi else "-", f"{sum(ratio >= 1 for ratio in mpi)} of {len(mpi)}" if mpi else "-"]


def main():
    paths = sys.argv[1:]
    if not paths or paths[0].startswith("-"):
        sys.exit(__doc__)
    files = sorted((read(path) for path in paths), key=lambda file: (int(file[0]["ranks"]), file[0]["nodes"]))
    calls = [call for _, of_file in files for call in of_file]
    if not calls:
        sys.exit("no call was measured")
    for header, _ in files:
        shared = ", which share them" if int(header["ranks"]) > int(header["cores"]) else ""
        print(f"# {short(header['nodes'])}: Corale {header['version']}, {header['mpi']}, {header['ranks']} ranks on {header['cores']} cores{shared}")
    titles = ["nodes", "collective", "bytes", "choice", "us", "best", "us", "choice/best", "mpi us", "mpi/choice",
              "model/us", "forced: us/model"]
    print_rows([titles] + [cells(call) for call in calls])
    print(f"\nGood: within {GOOD} times, or {GOOD_US:g} us, of the fastest forced algorithm")
    groups = [(name, [call for call in calls if call.coll == name]) for name in dict.fromkeys(call.coll for call in calls)]
    groups += [(name, [call for call in calls if short(call.nodes) == name]) for name in dict.fromkeys(short(call.nodes) for call in calls)]
    print_rows([["", "calls", "good", "choice/best, geomean", "most", "mpi/choice, geomean", "mpi slower"]] +
               [summary(*group) for group in groups] + [summary("all", calls)])
    noise = sorted(call.noise() for call in calls if call.noise())
    if noise:
        print(f"\nNoise, the choice against the same algorithm forced: median {noise[len(noise) // 2]:.3f}, "
              f"nine of ten below {noise[len(noise) * 9 // 10]:.3f}")
    spreads = sorted(spread for call in calls for spread in call.spreads)
    print(f"Ranks entered a call within {spreads[len(spreads) // 2]:.1f} us of each other, in nine of ten lines within "
          f"{spreads[len(spreads) * 9 // 10]:.1f} us; the larger it is the shorter seem calls with a root")
    bad = sorted((call for call in calls if call.ratio() > BAD and not call.good()), key=Call.ratio, reverse=True)
    print(f"\nAbove {BAD}, measured again: {len(bad)}")
    for call in bad:
        print(f"  {short(call.nodes)} {call.coll} {call.size}: {call.choice()[1]} {call.choice()[2]:.1f} us, "
              f"{call.best()[1]} {call.best()[2]:.1f} us: {call.ratio():.2f}")


if __name__ == "__main__":
    main()
