"""Reads of accounts from a store in memory, as `NameResolver` makes them from the table."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from chalicelib import domains
from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds
from chalicelib.model.edges.served import host_of
from chalicelib.model.names import base_names, proofs
from chalicelib.model.serving.account_places import Found, Value, digest, item_place
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.tunnels.gateways import GATEWAYS, Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records.change_log import Place
from edge.link.authority import KeyPair
from tests.edge.memory import Memory

_NOTHING: Mapping[str, Set[Place]] = {}


class MemoryResolver:
    """Implements control.NameReader. Each read returns all records of the account."""

    def __init__(self, store: Memory, locate: Callable[[Gateway], Gateway] = lambda it: it) -> None:
        self._store, self._locate = store, locate
        self.gateways: Sequence[Gateway] = ()
        self._gateways: dict[str, Gateway] = {}

    def find_account(self, host: str) -> str:
        store = self._store
        store.reach()
        if not domains.is_below(host, store.tunnel_domain):
            proved = {it.domain: it.account for it in [*store.held.values()] if it.is_proved}
            return proofs.find_proving(host, proved) or ""
        owners = {self._base_name(name): account for name, account in self._list_names()}
        base_name = self._base_name(host)
        return owners.get(base_name, "") if base_name else ""

    def read(self, account: str, host: str, known: AccountRecords | None) -> AccountRecords:
        return self._read(account, (known.names if known else frozenset()) | {host})

    def read_items(self, account: str, ids: Iterable[str], known: AccountRecords | None) -> AccountRecords:
        return self._read(account, known.names if known else frozenset())

    def read_changed(
        self, records: AccountRecords, places: Iterable[Place], used: Mapping[str, Set[Place]] = _NOTHING
    ) -> AccountRecords:
        return replace(self._read(records.account, records.names), rejected=records.rejected)

    def resync(self, records: AccountRecords) -> AccountRecords:
        return self.read_changed(records, ())

    def keep(self, records: AccountRecords, names: Iterable[str]) -> AccountRecords:
        return replace(records, names=frozenset(names))

    def key_pair(self, certificate: str, records: AccountRecords) -> KeyPair | None:
        self._store.reach(records.account)
        _, pair = self._store.uploaded.get(certificate, (None, None))
        return pair

    def refresh_gateways(self) -> frozenset[Place]:
        self.gateways, before = self._store.list_gateways(), self._gateways
        self._gateways = {it.id: self._locate(it) for it in self.gateways if it.is_live}
        differing = before.items() ^ self._gateways.items()
        return frozenset(Place(GATEWAYS, id) for id, _ in differing)

    def _read(self, account: str, names: frozenset[str]) -> AccountRecords:
        store = self._store
        store.reach(account)
        with store.lock:
            online = [it for it, _ in store.online.values() if it.account == account]
        tunnels = {it.id: it for it in online}
        gateways = {it.gateway: self._gateways.get(it.gateway) for it in tunnels.values()}
        parts = [it for it in [*store.led_to.values()] if it.account == account]
        certificates = [it for it, _ in [*store.uploaded.values()] if it.account == account]
        edges = {it.id: it for it in [*store.edges.values()] if it.account == account and (it.hostports or it.error)}
        records = AccountRecords(
            account,
            names,
            account not in store.off,
            tunnels,
            {id: it for id, it in gateways.items() if it},
            edges,
            {it.id: it for it in parts if kinds.of(it.id).path.startswith("/backends/")},  # type: ignore[misc]
            {it.id: it for it in parts if kinds.of(it.id) is kinds.CERTIFICATE_AUTHORITIES},  # type: ignore[misc]
            {it.id: it for it in parts if kinds.of(it.id) is kinds.IP_POLICIES},  # type: ignore[misc]
            {it.id: it for it in certificates},
            tuple(sorted(store.held.values(), key=lambda it: it.id)),
            {name: [it] for name, (owner, it) in store.addresses.items() if owner == account},
        )
        found = {Place(GATEWAYS, id): _found(it) for id, it in gateways.items()} | _list_found(records)
        found[Place(f"{account}#", "")] = Found(digest(sorted(it.version for it in found.values())))  # all its lists
        return replace(records, versions={place: it.version for place, it in found.items()}, found=found)

    def _list_names(self) -> Iterable[tuple[str, str]]:
        """Yield the names below TUNNEL_DOMAIN with their accounts. The last one decides."""
        store = self._store
        with store.lock:
            online = [it for it, _ in store.online.values()]
        yield from ((it.name, it.account) for it in online if it.name)
        yield from ((host, it.account) for it in [*store.edges.values()] for host in it.hosts)
        yield from ((it.domain, it.account) for it in [*store.held.values()])
        yield from [*store.reserved.items()]

    def _base_name(self, name: str) -> str:
        host, domain = host_of(name).removeprefix(domains.WILDCARD), self._store.tunnel_domain
        return base_names.base_name_below(host, domain) if domains.is_below(host, domain) else ""


def _list_found(records: AccountRecords) -> dict[Place, Found]:
    account = records.account
    tables: tuple[Mapping[str, Value], ...] = (
        records.tunnels,
        records.edges,
        records.backends,
        records.authorities,
        records.policies,
        {it.id: it for it in records.reservations},
    )
    found = {item_place(account, id): _found(it) for table in tables for id, it in table.items()}
    addresses = {
        Place(f"{account}#{kinds.RESERVED_ADDRS.path}", it): Found(repr(records.addresses[it]))
        for it in records.addresses
    }
    certificates = {item_place(account, id): Found(repr(it)) for id, it in records.certificates.items()}
    return {**found, **certificates, **addresses, Place(accounts.SCOPE, account): Found(f"{records.is_active}")}


def _found(value: Value | None) -> Found:
    """Return a value with a version. A renewed lease leaves the version, as in the table."""
    versioned = replace(value, expires=0) if isinstance(value, ServedTunnel) else value
    return Found(hashlib.blake2b(repr(versioned).encode()).hexdigest(), value) if value else Found()
