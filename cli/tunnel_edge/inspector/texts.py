"""Renders recorded messages as text: masked headers, decoded bodies, hex, and differences. Does no I/O."""

import codecs
import difflib
import zlib
from collections.abc import Iterable, Sequence

import h11

from tunnel_edge.inspector.exchanges import MAX_BODY, Exchange, Message

_UTF8 = codecs.getincrementaldecoder("utf-8")
MASK = "••••••••"
_SECRETS = frozenset({"authorization", "cookie", "set-cookie", "proxy-authorization", "x-api-key"})
_COMPRESSED = {"gzip": 31, "x-gzip": 31, "deflate": 47}  # zlib's window bits, by Content-Encoding
_MAX_LINES = 400  # bodies with more lines are not compared line by line
_HEX_ROWS = 1024  # the most rows of 16 bytes in a hexadecimal view


def is_secret(name: str) -> bool:
    """Return whether the value of a header is secret, so that it is masked."""
    return name.lower() in _SECRETS


def visible_headers(message: Message, *, with_secrets: bool = False) -> list[tuple[str, str]]:
    """Return the headers. The values of secret headers are masked."""
    return [(name, MASK if is_secret(name) and not with_secrets else value) for name, value in message.headers]


def first_line(message: Message) -> str:
    """Return the request line or the status line."""
    first, second, third = message.start
    is_response = second.isdigit() and first[:1].isdigit()
    return f"HTTP/{first} {second} {third}" if is_response else f"{first} {second} HTTP/{third}"


def decode_body(message: Message) -> bytes:
    """Return the body without chunks and compression, at most MAX_BODY bytes."""
    body = join_chunks(message)
    bits = _COMPRESSED.get(message.header("content-encoding").strip().lower())
    if bits is None:
        return body
    try:
        return zlib.decompressobj(bits).decompress(body, MAX_BODY)
    except zlib.error:
        return body


def join_chunks(message: Message) -> bytes:
    """Return the recorded part of a chunked body, without the sizes of chunks."""
    body = bytes(message.body)
    if "chunked" not in message.header("transfer-encoding").lower():
        return body
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(b"POST / HTTP/1.1\r\nhost: local\r\ntransfer-encoding: chunked\r\n\r\n" + body)
    return b"".join(_contents(parser))


def as_text(data: bytes) -> str | None:
    """Return bytes as text, or None if they are not text."""
    try:
        text = _UTF8().decode(data)  # a decoder that leaves out an incomplete last character
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def as_hex(data: bytes) -> str:
    """Return rows of offset, hexadecimal bytes and ASCII."""
    rows = []
    for at in range(0, min(len(data), _HEX_ROWS * 16), 16):
        row = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{at:06x}  {row.hex(' '):<47}  {text}")
    if len(data) > _HEX_ROWS * 16:
        rows.append(f"… {len(data) - _HEX_ROWS * 16} more bytes: download the body")
    return "\n".join(rows)


def differences(before: Exchange, after: Exchange, *, with_secrets: bool = False) -> list[str]:
    """Return the differences of two responses as lines that begin with "-", "+" or a space."""
    old, new = (_lines(exchange, with_secrets) for exchange in (before, after))
    if old == new:
        return []
    if max(len(old), len(new)) > _MAX_LINES:
        return ["  The responses differ, and have too many lines to compare."]
    return [line for line in difflib.ndiff(old, new) if not line.startswith("?")]


def _lines(exchange: Exchange, with_secrets: bool) -> Sequence[str]:
    message = exchange.response
    if message is None:
        return ["(no response)"]
    headers = [f"{name}: {value}" for name, value in visible_headers(message, with_secrets=with_secrets)]
    body = decode_body(message)
    text = as_text(body)
    return [first_line(message), *headers, "", *(as_hex(body) if text is None else text).splitlines()]


def _contents(parser: h11.Connection) -> Iterable[bytes]:
    try:
        while isinstance(event := parser.next_event(), h11.Request | h11.Data):
            if isinstance(event, h11.Data):
                yield bytes(event.data)
    except h11.RemoteProtocolError:
        return
