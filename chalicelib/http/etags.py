"""Entity tags: the revision of what is shown, and a digest of it, since some of it may belong to others.

`If-None-Match` compares all of a tag, `If-Match` the revision: whoever has read a resource changes it as it was.
"""

import hashlib
from collections.abc import Iterator


def of(revision: int, text: str) -> str:
    """Return the entity tag of an answer."""
    return f'"{revision}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"'


def is_known(if_none_match: str, tag: str) -> bool:
    """Whether who asks has the answer already."""
    return any(known in ("*", tag) for known in _tags(if_none_match))


def is_expected(if_match: str, revision: int) -> bool:
    """Whether a revision is one of those that who changes expects."""
    return any(tag == "*" or tag.strip('"').partition("-")[0] == str(revision) for tag in _strong(if_match))


def _tags(header: str) -> Iterator[str]:
    return (tag.strip().removeprefix("W/") for tag in header.split(","))


def _strong(header: str) -> Iterator[str]:
    return (tag.strip() for tag in header.split(",") if not tag.strip().startswith("W/"))
