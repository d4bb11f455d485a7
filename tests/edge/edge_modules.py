"""Enabled modules as the edge obeys them, by their names."""

from typing import Any

from chalicelib.model.edges.enforced import enforced_modules
from chalicelib.model.edges.enforced.enforced_modules import Modules

_NAMES = {module.name for module in enforced_modules.EVERY}


def enabled(backend: Any = None, *, unenforced: tuple[str, ...] = (), **others: Any) -> Modules:
    """Return enabled modules. One that is None is disabled."""
    values = {"backend": backend, **others}
    assert values.keys() <= _NAMES, values.keys() - _NAMES
    return Modules({name: it for name, it in sorted(values.items()) if it is not None}, unenforced)


def extended(modules: Modules, **others: Any) -> Modules:
    """Return modules with others enabled too, or those that are None disabled."""
    changed = {**modules.values, **others}
    return enabled(**changed, unenforced=modules.unenforced)
