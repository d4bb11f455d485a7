"""The SSH connection of one client: signs it in, and passes events to its tunnels.

It offers no shell, command, sftp, agent, X11, -L, -D or -W: asyncssh refuses requests for them.
"""

import math
import time
from collections.abc import Sequence
from typing import Protocol, cast

import asyncssh

from chalicelib import ids
from chalicelib.model.base import kinds
from edge.process import log
from edge.ssh import forwarding
from edge.ssh.asyncssh_internals import Client, Connection
from edge.ssh.auth import sign_ins
from edge.ssh.auth.identity import UNKNOWN_KEY, Identity
from edge.ssh.auth.sign_ins import SignIns
from edge.ssh.named_policies import NAMED_POLICIES
from edge.ssh.online_tunnel import OnlineTunnel
from edge.ssh.session_tunnels import SessionTunnels, TunnelHost
from edge.ssh.terminal.client_events import Notice
from edge.ssh.terminal.terminal import Terminal

_NO_FORWARDING = "The certificate does not permit tunnels: it needs the extension permit-port-forwarding."
_MAX_REASON = 1000  # maximum characters of a logged reason: some reasons list all algorithms of the client


class SessionHost(TunnelHost, Protocol):
    """The methods and attributes of the gateway that a Session uses."""

    sign_ins: SignIns

    def on_session_end(self, session: "Session") -> None:
        """Forget a session after the end of its connection."""


class Session(Client):
    """One client's connection, with the rights of the key or certificate that it signed in with."""

    def __init__(self, gateway: SessionHost) -> None:
        self._gateway = gateway
        self._limits = gateway.settings.limits
        self.most_unread = self._limits.max_unread_kib << 10
        self._id = ids.new(kinds.TUNNEL_SESSIONS.prefix)
        self.address = "?"
        self._requested_host = ""
        self._start = time.monotonic()
        self._has_exchanged_keys = self._has_tried_to_sign_in = False
        self._is_outcome_logged = False
        self._loss = ""  # the sentence for the client if the gateway has lost its lease
        self._identity = Identity(self._limits.max_sign_in_tries)

    # Methods for the sign-in

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = cast(Connection, conn)
        self.address = str(conn.get_extra_info("peername", ("?",))[0])
        self._tunnels = SessionTunnels(self._gateway, self._id, self.address, self._connection, self._identity)
        self._gateway.sign_ins.begin(self, self.address)

    def drop(self, reason: str) -> None:
        self._log("sign_in_dropped", reason=reason)
        self.abort()

    def block(self) -> None:
        """Disconnect the client, because the operator has blocked its network."""
        self._is_outcome_logged = True
        self._log("sign_in_blocked")
        self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, "The operator has blocked your network.")

    @property
    def online(self) -> Sequence[OnlineTunnel]:
        """Return the client's tunnels that are online."""
        return self._tunnels.online

    def announce_drain(self) -> None:
        """Announce to the client that it will be disconnected. Refuse further tunnels."""
        self._tunnels.announce_drain()

    def send_away(self) -> None:
        """Disconnect the client, and ask it to connect again."""
        self._is_outcome_logged = True
        self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, forwarding.RESTART)

    def announce_loss(self, seconds: float) -> None:
        """Show the client that the gateway has lost its lease. Ask it to connect again after some seconds."""
        self._loss = f"This gateway has lost its lease: connect again in {math.ceil(seconds)} seconds."
        self._tunnels.terminals.show(Notice(self._loss, round(seconds, 1)))

    def disconnect_after_loss(self) -> None:
        """Disconnect the client after the loss of the lease."""
        self._is_outcome_logged = True
        self._connection.disconnect(asyncssh.DISC_SERVICE_NOT_AVAILABLE, self._loss)

    def abort(self) -> None:
        """Close the connection at once and log nothing."""
        self._is_outcome_logged = True
        self._connection.abort()

    def on_key_exchange(self) -> None:
        self._has_exchanged_keys = True

    def begin_auth(self, username: str) -> bool:
        self._has_tried_to_sign_in = True
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def on_certificate(self, key_id: str) -> None:
        self._identity.on_certificate(key_id)

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return await self._identity.has_key(key.get_fingerprint())

    async def validate_ca_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return await self._identity.has_certificate_by(key.get_fingerprint())

    def on_signature(self) -> None:
        self._identity.on_signature()

    def on_rejected_key(self) -> None:
        is_first = not self._identity.has_rejected_key
        if self._identity.is_store_away:
            self._is_outcome_logged = True
            self._log("store_away")
            self._connection.disconnect(asyncssh.DISC_SERVICE_NOT_AVAILABLE, forwarding.AWAY)
        elif self._identity.on_rejected_key():
            self._connection.disconnect(
                asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE,
                "Your client tried too many keys: choose one with ssh -o IdentitiesOnly=yes -i FILE.",
            )
        elif is_first:
            self._connection.send_auth_banner(f"{UNKNOWN_KEY}\r\n")

    def auth_completed(self) -> None:
        self._gateway.sign_ins.on_success(self)
        self._tunnels.require_tunnel()
        self._tunnels.policies.begin()
        grant = self._identity.grant
        self._is_outcome_logged = True
        self._log("signed_in", account=grant.account, credential=grant.credential)

    def connection_lost(self, exc: Exception | None) -> None:
        reason, penalty = self._explain_failure(exc)
        self._gateway.sign_ins.on_end(self, penalty)
        if reason and not self._is_outcome_logged:
            self._log("sign_in_failed", reason=reason)
        self._gateway.on_session_end(self)
        self._tunnels.on_connection_lost()

    def _explain_failure(self, error: Exception | None) -> tuple[str, float]:
        """Return why a sign-in failed, and the penalty in seconds for the client's address.

        The reason is "" if the store did not answer, or if the client left before the key exchange, as health checks
        do.
        """
        if self._identity.is_store_away:
            return "", 0
        if self._identity.has_rejected_key:
            return "the gateway accepted none of the client's keys", sign_ins.WRONG_KEYS
        if time.monotonic() - self._start >= self._limits.sign_in_timeout:
            return "the client did not sign in within the time limit", sign_ins.NO_ANSWER
        if self._has_tried_to_sign_in:
            return "the client tried no key", sign_ins.NO_KEY
        if error and not isinstance(error, OSError | asyncssh.ConnectionLost):
            return f"the handshake failed: {error}"[:_MAX_REASON], 0
        return ("the client left during the handshake", 0) if self._has_exchanged_keys else ("", 0)

    def _log(self, event: str, **fields: str) -> None:
        log.event(event, address=self.address, session=self._id, **fields)

    # Methods for the tunnels of the client

    def on_forward_host(self, host: str) -> None:
        self._requested_host = host

    def on_forbidden_forward(self) -> None:
        self._tunnels.refuse(forwarding.TunnelRefused(_NO_FORWARDING, "forwarding_not_permitted"))

    async def server_requested(self, listen_host: str, listen_port: int) -> asyncssh.SSHListener | bool:
        return await self._tunnels.request(self._requested_host, listen_port)

    # Methods for forwarded connections and terminals

    def pause_writing(self) -> None:
        self._tunnels.channels.pause()

    def resume_writing(self) -> None:
        self._tunnels.channels.resume()

    def session_requested(self) -> Terminal | bool:
        terminal = self._tunnels.terminals.request()
        if isinstance(terminal, Terminal):
            self._tunnels.policies.await_session(terminal.confirmed)
        return terminal

    def on_variable(self, name: str, value: str) -> None:
        if name == NAMED_POLICIES:
            self._tunnels.on_policies(value)
