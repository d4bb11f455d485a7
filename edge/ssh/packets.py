"""Packets of SSH, parsed from received bytes: two thirds of asyncssh's time if they carry the bytes of a tunnel.

Why, and what is left to asyncssh: docs/decisions/0024-packets-of-a-tunnels-bytes-are-opened-before-asyncssh.md.
"""

MSG_CHANNEL_DATA = 94
_HEAD = 10  # bytes before the data of a channel: of the padding, the type, the channel, the data's length
_LISTS_AT = 17  # in a KEXINIT, after its type and cookie
_GUESS_AT = -5  # in a KEXINIT, before a reserved number


class Unread:
    """Received bytes that were not parsed: a packet is taken from their beginning, and the rest is not copied."""

    def __init__(self) -> None:
        self._data, self._at = b"", 0

    def __len__(self) -> int:
        return len(self._data) - self._at

    def __iadd__(self, data: bytes) -> "Unread":
        self._data, self._at = self._data[self._at :] + data, 0
        return self

    def __getitem__(self, part: slice) -> "bytes | Unread":
        """Return the bytes up to a stop. Without one, drop those before the start and return the rest."""
        if part.stop is not None:
            return self._data[self._at + (part.start or 0) : self._at + part.stop]
        self._at += part.start
        if self._at >= len(self._data):
            self._data, self._at = b"", 0
        return self

    def behind(self, head: bytes, end: int) -> bytes | memoryview:
        """Return the head that was taken last with the `end` bytes after it, without a copy if they are adjacent."""
        if self._at < len(head):  # more was received since
            return head + self._data[:end]
        return memoryview(self._data)[self._at - len(head) : self._at + end]

    def find(self, text: bytes, start: int, stop: int) -> int:
        """Return the index of a text, or -1."""
        return self._data[self._at :].find(text, start, stop)


def data_in(packet: bytes | None) -> tuple[int, bytes] | None:
    """Return the channel and the bytes of a packet of a channel's data, or None for any other packet."""
    if packet is None or len(packet) < _HEAD or packet[1] != MSG_CHANNEL_DATA:
        return None
    end = _HEAD + int.from_bytes(packet[6:_HEAD])
    return (int.from_bytes(packet[2:6]), packet[_HEAD:end]) if end == len(packet) - packet[0] else None


def guess_is_wrong(client_kexinit: bytes, server_kexinit: bytes) -> bool:
    """Return whether the packet after a client's KEXINIT must be ignored (RFC 4253, section 7).

    A client may send the first packet of the key exchange that it expects. Its guess is right only if both sides prefer
    the same key exchange and the same kind of host key, whatever they then agree on.
    """
    return bool(client_kexinit[_GUESS_AT]) and _preferred(client_kexinit) != _preferred(server_kexinit)


def _preferred(kexinit: bytes) -> tuple[bytes, bytes]:
    """Return the first key exchange and the first kind of host key in a KEXINIT."""
    key_exchanges, rest = _split(kexinit[_LISTS_AT:])
    host_keys, _ = _split(rest)
    return key_exchanges.split(b",")[0], host_keys.split(b",")[0]


def _split(payload: bytes) -> tuple[bytes, bytes]:
    """Return the string at the beginning of a payload, and the rest."""
    end = 4 + int.from_bytes(payload[:4])
    return payload[4:end], payload[end:]
