"""An Envoy for tests of special names."""

from collections.abc import Iterable, Mapping

from edge.envoy.resources import Changes, Key, Resource


class Envoy:
    """What Envoy has got. `held` are the clusters of gateways by owner."""

    def __init__(self) -> None:
        self.resources: dict[Key, Resource] = {}
        self.held: dict[str, list[str]] = {}

    async def hold(self, owner: str, clusters: Iterable[Resource]) -> None:
        self.held[owner] = [it.key.name for it in clusters]

    async def wait_for_scopes(self, requirements: Mapping[str, str]) -> None:
        pass

    async def publish(self, changes: Changes) -> None:
        gone = {key for key, it in changes.items() if it is None}
        assert gone <= self.resources.keys()
        self.resources |= {key: it for key, it in changes.items() if it}
        self.resources = {key: it for key, it in self.resources.items() if key not in gone}

    @property
    def names(self) -> set[str]:
        """Return the names in the matcher of the public listener, and the open ports."""
        parts = {key.part for key in self.resources if key.kind == "listener" and key.part}
        return parts | {key.name for key in self.resources if key.name.startswith("port/")}
