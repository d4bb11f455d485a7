"""The SSH gateway: accepts SSH clients, and connections from Envoy to the clients' tunnels."""

import asyncio
import contextlib
import functools
import math
import random
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import asyncssh

from chalicelib.model.names import bans
from chalicelib.model.tunnels import blocks, gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.storage.records import change_log
from edge.link.authority import Authority
from edge.networks import Networks
from edge.process import files, host_key, log, metrics, tasks
from edge.process.settings import SettingError, Settings
from edge.process.tasks import PeriodicTask
from edge.ssh import loops
from edge.ssh.asyncssh_internals import connection_factory
from edge.ssh.auth.admission import Admission, listen
from edge.ssh.auth.proxied import Proxied
from edge.ssh.auth.sign_ins import SignIns
from edge.ssh.draining.drain import Drain
from edge.ssh.draining.link_stages import LinkStages
from edge.ssh.lease import GatewayLease, LeaseLost
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.rights_checks import RightsChecks
from edge.ssh.session import Session
from edge.ssh.tunnels import Tunnels
from edge.ssh.usage.billing import Billing
from edge.store import gateway_records, threads
from edge.store.changes import Follower
from edge.store.records import Unavailable
from edge.store.table import Store

_BLOCKS_PERIOD = 2.0  # seconds between two reads of the operator's blocked networks and banned name patterns
_THREADS = 64  # threads for calls to the store
_NOTICE_TIME = 0.5  # seconds between the notice about a lost lease and the end of the SSH connections
_MAX_WAIT = 10.0  # maximum seconds for which clients are asked to wait after the loss of the lease
# ChaCha20, the default of OpenSSH, is left out, because it takes the gateway twice the time of these ciphers. All
# versions of OpenSSH since 2015 support these ciphers.
_CIPHERS = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr"]


class _Drained(Exception):
    """Raised when the drain of the gateway is complete."""


