"""The modules of edges and routes (SPEC 2.9, 4.8): one file each.

The name of a file is the last segment of its module's path. Its tuple MODULES has one entry for each kind of resource
that can have the module.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chalicelib.http.module import Module
    from chalicelib.model.base.kinds import Kind


@cache
def load_all() -> tuple[Module, ...]:
    """Import all files of this folder. Return the API modules that they declare in MODULES."""
    files = sorted(iter_modules(__path__), key=lambda file: file.name)
    return tuple(module for file in files for module in import_module(f"{__name__}.{file.name}").MODULES)


def of(kind: Kind) -> tuple[Module, ...]:
    """Return the modules that a kind of edge or route can have."""
    return tuple(module for module in load_all() if module.home == kind.item_path)
