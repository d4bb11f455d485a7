"""The certificates that accounts have uploaded, with their keys; an account that has many delays nobody else."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from chalicelib.model.reservations import Held
from chalicelib.model.tls_certificates import Sealed, ServedCertificate
from edge.link.authority import KeyPair
from edge.process import log
from edge.store.records import Store, Unavailable
from edge.traffic import certificate_choice

_AT_ONCE = 32


@dataclass(frozen=True)
class Uploaded:
    """The certificates of an account that cover some of its names, and the keys of those that had not been read.

    `held` are the reservations that matter for the names. `is_away` is whether the store could not be reached.
    """

    account: str
    names: frozenset[str]
    certificates: tuple[ServedCertificate, ...] = ()
    held: tuple[Held, ...] = ()
    pairs: Mapping[str, KeyPair] = field(default_factory=dict, repr=False)
    is_away: bool = False


class Certificates:
    """The certificates that are being read, and the ids of those whose keys are known."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: dict[str, frozenset[str]] = {}  # ids by account
        self._wanted: dict[str, frozenset[str]] = {}  # names by account, of what is to be read
        self._reading: dict[str, asyncio.Future[Uploaded]] = {}
        self._threads = ThreadPoolExecutor(_AT_ONCE)

    def read(self, account: str, names: frozenset[str]) -> None:
        """Begin to read the certificates of an account for its names, once more where they are being read."""
        self._wanted[account] = names

    def forget(self, account: str) -> None:
        """Read the keys of an account anew, should they be wanted again."""
        self._keys.pop(account, None)
        self._wanted.pop(account, None)

    async def taken(self, *, within: float | None) -> list[Uploaded]:
        """Return the certificates that were read, after so many seconds at most; the others are read the next time."""
        for account in self._wanted.keys() - self._reading.keys():
            loop, known = asyncio.get_running_loop(), self._keys.get(account, frozenset())
            names = self._wanted.pop(account)
            self._reading[account] = loop.run_in_executor(self._threads, self._read, account, names, known)
        if self._reading:
            await asyncio.wait(self._reading.values(), timeout=within)
        done = {account: reading.result() for account, reading in self._reading.items() if reading.done()}
        for account, found in done.items():
            del self._reading[account]
            if found.is_away:
                self._wanted.setdefault(account, found.names)
            else:
                self._keys[account] = frozenset(certificate.id for certificate in found.certificates)
        return [found for found in done.values() if not found.is_away]

    def _read(self, account: str, names: frozenset[str], known: frozenset[str]) -> Uploaded:
        """Read an account's certificates; one whose records cannot be read has none, and keeps nobody else waiting."""
        try:
            held = tuple(self._store.list_reservations(account, names))
            every = {it.certificate.id: it for it in self._store.list_certificates(account)}
            served = [it.certificate for it in every.values()]
            wanted = [it for it in served if any(certificate_choice.covers_any(it, name) for name in names)]
            opened = {it.id: self._opened(every[it.id]) for it in wanted if it.id not in known}
        except Unavailable:
            return Uploaded(account, names, is_away=True)
        except Exception as error:
            log.event("certificates_unreadable", account=account, reason=type(error).__name__)
            return Uploaded(account, names)
        pairs = {id: pair for id, pair in opened.items() if pair}
        usable = tuple(it for it in wanted if it.id in pairs or it.id in known)
        return Uploaded(account, names, usable, held, pairs)

    def _opened(self, sealed: Sealed) -> KeyPair | None:
        """Return a certificate with its key, None where this cannot be opened: the others are served all the same."""
        try:
            return self._store.unseal_key_pair(sealed)
        except Unavailable:
            raise
        except Exception as error:
            log.event("certificate_unreadable", id=sealed.certificate.id, reason=type(error).__name__)
            return None
