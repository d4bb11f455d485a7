"""The log of changes, followed: each change is told once, also one that was stamped early and written late."""

from chalicelib.storage.change_log import Change
from edge.store.records import Store

_TAIL = 10.0  # seconds that are read again each time: more than clocks differ
_SELDOM = 5  # of so many readings one goes back as far as a change may be late
OVERLAP = 60.0  # seconds: more than the deadline of a writer, and than clocks differ


class Follower:
    """One reader of the log, and what it has seen."""

    def __init__(self, store: Store, now: float) -> None:
        """Begin at the Unix second `now`: what is seen of the time before is told too."""
        self._store = store
        self._ages: dict[str, float] = {}
        self._read_until = self._all_until = now
        self._count = 0

    def read(self, now: float) -> list[Change]:
        """Return the changes that are new to this reader. Raises Unavailable."""
        is_long = self._count % _SELDOM == 0
        since = self._all_until - OVERLAP if is_long else self._read_until - _TAIL
        found = [change for change in self._store.list_changes(since) if change.id not in self._ages]
        self._ages |= {change.id: change.at for change in found}
        self._read_until, self._count = now, self._count + 1
        if is_long:
            self._all_until = now
            self._ages = {id: at for id, at in self._ages.items() if at > now - OVERLAP}
        return found
