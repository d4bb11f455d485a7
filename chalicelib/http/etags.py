"""Entity tags and the conditions that name them (RFC 9110, sections 8.8.3 and 13.1).

A tag has the revision of a resource and a digest of its whole response, which may show other resources too.
"""

import re
from dataclasses import dataclass

from chalicelib.http.errors import PreconditionFailed

CHANGED = "It has changed since you read it: read it again, and repeat the change with its new ETag."
PRESENT = "It is there already, and If-None-Match asks that it be not: read it before you change it."

_TAG = re.compile(r'(?:W/)?"[^"]*"')


def is_known(if_none_match: str, tag: str | None) -> bool:
    """Tell whether an If-None-Match header names the tag, weak or strong, or is `*`; None: there is nothing."""
    known = {found.removeprefix("W/") for found in _tags(if_none_match)}
    return tag is not None and (if_none_match.strip() == "*" or tag in known)


def is_expected(if_match: str, tag: str | None) -> bool:
    """Tell whether an If-Match header names the tag or is `*`; weak tags do not count. None: there is nothing."""
    return tag is not None and (if_match.strip() == "*" or tag in _tags(if_match))


@dataclass(frozen=True)
class Conditions:
    """The headers If-Match and If-None-Match of a request that changes something, None where they are absent."""

    if_match: str | None = None
    if_none_match: str | None = None

    def check(self, tag: str | None) -> None:
        """Raise PreconditionFailed unless they hold of the tag of what is there now, None where nothing is."""
        if self.if_match is not None and not is_expected(self.if_match, tag):
            raise PreconditionFailed(CHANGED)
        if self.if_none_match is not None and is_known(self.if_none_match, tag):
            raise PreconditionFailed(PRESENT)


UNCONDITIONAL = Conditions()


def _tags(header: str) -> list[str]:
    """Return the tags of a list of them, none of what is no such list."""
    return [] if _TAG.sub("", header).strip(" \t,") else _TAG.findall(header)
