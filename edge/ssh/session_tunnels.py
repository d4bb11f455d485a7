"""Opens, shows and closes the tunnels of one SSH connection."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import asyncssh

from edge.link.proxy_protocol import Header
from edge.process.open_ports import OpenPorts
from edge.process.settings import Settings
from edge.ssh import forwarding
from edge.ssh.asyncssh_internals import Connection
from edge.ssh.auth.identity import Identity
from edge.ssh.channels import Channels, Listener
from edge.ssh.forwarding import PortTunnel, RequestedTunnel, TunnelRefused
from edge.ssh.named_policies import NamedPolicies
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.terminal.client_events import Ended, Notice, Opened, Refused
from edge.ssh.terminal.terminals import Terminals
from edge.ssh.tunnels import ClientGone, Tunnels
from edge.store.records import NameBanned, NameTaken, NotOpened, Opening, Unavailable
from edge.store.table import Store

_PORT_TIMEOUT = 3.0  # seconds to wait for a tunnel's port. Then its address is shown even if the port is closed
_POLL = 0.1  # seconds between two checks whether the port is open
_REFUSAL_DELAY = 1.0  # seconds from a refusal until a client without tunnels and terminals is disconnected
_RANDOM_TRIES = 3  # maximum random names or ports to try, since a random one can be in use


class TunnelHost(Protocol):
    """The methods and attributes of the gateway that SessionTunnels uses."""

    id: str
    settings: Settings
    store: Store
    tunnels: Tunnels

    def close(self, tunnel: OnlineTunnel, reason: str) -> None:
        """Start a task that closes a tunnel. The client's terminal shows the reason."""


