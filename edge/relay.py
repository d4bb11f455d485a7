"""A connection from Envoy joined to a channel of an SSH connection, at the pace of the slower one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import asyncssh

from edge.exchange import Exchange
from edge.settings import Limits

Open = Callable[["Channel"], Awaitable[None]]
Closed = Callable[[], None]


class Channel(asyncssh.SSHTCPSession[bytes]):
    """The channel to the SSH client: one end of a relay."""

    def __init__(self, relay: "Relay") -> None:
        self._relay = relay

    def connection_made(self, chan: "asyncssh.SSHTCPChannel[bytes]") -> None:
        self._relay.opened(chan)

    def data_received(self, data: bytes, datatype: Any) -> None:
        self._relay.answered(data)

    def eof_received(self) -> bool:
        self._relay.close()  # TLS has no half-closed state: the connection ends when all is written
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.channel_lost()

    def pause_writing(self) -> None:
        self._relay.stalled(self)

    def resume_writing(self) -> None:
        self._relay.moving(self)


class Relay(asyncio.Protocol):
    """The connection from Envoy: the other end. What comes before the channel is open is kept, and reading pauses."""

    def __init__(self, opened: Open, closed: Closed, exchange: Exchange, limits: Limits) -> None:
        self._open, self._closed, self._exchange, self._limits = opened, closed, exchange, limits
        self._transport: asyncio.Transport | None = None
        self._channel: asyncssh.SSHTCPChannel[bytes] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._late: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._early = b""
        self._holding: set[object] = set()
        self._has_answered = False
        self._unread = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._opening = asyncio.create_task(self._connect())
        if self._holding:
            self._transport.pause_reading()
        self._late = asyncio.get_running_loop().call_later(self._limits.upstream_timeout, self.close)

    async def _connect(self) -> None:
        """Open the channel. Never cancelled: a channel that opens after all must be closed, which `opened` does."""
        try:
            await self._open(Channel(self))
        except (asyncssh.Error, OSError):
            self.close()  # Envoy says for us that there is no answer
        finally:
            self._opening = None
            self._end_if_over()

    def opened(self, channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
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
        self.go_on(self)

    def data_received(self, data: bytes) -> None:
        self._exchange.asked(data)
        if self._channel:
            self._channel.write(data)
        else:
            self._early += data
            self.hold(self)

    def answered(self, data: bytes) -> None:
        """Send Envoy what the SSH client sent."""
        self._exchange.answered(data)
        if self._transport:
            self._transport.write(data)
            self._has_answered = True

    def pause_writing(self) -> None:
        if self._channel:
            self._channel.pause_reading()

    def resume_writing(self) -> None:
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

    def stalled(self, channel: Channel) -> None:
        """Hold for an SSH client that reads slowly, and end both ends when nothing moves for the idle timeout.

        While reading is paused, it is not noticed that the visitor leaves.
        """
        self.hold(channel)
        self._watch()

    def moving(self, channel: Channel) -> None:
        """End `stalled`; close the channel if all that its visitor sent before leaving has been read."""
        if self._idle:
            self._idle.cancel()
        self.go_on(channel)
        if self._channel and not self._transport:
            self._channel.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._late:
            self._late.cancel()
        if self._channel:
            self._channel.resume_reading()  # or its end would not be heard
            self._close(self._channel)
        self._end_if_over()

    def channel_lost(self) -> None:
        """Hear that both ends have closed the channel."""
        self._channel = None
        if self._idle:
            self._idle.cancel()
        self.close()
        self._end_if_over()

    def _end_if_over(self) -> None:
        """Tell the end when nothing is left, maybe twice; a channel is, until the SSH client answers or closes it."""
        if not self._transport and not self._channel and not self._opening:
            self._exchange.closed()
            self._closed()

    def close(self) -> None:
        """End both; what was written before is still sent."""
        if self._transport:
            self._transport.close()

    def _close(self, channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
        """Close the channel once the SSH client has read what is left, for which it has as long as when it stalls."""
        if channel.get_write_buffer_size():
            channel.set_write_buffer_limits(0)  # calls `stalled` now, and `moving` when the buffer is empty
        else:
            channel.close()

    def _watch(self) -> None:
        """Look after each idle timeout whether the SSH client has read or sent something since."""
        self._has_answered = False
        self._unread = self._channel.get_write_buffer_size() if self._channel else 0
        self._idle = asyncio.get_running_loop().call_later(self._limits.idle_timeout, self._end_if_idle)

    def _end_if_idle(self) -> None:
        """End both where nothing has moved, and drop what neither has taken."""
        if self._channel and (self._has_answered or self._channel.get_write_buffer_size() < self._unread):
            self._watch()
            return
        if self._transport:
            self._transport.abort()
        if self._channel:
            self._channel.abort()
