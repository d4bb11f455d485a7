"""Enabled modules as the edge obeys them, by their names."""

from collections.abc import Mapping
from typing import Any

from chalicelib import modules as api
from chalicelib.http import messages
from chalicelib.model.base.kinds import Kind
from chalicelib.model.edges.enforced import enforced_modules
from chalicelib.model.edges.enforced.enforced_modules import Modules
from chalicelib.storage import vault

_NAMES = {module.name for module in enforced_modules.EVERY}


def enabled(backend: Any = None, *, unenforced: tuple[str, ...] = (), **module_values: Any) -> Modules:
    """Return enabled modules. One that is None is disabled."""
    values = {"backend": backend, **module_values}
    assert values.keys() <= _NAMES, values.keys() - _NAMES
    return Modules({name: value for name, value in sorted(values.items()) if value is not None}, unenforced)


def extended(modules: Modules, **new_values: Any) -> Modules:
    """Return modules with others enabled too, or those that are None disabled."""
    values = {**modules.values, **new_values}
    return enabled(**values, unenforced=modules.unenforced)


def requested(body: Mapping[str, Any], kind: Kind) -> Modules:
    """Return the modules of a request that creates an item of a kind. Their secrets are of no account."""
    stored: dict[str, Any] = {}
    for module in api.of(kind):
        if module.name in body:
            shape, errors = messages.read(module.shape, body[module.name], {})
            assert shape, errors
            stored[module.name] = module.stored.from_request(shape.values(), vault.context("", ""), None).to_record()
    return Modules.of(stored, kind)
