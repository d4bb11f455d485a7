"""The results of figures: rows of the table and points of the plots."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Unit = Callable[[float], str]


@dataclass(frozen=True)
class Row:
    """One line of the table. `must` is its bound, `reached` the outcome, None without a bound."""

    figure: str
    ours: str
    against: str
    ratio: float | None
    must: str = ""
    reached: bool | None = None


@dataclass(frozen=True)
class Point:
    """A point of a line in a plot."""

    plot: str
    line: str
    x: float
    y: float


@dataclass(frozen=True)
class Result:
    rows: Sequence[Row]
    points: Sequence[Point] = ()
    failed: bool = False


def failure(figure: str) -> Result:
    """Return the result of a figure that could not be measured."""
    return Result([Row(figure, "failed", "", None)], failed=True)


def at_most(bound: float, figure: str, ours: float, against: float, unit: Unit) -> Row:
    """Return a row with an upper bound of its ratio."""
    ratio = ours / against
    return Row(figure, unit(ours), unit(against), ratio, f"≤ {bound}", ratio <= bound)


def at_least(bound: float, figure: str, ours: float, against: float, unit: Unit) -> Row:
    """Return a row with a lower bound of its ratio."""
    ratio = ours / against
    return Row(figure, unit(ours), unit(against), ratio, f"≥ {bound:g}", ratio >= bound)


def reported(figure: str, ours: float, against: float, unit: Unit) -> Row:
    """Return a row without a bound."""
    return Row(figure, unit(ours), unit(against), ours / against)


def exactly(figure: str, ours: str, against: str, ratio: float) -> Row:
    """Return a row of two texts that must be equal."""
    return Row(figure, ours, against, ratio, "the same", ours == against)


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def us(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs"


def per_second(rate: float) -> str:
    return f"{rate:,.0f} /s"


def number(count: float) -> str:
    return f"{count:,.0f}"


def millions(count: float) -> str:
    return f"{count / 1e6:,.0f} million"


def mib(size: float) -> str:
    return f"{size / 2**20:.1f} MiB"


def kib(size: float) -> str:
    return f"{size / 2**10:,.1f} KiB"


def growth(factor: float) -> str:
    return f"× {factor:.2f}"


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    words = {None: "", True: "yes", False: "NO"}
    cells = [("figure", "ours", "against", "ratio", "must reach", "reached?")]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        cells.append((row.figure, row.ours, row.against, ratio, row.must, words[row.reached]))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    lines.insert(1, "-|-".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" if index != 1 else f"|-{line}-|" for index, line in enumerate(lines))
