"""A store, an Envoy and plans for tests of the loader: a name is served as its record says."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from datetime import datetime

from chalicelib.model.edges.served import ServedEdge, ServedRoute
from chalicelib.model.serving.account_item_keys import StoredValue
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.edge_plans import Plan, PlannedHost, RouteTarget
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels.gateways import GATEWAYS, Gateway
from chalicelib.storage.records.change_log import ItemKey
from edge.envoy.resources import Key, Resource
from edge.link.authority import KeyPair
from edge.plan.names import NamePlan
from edge.serving.order import NameResources, Rejection
from edge.store.records import Unavailable

CLOSED = "closed"  # a value: the edge of the name refuses handshakes


_NOTHING: Mapping[str, Set[ItemKey]] = {}


def item_key(account: str, name: str) -> ItemKey:
    """Return the item key of the record that says how an account serves a name."""
    return ItemKey(f"{account}#/edges/https", name)


def owner_key(host: str) -> ItemKey:
    """Return the item key of the key of the account that has proved a host."""
    return ItemKey(f"domain#{host}", "claim")


class Records:
    """Records of names: a certificate's id, and the number of routes. A wildcard serves the names below it."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self.served: dict[ItemKey, str] = {}
        self.gateways: dict[str, Gateway] = {}  # that an account's tunnels use, by account
        self.certificates: dict[str, ServedCertificate] = {}  # of all accounts, only for reports
        self.reads: Counter[str] = Counter()
        self.is_away = self.is_broken = False
        self.kept = 0  # calls of `keep`
        self.may_read, self.may_answer, self.may_change = threading.Event(), threading.Event(), threading.Event()
        self.may_read.set()
        self.may_answer.set()
        self.may_change.set()

    def serve(self, account: str, name: str, value: str = "cert_1 1") -> ItemKey:
        self.owners[name], self.served[item_key(account, name)] = account, value
        return item_key(account, name)

    def find_account(self, host: str) -> str:
        self._count("find")
        wildcard = f"*.{host.partition('.')[2]}"
        return self.owners.get(host) or self.owners.get(wildcard, "")

    def read(self, account: str, host: str, records: AccountRecords | None) -> AccountRecords:
        self._count("read")
        found = records or AccountRecords(account, frozenset())
        hosts = (host, f"*.{host.partition('.')[2]}")
        versions = {item_key(account, it): self.served.get(item_key(account, it), "") for it in hosts}
        keys = {**found.values, owner_key(host): StoredValue()}
        self.may_answer.wait()
        used = {it.id: it for owner, it in self.gateways.items() if owner == account}
        keys |= {ItemKey(GATEWAYS, it): StoredValue() for it in used}
        names, all_versions = found.names | {host}, {**found.versions, **versions}
        certificates = self.certificates
        return replace(found, names=names, versions=all_versions, values=keys, gateways=used, certificates=certificates)

    def read_changed(
        self, records: AccountRecords, item_keys: Iterable[ItemKey], used: Mapping[str, Set[ItemKey]] = _NOTHING
    ) -> AccountRecords:
        self._count("read_changed")
        names = [*used]
        self.may_change.wait()
        assert {name: used[name] for name in names}.keys() == used.keys()
        changed = {*item_keys}
        is_owned_anew = not changed.isdisjoint(records.values)
        new = {it: self.served.get(it, "") for it in records.versions if is_owned_anew or it in changed}
        return replace(records, versions={**records.versions, **new})

    def resync(self, records: AccountRecords) -> AccountRecords:
        self._count("resync")
        return replace(records, versions={it: self.served.get(it, "") for it in records.versions})

    def keep(self, records: AccountRecords, names: Iterable[str]) -> AccountRecords:
        self.kept += 1
        hosts = {host for name in names for host in (name, f"*.{name.partition('.')[2]}")}
        versions = {it: version for it, version in records.versions.items() if it.id in hosts}
        return replace(records, names=frozenset(names), versions=versions)

    def key_pair(self, certificate: str, records: AccountRecords) -> KeyPair | None:
        self._count("key_pair")
        return None if certificate == "cert_sealed" else KeyPair(certificate, "key")

    def _count(self, read: str) -> None:
        self.reads[read] += 1
        self.may_read.wait()
        if self.is_away:
            raise Unavailable("away")
        if self.is_broken:
            raise ValueError(read)


class Plans:
    """Plans and resources of names. The chain of a secret is the certificate's id, a scope's encoding its routes."""

    def plan(self, name: str, records: AccountRecords, now: datetime) -> NamePlan:
        hosts = (name, f"*.{name.partition('.')[2]}")
        found = ((it, records.versions.get(item_key(records.account, it))) for it in hosts)
        host, value = next(((host, value) for host, value in found if value), ("", ""))
        if not value:
            return NamePlan(name, records.account, refusal="unknown")
        if value == CLOSED:
            return NamePlan(name, records.account, refusal="closed", is_closed=True)
        *certificates, routes = value.split()
        certificate = next((it for it in certificates if it not in records.rejected), "")
        if not certificate:
            return NamePlan(name, records.account, refusal="no certificate")
        targets = tuple(RouteTarget(ServedRoute(f"r{it}", "path_prefix", "/")) for it in range(int(routes)))
        edge = ServedEdge(records.account, "edghts_1", 1, (f"{host}:443",), routes=tuple(it.route for it in targets))
        planned = Plan(edge, (PlannedHost(host, "live", certificate=certificate),), targets=targets)
        return NamePlan(name, records.account, certificate, edge=planned)

    def build(self, plan: NamePlan, records: AccountRecords, pair: KeyPair | None) -> NameResources:
        routes = str(len(plan.edge.targets)) if plan.edge else ""
        scope = Resource(Key("routes", plan.name), routes.encode())
        secret = Resource(Key("secret", plan.name), pair.chain.encode()) if pair else None
        return NameResources(plan.name, (), scope, secret)

    def build_certificate(self, server_name: str, pair: KeyPair) -> NameResources:
        return NameResources(server_name, secret=Resource(Key("secret", server_name), pair.chain.encode()))

    def operator_pair(self) -> KeyPair:
        return KeyPair("operator", "key")


class Envoy:
    """The scopes and secrets that Envoy has, and the requests that were answered with a removal."""

    def __init__(self) -> None:
        self.scopes: dict[str, str] = {}
        self.secrets: dict[str, str] = {}
        self.refused: Counter[str] = Counter()
        self.sent: list[str] = []
        self.rejects: Mapping[str, Rejection] = {}  # by the encoding of a scope or secret
        self.may_answer: Mapping[str, asyncio.Event] = {}  # by name, if its answer must wait

    async def send(self, resources: NameResources) -> Rejection | None:
        self.sent.append(resources.name)
        if event := self.may_answer.get(resources.name):
            await event.wait()
        for table, resource in ((self.scopes, resources.scope), (self.secrets, resources.secret)):
            if resource is None:
                continue
            if found := self.rejects.get(resource.encoded.decode()):
                return found
            table[resources.name] = resource.encoded.decode()
        return None

    async def refuse(self, names: Iterable[str]) -> None:
        self.refused.update(names)

    async def withdraw(self, names: Iterable[str]) -> None:
        for name in names:
            self.scopes.pop(name, None)
            self.secrets.pop(name, None)

    async def remove_secrets(self, names: Iterable[str]) -> None:
        for name in names:
            self.secrets.pop(name, None)

    async def remove_scopes(self, names: Iterable[str]) -> None:
        for name in names:
            self.scopes.pop(name, None)
