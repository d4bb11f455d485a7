"""The resources of the API. There is one file per table of SPEC 2.2–2.8, with the name of its URL path.

Each file declares its RESOURCE, or its ROUTES if it serves no records. Files without either contain code that several
resources share. A request imports only the file that serves its path, so this package imports none of them.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chalicelib.http.resource import Resource


@cache
def load_all() -> tuple[Resource, ...]:
    """Import all files of this folder. Return the Resource that each declares, if any."""
    files = sorted(walk_packages(__path__, f"{__name__}."), key=lambda file: file.name.rpartition(".")[2])
    return tuple(module.RESOURCE for file in files if hasattr(module := import_module(file.name), "RESOURCE"))
