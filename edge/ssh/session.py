"""One SSH client: its sign-in, its tunnels, and the terminals that show them.

There is no shell, no command, no sftp, no agent, no X11, no -L, -D or -W: asyncssh refuses what is not offered here.
"""

import asyncio
import time
from typing import Protocol, cast

import asyncssh

from chalicelib import ids
from chalicelib.model import kinds
from edge.link.proxy_protocol import Header
from edge.process import log
from edge.process.open_ports import OpenPorts
from edge.process.settings import Settings
from edge.ssh import forwarding, sign_ins
from edge.ssh.asyncssh_internals import Client, Connection
from edge.ssh.channels import Channels, Listener
from edge.ssh.forwarding import Asked, Port, Refused
from edge.ssh.identity import UNKNOWN_KEY, Identity
from edge.ssh.sign_ins import SignIns
from edge.ssh.terminal import Terminal
from edge.ssh.terminals import Terminals
from edge.ssh.tunnels import ClientGone, OnlineTunnel, Tunnels
from edge.store.records import Grant, NameBanned, NameTaken, NotOpened, Store, Unavailable

_MAX_REASON = 1000  # characters: it can contain all algorithms that the client sent
_OPENING = 3.0  # seconds for which a port may take to open before its client is shown the address
_POLL = 0.1  # seconds between two checks of that
_REFUSED = 1.0  # seconds for which a client without a terminal may ask for another tunnel
_DRAWS = 3  # of a name of chance, which may be somebody's


class Host(Protocol):
    """The gateway, as its sessions know it."""

    id: str
    settings: Settings
    store: Store
    sign_ins: SignIns
    tunnels: Tunnels

    def close(self, tunnel: OnlineTunnel, reason: str) -> None:
        """Take a tunnel offline in a task of its own; its client is told the reason."""

    def gone(self, session: "Session") -> None:
        """Hear that a session has ended."""


