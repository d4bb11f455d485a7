"""Control: keeps the Envoy of one edge host in step with the records.

It hears of changes by their log, makes anew what they touch, and sends Envoy the differences. A look at all records
every few minutes proves that nothing was missed.
"""

import asyncio
import hashlib
import heapq
import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from chalicelib.model.gateways import Gateway
from chalicelib.model.reservations import Held
from chalicelib.model.served import ServedEdge
from chalicelib.model.tunnels import Carried
from edge.control import pressure
from edge.control.certificates import Certificates, Uploaded
from edge.control.discovery import Discovery
from edge.control.edges import Edges
from edge.control.ports import Ports
from edge.control.reading import Reader
from edge.control.statuses import Statuses
from edge.link import authority, server, sockets
from edge.link.authority import Authority, KeyPair
from edge.link.renewal import RenewedPair
from edge.process import files, log, metrics, tasks
from edge.process.open_ports import OpenPorts
from edge.process.settings import Settings
from edge.store.records import Store, Unavailable
from edge.traffic import listeners
from edge.traffic import metrics as counts
from edge.traffic.bootstrap import bootstrap
from edge.traffic.clusters import LINK_SECRET
from edge.traffic.resources import Changes, Key, Resource, stages
from edge.traffic.serving import Serving
from edge.traffic.world import OPERATOR, Fact, Gone

POLL = 0.4  # seconds between two readings of the log
_BLOCKS = 2.0  # seconds between two readings of the blocked networks and banned names
_PATIENCE = 0.2  # seconds for which everybody waits for an account whose edges or certificates are read
_ANSWER = 1.0  # seconds for which a change waits for Envoy's answer to what it names


