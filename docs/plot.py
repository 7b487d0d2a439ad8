#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tables and plots from what the perf programs write with --raw.

Usage: docs/plot.py [-o DIR] RAW...

Prints one Markdown table per run (a file's header and its lines of one type, operator and root) to standard
output, and writes two plots of each into DIR (default: the current one): NAME-time.svg, the time of a call over its
size, and NAME-busbw.svg, the bus bandwidth. A run made with --vs-mpi gets the MPI library's line and ratio, too.
Needs Python 3 only.
"""

import argparse
import html
import math
import os
import sys

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 36, 40, 50
COLORS = BLUE, ORANGE, GREEN, VIOLET = "#1f6fb4", "#d1602b", "#3a8f3a", "#8a4fa3"
GREY = "#888"


class Curve:
    """One line of a plot: [(size, value)]. A dash is SVG's; a line without points has no circles."""

    def __init__(self, name, line, color, dash="", points=True):
        self.name, self.line, self.color, self.dash, self.points = name, line, color, dash, points


class Run:
    """Lines of one file that differ in nothing but their size."""

    def __init__(self, header, name, about):
        self.header, self.name, self.about, self.lines = header, name, about, []


def number(text):
    return float(text) if text not in ("", "N/A") else None


def read_lines(path, kind="raw"):
    """The header of a raw file and its lines, both by name."""
    with open(path, encoding="utf-8") as file:
        first = file.readline().rstrip("\n").split("\t")
        if first[0] != f"# corale-perf-{kind} 1":
            sys.exit(f"{path}: not a {kind} file of a perf program (--raw writes them)")
        header = dict(field.split("=", 1) for field in first[1:])
        columns = file.readline().rstrip("\n").split("\t")
        return header, [dict(zip(columns, text.rstrip("\n").split("\t"))) for text in file]


def read_file(path):
    """The runs of one raw file, in the order of their first lines."""
    runs = {}
    header, lines = read_lines(path)
    for line in lines:
        key = (line["coll"], line["type"], line["op"], line["root"])
        if key not in runs:
            parts = [line["coll"], line["type"]]
            parts += [line["op"]] if line["op"] != "none" else []
            parts += ["root" + line["root"]] if line["root"] != "-1" else []
            place = f"n{header['ranks']}-nodes{header['nodes']}"
            runs[key] = Run(header, "-".join(parts + [place]), parts)
        runs[key].lines.append(line)
    return list(runs.values())


def size_text(size):
    size = int(size)
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}B"
    return f"{size} B"


def time_text(us):
    if us is None:
        return ""
    return f"{us:.2f}" if us < 100 else f"{us:.0f}"


def is_compared(run):
    return any(line["ratio"] for line in run.lines)


def print_table(run):
    header = run.header
    print(f"### {' '.join(run.about)}: {header['ranks']} ranks on {header['nodes']} nodes\n")
    print(f"Corale {header['version']}, {header['mpi']}, {header['hosts']} hosts.\n")
    compared = is_compared(run)
    columns = ["size", "time (us)", "busbw (GB/s)", "in place (us)", "wrong"]
    columns += ["against MPI: ours (us)", "MPI (us)", "MPI / ours", "noise"] if compared else []
    alone = any(line.get("one_us") for line in run.lines)  # earlier files lack it
    columns += ["one call (us)"] if alone else []
    columns += ["MPI, one call (us)", "MPI / ours"] if alone and compared else []
    print("| " + " | ".join(columns) + " |")
    print("|" + "---:|" * len(columns))
    for line in run.lines:
        wrong = [line[column] for column in ("wrong", "in_wrong") if line[column]]
        cells = [size_text(line["bytes"]), time_text(number(line["us"])), f"{number(line['busbw']):.3f}",
                 time_text(number(line["in_us"])), " + ".join(wrong)]
        if compared:
            cells += [time_text(number(line["ours_us"])), time_text(number(line["mpi_us"])), line["ratio"], line["noise"]]
        cells += [time_text(number(line["one_us"]))] if alone else []
        cells += [time_text(number(line["one_mpi_us"])), line["one_ratio"]] if alone and compared else []
        print("| " + " | ".join(cells) + " |")
    ratios = [number(line["ratio"]) for line in run.lines if line["ratio"]]
    if ratios:
        least = min((line for line in run.lines if line["ratio"]), key=lambda line: number(line["ratio"]))
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        noise = min(number(line["noise"]) for line in run.lines if line["noise"])
        print(f"\nMPI / ours: least {min(ratios):.3f} at {size_text(least['bytes'])}, geometric mean {mean:.3f}; "
              f"noise {noise:.3f}.")
    print()


