"""One SSH client: its sign-in, its tunnels, and the terminals that show them.

There is no shell, no command, no sftp, no agent, no X11, no -L, -D or -W: asyncssh refuses what is not offered here.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Protocol, cast

import asyncssh

from chalicelib import ids
from chalicelib.model import kinds
from edge import log, wishes
from edge.connection import Client, Connection
from edge.records import Grant, NameBanned, NameTaken, Opening, Store, TooManyTunnels, Unavailable
from edge.relay import Channel, Relay
from edge.settings import Settings
from edge.sign_ins import SignIns
from edge.terminal import Terminal, request_in
from edge.tunnels import ClientGone, Tunnel, Tunnels
from edge.wishes import Labelled, Named, Refused

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_LINES_KEPT = 20  # for a terminal that opens after they were said


class Gateway(Protocol):
    """What the sessions of a gateway share."""

    id: str
    settings: Settings
    store: Store
    sign_ins: SignIns
    tunnels: Tunnels

    def close(self, tunnel: Tunnel, reason: str) -> None:
        """Take a tunnel offline, beside what else goes on."""

    def gone(self, session: "Session") -> None:
        """Hear that a session has ended."""


class Listener(asyncssh.SSHListener):
    """What asyncssh keeps of a granted `-R`, to end it when the client takes it back or goes."""

    def __init__(self, end: Callable[[], None]) -> None:
        super().__init__()
        self._end = end

    def close(self) -> None:
        self._end()

    async def wait_closed(self) -> None:
        pass


class Session(Client):
    """One client. Its grant is that of the key that it has signed with."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._settings, self._limits = gateway.settings, gateway.settings.limits
        self.most_unread = self._limits.max_unread_kib << 10
        self._id = ids.new(kinds.TUNNEL_SESSIONS.prefix)
        self._address = "?"
        self._certificate = self._host = ""
        self._failures = self._wishing = 0
        self._known: dict[tuple[str, ...], Grant | None] = {}
        self._candidate: Grant | None = None
        self._grant: Grant | None = None
        self._tunnels: list[Tunnel] = []
        self._relays: set[Relay] = set()
        self._terminals: list[Terminal] = []
        self._sessions = 0
        self._without_tunnels: asyncio.TimerHandle | None = None
        self._said: list[str] = []
        self.is_gone = False

    # Signing in

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = cast(Connection, conn)
        self._address = str(conn.get_extra_info("peername", ("?",))[0])
        self._gateway.sign_ins.begin(self, self._address)

    def drop(self) -> None:
        """End at once."""
        self._connection.abort()

    def begin_auth(self, username: str) -> bool:
        self._gateway.sign_ins.has_keys(self)
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def presents(self, certificate: str) -> None:
        self._certificate = certificate

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return await self._ask(self._gateway.store.grant_of_key, key.get_fingerprint())

    async def validate_ca_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return await self._ask(self._gateway.store.grant_of_certificate, key.get_fingerprint(), self._certificate)

    async def _ask(self, ask: Callable[..., Grant | None], *asked: str) -> bool:
        """Tell whether a key is known; ssh presents it twice, first to ask and then with a signature."""
        if asked not in self._known:
            try:
                self._known[asked] = await asyncio.to_thread(ask, *asked)
            except Unavailable:
                log.event("sign_in_failed", address=self._address, reason="the store is away")
                return False
        self._candidate = self._known[asked]
        return self._candidate is not None

    def proved(self) -> None:
        self._grant = self._candidate

    def failed(self) -> None:
        self._failures += 1
        if self._failures >= self._limits.max_sign_in_tries:
            log.event("sign_in_failed", address=self._address, reason="too many keys")
            self._connection.disconnect(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, "Too many keys were tried.")

    def auth_completed(self) -> None:
        self._gateway.sign_ins.end(self)
        self._wait_for_tunnels()
        log.event("signed_in", address=self._address, account=self.grant.account, credential=self.grant.credential)

    @property
    def grant(self) -> Grant:
        """What this client may do; PermissionError while it has not signed in."""
        if self._grant is None:
            raise PermissionError("must sign in first")
        return self._grant

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        if self._without_tunnels:
            self._without_tunnels.cancel()
        self._gateway.sign_ins.end(self)
        self._gateway.gone(self)
        for tunnel in list(self._tunnels):
            self._gateway.close(tunnel, "its client has gone")

    # Tunnels

    def asks(self, host: str) -> None:
        self._host = host

    def not_permitted(self) -> None:
        self._say("The certificate does not permit tunnels: it needs the extension permit-port-forwarding.")

    async def server_requested(self, listen_host: str, listen_port: int) -> asyncssh.SSHListener | bool:
        self._wishing += 1
        try:
            tunnel = await self._open((self._host, listen_port))
        except Refused as refused:
            self._say(str(refused))
            return False
        except ClientGone:
            return False
        finally:
            self._wishing -= 1
            self._end_if_idle()
        if self.is_gone:  # while the store was asked
            self._gateway.close(tunnel, "its client has gone")
            return False
        return Listener(lambda: self._gateway.close(tunnel, "its client has ended it"))

    async def _open(self, asked: tuple[str, int]) -> Tunnel:
        wish = wishes.read(*asked, self._settings.tunnel_domain)
        self._check(wish, asked)
        opening = self._opening(wish)
        for target in opening.targets:
            if not self.grant.permits(target):
                raise Refused(f"The rules of {self.grant.credential} do not let it bind {target}.")
        try:
            tunnel = await self._gateway.tunnels.open(opening, asked, self)
        except (NameTaken, NameBanned, TooManyTunnels, Unavailable) as error:
            raise Refused(self._reason(error, opening.name)) from None
        self._tunnels.append(tunnel)
        self._say(_shown(tunnel, opening))
        return tunnel

    def _reason(self, error: Exception, name: str) -> str:
        match error:
            case NameTaken():
                return f"{name} is taken by another credential: choose another name."
            case NameBanned():
                return f"{name} may not be used here: choose another name."
            case TooManyTunnels():
                return f"There are as many tunnels as there may be ({self._limits.max_tunnels_per_account} an account)."
        return "The gateway cannot reach its store just now: try again in a moment."

    def _check(self, wish: Named | Labelled, asked: tuple[str, int]) -> None:
        if len(self._tunnels) + self._wishing > self._limits.max_tunnels_per_connection:
            most = self._limits.max_tunnels_per_connection
            raise Refused(f"One connection has at most {most} tunnels: open another connection.")
        if asked in [tunnel.asked for tunnel in self._tunnels]:
            raise Refused("This connection has that tunnel already.")

    def _opening(self, wish: Named | Labelled) -> Opening:
        opening = Opening(self.grant, self._gateway.id, self._id, forwards_to=self._address)
        if isinstance(wish, Labelled):
            return opening.labelled(wish.labels)
        name = wish.name or self._given_name()
        return opening.named(name, self._settings.url(name))

    def _given_name(self) -> str:
        drawn = "".join(secrets.choice(_ALPHABET) for _ in range(10))
        name = f"{drawn}.{self._settings.tunnel_domain}"
        if not self.grant.permits(name):
            raise Refused(f"The rules of {self.grant.credential} permit no name of chance: ask for one, -R name:80:….")
        return name

    def ended(self, tunnel: Tunnel, reason: str) -> None:
        if tunnel in self._tunnels:
            self._tunnels.remove(tunnel)
            self._say(f"{tunnel.url or 'The backend tunnel'} has ended: {reason}.")
            self._end_if_idle()
            self._wait_for_tunnels()

    def _wait_for_tunnels(self) -> None:
        """End the connection if it has no tunnel for a while: its client would believe that it has, and stay."""
        if self._without_tunnels:
            self._without_tunnels.cancel()
        if not self.is_gone:
            wait = asyncio.get_running_loop().call_later
            self._without_tunnels = wait(self._limits.tunnel_timeout, self._end_without_tunnels)

    def _end_without_tunnels(self) -> None:
        if not self._tunnels and not self._wishing:
            self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, "There is no tunnel on this connection.")

    # Connections

    def connected(self, tunnel: Tunnel, transport: asyncio.Transport) -> asyncio.Protocol:
        tunnel.connections.add(transport)
        self._gateway.tunnels.take_channel(tunnel.leased.account)
        peer = transport.get_extra_info("peername", ("127.0.0.1", 0))

        async def opened(channel: Channel) -> None:
            if not self._gateway.tunnels.has_room(tunnel):
                raise OSError("too many channels")
            await self._connection.create_connection(lambda: channel, *tunnel.asked, peer[0], peer[1])

        def closed() -> None:
            tunnel.connections.discard(transport)
            self._gateway.tunnels.give_channel_back(tunnel.leased.account)
            self._relays.discard(relay)

        relay = Relay(opened, closed, self._seen, timeout=self._limits.upstream_timeout)
        self._relays.add(relay)
        return relay

    def pause_writing(self) -> None:
        for relay in self._relays:
            relay.hold(self)

    def resume_writing(self) -> None:
        for relay in self._relays:
            relay.go_on(self)

    def _seen(self, data: bytes) -> None:
        """Show the request that these bytes begin, if they begin one."""
        terminals = [terminal for terminal in self._terminals if terminal.shows_connections]
        if terminals and (request := request_in(data)):
            for terminal in terminals:
                terminal.say(request)

    # Terminals

    def session_requested(self) -> Terminal | bool:
        if self._sessions >= self._limits.max_sessions_per_connection:
            return False
        self._sessions += 1
        return Terminal(self._terminal_ready, self._terminal_ended)

    def _terminal_ready(self, terminal: Terminal) -> None:
        self._terminals.append(terminal)
        terminal.say(*self._said)
        self._end_if_idle()

    def _terminal_ended(self, terminal: Terminal) -> None:
        self._sessions -= 1
        if terminal in self._terminals:
            self._terminals.remove(terminal)

    def _say(self, line: str) -> None:
        self._said = [*self._said, line][-_LINES_KEPT:]
        for terminal in self._terminals:
            terminal.say(line)

    def _end_if_idle(self) -> None:
        """End the terminals of a client that has no tunnel and is about to get none; it has been told why."""
        if self._tunnels or self._wishing:
            return
        for terminal in list(self._terminals):
            if not self._said:
                terminal.say("There is no shell here. To open a tunnel: ssh -R name:80:localhost:3000 …")
            terminal.exit(1)


def _shown(tunnel: Tunnel, opening: Opening) -> str:
    if opening.labels:
        labels = ", ".join(f"{key}={value}" for key, value in opening.labels)
        return f"The backend tunnel {tunnel.id} is online with {labels}; no edge leads to it yet."
    return f"{tunnel.url} is online."
