"""Packings: conversions of texts to shorter bytes for storage. The texts are SSH keys, SSH certificates and PEM chains.

If the bytes do not reproduce a text exactly, the text itself is stored.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass

from chalicelib import crypto

_CERTIFICATE = "-cert-v01@openssh.com"
# For each key type: the number of fields that follow the type in the wire form of a key (RFC 4253, 5656, 8709).
_FIELDS = {"ssh-ed25519": 1, "ssh-rsa": 2, **dict.fromkeys((f"ecdsa-sha2-nistp{bits}" for bits in (256, 384, 521)), 2)}
_NUMBERS = 12  # bytes of a certificate's serial and type, which precede its key id (PROTOCOL.certkeys)


@dataclass(frozen=True)
class FunctionPacking:
    """A packing that consists of two functions: one packs a text, the other one unpacks the bytes."""

    _to_bytes: Callable[[str], bytes]
    _to_text: Callable[[bytes], str]

    def pack(self, text: str) -> bytes | str:
        try:
            content = self._to_bytes(text)
            return content if content and self._to_text(content) == text else text
        except (ValueError, LookupError):
            return text

    def unpack(self, packed_value: bytes | str) -> str:
        return self._to_text(packed_value) if isinstance(packed_value, bytes) else packed_value


def _pack_line(line: str) -> bytes:
    """Return the bytes of an authorized_keys line: SSH's wire form of the key or certificate, and a key's comment.

    A certificate's comment is its key id, which the wire form contains.
    """
    name, encoded, *rest = line.split(" ", 2)
    content = base64.b64decode(encoded, validate=True)
    return content if name.endswith(_CERTIFICATE) else content + " ".join(["", *rest]).encode()


def _unpack_line(content: bytes) -> str:
    name = content[4 : _skip_strings(content, 1)].decode()
    if name.endswith(_CERTIFICATE):
        fields = _FIELDS[name.removesuffix(_CERTIFICATE)]
        # in a certificate, the key id follows the name, a nonce, the key, the serial and the type
        start = _skip_strings(content, 2 + fields) + _NUMBERS
        key_id = content[start + 4 : _skip_strings(content, 1, start)].decode()
        return f"{name} {base64.b64encode(content).decode()} {key_id}"
    end = _skip_strings(content, 1 + _FIELDS[name])
    return f"{name} {base64.b64encode(content[:end]).decode()}{content[end:].decode()}"


def _skip_strings(content: bytes, count: int, start: int = 0) -> int:
    """Return the offset in `content` behind `count` strings that begin at `start`.

    In SSH's wire form, the length of a string precedes it in four bytes.
    """
    for _ in range(count):
        start += 4 + int.from_bytes(content[start : start + 4])
    return start


def _pack_pem(text: str) -> bytes:
    return b"".join(block.decode() for block in crypto.pem.blocks(text))


def _unpack_pem(content: bytes) -> str:
    """Return the PEM of concatenated DER certificates."""
    pem_blocks, start = [], 0
    while start < len(content):
        # the number of length bytes in DER's long form, because certificates have 128 bytes or more
        count = content[start + 1] - 0x80
        if count < 1:
            raise ValueError("not a certificate")
        behind = start + 2 + count
        end = behind + int.from_bytes(content[start + 2 : behind])
        pem_blocks.append(crypto.pem.encode("CERTIFICATE", content[start:end]))
        start = end
    return "".join(pem_blocks)


SSH_LINE = FunctionPacking(_pack_line, _unpack_line)
CERTIFICATES = FunctionPacking(_pack_pem, _unpack_pem)
