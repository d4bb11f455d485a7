"""A client that has signed in and means harm: what it can make the gateway keep, and for how long it may stay."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from asyncssh.packet import String, UInt32

from chalicelib.model.tunnels import gateways
from edge.link import authority
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, Key, running, until

_CHANNEL_OPEN, _CHANNEL_OPEN_CONFIRMATION, _CHANNEL_CLOSE = 90, 91, 97


@contextlib.asynccontextmanager
async def sign_in(edge: Edge, key: Key) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Yield the connection of a client that says what no `ssh` says."""
    port = edge.settings.ssh_port
    client = await asyncssh.connect("127.0.0.1", port, client_keys=[str(key.file)], known_hosts=None, config=None)
    try:
        yield client
    finally:
        client.abort()


class Session:
    """A channel that is opened and asks for nothing."""

    def __init__(self) -> None:
        self.is_open: bool | None = None

    def process_open_confirmation(self, *_: object) -> None:
        self.is_open = True

    def process_open_failure(self, *_: object) -> None:
        self.is_open = False

    def process_connection_close(self, _: object) -> None:
        pass


def test_a_connection_has_four_sessions_at_most_also_while_they_ask_for_nothing(tmp_path: Path) -> None:
    async def ask(edge: Edge) -> list[bool | None]:
        sessions = [Session() for _ in range(8)]
        async with sign_in(edge, edge.key("acct_A")) as client:
            for session in sessions:
                number, window = client.add_channel(session), UInt32(1 << 15)  # type: ignore[arg-type]
                client.send_packet(_CHANNEL_OPEN, String("session"), UInt32(number), window, window)
            while sessions[-1].is_open is None:
                await asyncio.sleep(0.01)
        return [session.is_open for session in sessions]

    with running(tmp_path, with_envoy=False) as edge:
        assert asyncio.run(ask(edge)) == [True] * 4 + [False] * 4


def test_a_connection_whose_last_tunnel_was_lost_is_ended_so_that_its_client_comes_back(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False, lease=3, tunnel_timeout=1) as edge:
        client = edge.ssh(edge.key("acct_A"), "-N", "-R", "lost:80:localhost:1", terminal="-T")
        until(lambda: bool(edge.store.online))
        edge.store.clear()

        assert client.wait() == 255


def test_a_connection_that_opens_no_tunnel_is_ended(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=False, tunnel_timeout=1) as edge:
        assert edge.ssh(edge.key("acct_A"), "-N", terminal="-T").wait() == 255


@pytest.mark.parametrize(
    ("forward", "reason"),
    [("19:localhost:1", "Port 19 is not served here"), ("banned:80:localhost:1", "The operator has banned banned.")],
)
def test_a_client_without_a_terminal_that_is_refused_its_tunnel_ends_with_the_reason(
    tmp_path: Path, forward: str, reason: str
) -> None:
    with running(tmp_path, with_envoy=False) as edge:
        edge.store.ban("banned.tunnels.localhost")
        client = edge.ssh(edge.key("acct_A"), "-N", "-R", forward, terminal="-T")
        assert client.wait(within=5) == 255
        client.wait_for(reason)


def test_a_client_without_a_terminal_keeps_the_tunnels_that_are_not_refused(tmp_path: Path) -> None:
    async def ask(edge: Edge) -> None:
        async with sign_in(edge, edge.key("acct_A")) as client:
            for port in (19, 80, 19):
                with contextlib.suppress(asyncssh.ChannelListenError):
                    await client.create_server(lambda *_: asyncssh.SSHTCPSession(), "kept", port)
            await asyncio.sleep(2)
            assert len(edge.gateway.tunnels) == 1

    with running(tmp_path, with_envoy=False) as edge:
        asyncio.run(ask(edge))


def _delay_opening(operation: str, _: str) -> None:
    if operation == "TransactWriteItems":
        time.sleep(2)


