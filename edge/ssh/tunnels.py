"""The tunnels of this process: opened, renewed while they may be, and dropped when their lease is lost.

Fail closed: a tunnel whose lease could not be renewed until its end is dropped, whatever the reason.
"""

import asyncio
import functools
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol
from weakref import WeakValueDictionary

from chalicelib.model import bans
from chalicelib.model.tunnels import Carried, Usage
from edge.link.proxy_protocol import Header
from edge.process import log, memory
from edge.process.settings import Limits
from edge.ssh.buffers import Buffers
from edge.ssh.ledger import Ledger
from edge.ssh.metering import Meter
from edge.ssh.networks import Blocked
from edge.ssh.rights import concerns
from edge.ssh.visitors import gives_way
from edge.store.changes import Follower
from edge.store.records import Grant, NameBanned, Opening, Store, TooManyTunnels, Unavailable

_RENEWALS = 50  # at once: what the store answers for is renewed, whatever becomes of the others
_POLL = 0.5  # seconds between two readings of the log of changes
_TRIM, _TRIM_AFTER = 2.0, 8 << 20  # seconds, and bytes that channels gave back meanwhile
_BANNED = "the operator has banned its name"
_LOOK = 1.0  # seconds between two looks at how slowly bodies come
_OPENINGS = 4  # of one account at once: more would keep the store from others


class ClientGone(Exception):
    """The client has gone while its tunnel waited to be opened."""


class Carrier(Protocol):
    """The SSH connection that carries a tunnel."""

    is_gone: bool

    def connected(
        self, tunnel: "OnlineTunnel", transport: asyncio.Transport, visitor: Header | None
    ) -> asyncio.Protocol:
        """Return the protocol of a new connection for the tunnel."""

    def ended(self, tunnel: "OnlineTunnel", reason: str) -> None:
        """Hear that a tunnel has ended, and why."""

    def refused(self, tunnel: "OnlineTunnel") -> None:
        """Hear that an edge host does not serve a tunnel, for the reason of its `refusal`, or does after all."""


class Joined(Protocol):
    """A connection to a tunnel; `is_live`: it has one of the channels that the tunnel may have."""

    is_live: bool

    @property
    def address(self) -> str:
        """Return that of the visitor of the last request, "" where it is not known."""

    @property
    def visitor(self) -> str:
        """Return that address, of IPv6 its /64."""

    def close(self) -> None:
        """End, once what was written is sent."""

    def give_way(self) -> None:
        """End at once, for another visitor's."""

    def end(self) -> None:
        """End at once."""

    def look(self, seconds: float) -> None:
        """End where for a while its body has come too slowly; so many seconds after the last look."""


@dataclass(eq=False)
class OnlineTunnel:
    """A tunnel that is online through this gateway; `until` is the end of its lease in time.monotonic() seconds."""

    carried: Carried
    opening: Opening
    asked: tuple[str, int]  # as ssh wrote it, which it wants to read again with every connection
    carrier: Carrier
    is_reserved: bool  # its name, when it was opened
    until: float = 0  # on the monotonic clock: when its lease ends
    connections: set[Joined] = field(default_factory=set)
    live: int = 0  # of these
    meter: Meter = field(default_factory=Meter)
    billed: Usage = field(default_factory=Usage)  # of what the meter says
    refusal: str = ""  # why an edge host does not serve it

    @property
    def id(self) -> str:
        return self.carried.id

    @property
    def url(self) -> str:
        return self.opening.url

    def connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        return self.carrier.connected(self, transport, visitor)


