"""Limits how many wrong passwords one visitor may send to a route or tunnel. This file does no I/O."""

from collections import OrderedDict
from collections.abc import Callable

from edge import networks

MAX_WRONG = 10  # wrong passwords that a visitor may send without a pause
PAUSE = 6.0  # after MAX_WRONG wrong passwords, the seconds between two further passwords
# The most visitors that are counted. Above this number, the visitor with the oldest wrong password is forgotten.
_MAX_VISITORS = 10_000


class GuessLimits:
    """Counts wrong passwords for each visitor (an IPv4 address or IPv6 /64) and each route or tunnel."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # by (route or reservation, visitor): the time from which the visitor may again send MAX_WRONG passwords without
        # a pause
        self._free_at: OrderedDict[tuple[str, str], float] = OrderedDict()

    def pause(self, owner: str, address: str) -> int:
        """Return the seconds until the visitor may send a password, or 0.

        `owner` is the id of the route or reservation that has the passwords.
        """
        free_at, now = self._free_at.get((owner, networks.get_source(address)), 0.0), self._clock()
        return max(0, -int(-(free_at - now - (MAX_WRONG - 1) * PAUSE) // 1))

    def take(self, owner: str, address: str) -> None:
        """Count a password as wrong before it is verified.

        Otherwise, the passwords that arrive during the verification would not be limited.
        """
        self._change(owner, address, PAUSE)

    def give_back(self, owner: str, address: str) -> None:
        """Undo `take` for a password that is not wrong."""
        self._change(owner, address, -PAUSE)

    def _change(self, owner: str, address: str, seconds: float) -> None:
        key, now = (owner, networks.get_source(address)), self._clock()
        self._free_at[key] = max(now, self._free_at.pop(key, now)) + seconds
        while len(self._free_at) > _MAX_VISITORS:
            self._free_at.popitem(last=False)
