"""The SSH port behind a proxy: whose connections are admitted, with which address."""

import asyncio
import json
import socket
from typing import cast

import pytest

from edge.link.proxy_protocol import Header
from edge.networks import Networks
from edge.ssh.auth.proxied import Proxied

CLIENT = ("192.0.2.9", 49153)
V2 = Header(CLIENT, ("127.0.0.1", 22)).encoded()
V1 = b"PROXY TCP4 192.0.2.9 127.0.0.1 49153 22\r\n"
LONGEST = V2[:14] + (520).to_bytes(2) + V2[16:] + bytes(508)  # 536 bytes
TOO_LONG = V2[:14] + (521).to_bytes(2) + V2[16:] + bytes(509)
LOCAL = Header().encoded()


class Greeter(asyncio.Protocol):
    """Answers with its client's address and the first bytes that it receives."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(f"{self._transport.get_extra_info('peername')} {data!r}".encode())
        self._transport.close()


def answer_to(*parts: bytes, proxies: str = "127.0.0.0/8") -> bytes:
    """Return what a client receives that sends these parts, one after the other."""

    async def run() -> bytes:
        networks = Networks([proxies])
        server = await asyncio.get_running_loop().create_server(
            lambda: Proxied(networks, Greeter, timeout=0.3), "127.0.0.1", 0
        )
        async with server, asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                for part in parts:
                    writer.write(part)
                    await asyncio.sleep(0.02)
                return await reader.read()
            except ConnectionResetError:
                return b""
            finally:
                writer.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    "parts",
    [
        (V2 + b"SSH-2.0",),
        (V1 + b"SSH-2.0",),
        (V2, b"SSH-2.0"),
        (V1[:3], V1[3:], b"SSH-2.0"),
        (V2[:1], V2[1:15], V2[15:], b"SSH-2.0"),
        (LONGEST, b"SSH-2.0"),
    ],
)
def test_a_client_has_the_address_in_its_header(parts: tuple[bytes, ...]) -> None:
    assert answer_to(*parts) == f"{CLIENT} {b'SSH-2.0'!r}".encode()


@pytest.mark.parametrize(
    ("header", "proxies", "reason"),
    [
        (V2 + b"SSH-2.0", "10.0.0.0/8", "its address is not in SSH_PROXY_PROTOCOL_FROM"),
        (b"SSH-2.0-OpenSSH\r\n", "127.0.0.0/8", "it does not begin with a PROXY protocol header"),
        (b"", "127.0.0.0/8", "no PROXY protocol header arrived in time"),
        (V2[:20], "127.0.0.0/8", "no PROXY protocol header arrived in time"),
        (TOO_LONG, "127.0.0.0/8", "its PROXY protocol header has more than 536 bytes"),
        (
            V1[:-2] + b" " * 80,
            "127.0.0.0/8",
            "its header must be one line of at most 107 bytes in version 1 of the PROXY protocol",
        ),
        (
            V2[:13] + b"\x12" + V2[14:],
            "127.0.0.0/8",
            "its header must be of TCP over IPv4 or IPv6, with the addresses of the visitor and of the server",
        ),
    ],
)
def test_any_other_connection_is_closed_with_a_line_in_the_log(
    header: bytes, proxies: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer_to(header, proxies=proxies) == b""
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["event"], line["address"], line["reason"]) == ("proxy_refused", "127.0.0.1", reason)


@pytest.mark.parametrize("header", [LOCAL, b"PROXY UNKNOWN\r\n", LOCAL + b"SSH-2.0"])
def test_a_connection_of_the_proxy_itself_is_closed_without_a_line(
    header: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer_to(header) == b""
    assert capsys.readouterr().err == ""


def test_a_client_that_leaves_first_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(
            lambda: Proxied(Networks(["127.0.0.0/8"]), Greeter, timeout=0.1), "127.0.0.1", 0
        )
        async with server:
            socket.create_connection(server.sockets[0].getsockname()).close()
            await asyncio.sleep(0.2)

    asyncio.run(run())
    assert capsys.readouterr().err == ""
