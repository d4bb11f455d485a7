"""Penalties for failed sign-ins, like sshd's PerSourcePenalties. This file does no I/O.

Each failed sign-in adds seconds to the penalty of the client's address and of the larger network around it. A penalty
shrinks by a second per second. An address is refused while one of its two penalties is above 15 seconds.
"""

from edge import networks

_THRESHOLD = 15.0  # seconds of penalty above which an address is refused
_SHARE = 16  # a larger network gets 1/16 of the penalties of its addresses


class Penalties:
    """The penalties of all networks, each at most `longest` seconds.

    If there are more than `capacity` penalties, those that expire first are removed.
    """

    def __init__(self, longest: float, *, capacity: int = 65_536) -> None:
        self._longest, self._capacity = longest, capacity
        self._until: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def add(self, address: str, seconds: float, now: float) -> None:
        """Add seconds to the penalty of an address. Add 1/16 of them to the penalty of its larger network."""
        if not seconds:
            return
        self._add(networks.get_source(address), seconds, now)
        self._add(f"around {networks.get_surroundings(address)}", seconds / _SHARE, now)
        if len(self._until) > self._capacity:
            self._shrink(now)

    def extend(self, address: str, seconds: float, now: float) -> None:
        """Add seconds to the penalty of a refused address, but not of its larger network."""
        self._add(networks.get_source(address), seconds, now)

    def get_refusal(self, address: str, now: float) -> float:
        """Return for how many seconds an address is refused, or 0."""
        names = networks.get_source(address), f"around {networks.get_surroundings(address)}"
        return max(0.0, *(self._until.get(name, now) - now - _THRESHOLD for name in names))

    def clear(self, address: str) -> None:
        """Remove the penalty of an address, because a client with it has signed in."""
        self._until.pop(networks.get_source(address), None)

    def _add(self, name: str, seconds: float, now: float) -> None:
        self._until[name] = min(max(self._until.get(name, now), now) + seconds, now + self._longest)

    def _shrink(self, now: float) -> None:
        """Remove expired penalties, then those that expire first, until a quarter of the capacity is free."""
        remaining = sorted((until, name) for name, until in self._until.items() if until > now)
        self._until = {name: until for until, name in remaining[-(self._capacity * 3 // 4) :]}
