"""Modules inline in the edge or route that holds them, null where they are unset.

They may be set in the bodies that create and change it, so that it never goes live before its protection. Only the
DELETE of a module takes it away.
"""

from dataclasses import replace
from typing import Any

from chalicelib.http.endpoints import Call
from chalicelib.http.module import Module
from chalicelib.schema.shapes import Shape
from chalicelib.storage import relations
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
    return {
        module.name: module.to_response(module.stored_in(item), item, call) if module.name in item.modules else None
        for module in modules
    }


def added(modules: tuple[Module, ...], item: Item, body: Shape) -> Item:
    """Return a new item with the modules of the body that creates it. Raises InvalidRequest, aws.Unavailable."""
    names = {module.name for module in modules}
    own = {name: value for name, value in item.body.items() if name not in names}
    return replaced(modules, replace(item, body=own), body)


def replaced(modules: tuple[Module, ...], item: Item, body: Shape) -> Item:
    """Return an item with the modules set that a body names, and what they refer to.

    Raises InvalidRequest where one does not go with the item's own fields; aws.Unavailable.
    """
    records = {
        module.name: module.stored.from_request(value.values()).to_record(
            item.account, item.id, item.modules.get(module.name)
        )
        for module in modules
        if (value := getattr(body, module.name)) is not None
    }
    after = replace(item, modules={**item.modules, **records})
    for module in modules:
        request = getattr(body, module.name) if module.name in records else None
        module.check(request, after, at=f"{module.name}.")
    named = {
        module.name: module.recorded(item.account, records[module.name], at=f"{module.name}.")
        for module in modules
        if module.name in records
    }
    return replace(after, references=relations.replaced(item.references, named))
