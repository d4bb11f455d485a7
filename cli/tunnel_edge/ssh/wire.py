"""The encoding of SSH: strings and integers in bytes, and the fields of a user certificate."""

import base64
import struct
from dataclasses import dataclass

_MAGIC = b"openssh-key-v1\0"
_ED25519 = b"ssh-ed25519"
_ED25519_CERTIFICATE = b"ssh-ed25519-cert-v01@openssh.com"


class Reader:
    """Reads fields one after the other. The methods raise ValueError if the bytes end within a field."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        """Return the next `count` bytes."""
        if self._at + size > len(self._data):
            raise ValueError("the data is truncated: it ends within a field")
        self._at += size
        return self._data[self._at - size : self._at]

    def uint32(self) -> int:
        """Read the next unsigned integer of four bytes."""
        return int(struct.unpack(">I", self.take(4))[0])

    def uint64(self) -> int:
        """Read the next unsigned integer of eight bytes."""
        return int(struct.unpack(">Q", self.take(8))[0])

    def string(self) -> bytes:
        """Read the next string, which begins with its length."""
        return self.take(self.uint32())


def string(value: bytes) -> bytes:
    """Encode a string: its length, then its bytes."""
    return struct.pack(">I", len(value)) + value


def public_key(private: bytes) -> bytes | None:
    """Return the public key (32 bytes) in the content of an ed25519 private key's file. None for any other content."""
    try:
        reader = Reader(base64.b64decode(b"".join(private.split(b"\n")[1:-2])))
        if reader.take(len(_MAGIC)) != _MAGIC:
            return None
        for _ in ("cipher", "key derivation", "its options"):
            reader.string()
        reader.uint32()  # skip the number of keys
        public = Reader(reader.string())
        return public.string() if public.string() == _ED25519 else None
    except ValueError:
        return None


@dataclass(frozen=True)
class Certificate:
    """The fields of an ed25519 user certificate that a renewal needs. Times are seconds since 1970."""

    blob: bytes
    public_key: bytes  # the 32 bytes of an ed25519 key
    valid_after: int
    valid_before: int
    authority_key: bytes

    @classmethod
    def parse(cls, blob: bytes) -> "Certificate | None":
        """Parse a certificate. Return None if the bytes are not an ed25519 certificate."""
        reader = Reader(blob)
        try:
            if reader.string() != _ED25519_CERTIFICATE:
                return None
            reader.string()  # skip the nonce
            public_key = reader.string()
            reader.uint64()  # skip the serial
            reader.uint32()  # skip the type of the certificate
            reader.string()  # skip the key id
            reader.string()  # skip the principals
            valid_after, valid_before = reader.uint64(), reader.uint64()
            for _ in ("critical options", "extensions", "reserved"):
                reader.string()
            return cls(blob, public_key, valid_after, valid_before, reader.string())
        except ValueError:
            return None

    def is_valid(self, now: float) -> bool:
        """Return whether the certificate is valid at a time."""
        return self.valid_after <= now < self.valid_before

    def ends_soon(self, now: float) -> bool:
        """Return whether less than a fifth of the certificate's lifetime is left."""
        return self.valid_before - now < (self.valid_before - self.valid_after) / 5
