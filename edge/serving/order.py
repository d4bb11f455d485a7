"""Sends the resources of server names to Envoy in the right order.

First come the clusters (upstreams), then the scope (routes of the name), then the secret (certificate and key), for
which visitors' handshakes wait. So no resource refers to a missing resource.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from edge.envoy.ads.catalog import Name
from edge.envoy.ads.discovery import Discovery
from edge.envoy.names import scopes
from edge.envoy.resources import Changes, Key, Resource
from edge.serving.reference_counts import ReferenceCounts

_TIMEOUT = 5.0  # seconds to wait until Envoy has accepted or rejected resources
_RETENTION = 60.0  # seconds for which a replaced scope stays in Envoy and answers requests with 421


@dataclass(frozen=True)
class NameResources:
    """The resources of one server name. Several names can share `clusters`, which include internal listeners.

    `scope` is None if connections are forwarded as bytes, or if visitors only get the 404 page for unknown names. If
    `secret` is None, the secret in Envoy does not change.
    """

    name: str
    clusters: tuple[Resource, ...] = ()
    scope: Resource | None = None
    secret: Resource | None = None


@dataclass(frozen=True)
class Rejection:
    """Envoy's error message about the scope or the secret of a name, which Envoy has rejected."""

    kind: Literal["scope", "secret"]
    error: str


