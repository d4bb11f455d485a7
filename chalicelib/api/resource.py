"""A resource: a value that says what is special about one kind; everything else is the same for all of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib import clock, ids
from chalicelib.api import paging
from chalicelib.api.caller import Caller
from chalicelib.api.endpoints import Call, Endpoint
from chalicelib.api.errors import Conflict, NotFound, UnknownReference
from chalicelib.api.fields import Described, Shape
from chalicelib.api.paging import Page
from chalicelib.storage import table, vault
from chalicelib.storage.claims import Claim, Taken
from chalicelib.storage.items import Item


@dataclass(frozen=True)
class New:
    """How a resource comes into being. The drawer decides what may ever be seen.

    `body` is stored and shown, `sealed` is encrypted and never shown, `once` is shown in the creation's response
    and never stored, `claims` are unique in the whole service and released with the resource.
    """

    body: dict[str, Any]
    sealed: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    once: Mapping[str, str] = field(default_factory=dict, repr=False)
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Resource:
    """What can be listed and read: the prefix of its ids, its path, and the name of the array in its list."""

    prefix: str
    path: str
    items: str
    show: Callable[[dict[str, Any], Call], dict[str, Any]] = lambda entry, _: entry  # for what is not stored as shown

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint("GET", self.path, 200, self.list_page, query=Page),
            Endpoint("GET", f"{self.path}/{{id}}", 200, self.get),
        )

    def list_page(self, call: Call) -> dict[str, Any]:
        page: Page = call.query
        found = table.newest(call.caller.scope(self.path), before=page.before_id, count=page.limit + 1)
        uri = f"{call.base_url}{self.path}"
        return paging.render(self.items, [self.shown(item, call) for item in found], uri, page)

    def get(self, call: Call) -> dict[str, Any]:
        return self.shown(self.found(self.find(call.caller, self.id_in(call))), call)

    def find(self, caller: Caller, id: str) -> Item | None:
        """The caller's resource of that id, or None."""
        return table.read(caller.scope(self.path), id)

    def referred(self, caller: Caller, id: str, *, field: str) -> Item:
        """The resource that a field of a body names. Raises UnknownReference."""
        item = self.find(caller, id)
        if item is None:
            raise UnknownReference(f"'{field}' names nothing.", {field: f"must be an id listed at {self.path}"})
        return item

    def id_in(self, call: Call) -> str:
        """The id in the path; one of another form cannot exist. Raises NotFound."""
        if not ids.is_id(call.path["id"], self.prefix):
            raise self._missing()
        return call.path["id"]

    def found(self, item: Item | None) -> Item:
        """The item, if it is one. Raises NotFound."""
        if item is None:
            raise self._missing()
        return item

    def shown(self, item: Item, call: Call) -> dict[str, Any]:
        """The resource as responses carry it."""
        return self.show({"id": item.id, "uri": f"{call.base_url}{self.path}/{item.id}", **item.body}, call)

    def _missing(self) -> NotFound:
        return NotFound(f"No such resource. Those of this account are listed at {self.path}.")


@dataclass(frozen=True, kw_only=True)
class EditableResource(Resource):
    """What can also be created, changed and deleted.

    `make` says how one comes into being: from the caller, the new id and the create shape.
    """

    create: type[Shape]
    make: Callable[[Caller, str, Any], New]
    change: type[Shape] = Described

    def endpoints(self) -> tuple[Endpoint, ...]:
        one = f"{self.path}/{{id}}"
        return (
            *super().endpoints(),
            Endpoint("POST", self.path, 201, self.post, body=self.create),
            Endpoint("PATCH", one, 200, self.patch, body=self.change),
            Endpoint("DELETE", one, 204, self.delete),
        )

    def post(self, call: Call) -> dict[str, Any]:
        id = ids.new(self.prefix)
        new = self.make(call.caller, id, call.body)
        item = self.stored(call.caller, id, new)
        try:
            table.create(item)
        except Taken as taken:
            field = taken.claim.kind
            raise Conflict(f"'{field}' is in use already.", {field: "must be unique in the whole service"}) from None
        return {**self.shown(item, call), **new.once}

    def stored(self, caller: Caller, id: str, new: New) -> Item:
        """The item of a new resource, its secrets sealed for it alone."""
        context = seal_context(caller.account, id)
        return Item(
            caller.scope(self.path),
            id,
            {"created_at": clock.rfc3339(ids.created_at(id)), **new.body},
            sealed={name: vault.seal(secret, context) for name, secret in new.sealed.items()},
            claims=new.claims,
        )

    def patch(self, call: Call) -> dict[str, Any]:
        id = self.id_in(call)
        fields = call.body.model_dump(exclude_unset=True)
        scope = call.caller.scope(self.path)
        item = table.change(scope, id, fields) if fields else table.read(scope, id)
        return self.shown(self.found(item), call)

    def delete(self, call: Call) -> None:
        if not table.delete(call.caller.scope(self.path), self.id_in(call)):
            raise self._missing()


def seal_context(account: str, id: str) -> dict[str, str]:
    """What a sealed secret is bound to: nothing else opens it."""
    return {"account": account, "resource": id}
