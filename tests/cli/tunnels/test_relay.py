"""The bytes of a tunnel arrive unchanged, with the inspector as without it."""

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import asyncssh
import pytest

from tests.cli.tunnels.gateways import SIGN_IN, Plan, serve
from tunnel_edge.inspector.exchanges import Journal
from tunnel_edge.inspector.recording import Recording
from tunnel_edge.tunnels import connection
from tunnel_edge.tunnels.relay import NoTap, Relay
from tunnel_edge.tunnels.requested import LocalServer, RequestedTunnel

MIB = int(os.environ.get("TE_MIB", "10"))  # of large bodies
REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n0\r\ntrailer: 1\r\n\r\n"
UPGRADE = b"GET /ws HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n"
EXPECT = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n"

END = b""
Step: TypeAlias = tuple[str, bytes]  # ">" to the server, "<" from it; END is the end of that direction
Work: TypeAlias = Callable[["Tunnel"], Coroutine[Any, Any, None]]


@dataclass
class Tunnel:
    """An open tunnel. `local` has the connections that the local server has accepted."""

    plan: Plan
    local: "asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]"
    journal: Journal
    relay: Relay


@contextlib.asynccontextmanager
async def open_tunnel(*, is_inspected: bool, plan: Plan | None = None) -> AsyncIterator[Tunnel]:
    plan, journal = plan or Plan(), Journal()
    local: asyncio.Queue[Any] = asyncio.Queue()
    server = await asyncio.start_server(lambda *streams: local.put_nowait(streams), "127.0.0.1", 0)
    address = LocalServer("127.0.0.1", server.sockets[0].getsockname()[1])
    relay = Relay(address, Recording(journal).open if is_inspected else lambda _: NoTap(), lambda _: None)
    with contextlib.closing(server):  # `async with` would wait for all connections, from Python 3.12.1 on
        async with serve(plan) as gateway:
            gateway_connection = await connection.connect(gateway, SIGN_IN, lambda _: None)
            await gateway_connection.open(RequestedTunnel("http", "demo"), relay)
            try:
                yield Tunnel(plan, local, journal, relay)
            finally:
                await gateway_connection.close()
                relay.close()


def run(work: Work, *, is_inspected: bool) -> Journal:
    async def main() -> Journal:
        async with asyncio.timeout(30 + MIB), open_tunnel(is_inspected=is_inspected) as tunnel:
            await work(tunnel)
            return tunnel.journal

    return asyncio.run(main())


async def _play(steps: list[Step], tunnel: Tunnel) -> None:
    """Send the steps one after the other, and read each of them at the other side."""
    visitor_reads, visitor_writes = await tunnel.plan.visit()
    server_reads, server_writes = await tunnel.local.get()
    for direction, data in steps:
        writer, reader = (visitor_writes, server_reads) if direction == ">" else (server_writes, visitor_reads)
        if data == END:
            writer.write_eof()
            assert await reader.read(1) == b""
        else:
            writer.write(data)
            assert await reader.readexactly(len(data)) == data
    server_writes.close()
    assert await visitor_reads.read() == b""


