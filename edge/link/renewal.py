"""Renews key pairs periodically, so that no expired certificate is served."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edge.link.authority import KeyPair
from edge.process import log

PERIOD = 24 * 3600.0  # seconds between two renewals. A certificate from `Authority` is valid for 90 days


class RenewedPair:
    """A key pair that `make` replaces after each period, and when one of `files` changes.

    If `make` fails, the failure is logged, and the previous pair stays in use.
    """

    def __init__(self, make: Callable[[], KeyPair], files: Sequence[Path] = (), *, period: float = PERIOD) -> None:
        """Call `make` for the first key pair. Errors of `make` are propagated."""
        self._make, self._files, self._period = make, files, period
        self._state = self._changed_at()
        self._until = time.monotonic() + period
        self._pair = make()

    def pair(self) -> KeyPair:
        """Return the current pair, renewed if it is due."""
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
