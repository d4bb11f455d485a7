"""Patterns of host names that the operator has banned. No account can get a name that matches a pattern.

`*` matches any characters, including dots. SSH gateways read all patterns every two seconds. The API reads all patterns
for each request that names a host.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from chalicelib.model.names import base_names
from chalicelib.model.operator_lists import OperatorList

MAX_PATTERNS = 100  # the most banned patterns: few, because each name is compared with all patterns
_PATTERNS = OperatorList("/banned_patterns", "name_ban")
_MIN_CHARACTERS = 3  # the fewest characters besides `*`: a pattern with fewer could ban half of all names by mistake
_FORM = r"[a-z0-9.*-]{1,253}"


class TooManyPatterns(Exception):
    """MAX_PATTERNS patterns are already banned."""


def normalize(text: str) -> str:
    """Return a pattern in its normal form: in lower case. Raises ValueError if the pattern cannot be banned.

    Raises aws.Unavailable.
    """
    pattern = text.lower()
    if not re.fullmatch(_FORM, pattern):
        raise ValueError("must be a pattern of host names, for example *bank* or *.bank.example")
    if len(pattern.replace("*", "")) < _MIN_CHARACTERS:
        raise ValueError(f"must have at least {_MIN_CHARACTERS} characters other than '*'")
    domain = base_names.domain_in_use()
    if domain and matches(f".{domain}", [pattern]):
        raise ValueError(f"must not ban every name below {domain}")
    return pattern


def ban(pattern: str) -> None:
    """Ban a pattern that `normalize` returned, with an audit event. Raises TooManyPatterns."""
    if len({*list_patterns(), pattern}) > MAX_PATTERNS:
        raise TooManyPatterns
    _PATTERNS.add(pattern)


def allow(pattern: str) -> bool:
    """Lift a ban. Return False if the pattern is not banned. Raises aws.Unavailable."""
    return _PATTERNS.remove(pattern)


def list_patterns() -> list[str]:
    """Return all banned patterns. One query. Raises aws.Unavailable."""
    return [pattern for pattern, _ in _PATTERNS.entries()]


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name or wildcard matches one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
