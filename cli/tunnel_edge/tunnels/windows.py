"""Limits how much data asyncssh stores for a channel while the channel's reader is slow."""

from typing import Any

import asyncssh
from asyncssh.constants import MSG_CHANNEL_WINDOW_ADJUST
from asyncssh.packet import UInt32


def bound(channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
    """Limit the data that a new channel stores while its session pauses reading, to one SSH window.

    After a pause, asyncssh delivers the stored pieces of data to the session. With the first piece, it already permits
    the peer to send another window, and ignores the other stored pieces. So the memory would grow with each pause.
    """
    channel._deliver_data = _Window(channel).deliver  # type: ignore[method-assign]


def release(channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
    """Break the reference cycle of a closed channel, which would keep it in memory until a garbage collection."""
    del channel._deliver_data  # `bound` set this attribute. Without it, asyncssh's own method is called


class _Window:
    def __init__(self, channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
        self._channel = channel
        # Bytes: those that the peer may still send, plus those that were received but not delivered yet.
        self._room = channel._recv_window

    def deliver(self, data: bytes, datatype: Any) -> None:
        """Deliver a piece of data to the session. Replaces asyncssh's method `_deliver_data`."""
        channel = self._channel
        self._room -= len(data)
        if self._room < channel._init_recv_window / 2:
            more = channel._init_recv_window - self._room
            channel.send_packet(MSG_CHANNEL_WINDOW_ADJUST, UInt32(more))
            channel._recv_window += more
            self._room += more
        if channel._session is not None:
            channel._session.data_received(data, datatype)
