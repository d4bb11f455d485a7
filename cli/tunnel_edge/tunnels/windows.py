"""Bounds what a channel stores for a slow reader."""

from typing import Any

import asyncssh
from asyncssh.constants import MSG_CHANNEL_WINDOW_ADJUST
from asyncssh.packet import UInt32


def bound(channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
    """Make the window of a new channel also count the bytes that its session has not received yet.

    After a pause, asyncssh grants the peer a whole window with the first piece that it delivers, even if many pieces
    still wait. So the memory would grow with each pause.
    """
    channel._deliver_data = _Window(channel).deliver  # type: ignore[method-assign]


def release(channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
    """Remove the reference of a closed channel to itself, which would keep it in memory until a garbage collection."""
    del channel._deliver_data  # the method of the class remains


class _Window:
    def __init__(self, channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
        self._channel = channel
        self._left = channel._recv_window  # bytes that the peer may send, or that wait here

    def deliver(self, data: bytes, datatype: Any) -> None:
        """Deliver a piece to the session, in place of the method of the channel."""
        channel = self._channel
        self._left -= len(data)
        if self._left < channel._init_recv_window / 2:
            more = channel._init_recv_window - self._left
            channel.send_packet(MSG_CHANNEL_WINDOW_ADJUST, UInt32(more))
            channel._recv_window += more
            self._left += more
        if channel._session is not None:
            channel._session.data_received(data, datatype)
