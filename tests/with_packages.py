"""Runs a module with the packages of a file of requirements, as if no others were installed.

`python -m tests.with_packages run infra.local.run` runs it with those of requirements/run.txt.
"""

import re
import runpy
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import packages_distributions

from infra import ROOT


class OtherPackages:
    """Finds the modules of all other packages, and lets their imports fail."""

    def __init__(self, pinned: frozenset[str]) -> None:
        self._pinned = pinned
        self._packages: Mapping[str, Sequence[str]] = packages_distributions()

    def find_spec(self, name: str, *_: object) -> None:
        packages = self._packages.get(name.partition(".")[0], ())
        if packages and not any(_normalize(package) in self._pinned for package in packages):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _normalize(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def main(requirements: str, module: str) -> None:
    text = (ROOT / "requirements" / f"{requirements}.txt").read_text()
    sys.meta_path.insert(0, OtherPackages(frozenset(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
