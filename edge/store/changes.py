"""A reader of the change log that returns each change once, also one that is written late."""

from chalicelib.storage.records.change_log import Change
from edge.store.records import Store

_SHORT_OVERLAP = 10.0  # seconds that each reading repeats: more than the clocks differ
_LONG_EVERY = 5  # one of five readings repeats the long overlap
OVERLAP = 60.0  # seconds: more than a writer's deadline plus the difference of clocks


class Follower:
    """One reader of the log and the changes that it has returned."""

    def __init__(self, store: Store, now: float) -> None:
        """Begin at the Unix time `now`. Changes in the overlap before it are returned too."""
        self._store = store
        self._ages: dict[str, float] = {}
        self._read_until = self._all_until = now
        self._count = 0

    def read(self, now: float) -> list[Change]:
        """Return the new changes. Raises Unavailable."""
        is_long = self._count % _LONG_EVERY == 0
        since = self._all_until - OVERLAP if is_long else self._read_until - _SHORT_OVERLAP
        new = [change for change in self._store.list_changes(since) if change.id not in self._ages]
        self._ages |= {change.id: change.at for change in new}
        self._read_until, self._count = now, self._count + 1
        if is_long:
            self._all_until = now
            self._ages = {id: at for id, at in self._ages.items() if at > now - OVERLAP}
        return new
