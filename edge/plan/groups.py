"""Membership of online tunnels in tunnel groups, looked up by label. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from chalicelib.model.edges.backends import TunnelGroup
from chalicelib.model.edges.served import ServedBackend
from chalicelib.model.tunnels import online_tunnels
from chalicelib.model.tunnels.tunnels import ServedTunnel

T = TypeVar("T")
K = TypeVar("K")


class Index(Generic[K, T]):
    """Values by key and id. Several values can share a key, and one value can have several keys."""

    def __init__(self) -> None:
        self._found: dict[K, dict[str, T]] = {}

    def put(self, keys: Iterable[K], id: str, value: T) -> None:
        for key in keys:
            self._found.setdefault(key, {})[id] = value

    def drop(self, keys: Iterable[K], id: str) -> None:
        for key in keys:
            del self._found[key][id]
            if not self._found[key]:
                del self._found[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._found)

    def get(self, key: K) -> Mapping[str, T]:
        return self._found.get(key, {})


class Groups:
    """Tunnels by each of their labels, and groups by their first label."""

    def __init__(self) -> None:
        self._tunnels: Index[tuple[str, str, str], ServedTunnel] = Index()
        self._groups: Index[tuple[str, str, str], ServedBackend] = Index()

    def put(self, fact: ServedTunnel | ServedBackend) -> None:
        if isinstance(fact, ServedTunnel):
            self._tunnels.put(_labels(fact.account, fact.labels), fact.id, fact)
        else:
            self._groups.put(_first(fact), fact.id, fact)

    def drop(self, fact: ServedTunnel | ServedBackend) -> None:
        if isinstance(fact, ServedTunnel):
            self._tunnels.drop(_labels(fact.account, fact.labels), fact.id)
        else:
            self._groups.drop(_first(fact), fact.id)

    def members(self, group: ServedBackend) -> list[ServedTunnel]:
        """Return the tunnels that have all labels of a group, sorted by id. A group without labels has none."""
        labels = _labels_of(group)
        found = [self._tunnels.get(key) for key in _labels(group.account, labels)]
        fewest = min(found, key=len, default={})
        return [it for _, it in sorted(fewest.items()) if online_tunnels.are_labels_included(it.labels, labels)]

    def groups_of(self, tunnel: ServedTunnel) -> frozenset[str]:
        """Return the ids of a tunnel's groups."""
        found = (it for key in _labels(tunnel.account, tunnel.labels) for it in self._groups.get(key).values())
        return frozenset(it.id for it in found if online_tunnels.are_labels_included(tunnel.labels, _labels_of(it)))


def _labels_of(backend: ServedBackend) -> Mapping[str, str]:
    return backend.value.labels if isinstance(backend.value, TunnelGroup) else {}


def _labels(account: str, labels: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [(account, name, value) for name, value in labels.items()]


def _first(group: ServedBackend) -> list[tuple[str, str, str]]:
    return sorted(_labels(group.account, _labels_of(group)))[:1]
