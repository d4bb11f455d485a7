"""The protocol of one delta discovery stream of Envoy, without I/O.

If Envoy rejects several resources together, halves are sent until the bad one is known.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest, DeltaDiscoveryResponse

from edge.envoy.ads.catalog import TYPES, Answer, Catalog, Name
from edge.envoy.resources import Kind

_KINDS: dict[str, Kind] = {url: kind for kind, url in TYPES.items()}
_ORDER: tuple[Kind, ...] = (
    "cluster",
    "secret",
    "extension",
    "listener",
    "routes",
)  # referenced resources come before those that reference them


@dataclass
class _Subscription:
    """A stream's subscription to a kind, for all or some names, and the versions that Envoy has."""

    versions: dict[str, str]
    wants_all: bool
    names: set[str] = field(default_factory=set)

    def wants(self, name: str) -> bool:
        return self.wants_all or name in self.names


@dataclass(frozen=True)
class _Batch:
    """Resources of one kind in one response. The first response of a kind is sent even if it is empty."""

    kind: Kind
    names: Sequence[str]
    is_first: bool = False


class Stream:
    """The state of a stream: subscriptions, versions, and responses without an answer."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._subscriptions: dict[Kind, _Subscription] = {}
        self._waiting: deque[_Batch] = deque()
        self._sent: dict[str, tuple[_Batch, dict[str, str]]] = {}  # batch and versions by nonce
        self._nonces = map(str, count(1))

    def receive(self, request: DeltaDiscoveryRequest) -> list[tuple[Name, Answer]]:
        """Process a request of Envoy. Return the answers in it."""
        kind = _KINDS.get(request.type_url)
        if kind is None:
            return []
        is_first = kind not in self._subscriptions
        self._subscribe(kind, request)
        return self._current_answers(kind) if is_first else self._read_answer(request)

    def enqueue(self, names: Iterable[Name]) -> None:
        """Queue changed or removed resources."""
        wanted = [it for it in names if it.kind in self._subscriptions and self._subscriptions[it.kind].wants(it.name)]
        for kind in _ORDER:
            if of_kind := [it.name for it in wanted if it.kind == kind]:
                self._waiting.append(_Batch(kind, of_kind))

    def responses(self) -> Iterator[DeltaDiscoveryResponse]:
        """Yield the responses to send now."""
        while self._waiting:
            batch = self._waiting.popleft()
            response, versions = self._build_response(batch)
            if response.resources or response.removed_resources or batch.is_first:
                self._sent[response.nonce] = batch, versions
                yield response

    def _subscribe(self, kind: Kind, request: DeltaDiscoveryRequest) -> None:
        known, names = self._subscriptions.get(kind), [*request.resource_names_subscribe]
        if known is None:
            has_all = not names or "*" in names
            known = self._subscriptions[kind] = _Subscription(dict(request.initial_resource_versions), has_all)
            known.names.update(names)
            wanted = {*names, *known.versions, *(it.name for it in self._catalog.names(kind) if has_all)}
            self._waiting.append(_Batch(kind, [it for it in wanted if self._differs(kind, it)], is_first=True))
        elif names:
            known.names.update(names)
            for name in names:
                known.versions.pop(name, None)  # a repeated subscription requests the resource again
            self._waiting.append(_Batch(kind, names))
        known.names.difference_update(request.resource_names_unsubscribe)
        for name in request.resource_names_unsubscribe:
            known.versions.pop(name, None)

    def _current_answers(self, kind: Kind) -> list[tuple[Name, Answer]]:
        """Return current versions that Envoy accepted in an earlier stream. They are not sent again."""
        versions = self._subscriptions[kind].versions
        return [(Name(kind, name), Answer(it, "")) for name, it in versions.items() if not self._differs(kind, name)]

    def _differs(self, kind: Kind, name: str) -> bool:
        """Return whether Envoy has another version than the catalog."""
        return self._subscriptions[kind].versions.get(name) != self._catalog.version(Name(kind, name))

    def _read_answer(self, request: DeltaDiscoveryRequest) -> list[tuple[Name, Answer]]:
        batch, versions = self._sent.pop(request.response_nonce, (None, {}))
        if batch is None:
            return []
        if not request.HasField("error_detail"):
            return [(Name(batch.kind, name), Answer(version, "")) for name, version in versions.items()]
        if len(batch.names) > 1:
            middle = len(batch.names) // 2
            self._waiting.extendleft(_Batch(batch.kind, half) for half in (batch.names[middle:], batch.names[:middle]))
            return []
        error = request.error_detail.message
        return [(Name(batch.kind, name), Answer(version, error)) for name, version in versions.items()]

    def _build_response(self, batch: _Batch) -> tuple[DeltaDiscoveryResponse, dict[str, str]]:
        """Build the response of a batch, with its versions. Envoy removes routes with their listener."""
        known, url = self._subscriptions[batch.kind].versions, TYPES[batch.kind]
        response = DeltaDiscoveryResponse(type_url=url, nonce=next(self._nonces))
        versions = {}
        for name in batch.names:
            if version := self._catalog.version(Name(batch.kind, name)):
                resource = response.resources.add(name=name, version=version)
                resource.resource.type_url, resource.resource.value = url, self._catalog.value(Name(batch.kind, name))
                known[name] = versions[name] = version
            elif known.pop(name, None) and batch.kind != "routes":
                response.removed_resources.append(name)
        return response, versions
