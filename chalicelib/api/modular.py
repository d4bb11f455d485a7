"""A resource that modules attach to: edges and routes. Its modules come inline, null where they are unset.

They may be set in the bodies that create and change it, so that it never goes live before its protection.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from chalicelib.api import fields
from chalicelib.api.caller import Caller
from chalicelib.api.endpoints import Call
from chalicelib.api.fields import Shape
from chalicelib.api.module import Module
from chalicelib.api.resource import EditableResource, New
from chalicelib.storage import table
from chalicelib.storage.claims import Claim
from chalicelib.storage.items import Item
from chalicelib.storage.pointers import Pointer


def with_modules(shape: type[Shape], modules: tuple[Module, ...]) -> type[Shape]:
    """The shape with a field for each module: null means unset."""
    types = {module.name: module.shape | None for module in modules}
    return type(shape.__name__, (shape,), {"__annotations__": types, **dict.fromkeys(types)})


def showing_modules(shape: type[Shape], modules: tuple[Module, ...]) -> type[Shape]:
    """The shape with a field for what each module shows."""
    types = {module.name: module.shown | None for module in modules}
    return type(shape.__name__, (shape,), {"__doc__": shape.__doc__, "__annotations__": types})


def make(caller: Caller, id: str, asked: Any) -> New:
    """The fields that were asked for; the modules are added to them."""
    return New(fields.values(asked))


@dataclass(frozen=True, kw_only=True)
class ModularResource(EditableResource):
    """Its modules, and the claims that follow from its body."""

    modules: tuple[Module, ...]
    claims: Callable[[dict[str, Any], Call], tuple[Claim, ...]]

    def new(self, call: Call, id: str) -> New:
        new = super().new(call, id)
        body = {name: value for name, value in new.body.items() if name not in self._names()}
        parts = {name: part for name, part in self._parts(call, id).items() if part is not None}
        pointers = [pointer for named in self._pointers(call.caller, parts).values() for pointer in named]
        return replace(new, body=body, parts=parts, claims=self.claims(body, call), points=(*new.points, *pointers))

    def changed(self, call: Call, fields: dict[str, Any]) -> Item | None:
        scope, id = self.scope(call), self.id_in(call)
        if not fields:
            return table.read(scope, id)
        parts = {name: part for name, part in self._parts(call, id).items() if name in fields}
        return table.rewrite(
            scope,
            id,
            {name: value for name, value in fields.items() if name not in parts},
            parts=parts,
            claims=lambda body: self.claims(body, call),
            points=self._pointers(call.caller, parts),
        )

    def shown(self, item: Item, call: Call) -> dict[str, Any]:
        modules = {
            module.name: module.show(item.parts[module.name], item, call) if module.name in item.parts else None
            for module in self.modules
        }
        return {**super().shown(item, call), **modules}

    def _names(self) -> set[str]:
        return {module.name for module in self.modules}

    def _pointers(self, caller: Caller, parts: dict[str, Any]) -> dict[str, tuple[Pointer, ...]]:
        """What each of the parts is to point at: nothing where it is unset."""
        return {
            module.name: module.pointers(caller, part, at=f"{module.name}.") if (part := parts[module.name]) else ()
            for module in self.modules
            if module.name in parts
        }

    def _parts(self, call: Call, id: str) -> dict[str, Any]:
        """What is to be stored of each module in the body; None for one that is unset."""
        asked = {module: getattr(call.body, module.name) for module in self.modules}
        return {
            module.name: module.keep(value, call.caller, id) if value is not None else None
            for module, value in asked.items()
        }
