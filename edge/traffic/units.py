"""The resources of Envoy that each thing is made of: making it anew changes only what differs. Pure."""

from collections.abc import Iterable, Mapping

from edge.traffic.resources import Changes, Key, Resource


class OwnedResources:
    """Resources by what they are made of."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], Mapping[Key, Resource]] = {}

    def __contains__(self, unit: tuple[str, str]) -> bool:
        return unit in self._made

    def put(self, unit: tuple[str, str], made: Iterable[Resource]) -> Changes:
        """Put what a unit is made of in the place of what it was; return what differs."""
        old = self._made.pop(unit, {})
        new = {resource.key: resource for resource in made}
        if new:
            self._made[unit] = new
        gone: Changes = dict.fromkeys(old.keys() - new.keys())
        return {**gone, **{key: it for key, it in new.items() if old.get(key) != it}}
