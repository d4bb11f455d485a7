"""Domain names: their normal form, and public suffixes. No account can own a public suffix.

The public suffix list is read at its first use, because a cold start does not need it.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

MAX_LENGTH = 253
WILDCARD = "*."
PATTERN = "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?[.])+[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"


def normalize(text: str) -> str:
    """Return a domain, with or without `*.`, in lower case and without a trailing dot.

    Raises ValueError if it is not a domain. Internationalized names must be in ASCII form, because two
    standards convert the same name to different domains.
    """
    if not text.isascii():
        raise ValueError("must be a domain in its ASCII form (xn--…)")
    name = text.removesuffix(".").lower()
    if len(name) > MAX_LENGTH or not re.fullmatch(PATTERN, name.removeprefix(WILDCARD)):
        raise ValueError("must be a domain, for example app.example.com or *.example.com")
    return name


def is_below(host: str, domain: str) -> bool:
    """Return whether a host equals a domain or is below it. The host can start with `*.`.

    Returns False for the domain "".
    """
    return bool(domain) and (host.removeprefix(WILDCARD) == domain or host.endswith(f".{domain}"))


def is_public_suffix(name: str) -> bool:
    """Return whether anyone can register names directly below a name, for example below co.uk."""
    return _load_suffixes().is_public(name.removeprefix(WILDCARD))


def find_registrable(name: str) -> str:
    """Return a name's registrable domain, one label below a public suffix. Return a public suffix unchanged."""
    return _load_suffixes().privatesuffix(name.removeprefix(WILDCARD)) or name


@cache
def _load_suffixes() -> "PublicSuffixList":
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()
