"""The buffers of a gateway's channels: what SSH clients may send before a visitor reads it, as one budget. Pure.

A tunnel may have as much as it leaves for the others: one alone half of all, two a third each. So a new one always
finds something, and what is given back is everybody's.
"""

from collections import Counter

LEAST, _MOST = 128 << 10, 2 << 20  # bytes of one channel


class Buffers:
    """The budget, in bytes; `given_back` grows with what returns to it."""

    def __init__(self, most: int) -> None:
        self.most = self._left = most
        self._taken: Counter[str] = Counter()  # by tunnel
        self.given_back = 0

    @property
    def taken(self) -> int:
        return self._taken.total()

    def window(self, tunnel: str) -> "Window":
        """Return that of a new channel; it has LEAST whatever is left."""
        self._take(tunnel, LEAST)
        return Window(self, tunnel)

    def may_take(self, tunnel: str, count: int) -> bool:
        """Take more for a tunnel, or return False where it would have more than is left."""
        if self._taken[tunnel] + count > self._left - count:
            return False
        self._take(tunnel, count)
        return True

    def give_back(self, tunnel: str, count: int) -> None:
        """Return the bytes of a channel to the budget."""
        self._take(tunnel, -count)
        if not self._taken[tunnel]:
            del self._taken[tunnel]
        self.given_back += count

    def _take(self, tunnel: str, count: int) -> None:
        self._left -= count
        self._taken[tunnel] += count


class Window:
    """The bytes that one channel may be sent before they are read: doubled while the visitor keeps up."""

    def __init__(self, buffers: Buffers, tunnel: str) -> None:
        self._buffers, self._tunnel = buffers, tunnel
        self.size = LEAST
        self._read = 0

    def read(self, count: int) -> bool:
        """Note what was passed on; tell whether the window has become larger."""
        self._read += count
        if self._read < self.size or self.size >= _MOST:
            return False
        self._read = 0
        if not self._buffers.may_take(self._tunnel, self.size):
            return False
        self.size *= 2
        return True

    def close(self) -> None:
        """Give back all, once."""
        self._buffers.give_back(self._tunnel, self.size)
        self.size = 0
