"""`make bench`: every figure in a fresh process, and one table of all of them.

The table and the plots are written to build/bench as well; with --keep also into this folder, as the last result.
"""

import argparse
import logging
import os
import platform
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import engines, fresh, results
from bench.engines import Setting
from bench.results import Point, Result
from infra import endings
from infra.cloud import ROOT, Trouble

FIGURES = (
    "cold_start",
    "cold_authorizer",
    "get_one",
    "list_of_100",
    "certificate",
    "certificates_per_second",
    "growth_counted",
    "growth_timed",
    "local_server",
    "memory",
    "store_calls",
)
_READ_STORES = {"growth_counted", "growth_timed"}  # the others wait for none to be filled
_FOLDER = Path(__file__).parent
_LAST = re.compile(r"(?<=<!-- last result -->\n).*(?=<!-- end -->)", flags=re.DOTALL)


def main() -> None:
    """Measure the figures that are named, or all; one sentence and exit status 1 when something stands in the way."""
    endings.interrupt()
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="figure", help=", ".join(FIGURES))
    parser.add_argument("--keep", action="store_true", help="write the last result down in bench/")
    asked = parser.parse_args()
    if asked.keep and asked.figures:
        parser.error("only a result of all figures is kept")
    names = asked.figures or FIGURES
    sizes = engines.SIZES if _READ_STORES.intersection(names) else ()
    logging.disable(logging.INFO)  # of the requests that fill the stores
    try:
        with TemporaryDirectory() as folder, engines.started(Path(folder), sizes) as setting:
            measured = [_measured(name, setting) for name in names]
    except Trouble as trouble:
        sys.exit(str(trouble))
    except KeyboardInterrupt:
        sys.exit("Stopped: nothing of it is kept.")
    told = f"{results.table([row for result in measured for row in result.rows])}\n\n{_machine()}"
    print(told)
    points = [point for result in measured for point in result.points]
    _draw(points, ROOT / "build" / "bench")
    if asked.keep:
        _draw(points, _FOLDER)
        readme = _FOLDER / "README.md"
        readme.write_text(_LAST.sub(lambda _: f"\n{told}\n\n", readme.read_text()))


def _measured(name: str, setting: Setting) -> Result:
    began = time.monotonic()
    result = fresh.measured(name, setting)
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return result


def _draw(points: Sequence[Point], folder: Path) -> None:
    if points:
        from bench import plots  # with matplotlib, which the figures without points do without

        folder.mkdir(parents=True, exist_ok=True)
        plots.draw(points, folder)


def _machine() -> str:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    return (
        f"Measured on {time.strftime('%Y-%m-%d')}: {platform.system()} on {platform.machine()}, "
        f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}; load at the end {load}."
    )


if __name__ == "__main__":
    main()
