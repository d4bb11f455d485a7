"""Opens the tunnel of `te http`, `te tls` or `te tcp`. If its connection ends, opens it again."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol
from urllib.parse import urlsplit

from tunnel_edge.errors import FAILED, TUNNEL_REJECTED, UNREACHABLE, CommandError
from tunnel_edge.tunnels import connection
from tunnel_edge.tunnels.connection import (
    Connection,
    ConnectionFailed,
    Refused,
    SignInRejected,
    UnknownHostKey,
)
from tunnel_edge.tunnels.gateways import Gateway, SignIn
from tunnel_edge.tunnels.material import SignIns
from tunnel_edge.tunnels.reconnect import Reconnect
from tunnel_edge.tunnels.relay import Relay
from tunnel_edge.tunnels.requested import RequestedTunnel

_FIRST_TRIES = 3  # failed connections after which the command ends, if the tunnel was never open


class Screen(Protocol):
    """Shows the address, the requests and the status of a tunnel to the user."""

    def show_address(self, url: str) -> None:
        """Show the address of the tunnel. This method is called only once."""

    def show_request(self, event: Mapping[str, Any]) -> None:
        """Show a visitor's request."""

    def note(self, text: str) -> None:
        """Show a sentence about the tunnel or its connection."""


class Run:
    """Keeps a tunnel open until its command ends.

    `fetch_gateways` and the methods of `sign_ins` block, so they run in threads. `prepare` is awaited after the first
    connection is open, and before its tunnel is requested.
    """

    def __init__(
        self,
        requested: RequestedTunnel,
        relay: Relay,
        sign_ins: SignIns,
        fetch_gateways: Callable[[], tuple[Gateway, ...]],
        screen: Screen,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._prepare = prepare
        self._requested, self._relay, self._sign_ins = requested, relay, sign_ins
        self._fetch, self._screen = fetch_gateways, screen
        self._reconnect = Reconnect()
        self._gateways: tuple[Gateway, ...] = ()
        self._failures = 0
        self._has_address = False

    async def serve(self) -> None:
        """Keep the tunnel open until cancelled. Raises CommandError."""
        while True:
            await self._refresh_gateways()
            try:
                if await self._serve_once():
                    self._reconnect.stay()
                    continue
                self._screen.note("The connection to the gateway has ended. Connecting again …")
            except Refused as refusal:
                if self._reconnect.is_final(refusal.code, is_final=refusal.is_final):
                    raise CommandError(str(refusal), TUNNEL_REJECTED) from None
                self._screen.note(f"{refusal} Trying again …")
            except ConnectionFailed as error:
                self._count_failure(str(error))
            except SignInRejected as error:
                raise CommandError(str(error), TUNNEL_REJECTED) from None
            except UnknownHostKey as error:
                raise CommandError(str(error), FAILED) from None
            await asyncio.sleep(self._reconnect.on_end(time.monotonic()))

    async def _serve_once(self) -> bool:
        """Open the tunnel on one connection. Return whether the connection was closed only to renew the certificate."""
        gateway = self._gateways[self._reconnect.choose(len(self._gateways))]
        sign_in = await self._sign_in()
        opened = await connection.connect(gateway, sign_in, self._on_event)
        try:
            if self._prepare:
                await self._prepare()
                self._prepare = None
            await opened.open(self._requested, self._relay)
            self._failures = 0
            self._reconnect.on_open(time.monotonic())
            return await self._wait(opened, sign_in.ends_at)
        finally:
            await opened.close()
            self._relay.close()

    async def _wait(self, opened: Connection, ends_at: float | None) -> bool:
        """Wait until the connection ends or its certificate must be renewed. Return True if it must be renewed."""
        remaining = None if ends_at is None else max(0.0, ends_at - time.time())
        try:
            async with asyncio.timeout(remaining):
                await opened.wait_closed()
        except TimeoutError:
            self._screen.note("The certificate ends soon. Connecting again with a new one …")
            await self._sign_in()
            return True
        return False

    async def _sign_in(self) -> SignIn:
        """Return the key for a connection.

        Raises ConnectionFailed if the service is unreachable but the tunnel was open.
        """
        try:
            return await asyncio.to_thread(self._sign_ins.current)
        except CommandError as error:
            if error.code == UNREACHABLE and self._reconnect.has_been_open:
                raise ConnectionFailed(str(error)) from error
            raise

    async def _refresh_gateways(self) -> None:
        """Fetch the gateways and their host keys. If the service does not answer, use the previous ones."""
        try:
            self._gateways = await asyncio.to_thread(self._fetch) or self._gateways
        except CommandError:
            if not self._gateways:
                raise
        if not self._gateways:
            raise CommandError("The service has no running gateway: GET /gateways lists none.", UNREACHABLE)

    def _count_failure(self, reason: str) -> None:
        self._failures += 1
        if not self._reconnect.has_been_open and self._failures >= _FIRST_TRIES:
            raise CommandError(f"No gateway can be reached. {reason}", UNREACHABLE)
        self._screen.note(f"{reason}. Trying again …")

    def _on_event(self, event: Mapping[str, Any]) -> None:
        message = str(event.get("message", ""))
        match event.get("event"):
            case "opened":
                self._on_opened(str(event.get("url", "")), str(event.get("id", "")))
            case "request":
                self._screen.show_request(event)
            case "ended":
                self._screen.note(message)
                self._reconnect.on_tunnel_end()
            case "refused":
                self._screen.note(message)
            case "notice":
                self._screen.note(message)
                after = event.get("retry_after")
                if isinstance(after, int | float) and not isinstance(after, bool):
                    self._reconnect.on_notice(after)

    def _on_opened(self, url: str, id: str) -> None:
        """Show the address of the tunnel. Further connections request the same address, even if it was random."""
        if self._has_address:
            self._screen.note(f"{url or id} is online again.")
            return
        self._has_address = True
        if not self._requested.labels:
            with contextlib.suppress(ValueError):
                parts = urlsplit(url)
                if self._requested.proto == "tcp":
                    self._requested = replace(self._requested, port=parts.port or 0)
                else:
                    self._requested = replace(self._requested, name=parts.hostname or self._requested.name)
        self._screen.show_address(url or id)
