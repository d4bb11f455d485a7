"""The drain of a gateway, step by step. Its tunnels move to the gateways to which their clients connect again."""

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
from edge.store.records import Store

_SETTLE = 1.0  # seconds until all edge hosts use a gateway's new port
_LEAVE_TIME = 5.0  # seconds for edge hosts to stop using the gateway, before its record is removed
_MIN_RATE = 100.0  # at least so many clients are disconnected in a second
_POLL = 0.1  # seconds between two counts of connections


class DrainedGateway(Protocol):
    """The interface of the gateway that a drain uses."""

    settings: Settings
    store: Store
    tunnels: Tunnels
    links: LinkStages

    @property
    def sessions(self) -> Collection[Session]:
        """Return the connections of SSH clients."""

    async def announce_drain(self, port: int) -> None:
        """Store that the gateway drains, and its new port for Envoy."""


class Drain:
    """Drains a gateway: moves its clients, and new connections from Envoy, to other gateways."""

    def __init__(self, gateway: DrainedGateway, authority: Authority) -> None:
        self._gateway, self._limits, self._links = gateway, gateway.settings.limits, gateway.links
        self._handover = Handover(gateway.store, authority, self._limits.max_channels_per_tunnel)

    async def run(self) -> None:
        """Drain the gateway. It must not accept clients any more."""
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
        """Return the current values of metrics, by name."""
        return {"held": self._handover.held}

    def counts(self) -> Mapping[str, float]:
        """Return the totals of metrics, by name."""
        return {"handed_over": self._handover.passed, "handover_failed": self._handover.failed}

    def _find(self, id: str) -> Acceptor | None:
        """Return a tunnel by its id while it is online, or else its HeldTunnel, or None."""
        return self._gateway.tunnels.find_online(id) or self._handover.find(id)

    def _hold(self, id: str) -> Acceptor | None:
        """Return the HeldTunnel of a tunnel by its id, or None. It holds new connections."""
        self._handover.add(self._gateway.tunnels.online)
        return self._handover.find(id)

    async def _wait_for_connections(self, stage: int, seconds: float) -> None:
        """Wait, at most some seconds, until no connection of a stage is open. Then close the remaining connections."""
        start = time.monotonic()
        await _wait_until(lambda: time.monotonic() >= start + _SETTLE and not self._links.count(stage), seconds)
        self._links.close(stage)

    async def _hand_over(self) -> None:
        """Disconnect the clients, and pass on held connections, until every tunnel is online at another gateway."""
        end = time.monotonic() + self._limits.handover_timeout
        following = asyncio.create_task(self._handover.follow())
        try:
            await self._send_clients_away()
            await _wait_until(lambda: self._handover.has_all, end - time.monotonic())
        finally:
            following.cancel()
        self._handover.close_held()

    async def _send_clients_away(self) -> None:
        """Disconnect the clients evenly over half of the handover's time, but at least _MIN_RATE in a second."""
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
        """End the tunnels without a successor, and wait until edge hosts stop using the gateway."""
        await self._gateway.tunnels.close_released(self._handover.find_unsucceeded())
        stages = range(3)
        await _wait_until(lambda: not any(map(self._links.count, stages)), _LEAVE_TIME)


def choose_rate(clients: int, handover_timeout: float) -> float:
    """Return how many clients to disconnect per second. All are disconnected in half of the time, or sooner."""
    return max(_MIN_RATE, clients / (handover_timeout / 2))


async def _wait_until(is_true: Callable[[], bool], seconds: float) -> None:
    """Wait until a condition is true, at most some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not is_true():
        await asyncio.sleep(_POLL)