class SshGateway:
    """The gateway of this process. Its id changes at each start, and after the loss of its lease and tunnels."""

    def __init__(self, settings: Settings, store: Store, authority: Authority) -> None:
        self.settings, self.store = settings, store
        self.sign_ins = SignIns(settings.limits)
        self._authority = authority
        self._host_key = _load_host_key(settings)
        self._blocked = Networks()
        self.sessions: set[Session] = set()
        self._drain: Drain | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._take_new_id()

    def close(self, tunnel: OnlineTunnel, reason: str) -> None:
        """Start a task that closes a tunnel. The client's terminal shows the reason."""
        task = asyncio.create_task(self.tunnels.close(tunnel, reason))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def on_session_end(self, session: Session) -> None:
        """Remove the connection of a client from the gateway's sessions. The connection has ended."""
        self.sessions.discard(session)

    async def serve(self, draining: asyncio.Event | None = None) -> None:
        """Serve until cancelled, or until a drain is complete. Then close all tunnels.

        A drain begins when `draining` is set.

        Raises Unavailable if the store fails at the start.
        """
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
        serve = functools.partial(self._serve_while_leased, draining or asyncio.Event())
        again = serve
        while True:
            try:
                return await again()
            except LeaseLost:
                if self._drain:
                    return None
                self._take_new_id()
                again = functools.partial(tasks.retry, serve, Unavailable)

    def _take_new_id(self) -> None:
        settings, store = self.settings, self.store
        self.id = f"gw-{secrets.token_hex(8)}"
        self.links = LinkStages(settings, self._authority, self.id)
        self.tunnels = Tunnels(store, settings.limits)
        self.lease = GatewayLease(settings.limits.lease, self._on_lease_lost)
        self._checks = RightsChecks(self.tunnels, store, settings.limits, self.lease)
        self._billing = Billing(self.id, settings.own_file("usage.json"), self.tunnels.collect)

    async def _serve_while_leased(self, draining: asyncio.Event) -> None:
        """Serve while the gateway has its lease, until cancelled or drained. Raises LeaseLost, Unavailable."""
        async with self.links.serve():
            await self.lease.begin(self._describe(await self.links.open(self.tunnels.find_online)))
            loops.check_before_events(self.lease.check)
            try:
                with contextlib.closing(await self._listen_for_clients()) as clients:
                    await tasks.run_all(*self._work(), self._drain_after(draining, clients))
            except LeaseLost:
                await asyncio.sleep(_NOTICE_TIME)
                for session in list(self.sessions):
                    session.disconnect_after_loss()
                raise
            except _Drained:
                await self._end()
            except BaseException:
                await self._end()
                raise
            finally:
                loops.check_before_events(None)

    async def announce_drain(self, port: int) -> None:
        """Store that the gateway drains, and that Envoy must connect to a new port. Retry until that is stored."""
        gateway = replace(self._describe(port), draining=True)
        await tasks.retry(functools.partial(threads.call, gateways.change, gateway), Unavailable)

    def _work(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the coroutines to run while the gateway has its lease.

        They are the periodic tasks, the wait for the loss of the lease, the metrics, and the billing.
        """
        blocking = PeriodicTask("blocks", self._block, _BLOCKS_PERIOD, failures=Unavailable)
        checks = self._checks.tasks(self.id, Follower(change_log.read_since, time.time()))
        for task in (self.lease.task(), blocking, *checks, *self.tunnels.tasks()):
            yield task.run()
        yield self.lease.wait_for_loss()
        yield self._serve_metrics()
        yield self._billing.serve()

    async def _serve_metrics(self) -> None:
        """Serve metrics and readiness at a Unix socket. If METRICS_BY is "gateway", serve metrics at a port too."""
        settings = self.settings
        process = metrics.ProcessMetrics("gateway", self._gauges, self._counts, log.GATEWAY_EVENTS)
        sockets = settings.gateway_sockets
        server = metrics.serve_at_socket(sockets[settings.instance], process, [self._find_unready])
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(server)
            if settings.metrics_port and settings.metrics_by == "gateway":
                processes = {"gateway": metrics.read_instances(sockets)}
                checks = [functools.partial(metrics.find_unready, "gateway", sockets)]
                at_port = metrics.serve_at_port(settings.metrics_host, settings.metrics_port, processes, checks)
                await stack.enter_async_context(at_port)
            await asyncio.Event().wait()

    def _gauges(self) -> Mapping[str, float]:
        of_drain = self._drain.gauges() if self._drain else {"held": 0}
        lease = {"lease_seconds_left": self.lease.seconds_left, "renewal_seconds": self.lease.renewal_seconds}
        return {**self.tunnels.gauges(), **lease, "draining": int(self._drain is not None), **of_drain}

    def _counts(self) -> Mapping[str, float]:
        of_drain = self._drain.counts() if self._drain else {"handed_over": 0, "handover_failed": 0}
        return {**self.tunnels.counts(), **of_drain}

    async def _find_unready(self) -> str:
        """Return why this gateway is not ready for new clients, or ""."""
        if self._drain:
            return "it drains"
        return "" if self.lease.seconds_left >= self.settings.limits.lease / 3 else "its lease ends"

    async def _listen_for_clients(self) -> asyncio.Server:
        connection = await connection_factory(**self._options())
        accept: Callable[[], asyncio.Protocol] = functools.partial(Admission, self._explain_refusal, connection)
        if proxies := self.settings.ssh_proxy_protocol_from:
            accept = functools.partial(Proxied, Networks(proxies), accept)
        return await listen(accept, self.settings.host, self.settings.ssh_port)

    def _explain_refusal(self, address: str) -> str:
        """Return the sentence that refuses a client, or "" to admit it."""
        if self._blocked.contain(address):
            log.event("sign_in_blocked", address=address)
            return "The operator has blocked your network."
        seconds = self.sign_ins.check_refusal(address)
        if not seconds:
            return ""
        log.event("sign_in_refused", address=address, seconds=round(seconds))
        return f"Too many sign-ins from this network failed: try again in {math.ceil(seconds)} seconds."

    def _options(self) -> dict[str, Any]:
        return {
            "server_factory": self._create_session,
            "server_host_keys": [self._host_key],
            "server_version": "edge",  # by default, asyncssh sends its own name and version
            "login_timeout": self.settings.limits.sign_in_timeout,
            "keepalive_interval": 15,
            "keepalive_count_max": 3,
            "agent_forwarding": False,
            "line_editor": False,
            "compression_algs": None,
            "encryption_algs": _CIPHERS,
            "gss_host": None,
        }

    def _create_session(self) -> Session:
        session = Session(self)
        self.sessions.add(session)
        return session

    def _describe(self, port: int) -> Gateway:
        """Return the record of this gateway for the store. `port` is its port for Envoys on edge hosts."""
        line = self._host_key.export_public_key().decode().strip()
        return Gateway(
            self.id,
            self.settings.hop_host,
            port,
            region=self.settings.region,
            ssh_address=self.settings.public_ssh_address,
            host_keys=(line,),
        )

    async def _block(self) -> None:
        """Read and apply the operator's blocked networks and banned name patterns.

        Close connections from these networks, and tunnels with matching names. If the store fails, the previous
        networks and patterns stay in effect.
        """
        await self.tunnels.ban(await threads.call(bans.list_patterns))
        self._blocked = Networks(network for network, _ in await threads.call(blocks.list_networks))
        for session in [session for session in self.sessions if self._blocked.contain(session.address)]:
            session.block()
        self.tunnels.abort_blocked(self._blocked)  # Envoy does not check the networks of open connections

    async def _drain_after(self, draining: asyncio.Event, clients: asyncio.Server) -> None:
        """Wait until `draining` is set, then drain the gateway.

        Raises _Drained when the drain is complete.
        """
        await draining.wait()
        self._drain = Drain(self, self._authority)
        clients.close()
        await self._drain.run()
        raise _Drained

    def _on_lease_lost(self) -> None:
        """Close all tunnels before any other event is handled.

        Ask the clients to connect again after random pauses.
        """
        for session in self.sessions:
            # announce the loss before `shut`: the terminals of a client end with its last tunnel
            session.announce_loss(random.uniform(0, _MAX_WAIT))
        self.tunnels.shut("its gateway has lost its lease")

    async def _end(self) -> None:
        for session in list(self.sessions):
            session.abort()
        await asyncio.sleep(0)
        await asyncio.gather(*self._closing, return_exceptions=True)
        try:
            await threads.call(gateway_records.withdraw_gateway, self.id)
        except Unavailable:
            log.event("store_away")


def _load_host_key(settings: Settings) -> asyncssh.SSHKey:
    """Return the host key of this gateway. Create it if its file does not exist and SSH_HOST_KEY is not set.

    Raises SettingError.
    """
    file = host_key.private_file(settings)
    if not file.exists() and not settings.ssh_host_key:
        files.replace(file, asyncssh.generate_private_key("ssh-ed25519").export_private_key())
    try:
        key = asyncssh.read_private_key(file)
    except (OSError, asyncssh.KeyImportError) as error:
        raise SettingError(f"SSH_HOST_KEY names {file}, which cannot be read ({error}).") from None
    host_key.write(settings, key.export_public_key().decode().strip())
    return key
