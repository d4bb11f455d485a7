"""Control: keeps the Envoy of an edge host in sync with the records.

It reads the log of changes, builds the affected resources and sends the differences to Envoy. A resync with all
records, every few minutes, verifies that the log missed nothing.
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

from chalicelib.model.edges.served import ServedEdge
from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.control import pressure
from edge.control.certificates import AccountCertificates, Certificates
from edge.control.edge_records import EdgeRecords
from edge.control.ports import Ports
from edge.control.reading import Reader
from edge.control.statuses import Statuses
from edge.envoy import listeners
from edge.envoy import stats as counts
from edge.envoy.ads.discovery import Discovery
from edge.envoy.bootstrap import build_bootstrap
from edge.envoy.clusters import LINK_SECRET
from edge.envoy.resources import Changes, Key, Resource, split_stages
from edge.link import authority, server, sockets
from edge.link.authority import Authority, KeyPair
from edge.link.renewal import RenewedPair
from edge.plan.record_index import Removed, Update
from edge.plan.world import OPERATOR
from edge.process import files, log, metrics, tasks
from edge.process.open_ports import OpenPorts
from edge.process.settings import Settings
from edge.serving.serving import Serving
from edge.store.records import Store, Unavailable

POLL = 0.4  # seconds between reads of the log
_BLOCKS_PERIOD = 2.0  # seconds between reads of blocked networks and banned names
_READ_TIMEOUT = 0.2  # seconds to wait for the records of slow accounts
_ANSWER_TIMEOUT = 1.0  # seconds to wait for Envoy's answers before a change that depends on them


class Control:
    """Control of one edge host."""

    def __init__(self, settings: Settings, store: Store, link_authority: Authority) -> None:
        self.discovery = Discovery(_version_key(link_authority))
        self.reader = Reader(store)
        self._settings, self._store = settings, store
        self._certificates, self._edges = Certificates(store), EdgeRecords(store)
        self._serving = Serving(settings, link_authority.pem)
        self._world = self._serving.world
        self._statuses = Statuses(store, _host_id(settings), self._serving.planned_status, self.discovery)
        self._open_ports = OpenPorts(settings.directory)
        self._ports = Ports(store, self.discovery, self._world.tunnel_at, self._open_ports)
        self._pairs = {
            LINK_SECRET: RenewedPair(lambda: link_authority.issue(server.CLIENT)),
            OPERATOR: _operator_pair(settings),
        }
        self._read_at = time.monotonic()  # the last complete read of the records
        self._blocked: tuple[list[str], list[str]] | None = None  # networks, banned hosts
        self._blocked_at = 0.0
        self._published: dict[str, KeyPair] = {}  # published pairs of the operator and the link
        self._validity_changes: list[
            tuple[float, str]
        ] = []  # a heap of times when an account's certificates begin or end

    async def serve(self) -> None:
        """Serve Envoy's discovery, until cancelled. It starts once all records are read."""
        configuration = json.dumps(build_bootstrap(self._settings)).encode()
        files.replace(self._settings.directory / "bootstrap.json", configuration, mode=0o640)
        pressure.reset(self._settings)
        self._open_ports.clear()
        self.discovery.apply(self._serving.start())
        await self._sync(timeout=None)
        with files.shorten_socket_path(self._settings.discovery_socket) as socket:
            async with self.discovery.run(socket):
                serving = (self._statuses.serve(), self._ports.serve(), self._serve_metrics())
                await tasks.run_all(self._follow(), *serving, pressure.write_changes(self._settings))

    async def _serve_metrics(self) -> None:
        """Serve the metrics of all processes to Prometheus."""
        settings, own = self._settings, metrics.ProcessMetrics("control", self._gauges, dict, log.CONTROL_EVENTS)
        if settings.metrics_port and settings.metrics_by == "control":
            processes = {
                "control": own.read,
                "gateway": metrics.read_from(settings.gateway_socket),
                "envoy": self._read_envoy_metrics,
            }
            async with metrics.serve_at_port(settings.metrics_host, settings.metrics_port, processes):
                await asyncio.Event().wait()

    async def _read_envoy_metrics(self) -> bytes:
        return counts.format_for_prometheus(
            await metrics.read_from(self._settings.directory / counts.SOCKET, counts.PATH)()
        )

    def _gauges(self) -> Mapping[str, float]:
        return {"behind_seconds": time.monotonic() - self._read_at}

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(POLL)
            await self._publish(self._apply_answers())
            with suppress(Unavailable):  # Envoy keeps its configuration
                await self._sync(timeout=_READ_TIMEOUT)

    async def _sync(self, *, timeout: float | None) -> None:
        """Apply the changed records. Wait `timeout` seconds for edges and certificates of accounts."""
        news = await asyncio.to_thread(self.reader.read_changes, self._world)
        self.reader.count_missed(self._edges.request(news.places))
        if news.is_all:
            self._edges.start_resync()
        updates = [
            *map(self._with_socket, news.updates),
            *await self._edges.collect(timeout=timeout),
            *(self._drop_unused() if news.is_all else ()),
        ]
        reserved = self._accounts_of_reservations(updates)
        changes = self._update(updates, self._take_due_hosts())
        waiting = {
            account
            for account in _accounts_with_names(updates)
            if self._world.hosts_of_account(account) - self._world.ready_hosts(account)
        }
        for account in waiting | news.accounts | reserved | self._accounts_of_reservations(updates):
            self._read(account)
        for uploaded in await self._certificates.collect(timeout=timeout):
            changes |= self._apply_certificates(uploaded)
        changes |= self._read_renewed()
        await self._publish({**changes, **await self._read_blocked()})
        self._read_at = time.monotonic()

    def _with_socket(self, update: Update) -> Update:
        """Add its socket to a gateway on this host, relative to the working directory of Envoy."""
        if not isinstance(update, Gateway):
            return update
        return replace(update, socket=sockets.address(self._settings.link_socket(update.id), self._settings.directory))

    async def _read_blocked(self) -> Changes:
        """Read the blocks and bans when due. Return the changed resources."""
        if time.monotonic() < self._blocked_at + _BLOCKS_PERIOD:
            return {}
        before = self._blocked
        self._blocked = await asyncio.to_thread(
            lambda: (self._store.list_blocked_networks(), self._store.list_banned_names())
        )
        self._blocked_at = time.monotonic()
        return {} if self._blocked == before else self._serving.block(*self._blocked)

    def _apply_answers(self) -> Changes:
        """Handle Envoy's answers. Return the changes that its rejections require."""
        names = self.discovery.take_answered()
        self._statuses.on_answers(names)
        self._ports.on_answers(names)
        errors = {name: error for name in names if (error := self.discovery.catalog.refusal(name))}
        now = datetime.now(UTC)
        unusable = self._serving.reject_certificates(
            {it.name: error for it, error in errors.items() if it.kind == "secret"}, now
        )
        routes = {it.name: error for it, error in errors.items() if it.kind == "routes"}
        return {**unusable, **self._serving.reject_routes(routes, now)}

    def _accounts_of_reservations(self, updates: Iterable[Update]) -> frozenset[str]:
        """Return the accounts affected by reservations. Their certificates are read again, with the new state."""
        known = (
            update if isinstance(update, ServedReservation) else self._world.reservations.get(update.id)
            for update in updates
        )
        return frozenset(account for it in known if it for account in self._world.accounts_of_reservation(it))

    def _update(self, updates: Sequence[Update], names: Iterable[str] = ()) -> dict[Key, Resource | None]:
        """Apply updates. Return the changed resources, without the keys of removed certificates."""
        gone = [it.id for it in updates if isinstance(it, Removed) and it.id in self._world.certificates]
        changes = self._serving.update(updates, datetime.now(UTC), names)
        return {**changes, **{Key("secret", id): None for id in gone}}

    def _drop_unused(self) -> list[Update]:
        """Forget the certificates of accounts without names. Return removals for these and unused reservations."""
        unused = [it for it in self._world.certificates.values() if not self._world.hosts_of_account(it.account)]
        for certificate in unused:
            self._certificates.forget(certificate.account)
            self._world.set_ready(certificate.account, frozenset())
        idle = [it for it in self._world.reservations.values() if not self._world.hosts_of_reservation(it)]
        return [*(Removed(it.id) for it in unused), *(Removed(it.id) for it in idle)]

    def _read(self, account: str) -> None:
        """Start to read the certificates of an account, if it has hosts."""
        if names := self._world.hosts_of_account(account):
            self._certificates.read(account, names)
        else:
            self._world.set_ready(account, frozenset())

    def _apply_certificates(self, uploaded: AccountCertificates) -> dict[Key, Resource | None]:
        """Replace the known certificates of an account. Return the changed resources."""
        account, kept = uploaded.account, {it.id for it in uploaded.certificates}
        gone = [Removed(it.id) for it in self._world.certificates_of(account) if it.id not in kept]
        held = {it.id for it in uploaded.reservations}
        freed = [Removed(it.id) for it in self._world.reservations_for(account, uploaded.names) if it.id not in held]
        if uploaded.names == self._world.ready_hosts(account) and (gone or uploaded.pairs):
            self.reader.suspect_missed(account)
        names = self._world.set_ready(account, uploaded.names)
        secrets = {Key("secret", id): listeners.build_secret(id, it.chain, it.key) for id, it in uploaded.pairs.items()}
        for certificate in uploaded.certificates:
            for moment in (certificate.not_before, certificate.not_after):
                heapq.heappush(self._validity_changes, (moment.timestamp(), account))
        return {**secrets, **self._update([*gone, *freed, *uploaded.certificates, *uploaded.reservations], names)}

    def _take_due_hosts(self) -> frozenset[str]:
        """Return the hosts of accounts with a certificate that just began or ended."""
        names: frozenset[str] = frozenset()
        while self._validity_changes and self._validity_changes[0][0] <= time.time():
            names |= self._world.hosts_of_account(heapq.heappop(self._validity_changes)[1])
        return names

    async def _publish(self, changes: Changes) -> None:
        """Publish changes in steps, so that Envoy never has a reference to a missing resource.

        If Envoy rejects a new resource, visitors stay with the earlier one.
        """
        first, then, last = split_stages(changes)
        named = self.discovery.apply(first)
        if then:
            await self.discovery.wait_for_answers(named, timeout=_ANSWER_TIMEOUT)
            if instead := self._apply_answers():
                await self._publish({**then, **last, **instead})
                return
            named = self.discovery.apply(then)
        if last:
            await self.discovery.wait_for_answers(named, timeout=_ANSWER_TIMEOUT)
            self.discovery.apply(last)
        self._statuses.schedule(self._serving.take_changed_edges())

    def _read_renewed(self) -> Changes:
        """Return the resources of renewed certificates of the operator and the link."""
        pairs = {name: renewed.pair() for name, renewed in self._pairs.items()}
        new = {name: pair for name, pair in pairs.items() if self._published.get(name) is not pair}
        self._published |= new
        made = {Key("secret", name): listeners.build_secret(name, pair.chain, pair.key) for name, pair in new.items()}
        return {**made, **(self._rename_operator(new[OPERATOR]) if OPERATOR in new else {})}

    def _rename_operator(self, pair: KeyPair) -> Changes:
        with suppress(ValueError):  # Envoy rejects such a certificate and keeps the earlier one
            return self._serving.rename_operator(pair.dns_names(), datetime.now(UTC))
        return {}


