"""The declarations of modules, which the API and the edge share."""

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

    `route_kib` counts once for a route of an edge, `entry_kib` for each of Envoy's routes that implement this route.
    `cluster_kib` is set for a module for which Envoy needs separate clusters for each backend of the route. Then it
    counts once for each backend, in addition to the memory of ordinary clusters. `edge_kib` counts once for an edge,
    for a module of its routes that needs a separate HTTP connection manager.
    """

    edge_kib: float = 0
    route_kib: float = 0
    entry_kib: float = 0
    cluster_kib: float | None = None


@dataclass(frozen=True, kw_only=True)
class EdgeModule(Generic[S, V]):
    """The declaration of a module. Each file of `chalicelib.model.edges.modules` has one.

    - `name` is the last segment of the module's path, `parents` are the kinds of items that can have the module.
    - `stored` is the type in which the module is stored. Audit events show only its `AUDITED` fields.
    - `read` returns the settings that the edge enforces, without secrets. For malformed values it returns None, and the
      edge closes the item that has the module.
    - `restricts_visitors` is set if the module can refuse visitors. If Envoy rejects a change of a route with such a
      module, the earlier version of the route is not served either.
    - `admits_ambiguous_paths` is set if no visitor can bypass the module with a path that the upstream reads
      differently.
    - `needs_plaintext` is set if TLS must end at the edge.
    - `budget` is the maximum size of the module in a response, in characters as `sizes.measure_encoded` counts them.
      `make openapi` computes the size from the shape of the module's requests, and fails if it exceeds the budget.
    - `memory` estimates the module's memory in Envoy.
    - `excludes` names modules that an item cannot have together with this module. It suffices if one of two modules
      names the other.
    - `configures_route` names the function of `edge.envoy` that adds the module to each of Envoy's routes for a route.
      `built_by` names the function for a module that configures something else. Without both, the edge cannot enforce
      the module, and closes the item that has it.
    """

    name: str
    parents: tuple[Kind, ...]
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
        """Return the module's paths in the API, one for each kind of item that can have the module."""
        return tuple(f"{kind.item_path}/{self.name}" for kind in self.parents)

    def is_excluded_by(self, other: "EdgeModule[Any, Any]") -> bool:
        """Return whether an item cannot have both this module and the module `other`."""
        return self.name in other.excludes or other.name in self.excludes

    @property
    def is_enforced(self) -> bool:
        """Return whether the edge enforces the module."""
        return bool(self.configures_route or self.built_by)


def is_id(value: object) -> bool:
    """Return whether a value begins with the id prefix of a known kind of resource."""
    try:
        return isinstance(value, str) and bool(kinds.identify(value))
    except kinds.UnknownKind:
        return False
