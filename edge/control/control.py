"""Control: loads the names that Envoy requests, and keeps special names loaded.

Special names are hosts and ports that Envoy must know before a visitor comes. Control listens before it reads any
records. It follows the log of changes, and passes each change to the names that use it.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

from chalicelib.model.names import operator_certificate
from chalicelib.model.serving.account_view import Service
from chalicelib.model.tunnels.gateways import GATEWAYS, Gateway
from chalicelib.storage.records import change_log
from chalicelib.storage.records.change_log import ItemKey
from edge.control import pressure
from edge.control.challenge_server import ChallengeServer
from edge.control.gateway_sweeps import GatewaySweeps
from edge.control.names.loader import Loader
from edge.control.names.loading import AccountReader
from edge.control.names.name_builder import EnvoyNames
from edge.control.names.name_resolver import NameResolver
from edge.control.names.reads import StoreReads
from edge.control.operator_pair import OperatorPair
from edge.control.ports import Ports
from edge.control.reporting import Reporting
from edge.control.special import EnvoyPublisher, SpecialNames
from edge.control.special_account import ItemReader, Shared
from edge.envoy import listeners
from edge.envoy.ads.delta import Demand
from edge.envoy.ads.discovery import Discovery
from edge.envoy.clusters import LINK_SECRET
from edge.envoy.names import https_listener, sign_in_host
from edge.envoy.resources import Changes, Key
from edge.envoy.selector import OPERATOR_SECRET
from edge.envoy.start import stats as counts
from edge.envoy.start.bootstrap import build_bootstrap
from edge.link import server, sockets
from edge.link.authority import Authority, KeyPair
from edge.link.renewal import RenewedPair
from edge.process import files, log, metrics, tasks
from edge.process.envoy_process import envoy_guard
from edge.process.open_ports import OpenPorts
from edge.process.progress import ENVOY, PERIOD, Progress
from edge.process.settings import BOOTSTRAP, STATS_SOCKET, Settings
from edge.process.tasks import PeriodicTask
from edge.serving.order import Sender
from edge.serving.special_serving import SpecialServing
from edge.store import control_records, link_authority
from edge.store.changes import Follower
from edge.store.records import Unavailable

POLL, _RENEWED_PERIOD = 0.4, 2.0  # seconds between reads of the change log, and between checks for new key pairs
_BLOCKS_PERIOD = 2.0  # seconds between reads of blocked networks and banned names
# Seconds between reads of the settings for sign-in, and between checks of the key pair of the sign-in service.
_SIGN_IN_PERIOD, _SIGN_IN_PAIR_PERIOD = 4.0, 600.0
_GATEWAYS_PERIOD = 20.0  # seconds between reads of gateways, unless a gateway's lease ends earlier
_MAX_LOG_AGE = 30.0  # seconds without a read of the change log after which the host is not ready
_STATE_TIME = 2.0  # seconds in which a newly connected Envoy lists the resources that it already has


class NameReader(AccountReader, ItemReader, Protocol):
    """Reads the records of accounts and gateways. The methods block, and raise Unavailable."""

    gateways: Sequence[Gateway]

    def refresh_gateways(self) -> frozenset[ItemKey]: ...


class Control:
    """The control process of one edge host."""

    def __init__(self, settings: Settings, link_authority: Authority, resolver: NameReader | None = None) -> None:
        self._answers = PeriodicTask("answers", self._handle_answers, _RENEWED_PERIOD)
        self.discovery = Discovery(_version_key(link_authority), self._on_demand, self._on_answer)
        self._settings, self._link_authority, self._reads = settings, link_authority, StoreReads()
        self._progress, self._sweeps = Progress(settings.directory, "control"), GatewaySweeps()
        self._operator = operator = OperatorPair(settings)
        own = dict.fromkeys((OPERATOR_SECRET, sign_in_host.SIGN_IN_SECRET), operator.pair)
        self._pairs = {LINK_SECRET: RenewedPair(lambda: link_authority.issue(server.CLIENT)).pair, **own}
        self._published: dict[str, KeyPair] = {}  # the key pairs that Envoy has, by the name of the secret
        self._operator_names = frozenset({settings.tunnel_domain, f"*.{settings.tunnel_domain}"})
        self._resolver = resolver or NameResolver(settings.tunnel_domain, partial(add_socket, settings))
        self._serving, self._open_ports = SpecialServing(settings, link_authority.pem), OpenPorts(settings.directory)
        sender = Sender(self.discovery, lambda name: self._special.wait_until_settled(name))
        publisher, of_change = EnvoyPublisher(self.discovery, sender), self._reads.of_change
        shared = Shared(self._resolver, self._serving, publisher, control_records.list_hosts, of_change, self._service)
        self._special = SpecialNames(shared)
        builder = EnvoyNames(settings, link_authority.pem, self._service, operator.pair, self._special.carry_over)
        reports = settings, self.discovery, self._special, self._resolver, self._service
        self._reporting = Reporting(*reports, lambda account: self._loader.find_names(account))
        self._loader = Loader(settings, self._resolver, builder, sender, self._reporting.report_name, self._reads)
        self._challenges = ChallengeServer(settings, self._resolver, self._reads, self._loader.budget)
        self._ports = Ports(self.discovery, self._special.tunnel_at, self._open_ports)
        self._gateways_at, self._managed_apps = 0.0, frozenset[str]()  # the time of the next read of gateways
        self._read_at = time.monotonic()  # the time of the latest complete read of the change log
        self._blocked: tuple[list[str], list[str]] | None = None  # blocked networks and banned names, as last read
        self._is_complete = self.discovery.catalog.is_complete = False  # whether Envoy's outdated resources are removed

    async def serve(self) -> None:
        """Send Envoy its resources, and run all tasks of control, until cancelled."""
        for instance, file in self._settings.list_files(BOOTSTRAP).items():
            configuration = build_bootstrap(replace(self._settings, instance=instance))
            files.replace(file, json.dumps(configuration).encode(), mode=0o640)
        pressure.reset(self._settings)
        self._open_ports.clear()
        self.discovery.catalog.has_all_listeners = False  # send listeners only after special names are loaded
        for_sign_in = sign_in_host.build(self._settings, self._link_authority.pem)
        resources = *https_listener.build_public(self._settings), *for_sign_in
        self.discovery.apply({resource.key: resource for resource in resources})
        self.discovery.apply(self._read_renewed())
        with files.shorten_socket_path(self._settings.discovery_socket) as socket:
            async with self.discovery.run(socket):
                serving = self._loader.serve(), self._special.serve(), self._ports.serve(), self._serve_metrics()
                other = self._reporting.serve(), self._challenges.serve(), pressure.write_changes(self._settings)
                await tasks.run_all(self._follow(), *(task.run() for task in self._periodic_tasks()), *serving, *other)

    def _on_demand(self, demand: Demand) -> None:
        """Load the names that Envoy requests, and the names that it already has."""
        loaded = (key.name for key in demand.resources if key.kind in ("secret", "scope"))
        self._loader.restore({name.rpartition("/")[2] for name in loaded})
        self._loader.request(demand.requested)

    def _on_answer(self) -> None:
        self._answers.wake_within(POLL)

    async def _follow(self) -> None:
        """Load special names, then follow the change log from the time of this call, until cancelled."""
        read = partial(self._read_changes, Follower(change_log.read_since, time.time()))
        await tasks.retry(self._start, Unavailable)
        changes = PeriodicTask("changes", read, POLL, failures=Unavailable)  # on failure, Envoy's resources stay
        await tasks.run_all(changes.run(), self._answers.run())

    def _periodic_tasks(self) -> Iterator[PeriodicTask]:
        """Yield the periodic tasks that begin at once, before special names are loaded."""
        yield PeriodicTask("blocks", self._read_blocks, _BLOCKS_PERIOD, failures=Unavailable)
        yield PeriodicTask("sign_in", self._read_sign_in, _SIGN_IN_PERIOD, failures=Unavailable)
        if self._settings.sign_in_hosts:
            renew = partial(self._reads.of_change, link_authority.renew_sign_in_pair, self._link_authority)
            yield PeriodicTask("sign_in_pair", renew, _SIGN_IN_PAIR_PERIOD, failures=Unavailable)
        yield self._sweeps.task
        yield PeriodicTask("progress", self._progress.report_alive, PERIOD, failures=OSError)

    async def _start(self) -> None:
        """Load special names, and then send all listeners. Envoy serves with earlier listeners meanwhile.

        Raises Unavailable.
        """
        progress = Progress(self._settings.directory, ENVOY)
        with progress.report_waiting("the control process is waiting for the store", Unavailable):
            await self._read_gateways()
            await self._reads.of_change(self._operator.refresh)
            await self._special.start(progress.report)  # Envoy is not ready until special names are loaded
        self.discovery.send_listeners()

    async def _read_changes(self, follower: Follower) -> None:
        changes = await self._reads.of_change(follower.read, time.time())
        item_keys = {item_key for change in changes for item_key in change.item_keys}
        if time.monotonic() > self._gateways_at or any(item_key.scope == GATEWAYS for item_key in item_keys):
            item_keys |= await self._read_gateways()
        if operator_certificate.ITEM_KEY in item_keys:
            await self._reads.of_change(self._operator.refresh)
            self._answers.wake()  # this task sends the new certificate to Envoy
        self._loader.apply(item_keys)
        self._special.apply(item_keys)
        self._reporting.apply(item_keys)
        self._challenges.apply(item_keys)
        self._read_at = time.monotonic()

    async def _read_gateways(self) -> frozenset[ItemKey]:
        """Read all gateways in one query. Return the records of gateways that changed or died. Raises Unavailable."""
        changed = await self._reads.of_change(self._resolver.refresh_gateways)
        gateways = self._resolver.gateways
        self._sweeps.apply(gateways)
        pause = min([_GATEWAYS_PERIOD, *(gateway.seconds_to_next_state() for gateway in gateways)])
        self._gateways_at = time.monotonic() + pause
        return changed

    async def _handle_answers(self) -> float | None:
        """Send renewed certificates, and handle Envoy's answers. Return the pause until the next call, or None."""
        self.discovery.apply(self._read_renewed())
        answered = self.discovery.take_answered()
        self._ports.on_answers(answered)
        self._reporting.on_answers(answered)
        self._complete()
        return None if self._is_complete else POLL

    def _complete(self) -> None:
        """Once all names are loaded again, remove resources that Envoy has only from the previous control process."""
        has_asked = self.discovery.has_envoy and self.discovery.connected_at + _STATE_TIME < time.monotonic()
        if not self._is_complete and has_asked and self._loader.is_restored and self._special.is_complete:
            self._is_complete = True
            self.discovery.complete()

    async def _read_blocks(self) -> None:
        """Read blocked networks and banned names. If these lists have changed, update Envoy and the loader."""
        blocked = await self._reads.of_change(control_records.read_blocks)
        if blocked != self._blocked:
            self._blocked = blocked
            self.discovery.apply(self._serving.block(*blocked))
            self._loader.ban(blocked[1])

    async def _read_sign_in(self) -> None:
        """Read the public keys of session tokens, and which managed OAuth applications the operator offers."""
        keys, apps = await self._reads.of_change(control_records.read_sign_in)
        if (keys, apps) != (self._serving.public_keys, self._managed_apps):
            self._serving.public_keys, self._managed_apps = keys, apps
            self._special.replan()
            self._loader.replan()  # also needed for special names: the loader plans the routes of all names

    def _service(self) -> Service:
        settings = self._settings
        return Service(settings.tunnel_domain, settings.tcp_ports, self._operator_names, self._managed_apps)

    def _read_renewed(self) -> Changes:
        """Return the secrets of renewed certificates: the operator's, and Envoy's for connections to gateways."""
        pairs = {name: pair() for name, pair in self._pairs.items()}
        new = {name: pair for name, pair in pairs.items() if self._published.get(name) is not pair}
        self._published |= new
        if pair := new.get(OPERATOR_SECRET):
            with suppress(ValueError):  # Envoy rejects an unreadable certificate and keeps the earlier one
                self._operator_names = pair.dns_names()
            self._loader.replan()
            self._special.replan()
        return {Key("secret", name): listeners.build_secret(name, pair.chain, pair.key) for name, pair in new.items()}

    async def _serve_metrics(self) -> None:
        settings = self._settings
        control_metrics = metrics.ProcessMetrics("control", self._gauges, self._counts, log.CONTROL_EVENTS)
        if settings.metrics_port and settings.metrics_by == "control":
            processes = {
                "control": control_metrics.read,
                "gateway": metrics.read_instances(settings.gateway_sockets),
                "envoy": self._read_envoy_metrics,
                "": self._read_other_metrics,
            }
            gateway = partial(metrics.find_unready, "gateway", settings.gateway_sockets)
            checks = self._find_unready_log, self._find_unready_envoy, gateway
            async with metrics.serve_at_port(settings.metrics_host, settings.metrics_port, processes, checks):
                await asyncio.Event().wait()

    async def _read_envoy_metrics(self) -> bytes:
        read = metrics.read_instances(self._settings.list_files(STATS_SOCKET), counts.PATH)
        return counts.format_for_prometheus(await read())

    async def _find_unready_log(self) -> str:
        """Return a sentence if the latest read of the change log is too old, or ""."""
        seconds = time.monotonic() - self._read_at
        return "" if seconds <= _MAX_LOG_AGE else f"the control process has not read the change log for {seconds:.0f} s"

    async def _find_unready_envoy(self) -> str:
        """Return why no Envoy is ready, or ""."""
        if not self.discovery.has_answered:
            return "Envoy has not answered control yet"
        return await metrics.find_unready("Envoy", self._settings.list_files(STATS_SOCKET), counts.READY)

    async def _read_other_metrics(self) -> bytes:
        """Return metrics about loaded names. Add the metrics of a sign-in service and an issuer on this host."""
        text = await self._read_name_metrics()
        for socket in (self._settings.sign_in_metrics_socket, self._settings.issuer_metrics_socket):
            with suppress(OSError):
                text += await metrics.read_from(socket)()
        return text

    async def _read_name_metrics(self) -> bytes:
        name_metrics = self._loader.metrics
        name_metrics.special.set(len(self._special.names))
        requested = await envoy_guard.read_count(self._settings.list_files(STATS_SOCKET))
        name_metrics.pending.set(max(0, requested - self._loader.secrets))
        return await name_metrics.read()

    def is_current(self, since: float) -> bool:
        """Return whether Envoy has answered about all changes that were made before a monotonic time."""
        is_busy = self._loader.is_busy or self._special.is_busy
        return self._read_at > since + POLL and not is_busy and self.discovery.is_settled

    def _gauges(self) -> Mapping[str, float]:
        return {"behind_seconds": time.monotonic() - self._read_at}

    def _counts(self) -> Mapping[str, float]:
        return {"ends_swept": self._sweeps.ended}


def add_socket(settings: Settings, gateway: Gateway) -> Gateway:
    """Return a gateway with the path of its Unix socket in Envoy's folder, or "" if it is on another host."""
    return replace(gateway, socket=sockets.address(settings.link_socket(gateway.id), settings.directory))


def _version_key(link_authority: Authority) -> bytes:
    """Return the key for the hashes that are versions of resources.

    The key is the same after a restart, so Envoy keeps unchanged resources.
    """
    return hashlib.blake2b(link_authority.to_pem().encode(), digest_size=32, person=b"versions").digest()
