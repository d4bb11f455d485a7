"""The memory budget for a gateway's buffers. This file does no I/O.

A buffer contains the bytes that an SSH client has sent on a channel and the visitor has not read. All channels share
one budget. A tunnel can take more bytes only while the free part of the budget stays at least as large as the tunnel's
part: a single tunnel takes at most half of the budget, two tunnels take a third each. So a new tunnel finds room.
"""

from collections import Counter

MIN_WINDOW, _MAX_WINDOW = 128 << 10, 2 << 20  # the smallest and the largest window of a channel, in bytes


class Buffers:
    """Counts how many bytes of the memory budget each tunnel uses.

    `released` is the total of all bytes that tunnels have given back.
    """

    def __init__(self, total: int) -> None:
        self.total = self._available = total
        self._by_tunnel: Counter[str] = Counter()  # the used bytes of the budget, by tunnel
        self.released = 0

    @property
    def usage(self) -> int:
        return self._by_tunnel.total()

    def open_window(self, tunnel: str) -> "Window":
        """Return the window of a new channel of a tunnel.

        The window has MIN_WINDOW bytes even if the budget of all buffers is used up.
        """
        self._take(tunnel, MIN_WINDOW)
        return Window(self, tunnel)

    def try_take(self, tunnel: str, count: int) -> bool:
        """Take bytes for a tunnel.

        Return False if the tunnel would then have more bytes than are left in the budget.
        """
        if self._by_tunnel[tunnel] + count > self._available - count:
            return False
        self._take(tunnel, count)
        return True

    def release(self, tunnel: str, count: int) -> None:
        """Give `count` bytes of a tunnel back to the budget."""
        self._take(tunnel, -count)
        if not self._by_tunnel[tunnel]:
            del self._by_tunnel[tunnel]
        self.released += count

    def _take(self, tunnel: str, count: int) -> None:
        self._available -= count
        self._by_tunnel[tunnel] += count


class Window:
    """The SSH window of one channel, in bytes.

    The client can send this many bytes before the visitor reads them. Each time the visitor has read a whole window,
    the window is doubled, up to _MAX_WINDOW.
    """

    def __init__(self, buffers: Buffers, tunnel: str) -> None:
        self._buffers, self._tunnel = buffers, tunnel
        self.size = MIN_WINDOW
        self._read = 0

    def on_read(self, count: int) -> bool:
        """Count bytes that the visitor has read. Return whether the window has grown."""
        self._read += count
        if self._read < self.size or self.size >= _MAX_WINDOW:
            return False
        self._read = 0
        if not self._buffers.try_take(self._tunnel, self.size):
            return False
        self.size *= 2
        return True

    def close(self) -> None:
        """Give the bytes of the window back to the budget. A second call does nothing."""
        self._buffers.release(self._tunnel, self.size)
        self.size = 0
