"""The port at which Envoy reaches a gateway, and who opens connections there without a word."""

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path

from chalicelib.model.tunnels import gateways
from edge.link import authority, server
from tests.live.edge.running import running, until


def test_half_open_connections_are_bounded_and_keep_nobody_out(tmp_path: Path) -> None:
    async def shake_hands(port: int, context: ssl.SSLContext, name: str) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
        writer.close()

    with running(tmp_path, with_envoy=False) as edge, contextlib.ExitStack() as stack:
        edge.ssh(edge.key("acct_A"), "-R", "demo:80:localhost:1").wait_for("is online")
        (gateway,), (tunnel,) = gateways.list_gateways(), edge.store.online
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port))) for _ in range(1200)]
        context = ssl.create_default_context(cadata=edge.store.authority.pem)
        context.check_hostname = False
        authority.load_into(context, edge.store.authority.issue(server.CLIENT))
        for _ in range(20):
            asyncio.run(shake_hands(gateway.port, context, tunnel.lower()))
        until(lambda: sum(map(_is_open, silent)) <= server.MAX_HANDSHAKES, within=server.HANDSHAKE_TIMEOUT / 2)
        until(lambda: not any(map(_is_open, silent)), within=server.HANDSHAKE_TIMEOUT + 5)


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
