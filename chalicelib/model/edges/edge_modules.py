"""What the API and the edge must know of a module of edges, routes and reservations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import StoredModule

S = TypeVar("S", bound=StoredModule)
V = TypeVar("V", covariant=True)


@dataclass(frozen=True)
class Memory:
    """The estimated memory of a module in Envoy, in KiB.

    `route_kib` counts once for a route, `entry_kib` for each of Envoy's entries of the route. A module with
    `cluster_kib` has its own clusters for each backend of the route, which take that much more than shared ones.
    """

    route_kib: float = 0
    entry_kib: float = 0
    cluster_kib: float | None = None


@dataclass(frozen=True, kw_only=True)
class EdgeModule(Generic[S, V]):
    """The declaration of a module. Each file of `chalicelib.model.edges.modules` has one.

    - `name` is the last segment of its path, `holders` are the kinds that can have it.
    - `stored` is its stored type. Audit events show its `AUDITED` fields only.
    - `read` returns what the edge obeys, without secrets, or None for malformed values, which close the holder.
    - `restricts_visitors` is set if it keeps some visitors out. A route with it then never keeps earlier routes.
    - `admits_ambiguous_paths` is set if no path can lead past it that an upstream reads as another route's path.
    - `needs_plaintext` is set if TLS must end at the edge.
    - `budget` are the most characters that it takes of a response, counted as JSON inside a JSON string. `make openapi`
      computes them from the shape of its requests, and fails if they are more.
    - `memory` estimates what it takes in Envoy.
    - `excludes` names the modules that its holder cannot have at the same time.
    - `configures_route` names the function of `edge.envoy` that is called for each of Envoy's routes of a route with
      the module. `built_by` names the function that reads the module instead, if it configures something else.
      Without both the edge does not enforce the module, and closes what has it.
    """

    name: str
    holders: tuple[Kind, ...]
    stored: type[S]
    read: Callable[[S], V | None]
    restricts_visitors: bool
    admits_ambiguous_paths: bool
    needs_plaintext: bool
    budget: int
    memory: Callable[[Any], Memory]
    excludes: tuple[str, ...] = ()
    configures_route: str = ""
    built_by: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """Return its paths in the API, one for each kind that can have it."""
        return tuple(f"{kind.one}/{self.name}" for kind in self.holders)

    @property
    def is_enforced(self) -> bool:
        """Return whether the edge enforces the module."""
        return bool(self.configures_route or self.built_by)


def is_id(value: object) -> bool:
    """Return whether a value has the prefix of an id of a known kind."""
    try:
        return isinstance(value, str) and bool(kinds.of(value))
    except kinds.UnknownKind:
        return False
