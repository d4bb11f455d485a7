"""A reader of the change log that returns each change once, even if it is written late."""

from chalicelib.storage.records.change_log import Change
from edge.store.records import Store

_SHORT_OVERLAP = 2.0  # seconds that each read repeats: more than the difference between the writers' clocks
_LONG_PERIOD = 15.0  # seconds between reads that repeat OVERLAP
OVERLAP = 60.0  # seconds: longer than a writer's deadline plus the difference between clocks


class Follower:
    """One reader of the log, its cursor, and the changes that it has returned.

    The cursor is the time of the newest change that was read, by its writer's clock, but at most the reader's time.
    """

    def __init__(self, store: Store, now: float) -> None:
        """Begin at the Unix time `now`. Changes in the overlap before it are returned too."""
        self._store = store
        self._ages: dict[str, float] = {}
        self._newest = self._cursor = now - OVERLAP
        self._all_until = self._long_at = now  # times of the latest and of the next read with the long overlap

    def read(self, now: float) -> list[Change]:
        """Return the new changes. Raises Unavailable."""
        is_long = not 0 < self._long_at - now <= _LONG_PERIOD  # also if the clock was set back
        since = self._all_until - OVERLAP if is_long else self._cursor - _SHORT_OVERLAP
        new = [change for change in self._store.list_changes(since) if change.id not in self._ages]
        self._ages |= {change.id: change.at for change in new}
        self._newest = max([self._newest, *(change.at for change in new)])
        self._cursor = min(self._newest, now)
        if is_long:
            self._all_until, self._long_at = now, now + _LONG_PERIOD
            repeated = min(now - OVERLAP, self._cursor - _SHORT_OVERLAP)
            self._ages = {id: at for id, at in self._ages.items() if at > repeated}
        return new