class Tunnels:
    """All tunnels of this process, by id."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store, self._limits = store, limits
        self.buffers = Buffers(limits.max_buffer_mib << 20)
        self._online: dict[str, OnlineTunnel] = {}
        self._opening = 0
        self._banned: Sequence[str] = ()
        self._channels: Counter[str] = Counter()  # by account
        self._to_bill: list[tuple[str, Usage]] = []  # of tunnels that have ended
        self._used = Usage()  # by tunnels that have ended
        self._refused = self._given_way = 0  # channels
        self.bodies_too_slow = 0
        self._ending: Counter[str] = Counter()  # by account: given back, but not closed by the SSH client yet
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._thread = ThreadPoolExecutor(1)  # of renewals alone, which wait for nobody

    def __len__(self) -> int:
        return len(self._online)

    def collect(self, ledger: Ledger, hour: str) -> None:
        """Add to a ledger what was carried since this was last called."""
        for account, usage in self._to_bill:
            ledger.add(account, hour, usage)
        self._to_bill.clear()
        for tunnel in self._online.values():
            if not tunnel.meter.rests_at(tunnel.billed):
                ledger.add(tunnel.carried.account, hour, _unbilled(tunnel))

    def gauges(self) -> Mapping[str, float]:
        """Return the present values, by the names of metrics."""
        live = sum(tunnel.live for tunnel in self._online.values())
        return {
            "tunnels": len(self),
            "channels": live,
            "buffer_bytes": self.buffers.taken,
            "buffer_limit_bytes": self.buffers.most,
        }

    def counts(self) -> Mapping[str, float]:
        """Return the totals since the start, by the names of metrics."""
        used = [self._used, *(tunnel.meter.usage() for tunnel in self._online.values())]
        return {
            "requests": sum(it.requests for it in used),
            "received_bytes": sum(it.bytes_in for it in used),
            "sent_bytes": sum(it.bytes_out for it in used),
            "channels_refused": self._refused,
            "channels_given_way": self._given_way,
            "bodies_too_slow": self.bodies_too_slow,
        }

    def find(self, id: str) -> OnlineTunnel | None:
        """Return the tunnel of an id, in any case: a TLS server name does not keep it. None if there is none."""
        return self._online.get(id.lower())

    def take_channel(self, tunnel: OnlineTunnel) -> None:
        """Count a channel of a tunnel and its account."""
        tunnel.live += 1
        self._channels[tunnel.carried.account] += 1

    def give_channel_back(self, tunnel: OnlineTunnel) -> None:
        """Count one less."""
        tunnel.live -= 1
        _count_less(self._channels, tunnel.carried.account)

    def ended(self, account: str) -> None:
        """Hear that the SSH client has closed a channel that gave way."""
        _count_less(self._ending, account)

    def has_room(self, tunnel: OnlineTunnel) -> bool:
        """Tell whether a tunnel and its account may have one more."""
        of_account, limits = self._channels[tunnel.carried.account], self._limits
        return of_account < limits.max_channels_per_account and tunnel.live < limits.max_channels_per_tunnel

    def make_room(self, tunnel: OnlineTunnel, visitor: str) -> bool:
        """End a connection of whoever has most, of a full tunnel or account; tell whether there is room then."""
        account, limits = tunnel.carried.account, self._limits
        if tunnel.live >= limits.max_channels_per_tunnel:
            return self._one_gives_way(tunnel.connections, account, visitor)
        if self._channels[account] >= limits.max_channels_per_account:
            of_account = [it for it in self._online.values() if it.carried.account == account]
            return self._one_gives_way([it for each in of_account for it in each.connections], account, visitor)
        return True

    def _one_gives_way(self, connections: Iterable[Joined], account: str, visitor: str) -> bool:
        live = [it for it in connections if it.is_live]
        whose = gives_way(Counter(it.visitor for it in live), visitor)
        if whose is None or self._ending[account] >= self._limits.max_channels_per_account:
            self._refused += 1
            return False
        self._given_way += 1
        self._ending[account] += 1
        random.choice([it for it in live if it.visitor == whose]).give_way()
        return True

    async def ban(self, patterns: Sequence[str]) -> None:
        """Refuse the names that match a pattern from now on, and take the tunnels offline that have one."""
        if patterns == self._banned:
            return
        self._banned = patterns
        concerned = [it for it in self._online.values() if self._is_banned(it.carried.name)]
        await asyncio.gather(*(self.close(it, _BANNED) for it in concerned))

    def _is_banned(self, name: str) -> bool:
        return bool(name) and bans.matches(name, self._banned)

    async def open(self, opening: Opening, asked: tuple[str, int], carrier: Carrier) -> OnlineTunnel:
        """Bring a tunnel online; raise what Store.open raises, and ClientGone."""
        if self._is_banned(opening.name):
            raise NameBanned
        if len(self._online) + self._opening >= self._limits.max_tunnels_per_gateway:
            raise TooManyTunnels
        self._opening += 1
        try:
            async with self._turn(opening.grant.account):
                if carrier.is_gone:
                    raise ClientGone
                began = time.monotonic()
                leased, is_reserved = await asyncio.to_thread(self._open, opening)
        finally:
            self._opening -= 1
        tunnel = OnlineTunnel(leased, opening, asked, carrier, is_reserved, began + self._limits.lease)
        before = [other for other in self._online.values() if opening.name and other.carried.name == opening.name]
        self._online[tunnel.id.lower()] = tunnel
        log.event("tunnel_opened", **_said(tunnel))
        if self._is_banned(opening.name):  # since it was asked for
            await self.close(tunnel, _BANNED)
            raise NameBanned
        for other in before:
            await self.close(other, "another connection with the same credential has it now")
        return tunnel

    async def free_address(self, account: str, addresses: Sequence[str]) -> str | None:
        """Return an address for an account that nobody has, None where there is none. Raises Unavailable."""
        async with self._turn(account):
            return await asyncio.to_thread(self._store.free_address, account, addresses)

    async def close(self, tunnel: OnlineTunnel, reason: str) -> None:
        """Take a tunnel offline; its name is free when this returns, or at its lease's end where the store is away."""
        if self._drop(tunnel, reason):
            try:
                await asyncio.to_thread(self._store.close, tunnel.carried, tunnel.meter.usage())
            except Unavailable:
                log.event("tunnel_left_to_its_lease", **_said(tunnel))

    async def renew_for_ever(self) -> None:
        """Renew all leases, three times within each; where the store did not answer, again in a moment."""
        pause = self._limits.lease / 3
        while True:
            await asyncio.sleep(pause)
            pause = self._limits.lease / 3 if await self.renew() else min(1, pause)

    async def renew(self) -> bool:
        """Renew the leases, some at once; False when the store did not answer for all.

        Drops the tunnels whose lease is lost or whose credential may no longer.
        """
        answered, online = True, list(self._online.values())
        for start in range(0, len(online), _RENEWALS):
            try:
                await self._renew_some(online[start : start + _RENEWALS])
            except Unavailable:
                log.event("store_away")
                answered = False
        return answered

    async def _renew_some(self, online: Sequence[OnlineTunnel]) -> None:
        began = time.monotonic()
        lost = await asyncio.get_running_loop().run_in_executor(self._thread, self._renew, online)
        for tunnel in online:
            if tunnel.id in lost:
                await self.close(tunnel, "its credential, its lease or its right to the name is gone")
            else:
                tunnel.until = began + self._limits.lease

    async def follow_for_ever(self, follower: Follower) -> None:
        """Renew at once what a change in the records may have ended, so that it ends within a second."""
        changed: set[str] = set()  # whose refusals are to be read, also those that the store did not tell
        while True:
            await asyncio.sleep(_POLL)
            with suppress(Unavailable):  # the next renewal finds what has ended
                changes = await asyncio.to_thread(follower.read, time.time())
                places = {place for change in changes for place in change.places}
                changed |= {place.id for place in places}
                concerned = [it for it in self._online.values() if any(concerns(place, it.carried) for place in places)]
                for start in range(0, len(concerned), _RENEWALS):
                    await self._renew_some(concerned[start : start + _RENEWALS])
                await self._read_refusals(filter(None, map(self.find, changed)))
                changed.clear()

    async def _read_refusals(self, tunnels: Iterable[OnlineTunnel]) -> None:
        """Read whether an edge host has the ports of tunnels; report to their clients what has changed."""
        for tunnel in [it for it in tunnels if it.carried.proto == "tcp"]:
            reason = await asyncio.to_thread(self._store.read_refusal, tunnel.carried)
            if reason != tunnel.refusal and self.find(tunnel.id):
                tunnel.refusal = reason
                tunnel.carrier.refused(tunnel)

    async def trim_for_ever(self) -> None:
        """Return memory to the system when channels have given some back."""
        known = 0
        while True:
            await asyncio.sleep(_TRIM)
            if self.buffers.given_back - known > _TRIM_AFTER:
                known = self.buffers.given_back
                memory.trim()

    def end_visits(self, blocked: Blocked) -> None:
        """End the connections of blocked visitors."""
        for tunnel in self._online.values():
            for connection in [it for it in tunnel.connections if blocked.holds(it.address)]:
                connection.end()

    async def look_at_bodies_for_ever(self) -> None:
        """End what visitors send too slowly."""
        while True:
            await asyncio.sleep(_LOOK)
            for tunnel in self._online.values():
                for connection in list(tunnel.connections):
                    connection.look(_LOOK)

    async def watch_leases_for_ever(self) -> None:
        """Drop what has lost its lease, each second: also while the store does not answer."""
        while True:
            await asyncio.sleep(1)
            self.drop_lapsed(time.monotonic())

    def drop_lapsed(self, now: float) -> None:
        """Drop the tunnels whose lease has ended at a moment of the monotonic clock."""
        for tunnel in [tunnel for tunnel in self._online.values() if tunnel.until <= now]:
            self._drop(tunnel, "its lease has ended")

    def _turn(self, account: str) -> asyncio.Semaphore:
        return self._turns.setdefault(account, asyncio.Semaphore(_OPENINGS))

    def _open(self, opening: Opening) -> tuple[Carried, bool]:
        most, account, name = self._limits.max_tunnels_per_account, opening.grant.account, opening.name
        is_reserved = bool(name) and self._store.is_reserved(account, name)
        if is_reserved and self._store.wants_proxy_protocol(account, name):
            opening = replace(opening, proxy_protocol=True)
        return self._store.open(opening, lease=self._limits.lease, most=most), is_reserved

    def _renew(self, tunnels: Sequence[OnlineTunnel]) -> frozenset[str]:
        """Renew what is still permitted; return the ids of the others and of those that are lost."""
        again = functools.cache(self._store.refresh_grant)
        kept = [tunnel for tunnel in tunnels if _permits(again(tunnel.opening.grant), tunnel.opening)]
        gone = {tunnel.id for tunnel in tunnels} - {tunnel.id for tunnel in kept}
        return self._store.renew([tunnel.carried for tunnel in kept], lease=self._limits.lease) | gone

    def _drop(self, tunnel: OnlineTunnel, reason: str) -> bool:
        if self._online.pop(tunnel.id.lower(), None) is None:
            return False
        log.event("tunnel_closed", **_said(tunnel), reason=reason)
        self._used = self._used + tunnel.meter.usage()
        self._to_bill.append((tunnel.carried.account, _unbilled(tunnel)))
        for connection in list(tunnel.connections):
            connection.close()
        tunnel.carrier.ended(tunnel, reason)
        return True


def _unbilled(tunnel: OnlineTunnel) -> Usage:
    """Return the traffic of a tunnel since this was last asked."""
    before, tunnel.billed = tunnel.billed, tunnel.meter.usage()
    return tunnel.billed - before


def _count_less(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def _permits(grant: Grant | None, opening: Opening) -> bool:
    return grant is not None and all(map(grant.permits, opening.targets))


def _said(tunnel: OnlineTunnel) -> dict[str, str]:
    grant = tunnel.opening.grant
    who = {"session": tunnel.opening.session, "account": grant.account, "credential": grant.credential}
    return {**who, "tunnel": tunnel.id, "url": tunnel.url}
