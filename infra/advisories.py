"""`make advisories`: look up the known advisories of all pinned packages at OSV.

The pinned packages are those of Python and npm, for all versions of Python and all operating systems. A faulty OSV
could report no advisories. So each lookup includes a package with known advisories, and OSV must answer every query.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

from infra import ROOT, CommandError

_SERVICE = "https://api.osv.dev"
_MAX_QUERIES = 1000  # maximum queries in one request to OSV
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[.*\])?==([^\s;\\]+)", re.M)


class Pin(NamedTuple):
    """A package at the exact version that a requirements file or npm lock pins."""

    ecosystem: str
    name: str
    version: str


_VULNERABLE = Pin("PyPI", "jinja2", "2.4.1")


def main(service: str = _SERVICE) -> None:
    """Print all advisories. Exit with status 1 if there are any or a lookup fails."""
    try:
        pins_to_check = list_pins(ROOT)
        ids_by_pin = advisories(service, pins_to_check)
    except CommandError as error:
        sys.exit(str(error))
    for pin, ids in ids_by_pin.items():
        print(f"{pin.name} {pin.version} ({pin.ecosystem}): {', '.join(ids)}")
    message = f"{len(ids_by_pin)} of {len(pins_to_check)} packages have known advisories: look them up at https://osv.dev/list."
    sys.exit(message if ids_by_pin else print(f"None of {len(pins_to_check)} packages has a known advisory."))


def list_pins(root: Path) -> list[Pin]:
    """Return the packages that a folder's requirements and npm locks pin.

    Raises CommandError if a file pins none.
    """
    all_pins: set[Pin] = set()
    for file in (*root.glob("requirements*.txt"), *root.glob("requirements/*.txt"), *_lock_files(root)):
        pins = {*(_read_lock(file) if file.suffix == ".json" else _read_requirements(file))}
        if not pins:
            raise CommandError(f"{file.relative_to(root)} pins no package that can be looked up.")
        all_pins |= pins
    return sorted(all_pins)


def _lock_files(root: Path) -> Iterator[Path]:
    for folder in ("bench", "infra"):
        yield from (file for file in root.glob(f"{folder}/**/package-lock.json") if "node_modules" not in file.parts)


def _read_requirements(file: Path) -> Iterator[Pin]:
    yield from (Pin("PyPI", *match) for match in _PIN.findall(file.read_text()))


def _read_lock(file: Path) -> Iterator[Pin]:
    packages: Mapping[str, Any] = json.loads(file.read_text())["packages"]
    for path, package in packages.items():
        if path:  # the entry with the path "" is the project itself
            yield Pin("npm", package.get("name") or path.rpartition("node_modules/")[2], package["version"])


def advisories(service: str, pins: Sequence[Pin]) -> dict[Pin, list[str]]:
    """Return the advisory ids of each package that has any.

    Raises CommandError if a lookup fails.
    """
    pins_to_check = [_VULNERABLE, *pins]
    answers: list[Any] = []
    for start in range(0, len(pins_to_check), _MAX_QUERIES):
        answers += _query(service, pins_to_check[start : start + _MAX_QUERIES])
    vulnerable_ids, *id_lists = [[advisory["id"] for advisory in answer.get("vulns", [])] for answer in answers]
    if not vulnerable_ids:
        raise CommandError(
            f"{service} returned no advisory for {_VULNERABLE.name}, which has some: do not trust its other answers."
        )
    return {pin: ids for pin, ids in zip(pins, id_lists, strict=True) if ids}


def _query(service: str, pins: Sequence[Pin]) -> list[Any]:
    """Return OSV's answers, one for each pin in the same order. Raises CommandError."""
    queries = [{"package": {"ecosystem": pin.ecosystem, "name": pin.name}, "version": pin.version} for pin in pins]
    request = Request(f"{service}/v1/querybatch", json.dumps({"queries": queries}).encode())
    request.add_header("Content-Type", "application/json")
    try:
        with urlopen(request, timeout=30) as response:
            results: list[Any] = json.load(response)["results"]
    except (OSError, HTTPException, ValueError, KeyError) as error:
        raise CommandError(f"{service} did not answer the query for advisories ({error!r}).") from error
    if len(results) != len(pins):
        raise CommandError(f"{service} answered only {len(results)} of {len(pins)} queries: run the command again.")
    return results


if __name__ == "__main__":
    main(*sys.argv[1:])
