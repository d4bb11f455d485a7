"""Modules inline in the edge or route that holds them, null where they are unset.

They may be set in the bodies that create and change it, so that it never goes live before its protection.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call
from chalicelib.http.module import Module
from chalicelib.schema.shapes import Shape
from chalicelib.storage import relations
from chalicelib.storage.items import Item
from chalicelib.storage.references import Reference


def requested(shape: type[Shape], modules: tuple[Module, ...]) -> type[Shape]:
    """Return a shape with a field for each module: null means unset."""
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


def added(modules: tuple[Module, ...], item: Item, body: Shape, caller: Caller) -> Item:
    """Return a new item with the modules of the body that creates it. Raises InvalidRequest, aws.Unavailable."""
    names = {module.name for module in modules}
    own = {name: value for name, value in item.body.items() if name not in names}
    records = stored(modules, item.id, body, names, caller)
    bare = replace(item, body=own)
    return replaced(modules, bare, {name: record for name, record in records.items() if record is not None}, body)


def stored(
    modules: tuple[Module, ...], id: str, body: Shape, fields: Mapping[str, Any] | set[str], caller: Caller
) -> dict[str, Any]:
    """Return the records of the modules that are among the fields of a body, by name; None for one that is null.

    Raises aws.Unavailable.
    """
    sent = {module: getattr(body, module.name) for module in modules if module.name in fields}
    return {
        module.name: None if value is None else module.stored.from_request(value.values()).to_record(caller.account, id)
        for module, value in sent.items()
    }


def replaced(modules: tuple[Module, ...], item: Item, records: Mapping[str, Any], body: Shape) -> Item:
    """Return an item with some modules' records set, None taking one away, and what they refer to.

    Raises InvalidRequest where one does not go with the item's own fields.
    """
    for module in modules:
        request = getattr(body, module.name) if module.name in records else None
        module.check(request, replace(item, modules={**item.modules, **records}), at=f"{module.name}.")
    named = {
        module.name: _references(module, item, records[module.name]) for module in modules if module.name in records
    }
    kept = {name: record for name, record in {**item.modules, **records}.items() if record is not None}
    return replace(item, modules=kept, references=relations.replaced(item.references, named))


def _references(module: Module, item: Item, record: Mapping[str, Any] | None) -> tuple[Reference, ...]:
    return module.recorded(item.account, record, at=f"{module.name}.") if record else ()