def decades(least, most):
    """Powers of ten around the values, for a logarithmic axis."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    return [10.0 ** e for e in range(low, max(high, low + 1) + 1)]


def octaves(least, most):
    """About eight powers of two that cover the sizes."""
    low, high = math.floor(math.log2(least)), math.ceil(math.log2(most))
    step = max(1, math.ceil((high - low) / 8))
    return [2.0 ** e for e in range(low, max(high, low + 1) + step, step)]


def even(most):
    """Five to ten round numbers from 0, for a linear axis."""
    step = 10.0 ** math.floor(math.log10(most))
    step = next(step * part for part in (0.2, 0.5, 1) if most / (step * part) <= 10)
    return [step * i for i in range(math.ceil(most / step) + 1)]


def scale(ticks, begin, end, shape=math.log):
    low, high = shape(ticks[0]), shape(ticks[-1])
    return lambda value: begin + (end - begin) * (shape(value) - low) / (high - low)


def tick_text(value):
    return f"{value:g}" if value == 0 or 1e-3 <= value < 1e6 else f"{value:.0e}"


def draw(title, unit, curves, linear=False):
    """An SVG of the curves on logarithmic axes; linear: up from 0 on an even one."""
    points = [point for curve in curves for point in curve.line]
    xs = octaves(min(p[0] for p in points), max(p[0] for p in points))
    most = max(p[1] for p in points)
    ys = even(most) if linear else decades(min(p[1] for p in points), most)
    x, y = scale(xs, LEFT, WIDTH - RIGHT), scale(ys, HEIGHT - BOTTOM, TOP, float if linear else math.log)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
           f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
           f'<text x="{LEFT}" y="20" font-size="14">{html.escape(title)}</text>']
    for tick in ys:
        svg.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick_text(tick)}</text>')
    for tick in xs:
        svg.append(f'<path d="M{x(tick):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eee"/>'
                   f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size_text(tick)}</text>')
    svg.append(f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})" text-anchor="middle">{unit}</text>')
    for i, curve in enumerate(curves):
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in curve.line)
        dash = f' stroke-dasharray="{curve.dash}"' if curve.dash else ""
        svg.append(f'<polyline points="{path}" fill="none" stroke="{curve.color}" stroke-width="2"{dash}/>')
        svg += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.5" fill="{curve.color}"/>'
                for a, b in curve.line if curve.points]
        height = TOP + 16 + 16 * i
        svg.append(f'<path d="M{LEFT + 10} {height - 4}h24" stroke="{curve.color}" stroke-width="2"{dash}/>'
                   f'<text x="{LEFT + 40}" y="{height}" fill="{curve.color}">{html.escape(curve.name)}</text>')
    svg.append("</svg>\n")
    return "\n".join(svg)


def collect(run, column):
    """(size, value) of the lines that have a value on a logarithmic axis."""
    pairs = [(int(line["bytes"]), number(line[column])) for line in run.lines]
    return [(size, value) for size, value in pairs if size > 0 and value and value > 0]


def bandwidth(run, column):
    """Bus bandwidths from another column of times: both are in proportion on a line."""
    pairs = []
    for line in run.lines:
        other, own, busbw = number(line[column]), number(line["us"]), number(line["busbw"])
        if other and own and busbw and int(line["bytes"]):
            pairs.append((int(line["bytes"]), busbw * own / other))
    return pairs


def plot(run, directory):
    title = f"{' '.join(run.about)}, {run.header['ranks']} ranks, {run.header['nodes']} nodes"
    if is_compared(run):
        times = [("Corale", collect(run, "ours_us")), (run.header["mpi"], collect(run, "mpi_us"))]
        rates = [("Corale", bandwidth(run, "ours_us")), (run.header["mpi"], bandwidth(run, "mpi_us"))]
    else:
        times = [("out of place", collect(run, "us")), ("in place", collect(run, "in_us"))]
        rates = [("out of place", collect(run, "busbw")), ("in place", collect(run, "in_busbw"))]
    for kind, unit, series in (("time", "time of a call (us)", times), ("busbw", "bus bandwidth (GB/s)", rates)):
        curves = [Curve(name, line, color) for (name, line), color in zip(series, COLORS) if line]
        if curves:
            with open(os.path.join(directory, f"{run.name}-{kind}.svg"), "w", encoding="utf-8") as file:
                file.write(draw(title, unit, curves))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", metavar="DIR", default=".", help="where the plots go (default: here)")
    parser.add_argument("raw", metavar="RAW", nargs="+", help="a file that a perf program wrote with --raw")
    options = parser.parse_args()
    os.makedirs(options.o, exist_ok=True)
    for path in options.raw:
        for run in read_file(path):
            print_table(run)
            plot(run, options.o)


if __name__ == "__main__":
    main()
