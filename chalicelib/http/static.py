"""Static answers: a text as it is, sent again only when it has changed."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from chalice.app import Request, Response

from chalicelib.http import etags


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
