"""Limits how much data a channel stores for a slow reader."""

from typing import Any

import asyncssh
from asyncssh.constants import MSG_CHANNEL_WINDOW_ADJUST
from asyncssh.packet import UInt32


def bound(channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
    """Limit the data that a new channel stores while its session pauses reading, to one window.

    After a pause, asyncssh itself permits its peer to send another window as soon as it delivers the first stored piece
    of data. It does not count the other stored pieces, so the memory would grow with each pause.
    """
    channel._deliver_data = _Window(channel).deliver  # type: ignore[method-assign]


def release(channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
    """Break the reference cycle of a closed channel, which would keep it in memory until a garbage collection."""
    del channel._deliver_data  # the attribute that `bound` has set, so that asyncssh's own method applies


class _Window:
    def __init__(self, channel: "asyncssh.SSHTCPChannel[bytes]") -> None:
        self._channel = channel
        # the bytes that the peer may still send, plus the received bytes that are not delivered yet
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
