"""An online tunnel, and the interfaces of its SSH session and connections."""

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from chalicelib.model.tunnels.tunnels import ServedTunnel, Traffic
from edge.link.proxy_protocol import Header
from edge.ssh.data.metering import Meter
from edge.store.records import Opening


class TunnelSession(Protocol):
    """The SSH connection of a tunnel's client."""

    is_gone: bool

    def accept_connection(
        self, tunnel: "OnlineTunnel", transport: asyncio.Transport, visitor: Header | None
    ) -> asyncio.Protocol:
        """Return the asyncio protocol for a new connection from Envoy to the tunnel."""

    def on_tunnel_end(self, tunnel: "OnlineTunnel", reason: str) -> None:
        """Show the client that a tunnel has ended, and why."""

    def on_port_refusal(self, tunnel: "OnlineTunnel") -> None:
        """Handle a change of `tunnel.refusal`: the port was refused, or is open again."""


class TunnelConnection(Protocol):
    """A connection from Envoy to a tunnel.

    `has_channel` is true while the connection has an SSH channel that counts against the limits on channels.
    """

    has_channel: bool

    @property
    def address(self) -> str:
        """Return the visitor's address in the latest request. Return "" if it is unknown."""

    @property
    def visitor(self) -> str:
        """Return the visitor's network: an IPv4 address or an IPv6 /64."""

    def close(self) -> None:
        """Send buffered data, and close the connection."""

    def evict(self) -> None:
        """Abort the connection to make room for another visitor."""

    def abort(self) -> None:
        """Close the connection and drop unsent data."""

    def check(self, seconds: float) -> None:
        """Abort the connection if its visitor left or sends a body too slowly. The previous check was `seconds` ago."""


@dataclass(eq=False)
class OnlineTunnel:
    """A tunnel that is online through this gateway.

    `requested_address` is the host and port in the client's `-R`. The gateway sends this address with each new channel,
    because ssh finds the local destination by it. `refusal` is the reason why an edge host does not serve the tunnel's
    port, or "".
    """

    record: ServedTunnel
    opening: Opening
    requested_address: tuple[str, int]
    session: TunnelSession
    is_reserved: bool  # whether the tunnel's name was reserved when the tunnel was opened
    connections: set[TunnelConnection] = field(default_factory=set)
    open_channels: int = 0
    meter: Meter = field(default_factory=Meter)
    billed_usage: Traffic = field(default_factory=Traffic)  # the usage at the latest call of `take_unbilled_usage`
    refusal: str = ""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def url(self) -> str:
        return self.opening.url

    def on_connected(self, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        return self.session.accept_connection(self, transport, visitor)

    def take_unbilled_usage(self) -> Traffic:
        """Return the tunnel's usage since the previous call."""
        before, self.billed_usage = self.billed_usage, self.meter.usage()
        return self.billed_usage - before

    def log_fields(self) -> dict[str, str]:
        """Return the fields that identify the tunnel in the log."""
        grant = self.opening.grant
        client = {"session": self.opening.session, "account": grant.account, "credential": grant.credential}
        return {**client, "tunnel": self.id, "url": self.url}
