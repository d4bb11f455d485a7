"""Modules: optional parts of edges, routes and other items, with separate endpoints (SPEC 2.9, 4.8).

Without STRICT_REFERENCES, a module can be set for an edge that this account has not created in the API.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import ApiError, Forbidden, InvalidRequest, NotFound
from chalicelib.model.base import kinds, references
from chalicelib.model.base.records import StoredModule as StoredModule
from chalicelib.schema.rules import if_null
from chalicelib.schema.shapes import Shape
from chalicelib.storage import vault
from chalicelib.storage.records import table, writes
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.references import replace_references


class Enabled(Shape):
    """The field that every module has."""

    enabled: Annotated[bool, if_null(True)] = True
    """True applies the module to traffic, false disables it."""


def excluding(others: tuple[str, ...], field: str) -> Callable[[Any, Item], dict[str, str]]:
    """Return a function for `Module.conflicts`. It rejects the module if its holder has one of the modules `others`.

    Then it returns a validation error for the request's field `field`.
    """

    def conflicts(request: Any, holder: Item) -> dict[str, str]:
        found = [other for other in others if request is not None and other in holder.modules]
        return (
            {field: f"must not be set together with the module {found[0]}: remove that module first"} if found else {}
        )

    return conflicts


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module at a path. Its holder is the item that it belongs to: an edge, route, authority or reservation.

    - `shape` is the shape of requests, `stored` the stored type. `shows` is the shape of responses if it differs.
    - `to_response` makes the response from the stored module and its holder. By default, the response has the stored
      fields.
    - `conflicts` returns the validation errors of a request, given the holder. The request is None if only the holder
      changes.
    - `errors` are errors of PUT beyond the common ones, `headers` headers of responses that show the module.
    - `permits` raises Forbidden for callers that may not use the module.
    """

    path: str
    shape: type[Enabled]
    stored: type[StoredModule]
    shows: type[Shape] | None = None
    errors: tuple[type[ApiError], ...] = ()
    to_response: Callable[[Any, Item, Call], dict[str, Any]] | None = None
    conflicts: Callable[[Any, Item], dict[str, str]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    permits: Callable[[Caller], None] | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def home(self) -> str:
        """Return the path of the item that has the module. The item is an edge, route, authority or reservation."""
        return self.path.rpartition("/")[0]

    @property
    def response(self) -> type[Shape]:
        """Return the shape of the module in responses."""
        return self.shows or self.shape

    def endpoints(self) -> tuple[Endpoint, ...]:
        refused = (Forbidden,) if self.permits else ()
        own: dict[str, Any] = {"show": self.show, "module": self.name, "permits": self.permits, "errors": refused}
        shown: dict[str, Any] = {**own, "response": self.response, "headers": self.headers}
        return (
            Endpoint("PUT", self.path, 200, self.put, body=self.shape, **{**shown, "errors": refused + self.errors}),
            Endpoint("GET", self.path, 200, self.get, **shown),
            Endpoint("DELETE", self.path, 204, self.delete, **own),
        )

    def put(self, call: Call) -> Item | None:
        """Set the module. Raises NotFound if the item that would have the module does not exist.

        Without STRICT_REFERENCES, an edge or route does not have to exist in this API.
        """
        home = kinds.at(self.home.rpartition("/")[0])
        may_be_elsewhere = home is not None and home.may_be_elsewhere

        def edit(holder: Item) -> Item:
            self.check(call.body, holder)
            return self.set_in(holder, call.body)

        def attempt() -> Item | None:
            holder = self._holder(call)
            if not (holder.body or (may_be_elsewhere and not references.are_strict())):
                noun = "edge or route" if home is None or may_be_elsewhere else home.name
                raise NotFound(f"There is no {noun} {call.id} in this account.")
            return call.change.rewrite(holder, edit, verb="replace", module=self.name).commit()

        return writes.retried(attempt)

    def get(self, call: Call) -> Item:
        holder = table.read_any(*self.item_key(call))
        if holder is None:
            raise self._unset()
        return holder

    def delete(self, call: Call) -> None:
        def edit(holder: Item) -> Item:
            left = {name: module for name, module in holder.modules.items() if name != self.name}
            return replace(holder, modules=left, references=replace_references(holder.references, {self.name: ()}))

        def attempt() -> None:
            holder = self._holder(call)
            if self.name not in holder.modules:
                raise self._unset()
            call.change.rewrite(holder, edit, verb="delete", module=self.name).commit()

        writes.retried(attempt)

    def _holder(self, call: Call) -> Item:
        """Return the item to which the module belongs. If the account has no such item, its body is empty."""
        item_key = self.item_key(call)
        return table.read_any(*item_key) or Item(*item_key, {}, revision=0)

    def set_in(self, holder: Item, request: Shape, *, at: str = "") -> Item:
        """Return the edge, route or authority with the requested module.

        With STRICT_REFERENCES, the item also gets references to the resources that the module names. `at` is the
        module's dotted path in the body. Raises aws.Unavailable if a secret cannot be encrypted.
        """
        before = self.stored.of(holder.modules[self.name]) if self.name in holder.modules else None
        context = vault.context(holder.account, holder.id)
        module = self.stored.requested(request.values(), context, before)
        named = {f"{at}{field}": ids for field, ids in module.references().items()}
        recorded = references.recorded(holder.account, named, module=self.name)
        kept = holder.modules.get(self.name, {})
        record = kept if module == before else module.over(kept)
        linked = replace_references(holder.references, {self.name: recorded})
        return replace(holder, modules={**holder.modules, self.name: record}, references=linked)

    def show(self, holder: Item, call: Call) -> dict[str, Any]:
        """Return the response for the module. Raises NotFound if it is not set."""
        if self.name not in holder.modules:
            raise self._unset()
        module = self.stored.of(holder.modules[self.name])
        return self.to_response(module, holder, call) if self.to_response else asdict(module)

    def check(self, request: Shape | None, holder: Item, *, at: str = "") -> None:
        """Raise InvalidRequest if the module contradicts its edge, route or authority.

        `at` is the module's path in the body.
        """
        if wrong := self.conflicts(request, holder) if self.conflicts else {}:
            raise InvalidRequest.of({f"{at}{field}": rule for field, rule in wrong.items()})

    def item_key(self, call: Call) -> tuple[str, str]:
        """Return the partition key `scope` and the id of the item to which the module belongs."""
        return call.caller.scope(self.home.rpartition("/")[0].format(**call.path)), call.id

    def _unset(self) -> NotFound:
        return NotFound(f"The module {self.name} is not set.")
