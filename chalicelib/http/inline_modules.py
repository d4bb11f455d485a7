"""Modules inline in the edge or route that holds them, null where they are unset.

They may be set in the bodies that create and change it, so that it never goes live before its protection. Only the
DELETE of a module takes it away.
"""

from typing import Any

from chalicelib.http.endpoints import Call
from chalicelib.http.module import Module
from chalicelib.schema.shapes import Shape
from chalicelib.storage.items import Item


def requested(shape: type[Shape], modules: tuple[Module, ...]) -> type[Shape]:
    """Return a shape with a field for each module: null is as good as absent."""
    types = {module.name: module.shape | None for module in modules}
    return type(shape.__name__, (shape,), {"__annotations__": types, **dict.fromkeys(types)}) if types else shape


def shown(shape: type[Shape], modules: tuple[Module, ...]) -> type[Shape]:
    """Return a shape of a response with a field for the response of each module."""
    types = {module.name: module.response | None for module in modules}
    return type(shape.__name__, (shape,), {"__doc__": shape.__doc__, "__annotations__": types})


def responses(modules: tuple[Module, ...], item: Item, call: Call) -> dict[str, Any]:
    """Return the responses of an item's modules by name, None for those that are unset. Raises aws.Unavailable."""
    return {module.name: module.show(item, call) if module.name in item.modules else None for module in modules}


def set_in(item: Item, modules: tuple[Module, ...], body: Shape) -> Item:
    """Return an item with the modules set that a body names, and what they refer to.

    Raises InvalidRequest where one does not go with the item's own fields; aws.Unavailable.
    """
    for module in modules:
        if (request := getattr(body, module.name)) is not None:
            item = module.set_in(item, request, at=f"{module.name}.")
    for module in modules:
        module.check(getattr(body, module.name), item, at=f"{module.name}.")
    return item
