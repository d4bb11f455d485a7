"""`make bench`: measure every figure in a fresh process, and write one table.

The table (after each figure) and the plots are written to build/bench; with --keep the table also replaces
last_result.md. A figure that fails gets a row with the reason.
"""

import argparse
import logging
import os
import platform
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import engines, fresh, results
from bench.engines import Setting
from bench.results import Point, Result
from infra import ROOT, CommandError
from infra.local import signals

FIGURES = (
    "cold_start",
    "warm",
    "exchange",
    "certificates_per_second",
    "issuing",
    "one_account",
    "growth",
    "local_server",
    "memory",
    "store_calls",
    "million",
    "revocations",
    "edge",
    "edge_sites",
    "edge_start",
    "edge_names",
    "edge_many_names",
    "edge_restart",
    "edge_outages",
    "edge_share",
    "edge_floods",
    "edge_random_changes",
    "edge_changes",
    "edge_sizes",
    "edge_encoding",
    "oauth",
    "rules",
    "filters",
    "command_line",
)
_LAST = Path(__file__).parent / "last_result.md"
_BUILT = ROOT / "build" / "bench"
_TABLE = _BUILT / "table.md"


def main() -> None:
    """Measure the named figures, or all. Exit with a sentence and status 1 if one fails."""
    signals.interrupt()
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="figure", help=", ".join(FIGURES))
    parser.add_argument("--keep", action="store_true", help="write the table to bench/last_result.md")
    options = parser.parse_args()
    if options.keep and options.figures:
        parser.error("only a result of all figures is kept")
    try:
        measured = _measure_all(options.figures or FIGURES)
    except CommandError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(f"Stopped. What was measured is in {_TABLE}.")
    print(table := _TABLE.read_text().rstrip())
    points = [point for result in measured.values() for point in result.points]
    _draw(points)
    if options.keep:
        _LAST.write_text(f"# The last result\n\n{table}\n")
    if failed := [name for name, result in measured.items() if result.failed]:
        sys.exit(f"These figures could not be measured: {', '.join(failed)}. All others are in {_TABLE}.")


def _measure_all(names: Sequence[str]) -> dict[str, Result]:
    """Start the engines and return the results of the figures. Raises CommandError."""
    logging.disable(logging.INFO)  # logs of the requests that fill the stores
    sizes = engines.SIZES if "growth" in names else ()  # other figures need no filled stores
    measured: dict[str, Result] = {}
    _write_table([])
    with TemporaryDirectory() as folder, engines.start(Path(folder), sizes) as setting:
        for name in names:
            measured[name] = _measure(name, setting)
            _write_table(measured.values())
    return measured


def _write_table(measured: Iterable[Result]) -> None:
    _BUILT.mkdir(parents=True, exist_ok=True)
    _TABLE.write_text(f"{results.table([row for result in measured for row in result.rows])}\n\n{_machine()}\n")


def _measure(name: str, setting: Setting) -> Result:
    """Return the result of a figure. Print an error and continue, so that the others are measured."""
    began = time.monotonic()
    result = fresh.measure(name, setting)
    if isinstance(result, BaseException):
        traceback.print_exception(result)
        result = results.failure(name)
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return result


def _draw(points: Sequence[Point]) -> None:
    if points:
        from bench import plots  # imports matplotlib, which is only needed for points

        plots.draw(points, _BUILT)


def _machine() -> str:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    return (
        f"Measured on {time.strftime('%Y-%m-%d')}: {platform.system()} on {platform.machine()}, "
        f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}; load at the end {load}."
    )


if __name__ == "__main__":
    main()
