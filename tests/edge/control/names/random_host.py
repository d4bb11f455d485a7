"""An edge host without an Envoy, so that its catalog has all that would be sent, and a comparison of two hosts."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import Service
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.loader import Loader
from edge.control.names.name_builder import EnvoyNames
from edge.control.names.name_resolver import NameResolver
from edge.control.names.reads import StoreReads
from edge.control.special import EnvoyPublisher, SpecialNames
from edge.control.special_account import Shared
from edge.envoy import listeners
from edge.envoy.ads.catalog import Name
from edge.envoy.ads.discovery import Discovery
from edge.envoy.names import https_listener, scopes
from edge.envoy.resources import MESSAGES, Changes, Key, Kind, Resource
from edge.link.authority import KeyPair
from edge.plan.names import NamePlan
from edge.process.settings import Limits, Settings
from edge.serving.order import Sender
from edge.serving.special_serving import SpecialServing
from edge.store import control_records
from edge.store.table import Store

D = "tunnels.localhost"
PORTS = range(20000, 20003)
OPERATOR = KeyPair("operator's chain", "operator's key")
STORE = Store("local", D)
Versions = Mapping[str, str | None]


@cache
def _build_public(limits: Limits) -> tuple[Settings, tuple[Resource, ...]]:
    """Return the settings of a host, and the resources that do not depend on records."""
    settings = Settings(tunnel_domain=D, tcp_ports=PORTS, limits=limits)
    return settings, https_listener.build_public(settings)


@dataclass(frozen=True)
class Surroundings:
    """What the hosts of a case share: the loop that runs them, and the threads that read."""

    runner: asyncio.Runner
    reads: StoreReads = field(default_factory=lambda: StoreReads(4))


class _Recorded(Discovery):
    """Records the parts of resources that were sent, to show which part differs."""

    def __init__(self) -> None:
        super().__init__(b"key")
        self.sent: dict[Key, Resource | None] = {}

    def apply(self, changes: Changes) -> list[Name]:
        self.sent |= changes
        return super().apply(changes)


class _Names(EnvoyNames):
    """Builds names. `plans` has the latest plan of each name."""

    plans: dict[str, NamePlan]

    def plan(self, name: str, records: AccountRecords, now: datetime) -> NamePlan:
        self.plans[name] = super().plan(name, records, now)
        return self.plans[name]


class Host:
    """The loaded and special names of one edge host, with `limits`. `service` can be replaced before `replan`."""

    def __init__(self, limits: Limits, service: Service, surroundings: Surroundings) -> None:
        (settings, public), self.surroundings = _build_public(limits), surroundings
        self.limits, self.service = limits, service
        self.discovery, self.resolver = _Recorded(), NameResolver(D)
        self.discovery.apply({it.key: it for it in public})
        self._blocked: tuple[list[str], list[str]] | None = None
        self._serving = SpecialServing(settings, "PEM")
        self.sender = Sender(self.discovery, lambda name: self.special.wait_until_settled(name))
        publisher = EnvoyPublisher(self.discovery, self.sender)
        services = lambda: self.service  # noqa: E731
        run = surroundings.reads.of_change
        self.special = SpecialNames(
            Shared(self.resolver, self._serving, publisher, control_records.list_hosts, run, services),
            patience=0,
        )
        builder = _Names(settings, "PEM", services, lambda: OPERATOR, self.special.carry_over)
        self.plans: dict[str, NamePlan] = {}
        builder.plans = self.plans
        others = lambda *_: None, surroundings.reads
        self.loader = Loader(settings, self.resolver, builder, self.sender, *others, resync_period=1e9)
        self.resolver.refresh_gateways()
        self._run(lambda: self.special.start(lambda _: None))

    def load(self, *names: str) -> None:
        """Request the certificates of some names, one after the other."""
        for name in names:
            self._do(lambda name=name: self.loader.request([name]))  # type: ignore[misc]

    def begin(self, name: str, seconds: float) -> None:
        """Request the certificate of a name, but wait only for some seconds."""

        async def wait() -> None:
            self.loader.request([name])
            await asyncio.sleep(seconds)

        self._run(wait)

    def apply(self, item_keys: Set[ItemKey]) -> None:
        """Handle changed records."""
        changed = item_keys | self.resolver.refresh_gateways()

        def change() -> None:
            self.loader.apply(changed)
            self.special.apply(changed)

        self._do(change)

    def replan(self, service: Service) -> None:
        self.service = service
        self._do(self.loader.replan)
        self._do(self.special.replan)

    def unload(self, name: str) -> None:
        """Remove the secrets of a name and of those that were requested before it, then unload some unused names."""
        if loaded := self.loader.loaded.find(name):
            self._do(lambda: self.loader.sweep(loaded.requested_at + self.limits.name_period))

    def read_blocks(self) -> None:
        """Read blocked networks and banned names, as control does every two seconds."""
        found = control_records.read_blocks()
        if found != self._blocked:
            self._blocked = found
            self.discovery.apply(self._serving.block(*found))
            self._do(lambda: self.loader.ban(found[1]))

    def versions(self, kind: Kind) -> Versions:
        """Return the versions of all resources of a kind, without scopes that answer only 421."""
        catalog, served = self.discovery.catalog, {it.name for it in self.sender.scopes.values()}
        found = {it.name: catalog.version(it) for it in catalog.names(kind)}
        closed = {it for it in found if kind == "scope" and it not in served}
        assert all(catalog.value(Name(kind, it)) == scopes.build_closed_scope(it).encoded for it in closed)
        return {name: version for name, version in found.items() if name not in closed}

    def has_page(self, name: str) -> bool:
        """Return whether Envoy has the operator's certificate for a name."""
        secret = listeners.build_secret(name, OPERATOR.chain, OPERATOR.key)
        return self.discovery.catalog.find_value(Name("secret", name)) == secret.encoded

    def _do(self, act: Callable[[], None]) -> None:
        """Start some work, and wait until all work is done."""

        async def wait() -> None:
            act()
            for _ in range(2):
                await self.special.check()
                while self.loader.is_busy or self.special.is_busy:
                    await asyncio.sleep(0.001)
                await asyncio.sleep(0)  # tasks that nobody waits for

        self._run(wait)

    def _run(self, act: Callable[[], Awaitable[None]]) -> None:
        async def wait() -> None:
            await act()

        self.surroundings.runner.get_loop().run_until_complete(wait())


