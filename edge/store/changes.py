"""A reader of the change log. It returns each change once, even if its writer stores it late.

Each writer dates its changes by the clock of its host, and some write slowly. So a new change can have an earlier time
than changes that were already read. Therefore each read repeats the seconds before its cursor, and every few reads
repeat the last OVERLAP seconds.
"""

from collections.abc import Callable

from chalicelib.storage.records.change_log import OVERLAP, Change

_SHORT_OVERLAP = 2.0  # seconds before the cursor that each read repeats: the clocks of writers differ by less
_LONG_PERIOD = 15.0  # seconds between two reads that repeat the last OVERLAP seconds


class Follower:
    """Reads the change log from a cursor, and remembers which changes it has returned.

    The cursor is the time of the newest change that was read, by the clock of the change's writer. The cursor is never
    later than the present time of the reader's clock.
    """

    def __init__(self, list_changes: Callable[[float], list[Change]], now: float) -> None:
        """Begin at the Unix time `now`. The first read also returns the changes of the OVERLAP seconds before `now`.

        `list_changes` returns the changes after a Unix time.
        """
        self._list_changes = list_changes
        self._ages: dict[str, float] = {}
        self._newest = self._cursor = now - OVERLAP
        # The times of the latest and of the next read that repeats the changes of the last OVERLAP seconds.
        self._all_until = self._long_at = now

    def read(self, now: float) -> list[Change]:
        """Return the changes that earlier reads have not returned. Raises Unavailable."""
        is_long = not 0 < self._long_at - now <= _LONG_PERIOD  # above the upper limit, the clock was set back
        since = self._all_until - OVERLAP if is_long else self._cursor - _SHORT_OVERLAP
        new = [change for change in self._list_changes(since) if change.id not in self._ages]
        self._ages |= {change.id: change.at for change in new}
        self._newest = max([self._newest, *(change.at for change in new)])
        self._cursor = min(self._newest, now)
        if is_long:
            self._all_until, self._long_at = now, now + _LONG_PERIOD
            repeated = min(now - OVERLAP, self._cursor - _SHORT_OVERLAP)
            self._ages = {id: at for id, at in self._ages.items() if at > repeated}
        return new
