"""Packets of SSH, read off what came in: in two thirds of asyncssh's time where they carry the bytes of a tunnel.

Why, and what is left to asyncssh: docs/decisions/0024-packets-of-a-tunnels-bytes-are-opened-before-asyncssh.md.
"""

from asyncssh.constants import MSG_CHANNEL_DATA
from asyncssh.encryption import GCMEncryption
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_LENGTH = 4  # bytes, of a packet's length
_HEAD = 10  # bytes before the data of a channel: of the padding, the type, the channel, the data's length


class Unread:
    """Bytes that have come in and were not read: a packet is taken off their beginning, and the rest is not copied."""

    def __init__(self) -> None:
        self._data, self._at = b"", 0

    def __len__(self) -> int:
        return len(self._data) - self._at

    def __iadd__(self, data: bytes) -> "Unread":
        self._data, self._at = self._data[self._at :] + data, 0
        return self

    def __getitem__(self, part: slice) -> "bytes | Unread":
        """Return the bytes up to a stop; without one, drop those before the start, and return what is left."""
        if part.stop is not None:
            return self._data[self._at + (part.start or 0) : self._at + part.stop]
        self._at += part.start
        if self._at >= len(self._data):
            self._data, self._at = b"", 0
        return self

    def behind(self, head: bytes, end: int) -> bytes | memoryview:
        """Return a head that was taken off last with the `end` bytes behind it; no copy where they lie together."""
        if self._at < len(head):  # more has come in since
            return head + self._data[:end]
        return memoryview(self._data)[self._at - len(head) : self._at + end]

    def find(self, text: bytes, start: int, stop: int) -> int:
        """Return where a text begins, -1 where it does not."""
        return self._data[self._at :].find(text, start, stop)


class Gcm:
    """A cipher of asyncssh, whose packets are decrypted before it asks for them."""

    def __init__(self, encryption: GCMEncryption) -> None:
        self._cipher = encryption._cipher
        self._key = AESGCM(self._cipher._key)
        self._packet: bytes | None = None

    def open(self, sent: bytes | memoryview) -> bytes | None:
        """Return a packet as it was before it was sent, None where its tag is wrong."""
        try:
            self._packet = self._key.decrypt(self._cipher._iv, sent[_LENGTH:], sent[:_LENGTH])
        except InvalidTag:
            self._packet = None
        self._cipher._update_iv()
        return self._packet

    def decrypt_header(self, _seq: int, first: bytes, length: int) -> tuple[bytes, bytes]:
        return first, first[:length]

    def decrypt_packet(self, _seq: int, _first: bytes, _rest: bytes, _length: int, _mac: bytes) -> bytes | None:
        return self._packet


def data_in(packet: bytes | None) -> tuple[int, bytes] | None:
    """Return the channel and the bytes of a packet of a channel's data, None where it is another, or no whole one."""
    if packet is None or len(packet) < _HEAD or packet[1] != MSG_CHANNEL_DATA:
        return None
    end = _HEAD + int.from_bytes(packet[6:_HEAD])
    return (int.from_bytes(packet[2:6]), packet[_HEAD:end]) if end == len(packet) - packet[0] else None
