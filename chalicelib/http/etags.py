"""Entity tags: the revision of a resource and a digest of the response, which may show other resources too.

`If-None-Match` compares the whole tag. `If-Match` compares the revision alone: that of the resource itself.
"""

import hashlib
from collections.abc import Iterator


def of(revision: int, text: str) -> str:
    """Return the entity tag of a response from the revision it shows and its JSON."""
    return f'"{revision}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"'


def is_known(if_none_match: str, tag: str) -> bool:
    """Tell whether an If-None-Match header names the tag, weak or strong, or is `*`."""
    return any(known in ("*", tag) for known in _tags(if_none_match))


def is_expected(if_match: str, revision: int) -> bool:
    """Tell whether an If-Match header names the revision or is `*`; weak tags do not count."""
    return any(tag == "*" or tag.strip('"').partition("-")[0] == str(revision) for tag in _strong(if_match))


def _tags(header: str) -> Iterator[str]:
    return (tag.strip().removeprefix("W/") for tag in header.split(","))


def _strong(header: str) -> Iterator[str]:
    return (tag.strip() for tag in header.split(",") if not tag.strip().startswith("W/"))
