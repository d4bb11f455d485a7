"""A resource: a value that says what is special about one kind; everything else is the same for all of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, cast

from chalicelib import clock, ids
from chalicelib.http import auth, inline_modules, paging
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, Endpoint, Repeatable
from chalicelib.http.errors import ApiError, Conflict, NotFound
from chalicelib.http.module import Module
from chalicelib.http.paging import Page
from chalicelib.model import idempotency, references
from chalicelib.model.audit import Trail
from chalicelib.model.idempotency import Done, Repeated
from chalicelib.model.kinds import Kind
from chalicelib.model.references import References
from chalicelib.schema.fields import Described, Shown
from chalicelib.schema.shapes import Shape
from chalicelib.storage import aws, relations, table, vault
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item
from chalicelib.storage.references import MissingTarget, Reference, TooManyReferrers
from chalicelib.storage.relations import Meaning
from chalicelib.storage.unique_keys import UniqueKey

MAX_CHILDREN = 100  # of one parent, which shows them whole


@dataclass(frozen=True)
class New:
    """A resource to be created. The field in which a value stands decides where it may ever be seen.

    `body` is stored and shown, `sealed` is encrypted and never shown, `once` is shown in the creation's response
    and never stored, `unique_keys` are held in the whole service and released with the resource. `unseen` is stored,
    never shown; `details` is what the audit event and the log tell of it, `checks` what must hold when it is stored.
    """

    body: dict[str, Any]
    sealed: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    once: Mapping[str, str] = field(default_factory=dict, repr=False)
    unique_keys: tuple[UniqueKey, ...] = ()
    unseen: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    checks: Sequence[Write] = ()


@dataclass(frozen=True)
class Unique:
    """`keys` makes the unique keys of a resource from its account, id and body; they depend on the body's `fields`."""

    fields: tuple[str, ...]
    keys: Callable[[str, str, Mapping[str, Any]], tuple[UniqueKey, ...]]


def as_stored(items: Sequence[Item], call: Call) -> list[dict[str, Any]]:
    """Return the responses of resources whose stored body is what is shown."""
    return [{"id": item.id, "uri": f"{call.base_url}{item.path}/{item.id}", **item.body} for item in items]


def as_requested(_caller: Caller, _id: str, request: Shape) -> New:
    """Make a resource whose body is what was requested."""
    return New(request.values())


