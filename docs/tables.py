#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tables and plots of what test/measure/bench measured on GPUs.

Usage: docs/tables.py [DIR]

Without DIR: renews the marked parts of docs/performance.md and docs/lab/gpu-tables.md, and the gpu-* plots in docs/plots from docs/raw/gpu.
With DIR, where test/measure/bench has left its raw files: writes DIR/performance.md and DIR/plots.
A raw file's name is COLLECTIVE-RANKS-MODE[-VARIANT].raw (test/measure/bench-suites). Needs Python 3 only.
"""

import math
import os
import re
import sys

from plot import BLUE, GREEN, GREY, ORANGE, Curve, draw, number, read_lines, size_text, time_text
from raw import unpack

HERE = os.path.dirname(os.path.abspath(__file__))
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "sendrecv"]
# GB/s of one direction of a GPU's links, by what is nearest to their limit there: copies round a ring, both ways.
LIMITS = {"NVIDIA H200": 392.4}
PLAIN, REGISTERED = "", "registered"
COMMAND = "./quickstart bench full"


# ---- What was measured -----------------------------------------------------------------------------------------

class Measurement:
    """One raw file."""

    def __init__(self, path):
        name = os.path.basename(path)[:-len(".raw")]
        self.coll, ranks, self.mode, *variant = name.split("-", 3)
        self.variant = variant[0] if variant else PLAIN
        self.ranks = int(ranks)
        kind = "beside" if self.variant.startswith("beside") else "raw"
        self.header, self.lines = read_lines(path, kind)


def load(directory):
    paths = sorted(os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".raw"))
    return [Measurement(path) for path in paths]


def find(all_of_it, coll, ranks, mode, variant=PLAIN):
    for m in all_of_it:
        if (m.coll, m.ranks, m.mode, m.variant) == (coll, ranks, mode, variant):
            return m
    return None


def compared(m):
    """Lines with a time of NCCL."""
    return [line for line in m.lines if line.get("best_ratio")] if m else []


def ours(line):
    """Our time beside NCCL, else alone."""
    return number(line["ours_us"]) or number(line["us"])


def is_met(line):
    """Not slower than NCCL's best, or no more than that differs from itself."""
    return number(line["best_ratio"]) >= min(1, number(line["nccl_noise"]))


def ranks_of(all_of_it):
    return sorted({m.ranks for m in all_of_it}, reverse=True)


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


# ---- Markdown --------------------------------------------------------------------------------------------------

