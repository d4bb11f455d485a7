"""A module: a part of an edge or route that is replaced, read and deleted by itself (SPEC 2.9, 4.8).

Without strict references it may be put on an edge that this account has not registered.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from chalicelib.http import auth
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.http.errors import ApiError, Forbidden, InvalidRequest, NotFound
from chalicelib.model import references
from chalicelib.model.audit import Verb
from chalicelib.model.modules import Module as Stored
from chalicelib.model.references import References
from chalicelib.schema.rules import if_null
from chalicelib.schema.shapes import Shape
from chalicelib.storage import table
from chalicelib.storage.items import Item
from chalicelib.storage.modules import dropping, setting
from chalicelib.storage.references import Reference
from chalicelib.storage.table import Change


class Enabled(Shape):
    """The field that every module has."""

    enabled: Annotated[bool, if_null(True)] = True
    """True applies the module to traffic, false disables it."""


def as_stored(module: Any, _holder: Item, _call: Call) -> dict[str, Any]:
    """Return the response of a module that is shown as it is stored."""
    return asdict(module)


def no_references(_record: Mapping[str, Any]) -> References:
    """Return the references of a module that holds none."""
    return {}


def always(_request: Any, _holder: Item) -> dict[str, str]:
    """Return no validation errors: the module goes with every edge or route."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module at a path: `shape` is its request, `stored` its stored form, `shows` its response where that differs.

    Its holder is the edge, route or authority that it belongs to: `holder` names that in messages, and `write` changes
    it, for edges and routes also where they are not registered here. `to_response` makes the response from the stored
    form and the holder. `references` returns the ids that the record's fields hold. `conflicts` returns the validation
    errors of a request together with its holder; the request is None where the
    module stays as it is stored. `errors` are those of PUT and `headers` those of responses that show the module,
    beside the common ones. `permits` raises Forbidden for callers who may not use it.
    """

    path: str
    shape: type[Enabled]
    stored: type[Stored]
    shows: type[Shape] | None = None
    errors: tuple[type[ApiError], ...] = ()
    to_response: Callable[[Any, Item, Call], dict[str, Any]] = as_stored
    references: Callable[[Mapping[str, Any]], References] = no_references
    conflicts: Callable[[Any, Item], dict[str, str]] = always
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    holder: str = "edge or route"
    permits: Callable[[Caller], None] = auth.anyone
    write: Callable[..., Item | None] = table.rewrite_any

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def home(self) -> str:
        """Return the path of the edge or route that holds it."""
        return self.path.rpartition("/")[0]

    @property
    def response(self) -> type[Shape]:
        """Return the shape of its response."""
        return self.shows or self.shape

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (
            self._shown("PUT", self.put)._replace(body=self.shape, errors=(*self._refused, *self.errors)),
            self._shown("GET", self.get)._replace(errors=self._refused),
            Endpoint("DELETE", self.path, 204, self.delete, permits=self.permits, errors=self._refused),
        )

    def put(self, call: Call) -> dict[str, Any]:
        module = self.stored.from_request(call.body.values())

        def change(holder: Item) -> Item:
            record = module.to_record(holder.account, holder.id, holder.modules.get(self.name))
            return setting(self.name, record, self.recorded(holder.account, record))(holder)

        holder = self._change(call, change, "replace")
        if holder is None:
            raise NotFound(f"There is no {self.holder} {call.id} in this account.")
        return self.one(module, holder, call)  # not the stored one, which another may have taken away by now

    def get(self, call: Call) -> dict[str, Any]:
        holder = table.read_any(self.scope(call), call.id)
        if holder is None or self.name not in holder.modules:
            raise self._unset()
        return self.one(self.stored_in(holder), holder, call)

    def delete(self, call: Call) -> None:
        if self._change(call, dropping(self.name), "delete") is None:
            raise self._unset()

    def _change(self, call: Call, change: Change, verb: Verb) -> Item | None:
        """Change the edge or route, also one that is not registered here unless references are strict."""
        write = table.rewrite if references.are_strict() and verb == "replace" else self.write

        def checked(holder: Item) -> Item:
            if verb == "delete" and self.name not in holder.modules:
                raise self._unset()
            call.check(holder, lambda: self._response(holder, call), module=self.name)
            if verb == "replace":
                self.check(call.body, holder)
            return change(holder)

        return write(self.scope(call), call.id, checked, also=call.trail.telling(verb, module=self.name))

    def one(self, module: Stored, holder: Item, call: Call) -> dict[str, Any]:
        """Return the response of the module of an edge or route."""
        call.note(holder, module=self.name)
        return self.to_response(module, holder, call)

    def _response(self, holder: Item, call: Call) -> dict[str, Any] | None:
        """Return the response of the module of an edge or route, None where it is not set."""
        return self.to_response(self.stored_in(holder), holder, call) if self.name in holder.modules else None

    def stored_in(self, holder: Item) -> Stored:
        """Return the module of an edge or route that has it. Raises aws.Unavailable where it holds a secret."""
        return self.stored.from_record(holder.modules[self.name], holder.account, holder.id)

    def check(self, request: Shape | None, holder: Item, *, at: str = "") -> None:
        """Refuse what does not go with the holder; `at` is the module's path in the body. Raises InvalidRequest."""
        if wrong := self.conflicts(request, holder):
            raise InvalidRequest.of({f"{at}{field}": rule for field, rule in wrong.items()})

    def recorded(self, account: str, record: Mapping[str, Any], *, at: str = "") -> tuple[Reference, ...]:
        """Return what the module refers to, where references are strict; `at` is the module's path in the body."""
        named = {f"{at}{field}": ids for field, ids in self.references(record).items()}
        return references.recorded(account, named, module=self.name)

    def scope(self, call: Call) -> str:
        """Return the storage scope, in the caller's account, of the edge or route that holds the module."""
        return call.caller.scope(self.home.rpartition("/")[0].format(**call.path))

    def _shown(self, method: str, view: Callable[[Call], dict[str, Any]]) -> Endpoint:
        return Endpoint(
            method, self.path, 200, view, response=self.response, headers=self.headers, permits=self.permits
        )

    @property
    def _refused(self) -> tuple[type[ApiError], ...]:
        return () if self.permits is auth.anyone else (Forbidden,)

    def _unset(self) -> NotFound:
        return NotFound(f"The module {self.name} is not set there.")