def no_references(_body: Mapping[str, Any]) -> References:
    """Return the references of a body that holds none."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A kind that can be listed and read.

    `response` is the shape of one, `to_responses` makes the responses of some, perhaps one by one. `permits` raises
    Forbidden for callers who may not use the endpoints. `errors` are their errors by method, beside the common ones,
    and `headers` those of their responses.
    """

    kind: Kind
    response: type[Shape] = Shown
    to_responses: Callable[[Sequence[Item], Call], Iterable[dict[str, Any]]] = as_stored
    permits: Callable[[Caller], None] = auth.anyone
    errors: Mapping[str, tuple[type[ApiError], ...]] = field(default_factory=dict)
    modules: tuple[Module, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def endpoints(self) -> tuple[Endpoint, ...]:
        page = paging.listed(self.kind.array, self.response)
        return self._own(
            Endpoint("GET", self.kind.path, 200, self.list_page, query=paging.parameters(self.kind), response=page),
            Endpoint("GET", self.kind.one, 200, self.get, response=self.response),
        )

    def list_page(self, call: Call) -> str:
        page, scope = Page(**call.query), self.scope(call)
        self.check_parent(call)
        found, has_more = table.page(scope, before=page.before_id, count=page.limit)
        uri = f"{call.base_url}{self.path(call)}"
        return paging.text(self.kind.array, self.responses(found, call), len(found), uri, page, has_more=has_more)

    def check_parent(self, call: Call) -> None:
        """Raise NotFound if the account lacks the parent in the path, such as the edge of routes; aws.Unavailable."""
        if (parent := self.parent(self.scope(call))) and table.read(*parent.target) is None:
            raise _no_parent()

    def get(self, call: Call) -> dict[str, Any]:
        return self.one(table.read(self.scope(call), call.id), call)

    def one(self, item: Item | None, call: Call) -> dict[str, Any]:
        """Return the response of a resource. Raises NotFound where there is none."""
        if item is None:
            raise self.missing()
        call.note(item)
        return next(self.responses([item], call))

    def answered(self, call: Call) -> dict[str, Any] | None:
        """Return the response to a request whose Idempotency-Key was used before, else None. Raises as `again` does."""
        if call.repeatable and (done := idempotency.find(call.caller.account, call.repeatable.key)):
            return self.again(done, call.repeatable, call)
        return None

    def again(self, done: Done, repeatable: Repeatable, call: Call) -> dict[str, Any]:
        """Return the response to a request whose Idempotency-Key was used before. Raises Conflict, NotFound."""
        if done.digest != repeatable.digest:
            raise Conflict("The Idempotency-Key stands for another request already: choose another one.")
        if done.once:
            raise Conflict(f"This request was done: it made {done.item.id}, which is not shown again.")
        return self.one(inline_modules.added(self.modules, done.item, call.body) if self.modules else done.item, call)

    def responses(self, items: Sequence[Item], call: Call) -> Iterator[dict[str, Any]]:
        """Yield the responses of some resources, their modules inline, each made when it is asked for."""
        for response, item in zip(self.to_responses(items, call), items, strict=True):
            yield {**response, **inline_modules.responses(self.modules, item, call)}

    def check(self, call: Call) -> Callable[[Item], None]:
        """Return what raises PreconditionFailed for a resource of which the request's conditions do not hold."""
        return lambda item: call.check(item, lambda: next(self.responses([item], call)))

    def path(self, call: Call) -> str:
        """Return the path of the list that the request is about."""
        return self.kind.path.format(**call.path)

    def scope(self, call: Call) -> str:
        """Return the storage scope of the request's list in the caller's account."""
        return call.caller.scope(self.path(call))

    def missing(self) -> NotFound:
        return NotFound(f"This account has nothing of that id under {self.kind.path}.")

    def parent(self, scope: str) -> Reference | None:
        """Return the reference from a scope's items to their parent, from routes to their edge; None without one."""
        return references.to_parent(self.kind, scope, max_referrers=MAX_CHILDREN)

    def _own(self, *endpoints: Endpoint) -> tuple[Endpoint, ...]:
        """Return endpoints, each with whom it is for, what it may refuse, and the headers of what it shows."""
        every = (self.headers, *(module.headers for module in self.modules))
        headers = {name: value for some in every for name, value in some.items()}
        return tuple(
            endpoint._replace(permits=self.permits, errors=self.errors.get(endpoint.method, ()), headers=headers)
            for endpoint in endpoints
        )


def nothing_beside(_item: Item) -> Sequence[tuple[Write, Meaning]]:
    """Return nothing to write with a new item."""
    return ()


def nothing_follows(item: Item, _fields: Mapping[str, Any]) -> Item:
    """Return the resource as it is: nothing is done after a change."""
    return item


def unmarked(_before: Item, after: Item) -> Item:
    """Return the changed resource as it is."""
    return after


class Remove(Protocol):
    """Removes what a scope holds under an id, unless `check` refuses; False when there is none."""

    def __call__(self, scope: str, id: str, *, check: Callable[[Item], None], by: Trail) -> bool: ...


def remove(scope: str, id: str, *, check: Callable[[Item], None], by: Trail) -> bool:
    """Remove a resource without children, with an audit event. Raises what `check` raises, InUse, aws.Unavailable."""
    return table.delete(scope, id, check=check, also=by.telling("delete"))


@dataclass(frozen=True, kw_only=True)
class EditableResource(Resource):
    """A kind that can also be created, changed and deleted.

    `make` makes a new one from the caller, its id and the request in the shape `create`. `references` returns the ids
    that fields of a body hold, `unique` the unique keys that follow from a body. `repeated` names the fields that are
    copied into the attributes of a unique key. `beside` returns further writes of a creation, `remove` deletes one.
    `follow` is called after a change with the fields that were sent and the resource as it is then, and `mark` returns
    its record as it stands until that is done.
    """

    create: type[Shape]
    make: Callable[[Caller, str, Any], New] = as_requested
    change: type[Shape] = Described
    references: Callable[[Mapping[str, Any]], References] = no_references
    unique: Unique | None = None
    repeated: tuple[str, ...] = ()
    beside: Callable[[Item], Sequence[tuple[Write, Meaning]]] = nothing_beside
    remove: Remove = remove
    follow: Callable[[Item, Mapping[str, Any]], Item] = nothing_follows
    mark: Callable[[Item, Item], Item] = unmarked

    @cached_property
    def creation(self) -> type[Shape]:
        """Return the shape of a POST: `create` with the modules inline."""
        return inline_modules.requested(self.create, self.modules)

    @cached_property
    def alteration(self) -> type[Shape]:
        """Return the shape of a PATCH: `change` with the modules inline."""
        return inline_modules.requested(self.change, self.modules)

    def endpoints(self) -> tuple[Endpoint, ...]:
        edits = self._own(
            Endpoint("POST", self.kind.path, 201, self.post, body=self.creation, response=self.response),
            Endpoint("PATCH", self.kind.one, 200, self.patch, body=self.alteration, response=self.response),
            Endpoint("DELETE", self.kind.one, 204, self.delete),
        )
        return (*super().endpoints(), *edits)

    def post(self, call: Call) -> dict[str, Any]:
        if done := self.answered(call):
            return done
        item, new = self.new(call.caller, call.body, scope=self.scope(call))
        try:
            self._create(item, new, call)
        except Repeated:
            return self._overtaken(item, new, call)
        call.noted.log.update(new.details)
        return self._made(item, new, call)

    def _made(self, item: Item, new: New, call: Call) -> dict[str, Any]:
        call.noted.once = tuple(new.once)
        return {**self.one(item, call), **new.once}

    def _overtaken(self, item: Item, new: New, call: Call) -> dict[str, Any]:
        """Answer a request whose key stands for one already: one of the same time, or its own first try."""
        repeatable = cast(Repeatable, call.repeatable)
        done = idempotency.find(call.caller.account, repeatable.key)
        if done is None:
            raise aws.Unavailable("TransactionConflict")
        if done.item.id == item.id:
            return self._made(item, new, call)
        return self.again(done, repeatable, call)

    def new(self, caller: Caller, request: Shape, *, scope: str) -> tuple[Item, New]:
        """Return the item of a new resource, its secrets encrypted, and the New that `make` returned for it.

        Raises ApiError, aws.Unavailable.
        """
        id = ids.new(self.kind.prefix)
        new = self.make(caller, id, request)
        named = self.references(new.body)
        item = Item(
            scope,
            id,
            {"created_at": clock.rfc3339(ids.created_at(id)), **new.body},
            sealed={name: vault.seal(secret, vault.context(caller.account, id)) for name, secret in new.sealed.items()},
            unseen=dict(new.unseen),
            unique_keys=new.unique_keys,
            references=references.recorded(caller.account, named) if any(named.values()) else (),
        )
        return self._related(item, request), new

    def patch(self, call: Call) -> dict[str, Any]:
        fields = call.body.fields_set()
        item = self._changed(call, fields)
        return self.one(self.follow(item, fields) if item else None, call)

    def delete(self, call: Call) -> None:
        if not self.remove(self.scope(call), call.id, check=self.check(call), by=call.trail):
            raise self.missing()

    def _create(self, item: Item, new: New, call: Call) -> None:
        first: list[tuple[Write, Meaning]] = [(write, aws.Unavailable("TransactionConflict")) for write in new.checks]
        if call.repeatable:
            done = Done(call.repeatable.digest, item, bool(new.once))
            first = [idempotency.keeping(item.account, call.repeatable.key, done), *first]
        try:
            beside = self.beside(item)
            table.create(item, call.trail.made(item, new.details), first=first, beside=beside)
        except MissingTarget as missing:
            raise (_no_parent() if self._is_parent(missing.reference) else missing) from None
        except TooManyReferrers as crowded:
            raise (self._full() if self._is_parent(crowded.reference) else crowded) from None

    def _changed(self, call: Call, fields: dict[str, Any]) -> Item | None:
        """Return the resource with the fields set, or None when there is none."""
        scope, check = self.scope(call), self.check(call)

        def change(item: Item) -> Item:
            check(item)
            return self.mark(item, self._with(item, fields, call))

        return table.rewrite(scope, call.id, change, also=call.trail.telling("update"))

    def _with(self, item: Item, fields: dict[str, Any], call: Call) -> Item:
        """Return an item with fields of its body and modules set, and all that follows from them."""
        modules = {module.name for module in self.modules}
        body = {**item.body, **{name: value for name, value in fields.items() if name not in modules}}
        named = self.references(fields)
        own = {"": references.recorded(item.account, named)} if fields.keys() & named.keys() else {}
        after = replace(item, body=body, references=relations.replaced(item.references, own))
        if self.modules:
            after = inline_modules.replaced(self.modules, after, call.body)
        if self.unique and any(body[name] != item.body[name] for name in self.unique.fields):
            return replace(after, unique_keys=self.unique.keys(item.account, item.id, body))
        return replace(after, unique_keys=tuple(map(self._repeating(fields), item.unique_keys)))

    def _repeating(self, fields: Mapping[str, Any]) -> Callable[[UniqueKey], UniqueKey]:
        attributes = {name: fields[name] for name in self.repeated if name in fields}
        return lambda key: replace(key, attributes=attributes)

    def _related(self, item: Item, request: Shape) -> Item:
        """Return a new item with its parent, the modules of the body that creates it, and its unique keys."""
        if parent := self.parent(item.scope):
            body = {**item.body, parent.field: parent.id}
            item = replace(item, body=body, references=(*item.references, parent))
        if self.modules:
            item = inline_modules.added(self.modules, item, request)
        if self.unique:
            item = replace(item, unique_keys=self.unique.keys(item.account, item.id, item.body))
        return item

    def _is_parent(self, reference: Reference) -> bool:
        return self.kind.parent is not None and reference.field == self.kind.parent.variable

    def _full(self) -> Conflict:
        return Conflict(f"The edge has {MAX_CHILDREN} {self.kind.array} already, which is the most.")


def _no_parent() -> NotFound:
    return NotFound("There is no such edge in this account.")
