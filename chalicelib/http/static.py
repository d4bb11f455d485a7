"""Answers that are not JSON, sent again only when they have changed: texts as they are, and bytes made when needed."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from chalice.app import Request, Response

from chalicelib.http import etags

BINARY = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Static:
    """A text, and the headers that go with it."""

    content: str
    headers: Mapping[str, str]

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content.encode()).hexdigest()[:32]}"'

    def answer(self, request: Request) -> Response:
        """Return the text, or a 304 to whoever has it already."""
        headers: dict[str, str | list[str]] = {**self.headers, "ETag": self.etag}
        if etags.is_known(request.headers.get("if-none-match", ""), self.etag):
            return Response(None, headers, status_code=304)
        return Response(self.content, headers)


@dataclass(frozen=True)
class Binary:
    """Bytes, made only for whoever does not have them: raw to whoever accepts that first, to others as base64 text.

    API Gateway goes by the first media type of an Accept header too. `tag` stands for what the bytes mean.
    """

    tag: str
    make: Callable[[], bytes]

    def answer(self, request: Request) -> Response:
        """Return the bytes, or a 304 to whoever has them already."""
        first = request.headers.get("accept", "").partition(",")[0].partition(";")[0]
        is_raw = first.strip().lower() == BINARY
        etag = f'"{self.tag}-{"raw" if is_raw else "base64"}"'
        headers: dict[str, str | list[str]] = {"ETag": f"W/{etag}", "Cache-Control": "no-cache", "Vary": "Accept"}
        if etag in request.headers.get("if-none-match", ""):
            return Response(None, {**headers, "Content-Type": TEXT}, status_code=304)
        content = self.make()
        if is_raw:
            return Response(content, {**headers, "Content-Type": BINARY})
        return Response(base64.b64encode(content).decode(), {**headers, "Content-Type": TEXT})
