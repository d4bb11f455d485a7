"""Decides which parts of an early HTTP/1 response are held back until its request is complete. This file does no I/O.

A response is early if it arrives while the client still sends the body of the request.
"""

import re

_HEAD_END = b"\r\n\r\n"
_INFORMATIONAL = b"HTTP/1.1 1"
_NOT_SUCCESSFUL = re.compile(rb"HTTP/1\.[01] [3-5]")
_WITHOUT_BODY = re.compile(rb"HTTP/1\.[01] (?:204|304)\b")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked[ \t]*\r\n", re.IGNORECASE)
_LAST_CHUNK = re.compile(rb"(?:\A|\r\n)0\r\n(?:[^\r\n]+\r\n)*\r\n\Z")
_MAX_TRAILERS = 4096  # bytes at the end of received data in which the last chunk is searched


class Response:
    """An HTTP/1 response that arrives before its request is complete.

    A response with the status 3xx, 4xx or 5xx is held back as a whole: some clients, such as curl, stop sending when
    they read its head, and the request fails. A 2xx response can answer the first part of a request, so only its end is
    held back. A 2xx response without a length ends when its connection closes, so none of it is held back.
    """

    def __init__(self) -> None:
        self._has_head = self._must_wait = self._is_chunked = False
        self._remaining: int | None = None

    def must_wait(self, data: bytes) -> bool:
        """Return whether the next bytes of the response must be held back."""
        if not self._has_head:
            data = self._begin(data)
            if not self._has_head:
                return False
        if self._must_wait:
            return True
        if self._is_chunked:
            return bool(_LAST_CHUNK.search(data[-_MAX_TRAILERS:]))
        if self._remaining is None:
            return False
        self._remaining -= len(data)
        return self._remaining <= 0

    def _begin(self, data: bytes) -> bytes:
        """Parse the head of the final response. Return the bytes after it.

        If the head arrives in several pieces, which is rare, the end of a 2xx response is not held back.
        """
        while data.startswith(_INFORMATIONAL):
            data = data.partition(_HEAD_END)[2]
        head, separator, body = data.partition(_HEAD_END)
        if not data:
            return b""
        self._has_head, self._must_wait = True, bool(_NOT_SUCCESSFUL.match(head))
        if not separator:
            return b""
        head += b"\r\n"
        length = _LENGTH.search(head)
        self._is_chunked = bool(_CHUNKED.search(head))
        self._remaining = 0 if _WITHOUT_BODY.match(head) else int(length[1]) if length else None
        return body
