"""Modules: optional parts of edges, routes and other items, with separate endpoints (SPEC 2.9, 4.8).

Without STRICT_REFERENCES, clients can also set modules for edges and routes that do not exist in this API.
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


def forbid_modules(names: tuple[str, ...], field: str) -> Callable[[Any, Item], dict[str, str]]:
    """Return a function for `Module.conflicts` that rejects a module if its parent has one of the modules `names`.

    The function returns this conflict as a validation error for the field `field` of the request.
    """

    def conflicts(request: Any, parent: Item) -> dict[str, str]:
        present_names = [name for name in names if request is not None and name in parent.modules]
        return (
            {field: f"must not be set together with the module {present_names[0]}: remove that module first"}
            if present_names
            else {}
        )

    return conflicts


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module at a path. Its parent is the item that it belongs to: an edge, route, authority or reservation.

    - `shape` is the shape of requests, `stored` the stored type. `shows` is the shape of responses if it differs.
    - `to_response` makes the response from the stored module and its parent. By default, the response has the stored
      fields.
    - `conflicts` returns the validation errors of a request, given the parent. The request is None if only the parent
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
        errors = (Forbidden,) if self.permits else ()
        options: dict[str, Any] = {"show": self.show, "module": self.name, "permits": self.permits, "errors": errors}
        response_options: dict[str, Any] = {**options, "response": self.response, "headers": self.headers}
        return (
            Endpoint(
                "PUT",
                self.path,
                200,
                self.put,
                body=self.shape,
                **{**response_options, "errors": errors + self.errors},
            ),
            Endpoint("GET", self.path, 200, self.get, **response_options),
            Endpoint("DELETE", self.path, 204, self.delete, **options),
        )

    def put(self, call: Call) -> Item | None:
        """Set the module. Raises NotFound if the item that would have the module does not exist.

        Without STRICT_REFERENCES, an edge or route does not have to exist in this API.
        """
        home = kinds.find_by_path(self.home.rpartition("/")[0])
        may_be_elsewhere = home is not None and home.may_be_elsewhere

        def edit(parent: Item) -> Item:
            self.check(call.body, parent)
            return self.set_in(parent, call.body)

        def attempt() -> Item | None:
            parent = self._read_parent(call)
            if not (parent.body or (may_be_elsewhere and not references.are_strict())):
                noun = "edge or route" if home is None or may_be_elsewhere else home.name
                raise NotFound(f"There is no {noun} {call.id} in this account.")
            return call.change.rewrite(parent, edit, verb="replace", module=self.name).commit()

        return writes.retry(attempt)

    def get(self, call: Call) -> Item:
        parent = table.read_any(*self.item_key(call))
        if parent is None:
            raise self._unset()
        return parent

    def delete(self, call: Call) -> None:
        def edit(parent: Item) -> Item:
            modules = {name: module for name, module in parent.modules.items() if name != self.name}
            return replace(parent, modules=modules, references=replace_references(parent.references, {self.name: ()}))

        def attempt() -> None:
            parent = self._read_parent(call)
            if self.name not in parent.modules:
                raise self._unset()
            call.change.rewrite(parent, edit, verb="delete", module=self.name).commit()

        writes.retry(attempt)

    def _read_parent(self, call: Call) -> Item:
        """Return the item to which the module belongs. An item that does not exist has an empty body."""
        item_key = self.item_key(call)
        return table.read_any(*item_key) or Item(*item_key, {}, revision=0)

    def set_in(self, parent: Item, request: Shape, *, at: str = "") -> Item:
        """Return the parent with the requested module.

        With STRICT_REFERENCES, the parent also gets references to the resources that the module names. `at` is the
        module's dotted path in the body. Raises aws.Unavailable if a secret cannot be encrypted.
        """
        before = self.stored.of(parent.modules[self.name]) if self.name in parent.modules else None
        context = vault.context(parent.account, parent.id)
        module = self.stored.from_request(request.values(), context, before)
        targets = {f"{at}{field}": ids for field, ids in module.references().items()}
        module_references = references.list_recorded(parent.account, targets, module=self.name)
        old_record = parent.modules.get(self.name, {})
        record = old_record if module == before else module.merge_into(old_record)
        all_references = replace_references(parent.references, {self.name: module_references})
        return replace(parent, modules={**parent.modules, self.name: record}, references=all_references)

    def show(self, parent: Item, call: Call) -> dict[str, Any]:
        """Return the response for the module. Raises NotFound if the module is not set."""
        if self.name not in parent.modules:
            raise self._unset()
        module = self.stored.of(parent.modules[self.name])
        return self.to_response(module, parent, call) if self.to_response else asdict(module)

    def check(self, request: Shape | None, parent: Item, *, at: str = "") -> None:
        """Raise InvalidRequest if the module contradicts its parent. `at` is the module's dotted path in the body."""
        if errors := self.conflicts(request, parent) if self.conflicts else {}:
            raise InvalidRequest.of({f"{at}{field}": rule for field, rule in errors.items()})

    def item_key(self, call: Call) -> tuple[str, str]:
        """Return the partition key `scope` and the id of the item to which the module belongs."""
        return call.caller.scope(self.home.rpartition("/")[0].format(**call.path)), call.id

    def _unset(self) -> NotFound:
        return NotFound(f"The module {self.name} is not set.")
