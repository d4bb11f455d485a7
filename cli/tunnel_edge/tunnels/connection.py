"""One SSH connection to a gateway, with one tunnel. The API must list the gateway's host key."""

import asyncio
import contextlib
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import asyncssh

from tunnel_edge.tunnels.gateways import Gateway, SignIn
from tunnel_edge.tunnels.relay import Relay
from tunnel_edge.tunnels.requested import RequestedTunnel

_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr")
_TIMEOUT = 20.0  # seconds for connecting and signing in
_MAX_LINE = 64 * 1024  # size limit of one event in characters
_SETTLE = 1.0  # seconds to wait for the event with the reason of a refusal

OnEvent = Callable[[Mapping[str, Any]], None]


class UnknownHostKey(Exception):
    """The API does not list the host key with which the gateway has answered."""


class SignInRejected(Exception):
    """The gateway does not accept the key or certificate."""


class ConnectionFailed(Exception):
    """The connection failed or ended. Another attempt can succeed."""


class Refused(Exception):
    """The gateway refused the tunnel."""

    def __init__(self, message: str, code: str, *, is_final: bool) -> None:
        super().__init__(message)
        self.code, self.is_final = code, is_final


class Connection:
    """An SSH connection to a gateway, with its tunnel, and the events that the gateway sends."""

    def __init__(self, connection: asyncssh.SSHClientConnection, on_event: OnEvent) -> None:
        self._connection, self._on_event = connection, on_event
        self._refusal: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._reading: asyncio.Task[None] | None = None

    async def open(self, requested: RequestedTunnel, relay: Relay) -> None:
        """Open the tunnel. Raises Refused."""
        # A task starts at the next await, so that the request for events follows the request for the tunnel.
        self._reading = asyncio.create_task(self._read_events())
        host = _Spelling(requested.listen_host)
        try:
            await self._connection.create_server(relay.accept, host, requested.listen_port)
        except asyncssh.ChannelListenError:
            raise await self._explain_refusal() from None

    async def wait_closed(self) -> None:
        await self._connection.wait_closed()

    async def close(self) -> None:
        """End the connection, which ends its tunnel."""
        self._connection.close()
        if self._reading:
            self._reading.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE):
                await self._connection.wait_closed()

    async def _read_events(self) -> None:
        """Read the gateway's events from the subsystem `events`.

        An older gateway has no such subsystem: read its sentences from a terminal session.
        """
        create: Any = functools.partial(self._connection.create_session, encoding="utf-8", errors="replace")
        # If the connection has ended, these calls fail. The end of the connection is handled elsewhere.
        with contextlib.suppress(OSError, asyncssh.Error):
            try:
                await create(lambda: _Lines(self._on_line), subsystem="events")
            except asyncssh.ChannelOpenError:
                await create(lambda: _Lines(self._on_sentence))

    def _on_line(self, line: str) -> None:
        if event := _parse(line):
            self._handle(event)

    def _on_sentence(self, line: str) -> None:
        """Handle a line of text from a gateway of an older version, which sends no events as JSON.

        A sentence such as "https://demo.example.com is online." shows that the tunnel is open.
        Other sentences are notices.
        """
        url, _, rest = line.strip().partition(" ")
        if "://" in url and rest == "is online.":
            self._handle({"event": "opened", "id": "", "url": url})
        else:
            self._handle({"event": "notice", "message": line.strip()})

    def _handle(self, event: Mapping[str, Any]) -> None:
        if event.get("event") == "refused" and not self._refusal.done():
            self._refusal.set_result(event)
            return
        self._on_event(event)
        if event.get("event") == "ended":
            self._connection.close()

    async def _explain_refusal(self) -> Refused:
        """Return the error for a refused tunnel, with the reason if the gateway sends one in time."""
        try:
            event = await asyncio.wait_for(asyncio.shield(self._refusal), _SETTLE)
        except TimeoutError:
            return Refused("The gateway refused the tunnel and sent no reason: try again.", "", is_final=False)
        message, code = str(event.get("message") or "The gateway refused the tunnel."), str(event.get("code") or "")
        return Refused(message, code, is_final=event.get("final") is True)


async def connect(gateway: Gateway, sign_in: SignIn, on_event: OnEvent) -> Connection:
    """Connect to a gateway and sign in. Raises UnknownHostKey, SignInRejected, ConnectionFailed."""
    keys = list(sign_in.keys or await _agent_keys())
    try:
        connection = await asyncssh.connect(
            gateway.host,
            gateway.port,
            username=sign_in.username,
            config=None,
            known_hosts=_trust_keys(gateway.host_keys),
            preferred_auth="publickey",
            encryption_algs=_CIPHERS,
            compression_algs=None,
            keepalive_interval=15,
            keepalive_count_max=3,
            connect_timeout=_TIMEOUT,
            login_timeout=_TIMEOUT,
            client_keys=keys,
            agent_path=None,
        )
    except asyncssh.HostKeyNotVerifiable as error:
        raise UnknownHostKey(f"{gateway} has a host key that the service does not name: {error.reason}") from None
    except asyncssh.PermissionDenied as error:
        raise SignInRejected(f"{gateway} does not accept the key: {error.reason}") from None
    except (OSError, asyncssh.Error, TimeoutError) as error:
        raise ConnectionFailed(f"{gateway}: {_reason(error)}") from None
    return Connection(connection, on_event)


async def _agent_keys() -> Sequence[asyncssh.SSHKeyPair]:
    """Return the keys in the SSH agent. Raises SignInRejected if it has no keys."""
    try:
        if keys := await (await asyncssh.connect_agent()).get_keys():
            return keys
    except (OSError, asyncssh.Error) as error:
        raise SignInRejected(f"The SSH agent cannot be used: {error}") from None
    raise SignInRejected("The SSH agent has no key: add one with ssh-add.")


class _Spelling(str):
    """A host name that asyncssh cannot convert to lower case, because its method `lower` changes nothing.

    The host in the SSH request for a tunnel can be a list of labels, for example `team=Web`. Labels are case-sensitive.
    """

    def lower(self) -> "_Spelling":
        return self


def _trust_keys(lines: Sequence[str]) -> tuple[list[asyncssh.SSHKey], list[asyncssh.SSHKey], list[asyncssh.SSHKey]]:
    """Return three lists for asyncssh: trusted host keys, no authorities, and no revoked keys.

    Unreadable lines are left out.
    """
    keys = []
    for line in lines:
        with contextlib.suppress(asyncssh.KeyImportError):
            keys.append(asyncssh.import_public_key(line))
    return keys, [], []


class _Lines(asyncssh.SSHClientSession[str]):
    """Calls a function with each line of a session. The beginning of a line that is too long is dropped."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line, self._buffer = on_line, ""

    def data_received(self, data: str, datatype: Any) -> None:
        *lines, self._buffer = (self._buffer + data).split("\n")
        self._buffer = self._buffer[-_MAX_LINE:]
        for line in lines:
            self._on_line(line)


def _parse(line: str) -> Mapping[str, Any] | None:
    """Return the event in a line. Return None if the line is not an event."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _reason(error: Exception) -> str:
    return getattr(error, "reason", "") or getattr(error, "strerror", None) or str(error) or "no answer in time"