def _accounts_with_names(updates: Iterable[Update]) -> set[str]:
    """Return the accounts to which updates may give a name."""
    return {it.account for it in updates if isinstance(it, ServedTunnel | ServedEdge)}


def _version_key(link_authority: Authority) -> bytes:
    """Return the key for versions. It is the same after a restart, so Envoy keeps unchanged resources."""
    return hashlib.blake2b(link_authority.to_pem().encode(), digest_size=32, person=b"versions").digest()


def _host_id(settings: Settings) -> str:
    """Return the stored id of this edge host, created at its first start."""
    file = settings.directory / "host"
    if not file.exists():
        files.replace(file, secrets.token_hex(8).encode())
    return file.read_text()


def _operator_pair(settings: Settings) -> RenewedPair:
    """Return the operator's wildcard certificate: the configured one, or a local one."""
    if settings.certificate:
        chain, key = Path(settings.certificate), Path(settings.private_key)
        return RenewedPair(lambda: KeyPair(chain.read_text(), key.read_text()), [chain, key])
    local = authority.load_or_make(settings.directory / "authority.pem", "Local tunnels", settings.tunnel_domain)
    files.replace(settings.directory / "authority.crt", local.pem.encode())
    return RenewedPair(lambda: local.issue(f"*.{settings.tunnel_domain}", settings.tunnel_domain))
