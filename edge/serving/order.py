"""The order in which Envoy receives a loaded name: clusters, then the scope, then the secret."""

from collections.abc import Iterable
from dataclasses import dataclass

from edge.envoy.ads.discovery import Discovery
from edge.envoy.resources import Resource


@dataclass(frozen=True)
class NameResources:
    """What Envoy needs for one name. `clusters` may be shared by several names, and include their listeners."""

    name: str
    clusters: tuple[Resource, ...]
    scope: Resource
    secret: Resource


class Sender:
    """Sends loaded names to Envoy, and removes them. A cluster stays while a name uses it."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery

    async def send(self, resources: NameResources) -> str:
        """Send a new or changed name. Return Envoy's error about the scope or the secret, or ""."""
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
