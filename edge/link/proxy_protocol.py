"""Headers of the PROXY protocol, by which a server learns the visitor's address. This file does no I/O.

Version 2 can be written and read. Version 1, a line of text, can only be read. Specification:
https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt.

A header of version 2 can end with typed values (TLV). Only the types TUNNEL and PRIVATE are used.
"""

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]
TUNNEL = 0xE0  # the TLV type of a tunnel's id. Applications may define types from 0xE0 on
PRIVATE = 0xE1  # a TLV of this type forbids the gateway to send the header to an upstream

_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_TEXT, _MAX_TEXT = b"PROXY ", 107  # the first bytes of a header of version 1, and the most bytes of the whole header
_MAX_PORT = 65535
_FIXED = struct.Struct("!12sBBH")
_MAX = 1024  # the most bytes of a version 2 header after its fixed part
_LOCAL, _PROXY = 0x20, 0x21
_TCP4, _TCP6 = 0x11, 0x21
_VALUE = struct.Struct("!BH")  # the type and length at the start of a TLV
_IPV4, _IPV6 = struct.Struct("!4s4sHH"), struct.Struct("!16s16sHH")


@dataclass(frozen=True)
class Header:
    """A PROXY protocol header: the addresses of a visitor and a server.

    `source` is the visitor's address, and `destination` the address to which the visitor connected. Both are None if
    the proxy itself opened the connection, for example for a health check. `tunnel` is the id of the requested tunnel,
    or "". If `is_private`, only the gateway may read the header, and no upstream receives it. `encoded` omits `tunnel`
    and `is_private`.
    """

    source: Address | None = None
    destination: Address | None = None
    tunnel: str = ""
    is_private: bool = False

    def encoded(self) -> bytes:
        """Return the header as bytes. Both addresses must be IPv4, or both IPv6."""
        return self._encode(b"")

    def forwarded(self) -> bytes:
        """Return the header as bytes for another gateway. The bytes include `is_private`."""
        return self._encode(_VALUE.pack(PRIVATE, 1) + b"\0" if self.is_private else b"")

    def _encode(self, values: bytes) -> bytes:
        if self.source is None or self.destination is None:
            return _FIXED.pack(_SIGNATURE, _LOCAL, 0, 0)
        source, destination = ip_address(self.source[0]), ip_address(self.destination[0])
        family, form = (_TCP4, _IPV4) if source.version == 4 else (_TCP6, _IPV6)
        body = form.pack(source.packed, destination.packed, self.source[1], self.destination[1]) + values
        return _FIXED.pack(_SIGNATURE, _PROXY, family, len(body)) + body


def read(data: bytes) -> tuple[Header | None, int] | None:
    """Return the header at the start of a connection, and its length. Return (None, 0) if there is no header.

    Return None if more bytes are needed. Raises ValueError for a header that is not version 2 or not for TCP.
    """
    if not data.startswith(_SIGNATURE):
        return None if _SIGNATURE.startswith(data) else (None, 0)
    if len(data) < _FIXED.size:
        return None
    _, command, family, length = _FIXED.unpack_from(data)
    if command not in (_LOCAL, _PROXY) or length > _MAX:
        raise ValueError(f"must be version 2 of the PROXY protocol, and at most {_FIXED.size + _MAX} bytes long")
    if len(data) < _FIXED.size + length:
        return None
    return _header(command, family, data[_FIXED.size : _FIXED.size + length]), _FIXED.size + length


def read_any(data: bytes) -> tuple[Header | None, int] | None:
    """Parse a header of version 1 or 2. The result is the same as that of `read`.

    Raises ValueError for other headers.
    """
    if not data.startswith(_TEXT):
        return None if _TEXT.startswith(data) else read(data)
    end = data.find(b"\r\n", 0, _MAX_TEXT)
    if end >= 0:
        return _parse_text(data[:end].decode("latin-1")), end + 2
    if len(data) >= _MAX_TEXT:
        raise ValueError(f"must be one line of at most {_MAX_TEXT} bytes in version 1 of the PROXY protocol")
    return None


def _parse_text(line: str) -> Header:
    _, family, *fields = line.split(" ")
    if family == "UNKNOWN":
        return Header()
    try:
        source, destination, *ports = fields
        addresses = [ip_address(address) for address in (source, destination)]
        numbers = [int(port) for port in ports if port.isascii() and port.isdecimal() and int(port) <= _MAX_PORT]
    except ValueError:
        raise ValueError("must be PROXY, TCP4 or TCP6, two IP addresses and two ports, separated by spaces") from None
    if len(numbers) != len(ports) or len(ports) != 2 or {f"TCP{address.version}" for address in addresses} != {family}:
        raise ValueError(
            "must contain two ports up to 65535, and two addresses of the IP version in its second field (TCP4 or TCP6)"
        )
    return Header((str(addresses[0]), numbers[0]), (str(addresses[1]), numbers[1]))


def _header(command: int, family: int, body: bytes) -> Header:
    if command == _LOCAL:
        return Header()
    if family == _TCP4 and len(body) >= _IPV4.size:
        *pair, source, destination = _IPV4.unpack_from(body)
        addresses, tail = [str(IPv4Address(address)) for address in pair], body[_IPV4.size :]
    elif family == _TCP6 and len(body) >= _IPV6.size:
        *pair, source, destination = _IPV6.unpack_from(body)
        addresses, tail = [str(IPv6Address(address)) for address in pair], body[_IPV6.size :]
    else:
        raise ValueError("must be of TCP over IPv4 or IPv6, with the addresses of the visitor and of the server")
    values = _values(tail)
    tunnel = values.get(TUNNEL, b"").decode(errors="replace")
    return Header((addresses[0], source), (addresses[1], destination), tunnel, PRIVATE in values)


def _values(text: bytes) -> dict[int, bytes]:
    """Return the values (TLV) that follow the addresses in a header, by type."""
    values: dict[int, bytes] = {}
    while len(text) >= _VALUE.size:
        kind, length = _VALUE.unpack_from(text)
        values[kind], text = text[_VALUE.size : _VALUE.size + length], text[_VALUE.size + length :]
    return values
