"""Entity tags and conditional requests (RFC 9110, sections 8.8.3 and 13.1).

A tag contains the resource's revision, and a digest of the response because responses can include other resources.
"""

import re
from dataclasses import dataclass

from chalicelib.http.errors import PreconditionFailed

CHANGED = "The resource has changed since you read it: read it again, and repeat the change with its new ETag."
PRESENT = "The resource already exists, but If-None-Match requires that it does not: read it before you change it."

_TAG = re.compile(r'(?:W/)?"[^"]*"')


def is_known(if_none_match: str, tag: str | None) -> bool:
    """Return whether an If-None-Match header matches the tag of a resource. Weak tags match too.

    `*` matches any tag. If the resource does not exist, `tag` is None and the result is False.
    """
    known_tags = {candidate.removeprefix("W/") for candidate in _parse_tags(if_none_match)}
    return tag is not None and (if_none_match.strip() == "*" or tag in known_tags)


def is_expected(if_match: str, tag: str | None) -> bool:
    """Return whether an If-Match header matches the tag of a resource. Weak tags never match.

    `*` matches any tag. If the resource does not exist, `tag` is None and the result is False.
    """
    return tag is not None and (if_match.strip() == "*" or tag in _parse_tags(if_match))


@dataclass(frozen=True)
class Conditions:
    """The headers If-Match and If-None-Match of a write, each None if absent."""

    if_match: str | None = None
    if_none_match: str | None = None

    def check(self, tag: str | None) -> None:
        """Raise PreconditionFailed unless the current tag meets both conditions.

        `tag` is None if the resource does not exist.
        """
        if self.if_match is not None and not is_expected(self.if_match, tag):
            raise PreconditionFailed(CHANGED)
        if self.if_none_match is not None and is_known(self.if_none_match, tag):
            raise PreconditionFailed(PRESENT)


UNCONDITIONAL = Conditions()


def _parse_tags(header: str) -> list[str]:
    """Return the tags in a header, or [] if the header is malformed."""
    return [] if _TAG.sub("", header).strip(" \t,") else _TAG.findall(header)
