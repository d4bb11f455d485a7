"""The bound of connections that are signing in at once. When there are too many, a random one has to go, as of sshd.

Those of one address are bounded, those of one network, and all: whoever holds most loses most. An address whose
sign-ins come to nothing is refused for a while, which grows as long as that goes on. What it has begun goes on: of a
hundred clients behind one address that come back at once, the first ones that sign in clear it for the others.
"""

import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from edge.process.settings import Limits
from edge.ssh import networks
from edge.ssh.penalties import Penalties

DROPPED, NO_KEY, WRONG_KEYS, NO_ANSWER = 1.0, 1.0, 3.0, 10.0  # seconds of a penalty
_REFUSED = 1.0  # for each connection while it is refused


class Waiting(Protocol):
    """A connection that is signing in."""

    def drop(self, reason: str) -> None:
        """End at once."""


@dataclass(frozen=True)
class _From:
    address: str
    source: str
    network: str


class SignIns:
    """The connections that are signing in; `now` is a clock that never goes back, in seconds."""

    def __init__(self, limits: Limits, now: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._now = limits, now
        self._penalties = Penalties(limits.max_penalty)
        self._waiting: dict[Waiting, _From] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def refuses(self, address: str) -> float:
        """Return for how many seconds an address is refused, 0 where it may try; each attempt makes that longer."""
        if left := self._penalties.refused_for(address, self._now()):
            self._penalties.again(address, _REFUSED, self._now())
        return left

    def begin(self, connection: Waiting, address: str) -> None:
        """Let a connection begin; another, or this one, is dropped where there are too many."""
        new = _From(address, networks.source(address), networks.network(address))
        self._waiting[connection] = new
        of_source = [it for it, place in self._waiting.items() if place.source == new.source]
        of_network = [it for it, place in self._waiting.items() if place.network == new.network]
        if len(of_source) > self._limits.max_sign_ins_per_address:
            self._drop_one_of(of_source, "too many of its address")
        elif len(of_network) > self._limits.max_sign_ins_per_network:
            self._drop_one_of(of_network, "too many of its network")
        elif len(self._waiting) > self._limits.max_sign_ins:
            self._drop_one_of(self._waiting, "too many at once")

    def succeeded(self, connection: Waiting) -> None:
        """Note that a connection has signed in, which clears its address."""
        if place := self._waiting.pop(connection, None):
            self._penalties.forgive(place.address)

    def ended(self, connection: Waiting, penalty: float) -> None:
        """Note that a connection is gone, with the penalty for what it came to."""
        if place := self._waiting.pop(connection, None):
            self._penalties.add(place.address, penalty, self._now())

    def _drop_one_of(self, waiting: Collection[Waiting], reason: str) -> None:
        chosen = random.choice(list(waiting))
        place = self._waiting.pop(chosen)
        chosen.drop(reason)
        self._penalties.add(place.address, DROPPED, self._now())
