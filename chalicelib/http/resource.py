"""Kinds of resources: each `Resource` declares one kind. This file contains the behaviour of all kinds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from chalicelib import ids
from chalicelib.http import inline_modules, paging
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, CreatedItem, Endpoint
from chalicelib.http.errors import ApiError, NotFound
from chalicelib.http.module import Module
from chalicelib.http.paging import Page
from chalicelib.model import changes
from chalicelib.model.base import records, references
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import Owned, Stored, Traced
from chalicelib.model.changes import Change
from chalicelib.schema.fields import DescribedShape, Shown
from chalicelib.schema.shapes import Shape
from chalicelib.storage import vault
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import decoding, table, writes
from chalicelib.storage.records.decoding import MalformedRecord
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.references import replace_references
from chalicelib.storage.records.unique_keys import UniqueKey


@dataclass(frozen=True)
class New:
    """A resource that will be created. The attribute that contains a value decides who can see the value, and when.

    - `stored` is stored and may be shown.
    - `sealed` is encrypted and never shown.
    - `once` is shown in the response to the creation and never stored.
    - `unique_keys`, if any, replace the unique keys of `stored`. A unique key reserves a value for one item.
    - `details` are added to the log line, and to the audit event, which also has the details of `stored`.
    - `also` are further writes in the transaction that creates the resource.
    - `expires` is the Unix second at which the resource expires, or None. Its expiry has no audit event.
    - `unseen` is stored and never shown.
    """

    stored: Stored
    sealed: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    once: Mapping[str, str] = field(default_factory=dict, repr=False)
    unique_keys: tuple[UniqueKey, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    also: Sequence[Write] = ()
    expires: int | None = None
    unseen: Mapping[str, Any] = field(default_factory=dict)


def show_fields(stored: type[Stored], item: Item, call: Call) -> dict[str, Any]:
    """Return the stored fields as the response."""
    fields = records.decode(stored, item).to_record()
    return {"id": item.id, "uri": f"{call.base_url}{item.path}/{item.id}", **fields}


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A kind that can be listed and read.

    - `stored` is the stored type, `response` the shape of a response.
    - `to_responses` makes the responses for several items. It may make each one only when it is requested. By default,
      responses have the stored fields.
    - `permits` raises Forbidden for callers that may not use the endpoints, `access` for items that a caller may not
      read or change.
    - `errors` are errors by method beyond the common ones, `headers` headers of all responses.
    """

    kind: Kind
    stored: type[Stored]
    response: type[Shape] = Shown
    to_responses: Callable[[Sequence[Item], Call], Iterable[dict[str, Any]]] | None = None
    permits: Callable[[Caller], None] | None = None
    access: Callable[[Call, Item], None] | None = None
    errors: Mapping[str, tuple[type[ApiError], ...]] = field(default_factory=dict)
    modules: tuple[Module, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def endpoints(self) -> tuple[Endpoint, ...]:
        page = paging.build_shape(self.kind.array, self.response)
        parameters = paging.parameters(self.kind)
        return (
            self.endpoint("GET", self.kind.path, 200, self.list_page, query=parameters, response=page),
            self.endpoint("GET", self.kind.item_path, 200, self.get, response=self.response),
        )

    def endpoint(self, method: str, path: str, status: int, view: Callable[[Call], Any], **more: Any) -> Endpoint:
        """Return an endpoint with the kind's `show`, `permits`, headers and errors."""
        groups = (self.headers, *(module.headers for module in self.modules))
        headers = {name: value for group in groups for name, value in group.items()}
        common = {"show": self.show, "permits": self.permits, "errors": self.errors.get(method, ())}
        return Endpoint(method, path, status, view, **{**common, "headers": headers, **more})

    def list_page(self, call: Call) -> str:
        page = Page(**call.query)
        items, has_more = self.list_items(call, page)
        uri = f"{call.base_url}{self.path(call)}"
        return paging.text(
            self.kind.array, self.responses(items, call), paging.find_last_id(items), uri, page, has_more=has_more
        )

    def list_items(self, call: Call, page: Page) -> tuple[list[Item], bool]:
        """Return the items on a page of the list, and whether there are more.

        Raises aws.Unavailable, and NotFound if the parent in the path, such as the edge of routes, does not exist.
        """
        ids = None if call.path else call.caller.readable_ids(self.kind)
        if ids is not None:
            readable_ids = [id for id in ids if self.kind.has(id)]
            return table.read_page_of(self.scope(call), readable_ids, before=page.before_id, count=page.limit)
        return table.read_page(self.scope(call), before=page.before_id, count=page.limit)

    def get(self, call: Call) -> Item:
        item = table.read(self.scope(call), call.id)
        if item is None:
            raise self.missing()
        if self.access:
            self.access(call, item)
        return item

    def show(self, item: Item, call: Call) -> dict[str, Any]:
        """Return the response that shows an item, with its modules."""
        if self.to_responses or self.modules:
            return next(self._build_responses([item], call))
        return show_fields(self.stored, item, call)

    def responses(self, items: Sequence[Item], call: Call) -> Iterator[dict[str, Any]]:
        """Yield the responses of the entries of a list. Malformed entries are logged and left out."""
        count = 0
        try:
            for response in self._build_responses(items, call):
                yield response
                count += 1
        except MalformedRecord:
            yield from self._build_responses([item for item in items[count:] if self._is_well_formed(item)], call)

    def check(self, item: Item) -> None:
        """Raise MalformedRecord if no response can be made from an item."""
        records.decode(self.stored, item)
        for module in self.modules:
            if module.name in item.modules:
                module.stored.of(item.modules[module.name])

    def _is_well_formed(self, item: Item) -> bool:
        try:
            self.check(item)
        except MalformedRecord as malformed:
            decoding.report(item.scope, item.id, malformed)
            return False
        return True

    def _build_responses(self, items: Sequence[Item], call: Call) -> Iterator[dict[str, Any]]:
        """Yield the responses of some resources with their modules inline.

        Each response is made only when the iterator gets to it.
        """
        responses = (
            self.to_responses(items, call)
            if self.to_responses
            else (show_fields(self.stored, item, call) for item in items)
        )
        for response, item in zip(responses, items, strict=True):
            yield {**response, **inline_modules.build_responses(self.modules, item, call)} if self.modules else response

    def path(self, call: Call) -> str:
        """Return the URL path of the kind's list. It contains the ids of parents, such as edges, of the request."""
        return self.kind.path.format(**call.path)

    def scope(self, call: Call) -> str:
        """Return the partition key `scope` of the items in this list, in the caller's account."""
        return f"{call.caller.account}#{self.path(call)}"

    def missing(self) -> NotFound:
        return NotFound(f"This account has no resource with that id under {self.kind.path}.")


@dataclass(frozen=True, kw_only=True)
class EditableResource(Resource):
    """A kind of resource that clients can also create, change and delete.

    - `create` and `change` are the shapes of requests.
    - `make` builds a new resource from the caller, the new id and the request. By default, the fields of the request
      are stored.
    - `remove` deletes a resource. By default, it deletes only the item.
    """

    create: type[Shape]
    make: Callable[[Caller, str, Any], New] | None = None
    change: type[Shape] = DescribedShape
    remove: Callable[[Change, str, str], bool] = changes.delete

    @cached_property
    def creation(self) -> type[Shape]:
        """Return the shape of a POST. It has the fields of `create`, and one field for each module."""
        return inline_modules.build_request_shape(self.create, self.modules)

    @cached_property
    def alteration(self) -> type[Shape]:
        """Return the shape of a PATCH. It has the fields of `change`, and one field for each module."""
        same = self.change is self.create
        return self.creation if same else inline_modules.build_request_shape(self.change, self.modules)

    def endpoints(self) -> tuple[Endpoint, ...]:
        shape = {"response": self.response}
        return (
            *super().endpoints(),
            self.endpoint("POST", self.kind.path, 201, self.post, body=self.creation, **shape, show=self.show_created),
            self.endpoint("PATCH", self.kind.item_path, 200, self.patch, body=self.alteration, **shape),
            self.endpoint("DELETE", self.kind.item_path, 204, self.delete),
        )

    def post(self, call: Call) -> CreatedItem:
        item, new = self.new(call.caller, call.body, scope=self.scope(call))
        writes.retry(lambda: call.change.put(item, details=new.details).add(*new.also).commit())
        call.log.update(new.details)
        return CreatedItem(item, new.once)

    def show_created(self, item: Item, call: Call) -> dict[str, Any]:
        """Return the response to a creation.

        The item that is stored with an idempotency key lacks its modules. So the modules are taken from the repeated
        request.
        """
        if self.modules and not item.modules:
            item = inline_modules.set_in(item, self.modules, call.body)
        return self.show(item, call)

    def new(self, caller: Caller, request: Shape, *, scope: str) -> tuple[Item, New]:
        """Build a new resource. Return its item, with encrypted secrets, and the New that `make` returned.

        Raises ApiError, aws.Unavailable.
        """
        id = ids.new(self.kind.prefix)
        origin = {"created_at": ids.time_of(id)}
        new = self.make(caller, id, request) if self.make else New(self.stored.of(request.values()))
        targets = new.stored.references()
        item_references = references.list_recorded(caller.account, targets) if targets else ()
        is_traced = isinstance(new.stored, Traced)
        if is_traced and caller.key:
            origin["created_by"] = caller.key
        requester = {"owner_id": caller.id} if is_traced and not isinstance(new.stored, Owned) else {}
        unique_keys = new.unique_keys or new.stored.unique_keys(caller.account, id)
        item = Item(
            scope,
            id,
            {**new.stored.pack(), **origin},
            unseen={**new.unseen, **requester},
            sealed={name: vault.seal(secret, vault.context(caller.account, id)) for name, secret in new.sealed.items()},
            unique_keys=unique_keys,
            references=item_references,
            expires=new.expires,
        )
        return inline_modules.set_in(item, self.modules, request) if self.modules else item, new

    def patch(self, call: Call) -> Item:
        change = self.guard(call)
        item = changes.rewrite(change, self.scope(call), call.id, lambda item: self.apply_changes(item, call.body))
        if item is None:
            raise self.missing()
        return item

    def apply_changes(self, item: Item, request: Shape) -> Item:
        """Return an item with the fields and modules of a PATCH. Its unique keys and references are updated too."""
        modules = {module.name for module in self.modules}
        fields = {name: value for name, value in request.fields_set().items() if name not in modules}
        self.check(item)
        before = self.stored.of(item.body)
        after = replace(before, **fields)
        targets = after.references()
        new_references = {"": references.list_recorded(item.account, targets)} if fields.keys() & targets.keys() else {}
        new_item = replace(
            item,
            body=records.body_of_change(item, before, after),
            unique_keys=records.keys_of_change(item, before, after),
            references=replace_references(item.references, new_references),
        )
        return inline_modules.set_in(new_item, self.modules, request) if modules else new_item

    def delete(self, call: Call) -> None:
        if not self.remove(self.guard(call), self.scope(call), call.id):
            raise self.missing()

    def guard(self, call: Call) -> Change:
        """Return the request's transaction, which fails if `access` does not permit the caller to change the item."""
        access, check = self.access, call.change.check
        if access is None:
            return call.change

        def check_both(item: Item) -> None:
            access(call, item)
            if check:
                check(item)

        return replace(call.change, check=check_both)
