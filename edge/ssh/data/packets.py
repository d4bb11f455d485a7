"""Parses SSH packets with channel data. asyncssh's own parser would take two thirds of the time of a transfer.

Reasons, and the work left to asyncssh: docs/decisions/0024-packets-of-a-tunnels-bytes-are-opened-before-asyncssh.md
"""

MSG_CHANNEL_DATA = 94
_HEAD = 10  # bytes before the data in a CHANNEL_DATA packet: padding length, type, channel, data length
_LISTS_AT = 17  # the offset of the lists of algorithms in a KEXINIT, after its type and cookie
_GUESS_AT = -5  # the offset of the flag first_kex_packet_follows, from the end of a KEXINIT


class Unread:
    """A buffer of received bytes that are not parsed. Taking a packet from its start does not copy the rest.

    asyncssh uses this object instead of its own buffer, a `bytes` object.
    """

    def __init__(self) -> None:
        self._data, self._at = b"", 0

    def __len__(self) -> int:
        return len(self._data) - self._at

    def __iadd__(self, data: bytes) -> "Unread":
        self._data, self._at = self._data[self._at :] + data, 0
        return self

    def __getitem__(self, part: slice) -> "bytes | Unread":
        """Return a part of the buffer as bytes. `[start:]` removes the bytes before `start` and returns the buffer."""
        if part.stop is not None:
            return self._data[self._at + (part.start or 0) : self._at + part.stop]
        self._at += part.start
        if self._at >= len(self._data):
            self._data, self._at = b"", 0
        return self

    def join_head(self, head: bytes, end: int) -> bytes | memoryview:
        """Return `head`, followed by the next `end` bytes of the buffer.

        `head` must contain the bytes that were removed from the buffer last. If these bytes are still in memory before
        the next bytes, nothing is copied.
        """
        if self._at < len(head):  # new data have replaced the memory that contained `head`
            return head + self._data[:end]
        return memoryview(self._data)[self._at - len(head) : self._at + end]

    def find(self, text: bytes, start: int, stop: int) -> int:
        """Return the index of `text` in the buffer, or -1."""
        return self._data[self._at :].find(text, start, stop)


def parse_channel_data(packet: bytes | None) -> tuple[int, bytes] | None:
    """Return the channel and the data of a CHANNEL_DATA packet. Return None for other packets."""
    if packet is None or len(packet) < _HEAD or packet[1] != MSG_CHANNEL_DATA:
        return None
    end = _HEAD + int.from_bytes(packet[6:_HEAD])
    return (int.from_bytes(packet[2:6]), packet[_HEAD:end]) if end == len(packet) - packet[0] else None


def guess_is_wrong(client_kexinit: bytes, server_kexinit: bytes) -> bool:
    """Return whether the packet after a client's KEXINIT must be ignored (RFC 4253, section 7).

    A client can guess the key exchange, and send its first packet before the negotiation is complete. The guess is
    right only if both sides prefer the same key exchange and the same kind of host key. The negotiated algorithms do
    not count.
    """
    return bool(client_kexinit[_GUESS_AT]) and _read_preferences(client_kexinit) != _read_preferences(server_kexinit)


def _read_preferences(kexinit: bytes) -> tuple[bytes, bytes]:
    """Return the key exchange and the kind of host key that the sender of a KEXINIT prefers."""
    key_exchanges, tail = _split(kexinit[_LISTS_AT:])
    host_keys, _ = _split(tail)
    return key_exchanges.split(b",")[0], host_keys.split(b",")[0]


def _split(payload: bytes) -> tuple[bytes, bytes]:
    """Return the first SSH string of a payload, and the bytes after it."""
    end = 4 + int.from_bytes(payload[:4])
    return payload[4:end], payload[end:]