def table(columns, rows, left=1):
    """A table whose first columns are text."""
    text = ["| " + " | ".join(columns) + " |", "|" + "---|" * left + "---:|" * (len(columns) - left)]
    return "\n".join(text + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def bold(text, yes):
    return f"**{text}**" if yes else text


def ways(all_of_it, ranks):
    """(mode, variant) of the comparisons that there are."""
    there = {(m.mode, m.variant) for m in all_of_it if m.ranks == ranks and compared(m)}
    return [way for way in (("graph", PLAIN), ("eager", PLAIN), ("graph", REGISTERED), ("eager", REGISTERED))
            if way in there]


def way_text(mode, variant):
    return f"{mode}, {variant}" if variant else mode


def summary_cell(m, column):
    lines = [line for line in compared(m) if line[column]]
    if not lines:
        return ""
    least = min(lines, key=lambda line: number(line[column]))
    mean = geometric_mean([number(line[column]) for line in lines])
    text = f"{number(least[column]):.2f} at {size_text(least['bytes'])}; {mean:.2f}"
    if column == "best_ratio":
        text += f" ({sum(map(is_met, lines))} of {len(lines)})"
    return text


def summary(all_of_it):
    parts = []
    for ranks in ranks_of(all_of_it):
        columns = [(way, "best_ratio", "best") for way in ways(all_of_it, ranks)]
        columns += [(("eager", PLAIN), "stock_ratio", "stock")] if ("eager", PLAIN) in ways(all_of_it, ranks) else []
        if not columns:
            continue
        rows = [[coll] + [summary_cell(find(all_of_it, coll, ranks, *way), column) for way, column, _ in columns]
                for coll in COLLECTIVES]
        titles = [f"NCCL / ours, {ranks} GPUs"] + [f"{way_text(*way)}; {peer}" for way, _, peer in columns]
        parts.append(table(titles, [row for row in rows if any(row[1:])]))
    return "\n".join(parts)


def time_cell(line):
    if not line:
        return ""
    best = number(line.get("nccl_best_us") or "")
    text = time_text(ours(line)) + (f" / {time_text(best)}" if best else "")
    return bold(text, best and not is_met(line))


def time_table(found):
    """Rows of sizes, a column for each collective of {collective: measurement}."""
    cells = {coll: {int(line["bytes"]): line for line in m.lines} for coll, m in found.items()}
    sizes = sorted({size for lines in cells.values() for size in lines})
    rows = [[size_text(size)] + [time_cell(lines.get(size)) for lines in cells.values()] for size in sizes]
    return table(["bytes"] + list(cells), rows, 0)


def times(all_of_it):
    parts = []
    for ranks in ranks_of(all_of_it):
        for variant in (PLAIN, REGISTERED):
            for mode in ("graph", "eager"):
                found = {coll: find(all_of_it, coll, ranks, mode, variant) for coll in COLLECTIVES}
                found = {coll: m for coll, m in found.items() if m}
                if found:
                    parts.append(f"{ranks} GPUs, {mode}, {variant or 'plain'} buffers:\n\n{time_table(found)}")
    return "\n".join(parts)


# ---- Other types, few blocks, the choice -----------------------------------------------------------------------

TYPE_LIMITS = {True: 1.10, False: 1.15}  # of a float's time at equal bytes: floats, integers


def variants(all_of_it, pattern):
    """(measurement, what the pattern finds in its variant)."""
    return [(m, match) for m in all_of_it if (match := re.fullmatch(pattern, m.variant))]


def type_cell(line, base):
    ratio = number(line["us"]) / base
    too_much = ratio > TYPE_LIMITS["float" in line["type"]]
    return bold(f"{time_text(number(line['us']))} ({ratio:.2f})", too_much)


def type_table(m):
    cells = {}
    for line in m.lines:
        cells.setdefault(line["type"], {})[int(line["bytes"])] = line
    base = cells.get("float32", {})
    sizes = sorted(base)
    rows = [[name] + [type_cell(lines[size], number(base[size]["us"])) if size in lines else "" for size in sizes]
            for name, lines in cells.items()]
    return table([f"{m.coll}, {m.ranks} GPUs"] + [size_text(size) for size in sizes], rows)


def types(all_of_it):
    return "\n".join(type_table(m) for m, _ in variants(all_of_it, "types"))


def size_columns(rows, cell):
    """A table of {title: measurement} with a column for each size."""
    sizes = sorted({int(line["bytes"]) for m in rows.values() for line in m.lines})
    text = []
    for title, m in rows.items():
        lines = {int(line["bytes"]): line for line in m.lines}
        text.append([title] + [cell(lines[size]) if size in lines else "" for size in sizes])
    return table([""] + [size_text(size) for size in sizes], text) if rows else ""


def few_blocks(all_of_it):
    found = sorted(variants(all_of_it, r"ctas(\d+)"), key=lambda pair: (-int(pair[1][1]), COLLECTIVES.index(pair[0].coll)))
    rows = {f"{m.coll}, {m.ranks} GPUs, at most {match[1]} blocks": m for m, match in found}
    zero = {f"{m.coll}, {m.ranks} GPUs, no blocks": m for m, _ in variants(all_of_it, "zero")}
    return size_columns({**rows, **zero}, blocks_cell)


def blocks_cell(line):
    rate = number(line["busbw"]) * number(line["us"]) / ours(line)
    return f"{time_cell(line)}; {rate:.0f} GB/s"


def choice_cell(size, ways_of_data):
    """Ours by itself; its time over that of the best forced way, and which that is."""
    lines = {way: {int(line["bytes"]): number(line["us"]) for line in m.lines} for way, m in ways_of_data.items()}
    auto = lines.get("auto", {}).get(size)
    forced = [(us[size], way) for way, us in lines.items() if way != "auto" and size in us]
    if not auto or not forced:
        return ""
    best, way = min(forced)
    return bold(f"{time_text(auto)} ({auto / best:.2f} {way})", auto > 1.1 * best)


def choice_table(all_of_it, ranks, memory):
    found = {coll: {match[1]: m for m, match in variants(all_of_it, memory + "proto_(.+)")
                    if (m.coll, m.ranks) == (coll, ranks)} for coll in COLLECTIVES}
    found = {coll: ways_of_data for coll, ways_of_data in found.items() if "auto" in ways_of_data}
    sizes = sorted({int(line["bytes"]) for ways_of_data in found.values() for line in ways_of_data["auto"].lines})
    rows = [[size_text(size)] + [choice_cell(size, ways_of_data) for ways_of_data in found.values()] for size in sizes]
    return table([f"{ranks} GPUs" + (", registered" if memory else "")] + list(found), rows, 0) if rows else ""


def choice(all_of_it):
    tables = [choice_table(all_of_it, ranks, memory) for ranks in ranks_of(all_of_it) for memory in ("", "registered_")]
    return "\n".join(text for text in tables if text)


# ---- Beside matrix products ------------------------------------------------------------------------------------

def slower_cells(line, alone, beside):
    a, b = number(line[alone]), number(line[beside])
    return [time_text(a), time_text(b), f"{(b / a - 1) * 100:+.1f} %"]


def beside_row(m, line):
    sms = m.header["sms"]
    call = f"{m.coll} {size_text(line['bytes'])}" + (", in place" if line["place"] == "in" else "")
    call += f", one per {m.header['every']} us" if m.header["every"] != "0" else ""
    way = line["way"] + (", " + m.header["registration"] if line["way"] == "corale" else "")
    return [str(m.ranks), call, sms if sms != "0" else "all", way] + slower_cells(line, "alone_us", "beside_us") + \
        slower_cells(line, "product_alone_us", "product_beside_us")


def beside(all_of_it):
    rows = [beside_row(m, line) for m, _ in variants(all_of_it, "beside.*") for line in m.lines]
    columns = ["GPUs", "call", "SMs of the product", "by", "call alone (us)", "beside", "slower", "product alone (us)", "beside",
               "slower"]
    unique = list(dict.fromkeys(map(tuple, sorted(rows, key=lambda row: row[:3]))))
    return table(columns, unique, 4) if rows else ""


# ---- Plots -----------------------------------------------------------------------------------------------------

def limit_of(directory, all_of_it):
    path = os.path.join(directory, "limit")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return float(file.read().split()[0])
    return next((LIMITS[m.header["gpu"]] for m in all_of_it if m.header.get("gpu") in LIMITS), None)


def bus_factor(m):
    line = m.lines[-1]
    return number(line["busbw"]) / number(line["algbw"])


def curve(m, name, value, color, dash=""):
    """Of times; value gives a line's, or None."""
    pairs = [(int(line["bytes"]), value(line)) for line in m.lines] if m else []
    pairs = [(size, us) for size, us in pairs if us]
    return [Curve(name, pairs, color, dash)] if pairs else []


def time_curves(all_of_it, coll, ranks):
    def best(line):
        return number(line["nccl_best_us"])

    def stock(line):
        return number(line["nccl_stock_us"])

    graph, eager = (find(all_of_it, coll, ranks, mode) for mode in ("graph", "eager"))
    curves = curve(graph, "Corale, graph", ours, BLUE) + curve(eager, "Corale, eager", ours, BLUE, "5 4")
    for mode, dash in (("graph", ""), ("eager", "5 4")):
        m = find(all_of_it, coll, ranks, mode, REGISTERED)
        curves += curve(m, f"Corale, {mode}, registered", ours, GREEN, dash)
    return curves + curve(graph, "NCCL best, graph", best, ORANGE) + \
        curve(eager, "NCCL best, eager", best, ORANGE, "5 4") + \
        curve(eager, "NCCL stock, eager", stock, ORANGE, "1 4")


def limit_curve(curves, limit, value):
    """The limit where it is within the plot."""
    sizes = sorted({size for c in curves for size, _ in c.line})
    least = min(v for c in curves for _, v in c.line)
    pairs = [(size, value(size)) for size in sizes if value(size) >= least]
    return [Curve(f"the link's limit, {limit:g} GB/s", pairs, GREY, "2 3", False)] if len(pairs) > 1 else []


def write_plot(directory, name, picture):
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(picture)


def plot_collective(all_of_it, coll, ranks, limit, directory):
    """The names of both plots, or none without figures."""
    curves = time_curves(all_of_it, coll, ranks)
    if not curves:
        return []
    factor = bus_factor(next(m for m in all_of_it if (m.coll, m.ranks, m.variant) == (coll, ranks, PLAIN)))
    rates = [Curve(c.name, [(size, size * factor / us / 1e3) for size, us in c.line], c.color, c.dash) for c in curves]
    if limit:
        curves = curves + limit_curve(curves, limit, lambda size: size * factor / limit / 1e3)
        rates = rates + limit_curve(rates, limit, lambda size: limit if size >= 1 << 16 else 0)
    title = f"{coll}, float32, {ranks} GPUs"
    names = [f"gpu-{coll}-n{ranks}-time.svg", f"gpu-{coll}-n{ranks}-busbw.svg"]
    write_plot(directory, names[0], draw(title, "time of a call (us)", curves))
    write_plot(directory, names[1], draw(title, "bus bandwidth (GB/s)", rates, linear=True))
    return names


def plots(all_of_it, limit, directory):
    os.makedirs(directory, exist_ok=True)
    pairs = [plot_collective(all_of_it, coll, ranks, limit, directory)
             for ranks in ranks_of(all_of_it) for coll in COLLECTIVES]
    rows = [[f"![{name[:-4]}](plots/{name})" for name in pair] for pair in pairs if pair]
    return table(["time of a call", "bus bandwidth"], rows, 2) if rows else ""


# ---- The pages -------------------------------------------------------------------------------------------------

def measured_on(all_of_it):
    """A line on the machine, from the headers."""
    if not all_of_it:
        return ""

    def all_values(field):
        return ", ".join(sorted({m.header.get(field, "") for m in all_of_it} - {""}))

    nccl = ", ".join(sorted({" ".join(m.header.get("nccl", "").split()[:2]) for m in all_of_it} - {""}))
    text = f"Measured on {all_values('gpu')}; {all_values('mpi')}, Corale {all_values('version')}, "
    return text + (f"{nccl}.\n\n" if nccl else "NCCL left out: it was not given.\n\n")


def texts(directory, suffix):
    """(name without the suffix, lines) of each file that has it."""
    for name in sorted(os.listdir(directory)):
        if name.endswith(suffix):
            with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
                yield name[:-len(suffix)], file.read().splitlines()


def tests(directory):
    """What tests said that passed, from their logs."""
    return "".join(f"- {name}: {line}\n" for name, lines in texts(directory, ".log") for line in lines
                   if line.startswith("PASS "))


def failures(directory):
    """Measurements that failed, and how."""
    return "".join(f"- {name}: {lines[-1].lstrip('# ')} (`{lines[0].lstrip('# ')}`)\n"
                   for name, lines in texts(directory, ".failed"))


def blocks(directory, plot_directory):
    """What goes between the markers, by the markers' names."""
    all_of_it = load(directory)
    text = {
        "summary": measured_on(all_of_it) + summary(all_of_it),
        "times": times(all_of_it),
        "types": types(all_of_it),
        "blocks": few_blocks(all_of_it),
        "choice": choice(all_of_it),
        "beside": beside(all_of_it),
        "plots": plots(all_of_it, limit_of(directory, all_of_it), plot_directory),
    }
    return {name: part or f"Not measured yet: `{COMMAND}`.\n" for name, part in text.items()}


def renew(page, parts):
    """Replaces what is between the page's markers."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for name, part in parts.items():
        begin, end = f"<!-- gpu {name}: made by docs/tables.py -->\n", f"<!-- end of gpu {name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
        if not pattern.search(text):
            sys.exit(f"{page}: no lines '{begin.strip()}' and '{end}'")
        text = pattern.sub(lambda _: f"{begin}\n{part}\n{end}", text)
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)


TITLES = {
    "summary": "NCCL's time / ours: least and where, geometric mean, lines that are not slower than NCCL's best",
    "times": "Times in us, ours / NCCL's best; bold: slower than NCCL differs from itself",
    "types": "Other types, us (over float32's at equal bytes; bold: more than 1.10, integers 1.15)",
    "blocks": "With few blocks or none: us, ours / NCCL's best without a limit; bus bandwidth",
    "choice": "The choice: us (over the best forced way's; bold: more than 1.10)",
    "beside": "Beside bf16 matrix products of 8192^3",
    "plots": "Plots",
}


def write_report(directory):
    parts = blocks(directory, os.path.join(directory, "plots"))
    with open(os.path.join(directory, "performance.md"), "w", encoding="utf-8") as file:
        file.write("# Measured by test/measure/bench\n")
        for name, part in parts.items():
            if not part.startswith("Not measured"):
                file.write(f"\n## {TITLES[name]}\n\n{part}")
        for title, text in (("Tests", tests(directory)), ("Failed", failures(directory))):
            file.write(f"\n## {title}\n\n{text}" if text else "")


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    if len(sys.argv) == 2:
        write_report(sys.argv[1])
        return
    unpack()
    parts = blocks(os.path.join(HERE, "raw", "gpu"), os.path.join(HERE, "plots"))
    renew(os.path.join(HERE, "performance.md"), {name: parts.pop(name) for name in ("summary", "plots")})
    renew(os.path.join(HERE, "lab", "gpu-tables.md"), parts)


if __name__ == "__main__":
    main()
