"""TCP ports that Envoy opens for tunnels. Refused ports are recorded and tried again."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from chalicelib.model.tunnels import tunnels
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.control.rejections import redact
from edge.envoy.ads.catalog import Name
from edge.envoy.ads.discovery import Discovery
from edge.envoy.resources import PORT_PREFIX
from edge.process.open_ports import OpenPorts
from edge.process.tasks import PeriodicTask
from edge.store import threads
from edge.store.records import Unavailable

# Seconds between two checks of Envoy's answers: if a port is open or refused, and if there is no such port.
_POLL, _IDLE = 0.2, 60.0
_PAUSE = 5.0  # seconds until a refused port is tried again


class Ports:
    """Tracks the TCP ports of tunnels on one edge host. `tunnel_at` returns the tunnel that has a port, or None."""

    def __init__(
        self, discovery: Discovery, tunnel_at: Callable[[str], ServedTunnel | None], opened: OpenPorts
    ) -> None:
        self._discovery, self._tunnel_at, self._opened = discovery, tunnel_at, opened
        self._tunnels: dict[Name, str] = {}  # the id of the tunnel at each open port
        self._refused: set[Name] = set()
        self._tried_at = 0.0
        self._recorded: dict[Name, tuple[str, str]] = {}  # for each port: its tunnel's id, and the stored refusal
        self._task = PeriodicTask("ports", self._check_all, _IDLE)

    def on_answers(self, names: Iterable[Name]) -> None:
        """Handle the resources about which Envoy has sent new answers."""
        ports = {name for name in names if name.kind == "listener" and name.name.startswith(PORT_PREFIX)}
        self._refused |= {name for name in ports if self._discovery.catalog.refusal(name)}
        for name in ports:
            self._record(name)
        if ports:
            self._task.wake()

    def _record(self, name: Name) -> None:
        """Record for the gateway whether a port is open. It is open if Envoy has opened it for a tunnel."""
        port, answer = name.name.removeprefix(PORT_PREFIX), self._discovery.catalog.current_answer(name)
        tunnel = self._tunnel_at(port) if answer and not answer.error else None
        with suppress(OSError):  # a gateway without this record shows the tunnel's address after some seconds anyway
            if tunnel:
                self._tunnels[name] = tunnel.id
                self._opened.add(port, tunnel.id)
            elif self._tunnels.pop(name, None):
                self._opened.remove(port)

    async def serve(self) -> None:
        """Try refused ports again, and record Envoy's answers, until cancelled."""
        self._tried_at = time.monotonic()
        await self._task.run()

    async def _check_all(self) -> float | None:
        """Check the ports. Return the pause until the next check, or None if there are no ports."""
        for name in [port for port in self._tunnels if self._discovery.catalog.version(port) is None]:
            self._record(name)
        for name in list(self._refused):
            await self._check(name)
        if self._refused and time.monotonic() > self._tried_at + _PAUSE:
            self._tried_at = time.monotonic()
            self._discovery.send(self._refused)
        return _POLL if self._tunnels or self._refused else None

    async def _check(self, name: Name) -> None:
        """Record in the store why Envoy refuses a port. Forget the port if it is open or removed."""
        answer = self._discovery.catalog.current_answer(name)
        is_open = answer and await self._record_refusal(name, redact(answer.error, ())) and not answer.error
        if is_open or self._discovery.catalog.version(name) is None:
            self._forget(name)

    async def _record_refusal(self, name: Name, reason: str) -> bool:
        """Record why a tunnel's port is closed, or "" if it is open. Return False if the store is unavailable."""
        tunnel = self._tunnel_at(name.name.removeprefix(PORT_PREFIX))
        before = self._recorded.get(name, ("", ""))
        if tunnel is None or before == (tunnel.id, reason) or (tunnel.id != before[0] and not reason):
            return True
        try:
            await threads.call(tunnels.record_refusal, tunnel, reason)
        except Unavailable:
            return False
        self._recorded[name] = tunnel.id, reason
        return True

    def _forget(self, name: Name) -> None:
        self._refused.discard(name)
        self._recorded.pop(name, None)
