"""Uploaded certificates of accounts, with their keys. A large account delays no others."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.serving import certificate_choice
from chalicelib.model.tls.tls_certificates import SealedCertificate, ServedCertificate
from edge.link.authority import KeyPair
from edge.process import log
from edge.store.records import Store, Unavailable

_MAX_READS = 32


@dataclass(frozen=True)
class AccountCertificates:
    """An account's certificates for some of its names, and the keys not read before.

    `reservations` are those that decide about the names. With `is_unavailable`, the store could not be reached.
    """

    account: str
    names: frozenset[str]
    certificates: tuple[ServedCertificate, ...] = ()
    reservations: tuple[ServedReservation, ...] = ()
    pairs: Mapping[str, KeyPair] = field(default_factory=dict, repr=False)
    is_unavailable: bool = False


class Certificates:
    """Reads of certificates, and the ids of those with a known key."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: dict[str, frozenset[str]] = {}  # certificate ids by account
        self._requested: dict[str, frozenset[str]] = {}  # names by account, to read next
        self._reading: dict[str, asyncio.Future[AccountCertificates]] = {}
        self._threads = ThreadPoolExecutor(_MAX_READS)

    def read(self, account: str, names: frozenset[str]) -> None:
        """Start to read an account's certificates for its names, again if a read is running."""
        self._requested[account] = names

    def forget(self, account: str) -> None:
        """Read all keys of an account again at the next read."""
        self._keys.pop(account, None)
        self._requested.pop(account, None)

    async def collect(self, *, timeout: float | None) -> list[AccountCertificates]:
        """Return the certificates read within `timeout` seconds. Later ones are returned by the next call."""
        for account in self._requested.keys() - self._reading.keys():
            loop, known = asyncio.get_running_loop(), self._keys.get(account, frozenset())
            names = self._requested.pop(account)
            self._reading[account] = loop.run_in_executor(self._threads, self._read, account, names, known)
        if self._reading:
            await asyncio.wait(self._reading.values(), timeout=timeout)
        done = {account: reading.result() for account, reading in self._reading.items() if reading.done()}
        for account, found in done.items():
            del self._reading[account]
            if found.is_unavailable:
                self._requested.setdefault(account, found.names)
            else:
                self._keys[account] = frozenset(certificate.id for certificate in found.certificates)
        return [found for found in done.values() if not found.is_unavailable]

    def _read(self, account: str, names: frozenset[str], known: frozenset[str]) -> AccountCertificates:
        """Read an account's certificates. An account with unreadable records has none."""
        try:
            reservations = tuple(self._store.list_reservations(account, names))
            every = {it.certificate.id: it for it in self._store.list_certificates(account)}
            served = [it.certificate for it in every.values()]
            wanted = [it for it in served if any(certificate_choice.covers_any(it, name) for name in names)]
            opened = {it.id: self._open(every[it.id]) for it in wanted if it.id not in known}
        except Unavailable:
            return AccountCertificates(account, names, is_unavailable=True)
        except Exception as error:
            log.event("certificates_unreadable", account=account, reason=type(error).__name__)
            return AccountCertificates(account, names)
        pairs = {id: pair for id, pair in opened.items() if pair}
        usable = tuple(it for it in wanted if it.id in pairs or it.id in known)
        return AccountCertificates(account, names, usable, reservations, pairs)

    def _open(self, sealed: SealedCertificate) -> KeyPair | None:
        """Return a certificate with its key, or None if the key cannot be decrypted."""
        try:
            return self._store.unseal_key_pair(sealed)
        except Unavailable:
            raise
        except Exception as error:
            log.event("certificate_unreadable", id=sealed.certificate.id, reason=type(error).__name__)
            return None