class Control:
    """The resources of one edge host."""

    def __init__(self, settings: Settings, store: Store, link_authority: Authority) -> None:
        self.discovery = Discovery(_version_key(link_authority))
        self.reader = Reader(store)
        self._settings, self._store = settings, store
        self._certificates, self._edges = Certificates(store), Edges(store)
        self._serving = Serving(settings, link_authority.pem)
        self._world = self._serving.world
        self._statuses = Statuses(store, _host(settings), self._serving.standing, self.discovery)
        self._open_ports = OpenPorts(settings.directory)
        self._ports = Ports(store, self.discovery, self._world.tunnel_at, self._open_ports)
        self._made = {
            LINK_SECRET: RenewedPair(lambda: link_authority.issue(server.CLIENT)),
            OPERATOR: _operator_pair(settings),
        }
        self._read_at = time.monotonic()  # when the records were last read
        self._blocked: tuple[list[str], list[str]] | None = None  # networks, and banned hosts
        self._blocked_at = 0.0  # when it was read
        self._served: dict[str, KeyPair] = {}  # of those that are made here
        self._ends: list[tuple[float, str]] = []  # when certificates of an account begin or end, the next first

    async def serve(self) -> None:
        """Serve Envoy what the records want, until cancelled; nothing before all is known."""
        configuration = json.dumps(bootstrap(self._settings)).encode()
        files.replace(self._settings.directory / "bootstrap.json", configuration, mode=0o640)
        pressure.begin(self._settings)
        self._open_ports.clear()
        self.discovery.change(self._serving.begin())
        await self._step(within=None)
        with files.shorten_socket_path(self._settings.discovery_socket) as socket:
            async with self.discovery.serving(socket):
                serving = (self._statuses.serve(), self._ports.serve(), self._answer_of_metrics())
                await tasks.run_all(self._follow(), *serving, pressure.write_for_ever(self._settings))

    async def _answer_of_metrics(self) -> None:
        """Tell Prometheus what is counted in all processes of this host."""
        settings, own = self._settings, metrics.ProcessMetrics("control", self._gauges, dict, log.CONTROL_EVENTS)
        if settings.metrics_port and settings.metrics_by == "control":
            processes = {
                "control": own.read,
                "gateway": metrics.read_from(settings.gateway_socket),
                "envoy": self._of_envoy,
            }
            async with metrics.serve_at_port(settings.metrics_host, settings.metrics_port, processes):
                await asyncio.Event().wait()

    async def _of_envoy(self) -> bytes:
        return counts.conforming(await metrics.read_from(self._settings.directory / counts.SOCKET, counts.PATH)())

    def _gauges(self) -> Mapping[str, float]:
        return {"behind_seconds": time.monotonic() - self._read_at}

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(POLL)
            await self._publish(self._refused())
            with suppress(Unavailable):  # what is served stays as it is
                await self._step(within=_PATIENCE)

    async def _step(self, *, within: float | None) -> None:
        """Take up what has changed; wait so many seconds for the edges and certificates of accounts."""
        news = await asyncio.to_thread(self.reader.news, self._world)
        self.reader.count(self._edges.hear(news.places))
        if news.is_all:
            self._edges.look()
        facts = [
            *map(self._near, news.facts),
            *await self._edges.taken(within=within),
            *(self._unused() if news.is_all else ()),
        ]
        reserved = self._reserved(facts)
        changes = self._update(facts, self._due())
        waiting = {
            account for account in _named(facts) if self._world.names_of(account) - self._world.ready_of(account)
        }
        for account in waiting | news.accounts | reserved | self._reserved(facts):
            self._read(account)
        for uploaded in await self._certificates.taken(within=within):
            changes |= self._take(uploaded)
        changes |= self._renewed()
        await self._publish({**changes, **await self._newly_blocked()})
        self._read_at = time.monotonic()

    def _near(self, fact: Fact) -> Fact:
        """Return a gateway of this host with its socket, any other fact as it is; Envoy runs in control's folder."""
        if not isinstance(fact, Gateway):
            return fact
        return replace(fact, socket=sockets.address(self._settings.link_socket(fact.id), self._settings.directory))

    async def _newly_blocked(self) -> Changes:
        """Read every other second what is blocked and banned; return the resources of that where they are others."""
        if time.monotonic() < self._blocked_at + _BLOCKS:
            return {}
        before = self._blocked
        self._blocked = await asyncio.to_thread(
            lambda: (self._store.list_blocked_networks(), self._store.list_banned_names())
        )
        self._blocked_at = time.monotonic()
        return {} if self._blocked == before else self._serving.block(*self._blocked)

    def _refused(self) -> Changes:
        """Take up Envoy's answers; return the changes that its refusals lead to."""
        names = self.discovery.news()
        self._statuses.hear(names)
        self._ports.hear(names)
        errors = {name: error for name in names if (error := self.discovery.catalog.refusal(name))}
        now = datetime.now(UTC)
        unusable = self._serving.unusable({it.name: error for it, error in errors.items() if it.kind == "secret"}, now)
        routes = {it.name: error for it, error in errors.items() if it.kind == "routes"}
        return {**unusable, **self._serving.refused(routes, now)}

    def _reserved(self, facts: Iterable[Fact]) -> frozenset[str]:
        """Return the accounts with names that facts of reservations matter for: what is read of them may be older."""
        known = (fact if isinstance(fact, Held) else self._world.held.get(fact.id) for fact in facts)
        return frozenset(account for it in known if it for account in self._world.accounts_at(it))

    def _update(self, facts: Sequence[Fact], names: Iterable[str] = ()) -> dict[Key, Resource | None]:
        """Return the resources that facts change; a certificate that is gone takes its key with it."""
        gone = [it.id for it in facts if isinstance(it, Gone) and it.id in self._world.certificates]
        changes = self._serving.update(facts, datetime.now(UTC), names)
        return {**changes, **{Key("secret", id): None for id in gone}}

    def _unused(self) -> list[Fact]:
        """Forget the certificates of accounts that have no name any more, and their keys; reservations of no name."""
        unused = [it for it in self._world.certificates.values() if not self._world.names_of(it.account)]
        for certificate in unused:
            self._certificates.forget(certificate.account)
            self._world.ready(certificate.account, frozenset())
        idle = [it for it in self._world.held.values() if not self._world.hosts_of(it)]
        return [*(Gone(it.id) for it in unused), *(Gone(it.id) for it in idle)]

    def _read(self, account: str) -> None:
        """Begin to read the certificates of an account, or forget them where it has no names."""
        if names := self._world.names_of(account):
            self._certificates.read(account, names)
        else:
            self._world.ready(account, frozenset())

    def _take(self, uploaded: Uploaded) -> dict[Key, Resource | None]:
        """Take up the certificates of an account in the place of those before."""
        account, kept = uploaded.account, {it.id for it in uploaded.certificates}
        gone = [Gone(it.id) for it in self._world.certificates_of(account) if it.id not in kept]
        held = {it.id for it in uploaded.held}
        freed = [Gone(it.id) for it in self._world.held_for(account, uploaded.names) if it.id not in held]
        if uploaded.names == self._world.ready_of(account) and (gone or uploaded.pairs):
            self.reader.suspect(account)
        names = self._world.ready(account, uploaded.names)
        secrets = {Key("secret", id): listeners.secret(id, it.chain, it.key) for id, it in uploaded.pairs.items()}
        for certificate in uploaded.certificates:
            for moment in (certificate.not_before, certificate.not_after):
                heapq.heappush(self._ends, (moment.timestamp(), account))
        return {**secrets, **self._update([*gone, *freed, *uploaded.certificates, *uploaded.held], names)}

    def _due(self) -> frozenset[str]:
        """Return the names of accounts of which a certificate has begun or ended."""
        names: frozenset[str] = frozenset()
        while self._ends and self._ends[0][0] <= time.time():
            names |= self._world.names_of(heapq.heappop(self._ends)[1])
        return names

    async def _publish(self, changes: Changes) -> None:
        """Serve changes so that nothing is named before it is there, or goes while it is named.

        What Envoy refuses of them is led to by nobody who had something else before.
        """
        first, then, last = stages(changes)
        named = self.discovery.change(first)
        if then:
            await self.discovery.answered(named, within=_ANSWER)
            if instead := self._refused():
                await self._publish({**then, **last, **instead})
                return
            named = self.discovery.change(then)
        if last:
            await self.discovery.answered(named, within=_ANSWER)
            self.discovery.change(last)
        self._statuses.touch(self._serving.touched_edges())

    def _renewed(self) -> Changes:
        """Return the certificates made here that are others now."""
        pairs = {name: renewed.pair() for name, renewed in self._made.items()}
        new = {name: pair for name, pair in pairs.items() if self._served.get(name) is not pair}
        self._served |= new
        made = {Key("secret", name): listeners.secret(name, pair.chain, pair.key) for name, pair in new.items()}
        return {**made, **(self._operator_renamed(new[OPERATOR]) if OPERATOR in new else {})}

    def _operator_renamed(self, pair: KeyPair) -> Changes:
        with suppress(ValueError):  # Envoy refuses it, and shows the one before
            return self._serving.rename_operator(pair.dns_names(), datetime.now(UTC))
        return {}


