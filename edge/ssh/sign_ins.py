"""How many connections may be signing in at once. When there are too many, a random one of some has to go.

As sshd's MaxStartups, but those that have not begun to authenticate go first: where all others have, it is the newest.
"""

import random
from dataclasses import dataclass
from typing import Protocol

from edge.process.settings import Limits


class Waiting(Protocol):
    """A connection that is signing in."""

    def drop(self) -> None:
        """End at once."""


@dataclass
class _Entry:
    address: str
    has_keys: bool = False


class SignIns:
    """The connections that are signing in."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: dict[Waiting, _Entry] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, connection: Waiting, address: str) -> None:
        """Let a connection begin; another, or this one, is dropped where there are too many."""
        self._waiting[connection] = _Entry(address)
        same = [waiting for waiting, entry in self._waiting.items() if entry.address == address]
        if len(same) > self._limits.max_sign_ins_per_address:
            self._drop_one_of(same)
        elif len(self._waiting) > self._limits.max_sign_ins:
            self._drop_one_of(list(self._waiting))

    def has_keys(self, connection: Waiting) -> None:
        """Note that the key exchange is done."""
        if connection in self._waiting:
            self._waiting[connection].has_keys = True

    def end(self, connection: Waiting) -> None:
        """Note that a connection has signed in, or is gone."""
        self._waiting.pop(connection, None)

    def _drop_one_of(self, waiting: list[Waiting]) -> None:
        silent = [connection for connection in waiting if not self._waiting[connection].has_keys]
        chosen = random.choice(silent or waiting)
        self.end(chosen)
        chosen.drop()
