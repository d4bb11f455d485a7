"""The IP policies that a client names in the environment variable TUNNEL_IP_POLICIES (SetEnv in ssh).

A client's tunnels are opened only after the gateway knows the variable, or knows that the client does not send it.
OpenSSH requests its tunnels and its session before it answers any request of the server. After the gateway has
confirmed the session, OpenSSH sends all variables before it answers the gateway's next request. So the gateway sends a
request after the confirmation. When the answer arrives, all variables have arrived.
"""

import asyncio
from collections.abc import Awaitable, Callable

from chalicelib.model.base import kinds
from chalicelib.model.edges.modules.ip_restriction import MAX_NAMED
from edge.ssh.forwarding import LabelledTunnel, RequestedTunnel, TunnelRefused

NAMED_POLICIES = "TUNNEL_IP_POLICIES"
_TIMEOUT = 10.0  # seconds without an answer of the client after which a tunnel is refused
_LATE = f"{NAMED_POLICIES} came after the request for the tunnel, or has two values: {{}}."
_HOW = "send one value with the first session of the connection, and do not use ControlPersist"
_SILENT = "Your client does not answer, so the gateway cannot know its IP policies: connect again."
_LABELS = f"{NAMED_POLICIES} does not restrict a tunnel with labels: set ip_restriction on the edge that uses it."


class NamedPolicies:
    """The IP policies of one SSH connection.

    `confirm` sends the client a request, and waits for the answer. If a value of TUNNEL_IP_POLICIES arrives too late,
    all tunnels are refused from then on, with the sentence `refusal`.
    """

    def __init__(self, confirm: Callable[[], Awaitable[None]]) -> None:
        self._confirm = confirm
        self._value: str | None = None
        self._is_read = False
        self._pending: set[asyncio.Task[None]] = set()
        self.refusal = ""

    def begin(self) -> None:
        """Send the client a request. Its tunnels wait for the answer, which follows the client's first requests."""
        self._add(self._confirm())

    def await_session(self, is_open: asyncio.Event) -> None:
        """Make tunnels wait also for the environment variables of a session.

        The client sends the variables after the gateway has confirmed the session. This confirmation sets `is_open`.
        """
        self._add(self._confirm_session(is_open))

    def set(self, value: str) -> None:
        """Apply a value of the variable TUNNEL_IP_POLICIES.

        Refuse all tunnels if the variable had another value before, or if a tunnel was already opened without policies.
        """
        if self._value != value and (self._is_read or self._value is not None):
            self.refusal = _LATE.format(_HOW)
        self._value = value

    async def read(self, requested: RequestedTunnel) -> tuple[str, ...]:
        """Wait for TUNNEL_IP_POLICIES. Return the ids of IP policies for a tunnel. Raises TunnelRefused."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                while self._pending:
                    await asyncio.wait(self._pending)
        except TimeoutError:
            raise TunnelRefused(_SILENT, "unavailable") from None
        self._is_read = True
        if self.refusal:
            raise TunnelRefused(self.refusal)
        if self._value is None:
            return ()
        if isinstance(requested, LabelledTunnel):
            raise TunnelRefused(_LABELS)
        return parse_policies(self._value)

    def end(self) -> None:
        """Stop waiting for the client's answer, because the client has left."""
        for task in self._pending:
            task.cancel()

    def _add(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _confirm_session(self, is_open: asyncio.Event) -> None:
        await is_open.wait()
        await self._confirm()


def parse_policies(text: str) -> tuple[str, ...]:
    """Return the ids in a comma-separated list of IP policies. Raises TunnelRefused."""
    ids = [id.strip() for id in text.split(",")]
    if not all(map(kinds.IP_POLICIES.has, ids)):
        raise TunnelRefused(f"{NAMED_POLICIES} must be ids of IP policies: ipp_…, with commas between several.")
    if len({*ids}) > MAX_NAMED:
        raise TunnelRefused(f"{NAMED_POLICIES} has more than {MAX_NAMED} IP policies: name at most {MAX_NAMED}.")
    return tuple(dict.fromkeys(ids))
