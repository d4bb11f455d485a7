"""The certificates that accounts have uploaded, each account's read by itself: of many it takes seconds.

A name is served when the certificates of its account are known, so that it is never served with a wrong one first.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from edge import log
from edge.records import Certificate, Site, Unavailable

_HOLD = 60.0  # seconds until those of an account are read again
_PATIENCE = 0.2  # seconds for which everybody waits for an account that is read
_AT_ONCE = 32
Read = Callable[[str], tuple[Certificate, ...]]


@dataclass(frozen=True)
class _Known:
    """The certificates of an account, and for which names they were read, when."""

    names: frozenset[str]
    at: float
    certificates: tuple[Certificate, ...]


class Uploaded:
    """The certificates of the accounts that have tunnels; `read` blocks, and may raise Unavailable."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._known: dict[str, _Known] = {}
        self._reading: dict[str, Future[_Known]] = {}
        self._threads = ThreadPoolExecutor(_AT_ONCE)
        self._patience: float | None = None  # at first as long as it takes: Envoy has what was served before

    def of(self, sites: Sequence[Site]) -> tuple[tuple[Site, ...], tuple[Certificate, ...]]:
        """Return the sites whose account's certificates are known, and these."""
        names: dict[str, set[str]] = {}
        for site in sites:
            names.setdefault(site.account, set()).add(site.name)
        self._known = {account: known for account, known in self._known.items() if account in names}
        for account, wanted in names.items():
            self._begin(account, frozenset(wanted))
        wait(self._reading.values(), timeout=self._patience)
        self._patience = _PATIENCE
        self._take()
        known = tuple(site for site in sites if self._knows(site))
        return known, tuple(found for it in self._known.values() for found in it.certificates)

    def _begin(self, account: str, names: frozenset[str]) -> None:
        """Have the certificates read for new names, and from time to time."""
        known = self._known.get(account)
        if known and names <= known.names and time.monotonic() - known.at < _HOLD:
            return
        if account not in self._reading:
            self._reading[account] = self._threads.submit(self._known_of, account, names, time.monotonic())

    def _known_of(self, account: str, names: frozenset[str], at: float) -> _Known:
        """Read an account's certificates; one whose records cannot be read has none, and keeps nobody else waiting."""
        try:
            return _Known(names, at, self._read(account))
        except Unavailable:
            raise
        except Exception as error:
            log.event("certificates_unreadable", account=account, reason=type(error).__name__)
            return _Known(names, at, ())

    def _take(self) -> None:
        for account, reading in list(self._reading.items()):
            if reading.done():
                del self._reading[account]
                if not isinstance(reading.exception(), Unavailable):
                    self._known[account] = reading.result()

    def _knows(self, site: Site) -> bool:
        known = self._known.get(site.account)
        return known is not None and site.name in known.names
