"""Sends Envoy its resources by delta ADS over a Unix socket that only control and Envoy can open.

Private keys are sent over this socket too, and are never in a file.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import grpc
from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest

from edge.envoy.ads.catalog import Answer, Catalog, Name
from edge.envoy.ads.delta import Demand, Stream
from edge.envoy.resources import Changes
from edge.process import log

_MAX_MESSAGE = 64 << 20  # the most bytes of a message. When Envoy reconnects, it lists all its resources in a message


class Discovery(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):  # type: ignore[misc]  # no type hints
    """Sends every change to all connected Envoys. `key` is the secret key of `Catalog`.

    `on_demand` is called when Envoy requests certificates by server name, or connects with resources that it has.
    `on_answer` is called at the first new answer of Envoy after a call of `take_answered`.
    """

    def __init__(
        self,
        key: bytes,
        on_demand: Callable[[Demand], None] = lambda _: None,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        self.catalog = Catalog(key)
        self.on_demand, self._on_answer = on_demand, on_answer
        self._streams: dict[Stream, asyncio.Event] = {}  # by stream: is set if there are responses to send
        self._answered: set[Name] = set()
        self._settling: dict[Name, asyncio.Event] = {}
        self.connected_at = 0.0  # the monotonic time of the latest connection of an Envoy
        self.has_answered = False  # whether any Envoy has answered since the start

    @property
    def has_envoy(self) -> bool:
        return bool(self._streams)

    @property
    def is_settled(self) -> bool:
        """Return whether every Envoy has answered all responses."""
        return all(stream.is_idle for stream in self._streams)

    def take_answered(self) -> set[Name]:
        """Return the resources about which Envoy has sent new answers since the previous call."""
        names, self._answered = self._answered, set()
        return names

    @contextlib.asynccontextmanager
    async def run(self, socket: Path) -> AsyncIterator[None]:
        """Serve Envoy's discovery at a Unix socket with mode 0660."""
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", _MAX_MESSAGE)])
        ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(self, server)
        socket.unlink(missing_ok=True)
        before = os.umask(0o117)  # creates the socket with the mode 0660
        try:
            server.add_insecure_port(f"unix:{socket}")
        finally:
            os.umask(before)
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)

    def apply(self, changes: Changes) -> list[Name]:
        """Apply changes to the catalog, and send the changed resources. Return the names of the changed resources."""
        names = self.catalog.apply(changes)
        self.send(names)
        return names

    def restore(self, name: Name, value: bytes | None) -> None:
        """Replace a rejected resource with an earlier encoding. If `value` is None, remove the resource."""
        self.catalog.restore(name, value)
        self.send([name])

    def send(self, names: Iterable[Name]) -> None:
        """Send resources again, although they have not changed. Envoy may now accept rejected resources."""
        for stream, woken in self._streams.items():
            stream.enqueue(names)
            woken.set()

    def refuse(self, secrets: Collection[str]) -> None:
        """Answer requests for secrets with a removal. Envoy then ends the handshakes that wait for the secrets."""
        for stream, woken in self._streams.items():
            stream.refuse(secrets)
            woken.set()

    def send_listeners(self) -> None:
        """Send all listeners for the first time. Sets `Catalog.has_all_listeners`."""
        self.catalog.has_all_listeners = True
        for stream, woken in self._streams.items():
            stream.enqueue_listeners()
            woken.set()

    def complete(self) -> None:
        """Remove the resources that Envoy has and the catalog lacks. Sets `Catalog.is_complete`."""
        self.catalog.is_complete = True
        for stream, woken in self._streams.items():
            stream.enqueue_unknown()
            woken.set()

    async def wait_until_settled(self, names: Collection[Name], *, timeout: float) -> None:
        """Wait, at most `timeout` seconds, until every Envoy has answered all responses with these resources."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                for name in names:
                    while not self._is_settled(name):
                        await self._settling.setdefault(name, asyncio.Event()).wait()

    def _is_settled(self, name: Name) -> bool:
        return all(stream.is_settled(name) for stream in self._streams)

    def _wake_waiting(self, names: Iterable[Name]) -> None:
        for name in names:
            if event := self._settling.pop(name, None):
                event.set()

    async def DeltaAggregatedResources(self, requests: AsyncIterator[DeltaDiscoveryRequest], context: Any) -> None:
        stream, woken = Stream(self.catalog), asyncio.Event()
        self._streams[stream], self.connected_at = woken, time.monotonic()
        self.catalog.begin_stream(stream)
        receiving = asyncio.create_task(self._receive(stream, requests, woken))
        try:
            while not receiving.done():
                for response in stream.responses():
                    await context.write(response)
                self._wake_waiting(stream.take_settled())
                await woken.wait()
                woken.clear()
        finally:
            receiving.cancel()
            del self._streams[stream]
            self._add_answered(self.catalog.end_stream(stream))
            self._wake_waiting([*self._settling])

    async def _receive(
        self, stream: Stream, requests: AsyncIterator[DeltaDiscoveryRequest], woken: asyncio.Event
    ) -> None:
        try:
            async for request in requests:
                self._record_answers(stream, stream.receive(request))
                self._wake_waiting(stream.take_settled())
                if demand := stream.take_demand():
                    self.on_demand(demand)
                woken.set()
        finally:
            woken.set()

    def _record_answers(self, stream: Stream, answers: Iterable[tuple[Name, Answer]]) -> None:
        for name, answer in answers:
            if not self.catalog.add_answer(stream, name, answer):
                continue
            if answer.error:
                log.event("resource_refused", kind=name.kind, resource=name.name, reason=answer.error)
            self._add_answered([name])
            self.has_answered = True

    def _add_answered(self, names: Collection[Name]) -> None:
        if names and not self._answered:
            self._on_answer()
        self._answered.update(names)
