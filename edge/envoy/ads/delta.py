"""The protocol of one delta discovery stream of Envoy, without I/O.

If Envoy rejects a message with several resources, the stream sends each half of them again, until it has found the bad
resource. A changed scope is sent alone, because Envoy rejects all scopes of a message if one is bad. If Envoy rejects
the operator's first certificate, the stream answers Envoy's request with a removal, so that visitors do not wait for
the certificate. `edge.serving.order.Sender` does the same for the certificates of names.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest, DeltaDiscoveryResponse

from edge.envoy.ads.catalog import TYPES, Answer, Catalog, Name
from edge.envoy.resources import Kind
from edge.envoy.selector import OPERATOR_SECRET

_KINDS: dict[str, Kind] = {url: kind for kind, url in TYPES.items()}
_ORDER: tuple[Kind, ...] = (
    "cluster",
    "secret",
    "extension",
    "listener",
    "routes",
    "scope",
)  # the order in which kinds are sent: Envoy needs a resource before the resources that refer to it
# The most scopes in one response to an Envoy that has just connected. Later, each changed scope is sent alone.
_MAX_SCOPES = 100


@dataclass(frozen=True)
class Demand:
    """The secrets that Envoy requests, and the resources that it had when it connected.

    `requested` are names of secrets that Envoy does not have: server names as visitors spell them, with capitals, or
    names from `parts.reserved_secret`. The stream itself sends the secrets that the catalog has. The caller must handle
    the other names.
    """

    requested: frozenset[str] = frozenset()
    resources: frozenset[Name] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.requested or self.resources)


@dataclass
class _Subscription:
    """A stream's subscription to all or some resources of a kind.

    `versions` are the versions that Envoy has, by name.
    """

    versions: dict[str, str]
    wants_all: bool
    names: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)  # names of resources that Envoy has

    def wants(self, name: str) -> bool:
        return self.wants_all or name in self.names

    def forget(self, name: str) -> bool:
        """Forget which version of a resource Envoy has. Return whether Envoy may have the resource."""
        self.accepted.discard(name)
        return self.versions.pop(name, None) is not None


@dataclass(frozen=True)
class _Batch:
    """Resources of one kind that are sent in one response.

    If `is_first`, the response is sent even if it is empty. If `is_refusal`, the response removes the resources, even
    if Envoy never had them.
    """

    kind: Kind
    names: list[str]
    is_first: bool = False
    is_refusal: bool = False


class Stream:
    """The state of a stream: subscriptions, versions, and responses that Envoy has not answered."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._subscriptions: dict[Kind, _Subscription] = {}
        self._waiting: deque[_Batch] = deque()
        # by nonce: the batch and the versions in the response
        self._sent: dict[str, tuple[_Batch, dict[str, str]]] = {}
        self._unanswered: Counter[Name] = Counter()
        self._settled: list[Name] = []
        self._nonces = map(str, count(1))
        self._demand = Demand()

    def receive(self, request: DeltaDiscoveryRequest) -> list[tuple[Name, Answer]]:
        """Process a message from Envoy. Return the answers about resources that the message contains."""
        kind = _KINDS.get(request.type_url)
        if kind is None:
            return []
        is_first = kind not in self._subscriptions
        self._subscribe(kind, request)
        return self._current_answers(kind) if is_first else self._read_answer(request)

    def take_demand(self) -> Demand:
        """Return what Envoy has requested since the previous call."""
        demand, self._demand = self._demand, Demand()
        return demand

    def enqueue(self, names: Iterable[Name]) -> None:
        """Queue the changed and removed resources to which Envoy subscribes."""
        subscribed = [
            name
            for name in names
            if name.kind in self._subscriptions and self._subscriptions[name.kind].wants(name.name)
        ]
        for kind in _ORDER:
            if of_kind := [name.name for name in subscribed if name.kind == kind]:
                for batch in _split(kind, of_kind, 1):
                    self._append(batch)

    def refuse(self, secrets: Iterable[str]) -> None:
        """Queue removals of secrets that Envoy has requested and the catalog lacks.

        Waiting removals are sent in one response, because visitors can request many unknown names.
        """
        subscription = self._subscriptions.get("secret")
        refusals = [
            secret for secret in secrets if subscription and secret in subscription.names and not self._exists(secret)
        ]
        if refusals:
            self._append(_Batch("secret", refusals, is_refusal=True))

    def enqueue_unknown(self) -> None:
        """Queue removals of resources that Envoy has and the catalog lacks."""
        for kind, subscription in self._subscriptions.items():
            removals = [
                Name(kind, name) for name in subscription.versions if self._catalog.version(Name(kind, name)) is None
            ]
            self.enqueue(removals)

    def enqueue_listeners(self) -> None:
        """Queue the listeners, which were not sent while `Catalog.has_all_listeners` was false."""
        if "listener" in self._subscriptions:
            self._append_different("listener")

    def take_settled(self) -> list[Name]:
        """Return newly settled resources: Envoy has answered all responses that contain them.

        Each settled resource is returned once.
        """
        names, self._settled = self._settled, []
        return names

    @property
    def is_idle(self) -> bool:
        """Return whether Envoy has answered all responses."""
        return not self._unanswered

    def is_settled(self, name: Name) -> bool:
        """Return whether Envoy has answered all responses that contain a resource."""
        return name not in self._unanswered

    def responses(self) -> Iterator[DeltaDiscoveryResponse]:
        """Yield the queued responses, which the caller must send."""
        while self._waiting:
            batch = self._waiting.popleft()
            response, versions = self._build_response(batch)
            if response.resources or response.removed_resources or batch.is_first:
                self._sent[response.nonce] = batch, versions
                yield response
            else:
                self._finish(batch)

    def _subscribe(self, kind: Kind, request: DeltaDiscoveryRequest) -> None:
        subscription, names = self._subscriptions.get(kind), [*request.resource_names_subscribe]
        if subscription is None:
            subscription = self._subscribe_first(kind, request)
        elif names:
            subscription.names.update(names)
            for name in names:
                subscription.forget(name)  # Envoy repeats a subscription if it needs the resource again
            self._append(_Batch(kind, names))
        subscription.names.difference_update(request.resource_names_unsubscribe)
        for name in request.resource_names_unsubscribe:
            subscription.forget(name)
        if kind == "secret":
            requested = self._demand.requested.union(name for name in names if name not in subscription.accepted)
            self._demand = Demand(requested, self._demand.resources)

    def _subscribe_first(self, kind: Kind, request: DeltaDiscoveryRequest) -> _Subscription:
        """Start a subscription. `enqueue_unknown` later removes resources that Envoy has and the catalog lacks."""
        names, versions = [*request.resource_names_subscribe], dict(request.initial_resource_versions)
        has_all = not names or "*" in names
        subscription = self._subscriptions[kind] = _Subscription(versions, has_all, {*names}, {*versions})
        self._demand = Demand(self._demand.requested, self._demand.resources | {Name(kind, name) for name in versions})
        self._append_different(kind)
        return subscription

    def _append_different(self, kind: Kind) -> None:
        """Queue the subscribed resources of a kind that differ between Envoy and the catalog."""
        subscription = self._subscriptions[kind]
        in_catalog = (resource.name for resource in self._catalog.names(kind) if subscription.wants_all)
        different = [
            name for name in {*subscription.names, *subscription.versions, *in_catalog} if self._differs(kind, name)
        ]
        if not self._catalog.is_complete:
            different = [name for name in different if self._catalog.version(Name(kind, name)) is not None]
        for number, batch in enumerate(_split(kind, different, _MAX_SCOPES) or [_Batch(kind, [])]):
            self._append(_Batch(kind, batch.names, is_first=number == 0))

    def _current_answers(self, kind: Kind) -> list[tuple[Name, Answer]]:
        """Return answers for the resources that Envoy had when it connected.

        A resource counts as accepted if Envoy had its current version.
        """
        versions = self._subscriptions[kind].versions
        return [
            (Name(kind, name), Answer(version, ""))
            for name, version in versions.items()
            if not self._differs(kind, name)
        ]

    def _differs(self, kind: Kind, name: str) -> bool:
        """Return whether Envoy and the catalog have different versions of a resource."""
        return self._subscriptions[kind].versions.get(name) != self._catalog.version(Name(kind, name))

    def _exists(self, secret: str) -> bool:
        return self._catalog.version(Name("secret", secret)) is not None

    def _read_answer(self, request: DeltaDiscoveryRequest) -> list[tuple[Name, Answer]]:
        batch, versions = self._sent.pop(request.response_nonce, (None, {}))
        if batch is None:
            return []
        if request.HasField("error_detail"):
            return self._read_error(batch, versions, request.error_detail.message)
        self._finish(batch)
        subscription = self._subscriptions[batch.kind]
        subscription.accepted.update(filter(subscription.wants, versions))
        return [(Name(batch.kind, name), Answer(version, "")) for name, version in versions.items()]

    def _read_error(self, batch: _Batch, versions: dict[str, str], error: str) -> list[tuple[Name, Answer]]:
        if len(batch.names) > 1:
            middle = len(batch.names) // 2
            for half in (batch.names[middle:], batch.names[:middle]):
                self._append(_Batch(batch.kind, half, is_refusal=batch.is_refusal), first=True)
            self._finish(batch)
            return []
        self._finish(batch)
        subscription = self._subscriptions[batch.kind]
        if (
            batch.kind == "secret"
            and OPERATOR_SECRET in subscription.names.intersection(batch.names) - subscription.accepted
        ):
            self._append(_Batch("secret", [*batch.names], is_refusal=True))
        return [(Name(batch.kind, name), Answer(version, error)) for name, version in versions.items()]

    def _append(self, batch: _Batch, *, first: bool = False) -> None:
        if batch.kind == "listener" and not self._catalog.has_all_listeners:
            return
        if batch.is_refusal and not first and self._waiting and self._waiting[-1].is_refusal:
            self._waiting[-1].names.extend(batch.names)
        else:
            (self._waiting.appendleft if first else self._waiting.append)(batch)
        self._unanswered.update(Name(batch.kind, name) for name in batch.names)

    def _finish(self, batch: _Batch) -> None:
        for name in (Name(batch.kind, resource) for resource in batch.names):
            self._unanswered[name] -= 1
            if not self._unanswered[name]:
                del self._unanswered[name]
                self._settled.append(name)

    def _build_response(self, batch: _Batch) -> tuple[DeltaDiscoveryResponse, dict[str, str]]:
        """Return the response for a batch, and the versions in it.

        Removals of routes are left out, because Envoy removes the routes itself.
        """
        subscription, url = self._subscriptions[batch.kind], TYPES[batch.kind]
        response = DeltaDiscoveryResponse(type_url=url, nonce=next(self._nonces))
        versions = {}
        for name in dict.fromkeys(batch.names):  # without duplicates, because a secret can be refused twice
            version = None if batch.is_refusal else self._catalog.version(Name(batch.kind, name))
            if version:
                resource = response.resources.add(name=name, version=version)
                resource.resource.type_url, resource.resource.value = url, self._catalog.value(Name(batch.kind, name))
                subscription.versions[name] = versions[name] = version
            elif (subscription.forget(name) or batch.is_refusal) and batch.kind != "routes":
                response.removed_resources.append(name)
        return response, versions


def _split(kind: Kind, names: list[str], limit: int) -> list[_Batch]:
    """Return batches of at most `limit` scopes. Resources of any other kind are one batch."""
    size = limit if kind == "scope" else max(1, len(names))
    return [_Batch(kind, names[start : start + size]) for start in range(0, len(names), size)]
