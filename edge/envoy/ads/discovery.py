"""Envoy's discovery: delta ADS over a Unix socket that only control and Envoy can open.

Private keys are sent over it too, and are in no file.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import grpc
from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest

from edge.envoy.ads.catalog import Answer, Catalog, Name
from edge.envoy.ads.delta import Stream
from edge.envoy.resources import Changes
from edge.process import log

_MAX_MESSAGE = 64 << 20  # bytes of a request: after a reconnect it names all that Envoy has


class Discovery(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):  # type: ignore[misc]  # no type hints
    """The streams of Envoy, which receive every change. `key` is the secret of the versions."""

    def __init__(self, key: bytes) -> None:
        self.catalog = Catalog(key)
        self._streams: dict[Stream, asyncio.Event] = {}  # with the event of new responses
        self._answers_changed = asyncio.Condition()
        self._answered: set[Name] = set()
        self.connected_at = 0.0  # monotonic time of the last connection

    @property
    def has_envoy(self) -> bool:
        return bool(self._streams)

    def take_answered(self) -> set[Name]:
        """Return the resources with a new answer since the last call."""
        found, self._answered = self._answered, set()
        return found

    @contextlib.asynccontextmanager
    async def run(self, socket: Path) -> AsyncIterator[None]:
        """Serve on a socket of mode 0660."""
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", _MAX_MESSAGE)])
        ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(self, server)
        socket.unlink(missing_ok=True)
        before = os.umask(0o117)  # so that the socket is never open to others
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
        """Apply changes and send them. Return the names of changed resources."""
        names = self.catalog.apply(changes)
        self.send(names)
        return names

    def send(self, names: Iterable[Name]) -> None:
        """Send resources again, including rejected ones, which Envoy may accept now."""
        for stream, woken in self._streams.items():
            stream.enqueue(names)
            woken.set()

    async def wait_for_answers(self, names: Iterable[Name], *, timeout: float) -> None:
        """Wait until Envoy has answered all resources, at most `timeout` seconds. Return at once without Envoy."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout), self._answers_changed:
                await self._answers_changed.wait_for(
                    lambda: not self._streams or all(map(self.catalog.is_answered, names))
                )

    async def DeltaAggregatedResources(self, requests: AsyncIterator[DeltaDiscoveryRequest], context: Any) -> None:
        stream, woken = Stream(self.catalog), asyncio.Event()
        self._streams[stream], self.connected_at = woken, time.monotonic()
        receiving = asyncio.create_task(self._receive(stream, requests, woken))
        try:
            while not receiving.done():
                for response in stream.responses():
                    await context.write(response)
                await woken.wait()
                woken.clear()
        finally:
            receiving.cancel()
            del self._streams[stream]
            async with self._answers_changed:
                self._answers_changed.notify_all()

    async def _receive(
        self, stream: Stream, requests: AsyncIterator[DeltaDiscoveryRequest], woken: asyncio.Event
    ) -> None:
        try:
            async for request in requests:
                if answers := stream.receive(request):
                    await self._record_answers(answers)
                woken.set()
        finally:
            woken.set()

    async def _record_answers(self, answers: Iterable[tuple[Name, Answer]]) -> None:
        for name, answer in answers:
            if self.catalog.answers.get(name) == answer:
                continue
            if answer.error:
                log.event("resource_refused", kind=name.kind, resource=name.name, reason=answer.error)
            self.catalog.answers[name] = answer
            self._answered.add(name)
        async with self._answers_changed:
            self._answers_changed.notify_all()
