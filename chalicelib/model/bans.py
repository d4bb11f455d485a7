"""Patterns of host names that the operator has banned: nobody gets a name that matches one.

`*` stands for any characters, dots too. A gateway reads all of them every other second, the API with each name.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from chalicelib.model import names
from chalicelib.model.operator_lists import OperatorList

MAX_PATTERNS = 100  # each is compared with each name
_PATTERNS = OperatorList("/banned_patterns", "name_ban")
_LEAST = 3  # characters beside the stars: of fewer the operator would ban half of all names by a slip
_FORM = re.compile(r"[a-z0-9.*-]{1,253}")


class TooManyPatterns(Exception):
    """MAX_PATTERNS are banned already."""


def normalize(text: str) -> str:
    """Return a pattern in its normal form. Raises ValueError, aws.Unavailable."""
    pattern = text.lower()
    if not _FORM.fullmatch(pattern):
        raise ValueError("is not a pattern of host names, for example *bank* or *.bank.example")
    if len(pattern.replace("*", "")) < _LEAST:
        raise ValueError(f"has fewer than {_LEAST} characters beside its stars")
    domain = names.domain_in_use()
    if domain and matches(f".{domain}", [pattern]):
        raise ValueError(f"would ban every name below {domain}")
    return pattern


def ban(pattern: str) -> None:
    """Ban a pattern in its normal form, with an event in the operator's trail. Raises TooManyPatterns."""
    if len({*patterns(), pattern}) > MAX_PATTERNS:
        raise TooManyPatterns
    _PATTERNS.add(pattern)


def allow(pattern: str) -> bool:
    """Lift the ban of a pattern; False where there is none. Raises aws.Unavailable."""
    return _PATTERNS.remove(pattern)


def patterns() -> list[str]:
    """Return all banned patterns. One query. Raises aws.Unavailable."""
    return [pattern for pattern, _ in _PATTERNS.entries()]


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Tell whether a name, or a wildcard of names, matches one of some patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