class Sender:
    """Sends the resources of names to Envoy, and removes them. A cluster stays while any name uses it.

    A call of `send` or `withdraw` stops an earlier `send` of the same name that still waits for Envoy.

    A special name has a separate listener. If the name becomes normal, Envoy directs new connections to the new scope
    only after `wait_for_matcher` has returned. Until then, the former scope stays open. `now` returns a monotonic time.
    """

    def __init__(
        self,
        discovery: Discovery,
        wait_for_matcher: Callable[[str], Awaitable[None]] | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._discovery, self._wait_for_matcher, self._now = discovery, wait_for_matcher, now
        self._counts = ReferenceCounts()
        self._scopes: dict[str, Key] = {}  # by name: the key of the scope that Envoy has accepted
        self._sending: dict[str, NameResources] = {}  # by name: the resources of a `send` that is not complete
        self._closed: dict[Key, float] = {}  # by the key of a replaced scope: the monotonic time of its removal

    async def send(self, resources: NameResources) -> Rejection | None:
        """Send a new or changed name. Return Envoy's error about the scope or the secret, or None.

        After an error, Envoy still has the resources that it accepted before. If the name is new, the handshakes of its
        visitors still wait for a secret. So the caller must send another certificate, or refuse or withdraw the name.
        """
        # a copy, because `_is_latest` recognizes this call by the identity of the object
        call = self._sending[resources.name] = replace(resources)
        try:
            return await self._send(call)
        finally:
            if self._is_latest(call):
                del self._sending[call.name]

    @property
    def scopes(self) -> Mapping[str, Key]:
        """Return the keys of the scopes that Envoy has accepted, by server name."""
        return self._scopes

    async def refuse(self, names: Iterable[str]) -> None:
        """Refuse names: answer Envoy's requests for their secrets with a removal.

        Envoy then ends the handshakes that wait for these secrets.
        """
        refused = [*names]
        rejected = [name for name in refused if self._discovery.catalog.refusal(Name("secret", name))]
        self._discovery.apply({Key("secret", name): None for name in rejected})
        self._discovery.refuse(refused)

    async def withdraw(self, names: Iterable[str]) -> None:
        """Remove the secrets and scopes of names together. Then remove the clusters that no other name uses."""
        server_names = [*names]
        for name in server_names:
            self._sending.pop(name, None)
        removed: Changes = {Key("secret", name): None for name in server_names}
        scoped: Changes = {key: None for name in server_names if (key := self._scopes.pop(name, None))}
        unused = [key for name in server_names for key in self._counts.reduce(name)]
        sent = self._discovery.apply({**removed, **scoped, **self._expired()})
        self._discovery.refuse(server_names)
        await self._discovery.wait_until_settled(sent, timeout=_TIMEOUT)
        self._remove_unused(unused)

    async def remove_secrets(self, names: Iterable[str]) -> None:
        """Remove the secrets of names. Open connections continue."""
        self._discovery.apply({Key("secret", name): None for name in names})

    async def remove_scopes(self, names: Iterable[str]) -> None:
        """Remove the scopes of names, and then the clusters that no name uses."""
        await self.withdraw(names)

    async def hold(self, owner: str, clusters: Iterable[Resource]) -> None:
        """Send the clusters that an owner uses. Remove its earlier clusters that no other owner uses.

        `owner` is a text that is not a server name. Server names are owners too: `send` sends their clusters.
        """
        clusters_by_key = {cluster.key: cluster for cluster in clusters}
        self._counts.add(owner, clusters_by_key)
        await self._apply(clusters_by_key)
        self._remove_unused(self._counts.reduce(owner, clusters_by_key))

    async def _send(self, resources: NameResources) -> Rejection | None:
        name, keys = resources.name, [cluster.key for cluster in resources.clusters]
        self._counts.add(name, keys)
        await self._apply({cluster.key: cluster for cluster in resources.clusters if not cluster.is_emptied})
        rejection = await self._try(resources, "scope", resources.scope)
        if not rejection:
            await self._apply({cluster.key: cluster for cluster in resources.clusters if cluster.is_emptied})
        rejection = rejection or await self._try(resources, "secret", resources.secret)
        if not self._is_latest(resources):
            return None
        if not rejection:
            await self._replace_scope(resources)
            self._remove_unused(self._counts.reduce(name, keys))
        return rejection

    async def _apply(self, changes: Changes) -> None:
        if changes and (sent := self._discovery.apply(changes)):
            await self._discovery.wait_until_settled(sent, timeout=_TIMEOUT)

    async def _try(
        self, resources: NameResources, kind: Literal["scope", "secret"], part: Resource | None
    ) -> Rejection | None:
        """Send the scope or the secret of a name. If Envoy rejects it, restore the version that Envoy accepted before.

        A rejected first secret is not removed, because a removal would end the handshakes that wait for the secret.
        """
        if part is None or not self._is_latest(resources):
            return None
        name = Name(part.key.kind, part.key.name)
        catalog = self._discovery.catalog
        former = None if catalog.refusal(name) else catalog.find_value(name)
        await self._apply({part.key: part})
        error = catalog.refusal(name)
        if error and self._is_latest(resources) and (former is not None or kind == "scope"):
            self._discovery.restore(name, former)
        return Rejection(kind, error) if error else None

    async def _replace_scope(self, resources: NameResources) -> None:
        """Record the scope of a name that Envoy has accepted. Requests that still use the former scope get 421."""
        former, scope = self._scopes.pop(resources.name, None), resources.scope
        if scope:
            self._scopes[resources.name] = scope.key
            self._closed.pop(scope.key, None)
        if former and scope and former != scope.key and scope.key.name == resources.name and self._wait_for_matcher:
            await self._wait_for_matcher(resources.name)
        expired = self._expired()
        if former and (scope is None or former != scope.key):
            self._closed[former] = self._now() + _RETENTION
            await self._apply({**expired, former: scopes.build_closed_scope(former.name)})
        else:
            self._discovery.apply(expired)

    def _expired(self) -> Changes:
        """Return the changes that remove expired scopes from Envoy.

        A replaced scope expires after _RETENTION seconds.
        """
        expired = [key for key, end in self._closed.items() if end <= self._now()]
        for key in expired:
            del self._closed[key]
        return dict.fromkeys(expired)

    def _remove_unused(self, keys: Iterable[Key]) -> None:
        self._discovery.apply({key: None for key in keys if not self._counts.is_used(key)})

    def _is_latest(self, resources: NameResources) -> bool:
        return self._sending.get(resources.name) is resources
