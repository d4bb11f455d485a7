"""The files of the repository."""

import os
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.conftest import ROOT

# What commands make, and the repository does not have.
GENERATED = (".local", ".venv", "build", "chalicelib/documents/docs.html")
CACHES = {".git", ".hypothesis", ".import_linter_cache", ".mypy_cache", ".pytest_cache", ".ruff_cache"}


def files() -> Iterator[PurePosixPath]:
    """Yield the repository's files; git is not asked, since a download has none."""
    for folder, below, names in os.walk(ROOT):
        directory = PurePosixPath(folder).relative_to(ROOT)
        below[:] = [name for name in below if name not in CACHES and not f"{directory / name}".startswith(GENERATED)]
        yield from (directory / name for name in names)
