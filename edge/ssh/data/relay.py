"""Joins a connection from Envoy (for a visitor) to a channel of the tunnel's SSH client. It does no I/O itself.

Data moves at the pace of the slower side. asyncio and asyncssh report events by calling methods of the relay. The relay
calls methods of its two ends and of its owner.
"""

from collections.abc import Callable
from typing import Protocol

from edge.process.settings import Limits
from edge.ssh.data.deferral import Deferral
from edge.ssh.data.interfaces import End, Exchange, Timer

_DRAIN_TIMEOUT = 5.0  # seconds that Envoy has to close the connection after the relay has sent EOF


class RelayOwner(Protocol):
    """Opens a relay's channel, starts its timers, and handles its end."""

    def open(self, relay: "Relay") -> None:
        """Open the channel of a relay.

        Call the relay's method `on_opened` or `on_refused` with the result, and then `on_opening_end`.
        """

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Schedule a call after some seconds."""

    def on_relay_end(self, relay: "Relay") -> None:
        """Handle the end of a relay: both its ends are closed. Can be called twice."""


class Relay:
    """Passes data between its two ends, the connection from Envoy and the channel, and closes both.

    If Envoy sends data before the channel is open, the data are buffered, and the relay reads no more. Each direction
    ends separately: an end that has sent everything can still receive. The SSH client receives `first` before all other
    data.
    """

    def __init__(self, owner: RelayOwner, exchange: Exchange, limits: Limits, first: bytes = b"") -> None:
        self._owner, self._exchange, self._limits = owner, exchange, limits
        self._transport: End | None = None
        self._channel: End | None = None
        self._is_opening = False
        self._open_timer: Timer | None = None
        self._idle_timer: Timer | None = None
        self._unsent = first
        self._pausers: set[object] = set()
        self.has_visitor_ended = self._is_half_closed = False
        self._has_visitor_left = self._has_moved = False
        self._unread = 0
        self._response_end = Deferral(owner.call_later)
        self._has_channel_closed = False

    def on_connected(self, transport: End) -> None:
        """Handle a new connection from Envoy: open the channel."""
        self._transport = transport
        self._is_opening = True
        self._owner.open(self)
        if self._pausers:
            transport.pause_reading()
        self._open_timer = self._owner.call_later(self._limits.upstream_timeout, self.close)

    def on_refused(self) -> None:
        """Handle a failed attempt to open the channel. Envoy answers the visitor with an error."""
        self.close()

    def on_opening_end(self) -> None:
        """Handle the end of the attempt to open the channel, whether it has succeeded or not."""
        self._is_opening = False
        self._end_if_over()

    def on_opened(self, channel: End) -> None:
        """Handle a channel that the SSH client has accepted."""
        if channel.is_closing():  # the SSH connection was closed while the channel was being opened
            self.close()
            return
        self._channel = channel
        if self._open_timer:
            self._open_timer.cancel()
        if self._unsent:
            channel.write(self._unsent)
            self._unsent = b""
        if self._transport is None:
            self._close(channel)
        elif self.has_visitor_ended:
            self.eof_received()
        self.resume(self)

    def data_received(self, data: bytes) -> None:
        """Pass data from Envoy to the SSH client. Drop it if the channel is closing or closed."""
        self._exchange.on_request(data)
        self._has_moved = True
        if self._channel and not self._channel.is_closing():
            self._channel.write(data)
        elif not (self._channel or self._has_channel_closed):
            self._unsent += data
            self.pause(self)
        if self._response_end.is_waiting:
            self._response_end.on_progress()
            if not self._exchange.is_requesting:
                self._response_end.release()

    def on_response(self, data: bytes) -> None:
        """Pass data from the SSH client to Envoy.

        If a response arrives before its request is complete, parts of the response are held back until then.
        """
        must_wait = self._exchange.on_response(data)
        self._has_moved = True
        if must_wait or self._response_end.is_waiting:
            self._response_end.add(lambda: self._write(data), len(data))
        else:
            self._write(data)

    def eof_received(self) -> bool:
        """Pass the end of Envoy's data to the SSH client. Return True, so that the connection stays open.

        The response can still be sent. If no data move for the idle timeout, both ends are closed.
        """
        self.has_visitor_ended = self._is_half_closed = True
        if self._channel:
            self._channel.write_eof()
            self._watch()
        return True

    def on_upstream_end(self) -> None:
        """Pass the end of the SSH client's data to Envoy.

        If no data move for the idle timeout, both ends are closed.
        """
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
            except OSError:  # Envoy has reset the connection. An uncaught error would end the whole SSH connection
                self._transport.abort()
            self._watch()

    def pause_writing(self) -> None:
        """Stop reading from the SSH client while Envoy reads too slowly."""
        if self._channel:
            self._channel.pause_reading()

    def resume_writing(self) -> None:
        """Read from the SSH client again, because Envoy has caught up."""
        if self._channel:
            self._channel.resume_reading()

    def pause(self, caller: object) -> None:
        """Pause reading from Envoy for an object.

        Reading stays paused until each object that called `pause` has called `resume`.
        """
        if self._transport and not self._pausers:
            self._transport.pause_reading()
        self._pausers.add(caller)

    def resume(self, caller: object) -> None:
        """End the pause of an object. Read from Envoy again if no other object has paused reading."""
        self._pausers.discard(caller)
        if self._transport and not self._pausers:
            self._transport.resume_reading()

    def on_stalled(self, session: object) -> None:
        """Stop reading from Envoy, because the SSH client reads slowly.

        If no data moves for the idle timeout, both ends are closed. The timeout is necessary because asyncio does not
        report that a visitor has left while reading is paused.
        """
        self.pause(session)
        self._watch()

    def on_visitor_left(self) -> None:
        """Handle a visitor that has left. The SSH client has not read all of the visitor's data yet.

        Can be called several times.
        """
        if self._channel and not self._has_visitor_left:
            self._has_visitor_left = True
            self._watch()

    def on_drained(self, session: object) -> None:
        """Read from Envoy again, because the SSH client has read everything.

        Close the channel if the visitor has left.
        """
        if self._idle_timer and not self._is_half_closed:
            self._idle_timer.cancel()
        self.resume(session)
        if self._channel and not self._transport:
            self._channel.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the channel, because the connection from Envoy has ended."""
        self._transport = None
        self._response_end.cancel()
        if self._open_timer:
            self._open_timer.cancel()
        if self._channel:
            self._channel.resume_reading()  # asyncssh does not report the end of a channel while reading is paused
            self._close(self._channel)
        self._end_if_over()

    def on_channel_closed(self) -> None:
        """Close the connection from Envoy, because both sides have closed the channel.

        If the request is incomplete, the rest of it is read and dropped first. Otherwise, closing would reset the
        connection, and Envoy would lose the response.
        """
        self._channel, self._has_channel_closed = None, True
        if self._idle_timer:
            self._idle_timer.cancel()
        if self._transport and self._exchange.is_requesting:
            self._transport.resume_reading()
            self._response_end.add(self._drain)
        else:
            self._response_end.release()
            self.close()
        self._end_if_over()

    def _drain(self) -> None:
        """Send EOF to Envoy. Close the connection if Envoy does not close it in time."""
        self._write_eof()
        self._idle_timer = self._owner.call_later(_DRAIN_TIMEOUT, self.close)

    def _end_if_over(self) -> None:
        """Call `on_relay_end` if both ends are closed and no channel is being opened."""
        if not self._transport and not self._channel and not self._is_opening:
            self._exchange.on_close()
            self._owner.on_relay_end(self)

    def close(self) -> None:
        """Close both ends after sending buffered data."""
        if self._transport:
            self._transport.close()

    @property
    def is_paused(self) -> bool:
        """Return whether reading from Envoy is paused."""
        return bool(self._pausers)

    def abort(self, last: bytes = b"") -> None:
        """Close both ends and drop unsent data. `last` is still sent to Envoy."""
        if self._transport and last:
            self._transport.write(last)
            self._transport.close()
        elif self._transport:
            self._transport.abort()
        if self._channel:
            self._channel.abort()

    def _close(self, channel: End) -> None:
        """Close the channel when the SSH client has read all data, or has read nothing for a timeout."""
        if channel.get_write_buffer_size():
            channel.set_write_buffer_limits(0)  # with the limit 0, asyncssh calls `on_drained` when the buffer is empty
            self._watch()
        else:
            channel.close()

    def _watch(self) -> None:
        """Start the idle timer. It aborts both ends if no data has moved since its start.

        The timer lasts for the idle timeout. After the visitor has left, it lasts at most for the upstream timeout.
        """
        if self._idle_timer:
            self._idle_timer.cancel()
        self._has_moved = False
        self._unread = self._channel.get_write_buffer_size() if self._channel else 0
        seconds = self._limits.idle_timeout
        if self._has_visitor_left or not self._transport:
            seconds = min(seconds, self._limits.upstream_timeout)
        self._idle_timer = self._owner.call_later(seconds, self._abort_if_idle)

    def _abort_if_idle(self) -> None:
        """Abort both ends if no data has moved since the timer's start.

        Otherwise, start the timer again.
        """
        if self._channel and (self._has_moved or self._channel.get_write_buffer_size() < self._unread):
            self._watch()
            return
        self.abort()
