"""Counts the owners of Envoy's shared resources. A resource can be removed when it has no owner.

This file does no I/O.
"""

from collections import Counter
from collections.abc import Iterable

from edge.envoy.resources import Key


class ReferenceCounts:
    """The number of owners of each resource.

    An owner is a text: a server name, or a name for another user of the resource.
    """

    def __init__(self) -> None:
        self._counts: Counter[Key] = Counter()
        self._keys: dict[str, frozenset[Key]] = {}  # by owner: the keys of its resources

    def add(self, owner: str, keys: Iterable[Key]) -> None:
        """Record that an owner also uses these resources."""
        before = self._keys.get(owner, frozenset())
        self._keys[owner] = before.union(keys)
        self._counts.update(self._keys[owner] - before)

    def reduce(self, owner: str, keys: Iterable[Key] = ()) -> list[Key]:
        """Remove all resources of an owner except `keys`.

        Return the removed resources that no other owner uses.
        """
        before, after = self._keys.pop(owner, frozenset()), frozenset(keys)
        if after:
            self._keys[owner] = after
        self._counts.subtract(before - after)
        unused = [key for key in before - after if not self._counts[key]]
        for key in unused:
            del self._counts[key]
        return unused

    def is_used(self, key: Key) -> bool:
        return key in self._counts
