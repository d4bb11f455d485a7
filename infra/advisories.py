"""`make advisories`: ask OSV for known advisories of everything that is pinned here, of Python's and of npm's packages.

Each pin is asked for, whatever Python or system it is for. A service that knows nothing would find nothing, too: with
the pins goes a package that has advisories, and every question must be answered.
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
_AT_ONCE = 1000  # questions that OSV takes in one request
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[.*\])?==([^\s;\\]+)", re.M)


class Pin(NamedTuple):
    """A version of a package."""

    ecosystem: str
    name: str
    version: str


_KNOWN_TO_HAVE_SOME = Pin("PyPI", "jinja2", "2.4.1")


def main(service: str = _SERVICE) -> None:
    """Print every advisory of what is pinned; exit with status 1 if there is any, or if not all was looked up."""
    try:
        asked = pinned(ROOT)
        found = advisories(service, asked)
    except CommandError as error:
        sys.exit(str(error))
    for pin, ids in found.items():
        print(f"{pin.name} {pin.version} ({pin.ecosystem}): {', '.join(ids)}")
    told = f"{len(found)} of {len(asked)} packages have known advisories: https://osv.dev/list tells what is wrong."
    sys.exit(told if found else print(f"None of {len(asked)} packages has a known advisory."))


def pinned(root: Path) -> list[Pin]:
    """Return the packages that a folder's requirements and npm locks pin. Raises CommandError if a file pins none."""
    found: set[Pin] = set()
    for file in (*root.glob("requirements*.txt"), *root.glob("requirements/*.txt"), *_lock_files(root)):
        pins = {*(_in_lock(file) if file.suffix == ".json" else _in_requirements(file))}
        if not pins:
            raise CommandError(f"{file.relative_to(root)} pins nothing that can be looked up.")
        found |= pins
    return sorted(found)


def _lock_files(root: Path) -> Iterator[Path]:
    for folder in ("bench", "infra"):
        yield from (file for file in root.glob(f"{folder}/**/package-lock.json") if "node_modules" not in file.parts)


def _in_requirements(file: Path) -> Iterator[Pin]:
    yield from (Pin("PyPI", *match) for match in _PIN.findall(file.read_text()))


def _in_lock(file: Path) -> Iterator[Pin]:
    packages: Mapping[str, Any] = json.loads(file.read_text())["packages"]
    for path, package in packages.items():
        if path:  # "" is the folder itself
            yield Pin("npm", package.get("name") or path.rpartition("node_modules/")[2], package["version"])


def advisories(service: str, pins: Sequence[Pin]) -> dict[Pin, list[str]]:
    """Return the ids of the advisories of each package that has any. Raises CommandError unless all were looked up."""
    asked = [_KNOWN_TO_HAVE_SOME, *pins]
    answers: list[Any] = []
    for start in range(0, len(asked), _AT_ONCE):
        answers += _answers(service, asked[start : start + _AT_ONCE])
    known, *found = [[advisory["id"] for advisory in answer.get("vulns", [])] for answer in answers]
    if not known:
        raise CommandError(f"{service} knows no advisory of {_KNOWN_TO_HAVE_SOME.name}: it looked nothing up.")
    return {pin: ids for pin, ids in zip(pins, found, strict=True) if ids}


def _answers(service: str, pins: Sequence[Pin]) -> list[Any]:
    """Return OSV's answer for each package, in their order. Raises CommandError."""
    queries = [{"package": {"ecosystem": pin.ecosystem, "name": pin.name}, "version": pin.version} for pin in pins]
    request = Request(f"{service}/v1/querybatch", json.dumps({"queries": queries}).encode())
    request.add_header("Content-Type", "application/json")
    try:
        with urlopen(request, timeout=30) as response:
            results: list[Any] = json.load(response)["results"]
    except (OSError, HTTPException, ValueError, KeyError) as error:
        raise CommandError(f"{service} could not be asked for advisories ({error!r}).") from error
    if len(results) != len(pins):
        raise CommandError(f"{service} answered {len(results)} of {len(pins)} questions.")
    return results


if __name__ == "__main__":
    main(*sys.argv[1:])
