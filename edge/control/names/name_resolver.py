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
from chalicelib.model.serving import account_changes, account_item_keys, account_reads
from chalicelib.model.serving.account_item_keys import RecordsRequest, StoredValue
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.tls import tls_certificates
from chalicelib.model.tls.tls_certificates import SealedCertificate
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.storage.client import aws
from chalicelib.storage.records.change_log import ItemKey
from edge.link.authority import KeyPair
from edge.process import log

_MAX_READS = 32  # the most lists of records that are read at the same time
_NOTHING: Mapping[str, Set[ItemKey]] = {}
_MAX_RESOLVED = 1_000  # the most hosts with records that `find_account` has read and `read` has not taken yet


class NameResolver:
    """Reads the records of names, for all parts of control.

    `locate` adds the socket path to a gateway that runs on this host.
    """

    def __init__(self, tunnel_domain: str, locate: Callable[[Gateway], Gateway] = lambda gateway: gateway) -> None:
        self._tunnel_domain, self._locate = tunnel_domain, locate
        self.gateways: Sequence[Gateway] = ()  # all gateways, as the latest `refresh_gateways` read them
        self._gateways: dict[ItemKey, StoredValue] = {}  # the live gateways, by primary key
        # Records that `find_account` has read, by host: `read` does not read them again.
        self._resolved: dict[str, Mapping[ItemKey, StoredValue]] = {}
        self._threads = ThreadPoolExecutor(_MAX_READS, "lists")

    def find_account(self, host: str) -> str:
        """Return the account that owns a host, or "".

        Calls the store once, or not at all if no account can own the host.
        """
        item_keys = self._owner_item_keys(host)
        if not item_keys:
            return ""
        values = account_reads.read_items(item_keys)
        keys = {item_key: stored.value for item_key, stored in values.items() if isinstance(stored.value, NameKey)}
        account = name_keys.find_owner(host, self._tunnel_domain, keys.get)
        if account:
            while len(self._resolved) >= _MAX_RESOLVED:
                self._resolved.pop(next(iter(self._resolved)), None)
            self._resolved[host] = values
        return account

    def read(self, account: str, host: str, records: AccountRecords | None) -> AccountRecords:
        """Read the records of one more host. Return them together with `records`, the records already loaded."""
        return self._add(RecordsRequest(account, hosts=frozenset({host})), records, self._resolved.pop(host, {}))

    def read_items(self, account: str, ids: Iterable[str], records: AccountRecords | None) -> AccountRecords:
        """Read the records of edges and tunnels. Return them together with `records`, the records already loaded."""
        return self._add(RecordsRequest(account, ids=frozenset(ids)), records, {})

    def read_changed(
        self, records: AccountRecords, item_keys: Iterable[ItemKey], used: Mapping[str, Set[ItemKey]] = _NOTHING
    ) -> AccountRecords:
        """Return the records of an account after a change. `item_keys` are primary keys of changed records.

        Reads only the changed records, and records to which they refer now but did not refer before. `used` has the
        primary keys of the records that each loaded name uses, if known. Does not read gateways: call
        `refresh_gateways` before.
        """
        changed, account = frozenset(item_keys), records.account
        fresh = account_reads.read_items(account_changes.list_changed_items(account, changed, records.values))
        updates = account_changes.find_updates(account, changed, records.values, fresh, self._tunnel_domain)
        return self._update(records, {**updates, **self._find_gateways({*records.values, *updates})}, used)

    def resync(self, records: AccountRecords) -> AccountRecords:
        """Read all records of an account again, and return them.

        One call reads the records that were known before, and a concurrent call reads each list. An unchanged record
        stays the same object, because plans refer to it.
        """
        values = self._read([item_key for item_key in records.values if item_key.scope != gateways.GATEWAYS])
        read = account_reads.complete(records.request, values, self._tunnel_domain, self._read)
        same = {item_key: former for item_key, former in records.values.items() if read.get(item_key) == former}
        return AccountRecords.of(records.request, {**read, **same}, records.rejected)

    def keep(self, records: AccountRecords, names: Iterable[str]) -> AccountRecords:
        """Return only the records that these names use. Reads nothing from the store."""
        request = replace(records.request, hosts=records.names.intersection(names))
        item_keys = account_item_keys.list_item_keys(request, records.values, self._tunnel_domain)
        values = {item_key: records.values[item_key] for item_key in item_keys & records.values.keys()}
        return AccountRecords.of(request, values, records.rejected)

    def key_pair(self, certificate_id: str, records: AccountRecords) -> KeyPair | None:
        """Return a certificate with its decrypted key. Return None without the certificate, or if decryption fails."""
        listed = records.values.get(account_item_keys.certificates_item_key(records.account), StoredValue()).value
        certificates = listed if isinstance(listed, tuple) else ()
        for sealed in certificates:
            if isinstance(sealed, SealedCertificate) and sealed.certificate.id == certificate_id:
                return _unseal(sealed)
        return None

    def refresh_gateways(self) -> frozenset[ItemKey]:
        """Read all gateways. Return the primary keys of the changed gateways.

        A gateway with an ended lease counts as changed, although the change log does not report this end.
        """
        self.gateways, before = gateways.list_gateways(), self._gateways
        live = (self._locate(gateway) for gateway in self.gateways if gateway.is_live)
        self._gateways = {
            ItemKey(gateways.GATEWAYS, gateway.id): StoredValue(
                f"{gateway.host}:{gateway.port} {gateway.region} {gateway.draining}", gateway
            )
            for gateway in live
        }
        differing = before.items() ^ self._gateways.items()
        return frozenset(item_key for item_key, _ in differing)

    def _owner_item_keys(self, host: str) -> list[ItemKey]:
        try:
            is_normal = domains.normalize(host) == host and not host.startswith(domains.WILDCARD)
        except ValueError:
            is_normal = False
        return name_keys.list_owner_item_keys(host, self._tunnel_domain) if is_normal else []

    def _find_gateways(self, item_keys: Iterable[ItemKey]) -> dict[ItemKey, StoredValue]:
        """Return the gateways among these primary keys, as the latest `refresh_gateways` read them."""
        used = [item_key for item_key in item_keys if item_key.scope == gateways.GATEWAYS]
        return {item_key: self._gateways.get(item_key, StoredValue()) for item_key in used}

    def _update(
        self, before: AccountRecords, updates: Mapping[ItemKey, StoredValue | None], used: Mapping[str, Set[ItemKey]]
    ) -> AccountRecords:
        """Return the records `before`, with `updates`.

        The references between records are followed again only for names with a changed record. `used` has the primary
        keys of the records that each name uses.
        """
        values = {**before.values, **{item_key: update for item_key, update in updates.items() if update}}
        for item_key in [item_key for item_key, update in updates.items() if update is None]:
            values.pop(item_key, None)
        different = {item_key for item_key, update in updates.items() if before.values.get(item_key) != update}
        all_keys = frozenset(values)  # a frozenset stores the hashes of its keys, which makes the comparisons fast
        same = {name for name, item_keys in used.items() if item_keys.isdisjoint(different) and item_keys <= all_keys}
        changed = replace(before.request, hosts=before.request.hosts - same)
        reachable_values = account_reads.complete(changed, values, self._tunnel_domain, self._read)
        keys_of_unchanged = set[ItemKey]().union(*(used[name] for name in before.request.hosts & same))
        changed_values = {
            item_key: value for item_key, value in reachable_values.items() if before.values.get(item_key) is not value
        }
        # These values are equal to the earlier ones, except that the end of a lease can differ.
        changed_values |= {item_key: values[item_key] for item_key in keys_of_unchanged & updates.keys()}
        return before.replace(changed_values, before.values.keys() - reachable_values.keys() - keys_of_unchanged)

    def _add(
        self, more: RecordsRequest, records: AccountRecords | None, keys: Mapping[ItemKey, StoredValue]
    ) -> AccountRecords:
        """Read more records. Return them together with `records`, the records already loaded."""
        if records is None:
            return self._complete(more, keys, {})
        return records.extend(self._complete(more, {**records.values, **keys}, records.rejected))

    def _complete(
        self, request: RecordsRequest, values: Mapping[ItemKey, StoredValue], rejected: Mapping[str, str]
    ) -> AccountRecords:
        """Return the records for a request. Take them from `values`, and read the missing records from the store."""
        return AccountRecords.of(
            request, account_reads.complete(request, values, self._tunnel_domain, self._read), rejected
        )

    def _read(self, item_keys: Collection[ItemKey]) -> dict[ItemKey, StoredValue]:
        """Read records in one call, and each list of records in a concurrent call.

        If some of the primary keys `item_keys` belong to live gateways, return only these gateways, as the latest
        `refresh_gateways` read them.
        """
        if cached := {item_key: self._gateways[item_key] for item_key in item_keys if item_key in self._gateways}:
            return cached
        lists = {
            item_key: self._threads.submit(account_reads.read_list, item_key)
            for item_key in item_keys
            if not item_key.id
        }
        values = account_reads.read_items(item_key for item_key in item_keys if item_key.id)
        located = {item_key: self._located(stored) for item_key, stored in values.items()}
        return {**located, **{item_key: future.result() for item_key, future in lists.items()}}

    def _located(self, stored: StoredValue) -> StoredValue:
        return replace(stored, value=self._locate(stored.value)) if isinstance(stored.value, Gateway) else stored


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
