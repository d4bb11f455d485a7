"""A certificate and its key that are made or read again from time to time, so that none that is served runs out."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edge.link.authority import KeyPair
from edge.process import log

PERIOD = 24 * 3600.0  # seconds; a certificate made here lasts 90 days


class Renewed:
    """The key pair that `make` makes, again after each period and whenever one of the files has changed.

    Where it cannot be made again, the one before stays, and the log says so.
    """

    def __init__(self, make: Callable[[], KeyPair], files: Sequence[Path] = (), *, period: float = PERIOD) -> None:
        """Make the first one. Raises what `make` raises."""
        self._make, self._files, self._period = make, files, period
        self._state = self._changed_at()
        self._until = time.monotonic() + period
        self._pair = make()

    def pair(self) -> KeyPair:
        """Return the pair that is to be served now."""
        try:
            state = self._changed_at()
            if state != self._state or self._until <= time.monotonic():
                self._pair = self._make()
                self._state, self._until = state, time.monotonic() + self._period
        except (OSError, ValueError) as error:
            log.event("certificate_not_renewed", reason=str(error))
        return self._pair

    def _changed_at(self) -> list[int]:
        return [file.stat().st_mtime_ns for file in self._files]