class SessionTunnels:
    """The tunnels of one SSH connection. Implements edge.ssh.online_tunnel.TunnelSession."""

    def __init__(
        self, gateway: TunnelHost, session_id: str, address: str, connection: Connection, identity: Identity
    ) -> None:
        self._gateway, self._id, self._address = gateway, session_id, address
        self._connection, self._identity = connection, identity
        self._limits = gateway.settings.limits
        self.is_gone = False
        self._tunnels: list[OnlineTunnel] = []
        self._requests = 0  # `ssh -R` requests that are being handled
        self._tasks: set[asyncio.Task[None]] = set()
        self._timeout: asyncio.TimerHandle | None = None
        self._has_advised = self._is_draining = False
        self.policies = NamedPolicies(connection.confirm)
        self.terminals = Terminals(self._limits.max_sessions_per_connection, self._end_terminals_if_idle)
        self.channels = Channels(connection, gateway.tunnels, self._limits, self.terminals.create_view)

    async def request(self, host: str, port: int) -> asyncssh.SSHListener | bool:
        """Open the tunnel that an `ssh -R` requests. Return False if the tunnel is refused."""
        self._requests += 1
        try:
            tunnel = await self._open(host, port)
        except TunnelRefused as refusal:
            self.refuse(refusal)
            asyncio.get_running_loop().call_later(_REFUSAL_DELAY, self._disconnect_refused, str(refusal))
            return False
        except ClientGone:
            return False
        finally:
            self._requests -= 1
            self._end_terminals_if_idle()
        if self.is_gone:  # the client left during the call to the store
            self._gateway.close(tunnel, "its client disconnected")
            return False
        return Listener(
            tunnel.requested_address[1], lambda: self._gateway.close(tunnel, "its client cancelled the forwarding")
        )

    @property
    def online(self) -> Sequence[OnlineTunnel]:
        """Return the online tunnels of this connection."""
        return tuple(self._tunnels)

    def announce_drain(self) -> None:
        """Announce that the gateway will disconnect the client. Refuse further tunnels."""
        self._is_draining = True
        self.terminals.show(Notice(forwarding.RESTART_SOON))

    def refuse(self, refusal: TunnelRefused) -> None:
        """Show the client that a requested tunnel is refused, and why."""
        self.terminals.show(Refused(str(refusal), refusal.code, refusal.is_final))

    def require_tunnel(self) -> None:
        """Disconnect the client if it has no tunnel after a timeout.

        ssh itself stays connected after a refused `-R`.
        """
        if self._timeout:
            self._timeout.cancel()
        if not self.is_gone:
            loop = asyncio.get_running_loop()
            self._timeout = loop.call_later(self._limits.tunnel_timeout, self._disconnect_without_tunnels)

    def on_connection_lost(self) -> None:
        """Close all tunnels of the connection, which has ended."""
        self.is_gone = True
        self.policies.end()
        if self._timeout:
            self._timeout.cancel()
        for tunnel in list(self._tunnels):
            self._gateway.close(tunnel, "its client disconnected")

    def on_policies(self, value: str) -> None:
        """Apply a value of TUNNEL_IP_POLICIES. If it arrives too late, end the tunnels."""
        self.policies.set(value)
        if self.policies.refusal:
            self._end_late()

    def _end_late(self) -> None:
        for tunnel in self._tunnels:
            self._gateway.close(tunnel, "its client sent TUNNEL_IP_POLICIES after the tunnel was opened")

    # Methods that tunnels call

    def accept_connection(
        self, tunnel: OnlineTunnel, transport: asyncio.Transport, visitor: Header | None
    ) -> asyncio.Protocol:
        return self.channels.accept(tunnel, transport, visitor)

    def on_tunnel_end(self, tunnel: OnlineTunnel, reason: str) -> None:
        if tunnel in self._tunnels:
            self._tunnels.remove(tunnel)
            self.terminals.show(Ended(f"{tunnel.url or 'The backend tunnel'} has ended: {reason}.", tunnel.id))
            self._end_terminals_if_idle()
            self.require_tunnel()

    def on_port_refusal(self, tunnel: OnlineTunnel) -> None:
        line = forwarding.describe_port(tunnel.url, tunnel.refusal)
        self.terminals.show(Notice(line) if tunnel.refusal else _create_event(tunnel, line))

    # Methods that open tunnels

    async def _open(self, host: str, port: int) -> OnlineTunnel:
        self._check(host, port)
        client = str(self._connection.get_extra_info("client_version", ""))
        requester = forwarding.Requester(self._identity.grant, self._gateway.id, self._id, self._address, client)
        requested = forwarding.parse_request(host, port, self._gateway.settings)
        policies = await self.policies.read(requested)
        for tries_left in reversed(range(_RANDOM_TRIES)):
            chosen = await self._choose_port(requested)
            opening = forwarding.build_opening(chosen, requester, self._gateway.settings)
            opening = replace(opening, ip_policies=policies)
            address = (host, forwarding.get_port(opening, port))
            try:
                tunnel = await self._gateway.tunnels.open(opening, address, self)
                break
            except (NotOpened, Unavailable) as error:
                if not (tries_left and opening.is_random and isinstance(error, NameTaken | NameBanned)):
                    raise forwarding.explain_error(error, opening.name, self._limits) from None
        self._tunnels.append(tunnel)
        if self.policies.refusal:  # another value of TUNNEL_IP_POLICIES arrived during the call to the store
            self._end_late()
            raise TunnelRefused(self.policies.refusal)
        self._announce(tunnel)
        return tunnel

    def _check(self, host: str, port: int) -> None:
        if self._is_draining:
            raise TunnelRefused(forwarding.RESTART, "unavailable")
        if len(self._tunnels) + self._requests > (limit := self._limits.max_tunnels_per_connection):
            sentence = f"One connection has at most {limit} tunnels: open another connection."
            raise TunnelRefused(sentence, "too_many_tunnels")
        if (host, port) in [tunnel.requested_address for tunnel in self._tunnels]:
            raise TunnelRefused("This connection has a tunnel for the same -R already: request another name or port.")

    async def _choose_port(self, requested: RequestedTunnel) -> RequestedTunnel:
        """Return the requested tunnel, with a free port if the client requested port 0. Raises TunnelRefused."""
        if requested != PortTunnel(0):
            return requested
        grant = self._identity.grant
        addresses = forwarding.list_addresses(grant, self._gateway.settings)
        try:
            address = await self._gateway.tunnels.find_free_address(grant.account, addresses)
        except Unavailable:
            raise TunnelRefused(forwarding.AWAY, "unavailable") from None
        if address is None:
            raise TunnelRefused(forwarding.NO_PORT, "no_free_port")
        return PortTunnel(int(address.rpartition(":")[2]), is_random=True)

    # Methods that show texts in terminals

    def _announce(self, tunnel: OnlineTunnel) -> None:
        """Show the address of a tunnel. For a TCP tunnel, wait first until its port is open."""
        if tunnel.record.proto == "tcp":
            task = asyncio.create_task(self._show_when_open(tunnel))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._show(tunnel)

    async def _show_when_open(self, tunnel: OnlineTunnel) -> None:
        """Wait until the port of a tunnel is open, and show its address unless the port is refused."""
        ports, port = OpenPorts(self._gateway.settings.directory), tunnel.record.name.rpartition(":")[2]
        deadline = time.monotonic() + _PORT_TIMEOUT
        while not ports.is_open(port, tunnel.id) and time.monotonic() < deadline:
            await asyncio.sleep(_POLL)
        if tunnel in self._tunnels and not tunnel.refusal:
            self._show(tunnel)

    def _show(self, tunnel: OnlineTunnel) -> None:
        """Show the address of a tunnel. Once per connection, show the abuse contact, and how to reserve a name."""
        opening = tunnel.opening
        self.terminals.show(_create_event(tunnel, forwarding.describe_tunnel(tunnel.id, opening)))
        if (contact := self._gateway.settings.abuse_contact) and len(self._tunnels) == 1:
            self.terminals.show(Notice(f"Report abuse to {contact}"))
        if _can_be_reserved(opening) and not (tunnel.is_reserved or self._has_advised):
            self._has_advised = True
            self.terminals.show(Notice(forwarding.advise_reservation(opening.name)))

    def _end_terminals_if_idle(self) -> None:
        """End the terminals if the client has no tunnel and requests none.

        The terminals already show why the tunnels were refused or have ended.
        """
        if not self._tunnels and not self._requests:
            self.terminals.end()

    # Methods that disconnect the client

    def _disconnect_refused(self, reason: str) -> None:
        """Disconnect a client without tunnel and terminal, such as `ssh -N`. ssh prints the reason."""
        if not (self.is_gone or self._tunnels or self._requests or self.terminals.has_any):
            self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, reason)

    def _disconnect_without_tunnels(self) -> None:
        if self._requests:  # check again later: the request that is being handled can still be refused
            self.require_tunnel()
        elif not self._tunnels:
            self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, "There is no tunnel on this connection.")


def _create_event(tunnel: OnlineTunnel, line: str) -> Opened:
    return Opened(line, tunnel.id, tunnel.url, tunnel.opening.proto, tunnel.is_reserved)


def _can_be_reserved(opening: Opening) -> bool:
    return bool(opening.name) and not opening.is_random
