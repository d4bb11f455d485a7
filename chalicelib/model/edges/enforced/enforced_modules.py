"""The enabled modules of edges, routes and reservations, decoded for the live edge.

A malformed module is never ignored: its edge, route or tunnel refuses all visitors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

from chalicelib.model.base.kinds import Kind
from chalicelib.model.edges import modules
from chalicelib.model.edges.edge_modules import EdgeModule
from chalicelib.storage.records.decoding import MalformedRecord

V = TypeVar("V")

EVERY: tuple[EdgeModule[Any, Any], ...] = tuple(
    import_module(f"{modules.__name__}.{file.name}").MODULE
    for file in sorted(iter_modules(modules.__path__), key=lambda file: file.name)
)
_BY_NAME: Mapping[str, EdgeModule[Any, Any]] = {module.name: module for module in EVERY}
_RESTRICTING = frozenset(module.name for module in EVERY if module.restricts_visitors)
_HELD_BACK = frozenset(module.name for module in EVERY if not module.admits_ambiguous_paths)


@dataclass(frozen=True)
class Modules:
    """The enabled modules of an edge, route or reservation by name, with the settings that the edge enforces.

    `unenforced` has the names of enabled modules that are malformed, or that the live edge cannot enforce for this
    kind of item. If there are any, the edge, route or tunnel refuses all visitors.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    unenforced: tuple[str, ...] = ()

    @staticmethod
    def of(stored: Mapping[str, Any], kind: Kind) -> "Modules":
        """Return the enabled modules of an item. `stored` are the records of all its modules, by module name."""
        enabled = {name: module for name, module in stored.items() if not _is_disabled(module)}
        read = {name: module for name in sorted(enabled) if (module := _read(name, enabled[name], kind)) is not None}
        return Modules(read, tuple(sorted(enabled.keys() - read.keys())))

    def get(self, module: EdgeModule[Any, V]) -> V | None:
        """Return the settings of a module that the edge enforces. Return None if the module is not enabled."""
        return self.values.get(module.name)

    @property
    def restrict_visitors(self) -> bool:
        """Return whether one of the modules can refuse visitors."""
        return not _RESTRICTING.isdisjoint(self.values)

    @property
    def admit_ambiguous_paths(self) -> bool:
        """Return whether Envoy may accept paths that the upstream reads differently.

        True if no visitor can bypass one of the modules with such a path.
        """
        return _HELD_BACK.isdisjoint(self.values)

    @property
    def declared(self) -> Iterator[tuple[EdgeModule[Any, Any], Any]]:
        """Yield the declaration and the settings of each enabled module."""
        return ((_BY_NAME[name], value) for name, value in self.values.items())


NO_MODULES = Modules()


def list_excluded(name: str) -> tuple[str, ...]:
    """Return the names of the modules that an item cannot have together with the module `name`."""
    return tuple(module.name for module in EVERY if _BY_NAME[name].is_excluded_by(module))


def _is_disabled(record: object) -> bool:
    return isinstance(record, Mapping) and record.get("enabled") is False


def _read(name: str, record: Any, kind: Kind) -> Any:
    """Return the settings of an enabled module, or None if the edge cannot enforce it on an item of this kind."""
    module = _BY_NAME.get(name)
    if record is None or module is None or not module.is_enforced or kind not in module.parents:
        return None
    try:
        return module.read(module.stored.of(record))
    except MalformedRecord:
        return None
