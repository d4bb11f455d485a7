"""The modules of edges and routes (SPEC 2.9, 4.8): one file each, named as the last segment of its path.

Each declares its MODULES: one for every edge or route that it attaches to.
"""

from importlib import import_module
from pkgutil import iter_modules

from chalicelib.http.module import Module
from chalicelib.model.kinds import Kind

ALL: tuple[Module, ...] = tuple(
    module
    for file in sorted(iter_modules(__path__), key=lambda it: it.name)
    for module in import_module(f"{__name__}.{file.name}").MODULES
)


def of(kind: Kind) -> tuple[Module, ...]:
    """Return the modules of the edges or routes of a kind."""
    return tuple(module for module in ALL if module.home == kind.one)
