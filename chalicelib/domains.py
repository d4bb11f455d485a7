"""Domain names: the one form in which they are kept and compared, and the public suffixes, which nobody can own.

The list of these is a package with its data: it is read when the first name is looked up, not at a cold start.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

MAX_LENGTH = 253
WILDCARD = "*."
PATTERN = "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?[.])+[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"


def normal(text: str) -> str:
    """Return a domain, perhaps with `*.` in front, in lower case and without the dot of the root at its end.

    Raises ValueError, which says what it must be. Names in other alphabets must come in their ASCII form: there are
    two ways to make that of one name, which lead to different domains.
    """
    if not text.isascii():
        raise ValueError("must be a domain in its ASCII form (xn--…)")
    name = text.removesuffix(".").lower()
    if len(name) > MAX_LENGTH or not re.fullmatch(PATTERN, name.removeprefix(WILDCARD)):
        raise ValueError("must be a domain, for example app.example.com or *.example.com")
    return name


def is_below(host: str, domain: str) -> bool:
    """Tell whether a host, perhaps with `*.` in front, lies below a domain or is it; nothing lies below ""."""
    return bool(domain) and (host.removeprefix(WILDCARD) == domain or host.endswith(f".{domain}"))


def is_public_suffix(name: str) -> bool:
    """Tell whether names directly below a normal name belong to anybody, as below co.uk; of `*.d` that is d."""
    return _suffixes().is_public(name.removeprefix(WILDCARD))


@cache
def _suffixes() -> "PublicSuffixList":
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()
