"""The order in which Envoy receives a loaded name: clusters, then the scope, then the secret."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from edge.envoy.ads.discovery import Discovery
from edge.envoy.resources import Resource


@dataclass(frozen=True)
class NameResources:
    """What Envoy needs for one name. `clusters` may be shared by several names, and include their listeners.

    Without a `scope`, Envoy answers 404. Without a `secret`, Envoy has none, and requests it when a visitor comes.
    """

    name: str
    clusters: tuple[Resource, ...] = ()
    scope: Resource | None = None
    secret: Resource | None = None


@dataclass(frozen=True)
class Rejection:
    """Envoy's error about the scope or the secret of a name."""

    kind: Literal["scope", "secret"]
    error: str


class Sender:
    """Sends loaded names to Envoy, and removes them. A cluster stays while a name uses it."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery

    async def send(self, resources: NameResources) -> Rejection | None:
        """Send a new or changed name. Return Envoy's error about the scope or the secret, or None."""
        raise NotImplementedError

    async def refuse(self, names: Iterable[str]) -> None:
        """Answer requests for secrets with a removal, so that no visitor waits."""
        raise NotImplementedError

    async def withdraw(self, names: Iterable[str]) -> None:
        """Remove secrets and scopes of names in one turn, then clusters that no name uses."""
        raise NotImplementedError

    async def remove_secrets(self, names: Iterable[str]) -> None:
        """Remove the secrets of names. Open connections continue."""
        raise NotImplementedError

    async def remove_scopes(self, names: Iterable[str]) -> None:
        """Remove the scopes of names, then clusters that no name uses."""
        raise NotImplementedError
