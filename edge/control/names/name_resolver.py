"""Finds the account of a requested host. Reads the records to plan the host.

All methods block, and raise Unavailable. The reads of one account are batched: each round reads all records to which
the records of earlier rounds refer.
"""

import base64
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from chalicelib import domains
from chalicelib.model.names import name_keys
from chalicelib.model.names.name_keys import NameKey
from chalicelib.model.serving import account_changes, account_places, account_reads
from chalicelib.model.serving.account_places import Found, Wanted
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.tls import tls_certificates
from chalicelib.model.tls.tls_certificates import SealedCertificate
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.storage.client import aws
from chalicelib.storage.records.change_log import Place
from edge.link.authority import KeyPair
from edge.process import log

_MAX_READS = 32  # the most lists of records that are read at the same time
_NOTHING: Mapping[str, Set[Place]] = {}
_MAX_RESOLVED = 1_000  # the most results of `find_account` that wait for a call of `read`


class NameResolver:
    """Reads the records of names, for all parts of control.

    `locate` adds the socket path to a gateway that runs on this host.
    """

    def __init__(self, tunnel_domain: str, locate: Callable[[Gateway], Gateway] = lambda it: it) -> None:
        self._tunnel_domain, self._locate = tunnel_domain, locate
        self.gateways: Sequence[Gateway] = ()  # all gateways, as the latest `refresh_gateways` read them
        self._gateways: dict[Place, Found] = {}  # the live gateways, by primary key
        # Records that `find_account` has read, by host: `read` does not read them again.
        self._resolved: dict[str, Mapping[Place, Found]] = {}
        self._threads = ThreadPoolExecutor(_MAX_READS, "lists")

    def find_account(self, host: str) -> str:
        """Return the account that owns a host, or "".

        Calls the store once, or not at all if no account can own the host.
        """
        places = self._owner_places(host)
        if not places:
            return ""
        found = account_reads.read_items(places)
        keys = {place: it.value for place, it in found.items() if isinstance(it.value, NameKey)}
        account = name_keys.find_owner(host, self._tunnel_domain, keys.get)
        if account:
            while len(self._resolved) >= _MAX_RESOLVED:
                self._resolved.pop(next(iter(self._resolved)), None)
            self._resolved[host] = found
        return account

    def read(self, account: str, host: str, known: AccountRecords | None) -> AccountRecords:
        """Read the records of one more host. Return them together with `known`, the records already loaded."""
        return self._add(Wanted(account, hosts=frozenset({host})), known, self._resolved.pop(host, {}))

    def read_items(self, account: str, ids: Iterable[str], known: AccountRecords | None) -> AccountRecords:
        """Read the records of edges and tunnels. Return them together with `known`, the records already loaded."""
        return self._add(Wanted(account, ids=frozenset(ids)), known, {})

    def read_changed(
        self, records: AccountRecords, places: Iterable[Place], used: Mapping[str, Set[Place]] = _NOTHING
    ) -> AccountRecords:
        """Return the records of an account after a change. `places` are primary keys of changed records.

        Reads only the changed records, and records to which they refer now but did not refer before. `used` has the
        primary keys of the records that each loaded name uses, if known. Does not read gateways: call
        `refresh_gateways` before.
        """
        changed, account = frozenset(places), records.account
        fresh = account_reads.read_items(account_changes.list_changed_items(account, changed, records.found))
        updates = account_changes.find_updates(account, changed, records.found, fresh, self._tunnel_domain)
        return self._update(records, {**updates, **self._find_gateways({*records.found, *updates})}, used)

    def resync(self, records: AccountRecords) -> AccountRecords:
        """Read all records of an account again, and return them.

        One call reads the records that were known before, and a concurrent call reads each list. An unchanged record
        stays the same object, because plans refer to it.
        """
        known = self._read([place for place in records.found if place.scope != gateways.GATEWAYS])
        read = account_reads.complete(records.wanted, known, self._tunnel_domain, self._read)
        same = {place: it for place, it in records.found.items() if read.get(place) == it}
        return AccountRecords.of(
            records.wanted, same | {place: read[place] for place in read.keys() - same.keys()}, records.rejected
        )

    def keep(self, records: AccountRecords, names: Iterable[str]) -> AccountRecords:
        """Return only the records that these names use. Reads nothing from the store."""
        wanted = replace(records.wanted, hosts=records.names.intersection(names))
        places = account_places.list_places(wanted, records.found, self._tunnel_domain)
        found = {place: records.found[place] for place in places & records.found.keys()}
        return AccountRecords.of(wanted, found, records.rejected)

    def key_pair(self, certificate_id: str, records: AccountRecords) -> KeyPair | None:
        """Return a certificate with its decrypted key. Return None without the certificate, or if decryption fails."""
        listed = records.found.get(account_places.certificates_place(records.account), Found()).value
        sealed = (it for it in listed if isinstance(it, SealedCertificate)) if isinstance(listed, tuple) else ()
        found = next((it for it in sealed if it.certificate.id == certificate_id), None)
        return _unseal(found) if found else None

    def refresh_gateways(self) -> frozenset[Place]:
        """Read all gateways. Return the primary keys of the changed gateways.

        A gateway with an ended lease counts as changed, although the change log does not report this end.
        """
        self.gateways, before = gateways.list_gateways(), self._gateways
        live = (self._locate(it) for it in self.gateways if it.is_live)
        self._gateways = {
            Place(gateways.GATEWAYS, it.id): Found(f"{it.host}:{it.port} {it.region} {it.draining}", it) for it in live
        }
        differing = before.items() ^ self._gateways.items()
        return frozenset(place for place, _ in differing)

    def _owner_places(self, host: str) -> list[Place]:
        try:
            is_normal = domains.normal(host) == host and not host.startswith(domains.WILDCARD)
        except ValueError:
            is_normal = False
        return name_keys.list_owner_places(host, self._tunnel_domain) if is_normal else []

    def _find_gateways(self, places: Iterable[Place]) -> dict[Place, Found]:
        """Return the gateways among these primary keys, as the latest `refresh_gateways` read them."""
        used = [place for place in places if place.scope == gateways.GATEWAYS]
        return {place: self._gateways.get(place, Found()) for place in used}

    def _update(
        self, before: AccountRecords, updates: Mapping[Place, Found | None], used: Mapping[str, Set[Place]]
    ) -> AccountRecords:
        """Return the records `before`, with `updates`.

        The references between records are followed again only for names with a changed record. `used` has the primary
        keys of the records that each name uses.
        """
        found = {**before.found, **{place: it for place, it in updates.items() if it}}
        for place in [place for place, it in updates.items() if it is None]:
            found.pop(place, None)
        different = {place for place, it in updates.items() if before.found.get(place) != it}
        known = frozenset(found)  # a frozenset, so that comparisons do not compute its hashes again
        same = {name for name, places in used.items() if places.isdisjoint(different) and places <= known}
        changed = replace(before.wanted, hosts=before.wanted.hosts - same)
        left = account_reads.complete(changed, found, self._tunnel_domain, self._read)
        others = set[Place]().union(*(used[name] for name in before.wanted.hosts & same))
        changed_values = {place: it for place, it in left.items() if before.found.get(place) is not it}
        changed_values |= {place: found[place] for place in others & updates.keys()}  # equal, except for leases
        return before.replace(changed_values, before.found.keys() - left.keys() - others)

    def _add(self, more: Wanted, known: AccountRecords | None, keys: Mapping[Place, Found]) -> AccountRecords:
        """Read more records. Return them together with `known`, the records already loaded."""
        if known is None:
            return self._complete(more, keys, {})
        return known.extended_by(self._complete(more, {**known.found, **keys}, known.rejected))

    def _complete(self, wanted: Wanted, known: Mapping[Place, Found], rejected: Mapping[str, str]) -> AccountRecords:
        """Return all wanted records. Read from the store only the records that `known` lacks."""
        return AccountRecords.of(
            wanted, account_reads.complete(wanted, known, self._tunnel_domain, self._read), rejected
        )

    def _read(self, places: Collection[Place]) -> dict[Place, Found]:
        """Read records in one call, and each list of records in a concurrent call.

        If some of the primary keys `places` belong to live gateways, return only these gateways, as the latest
        `refresh_gateways` read them.
        """
        if cached := {place: self._gateways[place] for place in places if place in self._gateways}:
            return cached
        lists = {place: self._threads.submit(account_reads.read_list, place) for place in places if not place.id}
        found = account_reads.read_items(it for it in places if it.id)
        located = {place: self._located(it) for place, it in found.items()}
        return {**located, **{place: it.result() for place, it in lists.items()}}

    def _located(self, found: Found) -> Found:
        return replace(found, value=self._locate(found.value)) if isinstance(found.value, Gateway) else found


def _unseal(sealed: SealedCertificate) -> KeyPair | None:
    """Return a certificate with its key. Return None if the key cannot be decrypted. Raises aws.Unavailable."""
    try:
        key = tls_certificates.open_private_key(sealed)
    except aws.AwsError:
        raise
    except Exception as error:
        log.event("certificate_unreadable", id=sealed.certificate.id, reason=type(error).__name__)
        return None
    lines = base64.encodebytes(key).decode()
    return KeyPair(sealed.certificate.chain, f"-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\n")