def _named(facts: Iterable[Fact]) -> set[str]:
    """Return the accounts that facts may give a name."""
    return {it.account for it in facts if isinstance(it, Carried | ServedEdge)}


def _version_key(link_authority: Authority) -> bytes:
    """Return the secret of the versions: another process has the same, so that Envoy is not sent what it has."""
    return hashlib.blake2b(link_authority.to_pem().encode(), digest_size=32, person=b"versions").digest()


def _host(settings: Settings) -> str:
    """Return the id of this edge host, which it keeps when it is started again."""
    file = settings.directory / "host"
    if not file.exists():
        files.replace(file, secrets.token_hex(8).encode())
    return file.read_text()


def _operator_pair(settings: Settings) -> RenewedPair:
    """Return the operator's certificate for every name of the domain: their own, or one made here."""
    if settings.certificate:
        chain, key = Path(settings.certificate), Path(settings.private_key)
        return RenewedPair(lambda: KeyPair(chain.read_text(), key.read_text()), [chain, key])
    local = authority.load_or_make(settings.directory / "authority.pem", "Local tunnels", settings.tunnel_domain)
    files.replace(settings.directory / "authority.crt", local.pem.encode())
    return RenewedPair(lambda: local.issue(f"*.{settings.tunnel_domain}", settings.tunnel_domain))
