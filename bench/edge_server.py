"""The live edge with a table in memory, in its own process, for `bench/edge.py`.

A plain listener forwards to the gateway's first tunnel, to measure the gateway without the link's TLS.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import asyncssh

from edge.control.control import Control
from edge.process.settings import Limits, Settings
from edge.ssh.gateway import SshGateway
from edge.store.records import Grant
from tests.edge import process_table
from tests.edge.edge_table import EdgeTable

_MANY = Limits(max_tunnels_per_account=10_000, max_tunnels_per_gateway=10_000, max_sign_ins=1000)
_LIMITS = replace(_MANY, max_sign_ins_per_address=1000, max_sign_ins_per_network=1000, max_penalty=1)
_LIMITS = replace(_LIMITS, max_requests_per_visitor=1_000_000)


class _Plain(asyncio.Protocol):
    """A connection that is forwarded to the first HTTPS tunnel, without TLS."""

    def __init__(self, gateway: SshGateway) -> None:
        self._gateway = gateway

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        tunnel = next(tunnel for tunnel in self._gateway.tunnels.online if tunnel.record.proto == "https")
        protocol = tunnel.on_connected(transport, None)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


async def main(folder: Path, ssh_port: int, edge_port: int, http_port: int, plain_port: int, tcp_port: int) -> None:
    """Serve until the process ends. The key in the folder can bind any address."""
    settings = Settings(directory=folder, ssh_port=ssh_port, edge_port=edge_port, http_port=http_port, limits=_LIMITS)
    settings = replace(settings, tcp_ports=range(tcp_port, tcp_port + 1))
    key = asyncssh.read_public_key(folder / "key.pub")
    with process_table.serving():
        store = EdgeTable()
        store.permit(key.get_fingerprint(), Grant("acct_1", "sshcr_1", ()))
        gateway = SshGateway(settings, store, store.authority)
        listening = asyncio.get_running_loop().create_server(
            lambda: _Plain(gateway), "127.0.0.1", plain_port, backlog=1024
        )
        async with await listening:
            await asyncio.gather(gateway.serve(), Control(settings, store.authority).serve())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
