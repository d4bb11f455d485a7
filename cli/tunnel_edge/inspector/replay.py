"""Sends a recorded request to the local server again. The response is recorded like any other response."""

import asyncio
import re
import ssl

from tunnel_edge.inspector import texts
from tunnel_edge.inspector.exchanges import Exchange, Message
from tunnel_edge.inspector.recording import Recording

_TIMEOUT = 30.0  # seconds after which a replay ends, even if its response is not complete
_MARK = b"X-Te-Replay: 1\r\n"
_FIRST_LINE = re.compile(rb"[^\r\n]+\r?\n")
_CHUNKED = re.compile(rb"(?im)^transfer-encoding:[^\r\n]*")
_LENGTH = re.compile(rb"(?im)^content-length:[^\r\n]*")


class ReplayRefused(Exception):
    """A recorded request cannot be sent again. The message is a sentence."""


class Replay:
    """Sends requests to one local server, and never through the tunnel."""

    def __init__(self, recording: Recording, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._recording, self._host, self._port, self._context = recording, host, port, context

    async def send(self, id: int, edited: bytes | None = None) -> Exchange:
        """Send a recorded request, or an edited form of it. Return the new exchange. Raises ReplayRefused."""
        original = self._recording.journal.find(id)
        if original is None:
            raise ReplayRefused(f"There is no request {id}: it was removed, or never recorded.")
        content = raw_request(original) if edited is None else edited
        try:
            async with asyncio.timeout(_TIMEOUT):
                return await self._exchange(mark(content), id)
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "no answer in time"
            raise ReplayRefused(f"{self._host}:{self._port} did not answer: {reason}.") from None

    async def _exchange(self, content: bytes, replay_of: int) -> Exchange:
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._context)
        tap = self._recording.open("replay", replay_of)
        try:
            writer.write(content)
            tap.on_request(content)
            await writer.drain()
            while not (tap.first and (tap.first.is_over or tap.first.is_stream)):
                data = await reader.read(65536)
                tap.on_response(data)
                await tap.finish()
                if not data:
                    break
        finally:
            tap.on_close()
            writer.close()
        await tap.finish()
        if tap.first is None or tap.first.request is None:
            raise ReplayRefused("The request is not valid HTTP/1.1: check its first line and its headers.")
        return tap.first


def raw_request(exchange: Exchange) -> bytes:
    """Return the bytes of a recorded request. Raises ReplayRefused if a part was not recorded."""
    request = whole_request(exchange)
    return request.head + bytes(request.body)


def whole_request(exchange: Exchange) -> Message:
    """Return the request of an exchange. Raises ReplayRefused if it was not recorded completely."""
    request = exchange.request
    if request is None or (exchange.is_stream and exchange.received):
        raise ReplayRefused("The connection is not HTTP/1.1, and only HTTP/1.1 requests can be replayed.")
    if request.is_cut:
        raise ReplayRefused(
            f"Only {len(request.body)} of the body's {request.size} bytes were recorded, so the request cannot be "
            "sent again."
        )
    if not request.is_complete:
        raise ReplayRefused("The request was not recorded completely, so it cannot be sent again.")
    return request


def mark(content: bytes) -> bytes:
    """Return a request with the header that marks a replay, below the request line. Raises ReplayRefused."""
    first = _FIRST_LINE.match(content)
    if not first:
        raise ReplayRefused("A request begins with a line such as GET /path HTTP/1.1.")
    # A request that is itself a replay has this header already.
    if content[first.end() : first.end() + len(_MARK)] == _MARK:
        return content
    return content[: first.end()] + _MARK + content[first.end() :]


def from_text(text: str, original: Exchange) -> bytes:
    """Return an edited request as bytes, with the original's line ends and the new length of the body.

    Raises ReplayRefused without an empty line after the headers.
    """
    head, separator, body = text.replace("\r\n", "\n").lstrip("\n").partition("\n\n")
    if not separator:
        raise ReplayRefused("An empty line must follow the headers.")
    request = original.request
    is_crlf = request is not None and b"\r\n" in texts.join_chunks(request)
    content = (body.replace("\n", "\r\n") if is_crlf else body).encode()
    lines, length = head.replace("\n", "\r\n").encode(), b"content-length: %d" % len(content)
    if _LENGTH.search(lines):
        lines = _LENGTH.sub(length, lines)
    elif content:
        lines += b"\r\n" + length
    return lines + b"\r\n\r\n" + content


def to_text(exchange: Exchange) -> str:
    """Return a request as text for an editor. A chunked body is joined, and gets a length.

    Raises ReplayRefused if it is not text.
    """
    request = whole_request(exchange)
    body = texts.join_chunks(request)
    head = _CHUNKED.sub(b"content-length: %d" % len(body), request.head)
    try:
        return (head + body).decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ReplayRefused("The request is not text, so it cannot be edited.") from None