def test_a_connection_whose_tunnel_is_refused_late_is_ended(tmp_path: Path) -> None:
    async def ask(edge: Edge) -> None:
        async with sign_in(edge, edge.key("acct_A")) as client:
            await asyncio.sleep(0.5)
            with pytest.raises(asyncssh.ChannelListenError):
                await client.create_server(lambda *_: asyncssh.SSHTCPSession(), "banned", 80)
            await asyncio.wait_for(client.wait_closed(), 8)

    with running(tmp_path, with_envoy=False, tunnel_timeout=2) as edge:
        edge.store.before = _delay_opening
        edge.store.ban("banned.tunnels.localhost")
        asyncio.run(ask(edge))


def test_an_account_that_opens_many_tunnels_at_once_keeps_the_store_from_nobody(tmp_path: Path) -> None:
    async def ask(edge: Edge) -> float:
        attacker_key = edge.key("acct_B")
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(sign_in(edge, attacker_key)) for _ in range(80)]
            opening = [asyncio.create_task(_forward(client, number)) for number, client in enumerate(clients)]
            await asyncio.sleep(0.2)
            start = time.monotonic()
            async with sign_in(edge, edge.key("acct_A")) as client:
                await _forward(client, 100)
            for task in opening:
                task.cancel()
            return time.monotonic() - start

    with running(tmp_path, with_envoy=False, max_sign_ins=100, max_sign_ins_per_address=100) as edge:
        edge.store.before = lambda operation, body: _delay_opening(operation, body) if "acct_B" in body else None
        assert asyncio.run(ask(edge)) < 1.8
        time.sleep(2)  # until those that had begun are over


async def _forward(client: asyncssh.SSHClientConnection, number: int) -> None:
    await client.create_server(lambda *_: asyncssh.SSHTCPSession(), f"many{number}", 80)


