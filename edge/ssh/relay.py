"""A connection from Envoy joined to a channel of an SSH connection, at the pace of the slower one. No I/O.

Events come in as calls, and commands go out as calls of the two ends and of the host.
"""

from collections.abc import Callable
from typing import Protocol

from edge.process.settings import Limits
from edge.ssh.deferral import Deferral
from edge.ssh.interfaces import End, Exchange, Timer

_DRAIN_TIMEOUT = 5.0  # seconds in which Envoy must close a connection that its upstream has closed


class Host(Protocol):
    """The surroundings of a relay: its channel, timers, and who hears of its end."""

    def open(self, relay: "Relay") -> None:
        """Open the channel: `opened` follows, or else `refused`, and then `opening_is_over`."""

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call something in so many seconds."""

    def closed(self, relay: "Relay") -> None:
        """Hear that nothing is left of a relay, maybe twice."""


class Relay:
    """The state of both ends. What Envoy sends before the channel is open is kept, and reading pauses.

    Each way ends by itself: one who has sent all may still be answered. `first` is what the SSH client is sent before
    all else.
    """

    def __init__(self, host: Host, exchange: Exchange, limits: Limits, first: bytes = b"") -> None:
        self._host, self._exchange, self._limits = host, exchange, limits
        self._transport: End | None = None
        self._channel: End | None = None
        self._is_opening = False
        self._late: Timer | None = None
        self._idle: Timer | None = None
        self._early = first
        self._holding: set[object] = set()
        self.has_visitor_ended = self._is_half_closed = False
        self._has_visitor_left = self._has_moved = False
        self._unread = 0
        self._response_end = Deferral(host.later)
        self._has_channel_closed = False

    def connected(self, transport: End) -> None:
        """Begin with a connection from Envoy."""
        self._transport = transport
        self._is_opening = True
        self._host.open(self)
        if self._holding:
            transport.pause_reading()
        self._late = self._host.later(self._limits.upstream_timeout, self.close)

    def refused(self) -> None:
        """Hear that there will be no channel: Envoy says for us that there is no answer."""
        self.close()

    def opening_is_over(self) -> None:
        """Hear that the channel was opened or refused."""
        self._is_opening = False
        self._end_if_over()

    def opened(self, channel: End) -> None:
        """Go on with a channel that the SSH client has accepted."""
        if channel.is_closing():  # with its connection, before it was ours
            self.close()
            return
        self._channel = channel
        if self._late:
            self._late.cancel()
        if self._early:
            channel.write(self._early)
            self._early = b""
        if self._transport is None:
            self._close(channel)
        elif self.has_visitor_ended:
            self.eof_received()
        self.go_on(self)

    def data_received(self, data: bytes) -> None:
        """Send the SSH client what Envoy sent. What comes when its channel is closing or closed is dropped."""
        self._exchange.asked(data)
        self._has_moved = True
        if self._channel and not self._channel.is_closing():
            self._channel.write(data)
        elif not (self._channel or self._has_channel_closed):
            self._early += data
            self.hold(self)
        if self._response_end.is_waiting:
            self._response_end.moved()
            if not self._exchange.is_requesting:
                self._response_end.release()

    def answered(self, data: bytes) -> None:
        """Send Envoy what the SSH client sent, some of it when its request is complete."""
        waits = self._exchange.answered(data)
        self._has_moved = True
        if waits or self._response_end.is_waiting:
            self._response_end.add(lambda: self._write(data), len(data))
        else:
            self._write(data)

    def eof_received(self) -> bool:
        """Tell the SSH client that Envoy sends nothing more; both ends go when nothing moves for the idle timeout.

        Return that what the SSH client sends is still to be written.
        """
        self.has_visitor_ended = self._is_half_closed = True
        if self._channel:
            self._channel.write_eof()
            self._watch()
        return True

    def upstream_ended(self) -> None:
        """Tell Envoy that the SSH client sends nothing more; both ends go when nothing moves for the idle timeout."""
        self._is_half_closed = True
        if self._exchange.is_requesting or self._response_end.is_waiting:
            self._response_end.add(self._write_eof)
        else:
            self._write_eof()

    def _write(self, data: bytes) -> None:
        if self._transport:
            self._transport.write(data)

    def _write_eof(self) -> None:
        if self._transport:
            try:
                self._transport.write_eof()
            except OSError:  # the visitor has reset it, which is heard next; raised here it would end all of the client
                self._transport.abort()
            self._watch()

    def pause_writing(self) -> None:
        """Hear that Envoy reads more slowly than it is written to."""
        if self._channel:
            self._channel.pause_reading()

    def resume_writing(self) -> None:
        """Hear that Envoy has caught up."""
        if self._channel:
            self._channel.resume_reading()

    def hold(self, whoever: object) -> None:
        """Pause reading from Envoy until each caller of `hold` has called `go_on`."""
        if self._transport and not self._holding:
            self._transport.pause_reading()
        self._holding.add(whoever)

    def go_on(self, whoever: object) -> None:
        """End the caller's `hold`, and read from Envoy again if it was the last."""
        self._holding.discard(whoever)
        if self._transport and not self._holding:
            self._transport.resume_reading()

    def stalled(self, session: object) -> None:
        """Hold for an SSH client that reads slowly, and end both ends when nothing moves for the idle timeout.

        While reading is paused, asyncio does not tell that the visitor leaves.
        """
        self.hold(session)
        self._watch()

    def visitor_left(self) -> None:
        """Hear, maybe often, that the visitor has gone, though not all that it sent before has been read."""
        if self._channel and not self._has_visitor_left:
            self._has_visitor_left = True
            self._watch()

    def moving(self, session: object) -> None:
        """End `stalled`; close the channel if all that its visitor sent before leaving has been read."""
        if self._idle and not self._is_half_closed:
            self._idle.cancel()
        self.go_on(session)
        if self._channel and not self._transport:
            self._channel.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that the connection from Envoy has ended."""
        self._transport = None
        self._response_end.cancel()
        if self._late:
            self._late.cancel()
        if self._channel:
            self._channel.resume_reading()  # or its end would not be heard
            self._close(self._channel)
        self._end_if_over()

    def channel_lost(self) -> None:
        """End the connection from Envoy, since both ends have closed the channel.

        The rest of an incomplete request is read and dropped: closing a connection with unread bytes resets it, and
        Envoy would lose the response.
        """
        self._channel, self._has_channel_closed = None, True
        if self._idle:
            self._idle.cancel()
        if self._transport and self._exchange.is_requesting:
            self._transport.resume_reading()
            self._response_end.add(self._drain)
        else:
            self._response_end.release()
            self.close()
        self._end_if_over()

    def _drain(self) -> None:
        """Tell Envoy that no more follows, and leave it to close the connection."""
        self._write_eof()
        self._idle = self._host.later(_DRAIN_TIMEOUT, self.close)

    def _end_if_over(self) -> None:
        """Tell the end when nothing is left, maybe twice; a channel is, until the SSH client answers or closes it."""
        if not self._transport and not self._channel and not self._is_opening:
            self._exchange.closed()
            self._host.closed(self)

    def close(self) -> None:
        """End both; what was written before is still sent."""
        if self._transport:
            self._transport.close()

    @property
    def is_held(self) -> bool:
        """Tell whether nothing more is read from Envoy, since the SSH client reads more slowly."""
        return bool(self._holding)

    def end(self, last: bytes = b"") -> None:
        """End both at once, and drop what neither has taken; Envoy reads these words still."""
        if self._transport and last:
            self._transport.write(last)
            self._transport.close()
        elif self._transport:
            self._transport.abort()
        if self._channel:
            self._channel.abort()

    def _close(self, channel: End) -> None:
        """Close the channel once the SSH client has read what is left, or reads no more of it."""
        if channel.get_write_buffer_size():
            channel.set_write_buffer_limits(0)  # calls `moving` when the buffer is empty
            self._watch()
        else:
            channel.close()

    def _watch(self) -> None:
        """Look after each idle timeout whether the SSH client has read or sent something since.

        When the visitor has gone nobody waits for it: then it has no longer than the upstream timeout.
        """
        if self._idle:
            self._idle.cancel()
        self._has_moved = False
        self._unread = self._channel.get_write_buffer_size() if self._channel else 0
        seconds = self._limits.idle_timeout
        if self._has_visitor_left or not self._transport:
            seconds = min(seconds, self._limits.upstream_timeout)
        self._idle = self._host.later(seconds, self._end_if_idle)

    def _end_if_idle(self) -> None:
        """End both where nothing has moved, and drop what neither has taken."""
        if self._channel and (self._has_moved or self._channel.get_write_buffer_size() < self._unread):
            self._watch()
            return
        self.end()
