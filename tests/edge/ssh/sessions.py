"""SSH connections of tunnels that tests open without a gateway."""

import asyncio

from edge.link.proxy_protocol import Header
from edge.ssh.online_tunnel import OnlineTunnel


class Client:
    """An SSH connection that hears why its tunnels end."""

    is_gone = False

    def __init__(self) -> None:
        self.ended_for: list[str] = []

    def accept_connection(
        self, tunnel: OnlineTunnel, transport: asyncio.Transport, visitor: Header | None
    ) -> asyncio.Protocol:
        raise NotImplementedError

    def on_tunnel_end(self, tunnel: OnlineTunnel, reason: str) -> None:
        self.ended_for.append(reason)

    def on_port_refusal(self, tunnel: OnlineTunnel) -> None:
        raise NotImplementedError