class Session(Client):
    """One client's connection. It may do what the key or certificate that it signed in with may."""

    def __init__(self, gateway: Host) -> None:
        self._gateway = gateway
        self._limits = gateway.settings.limits
        self.most_unread = self._limits.max_unread_kib << 10
        self._id = ids.new(kinds.TUNNEL_SESSIONS.prefix)
        self.address = "?"
        self._host = ""
        self._asking = 0
        self._began = time.monotonic()
        self._has_begun = self._has_keys = self._is_told = False
        self._has_said_how = False
        self._identity = Identity(gateway.store, self._limits.max_sign_in_tries)
        self._tunnels: list[OnlineTunnel] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._terminals = Terminals(self._limits.max_sessions_per_connection, self._end_if_idle)
        self._without_tunnels: asyncio.TimerHandle | None = None
        self.is_gone = False

    # Signing in

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = cast(Connection, conn)
        self.address = str(conn.get_extra_info("peername", ("?",))[0])
        self._channels = Channels(self._connection, self._gateway.tunnels, self._limits, self._terminals.shown)
        self._gateway.sign_ins.begin(self, self.address)

    def drop(self, reason: str) -> None:
        self._tell("sign_in_dropped", reason=reason)
        self.end()

    def block(self) -> None:
        """End, since the operator has blocked the network."""
        self._is_told = True
        self._tell("sign_in_blocked")
        self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, "This network is blocked here.")

    def end(self) -> None:
        """End at once, without a line in the log."""
        self._is_told = True
        self._connection.abort()

    def on_key_exchange(self) -> None:
        self._has_begun = True

    def begin_auth(self, username: str) -> bool:
        self._has_keys = True
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def presents(self, certificate: str) -> None:
        self._identity.presents(certificate)

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return await self._identity.has_key(key.get_fingerprint())

    async def validate_ca_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return await self._identity.has_certificate_of(key.get_fingerprint())

    def proved(self) -> None:
        self._identity.proved()

    def failed(self) -> None:
        is_first = not self._identity.has_failed
        if self._identity.is_store_away:
            self._is_told = True
            self._tell("store_away")
            self._connection.disconnect(asyncssh.DISC_SERVICE_NOT_AVAILABLE, forwarding.AWAY)
        elif self._identity.failed():
            self._connection.disconnect(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, "Too many keys were tried.")
        elif is_first:
            self._connection.send_auth_banner(f"{UNKNOWN_KEY}\r\n")

    def auth_completed(self) -> None:
        self._gateway.sign_ins.succeeded(self)
        self._wait_for_tunnels()
        grant = self.grant
        self._is_told = True
        self._tell("signed_in", account=grant.account, credential=grant.credential)

    def _tell(self, event: str, **facts: str) -> None:
        log.event(event, address=self.address, session=self._id, **facts)

    def _outcome(self, error: Exception | None) -> tuple[str, float]:
        """Return why a sign-in failed, and its penalty; "" for clients that only connect, like health checks."""
        if self._identity.is_store_away:
            return "", 0
        if self._identity.has_failed:
            return "no key was let in", sign_ins.WRONG_KEYS
        if time.monotonic() - self._began >= self._limits.sign_in_timeout:
            return "it did not sign in in time", sign_ins.NO_ANSWER
        if self._has_keys:
            return "it tried no key", sign_ins.NO_KEY
        if error and not isinstance(error, OSError | asyncssh.ConnectionLost):
            return f"the handshake failed: {error}"[:_MAX_REASON], 0
        return ("the client left during the handshake", 0) if self._has_begun else ("", 0)

    @property
    def grant(self) -> Grant:
        return self._identity.grant

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        if self._without_tunnels:
            self._without_tunnels.cancel()
        reason, penalty = self._outcome(exc)
        self._gateway.sign_ins.ended(self, penalty)
        if reason and not self._is_told:
            self._tell("sign_in_failed", reason=reason)
        self._gateway.gone(self)
        for tunnel in list(self._tunnels):
            self._gateway.close(tunnel, "its client has gone")

    # Tunnels

    def asks(self, host: str) -> None:
        self._host = host

    def not_permitted(self) -> None:
        self._terminals.say("The certificate does not permit tunnels: it needs the extension permit-port-forwarding.")

    async def server_requested(self, listen_host: str, listen_port: int) -> asyncssh.SSHListener | bool:
        self._asking += 1
        try:
            tunnel = await self._open(self._host, listen_port)
        except Refused as refused:
            self._terminals.say(str(refused))
            asyncio.get_running_loop().call_later(_REFUSED, self._end_refused, str(refused))
            return False
        except ClientGone:
            return False
        finally:
            self._asking -= 1
            self._end_if_idle()
        if self.is_gone:  # while the store was asked
            self._gateway.close(tunnel, "its client has gone")
            return False
        return Listener(tunnel.asked[1], lambda: self._gateway.close(tunnel, "its client has ended it"))

    def _end_refused(self, reason: str) -> None:
        """End a connection that has neither tunnel nor terminal, as of `ssh -N`, with the reason: ssh prints that."""
        if not (self.is_gone or self._tunnels or self._asking or self._terminals.has_any):
            self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, reason)

    async def _open(self, host: str, port: int) -> OnlineTunnel:
        self._check(host, port)
        client = str(self._connection.get_extra_info("client_version", ""))
        asking = forwarding.Asking(self.grant, self._gateway.id, self._id, self.address, client)
        asked = forwarding.read(host, port, self._gateway.settings)
        for left in reversed(range(_DRAWS)):
            opening = forwarding.opening_of(await self._drawn(asked), asking, self._gateway.settings)
            try:
                tunnel = await self._gateway.tunnels.open(opening, (host, forwarding.port_of(opening, port)), self)
                break
            except (NotOpened, Unavailable) as error:
                if not (left and opening.is_drawn and isinstance(error, NameTaken | NameBanned)):
                    raise Refused(forwarding.reason(error, opening.name, self._limits)) from None
        self._tunnels.append(tunnel)
        if tunnel.carried.proto == "tcp":
            task = asyncio.create_task(self._show_when_open(tunnel))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        else:
            self._show(tunnel)
        return tunnel

    async def _drawn(self, asked: Asked) -> Asked:
        """Return the opening that is asked for, with a port in the place of 0. Raises Refused."""
        if asked != Port(0):
            return asked
        addresses = forwarding.addresses(self.grant, self._gateway.settings)
        try:
            found = await self._gateway.tunnels.free_address(self.grant.account, addresses)
        except Unavailable:
            raise Refused(forwarding.AWAY) from None
        if found is None:
            raise Refused(forwarding.NO_PORT)
        return Port(int(found.rpartition(":")[2]), is_drawn=True)

    async def _show_when_open(self, tunnel: OnlineTunnel) -> None:
        """Show where a tunnel is once its port is open. A refusal is shown in place of that."""
        ports, port = OpenPorts(self._gateway.settings.directory), tunnel.carried.name.rpartition(":")[2]
        until = time.monotonic() + _OPENING
        while not ports.is_open(port, tunnel.id) and time.monotonic() < until:
            await asyncio.sleep(_POLL)
        if tunnel in self._tunnels and not tunnel.refusal:
            self._show(tunnel)

    def _show(self, tunnel: OnlineTunnel) -> None:
        """Say where a tunnel is, and once what its client should know."""
        opening = tunnel.opening
        self._terminals.say(forwarding.shown(tunnel.id, opening))
        if (contact := self._gateway.settings.abuse_contact) and len(self._tunnels) == 1:
            self._terminals.say(f"Whoever sees abuse is asked to tell {contact}")
        if opening.name and not (opening.is_drawn or tunnel.is_reserved or self._has_said_how):
            self._has_said_how = True
            self._terminals.say(forwarding.unkept(opening.name))

    def _check(self, host: str, port: int) -> None:
        if len(self._tunnels) + self._asking > (most := self._limits.max_tunnels_per_connection):
            raise Refused(f"One connection has at most {most} tunnels: open another connection.")
        if (host, port) in [tunnel.asked for tunnel in self._tunnels]:
            raise Refused("This connection has that tunnel already.")

    def ended(self, tunnel: OnlineTunnel, reason: str) -> None:
        if tunnel in self._tunnels:
            self._tunnels.remove(tunnel)
            self._terminals.say(f"{tunnel.url or 'The backend tunnel'} has ended: {reason}.")
            self._end_if_idle()
            self._wait_for_tunnels()

    def refused(self, tunnel: OnlineTunnel) -> None:
        self._terminals.say(forwarding.unserved(tunnel.url, tunnel.refusal))

    def _wait_for_tunnels(self) -> None:
        """End the connection if it has no tunnel for a while: its client would believe that it has, and stay."""
        if self._without_tunnels:
            self._without_tunnels.cancel()
        if not self.is_gone:
            wait = asyncio.get_running_loop().call_later
            self._without_tunnels = wait(self._limits.tunnel_timeout, self._end_without_tunnels)

    def _end_without_tunnels(self) -> None:
        if self._asking:  # it may be refused
            self._wait_for_tunnels()
        elif not self._tunnels:
            self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, "There is no tunnel on this connection.")

    # Connections

    def connected(self, tunnel: OnlineTunnel, transport: asyncio.Transport, visitor: Header | None) -> asyncio.Protocol:
        return self._channels.connected(tunnel, transport, visitor)

    def pause_writing(self) -> None:
        self._channels.hold()

    def resume_writing(self) -> None:
        self._channels.go_on()

    # Terminals

    def session_requested(self) -> Terminal | bool:
        return self._terminals.request()

    def _end_if_idle(self) -> None:
        """End the terminals of a client that has no tunnel and is about to get none; it has been told why."""
        if not self._tunnels and not self._asking:
            self._terminals.end()
