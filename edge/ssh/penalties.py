"""Penalties of networks whose sign-ins come to nothing: seconds that add up, and fade with the clock. Pure.

As sshd's PerSourcePenalties: a source is refused while it has more than 15 seconds.
"""

from edge.ssh import networks

_FORGIVEN = 15.0  # seconds
_SHARE = 16  # so many hostile sources have the network around them refused


class Penalties:
    """The penalties of all networks; of one at most `most` seconds. More than `most_kept` forget what fades first."""

    def __init__(self, most: float, *, most_kept: int = 65_536) -> None:
        self._most, self._most_kept = most, most_kept
        self._until: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def add(self, address: str, seconds: float, now: float) -> None:
        """Add seconds to an address, and a share of them to the network around it."""
        if not seconds:
            return
        self._add(networks.source(address), seconds, now)
        self._add(f"around {networks.around(address)}", seconds / _SHARE, now)
        if len(self._until) > self._most_kept:
            self._forget(now)

    def again(self, address: str, seconds: float, now: float) -> None:
        """Add seconds to an address that is refused; those around it have no share in that."""
        self._add(networks.source(address), seconds, now)

    def refused_for(self, address: str, now: float) -> float:
        """Return for how many seconds an address is refused, 0 where it is not."""
        names = networks.source(address), f"around {networks.around(address)}"
        return max(0.0, *(self._until.get(name, now) - now - _FORGIVEN for name in names))

    def forgive(self, address: str) -> None:
        """Forget what an address has, since somebody there has signed in."""
        self._until.pop(networks.source(address), None)

    def _add(self, name: str, seconds: float, now: float) -> None:
        self._until[name] = min(max(self._until.get(name, now), now) + seconds, now + self._most)

    def _forget(self, now: float) -> None:
        """Forget what has faded, and of the rest a quarter at once, so that it is rare."""
        left = sorted((until, name) for name, until in self._until.items() if until > now)
        self._until = {name: until for until, name in left[-(self._most_kept * 3 // 4) :]}
