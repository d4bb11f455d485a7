"""Opens, finds, counts and closes the online tunnels of this process."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from weakref import WeakValueDictionary

from chalicelib.model.names import bans, base_names
from chalicelib.model.tunnels import tunnels
from chalicelib.model.tunnels.tunnels import ServedTunnel, Traffic
from edge.networks import Networks
from edge.process import log, memory
from edge.process.settings import Limits
from edge.process.tasks import PeriodicTask
from edge.ssh.channel_quota import ChannelQuota
from edge.ssh.data.buffers import Buffers
from edge.ssh.online_tunnel import OnlineTunnel, TunnelSession
from edge.ssh.usage.ledger import Ledger
from edge.store import threads
from edge.store.records import NameBanned, Opening, TooManyTunnels, Unavailable
from edge.store.table import Store

_TRIM_PERIOD = 2.0  # seconds between two calls of `_trim`
_TRIM_THRESHOLD = 8 << 20  # bytes of released buffers after which `_trim` returns memory to the system
_BANNED = "the operator has banned its name"
_CHECK_PERIOD = 1.0  # seconds between two checks of visitors' connections
_MAX_OPENINGS = 4  # maximum tunnels that an account opens at the same time, so that other accounts do not wait long


class ClientGone(Exception):
    """The client disconnected while its tunnel was being opened."""


class Tunnels:
    """All tunnels of this process, by id."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store, self._limits = store, limits
        self.buffers = Buffers(limits.max_buffer_mib << 20)
        self._online: dict[str, OnlineTunnel] = {}
        self._released: dict[str, OnlineTunnel] = {}  # tunnels that are moving to another gateway in a drain
        self.channels = ChannelQuota(self._online, limits)
        self._opening = self._trimmed_at = 0
        self._is_shut = False
        self._unrecorded: dict[str, Traffic] = {}  # by id of a closed tunnel: usage that the store has not received
        self._banned: Sequence[str] = ()
        self._to_bill: list[tuple[str, Traffic]] = []  # usage of closed tunnels for the next `collect`
        self._closed_usage = Traffic()  # the total usage of all closed tunnels
        self.bodies_too_slow = 0
        # by account: limits how many tunnels the account opens at the same time
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._online)

    @property
    def online(self) -> list[OnlineTunnel]:
        return list(self._online.values())

    def collect(self, ledger: Ledger, hour: str) -> None:
        """Add the traffic of all tunnels since the previous call of `collect` to the ledger.

        The ledger counts this traffic in the hour `hour`.
        """
        for account, usage in self._to_bill:
            ledger.add(account, hour, usage)
        self._to_bill.clear()
        for tunnel in self._online.values():
            if not tunnel.meter.has_same_bytes(tunnel.billed_usage):
                ledger.add(tunnel.record.account, hour, tunnel.take_unbilled_usage())

    def gauges(self) -> Mapping[str, float]:
        """Return the current values of the gauges for tunnels, by metric name."""
        return {
            "tunnels": len(self),
            "tunnel_limit": self._limits.max_tunnels_per_gateway,
            "lease_limit_seconds": self._limits.lease,
            "channels": sum(tunnel.open_channels for tunnel in self._online.values()),
            "buffer_bytes": self.buffers.usage,
            "buffer_limit_bytes": self.buffers.total,
        }

    def counts(self) -> Mapping[str, float]:
        """Return the totals of the counters for tunnels since the start, by metric name."""
        usages = [self._closed_usage, *(tunnel.meter.usage() for tunnel in self._online.values())]
        return {
            "requests": sum(usage.requests for usage in usages),
            "received_bytes": sum(usage.bytes_in for usage in usages),
            "sent_bytes": sum(usage.bytes_out for usage in usages),
            "channels_refused": self.channels.refusals,
            "channels_given_way": self.channels.evictions,
            "bodies_too_slow": self.bodies_too_slow,
        }

    def find(self, id: str) -> OnlineTunnel | None:
        """Return the tunnel with an id if it is online or moving to another gateway, or None.

        The id is compared without case, because Envoys send it as a TLS server name.
        """
        return self._online.get(id.lower()) or self._released.get(id.lower())

    def find_online(self, id: str) -> OnlineTunnel | None:
        """Return the online tunnel with an id, or None. The id is compared without case."""
        return self._online.get(id.lower())

    async def ban(self, patterns: Sequence[str]) -> None:
        """Close the tunnels with names that match any of the operator's patterns.

        Refuse tunnels with such names from now on.
        """
        if patterns == self._banned:
            return
        self._banned = patterns
        matching = [tunnel for tunnel in self._online.values() if self._is_banned(tunnel.record.name)]
        await asyncio.gather(*(self.close(tunnel, _BANNED) for tunnel in matching))

    def _is_banned(self, name: str) -> bool:
        return bool(name) and bans.matches(name, self._banned)

    async def open(self, opening: Opening, requested_address: tuple[str, int], session: TunnelSession) -> OnlineTunnel:
        """Open a tunnel. Raises ClientGone, and all errors that `Store.open` raises."""
        if self._is_shut:
            raise Unavailable("this gateway opens no tunnels, because its lease in the store has expired")
        if self._is_banned(opening.name):
            raise NameBanned
        record, is_reserved = await self._open_in_turn(opening, session)
        tunnel = OnlineTunnel(record, opening, requested_address, session, is_reserved)
        if self._is_shut:  # the lease was lost during the call to the store
            with suppress(Unavailable):
                await threads.call(tunnels.close_tunnel, record.account, record.id, usage=Traffic())
            raise Unavailable("this gateway opens no tunnels, because its lease in the store has expired")
        replaced = [other for other in self._online.values() if opening.name and other.record.name == opening.name]
        self._online[tunnel.id.lower()] = tunnel
        log.event("tunnel_opened", **tunnel.log_fields())
        if self._is_banned(opening.name):  # the name was banned during the call to the store
            await self.close(tunnel, _BANNED)
            raise NameBanned
        for other in replaced:
            await self.close(other, "another connection with the same credential has taken its name")
        return tunnel

    async def find_free_address(self, account: str, addresses: Sequence[str]) -> str | None:
        """Return a random address that the account can use, or None. Raises Unavailable."""
        async with self._turn(account):
            return await threads.call(base_names.find_free_address, account, addresses)

    async def close(self, tunnel: OnlineTunnel, reason: str) -> None:
        """Take a tunnel offline and free its name.

        If the store does not answer, the tunnel's record remains until the next `RightsChecks.check_list` ends it.
        """
        if self._drop(tunnel, reason):
            await self._record_end(tunnel)

    async def _record_end(self, tunnel: OnlineTunnel) -> None:
        try:
            await threads.call(tunnels.close_tunnel, tunnel.record.account, tunnel.id, usage=tunnel.meter.usage())
        except Unavailable:
            log.event("tunnel_left_to_its_lease", **tunnel.log_fields())
            self._unrecorded[tunnel.id] = tunnel.meter.usage()

    def has(self, id: str) -> bool:
        """Return whether the tunnel with an id is online or released.

        A released tunnel is moving to another gateway in a drain.
        """
        return id.lower() in self._online or id.lower() in self._released

    async def close_leftover(self, record: ServedTunnel) -> None:
        """End the record of a tunnel that this gateway does not serve any more. Raises Unavailable."""
        await threads.call(
            tunnels.close_tunnel, record.account, record.id, usage=self._unrecorded.get(record.id, Traffic())
        )
        self._unrecorded.pop(record.id, None)

    def shut(self, reason: str) -> None:
        """Stop serving all tunnels, without a call to the store. Open no further tunnels."""
        self._is_shut = True
        for tunnel in self.online:
            for connection in list(tunnel.connections):
                connection.abort()
            self._drop(tunnel, reason)

    def tasks(self) -> tuple[PeriodicTask, ...]:
        """Return two periodic tasks: one returns freed memory to the system, the other checks connections."""
        return (
            PeriodicTask("memory", self._trim, _TRIM_PERIOD),
            PeriodicTask("connections", self._check_connections, _CHECK_PERIOD),
        )

    async def _trim(self) -> None:
        """Return memory to the system if channels have released many buffers."""
        if self.buffers.released - self._trimmed_at > _TRIM_THRESHOLD:
            self._trimmed_at = self.buffers.released
            memory.trim()

    def abort_blocked(self, blocked: Networks) -> None:
        """Abort the connections of visitors from blocked networks."""
        for tunnel in self._online.values():
            for connection in [connection for connection in tunnel.connections if blocked.contain(connection.address)]:
                connection.abort()

    async def _check_connections(self) -> None:
        """Abort connections with visitors that have left or send a request body too slowly."""
        for tunnel in self._online.values():
            for connection in list(tunnel.connections):
                connection.check(_CHECK_PERIOD)

    async def _open_in_turn(self, opening: Opening, session: TunnelSession) -> tuple[ServedTunnel, bool]:
        """Open a tunnel in the store. An account can open only a few tunnels at the same time.

        Return the record of the tunnel, and whether its name is reserved.
        """
        if len(self._online) + self._opening >= self._limits.max_tunnels_per_gateway:
            raise TooManyTunnels
        self._opening += 1
        try:
            async with self._turn(opening.grant.account):
                if session.is_gone:
                    raise ClientGone
                return await threads.call(self._open_in_store, opening)
        finally:
            self._opening -= 1

    def _turn(self, account: str) -> asyncio.Semaphore:
        return self._turns.setdefault(account, asyncio.Semaphore(_MAX_OPENINGS))

    def _open_in_store(self, opening: Opening) -> tuple[ServedTunnel, bool]:
        limit, account, name = self._limits.max_tunnels_per_account, opening.grant.account, opening.name
        is_reserved = bool(name) and self._store.is_reserved(account, name)
        if is_reserved and self._store.wants_proxy_protocol(account, name):
            opening = replace(opening, proxy_protocol=True)
        return self._store.open(opening, most=limit), is_reserved

    def release(self, tunnel: OnlineTunnel) -> None:
        """Stop serving a tunnel because the gateway drains.

        The tunnel's record stays in the store, so that the client can open the same name at another gateway.
        """
        if self._forget(tunnel, "its gateway drains"):
            self._released[tunnel.id.lower()] = tunnel

    async def close_released(self, tunnels: Iterable[OnlineTunnel]) -> None:
        """End the records of released tunnels that their clients have not opened at another gateway."""
        await asyncio.gather(*map(self._record_end, tunnels))

    def _drop(self, tunnel: OnlineTunnel, reason: str) -> bool:
        is_online = self._forget(tunnel, reason)
        if is_online:
            tunnel.session.on_tunnel_end(tunnel, reason)
        return is_online

    def _forget(self, tunnel: OnlineTunnel, reason: str) -> bool:
        """Remove a tunnel from the online tunnels, and close its connections.

        Return False if the tunnel was not online.
        """
        if self._online.pop(tunnel.id.lower(), None) is None:
            return False
        log.event("tunnel_closed", **tunnel.log_fields(), reason=reason)
        self._closed_usage = self._closed_usage + tunnel.meter.usage()
        self._to_bill.append((tunnel.record.account, tunnel.take_unbilled_usage()))
        for connection in list(tunnel.connections):
            connection.close()
        return True
