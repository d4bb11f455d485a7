"""The SSH gateway of a process: where clients come in, and where Envoy reaches their tunnels."""

import asyncio
import contextlib
import functools
import math
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncssh

from chalicelib.model.gateways import Gateway
from edge.link import server as link
from edge.link import sockets
from edge.link.authority import Authority
from edge.process import files, host_key, log, metrics
from edge.process.settings import Settings
from edge.ssh.admission import Admission, listen
from edge.ssh.asyncssh_internals import connection_factory
from edge.ssh.billing import Billing
from edge.ssh.networks import Blocked
from edge.ssh.session import Session
from edge.ssh.sign_ins import SignIns
from edge.ssh.tunnels import OnlineTunnel, Tunnels
from edge.store.changes import Follower
from edge.store.records import Store, Unavailable

_BLOCKS = 2.0  # seconds between two readings of the blocked networks and banned patterns
_THREADS = 64  # that may wait for the store
# Without ChaCha20, which ssh would choose: it costs twice the time here. Every ssh of ten years has the others.
_CIPHERS = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr"]


class Server:
    """The gateway; its id is new with each start, since what it carried has ended with it."""

    def __init__(self, settings: Settings, store: Store, authority: Authority) -> None:
        self.settings, self.store = settings, store
        self.id = f"gw-{secrets.token_hex(8)}"
        self.sign_ins = SignIns(settings.limits)
        self.tunnels = Tunnels(store, settings.limits)
        usage = settings.directory / "usage.json"
        self._billing = Billing(store, self.id, usage, self.tunnels.collect)
        self._authority = authority
        self._host_key = _host_key(settings)
        self._blocked = Blocked()
        self._sessions: set[Session] = set()
        self._closing: set[asyncio.Task[None]] = set()

    def close(self, tunnel: OnlineTunnel, reason: str) -> None:
        """Take a tunnel offline in a task of its own; its client is told the reason."""
        task = asyncio.create_task(self.tunnels.close(tunnel, reason))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def gone(self, session: Session) -> None:
        """Hear that a session has ended."""
        self._sessions.discard(session)

    async def serve(self) -> None:
        """Serve until cancelled; the tunnels are taken offline then."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
        socket = self.settings.link_socket(self.id)
        sockets.remove_stale(socket.parent.glob("gw-*.sock"))
        near = link.serve_locally(socket, self.tunnels.find)
        async with await self._listen_for_envoy() as inner, near, await self._listen_for_clients():
            here = Gateway(self.id, self.settings.hop_host, inner.sockets[0].getsockname()[1])
            await asyncio.to_thread(self._announce, here)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._announce_for_ever(here))
                    tasks.create_task(self.tunnels.renew_for_ever())
                    tasks.create_task(self.tunnels.follow_for_ever(Follower(self.store, time.time())))
                    tasks.create_task(self.tunnels.watch_leases_for_ever())
                    tasks.create_task(self.tunnels.trim_for_ever())
                    tasks.create_task(self.tunnels.look_at_bodies_for_ever())
                    tasks.create_task(self._block_for_ever())
                    tasks.create_task(self._answer_of_metrics())
                    tasks.create_task(self._billing.write_for_ever())
            finally:
                await self._end()

    async def _answer_of_metrics(self) -> None:
        """Tell Prometheus, or the control of this host, what is counted here."""
        settings, tunnels = self.settings, self.tunnels
        process = metrics.Process("gateway", tunnels.gauges, tunnels.counts, log.OF_GATEWAY)
        if not settings.metrics_port:
            return
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(metrics.at_socket(settings.gateway_socket, process))
            if settings.metrics_by == "gateway":
                at_port = metrics.at_port(settings.metrics_host, settings.metrics_port, {"gateway": process.read})
                await stack.enter_async_context(at_port)
            await asyncio.Event().wait()

    async def _listen_for_envoy(self) -> asyncio.Server:
        settings = self.settings
        server = await link.serve(self._authority, self.id, settings.hop_host, settings.hop_port, self.tunnels.find)
        sockets.set_options(server.sockets, settings.limits.max_socket_kib << 10)
        return server

    async def _listen_for_clients(self) -> asyncio.Server:
        connection = await connection_factory(**self._options())
        admission = functools.partial(Admission, self._refusal, connection)
        return await listen(admission, self.settings.host, self.settings.ssh_port)

    def _refusal(self, address: str) -> str:
        """Return the refusal of a connection from an address, "" where it may sign in."""
        if self._blocked.holds(address):
            log.event("sign_in_blocked", address=address)
            return "This network is blocked here."
        seconds = self.sign_ins.refuses(address)
        if not seconds:
            return ""
        log.event("sign_in_refused", address=address, seconds=round(seconds))
        return f"Too many sign-ins from this network came to nothing: try again in {math.ceil(seconds)} seconds."

    def _options(self) -> dict[str, Any]:
        return {
            "server_factory": self._session,
            "server_host_keys": [self._host_key],
            "server_version": "edge",  # not which program it is, and of which version
            "login_timeout": self.settings.limits.sign_in_timeout,
            "keepalive_interval": 15,
            "keepalive_count_max": 3,
            "agent_forwarding": False,
            "line_editor": False,
            "compression_algs": None,
            "encryption_algs": _CIPHERS,
            "gss_host": None,
        }

    def _session(self) -> Session:
        session = Session(self)
        self._sessions.add(session)
        return session

    def _announce(self, here: Gateway) -> None:
        self.store.announce(here, lease=self.settings.limits.lease)

    async def _announce_for_ever(self, here: Gateway) -> None:
        while True:
            await asyncio.sleep(self.settings.limits.lease / 3)
            try:
                await asyncio.to_thread(self._announce, here)
            except Unavailable:
                log.event("store_away")

    async def _block_for_ever(self) -> None:
        """Read the operator's blocks and bans, and end the connections and tunnels that they concern."""
        while True:
            with contextlib.suppress(Unavailable):  # what is known stays
                await self.tunnels.ban(await asyncio.to_thread(self.store.banned_patterns))
                self._blocked = Blocked(await asyncio.to_thread(self.store.blocked))
                for session in [it for it in self._sessions if self._blocked.holds(it.address)]:
                    session.block()
                self.tunnels.end_visits(self._blocked)  # also new ones, until Envoy refuses them
            await asyncio.sleep(_BLOCKS)

    async def _end(self) -> None:
        for session in list(self._sessions):
            session.end()
        await asyncio.sleep(0)
        await asyncio.gather(*self._closing, return_exceptions=True)
        try:
            await asyncio.to_thread(self.store.withdraw, self.id)
        except Unavailable:
            log.event("store_away")


def _host_key(settings: Settings) -> asyncssh.SSHKey:
    """Return the key by which clients recognise this gateway. Make it first if there is none."""
    file = host_key.private_file(settings)
    if not file.exists():
        files.replace(file, asyncssh.generate_private_key("ssh-ed25519").export_private_key())
    key = asyncssh.read_private_key(file)
    host_key.write(settings, key.export_public_key().decode().strip())
    return key
