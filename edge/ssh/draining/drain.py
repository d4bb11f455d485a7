"""The steps of a gateway's drain. Its tunnels move to the gateways to which their clients connect again.

First, Envoy's open connections get some time to end. Then, new connections are held: accepted, but not passed on. The
clients are disconnected, connect to other gateways, and open their tunnels there. The held connections are passed to
these tunnels.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from edge.link.authority import Authority
from edge.link.server import Acceptor
from edge.process import log
from edge.process.settings import Settings
from edge.ssh.draining.handover import Handover
from edge.ssh.draining.link_stages import LinkStages
from edge.ssh.session import Session
from edge.ssh.tunnels import Tunnels
from edge.store.table import Store

_SETTLE = 1.0  # seconds until all edge hosts use a gateway's new port
_LEAVE_TIME = 5.0  # seconds that edge hosts have to close their connections before the gateway's record is removed
_MIN_RATE = 100.0  # minimum number of clients that are disconnected per second
_POLL = 0.1  # seconds between two checks in `_wait_until`


class DrainedGateway(Protocol):
    """The methods and attributes of the gateway that a Drain uses."""

    settings: Settings
    store: Store
    tunnels: Tunnels
    links: LinkStages

    @property
    def sessions(self) -> Collection[Session]:
        """Return the SSH connections of the gateway's clients."""

    async def announce_drain(self, port: int) -> None:
        """Store that the gateway drains, and that Envoy must connect to a new port."""


class Drain:
    """Drains a gateway: moves its clients, and new connections from Envoy, to other gateways."""

    def __init__(self, gateway: DrainedGateway, authority: Authority) -> None:
        self._gateway, self._limits, self._links = gateway, gateway.settings.limits, gateway.links
        self._handover = Handover(authority, self._limits.max_channels_per_tunnel)

    async def run(self) -> None:
        """Drain the gateway. The caller must have stopped accepting clients."""
        log.event("drain_began", tunnels=len(self._gateway.tunnels))
        for session in list(self._gateway.sessions):
            session.announce_drain()
        await self._gateway.announce_drain(await self._links.open(self._find))
        await self._wait_for_connections(0, self._limits.drain_timeout)
        await self._gateway.announce_drain(await self._links.open(self._hold))
        await self._wait_for_connections(1, self._limits.switch_timeout)
        await self._hand_over()
        await self._leave()
        log.event("drain_ended", **self.counts())

    def gauges(self) -> Mapping[str, float]:
        """Return the current values of the drain's gauges, by metric name."""
        return {"held": self._handover.held_count}

    def counts(self) -> Mapping[str, float]:
        """Return the totals of the drain's counters, by metric name."""
        return {"handed_over": self._handover.passed, "handover_failed": self._handover.failed}

    def _find(self, id: str) -> Acceptor | None:
        """Return the tunnel with an id if it is online. Otherwise, return its HeldTunnel, or None."""
        return self._gateway.tunnels.find_online(id) or self._handover.find(id)

    def _hold(self, id: str) -> Acceptor | None:
        """Hold new connections to all online tunnels from now on. Return the HeldTunnel with an id, or None."""
        self._handover.add(self._gateway.tunnels.online)
        return self._handover.find(id)

    async def _wait_for_connections(self, stage: int, seconds: float) -> None:
        """Wait at most `seconds` until Envoy's connections of a drain stage have ended.

        Then close the connections of this stage that are still open.
        """
        start = time.monotonic()
        await _wait_until(lambda: time.monotonic() >= start + _SETTLE and not self._links.count(stage), seconds)
        self._links.close(stage)

    async def _hand_over(self) -> None:
        """Disconnect the clients, and pass on held connections.

        Stop when every tunnel is online at another gateway, or after the handover timeout. Then close connections that
        are still held.
        """
        end = time.monotonic() + self._limits.handover_timeout
        following = asyncio.create_task(self._handover.follow())
        try:
            await self._send_clients_away()
            await _wait_until(lambda: self._handover.has_all, end - time.monotonic())
        finally:
            following.cancel()
        self._handover.close_held()

    async def _send_clients_away(self) -> None:
        """Disconnect all clients, evenly over half of the handover timeout, but at least _MIN_RATE per second."""
        sessions = list(self._gateway.sessions)
        rate = choose_rate(len(sessions), self._limits.handover_timeout)
        start = time.monotonic()
        for number, session in enumerate(sessions):
            self._handover.add(session.online)
            for tunnel in session.online:
                self._gateway.tunnels.release(tunnel)
            session.send_away()
            await asyncio.sleep(start + number / rate - time.monotonic())

    async def _leave(self) -> None:
        """End the tunnels that are not online at another gateway.

        Then wait at most _LEAVE_TIME seconds until no edge host has a connection to this gateway.
        """
        await self._gateway.tunnels.close_released(self._handover.find_unsucceeded())
        stages = range(3)
        await _wait_until(lambda: not any(map(self._links.count, stages)), _LEAVE_TIME)


def choose_rate(clients: int, handover_timeout: float) -> float:
    """Return how many clients to disconnect per second.

    All clients are disconnected within half of the handover timeout.
    """
    return max(_MIN_RATE, clients / (handover_timeout / 2))


async def _wait_until(is_true: Callable[[], bool], seconds: float) -> None:
    """Wait at most `seconds` until a condition is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not is_true():
        await asyncio.sleep(_POLL)
