"""The ports that Envoy opens for tunnels: recorded when open; if the system refuses them, noted and tried again."""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from chalicelib.model.tunnels import Carried
from edge.control.catalog import Name
from edge.control.discovery import Discovery
from edge.control.status import cleaned
from edge.process.open_ports import OpenPorts
from edge.store.records import Store, Unavailable
from edge.traffic.resources import PORT_PREFIX

_POLL = 0.2  # seconds between two looks at Envoy's answers
_PAUSE = 5.0  # seconds between two attempts


class Ports:
    """The ports of one edge host. `tunnel_at` returns the tunnel of a port, None where that is no tunnel's."""

    def __init__(
        self, store: Store, discovery: Discovery, tunnel_at: Callable[[str], Carried | None], opened: OpenPorts
    ) -> None:
        self._store, self._discovery, self._tunnel_at, self._opened = store, discovery, tunnel_at, opened
        self._tunnels: dict[Name, str] = {}  # of the open ports
        self._refused: set[Name] = set()
        self._noted: dict[Name, tuple[str, str]] = {}  # the tunnel, and the reason

    def hear(self, names: Iterable[Name]) -> None:
        """Hear to which resources Envoy has given another answer."""
        ports = {it for it in names if it.kind == "listener" and it.name.startswith(PORT_PREFIX)}
        self._refused |= {it for it in ports if self._discovery.catalog.refusal(it)}
        for name in ports:
            self._record(name)

    def _record(self, name: Name) -> None:
        """Record the tunnel for which a port is open now, or that it is open for none."""
        port, answer = name.name.removeprefix(PORT_PREFIX), self._discovery.catalog.answered(name)
        tunnel = self._tunnel_at(port) if answer and not answer.error else None
        with suppress(OSError):  # the gateway stops waiting
            if tunnel:
                self._tunnels[name] = tunnel.id
                self._opened.add(port, tunnel.id)
            elif self._tunnels.pop(name, None):
                self._opened.remove(port)

    async def serve(self) -> None:
        """Send refused ports to Envoy again, note each answer and forget closed ports, until cancelled."""
        tried_at = time.monotonic()
        while True:
            await asyncio.sleep(_POLL)
            for name in [it for it in self._tunnels if self._discovery.catalog.version(it) is None]:
                self._record(name)
            for name in list(self._refused):
                await self._look(name)
            if self._refused and time.monotonic() > tried_at + _PAUSE:
                tried_at = time.monotonic()
                self._discovery.send(self._refused)

    async def _look(self, name: Name) -> None:
        """Note Envoy's answer for the tunnel that has the port; forget a port that it has got, or that is gone."""
        answer = self._discovery.catalog.answered(name)
        is_open = answer and await self._note(name, cleaned(answer.error, ())) and not answer.error
        if is_open or self._discovery.catalog.version(name) is None:
            self._forget(name)

    async def _note(self, name: Name, reason: str) -> bool:
        """Note a reason for a tunnel, "" where its port is open; False where the store cannot be reached."""
        tunnel = self._tunnel_at(name.name.removeprefix(PORT_PREFIX))
        before = self._noted.get(name, ("", ""))
        if tunnel is None or before == (tunnel.id, reason) or (tunnel.id != before[0] and not reason):
            return True
        try:
            await asyncio.to_thread(self._store.record_refusal, tunnel, reason)
        except Unavailable:
            return False
        self._noted[name] = tunnel.id, reason
        return True

    def _forget(self, name: Name) -> None:
        self._refused.discard(name)
        self._noted.pop(name, None)
