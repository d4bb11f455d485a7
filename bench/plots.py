"""Plots as SVG. The same points always give the same bytes."""

from collections.abc import Iterable
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from bench.results import Point

matplotlib.rcParams.update({"svg.hashsalt": "bench", "svg.fonttype": "none", "font.family": "sans-serif"})
_TITLES = {
    "latency": ("Latency against the number of items", "items in the store", "milliseconds", "linear"),
    "edge": ("Requests through the live edge against clients", "clients", "requests per second", "log"),
    "throughput": ("Throughput against clients", "clients", "requests per second", "log"),
    "revocations": ("CPU of a list of revocations", "revocations", "milliseconds of CPU", "log"),
    "revocation_sizes": ("Size of a list of revocations", "revocations", "KiB", "log"),
}


def draw(points: Iterable[Point], folder: Path) -> None:
    """Write one SVG file for each plot."""
    plots: dict[str, dict[str, list[Point]]] = {}
    for point in points:
        plots.setdefault(point.plot, {}).setdefault(point.line, []).append(point)
    for name, lines in plots.items():
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        _fill(figure, name, lines)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})


def _fill(figure: Figure, name: str, lines: dict[str, list[Point]]) -> None:
    title, x, y, scale = _TITLES[name]
    axes = figure.subplots()
    for line, points in lines.items():
        is_ours = not any(other in line for other in ("raw", "chalice local", "ssh-keygen"))
        coordinates = [point.x for point in points], [point.y for point in points]
        axes.plot(*coordinates, marker="o", linestyle="-" if is_ours else "--", label=line)
    axes.set(title=title, xlabel=x, ylabel=y, xscale="log", yscale=scale)
    if scale == "linear":
        axes.set_ylim(bottom=0)
    axes.set_xticks(sorted({point.x for points in lines.values() for point in points}))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.grid(visible=True, alpha=0.3)
    axes.minorticks_off()
    figure.legend(loc="outside right center", fontsize="small")
