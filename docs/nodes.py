#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of GPUs over nodes in docs/lab/nodes.md: what corale-plan says of them, and what was measured beside NCCL.

Usage: docs/nodes.py [CORALE-PLAN]

With the program: asks it first, and keeps its answers in docs/raw/nodes.raw. Then renews the marked parts of
docs/lab/nodes.md from these, and from docs/raw/nodes-nccl.raw, which holds lines of corale_*_perf --vs-nccl. Needs Python 3 only.
"""

import os
import re
import subprocess
import sys

from plot import size_text
from raw import pack, unpack

HERE = os.path.dirname(os.path.abspath(__file__))
MEASURED = os.path.join(HERE, "raw", "nodes-nccl.raw")
RAW, PAGE = os.path.join(HERE, "raw", "nodes.raw"), os.path.join(HERE, "lab", "nodes.md")
NODES = [2, 4, 8, 16, 32, 64, 256]
MEBI = 1 << 20
SUMS = [(n, "all_reduce", size * MEBI) for n in NODES for size in (1, 16, 128, 1024)]
OTHERS = [(n, coll, size * MEBI) for n in (2, 8, 32) for size in (1, 16)
          for coll in ("all_gather", "reduce_scatter", "broadcast", "all_to_all")]
UNITS = {"us": 1, "ms": 1e3}


def ask(program):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CORALE_")}
    with open(RAW, "w") as out:
        for nodes, coll, size in SUMS + OTHERS:
            command = ["-n", "-s", "0", f"node:{nodes} gpu:8 nvlink:360 rail:50", coll, str(size)]
            text = subprocess.run([program] + command, env=clean, check=False, capture_output=True, text=True).stdout
            lines = [line for line in text.splitlines() if re.match(r"modelled:|simulated:|\w+ by ", line)]
            out.write(f"# {nodes} {coll} {size}\n" + "\n".join(lines) + "\n")


def microseconds(pattern, text):
    found = re.search(pattern + r" ([\d.]+) (us|ms)", text)
    return float(found[1]) * UNITS[found[2]] if found else None


class Answer:
    """What was said of one call: its algorithm, and microseconds."""

    def __init__(self, text):
        algo = re.search(r"^\w+ by (\w+)", text, re.M)
        self.algo = algo[1] if algo else None  # no plan fits a kernel's lists
        self.model = microseconds("modelled:  ", text)
        self.bound = microseconds("takes less than", text)
        self.simulated = microseconds("simulated: ", text)

    def time(self):
        return self.simulated or self.model


def answers():
    found = {}
    with open(RAW) as lines:
        for part in lines.read().split("# ")[1:]:
            head, text = part.split("\n", 1)
            nodes, coll, size = head.split()
            found[int(nodes), coll, int(size)] = Answer(text)
    return found


def cell(answer):
    """The share of the bound, and what the model says beside the simulator."""
    if not answer.algo:
        return "none fits"
    beside = f"{answer.model / answer.simulated:.2f}" if answer.simulated else "-"
    return f"{answer.bound / answer.time():.2f} ({beside}) {answer.algo}"


def table(calls, found, column, row):
    columns, rows = list(dict.fromkeys(map(column, calls))), list(dict.fromkeys(map(row, calls)))
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in rows:
        cells = [cell(found[call]) for call in calls if row(call) == name]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def versus():
    """Microseconds of Corale and of NCCL by turns, and their ratio."""
    with open(MEASURED) as raw:
        parts = [part.split("\n") for part in raw.read().split("#: ")[1:]]
    lines = ["| | bytes | Corale, us | NCCL, us | NCCL / Corale |", "|---" * 5 + "|"]
    for title, *rest in parts:
        for row in (line.split() for line in rest if line[:1].isdigit()):
            ours, best = row[13], row[15]
            lines.append(f"| {title} | {size_text(int(row[0]))} | {ours} | {best} | {float(best) / float(ours):.2f} |")
    return "\n".join(lines)


def renew(name, text):
    with open(PAGE) as page:
        whole = page.read()
    begin, end = f"<!-- {name}: made by docs/nodes.py -->\n", f"<!-- end of {name} -->"
    if begin not in whole or end not in whole:
        sys.exit(f"{PAGE}: no lines '{begin.strip()}' and '{end}'")
    before, after = whole.split(begin)[0], whole.split(end)[1]
    with open(PAGE, "w") as page:
        page.write(f"{before}{begin}\n{text}\n\n{end}{after}")


def main():
    unpack()
    if len(sys.argv) > 1:
        ask(sys.argv[1])
        pack()
    found = answers()
    renew("measured beside NCCL", versus())
    renew("nodes of GPUs", table(SUMS, found, lambda c: size_text(c[2]), lambda c: f"{c[0]} nodes"))
    renew("other collectives",
          table(OTHERS, found, lambda c: c[1], lambda c: f"{c[0]} nodes, {size_text(c[2])}"))


main()