def find_differences(host: Host, edges: Iterable[str]) -> list[str]:
    """Compare a host with a new host that loads the same names from the records. Return what differs."""
    fresh = Host(host.limits, host.service, host.surroundings)
    loaded = {it.name: it for it in host.loader.loaded}
    find_account = host.resolver.find_account
    fresh.load(*(it.name for it in loaded.values() if not it.is_withdrawn or find_account(it.name) == it.account))
    fresh.read_blocks()
    return [*_resources(host, fresh), *_names(host, fresh), *_special(host, fresh, edges)]


def _resources(host: Host, fresh: Host) -> Iterable[str]:
    for kind in MESSAGES:
        found, full = host.versions(kind), fresh.versions(kind)
        if kind == "secret":
            served = {it.name: it for it in host.loader.loaded if not it.is_withdrawn}
            full = {it: full.get(it) for it, loaded in served.items() if loaded.secret_removed_at is None}
            found = {it: version for it, version in found.items() if it in served or not host.has_page(it)}
        sent, expected = host.discovery.sent, fresh.discovery.sent
        for name in (it for it in found.keys() | full.keys() if found.get(it) != full.get(it)):
            keys = (it for it in sent.keys() | expected.keys() if (it.kind, it.name) == (kind, name))
            yield f"{kind} {name}: {[it.part for it in keys if sent.get(it) != expected.get(it)]}"


def _names(host: Host, fresh: Host) -> Iterable[str]:
    """Yield the loaded names with another plan, or another estimate of their memory."""
    for loaded in host.loader.loaded:
        expected = fresh.loader.loaded.find(loaded.name)
        if (expected is None) != loaded.is_withdrawn:
            yield f"{loaded.name} is served by one host"
        elif expected and (loaded.kib, loaded.wildcard) != (expected.kib, expected.wildcard):
            yield f"{loaded.name} has {loaded} instead of {expected}"
        elif expected and host.plans[loaded.name] != fresh.plans[loaded.name]:
            yield f"{loaded.name} has plan {host.plans[loaded.name]} instead of {fresh.plans[loaded.name]}"


def _special(host: Host, fresh: Host, edges: Iterable[str]) -> Iterable[str]:
    if host.special.names != fresh.special.names:
        yield f"special names {host.special.names ^ fresh.special.names}"
    yield from (f"plan of {id}" for id in edges if host.special.plan_of(id) != fresh.special.plan_of(id))
