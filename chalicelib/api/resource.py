"""A resource: a value that says what is special about one kind; everything else is the same for all of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib import clock, ids
from chalicelib.api import fields, links, paging, references
from chalicelib.api.caller import Caller
from chalicelib.api.endpoints import Call, Endpoint
from chalicelib.api.errors import NotFound, Refusal, UnknownReference
from chalicelib.api.fields import Described, Shape, Shown
from chalicelib.api.paging import Page
from chalicelib.api.references import References
from chalicelib.storage import table, vault
from chalicelib.storage.claims import Claim
from chalicelib.storage.items import Item
from chalicelib.storage.pointers import Pointer


@dataclass(frozen=True)
class New:
    """How a resource comes into being. The drawer decides what may ever be seen.

    `body` is stored and shown, `sealed` is encrypted and never shown, `once` is shown in the creation's response
    and never stored, `claims` are unique in the whole service and released with the resource, `parts` are modules,
    `points` is what must stay as long as the resource points at it.
    """

    body: dict[str, Any]
    sealed: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    once: Mapping[str, str] = field(default_factory=dict, repr=False)
    claims: tuple[Claim, ...] = ()
    parts: dict[str, Any] = field(default_factory=dict)
    points: tuple[Pointer, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Resource:
    """What can be listed and read: the prefix of its ids, its path, and the name of the array in its list.

    `shows` is the shape of one of them, `refuses` what its endpoints may answer, by method, beside what all may.
    """

    prefix: str
    path: str
    items: str
    shows: type[Shape] = Shown
    refuses: Mapping[str, tuple[type[Refusal], ...]] = field(default_factory=dict)
    variable: str = "id"  # the name of the id in the path: the gateway knows one name for each place in a path
    show: Callable[[dict[str, Any], Call], dict[str, Any]] = lambda entry, _: entry  # for what is not stored as shown

    @property
    def one(self) -> str:
        """The path of one of them."""
        return f"{self.path}/{{{self.variable}}}"

    def endpoints(self) -> tuple[Endpoint, ...]:
        page = paging.listed(self.items, self.shows)
        return self.refusing(
            Endpoint("GET", self.path, 200, self.list_page, query=paging.PARAMETERS, shows=page),
            Endpoint("GET", self.one, 200, self.get, shows=self.shows),
        )

    def refusing(self, *endpoints: Endpoint) -> tuple[Endpoint, ...]:
        """The endpoints, each with what it may refuse."""
        return tuple(endpoint._replace(refuses=self.refuses.get(endpoint.method, ())) for endpoint in endpoints)

    def list_page(self, call: Call) -> str:
        page = Page(**call.query)
        found, has_more = table.page(self.scope(call), before=page.before(self.prefix), count=page.limit)
        entries, uri = self.all_shown(found, call), f"{call.base_url}{self.at(call)}"
        return paging.text(self.items, entries, uri, page, has_more=has_more)

    def get(self, call: Call) -> dict[str, Any]:
        return self.shown(self.found(table.read(self.scope(call), self.id_in(call))), call)

    def at(self, call: Call) -> str:
        """The path of the list that the request is about. Raises NotFound."""
        links.check(self.path, call.path)
        return self.path.format(**call.path)

    def scope(self, call: Call) -> str:
        """Where the caller's account keeps what the request is about. Raises NotFound."""
        return call.caller.scope(self.at(call))

    def referred(self, caller: Caller, id: str, *, field: str) -> Item:
        """The resource that a field of a body names. Raises UnknownReference."""
        item = table.read(caller.scope(self.path), id)
        if item is None:
            raise UnknownReference(f"'{field}' names nothing.", {field: f"must be an id listed at {self.path}"})
        return item

    def id_in(self, call: Call) -> str:
        """The id in the path; one of another form cannot exist. Raises NotFound."""
        if not ids.is_id(call.id, self.prefix):
            raise self.missing()
        return call.id

    def found(self, item: Item | None) -> Item:
        """The item, if it is one. Raises NotFound."""
        if item is None:
            raise self.missing()
        return item

    def shown(self, item: Item, call: Call) -> dict[str, Any]:
        """The resource as responses carry it."""
        return self.show({"id": item.id, "uri": f"{call.base_url}{item.path}/{item.id}", **item.body}, call)

    def all_shown(self, items: list[Item], call: Call) -> list[dict[str, Any]]:
        """Some of the resources, as a list carries them."""
        return [self.shown(item, call) for item in items]

    def missing(self) -> NotFound:
        return NotFound(f"This account has nothing of that id under {self.path}.")


@dataclass(frozen=True, kw_only=True)
class EditableResource(Resource):
    """What can also be created, changed and deleted.

    `make` says how one comes into being: from the caller, the new id and the create shape. `points` tells the ids
    that fields of a body name, of a whole one or of those that change.
    """

    create: type[Shape]
    make: Callable[[Caller, str, Any], New]
    change: type[Shape] = Described
    points: Callable[[dict[str, Any]], References] = lambda body: {}  # the ids that fields of the body name

    def endpoints(self) -> tuple[Endpoint, ...]:
        edits = self.refusing(
            Endpoint("POST", self.path, 201, self.post, body=self.create, shows=self.shows),
            Endpoint("PATCH", self.one, 200, self.patch, body=self.change, shows=self.shows),
            Endpoint("DELETE", self.one, 204, self.delete),
        )
        return (*super().endpoints(), *edits)

    def post(self, call: Call) -> dict[str, Any]:
        id = ids.new(self.prefix)
        new = self.new(call, id)
        item = self.stored(call.caller, id, new, scope=self.scope(call))
        table.create(item)
        return {**self.shown(item, call), **new.once}

    def new(self, call: Call, id: str) -> New:
        """What is to be created."""
        return self.make(call.caller, id, call.body)

    def stored(self, caller: Caller, id: str, new: New, *, scope: str) -> Item:
        """The item of a new resource, its secrets sealed for it alone."""
        context = seal_context(caller.account, id)
        return Item(
            scope,
            id,
            {"created_at": clock.rfc3339(ids.created_at(id)), **new.body},
            parts=new.parts,
            sealed={name: vault.seal(secret, context) for name, secret in new.sealed.items()},
            claims=new.claims,
            points=(*new.points, *references.pointers(caller, self.points(new.body))),
        )

    def patch(self, call: Call) -> dict[str, Any]:
        return self.shown(self.found(self.changed(call, fields.given(call.body))), call)

    def changed(self, call: Call, fields: dict[str, Any]) -> Item | None:
        """The resource with the fields set, or None when there is none."""
        scope, id = self.scope(call), self.id_in(call)
        if not fields:
            return table.read(scope, id)
        if fields.keys() & self.points(fields).keys():
            return table.rewrite(scope, id, fields, points={"": references.pointers(call.caller, self.points(fields))})
        return table.change(scope, id, fields)

    def delete(self, call: Call) -> None:
        if not table.delete(self.scope(call), self.id_in(call)):
            raise self.missing()


def seal_context(account: str, id: str) -> dict[str, str]:
    """What a sealed secret is bound to: nothing else opens it."""
    return {"account": account, "resource": id}
