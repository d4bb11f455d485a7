"""A gateway in the process of the tests, with the events and refusals that a test plans."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import asyncssh

from tunnel_edge.tunnels.gateways import Gateway, SignIn

HOST_KEY, USER_KEY = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
SIGN_IN = SignIn("te", (USER_KEY,))
URL = "https://demo.example.com:8443"


@dataclass
class Plan:
    """What the gateway does, and the `requests` of clients. Each refused request takes one event of `refused`."""

    refused: list[Mapping[str, Any]] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)  # that follow each opening
    has_events: bool = True
    requests: list[tuple[str, int]] = field(default_factory=list)
    connections: list[asyncssh.SSHServerConnection] = field(default_factory=list)

    async def visit(self) -> "tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]":
        """Open a connection to the newest tunnel, as a visitor."""
        return await self.connections[-1].open_connection(*self.requests[-1], "192.0.2.9", 50000)


class _Server(asyncssh.SSHServer):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._events: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._plan.connections.append(conn)

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return key == USER_KEY.convert_to_public()

    def server_requested(self, listen_host: str, listen_port: int) -> asyncssh.SSHListener | bool:
        self._plan.requests.append((listen_host, listen_port))
        if self._plan.refused:
            self._events.put_nowait({"event": "refused", **self._plan.refused.pop(0)})
            return False
        for event in ({"event": "opened", "id": "tn_1", "url": URL}, *self._plan.events):
            self._events.put_nowait(event)
        return _Listener()

    def session_requested(self) -> Any:
        return _Session(self._events, has_events=self._plan.has_events)


class _Session(asyncssh.SSHServerSession[str]):
    """The subsystem `events`, or the terminal of an older gateway."""

    def __init__(self, events: "asyncio.Queue[Mapping[str, Any]]", *, has_events: bool) -> None:
        self._events, self._has_events = events, has_events

    def connection_made(self, chan: "asyncssh.SSHServerChannel[str]") -> None:
        self._channel = chan

    def subsystem_requested(self, subsystem: str) -> bool:
        return self._has_events and subsystem == "events"

    def shell_requested(self) -> bool:
        return not self._has_events

    def session_started(self) -> None:
        self._task = asyncio.create_task(self._show())

    def connection_lost(self, exc: Exception | None) -> None:
        self._task.cancel()

    async def _show(self) -> None:
        while event := await self._events.get():
            line = json.dumps(event) if self._has_events else f"{event['url']} is online."
            self._channel.write(f"{line}\r\n")


class _Listener(asyncssh.SSHListener):
    def get_port(self) -> int:
        return 20022

    def close(self) -> None:
        pass

    async def wait_closed(self) -> None:
        pass


@contextlib.asynccontextmanager
async def serve(plan: Plan, port: int = 0) -> AsyncIterator[Gateway]:
    """Run a gateway on a port of this machine."""
    server = await asyncssh.listen(
        "127.0.0.1", port, server_factory=lambda: _Server(plan), server_host_keys=[HOST_KEY], encoding="utf-8"
    )
    try:
        yield Gateway("127.0.0.1", server.get_port(), (HOST_KEY.export_public_key().decode(),))
    finally:
        server.close()
        for connection in plan.connections:
            connection.abort()
        await server.wait_closed()
