"""The modules of edges and routes (SPEC 2.9, 4.8): one file each.

A file is named like the last segment of its module's path. It declares its MODULES: one for each kind of edge or route
that can have it.
"""

from importlib import import_module
from pkgutil import iter_modules

from chalicelib.http.module import Module
from chalicelib.model.base.kinds import Kind

ALL: tuple[Module, ...] = tuple(
    module
    for file in sorted(iter_modules(__path__), key=lambda it: it.name)
    for module in import_module(f"{__name__}.{file.name}").MODULES
)


def of(kind: Kind) -> tuple[Module, ...]:
    """Return the modules of a kind of edge or route."""
    return tuple(module for module in ALL if module.home == kind.one)