CORPUS: dict[str, list[Step]] = {
    "one request": [(">", REQUEST), ("<", OK)],
    "keep-alive": [(">", REQUEST), ("<", OK)] * 3,
    "pipelining": [(">", REQUEST * 5), ("<", OK * 5)],
    "a request in single bytes": [*((">", bytes([byte])) for byte in REQUEST), ("<", OK)],
    "chunks": [(">", b"POST / HTTP/1.1\r\nhost: x\r\n" + CHUNKED), ("<", b"HTTP/1.1 200 OK\r\n" + CHUNKED)],
    "100-continue": [(">", EXPECT), ("<", b"HTTP/1.1 100 Continue\r\n\r\n"), (">", b"abc"), ("<", OK)],
    "an answer before the end of the request": [(">", EXPECT), ("<", OK), (">", b"abc")],
    "upgrade": [(">", UPGRADE), ("<", b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), (">", b"\x81\0"), ("<", b"\x81\0")],
    "a declined upgrade": [(">", UPGRADE), ("<", OK), (">", REQUEST), ("<", OK)],
    "HEAD": [(">", REQUEST.replace(b"GET", b"HEAD")), ("<", OK[:-2]), (">", REQUEST), ("<", OK)],
    "204": [(">", REQUEST), ("<", b"HTTP/1.1 204 No Content\r\n\r\n"), (">", REQUEST), ("<", OK)],
    "304": [
        (">", REQUEST),
        ("<", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n"),
        (">", REQUEST),
        ("<", OK),
    ],
    "ended by close": [(">", REQUEST), ("<", b"HTTP/1.1 200 OK\r\n\r\nuntil the end"), ("<", END)],
    "the request ends first": [(">", REQUEST), (">", END), ("<", OK), ("<", END)],
    "h2c": [(">", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"), ("<", b"\0\0\0\4\0\0\0\0\0")],
    "a malformed request": [
        (">", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"),
        ("<", b"HTTP/1.1 400 Bad\r\n\r\n"),
        (">", b"\xff"),
    ],
    "a malformed response": [(">", REQUEST), ("<", b"\0\1\2 nonsense\r\n\r\n"), (">", REQUEST), ("<", OK)],
    "both lengths": [(">", REQUEST[:-2] + b"content-length: 3\r\n" + CHUNKED), ("<", OK)],
    "a head without an end": [(">", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 30_000), ("<", OK)],
    "the server speaks first": [("<", b"SSH-2.0-x\r\n"), (">", b"SSH-2.0-y\r\n")],
    "nothing": [],
}


@pytest.mark.parametrize("is_inspected", [False, True])
@pytest.mark.parametrize("name", CORPUS)
def test_bytes_arrive_unchanged(name: str, is_inspected: bool) -> None:
    run(functools.partial(_play, CORPUS[name]), is_inspected=is_inspected)


@pytest.mark.parametrize("is_inspected", [False, True])
def test_large_bodies_pass_in_both_directions_while_a_reader_is_slow(is_inspected: bool) -> None:
    block = bytes(range(256)) * 256
    size, count = MIB << 20, (MIB << 20) // len(block)
    resident: list[int] = []

    async def pump(writer: Any) -> None:
        for _ in range(count):
            writer.write(block)
            await writer.drain()

    async def read(reader: Any) -> None:
        await asyncio.sleep(0.1)
        for number in range(count):
            assert await reader.readexactly(len(block)) == block
            if number in (count // 10, count - 1):
                resident.append(resident_memory())

    async def work(tunnel: Tunnel) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size
        reads, writes = await tunnel.plan.visit()
        server_reads, server_writes = await tunnel.local.get()
        writes.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size)
        server_writes.write(head)
        await server_reads.readuntil(b"\r\n\r\n")
        assert await reads.readexactly(len(head)) == head
        while is_inspected and not any(exchange.response for exchange in tunnel.journal.newest_first()):
            await asyncio.sleep(0.01)  # a body is counted at once after its head was read
        await asyncio.gather(pump(writes), pump(server_writes), read(reads), read(server_reads))

    journal = run(work, is_inspected=is_inspected)
    exchanges = [*journal.newest_first()]
    assert len(exchanges) == int(is_inspected)
    for exchange in exchanges:
        assert exchange.request
        assert exchange.response
        assert (exchange.is_over, exchange.is_stream, exchange.note) == (True, False, "")
        assert (exchange.request.size, exchange.response.size) == (size, size)
        assert journal.memory < 600_000
    assert max(resident) - min(resident) < 16 << 20


def resident_memory() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_visitor_that_leaves_closes_the_connection_to_the_local_server() -> None:
    async def work(tunnel: Tunnel) -> None:
        _, writes = await tunnel.plan.visit()
        server_reads, _ = await tunnel.local.get()
        writes.channel.abort()
        assert await server_reads.read() == b""

    run(work, is_inspected=True)


def test_a_gateway_that_is_gone_closes_the_connections_to_the_local_server() -> None:
    async def work(tunnel: Tunnel) -> None:
        await tunnel.plan.visit()
        server_reads, _ = await tunnel.local.get()
        tunnel.plan.connections[-1].abort()
        with contextlib.suppress(ConnectionResetError):
            assert await server_reads.read() == b""

    run(work, is_inspected=True)


def test_a_local_server_that_does_not_listen_is_a_refused_channel_with_a_reason() -> None:
    reasons: list[str] = []

    async def main() -> None:
        plan = Plan()
        relay = Relay(LocalServer("127.0.0.1", 1), lambda _: NoTap(), reasons.append)
        async with serve(plan) as gateway:
            gateway_connection = await connection.connect(gateway, SIGN_IN, lambda _: None)
            await gateway_connection.open(RequestedTunnel("http", "demo"), relay)
            with pytest.raises(asyncssh.ChannelOpenError):
                await plan.visit()
            await gateway_connection.close()

    asyncio.run(main())
    assert reasons == ["127.0.0.1:1 does not accept connections: Connect call failed ('127.0.0.1', 1)"]
