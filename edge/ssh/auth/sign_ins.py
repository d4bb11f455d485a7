"""Limits how many connections are signing in. Above a limit, a random connection is dropped, as sshd does.

There is a limit for each address, each network, and all connections. After failed sign-ins, an address is refused for a
time that grows with each failure. Sign-ins from a refused address that have already begun continue. So if a hundred
clients behind one address connect again at once, the first that signs in clears the penalty for the others.
"""

import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from edge import networks
from edge.process.settings import Limits
from edge.ssh.auth.penalties import Penalties

# penalties in seconds for a sign-in that was dropped, tried no key, tried only wrong keys, or exceeded the time limit
DROPPED, NO_KEY, WRONG_KEYS, NO_ANSWER = 1.0, 1.0, 3.0, 10.0
_REFUSED = 1.0  # penalty in seconds for each attempt from a refused address


class PendingSignIn(Protocol):
    """A connection that is signing in."""

    def drop(self, reason: str) -> None:
        """Close the connection at once. `reason` is for the log."""


@dataclass(frozen=True)
class _Origin:
    address: str
    source: str
    network: str


class SignIns:
    """The connections that are signing in, and the penalties of addresses. `now` is a monotonic clock in seconds."""

    def __init__(self, limits: Limits, now: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._now = limits, now
        self._penalties = Penalties(limits.max_penalty)
        self._pending: dict[PendingSignIn, _Origin] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def check_refusal(self, address: str) -> float:
        """Return for how many seconds an address is refused, or 0.

        If the address is refused, this call adds a second to its penalty.
        """
        if seconds := self._penalties.get_refusal(address, self._now()):
            self._penalties.extend(address, _REFUSED, self._now())
        return seconds

    def begin(self, connection: PendingSignIn, address: str) -> None:
        """Add a connection. If a limit is then exceeded, drop a random connection, which can be the new one."""
        newcomer = _Origin(address, networks.get_source(address), networks.get_network(address))
        self._pending[connection] = newcomer
        of_source = [connection for connection, origin in self._pending.items() if origin.source == newcomer.source]
        of_network = [connection for connection, origin in self._pending.items() if origin.network == newcomer.network]
        if len(of_source) > self._limits.max_sign_ins_per_address:
            self._drop_one(of_source, "too many sign-ins from its address")
        elif len(of_network) > self._limits.max_sign_ins_per_network:
            self._drop_one(of_network, "too many sign-ins from its network")
        elif len(self._pending) > self._limits.max_sign_ins:
            self._drop_one(self._pending, "too many sign-ins at once")

    def on_success(self, connection: PendingSignIn) -> None:
        """Remove a connection that has signed in, and clear the penalty of its address."""
        if origin := self._pending.pop(connection, None):
            self._penalties.clear(origin.address)

    def on_end(self, connection: PendingSignIn, penalty: float) -> None:
        """Remove a connection that ended before its sign-in. Add a penalty to its address."""
        if origin := self._pending.pop(connection, None):
            self._penalties.add(origin.address, penalty, self._now())

    def _drop_one(self, pending: Collection[PendingSignIn], reason: str) -> None:
        connection = random.choice(list(pending))
        origin = self._pending.pop(connection)
        connection.drop(reason)
        self._penalties.add(origin.address, DROPPED, self._now())
