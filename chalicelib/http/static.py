"""Responses without the JSON of a resource: texts, redirects for browsers, and bytes.

Texts and bytes have an ETag: a client that already has the current version gets a 304.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chalice.app import Request, Response

from chalicelib.http import etags, messages

BINARY = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"
# sent with responses that require no authentication: clients must ask before each use whether their copy is current
NO_CACHE = {"Cache-Control": "no-cache"}

# A text with fewer characters is not compressed, because it hardly shrinks. API Gateway has the same limit.
_MIN_SIZE = 1024
_IS_REFUSED = re.compile(r"q=0(\.0*)?")


class _Encoded(Response):
    """A response in base64, of any media type. Chalice encodes only media types that it knows."""

    def to_dict(self, binary_types: list[str] | None = None) -> dict[str, Any]:
        return {**super().to_dict(), "isBase64Encoded": True}


@dataclass(frozen=True)
class Static:
    """A text with its headers. It is compressed once, for the first client that accepts gzip."""

    content: str
    headers: Mapping[str, str]

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content.encode()).hexdigest()[:32]}"'

    def answer(self, request: Request) -> Response:
        """Return the text, or a 304 if the client already has it."""
        takes_gzip = len(self.content) > _MIN_SIZE and _takes_gzip(request)
        etag = f'{self.etag[:-1]}-gzip"' if takes_gzip else self.etag
        headers: dict[str, str | list[str]] = {**self.headers, "ETag": etag, "Vary": "Accept-Encoding"}
        if etags.is_known(request.headers.get("if-none-match", ""), etag):
            return Response(None, headers, status_code=304)
        if takes_gzip:
            return _Encoded(self._compressed, {**headers, "Content-Encoding": "gzip"})
        return Response(self.content, headers)

    @cached_property
    def _compressed(self) -> str:
        import gzip  # an import at the top of the file would slow down cold starts

        return base64.b64encode(gzip.compress(self.content.encode(), mtime=0)).decode()


@dataclass(frozen=True)
class Redirect:
    """Named URLs. A client that accepts HTML is redirected to one of them. Other clients get all of them as JSON."""

    to: str
    links: Mapping[str, str]

    def answer(self, request: Request) -> Response:
        headers: dict[str, str | list[str]] = {"Content-Type": "application/json", "Vary": "Accept"}
        if _parse_accepted(request, "accept").get("text/html"):
            return Response("", {**headers, "Location": self.links[self.to]}, status_code=302)
        return Response(messages.text(dict(self.links)), headers)


def _takes_gzip(request: Request) -> bool:
    """Return whether gzip can be sent to the client.

    The client must also send Accept: without that header, API Gateway cannot send bytes.
    """
    encodings = _parse_accepted(request, "accept-encoding")
    return "accept" in request.headers and encodings.get("gzip", encodings.get("*", False))


def _parse_accepted(request: Request, header: str) -> dict[str, bool]:
    """Return the codings or media types in a header, each with whether it is accepted."""
    return dict(_parse_part(part) for part in request.headers.get(header, "").split(","))


def _parse_part(part: str) -> tuple[str, bool]:
    """Parse one part of a header. Return a coding or media type, and whether it is accepted."""
    name, _, weight = part.partition(";")
    return name.strip().lower(), not _IS_REFUSED.fullmatch(weight.replace(" ", "").lower())


@dataclass(frozen=True)
class Binary:
    """A response of bytes. `make` builds them only if the client does not already have them.

    The bytes are sent raw if Accept names their media type first, else as base64 text: API Gateway has the same rule.
    Responses with the same `tag` have the same bytes.
    """

    tag: str
    make: Callable[[], bytes]

    def answer(self, request: Request) -> Response:
        """Return the bytes, or a 304 if the client already has them."""
        first = request.headers.get("accept", "").partition(",")[0].partition(";")[0]
        is_raw = first.strip().lower() == BINARY
        etag = f'"{self.tag}-{"raw" if is_raw else "base64"}"'
        varies = "Accept, Accept-Encoding"  # Accept-Encoding, because API Gateway may compress the bytes
        headers: dict[str, str | list[str]] = {"ETag": f"W/{etag}", "Cache-Control": "no-cache", "Vary": varies}
        if etag in request.headers.get("if-none-match", ""):
            return Response(None, {**headers, "Content-Type": TEXT}, status_code=304)
        content = self.make()
        if is_raw:
            return Response(content, {**headers, "Content-Type": BINARY})
        return Response(base64.b64encode(content).decode(), {**headers, "Content-Type": TEXT})
