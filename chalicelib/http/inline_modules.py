"""Modules as fields of their edge or route. The field of a module that is not set is null.

Requests that create or change an edge or route can also set its modules. So an edge with an access module, such
as `basic_auth`, is never online without this module. Only DELETE removes a module.
"""

from typing import Any

from chalicelib.http.endpoints import Call
from chalicelib.http.module import Module
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item


def build_request_shape(shape: type[Shape], modules: tuple[Module, ...]) -> type[Shape]:
    """Return a request shape with a field for each module. Null and an absent field both leave the module unchanged."""
    types = {module.name: module.shape | None for module in modules}
    return type(shape.__name__, (shape,), {"__annotations__": types, **dict.fromkeys(types)}) if types else shape


def build_response_shape(shape: type[Shape], modules: tuple[Module, ...]) -> type[Shape]:
    """Return a response shape with a field for each module."""
    types = {module.name: module.response | None for module in modules}
    return type(shape.__name__, (shape,), {"__doc__": shape.__doc__, "__annotations__": types})


def build_responses(modules: tuple[Module, ...], item: Item, call: Call) -> dict[str, Any]:
    """Return the responses of an item's modules by name. A module that is not set is None. Raises aws.Unavailable."""
    return {module.name: module.show(item, call) if module.name in item.modules else None for module in modules}


def set_in(item: Item, modules: tuple[Module, ...], body: Shape) -> Item:
    """Return an item with the modules that a request body sets, and with the modules' references.

    Raises aws.Unavailable, and InvalidRequest if a module contradicts the item's fields.
    """
    for module in modules:
        if (request := getattr(body, module.name)) is not None:
            item = module.set_in(item, request, at=f"{module.name}.")
    for module in modules:
        module.check(getattr(body, module.name), item, at=f"{module.name}.")
    return item
