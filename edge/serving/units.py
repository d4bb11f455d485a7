"""Envoy's resources by owner, so that building them again changes only what differs. Pure."""

from collections.abc import Iterable, Mapping

from edge.envoy.resources import Changes, Key, Resource


class OwnedResources:
    """Resources by owner. An owner is a kind and a name, such as ("edge", id)."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str], Mapping[Key, Resource]] = {}

    def __contains__(self, owner: tuple[str, str]) -> bool:
        return owner in self._resources

    def put(self, owner: tuple[str, str], resources: Iterable[Resource]) -> Changes:
        """Replace the resources of an owner. Return the differences."""
        old = self._resources.pop(owner, {})
        new = {resource.key: resource for resource in resources}
        if new:
            self._resources[owner] = new
        gone: Changes = dict.fromkeys(old.keys() - new.keys())
        return {**gone, **{key: it for key, it in new.items() if old.get(key) != it}}