async def _as_envoy(edge: Edge) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to the only tunnel of an edge, made as Envoy makes it."""
    context = ssl.create_default_context(cadata=edge.store.authority.pem)
    context.check_hostname = False
    authority.load_into(context, edge.store.authority.issue("edge"))
    (gateway,), (tunnel,) = gateways.list_gateways(), edge.store.online
    return await asyncio.open_connection("127.0.0.1", gateway.port, ssl=context, server_hostname=tunnel.lower())


async def _channels(edge: Edge, count: int) -> None:
    """Wait until the gateway has asked its clients for so many channels."""
    async with asyncio.timeout(10):
        while edge.gateway.tunnels.gauges()["channels"] < count:
            await asyncio.sleep(0.01)


async def _count_taken(writer: asyncio.StreamWriter, *, limit: int) -> int:
    """Return how many bytes a connection takes until it takes no more for half a second, or `limit`."""
    count = 0
    with contextlib.suppress(TimeoutError):
        while count < limit:
            writer.write(bytes(1 << 16))
            await asyncio.wait_for(writer.drain(), 0.5)
            count += 1 << 16
    return count


def test_a_connection_made_while_its_client_reads_nothing_is_not_read_either(tmp_path: Path) -> None:
    async def ask(edge: Edge) -> int:
        window, limit = UInt32((1 << 31) - 1), 1 << 26
        async with sign_in(edge, edge.key("acct_A")) as client:
            await client.create_server(lambda *_: asyncssh.SSHTCPSession(), "slow", 80, window=1 << 30)
            _, first = await _as_envoy(edge)
            first.write(b"hello")
            await _channels(edge, 1)
            await asyncio.sleep(0.1)
            client._transport.pause_reading()  # type: ignore[union-attr]
            assert await _count_taken(first, limit=limit) < limit
            _, second = await _as_envoy(edge)
            await _channels(edge, 2)
            client.send_packet(_CHANNEL_OPEN_CONFIRMATION, UInt32(1), UInt32(9), window, UInt32(1 << 15))
            await asyncio.sleep(0.1)
            return await _count_taken(second, limit=limit)

    with running(tmp_path, with_envoy=False) as edge:
        assert asyncio.run(ask(edge)) < 1 << 24


@pytest.mark.parametrize("answers", [False, True])
def test_a_channel_that_its_client_does_not_answer_or_close_is_counted(tmp_path: Path, answers: bool) -> None:
    async def ask(edge: Edge, key: Key) -> int:
        requests, never = [], asyncio.Event()

        async def answer(*_: object) -> asyncssh.SSHTCPSession[bytes]:
            requests.append(1)
            await (asyncio.sleep(0) if answers else never.wait())
            return asyncssh.SSHTCPSession()

        async with sign_in(edge, key) as client:
            send = client.send_packet

            def without_close(kind: int, *rest: bytes, **keywords: Any) -> None:
                if kind != _CHANNEL_CLOSE:
                    send(kind, *rest, **keywords)

            client.send_packet = without_close  # type: ignore[method-assign, assignment]
            await client.create_server(answer, "mute", 80)
            for _ in range(2):
                streams = [await _as_envoy(edge) for _ in range(2)]
                async with asyncio.timeout(10):
                    while len(requests) < 2:
                        await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)
                for reader, writer in streams:
                    if not answers:
                        await asyncio.wait_for(reader.read(), 10)
                    writer.close()
                await asyncio.sleep(0.1)
        return len(requests)

    with running(tmp_path, with_envoy=False, upstream_timeout=1, max_channels_per_account=2) as edge:
        key = edge.key("acct_A")
        assert asyncio.run(ask(edge, key)) == 2
        until(lambda: not edge.store.online)
        assert asyncio.run(ask(edge, key)) == 2


@pytest.mark.parametrize(
    ("visitor", "channels"), [("stays", 2), ("leaves", 2), ("leaves early", 2), ("is answered", 1)]
)
def test_a_channel_of_an_upstream_that_reads_nothing_ends_when_nothing_has_moved_for_long(
    tmp_path: Path, visitor: str, channels: int
) -> None:
    class ReadsNothing(asyncssh.SSHTCPSession[bytes]):
        def connection_made(self, chan: asyncssh.SSHTCPChannel[bytes]) -> None:
            open_channels.append(chan)

        def data_received(self, data: bytes, datatype: Any) -> None:
            open_channels[-1].pause_reading()

    open_channels: list[asyncssh.SSHTCPChannel[bytes]] = []

    async def ask(edge: Edge) -> None:
        async with sign_in(edge, edge.key("acct_A")) as client:
            await client.create_server(lambda *_: ReadsNothing(), "stalled", 80, window=1 << 15)
            _, writer = await _as_envoy(edge)
            if visitor == "leaves early":
                writer.write(bytes(3 << 15))
                await writer.drain()
                await asyncio.sleep(0.2)
            else:
                assert await _count_taken(writer, limit=1 << 26) < 1 << 26
            if visitor in ("leaves", "leaves early"):
                writer.close()
            for _ in range(30):
                if len(open_channels) < 2:
                    if visitor == "is answered":
                        open_channels[0].write(b"more")
                    (await _as_envoy(edge))[1].close()
                    await asyncio.sleep(0.1)

    with running(tmp_path, with_envoy=False, idle_timeout=1, max_channels_per_tunnel=1) as edge:
        asyncio.run(ask(edge))
        assert len(open_channels) == channels


@needs_envoy
def test_an_account_and_a_tunnel_have_as_many_channels_as_they_may(tmp_path: Path, origin: int) -> None:
    with running(tmp_path, with_envoy=True, max_channels_per_tunnel=2, max_channels_per_account=3) as edge:
        forward = [part for name in "ab" for part in ("-R", f"{name}:80:127.0.0.1:{origin}")]
        edge.ssh(edge.key("acct_A"), *forward)
        edge.ssh(edge.key("acct_B"), "-R", f"c:80:127.0.0.1:{origin}")
        until(lambda: [edge.status(name) for name in "abc"] == ["200"] * 3)

        with contextlib.ExitStack() as stack:

            def ask(names: str) -> list[str]:
                return [_status_of_held(stack.enter_context(edge.connect(name, "http/1.1")), name) for name in names]

            assert ask("aaa") == ["200", "200", "502"]
            assert ask("bb") == ["200", "502"]
            assert ask("c") == ["200"]


def _status_of_held(connection: ssl.SSLSocket, name: str) -> str:
    """Return the status of a request that holds its channel for as long as the connection is there."""
    connection.sendall(f"GET /held HTTP/1.1\r\nhost: {name}.tunnels.localhost\r\n\r\n".encode())
    return connection.recv(4096).split(b" ")[1].decode()
